#include "causeway/train/hugging_face/model_probe.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "causeway/base/error.h"
#include "causeway/base/hash.h"

namespace causeway::train {
namespace {

constexpr char kText[] =
    "The bridge was built in 1894, and nobody had asked whether the river would stay where it was.";
constexpr size_t kMostTokens = 32;

}  // namespace

ProbeTokens probe_tokens(const ModelConfig& config, const Tokenizer* tokenizer) {
  constexpr int64_t kStride = 7919;  // a prime: no small vocabulary divides it
  const size_t most = std::min(kMostTokens, static_cast<size_t>(config.max_sequence_length));
  ProbeTokens probe;
  if (tokenizer != nullptr && tokenizer->vocabulary_size() <= config.vocabulary_size) {
    probe.tokens = tokenizer->encode(kText);
    probe.tokens.resize(std::min(most, probe.tokens.size()));
    probe.text = tokenizer->decode(probe.tokens);
    return probe;
  }
  for (size_t i = 0; i < most; ++i)
    probe.tokens.push_back(static_cast<int32_t>(static_cast<int64_t>(i + 1) * kStride % config.vocabulary_size));
  return probe;
}

ModelProbe::ModelProbe(const LanguageModel& model, ProbeTokens tokens)
    : tokens_(std::move(tokens)), step_([&model](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
        ForwardInputs inputs;
        inputs.tokens = arguments[0];
        return {model.logits(inputs)};
      }) {}

std::vector<float> ModelProbe::logits() {
  const std::span<const int32_t> ids(tokens_.tokens);
  const Tensor input = Tensor::from_bytes(std::as_bytes(ids), {1, static_cast<int64_t>(ids.size())}, DType::kI32);
  const Tensor result = step_({input}).front();
  std::vector<float> values(static_cast<size_t>(result.local_bytes()) / sizeof(float));
  result.read_bytes(std::as_writable_bytes(std::span(values)));
  return values;
}

ProbeDifference probe_difference(const std::vector<float>& expected, const std::vector<float>& actual) {
  CAUSEWAY_CHECK(expected.size() == actual.size());
  ProbeDifference difference;
  double apart = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double by = std::abs(static_cast<double>(actual[i]) - static_cast<double>(expected[i]));
    difference.largest = std::isnan(by) ? by : std::max(difference.largest, by);
    apart += by * by;
    size += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  difference.relative = apart == 0 ? 0 : std::sqrt(apart / size);
  return difference;
}

nlohmann::ordered_json describe_probe(const ProbeTokens& tokens, const std::vector<float>& logits) {
  constexpr size_t kListed = 5;
  nlohmann::ordered_json json = {{"text", nullptr}, {"tokens", tokens.tokens}};
  if (!tokens.text.empty()) json["text"] = tokens.text;
  json["logits_hash"] = hash_bytes(std::as_bytes(std::span(logits))).hex();
  const size_t vocabulary = logits.size() / tokens.tokens.size();
  const std::span<const float> last = std::span(logits).last(vocabulary);
  std::vector<size_t> order(vocabulary);
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t listed = std::min(kListed, vocabulary);
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(listed), order.end(),
                    [&](size_t a, size_t b) { return last[a] != last[b] ? last[a] > last[b] : a < b; });
  json["likeliest_next"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < listed; ++i)
    json["likeliest_next"].push_back({{"token", order[i]}, {"logit", last[order[i]]}});
  return json;
}

}  // namespace causeway::train
