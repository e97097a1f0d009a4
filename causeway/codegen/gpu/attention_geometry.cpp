#include "causeway/codegen/gpu/attention_geometry.h"

#include <fmt/format.h>

#include <algorithm>

#include "causeway/base/error.h"

namespace causeway::codegen {
namespace {

int padded(int64_t head_dim) { return static_cast<int>((head_dim + 15) / 16 * 16); }

// As row_stride() in kernels/gpu/attention_tile.h.
int row_bytes(const GpuAttentionRequest& request) { return padded(request.head_dim) * request.operand_bytes + 16; }

bool whole(int64_t a, int64_t b) { return a % b == 0 || b % a == 0; }

bool fits_hopper_attention(const GpuAttentionRequest& request, const GpuArchitecture& architecture) {
  return architecture.has_warpgroup_matrix && request.operand_bytes == 2 &&
         (request.head_dim == 64 || request.head_dim == 128);
}

// Whether a third warpgroup leaves each enough registers.
bool has_room_for_three_groups(const GpuAttentionRequest& request) {
  return request.head_dim == 64 && !request.has_score && !request.computes_operands;
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
  if (!fits_hopper_attention(request, architecture)) return std::nullopt;
  HopperAttentionTiles tiles;
  if (request.head_dim == 64) tiles.stages = 5;
  if (has_room_for_three_groups(request)) tiles.groups = 3;
  const int row = static_cast<int>(request.head_dim) * 2;
  // As attention_hopper::ForwardShared: rings of queries, keys and values, barriers and notes.
  tiles.shared_bytes = (64 * tiles.groups * tiles.query_stages + 2 * tiles.stages * tiles.key_tile) * row +
                       tiles.query_stages * (2 * 8 + 16) + tiles.stages * (4 * 8 + 8);
  return tiles;
}

std::optional<HopperAttentionGradientTiles> hopper_attention_gradient_tiles(const GpuAttentionRequest& request,
                                                                            const GpuArchitecture& architecture) {
  if (!fits_hopper_attention(request, architecture)) return std::nullopt;
  HopperAttentionGradientTiles tiles;
  if (request.head_dim == 64) tiles.stages = 6;
  if (has_room_for_three_groups(request)) tiles.groups = 3;
  const int row = static_cast<int>(request.head_dim) * 2;
  // As attention_hopper::GradientShared: own lines of two tasks, others and their statistics, barriers and notes.
  tiles.shared_bytes = 2 * (2 * 64 * tiles.groups + tiles.stages * tiles.tile) * row +
                       tiles.stages * 2 * tiles.tile * 4 + 2 * (2 * 8 + 16) + tiles.stages * (2 * 8 + 16);
  return tiles;
}

GpuAttentionTiles gpu_attention_forward_tiles(const GpuAttentionRequest& request, const GpuArchitecture& architecture) {
  const bool nvidia = architecture.vendor == GpuArchitecture::Vendor::kNvidia;
  const bool narrow = request.operand_bytes == 2;
  const int dim = padded(request.head_dim), row = row_bytes(request);
  for (const int key_tile : {64, 32, 16}) {
    if (nvidia && key_tile > (dim > 128 ? 16 : narrow ? 64 : 32)) continue;  // registers
    for (const int waves : {4, 2, 1}) {
      GpuAttentionTiles tiles;
      tiles.waves = waves;
      tiles.key_tile = key_tile;
      tiles.stages = nvidia ? 2 : 1;
      const int blocks = narrow && dim <= (nvidia ? 64 : 128) && request.block_q % 32 == 0 ? 2 : 1;
      tiles.query_tile = 16 * blocks * waves;
      const int staged = 2 * tiles.stages * key_tile * row, rows = tiles.query_tile * row;
      tiles.shared_bytes = narrow ? std::max(staged, rows) : staged + rows;
      if (tiles.shared_bytes > architecture.shared_bytes) continue;
      tiles.map_is_usable = request.block_k % key_tile == 0 && request.block_q % (16 * blocks) == 0 &&
                            whole(request.block_q, tiles.query_tile);
      tiles.blocks_per_unit = nvidia && narrow && dim <= 128 && !request.has_score ? 2 : 1;
      return tiles;
    }
  }
  refuse(request, architecture);
}

GpuAttentionTiles gpu_attention_backward_tiles(const GpuAttentionRequest& request,
                                               const GpuArchitecture& architecture) {
  const bool nvidia = architecture.vendor == GpuArchitecture::Vendor::kNvidia;
  const int dim = padded(request.head_dim), row = row_bytes(request);
  for (const int tile : {64, 32, 16}) {
    if ((dim > 64 || request.operand_bytes == 4) && tile > 32) continue;
    for (const int waves : {4, 2, 1}) {
      GpuAttentionTiles tiles;
      tiles.waves = waves;
      tiles.query_tile = 16 * waves;
      tiles.key_tile = tile;
      tiles.stages = nvidia ? 2 : 1;
      tiles.shared_bytes = (2 * tiles.query_tile + 2 * tiles.stages * tile) * row + 2 * tiles.stages * tile * 4;
      if (tiles.shared_bytes > architecture.shared_bytes) continue;
      tiles.map_is_usable = request.block_k % tile == 0 && request.block_q % tile == 0 && request.block_q % 16 == 0 &&
                            request.block_k % 16 == 0 && whole(request.block_q, tiles.query_tile) &&
                            whole(request.block_k, tiles.query_tile);
      tiles.gradients_together = !nvidia || dim <= 128;
      if (nvidia && request.operand_bytes == 2 && waves == 4 && dim <= 128) {
        const int fitting = architecture.shared_bytes / tiles.shared_bytes, less = request.has_score ? 1 : 0;
        tiles.blocks_per_unit = std::clamp((dim <= 64 ? 4 : 2) - less, 1, fitting);
        tiles.key_blocks_per_unit = std::clamp((dim <= 64 ? 3 : 2) - less, 1, fitting);
      }
      return tiles;
    }
  }
  refuse(request, architecture);
}

}  // namespace causeway::codegen
