// Attention on Hopper (sm_90a), backward, in the two launches that attention_gradient.h describes, with operands of 16
// bits and heads that hopper_attention_gradient_serves(). A block's warpgroups have 64 lines each, of queries in one
// launch and of keys in the other, in two operands; another warpgroup copies tiles of the others, also in two operands.
// Scores and gradients of weights are dot products of own lines and others; what follows from them stays in registers,
// where wgmma takes it as its left operand, so that nothing but operands passes through shared memory. The launch of
// queries of attention_hopper_wide_gradient.h is made of the same.
#pragma once

#include "causeway/kernels/gpu/attention_gradient.h"
#include "causeway/kernels/gpu/attention_hopper_tile.h"

namespace attention_hopper {

using attention_tile::Modified;

// What is done to the scores of tiles that are seen and inside, but for a multiple of the distance, which is made part
// of what is subtracted from scores before they become weights.
template <class P>
struct ScoreWork {
  static constexpr bool kShiftsByDistance = P::kScoreAddsDistance && P::kScoreIsShifted;
  static constexpr bool kNothing = !P::kHasScore || kShiftsByDistance;
  static constexpr Modified kMasked = P::kHasMask && kNothing ? Modified::kByMask : Modified::kByAll;
  static constexpr Modified kUnmasked = kNothing ? Modified::kNot : Modified::kByScore;
  static constexpr bool kReadsPositions = !kNothing;  // what it reads may end where the lengths do
  static constexpr bool shifts(Modified modified) {
    return kShiftsByDistance && (modified == Modified::kNot || modified == Modified::kByMask);
  }
};

// A tile of others, as the copying warpgroup describes it.
struct GradientTileNote {
  TileNote tile;
  int32_t head;  // of queries, where the others are queries
  int32_t padding;
};

// A tile in two operands: queries and output's gradients, or keys and values.
template <class P, int kLines>
struct OperandPair {
  typename P::Operand first[kLines * kColumns<P>], second[kLines * kValueColumns<P>];
};

// What a block shares: own lines of queries and output's gradients, others of keys and values, or the reverse.
// hopper_attention_gradient_shared_bytes() counts its bytes.
template <class P>
struct GradientShared {
  using T = typename P::Operand;
  static constexpr int kLines = kLinesOfBlock<P>, kOwn = P::kTile.own_stages;
  static constexpr bool kInOrder = false, kApart = false, kPassesOn = false;
  OperandPair<P, kLines> own[kOwn];
  OperandPair<P, P::kTile.others> others[P::kTile.stages];
  float statistics[P::kTile.stages][2][P::kTile.others];  // of queries: shift and delta
  Mbarrier own_full[kOwn], own_empty[kOwn];
  Mbarrier full[P::kTile.stages], empty[P::kTile.stages];
  TaskNote tasks[kOwn];
  GradientTileNote notes[P::kTile.stages];

  CAUSEWAY_INLINE T* keys_of(int stage) { return others[stage].first; }
  CAUSEWAY_INLINE T* values_of(int stage) { return others[stage].second; }
  CAUSEWAY_INLINE float& statistic(int stage, int which, int query) { return statistics[stage][which][query]; }
};

// Queries and output's gradients, keys and values, into their tiles. Shared::kInOrder: blocks wait for earlier ones.
// kApart: of others, values have one stage of their own beside the ring of keys.
template <class P, bool kOwnAreQueries, class Shared, RegisterSplit kSplit>
class GradientCopier : Copier<P> {
  using Base = Copier<P>;
  using T = typename P::Operand;
  static constexpr int kLines = Shared::kLines, kOthers = P::kTile.others;

 public:
  using Base::kThreads;
  // Statistics are written by threads.
  static constexpr int kOwnArrivals = Base::kArrivals, kArrivals = kOwnAreQueries ? Base::kArrivals : 2;

  CAUSEWAY_INLINE GradientCopier(const P& problem, const TensorMapBytes* maps, Shared& shared)
      : Base(maps), p(problem), shared_(shared) {}

