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

// A function of the text alone.
template <class Function>
class FunctionNormalizer final : public TextNormalizer {
 public:
  FunctionNormalizer(Function function, bool keeps_start) : function_(std::move(function)), keeps_start_(keeps_start) {}
  std::string apply(std::string text) const override { return function_(std::move(text)); }
  bool keeps_start() const override { return keeps_start_; }

 private:
  Function function_;
  bool keeps_start_;
};

template <class Function>
std::unique_ptr<TextNormalizer> make_normalizer(Function function, bool keeps_start = false) {
  return std::make_unique<FunctionNormalizer<Function>>(std::move(function), keeps_start);
}

std::string strip(const std::string& text, bool left, bool right) {
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
  return begin < end ? text.substr(begin, end - begin) : std::string();
}

std::string without_marks(const std::string& text) {
  std::string kept;
  for (size_t position = 0; position < text.size();) {
    const Utf8Character character = decode_utf8(text, position);
    if (!is_accent(character.code_point)) kept += text.substr(position, character.size);
    position += character.size;
  }
  return kept;
}

std::unique_ptr<TextNormalizer> read_normalizers(const TokenizerPart& part) {
  part.require_known_keys({"type", "normalizers"});
  auto steps = std::make_shared<std::vector<std::unique_ptr<TextNormalizer>>>();
  for (const TokenizerPart& one : part.parts("normalizers")) steps->push_back(read_normalizer(one));
  const bool keeps_start = std::ranges::all_of(*steps, [](const auto& step) { return step->keeps_start(); });
  return make_normalizer(
      [steps](std::string text) {
        const size_t before = text.size();
        for (const auto& step : *steps) {
          text = step->apply(std::move(text));
          require_bounded_growth(before, text.size());
        }
        return text;
      },
      keeps_start);
}

std::unique_ptr<TextNormalizer> read_prepend(const TokenizerPart& part) {
  part.require_known_keys({"type", "prepend"});
  return make_normalizer(
      [prefix = part.text("prepend")](const std::string& text) { return text.empty() ? text : prefix + text; });
}

std::unique_ptr<TextNormalizer> read_strip(const TokenizerPart& part) {
  part.require_known_keys({"type", "strip_left", "strip_right"});
  return make_normalizer([left = part.flag("strip_left"), right = part.flag("strip_right")](const std::string& text) {
    return strip(text, left, right);
  });
}

std::unique_ptr<TextNormalizer> read_replace(const TokenizerPart& part) {
  part.require_known_keys({"type", "pattern", "content"});
  auto pattern = std::make_shared<Pattern>(read_pattern(part.part("pattern")));
  return make_normalizer([pattern, content = part.text("content")](const std::string& text) {
    return replace_matches(*pattern, text, content);
  });
}

}  // namespace

std::unique_ptr<TextNormalizer> read_normalizer(const TokenizerPart& part) {
  const std::string type = part.type();
  if (type == "Sequence") return read_normalizers(part);
  if (type == "Prepend") return read_prepend(part);
  if (type == "Strip") return read_strip(part);
  if (type == "Replace") return read_replace(part);
  static constexpr std::pair<std::string_view, NormalForm> kForms[] = {
      {"NFC", NormalForm::kNfc}, {"NFD", NormalForm::kNfd}, {"NFKC", NormalForm::kNfkc}, {"NFKD", NormalForm::kNfkd}};
  for (const auto& [name, form] : kForms) {
    if (type != name) continue;
    part.require_known_keys({"type"});
    return make_normalizer([form = form](const std::string& text) { return normal_form(text, form); }, true);
  }
  if (type == "Lowercase" || type == "StripAccents" || type == "ByteLevel") {
    part.require_known_keys({"type"});
    if (type == "Lowercase") return make_normalizer([](const std::string& text) { return lower_case(text); }, true);
    if (type == "StripAccents") return make_normalizer([](const std::string& text) { return without_marks(text); });
    return make_normalizer([](const std::string& text) {
      std::string written;
      append_byte_characters(written, text);
      return written;
    });
  }
  part.refuse(fmt::format("the normalizer \"{}\"", type));
}

}  // namespace causeway::formats
