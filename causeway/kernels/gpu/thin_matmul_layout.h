// The blocks of thin_matmul.h, for the kernel and for the host that launches it.
#pragma once

#include "causeway/kernels/types.h"

constexpr int kThinMatmulRows = 16;  // at most

// Slices of k that a wave reads at once: whole sectors of memory, and whole matrix instructions.
constexpr int thin_matmul_slice(bool contiguous_in_k) { return contiguous_in_k ? 32 : 16; }

// Elements between rows of a wave's sums in shared memory.
constexpr int thin_matmul_stride(int columns) { return columns + 4; }
constexpr int thin_matmul_shared_bytes(int waves, int rows, int columns) {
  return waves * rows * thin_matmul_stride(columns) * 4;
}