  CAUSEWAY_INLINE void run(uint32_t* counter) {
    const auto query_heads = static_cast<int32_t>(p.query_heads), kv_heads = static_cast<int32_t>(p.kv_heads);
    const int32_t group = query_heads / kv_heads, heads = kOwnAreQueries ? query_heads : kv_heads;
    const int64_t other_bytes =
        (kOwnAreQueries ? p.key_length : p.query_length * group) * (2 * (P::kHeadDim + P::kValueDim));
#pragma clang loop unroll(disable)
    for (int32_t number = 0;; ++number) {
      const int stage = number % Shared::kOwn;
      Mbarrier* full = &shared_.own_full[stage];
      TaskNote& note = shared_.tasks[stage];
      barrier_wait(&shared_.own_empty[stage], number / Shared::kOwn % 2 ^ 1);
      // All lanes have read the task before: with TMA alone nothing else makes them wait.
      if constexpr (Shared::kOwn == 1 && kArrivals == 1) this->copiers_barrier();
      if (this->leads()) {
        const TaskOrder<P> order(block_count(), p.batch * heads, kOwnAreQueries ? group : 1,
                                 kOwnAreQueries ? p.query_length : p.key_length, kLines, other_bytes, Shared::kInOrder);
        int32_t head, tile;
        if (order.locate(take_task(counter, order.count(), 1, Shared::kInOrder), head, tile)) {
          const int32_t h = head % heads;
          // Under a causal mask later queries see more keys, and the first keys are seen by the most queries.
          note = {kOwnAreQueries ? QueryTiles(p.query_length, P::kTile.groups).first_of(order.tiles - 1 - tile)
                                 : tile * kLines,
                  head / heads, h, kOwnAreQueries ? h / group : h};
          this->template expect<kBytes<kLines, kOwnAreQueries>>(full);
        } else {
          note.first = -1;
          barrier_arrive(full);
        }
      }
      this->copiers_barrier();
      if (note.first < 0) {
        if constexpr (P::kComputesOperands) this->announce(full);
        return;
      }
      copy<kLines, kOwnAreQueries>(shared_.own[stage], full, note.b, note.head, note.first);
      if constexpr (P::kComputesOperands) this->announce(full);
      copy_tiles(note, group);
    }
  }

 private:
  CAUSEWAY_INLINE void copy_tiles(const TaskNote& task, int32_t group) {
    TilePlan<P, kOwnAreQueries, kOthers, kSplit> plan(p, task, group);
    GradientTileNote note;
#pragma clang loop unroll(disable)
    do {
      note.head = plan.head();
      note.tile = plan.take();
      copy_tile(task, note);
    } while ((note.tile.kinds & kLastTile) == 0);
  }

  CAUSEWAY_INLINE void copy_tile(const TaskNote& task, const GradientTileNote& note) {
    // Statistics are on their way while room is waited for.
    constexpr int kEach = (kOthers + Base::kThreads - 1) / Base::kThreads;
    float shift[kEach], delta[kEach];
    if constexpr (!kOwnAreQueries) {
#pragma clang loop unroll(full)
      for (int i = 0; i < kEach; ++i) {
        const int32_t t = note.tile.first + i * Base::kThreads + thread_index();
        const bool inside = t < p.query_length;
        shift[i] = inside ? p.load_lse(task.b, note.head, t) : -kInfinity;
        delta[i] = inside ? p.load_delta(task.b, note.head, t) : 0.0f;
      }
    }
    Mbarrier* full = &shared_.full[ring_.stage];
    barrier_wait(&shared_.empty[ring_.stage], ring_.parity ^ 1);
    if (this->leads()) {
      shared_.notes[ring_.stage] = note;
      this->template expect<kTileBytes>(full);
    }
    if constexpr (Shared::kApart) {
      if (this->leads())
        this->template load<kOthers, P::kHeadDim, P::kMapK>(shared_.keys[ring_.stage], full, task.b, task.kv_head,
                                                            note.tile.first);
    } else {
      copy<kOthers, !kOwnAreQueries>(shared_.others[ring_.stage], full, task.b,
                                     kOwnAreQueries ? task.kv_head : note.head, note.tile.first);
    }
    if constexpr (!kOwnAreQueries) {
#pragma clang loop unroll(full)
      for (int i = 0; i < kEach; ++i) {
        const int at = i * Base::kThreads + thread_index();
        if (at >= kOthers) break;
        shared_.statistic(ring_.stage, 0, at) = attention_tile::weight_shift(shift[i]);
        shared_.statistic(ring_.stage, 1, at) = delta[i];
      }
    }
    if constexpr (kArrivals == 2) this->announce(full);
    ring_.advance();
    if constexpr (Shared::kApart) {
      barrier_wait(&shared_.values_empty, values_parity_ ^ 1);
      if (this->leads()) {
        this->template expect<Base::template kLoadedBytes<kOthers, P::kValueDim, P::kMapV>>(&shared_.values_full);
        this->template load<kOthers, P::kValueDim, P::kMapV>(shared_.values, &shared_.values_full, task.b, task.kv_head,
                                                             note.tile.first);
      }
      values_parity_ ^= 1;
    }
  }

