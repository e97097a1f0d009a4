// The ways in which templates of attention can be run on GPUs, as tables: for each architecture the candidates, and
// which requests they are for. Figures are of the products named in device/gpu_architecture.cpp; a comment beside each
// table says what was measured and what was not. Choosing among the rows (attention_plan.h) is a function of the
// request and the architecture alone. GEMMs' tables are in their mainloops' files (gemm_mainloops.h).
#pragma once

#include <optional>
#include <span>

#include "causeway/device/gpu_architecture.h"
#include "causeway/kernels/gpu/attention_tile_layout.h"

namespace causeway::codegen {

// Rows of tables of the kernels that waves compute with fragments are for the instructions that multiply those.
using WaveMatrix = GpuArchitecture::WaveMatrix;

// attention.h: for heads of at most so many elements, padded to 16.
struct AttentionSchedule {
  WaveMatrix instructions;
  int operand_bytes;  // 2; or 4, for all other operands
  int most_head_dim;
  int widest_key_tile;  // that registers allow; 64, 32 or 16
  int query_blocks;     // of 16 queries in each wave, where the map's blocks allow two
  int stages;
  int blocks_per_unit, blocks_per_unit_with_score;
};
std::span<const AttentionSchedule> attention_schedules();

// attention_gradient.h.
struct AttentionGradientSchedule {
  WaveMatrix instructions;
  int operand_bytes;  // as above
  int most_head_dim;
  int widest_tile;
  int stages;
  bool gradients_together;  // keys' and values' gradients fit in registers at once
  // With four waves, without a score; a score takes the registers of one.
  int blocks_per_unit, key_blocks_per_unit;
};
std::span<const AttentionGradientSchedule> attention_gradient_schedules();

// attention_hopper.h and attention_hopper_gradient.h, its joint and its wide one, for operands of two bytes and
// those of the heads of at most so many elements that hopper_attention_serves().
struct HopperAttentionSchedule {
  int most_head_dim, most_value_dim;
  HopperAttentionTile forward;
  HopperAttentionTile forward_with_score;  // where a score function takes registers
  HopperAttentionTile forward_computing;   // where computing operands does, with a score function or without
  std::optional<HopperAttentionGradientTile> gradient, gradient_computing;  // none: attention_gradient.h serves them
  // Of all three gradients: in one pass, where that takes less time than two, or by warpgroups that have one sum each.
  std::optional<HopperAttentionGradientTile> all_gradients;
};
std::span<const HopperAttentionSchedule> hopper_attention_schedules();

}  // namespace causeway::codegen
