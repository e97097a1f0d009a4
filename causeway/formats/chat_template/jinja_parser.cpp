#include "causeway/formats/chat_template/jinja_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/printable.h"

namespace causeway::formats {
namespace {

constexpr int kMostBlockDepth = 60;

// What Jinja has and templates of chats do not use.
constexpr std::string_view kRefusedStatements[] = {"block",      "extends", "include", "from", "import",
                                                   "autoescape", "do",      "trans",   "debug"};

class TemplateParser {
 public:
  TemplateParser(std::string_view text, const std::string& where)
      : tokens_(tokenize_template(text, where), where), expressions_(tokens_) {}

  std::unique_ptr<ChatTemplateProgram> run() {
    auto program = std::make_unique<ChatTemplateProgram>();
    program->root.body = statements_until({});
    program->has_generation_marks = has_generation_marks_;
    return program;
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  bool is_end(Names ends) const {
    return std::ranges::any_of(ends, [&](std::string_view end) { return tokens_.current().is_name(end); });
  }

  // Up to {% end, whose name is the current token afterwards; to the end of the template where there is none.
  JinjaBlock statements_until(Names ends) {
    if (++depth_ > kMostBlockDepth) throw_unsupported("blocks nested this deep", tokens_.where(), tokens_.line());
    JinjaBlock block;
    while (!tokens_.is(JinjaTokenKind::kEnd)) {
      if (tokens_.is(JinjaTokenKind::kData)) {
        auto statement = make(JinjaStatementKind::kText);
        statement->text = tokens_.take().text;
        block.push_back(std::move(statement));
      } else if (tokens_.is(JinjaTokenKind::kVariableBegin)) {
        tokens_.take();
        auto statement = make(JinjaStatementKind::kOutput);
        statement->expressions.push_back(expressions_.tuple());
        tokens_.expect(JinjaTokenKind::kVariableEnd, "'}}'");
        block.push_back(std::move(statement));
      } else {
        tokens_.expect(JinjaTokenKind::kBlockBegin, "'{%'");
        if (is_end(ends)) {
          --depth_;
          return block;
        }
        block.push_back(statement(ends));
        tokens_.expect(JinjaTokenKind::kBlockEnd, "'%}'");
      }
    }
    if (ends.size() > 0) tokens_.fail(fmt::format("the template ends where {{% {} %}} is missing", *ends.begin()));
    --depth_;
    return block;
  }

  // The body of a statement, behind its head.
  JinjaBlock body(Names ends) {
    tokens_.take_if_operator(":");
    tokens_.expect(JinjaTokenKind::kBlockEnd, "'%}'");
    return statements_until(ends);
  }
  JinjaBlock whole_body(std::string_view end) {
    JinjaBlock block = body({end});
    tokens_.take();
    return block;
  }
  // Of what is a function: a loop around it is not its own.
  JinjaBlock function_body(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    JinjaBlock block = whole_body(end);
    loops_ = loops;
    return block;
  }

  JinjaStatementPtr make(JinjaStatementKind kind) const {
    auto statement = std::make_unique<JinjaStatement>();
    statement->kind = kind;
    statement->line = tokens_.line();
    return statement;
  }

  JinjaStatementPtr statement(Names ends) {
    if (!tokens_.is(JinjaTokenKind::kName)) tokens_.fail("expected the name of a tag, got " + tokens_.description());
    const std::string name = tokens_.current().text;
    if (name == "if") return parse_if();
    if (name == "for") return parse_for();
    if (name == "set") return parse_set();
    if (name == "macro") return parse_macro();
    if (name == "call") return parse_call();
    if (name == "filter") return parse_filter();
    if (name == "with") return parse_with();
    if (name == "print") return parse_print();
    if (name == "generation") return parse_generation();
    if (name == "break" || name == "continue") return parse_jump();
    if (std::ranges::find(kRefusedStatements, name) != std::end(kRefusedStatements))
      throw_unsupported(fmt::format("{{% {} %}}", name), tokens_.where(), tokens_.line());
    tokens_.fail(fmt::format("unknown tag '{}'{}", printable(name),
                             ends.size() > 0 ? fmt::format(" where {{% {} %}} was looked for", *ends.begin()) : ""));
  }

  JinjaStatementPtr parse_if() {
    JinjaStatementPtr result = make(JinjaStatementKind::kIf);
    bool only_without = false;
    while (true) {
      tokens_.take();
      if (static_cast<int>(result->blocks.size()) > 2000)
        throw_unsupported("this many branches", tokens_.where(), tokens_.line());
      JinjaExpressionPtr condition = expressions_.tuple(false);
      result->is_generation_prompt.push_back(needs_generation_prompt(*condition));
      only_without = only_without || needs_no_generation_prompt(*condition);
      result->expressions.push_back(std::move(condition));
      result->blocks.push_back(body({"endif", "elif", "else"}));
      if (!tokens_.current().is_name("elif")) break;
    }
    if (tokens_.take().text == "else") {
      result->is_generation_prompt.push_back(only_without);
      result->blocks.push_back(whole_body("endif"));
    }
    return result;
  }

  JinjaStatementPtr parse_for() {
    JinjaStatementPtr result = make(JinjaStatementKind::kFor);
    tokens_.take();
    result->targets.push_back(target("in"));
    if (!tokens_.take_if_name("in")) tokens_.fail("expected 'in', got " + tokens_.description());
    result->expressions.push_back(expressions_.tuple(false, "recursive"));
    result->expressions.push_back(tokens_.take_if_name("if") ? expressions_.expression() : nullptr);
    if (tokens_.current().is_name("recursive")) throw_unsupported("a recursive loop", tokens_.where(), tokens_.line());
    ++loops_;
    result->blocks.push_back(body({"endfor", "else"}));
    --loops_;
    if (tokens_.take().text == "else") result->blocks.push_back(whole_body("endfor"));
    return result;
  }

  JinjaStatementPtr parse_set() {
    JinjaStatementPtr result = make(JinjaStatementKind::kSet);
    tokens_.take();
    result->targets.push_back(target({}, true));
    if (tokens_.take_if_operator("=")) {
      result->expressions.push_back(expressions_.tuple());
      return result;
    }
    result->kind = JinjaStatementKind::kSetBlock;
    result->expressions.push_back(expressions_.filters(nullptr));
    result->blocks.push_back(whole_body("endset"));
    return result;
  }

  void parse_signature(JinjaFunctionBody& function) {
    tokens_.expect_operator("(");
    while (!tokens_.current().is_operator(")")) {
      if (!function.parameters.empty()) tokens_.expect_operator(",");
      const int line = tokens_.line();
      std::string name = tokens_.expect_name();
      check_name(name, line);
      if (std::ranges::find(function.parameters, name) != function.parameters.end())
        tokens_.fail(fmt::format("the parameter '{}' stands twice", name));
      function.parameters.push_back(std::move(name));
      if (tokens_.take_if_operator("="))
        function.defaults.push_back(expressions_.expression());
      else if (!function.defaults.empty())
        tokens_.fail("a parameter without a default follows one that has one");
    }
    tokens_.take();
  }

  JinjaStatementPtr parse_macro() {
    JinjaStatementPtr result = make(JinjaStatementKind::kMacro);
    tokens_.take();
    JinjaTarget name{.line = tokens_.line()};
    name.name = tokens_.expect_name();
    check_name(name.name, name.line);
    result->targets.push_back(std::move(name));
    result->function = std::make_unique<JinjaFunctionBody>();
    parse_signature(*result->function);
    result->function->body = function_body("endmacro");
    return result;
  }

  JinjaStatementPtr parse_call() {
    JinjaStatementPtr result = make(JinjaStatementKind::kCallBlock);
    tokens_.take();
    result->function = std::make_unique<JinjaFunctionBody>();
    if (tokens_.current().is_operator("(")) parse_signature(*result->function);
    result->expressions.push_back(expressions_.expression());
    if (result->expressions[0]->kind != JinjaExpressionKind::kCall) tokens_.fail("expected a call");
    result->function->body = function_body("endcall");
    return result;
  }

  JinjaStatementPtr parse_filter() {
    JinjaStatementPtr result = make(JinjaStatementKind::kFilterBlock);
    tokens_.take();
    result->expressions.push_back(expressions_.filters(nullptr, true));
    result->blocks.push_back(whole_body("endfilter"));
    return result;
  }

  JinjaStatementPtr parse_with() {
    JinjaStatementPtr result = make(JinjaStatementKind::kWith);
    tokens_.take();
    while (!tokens_.is(JinjaTokenKind::kBlockEnd)) {
      if (!result->targets.empty()) tokens_.expect_operator(",");
      result->targets.push_back(target({}));
      tokens_.expect_operator("=");
      result->expressions.push_back(expressions_.expression());
    }
    result->blocks.push_back(whole_body("endwith"));
    return result;
  }

  JinjaStatementPtr parse_print() {
    JinjaStatementPtr result = make(JinjaStatementKind::kOutput);
    tokens_.take();
    while (!tokens_.is(JinjaTokenKind::kBlockEnd)) {
      if (!result->expressions.empty()) tokens_.expect_operator(",");
      result->expressions.push_back(expressions_.expression());
    }
    return result;
  }

  JinjaStatementPtr parse_generation() {
    JinjaStatementPtr result = make(JinjaStatementKind::kGeneration);
    tokens_.take();
    has_generation_marks_ = true;
    result->function = std::make_unique<JinjaFunctionBody>();
    result->function->body = function_body("endgeneration");
    return result;
  }

  JinjaStatementPtr parse_jump() {
    JinjaStatementPtr result = make(JinjaStatementKind::kBreak);
    if (loops_ == 0) tokens_.fail(fmt::format("'{}' outside of a loop", tokens_.current().text));
    if (tokens_.take().text == "continue") result->kind = JinjaStatementKind::kContinue;
    return result;
  }

  void check_name(const std::string& name, int line) const {
    for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"})
      if (name == constant) throw_syntax_error(fmt::format("'{}' cannot be assigned to", name), tokens_.where(), line);
  }

  // Names, members of namespaces where `with_members`, in parentheses and with commas.
  JinjaTarget target(std::string_view end, bool with_members = false) {
    if (++depth_ > kMostBlockDepth) throw_unsupported("a target nested this deep", tokens_.where(), tokens_.line());
    JinjaTarget result{.kind = JinjaTarget::Kind::kTuple, .line = tokens_.line()};
    bool is_tuple = false;
    while (true) {
      const bool ends = tokens_.is(JinjaTokenKind::kBlockEnd) || tokens_.current().is_operator(")") ||
                        tokens_.current().is_operator("=") || (!end.empty() && tokens_.current().is_name(end));
      if (ends && is_tuple) break;
      result.parts.push_back(target_part(with_members));
      if (!tokens_.take_if_operator(",")) break;
      is_tuple = true;
    }
    --depth_;
    if (is_tuple) return result;
    JinjaTarget only = std::move(result.parts[0]);
    return only;
  }

  JinjaTarget target_part(bool with_members) {
    JinjaTarget part{.line = tokens_.line()};
    if (tokens_.take_if_operator("(")) {
      part = target({}, with_members);
      tokens_.expect_operator(")");
      return part;
    }
    if (!tokens_.is(JinjaTokenKind::kName)) tokens_.fail("cannot assign to " + tokens_.description());
    part.name = tokens_.take().text;
    check_name(part.name, part.line);
    if (with_members && tokens_.take_if_operator(".")) {
      part.kind = JinjaTarget::Kind::kMember;
      part.member = tokens_.expect_name();
    }
    return part;
  }

  JinjaTokens tokens_;
  JinjaExpressionParser expressions_;
  int depth_ = 0;
  int loops_ = 0;  // around the current place, in its function
  bool has_generation_marks_ = false;
};

}  // namespace

std::unique_ptr<ChatTemplateProgram> parse_template(std::string_view text, std::string where) {
  std::unique_ptr<ChatTemplateProgram> program = TemplateParser(text, where).run();
  program->where = std::move(where);
  return program;
}

}  // namespace causeway::formats
