#include "causeway/codegen/checks/ptx_wgmma.h"

#include <algorithm>
#include <deque>
#include <optional>

namespace causeway::codegen {
namespace {

constexpr uint8_t kNone = 0xff, kOldest = 16;  // more commits than these are counted as these

// Of a register that MMAs use: how many groups were committed since the youngest MMA that writes or reads it,
// kNone where none is under way, and which instruction that was; the instruction that wrote it since the last fence.
struct Use {
  uint8_t written = kNone, read = kNone;
  int writer = -1, reader = -1;
  int unfenced = -1;

  bool join(const Use& other) {
    bool changed = false;
    const auto take = [&](uint8_t& age, int& which, uint8_t other_age, int other_which) {
      if (other_age >= age) return;
      age = other_age, which = other_which, changed = true;
    };
    take(written, writer, other.written, other.writer);
    take(read, reader, other.read, other.reader);
    if (unfenced < 0 && other.unfenced >= 0) unfenced = other.unfenced, changed = true;
    return changed;
  }
};
using WgmmaState = std::vector<Use>;

class WgmmaCheck {
 public:
  WgmmaCheck(const PtxFunction& function, FunctionCheck& check) : function_(function), check_(check) {}

  void run() {
    number_registers();
    if (count_ == 0) return;
    states_.resize(function_.blocks.size());
    WgmmaState entry(static_cast<size_t>(count_));
    // What a kernel begins with was written by nobody, and the first MMA needs a fence nevertheless.
    for (Use& use : entry) use.unfenced = 0;
    states_[0] = std::move(entry);
    std::deque<int> work = {0};
    while (!work.empty()) {
      const int number = work.front();
      work.pop_front();
      WgmmaState state = *states_[static_cast<size_t>(number)];
      walk(number, state, false);
      for (const int next : function_.blocks[static_cast<size_t>(number)].successors) {
        std::optional<WgmmaState>& known = states_[static_cast<size_t>(next)];
        bool changed = !known;
        if (!known) {
          known = state;
        } else {
          for (size_t i = 0; i < state.size(); ++i) changed |= (*known)[i].join(state[i]);
        }
        if (changed && std::ranges::find(work, next) == work.end()) work.push_back(next);
      }
    }
    for (size_t number = 0; number < states_.size(); ++number) {
      if (!states_[number]) continue;
      WgmmaState state = *states_[number];
      walk(static_cast<int>(number), state, true);
    }
  }

 private:
  static bool is_gemm(const PtxInstruction& one) { return one.is("wgmma.mma_async"); }

  void number_registers() {
    index_.assign(static_cast<size_t>(function_.registers), -1);
    for (const PtxInstruction& one : function_.instructions) {
      if (!is_gemm(one)) continue;
      for (size_t i = 0; i < 2 && i < one.operands.size(); ++i)
        if (one.operands[i].kind == PtxOperand::Kind::kVector)
          for (const int reg : one.operands[i].registers)
            if (index_[static_cast<size_t>(reg)] < 0) index_[static_cast<size_t>(reg)] = count_++;
    }
  }

  Use* use_of(WgmmaState& state, int reg) const {
    const int index = index_[static_cast<size_t>(reg)];
    return index < 0 ? nullptr : &state[static_cast<size_t>(index)];
  }

  const PtxInstruction& at(int i) const { return function_.instructions[static_cast<size_t>(i)]; }

  void report(int i, const std::string& fault) {
    check_.findings.push_back({static_cast<uint64_t>(at(i).line), at(i).text.substr(0, 100), fault});
  }

