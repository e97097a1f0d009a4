// GEMMs by shape and type: Causeway's kernels and the vendor's library, alternating.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "causeway/bench/inputs.h"
#include "causeway/bench/providers/gemm_provider.h"
#include "causeway/bench/result.h"
#include "causeway/bench/timing.h"
#include "causeway/device/device_peaks.h"

namespace causeway::bench {

struct GemmCase {
  std::string group;  // "Llama 70B"
  GemmWorkload workload;
};

// Whether block_scales can be asked for.
bool has_blocks(const GemmWorkload& workload);

// "16384x8192x1280" (m, n, k). Throws Error(kInvalidArgument) that says what was expected.
GemmWorkload parse_gemm_shape(const std::string& text, DType operands, bool block_scales = false);

// How the operands lie: "nt", "nn", "tn" or "tt". Throws Error(kInvalidArgument) for other names, and for operands
// whose blocks have scales, which lie along k alone.
void set_gemm_order(GemmWorkload& workload, const std::string& order);

// The published training shapes (benchmarks facts: SemiAnalysis, December 2024), those of Llama 8B and GPT 1.5B layers
// for 8,192 tokens, and squares; what fits a device of so much memory. On a CPU small ones.
std::vector<GemmCase> standard_gemm_cases(bool is_gpu, DType operands, int64_t memory_bytes);

// Of those, what the whole suite measures: on a processor all in bf16 and f32; on a GPU all in bf16 and f8e4m3, three
// in f16 (8192x8192x8192, and the one of Llama 70B's and of Llama 8B's with most work) and 8192x8192x8192 in f32 and,
// where it is multiplied, tf32.
std::vector<GemmCase> suite_gemm_cases(const Device& device);

struct GemmOptions {
  InputDistribution inputs = InputDistribution::kNormal;
  TimingOptions timing;
};

// One measurement for each provider; a provider that has no such GEMM is left out, with the reason in `skipped`.
// Results are checked before and after the timing: 256 elements against sums in double.
std::vector<Measurement> run_gemm(Device& device, const GemmCase& gemm,
                                  const std::vector<std::unique_ptr<GemmProvider>>& providers,
                                  const GemmOptions& options, const std::optional<DevicePeak>& peak,
                                  std::vector<std::string>& skipped);

}  // namespace causeway::bench
