#include "causeway/generate/text_generation.h"

#include <algorithm>
#include <cmath>

#include "causeway/base/error.h"
#include "causeway/program/context.h"
#include "causeway/tensor/cast_tensors.h"
#include "causeway/tensor/ops.h"

namespace causeway::generate {
namespace {

template <class T>
std::vector<T> read(const Tensor& tensor) {
  std::vector<T> values(static_cast<size_t>(tensor.local_bytes()) / sizeof(T));
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
  uint64_t place = 0;

  size_t drawn() const { return tokens.size() - prompt_length; }
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
  // The last token that is drawn is not looked at.
  longest = std::min(longest + std::max<int64_t>(options.tokens - 1, 0), model_.config().max_sequence_length);
  const auto count = static_cast<int64_t>(texts.size());
  const int64_t all = model_.config().vocabulary_size,
                vocabulary = options.vocabulary_size > 0 ? std::min(all, options.vocabulary_size) : all;
  if (cached_ && cached_->sequences() == count && cached_->capacity() >= longest && cached_->vocabulary() == vocabulary)
    return cached_->clear();
  cached_.reset();
  cached_ = std::make_unique<CachedForward>(model_, pipeline_, count, longest, vocabulary, casts_);
}

NextTokens TextGenerator::first_tokens(const std::vector<Text>& texts) {
  std::vector<std::vector<int32_t>> beginnings;
  for (const Text& text : texts) beginnings.push_back(fits_cache(text) ? text.tokens : std::vector<int32_t>());
  return cached_->begin(beginnings);
}

NextTokens TextGenerator::continued_tokens(const std::vector<Text>& texts) {
  std::vector<int32_t> tokens(texts.size()), positions(texts.size(), -1);
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].ended || !fits_cache(texts[i])) continue;
    tokens[i] = texts[i].tokens.back();
    positions[i] = static_cast<int32_t>(texts[i].tokens.size() - 1);
  }
  return cached_->go_on(tokens, positions);
}

std::vector<float> TextGenerator::recomputed_logits(const Text& text) {
  const auto most = static_cast<size_t>(model_.config().max_sequence_length);
  const size_t length = std::min(text.tokens.size(), most);
  const std::vector<int32_t> window(text.tokens.end() - static_cast<ptrdiff_t>(length), text.tokens.end());
  const Tensor tokens =
      Tensor::from_bytes(std::as_bytes(std::span(window)), {1, static_cast<int64_t>(length)}, DType::kI32);
  return read<float>(next_logits_({tokens}).front());
}

// The numbers of one prompt's draws are those of its place among the prompts. Nothing where a logit is not finite.
std::optional<int32_t> TextGenerator::draw(const Text& text, std::span<const float> logits,
                                           const SamplingOptions& options) {
  if (options.vocabulary_size > 0)
    logits = logits.first(std::min(logits.size(), static_cast<size_t>(options.vocabulary_size)));
  if (!std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); })) return std::nullopt;
  return draw_token(logits, text.tokens, options, uniform_of_token(options.seed, text.place, text.drawn()));
}

std::vector<std::optional<int32_t>> TextGenerator::next_tokens(const std::vector<Text>& texts, bool are_first,
                                                               const SamplingOptions& options) {
  std::vector<std::optional<int32_t>> drawn(texts.size());
  const auto is_cached = [&](const Text& text) { return !text.ended && fits_cache(text); };
  if (std::any_of(texts.begin(), texts.end(), is_cached)) {
    const NextTokens next = are_first ? first_tokens(texts) : continued_tokens(texts);
    // Without a draw the logits stay on the device.
    const bool is_greedy = options.temperature == 0 && options.repetition_penalty == 1 && !watch_;
    const auto likeliest = is_greedy ? read<int32_t>(next.likeliest) : std::vector<int32_t>();
    const auto logits = is_greedy ? std::vector<float>() : read<float>(next.logits);
    const size_t width = logits.size() / texts.size();
    for (size_t i = 0; i < texts.size(); ++i) {
      if (!is_cached(texts[i])) continue;
      if (!is_greedy) {
        const std::span<const float> own = std::span(logits).subspan(i * width, width);
        drawn[i] = draw(texts[i], own, options);
        if (watch_ && drawn[i]) watch_(i, *drawn[i], own);
      } else if (likeliest[i] >= 0) {
        drawn[i] = likeliest[i];
      }
    }
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].ended || fits_cache(texts[i])) continue;
    const std::vector<float> logits = recomputed_logits(texts[i]);
    drawn[i] = draw(texts[i], logits, options);
    if (watch_ && drawn[i]) watch_(i, *drawn[i], logits);
  }
  return drawn;
}

std::vector<std::vector<int32_t>> TextGenerator::generate(std::span<const std::vector<int32_t>> prompts,
                                                          const SamplingOptions& options, const Emit& emit,
                                                          uint64_t first_place) {
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
    texts.push_back({prompt, prompt.size(), options.tokens <= 0, first_place + texts.size()});
  }
  const ContextScope scope(next_logits_.context());
  if (std::any_of(texts.begin(), texts.end(), [&](const Text& text) { return !text.ended && fits_cache(text); }))
    open_cache(texts, options);
  const auto all_ended = [&] {
    return std::all_of(texts.begin(), texts.end(), [](const Text& text) { return text.ended; });
  };
  for (bool are_first = true; !all_ended(); are_first = false) {
    const std::vector<std::optional<int32_t>> drawn = next_tokens(texts, are_first, options);
    for (size_t i = 0; i < texts.size(); ++i) {
      Text& text = texts[i];
      if (text.ended) continue;
      if (!drawn[i])
        throw Error(ErrorKind::kCorrupt, fmt::format("the model's logits are not finite at token {}", text.drawn() + 1),
                    "generate", "Use a checkpoint from before the training diverged.");
      text.tokens.push_back(*drawn[i]);
      text.ended = (emit && !emit(i, *drawn[i])) || options.stops_at(*drawn[i]) ||
                   static_cast<int64_t>(text.drawn()) >= options.tokens;
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
