// Oniguruma's syntax into PCRE2's, written out so that nothing is left to differ: spaces, digits and word characters
// are spelt as sets, scripts are told from script extensions, dots and anchors say what ends a line.
#include <algorithm>
#include <optional>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/formats/tokenizer/character_set.h"
#include "causeway/formats/tokenizer/expression_text.h"
#include "causeway/formats/tokenizer/regular_expression.h"

namespace causeway::formats {
namespace {

constexpr int kMostDepth = 50;

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where) : text_(pattern, where) {}

  TranslatedExpression run() {
    if (text_.take("(?i)")) {
      out_ += "(?i)";
      caseless_ = true;
    }
    const Ways all = alternatives(0);
    if (!text_.ended()) text_.fail("a closing parenthesis without an opening one");
    return {std::move(out_), !repeats_ways_ && all.unbounded <= 2 && all.choices <= 3};
  }

 private:
  // What a match may try in turn.
  struct Ways {
    int unbounded = 0;  // how often something is there
    int choices = 0;
    bool any() const { return unbounded > 0 || choices > 0; }
  };

  Ways alternatives(int depth) {
    if (depth > kMostDepth) text_.refuse(fmt::format("more than {} groups within one another", kMostDepth));
    Ways most, here;
    bool is_choice = false;
    const auto end_alternative = [&] {
      most = {std::max(most.unbounded, here.unbounded), std::max(most.choices, here.choices)};
      here = {};
    };
    while (!text_.ended() && text_.peek() != ')') {
      if (text_.take("|")) {
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
    switch (text_.peek()) {
      case '(':
        return group(depth, ways);
      case '[':
        last_ = '\0';
        out_ += translate_set(text_, caseless_);
        return true;
      case '\\':
        return escape();
      case '.':
        out_ += "[^\\n]";
        break;
      case '^':
        text_.skip(1);
        out_ += "(?m:^)";
        return false;
      case '$':
        text_.skip(1);
        out_ += "(?m:$)";
        return false;
      case '?':
      case '*':
      case '+':
        text_.fail("a quantifier of nothing");
      case '{':
      case '}':
        text_.refuse("a brace that is no quantifier");
      default:
        literal(text_.take_character());
        return true;
    }
    last_ = '\0';
    text_.skip(1);
    return true;
  }

  // Oniguruma folds some sequences of letters into one (ss and U+00DF, st and U+FB06), PCRE2 folds characters one by
  // one.
  void literal(uint32_t code_point) {
    if (caseless_) {
      if (code_point >= 0x80) text_.refuse("a character beyond ASCII, compared without regard to case,");
      const char letter = static_cast<char>(code_point >= 'A' && code_point <= 'Z' ? code_point + 32 : code_point);
      const std::string pair{last_, letter};
      for (const std::string_view folded : {"ss", "st", "ff", "fi", "fl"})
        if (pair == folded) text_.refuse(fmt::format("\"{}\", compared without regard to case,", pair));
      last_ = letter;
    }
    out_ += translate_character(code_point);
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
    const auto* found = std::ranges::find_if(kOpenings, [&](const Opening& one) { return text_.take(one.written); });
    if (found == std::end(kOpenings) && text_.peek(1) == '?')
      text_.refuse(fmt::format("\"{}\"", text_.rest().substr(0, 4)));
    if (found == std::end(kOpenings)) text_.skip(1);
    const bool before = caseless_;
    last_ = '\0';
    if (found != std::end(kOpenings) && found->caseless) caseless_ = *found->caseless;
    out_ += found == std::end(kOpenings) ? "(?:" : found->meant;
    ways = alternatives(depth + 1);
    if (!text_.take(")")) text_.fail("a group without its end");
    out_ += ')';
    caseless_ = before;
    return found == std::end(kOpenings) || found->may_repeat;
  }

  void repeat_without_bound(Ways& ways) {
    repeats_ways_ = repeats_ways_ || ways.any();
    ++ways.unbounded;
  }

  void quantifier(Ways& ways) {
    const char sign = text_.peek();
    if (sign == '{') return count(ways);
    if (sign != '?' && sign != '*' && sign != '+') return;
    if (sign == '?') {
      ++ways.choices;
    } else {
      repeat_without_bound(ways);
    }
    last_ = '\0';
    out_ += sign;
    text_.skip(1);
    if (text_.peek() == '?' || text_.peek() == '+') {
      out_ += text_.peek();
      text_.skip(1);
    }
    if (text_.peek() == '?' || text_.peek() == '*' || text_.peek() == '+' || text_.peek() == '{')
      text_.refuse("a quantifier of a quantifier");
  }

  void count(Ways& ways) {
    last_ = '\0';
    const size_t end = text_.rest().find('}');
    const std::string_view inside = end == std::string_view::npos ? "" : text_.rest().substr(1, end - 1);
    const size_t comma = inside.find(',');
    const auto is_number = [](std::string_view text) {
      return !text.empty() && text.size() <= 4 &&
             std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
    };
    const std::string_view last = comma == std::string_view::npos ? "" : inside.substr(comma + 1);
    if (!is_number(inside.substr(0, comma)) || !(last.empty() || is_number(last)))
      text_.refuse("a brace that is no quantifier");
    // Up to three of something without a choice are one choice.
    const bool is_open = comma != std::string_view::npos && last.empty();
    const std::string_view highest = comma == std::string_view::npos ? inside : last;
    if (is_open || ways.any() || highest.size() > 1 || highest > "3") {
      repeat_without_bound(ways);
    } else {
      ++ways.choices;
    }
    out_ += text_.rest().substr(0, end + 1);
    text_.skip(end + 1);
    if (text_.peek() == '?' || text_.peek() == '*' || text_.peek() == '+' || text_.peek() == '{')
      text_.refuse("a quantifier of a quantifier");
  }

  bool escape() {
    for (const std::string_view anchor : {"\\A", "\\z"}) {
      if (!text_.take(anchor)) continue;
      out_ += anchor;
      return false;
    }
    if (const std::optional<std::string> members = translate_named_set(text_, false)) {
      out_ += *members;
      last_ = '\0';
      return true;
    }
    literal(text_.take_escaped_character());
    return true;
  }

  ExpressionText text_;
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