  template <int kRows, bool kQueries>
  static constexpr int
      kBytes = Base::template kLoadedBytes < kRows,
      P::kHeadDim,
      kQueries ? P::kMapQ
               : P::kMapK > +Base::template kLoadedBytes<kRows, P::kValueDim, kQueries ? P::kMapGradient : P::kMapV>;
  static constexpr int kTileBytes =
      Shared::kApart ? Base::template kLoadedBytes<kOthers, P::kHeadDim, P::kMapK> : kBytes<kOthers, !kOwnAreQueries>;
  template <int kRows, bool kQueries>
  CAUSEWAY_INLINE void copy(OperandPair<P, kRows>& to, Mbarrier* full, int32_t b, int32_t head, int32_t first) const {
    if (this->leads()) {
      this->template load<kRows, P::kHeadDim, kQueries ? P::kMapQ : P::kMapK>(to.first, full, b, head, first);
      this->template load<kRows, P::kValueDim, kQueries ? P::kMapGradient : P::kMapV>(to.second, full, b, head, first);
    }
    if constexpr (kQueries) {
      this->template compute<kRows, P::kHeadDim, P::kMapQ>(to.first, first, p.query_length,
                                                           [&](int64_t t, int d) { return p.load_q(b, head, t, d); });
      this->template compute<kRows, P::kValueDim, P::kMapGradient>(
          to.second, first, p.query_length, [&](int64_t t, int d) { return p.load_out_gradient(b, head, t, d); });
    } else {
      this->template compute<kRows, P::kHeadDim, P::kMapK>(to.first, first, p.key_length,
                                                           [&](int64_t s, int d) { return p.load_k(b, head, s, d); });
      this->template compute<kRows, P::kValueDim, P::kMapV>(to.second, first, p.key_length,
                                                            [&](int64_t s, int d) { return p.load_v(b, head, s, d); });
    }
  }

  const P& p;
  Shared& shared_;
  StageRing<P::kTile.stages> ring_;
  int values_parity_ = 0;
};

// What warpgroups that multiply do alike in both launches: a task at a time, and the tiles of others that matter to 64
// lines of it.
template <class P, class Shared = GradientShared<P>>
class GradientGroup {
 protected:
  using T = typename P::Operand;
  static constexpr int kLines = Shared::kLines, kOthers = P::kTile.others;

  CAUSEWAY_INLINE GradientGroup(const P& problem, Shared& shared, int group)
      : p(problem), shared_(shared), group_(group) {}

  // Waits for the next task; false when there are no more.
  template <bool kOwnAreQueries>
  CAUSEWAY_INLINE bool begin_task() {
    barrier_wait(&shared_.own_full[own_.stage], own_.parity);
    const TaskNote task = shared_.tasks[own_.stage];
    const int32_t first = uniform(task.first);
    if (first < 0) return false;
    b_ = task.b, head_ = task.head;
    first_line_ = kOwnAreQueries ? first_query<P>(p, first, group_) : first + 64 * group_;
    note_.tile.kinds = 0;
    return true;
  }
  CAUSEWAY_INLINE void end_task() {
    release(&shared_.own_empty[own_.stage]);
    own_.advance();
  }

  // Waits for the next tile that these lines have to do with, and passes over others; false when there is none.
  CAUSEWAY_INLINE bool next_tile() {
#pragma clang loop unroll(disable)
    while ((note_.tile.kinds & kLastTile) == 0) {
      barrier_wait(&shared_.full[ring_.stage], ring_.parity);
      note_ = shared_.notes[ring_.stage];
      note_.tile = uniform(note_.tile);
      if (kind_of(note_.tile.kinds, group_) != 0) return true;
      // There may be no room for the tiles waited for.
      leave_before<0>();
      wait_for_values();
      leave_values();
      release(&shared_.empty[ring_.stage]);
      ring_.advance();
    }
    return false;
  }

  // Where values have a stage of their own.
  CAUSEWAY_INLINE void wait_for_values() const {
    if constexpr (Shared::kApart) barrier_wait(&shared_.values_full, values_parity_);
  }
  CAUSEWAY_INLINE void leave_values() {
    if constexpr (Shared::kApart) {
      release(&shared_.values_empty);
      values_parity_ ^= 1;
    }
  }

  // Hands back the tile before, when all but the newest kUnderWay groups of MMAs are done.
  template <int kUnderWay>
  CAUSEWAY_INLINE void leave_before() {
    warpgroup_wait<kUnderWay>();
    if (before_ >= 0) release(&shared_.empty[before_]);
    before_ = -1;
  }

