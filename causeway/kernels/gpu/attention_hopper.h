// Attention on Hopper (sm_90a), forward, for the problem that attention.h describes, with operands of 16 bits and heads
// of 64 or 128 elements: one warpgroup copies tiles of keys and values into rings in shared memory, the others have 64
// queries each and multiply by wgmma. While the products of weights and values of one tile run, the softmax of the next
// one is computed (FlashAttention-3, Shah et al., arXiv 2407.08608).
//
// The problem P provides, in place of kWaves, kMapIsUsable and kDimPadded,
//   static constexpr int kGroups;    // warpgroups that multiply; kQueryTile is 64 of each
#pragma once

#include "causeway/kernels/gpu/attention_hopper_tile.h"

namespace attention_hopper {

// What a block shares. codegen/gpu_attention_geometry.h counts its bytes.
template <class P>
struct ForwardShared {
  using T = typename P::Operand;
  T queries[P::kQueryTile * P::kHeadDim];
  T keys[P::kStages][P::kKeyTile * P::kHeadDim];
  T values[P::kStages][P::kKeyTile * P::kHeadDim];
  TransferBarrier queries_full;
  TransferBarrier keys_full[P::kStages], keys_empty[P::kStages];
  TransferBarrier values_full[P::kStages], values_empty[P::kStages];
  TileNote notes[P::kStages];
  uint8_t plan[kPlannedTiles];  // of the next tiles, as TileNote::kinds
};

template <class P>
class ForwardCopier : Copier<P> {
 public:
  CAUSEWAY_INLINE ForwardCopier(const P& problem, const QueryPlace<P>& place, ForwardShared<P>& shared)
      : p(problem), at_(place), shared_(shared) {}

  CAUSEWAY_INLINE void run() {
    this->template copy<P::kQueryTile, P::kDirectQ>(
        shared_.queries, at_.first, p.query_length, [&](int64_t t) { return p.q_row(at_.b, at_.h, t); },
        [&](int64_t t, int d) { return p.load_q(at_.b, at_.h, t, d); });
    this->announce(&shared_.queries_full);
    StageRing<P::kStages> ring;
#pragma clang loop unroll(disable)
    for (int64_t key = 0; key < p.key_length; key += P::kKeyTile) {
      const int kinds =
          this->template kinds_of<true, P::kKeyTile>(p, shared_.plan, at_.b, at_.h, at_.first, key, p.key_length);
      if (kinds == 0) continue;
      note(ring, static_cast<int32_t>(key), kinds);
      this->template copy<P::kKeyTile, P::kDirectK>(
          shared_.keys[ring.stage], key, p.key_length, [&](int64_t s) { return p.k_row(at_.b, at_.kv_head, s); },
          [&](int64_t s, int d) { return p.load_k(at_.b, at_.kv_head, s, d); });
      this->announce(&shared_.keys_full[ring.stage]);
      barrier_wait(&shared_.values_empty[ring.stage], ring.parity ^ 1);
      this->template copy<P::kKeyTile, P::kDirectV>(
          shared_.values[ring.stage], key, p.key_length, [&](int64_t s) { return p.v_row(at_.b, at_.kv_head, s); },
          [&](int64_t s, int d) { return p.load_v(at_.b, at_.kv_head, s, d); });
      this->announce(&shared_.values_full[ring.stage]);
      ring.advance();
    }
    note(ring, -1, 0);
    this->announce(&shared_.keys_full[ring.stage]);
    this->announce_last();
  }

 private:
  CAUSEWAY_INLINE void note(const StageRing<P::kStages>& ring, int32_t key, int32_t kinds) {
    barrier_wait(&shared_.keys_empty[ring.stage], ring.parity ^ 1);
    if (thread_index() == 0) shared_.notes[ring.stage] = {key, kinds};
  }

  const P& p;
  const QueryPlace<P>& at_;
  ForwardShared<P>& shared_;
};

// A warpgroup that multiplies: 64 queries.
template <class P>
class Forward {
  using T = typename P::Operand;
  static constexpr int kScores = P::kKeyTile / 2, kOutput = P::kHeadDim / 2;  // of this thread

 public:
  CAUSEWAY_INLINE Forward(const P& problem, const QueryPlace<P>& place, ForwardShared<P>& shared, int group)
      : p(problem), at_(place), shared_(shared), group_(group), first_line_(place.first + 64 * group) {}

