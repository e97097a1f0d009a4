// From a template's text to its syntax, by Jinja 3.1's grammar.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/formats/chat_template/jinja_lexer.h"
#include "causeway/formats/chat_template/jinja_syntax.h"

namespace causeway::formats {

// Tokens, read from front to back.
class JinjaTokens {
 public:
  JinjaTokens(std::vector<JinjaToken> tokens, const std::string& where) : tokens_(std::move(tokens)), where_(where) {}

  const JinjaToken& current() const { return tokens_[at_]; }
  const JinjaToken& after() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  const JinjaToken& take();
  bool take_if_name(std::string_view name);
  bool take_if_operator(std::string_view symbol);
  void expect(JinjaTokenKind kind, std::string_view what);
  void expect_operator(std::string_view symbol);
  std::string expect_name();
  bool is(JinjaTokenKind kind) const { return current().kind == kind; }
  int line() const { return current().line; }
  const std::string& where() const { return where_; }
  // What messages call the current token.
  std::string description() const;
  [[noreturn]] void fail(std::string message) const { throw_syntax_error(std::move(message), where_, line()); }

 private:
  std::vector<JinjaToken> tokens_;
  const std::string& where_;
  size_t at_ = 0;
};

class JinjaExpressionParser {
 public:
  explicit JinjaExpressionParser(JinjaTokens& tokens) : tokens_(tokens) {}

  JinjaExpressionPtr expression(bool with_conditional = true);
  // One expression, or several with commas, which are a tuple. `end`: a name that ends it.
  JinjaExpressionPtr tuple(bool with_conditional = true, std::string_view end = {}, bool in_parentheses = false);
  // filters | of | a block's text; the first without a bar where `inline_start`. Null where there is none.
  JinjaExpressionPtr filters(JinjaExpressionPtr operand, bool inline_start = false);

 private:
  friend class ParsingDepth;

  JinjaExpressionPtr conditional();
  JinjaExpressionPtr disjunction();
  JinjaExpressionPtr conjunction();
  JinjaExpressionPtr negation();
  JinjaExpressionPtr comparison();
  JinjaExpressionPtr sum();
  JinjaExpressionPtr concatenation();
  JinjaExpressionPtr product();
  JinjaExpressionPtr power();
  JinjaExpressionPtr unary(bool with_filters = true);
  JinjaExpressionPtr primary();
  JinjaExpressionPtr postfix(JinjaExpressionPtr operand);
  JinjaExpressionPtr filters_and_tests(JinjaExpressionPtr operand);
  JinjaExpressionPtr subscript(JinjaExpressionPtr operand);
  JinjaExpressionPtr subscript_index();
  JinjaExpressionPtr call(JinjaExpressionPtr operand);
  JinjaExpressionPtr test(JinjaExpressionPtr operand);
  JinjaExpressionPtr list();
  JinjaExpressionPtr dict();
  JinjaArguments arguments();
  std::string dotted_name();

  JinjaTokens& tokens_;
  int depth_ = 0;
};

// A node with these operands. Throws where the tree becomes too high for recursion.
JinjaExpressionPtr make_expression(JinjaExpressionKind kind, int line, const std::string& where,
                                   std::vector<JinjaExpressionPtr> operands = {}, std::string name = {});

// Whether a condition can hold only where add_generation_prompt is set, or only where it is not.
bool needs_generation_prompt(const JinjaExpression& condition);
bool needs_no_generation_prompt(const JinjaExpression& condition);

// Names are not resolved yet (jinja_scopes.h).
std::unique_ptr<ChatTemplateProgram> parse_template(std::string_view text, std::string where);

}  // namespace causeway::formats
