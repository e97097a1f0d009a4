// The blocking of a matmul on x86-64, and all sizes that follow from it: shared by the kernel text (matmul.h) and by
// the host that chooses the blocking and launches the kernel (codegen/x86/matmul_geometry.h), so that the two cannot
// disagree.
#pragma once

#include "causeway/kernels/types.h"

enum class MatmulPath : int {
  kPackA,        // phase 1 packs A; phase 2 packs a block of B and meets it with A's panels
  kPackB,        // phase 1 packs B; phase 2 packs a block of A and meets it with B's panels
  kThin,         // a few rows: nothing is packed beforehand, B is streamed once, in f32
  kThinSwapped,  // a few columns: the same on the transposed problem
};

struct MatmulBlocks {
  MatmulPath path;
  bool pairs;                 // operands are packed as pairs of bf16 along k, otherwise as float
  int64_t tile_rows;          // of the micro-kernel
  int64_t tile_columns;       // of the micro-kernel
  int64_t m;                  // rows of one phase-2 task; packed paths: a multiple of tile_rows
  int64_t n;                  // columns of one phase-2 task; packed paths: a multiple of tile_columns
  int64_t k;                  // packed paths: terms summed in registers before the sum goes to memory; even
                              // thin paths: terms of the few rows that wait in scratch
  bool matrix_tiles = false;  // packed paths of pairs: by the registers of matrix_tiles.h
};

constexpr int64_t matmul_ceil_div(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }
constexpr int64_t matmul_round_up(int64_t value, int64_t unit) { return matmul_ceil_div(value, unit) * unit; }
constexpr int64_t matmul_min(int64_t a, int64_t b) { return a < b ? a : b; }

// Rows (of A) or columns (of B) that one phase-1 task packs: a multiple of every tile's rows and columns.
constexpr int64_t kMatmulPackGroup = 192;

// 32-bit words that hold `terms` consecutive terms of k; of matrix registers, whole rows of 16.
constexpr int64_t matmul_words(const MatmulBlocks& blocks, int64_t terms) {
  const int64_t words = blocks.pairs ? matmul_ceil_div(terms, 2) : terms;
  return blocks.matrix_tiles ? matmul_round_up(words, 16) : words;
}

constexpr bool matmul_is_thin(const MatmulBlocks& blocks) {
  return blocks.path == MatmulPath::kThin || blocks.path == MatmulPath::kThinSwapped;
}

// Blocks of k; at least one, so that an empty sum still reaches the epilogue.
constexpr int64_t matmul_k_blocks(const MatmulBlocks& blocks, int64_t k) {
  return k == 0 ? 1 : matmul_ceil_div(k, blocks.k);
}

// Words of the packed operand of one batch entry: panels of tile_rows (A) or tile_columns (B), the last one padded.
constexpr int64_t matmul_packed_words(const MatmulBlocks& blocks, int64_t m, int64_t n, int64_t k) {
  int64_t padded = blocks.path == MatmulPath::kPackA ? matmul_round_up(m, blocks.tile_rows)
                                                     : matmul_round_up(n, blocks.tile_columns);
  return padded * matmul_words(blocks, k);
}

constexpr int64_t matmul_workspace_bytes(const MatmulBlocks& blocks, int64_t batch, int64_t m, int64_t n, int64_t k) {
  return matmul_is_thin(blocks) ? 0 : 4 * batch * matmul_packed_words(blocks, m, n, k);
}

// Phase-1 tasks; 0 when the phase is skipped.
constexpr int64_t matmul_pack_tasks(const MatmulBlocks& blocks, int64_t batch, int64_t m, int64_t n, int64_t k) {
  if (matmul_is_thin(blocks)) return 0;
  return batch * matmul_k_blocks(blocks, k) *
         matmul_ceil_div(blocks.path == MatmulPath::kPackA ? m : n, kMatmulPackGroup);
}

// Phase-2 tasks.
constexpr int64_t matmul_run_tasks(const MatmulBlocks& blocks, int64_t batch, int64_t m, int64_t n) {
  return batch * matmul_ceil_div(m, blocks.m) * matmul_ceil_div(n, blocks.n);
}

// Thin paths: floats from one of the few rows to the next. Padded to a vector, and by one more, so that rows of a power
// of two terms do not compete for the same lines of the first cache level.
constexpr int64_t matmul_thin_stride(const MatmulBlocks& blocks, int64_t k) {
  return matmul_round_up(matmul_min(k, blocks.k), 16) + 16;
}

// Columns whose sums wait for one another with matrix registers.
constexpr int64_t kMatmulColumnsTogether = 256;

// Scratch of one phase-2 worker. Packed paths: the operand packed on the fly, then the task's sums when k has several
// blocks, and with matrix registers those of kMatmulColumnsTogether columns when it has one. Thin paths: a block of k
// of the few rows, in f32, then their sums. An unknown k is given as -1.
constexpr int64_t matmul_scratch_bytes(const MatmulBlocks& blocks, int64_t m, int64_t n, int64_t k) {
  if (blocks.path == MatmulPath::kThin) return 4 * m * (matmul_thin_stride(blocks, k) + blocks.n);
  if (blocks.path == MatmulPath::kThinSwapped) return 4 * n * (matmul_thin_stride(blocks, k) + blocks.m);
  int64_t operand = matmul_words(blocks, blocks.k) * (blocks.path == MatmulPath::kPackB ? blocks.m : blocks.n);
  int64_t sums = k < 0 || k > blocks.k ? blocks.m * blocks.n
                 : blocks.matrix_tiles ? blocks.m * kMatmulColumnsTogether
                                       : 0;
  return 4 * (operand + sums);
}