  CAUSEWAY_INLINE void run() {
    float scores[kScores], output[kOutput], maximum[2], sum[2], rescale[2];
    uint32_t weights[P::kKeyTile / 16][4];
#pragma clang loop unroll(full)
    for (int i = 0; i < kOutput; ++i) output[i] = 0.0f;
#pragma clang loop unroll(full)
    for (int slot = 0; slot < 2; ++slot) {
      maximum[slot] = -kInfinity;
      sum[slot] = 0.0f;
    }
    barrier_wait(&shared_.queries_full, 0);
    StageRing<P::kStages> keys, values;
    barrier_wait(&shared_.keys_full[keys.stage], keys.parity);
    TileNote note = shared_.notes[keys.stage];
    if (note.first >= 0) {
      warpgroup_fence();
      multiply_lines<P, P::kQueryTile, P::kKeyTile>(scores, shared_.queries, 64 * group_, shared_.keys[keys.stage]);
      warpgroup_commit();
      warpgroup_wait<0>();
      release(&shared_.keys_empty[keys.stage]);
      keys.advance();
      soften(scores, note, maximum, sum, rescale);
      pack<T, P::kKeyTile>(scores, weights);
      barrier_wait(&shared_.keys_full[keys.stage], keys.parity);
      note = shared_.notes[keys.stage];
#pragma clang loop unroll(disable)
      for (;;) {
        barrier_wait(&shared_.values_full[values.stage], values.parity);
        if (note.first < 0) break;
        warpgroup_fence();
        multiply_lines<P, P::kQueryTile, P::kKeyTile>(scores, shared_.queries, 64 * group_, shared_.keys[keys.stage]);
        warpgroup_commit();
        multiply_weights<P, P::kKeyTile>(output, weights, shared_.values[values.stage]);
        warpgroup_commit();
        warpgroup_wait<1>();
        release(&shared_.keys_empty[keys.stage]);
        keys.advance();
        soften(scores, note, maximum, sum, rescale);
        // Between the softmax and the wait for the products it runs beside: the assembler moves waits up to the
        // beginning of their piece of code without branches.
        barrier_wait(&shared_.keys_full[keys.stage], keys.parity);
        note = shared_.notes[keys.stage];
        warpgroup_wait<0>();
        release(&shared_.values_empty[values.stage]);
        values.advance();
#pragma clang loop unroll(full)
        for (int i = 0; i < kOutput; ++i) output[i] *= rescale[(i & 2) / 2];
        pack<T, P::kKeyTile>(scores, weights);
      }
      warpgroup_fence();
      multiply_weights<P, P::kKeyTile>(output, weights, shared_.values[values.stage]);
      warpgroup_commit();
      warpgroup_wait<0>();
    }
    finish(output, maximum, sum);
  }

 private:
  // Scores to weights; what was summed before is to be multiplied by `rescale`.
  CAUSEWAY_INLINE void soften(float (&scores)[kScores], const TileNote& note, float (&maximum)[2], float (&sum)[2],
                              float (&rescale)[2]) {
    const bool masked = P::kHasMask && kind_of(note.kinds, group_) != 2;
    float factor = p.scale * kLog2E;
    // Inside and unmasked, which most tiles are, positions matter to the score alone.
    if (masked || note.first + P::kKeyTile > p.key_length || (P::kHasScore && first_line_ + 64 > p.query_length)) {
      modify(scores, note.first, [&](float product, int32_t t, int32_t s) {
        return attention_tile::modified_score(p, product, at_.b, at_.h, t, s, masked);
      });
      factor = 1.0f;
    } else if constexpr (P::kHasScore) {
      modify(scores, note.first,
             [&](float product, int32_t t, int32_t s) { return p.score(at_.b, at_.h, t, s, product * p.scale); });
      factor = kLog2E;
    }
    float shift[2];
#pragma clang loop unroll(full)
    for (int slot = 0; slot < 2; ++slot) {
      float largest = -kInfinity;
#pragma clang loop unroll(full)
      for (int i = 2 * slot; i < kScores; i += 4)
        largest = __builtin_fmaxf(largest, __builtin_fmaxf(scores[i], scores[i + 1]));
      if (p.scale < 0.0f && factor < 0.0f) {
        largest = kInfinity;
#pragma clang loop unroll(full)
        for (int i = 2 * slot; i < kScores; i += 4)
          largest = __builtin_fminf(largest, __builtin_fminf(scores[i], scores[i + 1]));
      }
      largest = attention_tile::over_line(largest * factor, [](float a, float b) { return __builtin_fmaxf(a, b); });
      largest = __builtin_fmaxf(largest, maximum[slot]);
      shift[slot] = largest == -kInfinity ? 0.0f : -largest;
      rescale[slot] = fast_exp2(maximum[slot] + shift[slot]);
      maximum[slot] = largest;
      sum[slot] *= rescale[slot];
    }
#pragma clang loop unroll(full)
    for (int i = 0; i < kScores; ++i) {
      scores[i] = fast_exp2(__builtin_fmaf(scores[i], factor, shift[(i & 2) / 2]));
      sum[(i & 2) / 2] += scores[i];
    }
  }

