// What a branch of PTX tells of the predicates that it goes by, and of the numbers that those compare.
#pragma once

#include <vector>

#include "causeway/codegen/checks/ptx_text.h"

namespace causeway::codegen {

class PtxBranches {
 public:
  // The function outlives it. `definitions`: how many instructions write a register; twice where one may not be
  // executed.
  PtxBranches(const PtxFunction& function, const std::vector<int>& definitions);

  // Of `predicate`, and of the number that it compared, where that is still the same. Parts of "or" are told where it
  // is false, parts of "and" where it is true.
  struct Told {
    int predicate;
    int comparison;  // an instruction; -1: of the predicate alone
    bool where_true, where_false;
  };
  const std::vector<Told>& told(int branch) const { return told_[static_cast<size_t>(branch)]; }
  // How often a register is compared with a known number.
  int comparisons(int reg) const { return comparisons_[static_cast<size_t>(reg)]; }

 private:
  void find_told(const PtxBlock& block, int predicate, bool where_true, bool where_false,
                 std::vector<Told>& told) const;

  const PtxFunction& function_;
  const std::vector<int> definitions_;
  std::vector<int> predicate_definitions_;  // of one that is written once, always: the instruction; -1 elsewhere
  std::vector<int> comparisons_;
  std::vector<std::vector<Told>> told_;  // of a branch
};

}  // namespace causeway::codegen
