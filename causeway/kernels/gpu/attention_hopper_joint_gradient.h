// Attention on Hopper (sm_90a), backward, in one pass over the pairs of queries and keys: five MMAs where
// attention_hopper_gradient.h's two launches multiply seven. Blocks have keys; what a tile of them adds to the gradient
// of 64 queries is added to sums in memory by bulk copies (cp.reduce.async.bulk), in the order of the keys, which a
// number for each tile of queries keeps: so results are the same in every run. A last launch scales the sums and stores
// them.
//
// Blocks take tasks in the order of their numbers, and a head's tiles of keys have growing ones: who waits for a turn
// waits for blocks that have begun, the first of which waits for nobody.
//
// The problem's workspace has sums, [B][H][tiles of 64 queries][joint_gradient_sums(D)], then a turn for each tile.
#pragma once

#include "causeway/kernels/gpu/attention_hopper_gradient.h"

namespace attention_hopper {

// Floats of a tile of 64 queries.
constexpr int joint_gradient_sums(int head_dim) { return 64 * head_dim; }

template <class P>
CAUSEWAY_INLINE int32_t query_tiles(const P& p) {
  return (static_cast<int32_t>(p.query_length) + P::kTile.others - 1) / P::kTile.others;
}
// A number for each tile of queries: 1 more than that of the tile of keys which has added last, at first 0.
template <class P>
CAUSEWAY_INLINE uint32_t* query_turns(const P& p) {
  return reinterpret_cast<uint32_t*>(p.workspace +
                                     p.batch * p.query_heads * query_tiles(p) * joint_gradient_sums(P::kHeadDim));
}

// What a warpgroup has added up of a tile of queries, for the warp that sends it.
struct SumNote {
  int32_t b, head, query, key;  // head: of queries; key: the first of the block's; -1: there are no more
};

template <class P>
struct JointGradientShared {
  using T = typename P::Operand;
  static constexpr int kLines = kLinesOfBlock<P>, kOwn = P::kTile.own_stages;
  static constexpr bool kInOrder = true, kApart = false;
  OperandPair<P, kLines> own[kOwn];
  OperandPair<P, P::kTile.others> others[P::kTile.stages];
  T score_gradients[2][kLines * P::kTile.others];                 // lines of keys, of two tiles
  float sums[P::kTile.groups][joint_gradient_sums(P::kHeadDim)];  // of tiles that each warpgroup adds up
  float statistics[P::kTile.stages][2][P::kTile.others];
  Mbarrier own_full[kOwn], own_empty[kOwn];
  Mbarrier full[P::kTile.stages], empty[P::kTile.stages];
  Mbarrier sums_full[P::kTile.groups], sums_empty[P::kTile.groups];
  TaskNote tasks[kOwn];
  GradientTileNote notes[P::kTile.stages];
  SumNote sum_notes[P::kTile.groups];

  CAUSEWAY_INLINE float& statistic(int stage, int which, int query) { return statistics[stage][which][query]; }
};

// A tile of queries among all of them.
template <class P>
CAUSEWAY_INLINE int64_t query_tile_number(const P& p, int32_t b, int32_t head, int32_t query) {
  return (static_cast<int64_t>(b) * p.query_heads + head) * query_tiles(p) + query / P::kTile.others;
}

// A warp for each warpgroup: sends what that has added up, tile after tile.
template <class P>
class SumSender {
 public:
  CAUSEWAY_INLINE SumSender(const P& problem, JointGradientShared<P>& shared, int group)
      : p(problem), shared_(shared), group_(group) {}

  CAUSEWAY_INLINE void run() {
    int parity = 0;
#pragma clang loop unroll(disable)
    for (;; parity ^= 1) {
      barrier_wait(&shared_.sums_full[group_], parity);
      const SumNote note = shared_.sum_notes[group_];
      if (uniform(note.key) < 0) return;
      const int32_t before = key_tile_before(note);
      wave_barrier();  // all lanes have read the note, which may be written again when sums are handed back
      if (elects_lane()) send(note, before);
      wave_barrier();
    }
  }

 private:
  static constexpr int kLines = JointGradientShared<P>::kLines;

