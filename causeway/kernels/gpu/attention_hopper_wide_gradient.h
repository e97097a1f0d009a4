// Attention on Hopper (sm_90a), backward, in two launches as attention_hopper_gradient.h, of heads that
// hopper_attention_wide_gradient_serves(). One launch is that of queries, whose blocks have room for one tile of
// values. In the other one gradients of 64 keys and values of 256 elements fill the registers of two warpgroups. So a
// block has 64 keys, and each warpgroup sums up some of the head's columns of them: one 128, the other one the rest. Of
// scores and gradients of weights warpgroups have half of a tile's queries each, and pass what follows from them on to
// each other through shared memory.
//
// One pass would be bound by its sums in memory (docs/log/attention.md).
//
// A tile of queries takes four MMAs, between which warpgroups wait for each other once. The next tile's scores and
// gradients of weights are multiplied right after this tile's sums: weights are computed beside the latter.
#pragma once

#include "causeway/kernels/gpu/attention_hopper_gradient.h"

namespace attention_hopper {

// The problem with the tiles of its launch of queries: two warpgroups of 64.
template <class P>
struct WideQueries : P {
  static constexpr HopperAttentionGradientTile kTile = hopper_attention_wide_queries(P::kTile);
  CAUSEWAY_INLINE explicit WideQueries(const P& problem) : P(problem) {}
};

// hopper_attention_wide_queries_shared_bytes() counts its bytes.
template <class P>
struct WideQueryShared {
  using T = typename P::Operand;
  static constexpr int kLines = kLinesOfBlock<P>, kOwn = P::kTile.own_stages;
  static constexpr bool kInOrder = false, kApart = true;
  T own[kOwn][2][kLines * kColumns<P>];
  T keys[P::kTile.stages][P::kTile.others * kColumns<P>];
  T values[P::kTile.others * kColumns<P>];
  Mbarrier own_full[kOwn], own_empty[kOwn];
  Mbarrier full[P::kTile.stages], empty[P::kTile.stages];
  Mbarrier values_full, values_empty;
  TaskNote tasks[kOwn];
  GradientTileNote notes[P::kTile.stages];

  CAUSEWAY_INLINE T* keys_of(int stage) { return keys[stage]; }
  CAUSEWAY_INLINE T* values_of(int) { return values; }
};

// hopper_attention_gradient_shared_bytes() counts its bytes.
template <class P>
struct WideGradientShared {
  using T = typename P::Operand;
  static constexpr int kLines = kLinesOfBlock<P>, kOthers = P::kTile.others, kOwn = P::kTile.own_stages;
  static constexpr int kGroups = P::kTile.groups, kQueries = kOthers / kGroups, kFirstColumns = 128;
  static constexpr bool kInOrder = false, kApart = false;
  T own[kOwn][2][kLines * kColumns<P>];
  T others[P::kTile.stages][2][kOthers * kColumns<P>];
  // Of two tiles: lines of keys, neighbours along queries.
  T weights[2][kLines * kOthers], score_gradients[2][kLines * kOthers];
  float statistics[P::kTile.stages][kGroups][2][kQueries];
  Mbarrier own_full[kOwn], own_empty[kOwn];
  Mbarrier full[P::kTile.stages], empty[P::kTile.stages];
  TaskNote tasks[kOwn];
  GradientTileNote notes[P::kTile.stages];

  static constexpr int columns_of(int group) { return group == 0 ? kFirstColumns : P::kHeadDim - kFirstColumns; }
  CAUSEWAY_INLINE float& statistic(int stage, int which, int query) {
    return statistics[stage][query / kQueries][which][query % kQueries];
  }
};

// A warpgroup: so many columns.
template <class P, int kOwnColumns>
class WideGradient : GradientGroup<P, WideGradientShared<P>> {
  using Shared = WideGradientShared<P>;
  using Base = GradientGroup<P, Shared>;
  using Base::b_, Base::first_line_, Base::group_, Base::kBeside, Base::kLines, Base::kOthers, Base::note_, Base::own_,
      Base::p, Base::ring_, Base::shared_;
  using typename Base::T;
  static constexpr int kQueries = Shared::kQueries, kThreads = 128 * P::kTile.groups;
  static constexpr int kJoin = 1;  // a named barrier of all that multiply
  struct HeadColumns {
    static constexpr int kHeadDim = kOwnColumns;
  };

 public:
  CAUSEWAY_INLINE WideGradient(const P& problem, Shared& shared, int group) : Base(problem, shared, group) {}

  CAUSEWAY_INLINE void run() {
#pragma clang loop unroll(disable)
    while (this->template begin_task<false>()) {
      first_line_ -= 64 * group_;  // warpgroups have the same keys
      sum_up(shared_.own[own_.stage]);
      this->end_task();
    }
  }