  // Weights alone are computed beside the MMAs that give their gradients, where nothing else needs the scores.
  static constexpr bool kBeside = !P::kHasScore || P::kScoreIsShifted;
  // What is to be done to the scores of the tile at hand.
  static constexpr Modified kMasked = ScoreWork<P>::kMasked, kUnmasked = ScoreWork<P>::kUnmasked;
  CAUSEWAY_INLINE bool masked() const { return P::kHasMask && kind_of(note_.tile.kinds, group_) != 2; }

  const P& p;
  Shared& shared_;
  int32_t group_, b_ = 0, head_ = 0, first_line_ = 0;  // head: of own lines
  StageRing<P::kTile.own_stages> own_;
  StageRing<P::kTile.stages> ring_;
  GradientTileNote note_ = {{0, 0}, 0, 0};
  int before_ = -1;  // the stage that MMAs under way may still read
  int values_parity_ = 0;
};

// What is added to dot products of queries in rows and keys in columns before they become weights, in units of log2:
// the row's shift and, where it shifts by distance, a multiple of that. `distance`: of the thread's first pair.
template <bool kByDistance>
class KeyShift {
 public:
  template <class P>
  CAUSEWAY_INLINE KeyShift(const P& p, const float (&shift)[2], float distance, int32_t b, int32_t head) {
    if constexpr (kByDistance) factor_ = p.distance_factor(b, head) * attention_tile::kLog2E;
#pragma clang loop unroll(full)
    for (int slot = 0; slot < 2; ++slot)
      first_[slot] =
          kByDistance ? __builtin_fmaf(distance - static_cast<float>(8 * slot), factor_, shift[slot]) : shift[slot];
  }
  CAUSEWAY_INLINE float operator()(int slot, int column) const {
    return kByDistance ? __builtin_fmaf(static_cast<float>(column), factor_, first_[slot]) : first_[slot];
  }

 private:
  float factor_ = 0, first_[2];
};
// The same of keys in rows and queries, whose shift is given, in columns.
template <bool kByDistance>
class QueryShift {
 public:
  template <class P>
  CAUSEWAY_INLINE QueryShift(const P& p, float distance, int32_t b, int32_t head) {
    if constexpr (kByDistance) {
      factor_ = p.distance_factor(b, head) * attention_tile::kLog2E;
#pragma clang loop unroll(full)
      for (int slot = 0; slot < 2; ++slot) added_[slot] = (distance + static_cast<float>(8 * slot)) * factor_;
    }
  }
  CAUSEWAY_INLINE float operator()(float shift, int slot, int column) const {
    return kByDistance ? __builtin_fmaf(static_cast<float>(-column), factor_, shift) + added_[slot] : shift;
  }

 private:
  float factor_ = 0, added_[2] = {};
};

// A warpgroup of the queries' launch: 64 queries.
template <class P, class Shared = GradientShared<P>>
class QueryGradient : GradientGroup<P, Shared> {
  using Base = GradientGroup<P, Shared>;
  using Base::b_, Base::first_line_, Base::group_, Base::head_, Base::kBeside, Base::kLines, Base::kMasked,
      Base::kUnmasked, Base::kOthers, Base::note_, Base::p, Base::ring_, Base::shared_;
  using typename Base::T;

 public:
  CAUSEWAY_INLINE QueryGradient(const P& problem, Shared& shared, int group) : Base(problem, shared, group) {}

  CAUSEWAY_INLINE void run() {
#pragma clang loop unroll(disable)
    while (this->template begin_task<true>()) {
      sum_up(shared_.own[this->own_.stage]);
      this->end_task();
    }
  }

