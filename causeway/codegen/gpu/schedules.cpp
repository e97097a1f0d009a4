#include "causeway/codegen/gpu/schedules.h"

#include <algorithm>

#include "causeway/base/error.h"

namespace causeway::codegen {
namespace {

constexpr std::string_view kNvidia = "sm_80 sm_90a", kAmd = "gfx90a gfx942";
constexpr int kAnyHead = 1 << 20;

using enum MatmulOperand;
using enum MatmulSides;

// Tiles by what fits registers and shared memory (tests/golden/gpu_budgets.txt), as {m, n, k, wave_m, wave_n, stages,
// blocks_per_unit}. AMD's large tiles keep one slice in shared memory, so that it holds several blocks. Efficiencies
// are set by hand from runs of sm_90a; those of AMD were never measured.
constexpr MatmulSchedule kMatmul[] = {
    {kNvidia, kHalf, kLarge, {128, 128, 32, 64, 64, 3, 2}, 1.0},
    {kNvidia, kHalf, kLarge, {64, 64, 32, 32, 32, 4, 2}, 0.55},
    {kNvidia, kHalf, kThinM, {16, 128, 64, 16, 32, 4, 1}, 0.1},
    {kNvidia, kHalf, kThinN, {128, 16, 64, 32, 16, 4, 1}, 0.1},
    {kNvidia, kTf32, kLarge, {128, 128, 16, 64, 32, 4, 1}, 1.0},
    {kNvidia, kTf32, kLarge, {64, 64, 16, 32, 32, 4, 2}, 0.55},
    {kNvidia, kTf32, kThinM, {16, 128, 32, 16, 32, 4, 1}, 0.1},
    {kNvidia, kTf32, kThinN, {128, 16, 32, 32, 16, 4, 1}, 0.1},
    {kNvidia, kFloat, kLarge, {128, 128, 16, 64, 32, 3, 1}, 1.0},
    {kNvidia, kFloat, kLarge, {64, 64, 16, 32, 32, 4, 2}, 0.55},
    {kNvidia, kFloat, kThinM, {16, 128, 32, 16, 32, 4, 1}, 0.1},
    {kNvidia, kFloat, kThinN, {128, 16, 32, 32, 16, 4, 1}, 0.1},
    {kAmd, kHalf, kLarge, {128, 128, 32, 64, 64, 1, 2}, 1.0},
    {kAmd, kHalf, kLarge, {64, 64, 32, 32, 32, 2, 2}, 0.55},
    {kAmd, kHalf, kThinM, {16, 128, 64, 16, 32, 2, 1}, 0.1},
    {kAmd, kHalf, kThinN, {128, 16, 64, 32, 16, 2, 1}, 0.1},
    {kAmd, kTf32, kLarge, {128, 128, 16, 64, 64, 1, 2}, 1.0},
    {kAmd, kTf32, kLarge, {64, 64, 16, 32, 32, 2, 2}, 0.55},
    {kAmd, kTf32, kThinM, {16, 128, 32, 16, 32, 2, 1}, 0.1},
    {kAmd, kTf32, kThinN, {128, 16, 32, 32, 16, 2, 1}, 0.1},
    {kAmd, kFloat, kLarge, {128, 128, 16, 64, 64, 1, 2}, 1.0},
    {kAmd, kFloat, kLarge, {64, 64, 16, 32, 32, 2, 2}, 0.55},
    {kAmd, kFloat, kThinM, {16, 128, 32, 16, 32, 2, 1}, 0.1},
    {kAmd, kFloat, kThinN, {128, 16, 32, 32, 16, 2, 1}, 0.1},
};

struct Rate {
  std::string_view processors;
  MatmulOperand operand;
  double products;
};
// Set by hand: what matters is how they compare with the cost of a launch and of adding up parts.
constexpr Rate kRates[] = {
    {kNvidia, kHalf, 1.4e6}, {kNvidia, kTf32, 0.7e6}, {kNvidia, kFloat, 0.09e6},
    {kAmd, kHalf, 2.0e6},    {kAmd, kTf32, 1.0e6},    {kAmd, kFloat, 0.25e6},
};

// As {m, n, stages, cluster, in_turns}, with as many stages as fit. The first nine share a tile; of those in turns,
// efficiency, least_k and stored_as_k are fitted to what an H200 did: where results are sent, with fourteen products of
// bf16, each by itself; otherwise with twelve, in turns with cuBLASLt's
// (docs/performance.md). Tiles of 160 columns are for sides of 1,600 and the like, not tried with 8-bit operands; the
// one of 256 x 128 is for 8-bit operands with scales. Clusters of two blocks that share what they load of B are as fast
// there, and no faster. Tiles of 128 x 192 in turns leave no registers for reading anything where results are stored.
constexpr unsigned kOne = 1 << static_cast<int>(HopperMatmulSums::kOne);
constexpr unsigned kTwo = 1 << static_cast<int>(HopperMatmulSums::kTwo);
constexpr unsigned kOfSlices = 1 << static_cast<int>(HopperMatmulSums::kOfSlices);
constexpr unsigned kAllSums = kOne | kTwo | kOfSlices | 1 << static_cast<int>(HopperMatmulSums::kOfSlicesByColumn);
constexpr auto kSent = HopperMatmulStores::kSent, kOther = HopperMatmulStores::kOther;
constexpr HopperMatmulSchedule kHopperMatmul[] = {
    {{128, 256, 4, 1, false}, 1.0, kOne},
    {{128, 192, 4, 1, false}, 0.95, kOne | kTwo},
    {{128, 128, 6, 1, false}, 0.85, kAllSums},
    {{128, 64, 8, 1, false}, 0.55, kAllSums},
    {{64, 128, 8, 1, false}, 0.55, kAllSums},
    {{64, 64, 8, 1, false}, 0.35, kAllSums},
    {{256, 160, 3, 1, false}, 1.0, kOne},
    {{128, 160, 4, 1, false}, 0.9, kOne},
    {{256, 128, 4, 1, false}, 0.92, kOfSlices},
    {{64, 256, 4, 1, true}, 0.92, kOne, kSent, 0, 70},
    {{128, 128, 6, 1, true}, 0.945, kOne, kSent, 0, 50},
    {{128, 160, 4, 1, true}, 0.965, kOne, kSent, 0, 20},
    {{128, 192, 4, 1, true}, 0.98, kOne, kSent, 0, 20},
    {{64, 256, 4, 1, true}, 0.97, kOne, kOther, 815, 0},
    {{128, 128, 6, 1, true}, 0.955, kOne, kOther, 930, 0},
    {{128, 160, 4, 1, true}, 0.955, kOne, kOther, 930, 0},
};

// Key tiles and blocks by registers without spilling, as tests/golden/gpu_budgets.txt has them.
constexpr AttentionSchedule kAttention[] = {
    {kNvidia, 2, 64, 64, 2, 2, 2, 1},    {kNvidia, 2, 128, 64, 1, 2, 2, 1},      {kNvidia, 2, kAnyHead, 16, 1, 2, 1, 1},
    {kNvidia, 4, 128, 32, 1, 2, 1, 1},   {kNvidia, 4, kAnyHead, 16, 1, 2, 1, 1}, {kAmd, 2, 128, 64, 2, 1, 1, 1},
    {kAmd, 2, kAnyHead, 64, 1, 1, 1, 1}, {kAmd, 4, kAnyHead, 64, 1, 1, 1, 1},
};

constexpr AttentionGradientSchedule kAttentionGradient[] = {
    {kNvidia, 2, 64, 64, 2, true, 4, 3},        {kNvidia, 2, 128, 32, 2, true, 2, 2},
    {kNvidia, 2, kAnyHead, 32, 2, false, 1, 1}, {kNvidia, 4, 128, 32, 2, true, 1, 1},
    {kNvidia, 4, kAnyHead, 32, 2, false, 1, 1}, {kAmd, 2, 64, 64, 1, true, 1, 1},
    {kAmd, 2, kAnyHead, 32, 1, true, 1, 1},     {kAmd, 4, kAnyHead, 32, 1, true, 1, 1},
};

// As many stages as fit. Measured on an H200 (docs/performance.md).
constexpr HopperAttentionSchedule kHopperAttention[] = {{64, 3, 2, 5, 6}, {128, 2, 2, 2, 3}};

}  // namespace

bool serves(std::string_view processors, const GpuArchitecture& architecture) {
  while (!processors.empty()) {
    const size_t end = std::min(processors.find(' '), processors.size());
    if (processors.substr(0, end) == architecture.processor) return true;
    processors.remove_prefix(std::min(end + 1, processors.size()));
  }
  return false;
}

std::span<const MatmulSchedule> matmul_schedules() { return kMatmul; }
std::span<const HopperMatmulSchedule> hopper_matmul_schedules() { return kHopperMatmul; }
std::span<const AttentionSchedule> attention_schedules() { return kAttention; }
std::span<const AttentionGradientSchedule> attention_gradient_schedules() { return kAttentionGradient; }
std::span<const HopperAttentionSchedule> hopper_attention_schedules() { return kHopperAttention; }

double matmul_products(const GpuArchitecture& architecture, MatmulOperand operand) {
  const auto rate = std::find_if(std::begin(kRates), std::end(kRates), [&](const Rate& candidate) {
    return candidate.operand == operand && serves(candidate.processors, architecture);
  });
  CAUSEWAY_CHECK(rate != std::end(kRates), "no rate of products on {}", architecture.processor);
  return rate->products;
}

double matmul_combine_bytes(const GpuArchitecture&) { return 2e6; }

}  // namespace causeway::codegen
