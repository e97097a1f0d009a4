// Which blocks of an attention matrix hold anything: one byte for each (query block, key block), from the mask alone.
//
// The problem P provides
//   static constexpr int kBlockQ, kBlockK;
//   int64_t map_batch, map_heads;        // 1 where the mask does not depend on the batch or the head
//   int64_t query_length, key_length;
//   bool mask(int64_t b, int64_t h, int64_t t, int64_t s) const;     // whether query t may attend to key s
//   Range mask_range(int64_t b, int64_t h, Range t, Range s) const;  // what that can be for all of them, at least
//   void store_block_kind(int64_t b, int64_t h, int64_t q_block, int64_t k_block, uint8_t kind) const;
// The members may be static constexpr. A block at the end of either length is judged by the positions that exist.
#pragma once

#include "causeway/kernels/attention_layout.h"
#include "causeway/kernels/mask_ranges.h"

constexpr uint8_t kAttentionBlockEmpty = 0;    // no position is allowed: skip it
constexpr uint8_t kAttentionBlockPartial = 1;  // the mask must be applied
constexpr uint8_t kAttentionBlockFull = 2;     // every position is allowed

// What follows for a block from the truths that its pairs can have; -1: nothing, pairs have to be looked at.
CAUSEWAY_INLINE int attention_block_kind(const Range& truth) {
  return truth.low == 1 ? kAttentionBlockFull : truth.high == 0 ? kAttentionBlockEmpty : -1;
}

// Task `(b * map_heads + h) * query_blocks + q_block` fills one row of the map.
template <class P>
inline void attention_block_map(const P& problem, int64_t task) {
  const P p = problem;
  const int64_t query_blocks = attention_block_count(p.query_length, P::kBlockQ);
  const int64_t key_blocks = attention_block_count(p.key_length, P::kBlockK);
  const int64_t q_block = task % query_blocks;
  const int64_t h = task / query_blocks % p.map_heads;
  const int64_t b = task / query_blocks / p.map_heads;
  const int64_t t_begin = q_block * P::kBlockQ;
  const int64_t t_end = t_begin + P::kBlockQ < p.query_length ? t_begin + P::kBlockQ : p.query_length;
  for (int64_t k_block = 0; k_block < key_blocks; ++k_block) {
    const int64_t s_begin = k_block * P::kBlockK;
    const int64_t left = p.key_length - s_begin;
    const int32_t keys = left < P::kBlockK ? static_cast<int32_t>(left) : P::kBlockK;
    const int kind = attention_block_kind(p.mask_range(b, h, {t_begin, t_end - 1}, {s_begin, s_begin + keys - 1}));
    if (kind >= 0) {
      p.store_block_kind(b, h, q_block, k_block, static_cast<uint8_t>(kind));
      continue;
    }
    bool any = false;
    bool all = true;
    for (int64_t t = t_begin; t < t_end && (all || !any); ++t) {
      int32_t allowed = 0;
      for (int32_t j = 0; j < keys; ++j) allowed += p.mask(b, h, t, s_begin + j) ? 1 : 0;
      any = any || allowed != 0;
      all = all && allowed == keys;
    }
    p.store_block_kind(b, h, q_block, k_block,
                       all   ? kAttentionBlockFull
                       : any ? kAttentionBlockPartial
                             : kAttentionBlockEmpty);
  }
}
