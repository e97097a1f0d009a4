#include "causeway/generate/text_generation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "causeway/base/error.h"
#include "causeway/graph/philox.h"
#include "causeway/program/context.h"
#include "causeway/tensor/ops.h"

namespace causeway::generate {
namespace {

StepOptions symbolic_length(const PipelineOptions& pipeline) {
  StepOptions options;
  options.program.pipeline = pipeline;
  options.symbolic = {{0, 1, "T", 1}};
  return options;
}

}  // namespace

TextGenerator::TextGenerator(const LanguageModel& model, const PipelineOptions& pipeline)
    : model_(model),
      next_logits_(
          [this](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
            ForwardInputs inputs;
            inputs.tokens = arguments[0];
            return {model_.next_logits(inputs)};
          },
          symbolic_length(pipeline)) {}

std::vector<int32_t> TextGenerator::generate(std::span<const int32_t> prompt, const SamplingOptions& options,
                                             const std::function<void(int32_t)>& emit) {
  if (prompt.empty())
    throw Error(ErrorKind::kInvalidArgument, "the prompt is empty", "generate", "Give at least one character.");
  const ContextScope scope(next_logits_.context());
  std::vector<int32_t> context(prompt.begin(), prompt.end());
  for (const int32_t token : context)
    if (token < 0 || token >= model_.config().vocabulary_size)
      throw Error(
          ErrorKind::kInvalidArgument,
          fmt::format("the prompt has token {}, but the model knows {} tokens", token, model_.config().vocabulary_size),
          "generate", "Use the tokenizer that the model was trained with.");
  std::vector<int32_t> generated;
  for (int64_t i = 0; i < options.tokens; ++i) {
    const size_t length = std::min(context.size(), static_cast<size_t>(model_.config().max_sequence_length));
    const std::span<const int32_t> window(context.data() + context.size() - length, length);
    const Tensor tokens = Tensor::from_bytes(std::as_bytes(window), {1, static_cast<int64_t>(length)}, DType::kI32);
    const std::vector<double> logits = next_logits_({tokens}).front().values();
    const uint32_t bits =
        philox_4x32_10({static_cast<uint32_t>(i), 0, 0, 0},
                       {static_cast<uint32_t>(options.seed), static_cast<uint32_t>(options.seed >> 32)})[0];
    const std::span<const double> drawn =
        options.vocabulary_size > 0
            ? std::span(logits).first(std::min(logits.size(), static_cast<size_t>(options.vocabulary_size)))
            : std::span(logits);
    if (!std::all_of(drawn.begin(), drawn.end(), [](double logit) { return std::isfinite(logit); }))
      throw Error(ErrorKind::kCorrupt, fmt::format("the model's logits are not finite at token {}", i + 1), "generate",
                  "Use a checkpoint from before the training diverged.");
    const int32_t next = draw_token(drawn, options.temperature, options.top_k, (bits + 0.5) / 4294967296.0);
    context.push_back(next);
    generated.push_back(next);
    if (emit) emit(next);
    if (next == options.stop_token) break;
  }
  return generated;
}

int32_t draw_token(std::span<const double> logits, double temperature, int64_t top_k, double uniform) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](int32_t a, int32_t b) {
    const double left = logits[static_cast<size_t>(a)], right = logits[static_cast<size_t>(b)];
    return left != right ? left > right : a < b;
  };
  size_t kept = temperature == 0 ? 1 : top_k > 0 ? std::min(order.size(), static_cast<size_t>(top_k)) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(kept), order.end(), likelier);
  if (temperature == 0) return order.front();
  const double highest = logits[static_cast<size_t>(order.front())];
  std::vector<double> cumulative(kept);
  double total = 0;
  for (size_t i = 0; i < kept; ++i)
    cumulative[i] = total += std::exp((logits[static_cast<size_t>(order[i])] - highest) / temperature);
  const double point = uniform * total;
  const auto chosen = std::upper_bound(cumulative.begin(), cumulative.end() - 1, point);
  return order[static_cast<size_t>(chosen - cumulative.begin())];
}

}  // namespace causeway::generate
