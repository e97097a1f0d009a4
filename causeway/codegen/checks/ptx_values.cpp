#include "causeway/codegen/checks/ptx_values.h"

#include <algorithm>
#include <bit>

namespace causeway::codegen {
namespace {

constexpr int64_t kFar = int64_t{1} << 40;  // no address in shared memory, and no sum of such, is further

// One thread's number may be known and another's be another one: `by_lane`.
PtxValue exactly(int64_t number, bool by_lane = false) {
  return {PtxValue::Kind::kRange, 0, by_lane, -1, number, number, 0, 0};
}
PtxValue between(int64_t low, int64_t high, bool by_lane) {
  return {PtxValue::Kind::kRange, 0, by_lane, -1, low, high, 0, 0};
}
PtxValue between(const Interval<int64_t>& ends, bool by_lane) { return between(ends.low, ends.high, by_lane); }

// As the signed number of so many bits.
PtxValue narrowed(PtxValue value, int width) {
  if (!value.known() || width >= 64) return value;
  const int64_t half = int64_t{1} << (width - 1);
  if (value.low >= -half && value.high < half) return value;
  if (value.exact()) {
    const uint64_t mask = (uint64_t{1} << width) - 1;
    const auto bits = static_cast<int64_t>(static_cast<uint64_t>(value.low) & mask);
    value.low = value.high = bits >= half ? bits - 2 * half : bits;
    return value;
  }
  return {};
}
// As an unsigned one of so many bits.
PtxValue as_unsigned(PtxValue value, int width) {
  if (!value.known() || value.low >= 0 || width >= 64) return value;
  if (!value.exact() && value.high >= 0) return {};
  value.low += int64_t{1} << width;
  value.high += int64_t{1} << width;
  value.base = -1;
  return value;
}

int64_t low_mask(int bits) { return bits >= 63 ? INT64_MAX : (int64_t{1} << bits) - 1; }
// Known bits from the lowest on; 64 of an exact number.
int known_bits(const PtxValue& value) {
  return value.exact() ? 64 : value.kind == PtxValue::Kind::kLowBits ? value.bits : 0;
}
PtxValue of_low_bits(int64_t number, int bits, bool by_lane) {
  if (bits <= 0) return {};
  PtxValue value;
  value.kind = PtxValue::Kind::kLowBits;
  value.bits = static_cast<uint8_t>(std::min(bits, 16));
  value.low = value.high = number & low_mask(value.bits);
  value.by_lane = by_lane;
  return value;
}

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
bool is_unsigned(const PtxInstruction& one) { return one.has(".u"); }

bool fits(const PtxValue& a) { return a.low > -kFar && a.high < kFar; }

PtxValue sum(const PtxValue& a, const PtxValue& b, int64_t sign) {
  const bool by_lane = a.by_lane || b.by_lane;
  if (a.exact() && b.exact())
    return exactly(
        static_cast<int64_t>(static_cast<uint64_t>(a.low) + static_cast<uint64_t>(sign) * static_cast<uint64_t>(b.low)),
        by_lane);
  if (a.known() && b.known() && fits(a) && fits(b)) {
    PtxValue result = between(
        sign > 0 ? interval_add(a.interval(), b.interval()) : interval_sub(a.interval(), b.interval()), by_lane);
    // An exact number has no base, and counts as any.
    const int base = a.exact() ? b.base : b.exact() || a.base == b.base ? a.base : -1;
    if (base >= 0) {
      result.base = base;
      result.scale = (a.exact() ? 0 : a.scale) + sign * (b.exact() ? 0 : b.scale);
      result.offset = (a.exact() ? a.low : a.offset) + sign * (b.exact() ? b.low : b.offset);
    }
    return result;
  }
  return of_low_bits(a.low + sign * b.low, std::min(known_bits(a), known_bits(b)), by_lane);
}

PtxValue product(const PtxValue& a, const PtxValue& b) {
  const bool by_lane = a.by_lane || b.by_lane;
  if (a.exact() && b.exact())
    return exactly(static_cast<int64_t>(static_cast<uint64_t>(a.low) * static_cast<uint64_t>(b.low)), by_lane);
  if (a.known() && b.known() && fits(a) && fits(b)) {
    __extension__ typedef __int128 Wide;
    const auto [low, high] = interval_mul(Interval<Wide>{a.low, a.high}, Interval<Wide>{b.low, b.high});
    if (low <= -kFar || high >= kFar) return {};
    PtxValue result = between(static_cast<int64_t>(low), static_cast<int64_t>(high), by_lane);
    for (const auto& [factor, other] : {std::pair(&a, &b), std::pair(&b, &a)})
      if (factor->exact() && other->base >= 0)
        result.base = other->base, result.scale = other->scale * factor->low,
        result.offset = other->offset * factor->low;
    return result;
  }
  return of_low_bits(static_cast<int64_t>(static_cast<uint64_t>(a.low) * static_cast<uint64_t>(b.low)),
                     std::min(known_bits(a), known_bits(b)), by_lane);
}

PtxValue bitwise(const PtxValue& a, const PtxValue& b, char operation) {
  const bool by_lane = a.by_lane || b.by_lane;
  const auto apply = [&](int64_t x, int64_t y) { return operation == '&' ? x & y : operation == '|' ? x | y : x ^ y; };
  // Lanes differ in the lowest five bits of a thread's number.
  const auto varies_under = [](const PtxValue& mask, const PtxValue& other) {
    return mask.by_lane || (other.by_lane && mask.low % 32 != 0);
  };
  if (a.exact() && b.exact())
    return exactly(apply(a.low, b.low), operation == '&' ? varies_under(a, b) && varies_under(b, a) : by_lane);
  if (operation == '&') {
    for (const auto& [mask, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      if (!mask->exact() || mask->low < 0) continue;
      const bool varies = varies_under(*mask, *other);
      const int bits = known_bits(*other);
      if (mask->low <= low_mask(bits)) return exactly(mask->low & other->low, varies);
      if (other->known() && other->low >= 0) {
        if (other->high <= mask->low && std::has_single_bit(static_cast<uint64_t>(mask->low) + 1)) return *other;
        return between(0, std::min(mask->low, other->high), varies);
      }
      return between(0, mask->low, varies);
    }
    // Alignment downwards.
    for (const auto& [mask, other] : {std::pair(&a, &b), std::pair(&b, &a)})
      if (mask->exact() && other->known() && other->low >= 0 && std::has_single_bit(static_cast<uint64_t>(-mask->low)))
        return between(other->low & mask->low, other->high & mask->low, varies_under(*mask, *other));
  }
  // No bit in common: as added.
  for (const auto& [bits, other] : {std::pair(&a, &b), std::pair(&b, &a)})
    if (operation != '&' && bits->exact() && bits->low != 0 && other->known() && other->low >= 0 && fits(*other) &&
        other->high < (bits->low & -bits->low))
      return sum(*other, *bits, 1);
  if (operation != '&' && a.known() && b.known() && a.low >= 0 && b.low >= 0 && fits(a) && fits(b)) {
    // No more than the sum; and no bit above those that either may have.
    const int64_t all = low_mask(std::bit_width(static_cast<uint64_t>(a.high | b.high)));
    return between(operation == '|' ? std::max(a.low, b.low) : 0, std::min(a.high + b.high, all), by_lane);
  }
  return of_low_bits(apply(a.low, b.low), std::min(known_bits(a), known_bits(b)), by_lane);
}

PtxValue shifted_left(const PtxValue& a, const PtxValue& by) {
  if (!by.exact() || by.low < 0 || by.low > 40) return {};
  if (a.known()) return product(a, exactly(int64_t{1} << by.low));
  return of_low_bits(a.low << by.low, known_bits(a) + static_cast<int>(by.low), a.by_lane);
}
PtxValue shifted_right(const PtxValue& a, const PtxValue& by) {
  if (!by.exact() || by.low < 0 || by.low > 63) return {};
  if (a.known()) return between(a.low >> by.low, a.high >> by.low, a.by_lane && (by.low < 5 || a.low < 0));
  return of_low_bits(a.low >> by.low, known_bits(a) - static_cast<int>(by.low), a.by_lane);
}

// -1: not known.
int compared(const PtxValue& a, const PtxValue& b, std::string_view how) {
  if (!a.known() || !b.known()) {
    // Numbers whose lowest bits differ are not equal.
    const int bits = std::min(known_bits(a), known_bits(b));
    if ((how == "eq" || how == "ne") && bits > 0 && ((a.low ^ b.low) & low_mask(bits)) != 0) return how == "ne";
    return -1;
  }
  const auto decide = [](const Interval<int64_t>& truth) {
    return truth.is_point() ? static_cast<int>(truth.low) : -1;
  };
  const Interval<int64_t> x = a.interval(), y = b.interval();
  if (how == "eq") return decide(interval_eq(x, y));
  if (how == "ne") return decide(interval_sub<int64_t>({1, 1}, interval_eq(x, y)));
  if (how == "lt" || how == "lo") return decide(interval_lt(x, y));
  if (how == "le" || how == "ls") return decide(interval_le(x, y));
  if (how == "gt" || how == "hi") return decide(interval_lt(y, x));
  if (how == "ge" || how == "hs") return decide(interval_le(y, x));
  return -1;
}

PtxValue joined(const PtxValue& a, const PtxValue& b) {
  if (a == b) return a;
  if (a.known() && b.known()) return between(interval_hull(a.interval(), b.interval()), a.by_lane || b.by_lane);
  return {};
}

bool writes_register(const PtxInstruction& one) {
  return one.writes_first && !one.operands.empty() && !one.operands[0].registers.empty() &&
         one.operands[0].kind != PtxOperand::Kind::kAddress;
}

std::string_view after_dot(std::string_view opcode) { return opcode.substr(opcode.find('.') + 1); }

}  // namespace

PtxValues::PtxValues(const PtxModule& module, const PtxFunction& function, const PtxRole& role)
    : module_(module), function_(function), role_(role) {
  definitions_.assign(static_cast<size_t>(function.registers), 0);
  constants_.resize(static_cast<size_t>(function.registers));
  index_.assign(static_cast<size_t>(function.registers), -1);
  for (const PtxInstruction& one : function.instructions)
    if (one.writes_first && !one.operands.empty() && one.operands[0].kind != PtxOperand::Kind::kAddress)
      for (const int reg : one.operands[0].registers)
        definitions_[static_cast<size_t>(reg)] += one.predicate >= 0 ? 2 : 1;
  find_constants();
}

std::optional<int64_t> PtxValues::place(const std::string& symbol) const {
  // What is asked for at launch begins at 0, and what is declared lies beyond all that can be asked for.
  int64_t at = int64_t{1} << 18;
  for (const auto& [name, size] : module_.shared) {
    if (name == symbol) return size == 0 ? 0 : at;
    if (size != 0) at += (size + 1023) / 1024 * 1024;
  }
  return std::nullopt;
}

PtxValue PtxValues::of_name(const std::string& name) const {
  const int last = role_.threads - 1;
  if (name == "%tid.x") {
    PtxValue thread = role_.thread < 0 ? between(0, last, true) : exactly(role_.thread);
    thread.by_lane = true;
    if (!thread.exact()) thread.base = PtxValue::kThread, thread.scale = 1;
    return thread;
  }
  if (name == "%laneid") {
    PtxValue lane = role_.thread < 0 ? between(0, std::min(31, last), true) : exactly(role_.thread % 32);
    lane.by_lane = true;
    return lane;
  }
  if (name == "%tid.y" || name == "%tid.z") return exactly(0);
  if (const auto found = place(name)) return exactly(*found);
  return {};
}

template <class Get>
PtxValue PtxValues::evaluate(const PtxInstruction& one, Get&& get) const {
  const std::vector<PtxOperand>& operands = one.operands;
  const size_t count = operands.size();
  const int width = width_of(one);
  const auto a = [&] { return get(operands[1]); };
  const auto b = [&] { return get(operands[2]); };
  const auto ua = [&] { return as_unsigned(a(), width); };
  const auto ub = [&] { return as_unsigned(b(), width); };
  const std::string& opcode = one.opcode;
  if (opcode == "elect.sync") return role_.thread < 0 ? PtxValue() : exactly(role_.elected ? 1 : 0, true);
  if (count < 2) return {};
  const bool number = !one.has(".f16") && !one.has(".bf16") && !one.has(".f32") && !one.has(".f64");
  if (opcode.starts_with("setp.") && count == 3 && number) {
    const std::string_view how = after_dot(opcode).substr(0, 2);
    const int result = is_unsigned(one) ? compared(ua(), ub(), how) : compared(a(), b(), how);
    return result < 0 ? PtxValue() : exactly(result, a().by_lane || b().by_lane);
  }
  if (!number && !opcode.starts_with("selp")) return {};
  if (opcode.starts_with("mov.") && width > 0 && count == 2) return a();
  if (opcode.starts_with("cvta")) return a();
  if (opcode.starts_with("mapa") && count >= 2) return a();
  if (opcode.starts_with("cvt.") && count == 2) {
    // To the first type, from the second.
    const std::string_view to = after_dot(opcode), from = after_dot(to);
    if (to.size() < 2 || from.size() < 2 || !std::isdigit(static_cast<unsigned char>(to[1])) ||
        !std::isdigit(static_cast<unsigned char>(from[1])))
      return {};
    const int from_width = std::atoi(from.data() + 1);
    PtxValue value = a();
    if (from[0] == 'u') value = as_unsigned(value, from_width);
    if (width < from_width && value.known() && !value.exact() && value.low >= 0 && value.high <= low_mask(width))
      return value;
    return narrowed(value, width);
  }
  if (opcode.starts_with("selp.") && count == 4) {
    const PtxValue condition = get(operands[3]);
    if (!condition.exact()) return joined(a(), b());
    PtxValue value = condition.low != 0 ? a() : b();
    value.by_lane |= condition.by_lane;
    return value;
  }
  if (opcode.starts_with("shfl.sync") && count >= 2) {
    // Of one thread that is followed, only what all lanes of its warp have is known.
    PtxValue value = a();
    if (role_.thread >= 0 && value.by_lane) return {};
    value.base = -1;
    return value;
  }
  if (count == 3) {
    if (opcode.starts_with("add.")) return narrowed(sum(a(), b(), 1), width);
    if (opcode.starts_with("sub.")) return narrowed(sum(a(), b(), -1), width);
    if (opcode.starts_with("mul.lo.")) return narrowed(product(a(), b()), width);
    if (opcode.starts_with("mul.wide.")) return is_unsigned(one) ? product(ua(), ub()) : product(a(), b());
    if (opcode.starts_with("mul.hi.") && width == 32)
      return shifted_right(is_unsigned(one) ? product(ua(), ub()) : product(a(), b()), exactly(32));
    if (opcode.starts_with("shl.")) return narrowed(shifted_left(a(), b()), width);
    if (opcode.starts_with("shr."))
      return narrowed(shifted_right(opcode.starts_with("shr.u") || opcode.starts_with("shr.b") ? ua() : a(), b()),
                      width);
    if (opcode.starts_with("and.")) return narrowed(bitwise(a(), b(), '&'), width == 1 ? 64 : width);
    if (opcode.starts_with("or.")) {
      const PtxValue x = a(), y = b();
      const bool x_is_true = x.exact() && x.low != 0, y_is_true = y.exact() && y.low != 0;
      if (width == 1 && (x_is_true || y_is_true))
        return exactly(1, !(x_is_true && !x.by_lane) && !(y_is_true && !y.by_lane));
      return narrowed(bitwise(x, y, '|'), width == 1 ? 64 : width);
    }
    if (opcode.starts_with("xor.")) return narrowed(bitwise(a(), b(), '^'), width == 1 ? 64 : width);
    const auto both = [&](auto choose) {
      const PtxValue x = is_unsigned(one) ? ua() : a(), y = is_unsigned(one) ? ub() : b();
      return x.known() && y.known() ? between(choose(x.interval(), y.interval()), x.by_lane || y.by_lane) : PtxValue();
    };
    if (opcode.starts_with("min.")) return both(interval_min<int64_t>);
    if (opcode.starts_with("max.")) return both(interval_max<int64_t>);
    if (opcode.starts_with("rem.u") || opcode.starts_with("div.u")) {
      const PtxValue x = ua(), y = ub();
      if (!x.known() || !y.exact() || y.low == 0) return {};
      if (opcode.starts_with("div.u")) return between(x.low / y.low, x.high / y.low, x.by_lane || y.by_lane);
      if (x.exact()) return exactly(x.low % y.low, x.by_lane || y.by_lane);
      return x.high < y.low ? x : between(0, y.low - 1, x.by_lane);
    }
  }
  if (count == 2 && opcode.starts_with("not.")) {
    const PtxValue x = a();
    if (width == 1) return x.exact() ? exactly(x.low == 0, x.by_lane) : PtxValue();
    return narrowed(sum(exactly(-1), x, -1), width);
  }
  if (count == 4) {
    if (opcode.starts_with("mad.lo.")) return narrowed(sum(product(a(), b()), get(operands[3]), 1), width);
    if (opcode.starts_with("mad.wide."))
      return sum(is_unsigned(one) ? product(ua(), ub()) : product(a(), b()), get(operands[3]), 1);
    if (opcode.starts_with("bfe.u")) {
      const PtxValue length = get(operands[3]);
      if (!length.exact() || length.low < 1 || length.low > 31) return {};
      return bitwise(shifted_right(ua(), b()), exactly(low_mask(static_cast<int>(length.low))), '&');
    }
  }
  return {};
}

PtxValue PtxValues::value(int reg, const State& state) const {
  const int index = index_[static_cast<size_t>(reg)];
  PtxValue value =
      index >= 0 && !state.empty() ? state[static_cast<size_t>(index)] : constants_[static_cast<size_t>(reg)];
  return value;
}

PtxValue PtxValues::value(const PtxOperand& operand, const State& state) const {
  switch (operand.kind) {
    case PtxOperand::Kind::kImmediate:
      return exactly(operand.value);
    case PtxOperand::Kind::kRegister:
      return value(operand.registers[0], state);
    case PtxOperand::Kind::kName:
      return of_name(operand.symbol);
    case PtxOperand::Kind::kAddress: {
      const PtxValue base = !operand.registers.empty() ? value(operand.registers[0], state)
                            : operand.symbol.empty()   ? exactly(0)
                                                       : of_name(operand.symbol);
      return sum(base, exactly(operand.value), 1);
    }
    default:
      return {};
  }
}

void PtxValues::find_constants() {
  const State none;
  const auto get = [&](const PtxOperand& operand) { return value(operand, none); };
  for (int pass = 0; pass < 3; ++pass) {
    bool changed = false;
    for (const PtxInstruction& one : function_.instructions) {
      if (!one.writes_first || one.operands.empty() || one.operands[0].registers.empty()) continue;
      if (one.operands[0].kind == PtxOperand::Kind::kAddress) continue;
      const int reg = one.operands[0].registers[0];
      if (definitions_[static_cast<size_t>(reg)] != 1) continue;
      PtxValue value = evaluate(one, get);
      if (!value.known()) continue;  // the lowest bits of what is not known may be known better along a path
      // What differs from thread to thread is a base of its own, from which others count.
      if (value.known() && !value.exact() && value.base < 0) value.base = reg, value.scale = 1, value.offset = 0;
      if (value == constants_[static_cast<size_t>(reg)]) continue;
      constants_[static_cast<size_t>(reg)] = value;
      changed = true;
    }
    if (!changed) break;
  }
}

void PtxValues::follow(const std::vector<bool>& sinks) {
  const auto count = static_cast<size_t>(function_.registers);
  // Registers that may be known: some instruction that writes them has nothing unknown to go by.
  std::vector<bool> knowable(count);
  for (size_t reg = 0; reg < count; ++reg) knowable[reg] = constants_[reg].kind != PtxValue::Kind::kUnknown;
  const auto is_knowable = [&](const PtxOperand& operand) {
    for (const int reg : operand.registers)
      if (!knowable[static_cast<size_t>(reg)]) return false;
    return operand.kind != PtxOperand::Kind::kName || of_name(operand.symbol).known();
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const PtxInstruction& one : function_.instructions) {
      if (!writes_register(one)) continue;
      bool may = one.is("mbarrier.try_wait") || one.is("mbarrier.test_wait") || one.is("elect.sync");
      static constexpr std::string_view kFollowed[] = {
          "mov.", "cvt.", "cvta", "mapa", "selp.", "add.", "sub.", "mul.", "mad.",  "shl.",      "shr.",
          "and.", "or.",  "xor.", "min.", "max.",  "bfe.", "rem.", "div.", "setp.", "shfl.sync", "not."};
      if (!may && !one.has(".f32") && !one.has(".f64") &&
          std::any_of(std::begin(kFollowed), std::end(kFollowed), [&](std::string_view p) { return one.is(p); })) {
        may = one.is("selp.") ? is_knowable(one.operands[1]) || is_knowable(one.operands[2])
              : one.is("or.pred") || one.is("and.")
                  ? is_knowable(one.operands[1]) || is_knowable(one.operands[2])
                  : std::all_of(one.operands.begin() + 1, one.operands.end(), is_knowable);
      }
      if (!may) continue;
      for (const int reg : one.operands[0].registers)
        if (!knowable[static_cast<size_t>(reg)]) knowable[static_cast<size_t>(reg)] = changed = true;
    }
  }
  // A number that is compared with known ones more than once: what one branch tells, another may go by.
  std::vector<int> compared_times(count);
  predicate_definitions_.assign(count, -1);
  for (size_t i = 0; i < function_.instructions.size(); ++i) {
    const PtxInstruction& one = function_.instructions[i];
    if (one.predicate >= 0 || one.operands.size() != 3 || one.operands[0].kind != PtxOperand::Kind::kRegister) continue;
    const auto predicate = static_cast<size_t>(one.operands[0].registers[0]);
    if (definitions_[predicate] != 1) continue;
    if (one.is("or.pred") || one.is("and.pred")) predicate_definitions_[predicate] = static_cast<int>(i);
    if (!one.is("setp.") || one.has(".f") || one.operands[1].kind != PtxOperand::Kind::kRegister ||
        one.operands[2].kind != PtxOperand::Kind::kImmediate)
      continue;
    predicate_definitions_[predicate] = static_cast<int>(i);
    const auto reg = static_cast<size_t>(one.operands[1].registers[0]);
    if (++compared_times[reg] == 2) knowable[reg] = true;
  }
  told_.assign(function_.instructions.size(), {});
  for (const PtxBlock& block : function_.blocks) {
    const auto last = static_cast<size_t>(block.end - 1);
    if (function_.instructions[last].predicate >= 0)
      find_told(block, function_.instructions[last].predicate, true, true, told_[last]);
  }
  // What branches and sinks go by.
  std::vector<bool> wanted = sinks;
  wanted.resize(count);
  for (const PtxInstruction& one : function_.instructions)
    if (one.predicate >= 0) wanted[static_cast<size_t>(one.predicate)] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (auto one = function_.instructions.rbegin(); one != function_.instructions.rend(); ++one) {
      if (!writes_register(*one)) continue;
      bool any = false;
      for (const int reg : one->operands[0].registers)
        any |= wanted[static_cast<size_t>(reg)] && knowable[static_cast<size_t>(reg)];
      if (!any) continue;
      for (size_t i = 1; i < one->operands.size(); ++i)
        for (const int reg : one->operands[i].registers)
          if (!wanted[static_cast<size_t>(reg)]) wanted[static_cast<size_t>(reg)] = changed = true;
    }
  }
  followed_.clear();
  only_compared_.clear();
  for (size_t reg = 0; reg < count; ++reg) {
    if (!knowable[reg] || !(wanted[reg] || compared_times[reg] >= 2)) continue;
    if (constants_[reg].kind != PtxValue::Kind::kUnknown) continue;
    only_compared_.push_back(!wanted[reg]);
    index_[reg] = static_cast<int>(followed_.size());
    followed_.push_back(static_cast<int>(reg));
  }
  thresholds_.assign(followed_.size(), {});
  for (const PtxInstruction& one : function_.instructions) {
    if (!one.is("setp.") || one.operands.size() != 3 || one.operands[1].kind != PtxOperand::Kind::kRegister) continue;
    const int at = index(one.operands[1].registers[0]);
    if (at < 0 || one.operands[2].kind != PtxOperand::Kind::kImmediate) continue;
    for (const int64_t around : {-1, 0, 1})
      thresholds_[static_cast<size_t>(at)].push_back(one.operands[2].value + around);
  }
  for (std::vector<int64_t>& thresholds : thresholds_) std::ranges::sort(thresholds);
  find_live();
}

