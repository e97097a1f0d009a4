#include "causeway/formats/tokenizer/character_set.h"

#include <algorithm>
#include <string_view>

#include "causeway/base/error.h"
#include "causeway/formats/tokenizer/unicode_text.h"

namespace causeway::formats {
namespace {

constexpr std::string_view kSpaces =
    "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
constexpr std::string_view kNoSpaces =
    "\\x00-\\x08\\x0e-\\x1f\\x21-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}"
    "\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}";
// Beside letters, marks, decimal and letter numbers and connecting punctuation: circled and squared letters, and the
// numbers of Latin-1, which Oniguruma counts.
constexpr std::string_view kFurtherWordCharacters =
    "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{"
    "1f189}";

constexpr std::string_view kCategories[] = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Cn", "Co", "Cs"};

std::string word_characters() {
  std::string members(kFurtherWordCharacters);
  for (const std::string_view name : {"L", "M", "Nd", "Nl", "Pc"})
    members += fmt::format("\\p{{{}}}", name) + category_changes(name).joined;
  return members;
}

// A general category of Unicode 16.0, from PCRE2's 14.0 and what has changed since.
std::string property_set(const ExpressionText& text, std::string_view name, bool negated, bool in_brackets) {
  const CategoryChanges changes = category_changes(name);
  if (!changes.left.empty() && (in_brackets || negated)) text.refuse(fmt::format("the category \"{}\" there", name));
  if (in_brackets && negated) {
    if (changes.joined.empty()) return fmt::format("\\P{{{}}}", name);
    text.refuse(fmt::format("what is not of the category \"{}\" in a set", name));
  }
  std::string members = fmt::format("\\p{{{}}}{}", name, changes.joined);
  if (in_brackets) return members;
  const std::string set = fmt::format("[{}{}]", negated ? "^" : "", members);
  return changes.left.empty() ? set : fmt::format("(?:(?![{}]){})", changes.left, set);
}

// A script is not what PCRE2 calls so, which includes characters that several scripts share.
std::string script_set(std::string_view name, bool negated) {
  return fmt::format("\\{}{{sc:{}}}", negated ? 'P' : 'p', name);
}

uint32_t set_character(ExpressionText& text, bool caseless) {
  if (text.ended()) text.fail("a set without its end");
  const uint32_t code_point = text.peek() == '\\' ? text.take_escaped_character() : text.take_character();
  if (caseless && code_point >= 0x80) text.refuse("a character beyond ASCII, compared without regard to case,");
  return code_point;
}

}  // namespace

std::optional<std::string> translate_named_set(ExpressionText& text, bool in_brackets) {
  const auto bracketed = [&](std::string_view members, bool negated = false) {
    return in_brackets ? std::string(members) : fmt::format("[{}{}]", negated ? "^" : "", members);
  };
  if (text.take("\\s")) return bracketed(kSpaces);
  if (text.take("\\S")) return bracketed(kNoSpaces);
  if (text.take("\\d")) return property_set(text, "Nd", false, in_brackets);
  if (text.take("\\D")) return property_set(text, "Nd", true, in_brackets);
  if (text.take("\\w")) return bracketed(word_characters());
  if (text.peek() == '\\' && text.peek(1) == 'W') {
    if (in_brackets) text.refuse("\\W in a set");
    text.skip(2);
    return bracketed(word_characters(), true);
  }
  if (text.peek() != '\\' || (text.peek(1) != 'p' && text.peek(1) != 'P')) return std::nullopt;
  const size_t end = text.rest().find('}');
  if (text.peek(2) != '{' || end == std::string_view::npos) text.refuse("a property without braces");
  bool negated = text.peek(1) == 'P';
  std::string_view name = text.rest().substr(3, end - 3);
  if (name.starts_with('^')) {
    negated = !negated;
    name.remove_prefix(1);
  }
  const bool is_category = std::ranges::find(kCategories, name) != std::end(kCategories);
  const bool is_name = name.size() > 2 && std::ranges::all_of(name, [](char c) {
                         return c == '_' || ((c | 32) >= 'a' && (c | 32) <= 'z');
                       });
  if (!is_category && !is_name) text.refuse(fmt::format("the property \"{}\"", name));
  text.skip(end + 1);
  return is_category ? property_set(text, name, negated, in_brackets) : script_set(name, negated);
}

std::string translate_set(ExpressionText& text, bool caseless) {
  text.skip(1);
  std::string out = "[";
  if (text.take("^")) out += '^';
  if (text.peek() == ']') text.refuse("a set that begins with \"]\"");
  while (text.peek() != ']') {
    if (text.ended()) text.fail("a set without its end");
    if (text.peek() == '[') text.refuse("a set in a set");
    if (text.peek() == '&' && text.peek(1) == '&') text.refuse("an intersection of sets");
    if (const std::optional<std::string> members = translate_named_set(text, true)) {
      out += *members;
      // A range cannot begin here.
      if (text.peek() == '-' && text.peek(1) != ']') text.refuse("a range that begins with a set");
      continue;
    }
    const uint32_t first = set_character(text, caseless);
    out += translate_character(first);
    if (text.peek() != '-' || text.peek(1) == ']') continue;
    text.skip(1);
    if (text.peek() == '[' ||
        (text.peek() == '\\' && std::string_view("sSdDwWpP").find(text.peek(1)) != std::string_view::npos))
      text.refuse("a range that ends with a set");
    const uint32_t last = set_character(text, caseless);
    if (last < first) text.fail("a range that ends before it begins");
    out += '-';
    out += translate_character(last);
  }
  text.skip(1);
  return out + ']';
}

std::string translate_character(uint32_t code_point) { return fmt::format("\\x{{{:x}}}", code_point); }

}  // namespace causeway::formats
