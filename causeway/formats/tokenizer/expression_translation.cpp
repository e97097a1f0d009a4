// Oniguruma's syntax into PCRE2's, written out so that nothing is left to differ: spaces, digits and word characters
// are spelt as sets, scripts are told from script extensions, dots and anchors say what ends a line.
#include <algorithm>
#include <array>
#include <optional>

#include "causeway/base/error.h"
#include "causeway/base/utf8.h"
#include "causeway/formats/tokenizer/regular_expression.h"
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
constexpr int kMostDepth = 50;

constexpr std::string_view kCategories[] = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Cn", "Co", "Cs"};

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where) : pattern_(pattern), where_(where) {}

  TranslatedExpression run() {
    if (take("(?i)")) {
      out_ += "(?i)";
      caseless_ = true;
    }
    const Ways all = alternatives(0);
    if (position_ < pattern_.size()) fail("a closing parenthesis without an opening one");
    return {std::move(out_), !repeats_ways_ && all.unbounded <= 2 && all.choices <= 3};
  }

 private:
  // What a match may try in turn.
  struct Ways {
    int unbounded = 0;  // how often something is there
    int choices = 0;
    bool any() const { return unbounded > 0 || choices > 0; }
  };

  // What is in the expression that is not interpreted, and where.
  [[noreturn]] void refuse(std::string_view what) const {
    throw Error(
        ErrorKind::kUnsupported,
        fmt::format("{} in the regular expression \"{}\" (byte {}) is not interpreted", what, pattern_, position_),
        where_, "docs/tokenizers.md lists what is.");
  }
  [[noreturn]] void fail(std::string_view what) const {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("the regular expression \"{}\" has {} (byte {})", pattern_, what, position_), where_,
                "Fetch the tokenizer again, or correct the expression.");
  }

  bool ended() const { return position_ == pattern_.size(); }
  char peek(size_t ahead = 0) const { return position_ + ahead < pattern_.size() ? pattern_[position_ + ahead] : '\0'; }
  bool take(std::string_view text) {
    if (!pattern_.substr(position_).starts_with(text)) return false;
    position_ += text.size();
    return true;
  }
  uint32_t take_character() {
    const Utf8Character character = decode_utf8(pattern_, position_);
    if (character.code_point == kInvalidCodePoint) fail("bytes that are not UTF-8");
    position_ += character.size;
    return character.code_point;
  }
  void write(uint32_t code_point) { out_ += fmt::format("\\x{{{:x}}}", code_point); }

  Ways alternatives(int depth) {
    if (depth > kMostDepth) refuse(fmt::format("more than {} groups within one another", kMostDepth));
    Ways most, here;
    bool is_choice = false;
    const auto end_alternative = [&] {
      most = {std::max(most.unbounded, here.unbounded), std::max(most.choices, here.choices)};
      here = {};
    };
    while (!ended() && peek() != ')') {
      if (take("|")) {
        out_ += '|';
        last_ = '\0';
        is_choice = true;
        end_alternative();
        continue;
      }
      Ways ways;
      if (atom(depth, ways)) quantifier(ways);
      here = {here.unbounded + ways.unbounded, here.choices + ways.choices};
    }
    end_alternative();
    // At the top every alternative is tried once.
    if (depth > 0 && is_choice) ++most.choices;
    last_ = '\0';
    return most;
  }

  // Whether what was read may be repeated. `ways`: those that are in it.
  bool atom(int depth, Ways& ways) {
    switch (peek()) {
      case '(':
        return group(depth, ways);
      case '[':
        set();
        return true;
      case '\\':
        return escape();
      case '.':
        out_ += "[^\\n]";
        break;
      case '^':
        ++position_;
        out_ += "(?m:^)";
        return false;
      case '$':
        ++position_;
        out_ += "(?m:$)";
        return false;
      case '?':
      case '*':
      case '+':
        fail("a quantifier of nothing");
      case '{':
      case '}':
        refuse("a brace that is no quantifier");
      default:
        literal(take_character());
        return true;
    }
    last_ = '\0';
    ++position_;
    return true;
  }

  // Oniguruma folds some sequences of letters into one (ss and U+00DF, st and U+FB06), PCRE2 folds characters one by
  // one.
  void literal(uint32_t code_point) {
    if (caseless_) {
      if (code_point >= 0x80) refuse("a character beyond ASCII, compared without regard to case,");
      const char letter = static_cast<char>(code_point >= 'A' && code_point <= 'Z' ? code_point + 32 : code_point);
      const std::string pair{last_, letter};
      for (const std::string_view folded : {"ss", "st", "ff", "fi", "fl"})
        if (pair == folded) refuse(fmt::format("\"{}\", compared without regard to case,", pair));
      last_ = letter;
    }
    write(code_point);
  }

  bool group(int depth, Ways& ways) {
    struct Opening {
      std::string_view written;
      std::string_view meant;
      bool may_repeat;
      std::optional<bool> caseless;
    };
    static constexpr Opening kOpenings[] = {
        {"(?:", "(?:", true, {}},    {"(?i:", "(?i:", true, true}, {"(?-i:", "(?-i:", true, false},
        {"(?>", "(?>", true, {}},    {"(?=", "(?=", false, {}},    {"(?!", "(?!", false, {}},
        {"(?<=", "(?<=", false, {}}, {"(?<!", "(?<!", false, {}},
    };
    const auto* found = std::ranges::find_if(kOpenings, [&](const Opening& one) { return take(one.written); });
    if (found == std::end(kOpenings) && peek(1) == '?') refuse(fmt::format("\"{}\"", pattern_.substr(position_, 4)));
    if (found == std::end(kOpenings)) ++position_;
    const bool before = caseless_;
    last_ = '\0';
    if (found != std::end(kOpenings) && found->caseless) caseless_ = *found->caseless;
    out_ += found == std::end(kOpenings) ? "(?:" : found->meant;
    ways = alternatives(depth + 1);
    if (!take(")")) fail("a group without its end");
    out_ += ')';
    caseless_ = before;
    return found == std::end(kOpenings) || found->may_repeat;
  }

  void repeat_without_bound(Ways& ways) {
    repeats_ways_ = repeats_ways_ || ways.any();
    ++ways.unbounded;
  }

  void quantifier(Ways& ways) {
    const char sign = peek();
    if (sign == '{') return count(ways);
    if (sign != '?' && sign != '*' && sign != '+') return;
    if (sign == '?') {
      ++ways.choices;
    } else {
      repeat_without_bound(ways);
    }
    last_ = '\0';
    out_ += sign;
    ++position_;
    if (peek() == '?' || peek() == '+') out_ += pattern_[position_++];
    if (peek() == '?' || peek() == '*' || peek() == '+' || peek() == '{') refuse("a quantifier of a quantifier");
  }

  void count(Ways& ways) {
    last_ = '\0';
    const size_t end = pattern_.find('}', position_);
    const std::string_view inside =
        end == std::string_view::npos ? "" : pattern_.substr(position_ + 1, end - position_ - 1);
    const size_t comma = inside.find(',');
    const auto is_number = [](std::string_view text) {
      return !text.empty() && text.size() <= 4 &&
             std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
    };
    const std::string_view last = comma == std::string_view::npos ? "" : inside.substr(comma + 1);
    if (!is_number(inside.substr(0, comma)) || !(last.empty() || is_number(last)))
      refuse("a brace that is no quantifier");
    // Up to three of something without a choice are one choice.
    const bool is_open = comma != std::string_view::npos && last.empty();
    const std::string_view highest = comma == std::string_view::npos ? inside : last;
    if (is_open || ways.any() || highest.size() > 1 || highest > "3") {
      repeat_without_bound(ways);
    } else {
      ++ways.choices;
    }
    out_ += pattern_.substr(position_, end + 1 - position_);
    position_ = end + 1;
    if (peek() == '?' || peek() == '*' || peek() == '+' || peek() == '{') refuse("a quantifier of a quantifier");
  }

  bool escape() {
    if (take("\\A") || take("\\z")) {
      out_ += pattern_.substr(position_ - 2, 2);
      return false;
    }
    if (const std::optional<std::string> members = named_set(false)) {
      out_ += *members;
      last_ = '\0';
      return true;
    }
    literal(escaped_character());
    return true;
  }

  // \s, \p{..} and so on at the current place, to be used alone or inside of brackets.
  std::optional<std::string> named_set(bool in_brackets) {
    const auto bracketed = [&](std::string_view members, bool negated = false) {
      return in_brackets ? std::string(members) : fmt::format("[{}{}]", negated ? "^" : "", members);
    };
    if (take("\\s")) return bracketed(kSpaces);
    if (take("\\S")) return bracketed(kNoSpaces);
    if (take("\\d")) return property("Nd", false, in_brackets);
    if (take("\\D")) return property("Nd", true, in_brackets);
    if (take("\\w")) return bracketed(word_characters());
    if (peek() == '\\' && peek(1) == 'W') {
      if (in_brackets) refuse("\\W in a set");
      position_ += 2;
      return bracketed(word_characters(), true);
    }
    if (peek() != '\\' || (peek(1) != 'p' && peek(1) != 'P')) return std::nullopt;
    const size_t end = pattern_.find('}', position_);
    if (peek(2) != '{' || end == std::string_view::npos) refuse("a property without braces");
    bool negated = peek(1) == 'P';
    std::string_view name = pattern_.substr(position_ + 3, end - position_ - 3);
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    const bool is_category = std::ranges::find(kCategories, name) != std::end(kCategories);
    const bool is_name = name.size() > 2 && std::ranges::all_of(name, [](char c) {
                           return c == '_' || ((c | 32) >= 'a' && (c | 32) <= 'z');
                         });
    if (!is_category && !is_name) refuse(fmt::format("the property \"{}\"", name));
    position_ = end + 1;
    return is_category ? property(name, negated, in_brackets) : script(name, negated);
  }

  static std::string word_characters() {
    std::string members(kFurtherWordCharacters);
    for (const std::string_view name : {"L", "M", "Nd", "Nl", "Pc"})
      members += fmt::format("\\p{{{}}}", name) + category_changes(name).joined;
    return members;
  }

  // A general category of Unicode 16.0, from PCRE2's 14.0 and what has changed since.
  std::string property(std::string_view name, bool negated, bool in_brackets) const {
    const CategoryChanges changes = category_changes(name);
    if (!changes.left.empty() && (in_brackets || negated)) refuse(fmt::format("the category \"{}\" there", name));
    if (in_brackets && negated) {
      if (changes.joined.empty()) return fmt::format("\\P{{{}}}", name);
      refuse(fmt::format("what is not of the category \"{}\" in a set", name));
    }
    std::string members = fmt::format("\\p{{{}}}{}", name, changes.joined);
    if (in_brackets) return members;
    const std::string set = fmt::format("[{}{}]", negated ? "^" : "", members);
    return changes.left.empty() ? set : fmt::format("(?:(?![{}]){})", changes.left, set);
  }

  // A script is not what PCRE2 calls so, which includes characters that several scripts share.
  static std::string script(std::string_view name, bool negated) {
    return fmt::format("\\{}{{sc:{}}}", negated ? 'P' : 'p', name);
  }

  uint32_t hexadecimal(size_t digits, std::string_view ending) {
    uint32_t value = 0;
    size_t count = 0;
    for (; count < digits; ++count) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
      if (digit < 0) break;
      value = value * 16 + static_cast<uint32_t>(digit);
      ++position_;
    }
    if (count == 0 || (ending.empty() && count < digits) || !take(ending) || value > 0x10FFFF ||
        (value >= 0xD800 && value < 0xE000))
      fail("an escape that is no character");
    return value;
  }

  uint32_t escaped_character() {
    ++position_;
    if (ended()) fail("a backslash at its end");
    if (take("x{")) return hexadecimal(6, "}");
    if (take("x")) {
      const uint32_t value = hexadecimal(2, "");
      if (value >= 0x80) refuse("a byte beyond ASCII");
      return value;
    }
    if (take("u")) return hexadecimal(4, "");
    static constexpr std::pair<char, uint32_t> kControls[] = {{'n', 10}, {'r', 13}, {'t', 9}, {'f', 12},
                                                              {'v', 11}, {'a', 7},  {'e', 27}};
    for (const auto& [letter, value] : kControls)
      if (take(std::string_view(&letter, 1))) return value;
    const char c = peek();
    if ((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z')) refuse(fmt::format("\"\\{}\"", c));
    return take_character();
  }

  void set() {
    ++position_;
    last_ = '\0';
    out_ += '[';
    if (take("^")) out_ += '^';
    if (peek() == ']') refuse("a set that begins with \"]\"");
    while (peek() != ']') {
      if (ended()) fail("a set without its end");
      if (peek() == '[') refuse("a set in a set");
      if (peek() == '&' && peek(1) == '&') refuse("an intersection of sets");
      if (const std::optional<std::string> members = named_set(true)) {
        out_ += *members;
        // A range cannot begin here.
        if (peek() == '-' && peek(1) != ']') refuse("a range that begins with a set");
        continue;
      }
      const uint32_t first = set_character();
      write(first);
      if (peek() != '-' || peek(1) == ']') continue;
      ++position_;
      if (peek() == '[' || (peek() == '\\' && std::string_view("sSdDwWpP").find(peek(1)) != std::string_view::npos))
        refuse("a range that ends with a set");
      const uint32_t last = set_character();
      if (last < first) fail("a range that ends before it begins");
      out_ += '-';
      write(last);
    }
    ++position_;
    out_ += ']';
  }

  uint32_t set_character() {
    if (ended()) fail("a set without its end");
    const uint32_t code_point = peek() == '\\' ? escaped_character() : take_character();
    if (caseless_ && code_point >= 0x80) refuse("a character beyond ASCII, compared without regard to case,");
    return code_point;
  }

  std::string_view pattern_;
  const std::string& where_;
  size_t position_ = 0;
  std::string out_;
  bool caseless_ = false;
  bool repeats_ways_ = false;
  char last_ = '\0';  // the letter before, where the next one might fold with it
};

}  // namespace

TranslatedExpression translate_expression(std::string_view pattern, const std::string& where) {
  return Translator(pattern, where).run();
}

}  // namespace causeway::formats
