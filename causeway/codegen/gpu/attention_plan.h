// How a GPU computes attention, or gradients of it: which mainloop, in which tiles, from operands read how. The only
// place that knows what each of them serves; the writer (attention_kernel.cpp) prints what it says. Pure: the same
// arguments give the same plan.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "causeway/codegen/gpu/attention_problem.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/kernels/gpu/attention_one_query_layout.h"
#include "causeway/kernels/gpu/attention_tile_layout.h"

namespace causeway::codegen {

struct GpuAttentionPlan {
  // A mainloop has tiles of its own: GpuAttentionTile of attention.h and attention_cdna.h, OneQueryAttentionTile of
  // attention_one_query.h, HopperAttentionTile of attention_hopper.h; GpuAttentionGradientTile of attention_gradient.h
  // and attention_cdna_gradient.h, HopperAttentionGradientTile of attention_hopper_gradient.h,
  // attention_hopper_joint_gradient.h and attention_hopper_wide_gradient.h.
  std::variant<GpuAttentionTile, OneQueryAttentionTile, HopperAttentionTile, GpuAttentionGradientTile,
               HopperAttentionGradientTile>
      tile;
  // Which operands, in the order of the problem's rows, are read where they lie; elements of the others are computed.
  std::vector<bool> in_memory;
  bool loads_by_tma = false;    // what is read where it lies, in persistent blocks; otherwise by address
  bool rounds_to_tf32 = false;  // f32 operands, on their way to matrix instructions
  // Of one query: a block for each head, and so more multiprocessors, where keys turn out to be too few for parts.
  bool spreads_heads = false;

  const GpuAttentionTile* portable() const { return std::get_if<GpuAttentionTile>(&tile); }
  const OneQueryAttentionTile* one_query() const { return std::get_if<OneQueryAttentionTile>(&tile); }
  const HopperAttentionTile* hopper() const { return std::get_if<HopperAttentionTile>(&tile); }
  const GpuAttentionGradientTile* portable_gradient() const { return std::get_if<GpuAttentionGradientTile>(&tile); }
  const HopperAttentionGradientTile* hopper_gradient() const { return std::get_if<HopperAttentionGradientTile>(&tile); }
  bool computes_operands() const;
  // Of the boxes in which TMA loads that operand, in the order of the problem's rows.
  int box_lines(size_t operand) const;
};

// Throws Error(kResource) naming the op and the limit when no tile fits.
GpuAttentionPlan plan_attention(const GpuAttentionProblem& problem, const GpuArchitecture& architecture);

// "static constexpr HopperAttentionTile kTile = {.groups = 3, ...};".
std::string attention_tile_text(const GpuAttentionPlan& plan);

}  // namespace causeway::codegen
