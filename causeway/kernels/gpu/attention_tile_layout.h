// The tiles of attention on GPUs and the shared memory that they take, as kernel text and the host that launches it
// both need them; tests/codegen/schedules_test.cpp holds the kernels' own structures against it. Memory in bytes.
#pragma once

#include "causeway/kernels/types.h"

// attention.h and attention_cdna.h: a block has `queries` of a head, and takes so many keys at a time.
struct GpuAttentionTile {
  int waves = 4;
  int queries = 64;  // 16 or 32 for each wave
  int keys = 64;
  int stages = 2;             // tiles of keys and values in shared memory at once
  int blocks_per_unit = 1;    // that a multiprocessor should hold at once: as many as registers allow without spilling
  bool map_is_usable = true;  // tiles do not straddle blocks of the map, and can be skipped with them
  bool ping_pong = false;     // of attention_cdna.h: two rows of waves alternate
};

// attention_gradient.h and attention_cdna_gradient.h: a block has `queries` in one launch and `keys` in the other, and
// takes so many of the others at a time.
struct GpuAttentionGradientTile {
  int waves = 4;
  int queries = 64;
  int keys = 64;
  int others = 64;
  int stages = 2;
  int blocks_per_unit = 1, key_blocks_per_unit = 1;  // as above, of the queries' launch and of the keys'
  bool gradients_together = true;                    // those of keys and of values, which registers hold at once
  bool map_is_usable = true;
  bool ping_pong = false;  // of attention_cdna_gradient.h
};

// attention_hopper.h.
struct HopperAttentionTile {
  int groups = 2;        // consumer warpgroups, of 64 queries each
  int keys = 128;        // taken at a time
  int stages = 2;        // tiles of keys, and of values
  int query_stages = 2;  // tasks whose queries are in shared memory at once

  // Parts of 64 own lines of a block.
  constexpr int parts() const { return groups; }
};

// Which kernels compute gradients: those of attention_hopper_gradient.h, of attention_hopper_joint_gradient.h (all
// three in one pass over the pairs), or of attention_hopper_wide_gradient.h (of 64 keys that both have, one
// warpgroup has scores and dv, the other one gradients of weights and dk).
enum class HopperAttentionGradientKind { kApart, kJoint, kWide };
struct HopperAttentionGradientTile {
  int groups = 2;      // consumer warpgroups, of 64 queries or keys each
  int stages = 3;      // tiles of the others
  int others = 64;     // taken at a time
  int own_stages = 2;  // tasks whose own operands are in shared memory at once
  HopperAttentionGradientKind kind = HopperAttentionGradientKind::kApart;

  constexpr bool joint() const { return kind == HopperAttentionGradientKind::kJoint; }
  constexpr bool wide() const { return kind == HopperAttentionGradientKind::kWide; }
  // Parts of 64 own lines of a block.
  constexpr int parts() const { return wide() ? 1 : groups; }
};
// What the launch of queries of attention_hopper_wide_gradient.h has beside the one of keys' `tile`.
constexpr HopperAttentionGradientTile hopper_attention_wide_queries(const HopperAttentionGradientTile& tile) {
  return {.groups = tile.groups, .stages = tile.stages, .others = tile.others, .own_stages = tile.own_stages};
}

// What a block of so many warpgroups has.
constexpr int hopper_attention_lines(int groups) { return 64 * groups; }

// The heads that attention_hopper.h and attention_hopper_wide_gradient.h serve, by the elements of queries and keys and
// by those of values and outputs: whole steps of wgmma along k, no wider than its widest result.
constexpr bool hopper_attention_serves(int64_t head_dim, int64_t value_dim) {
  return head_dim % 16 == 0 && head_dim >= 64 && head_dim <= 256 && value_dim % 16 == 0 && value_dim >= 64 &&
         value_dim <= 256;
}
// Those of attention_hopper_gradient.h and attention_hopper_joint_gradient.h, whose registers hold two sums of a head's
// elements.
constexpr bool hopper_attention_gradient_serves(int64_t head_dim, int64_t value_dim) {
  return hopper_attention_serves(head_dim, value_dim) && head_dim <= 128 && value_dim <= 128;
}
// Columns of their tiles in shared memory: whole boxes of 64. TMA fills those past a head's end with zeros, computed
// operands do not write them, and MMAs do not read them.
constexpr int hopper_attention_columns(int64_t head_dim) { return static_cast<int>((head_dim + 63) / 64 * 64); }

// Lines of the boxes of 64 columns in which TMA loads a tile of so many: 64, or where those do not divide it, all.
constexpr int hopper_attention_box_lines(int lines) { return lines % 64 == 0 ? 64 : lines; }

// A head's elements in whole fragments, and a row of them in shared memory: 16 bytes more keep rows on different banks.
constexpr int gpu_attention_padded_dim(int64_t head_dim) { return static_cast<int>((head_dim + 15) / 16 * 16); }
constexpr int gpu_attention_row_bytes(int64_t head_dim, int element_bytes) {
  return gpu_attention_padded_dim(head_dim) * element_bytes + 16;
}

