// The shared memory of attention on GPUs (attention.h, attention_gradient.h, attention_hopper.h,
// attention_hopper_gradient.h), as the host that launches it counts it; tests/codegen/schedules_test.cpp holds the
// kernels' own structures against it. In bytes.
#pragma once

#include "causeway/kernels/types.h"

// A head's elements in whole fragments, and a row of them in shared memory: 16 bytes more keep rows on different banks.
constexpr int gpu_attention_padded_dim(int64_t head_dim) { return static_cast<int>((head_dim + 15) / 16 * 16); }
constexpr int gpu_attention_row_bytes(int64_t head_dim, int element_bytes) {
  return gpu_attention_padded_dim(head_dim) * element_bytes + 16;
}

// Keys and values of all stages, and a block's queries: operands of two bytes keep them in registers, so that the rows
// share the memory.
constexpr int gpu_attention_shared_bytes(int64_t head_dim, int element_bytes, int query_tile, int key_tile,
                                         int stages) {
  const int row = gpu_attention_row_bytes(head_dim, element_bytes);
  const int staged = 2 * stages * key_tile * row, queries = query_tile * row;
  return element_bytes == 2 ? (staged > queries ? staged : queries) : staged + queries;
}

// attention_cdna.h: two slices of keys and values, whose pieces are exchanged and not padded; later 16 rows of results
// of each wave in their place.
constexpr int cdna_attention_shared_bytes(int64_t head_dim, int waves, int key_tile) {
  const int staged = 2 * 2 * key_tile * static_cast<int>(head_dim) * 2;
  const int results = waves * 16 * gpu_attention_row_bytes(head_dim, 2);
  return staged > results ? staged : results;
}

// attention_cdna_gradient.h: how many blocks of 16 keys a wave has, as far as registers hold the sums of both; and two
// slices of both operands of the others, along heads' elements and across.
constexpr int cdna_attention_key_blocks(int64_t head_dim) { return head_dim > 64 ? 1 : 2; }
constexpr int cdna_attention_gradient_shared_bytes(int64_t head_dim, int waves, int tile) {
  const int staged = 2 * 4 * tile * static_cast<int>(head_dim) * 2;
  const int results = waves * 16 * gpu_attention_row_bytes(head_dim, 2);
  return staged > results ? staged : results;
}

// Two operands of a block's own lines, two of each stage's tile, and two statistics for each of its lines.
constexpr int gpu_attention_gradient_shared_bytes(int64_t head_dim, int element_bytes, int lines, int tile,
                                                  int stages) {
  return (2 * lines + 2 * stages * tile) * gpu_attention_row_bytes(head_dim, element_bytes) + 2 * stages * tile * 4;
}

// Rings of queries, of keys and of values, with two barriers for each stage, and notes to those that multiply.
constexpr int hopper_attention_shared_bytes(int64_t head_dim, int groups, int query_stages, int key_tile, int stages) {
  constexpr int kBarrier = 8, kTaskNote = 16, kTileNote = 8;
  return (64 * groups * query_stages + 2 * stages * key_tile) * static_cast<int>(head_dim) * 2 +
         query_stages * (2 * kBarrier + kTaskNote) + stages * (4 * kBarrier + kTileNote);
}

// attention_hopper_joint_gradient.h: own lines of `own` tasks, a ring of others with their statistics, two tiles of
// gradients of scores, for each of two warpgroups sums of a tile of queries, barriers and notes.
constexpr int hopper_attention_joint_gradient_shared_bytes(int64_t head_dim, int own, int stages) {
  constexpr int kBarrier = 8, kNote = 16, kLines = 128, kTile = 64, kSums = 2;
  return 2 * (own * kLines + stages * kTile) * static_cast<int>(head_dim) * 2 + 2 * kLines * kTile * 2 +
         kSums * kTile * static_cast<int>(head_dim) * 4 + stages * 2 * kTile * 4 +
         (own + stages + kSums) * 2 * kBarrier + (own + stages + kSums) * kNote;
}

// Own lines of two tasks, a ring of others with their statistics, with two barriers for each stage, and notes.
constexpr int hopper_attention_gradient_shared_bytes(int64_t head_dim, int groups, int tile, int stages) {
  constexpr int kBarrier = 8, kNote = 16;
  return 2 * (2 * 64 * groups + stages * tile) * static_cast<int>(head_dim) * 2 + stages * 2 * tile * 4 +
         2 * (2 * kBarrier + kNote) + stages * (2 * kBarrier + kNote);
}