  void walk(int number, WgmmaState& state, bool reports) {
    const PtxBlock& block = function_.blocks[static_cast<size_t>(number)];
    for (int i = block.begin; i < block.end; ++i) {
      const PtxInstruction& one = at(i);
      // Whether it is executed is not known: what it waits for may be under way still.
      const bool surely = one.predicate < 0;
      if (is_gemm(one)) {
        wgmma(i, state, reports);
      } else if (one.is("wgmma.fence")) {
        if (surely)
          for (Use& use : state) use.unfenced = -1;
      } else if (one.is("wgmma.commit_group")) {
        for (Use& use : state) {
          if (surely && use.written != kNone && use.written < kOldest) ++use.written;
          if (surely && use.read != kNone && use.read < kOldest) ++use.read;
        }
      } else if (one.is("wgmma.wait_group")) {
        const int64_t kept = one.operands.empty() ? 0 : one.operands[0].value;
        for (Use& use : state) {
          if (surely && use.written != kNone && use.written > kept && use.written > 0) use.written = kNone;
          if (surely && use.read != kNone && use.read > kept && use.read > 0) use.read = kNone;
        }
      } else {
        other(i, state, reports);
      }
    }
  }

  void wgmma(int i, WgmmaState& state, bool reports) {
    const PtxInstruction& one = at(i);
    for (size_t operand = 0; operand < 2 && operand < one.operands.size(); ++operand) {
      if (one.operands[operand].kind != PtxOperand::Kind::kVector) continue;
      bool said = !reports;
      for (const int reg : one.operands[operand].registers) {
        Use& use = *use_of(state, reg);
        if (use.unfenced >= 0 && !said) {
          report(i, name(reg) + (use.unfenced == 0 ? std::string(" is used with no wgmma.fence before")
                                                   : " is used with no wgmma.fence since line " +
                                                         std::to_string(at(use.unfenced).line) + " wrote it"));
          said = true;
        }
        if (operand == 1 && use.written != kNone && !said) {
          report(i, name(reg) + " is read as A while " + under_way(use.writer) + " writes it");
          said = true;
        }
        if (operand == 0) {
          use.written = 0, use.writer = i;
        } else {
          use.read = 0, use.reader = i;
        }
      }
    }
    // The descriptors, and whether to accumulate, are read as by any instruction.
    for (size_t operand = 1; operand < one.operands.size(); ++operand)
      if (one.operands[operand].kind == PtxOperand::Kind::kRegister)
        touch(i, one.operands[operand].registers, false, state, reports);
  }

  void other(int i, WgmmaState& state, bool reports) {
    const PtxInstruction& one = at(i);
    for (size_t operand = 0; operand < one.operands.size(); ++operand) {
      const bool writes = operand == 0 && one.writes_first && one.operands[0].kind != PtxOperand::Kind::kAddress;
      touch(i, one.operands[operand].registers, writes, state, reports);
      touch(i, one.operands[operand].more, false, state, reports);
    }
    if (one.predicate >= 0) touch(i, {one.predicate}, false, state, reports);
  }

  void touch(int i, const std::vector<int>& registers, bool writes, WgmmaState& state, bool reports) {
    for (const int reg : registers) {
      Use* use = use_of(state, reg);
      if (use == nullptr) continue;
      if (use->written != kNone && reports)
        report(i,
               name(reg) + (writes ? " is written" : " is read") + " while " + under_way(use->writer) + " writes it");
      if (writes && use->read != kNone && reports)
        report(i, name(reg) + " is written while " + under_way(use->reader) + " reads it");
      if (!writes) continue;
      use->unfenced = i;
      use->written = use->read = kNone;  // said once
    }
  }

  std::string name(int reg) const { return function_.register_names[static_cast<size_t>(reg)]; }
  std::string under_way(int wgmma) const {
    return "the wgmma at line " + std::to_string(at(wgmma).line) + ", which no wgmma.wait_group has covered,";
  }

  const PtxFunction& function_;
  FunctionCheck& check_;
  std::vector<int> index_;
  int count_ = 0;
  std::vector<std::optional<WgmmaState>> states_;
};

}  // namespace

void check_ptx_wgmma(const PtxFunction& function, FunctionCheck& check) { WgmmaCheck(function, check).run(); }

}  // namespace causeway::codegen
