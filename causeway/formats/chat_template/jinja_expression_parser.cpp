#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/printable.h"
#include "causeway/formats/chat_template/jinja_parser.h"

namespace causeway::formats {
namespace {

constexpr int kMostParsingDepth = 120;
constexpr int kMostHeight = 600;

std::vector<JinjaExpressionPtr> operands_of(JinjaExpressionPtr first, JinjaExpressionPtr second = nullptr,
                                            JinjaExpressionPtr third = nullptr) {
  std::vector<JinjaExpressionPtr> operands;
  operands.push_back(std::move(first));
  if (second != nullptr) operands.push_back(std::move(second));
  if (third != nullptr) operands.push_back(std::move(third));
  return operands;
}

int height_of(const JinjaArguments& arguments) {
  int height = 0;
  for (const JinjaExpressionPtr& argument : arguments.positional) height = std::max(height, argument->height);
  for (const auto& [name, argument] : arguments.named) height = std::max(height, argument->height);
  for (const JinjaExpressionPtr* argument : {&arguments.more, &arguments.others})
    if (*argument != nullptr) height = std::max(height, (*argument)->height);
  return height;
}

void set_arguments(JinjaExpression& node, JinjaArguments arguments, const std::string& where) {
  node.height = std::max(node.height, height_of(arguments) + 1);
  node.arguments = std::move(arguments);
  if (node.height > kMostHeight) throw_unsupported("an expression of this length", where, node.line);
}

template <size_t kCount>
bool is_one_of(const std::string_view (&symbols)[kCount], std::string_view symbol) {
  return std::ranges::find(symbols, symbol) != std::end(symbols);
}

// What a condition says of add_generation_prompt.
struct PromptMention {
  bool holds_with_prompt = false;     // it can hold only with it
  bool holds_without_prompt = false;  // only without it
};
PromptMention prompt_mention(const JinjaExpression& condition) {
  switch (condition.kind) {
    case JinjaExpressionKind::kVariable:
      return {.holds_with_prompt = condition.name == "add_generation_prompt"};
    case JinjaExpressionKind::kNot: {
      const PromptMention inner = prompt_mention(*condition.operands[0]);
      return {inner.holds_without_prompt, inner.holds_with_prompt};
    }
    case JinjaExpressionKind::kAnd: {
      const PromptMention left = prompt_mention(*condition.operands[0]), right = prompt_mention(*condition.operands[1]);
      return {left.holds_with_prompt || right.holds_with_prompt,
              left.holds_without_prompt || right.holds_without_prompt};
    }
    default:
      return {};
  }
}

}  // namespace

bool needs_generation_prompt(const JinjaExpression& condition) { return prompt_mention(condition).holds_with_prompt; }
bool needs_no_generation_prompt(const JinjaExpression& condition) {
  return condition.kind == JinjaExpressionKind::kNot && prompt_mention(condition).holds_without_prompt;
}

// Counts how deep the parser is in itself.
class ParsingDepth {
 public:
  explicit ParsingDepth(JinjaExpressionParser& parser) : parser_(parser) {
    if (++parser_.depth_ <= kMostParsingDepth) return;
    throw_unsupported("expressions nested this deep", parser_.tokens_.where(), parser_.tokens_.line());
  }
  ~ParsingDepth() { --parser_.depth_; }
  ParsingDepth(const ParsingDepth&) = delete;
  ParsingDepth& operator=(const ParsingDepth&) = delete;