void PtxValues::find_live() {
  const size_t count = followed_.size();
  live_.assign(function_.blocks.size(), std::vector<bool>(count));
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t number = function_.blocks.size(); number-- > 0;) {
      const PtxBlock& block = function_.blocks[number];
      std::vector<bool> live(count);
      for (const int next : block.successors)
        for (size_t i = 0; i < count; ++i) live[i] = live[i] || live_[static_cast<size_t>(next)][i];
      for (int at = block.end - 1; at >= block.begin; --at) {
        const PtxInstruction& one = function_.instructions[static_cast<size_t>(at)];
        const bool writes =
            one.writes_first && !one.operands.empty() && one.operands[0].kind != PtxOperand::Kind::kAddress;
        if (writes && one.predicate < 0)
          for (const int reg : one.operands[0].registers)
            if (index(reg) >= 0) live[static_cast<size_t>(index(reg))] = false;
        for (size_t i = writes ? 1 : 0; i < one.operands.size(); ++i)
          for (const int reg : one.operands[i].registers)
            if (index(reg) >= 0) live[static_cast<size_t>(index(reg))] = true;
        if (one.predicate >= 0 && index(one.predicate) >= 0) live[static_cast<size_t>(index(one.predicate))] = true;
      }
      if (live != live_[number]) live_[number] = live, changed = true;
    }
  }
}

