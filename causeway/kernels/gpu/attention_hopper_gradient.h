// Attention on Hopper (sm_90a), backward, in the two launches that attention_gradient.h describes, with operands of 16
// bits and heads of 64 or 128 elements. A block's warpgroups have 64 lines each, of queries in one launch and of keys
// in the other, in two operands; another warpgroup copies tiles of the others, also in two operands. Scores and
// gradients of weights are products of own lines and others; what follows from them stays in registers, where wgmma
// takes it as its left operand, so that nothing but operands passes through shared memory.
//
// The problem P provides, in place of kWaves, kStages, kMapIsUsable and kDimPadded,
//   static constexpr int kGroups, kGradientTile, kGradientStages;
#pragma once

#include "causeway/kernels/gpu/attention_gradient.h"
#include "causeway/kernels/gpu/attention_hopper_tile.h"

namespace attention_hopper {

using attention_tile::Modified;

// A tile of queries as the copying warpgroup describes it to those of the keys.
struct QueryTileNote {
  int32_t head;  // of queries; -1 when there are no more tiles
  int32_t first;
  int32_t kinds;
  int32_t padding;
};

// What a block shares: own lines of queries and output's gradients, others of keys and values, or the reverse.
// codegen/gpu_attention_geometry.h counts its bytes.
template <class P>
struct GradientShared {
  using T = typename P::Operand;
  static constexpr int kLines = 64 * P::kGroups;
  T own[2][kLines * P::kHeadDim];
  T others[P::kGradientStages][2][P::kGradientTile * P::kHeadDim];
  float statistics[P::kGradientStages][2][P::kGradientTile];  // of queries: shift and delta
  TransferBarrier own_full;
  TransferBarrier full[P::kGradientStages], empty[P::kGradientStages];
  QueryTileNote notes[P::kGradientStages];  // head: 0 for tiles of keys
  uint8_t plan[kPlannedTiles];
};

// Queries and output's gradients, keys and values, into their tiles.
template <class P>
class GradientCopier : Copier<P> {
  using T = typename P::Operand;
  static constexpr int kLines = GradientShared<P>::kLines, kOthers = P::kGradientTile;

 public:
  CAUSEWAY_INLINE GradientCopier(const P& problem, GradientShared<P>& shared) : p(problem), shared_(shared) {}

  // For a block of queries.
  CAUSEWAY_INLINE void run(int64_t b, int64_t h, int64_t kv_head, int64_t first_query) {
    copy_queries<kLines>(shared_.own, b, h, first_query);
    this->announce(&shared_.own_full);
#pragma clang loop unroll(disable)
    for (int64_t key = 0; key < p.key_length; key += kOthers) {
      const int kinds = this->template kinds_of<true, kOthers>(p, shared_.plan, b, h, first_query, key, p.key_length);
      if (kinds == 0) continue;
      begin({0, static_cast<int32_t>(key), kinds, 0});
      copy_keys<kOthers>(shared_.others[ring_.stage], b, kv_head, key);
      this->announce(&shared_.full[ring_.stage]);
      ring_.advance();
    }
    end();
  }

  // For a block of keys: the queries of all heads that share them.
  CAUSEWAY_INLINE void run_for_keys(int64_t b, int64_t kv_head, int64_t first_key) {
    copy_keys<kLines>(shared_.own, b, kv_head, first_key);
    this->announce(&shared_.own_full);
    const int64_t group = p.query_heads / p.kv_heads;
#pragma clang loop unroll(disable)
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
#pragma clang loop unroll(disable)
      for (int64_t query = 0; query < p.query_length; query += kOthers) {
        const int kinds =
            this->template kinds_of<false, kOthers>(p, shared_.plan, b, h, first_key, query, p.query_length);
        if (kinds == 0) continue;
        begin({static_cast<int32_t>(h), static_cast<int32_t>(query), kinds, 0});
        copy_queries<kOthers>(shared_.others[ring_.stage], b, h, query);
        for (int i = thread_index(); i < kOthers; i += 128) {
          const int64_t t = query + i;
          const bool inside = t < p.query_length;
          shared_.statistics[ring_.stage][0][i] =
              inside ? attention_tile::weight_shift(p.load_lse(b, h, t)) : -kInfinity;
          shared_.statistics[ring_.stage][1][i] = inside ? p.load_delta(b, h, t) : 0.0f;
        }
        this->announce(&shared_.full[ring_.stage]);
        ring_.advance();
      }
    }
    end();
  }