 private:
  JinjaExpressionParser& parser_;
};

JinjaExpressionPtr make_expression(JinjaExpressionKind kind, int line, const std::string& where,
                                   std::vector<JinjaExpressionPtr> operands, std::string name) {
  auto node = std::make_unique<JinjaExpression>();
  node->kind = kind;
  node->line = line;
  node->name = std::move(name);
  for (const JinjaExpressionPtr& operand : operands)
    if (operand != nullptr) node->height = std::max(node->height, operand->height + 1);
  node->operands = std::move(operands);
  if (node->height > kMostHeight) throw_unsupported("an expression of this length", where, line);
  return node;
}

const JinjaToken& JinjaTokens::take() {
  const JinjaToken& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool JinjaTokens::take_if_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  take();
  return true;
}

bool JinjaTokens::take_if_operator(std::string_view symbol) {
  if (!current().is_operator(symbol)) return false;
  take();
  return true;
}

std::string JinjaTokens::description() const {
  switch (current().kind) {
    case JinjaTokenKind::kEnd:
      return "the end of the template";
    case JinjaTokenKind::kData:
      return "text";
    case JinjaTokenKind::kBlockBegin:
      return "'{%'";
    case JinjaTokenKind::kBlockEnd:
      return "'%}'";
    case JinjaTokenKind::kVariableBegin:
      return "'{{'";
    case JinjaTokenKind::kVariableEnd:
      return "'}}'";
    case JinjaTokenKind::kString:
      return "a string";
    default:
      return fmt::format("'{}'", printable(current().text));
  }
}

void JinjaTokens::expect(JinjaTokenKind kind, std::string_view what) {
  if (!is(kind)) fail(fmt::format("expected {}, got {}", what, description()));
  take();
}

void JinjaTokens::expect_operator(std::string_view symbol) {
  if (!take_if_operator(symbol)) fail(fmt::format("expected '{}', got {}", symbol, description()));
}

std::string JinjaTokens::expect_name() {
  if (!is(JinjaTokenKind::kName)) fail(fmt::format("expected a name, got {}", description()));
  return take().text;
}

JinjaExpressionPtr JinjaExpressionParser::expression(bool with_conditional) {
  const ParsingDepth depth(*this);
  return with_conditional ? conditional() : disjunction();
}

JinjaExpressionPtr JinjaExpressionParser::tuple(bool with_conditional, std::string_view end, bool in_parentheses) {
  std::vector<JinjaExpressionPtr> items;
  bool is_tuple = false;
  int line = tokens_.line();
  while (true) {
    if (!items.empty()) tokens_.expect_operator(",");
    if (tokens_.is(JinjaTokenKind::kVariableEnd) || tokens_.is(JinjaTokenKind::kBlockEnd) ||
        tokens_.current().is_operator(")") || (!end.empty() && tokens_.current().is_name(end)))
      break;
    items.push_back(expression(with_conditional));
    if (!tokens_.current().is_operator(",")) break;
    is_tuple = true;
    line = tokens_.line();
  }
  if (!is_tuple) {
    if (!items.empty()) return std::move(items[0]);
    if (!in_parentheses) tokens_.fail("expected an expression, got " + tokens_.description());
  }
  return make_expression(JinjaExpressionKind::kTuple, line, tokens_.where(), std::move(items));
}

JinjaExpressionPtr JinjaExpressionParser::conditional() {
  int line = tokens_.line();
  JinjaExpressionPtr value = disjunction();
  while (tokens_.take_if_name("if")) {
    // Its parts are reached only where the condition says so.
    JinjaExpressionPtr condition = disjunction();
    JinjaExpressionPtr otherwise;
    if (tokens_.take_if_name("else")) {
      const ParsingDepth depth(*this);
      otherwise = conditional();
    }
    const int prompt = needs_generation_prompt(*condition) ? 1 : needs_no_generation_prompt(*condition) ? 2 : 0;
    value = make_expression(JinjaExpressionKind::kConditional, line, tokens_.where(),
                            operands_of(std::move(condition), std::move(value), std::move(otherwise)));
    value->generation_prompt_operand = prompt;
    line = tokens_.line();
  }
  return value;
}

JinjaExpressionPtr JinjaExpressionParser::disjunction() {
  JinjaExpressionPtr left = conjunction();
  while (tokens_.current().is_name("or")) {
    const int line = tokens_.take().line;
    left =
        make_expression(JinjaExpressionKind::kOr, line, tokens_.where(), operands_of(std::move(left), conjunction()));
  }
  return left;
}

JinjaExpressionPtr JinjaExpressionParser::conjunction() {
  JinjaExpressionPtr left = negation();
  while (tokens_.current().is_name("and")) {
    const int line = tokens_.take().line;
    left = make_expression(JinjaExpressionKind::kAnd, line, tokens_.where(), operands_of(std::move(left), negation()));
  }
  return left;
}

JinjaExpressionPtr JinjaExpressionParser::negation() {
  if (!tokens_.current().is_name("not")) return comparison();
  const ParsingDepth depth(*this);
  const int line = tokens_.take().line;
  return make_expression(JinjaExpressionKind::kNot, line, tokens_.where(), operands_of(negation()));
}

JinjaExpressionPtr JinjaExpressionParser::comparison() {
  constexpr std::string_view kComparisons[] = {"==", "!=", "<", "<=", ">", ">="};
  const int line = tokens_.line();
  std::vector<JinjaExpressionPtr> operands;
  std::vector<std::string> names;
  operands.push_back(sum());
  while (true) {
    const JinjaToken& token = tokens_.current();
    if (token.kind == JinjaTokenKind::kOperator && is_one_of(kComparisons, token.text)) {
      names.push_back(tokens_.take().text);
    } else if (token.is_name("in")) {
      names.push_back(tokens_.take().text);
    } else if (token.is_name("not") && tokens_.after().is_name("in")) {
      tokens_.take();
      tokens_.take();
      names.emplace_back("not in");
    } else {
      break;
    }
    operands.push_back(sum());
  }
  if (names.empty()) return std::move(operands[0]);
  JinjaExpressionPtr node = make_expression(JinjaExpressionKind::kCompare, line, tokens_.where(), std::move(operands));
  node->names = std::move(names);
  return node;
}

JinjaExpressionPtr JinjaExpressionParser::sum() {
  JinjaExpressionPtr left = concatenation();
  while (tokens_.current().is_operator("+") || tokens_.current().is_operator("-")) {
    const JinjaToken token = tokens_.take();
    left = make_expression(JinjaExpressionKind::kBinary, token.line, tokens_.where(),
                           operands_of(std::move(left), concatenation()), token.text);
  }
  return left;
}

JinjaExpressionPtr JinjaExpressionParser::concatenation() {
  const int line = tokens_.line();
  std::vector<JinjaExpressionPtr> parts;
  parts.push_back(product());
  while (tokens_.take_if_operator("~")) parts.push_back(product());
  if (parts.size() == 1) return std::move(parts[0]);
  return make_expression(JinjaExpressionKind::kConcat, line, tokens_.where(), std::move(parts));
}

JinjaExpressionPtr JinjaExpressionParser::product() {
  constexpr std::string_view kProducts[] = {"*", "/", "//", "%"};
  JinjaExpressionPtr left = power();
  while (tokens_.is(JinjaTokenKind::kOperator) && is_one_of(kProducts, tokens_.current().text)) {
    const JinjaToken token = tokens_.take();
    left = make_expression(JinjaExpressionKind::kBinary, token.line, tokens_.where(),
                           operands_of(std::move(left), power()), token.text);
  }
  return left;
}

JinjaExpressionPtr JinjaExpressionParser::power() {
  JinjaExpressionPtr left = unary();
  while (tokens_.current().is_operator("**")) {
    const int line = tokens_.take().line;
    left = make_expression(JinjaExpressionKind::kBinary, line, tokens_.where(), operands_of(std::move(left), unary()),
                           "**");
  }
  return left;
}

JinjaExpressionPtr JinjaExpressionParser::unary(bool with_filters) {
  const ParsingDepth depth(*this);
  JinjaExpressionPtr node;
  if (tokens_.current().is_operator("-") || tokens_.current().is_operator("+")) {
    const JinjaToken token = tokens_.take();
    node = make_expression(JinjaExpressionKind::kUnary, token.line, tokens_.where(), operands_of(unary(false)),
                           token.text);
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filters ? filters_and_tests(std::move(node)) : std::move(node);
}

JinjaExpressionPtr JinjaExpressionParser::primary() {
  const JinjaToken token = tokens_.current();
  JinjaExpressionPtr node = make_expression(JinjaExpressionKind::kConstant, token.line, tokens_.where());
  if (token.kind == JinjaTokenKind::kName) {
    tokens_.take();
    if (token.text == "true" || token.text == "True" || token.text == "false" || token.text == "False") {
      node->constant = JinjaValue::boolean(token.text == "true" || token.text == "True");
    } else if (token.text == "none" || token.text == "None") {
      node->constant = JinjaValue::none();
    } else {
      node->kind = JinjaExpressionKind::kVariable;
      node->name = token.text;
    }
  } else if (token.kind == JinjaTokenKind::kString) {
    std::string text;
    while (tokens_.is(JinjaTokenKind::kString)) text += tokens_.take().text;
    node->constant = JinjaValue::string(std::move(text), TextMark{});
  } else if (token.kind == JinjaTokenKind::kInteger) {
    node->constant = JinjaValue::integer(tokens_.take().integer);
  } else if (token.kind == JinjaTokenKind::kFloat) {
    node->constant = JinjaValue::floating(tokens_.take().floating);
  } else if (tokens_.take_if_operator("(")) {
    node = tuple(true, {}, true);
    tokens_.expect_operator(")");
  } else if (token.is_operator("[")) {
    node = list();
  } else if (token.is_operator("{")) {
    node = dict();
  } else {
    tokens_.fail("unexpected " + tokens_.description());
  }
  return node;
}

JinjaExpressionPtr JinjaExpressionParser::list() {
  const int line = tokens_.take().line;
  std::vector<JinjaExpressionPtr> items;
  while (!tokens_.current().is_operator("]")) {
    if (!items.empty()) tokens_.expect_operator(",");
    if (tokens_.current().is_operator("]")) break;
    items.push_back(expression());
  }
  tokens_.expect_operator("]");
  return make_expression(JinjaExpressionKind::kList, line, tokens_.where(), std::move(items));
}

JinjaExpressionPtr JinjaExpressionParser::dict() {
  const int line = tokens_.take().line;
  std::vector<JinjaExpressionPtr> items;
  while (!tokens_.current().is_operator("}")) {
    if (!items.empty()) tokens_.expect_operator(",");
    if (tokens_.current().is_operator("}")) break;
    items.push_back(expression());
    tokens_.expect_operator(":");
    items.push_back(expression());
  }
  tokens_.expect_operator("}");
  return make_expression(JinjaExpressionKind::kDict, line, tokens_.where(), std::move(items));
}

JinjaExpressionPtr JinjaExpressionParser::postfix(JinjaExpressionPtr operand) {
  while (true) {
    if (tokens_.current().is_operator(".") || tokens_.current().is_operator("["))
      operand = subscript(std::move(operand));
    else if (tokens_.current().is_operator("("))
      operand = call(std::move(operand));
    else
      return operand;
  }
}

JinjaExpressionPtr JinjaExpressionParser::filters_and_tests(JinjaExpressionPtr operand) {
  while (true) {
    if (tokens_.current().is_operator("|"))
      operand = filters(std::move(operand));
    else if (tokens_.current().is_name("is"))
      operand = test(std::move(operand));
    else if (tokens_.current().is_operator("("))
      operand = call(std::move(operand));
    else
      return operand;
  }
}

JinjaExpressionPtr JinjaExpressionParser::subscript(JinjaExpressionPtr operand) {
  const JinjaToken token = tokens_.take();
  if (token.text == ".") {
    const JinjaToken name = tokens_.current();
    if (name.kind == JinjaTokenKind::kName) {
      tokens_.take();
      return make_expression(JinjaExpressionKind::kAttribute, token.line, tokens_.where(),
                             operands_of(std::move(operand)), name.text);
    }
    if (name.kind != JinjaTokenKind::kInteger)
      tokens_.fail("expected a name or a number, got " + tokens_.description());
    tokens_.take();
    JinjaExpressionPtr index = make_expression(JinjaExpressionKind::kConstant, name.line, tokens_.where());
    index->constant = JinjaValue::integer(name.integer);
    return make_expression(JinjaExpressionKind::kItem, token.line, tokens_.where(),
                           operands_of(std::move(operand), std::move(index)));
  }
  std::vector<JinjaExpressionPtr> indices;
  while (!tokens_.current().is_operator("]")) {
    if (!indices.empty()) tokens_.expect_operator(",");
    indices.push_back(subscript_index());
  }
  tokens_.expect_operator("]");
  JinjaExpressionPtr index = indices.size() == 1 ? std::move(indices[0])
                                                 : make_expression(JinjaExpressionKind::kTuple, token.line,
                                                                   tokens_.where(), std::move(indices));
  return make_expression(JinjaExpressionKind::kItem, token.line, tokens_.where(),
                         operands_of(std::move(operand), std::move(index)));
}

JinjaExpressionPtr JinjaExpressionParser::subscript_index() {
  const int line = tokens_.line();
  std::vector<JinjaExpressionPtr> parts(3);
  if (!tokens_.current().is_operator(":")) {
    parts[0] = expression();
    if (!tokens_.current().is_operator(":")) return std::move(parts[0]);
  }
  tokens_.take();
  const auto ends = [&] { return tokens_.current().is_operator("]") || tokens_.current().is_operator(","); };
  if (!tokens_.current().is_operator(":") && !ends()) parts[1] = expression();
  if (tokens_.take_if_operator(":") && !ends()) parts[2] = expression();
  return make_expression(JinjaExpressionKind::kSlice, line, tokens_.where(), std::move(parts));
}

JinjaArguments JinjaExpressionParser::arguments() {
  JinjaArguments result;
  const auto ensure = [&](bool holds) {
    if (!holds) tokens_.fail("invalid syntax for the arguments of a call");
  };
  tokens_.expect_operator("(");
  bool is_first = true;
  while (!tokens_.current().is_operator(")")) {
    if (!is_first) {
      tokens_.expect_operator(",");
      if (tokens_.current().is_operator(")")) break;
    }
    is_first = false;
    if (tokens_.take_if_operator("*")) {
      ensure(result.more == nullptr && result.others == nullptr);
      result.more = expression();
    } else if (tokens_.take_if_operator("**")) {
      ensure(result.others == nullptr);
      result.others = expression();
    } else if (tokens_.is(JinjaTokenKind::kName) && tokens_.after().is_operator("=")) {
      ensure(result.others == nullptr);
      std::string name = tokens_.take().text;
      tokens_.take();
      for (const auto& [known, value] : result.named)
        if (known == name) tokens_.fail(fmt::format("the argument '{}' is given twice", name));
      result.named.emplace_back(std::move(name), expression());
    } else {
      ensure(result.more == nullptr && result.others == nullptr && result.named.empty());
      result.positional.push_back(expression());
    }
  }
  tokens_.expect_operator(")");
  return result;
}

JinjaExpressionPtr JinjaExpressionParser::call(JinjaExpressionPtr operand) {
  JinjaExpressionPtr node =
      make_expression(JinjaExpressionKind::kCall, tokens_.line(), tokens_.where(), operands_of(std::move(operand)));
  set_arguments(*node, arguments(), tokens_.where());
  return node;
}

std::string JinjaExpressionParser::dotted_name() {
  std::string name = tokens_.expect_name();
  while (tokens_.take_if_operator(".")) name += "." + tokens_.expect_name();
  return name;
}

JinjaExpressionPtr JinjaExpressionParser::filters(JinjaExpressionPtr operand, bool inline_start) {
  while (inline_start || tokens_.take_if_operator("|")) {
    inline_start = false;
    const int line = tokens_.line();
    std::string name = dotted_name();
    std::vector<JinjaExpressionPtr> operands;
    operands.push_back(std::move(operand));
    operand =
        make_expression(JinjaExpressionKind::kFilter, line, tokens_.where(), std::move(operands), std::move(name));
    if (tokens_.current().is_operator("(")) set_arguments(*operand, arguments(), tokens_.where());
  }
  return operand;
}

JinjaExpressionPtr JinjaExpressionParser::test(JinjaExpressionPtr operand) {
  const int line = tokens_.take().line;
  const bool is_negated = tokens_.take_if_name("not");
  std::string name = dotted_name();
  JinjaExpressionPtr node = make_expression(JinjaExpressionKind::kTest, line, tokens_.where(),
                                            operands_of(std::move(operand)), std::move(name));
  const JinjaToken& next = tokens_.current();
  const bool is_value = next.kind == JinjaTokenKind::kName || next.kind == JinjaTokenKind::kString ||
                        next.kind == JinjaTokenKind::kInteger || next.kind == JinjaTokenKind::kFloat ||
                        next.is_operator("[") || next.is_operator("{");
  if (next.is_operator("(")) {
    set_arguments(*node, arguments(), tokens_.where());
  } else if (is_value && !next.is_name("else") && !next.is_name("or") && !next.is_name("and")) {
    if (next.is_name("is")) tokens_.fail("several tests cannot be chained with is");
    JinjaArguments argument;
    argument.positional.push_back(postfix(primary()));
    set_arguments(*node, std::move(argument), tokens_.where());
  }
  return is_negated ? make_expression(JinjaExpressionKind::kNot, line, tokens_.where(), operands_of(std::move(node)))
                    : std::move(node);
}

}  // namespace causeway::formats
