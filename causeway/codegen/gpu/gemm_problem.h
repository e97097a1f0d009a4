// A GEMM on a GPU, as plan_gemm() (gemm_plan.h) is asked about it: what is multiplied, how it lies in memory, and what
// happens to the result. gemm_nest.h finds the operands in a graph.
#pragma once

#include <cstdint>
#include <vector>

#include "causeway/codegen/kernel.h"
#include "causeway/graph/dim.h"

namespace causeway::codegen {

// What is multiplied. kTf32: f32 in memory, rounded on the way into matrix instructions. kF8Pair: two neighbours along
// the K dimension of 8 bits each, as one element of two bytes; other operands of 8 bits are converted to bf16, which
// has all of their values.
enum class GpuGemmType { kBF16, kF16, kF32, kTf32, kF8Pair };

// Of operands in memory of this type, before a plan says more.
GpuGemmType gpu_gemm_type(DType operand);

// An operand as it lies in memory: element (batch, line, k) of `value` is at
// offset + batch indices . batch strides + (contiguous_in_k ? line * stride + k : k * stride + line).
// "Lines" are rows of A and columns of B. What CUTLASS calls K-major is contiguous in k, MN-major otherwise.
struct GpuGemmOperand {
  Value value;
  DType dtype = DType::kF32;  // in memory
  int64_t element_bytes = 0;  // what offset and strides count: of the dtype, or of a pair
  Dim offset;
  bool contiguous_in_k = true;
  Dim stride;
  struct BatchDimension {
    Dim extent;
    Dim stride;
  };
  std::vector<BatchDimension> batch;  // the fastest last; none of extent 1
  bool aligned = false;               // to 16 bytes, as gemm.h asks
  Dim lines, k;
  bool is_view = false;  // of a tensor that lies otherwise: its copy would be contiguous in k

  // Whether offset, strides and the contiguous extent are multiples of so many elements.
  bool is_multiple(int64_t elements) const;
  // Whether Hopper's TMA loads slices of the K dimension from where it lies.
  bool fits_tma() const;
  // The operand in elements of two neighbours along k.
  GpuGemmOperand in_pairs() const;
};

// Scales of blocks of 128 of k (scaled_dot): none; of B's by 128 columns that share one; or by column.
enum class GpuGemmScales { kNone, kOfBlocks, kOfColumns };

// Rows in groups (grouped_dot): none; each row of A meets its group's B, and `batch` counts slabs of rows; or each
// group is a matrix of `batch`, which sums over the group's rows of A and B.
enum class GpuGemmGroups { kNone, kOfRows, kOfTerms };

// What is done with the result beside storing it, as far as a plan depends on it.
struct GpuGemmEpilogue {
  std::vector<DType> members;  // all that is stored
  // The same where all of it is computed in float from the GEMM's element; empty where something is not.
  std::vector<DType> stored;
  // What is read at the result's own place: a residual stream, a sum so far.
  std::vector<DType> fetched;
};

struct GpuGemmProblem {
  GpuGemmType type = GpuGemmType::kBF16;  // gpu_gemm_type(a.dtype)
  Dim batch, m, n, k;
  GpuGemmOperand a, b;
  GpuGemmScales scales = GpuGemmScales::kNone;
  GpuGemmGroups groups = GpuGemmGroups::kNone;
  Dim group_count, slabs;
  bool rounds_to_tf32 = false;   // f32 operands may be
  bool fixed_order = false;      // the mainloop does not depend on sizes that its sums do not run over
  bool b_never_changes = false;  // while the program runs: the kernel may read it before earlier launches have ended
  int threads_of_rows = 0;       // of blocks that compute the rows of A themselves; 0: A is in memory
  GpuGemmEpilogue epilogue;

  // Whether there are so few rows or columns.
  bool is_skinny() const;
  // Whether both operands are of 8 bits and may be multiplied in pairs along k.
  bool may_multiply_pairs() const;
};

// Rows or columns so few that a GEMM has kernels of its own, which leave most of a matrix instruction unused.
bool is_skinny_gemm_side(const Dim& size);

}  // namespace causeway::codegen
