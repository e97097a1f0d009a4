// AMD's hipBLASLt, declared after its public headers (library/include/hipblaslt/hipblaslt.h, and hipblas-common.h for
// types, ROCm 6 and 7). It has been compiled and its refusals are tested; it has never run on a GPU.
#include <fmt/format.h>

#include "causeway/bench/providers/blas_lt.h"

namespace causeway::bench {
namespace {

std::string hipblaslt_version(const VendorLibrary& library, void* handle) {
  int (*get)(void* handle, int* version) = nullptr;
  library.bind(get, "hipblasLtGetVersion");
  int number = 0;
  return get(handle, &number) == 0 ? fmt::format("{}.{}.{}", number / 100000, number / 100 % 1000, number % 100)
                                   : "of unknown version";
}

BlasLtDialect hipblaslt_dialect() {
  BlasLtDialect dialect;
  dialect.library = {"hipblaslt",
                     "hipBLASLt",
                     {"libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so", "/opt/rocm/lib/libhipblaslt.so"},
                     {"torch/lib/libhipblaslt.so"},
                     "Install ROCm's package hipblaslt."};
  dialect.prefix = "hipblasLt";
  dialect.compute_f32 = 2;       // HIPBLAS_COMPUTE_32F
  dialect.compute_tf32 = 6;      // HIPBLAS_COMPUTE_32F_FAST_TF32
  dialect.transposed = 112;      // HIPBLAS_OP_T
  dialect.transpose_first = 0;   // HIPBLASLT_MATMUL_DESC_TRANSA
  dialect.transpose_second = 1;  // HIPBLASLT_MATMUL_DESC_TRANSB
  dialect.has_8_bit = false;
  dialect.why_not_8_bit =
      "8-bit operands are in the Open Compute Project's encodings; what hipBLASLt multiplies on CDNA 3 are the FNUZ "
      "encodings, whose values differ";
  dialect.version = hipblaslt_version;
  return dialect;
}

}  // namespace

std::unique_ptr<GemmProvider> open_hipblaslt(Device& device, const std::string& file) {
  const BlasLtDialect speech = hipblaslt_dialect();
  GpuDevice& gpu = require_gpu(device, Target::Family::kAmdgpu, speech.library);
  return make_blas_lt(gpu, open_gemm_library(speech.library, file), speech);
}

}  // namespace causeway::bench
