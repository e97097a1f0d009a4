// Attention on Hopper (sm_90a), backward, in two launches as attention_hopper_gradient.h, of heads whose sums registers
// do not hold beside each other. One launch is that of queries, whose blocks have room for one tile of values. In the
// other one a block has 64 keys, which two warpgroups share: one computes scores, weights and the gradient of values,
// the other one gradients of weights, of scores and of keys, for which the first one passes its weights on, rounded as
// the MMAs of values take them. Each warpgroup's MMAs have 64 x 64 pairs, or a left operand in registers: operands of
// narrower ones in shared memory would bound them.
//
// One pass would be bound by its sums in memory (docs/log/attention.md).
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
  static constexpr bool kInOrder = false, kApart = true, kPassesOn = false;
  OperandPair<P, kLines> own[kOwn];
  T keys[P::kTile.stages][P::kTile.others * kColumns<P>];
  T values[P::kTile.others * kValueColumns<P>];
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
  static constexpr bool kInOrder = false, kApart = false, kPassesOn = true;
  OperandPair<P, kLines> own[kOwn];
  OperandPair<P, kOthers> others[P::kTile.stages];
  uint32_t slopes[2][kOthers / 16][128][4];  // of two tiles: registers of a left operand of each thread
  float statistics[P::kTile.stages][2][kOthers];
  Mbarrier own_full[kOwn], own_empty[kOwn];
  Mbarrier full[P::kTile.stages], empty[P::kTile.stages];
  Mbarrier slopes_full[2], slopes_empty[2];
  TaskNote tasks[kOwn];
  GradientTileNote notes[P::kTile.stages];

  CAUSEWAY_INLINE float& statistic(int stage, int which, int query) { return statistics[stage][which][query]; }
};

// What both warpgroups do alike: a task at a time, all of its tiles, and results in the place of what both have read.
template <class P>
class WideGradient : protected GradientGroup<P, WideGradientShared<P>> {
 protected:
  using Shared = WideGradientShared<P>;
  using Base = GradientGroup<P, Shared>;
  using Base::b_, Base::first_line_, Base::kLines, Base::kOthers, Base::note_, Base::own_, Base::p, Base::ring_,
      Base::shared_;
  using typename Base::T;

  // They have the same keys.
  CAUSEWAY_INLINE WideGradient(const P& problem, Shared& shared) : Base(problem, shared, 0) {}

  // `sum_up(own)`: of a task's keys and values. Calls of what is handed over are inlined by word: MMAs that cross a
  // function's boundary are waited for one by one.
  template <class SumUp>
  CAUSEWAY_INLINE void for_each_task(SumUp&& sum_up) {
#pragma clang loop unroll(disable)
    while (this->template begin_task<false>()) {
      [[clang::always_inline]] sum_up(shared_.own[own_.stage]);
      this->end_task();
    }
  }

  // Tile after tile: `multiply_pairs()` begins the MMAs of its pairs of lines, right after the sums of the tile before,
  // which `add()` begins.
  template <class MultiplyPairs, class Add>
  CAUSEWAY_INLINE void for_each_tile(MultiplyPairs&& multiply_pairs, Add&& add) {
    if (!this->next_tile()) return;
    [[clang::always_inline]] multiply_pairs();
#pragma clang loop unroll(disable)
    for (;;) {
      [[clang::always_inline]] add();
      this->before_ = ring_.stage;
      ring_.advance();
      if (!this->next_tile()) break;
      [[clang::always_inline]] multiply_pairs();
      this->template leave_before<1>();
    }
    this->template leave_before<0>();
  }

  // Where the other warpgroup's MMAs may still read what results take the place of.
  CAUSEWAY_INLINE static void join() { named_barrier(1, 256); }
  CAUSEWAY_INLINE static uint32_t thread_of_group() { return static_cast<uint32_t>(thread_index()) % 128; }

  StageRing<2> passed_;
};

// Scores, weights, and the gradient of values, which weights are a left operand of where MMAs leave them.
template <class P>
class WideValueGradient : WideGradient<P> {
  using Base = WideGradient<P>;
  using Base::b_, Base::first_line_, Base::kLines, Base::kOthers, Base::note_, Base::own_, Base::p, Base::passed_,
      Base::ring_, Base::shared_, Base::kBeside;
  using typename Base::Shared, typename Base::T;

 public:
  CAUSEWAY_INLINE WideValueGradient(const P& problem, Shared& shared) : Base(problem, shared) {}

  CAUSEWAY_INLINE void run() {
    this->for_each_task([&](OperandPair<P, kLines>& own) { sum_up(own); });
  }

 private:
  CAUSEWAY_INLINE void sum_up(OperandPair<P, kLines>& own) {
    float dv[P::kValueDim / 2];
#pragma clang loop unroll(full)
    for (int i = 0; i < P::kValueDim / 2; ++i) dv[i] = computed_here(0.0f);
    add_tiles(own, dv);
    this->join();
    const int32_t head = shared_.tasks[own_.stage].head;
    const float ones[2] = {1.0f, 1.0f};
    store_lines<P::kValueDim, kLines>(dv, ones, own.second, 0, [&](int line, int d, const float (&values)[8]) {
      if (first_line_ + line >= p.key_length) return;
#pragma clang loop unroll(full)
      for (int e = 0; e < 8; ++e) p.store_dv(b_, head, first_line_ + line, d + e, values[e]);
    });
  }

