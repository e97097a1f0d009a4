// What normal_values.h makes in one launch, for the kernel and for the host that launches it.
#pragma once

#include "causeway/kernels/types.h"

constexpr int kNormalThreads = 256;        // of a block on a GPU
constexpr int kNormalGroupsOfThread = 4;   // of four values each
constexpr int64_t kNormalPiece = 1 << 14;  // values that a processor's worker makes at a time

// The sizes of a launch, in this order. It makes runs of `length` neighbours in a tensor, the first one at index
// `first` and each `stride` behind the one before; in memory one run follows the other, from element `place` on.
struct NormalValuesTask {
  int64_t seed, stream;
  int64_t deviation_bits;  // of the standard deviation, a double
  int64_t first, runs, length, stride;
  int64_t place;
  int64_t halves;  // where memory has first the upper halves of all its elements, how many those are; otherwise 0

  // Groups of four indices, beginning at a multiple of four, that a run may lie in.
  constexpr int64_t groups_of_run() const {
    const bool aligned = (first | stride | length) % 4 == 0;
    return aligned ? length / 4 : (length + 2) / 4 + 1;
  }
};
constexpr int kNormalSizes = sizeof(NormalValuesTask) / sizeof(int64_t);
