// What fusion weighs differently on a processor and on a GPU.
#pragma once

#include <cstdint>

#include "causeway/device/target.h"

namespace causeway::program {

// Costs are in simple operations for each element.
struct FusionRules {
  // A value with several uses is stored from this cost on. `repeats_count_once`: a node that the value depends on in
  // several ways counts once, because one kernel computes it once.
  int cheap_to_repeat;
  bool repeats_count_once;
  // Bytes decide whether reading a value beats reading what it is computed from, not the number of tensors.
  bool bytes_decide;
  // GEMMs pack their operands, and may convert them on the way.
  bool packs_operands;
  // What the epilogue of a GEMM may cost, unless the GEMM is skinny.
  int cheap_epilogue;
  // A scatter-add of at most so many updates computes them where it adds them.
  int64_t few_updates;
  // Column sums, and values computed from the same tensors, share a pass over them.
  bool joins_column_sums;
  // Copies in another order go through shared memory, in a kernel of their own.
  bool copies_alone;
  // Unless they are of 8-bit numbers: what computes these stores them in both orders.
  bool stores_both_orders;
  // A launch costs microseconds, however little it does.
  bool shares_launches;
};

// The only place that maps a target to its rules. `fixed_order`: of KernelRequest.
FusionRules fusion_rules(const Target& target, bool fixed_order);

}  // namespace causeway::program
