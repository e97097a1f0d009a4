#include "causeway/codegen/gpu/schedules.h"

#include "causeway/device/gpu_architecture.h"

namespace causeway::codegen {
namespace {

constexpr int kAnyHead = 1 << 20;

using enum GpuArchitecture::WaveMatrix;
using enum HopperAttentionGradientKind;

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
// Gradients of wider heads with three tiles of queries there take 7 % to 11 % less time than with two; the launch of
// queries has as many.
constexpr HopperAttentionGradientTile kJointGradientOf128 = {.groups = 2, .stages = 2, .own_stages = 1, .kind = kJoint};
constexpr HopperAttentionGradientTile kGradientOf192And128 = {.groups = 2, .stages = 4, .own_stages = 1, .kind = kWide};
constexpr HopperAttentionGradientTile kGradientOf192 = {.groups = 2, .stages = 3, .own_stages = 1, .kind = kWide};
constexpr HopperAttentionGradientTile kGradientOf256 = {.groups = 2, .stages = 2, .own_stages = 1, .kind = kWide};
constexpr HopperAttentionSchedule kHopperAttention[] = {
    {.most_head_dim = 64,
     .most_value_dim = 64,
     .forward = {.groups = 3, .keys = 128, .stages = 5},
     .forward_with_score = {.groups = 3, .keys = 128, .stages = 5},
     .forward_computing = {.groups = 2, .keys = 128, .stages = 5},
     .gradient = HopperAttentionGradientTile{.groups = 3, .stages = 6},
     .gradient_computing = HopperAttentionGradientTile{.groups = 2, .stages = 6},
     .all_gradients = std::nullopt},
    {.most_head_dim = 112,
     .most_value_dim = 112,
     .forward = {.groups = 3, .keys = 96, .stages = 2},
     .forward_with_score = {.groups = 3, .keys = 96, .stages = 2},
     .forward_computing = {.groups = 2, .keys = 128, .stages = 2},
     .gradient = HopperAttentionGradientTile{.groups = 2, .stages = 3},
     .gradient_computing = HopperAttentionGradientTile{.groups = 2, .stages = 3},
     .all_gradients = kJointGradientOf128},
    {.most_head_dim = 128,
     .most_value_dim = 128,
     .forward = {.groups = 3, .keys = 64, .stages = 3},
     .forward_with_score = {.groups = 3, .keys = 64, .stages = 3},
     .forward_computing = {.groups = 2, .keys = 128, .stages = 2},
     .gradient = HopperAttentionGradientTile{.groups = 2, .stages = 3},
     .gradient_computing = HopperAttentionGradientTile{.groups = 2, .stages = 3},
     .all_gradients = kJointGradientOf128},
    {.most_head_dim = 160,
     .most_value_dim = 160,
     .forward = {.groups = 3, .keys = 64, .stages = 3, .query_stages = 1},
     .forward_with_score = {.groups = 3, .keys = 64, .stages = 3, .query_stages = 1},
     .forward_computing = {.groups = 2, .keys = 64, .stages = 3, .query_stages = 1},
     .gradient = std::nullopt,
     .gradient_computing = std::nullopt,
     .all_gradients = kGradientOf192},
    {.most_head_dim = 192,
     .most_value_dim = 128,
     .forward = {.groups = 3, .keys = 80, .stages = 3, .query_stages = 1},
     .forward_with_score = {.groups = 3, .keys = 64, .stages = 3, .query_stages = 1},
     .forward_computing = {.groups = 2, .keys = 64, .stages = 3, .query_stages = 1},
     .gradient = std::nullopt,
     .gradient_computing = std::nullopt,
     .all_gradients = kGradientOf192And128},
    {.most_head_dim = 192,
     .most_value_dim = 192,
     .forward = {.groups = 2, .keys = 112, .stages = 2, .query_stages = 1},
     .forward_with_score = {.groups = 2, .keys = 112, .stages = 2, .query_stages = 1},
     .forward_computing = {.groups = 2, .keys = 64, .stages = 3, .query_stages = 1},
     .gradient = std::nullopt,
     .gradient_computing = std::nullopt,
     .all_gradients = kGradientOf192},
    {.most_head_dim = 256,
     .most_value_dim = 256,
     .forward = {.groups = 2, .keys = 80, .stages = 2, .query_stages = 1},
     .forward_with_score = {.groups = 2, .keys = 64, .stages = 2, .query_stages = 1},
     .forward_computing = {.groups = 2, .keys = 64, .stages = 2, .query_stages = 1},
     .gradient = std::nullopt,
     .gradient_computing = std::nullopt,
     .all_gradients = kGradientOf256}};

}  // namespace

std::span<const AttentionSchedule> attention_schedules() { return kAttention; }
std::span<const AttentionGradientSchedule> attention_gradient_schedules() { return kAttentionGradient; }
std::span<const HopperAttentionSchedule> hopper_attention_schedules() { return kHopperAttention; }

}  // namespace causeway::codegen
