#include "causeway/codegen/gpu/schedules.h"

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/device/gpu_architecture.h"

namespace causeway::codegen {
namespace {

constexpr int kAnyHead = 1 << 20;

using enum GemmOperand;
using enum GemmSides;
using enum GpuArchitecture::WaveMatrix;

// Tiles by what fits registers and shared memory (tests/golden/gpu_budgets.txt), as {m, n, k, wave_m, wave_n, stages,
// blocks_per_unit, ping_pong}. AMD's tiles of 128 x 128 keep one slice in shared memory, so that it holds several
// blocks. Efficiencies are set by hand from runs of sm_90a; those of AMD were never measured.
constexpr GemmSchedule kGemm[] = {
    {kMmaSync, kHalf, kLarge, {128, 128, 32, 64, 64, 3, 2}, 1.0},
    {kMmaSync, kHalf, kLarge, {64, 64, 32, 32, 32, 4, 2}, 0.55},
    {kMmaSync, kHalf, kSkinnyM, {16, 128, 64, 16, 32, 4, 1}, 0.1},
    {kMmaSync, kHalf, kSkinnyN, {128, 16, 64, 32, 16, 4, 1}, 0.1},
    {kMmaSync, kTf32, kLarge, {128, 128, 16, 64, 32, 4, 1}, 1.0},
    {kMmaSync, kTf32, kLarge, {64, 64, 16, 32, 32, 4, 2}, 0.55},
    {kMmaSync, kTf32, kSkinnyM, {16, 128, 32, 16, 32, 4, 1}, 0.1},
    {kMmaSync, kTf32, kSkinnyN, {128, 16, 32, 32, 16, 4, 1}, 0.1},
    {kMmaSync, kFloat, kLarge, {128, 128, 16, 64, 32, 3, 1}, 1.0},
    {kMmaSync, kFloat, kLarge, {64, 64, 16, 32, 32, 4, 2}, 0.55},
    {kMmaSync, kFloat, kSkinnyM, {16, 128, 32, 16, 32, 4, 1}, 0.1},
    {kMmaSync, kFloat, kSkinnyN, {128, 16, 32, 32, 16, 4, 1}, 0.1},
    {kMfma, kHalf, kLarge, {256, 256, 32, 128, 64, 2, 1, true}, 1.0},
    {kMfma, kHalf, kLarge, {128, 128, 32, 64, 64, 1, 2}, 0.8},
    {kMfma, kHalf, kLarge, {64, 64, 32, 32, 32, 2, 2}, 0.45},
    {kMfma, kHalf, kSkinnyM, {16, 128, 64, 16, 32, 2, 1}, 0.1},
    {kMfma, kHalf, kSkinnyN, {128, 16, 64, 32, 16, 2, 1}, 0.1},
    {kMfma, kTf32, kLarge, {128, 128, 16, 64, 64, 1, 2}, 1.0},
    {kMfma, kTf32, kLarge, {64, 64, 16, 32, 32, 2, 2}, 0.55},
    {kMfma, kTf32, kSkinnyM, {16, 128, 32, 16, 32, 2, 1}, 0.1},
    {kMfma, kTf32, kSkinnyN, {128, 16, 32, 32, 16, 2, 1}, 0.1},
    {kMfma, kFloat, kLarge, {128, 128, 16, 64, 64, 1, 2}, 1.0},
    {kMfma, kFloat, kLarge, {64, 64, 16, 32, 32, 2, 2}, 0.55},
    {kMfma, kFloat, kSkinnyM, {16, 128, 32, 16, 32, 2, 1}, 0.1},
    {kMfma, kFloat, kSkinnyN, {128, 16, 32, 32, 16, 2, 1}, 0.1},
};

struct Rate {
  WaveMatrix instructions;
  GemmOperand operand;
  double multiply_adds;
};
// Set by hand: what matters is how they compare with the cost of a launch and of adding up parts.
constexpr Rate kRates[] = {
    {kMmaSync, kHalf, 1.4e6}, {kMmaSync, kTf32, 0.7e6}, {kMmaSync, kFloat, 0.09e6},
    {kMfma, kHalf, 2.0e6},    {kMfma, kTf32, 1.0e6},    {kMfma, kFloat, 0.25e6},
};

// Tiles of Hopper's GEMMs as {m, n, ping_pong, measured, ...}. Fitted, with the times below, to the times of GEMMs
// of bf16 on H200s in tests/kernels: hopper_gemms_h200.txt, some 300 more of shapes that had been slow, and what 116
// others gained or lost, beside cuBLASLt, where their plan changed (docs/log/gemm.md); 128 x 208 ping-pong is
// set between what these say and what training steps gained. hopper_gemms_in_a_row_h200.txt is what the energy,
// HopperGemmFigures::power, was fitted to, hopper_gemms_one_tile_h200.txt what HopperGemmFigures::one_tile was, but for
// what results take and an element, which 271 plans of large tiles were, those of 200 shapes drawn at random among them
// (docs/log/gemm.md); tiles of 192 rows are set by hand from hopper_gemms_192_rows_h200.txt. None of those of
// 16-bit operands spills with what the epilogues that it is for keep in registers: 256 x 208 would with others. Those
// of 8-bit operands, and ping-pong ones whose results are stored otherwise than by TMA, are set by hand
// from fewer runs; 128 x 192 ping-pong is not among the latter. Those that results are added to (kByTmaAdded) were
// fitted to hopper_gemms_added_h200.txt and to GEMMs on an H100. Clusters of two of larger GEMMs took 0.89 to 1.08
// times as long, in a row 0.99 to 1.02, and steps as long or longer.
constexpr unsigned kOne = 1 << static_cast<int>(HopperGemmAccumulators::kOne);
constexpr unsigned kPromoted = 1 << static_cast<int>(HopperGemmAccumulators::kPromoted);
constexpr unsigned kBlockScaled = 1 << static_cast<int>(HopperGemmAccumulators::kBlockScaled);
constexpr unsigned kAnyBlockScaled = kBlockScaled | 1 << static_cast<int>(HopperGemmAccumulators::kBlockScaledByColumn);
constexpr auto kByTma = HopperGemmStores::kByTma, kByTmaAdded = HopperGemmStores::kByTmaAdded,
               kOther = HopperGemmStores::kOther;
constexpr HopperGemmSchedule kHopperGemm[] = {
    // clang-format off
    {64, 64, false, 1.040, kOne}, {64, 80, false, 1.032, kOne}, {64, 96, false, 1.058, kOne},
    {64, 112, false, 1.033, kOne}, {64, 128, false, 1.037, kOne}, {64, 144, false, 1.104, kOne},
    {64, 160, false, 1.014, kOne}, {64, 176, false, 1.055, kOne}, {64, 192, false, 1.027, kOne},
    {64, 208, false, 1.035, kOne}, {64, 224, false, 1.051, kOne}, {64, 240, false, 1.056, kOne},
    {64, 256, false, 1.008, kOne}, {128, 64, false, 1.034, kOne}, {128, 80, false, 1.082, kOne},
    {128, 96, false, 1.068, kOne}, {128, 112, false, 1.003, kOne}, {128, 128, false, 0.983, kOne},
    {128, 144, false, 1.005, kOne}, {128, 160, false, 1.006, kOne}, {128, 176, false, 0.966, kOne},
    {128, 192, false, 0.987, kOne}, {128, 208, false, 0.988, kOne}, {128, 224, false, 0.999, kOne},
    {128, 240, false, 0.974, kOne}, {128, 256, false, 0.990, kOne},
    {192, 96, false, 1.09, kOne}, {192, 112, false, 1.02, kOne}, {192, 128, false, 1.02, kOne},
    {192, 144, false, 1.025, kOne}, {192, 160, false, 1.01, kOne}, {192, 176, false, 1.025, kOne},
    {192, 192, false, 0.98, kOne}, {256, 64, false, 1.060, kOne},
    {256, 80, false, 1.040, kOne}, {256, 96, false, 1.038, kOne}, {256, 128, false, 1.007, kOne},
    {256, 144, false, 1.009, kOne}, {256, 160, false, 1.002, kOne}, {256, 176, false, 1.008, kOne},
    {256, 192, false, 0.964, kOne}, {256, 208, false, 0.996, kOne, kByTma},
    {64, 96, true, 1.022, kOne, kByTma}, {64, 128, true, 0.999, kOne, kByTma}, {64, 144, true, 1.023, kOne, kByTma},
    {64, 160, true, 0.993, kOne, kByTma}, {64, 176, true, 1.006, kOne, kByTma}, {64, 192, true, 1.007, kOne, kByTma},
    {64, 208, true, 1.016, kOne, kByTma}, {64, 224, true, 1.042, kOne, kByTma}, {64, 240, true, 1.042, kOne, kByTma},
    {64, 256, true, 0.978, kOne, kByTma}, {128, 96, true, 1.045, kOne, kByTma}, {128, 112, true, 1.011, kOne, kByTma},
    {128, 128, true, 0.964, kOne, kByTma}, {128, 144, true, 0.962, kOne, kByTma}, {128, 160, true, 0.964, kOne, kByTma},
    {128, 176, true, 0.974, kOne, kByTma}, {128, 192, true, 0.987, kOne, kByTma}, {128, 208, true, 0.988, kOne, kByTma},
    {256, 160, false, 0.97, kOne, kByTmaAdded},
    {64, 256, true, 1.30, kOne, kByTmaAdded, 815}, {128, 128, true, 0.98, kOne, kByTmaAdded, 930, 1.3},
    {128, 160, true, 1.06, kOne, kByTmaAdded, 930, 1.3}, {128, 192, true, 1.00, kOne, kByTmaAdded, 930, 1.3},
    {64, 256, true, 1.05, kOne, kOther, 815}, {128, 128, true, 0.97, kOne, kOther, 930, 1.3},
    {128, 160, true, 1.10, kOne, kOther, 930, 1.3},
    {128, 192, false, 1.0, kPromoted}, {128, 224, false, 1.005, kPromoted}, {128, 128, false, 1.04, kPromoted},
    {128, 128, false, 1.12, kAnyBlockScaled}, {128, 64, false, 1.44, kPromoted | kAnyBlockScaled},
    {64, 128, false, 1.15, kPromoted | kAnyBlockScaled}, {64, 64, false, 1.36, kPromoted | kAnyBlockScaled},
    {256, 128, false, 1.03, kBlockScaled},
    // clang-format on
};
constexpr HopperGemmFigures kHopperGemmFigures = {
    .cooperative = {.begin = 3.58,
                    .element = 2.486e-05,
                    .element_of_64 = 1.702e-05,
                    .line = 0.001253,
                    .wait = 0,
                    .last_round = 0.962,
                    .padding = 0.0852,
                    .store = 0.169,
                    .narrow_store = 1.31,
                    .first_slices = 0,
                    .a_side_by_side = 0.964,
                    .b_side_by_side = 1.08,
                    .crossing = 0.721},
    .ping_pong = {.begin = 2.94,
                  .element = 2.022e-05,
                  .element_of_64 = 1.485e-05,
                  .line = 0.000966,
                  .wait = 0.0742,
                  .last_round = 0.879,
                  .padding = 0,
                  .store = 0,
                  .narrow_store = 0,
                  .first_slices = 1.58,
                  .a_side_by_side = 1.08,
                  .b_side_by_side = 1.31,
                  .crossing = 0.964},
    .one_tile = {.begin = 5.811,
                 .result = 6.67e-5,
                 .few_results = 10600,
                 .element = 1.38e-5,
                 .clock = 0.334,
                 .line = 6.09e-4,
                 .all_lines = 7.016e-4,
                 .line_of_group = 0.81,
                 .a_line = 1.228,
                 .parts_of_lines = 1.45,
                 .way = 1.104,
                 .a_side_by_side = 0.882,
                 .b_side_by_side = 0.427,
                 .crossing = 3.748,
                 .combine_launch = 2.891,
                 .combine_bytes = 6.05e6,
                 .cluster = 0.497,
                 .out_of_step = 0.0285,
                 .few_blocks = 104},
    .rounds = {.begin = 2.8, .part = 0.805, .part_side_by_side = 0.85, .long_part = 0.095, .long_time = 100},
    .parts_of_lines = {.most = 0.1, .most_ping_pong = 0.2, .few = 0.0125, .many = 0.0156},
    .power = {.multiply_add = 0.504,
              .line = 75.6,
              .operand = 28.4,
              .ping_pong = 0.22,
              .store = 1.08,
              .part = 4.6,
              .crossing = 0.34}};

// Key tiles and blocks by registers without spilling, as tests/golden/gpu_budgets.txt has them.
constexpr AttentionSchedule kAttention[] = {
    {kMmaSync, 2, 64, 64, 2, 2, 2, 1},       {kMmaSync, 2, 128, 64, 1, 2, 2, 1},
    {kMmaSync, 2, kAnyHead, 16, 1, 2, 1, 1}, {kMmaSync, 4, 128, 32, 1, 2, 1, 1},
    {kMmaSync, 4, kAnyHead, 16, 1, 2, 1, 1}, {kMfma, 2, 128, 64, 2, 1, 1, 1},
    {kMfma, 2, kAnyHead, 64, 1, 1, 1, 1},    {kMfma, 4, kAnyHead, 64, 1, 1, 1, 1},
};

constexpr AttentionGradientSchedule kAttentionGradient[] = {
    {kMmaSync, 2, 64, 64, 2, true, 4, 3},        {kMmaSync, 2, 128, 32, 2, true, 2, 2},
    {kMmaSync, 2, kAnyHead, 32, 2, false, 1, 1}, {kMmaSync, 4, 128, 32, 2, true, 1, 1},
    {kMmaSync, 4, kAnyHead, 32, 2, false, 1, 1}, {kMfma, 2, 64, 64, 1, true, 1, 1},
    {kMfma, 2, kAnyHead, 32, 1, true, 1, 1},     {kMfma, 4, kAnyHead, 32, 1, true, 1, 1},
};

// As many stages as fit. Measured on an H200 (docs/log/attention.md).
// Heads of 128 in three warpgroups of 64 keys at a time: 1 % to 3 % faster than in two of 128 where all is seen, 5 % to
// 6 % with windows, of which less is multiplied in vain, and 1 % slower under long causal masks. Gradients of heads of
// 64 take as long in two launches as in one pass: each block's warpgroups then need not wait for each other.
// Of other heads as many keys at a time as registers and shared memory hold: the more there are, the less often shared
// memory gives the same queries. Scores with a function take the registers of some.
// Gradients of wider heads with three tiles of queries there take 7 % to 12 % less time than with two.
constexpr HopperAttentionGradientTile kJointGradientOf128 = {.groups = 2, .stages = 2, .own_stages = 1, .joint = true};
constexpr HopperAttentionGradientTile kGradientOf192 = {.groups = 2, .stages = 3, .own_stages = 1, .wide = true};
constexpr HopperAttentionGradientTile kGradientOf256 = {.groups = 2, .stages = 2, .own_stages = 1, .wide = true};
constexpr HopperAttentionSchedule kHopperAttention[] = {
    {.most_head_dim = 64,
     .forward = {.groups = 3, .keys = 128, .stages = 5},
     .forward_with_score = {.groups = 3, .keys = 128, .stages = 5},
     .forward_computing = {.groups = 2, .keys = 128, .stages = 5},
     .gradient = HopperAttentionGradientTile{.groups = 3, .stages = 6},
     .gradient_computing = HopperAttentionGradientTile{.groups = 2, .stages = 6},
     .joint_gradient = std::nullopt},
    {.most_head_dim = 112,
     .forward = {.groups = 3, .keys = 96, .stages = 2},
     .forward_with_score = {.groups = 3, .keys = 96, .stages = 2},
     .forward_computing = {.groups = 2, .keys = 128, .stages = 2},
     .gradient = HopperAttentionGradientTile{.groups = 2, .stages = 3},
     .gradient_computing = HopperAttentionGradientTile{.groups = 2, .stages = 3},
     .joint_gradient = kJointGradientOf128},
    {.most_head_dim = 128,
     .forward = {.groups = 3, .keys = 64, .stages = 3},
     .forward_with_score = {.groups = 3, .keys = 64, .stages = 3},
     .forward_computing = {.groups = 2, .keys = 128, .stages = 2},
     .gradient = HopperAttentionGradientTile{.groups = 2, .stages = 3},
     .gradient_computing = HopperAttentionGradientTile{.groups = 2, .stages = 3},
     .joint_gradient = kJointGradientOf128},
    {.most_head_dim = 160,
     .forward = {.groups = 3, .keys = 64, .stages = 3, .query_stages = 1},
     .forward_with_score = {.groups = 3, .keys = 64, .stages = 3, .query_stages = 1},
     .forward_computing = {.groups = 2, .keys = 64, .stages = 3, .query_stages = 1},
     .gradient = std::nullopt,
     .gradient_computing = std::nullopt,
     .joint_gradient = kGradientOf192},
    {.most_head_dim = 192,
     .forward = {.groups = 2, .keys = 112, .stages = 2, .query_stages = 1},
     .forward_with_score = {.groups = 2, .keys = 112, .stages = 2, .query_stages = 1},
     .forward_computing = {.groups = 2, .keys = 64, .stages = 3, .query_stages = 1},
     .gradient = std::nullopt,
     .gradient_computing = std::nullopt,
     .joint_gradient = kGradientOf192},
    {.most_head_dim = 256,
     .forward = {.groups = 2, .keys = 80, .stages = 2, .query_stages = 1},
     .forward_with_score = {.groups = 2, .keys = 64, .stages = 2, .query_stages = 1},
     .forward_computing = {.groups = 2, .keys = 64, .stages = 2, .query_stages = 1},
     .gradient = std::nullopt,
     .gradient_computing = std::nullopt,
     .joint_gradient = kGradientOf256}};

}  // namespace

std::span<const GemmSchedule> gemm_schedules() { return kGemm; }
std::span<const HopperGemmSchedule> hopper_gemm_schedules() { return kHopperGemm; }
const HopperGemmFigures& hopper_gemm_figures() { return kHopperGemmFigures; }
std::span<const AttentionSchedule> attention_schedules() { return kAttention; }
std::span<const AttentionGradientSchedule> attention_gradient_schedules() { return kAttentionGradient; }
std::span<const HopperAttentionSchedule> hopper_attention_schedules() { return kHopperAttention; }

double gemm_multiply_adds(const GpuArchitecture& architecture, GemmOperand operand) {
  const auto rate = std::find_if(std::begin(kRates), std::end(kRates), [&](const Rate& candidate) {
    return candidate.operand == operand && candidate.instructions == architecture.wave_matrix;
  });
  CAUSEWAY_CHECK(rate != std::end(kRates), "no rate of multiply-adds on {}", architecture.processor);
  return rate->multiply_adds;
}

double gemm_combine_bytes(const GpuArchitecture&) { return 2e6; }

}  // namespace causeway::codegen