void PtxValues::find_told(const PtxBlock& block, int predicate, bool where_true, bool where_false,
                          std::vector<Told>& told) const {
  const int definition = predicate_definitions_[static_cast<size_t>(predicate)];
  if (definition < 0) {
    told.push_back({predicate, -1, where_true, where_false});
    return;
  }
  const PtxInstruction& one = function_.instructions[static_cast<size_t>(definition)];
  if (!one.is("setp.")) {
    told.push_back({predicate, -1, where_true, where_false});
    // Where the definition is elsewhere, its parts may have been written again since.
    if (definition < block.begin || definition >= block.end) return;
    (one.is("or.pred") ? where_true : where_false) = false;
    if (!where_true && !where_false) return;
    for (const size_t part : {size_t{1}, size_t{2}})
      for (const int reg : one.operands[part].registers)
        if (definitions_[static_cast<size_t>(reg)] == 1) find_told(block, reg, where_true, where_false, told);
    return;
  }
  const int reg = one.operands[1].registers[0], last = block.end - 1;
  bool same = definitions_[static_cast<size_t>(reg)] == 1;
  if (definition >= block.begin && definition < last) {
    same = true;
    for (int i = definition + 1; i < last; ++i) {
      const PtxInstruction& between = function_.instructions[static_cast<size_t>(i)];
      if (writes_register(between))
        same &= std::ranges::find(between.operands[0].registers, reg) == between.operands[0].registers.end();
    }
  }
  told.push_back({predicate, same ? definition : -1, where_true, where_false});
}

