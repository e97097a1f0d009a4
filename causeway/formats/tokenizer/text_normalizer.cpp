#include "causeway/formats/tokenizer/text_normalizer.h"

#include <algorithm>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/base/utf8.h"
#include "causeway/formats/tokenizer/byte_characters.h"
#include "causeway/formats/tokenizer/pattern.h"
#include "causeway/formats/tokenizer/unicode_classes.h"
#include "causeway/formats/tokenizer/unicode_text.h"

namespace causeway::formats {
namespace {

// A function that changes characters, with the marks behind them, by themselves.
template <class Function>
class CharacterNormalizer final : public TextNormalizer {
 public:
  CharacterNormalizer(Function function, bool keeps_start)
      : function_(std::move(function)), keeps_start_(keeps_start) {}
  std::string apply(std::string text) const override { return function_(std::move(text)); }
  std::string apply_tracked(std::string text, TextOrigins& origins) const override {
    std::string made = function_(text);
    origins = origins_of_parts(text, origins, made, function_);
    return made;
  }
  bool keeps_start() const override { return keeps_start_; }

 private:
  Function function_;
  bool keeps_start_;
};

template <class Function>
std::unique_ptr<TextNormalizer> make_character_normalizer(Function function, bool keeps_start = false) {
  return std::make_unique<CharacterNormalizer<Function>>(std::move(function), keeps_start);
}

class SequenceNormalizer final : public TextNormalizer {
 public:
  explicit SequenceNormalizer(const TokenizerPart& part) {
    part.require_known_keys({"type", "normalizers"});
    for (const TokenizerPart& one : part.parts("normalizers")) steps_.push_back(read_normalizer(one));
  }
  std::string apply(std::string text) const override {
    return each(std::move(text),
                [](const TextNormalizer& step, std::string one) { return step.apply(std::move(one)); });
  }
  std::string apply_tracked(std::string text, TextOrigins& origins) const override {
    return each(std::move(text), [&](const TextNormalizer& step, std::string one) {
      return step.apply_tracked(std::move(one), origins);
    });
  }
  bool keeps_start() const override {
    return std::ranges::all_of(steps_, [](const auto& step) { return step->keeps_start(); });
  }

 private:
  template <class Apply>
  std::string each(std::string text, const Apply& apply) const {
    const size_t before = text.size();
    for (const auto& step : steps_) {
      text = apply(*step, std::move(text));
      require_bounded_growth(before, text.size());
    }
    return text;
  }

  std::vector<std::unique_ptr<TextNormalizer>> steps_;
};

class PrependNormalizer final : public TextNormalizer {
 public:
  explicit PrependNormalizer(const TokenizerPart& part) : prefix_(part.text("prepend")) {
    part.require_known_keys({"type", "prepend"});
  }
  std::string apply(std::string text) const override { return text.empty() ? text : prefix_ + text; }
  std::string apply_tracked(std::string text, TextOrigins& origins) const override {
    if (text.empty()) return text;
    const TextSpan first = origins.front();
    origins.insert(origins.begin(), prefix_.size(), first);
    return prefix_ + text;
  }
  bool keeps_start() const override { return false; }

 private:
  std::string prefix_;
};

// Begin and end of what is left.
TextSpan stripped(const std::string& text, bool left, bool right) {
  size_t begin = text.size(), end = 0;
  for (size_t position = 0; position < text.size();) {
    const Utf8Character character = decode_utf8(text, position);
    if (character_class(character.code_point) != CharacterClass::kSpace) {
      begin = std::min(begin, position);
      end = position + character.size;
    }
    position += character.size;
  }
  if (!left) begin = 0;
  if (!right) end = text.size();
  return begin < end ? TextSpan{begin, end} : TextSpan{};
}

class StripNormalizer final : public TextNormalizer {
 public:
  explicit StripNormalizer(const TokenizerPart& part)
      : left_(part.flag("strip_left")), right_(part.flag("strip_right")) {
    part.require_known_keys({"type", "strip_left", "strip_right"});
  }
  std::string apply(std::string text) const override {
    const TextSpan kept = stripped(text, left_, right_);
    return text.substr(kept.begin, kept.end - kept.begin);
  }
  std::string apply_tracked(std::string text, TextOrigins& origins) const override {
    const TextSpan kept = stripped(text, left_, right_);
    origins = TextOrigins(origins.begin() + static_cast<ptrdiff_t>(kept.begin),
                          origins.begin() + static_cast<ptrdiff_t>(kept.end));
    return text.substr(kept.begin, kept.end - kept.begin);
  }
  bool keeps_start() const override { return false; }

