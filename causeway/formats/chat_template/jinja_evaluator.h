// Evaluates the expressions of a template.
#pragma once

#include "causeway/formats/chat_template/jinja_call.h"
#include "causeway/formats/chat_template/jinja_macro.h"
#include "causeway/formats/chat_template/jinja_render_state.h"
#include "causeway/formats/chat_template/jinja_syntax.h"

namespace causeway::formats {

// Runs macros for the evaluator.
class JinjaMacroCaller {
 public:
  virtual ~JinjaMacroCaller() = default;
  virtual JinjaValue call_macro(const JinjaMacro& macro, const JinjaCallArguments& arguments) = 0;
};

class JinjaEvaluator {
 public:
  JinjaEvaluator(JinjaRenderState& state, JinjaMacroCaller& macros) : state_(state), macros_(macros) {}

  JinjaValue evaluate(const JinjaExpression& expression);
  bool holds(const JinjaExpression& condition) { return is_true(evaluate(condition)); }
  // A filter expression whose innermost operand, which it lacks, is `value`.
  JinjaValue filtered(const JinjaExpression& filters, const JinjaValue& value);
  // A call with the block of a call block.
  JinjaValue call_with(const JinjaExpression& call, const JinjaValue& caller);

  JinjaValue& slot(const JinjaVariable& variable);

 private:
  JinjaValue evaluate_node(const JinjaExpression& expression);
  JinjaValue constant(const JinjaExpression& expression) const;
  JinjaValue variable(const JinjaExpression& expression);
  JinjaValue dict(const JinjaExpression& expression);
  JinjaValue item(const JinjaExpression& expression);
  JinjaValue conditional(const JinjaExpression& expression);
  JinjaValue comparison(const JinjaExpression& expression);
  JinjaValue concatenation(const JinjaExpression& expression);
  JinjaValue call(const JinjaExpression& expression, const JinjaValue* caller);
  JinjaValues evaluate_all(const std::vector<JinjaExpressionPtr>& expressions);
  JinjaCallArguments evaluate(const JinjaArguments& arguments);

  JinjaRenderState& state_;
  JinjaMacroCaller& macros_;
};

}  // namespace causeway::formats
