#include "causeway/codegen/checks/ptx_evaluation.h"

#include <cctype>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace causeway::codegen {
namespace {

int width_of(const PtxInstruction& one) {
  // The type of the result comes first.
  for (size_t at = one.opcode.find('.'); at != std::string::npos; at = one.opcode.find('.', at + 1)) {
    const std::string_view part = std::string_view(one.opcode).substr(at + 1);
    if (part.size() >= 3 && (part[0] == 's' || part[0] == 'u' || part[0] == 'b') &&
        std::isdigit(static_cast<unsigned char>(part[1])))
      return std::atoi(part.data() + 1);
    if (part.starts_with("pred")) return 1;
  }
  return 0;
}

}  // namespace

PtxValue evaluate_ptx(const PtxInstruction& one, const PtxValues& values, const PtxValues::State& state) {
  const auto get = [&](const PtxOperand& operand) { return values.value(operand, state); };
  const PtxRole& role = values.role();
  const std::vector<PtxOperand>& operands = one.operands;
  const size_t count = operands.size();
  const int width = width_of(one);
  const auto a = [&] { return get(operands[1]); };
  const auto b = [&] { return get(operands[2]); };
  const auto ua = [&] { return a().as_unsigned(width); };
  const auto ub = [&] { return b().as_unsigned(width); };
  const std::string& opcode = one.opcode;
  if (opcode == "elect.sync") return role.thread < 0 ? PtxValue() : PtxValue::exactly(role.elected ? 1 : 0, true);
  if (count < 2) return {};
  const bool number = !one.has(".f16") && !one.has(".bf16") && !one.has(".f32") && !one.has(".f64");
  if (opcode.starts_with("setp.") && count == 3 && number) {
    const std::string_view how = one.after_dot().substr(0, 2);
    const int result = one.is_unsigned() ? PtxValue::compared(ua(), ub(), how) : PtxValue::compared(a(), b(), how);
    return result < 0 ? PtxValue() : PtxValue::exactly(result, a().by_lane || b().by_lane);
  }
  if (!number && !opcode.starts_with("selp")) return {};
  if (opcode.starts_with("mov.") && width > 0 && count == 2) return a();
  if (opcode.starts_with("cvta")) return a();
  if (opcode.starts_with("mapa") && count >= 2) return a();
  if (opcode.starts_with("cvt.") && count == 2) {
    // To the first type, from the second.
    const std::string_view to = one.after_dot(), from = to.substr(to.find('.') + 1);
    if (to.size() < 2 || from.size() < 2 || !std::isdigit(static_cast<unsigned char>(to[1])) ||
        !std::isdigit(static_cast<unsigned char>(from[1])))
      return {};
    const int from_width = std::atoi(from.data() + 1);
    PtxValue value = a();
    if (from[0] == 'u') value = value.as_unsigned(from_width);
    if (width < from_width && value.known() && !value.exact() && value.low >= 0 && value.high <= low_mask(width))
      return value;
    return value.narrowed(width);
  }
  if (opcode.starts_with("selp.") && count == 4) {
    const PtxValue condition = get(operands[3]);
    if (!condition.exact()) return PtxValue::joined(a(), b());
    PtxValue value = condition.low != 0 ? a() : b();
    value.by_lane |= condition.by_lane;
    return value;
  }
  if (opcode.starts_with("shfl.sync") && count >= 2) {
    // Of one thread that is followed, only what all lanes of its warp have is known.
    PtxValue value = a();
    if (role.thread >= 0 && value.by_lane) return {};
    value.base = -1;
    return value;
  }
  if (count == 3) {
    if (opcode.starts_with("add.")) return PtxValue::sum(a(), b(), 1).narrowed(width);
    if (opcode.starts_with("sub.")) return PtxValue::sum(a(), b(), -1).narrowed(width);
    if (opcode.starts_with("mul.lo.")) return PtxValue::product(a(), b()).narrowed(width);
    if (opcode.starts_with("mul.wide."))
      return one.is_unsigned() ? PtxValue::product(ua(), ub()) : PtxValue::product(a(), b());
    if (opcode.starts_with("mul.hi.") && width == 32)
      return PtxValue::shifted_right(one.is_unsigned() ? PtxValue::product(ua(), ub()) : PtxValue::product(a(), b()),
                                     PtxValue::exactly(32));
    if (opcode.starts_with("shl.")) return PtxValue::shifted_left(a(), b()).narrowed(width);
    if (opcode.starts_with("shr."))
      return PtxValue::shifted_right(opcode.starts_with("shr.u") || opcode.starts_with("shr.b") ? ua() : a(), b())
          .narrowed(width);
    if (opcode.starts_with("and.")) return PtxValue::bitwise(a(), b(), '&').narrowed(width == 1 ? 64 : width);
    if (opcode.starts_with("or.")) {
      const PtxValue x = a(), y = b();
      const bool x_is_true = x.exact() && x.low != 0, y_is_true = y.exact() && y.low != 0;
      if (width == 1 && (x_is_true || y_is_true))
        return PtxValue::exactly(1, !(x_is_true && !x.by_lane) && !(y_is_true && !y.by_lane));
      return PtxValue::bitwise(x, y, '|').narrowed(width == 1 ? 64 : width);
    }
    if (opcode.starts_with("xor.")) return PtxValue::bitwise(a(), b(), '^').narrowed(width == 1 ? 64 : width);
    const auto both = [&](auto choose) {
      const PtxValue x = one.is_unsigned() ? ua() : a(), y = one.is_unsigned() ? ub() : b();
      return x.known() && y.known() ? PtxValue::between(choose(x.interval(), y.interval()), x.by_lane || y.by_lane)
                                    : PtxValue();
    };
    if (opcode.starts_with("min.")) return both(interval_min<int64_t>);
    if (opcode.starts_with("max.")) return both(interval_max<int64_t>);
    if (opcode.starts_with("rem.u") || opcode.starts_with("div.u")) {
      const PtxValue x = ua(), y = ub();
      if (!x.known() || !y.exact() || y.low == 0) return {};
      if (opcode.starts_with("div.u")) return PtxValue::between(x.low / y.low, x.high / y.low, x.by_lane || y.by_lane);
      if (x.exact()) return PtxValue::exactly(x.low % y.low, x.by_lane || y.by_lane);
      return x.high < y.low ? x : PtxValue::between(0, y.low - 1, x.by_lane);
    }
  }
  if (count == 2 && opcode.starts_with("not.")) {
    const PtxValue x = a();
    if (width == 1) return x.exact() ? PtxValue::exactly(x.low == 0, x.by_lane) : PtxValue();
    return PtxValue::sum(PtxValue::exactly(-1), x, -1).narrowed(width);
  }
  if (count == 4) {
    if (opcode.starts_with("mad.lo."))
      return PtxValue::sum(PtxValue::product(a(), b()), get(operands[3]), 1).narrowed(width);
    if (opcode.starts_with("mad.wide."))
      return PtxValue::sum(one.is_unsigned() ? PtxValue::product(ua(), ub()) : PtxValue::product(a(), b()),
                           get(operands[3]), 1);
    if (opcode.starts_with("bfe.u")) {
      const PtxValue length = get(operands[3]);
      if (!length.exact() || length.low < 1 || length.low > 31) return {};
      return PtxValue::bitwise(PtxValue::shifted_right(ua(), b()),
                               PtxValue::exactly(low_mask(static_cast<int>(length.low))), '&');
    }
  }
  return {};
}

}  // namespace causeway::codegen
