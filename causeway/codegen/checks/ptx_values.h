// What is known of integers in PTX without running it: for one thread, or for any thread of a block. Addresses in
// shared memory, the places of rings, and what branches go by are followed; all else is unknown.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "causeway/codegen/checks/ptx_text.h"
#include "causeway/kernels/interval.h"

namespace causeway::codegen {

// A number between two bounds; a number whose lowest bits are known; or nothing.
struct PtxValue {
  enum class Kind : uint8_t { kUnknown, kRange, kLowBits };
  Kind kind = Kind::kUnknown;
  uint8_t bits = 0;      // known of kLowBits, which `low` has
  bool by_lane = false;  // may differ between the lanes of a warp
  // This is scale x base + offset, base being a register that is the same all along, or kThread; -1: none known.
  static constexpr int kThread = 1 << 30;
  int base = -1;
  int64_t low = 0, high = 0;
  int64_t scale = 0, offset = 0;

  bool operator==(const PtxValue&) const = default;
  bool known() const { return kind == Kind::kRange; }
  bool exact() const { return known() && low == high; }
  Interval<int64_t> interval() const { return {low, high}; }
};

// The thread that is followed: one, or any (`thread` < 0) of so many.
struct PtxRole {
  int thread = -1;
  int threads = 1024;
  bool elected = false;  // by elect.sync, in its warp
};

class PtxValues {
 public:
  PtxValues(const PtxModule& module, const PtxFunction& function, const PtxRole& role);

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
  template <class Get>
  PtxValue evaluate(const PtxInstruction& one, Get&& get) const;
  PtxValue of_name(const std::string& name) const;
  void find_constants();
  void find_live();

  const PtxModule& module_;
  const PtxFunction& function_;
  PtxRole role_;
  // What a branch tells: of `predicate`, and of the number that it compared, where that is still the same. Parts of
  // "or" are told where it is false, parts of "and" where it is true.
  struct Told {
    int predicate;
    int comparison;  // an instruction; -1: of the predicate alone
    bool where_true, where_false;
  };
  void find_told(const PtxBlock& block, int predicate, bool where_true, bool where_false,
                 std::vector<Told>& told) const;
  void assume_comparison(const PtxInstruction& one, bool truth, State& state) const;
  std::vector<int>
      predicate_definitions_;            // of a predicate that is written once, always: the instruction; -1 elsewhere
  std::vector<std::vector<Told>> told_;  // of a branch
  std::vector<int> definitions_;         // how many instructions write a register; twice where one may not be executed
  std::vector<PtxValue> constants_;      // of registers that are written once, from such
  std::vector<int> followed_, index_;
  // Of followed registers: nothing but what branches tell is of use.
  std::vector<bool> only_compared_;
  std::vector<std::vector<bool>> live_;
  std::vector<std::vector<int64_t>> thresholds_;
};

}  // namespace causeway::codegen