  CAUSEWAY_INLINE void add_tiles(OperandPair<P, kLines>& own, float (&dv)[P::kValueDim / 2]) {
    float scores[kOthers / 2];
    uint32_t weights[kOthers / 16][4];
    this->for_each_tile([&] { multiply_scores(scores, own); },
                        [&] {
                          weigh(scores, weights);
                          warpgroup_fence();
                          multiply_weights<P::kValueDim, kOthers>(dv, weights, shared_.others[ring_.stage].second);
                          warpgroup_commit();
                        });
  }

  CAUSEWAY_INLINE void multiply_scores(float (&scores)[kOthers / 2], OperandPair<P, kLines>& own) const {
    forget(scores);  // while MMAs are under way nothing else may say what is in accumulators
    warpgroup_fence();
    multiply_lines<P::kHeadDim, kLines, kOthers>(scores, own.first, 0, shared_.others[ring_.stage].first);
    warpgroup_commit();
  }

  // Weights, from scores under way, and what the other warpgroup is to multiply gradients of weights by: the same, or
  // where score functions have other derivatives than 1, their product.
  CAUSEWAY_INLINE void weigh(float (&scores)[kOthers / 2], uint32_t (&weights)[kOthers / 16][4]) {
    const int32_t query = note_.tile.first, line = first_line_ + warpgroup_row(0);
    // Queries past the end have weights of 0, and keys past the end are not stored.
    const bool inside = query + kOthers <= p.query_length && first_line_ + kLines <= p.key_length;
    const bool masked = this->masked();
    const float (&shifts)[kOthers] = shared_.statistics[ring_.stage][0];
    if constexpr (kBeside && P::kMaskReadsMemory) {
      warpgroup_wait<0>();
      weigh_key_tile<false>(p, scores, shifts, ColumnsInPlace<kOthers>{shifts}, b_, note_.head, query, line, inside,
                            masked);
      pack<T, kOthers>(scores, weights);
      pass_on(weights);
    } else {
      float shift[kOthers / 4];
      load_columns(shifts, shift);
      warpgroup_wait<0>();
      if constexpr (kBeside) {
        weigh_key_tile<false>(p, scores, shifts, LoadedColumns<kOthers / 4>{shift}, b_, note_.head, query, line, inside,
                              masked);
        pack<T, kOthers>(scores, weights);
        pass_on(weights);
      } else {
        uint32_t slopes[kOthers / 16][4];
        if (!inside || masked) {
          differentiate<Modified::kByAll>(scores, shift, query, line, masked, weights, slopes);
        } else {
          differentiate<Modified::kByScore>(scores, shift, query, line, false, weights, slopes);
        }
        pass_on(slopes);
      }
    }
  }

  template <Modified kModified>
  CAUSEWAY_INLINE void differentiate(const float (&scores)[kOthers / 2], const float (&shift)[kOthers / 4],
                                     int32_t query, int32_t line, bool masked, uint32_t (&weights)[kOthers / 16][4],
                                     uint32_t (&slopes)[kOthers / 16][4]) const {
    int32_t column = warpgroup_column(0);
#pragma clang loop unroll(full)
    for (int i = 0; i < kOthers / 2; i += 2) {
      attention_tile::PairGradient pair[2];
#pragma clang loop unroll(full)
      for (int e = 0; e < 2; ++e)
        pair[e] =
            attention_tile::pair_gradient<kModified>(p, scores[i + e], 1.0f, shift[i / 4 * 2 + e], 0.0f, b_, note_.head,
                                                     query + column + i / 4 * 8 + e, line + (i & 2) * 4, masked);
      weights[i / 8][i % 8 / 2] = pack_pair<T>(pair[0].weight, pair[1].weight);
      slopes[i / 8][i % 8 / 2] = pack_pair<T>(pair[0].dqk, pair[1].dqk);
      // What masks and scores load must not be loaded for all columns at first: registers would not suffice.
      if (i % 4 == 2) column = known_after(column, pair[1].weight);
    }
  }

  CAUSEWAY_INLINE void pass_on(const uint32_t (&slopes)[kOthers / 16][4]) {
    barrier_wait(&shared_.slopes_empty[passed_.stage], passed_.parity ^ 1);
    const uint32_t thread = this->thread_of_group();
#pragma clang loop unroll(full)
    for (int step = 0; step < kOthers / 16; ++step)
      __builtin_memcpy(__builtin_assume_aligned(shared_.slopes[passed_.stage][step][thread], 16), slopes[step], 16);
    release(&shared_.slopes_full[passed_.stage]);
    passed_.advance();
  }
};

