#include "causeway/generate/text_generation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "causeway/base/error.h"
#include "causeway/graph/philox.h"
#include "causeway/program/context.h"
#include "causeway/tensor/ops.h"

namespace causeway::generate {
namespace {

// Lengths of what is looked at in a cache are multiples of it.
constexpr int64_t kCacheBlock = 64;

StepOptions symbolic_size(const PipelineOptions& pipeline, std::vector<StepOptions::SymbolicAxis> axes) {
  StepOptions options;
  options.program.pipeline = pipeline;
  options.symbolic = std::move(axes);
  return options;
}

Tensor integers(const std::vector<int32_t>& values, const std::vector<int64_t>& shape) {
  return Tensor::from_bytes(std::as_bytes(std::span(values)), shape, DType::kI32);
}

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

std::vector<float> read_floats(const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.local_bytes()) / sizeof(float));
  tensor.read_bytes(std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace

struct TextGenerator::Text {
  std::vector<int32_t> tokens;  // the prompt and what was drawn
  size_t prompt_length = 0;
  bool ended = false;
};

TextGenerator::TextGenerator(const LanguageModel& model, const PipelineOptions& pipeline, Attention attention)
    : model_(model),
      pipeline_(pipeline),
      attention_(attention),
      next_logits_(
          [this](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
            ForwardInputs inputs;
            inputs.tokens = arguments[0];
            return {model_.next_logits(inputs)};
          },
          symbolic_size(pipeline, {{0, 1, "T", 1}})) {}

bool TextGenerator::fits_cache(const Text& text) const {
  return attention_ == Attention::kCached &&
         static_cast<int64_t>(text.tokens.size()) <= model_.config().max_sequence_length;
}

// For the longest that any text can become, so that steps made for one serve the next.
void TextGenerator::open_cache(const std::vector<Text>& texts, const SamplingOptions& options) {
  int64_t longest = 0;
  for (const Text& text : texts) longest = std::max(longest, static_cast<int64_t>(text.tokens.size()));
  longest = std::min(longest + options.tokens, model_.config().max_sequence_length);
  const auto count = static_cast<int64_t>(texts.size());
  if (cache_ && cache_->sequences() == count && cache_->capacity() >= longest) return cache_->clear();
  const int64_t capacity =
      std::min(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(longest, kCacheBlock)))),
               round_up(model_.config().max_sequence_length, kCacheBlock));
  prefill_.reset();
  continue_.reset();
  cache_.reset();
  const DType compute = pipeline_.mixed_precision.compute;
  cache_ = std::make_unique<KeyValueCache>(model_.config(), count, capacity, compute);
  prefill_ = std::make_unique<Step>(
      [this](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
        ForwardInputs inputs;
        inputs.tokens = arguments[0];
        inputs.positions = arguments[1];
        inputs.cache = cache_.get();
        return {model_.logits_after(inputs, arguments[2])};
      },
      symbolic_size(pipeline_, {{0, 1, "T", 1}, {1, 1, "T", 1}}));
  continue_ = std::make_unique<Step>(
      [this](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
        ForwardInputs inputs;
        inputs.tokens = arguments[0];
        inputs.positions = arguments[1];
        inputs.cache = cache_.get();
        inputs.cached_positions = arguments[2];
        return {model_.logits_after(inputs, constant_tensor(DType::kI32, {arguments[0].size(0)}, 0))};
      },
      symbolic_size(pipeline_, {{2, 0, "S", kCacheBlock}}));
}

std::vector<float> TextGenerator::first_logits(const std::vector<Text>& texts) {
  size_t longest = 1;
  for (const Text& text : texts)
    if (fits_cache(text)) longest = std::max(longest, text.tokens.size());
  // Behind its end a row has tokens that nothing before them attends to, and whose keys are not kept.
  std::vector<int32_t> tokens(texts.size() * longest), positions(texts.size() * longest, -1), last(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!fits_cache(texts[i])) continue;
    const auto begin = static_cast<ptrdiff_t>(i * longest);
    const auto length = static_cast<ptrdiff_t>(texts[i].tokens.size());
    std::copy(texts[i].tokens.begin(), texts[i].tokens.end(), tokens.begin() + begin);
    std::iota(positions.begin() + begin, positions.begin() + begin + length, 0);
    last[i] = static_cast<int32_t>(length - 1);
  }
  const auto rows = static_cast<int64_t>(texts.size()), columns = static_cast<int64_t>(longest);
  return read_floats(
      (*prefill_)({integers(tokens, {rows, columns}), integers(positions, {rows, columns}), integers(last, {rows})})
          .front());
}