void PtxValues::assume(int branch, bool truth, State& state) const {
  const auto of = static_cast<size_t>(branch);
  const int own = index(function_.instructions[of].predicate);
  if (own >= 0) state[static_cast<size_t>(own)] = exactly(truth);
  for (const Told& told : told_[of]) {
    if (!(truth ? told.where_true : told.where_false)) continue;
    const int at = index(told.predicate);
    if (at >= 0) state[static_cast<size_t>(at)] = exactly(truth);
    if (told.comparison >= 0)
      assume_comparison(function_.instructions[static_cast<size_t>(told.comparison)], truth, state);
  }
}

void PtxValues::assume_comparison(const PtxInstruction& one, bool truth, State& state) const {
  const int compared_index = index(one.operands[1].registers[0]);
  if (compared_index < 0) return;
  PtxValue& value = state[static_cast<size_t>(compared_index)];
  const int64_t with = one.operands[2].value;
  // A bound is worth more than the lowest bits.
  if (value.kind == PtxValue::Kind::kLowBits && !is_unsigned(one)) value = {};
  if (value.kind == PtxValue::Kind::kLowBits || value.exact() ||
      (is_unsigned(one) && !(value.known() && value.low >= 0)))
    return;
  std::string_view how = after_dot(one.opcode).substr(0, 2);
  if (!truth)
    how = how == "lt" ? "ge" : how == "le" ? "gt" : how == "gt" ? "le" : how == "ge" ? "lt" : how == "ne" ? "eq" : "ne";
  if (value.kind == PtxValue::Kind::kUnknown) value = between(INT64_MIN, INT64_MAX, true);
  if (how == "lt") value.high = std::min(value.high, with - 1);
  if (how == "le") value.high = std::min(value.high, with);
  if (how == "gt") value.low = std::max(value.low, with + 1);
  if (how == "ge") value.low = std::max(value.low, with);
  if (how == "eq") value.low = std::max(value.low, with), value.high = std::min(value.high, with);
  if (value.low > value.high || (value.low == INT64_MIN && value.high == INT64_MAX)) value = {};
}

