// Who computes a GEMM in a comparison: Causeway's own kernels, or a vendor's library where it is installed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "causeway/device/device.h"
#include "causeway/graph/dtype.h"

namespace causeway::bench {

// C[m, n] = A B, summed over k. Each operand lies along k, unless it is told otherwise: a linear layer's activations
// and weights do ("nt" below), its input's gradient reads the weights along n ("nn"), its weights' gradient reads both
// along the other side ("tn").
struct GemmWorkload {
  int64_t m = 0, n = 0, k = 0;
  DType operands = DType::kBF16;
  bool tf32 = false;  // f32 operands may be rounded to tf32
  // Of 8-bit operands, k and n multiples of 128: each 128 of k has a scale for each row of A, and for 128 rows of B
  // (gemm_scales()).
  bool block_scales = false;
  bool a_along_m = false;  // A lies as [k, m], otherwise as [m, k]
  bool b_along_n = false;  // B lies as [k, n], otherwise as [n, k]
  // bf16 for 8-bit operands, otherwise as the operands.
  DType result() const { return size_bytes(operands) == 1 ? DType::kBF16 : operands; }

  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
  std::string order() const;   // as BLAS names it for rows that lie side by side: "nt", "nn", "tn", "tt"
  std::string layout() const;  // "C[m, n] = A[m, k] B[n, k]^T"
  std::string name() const;    // "8192x8192x8192", "8192x8192x8192 tn": the order where it is not nt
  std::string type() const;    // "bf16", "tf32", "f8e4m3_block"
  bool operator==(const GemmWorkload&) const = default;
};

// The scales of a workload with block_scales, the same for everyone who computes it.
struct GemmScales {
  std::vector<float> a;  // [k / 128, m]
  std::vector<float> b;  // [k / 128, n / 128]
};
GemmScales gemm_scales(const GemmWorkload& workload);
// In device memory.
DeviceBuffer copy_scales(Device& device, const std::vector<float>& scales);

// One GEMM, ready to run again and again on the same buffers.
class PreparedGemm {
 public:
  virtual ~PreparedGemm() = default;
  // Puts one GEMM into the device's queue.
  virtual void run() = 0;
};

class GemmProvider {
 public:
  virtual ~GemmProvider() = default;
  virtual std::string name() const = 0;  // with its version: "cuBLASLt 12.8.4"
  // Buffers are device pointers that outlive what is returned. Throws Error(kUnsupported), saying why, when the library
  // has no such GEMM.
  virtual std::unique_ptr<PreparedGemm> prepare(const GemmWorkload& workload, void* a, void* b, void* c) = 0;
};

// Causeway's kernels, compiled for the device.
std::unique_ptr<GemmProvider> make_causeway_gemm(Device& device);

// Libraries, opened at run time: `file` names one, otherwise the usual places are searched. Throw Error(kNotFound) that
// says what to install where there is none, Error(kUnsupported) where it does not run on the device.

// NVIDIA's cuBLASLt. With `fast_accumulation`, 8-bit operands alone: sums are not moved to f32 on the way, so they keep
// what the multipliers keep.
std::unique_ptr<GemmProvider> open_cublaslt(Device& device, const std::string& file = {},
                                            bool fast_accumulation = false);
// NVIDIA's cuBLAS: cublasGemmEx.
std::unique_ptr<GemmProvider> open_cublas(Device& device, const std::string& file = {});
// AMD's hipBLASLt.
std::unique_ptr<GemmProvider> open_hipblaslt(Device& device, const std::string& file = {});
// OpenBLAS, on the processor: f32, and bf16 where it was built with it.
std::unique_ptr<GemmProvider> open_openblas(Device& device, const std::string& file = {});
// Intel's oneDNN, on the processor.
std::unique_ptr<GemmProvider> open_onednn(Device& device, const std::string& file = {});

}  // namespace causeway::bench