 private:
  template <int kRows>
  CAUSEWAY_INLINE void copy_queries(T (*to)[kRows * P::kHeadDim], int64_t b, int64_t h, int64_t first) {
    this->template copy<kRows, P::kDirectQ>(
        to[0], first, p.query_length, [&](int64_t t) { return p.q_row(b, h, t); },
        [&](int64_t t, int d) { return p.load_q(b, h, t, d); });
    this->template copy<kRows, P::kDirectGradient>(
        to[1], first, p.query_length, [&](int64_t t) { return p.out_gradient_row(b, h, t); },
        [&](int64_t t, int d) { return p.load_out_gradient(b, h, t, d); });
  }
  template <int kRows>
  CAUSEWAY_INLINE void copy_keys(T (*to)[kRows * P::kHeadDim], int64_t b, int64_t kv_head, int64_t first) {
    this->template copy<kRows, P::kDirectK>(
        to[0], first, p.key_length, [&](int64_t s) { return p.k_row(b, kv_head, s); },
        [&](int64_t s, int d) { return p.load_k(b, kv_head, s, d); });
    this->template copy<kRows, P::kDirectV>(
        to[1], first, p.key_length, [&](int64_t s) { return p.v_row(b, kv_head, s); },
        [&](int64_t s, int d) { return p.load_v(b, kv_head, s, d); });
  }

  CAUSEWAY_INLINE void begin(const QueryTileNote& note) {
    barrier_wait(&shared_.empty[ring_.stage], ring_.parity ^ 1);
    if (thread_index() == 0) shared_.notes[ring_.stage] = note;
  }
  CAUSEWAY_INLINE void end() {
    begin({-1, -1, 0, 0});
    this->announce(&shared_.full[ring_.stage]);
    this->announce_last();
  }

  const P& p;
  GradientShared<P>& shared_;
  StageRing<P::kGradientStages> ring_;
};

// A warpgroup of the queries' launch: 64 queries.
template <class P>
class QueryGradient {
  using T = typename P::Operand;
  static constexpr int kLines = GradientShared<P>::kLines, kOthers = P::kGradientTile;

 public:
  CAUSEWAY_INLINE QueryGradient(const P& problem, GradientShared<P>& shared, int group, int32_t b, int32_t h,
                                int32_t first_query)
      : p(problem), shared_(shared), group_(group), b_(b), h_(h), first_line_(first_query + 64 * group) {}

  CAUSEWAY_INLINE void run() {
    float sums[P::kHeadDim / 2], scores[kOthers / 2], dweights[kOthers / 2], shift[2], delta[2];
    uint32_t gradients[kOthers / 16][4];
#pragma clang loop unroll(full)
    for (int i = 0; i < P::kHeadDim / 2; ++i) sums[i] = 0.0f;
#pragma clang loop unroll(full)
    for (int slot = 0; slot < 2; ++slot) {
      const int64_t t = first_line_ + warpgroup_row(2 * slot);
      shift[slot] = t < p.query_length ? attention_tile::weight_shift(p.load_lse(b_, h_, t)) : -kInfinity;
      delta[slot] = t < p.query_length ? p.load_delta(b_, h_, t) : 0.0f;
    }
    barrier_wait(&shared_.own_full, 0);
    StageRing<P::kGradientStages> ring;
    int before = -1;  // the stage that products under way may still read
#pragma clang loop unroll(disable)
    for (;;) {
      barrier_wait(&shared_.full[ring.stage], ring.parity);
      const QueryTileNote note = shared_.notes[ring.stage];
      if (note.head < 0) break;
      if (P::kHasMask && kind_of(note.kinds, group_) == 0) {
        release(&shared_.empty[ring.stage]);
        ring.advance();
        continue;
      }
      T* keys = shared_.others[ring.stage][0];
      warpgroup_fence();
      multiply_lines<P, kLines, kOthers>(scores, shared_.own[0], 64 * group_, keys);
      multiply_lines<P, kLines, kOthers>(dweights, shared_.own[1], 64 * group_, shared_.others[ring.stage][1]);
      warpgroup_commit();
      // The sums of the tile before run until now.
      warpgroup_wait<1>();
      if (before >= 0) release(&shared_.empty[before]);
      warpgroup_wait<0>();
      const bool masked = P::kHasMask && kind_of(note.kinds, group_) != 2;
      // Lines past the end are not stored, and their weights are 0.
      if (masked || note.first + kOthers > p.key_length || (P::kHasScore && first_line_ + 64 > p.query_length)) {
        differentiate<Modified::kByAll>(scores, dweights, shift, delta, note.first, masked);
      } else {
        differentiate<P::kHasScore ? Modified::kByScore : Modified::kNot>(scores, dweights, shift, delta, note.first,
                                                                          false);
      }
      pack<T, kOthers>(scores, gradients);
      warpgroup_fence();
      multiply_weights<P, kOthers>(sums, gradients, keys);
      warpgroup_commit();
      before = ring.stage;
      ring.advance();
    }
    warpgroup_wait<0>();
    // Results take the place of this warpgroup's queries, which its last products have read.
    named_barrier(1 + group_, 128);
    const float factors[2] = {p.scale, p.scale};
    store_lines<P, kLines>(sums, factors, shared_.own[0], group_, [&](int line, int d, const float (&values)[8]) {
      if (first_line_ + line >= p.query_length) return;
#pragma clang loop unroll(full)
      for (int e = 0; e < 8; ++e) p.store_dq(b_, h_, first_line_ + line, d + e, values[e]);
    });
  }

