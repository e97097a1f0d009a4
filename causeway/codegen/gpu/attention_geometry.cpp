#include "causeway/codegen/gpu/attention_geometry.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "causeway/base/error.h"
#include "causeway/codegen/gpu/schedules.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/kernels/gpu/attention_tile_layout.h"

namespace causeway::codegen {
namespace {

bool whole(int64_t a, int64_t b) { return a % b == 0 || b % a == 0; }

// The first row of a table for the request; rows are by growing heads.
template <class Schedule>
const Schedule& schedule_for(std::span<const Schedule> schedules, const GpuAttentionRequest& request,
                             const GpuArchitecture& architecture) {
  const auto found = std::find_if(schedules.begin(), schedules.end(), [&](const Schedule& schedule) {
    return (schedule.operand_bytes == 2) == (request.operand_bytes == 2) &&
           gpu_attention_padded_dim(request.head_dim) <= schedule.most_head_dim &&
           schedule.instructions == architecture.wave_matrix;
  });
  CAUSEWAY_CHECK(found != schedules.end(), "no schedule of attention for operands of {} bytes on {}",
                 request.operand_bytes, architecture.processor);
  return *found;
}

const HopperAttentionSchedule* hopper_schedule(const GpuAttentionRequest& request,
                                               const GpuArchitecture& architecture) {
  if (!architecture.has_warpgroup_matrix || request.operand_bytes != 2) return nullptr;
  for (const HopperAttentionSchedule& schedule : hopper_attention_schedules())
    if (schedule.head_dim == request.head_dim) return &schedule;
  return nullptr;
}

// Whether ping-pong is for heads and lengths like these, whichever operands lie as rows.
bool serves_ping_pong(const GpuAttentionRequest& request, const GpuArchitecture& architecture) {
  constexpr int64_t kFewQueries = 128;
  return architecture.vendor == GpuArchitecture::Vendor::kAmd && request.operand_bytes == 2 &&
         (request.head_dim == 64 || request.head_dim == 128) &&
         request.queries.value_or(kFewQueries + 1) > kFewQueries && request.block_q % 32 == 0;
}

// Of attention_cdna.h: a block has 256 queries.
std::optional<GpuAttentionTiles> ping_pong_tiles(const GpuAttentionRequest& request,
                                                 const GpuArchitecture& architecture) {
  if (!serves_ping_pong(request, architecture) || !request.has_key_rows) return std::nullopt;
  constexpr int kBlocks = 2;  // of 16 queries, in each wave
  GpuAttentionTiles tiles;
  tiles.ping_pong = true;
  tiles.waves = 8;
  tiles.query_tile = 16 * kBlocks * tiles.waves;
  tiles.shared_bytes = cdna_attention_shared_bytes(request.head_dim, tiles.waves, tiles.key_tile);
  tiles.map_is_usable = request.block_k % tiles.key_tile == 0 && whole(request.block_q, tiles.query_tile);
  if (tiles.shared_bytes > architecture.shared_bytes) return std::nullopt;
  return tiles;
}

// Of attention_cdna_gradient.h: a block has 256 queries, or 256 keys, or 128.
std::optional<GpuAttentionTiles> ping_pong_gradient_tiles(const GpuAttentionRequest& request,
                                                          const GpuArchitecture& architecture) {
  if (!serves_ping_pong(request, architecture) || !request.has_rows) return std::nullopt;
  const int key_blocks = cdna_attention_key_blocks(request.head_dim);
  GpuAttentionTiles tiles;
  tiles.ping_pong = true;
  tiles.waves = 8;
  tiles.query_tile = 32 * tiles.waves;
  tiles.key_lines = 16 * key_blocks * tiles.waves;
  tiles.key_tile = 32;
  tiles.shared_bytes = cdna_attention_gradient_shared_bytes(request.head_dim, tiles.waves, tiles.key_tile);
  tiles.map_is_usable = request.block_k % tiles.key_tile == 0 && request.block_q % tiles.key_tile == 0 &&
                        whole(request.block_q, tiles.query_tile) && whole(request.block_k, tiles.key_lines);
  if (tiles.shared_bytes > architecture.shared_bytes) return std::nullopt;
  return tiles;
}

[[noreturn]] void refuse(const GpuAttentionRequest& request, const GpuArchitecture& architecture) {
  throw Error(
      ErrorKind::kResource,
      fmt::format("attention with heads of {} elements of {} bytes needs more than the {} bytes of shared memory "
                  "that a thread block of {} has",
                  request.head_dim, request.operand_bytes, architecture.shared_bytes, architecture.processor),
      "attention", "Use smaller heads, or bf16.");
}

}  // namespace

std::optional<HopperAttentionTiles> hopper_attention_forward_tiles(const GpuAttentionRequest& request,
                                                                   const GpuArchitecture& architecture) {
  const HopperAttentionSchedule* schedule = hopper_schedule(request, architecture);
  if (schedule == nullptr) return std::nullopt;
  HopperAttentionTiles tiles;
  const HopperAttentionForward& forward = request.computes_operands ? schedule->forward_computing : schedule->forward;
  tiles.groups = forward.groups;
  tiles.key_tile = forward.key_tile;
  tiles.stages = forward.stages;
  tiles.shared_bytes =
      hopper_attention_shared_bytes(request.head_dim, tiles.groups, tiles.query_stages, tiles.key_tile, tiles.stages);
  return tiles;
}

std::optional<HopperAttentionGradientTiles> hopper_attention_gradient_tiles(const GpuAttentionRequest& request,
                                                                            const GpuArchitecture& architecture) {
  const HopperAttentionSchedule* schedule = hopper_schedule(request, architecture);
  if (schedule == nullptr) return std::nullopt;
  HopperAttentionGradientTiles tiles;
  tiles.stages = schedule->gradient_stages;
  tiles.groups = request.computes_operands ? schedule->gradient_groups_computing : schedule->gradient_groups;
  tiles.shared_bytes = hopper_attention_gradient_shared_bytes(request.head_dim, tiles.groups, tiles.tile, tiles.stages);
  return tiles;
}

std::optional<HopperAttentionJointTiles> hopper_attention_joint_tiles(const GpuAttentionRequest& request,
                                                                      const GpuArchitecture& architecture) {
  // Heads of 64 take as long in two launches: each block's warpgroups then need not wait for each other.
  const bool fits = hopper_schedule(request, architecture) != nullptr && request.head_dim == 128;
  if (!fits || request.computes_operands) return std::nullopt;
  HopperAttentionJointTiles tiles;
  tiles.shared_bytes = hopper_attention_joint_gradient_shared_bytes(request.head_dim, tiles.own_stages, tiles.stages);
  return tiles;
}

GpuAttentionTiles gpu_attention_forward_tiles(const GpuAttentionRequest& request, const GpuArchitecture& architecture) {
  if (const auto tiles = ping_pong_tiles(request, architecture)) return *tiles;
  const AttentionSchedule& schedule = schedule_for(attention_schedules(), request, architecture);
  const int blocks = request.block_q % 32 == 0 ? schedule.query_blocks : 1;
  for (int key_tile = schedule.widest_key_tile; key_tile >= 16; key_tile /= 2) {
    for (const int waves : {4, 2, 1}) {
      GpuAttentionTiles tiles;
      tiles.waves = waves;
      tiles.key_tile = key_tile;
      tiles.stages = schedule.stages;
      tiles.query_tile = 16 * blocks * waves;
      tiles.shared_bytes =
          gpu_attention_shared_bytes(request.head_dim, request.operand_bytes, tiles.query_tile, key_tile, tiles.stages);
      if (tiles.shared_bytes > architecture.shared_bytes) continue;
      tiles.map_is_usable = request.block_k % key_tile == 0 && request.block_q % (16 * blocks) == 0 &&
                            whole(request.block_q, tiles.query_tile);
      tiles.blocks_per_unit = request.has_score ? schedule.blocks_per_unit_with_score : schedule.blocks_per_unit;
      return tiles;
    }
  }
  refuse(request, architecture);
}

GpuAttentionTiles gpu_attention_backward_tiles(const GpuAttentionRequest& request,
                                               const GpuArchitecture& architecture) {
  if (const auto tiles = ping_pong_gradient_tiles(request, architecture)) return *tiles;
  const AttentionGradientSchedule& schedule = schedule_for(attention_gradient_schedules(), request, architecture);
  for (int tile = schedule.widest_tile; tile >= 16; tile /= 2) {
    for (const int waves : {4, 2, 1}) {
      GpuAttentionTiles tiles;
      tiles.waves = waves;
      tiles.query_tile = tiles.key_lines = 16 * waves;
      tiles.key_tile = tile;
      tiles.stages = schedule.stages;
      tiles.shared_bytes = gpu_attention_gradient_shared_bytes(request.head_dim, request.operand_bytes,
                                                               tiles.query_tile, tile, tiles.stages);
      if (tiles.shared_bytes > architecture.shared_bytes) continue;
      tiles.map_is_usable = request.block_k % tile == 0 && request.block_q % tile == 0 && request.block_q % 16 == 0 &&
                            request.block_k % 16 == 0 && whole(request.block_q, tiles.query_tile) &&
                            whole(request.block_k, tiles.query_tile);
      tiles.gradients_together = schedule.gradients_together;
      if (waves == 4) {
        const int fitting = architecture.shared_bytes / tiles.shared_bytes, less = request.has_score ? 1 : 0;
        tiles.blocks_per_unit = std::clamp(schedule.blocks_per_unit - less, 1, fitting);
        tiles.key_blocks_per_unit = std::clamp(schedule.key_blocks_per_unit - less, 1, fitting);
      }
      return tiles;
    }
  }
  refuse(request, architecture);
}

}  // namespace causeway::codegen