 private:
  bool left_, right_;
};

class ReplaceNormalizer final : public TextNormalizer {
 public:
  explicit ReplaceNormalizer(const TokenizerPart& part)
      : pattern_(read_pattern(part.part("pattern"))), content_(part.text("content")) {
    part.require_known_keys({"type", "pattern", "content"});
  }
  std::string apply(std::string text) const override { return replace_matches(pattern_, text, content_); }
  std::string apply_tracked(std::string text, TextOrigins& origins) const override {
    std::string made = apply(text);
    TextOrigins result;
    result.reserve(made.size());
    const std::span<const TextSpan> of_text(origins);
    const auto keep = [&](size_t begin, size_t end) {
      result.insert(result.end(), of_text.begin() + static_cast<ptrdiff_t>(begin),
                    of_text.begin() + static_cast<ptrdiff_t>(end));
    };
    size_t done = 0;
    pattern_.expression.for_each_match(text, [&](size_t begin, size_t end) {
      keep(done, begin);
      const size_t at = begin < of_text.size() ? of_text[begin].begin : of_text.empty() ? 0 : of_text.back().end;
      result.insert(result.end(), content_.size(), joined_origin(of_text.subspan(begin, end - begin), at));
      done = end;
    });
    keep(done, text.size());
    CAUSEWAY_CHECK(result.size() == made.size());
    origins = std::move(result);
    return made;
  }
  bool keeps_start() const override { return false; }

 private:
  Pattern pattern_;
  std::string content_;
};

std::string without_marks(const std::string& text) {
  std::string kept;
  for (size_t position = 0; position < text.size();) {
    const Utf8Character character = decode_utf8(text, position);
    if (!is_accent(character.code_point)) kept += text.substr(position, character.size);
    position += character.size;
  }
  return kept;
}

}  // namespace

std::unique_ptr<TextNormalizer> read_normalizer(const TokenizerPart& part) {
  const std::string type = part.type();
  if (type == "Sequence") return std::make_unique<SequenceNormalizer>(part);
  if (type == "Prepend") return std::make_unique<PrependNormalizer>(part);
  if (type == "Strip") return std::make_unique<StripNormalizer>(part);
  if (type == "Replace") return std::make_unique<ReplaceNormalizer>(part);
  static constexpr std::pair<std::string_view, NormalForm> kForms[] = {
      {"NFC", NormalForm::kNfc}, {"NFD", NormalForm::kNfd}, {"NFKC", NormalForm::kNfkc}, {"NFKD", NormalForm::kNfkd}};
  for (const auto& [name, form] : kForms) {
    if (type != name) continue;
    part.require_known_keys({"type"});
    return make_character_normalizer([form = form](const std::string& text) { return normal_form(text, form); }, true);
  }
  if (type == "Lowercase" || type == "StripAccents" || type == "ByteLevel") {
    part.require_known_keys({"type"});
    if (type == "Lowercase")
      return make_character_normalizer([](const std::string& text) { return lower_case(text); }, true);
    if (type == "StripAccents")
      return make_character_normalizer([](const std::string& text) { return without_marks(text); });
    return make_character_normalizer([](const std::string& text) {
      std::string written;
      append_byte_characters(written, text);
      return written;
    });
  }
  part.refuse(fmt::format("the normalizer \"{}\"", type));
}

}  // namespace causeway::formats
