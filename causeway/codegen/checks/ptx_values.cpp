#include "causeway/codegen/checks/ptx_values.h"

#include <algorithm>

#include "causeway/codegen/checks/ptx_evaluation.h"

namespace causeway::codegen {
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
    PtxValue thread = role_.thread < 0 ? PtxValue::between(0, last, true) : PtxValue::exactly(role_.thread);
    thread.by_lane = true;
    if (!thread.exact()) thread.base = PtxValue::kThread, thread.scale = 1;
    return thread;
  }
  if (name == "%laneid") {
    PtxValue lane =
        role_.thread < 0 ? PtxValue::between(0, std::min(31, last), true) : PtxValue::exactly(role_.thread % 32);
    lane.by_lane = true;
    return lane;
  }
  if (name == "%tid.y" || name == "%tid.z") return PtxValue::exactly(0);
  if (const auto found = place(name)) return PtxValue::exactly(*found);
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
      return PtxValue::exactly(operand.value);
    case PtxOperand::Kind::kRegister:
      return value(operand.registers[0], state);
    case PtxOperand::Kind::kName:
      return of_name(operand.symbol);
    case PtxOperand::Kind::kAddress: {
      const PtxValue base = !operand.registers.empty() ? value(operand.registers[0], state)
                            : operand.symbol.empty()   ? PtxValue::exactly(0)
                                                       : of_name(operand.symbol);
      return PtxValue::sum(base, PtxValue::exactly(operand.value), 1);
    }
    default:
      return {};
  }
}

void PtxValues::find_constants() {
  const State none;
  for (int pass = 0; pass < 3; ++pass) {
    bool changed = false;
    for (const PtxInstruction& one : function_.instructions) {
      if (!one.writes_first || one.operands.empty() || one.operands[0].registers.empty()) continue;
      if (one.operands[0].kind == PtxOperand::Kind::kAddress) continue;
      const int reg = one.operands[0].registers[0];
      if (definitions_[static_cast<size_t>(reg)] != 1) continue;
      PtxValue value = evaluate_ptx(one, *this, none);
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
      if (!one.writes_register()) continue;
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
  branches_.emplace(function_, definitions_);
  const auto is_compared = [&](size_t reg) { return branches_->comparisons(static_cast<int>(reg)) >= 2; };
  for (size_t reg = 0; reg < count; ++reg) knowable[reg] = knowable[reg] || is_compared(reg);
  // What branches and sinks go by.
  std::vector<bool> wanted = sinks;
  wanted.resize(count);
  for (const PtxInstruction& one : function_.instructions)
    if (one.predicate >= 0) wanted[static_cast<size_t>(one.predicate)] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (auto one = function_.instructions.rbegin(); one != function_.instructions.rend(); ++one) {
      if (!one->writes_register()) continue;
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
    if (!knowable[reg] || !(wanted[reg] || is_compared(reg))) continue;
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

void PtxValues::assume(int branch, bool truth, State& state) const {
  const auto of = static_cast<size_t>(branch);
  const int own = index(function_.instructions[of].predicate);
  if (own >= 0) state[static_cast<size_t>(own)] = PtxValue::exactly(truth);
  for (const PtxBranches::Told& told : branches_->told(branch)) {
    if (!(truth ? told.where_true : told.where_false)) continue;
    const int at = index(told.predicate);
    if (at >= 0) state[static_cast<size_t>(at)] = PtxValue::exactly(truth);
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
  if (value.kind == PtxValue::Kind::kLowBits && !one.is_unsigned()) value = {};
  if (value.kind == PtxValue::Kind::kLowBits || value.exact() ||
      (one.is_unsigned() && !(value.known() && value.low >= 0)))
    return;
  std::string_view how = one.after_dot().substr(0, 2);
  if (!truth)
    how = how == "lt" ? "ge" : how == "le" ? "gt" : how == "gt" ? "le" : how == "ge" ? "lt" : how == "ne" ? "eq" : "ne";
  if (value.kind == PtxValue::Kind::kUnknown) value = PtxValue::between(INT64_MIN, INT64_MAX, true);
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
  PtxValue result = evaluate_ptx(one, *this, state);
  if (one.predicate >= 0) {
    const PtxValue condition = value(one.predicate, state);
    if (condition.exact() && (condition.low != 0) == one.negated) return;
    const int index_of = index(one.operands[0].registers[0]);
    if (!condition.exact() && index_of >= 0) result = PtxValue::joined(result, state[static_cast<size_t>(index_of)]);
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
