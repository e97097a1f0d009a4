// What those who choose tiles of GEMMs take for sizes that are not known, and how many parts of k they try.
#pragma once

#include "causeway/codegen/gemm_sizes.h"

namespace causeway::codegen {

struct GpuGemmSizes {
  int64_t batch, m, n, k;
  bool all_known;

  // Each may be kUnknownSize, which is taken to be large.
  GpuGemmSizes(int64_t batch, int64_t m, int64_t n, int64_t k)
      : batch(batch == kUnknownSize ? 1 : batch),
        m(m == kUnknownSize ? kTakenForUnknown : m),
        n(n == kUnknownSize ? kTakenForUnknown : n),
        k(k == kUnknownSize ? kTakenForUnknown : k),
        all_known(batch != kUnknownSize && m != kUnknownSize && n != kUnknownSize && k != kUnknownSize) {}

 private:
  static constexpr int64_t kTakenForUnknown = 4096;
};

constexpr int kGpuGemmMostSplits = 32;
constexpr int64_t kGpuGemmLeastSplitK = 256;  // less is not worth a part of its own

}  // namespace causeway::codegen