std::vector<float> TextGenerator::continued_logits(const std::vector<Text>& texts) {
  std::vector<int32_t> tokens(texts.size()), positions(texts.size(), -1);
  int64_t longest = 1;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].ended || !fits_cache(texts[i])) continue;
    tokens[i] = texts[i].tokens.back();
    positions[i] = static_cast<int32_t>(texts[i].tokens.size() - 1);
    longest = std::max(longest, static_cast<int64_t>(texts[i].tokens.size()));
  }
  std::vector<int32_t> cached(static_cast<size_t>(round_up(longest, kCacheBlock)));
  std::iota(cached.begin(), cached.end(), 0);
  const auto rows = static_cast<int64_t>(texts.size());
  return read_floats((*continue_)({integers(tokens, {rows, 1}), integers(positions, {rows, 1}),
                                   integers(cached, {static_cast<int64_t>(cached.size())})})
                         .front());
}

std::vector<float> TextGenerator::recomputed_logits(const Text& text) {
  const auto most = static_cast<size_t>(model_.config().max_sequence_length);
  const size_t length = std::min(text.tokens.size(), most);
  const std::vector<int32_t> window(text.tokens.end() - static_cast<ptrdiff_t>(length), text.tokens.end());
  return read_floats(next_logits_({integers(window, {1, static_cast<int64_t>(length)})}).front());
}

// The numbers of one prompt's draws are those of its place among the prompts.
void TextGenerator::draw(Text& text, size_t prompt, std::span<const float> logits, const SamplingOptions& options,
                         const Emit& emit) const {
  const size_t drawn = text.tokens.size() - text.prompt_length;
  const uint32_t bits =
      philox_4x32_10({static_cast<uint32_t>(drawn), static_cast<uint32_t>(prompt), 0, 0},
                     {static_cast<uint32_t>(options.seed), static_cast<uint32_t>(options.seed >> 32)})[0];
  if (options.vocabulary_size > 0)
    logits = logits.first(std::min(logits.size(), static_cast<size_t>(options.vocabulary_size)));
  if (!std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); }))
    throw Error(ErrorKind::kCorrupt, fmt::format("the model's logits are not finite at token {}", drawn + 1),
                "generate", "Use a checkpoint from before the training diverged.");
  const int32_t token = draw_token(logits, text.tokens, options, (bits + 0.5) / 4294967296.0);
  text.tokens.push_back(token);
  text.ended = (emit && !emit(prompt, token)) || token == options.stop_token ||
               static_cast<int64_t>(drawn) + 1 >= options.tokens;
}

std::vector<std::vector<int32_t>> TextGenerator::generate(std::span<const std::vector<int32_t>> prompts,
                                                          const SamplingOptions& options, const Emit& emit) {
  check_sampling(options);
  std::vector<Text> texts;
  for (const std::vector<int32_t>& prompt : prompts) {
    if (prompt.empty())
      throw Error(ErrorKind::kInvalidArgument, "the prompt is empty", "generate", "Give at least one character.");
    for (const int32_t token : prompt)
      if (token < 0 || token >= model_.config().vocabulary_size)
        throw Error(ErrorKind::kInvalidArgument,
                    fmt::format("the prompt has token {}, but the model knows {} tokens", token,
                                model_.config().vocabulary_size),
                    "generate", "Use the tokenizer that the model was trained with.");
    texts.push_back({prompt, prompt.size(), options.tokens <= 0});
  }
  const ContextScope scope(next_logits_.context());
  const auto any_cached = [&] {
    return std::any_of(texts.begin(), texts.end(), [&](const Text& text) { return !text.ended && fits_cache(text); });
  };
  if (any_cached()) open_cache(texts, options);
  const auto all_ended = [&] {
    return std::all_of(texts.begin(), texts.end(), [](const Text& text) { return text.ended; });
  };
  for (bool is_first = true; !all_ended(); is_first = false) {
    std::vector<float> cached;
    if (any_cached()) cached = is_first ? first_logits(texts) : continued_logits(texts);
    const size_t width = cached.size() / texts.size();
    for (size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].ended) continue;
      if (fits_cache(texts[i])) {
        draw(texts[i], i, std::span(cached).subspan(i * width, width), options, emit);
      } else {
        draw(texts[i], i, recomputed_logits(texts[i]), options, emit);
      }
    }
  }
  std::vector<std::vector<int32_t>> results;
  for (const Text& text : texts)
    results.emplace_back(text.tokens.begin() + static_cast<ptrdiff_t>(text.prompt_length), text.tokens.end());
  return results;
}

std::vector<int32_t> TextGenerator::generate(const std::vector<int32_t>& prompt, const SamplingOptions& options) {
  return generate(std::span(&prompt, 1), options).front();
}

}  // namespace causeway::generate
