// The block map of attention_block_map.h on GPUs: one block of threads for each byte of the map, which looks at all
// pairs of its block of the attention matrix.
#pragma once

#include "causeway/kernels/attention_block_map.h"
#include "causeway/kernels/gpu/intrinsics.h"

// Task ((b * map_heads + h) * query_blocks + q_block) * key_blocks + k_block, by 128 threads; 8 bytes of shared memory.
template <class P>
CAUSEWAY_INLINE void gpu_attention_block_map(const P& p, int task) {
  const int query_blocks = static_cast<int>(attention_block_count(p.query_length, P::kBlockQ));
  const int key_blocks = static_cast<int>(attention_block_count(p.key_length, P::kBlockK));
  const int heads = static_cast<int>(p.map_heads);
  const int k_block = task % key_blocks, q_block = task / key_blocks % query_blocks;
  const int h = task / (key_blocks * query_blocks) % heads;
  const int b = task / (key_blocks * query_blocks) / heads;
  const int t_begin = q_block * P::kBlockQ, s_begin = k_block * P::kBlockK;
  const int queries = static_cast<int>(minimum(P::kBlockQ, p.query_length - t_begin));
  const int keys = static_cast<int>(minimum(P::kBlockK, p.key_length - s_begin));
  bool any = false, all = true;
#pragma clang loop unroll(disable)
  for (int pair = thread_index(); pair < queries * keys; pair += 128) {
    const bool allowed = p.mask(b, h, t_begin + pair / keys, s_begin + pair % keys);
    any = any || allowed;
    all = all && allowed;
  }
  // Waves write the same value, 1, where they have something to say: the order does not matter.
  int* found = reinterpret_cast<int*>(shared_memory());
  if (thread_index() < 2) found[thread_index()] = 0;
  block_barrier();
  for (int wave = 0; wave < 128 / kWaveWidth; ++wave) {
    const bool wave_found = wave_any(any), wave_missed = wave_any(!all);
    if (wave_index() == wave && lane_index() == 0) {
      if (wave_found) found[0] = 1;
      if (wave_missed) found[1] = 1;
    }
    block_barrier();
  }
  if (thread_index() == 0)
    p.store_block_kind(b, h, q_block, k_block,
                       found[1] == 0   ? kAttentionBlockFull
                       : found[0] != 0 ? kAttentionBlockPartial
                                       : kAttentionBlockEmpty);
}