// Gradients of weights and of scores, and the gradient of keys.
template <class P>
class WideKeyGradient : WideGradient<P> {
  using Base = WideGradient<P>;
  using Base::b_, Base::first_line_, Base::kLines, Base::kOthers, Base::own_, Base::p, Base::passed_, Base::ring_,
      Base::shared_;
  using typename Base::Shared, typename Base::T;

 public:
  CAUSEWAY_INLINE WideKeyGradient(const P& problem, Shared& shared) : Base(problem, shared) {}

  CAUSEWAY_INLINE void run() {
    this->for_each_task([&](OperandPair<P, kLines>& own) { sum_up(own); });
  }

 private:
  CAUSEWAY_INLINE void sum_up(OperandPair<P, kLines>& own) {
    float dk[P::kHeadDim / 2];
#pragma clang loop unroll(full)
    for (int i = 0; i < P::kHeadDim / 2; ++i) dk[i] = computed_here(0.0f);
    add_tiles(own, dk);
    this->join();
    const int32_t head = shared_.tasks[own_.stage].head;
    const float scales[2] = {p.scale, p.scale};
    store_lines<P::kHeadDim, kLines>(dk, scales, own.first, 0, [&](int line, int d, const float (&values)[8]) {
      if (first_line_ + line >= p.key_length) return;
#pragma clang loop unroll(full)
      for (int e = 0; e < 8; ++e) p.store_dk(b_, head, first_line_ + line, d + e, values[e]);
    });
  }

  CAUSEWAY_INLINE void add_tiles(OperandPair<P, kLines>& own, float (&dk)[P::kHeadDim / 2]) {
    float dweights[kOthers / 2];
    uint32_t gradients[kOthers / 16][4];
    this->for_each_tile([&] { multiply_weight_gradients(dweights, own); },
                        [&] {
                          differentiate(dweights, gradients);
                          warpgroup_fence();
                          multiply_weights<P::kHeadDim, kOthers>(dk, gradients, shared_.others[ring_.stage].first);
                          warpgroup_commit();
                        });
  }

  CAUSEWAY_INLINE void multiply_weight_gradients(float (&dweights)[kOthers / 2], OperandPair<P, kLines>& own) const {
    forget(dweights);
    warpgroup_fence();
    multiply_lines<P::kValueDim, kLines, kOthers>(dweights, own.second, 0, shared_.others[ring_.stage].second);
    warpgroup_commit();
  }

  // Gradients of scores, from those of weights under way and what the other warpgroup passes on.
  CAUSEWAY_INLINE void differentiate(const float (&dweights)[kOthers / 2], uint32_t (&gradients)[kOthers / 16][4]) {
    float delta[kOthers / 4];
    uint32_t slopes[kOthers / 16][4];
    load_columns(shared_.statistics[ring_.stage][1], delta);
    barrier_wait(&shared_.slopes_full[passed_.stage], passed_.parity);
    const uint32_t thread = this->thread_of_group();
#pragma clang loop unroll(full)
    for (int step = 0; step < kOthers / 16; ++step)
      __builtin_memcpy(slopes[step], __builtin_assume_aligned(shared_.slopes[passed_.stage][step][thread], 16), 16);
    warpgroup_wait<0>();
    release(&shared_.slopes_empty[passed_.stage]);
    passed_.advance();
#pragma clang loop unroll(full)
    for (int i = 0; i < kOthers / 2; i += 2) {
      T slope[2];
      __builtin_memcpy(slope, &slopes[i / 8][i % 8 / 2], 4);
      float gradient[2];
#pragma clang loop unroll(full)
      for (int e = 0; e < 2; ++e)
        gradient[e] = attention_tile::qk_gradient(to_float(slope[e]), dweights[i + e], delta[i / 4 * 2 + e]);
      gradients[i / 8][i % 8 / 2] = pack_pair<T>(gradient[0], gradient[1]);
    }
  }
};

// The one or the other.
template <class P>
class WideGradients {
  using Shared = WideGradientShared<P>;

 public:
  CAUSEWAY_INLINE WideGradients(const P& problem, Shared& shared, int group)
      : p(problem), shared_(shared), group_(group) {}

  CAUSEWAY_INLINE void run() {
    if (group_ == 0) {
      WideValueGradient<P>(p, shared_).run();
    } else {
      WideKeyGradient<P>(p, shared_).run();
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
  // Sums of wide heads take all registers that can be had, of the widest what copying can do without.
  constexpr RegisterSplit kSplit =
      P::kHeadDim > 240 ? kMostUnevenSplit : RegisterSplit{kUnevenSplit.copying, kUnevenSplit.multiplying, false};
  run_gradient<true, kSplit, QueryGradient<Queries, Shared>, Shared>(Queries(p), maps, counter);
}

template <HopperAttentionWideProblem P>
CAUSEWAY_INLINE void hopper_attention_wide_key_gradient(const P& p, const TensorMapBytes* maps, uint32_t* counter) {
  using namespace attention_hopper;
  run_gradient<false, kUnevenSplit, WideGradients<P>, WideGradientShared<P>>(p, maps, counter);
}