 private:
  CAUSEWAY_INLINE void sum_up(OperandPair<P, kLines>& own) {
    float sums[P::kHeadDim / 2], scores[kOthers / 2], dweights[kOthers / 2], shift[2], delta[2];
    uint32_t gradients[kOthers / 16][4];
#pragma clang loop unroll(full)
    for (int i = 0; i < P::kHeadDim / 2; ++i) sums[i] = 0.0f;
#pragma clang loop unroll(full)
    for (int slot = 0; slot < 2; ++slot) {
      const int64_t t = first_line_ + warpgroup_row(2 * slot);
      shift[slot] = t < p.query_length ? attention_tile::weight_shift(p.load_lse(b_, head_, t)) : -kInfinity;
      delta[slot] = t < p.query_length ? p.load_delta(b_, head_, t) : 0.0f;
    }
#pragma clang loop unroll(disable)
    while (this->next_tile()) {
      T* keys = shared_.keys_of(ring_.stage);
      warpgroup_fence();
      multiply_lines<P::kHeadDim, kLines, kOthers>(scores, own.first, 64 * group_, keys);
      warpgroup_commit();
      this->wait_for_values();
      warpgroup_fence();
      multiply_lines<P::kValueDim, kLines, kOthers>(dweights, own.second, 64 * group_, shared_.values_of(ring_.stage));
      warpgroup_commit();
      // The sums of the tile before run until now.
      this->template leave_before<2>();
      const int32_t key = note_.tile.first;
      // Lines past the end are not stored, and their weights are 0.
      const bool keys_inside = key + kOthers <= p.key_length, queries_inside = first_line_ + 64 <= p.query_length;
      const bool masked = this->masked();
      if constexpr (!kBeside) {
        warpgroup_wait<0>();
        this->leave_values();
        if (!keys_inside || ((P::kHasScore || masked) && !queries_inside)) {
          differentiate<Modified::kByAll>(scores, dweights, shift, delta, key, masked);
        } else if (masked) {
          differentiate<kMasked>(scores, dweights, shift, delta, key, true);
        } else {
          differentiate<kUnmasked>(scores, dweights, shift, delta, key, false);
        }
      } else {
        warpgroup_wait<1>();
        if (!keys_inside || ((masked || ScoreWork<P>::kReadsPositions) && !queries_inside)) {
          weigh<Modified::kByAll>(scores, shift, key, masked);
        } else if (masked) {
          weigh<kMasked>(scores, shift, key, true);
        } else {
          weigh<kUnmasked>(scores, shift, key, false);
        }
        warpgroup_wait<0>();
        this->leave_values();
#pragma clang loop unroll(full)
        for (int i = 0; i < kOthers / 2; ++i)
          scores[i] = attention_tile::qk_gradient(scores[i], dweights[i], delta[(i & 2) / 2]);
      }
      pack<T, kOthers>(scores, gradients);
      warpgroup_fence();
      multiply_weights<P::kHeadDim, kOthers>(sums, gradients, keys);
      warpgroup_commit();
      this->before_ = ring_.stage;
      ring_.advance();
    }
    this->template leave_before<0>();
    // Results take the place of this warpgroup's queries, which its last MMAs have read.
    named_barrier(1 + group_, 128);
    const float factors[2] = {p.scale, p.scale};
    store_lines<P::kHeadDim, kLines>(sums, factors, own.first, group_, [&](int line, int d, const float (&values)[8]) {
      if (first_line_ + line >= p.query_length) return;
#pragma clang loop unroll(full)
      for (int e = 0; e < 8; ++e) p.store_dq(b_, head_, first_line_ + line, d + e, values[e]);
    });
  }

