#include "causeway/evaluation/likelihood.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "causeway/base/error.h"
#include "causeway/program/context.h"
#include "causeway/tensor/ops.h"

namespace causeway::evaluation {
namespace {

// Logits are there for so many places at once.
constexpr int64_t kLogitBytes = int64_t{64} << 20;

StepOptions step_options(const LikelihoodOptions& options) {
  StepOptions step;
  step.program.pipeline = options.pipeline;
  return step;
}

// What a request reads: all but its last token.
std::span<const int32_t> read_tokens(const TokenRequest& request) {
  return std::span(request.tokens).first(request.tokens.size() - 1);
}

Tensor integers(const std::vector<int64_t>& shape) { return Tensor::uninitialized(shape, DType::kI32); }

template <class T>
std::vector<T> content(const Tensor& tensor) {
  std::vector<T> values(static_cast<size_t>(tensor.local_bytes()) / sizeof(T));
  tensor.read_bytes(std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace

int64_t padded_length(int64_t length, int64_t most) {
  int64_t power = 16;
  while (power < length) power *= 2;
  const int64_t three_quarters = power / 4 * 3;
  return std::min(most, power > 16 && three_quarters >= length ? three_quarters : power);
}

LikelihoodModel::LikelihoodModel(const LanguageModel& model, const LikelihoodOptions& options)
    : model_(model),
      batch_tokens_(options.batch_tokens),
      places_(std::clamp<int64_t>(kLogitBytes / (model.config().vocabulary_size * int64_t{sizeof(float)}), 16, 512)),
      hidden_states_(
          [this](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
            ForwardInputs inputs;
            inputs.tokens = arguments[0];
            const Tensor hidden = model_.hidden_states(inputs);
            return {reshape(hidden, {hidden.size(0) * hidden.size(1), Dim(model_.config().width)})};
          },
          step_options(options)),
      score_(
          [this](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
            const Tensor logits = model_.logits_of(index_select(arguments[0], 0, arguments[1]));
            const Tensor target = reshape(arguments[2], {Dim(places_), Dim(1)});
            const Tensor log_p = gather(logits, 1, target) - logsumexp(logits, {1}, true);
            return {reshape(log_p, {Dim(places_)}), argmax(logits, 1)};
          },
          step_options(options)) {
  CAUSEWAY_CHECK(model.part().is_whole() && batch_tokens_ > 0);
  const ContextScope scope(hidden_states_.context());
  positions_ = integers({places_});
  targets_ = integers({places_});
}

Tensor& LikelihoodModel::batch(int64_t rows, int64_t length) {
  Tensor& tensor = batches_[length];
  if (!tensor.defined()) tensor = integers({rows, length});
  return tensor;
}

void LikelihoodModel::require_tokens(const TokenRequest& request) const {
  CAUSEWAY_CHECK(request.scored > 0 && request.scored < request.tokens.size());
  const ModelConfig& config = model_.config();
  if (static_cast<int64_t>(request.tokens.size()) > config.max_sequence_length + 1)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("{} tokens are to be read, and the model takes {} at once", request.tokens.size() - 1,
                            config.max_sequence_length),
                "evaluate", "Give the model less at once.");
  for (const int32_t token : request.tokens)
    if (token < 0 || token >= config.vocabulary_size)
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the text has token {}, but the model knows {} tokens", token, config.vocabulary_size),
                  "evaluate", "Use the tokenizer that the model was trained with.");
}

std::vector<Likelihood> LikelihoodModel::of(std::span<const TokenRequest> requests,
                                            const LikelihoodProgress& progress) {
  const ContextScope scope(hidden_states_.context());
  for (const TokenRequest& request : requests) require_tokens(request);
  // Longest first: what memory cannot hold shows at once. Equal ones stand together.
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    const std::span<const int32_t> left = read_tokens(requests[a]), right = read_tokens(requests[b]);
    if (left.size() != right.size()) return left.size() > right.size();
    const auto [in_left, in_right] = std::ranges::mismatch(left, right);
    return in_left == left.end() ? a < b : *in_left < *in_right;
  });
  std::vector<Likelihood> results(requests.size(), {0, true});
  for (size_t next = 0; next < order.size();) {
    const auto longest = static_cast<int64_t>(read_tokens(requests[order[next]]).size());
    const int64_t length = padded_length(longest, model_.config().max_sequence_length);
    const int64_t rows = std::max<int64_t>(1, batch_tokens_ / length);
    // What stands behind a row's tokens is read by none of them.
    std::vector<int32_t> tokens(static_cast<size_t>(rows * length));
    std::vector<Place> places;
    std::span<const int32_t> row_tokens;
    for (int64_t row = -1; next < order.size(); ++next) {
      const TokenRequest& request = requests[order[next]];
      const std::span<const int32_t> read = read_tokens(request);
      if (row < 0 || !std::ranges::equal(read, row_tokens)) {
        if (++row == rows) break;
        row_tokens = read;
        std::ranges::copy(read, tokens.begin() + row * length);
      }
      for (size_t i = request.tokens.size() - request.scored; i < request.tokens.size(); ++i)
        places.push_back(
            {static_cast<int32_t>(row * length) + static_cast<int32_t>(i) - 1, request.tokens[i], order[next]});
    }
    Tensor& input = batch(rows, length);
    input.write_bytes(std::as_bytes(std::span(tokens)));
    score(hidden_states_.run({input}).front(), places, results);
    if (progress) progress(next);
  }
  return results;
}

void LikelihoodModel::score(const Tensor& hidden, std::span<const Place> places, std::vector<Likelihood>& results) {
  for (size_t first = 0; first < places.size(); first += static_cast<size_t>(places_)) {
    const std::span<const Place> some =
        places.subspan(first, std::min(static_cast<size_t>(places_), places.size() - first));
    std::vector<int32_t> positions(static_cast<size_t>(places_)), targets(static_cast<size_t>(places_));
    for (size_t i = 0; i < some.size(); ++i) {
      positions[i] = some[i].position;
      targets[i] = some[i].target;
    }
    positions_.write_bytes(std::as_bytes(std::span(positions)));
    targets_.write_bytes(std::as_bytes(std::span(targets)));
    const std::vector<Tensor>& scores = score_.run({hidden, positions_, targets_});
    const std::vector<float> logs = content<float>(scores[0]);
    const std::vector<int32_t> likeliest = content<int32_t>(scores[1]);
    for (size_t i = 0; i < some.size(); ++i) {
      if (!std::isfinite(logs[i]))
        throw Error(ErrorKind::kCorrupt, "the model's logits are not finite", "evaluate",
                    "Use a checkpoint from before the training diverged.");
      Likelihood& result = results[some[i].request];
      result.log += static_cast<double>(logs[i]);
      result.is_greedy = result.is_greedy && likeliest[i] == some[i].target;
    }
  }
}

}  // namespace causeway::evaluation
