// What is known of integers in PTX without running it: for one thread, or for any thread of a block. Addresses in
// shared memory, the places of rings, and what branches go by are followed; all else is unknown.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "causeway/codegen/checks/ptx_branches.h"
#include "causeway/codegen/checks/ptx_text.h"
#include "causeway/codegen/checks/ptx_value.h"

namespace causeway::codegen {

// The thread that is followed: one, or any (`thread` < 0) of so many.
struct PtxRole {
  int thread = -1;
  int threads = 1024;
  bool elected = false;  // by elect.sync, in its warp
};

class PtxValues {
 public:
  PtxValues(const PtxModule& module, const PtxFunction& function, const PtxRole& role);

  const PtxRole& role() const { return role_; }
  // Where a name in shared memory begins; nothing for other names.
  std::optional<int64_t> place(const std::string& symbol) const;

  // The registers whose values differ along a path and matter to branches, and to what `sinks` marks, by their numbers.
  // `sinks`: registers that are asked for.
  const std::vector<int>& followed() const { return followed_; }
  int index(int reg) const { return index_[static_cast<size_t>(reg)]; }
  void follow(const std::vector<bool>& sinks);

  // Around the numbers that a followed register is compared with, in order.
  const std::vector<int64_t>& thresholds(int index) const { return thresholds_[static_cast<size_t>(index)]; }

  // A state's values, of followed().
  using State = std::vector<PtxValue>;
  PtxValue value(int reg, const State& state) const;
  PtxValue value(const PtxOperand& operand, const State& state) const;
  // Executes what writes followed registers; nothing else.
  void execute(const PtxInstruction& one, State& state) const;
  bool writes_followed(const PtxInstruction& one) const;
  // What it tells that the predicate of the branch, which is an instruction's number, is true or not: of predicates,
  // and of the numbers that they compare with known ones.
  void assume(int branch, bool truth, State& state) const;
  // What of the state matters at the beginning of a block.
  const std::vector<std::vector<bool>>& live() const { return live_; }

 private:
  PtxValue of_name(const std::string& name) const;
  void find_constants();
  void find_live();
  void assume_comparison(const PtxInstruction& one, bool truth, State& state) const;

  const PtxModule& module_;
  const PtxFunction& function_;
  PtxRole role_;
  std::optional<PtxBranches> branches_;  // of follow()
  std::vector<int> definitions_;         // how many instructions write a register; twice where one may not be executed
  std::vector<PtxValue> constants_;      // of registers that are written once, from such
  std::vector<int> followed_, index_;
  // Of followed registers: nothing but what branches tell is of use.
  std::vector<bool> only_compared_;
  std::vector<std::vector<bool>> live_;
  std::vector<std::vector<int64_t>> thresholds_;
};

}  // namespace causeway::codegen