  // Scores to weights, where the gradients of scores do not depend on these: beside the MMAs that give the
  // gradients of weights.
  template <Modified kModified>
  CAUSEWAY_INLINE void weigh(float (&scores)[kOthers / 2], const float (&shift)[2], int32_t key, bool masked) const {
    const int32_t line = first_line_ + warpgroup_row(0);
    int32_t other = key + warpgroup_column(0);
    const KeyShift<ScoreWork<P>::shifts(kModified)> shift_of(p, shift, static_cast<float>(other - line), b_, head_);
#pragma clang loop unroll(full)
    for (int i = 0; i < kOthers / 2; ++i) {
      const int slot = (i & 2) / 2, column = i / 4 * 8 + (i & 1);
      scores[i] = attention_tile::pair_weight<kModified>(p, scores[i], shift_of(slot, column), b_, head_,
                                                         line + 8 * slot, other + column, masked);
      // What masks load must not be loaded for all columns at first: registers would not suffice.
      if (kModified != Modified::kNot && i % 4 == 3) other = known_after(other, scores[i]);
    }
#pragma clang loop unroll(full)
    for (int i = 0; i < kOthers / 2; ++i) scores[i] = computed_here(scores[i]);
  }
  // Scores to the gradients of dot products.
  template <Modified kModified>
  CAUSEWAY_INLINE void differentiate(float (&scores)[kOthers / 2], const float (&dweights)[kOthers / 2],
                                     const float (&shift)[2], const float (&delta)[2], int32_t key, bool masked) const {
    const int32_t line = first_line_ + warpgroup_row(0);
    int32_t other = key + warpgroup_column(0);
    const KeyShift<ScoreWork<P>::shifts(kModified)> shift_of(p, shift, static_cast<float>(other - line), b_, head_);
#pragma clang loop unroll(full)
    for (int i = 0; i < kOthers / 2; ++i) {
      const int slot = (i & 2) / 2, column = i / 4 * 8 + (i & 1);
      scores[i] =
          attention_tile::pair_gradient<kModified>(p, scores[i], dweights[i], shift_of(slot, column), delta[slot], b_,
                                                   head_, line + 8 * slot, other + column, masked)
              .dqk;
      // What masks and scores load must not be loaded for all columns at first: registers would not suffice.
      if (kModified != Modified::kNot && i % 4 == 3) other = known_after(other, scores[i]);
    }
  }
};

// A number for each query of a tile, of those in this thread's columns. Where it is asked for before a wait for
// MMAs it is there when they are: shared memory answers late while operands are read from it.
template <int kOthers>
CAUSEWAY_INLINE void load_columns(const float (&numbers)[kOthers], float (&own)[kOthers / 4]) {
#pragma clang loop unroll(full)
  for (int i = 0; i < kOthers / 4; i += 2) {
    const float* from = numbers + warpgroup_column(0) + i / 2 * 8;
    __builtin_memcpy(own + i, __builtin_assume_aligned(from, 8), 8);
  }
}

// Those of element i of this thread's accumulators, from its columns that begin at `column`: loaded before, or, where
// registers do not hold them beside what else a tile takes, where they are.
template <int kOwn>
struct LoadedColumns {
  const float (&numbers)[kOwn];
  CAUSEWAY_INLINE float operator()(int32_t, int i) const { return numbers[i / 4 * 2 + i % 2]; }
};
template <int kOthers>
struct ColumnsInPlace {
  const float (&numbers)[kOthers];
  CAUSEWAY_INLINE float operator()(int32_t column, int i) const { return numbers[column + i / 4 * 8 + i % 2]; }
};

// Scores of 64 keys and a tile of queries to weights, where the gradients of scores do not depend on these: beside the
// MMAs that give the gradients of weights. `shift`: of the thread's columns; `line`: its first key; `query`: the
// tile's first.
template <Modified kModified, class P, int kScores, class Columns>
CAUSEWAY_INLINE void weigh_keys(const P& p, float (&scores)[kScores], const Columns& shift, int32_t b, int32_t head,
                                int32_t query, int32_t line, bool masked) {
  int32_t column = warpgroup_column(0);
  const QueryShift<ScoreWork<P>::shifts(kModified)> shift_of(p, static_cast<float>(line - query - column), b, head);
#pragma clang loop unroll(full)
  for (int i = 0; i < kScores; ++i) {
    const int further = i / 4 * 8 + (i & 1), other = column + further, slot = (i & 2) / 2;
    scores[i] = attention_tile::pair_weight<kModified>(p, scores[i], shift_of(shift(column, i), slot, further), b, head,
                                                       query + other, line + 8 * slot, masked);
    // What masks load must not be loaded for all columns at first: registers would not suffice.
    if (kModified != Modified::kNot && i % 4 == 3) column = known_after(column, scores[i]);
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < kScores; ++i) scores[i] = computed_here(scores[i]);
}
// Scores to weights, gradients of weights to those of MMAs.
template <Modified kModified, class P, int kOthers>
CAUSEWAY_INLINE void differentiate_keys(const P& p, float (&scores)[kOthers / 2], float (&dweights)[kOthers / 2],
                                        const float (&statistics)[2][kOthers], int32_t b, int32_t head, int32_t query,
                                        int32_t line, bool masked) {
  // Queries past the end have weights of 0. The branch also keeps ptxas from beginning with later ones early: registers
  // would not suffice, least of all those of four warpgroups.
  constexpr int kStep = P::kTile.groups == 3 ? 4 : 8;
  int32_t column = warpgroup_column(0);
  const QueryShift<ScoreWork<P>::shifts(kModified)> shift_of(p, static_cast<float>(line - query - column), b, head);
#pragma clang loop unroll(full)
  for (int first = 0; first < kOthers / 2; first += kStep) {
    if (kModified == Modified::kByAll && query + 2 * first >= p.query_length) {
#pragma clang loop unroll(full)
      for (int i = first; i < first + kStep; ++i) scores[i] = dweights[i] = 0.0f;
      continue;
    }
#pragma clang loop unroll(full)
    for (int i = first; i < first + kStep; ++i) {
      const int further = i / 4 * 8 + (i & 1), other = column + further, slot = (i & 2) / 2;
      const attention_tile::PairGradient pair = attention_tile::pair_gradient<kModified>(
          p, scores[i], dweights[i], shift_of(statistics[0][other], slot, further), statistics[1][other], b, head,
          query + other, line + 8 * slot, masked);
      scores[i] = pair.weight;
      dweights[i] = pair.dqk;
      // What masks and scores load must not be loaded for all columns at first: registers would not suffice.
      if (kModified != Modified::kNot && i % 4 == 3) column = known_after(column, scores[i]);
    }
  }
}

// The same by what the tile asks for. `shift`: of the thread's columns, those of `shifts`; `inside`: no line is past an
// end; `masked`: some pairs are not seen. Weights of keys past the end are finite where kAllFinite; where each key is a
// line of its own it does not matter, and queries past the end have weights of 0 by themselves.
template <bool kAllFinite, class P, int kOthers, class Columns>
CAUSEWAY_INLINE void weigh_key_tile(const P& p, float (&scores)[kOthers / 2], const float (&shifts)[kOthers],
                                    const Columns& shift, int32_t b, int32_t head, int32_t query, int32_t line,
                                    bool inside, bool masked) {
  if ((kAllFinite || masked || ScoreWork<P>::kReadsPositions) && !inside) {
    // Loaded again, so that what all of this takes has their registers.
    weigh_keys<Modified::kByAll>(p, scores, ColumnsInPlace<kOthers>{shifts}, b, head, query, line, masked);
  } else if (masked) {
    weigh_keys<ScoreWork<P>::kMasked>(p, scores, shift, b, head, query, line, true);
  } else {
    weigh_keys<ScoreWork<P>::kUnmasked>(p, scores, shift, b, head, query, line, false);
  }
}
template <bool kAllFinite, class P, int kOthers>
CAUSEWAY_INLINE void differentiate_key_tile(const P& p, float (&scores)[kOthers / 2], float (&dweights)[kOthers / 2],
                                            const float (&statistics)[2][kOthers], int32_t b, int32_t head,
                                            int32_t query, int32_t line, bool inside, bool masked) {
  if ((kAllFinite || masked || P::kHasScore) && !inside) {
    differentiate_keys<Modified::kByAll>(p, scores, dweights, statistics, b, head, query, line, masked);
  } else if (masked) {
    differentiate_keys<ScoreWork<P>::kMasked>(p, scores, dweights, statistics, b, head, query, line, true);
  } else {
    differentiate_keys<ScoreWork<P>::kUnmasked>(p, scores, dweights, statistics, b, head, query, line, false);
  }
}

// A warpgroup of the keys' launch: 64 keys.
template <class P, bool kForKeys, bool kForValues>
class KeyGradient : GradientGroup<P> {
  using Base = GradientGroup<P>;
  using Base::b_, Base::first_line_, Base::group_, Base::kBeside, Base::kLines, Base::kOthers, Base::note_, Base::p,
      Base::ring_, Base::shared_;
  using typename Base::T;

