#include "causeway/generate/text_generation.h"

#include <algorithm>
#include <cmath>

#include "causeway/base/error.h"
#include "causeway/graph/philox.h"
#include "causeway/program/context.h"
#include "causeway/tensor/ops.h"

namespace causeway::generate {
namespace {

std::vector<float> read_floats(const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.local_bytes()) / sizeof(float));
  tensor.read_bytes(std::as_writable_bytes(std::span(values)));
  return values;
}

StepOptions next_options(const PipelineOptions& pipeline, const std::shared_ptr<CastTensors>& casts) {
  StepOptions options;
  options.program.pipeline = pipeline;
  options.symbolic = {{0, 1, "T", 1}};
  options.casts = casts;
  return options;
}

}  // namespace

struct TextGenerator::Text {
  std::vector<int32_t> tokens;  // the prompt and what was drawn
  size_t prompt_length = 0;
  bool ended = false;
};

TextGenerator::TextGenerator(const LanguageModel& model, const PipelineOptions& pipeline, Attention attention,
                             Weights weights)
    : model_(model),
      pipeline_(pipeline),
      attention_(attention),
      casts_(weights == Weights::kStay ? std::make_shared<CastTensors>() : nullptr),
      next_logits_(
          [this](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
            ForwardInputs inputs;
            inputs.tokens = arguments[0];
            return {model_.next_logits(inputs)};
          },
          next_options(pipeline, casts_)) {}

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
  if (cached_ && cached_->sequences() == count && cached_->capacity() >= longest) return cached_->clear();
  cached_.reset();
  cached_ = std::make_unique<CachedForward>(model_, pipeline_, count, longest, casts_);
}

std::vector<float> TextGenerator::first_logits(const std::vector<Text>& texts) {
  std::vector<std::vector<int32_t>> beginnings;
  for (const Text& text : texts) beginnings.push_back(fits_cache(text) ? text.tokens : std::vector<int32_t>());
  return read_floats(cached_->begin(beginnings));
}

std::vector<float> TextGenerator::continued_logits(const std::vector<Text>& texts) {
  std::vector<int32_t> tokens(texts.size()), positions(texts.size(), -1);
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].ended || !fits_cache(texts[i])) continue;
    tokens[i] = texts[i].tokens.back();
    positions[i] = static_cast<int32_t>(texts[i].tokens.size() - 1);
  }
  return read_floats(cached_->go_on(tokens, positions));
}

std::vector<float> TextGenerator::recomputed_logits(const Text& text) {
  const auto most = static_cast<size_t>(model_.config().max_sequence_length);
  const size_t length = std::min(text.tokens.size(), most);
  const std::vector<int32_t> window(text.tokens.end() - static_cast<ptrdiff_t>(length), text.tokens.end());
  const Tensor tokens =
      Tensor::from_bytes(std::as_bytes(std::span(window)), {1, static_cast<int64_t>(length)}, DType::kI32);
  return read_floats(next_logits_({tokens}).front());
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
