// Attention on Hopper (sm_90a), backward, in one pass over the pairs of queries and keys: five MMAs where
// attention_hopper_gradient.h's two launches multiply seven. Blocks have 128 keys; what those add to the gradient of 64
// queries goes to sums in memory (attention_hopper_query_sums.h).
#pragma once

#include "causeway/kernels/gpu/attention_hopper_query_sums.h"

namespace attention_hopper {

template <class P>
struct JointGradientShared {
  using T = typename P::Operand;
  static constexpr int kLines = kLinesOfBlock<P>, kOwn = P::kTile.own_stages;
  static constexpr bool kInOrder = true, kApart = false;
  T own[kOwn][2][kLines * kColumns<P>];
  T others[P::kTile.stages][2][P::kTile.others * kColumns<P>];
  T score_gradients[2][kLines * P::kTile.others];        // lines of keys, of two tiles
  SharedSums<P, query_sum_floats(P::kHeadDim), 1> sums;  // of tiles that each warpgroup adds up
  float statistics[P::kTile.stages][2][P::kTile.others];
  Mbarrier own_full[kOwn], own_empty[kOwn];
  Mbarrier full[P::kTile.stages], empty[P::kTile.stages];
  SumBarriers<P, 1> sum_barriers;
  TaskNote tasks[kOwn];
  GradientTileNote notes[P::kTile.stages];
  SumNote sum_notes[P::kTile.groups][1];

  static constexpr int sum_parts(int) { return 1; }
  static constexpr int first_sum(int) { return 0; }

  CAUSEWAY_INLINE float& statistic(int stage, int which, int query) { return statistics[stage][which][query]; }
};

// A warpgroup: 64 keys, and what all of the block's add to the queries of every second tile. So while one multiplies
// that, the other one computes the next tile's weights.
template <class P>
class JointGradient : SumGroup<P, JointGradientShared<P>> {
  using Shared = JointGradientShared<P>;
  using Base = SumGroup<P, Shared>;
  using Base::b_, Base::first_key_, Base::group_, Base::kBeside, Base::kLines, Base::kMasked, Base::kOthers,
      Base::kUnmasked, Base::note_, Base::own_, Base::p, Base::ring_, Base::shared_;
  using typename Base::T;
  static constexpr int kJoin = 1 + P::kTile.groups;  // a named barrier of all that multiply
  static constexpr int kPassedOn = kJoin + 1;        // and one for each that adds up what all of them have passed on

 public:
  CAUSEWAY_INLINE JointGradient(const P& problem, Shared& shared, int group) : Base(problem, shared, group) {}

  CAUSEWAY_INLINE void run() {
#pragma clang loop unroll(disable)
    while (this->begin_task()) {
      sum_up(shared_.own[own_.stage]);
      this->end_task();
    }
    this->end_tasks();
  }

 private:
  CAUSEWAY_INLINE void sum_up(T (&own)[2][kLines * kColumns<P>]) {
    float dk[P::kHeadDim / 2], dv[P::kHeadDim / 2];
#pragma clang loop unroll(full)
    for (int i = 0; i < P::kHeadDim / 2; ++i) dk[i] = computed_here(0.0f), dv[i] = computed_here(0.0f);
    add_tiles(own, dk, dv);
    // Results take the place of keys and values, which the other warpgroup's MMAs may still read.
    named_barrier(kJoin, 128 * P::kTile.groups);
    const int32_t head = shared_.tasks[own_.stage].head;
    const float scales[2] = {p.scale, p.scale}, ones[2] = {1.0f, 1.0f};
    store_lines<P, kLines>(dk, scales, own[0], group_, [&](int line, int d, const float (&values)[8]) {
      if (first_line() + line >= p.key_length) return;
#pragma clang loop unroll(full)
      for (int e = 0; e < 8; ++e) p.store_dk(b_, head, first_line() + line, d + e, values[e]);
    });
    store_lines<P, kLines>(dv, ones, own[1], group_, [&](int line, int d, const float (&values)[8]) {
      if (first_line() + line >= p.key_length) return;
#pragma clang loop unroll(full)
      for (int e = 0; e < 8; ++e) p.store_dv(b_, head, first_line() + line, d + e, values[e]);
    });
  }