  // modified(product, t, s).
  template <class F>
  CAUSEWAY_INLINE void modify(float (&scores)[kScores], int32_t key, F modified) const {
    const int32_t line = first_line_ + warpgroup_row(0), other = key + warpgroup_column(0);
#pragma clang loop unroll(full)
    for (int i = 0; i < kScores; ++i) {
      scores[i] = modified(scores[i], line + (i & 2) * 4, other + i / 4 * 8 + (i & 1));
      // What masks and scores load must not be loaded for all columns at first: registers would not suffice.
      if (i % 4 == 3) asm volatile("" ::: "memory");
    }
  }

  CAUSEWAY_INLINE void finish(const float (&output)[kOutput], const float (&maximum)[2], const float (&sum)[2]) {
    // Results take the place of this warpgroup's queries, which its last products have read.
    named_barrier(1 + group_, 128);
    float inverse[2];
#pragma clang loop unroll(full)
    for (int slot = 0; slot < 2; ++slot) {
      const float all = attention_tile::over_line(sum[slot], [](float a, float b) { return a + b; });
      inverse[slot] = all == 0.0f ? 0.0f : 1.0f / all;
      const int64_t line = first_line_ + warpgroup_row(2 * slot);
      if (line < p.query_length && lane_index() % 4 == 0)
        p.store_lse(at_.b, at_.h, line, (maximum[slot] + fast_log2(all)) * kLn2);
    }
    store_lines<P, P::kQueryTile>(output, inverse, shared_.queries, group_,
                                  [&](int line, int d, const float (&values)[8]) {
                                    if (first_line_ + line >= p.query_length) return;
#pragma clang loop unroll(full)
                                    for (int e = 0; e < 8; ++e)
                                      p.store_out(at_.b, at_.h, first_line_ + line, d + e, values[e]);
                                  });
  }

  const P& p;
  const QueryPlace<P>& at_;
  ForwardShared<P>& shared_;
  int group_;
  int32_t first_line_;
};

}  // namespace attention_hopper

// One block of a launch of batch * query_heads * ceil(query_length / kQueryTile), 128 (kGroups + 1) threads each.
template <class P>
CAUSEWAY_INLINE void hopper_attention_forward(const P& problem, int task) {
  using namespace attention_hopper;
  static_assert(sizeof(typename P::Operand) == 2 && (P::kHeadDim == 64 || P::kHeadDim == 128));
  static_assert(P::kQueryTile == 64 * P::kGroups && P::kKeyTile % 64 == 0);
  // A tile is announced when the next is on its way, which waits for the room of one that is still in use.
  static_assert(P::kStages >= 3);
  auto& shared = *reinterpret_cast<ForwardShared<P>*>(shared_memory());
  if (thread_index() == 0) {
    barrier_init(&shared.queries_full, 128);
    for (int stage = 0; stage < P::kStages; ++stage) {
      barrier_init(&shared.keys_full[stage], 128);
      barrier_init(&shared.values_full[stage], 128);
      barrier_init(&shared.keys_empty[stage], 4 * P::kGroups);
      barrier_init(&shared.values_empty[stage], 4 * P::kGroups);
    }
    barrier_init_fence();
  }
  block_barrier();
  const QueryPlace<P> place(problem, task, P::kQueryTile);
  // The registers of the block, 168 for each thread of three warpgroups, go to those that multiply.
  if (thread_index() < 128) {
    if constexpr (P::kGroups == 2) registers_decrease<56>();
    ForwardCopier<P>(problem, place, shared).run();
  } else {
    if constexpr (P::kGroups == 2) registers_increase<224>();
    Forward<P>(problem, place, shared, warpgroup_index() - 1).run();
  }
}