 private:
  CAUSEWAY_INLINE void sum_up(T (&own)[2][kLines * kColumns<P>]) {
    float dk[kOwnColumns / 2], dv[kOwnColumns / 2];
#pragma clang loop unroll(full)
    for (int i = 0; i < kOwnColumns / 2; ++i) dk[i] = computed_here(0.0f), dv[i] = computed_here(0.0f);
    add_tiles(own, dk, dv);
    // Results take the place of keys and values, which the other warpgroup's MMAs may still read.
    named_barrier(kJoin, kThreads);
    const int32_t head = shared_.tasks[own_.stage].head;
    const int first_column = Shared::kFirstColumns * group_;
    const float scales[2] = {p.scale, p.scale}, ones[2] = {1.0f, 1.0f};
    store_lines<HeadColumns, kLines>(dk, scales, columns(own[0]), 0, [&](int line, int d, const float (&values)[8]) {
      if (first_line_ + line >= p.key_length) return;
#pragma clang loop unroll(full)
      for (int e = 0; e < 8; ++e) p.store_dk(b_, head, first_line_ + line, first_column + d + e, values[e]);
    });
    store_lines<HeadColumns, kLines>(dv, ones, columns(own[1]), 0, [&](int line, int d, const float (&values)[8]) {
      if (first_line_ + line >= p.key_length) return;
#pragma clang loop unroll(full)
      for (int e = 0; e < 8; ++e) p.store_dv(b_, head, first_line_ + line, first_column + d + e, values[e]);
    });
  }

  // Tile after tile. MMAs are done in the order in which they are issued, so that a wait is for all before, too.
  CAUSEWAY_INLINE void add_tiles(T (&own)[2][kLines * kColumns<P>], float (&dk)[kOwnColumns / 2],
                                 float (&dv)[kOwnColumns / 2]) {
    float scores[kQueries / 2], dweights[kQueries / 2];
    int before = -1;     // the stage that MMAs under way may still read
    if (!next_tile()) {  // a task without tiles
      release(&shared_.empty[ring_.stage]);
      ring_.advance();
      return;
    }
    forget(scores), forget(dweights);
    multiply_queries(scores, own[0], shared_.others[ring_.stage][0]);
    multiply_queries(dweights, own[1], shared_.others[ring_.stage][1]);
#pragma clang loop unroll(disable)
    for (;;) {
      compute_gradients(scores, dweights);
      if (before >= 0) release(&shared_.empty[before]);
      // While MMAs are under way nothing else may say what is in accumulators.
      forget(scores), forget(dweights);
      named_barrier(kJoin, kThreads);
      before = ring_.stage;
      ring_.advance();
      multiply_columns(dv, shared_.weights[tile_parity_], shared_.others[before][1]);
      multiply_columns(dk, shared_.score_gradients[tile_parity_], shared_.others[before][0]);
      warpgroup_commit();
      tile_parity_ ^= 1;
      if ((note_.tile.kinds & kLastTile) != 0) break;
      next_tile();
      multiply_queries(scores, own[0], shared_.others[ring_.stage][0]);
      multiply_queries(dweights, own[1], shared_.others[ring_.stage][1]);
    }
    warpgroup_wait<0>();
    release(&shared_.empty[before]);
  }

  // Waits for the next tile's queries; false where a task has none.
  CAUSEWAY_INLINE bool next_tile() {
    barrier_wait(&shared_.full[ring_.stage], ring_.parity);
    note_ = shared_.notes[ring_.stage];
    note_.tile = uniform(note_.tile);
    return (note_.tile.kinds & ~kLastTile) != 0;
  }

  // Keys by this warpgroup's queries, for scores; values by its output's gradients, for those of weights.
  CAUSEWAY_INLINE void multiply_queries(float (&c)[kQueries / 2], T* lines, T* others) const {
    warpgroup_fence();
    const uint64_t left = tile_descriptor(lines, kLines * 128);
    const uint64_t right = tile_descriptor(others + group_ * kQueries * 64, kOthers * 128);
#pragma clang loop unroll(full)
    for (int d = 0; d < P::kHeadDim; d += 16)
      warpgroup_multiply_add<T, kQueries, false, false>(c, left + columns_further<kLines>(d),
                                                        right + columns_further<kOthers>(d), d > 0);
    warpgroup_commit();
  }

  // Of a tile of 64 lines, where this warpgroup's columns begin.
  CAUSEWAY_INLINE T* columns(T* tile) const { return tile + group_ * Shared::kFirstColumns * 64; }

  // c += A B, this warpgroup's columns of it; of A, lines of keys.
  CAUSEWAY_INLINE void multiply_columns(float (&c)[kOwnColumns / 2], T* a, T* b) const {
    static_assert(kLines == 64 && kOthers == 64);
    warpgroup_fence();
    const uint64_t left = tile_descriptor(a, 64 * 128), right = tile_descriptor(columns(b), 64 * 128);
#pragma clang loop unroll(full)
    for (int step = 0; step < 64; step += 16)
      warpgroup_multiply_add<T, kOwnColumns, false, true>(c, left + columns_further<64>(step),
                                                          right + rows_further(step), true);
  }

