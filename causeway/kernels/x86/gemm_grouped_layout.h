// Tasks and scratch of GEMMs of groups of rows on x86-64 (gemm_grouped.h), for the kernel text and the host that
// launches it. Of the blocks, the path is not asked for.
#pragma once

#include "causeway/kernels/grouped_rows.h"
#include "causeway/kernels/x86/gemm_layout.h"

// Words of a line of a packed block; k: all that there can be.
constexpr int64_t grouped_gemm_words(const GemmBlocks& blocks, int64_t k) {
  return gemm_words(blocks, gemm_min(k, blocks.k));
}

// A block of each operand, and its sums.
constexpr int64_t grouped_gemm_scratch_bytes(const GemmBlocks& blocks, int64_t k) {
  return 4 * (grouped_gemm_words(blocks, k) * (blocks.m + blocks.n) + blocks.m * blocks.n);
}

// Each row times its group's matrix.
constexpr int64_t grouped_gemm_row_tasks(const GemmBlocks& blocks, int64_t slabs, int64_t groups, int64_t m,
                                         int64_t n) {
  return slabs * grouped_row_tiles(m, groups, blocks.m) * gemm_ceil_div(n, blocks.n);
}
