// The block map of attention_block_map.h on GPUs. A thread has a block of the attention matrix, of which the ranges of
// its positions, and of what the mask reads there, may say all there is to know; the pairs of other blocks are looked
// at by a wave, until they differ.
#pragma once

#include "causeway/kernels/attention_block_map.h"
#include "causeway/kernels/gpu/intrinsics.h"

// Pair by pair, by a wave.
template <class P>
CAUSEWAY_INLINE uint8_t look_at_pairs(const P& p, int b, int h, int t_begin, int t_end, int s_begin, int s_end) {
  constexpr int kPairs = P::kBlockQ * P::kBlockK;
  bool any = false, all = true;
#pragma clang loop unroll(disable)
  for (int first = 0; first < kPairs && (all || !any); first += kWaveWidth) {
    const int pair = first + lane_index();
    const int t = t_begin + pair / P::kBlockK, s = s_begin + pair % P::kBlockK;
    const bool exists = pair < kPairs && t < t_end && s < s_end;
    const bool allowed = exists && p.mask(b, h, t, s);
    any = any || wave_any(allowed);
    all = all && !wave_any(exists && !allowed);
  }
  return all ? kAttentionBlockFull : any ? kAttentionBlockPartial : kAttentionBlockEmpty;
}

// Task ((b * map_heads + h) * query_blocks + q_block) * parts + part, by kBlockMapThreads threads.
template <class P>
CAUSEWAY_INLINE void gpu_attention_block_map(const P& p, int task) {
  const int query_blocks = static_cast<int>(attention_block_count(p.query_length, P::kBlockQ));
  const int key_blocks = static_cast<int>(attention_block_count(p.key_length, P::kBlockK));
  const int parts = static_cast<int>(attention_block_map_parts(key_blocks));
  const int heads = static_cast<int>(p.map_heads);
  const int q_block = task / parts % query_blocks;
  const int h = task / (parts * query_blocks) % heads;
  const int b = task / (parts * query_blocks) / heads;
  const int t_begin = q_block * P::kBlockQ;
  const int t_end = static_cast<int>(minimum(t_begin + P::kBlockQ, p.query_length));
  const int wave_first = task % parts * kBlockMapThreads + wave_index() * kWaveWidth;
  const auto s_begin = [&](int k_block) { return k_block * P::kBlockK; };
  const auto s_end = [&](int k_block) {
    return static_cast<int>(minimum(s_begin(k_block) + P::kBlockK, p.key_length));
  };

  const int own = wave_first + lane_index();
  int kind = 0;
  if (own < key_blocks)
    kind = attention_block_kind(p.mask_range(b, h, {t_begin, t_end - 1}, {s_begin(own), s_end(own) - 1}));
  auto unknown = wave_ballot(kind < 0);
#pragma clang loop unroll(disable)
  while (unknown != 0) {
    const int lane = __builtin_ctzll(unknown);
    unknown &= unknown - 1;
    const int k_block = wave_first + lane;
    const uint8_t found = look_at_pairs(p, b, h, t_begin, t_end, s_begin(k_block), s_end(k_block));
    if (lane_index() == lane) kind = found;
  }
  if (own < key_blocks) p.store_block_kind(b, h, q_block, own, static_cast<uint8_t>(kind));
}
