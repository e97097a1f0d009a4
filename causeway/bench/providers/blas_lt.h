// GEMMs by NVIDIA's cuBLASLt and AMD's hipBLASLt, which have the same functions and structures but for the prefix of
// their names and a few numbers.
#pragma once

#include <memory>
#include <string>

#include "causeway/bench/providers/gemm_library.h"

namespace causeway::bench {

struct BlasLtDialect {
  GemmLibrary library;
  std::string prefix;  // of every function: "cublasLt"
  // Numbers of the library's enumerations.
  int compute_f32 = 0;  // types of computation
  int compute_tf32 = 0;
  int transposed = 0;  // an operation on an operand; none without it
  // Attributes of a GEMM: the operation on its first and second operand, int32.
  int transpose_first = 0, transpose_second = 0;
  int fast_accumulation = 0;  // attribute of a GEMM, int8; 0: there is none
  // Attributes of a GEMM: pointers to the scales of its first and second operand, and what kinds of scales they are,
  // int32, of which there are one for 128 x 128 and one for 128 of k. 0: operands' blocks have no scales.
  int first_scales = 0, second_scales = 0, first_scale_mode = 0, second_scale_mode = 0;
  int scales_of_squares = 0, scales_along_k = 0;
  bool has_8_bit = true;      // with the encodings that Causeway has: those of the Open Compute Project
  std::string why_not_8_bit;  // otherwise
  // "12.8.4".
  std::string (*version)(const VendorLibrary& library, void* handle) = nullptr;
};

// GEMMs by the library, with the algorithm that its heuristics put first and 32 MiB of workspace. With
// `fast_accumulation`, 8-bit operands alone, and sums are kept in the multiplier's own precision.
std::unique_ptr<GemmProvider> make_blas_lt(GpuDevice& device, const VendorLibrary& library,
                                           const BlasLtDialect& dialect, bool fast_accumulation = false);

// What libraries are given to work in: as much as PyTorch gives them on Hopper.
inline constexpr size_t kGemmWorkspaceBytes = size_t{32} << 20;

}  // namespace causeway::bench