  // Tile after tile.
  CAUSEWAY_INLINE void add_tiles(T (&own)[2][kLines * kColumns<P>], float (&dk)[P::kHeadDim / 2],
                                 float (&dv)[P::kHeadDim / 2]) {
    float scores[kOthers / 2], dweights[kOthers / 2];
    uint32_t packed[kOthers / 16][4], gradients[kOthers / 16][4];
    bool last = false;
    if (!next_tile(last)) return;  // a task without tiles
#pragma clang loop unroll(disable)
    for (;;) {
      multiply_scores(scores, own);
      T* queries = shared_.others[ring_.stage][0];
      T* out_gradients = shared_.others[ring_.stage][1];
      multiply_weight_gradients(dweights, own);
      const float (&statistics)[2][kOthers] = shared_.statistics[ring_.stage];
      const int32_t query = note_.tile.first, line = first_line() + warpgroup_row(0);
      // Keys past the end lie there as zeros, whose weights need not be finite.
      const bool inside = query + kOthers <= p.query_length && first_line() + 64 <= p.key_length;
      const bool masked = P::kHasMask && kind_of(note_.tile.kinds, group_) != 2;
      if constexpr (kBeside) {
        float shift[kOthers / 4];
        load_columns(statistics[0], shift);
        warpgroup_wait<1>();
        if (!inside) {
          weigh_keys<Modified::kByAll>(p, scores, shift, b_, note_.head, query, line, masked);
        } else if (masked) {
          weigh_keys<kMasked>(p, scores, shift, b_, note_.head, query, line, true);
        } else {
          weigh_keys<kUnmasked>(p, scores, shift, b_, note_.head, query, line, false);
        }
        warpgroup_wait<0>();
#pragma clang loop unroll(full)
        for (int i = 0; i < kOthers / 2; ++i)
          dweights[i] = attention_tile::qk_gradient(scores[i], dweights[i],
                                                    statistics[1][warpgroup_column(0) + i / 4 * 8 + (i & 1)]);
      } else {
        warpgroup_wait<0>();
        if (!inside) {
          differentiate_keys<Modified::kByAll>(p, scores, dweights, statistics, b_, note_.head, query, line, masked);
        } else if (masked) {
          differentiate_keys<kMasked>(p, scores, dweights, statistics, b_, note_.head, query, line, true);
        } else {
          differentiate_keys<kUnmasked>(p, scores, dweights, statistics, b_, note_.head, query, line, false);
        }
      }
      pack<T, kOthers>(scores, packed);
      pack<T, kOthers>(dweights, gradients);
      warpgroup_fence();
      multiply_weights<P, kOthers>(dv, packed, out_gradients);
      multiply_weights<P, kOthers>(dk, gradients, queries);
      warpgroup_commit();
      T* passed_on = pass_on(gradients);
      const bool adds_up = tile_parity_ == group_;
      const int barrier = kPassedOn + tile_parity_;
      tile_parity_ ^= 1;
      if (!adds_up) named_barrier_arrive(barrier, 128 * P::kTile.groups);
      warpgroup_wait<0>();
      release(&shared_.empty[ring_.stage]);
      ring_.advance();
      if (adds_up) {
        named_barrier(barrier, 128 * P::kTile.groups);
        float dq[P::kHeadDim / 2];
        multiply_joint(dq, passed_on, own[0]);
        this->template hand_on<0, 1>(dq, {b_, note_.head, note_.tile.first, first_key_});
      }
      if (last) break;
      next_tile(last);
    }
  }

  // Waits for the next tile; false where a task has none.
  CAUSEWAY_INLINE bool next_tile(bool& last) {
    barrier_wait(&shared_.full[ring_.stage], ring_.parity);
    note_ = shared_.notes[ring_.stage];
    note_.tile = uniform(note_.tile);
    last = (note_.tile.kinds & kLastTile) != 0;
    if ((note_.tile.kinds & ~kLastTile) != 0) return true;
    release(&shared_.empty[ring_.stage]);
    ring_.advance();
    return false;
  }

  // Scores, and gradients of weights, of the tile at hand.
  CAUSEWAY_INLINE void multiply_scores(float (&scores)[kOthers / 2], T (&own)[2][kLines * kColumns<P>]) const {
    forget(scores);
    warpgroup_fence();
    multiply_lines<P, kLines, kOthers>(scores, own[0], 64 * group_, shared_.others[ring_.stage][0]);
    warpgroup_commit();
  }
  CAUSEWAY_INLINE void multiply_weight_gradients(float (&dweights)[kOthers / 2],
                                                 T (&own)[2][kLines * kColumns<P>]) const {
    forget(dweights);
    warpgroup_fence();
    multiply_lines<P, kLines, kOthers>(dweights, own[1], 64 * group_, shared_.others[ring_.stage][1]);
    warpgroup_commit();
  }

  CAUSEWAY_INLINE int32_t first_line() const { return first_key_ + 64 * group_; }

  // This warpgroup's gradients of scores, for the MMAs of both: lines of keys, neighbours along queries.
  CAUSEWAY_INLINE T* pass_on(const uint32_t (&gradients)[kOthers / 16][4]) {
    T* tile = shared_.score_gradients[tile_parity_];
    // Addresses are not to be kept from tile to tile: registers would not suffice.
    const uint32_t thread = computed_here(static_cast<uint32_t>(thread_index()) % 128), lane = thread % 32;
    const uint32_t line = static_cast<uint32_t>(group_) * 64 + thread / 32 * 16 + lane / 4;
#pragma clang loop unroll(full)
    for (uint32_t step = 0; step < kOthers / 16; ++step) {
#pragma clang loop unroll(full)
      for (uint32_t i = 0; i < 4; ++i) {
        T* to = tile_piece(tile, kLines, line + i % 2 * 8, 2 * step + i / 2) + lane % 4 * 2;
        __builtin_memcpy(__builtin_assume_aligned(to, 4), &gradients[step][i], 4);
      }
    }
    fence_async_shared();
    return tile;
  }

  // What all keys of the block add to 64 queries.
  CAUSEWAY_INLINE void multiply_joint(float (&dq)[P::kHeadDim / 2], T* score_gradients, T* keys) const {
    forget(dq);
    warpgroup_fence();
    const uint64_t left = tile_descriptor(score_gradients, kLines * 128);
    const uint64_t right = tile_descriptor(keys, kLines * 128);
#pragma clang loop unroll(full)
    for (int step = 0; step < kLines / 16; ++step)
      warpgroup_multiply_add<T, P::kHeadDim, true, true>(dq, left + rows_further(16 * step),
                                                         right + rows_further(16 * step), step > 0);
    warpgroup_commit();
    warpgroup_wait<0>();
  }

  int tile_parity_ = 0;
};

}  // namespace attention_hopper

// One block of a launch of any number, of 384 threads each.
template <HopperAttentionJointProblem P>
CAUSEWAY_INLINE void hopper_attention_joint_gradient(const P& p, const TensorMapBytes* maps, uint32_t* counter) {
  using namespace attention_hopper;
  run_in_one_pass<JointGradient<P>, JointGradientShared<P>, 40, 232>(p, maps, counter, [](auto&) {});
}