  // The last tile of keys before the note's that adds to the same queries; -1 if it is the first one.
  CAUSEWAY_INLINE int32_t key_tile_before(const SumNote& note) const {
    const int32_t own = note.key / kLines;
    if constexpr (P::kHasBlockMap) {
#pragma clang loop unroll(disable)
      for (int32_t last = own - 1; last >= 0; last -= 32) {
        const int32_t tile = last - lane_index();
        const bool adds =
            tile >= 0 && tile_kinds<P, false, P::kTile.others>(p, note.b, note.head, tile * kLines, note.query) != 0;
        const auto lanes = static_cast<uint32_t>(wave_ballot(adds));
        if (lanes != 0) return last - __builtin_ctz(lanes);
      }
      return -1;
    } else {
      return own - 1;
    }
  }

  CAUSEWAY_INLINE void send(const SumNote& note, int32_t before) {
    const int64_t tile = query_tile_number(p, note.b, note.head, note.query);
    float* to = p.workspace + tile * joint_gradient_sums(P::kHeadDim);
    uint32_t* turn = query_turns(p) + tile;
    constexpr int kBytes = joint_gradient_sums(P::kHeadDim) * 4;
    if (before < 0) {
      bulk_store(to, shared_.sums[group_], kBytes);
    } else {
      wait_for_turn(turn, static_cast<uint32_t>(before) + 1);
      bulk_add(to, shared_.sums[group_], kBytes);
    }
    tensor_store_commit();
    tensor_store_wait<0>();
    barrier_arrive(&shared_.sums_empty[group_]);
    bulk_wait<0>();
    pass_turn(turn, static_cast<uint32_t>(note.key / kLines) + 1);
  }

  const P& p;
  JointGradientShared<P>& shared_;
  int group_;
};

// A warpgroup: 64 keys, and what all of the block's add to the queries of every second tile. So while one multiplies
// that, the other one computes the next tile's weights.
template <class P>
class JointGradient {
  using T = typename P::Operand;
  using Shared = JointGradientShared<P>;
  static constexpr int kLines = Shared::kLines, kOthers = P::kTile.others;
  // Weights alone are computed beside the MMAs that give their gradients, where nothing else needs the scores.
  static constexpr bool kBeside = !P::kHasScore || P::kScoreIsShifted;
  static constexpr int kJoin = 1 + P::kTile.groups;  // a named barrier of all that multiply
  static constexpr int kPassedOn = kJoin + 1;        // and one for each that adds up what all of them have passed on

 public:
  CAUSEWAY_INLINE JointGradient(const P& problem, Shared& shared, int group)
      : p(problem), shared_(shared), group_(group) {}

  CAUSEWAY_INLINE void run() {
#pragma clang loop unroll(disable)
    for (;;) {
      barrier_wait(&shared_.own_full[own_.stage], own_.parity);
      const TaskNote task = shared_.tasks[own_.stage];
      const int32_t first = uniform(task.first);
      if (first < 0) break;
      b_ = task.b, first_key_ = first;
      sum_up(shared_.own[own_.stage]);
      release(&shared_.own_empty[own_.stage]);
      own_.advance();
    }
    // The warp that sends has nothing more to do.
    barrier_wait(&shared_.sums_empty[group_], sums_parity_ ^ 1);
    announce({0, 0, 0, -1});
  }

 private:
  CAUSEWAY_INLINE void sum_up(OperandPair<P, kLines>& own) {
    float dk[P::kHeadDim / 2], dv[P::kValueDim / 2];
#pragma clang loop unroll(full)
    for (int i = 0; i < kWidest<P> / 2; ++i) {
      if (i < P::kHeadDim / 2) dk[i] = computed_here(0.0f);
      if (i < P::kValueDim / 2) dv[i] = computed_here(0.0f);
    }
    add_tiles(own, dk, dv);
    // Results take the place of keys and values, which the other warpgroup's MMAs may still read.
    named_barrier(kJoin, 128 * P::kTile.groups);
    const int32_t head = shared_.tasks[own_.stage].head;
    const float scales[2] = {p.scale, p.scale}, ones[2] = {1.0f, 1.0f};
    store_lines<P::kHeadDim, kLines>(dk, scales, own.first, group_, [&](int line, int d, const float (&values)[8]) {
      if (first_line() + line >= p.key_length) return;
#pragma clang loop unroll(full)
      for (int e = 0; e < 8; ++e) p.store_dk(b_, head, first_line() + line, d + e, values[e]);
    });
    store_lines<P::kValueDim, kLines>(dv, ones, own.second, group_, [&](int line, int d, const float (&values)[8]) {
      if (first_line() + line >= p.key_length) return;
#pragma clang loop unroll(full)
      for (int e = 0; e < 8; ++e) p.store_dv(b_, head, first_line() + line, d + e, values[e]);
    });
  }

