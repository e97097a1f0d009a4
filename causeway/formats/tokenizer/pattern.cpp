#include "causeway/formats/tokenizer/pattern.h"

namespace causeway::formats {

Pattern read_pattern(const TokenizerPart& part) {
  part.require_known_keys({"String", "Regex"});
  if (part.has("String") == part.has("Regex")) part.fail("a pattern is either \"String\" or \"Regex\"");
  if (part.has("Regex")) {
    std::string written = part.text("Regex");
    RegularExpression expression(written, part.where("Regex"));
    return {std::move(expression), std::move(written)};
  }
  const std::string text = part.text("String");
  if (text.empty()) part.refuse("a pattern without a character");
  return {RegularExpression::literal(text, part.where("String")), ""};
}

std::string replace_matches(const Pattern& pattern, std::string_view text, std::string_view content) {
  std::string replaced;
  size_t done = 0;
  pattern.expression.for_each_match(text, [&](size_t begin, size_t end) {
    replaced.append(text.substr(done, begin - done)).append(content);
    done = end;
  });
  return replaced.append(text.substr(done));
}

}  // namespace causeway::formats
