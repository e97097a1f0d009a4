// How scatter_add.h cuts its work, and what lies where in its workspace, for the kernel and for the host that launches
// it.
#pragma once

#include "causeway/kernels/types.h"

constexpr int kFewUpdates = 32;  // that are not sorted: one launch, whose threads look at all indices

constexpr int kSortThreads = 512;  // of a block that sorts
constexpr int kDigitBits = 9;      // of a key that one pass sorts by: a digit for each thread of a block
constexpr int kSortBlocks = 128;   // at most, each with a chunk of the updates
constexpr int kSortMostPasses = 7;
constexpr int kSumThreads = 256;  // of a block that adds
constexpr int kSumWindow = 32;    // neighbouring updates, in the order of their indices, that a team adds
// Elements of each wave and digit, and of each digit where its next one goes. Waves have 32 threads or more.
constexpr int kSortSharedBytes = kSortThreads / 32 * (1 << kDigitBits) * 4 + (1 << kDigitBits) * 8;

static_assert(kSortThreads == 1 << kDigitBits, "a thread counts one digit");

// Keys are 0 .. rows; `rows` is that of an index outside.
constexpr int sort_passes(int64_t rows) {
  int passes = 1;
  for (int64_t rest = rows >> kDigitBits; rest > 0; rest >>= kDigitBits) ++passes;
  return passes;
}

// Updates of one block.
constexpr int64_t sort_chunk(int64_t updates) {
  constexpr int64_t kAtOnce = int64_t{kSortBlocks} * kSortThreads;
  return (updates + kAtOnce - 1) / kAtOnce * kSortThreads;
}
constexpr int64_t sort_blocks(int64_t updates) {
  return updates == 0 ? 0 : (updates + sort_chunk(updates) - 1) / sort_chunk(updates);
}
constexpr int64_t sum_windows(int64_t updates) { return (updates + kSumWindow - 1) / kSumWindow; }

// The workspace: two lists of updates with their keys, which the passes write alternately, the counts of each block's
// digits, and then sums of parts of runs: `rows_bytes` for each window's first and last run. Positions are in indices
// of `index_bytes`, or in bytes where they say so.
constexpr int64_t sort_list(int64_t updates, int list) { return 2 * updates * list; }
constexpr int64_t sort_counts(int64_t updates) { return 4 * updates; }
constexpr int64_t partial_sums_byte(int64_t updates, int64_t index_bytes) {
  return ((4 * updates + sort_blocks(updates) * kSortThreads) * index_bytes + 15) / 16 * 16;
}
constexpr int64_t scatter_workspace_bytes(int64_t updates, int64_t index_bytes, int64_t rows_bytes) {
  const int64_t windows = sum_windows(updates);
  return partial_sums_byte(updates, index_bytes) + (windows > 1 ? 2 * windows * rows_bytes : 0);
}
