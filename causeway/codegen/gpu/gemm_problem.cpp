#include "causeway/codegen/gpu/gemm_problem.h"

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/kernels/gpu/skinny_gemm_layout.h"

namespace causeway::codegen {

GpuGemmType gpu_gemm_type(DType operand) {
  switch (operand) {
    case DType::kBF16:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return GpuGemmType::kBF16;
    case DType::kF16:
      return GpuGemmType::kF16;
    case DType::kF32:
      return GpuGemmType::kF32;
    default:
      break;
  }
  CAUSEWAY_CHECK(false, "no GEMM multiplies {}", dtype_name(operand));
  return GpuGemmType::kF32;
}

bool GpuGemmOperand::is_multiple(int64_t elements) const {
  const auto divisible = [&](const Dim& size) { return size.divide_exactly(elements).has_value(); };
  return divisible(contiguous_in_k ? k : lines) && divisible(offset) && divisible(stride) &&
         std::all_of(batch.begin(), batch.end(), [&](const auto& dimension) { return divisible(dimension.stride); });
}

bool GpuGemmOperand::fits_tma() const {
  return aligned && batch.size() + 2 <= TensorMap::kMaxRank && k.is_constant() && k.constant() > 0;
}

GpuGemmOperand GpuGemmOperand::in_pairs() const {
  const auto half = [](const Dim& dim) { return *dim.divide_exactly(2); };
  GpuGemmOperand pairs = *this;
  pairs.element_bytes = 2;
  pairs.offset = half(offset);
  pairs.stride = half(stride);
  pairs.k = half(k);
  for (auto& dimension : pairs.batch) dimension.stride = half(dimension.stride);
  pairs.aligned = pairs.is_multiple(8);
  return pairs;
}

bool GpuGemmProblem::is_skinny() const { return is_skinny_gemm_side(m) || is_skinny_gemm_side(n); }

bool GpuGemmProblem::may_multiply_pairs() const {
  return !fixed_order && size_bytes(a.dtype) == 1 && size_bytes(b.dtype) == 1 && a.contiguous_in_k && b.contiguous_in_k;
}

bool is_skinny_gemm_side(const Dim& size) { return size.is_constant() && size.constant() <= kSkinnyGemmRows; }

}  // namespace causeway::codegen