bool PtxValues::writes_followed(const PtxInstruction& one) const {
  if (!one.writes_first || one.operands.empty() || one.operands[0].kind == PtxOperand::Kind::kAddress) return false;
  return std::any_of(one.operands[0].registers.begin(), one.operands[0].registers.end(),
                     [&](int reg) { return index(reg) >= 0; });
}

void PtxValues::execute(const PtxInstruction& one, State& state) const {
  PtxValue result = evaluate(one, [&](const PtxOperand& operand) { return value(operand, state); });
  if (one.predicate >= 0) {
    const PtxValue condition = value(one.predicate, state);
    if (condition.exact() && (condition.low != 0) == one.negated) return;
    const int index_of = index(one.operands[0].registers[0]);
    if (!condition.exact() && index_of >= 0) result = joined(result, state[static_cast<size_t>(index_of)]);
  }
  // Of two results the first is meant: of shfl and setp the second is the opposite or a predicate nobody follows.
  bool first = true;
  for (const int reg : one.operands[0].registers) {
    if (index(reg) >= 0 && only_compared_[static_cast<size_t>(index(reg))] && (!one.is("mov.") || result.exact()))
      state[static_cast<size_t>(index(reg))] = {};
    else if (index(reg) >= 0)
      state[static_cast<size_t>(index(reg))] = first || one.opcode == "elect.sync" ? result : PtxValue();
    first = false;
  }
}

}  // namespace causeway::codegen