 private:
  // Scores to the gradients of products.
  template <Modified kModified>
  CAUSEWAY_INLINE void differentiate(float (&scores)[kOthers / 2], const float (&dweights)[kOthers / 2],
                                     const float (&shift)[2], const float (&delta)[2], int32_t key, bool masked) const {
    const int32_t line = first_line_ + warpgroup_row(0), other = key + warpgroup_column(0);
#pragma clang loop unroll(full)
    for (int i = 0; i < kOthers / 2; ++i) {
      const int slot = (i & 2) / 2;
      scores[i] = attention_tile::pair_gradient<kModified>(p, scores[i], dweights[i], shift[slot], delta[slot], b_, h_,
                                                           line + 8 * slot, other + i / 4 * 8 + (i & 1), masked)
                      .dproduct;
      // What masks and scores load must not be loaded for all columns at first: registers would not suffice.
      if (kModified != Modified::kNot && i % 4 == 3) asm volatile("" ::: "memory");
    }
  }

  const P& p;
  GradientShared<P>& shared_;
  int32_t group_, b_, h_, first_line_;
};

// A warpgroup of the keys' launch: 64 keys.
template <class P, bool kForKeys, bool kForValues>
class KeyGradient {
  using T = typename P::Operand;
  static constexpr int kLines = GradientShared<P>::kLines, kOthers = P::kGradientTile;

 public:
  CAUSEWAY_INLINE KeyGradient(const P& problem, GradientShared<P>& shared, int group, int32_t b, int32_t kv_head,
                              int32_t first_key)
      : p(problem), shared_(shared), group_(group), b_(b), kv_head_(kv_head), first_line_(first_key + 64 * group) {}

  CAUSEWAY_INLINE void run() {
    float dk[P::kHeadDim / 2], dv[P::kHeadDim / 2], scores[kOthers / 2], dweights[kOthers / 2];
    uint32_t packed[kOthers / 16][4], gradients[kOthers / 16][4];
#pragma clang loop unroll(full)
    for (int i = 0; i < P::kHeadDim / 2; ++i) dk[i] = dv[i] = 0.0f;
    barrier_wait(&shared_.own_full, 0);
    StageRing<P::kGradientStages> ring;
#pragma clang loop unroll(disable)
    for (;;) {
      barrier_wait(&shared_.full[ring.stage], ring.parity);
      const QueryTileNote note = shared_.notes[ring.stage];
      if (note.head < 0) break;
      if (P::kHasMask && kind_of(note.kinds, group_) == 0) {
        release(&shared_.empty[ring.stage]);
        ring.advance();
        continue;
      }
      T* queries = shared_.others[ring.stage][0];
      T* out_gradients = shared_.others[ring.stage][1];
      warpgroup_fence();
      multiply_lines<P, kLines, kOthers>(scores, shared_.own[0], 64 * group_, queries);
      multiply_lines<P, kLines, kOthers>(dweights, shared_.own[1], 64 * group_, out_gradients);
      warpgroup_commit();
      warpgroup_wait<0>();
      const bool masked = P::kHasMask && kind_of(note.kinds, group_) != 2;
      // Queries past the end have weights of 0, and keys past the end are not stored.
      if (masked || (P::kHasScore && (note.first + kOthers > p.query_length || first_line_ + 64 > p.key_length))) {
        differentiate<Modified::kByAll>(scores, dweights, shared_.statistics[ring.stage], note, masked);
      } else {
        differentiate<P::kHasScore ? Modified::kByScore : Modified::kNot>(
            scores, dweights, shared_.statistics[ring.stage], note, false);
      }
      if constexpr (kForValues) pack<T, kOthers>(scores, packed);
      if constexpr (kForKeys) pack<T, kOthers>(dweights, gradients);
      warpgroup_fence();
      if constexpr (kForValues) multiply_weights<P, kOthers>(dv, packed, out_gradients);
      if constexpr (kForKeys) multiply_weights<P, kOthers>(dk, gradients, queries);
      warpgroup_commit();
      warpgroup_wait<0>();
      release(&shared_.empty[ring.stage]);
      ring.advance();
    }
    // Results take the place of this warpgroup's keys and values, which its last products have read.
    named_barrier(1 + group_, 128);
    if constexpr (kForKeys) {
      const float factors[2] = {p.scale, p.scale};
      store_lines<P, kLines>(dk, factors, shared_.own[0], group_, [&](int line, int d, const float (&values)[8]) {
        if (first_line_ + line >= p.key_length) return;
#pragma clang loop unroll(full)
        for (int e = 0; e < 8; ++e) p.store_dk(b_, kv_head_, first_line_ + line, d + e, values[e]);
      });
    }
    if constexpr (kForValues) {
      const float factors[2] = {1.0f, 1.0f};
      store_lines<P, kLines>(dv, factors, shared_.own[1], group_, [&](int line, int d, const float (&values)[8]) {
        if (first_line_ + line >= p.key_length) return;
#pragma clang loop unroll(full)
        for (int e = 0; e < 8; ++e) p.store_dv(b_, kv_head_, first_line_ + line, d + e, values[e]);
      });
    }
  }