// attention_cdna_gradient.h: how many blocks of 16 keys a wave has, as far as registers hold the sums of both.
constexpr int cdna_attention_key_blocks(int64_t head_dim) { return head_dim > 64 ? 1 : 2; }

// Keys and values of all stages, and a block's queries: operands of two bytes keep them in registers, so that the rows
// share the memory. Results take the place of it all. Ping-pong has two slices of keys and values, whose pieces are
// exchanged and not padded, and later 16 rows of results of each wave in their place.
constexpr int gpu_attention_shared_bytes(int64_t head_dim, int64_t value_dim, int element_bytes,
                                         const GpuAttentionTile& tile) {
  const int row = gpu_attention_row_bytes(head_dim, element_bytes);
  const int value_row = gpu_attention_row_bytes(value_dim, element_bytes);
  if (tile.ping_pong) {
    const int staged = 2 * 2 * tile.keys * static_cast<int>(head_dim) * 2, results = tile.waves * 16 * row;
    return staged > results ? staged : results;
  }
  const int staged = tile.stages * tile.keys * (row + value_row);
  const int queries = tile.queries * row, results = tile.queries * value_row;
  const int kept = element_bytes == 2 ? staged : staged + queries, rows = queries > results ? queries : results;
  return kept > rows ? kept : rows;
}

// Two operands of a block's own lines, two of each stage's tile, and two statistics for each of its lines. Ping-pong
// has two slices of both operands of the others, along heads' elements and across.
constexpr int gpu_attention_gradient_shared_bytes(int64_t head_dim, int64_t value_dim, int element_bytes,
                                                  const GpuAttentionGradientTile& tile) {
  const int row = gpu_attention_row_bytes(head_dim, element_bytes);
  if (tile.ping_pong) {
    const int staged = 2 * 4 * tile.others * static_cast<int>(head_dim) * 2, results = tile.waves * 16 * row;
    return staged > results ? staged : results;
  }
  const int own = tile.queries > tile.keys ? tile.queries : tile.keys;
  return (own + tile.stages * tile.others) * (row + gpu_attention_row_bytes(value_dim, element_bytes)) +
         2 * tile.stages * tile.others * 4;
}

// Rings of queries, of keys and of values, with two barriers for each stage, and notes to those that multiply.
constexpr int hopper_attention_shared_bytes(int64_t head_dim, int64_t value_dim, const HopperAttentionTile& tile) {
  constexpr int kBarrier = 8, kTaskNotes = 2 * 16, kTileNote = 8;
  return (hopper_attention_lines(tile.groups) * tile.query_stages + tile.stages * tile.keys) *
             hopper_attention_columns(head_dim) * 2 +
         tile.stages * tile.keys * hopper_attention_columns(value_dim) * 2 + tile.query_stages * 2 * kBarrier +
         kTaskNotes + tile.stages * (4 * kBarrier + kTileNote);
}

// Own lines of some tasks, a ring of others with their statistics, with two barriers for each stage, and notes. In one
// pass also two tiles of gradients of scores, and for each warpgroup the sums of a tile of queries. Wide: two of what
// one warpgroup passes on to the other one, with two barriers for each.
constexpr int hopper_attention_gradient_shared_bytes(int64_t head_dim, int64_t value_dim,
                                                     const HopperAttentionGradientTile& tile) {
  constexpr int kBarrier = 8, kNote = 16;
  const int lines = hopper_attention_lines(tile.parts()), sums = tile.joint() ? tile.groups : 0;
  const int wide = tile.wide() ? 2 * (lines * tile.others * 2 + 2 * kBarrier) : 0;
  const int joint =
      tile.joint() ? 2 * lines * tile.others * 2 + sums * tile.others * static_cast<int>(head_dim) * 4 : 0;
  return (tile.own_stages * lines + tile.stages * tile.others) *
             (hopper_attention_columns(head_dim) + hopper_attention_columns(value_dim)) * 2 +
         joint + wide + tile.stages * 2 * tile.others * 4 +
         (tile.own_stages + tile.stages + sums) * (2 * kBarrier + kNote);
}
// The launch of queries where that of keys has the tile: a ring of keys, and one tile of values.
constexpr int hopper_attention_wide_queries_shared_bytes(int64_t head_dim, int64_t value_dim,
                                                         const HopperAttentionGradientTile& tile) {
  constexpr int kBarrier = 8, kNote = 16;
  const int lines = hopper_attention_lines(tile.groups);
  return (tile.own_stages * lines + tile.stages * tile.others) * hopper_attention_columns(head_dim) * 2 +
         (tile.own_stages * lines + tile.others) * hopper_attention_columns(value_dim) * 2 +
         (tile.own_stages + tile.stages) * (2 * kBarrier + kNote) + 2 * kBarrier;
}
