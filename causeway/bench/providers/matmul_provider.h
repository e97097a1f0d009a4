// Who computes a matrix product in a comparison: Causeway's own kernels, or a vendor's library where it is installed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "causeway/device/device.h"
#include "causeway/graph/dtype.h"

namespace causeway::bench {

// C[m, n] = A[m, k] B[n, k]^T: both operands along k, as a linear layer's activations and weights lie.
struct MatmulWorkload {
  int64_t m = 0, n = 0, k = 0;
  DType operands = DType::kBF16;
  bool tf32 = false;  // f32 operands may be rounded to tf32
  // bf16 for 8-bit operands, otherwise as the operands.
  DType result() const { return size_bytes(operands) == 1 ? DType::kBF16 : operands; }

  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
  std::string name() const;  // "8192x8192x8192"
  std::string type() const;  // "bf16", "tf32"
  bool operator==(const MatmulWorkload&) const = default;
};

// One product, ready to run again and again on the same buffers.
class PreparedMatmul {
 public:
  virtual ~PreparedMatmul() = default;
  // Puts one product into the device's queue.
  virtual void run() = 0;
};

class MatmulProvider {
 public:
  virtual ~MatmulProvider() = default;
  virtual std::string name() const = 0;  // with its version: "cuBLASLt 12.8.4"
  // Buffers are device pointers that outlive what is returned. Throws Error(kUnsupported), saying why, when the library
  // has no such product.
  virtual std::unique_ptr<PreparedMatmul> prepare(const MatmulWorkload& workload, void* a, void* b, void* c) = 0;
};

// Causeway's kernels, compiled for the device.
std::unique_ptr<MatmulProvider> make_causeway_matmul(Device& device);

// Libraries, opened at run time: `file` names one, otherwise the usual places are searched. Throw Error(kNotFound) that
// says what to install where there is none, Error(kUnsupported) where it does not run on the device.

// NVIDIA's cuBLASLt. With `fast_accumulation`, 8-bit operands alone: sums are not moved to f32 on the way, so they keep
// what the multipliers keep.
std::unique_ptr<MatmulProvider> open_cublaslt(Device& device, const std::string& file = {},
                                              bool fast_accumulation = false);
// NVIDIA's cuBLAS: cublasGemmEx.
std::unique_ptr<MatmulProvider> open_cublas(Device& device, const std::string& file = {});
// AMD's hipBLASLt.
std::unique_ptr<MatmulProvider> open_hipblaslt(Device& device, const std::string& file = {});
// OpenBLAS, on the processor: f32, and bf16 where it was built with it.
std::unique_ptr<MatmulProvider> open_openblas(Device& device, const std::string& file = {});
// Intel's oneDNN, on the processor.
std::unique_ptr<MatmulProvider> open_onednn(Device& device, const std::string& file = {});

}  // namespace causeway::bench
