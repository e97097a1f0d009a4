// The arithmetic of the matrix instructions that the emulator imitates, with the vendors' operand layouts: NVIDIA's
// ldmatrix, mma.sync.m16n8k16 and mma.sync.m16n8k8 of tf32 (PTX ISA, "Warp-level matrix instructions"), AMD's
// v_mfma_f32_16x16x16, v_mfma_f32_16x16x32 of 8-bit types, v_mfma_f32_16x16x8_xf32 and v_mfma_f32_16x16x4f32 (CDNA 2
// and 3 ISA documents), and the operands of NVIDIA's wgmma (PTX ISA, "Asynchronous warpgroup-level matrix
// instructions"). Products are exact and are added in float, one after the other in the order of k; the hardware's
// internal order and width are not documented.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "causeway/kernels/gpu/emulator_runtime.h"
#include "causeway/namespaces.h"

namespace causeway::device {

int matrix_element_bytes(MatrixElement element);
// Element `index` of an array.
float matrix_element(MatrixElement element, const void* array, int64_t index);

// ldmatrix.x4: lane 8 j + r brings the address of row r of matrix j, eight elements of two bytes; lane l receives, of
// each of the four matrices, elements 2 (l % 4) and the next of row l / 4 (of column l / 4 when transposed).
void load_matrices(void* const* lanes, bool transposed);

// C[16][16] += A[16][16] B[16][16] (8-bit elements, AMD alone: 32 of k); what the pointers lead to is laid out as in
// FragmentA, FragmentB and Accumulator of kernels/gpu/nvidia_fragments.h (32 lanes; 16-bit elements and
// tf32) and kernels/gpu/amd_fragments.h (64 lanes).
void multiply_matrices_nvidia(void* const* lanes, MatrixElement element);
void multiply_matrices_amd(void* const* lanes, MatrixElement a_element, MatrixElement b_element);

// A shared-memory operand of wgmma, from its descriptor. Offsets are from the start of the block's shared memory.
struct SharedOperand {
  int start = 0;          // bytes
  int leading_bytes = 0;  // between groups of 8 k (without swizzle), or of one swizzle width of rows or columns
  int stride_bytes = 0;   // between groups of 8 rows (K-major) or of 8 k (transposed and swizzled)
  int swizzle_bytes = 0;  // 0, 32, 64, 128

  // Empty, or what is wrong with the descriptor.
  std::string decode(uint64_t descriptor);
  // Where the element lies: `line` is the row of A or the column of B; `transposed` is MN-major.
  int offset(int line, int k, int element_bytes, bool transposed) const;
};

// The pattern of TMA and of wgmma: the number of the 16-byte piece within a swizzle width is
// combined with the number of the 128-byte row, both taken from the address. 0 leaves offsets as they are.
int swizzle_offset(int offset, int swizzle_bytes);

// The place of element `index` of thread `thread`'s part of wgmma's 64 x N accumulator.
int warpgroup_accumulator_row(int thread, int index);
int warpgroup_accumulator_column(int thread, int index);

// c[64][columns] += a[64][depth] b[depth][columns], all dense.
void multiply_dense(float* c, const float* a, const float* b, int columns, int depth);

}  // namespace causeway::device
