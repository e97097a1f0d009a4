#include "causeway/formats/chat_template/jinja_evaluator.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/formats/chat_template/jinja_filters.h"
#include "causeway/formats/chat_template/jinja_methods.h"
#include "causeway/formats/chat_template/jinja_operators.h"
#include "causeway/formats/chat_template/jinja_tests.h"
#include "causeway/formats/chat_template/python_format.h"

namespace causeway::formats {
namespace {

bool compares(const std::string& symbol, const JinjaValue& left, const JinjaValue& right) {
  if (symbol == "==") return is_equal(left, right);
  if (symbol == "!=") return !is_equal(left, right);
  if (symbol == "in") return is_contained(left, right);
  if (symbol == "not in") return !is_contained(left, right);
  const int order = compare_values(left, right, symbol);
  if (symbol == "<") return order < 0;
  if (symbol == "<=") return order <= 0;
  if (symbol == ">") return order > 0;
  return order >= 0;
}

}  // namespace

JinjaValue JinjaEvaluator::evaluate(const JinjaExpression& expression) {
  const InterpreterDepth depth(state_);
  state_.count_step(expression.line);
  return evaluate_node(expression);
}

JinjaValue JinjaEvaluator::evaluate_node(const JinjaExpression& expression) {
  const auto operand = [&](size_t index) { return evaluate(*expression.operands[index]); };
  switch (expression.kind) {
    case JinjaExpressionKind::kConstant:
      return constant(expression);
    case JinjaExpressionKind::kVariable:
      return variable(expression);
    case JinjaExpressionKind::kList:
      return JinjaValue::list(evaluate_all(expression.operands), state_.literal_mark());
    case JinjaExpressionKind::kTuple:
      return JinjaValue::tuple(evaluate_all(expression.operands), state_.literal_mark());
    case JinjaExpressionKind::kDict:
      return dict(expression);
    case JinjaExpressionKind::kAttribute:
      return get_attribute(operand(0), expression.name);
    case JinjaExpressionKind::kItem:
      return item(expression);
    case JinjaExpressionKind::kSlice:
      throw_template_error("a slice stands within several indices");
    case JinjaExpressionKind::kCall:
      return call(expression, nullptr);
    case JinjaExpressionKind::kFilter:
      return filtered(expression, JinjaValue());
    case JinjaExpressionKind::kTest: {
      const JinjaValue value = operand(0);
      const JinjaCallArguments arguments = evaluate(expression.arguments);
      state_.line = expression.line;
      return JinjaValue::boolean(apply_test(expression.name, value, arguments), state_.literal_mark());
    }
    case JinjaExpressionKind::kConditional:
      return conditional(expression);
    case JinjaExpressionKind::kAnd: {
      JinjaValue left = operand(0);
      return is_true(left) ? operand(1) : std::move(left);
    }
    case JinjaExpressionKind::kOr: {
      JinjaValue left = operand(0);
      return is_true(left) ? std::move(left) : operand(1);
    }
    case JinjaExpressionKind::kNot:
      return JinjaValue::boolean(!is_true(operand(0)), state_.literal_mark());
    case JinjaExpressionKind::kCompare:
      return comparison(expression);
    case JinjaExpressionKind::kConcat:
      return concatenation(expression);
    case JinjaExpressionKind::kBinary: {
      const JinjaValue left = operand(0), right = operand(1);
      JinjaValue result = apply_binary(expression.name, left, right);
      if (result.is(JinjaKind::kString)) state_.count_bytes(result.text().size());
      return result;
    }
    case JinjaExpressionKind::kUnary:
      return apply_unary(expression.name, operand(0));
  }
  return {};
}

JinjaValue JinjaEvaluator::constant(const JinjaExpression& expression) const {
  const JinjaValue& value = expression.constant;
  const TextMark mark = state_.literal_mark();
  if (!value.is(JinjaKind::kString)) return value.with_mark(mark);
  if (mark == TextMark{}) return value;
  return JinjaValue::string(value.bytes(), mark);
}

JinjaValue& JinjaEvaluator::slot(const JinjaVariable& variable) {
  JinjaActivation* activation = state_.activation;
  for (int i = 0; i < variable.function; ++i) activation = activation->outer;
  return activation->slots[static_cast<size_t>(variable.slot)];
}

JinjaValue JinjaEvaluator::variable(const JinjaExpression& expression) {
  const JinjaValue& value = slot(expression.variable);
  if (value.is(JinjaKind::kUndefined) && value.identity() == nullptr)
    return JinjaValue::undefined(fmt::format("'{}' is undefined", expression.name));
  return value;
}

JinjaValues JinjaEvaluator::evaluate_all(const std::vector<JinjaExpressionPtr>& expressions) {
  JinjaValues values;
  values.reserve(expressions.size());
  for (const JinjaExpressionPtr& expression : expressions) values.push_back(evaluate(*expression));
  return values;
}

JinjaValue JinjaEvaluator::dict(const JinjaExpression& expression) {
  auto dict = std::make_shared<JinjaDict>();
  for (size_t i = 0; i + 1 < expression.operands.size(); i += 2) {
    JinjaValue key = evaluate(*expression.operands[i]);
    dict->set(std::move(key), evaluate(*expression.operands[i + 1]));
  }
  return JinjaValue::object(JinjaKind::kDict, std::move(dict), state_.literal_mark());
}

JinjaValue JinjaEvaluator::item(const JinjaExpression& expression) {
  const JinjaValue value = evaluate(*expression.operands[0]);
  const JinjaExpression& index = *expression.operands[1];
  if (index.kind != JinjaExpressionKind::kSlice) {
    const JinjaValue key = evaluate(index);
    state_.line = expression.line;
    return get_item(value, key);
  }
  JinjaValues bounds;
  for (const JinjaExpressionPtr& bound : index.operands)
    bounds.push_back(bound == nullptr ? JinjaValue::none() : evaluate(*bound));
  JinjaValue slice = get_slice(value, bounds[0], bounds[1], bounds[2]);
  if (slice.is(JinjaKind::kString)) state_.count_bytes(slice.text().size());
  return slice;
}

JinjaValue JinjaEvaluator::conditional(const JinjaExpression& expression) {
  const size_t taken = holds(*expression.operands[0]) ? 1 : 2;
  if (taken >= expression.operands.size())
    return JinjaValue::undefined(fmt::format(
        "the inline if-expression on line {} evaluated to false and no else section was defined.", expression.line));
  const bool before = state_.in_generation_prompt;
  if (state_.input.add_generation_prompt && static_cast<int>(taken) == expression.generation_prompt_operand)
    state_.in_generation_prompt = true;
  JinjaValue value = evaluate(*expression.operands[taken]);
  state_.in_generation_prompt = before;
  return value;
}

JinjaValue JinjaEvaluator::comparison(const JinjaExpression& expression) {
  JinjaValue left = evaluate(*expression.operands[0]);
  for (size_t i = 0; i < expression.names.size(); ++i) {
    JinjaValue right = evaluate(*expression.operands[i + 1]);
    state_.line = expression.line;
    if (!compares(expression.names[i], left, right)) return JinjaValue::boolean(false, state_.literal_mark());
    left = std::move(right);
  }
  return JinjaValue::boolean(true, state_.literal_mark());
}

JinjaValue JinjaEvaluator::concatenation(const JinjaExpression& expression) {
  MarkedText text;
  for (const JinjaValue& part : evaluate_all(expression.operands)) {
    text.append(python_str(part));
    check_text_size(text.size());
  }
  state_.count_bytes(text.size());
  return JinjaValue::string(std::move(text));
}

JinjaCallArguments JinjaEvaluator::evaluate(const JinjaArguments& arguments) {
  JinjaCallArguments result{.positional = evaluate_all(arguments.positional), .named = {}};
  for (const auto& [name, argument] : arguments.named) result.named.emplace_back(name, evaluate(*argument));
  if (arguments.more != nullptr)
    for (JinjaValue& value : items_of(evaluate(*arguments.more))) result.positional.push_back(std::move(value));
  if (arguments.others != nullptr) {
    const JinjaValue others = evaluate(*arguments.others);
    if (!others.is(JinjaKind::kDict)) throw_template_error("argument after ** must be a mapping");
    for (const auto& [name, value] : others.as<JinjaDict>().entries()) {
      if (!name.is(JinjaKind::kString)) throw_template_error("keywords must be strings");
      result.named.emplace_back(name.bytes(), value);
    }
  }
  return result;
}

JinjaValue JinjaEvaluator::filtered(const JinjaExpression& filters, const JinjaValue& value) {
  JinjaValue operand = value;
  if (filters.operands[0] != nullptr) {
    const JinjaExpression& inner = *filters.operands[0];
    const InterpreterDepth depth(state_);
    // A block's filters end in one without an operand.
    operand = inner.kind == JinjaExpressionKind::kFilter ? filtered(inner, value) : evaluate(inner);
  }
  const JinjaCallArguments arguments = evaluate(filters.arguments);
  state_.count_step(filters.line);
  JinjaValue result = apply_filter(filters.name, operand, arguments);
  if (result.is(JinjaKind::kString)) state_.count_bytes(result.text().size());
  return result;
}

JinjaValue JinjaEvaluator::call_with(const JinjaExpression& expression, const JinjaValue& caller) {
  const InterpreterDepth depth(state_);
  return call(expression, &caller);
}

JinjaValue JinjaEvaluator::call(const JinjaExpression& expression, const JinjaValue* caller) {
  const JinjaValue callee = evaluate(*expression.operands[0]);
  JinjaCallArguments arguments = evaluate(expression.arguments);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  state_.line = expression.line;
  JinjaValue result;
  switch (callee.kind()) {
    case JinjaKind::kMacro:
      return macros_.call_macro(callee.as<JinjaMacro>(), arguments);
    case JinjaKind::kMethod:
      result = call_method(callee.as<JinjaMethod>(), arguments);
      break;
    case JinjaKind::kFunction:
      result = state_.call_function(callee.as<JinjaFunction>().name, arguments);
      break;
    case JinjaKind::kUndefined:
      throw_undefined(callee);
    case JinjaKind::kLoop:
      throw_template_error("The loop must have the 'recursive' marker to be called recursively.");
    default:
      throw_template_error(fmt::format("'{}' object is not callable", type_name(callee)));
  }
  if (result.is(JinjaKind::kString)) state_.count_bytes(result.text().size());
  return result;
}

}  // namespace causeway::formats
