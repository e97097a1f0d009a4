// The blocking of a gemm on x86-64, and all sizes that follow from it: shared by the kernel text (gemm.h) and by
// the host that chooses the blocking and launches the kernel (codegen/x86/gemm_geometry.h), so that the two cannot
// disagree.
#pragma once

#include "causeway/kernels/types.h"

enum class GemmPath : int {
  kPackA,          // phase 1 packs A; phase 2 packs a block of B and meets it with A's panels
  kPackB,          // phase 1 packs B; phase 2 packs a block of A and meets it with B's panels
  kSkinny,         // a few rows: nothing is packed beforehand, B is streamed once, in f32
  kSkinnySwapped,  // a few columns: the same on the transposed problem
};

struct GemmBlocks {
  GemmPath path;
  bool pairs;                 // operands are packed as pairs of bf16 along k, otherwise as float
  int64_t tile_rows;          // of the micro-kernel
  int64_t tile_columns;       // of the micro-kernel
  int64_t m;                  // rows of one phase-2 task; packed paths: a multiple of tile_rows
  int64_t n;                  // columns of one phase-2 task; packed paths: a multiple of tile_columns
  int64_t k;                  // packed paths: terms summed in registers before the sum goes to memory; even
                              // skinny paths: terms of the few rows that wait in scratch
  bool matrix_tiles = false;  // packed paths of pairs: by the registers of matrix_tiles.h
};

constexpr int64_t gemm_ceil_div(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }
constexpr int64_t gemm_round_up(int64_t value, int64_t unit) { return gemm_ceil_div(value, unit) * unit; }
constexpr int64_t gemm_min(int64_t a, int64_t b) { return a < b ? a : b; }

// Rows (of A) or columns (of B) that one phase-1 task packs: a multiple of every tile's rows and columns.
constexpr int64_t kGemmPackGroup = 192;

// 32-bit words that hold `terms` consecutive terms of k; of matrix registers, whole rows of 16.
constexpr int64_t gemm_words(const GemmBlocks& blocks, int64_t terms) {
  const int64_t words = blocks.pairs ? gemm_ceil_div(terms, 2) : terms;
  return blocks.matrix_tiles ? gemm_round_up(words, 16) : words;
}

constexpr bool gemm_is_skinny(const GemmBlocks& blocks) {
  return blocks.path == GemmPath::kSkinny || blocks.path == GemmPath::kSkinnySwapped;
}

// Blocks of k; at least one, so that an empty sum still reaches the epilogue.
constexpr int64_t gemm_k_blocks(const GemmBlocks& blocks, int64_t k) { return k == 0 ? 1 : gemm_ceil_div(k, blocks.k); }

// Words of the packed operand of one batch entry: panels of tile_rows (A) or tile_columns (B), the last one padded.
constexpr int64_t gemm_packed_words(const GemmBlocks& blocks, int64_t m, int64_t n, int64_t k) {
  int64_t padded =
      blocks.path == GemmPath::kPackA ? gemm_round_up(m, blocks.tile_rows) : gemm_round_up(n, blocks.tile_columns);
  return padded * gemm_words(blocks, k);
}

constexpr int64_t gemm_workspace_bytes(const GemmBlocks& blocks, int64_t batch, int64_t m, int64_t n, int64_t k) {
  return gemm_is_skinny(blocks) ? 0 : 4 * batch * gemm_packed_words(blocks, m, n, k);
}

// Phase-1 tasks; 0 when the phase is skipped.
constexpr int64_t gemm_pack_tasks(const GemmBlocks& blocks, int64_t batch, int64_t m, int64_t n, int64_t k) {
  if (gemm_is_skinny(blocks)) return 0;
  return batch * gemm_k_blocks(blocks, k) * gemm_ceil_div(blocks.path == GemmPath::kPackA ? m : n, kGemmPackGroup);
}

// Phase-2 tasks.
constexpr int64_t gemm_run_tasks(const GemmBlocks& blocks, int64_t batch, int64_t m, int64_t n) {
  return batch * gemm_ceil_div(m, blocks.m) * gemm_ceil_div(n, blocks.n);
}

// Skinny paths: floats from one of the few rows to the next. Padded to a vector, and by one more, so that rows of a
// power of two terms do not compete for the same lines of the first cache level.
constexpr int64_t gemm_skinny_stride(const GemmBlocks& blocks, int64_t k) {
  return gemm_round_up(gemm_min(k, blocks.k), 16) + 16;
}

// Columns whose sums wait for one another with matrix registers.
constexpr int64_t kGemmColumnsTogether = 256;

// Scratch of one phase-2 worker. Packed paths: the operand packed on the fly, then the task's sums when k has several
// blocks, and with matrix registers those of kGemmColumnsTogether columns when it has one. Skinny paths: a block of k
// of the few rows, in f32, then their sums. An unknown k is given as -1.
constexpr int64_t gemm_scratch_bytes(const GemmBlocks& blocks, int64_t m, int64_t n, int64_t k) {
  if (blocks.path == GemmPath::kSkinny) return 4 * m * (gemm_skinny_stride(blocks, k) + blocks.n);
  if (blocks.path == GemmPath::kSkinnySwapped) return 4 * n * (gemm_skinny_stride(blocks, k) + blocks.m);
  int64_t operand = gemm_words(blocks, blocks.k) * (blocks.path == GemmPath::kPackB ? blocks.m : blocks.n);
  int64_t sums = k < 0 || k > blocks.k ? blocks.m * blocks.n
                 : blocks.matrix_tiles ? blocks.m * kGemmColumnsTogether
                                       : 0;
  return 4 * (operand + sums);
}
