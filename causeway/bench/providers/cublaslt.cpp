// NVIDIA's cuBLASLt, declared after the cuBLAS library documentation (12.x, 13.x) so that nothing of CUDA is needed to
// build.
#include <fmt/format.h>

#include "causeway/bench/providers/blas_lt.h"

namespace causeway::bench {
namespace {

std::string cublaslt_version(const VendorLibrary& library, void* handle) {
  size_t (*get)() = nullptr;
  library.bind(get, "cublasLtGetVersion");
  const size_t number = get();
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

BlasLtDialect cublaslt_dialect() {
  BlasLtDialect dialect;
  dialect.library = {"cublaslt",
                     "cuBLASLt",
                     {"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so"},
                     {"nvidia/cu13/lib/libcublasLt.so.13", "nvidia/cublas/lib/libcublasLt.so.13",
                      "nvidia/cublas/lib/libcublasLt.so.12"},
                     "It comes with the CUDA toolkit and with PyTorch."};
  dialect.prefix = "cublasLt";
  dialect.compute_f32 = 68;        // CUBLAS_COMPUTE_32F
  dialect.compute_tf32 = 77;       // CUBLAS_COMPUTE_32F_FAST_TF32
  dialect.transposed = 1;          // CUBLAS_OP_T
  dialect.transpose_first = 3;     // CUBLASLT_MATMUL_DESC_TRANSA
  dialect.transpose_second = 4;    // CUBLASLT_MATMUL_DESC_TRANSB
  dialect.fast_accumulation = 25;  // CUBLASLT_MATMUL_DESC_FAST_ACCUM
  dialect.first_scales = 17;       // CUBLASLT_MATMUL_DESC_A_SCALE_POINTER
  dialect.second_scales = 18;      // CUBLASLT_MATMUL_DESC_B_SCALE_POINTER
  dialect.first_scale_mode = 31;   // CUBLASLT_MATMUL_DESC_A_SCALE_MODE
  dialect.second_scale_mode = 32;  // CUBLASLT_MATMUL_DESC_B_SCALE_MODE
  dialect.scales_along_k = 4;      // CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F
  dialect.scales_of_squares = 5;   // CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F
  dialect.version = cublaslt_version;
  return dialect;
}

}  // namespace

std::unique_ptr<GemmProvider> open_cublaslt(Device& device, const std::string& file, bool fast_accumulation) {
  const BlasLtDialect speech = cublaslt_dialect();
  GpuDevice& gpu = require_gpu(device, Target::Family::kNvptx, speech.library);
  return make_blas_lt(gpu, open_gemm_library(speech.library, file), speech, fast_accumulation);
}

}  // namespace causeway::bench