 private:
  // Scores to weights, gradients of weights to those of products.
  template <Modified kModified>
  CAUSEWAY_INLINE void differentiate(float (&scores)[kOthers / 2], float (&dweights)[kOthers / 2],
                                     const float (&statistics)[2][kOthers], const QueryTileNote& note,
                                     bool masked) const {
    const int32_t line = first_line_ + warpgroup_row(0);
#pragma clang loop unroll(full)
    for (int i = 0; i < kOthers / 2; ++i) {
      const int other = warpgroup_column(0) + i / 4 * 8 + (i & 1);
      const attention_tile::PairGradient pair = attention_tile::pair_gradient<kModified>(
          p, scores[i], dweights[i], statistics[0][other], statistics[1][other], b_, note.head, note.first + other,
          line + (i & 2) * 4, masked);
      scores[i] = pair.weight;
      dweights[i] = pair.dproduct;
      // What masks and scores load must not be loaded for all columns at first: registers would not suffice.
      if (kModified != Modified::kNot && i % 4 == 3) asm volatile("" ::: "memory");
    }
  }

  const P& p;
  GradientShared<P>& shared_;
  int32_t group_, b_, kv_head_, first_line_;
};

template <class P>
CAUSEWAY_INLINE GradientShared<P>& begin_gradient() {
  static_assert(sizeof(typename P::Operand) == 2 && (P::kHeadDim == 64 || P::kHeadDim == 128));
  // A tile is announced when the next is on its way, which waits for the room of one that is still in use.
  static_assert(P::kGradientStages >= 3);
  auto& shared = *reinterpret_cast<GradientShared<P>*>(shared_memory());
  if (thread_index() == 0) {
    barrier_init(&shared.own_full, 128);
    for (int stage = 0; stage < P::kGradientStages; ++stage) {
      barrier_init(&shared.full[stage], 128);
      barrier_init(&shared.empty[stage], 4 * P::kGroups);
    }
    barrier_init_fence();
  }
  block_barrier();
  return shared;
}

}  // namespace attention_hopper

// One block of a launch of batch * query_heads * ceil(query_length / (64 kGroups)), 128 (kGroups + 1) threads each.
template <class P>
CAUSEWAY_INLINE void hopper_attention_query_gradient(const P& p, int task) {
  using namespace attention_hopper;
  GradientShared<P>& shared = begin_gradient<P>();
  const QueryPlace<P> place(p, task, 64 * P::kGroups);
  if (thread_index() < 128) {
    if constexpr (P::kGroups == 2) registers_decrease<56>();
    GradientCopier<P>(p, shared).run(place.b, place.h, place.kv_head, place.first);
  } else {
    if constexpr (P::kGroups == 2) registers_increase<224>();
    QueryGradient<P>(p, shared, warpgroup_index() - 1, place.b, place.h, place.first).run();
  }
}

// One block of a launch of batch * kv_heads * ceil(key_length / (64 kGroups)).
template <bool kForKeys, bool kForValues, class P>
CAUSEWAY_INLINE void hopper_attention_key_gradient(const P& p, int task) {
  using namespace attention_hopper;
  GradientShared<P>& shared = begin_gradient<P>();
  // The first keys are seen by the most queries under a causal mask: they start first.
  const auto heads = static_cast<int32_t>(p.kv_heads), all = static_cast<int32_t>(p.batch) * heads;
  const int32_t first_key = task / all * (64 * P::kGroups), b = task % all / heads, kv_head = task % all % heads;
  if (thread_index() < 128) {
    if constexpr (P::kGroups == 2) registers_decrease<56>();
    GradientCopier<P>(p, shared).run_for_keys(b, kv_head, first_key);
  } else {
    if constexpr (P::kGroups == 2) registers_increase<224>();
    KeyGradient<P, kForKeys, kForValues>(p, shared, warpgroup_index() - 1, b, kv_head, first_key).run();
  }
}
