#include "causeway/codegen/expressions/elementwise_text.h"

#include "causeway/base/error.h"
#include "causeway/graph/op.h"

namespace causeway::codegen {

// As long as there are ops: each has its case.
std::string elementwise_text(Op op, bool floating, const std::vector<ElementValue>& inputs) {
  const auto in = [&](size_t i) -> const std::string& { return inputs[i].name; };
  const auto call = [&](const char* function) {
    std::string arguments;
    for (const ElementValue& input : inputs) arguments += (arguments.empty() ? "" : ", ") + input.name;
    return fmt::format("{}({})", function, arguments);
  };
  const auto infix = [&](const char* symbol) { return fmt::format("{} {} {}", in(0), symbol, in(1)); };
  switch (op) {
    case Op::kNeg:
      return floating ? fmt::format("-{}", in(0)) : call("negate_integer");
    case Op::kAbs:
      return call(floating ? "__builtin_fabsf" : "absolute_integer");
    case Op::kExp2:
      return call("exp2_f32");
    case Op::kLog2:
      return call("log2_f32");
    case Op::kSin:
      return call("sin_f32");
    case Op::kCos:
      return call("cos_f32");
    case Op::kSqrt:
      return call("__builtin_sqrtf");
    case Op::kRsqrt:
      return call("rsqrt_f32");
    case Op::kRecip:
      return call("reciprocal_f32");
    case Op::kFloor:
      return call("__builtin_floorf");
    case Op::kAdd:
      return floating ? infix("+") : call("add_integers");
    case Op::kSub:
      return floating ? infix("-") : call("subtract_integers");
    case Op::kMul:
      return floating ? infix("*") : call("multiply_integers");
    case Op::kDiv:
      return floating ? infix("/") : call("divide_integers");
    case Op::kRem:
      return call(floating ? "fmod_f32" : "integer_remainder");
    case Op::kMax:
      return floating ? call("max_f32") : fmt::format("{0} > {1} ? {0} : {1}", in(0), in(1));
    case Op::kMin:
      return floating ? call("min_f32") : fmt::format("{0} < {1} ? {0} : {1}", in(0), in(1));
    case Op::kPow:
      return call("pow_f32");
    case Op::kAnd:
      return infix("&");
    case Op::kOr:
      return infix("|");
    case Op::kXor:
      return infix("^");
    case Op::kShl:
      return call("shift_left");
    case Op::kShr:
      return call("shift_right");
    case Op::kLt:
      return infix("<");
    case Op::kLe:
      return infix("<=");
    case Op::kEq:
      return infix("==");
    case Op::kSelect:
      return fmt::format("{} ? {} : {}", in(0), in(1), in(2));
    case Op::kFma:
      return floating ? fmt::format("{} * {} + {}", in(0), in(1), in(2))
                      : fmt::format("add_integers(multiply_integers({}, {}), {})", in(0), in(1), in(2));
    default:
      CAUSEWAY_CHECK(false, "{} is not elementwise", op_name(op));
  }
}

}  // namespace causeway::codegen