 public:
  CAUSEWAY_INLINE KeyGradient(const P& problem, GradientShared<P>& shared, int group) : Base(problem, shared, group) {}

  CAUSEWAY_INLINE void run() {
#pragma clang loop unroll(disable)
    while (this->template begin_task<false>()) {
      sum_up(shared_.own[this->own_.stage]);
      this->end_task();
    }
  }

 private:
  CAUSEWAY_INLINE void sum_up(OperandPair<P, kLines>& own) {
    float dk[P::kHeadDim / 2], dv[P::kValueDim / 2], scores[kOthers / 2], dweights[kOthers / 2];
    uint32_t packed[kOthers / 16][4], gradients[kOthers / 16][4];
#pragma clang loop unroll(full)
    for (int i = 0; i < kWidest<P> / 2; ++i) {
      if (i < P::kHeadDim / 2) dk[i] = 0.0f;
      if (i < P::kValueDim / 2) dv[i] = 0.0f;
    }
#pragma clang loop unroll(disable)
    while (this->next_tile()) {
      T* queries = shared_.others[ring_.stage].first;
      T* out_gradients = shared_.others[ring_.stage].second;
      warpgroup_fence();
      multiply_lines<P::kHeadDim, kLines, kOthers>(scores, own.first, 64 * group_, queries);
      warpgroup_commit();
      multiply_lines<P::kValueDim, kLines, kOthers>(dweights, own.second, 64 * group_, out_gradients);
      warpgroup_commit();
      const int32_t query = note_.tile.first, line = first_line_ + warpgroup_row(0);
      // Queries past the end have weights of 0, and keys past the end are not stored.
      const bool inside = query + kOthers <= p.query_length && first_line_ + 64 <= p.key_length;
      const bool masked = this->masked();
      const float (&statistics)[2][kOthers] = shared_.statistics[ring_.stage];
      if constexpr (!kBeside) {
        warpgroup_wait<0>();
        differentiate_key_tile<false>(p, scores, dweights, statistics, b_, note_.head, query, line, inside, masked);
      } else {
        float shift[kOthers / 4];
        load_columns(statistics[0], shift);
        warpgroup_wait<1>();
        weigh_key_tile<false>(p, scores, statistics[0], LoadedColumns<kOthers / 4>{shift}, b_, note_.head, query, line,
                              inside, masked);
        warpgroup_wait<0>();
        if constexpr (kForKeys) {
#pragma clang loop unroll(full)
          for (int i = 0; i < kOthers / 2; ++i)
            dweights[i] = attention_tile::qk_gradient(scores[i], dweights[i],
                                                      statistics[1][warpgroup_column(0) + i / 4 * 8 + (i & 1)]);
        }
      }
      if constexpr (kForValues) pack<T, kOthers>(scores, packed);
      if constexpr (kForKeys) pack<T, kOthers>(dweights, gradients);
      warpgroup_fence();
      if constexpr (kForValues) multiply_weights<P::kValueDim, kOthers>(dv, packed, out_gradients);
      if constexpr (kForKeys) multiply_weights<P::kHeadDim, kOthers>(dk, gradients, queries);
      warpgroup_commit();
      warpgroup_wait<0>();
      release(&shared_.empty[ring_.stage]);
      ring_.advance();
    }
    // Results take the place of this warpgroup's keys and values, which its last MMAs have read.
    named_barrier(1 + group_, 128);
    const int32_t head = shared_.tasks[this->own_.stage].head;
    if constexpr (kForKeys) {
      const float factors[2] = {p.scale, p.scale};
      store_lines<P::kHeadDim, kLines>(dk, factors, own.first, group_, [&](int line, int d, const float (&values)[8]) {
        if (first_line_ + line >= p.key_length) return;
#pragma clang loop unroll(full)
        for (int e = 0; e < 8; ++e) p.store_dk(b_, head, first_line_ + line, d + e, values[e]);
      });
    }
    if constexpr (kForValues) {
      const float factors[2] = {1.0f, 1.0f};
      store_lines<P::kValueDim, kLines>(dv, factors, own.second, group_,
                                        [&](int line, int d, const float (&values)[8]) {
                                          if (first_line_ + line >= p.key_length) return;
#pragma clang loop unroll(full)
                                          for (int e = 0; e < 8; ++e)
                                            p.store_dv(b_, head, first_line_ + line, d + e, values[e]);
                                        });
    }
  }
};

// Rings and registers, then the copying warpgroup's work or that of one that multiplies. Shared::kPassesOn: one of
// those passes slopes on to the other one.
template <bool kOwnAreQueries, RegisterSplit kSplit, class Group, class Shared, class P>
CAUSEWAY_INLINE void run_gradient(const P& p, const TensorMapBytes* maps, uint32_t* counter) {
  using GroupCopier = GradientCopier<P, kOwnAreQueries, Shared, kSplit>;
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
    if constexpr (Shared::kApart) {
      barrier_init(&shared.values_full, 1);
      barrier_init(&shared.values_empty, 4 * P::kTile.groups);
    }
    if constexpr (Shared::kPassesOn) {
      for (int stage = 0; stage < 2; ++stage) {
        barrier_init(&shared.slopes_full[stage], 4);
        barrier_init(&shared.slopes_empty[stage], 4);
      }
    }
    barrier_init_fence();
  }
  block_barrier();
  if (thread_index() < 128) {
    registers_decrease<kSplit.copying>();
    if (thread_index() < GroupCopier::kThreads) GroupCopier(p, maps, shared).run(counter);
  } else {
    registers_increase<kSplit.multiplying>();
    Group(p, shared, warpgroup_index() - 1).run();
  }
}

}  // namespace attention_hopper

// One block of a launch of any number, of 128 (kTile.groups + 1) threads each. `counter` is what they take tasks from
// (take_task), their own alone while they run.
template <HopperAttentionGradientProblem P>
CAUSEWAY_INLINE void hopper_attention_query_gradient(const P& p, const TensorMapBytes* maps, uint32_t* counter) {
  using namespace attention_hopper;
  // Gradients of queries alone take fewer registers than those of keys and values.
  constexpr RegisterSplit kSplit = P::kTile.groups == 2 ? kEvenSplit : kEvenSplitOfFour;
  run_gradient<true, kSplit, QueryGradient<P>, GradientShared<P>>(p, maps, counter);
}

template <bool kForKeys, bool kForValues, HopperAttentionGradientProblem P>
CAUSEWAY_INLINE void hopper_attention_key_gradient(const P& p, const TensorMapBytes* maps, uint32_t* counter) {
  using namespace attention_hopper;
  constexpr RegisterSplit kSplit = P::kTile.groups == 2 ? kEvenSplit : kUnevenSplitOfFour;
  run_gradient<false, kSplit, KeyGradient<P, kForKeys, kForValues>, GradientShared<P>>(p, maps, counter);
}
