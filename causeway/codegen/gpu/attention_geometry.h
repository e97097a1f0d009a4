// How attention on a GPU is cut into blocks of threads and tiles, from the architecture's limits. Lengths in elements,
// memory in bytes.
#pragma once

#include <cstdint>
#include <optional>

#include "causeway/device/gpu_architecture.h"

namespace causeway::codegen {

struct GpuAttentionRequest {
  int64_t head_dim = 0;
  int operand_bytes = 2;
  // Blocks of the map; tiles that do not straddle them can be skipped with them.
  int64_t block_q = 64;
  int64_t block_k = 64;
  bool has_score = false;          // a score function takes registers
  bool computes_operands = false;  // and so does computing operands; Hopper only
  // Keys and values lie in memory as rows; all operands of the gradient; and how many queries, where that is known.
  bool has_key_rows = false, has_rows = false;
  std::optional<int64_t> queries = std::nullopt;
};

struct GpuAttentionTiles {
  int waves = 4;
  int query_tile = 64;  // queries of a block, 16 or 32 for each wave
  int key_lines = 64;   // backward: keys of a block of their own launch
  int key_tile = 64;    // forward: keys taken at a time; backward: keys or queries
  int stages = 2;       // tiles in flight
  int shared_bytes = 0;
  bool map_is_usable = true;
  bool ping_pong = false;          // attention_cdna.h, attention_cdna_gradient.h
  bool gradients_together = true;  // keys' and values' gradients fit in registers at once
  // Thread blocks that a multiprocessor should hold at once: as many as registers allow without spilling. Backward:
  // of the queries' launch and of the keys'.
  int blocks_per_unit = 1;
  int key_blocks_per_unit = 1;
};

// Of attention_hopper.h.
struct HopperAttentionTiles {
  int groups = 2;        // warpgroups that multiply, of 64 queries each
  int key_tile = 128;    // keys taken at a time
  int query_stages = 2;  // tasks whose queries are in shared memory at once
  int stages = 2;        // tiles of keys, and of values
  int shared_bytes = 0;
};

// Nothing where the architecture or the request is not what attention_hopper.h is for.
std::optional<HopperAttentionTiles> hopper_attention_forward_tiles(const GpuAttentionRequest& request,
                                                                   const GpuArchitecture& architecture);

// Of attention_hopper_gradient.h.
struct HopperAttentionGradientTiles {
  int groups = 2;  // warpgroups that multiply, of 64 lines each
  int tile = 64;   // others taken at a time
  int stages = 3;  // of tiles
  int shared_bytes = 0;
};

// Of attention_hopper_joint_gradient.h: two warpgroups of 64 keys, 64 queries at a time.
struct HopperAttentionJointTiles {
  int own_stages = 1;  // tasks whose keys and values are in shared memory at once
  int stages = 2;      // of queries
  int shared_bytes = 0;
};

// Where all three gradients are computed in one pass; otherwise hopper_attention_gradient_tiles() says how.
std::optional<HopperAttentionJointTiles> hopper_attention_joint_tiles(const GpuAttentionRequest& request,
                                                                      const GpuArchitecture& architecture);

std::optional<HopperAttentionGradientTiles> hopper_attention_gradient_tiles(const GpuAttentionRequest& request,
                                                                            const GpuArchitecture& architecture);

// Throws Error(kResource) naming the op and the limit when no tile fits.
GpuAttentionTiles gpu_attention_forward_tiles(const GpuAttentionRequest& request, const GpuArchitecture& architecture);
GpuAttentionTiles gpu_attention_backward_tiles(const GpuAttentionRequest& request, const GpuArchitecture& architecture);

}  // namespace causeway::codegen
