#include "causeway/formats/tokenizer/pattern.h"

#include "causeway/base/error.h"

namespace causeway::formats {
namespace {

constexpr size_t kMostReplacedBytes = size_t{1} << 30, kMostGrowth = 64, kFreeBytes = 64;

[[noreturn]] void throw_growth(size_t before, size_t after) {
  throw Error(ErrorKind::kResource, fmt::format("a text of {} bytes becomes one of {} or more", before, after),
              "tokenizer.json", "Use a tokenizer whose replacements do not multiply, or shorter texts.");
}

}  // namespace

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
    if (replaced.size() > kMostReplacedBytes) throw_growth(text.size(), replaced.size());
  });
  return replaced.append(text.substr(done));
}

void require_bounded_growth(size_t before, size_t after) {
  if (after / kMostGrowth > before + kFreeBytes) throw_growth(before, after);
}

}  // namespace causeway::formats