  // Weights and gradients of scores of this warpgroup's queries, from scores and gradients of weights under way, passed
  // on. In the end all MMAs of the tile before are done, too: what the tile after passes on takes its place.
  CAUSEWAY_INLINE void compute_gradients(float (&scores)[kQueries / 2], float (&dweights)[kQueries / 2]) const {
    const float (&statistics)[2][kQueries] = shared_.statistics[ring_.stage][group_];
    const int32_t query = note_.tile.first + kQueries * group_, line = first_line_ + warpgroup_row(0);
    // Queries past the end have weights of 0, and keys past the end are not stored.
    const bool inside = note_.tile.first + kOthers <= p.query_length && first_line_ + kLines <= p.key_length;
    const bool masked = P::kHasMask && kind_of(note_.tile.kinds, 0) != 2;
    uint32_t packed[kQueries / 16][4];
    if constexpr (kBeside) {
      float shift[kQueries / 4];
      load_columns(statistics[0], shift);
      warpgroup_wait<1>();
      weigh_key_tile<false>(p, scores, statistics[0], shift, b_, note_.head, query, line, inside, masked);
      pack<T, kQueries>(scores, packed);
      pass_on(packed, shared_.weights[tile_parity_]);
      float delta[kQueries / 4];
      load_columns(statistics[1], delta);
      warpgroup_wait<0>();
#pragma clang loop unroll(full)
      for (int i = 0; i < kQueries / 2; ++i)
        dweights[i] = attention_tile::qk_gradient(scores[i], dweights[i], delta[i / 4 * 2 + i % 2]);
    } else {
      warpgroup_wait<0>();
      differentiate_key_tile<false>(p, scores, dweights, statistics, b_, note_.head, query, line, inside, masked);
      pack<T, kQueries>(scores, packed);
      pass_on(packed, shared_.weights[tile_parity_]);
    }
    pack<T, kQueries>(dweights, packed);
    pass_on(packed, shared_.score_gradients[tile_parity_]);
    fence_async_shared();
  }

  // To all warpgroups' MMAs: lines of keys, this warpgroup's part of queries.
  CAUSEWAY_INLINE void pass_on(const uint32_t (&packed)[kQueries / 16][4], T* tile) const {
    // Addresses are not to be kept from tile to tile: registers would not suffice.
    const uint32_t thread = computed_here(static_cast<uint32_t>(thread_index()) % 128), lane = thread % 32;
    const uint32_t line = thread / 32 * 16 + lane / 4, piece = static_cast<uint32_t>(group_) * (kQueries / 8);
#pragma clang loop unroll(full)
    for (uint32_t step = 0; step < kQueries / 16; ++step) {
#pragma clang loop unroll(full)
      for (uint32_t i = 0; i < 4; ++i) {
        T* to = tile_piece(tile, kLines, line + i % 2 * 8, piece + 2 * step + i / 2) + lane % 4 * 2;
        __builtin_memcpy(__builtin_assume_aligned(to, 4), &packed[step][i], 4);
      }
    }
  }

  int tile_parity_ = 0;
};

// Whose code is the same where columns are.
template <class P>
class WideGradients {
  using Shared = WideGradientShared<P>;

 public:
  CAUSEWAY_INLINE WideGradients(const P& problem, Shared& shared, int group)
      : p(problem), shared_(shared), group_(group) {}

  CAUSEWAY_INLINE void run() {
    if constexpr (Shared::columns_of(0) == Shared::columns_of(1)) {
      WideGradient<P, Shared::columns_of(0)>(p, shared_, group_).run();
    } else if (group_ == 0) {
      WideGradient<P, Shared::columns_of(0)>(p, shared_, 0).run();
    } else {
      WideGradient<P, Shared::columns_of(1)>(p, shared_, 1).run();
    }
  }

 private:
  const P& p;
  Shared& shared_;
  int group_;
};

}  // namespace attention_hopper

// One block of a launch of any number, of 384 threads each.
template <HopperAttentionWideProblem P>
CAUSEWAY_INLINE void hopper_attention_wide_query_gradient(const P& p, const TensorMapBytes* maps, uint32_t* counter) {
  using namespace attention_hopper;
  using Queries = WideQueries<P>;
  using Shared = WideQueryShared<Queries>;
  // Sums of wide heads take all registers that can be had.
  constexpr RegisterSplit kSplit =
      P::kHeadDim > 192 ? kMostUnevenSplit : RegisterSplit{kUnevenSplit.copying, kUnevenSplit.multiplying, false};
  run_gradient<true, kSplit, QueryGradient<Queries, Shared>, Shared>(Queries(p), maps, counter);
}

template <HopperAttentionWideProblem P>
CAUSEWAY_INLINE void hopper_attention_wide_key_gradient(const P& p, const TensorMapBytes* maps, uint32_t* counter) {
  using namespace attention_hopper;
  run_gradient<false, kUnevenSplit, WideGradients<P>, WideGradientShared<P>>(p, maps, counter);
}