  // Tile after tile.
  CAUSEWAY_INLINE void add_tiles(OperandPair<P, kLines>& own, float (&dk)[P::kHeadDim / 2],
                                 float (&dv)[P::kValueDim / 2]) {
    float scores[kOthers / 2], dweights[kOthers / 2];
    uint32_t packed[kOthers / 16][4], gradients[kOthers / 16][4];
    bool last = false;
    if (!next_tile(last)) return;  // a task without tiles
#pragma clang loop unroll(disable)
    for (;;) {
      multiply_scores(scores, own);
      T* queries = shared_.others[ring_.stage].first;
      T* out_gradients = shared_.others[ring_.stage].second;
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
        weigh_key_tile<true>(p, scores, statistics[0], LoadedColumns<kOthers / 4>{shift}, b_, note_.head, query, line,
                             inside, masked);
        warpgroup_wait<0>();
#pragma clang loop unroll(full)
        for (int i = 0; i < kOthers / 2; ++i)
          dweights[i] = attention_tile::qk_gradient(scores[i], dweights[i],
                                                    statistics[1][warpgroup_column(0) + i / 4 * 8 + (i & 1)]);
      } else {
        warpgroup_wait<0>();
        differentiate_key_tile<true>(p, scores, dweights, statistics, b_, note_.head, query, line, inside, masked);
      }
      pack<T, kOthers>(scores, packed);
      pack<T, kOthers>(dweights, gradients);
      warpgroup_fence();
      multiply_weights<P::kValueDim, kOthers>(dv, packed, out_gradients);
      multiply_weights<P::kHeadDim, kOthers>(dk, gradients, queries);
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
        multiply_joint(dq, passed_on, own.first);
        hand_on(dq);
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
  CAUSEWAY_INLINE void multiply_scores(float (&scores)[kOthers / 2], OperandPair<P, kLines>& own) const {
    forget(scores);
    warpgroup_fence();
    multiply_lines<P::kHeadDim, kLines, kOthers>(scores, own.first, 64 * group_, shared_.others[ring_.stage].first);
    warpgroup_commit();
  }
  CAUSEWAY_INLINE void multiply_weight_gradients(float (&dweights)[kOthers / 2], OperandPair<P, kLines>& own) const {
    forget(dweights);
    warpgroup_fence();
    multiply_lines<P::kValueDim, kLines, kOthers>(dweights, own.second, 64 * group_,
                                                  shared_.others[ring_.stage].second);
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

  // To the warp that sends: a thread's sums of four, 128 threads apart.
  CAUSEWAY_INLINE void hand_on(const float (&dq)[P::kHeadDim / 2]) {
    barrier_wait(&shared_.sums_empty[group_], sums_parity_ ^ 1);
    float* to = shared_.sums[group_] + computed_here(thread_index() % 128) * 4;
#pragma clang loop unroll(full)
    for (int i = 0; i < P::kHeadDim / 2; i += 4) {
      const Vector<float, 4> sums = {computed_here(dq[i]), computed_here(dq[i + 1]), computed_here(dq[i + 2]),
                                     computed_here(dq[i + 3])};
      __builtin_memcpy(__builtin_assume_aligned(to + i * 128, 16), &sums, 16);
    }
    fence_async_shared();
    announce({b_, note_.head, note_.tile.first, first_key_});
  }
  CAUSEWAY_INLINE void announce(const SumNote& note) {
    if (thread_index() % 128 == 0) shared_.sum_notes[group_] = note;
    release(&shared_.sums_full[group_]);
    sums_parity_ ^= 1;
  }

  const P& p;
  Shared& shared_;
  int32_t group_, b_ = 0, first_key_ = 0;
  StageRing<P::kTile.own_stages> own_;
  StageRing<P::kTile.stages> ring_;
  GradientTileNote note_ = {{0, 0}, 0, 0};
  int sums_parity_ = 0, tile_parity_ = 0;
};

}  // namespace attention_hopper

// Sets what blocks take turns by.
template <HopperAttentionJointProblem P>
CAUSEWAY_INLINE void hopper_attention_begin_turns(const P& p, int task) {
  const int64_t at = static_cast<int64_t>(task) * 128 + thread_index();
  if (at < p.batch * p.query_heads * attention_hopper::query_tiles(p)) attention_hopper::query_turns(p)[at] = 0;
}

// One block of a launch of any number, of 384 threads each.
template <HopperAttentionJointProblem P>
CAUSEWAY_INLINE void hopper_attention_joint_gradient(const P& p, const TensorMapBytes* maps, uint32_t* counter) {
  using namespace attention_hopper;
  using Shared = JointGradientShared<P>;
  using GroupCopier = GradientCopier<P, false, Shared, kUnevenSplit>;
  auto& shared = *reinterpret_cast<Shared*>(shared_memory());
  if (thread_index() == 0) {
    for (int stage = 0; stage < P::kTile.own_stages; ++stage) {
      barrier_init(&shared.own_full[stage], GroupCopier::kOwnArrivals);
      barrier_init(&shared.own_empty[stage], 4 * P::kTile.groups);
    }
    for (int stage = 0; stage < P::kTile.stages; ++stage) {
      barrier_init(&shared.full[stage], GroupCopier::kArrivals);
      barrier_init(&shared.empty[stage], 4 * P::kTile.groups);
    }
    for (int group = 0; group < P::kTile.groups; ++group) {
      barrier_init(&shared.sums_full[group], 4);
      barrier_init(&shared.sums_empty[group], 1);
    }
    barrier_init_fence();
  }
  block_barrier();
  if (thread_index() < 128) {
    registers_decrease<kUnevenSplit.copying>();
    if (thread_index() < 32) {
      GroupCopier(p, maps, shared).run(counter);
    } else if (thread_index() < 32 * (1 + P::kTile.groups)) {
      SumSender<P>(p, shared, uniform(thread_index() / 32) - 1).run();
    }
  } else {
    registers_increase<kUnevenSplit.multiplying>();
    JointGradient<P>(p, shared, warpgroup_index() - 1).run();
  }
}

// The gradient of 64 queries of a head from their sums; 128 threads.
template <HopperAttentionJointProblem P>
CAUSEWAY_INLINE void hopper_attention_finish_queries(const P& p, int task) {
  using namespace attention_hopper;
  using T = typename P::Operand;
  const int32_t tiles = query_tiles(p);
  const int32_t tile = task % tiles, head = task / tiles % static_cast<int32_t>(p.query_heads);
  const int32_t b = task / tiles / static_cast<int32_t>(p.query_heads), query = tile * P::kTile.others;
  // Nobody has added to queries that see nothing.
  const bool added = query_turns(p)[task] != 0;
  const float* from = p.workspace + static_cast<int64_t>(task) * joint_gradient_sums(P::kHeadDim);
  float sums[P::kHeadDim / 2];
#pragma clang loop unroll(full)
  for (int i = 0; i < P::kHeadDim / 2; i += 4) {
    Vector<float, 4> four = {};
    if (added) __builtin_memcpy(&four, __builtin_assume_aligned(from + i * 128 + thread_index() * 4, 16), 16);
#pragma clang loop unroll(full)
    for (int e = 0; e < 4; ++e) sums[i + e] = four[e];
  }
  const float factors[2] = {p.scale, p.scale};
  store_lines<P::kHeadDim, 64>(sums, factors, reinterpret_cast<T*>(shared_memory()), 0,
                               [&](int line, int d, const float (&values)[8]) {
                                 if (query + line >= p.query_length) return;
#pragma clang loop unroll(full)
                                 for (int e = 0; e < 8; ++e) p.store_dq(b, head, query + line, d + e, values[e]);
                               });
}
