// Attention on Hopper (sm_90a), forward, for the HopperAttentionProblem of attention_problem.h, with operands of 16
// bits and heads that hopper_attention_serves(): one warpgroup has TMA bring tiles of queries, keys and values into
// rings in shared memory, the others have 64 queries each and multiply by wgmma. The MMAs of scores of the next tile
// are asked for before those of this one's weights and values (FlashAttention-3, Shah et al., arXiv 2407.08608), beside
// which it is found out what makes weights of the scores; exponentials run beside the other warpgroups' MMAs. Blocks
// are persistent: the tiles of a block's next task are on their way while those of the one before are worked on.
#pragma once

#include "causeway/kernels/gpu/attention_hopper_tile.h"
#include "causeway/kernels/gpu/attention_problem.h"

namespace attention_hopper {

// What a block shares. hopper_attention_shared_bytes() counts its bytes.
template <class P>
struct ForwardShared {
  using T = typename P::Operand;
  T queries[P::kTile.query_stages][kLinesOfBlock<P> * kColumns<P>];
  T keys[P::kTile.stages][P::kTile.keys * kColumns<P>];
  T values[P::kTile.stages][P::kTile.keys * kValueColumns<P>];
  Mbarrier queries_full[P::kTile.query_stages], queries_empty[P::kTile.query_stages];
  Mbarrier keys_full[P::kTile.stages], keys_empty[P::kTile.stages];
  Mbarrier values_full[P::kTile.stages], values_empty[P::kTile.stages];
  TaskNote tasks[2];  // of the task at hand and the next one
  TileNote notes[P::kTile.stages];
};

// Of three warpgroups that multiply, tiles of 64 keys take fewer registers than those of 128 that heads of 64 have. Of
// two, heads above 192 take all that those that copy can do without, which those that compute operands cannot.
template <class P>
constexpr RegisterSplit forward_split() {
  if (P::kTile.groups == 2) return kWidest<P> > 192 && !P::kComputesOperands ? kUnevenSplit : kEvenSplit;
  return P::kTile.keys == 64 && P::kValueDim <= 128 ? kEvenSplitOfFour : kUnevenSplitOfFour;
}

template <class P>
class ForwardCopier : Copier<P> {
  using Base = Copier<P>;
  using typename Base::T;

 public:
  using Base::kArrivals;
  using Base::kThreads;

  CAUSEWAY_INLINE ForwardCopier(const P& problem, const TensorMapBytes* maps, ForwardShared<P>& shared)
      : Base(maps), p(problem), shared_(shared) {}

  CAUSEWAY_INLINE void run(uint32_t* counter) {
    const auto heads = static_cast<int32_t>(p.query_heads);
    const int32_t group = heads / static_cast<int32_t>(p.kv_heads);
    StageRing<P::kTile.stages> ring;
    const auto order = [&] {
      return TaskOrder<P>(block_count(), p.batch * p.query_heads, group, p.query_length, kLinesOfBlock<P>,
                          p.key_length * (2 * (P::kHeadDim + P::kValueDim)));
    };
    int32_t task = this->leads() ? take_task(counter, order().count(), 1) : 0;
#pragma clang loop unroll(disable)
    for (int32_t number = 0;; ++number) {
      const int stage = number % P::kTile.query_stages;
      Mbarrier* full = &shared_.queries_full[stage];
      TaskNote& note = shared_.tasks[number % 2];
      barrier_wait(&shared_.queries_empty[stage], number / P::kTile.query_stages % 2 ^ 1);
      if (this->leads()) {
        const TaskOrder<P> tasks = order();
        int32_t head, tile;
        if (tasks.locate(task, head, tile)) {
          const int32_t h = head % heads;
          note = {QueryTiles(p.query_length, P::kTile.groups).first_of(tasks.tiles - 1 - tile), head / heads, h,
                  h / group};
          this->template expect<Base::template kLoadedBytes<kLinesOfBlock<P>, P::kHeadDim, P::kMapQ>>(full);
          this->template load<kLinesOfBlock<P>, P::kHeadDim, P::kMapQ>(shared_.queries[stage], full, note.b, note.head,
                                                                       note.first);
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
      this->template compute<kLinesOfBlock<P>, P::kHeadDim, P::kMapQ>(
          shared_.queries[stage], note.first, p.query_length,
          [&](int64_t t, int d) { return p.load_q(note.b, note.head, t, d); });
      if constexpr (P::kComputesOperands) this->announce(full);
      // The next task is asked for before the last tile, which waits for room longer than the answer takes.
      copy_tiles(ring, note, [&] {
        if (this->leads()) task = take_task(counter, order().count(), 1);
      });
    }
  }

 private:
  template <class BeforeLast>
  CAUSEWAY_INLINE void copy_tiles(StageRing<P::kTile.stages>& ring, const TaskNote& task, BeforeLast&& before_last) {
    TilePlan<P, true, P::kTile.keys, forward_split<P>()> plan(p, task, 1);
    TileNote note;
#pragma clang loop unroll(disable)
    do {
      note = plan.take();
      if ((note.kinds & kLastTile) != 0) before_last();
      Mbarrier* full = &shared_.keys_full[ring.stage];
      barrier_wait(&shared_.keys_empty[ring.stage], ring.parity ^ 1);
      if (this->leads()) {
        shared_.notes[ring.stage] = note;
        this->template expect<Base::template kLoadedBytes<P::kTile.keys, P::kHeadDim, P::kMapK>>(full);
        this->template load<P::kTile.keys, P::kHeadDim, P::kMapK>(shared_.keys[ring.stage], full, task.b, task.kv_head,
                                                                  note.first);
      }
      this->template compute<P::kTile.keys, P::kHeadDim, P::kMapK>(
          shared_.keys[ring.stage], note.first, p.key_length,
          [&](int64_t s, int d) { return p.load_k(task.b, task.kv_head, s, d); });
      if constexpr (P::kComputesOperands) this->announce(full);
      full = &shared_.values_full[ring.stage];
      barrier_wait(&shared_.values_empty[ring.stage], ring.parity ^ 1);
      if (this->leads()) {
        this->template expect<Base::template kLoadedBytes<P::kTile.keys, P::kValueDim, P::kMapV>>(full);
        this->template load<P::kTile.keys, P::kValueDim, P::kMapV>(shared_.values[ring.stage], full, task.b,
                                                                   task.kv_head, note.first);
      }
      this->template compute<P::kTile.keys, P::kValueDim, P::kMapV>(
          shared_.values[ring.stage], note.first, p.key_length,
          [&](int64_t s, int d) { return p.load_v(task.b, task.kv_head, s, d); });
      if constexpr (P::kComputesOperands) this->announce(full);
      ring.advance();
    } while ((note.kinds & kLastTile) == 0);
  }

  const P& p;
  ForwardShared<P>& shared_;
};

// A warpgroup that multiplies: 64 queries.
template <class P>
class Forward {
  using T = typename P::Operand;
  static constexpr int kScores = P::kTile.keys / 2, kOutput = P::kValueDim / 2;  // of this thread
  static constexpr int kFirstTurn = 2 + P::kTile.groups;                         // a named barrier for each warpgroup
  // Where there is room for one task's queries alone the next one's take their place beside the last softmax and the
  // stores, which then do not go through that place.
  static constexpr bool kQueriesLeaveEarly = P::kTile.query_stages == 1;
  // Nor do they where there are more columns of results than of queries.
  static constexpr bool kStoresByLanes = kQueriesLeaveEarly || kValueColumns<P> > kColumns<P>;
  // Weights are relative to the greatest one of a row's first tile until they may exceed 2^kGrowth, which is seldom:
  // then to the greatest so far, and what was summed up before is multiplied. f16 ends at 2^16.
  static constexpr float kGrowth = __is_same(T, f16) ? 15 : 32;

 public:
  CAUSEWAY_INLINE Forward(const P& problem, ForwardShared<P>& shared, int group)
      : p(problem), shared_(shared), group_(group) {}

  CAUSEWAY_INLINE void run() {
    if (group_ == P::kTile.groups - 1) pass_turn();
#pragma clang loop unroll(disable)
    for (int32_t number = 0;; ++number) {
      const int stage = number % P::kTile.query_stages;
      barrier_wait(&shared_.queries_full[stage], number / P::kTile.query_stages % 2);
      const TaskNote task = shared_.tasks[number % 2];
      const int32_t first = uniform(task.first);
      if (first < 0) break;
      b_ = task.b, h_ = task.head, first_line_ = first_query<P>(p, first, group_);
      attend(shared_.queries[stage], shared_.tasks[number % 2]);
      if constexpr (!kQueriesLeaveEarly) release(&shared_.queries_empty[stage]);
    }
    if (group_ == 0) await_turn();
  }

 private:
  // What makes weights of a tile's scores: they are exp2(score * factor + added(maximum, slot)).
  struct Exponents {
    float factor;
    float second;  // with distances, for the second row of each thread
    bool exceed;   // 2^kGrowth, maybe, in any row of the warp

    // Scores with distances are relative to the maximum.
    CAUSEWAY_INLINE float added(const float (&maximum)[2], int slot) const {
      if constexpr (P::kScoreAddsDistance) return slot == 1 ? second : 0.0f;
      return -reference(maximum[slot]);
    }
  };
  // Of a row that has seen nothing, weights are relative to 0.
  CAUSEWAY_INLINE static float reference(float maximum) { return maximum == -kInfinity ? 0.0f : maximum; }

  CAUSEWAY_INLINE void attend(T* queries, const TaskNote& task) {
    float scores[kScores], output[kOutput], maximum[2], sum[2];
    uint32_t weights[P::kTile.keys / 16][4];
#pragma clang loop unroll(full)
    for (int i = 0; i < kOutput; ++i) output[i] = 0.0f;
#pragma clang loop unroll(full)
    for (int slot = 0; slot < 2; ++slot) {
      maximum[slot] = -kInfinity;
      sum[slot] = 0.0f;
    }
    left_ = 0;
#pragma clang loop unroll(disable)
    while (find_tile()) {
      await_turn();
      warpgroup_fence();
      multiply_queries(scores, queries);
      warpgroup_commit();
      pass_turn();
      warpgroup_wait<0>();
      leave_keys();
      Exponents exponents = find_exponents(scores, maximum);
      if (exponents.exceed) rebase(exponents, scores, maximum, sum, output);
      weigh(exponents, scores, maximum, sum);
      pack<T, P::kTile.keys>(scores, weights);
      int follows = tile_follows(false);
#pragma clang loop unroll(disable)
      for (;;) {
        barrier_wait(&shared_.values_full[values_.stage], values_.parity);
        if (follows == 0) break;
        await_turn();
        warpgroup_fence();
        multiply_queries(scores, queries);
        warpgroup_commit();
        multiply_weights<P::kValueDim, P::kTile.keys>(output, weights, shared_.values[values_.stage]);
        warpgroup_commit();
        pass_turn();
        warpgroup_wait<1>();
        leave_keys();
        const bool arrived = test_tile();
        exponents = find_exponents(scores, maximum);
        // Before the wait for the MMAs of weights, which are done by then: the assembler moves waits up to the
        // beginning of their piece of code without branches.
        follows = tile_follows(arrived);
        warpgroup_wait<0>();
        release(&shared_.values_empty[values_.stage]);
        values_.advance();
        if (exponents.exceed) rebase(exponents, scores, maximum, sum, output);
        weigh(exponents, scores, maximum, sum);
        pack<T, P::kTile.keys>(scores, weights);
      }
      warpgroup_fence();
      multiply_weights<P::kValueDim, P::kTile.keys>(output, weights, shared_.values[values_.stage]);
      warpgroup_commit();
      warpgroup_wait<0>();
      release(&shared_.values_empty[values_.stage]);
      values_.advance();
    }
    finish(output, maximum, sum, queries, task);
  }

  CAUSEWAY_INLINE void multiply_queries(float (&scores)[kScores], T* queries) const {
    multiply_lines<P::kHeadDim, kLinesOfBlock<P>, P::kTile.keys>(scores, queries, 64 * group_,
                                                                 shared_.keys[keys_.stage]);
  }

  // Warpgroups begin their MMAs of a tile one after the other, so that one's softmax runs beside another's MMAs
  // (the ping-pong of FlashAttention-3). Each takes a turn at every tile.
  CAUSEWAY_INLINE void await_turn() { named_barrier(kFirstTurn + group_, 256); }
  CAUSEWAY_INLINE void pass_turn() {
    named_barrier_arrive(kFirstTurn + (group_ + 1 == P::kTile.groups ? 0 : group_ + 1), 256);
  }

  // Waits for the keys of the next tile that these queries attend to, and hands back what others leave; false when
  // there are no more. Nothing of the tiles before may be in use: there may be no room for the tiles waited for.
  CAUSEWAY_INLINE bool find_tile() {
#pragma clang loop unroll(disable)
    while ((left_ & kLastTile) == 0) {
      barrier_wait(&shared_.keys_full[keys_.stage], keys_.parity);
      note_ = uniform(shared_.notes[keys_.stage]);
      if (kind_of(note_.kinds, group_) != 0) return true;
      barrier_wait(&shared_.values_full[values_.stage], values_.parity);
      release(&shared_.values_empty[values_.stage]);
      values_.advance();
      leave_keys();
      await_turn();
      pass_turn();
    }
    return false;
  }
  // Whether there is a next tile whose keys are there. Asked for early, the answer is not waited for.
  CAUSEWAY_INLINE bool test_tile() const { return barrier_test(&shared_.keys_full[keys_.stage], keys_.parity); }
  // Not 0 if these queries attend to the very next tile, whose keys are waited for unless they have `arrived`.
  CAUSEWAY_INLINE int tile_follows(bool arrived) {
    if ((left_ & kLastTile) != 0) return 0;
    if (!arrived) barrier_wait(&shared_.keys_full[keys_.stage], keys_.parity);
    note_ = uniform(shared_.notes[keys_.stage]);
    return kind_of(note_.kinds, group_);
  }
  CAUSEWAY_INLINE void leave_keys() {
    release(&shared_.keys_empty[keys_.stage]);
    left_ = note_.kinds;
    keys_.advance();
    if constexpr (kQueriesLeaveEarly) {
      if ((left_ & kLastTile) != 0) release(&shared_.queries_empty[0]);
    }
  }

  // Applies mask and score function, and finds what makes weights of the scores.
  CAUSEWAY_INLINE Exponents find_exponents(float (&scores)[kScores], const float (&maximum)[2]) {
    const TileNote note = note_;
    // What is multiplied by the distance lies at an address that registers need not keep from tile to tile.
    if constexpr (P::kScoreAddsDistance) h_ = computed_here(h_);
    const bool masked = P::kHasMask && kind_of(note.kinds, group_) != 2;
    const bool keys_inside = note.first + P::kTile.keys <= p.key_length;
    const bool queries_inside = first_line_ + 64 <= p.query_length;
    // Where a mask is all there is, or all beside a multiple of the distance, it is all that is applied; a factor below
    // 0 would make the least score the greatest.
    constexpr bool kMaskAlone = P::kHasMask && (P::kHasScore ? P::kScoreAddsDistance : P::scale > 0.0f);
    Exponents result = {p.scale * kLog2E, 0.0f, false};
    // Inside and unmasked, which most tiles are, positions matter to the score alone.
    if (!keys_inside || (masked && !(kMaskAlone && queries_inside)) || (P::kHasScore && !queries_inside)) {
      modify(scores, note.first, [&](float qk, int32_t t, int32_t s) {
        return attention_tile::modified_score(p, qk, b_, h_, t, s, masked);
      });
      result.factor = 1.0f;
      if constexpr (P::kScoreAddsDistance) add_to_rows(scores, -reference(maximum[0]), -reference(maximum[1]));
    } else {
      if constexpr (P::kScoreAddsDistance) {
        result.second = add_distance(scores, note.first, maximum);
        result.factor = 1.0f;
      } else if constexpr (P::kHasScore) {
        modify(scores, note.first, [&](float qk, int32_t t, int32_t s) { return p.score(b_, h_, t, s, qk * p.scale); });
        result.factor = kLog2E;
      }
      if constexpr (kMaskAlone) {
        if (masked)
          modify(scores, note.first,
                 [&](float score, int32_t t, int32_t s) { return p.mask(b_, h_, t, s) ? score : -kInfinity; });
      }
    }
    // Without branches between the two rows, so that their instructions take turns.
    const float bounds[2] = {bound(scores, 0, result, maximum), bound(scores, 1, result, maximum)};
    bool exceed = false;
#pragma clang loop unroll(full)
    for (int slot = 0; slot < 2; ++slot) {
      exceed |= maximum[slot] == -kInfinity;
      exceed |= bounds[slot] > kGrowth;
    }
    result.exceed = wave_any(exceed);
    return result;
  }

  // What no exponent of this thread's part of a row exceeds. Floats of which one is positive compare as integers, which
  // there is an instruction for three of; of scores below 0 alone this takes 0.
  CAUSEWAY_INLINE static float bound(const float (&scores)[kScores], int slot, const Exponents& exponents,
                                     const float (&maximum)[2]) {
    if constexpr (P::scale < 0.0f) return greatest(scores, slot, exponents, maximum);
    int32_t chains[2] = {0, 0};
#pragma clang loop unroll(full)
    for (int i = 2 * slot; i < kScores; i += 4)
      for (int j = 0; j < 2; ++j) {
        int32_t& chain = chains[i / 4 % 2];  // two, so that none waits for the instruction before
        chain = __builtin_elementwise_max(chain, __builtin_bit_cast(int32_t, scores[i + j]));
      }
    return __builtin_bit_cast(float, __builtin_elementwise_max(chains[0], chains[1])) * exponents.factor +
           exponents.added(maximum, slot);
  }
  // The greatest exponent of this thread's part of a row.
  CAUSEWAY_INLINE static float greatest(const float (&scores)[kScores], int slot, const Exponents& exponents,
                                        const float (&maximum)[2]) {
    float result = -kInfinity;
#pragma clang loop unroll(full)
    for (int i = 2 * slot; i < kScores; i += 4)
      for (int j = 0; j < 2; ++j) result = __builtin_fmaxf(result, scores[i + j] * exponents.factor);
    return result + exponents.added(maximum, slot);
  }

  // Makes weights, and what was summed up before, relative to the greatest weight so far.
  CAUSEWAY_INLINE static void rebase(const Exponents& exponents, float (&scores)[kScores], float (&maximum)[2],
                                     float (&sum)[2], float (&output)[kOutput]) {
    float rescale[2], added[2];
#pragma clang loop unroll(full)
    for (int slot = 0; slot < 2; ++slot) {
      const float largest = attention_tile::over_line(greatest(scores, slot, exponents, maximum),
                                                      [](float a, float b) { return __builtin_fmaxf(a, b); });
      const bool first = maximum[slot] == -kInfinity;
      const float by = first ? largest : __builtin_fmaxf(largest, 0.0f);
      maximum[slot] = first ? by : maximum[slot] + by;
      rescale[slot] = first ? 1.0f : fast_exp2(-by);
      sum[slot] *= rescale[slot];
      added[slot] = -reference(by);
    }
    if constexpr (P::kScoreAddsDistance) add_to_rows(scores, added[0], added[1]);
#pragma clang loop unroll(full)
    for (int i = 0; i < kOutput; ++i) output[i] *= rescale[(i & 2) / 2];
  }

  // Scores to weights.
  CAUSEWAY_INLINE static void weigh(const Exponents& exponents, float (&scores)[kScores], const float (&maximum)[2],
                                    float (&sum)[2]) {
    const float added[2] = {exponents.added(maximum, 0), exponents.added(maximum, 1)};
#pragma clang loop unroll(full)
    for (int i = 0; i < kScores; ++i) {
      scores[i] = fast_exp2(__builtin_fmaf(scores[i], exponents.factor, added[(i & 2) / 2]));
      sum[(i & 2) / 2] += scores[i];
    }
  }

  // Of dot products, where the score function adds a multiple of the distance alone: exponents but for what is
  // returned, which belongs to the second row of each thread.
  CAUSEWAY_INLINE float add_distance(float (&scores)[kScores], int32_t key, const float (&maximum)[2]) const {
    const float factor = p.distance_factor(b_, h_) * kLog2E;
    const auto distance = static_cast<float>(key + warpgroup_column(0) - first_line_ - warpgroup_row(0));
    const float first = distance * factor - reference(maximum[0]);
#pragma clang loop unroll(full)
    for (int i = 0; i < kScores; ++i)
      scores[i] = __builtin_fmaf(scores[i], p.scale * kLog2E,
                                 __builtin_fmaf(static_cast<float>(i / 4 * 8 + (i & 1)), factor, first));
    return -8.0f * factor + (reference(maximum[0]) - reference(maximum[1]));
  }
  CAUSEWAY_INLINE static void add_to_rows(float (&scores)[kScores], float first, float second) {
#pragma clang loop unroll(full)
    for (int i = 0; i < kScores; ++i) scores[i] += (i & 2) == 0 ? first : second;
  }
  // modified(qk, t, s).
  template <class F>
  CAUSEWAY_INLINE void modify(float (&scores)[kScores], int32_t key, F modified) const {
    const int32_t line = first_line_ + warpgroup_row(0), other = key + warpgroup_column(0);
#pragma clang loop unroll(full)
    for (int i = 0; i < kScores; ++i) {
      const int row = (i & 2) * 4, column = i / 4 * 8 + (i & 1);
      scores[i] = modified(scores[i], line + row, other + column);
      // What masks and scores load must not be loaded for all columns at first: registers would not suffice. With heads
      // of 64 this takes less time than known_after(), which gradients use.
      if (i % 4 == 3) asm volatile("" ::: "memory");
    }
  }

  // The task is read again, so that registers need not keep it.
  CAUSEWAY_INLINE void finish(const float (&output)[kOutput], const float (&maximum)[2], const float (&sum)[2],
                              T* queries, const TaskNote& task) {
    // Results take the place of this warpgroup's queries, which its last MMAs have read.
    if constexpr (!kStoresByLanes) named_barrier(1 + group_, 128);
    const int32_t b = task.b, h = task.head;
    float inverse[2];
#pragma clang loop unroll(full)
    for (int slot = 0; slot < 2; ++slot) {
      const float all = attention_tile::over_line(sum[slot], [](float x, float y) { return x + y; });
      inverse[slot] = all == 0.0f ? 0.0f : fast_reciprocal(all);
      const int64_t line = first_line_ + warpgroup_row(2 * slot);
      if (line < p.query_length && lane_index() % 4 == 0)
        p.store_lse(b, h, line, (maximum[slot] + fast_log2(all)) * kLn2);
    }
    const auto store = [&](int line, int d, const float (&values)[8]) {
      if (first_line_ + line >= p.query_length) return;
#pragma clang loop unroll(full)
      for (int e = 0; e < 8; ++e) p.store_out(b, h, first_line_ + line, d + e, values[e]);
    };
    if constexpr (kStoresByLanes) {
      store_lines_by_lanes<P::kValueDim, T>(output, inverse, store);
    } else {
      store_lines<P::kValueDim, kLinesOfBlock<P>>(output, inverse, queries, group_, store);
    }
  }

  const P& p;
  ForwardShared<P>& shared_;
  int32_t group_, b_ = 0, h_ = 0, first_line_ = 0;
  StageRing<P::kTile.stages> keys_, values_;
  TileNote note_ = {0, 0};  // of the tile at hand
  int left_ = 0;            // kinds of the tile whose keys were left last
};

}  // namespace attention_hopper

// One block of a launch of any number, of 128 (kTile.groups + 1) threads each. `counter` is what they take tasks from
// (take_task), their own alone while they run.
template <HopperAttentionProblem P>
CAUSEWAY_INLINE void hopper_attention_forward(const P& problem, const TensorMapBytes* maps, uint32_t* counter) {
  using namespace attention_hopper;
  auto& shared = *reinterpret_cast<ForwardShared<P>*>(shared_memory());
  constexpr int kArrivals = ForwardCopier<P>::kArrivals;
  if (thread_index() == 0) {
    for (int stage = 0; stage < P::kTile.query_stages; ++stage) {
      barrier_init(&shared.queries_full[stage], kArrivals);
      barrier_init(&shared.queries_empty[stage], 4 * P::kTile.groups);
    }
    for (int stage = 0; stage < P::kTile.stages; ++stage) {
      barrier_init(&shared.keys_full[stage], kArrivals);
      barrier_init(&shared.values_full[stage], kArrivals);
      barrier_init(&shared.keys_empty[stage], 4 * P::kTile.groups);
      barrier_init(&shared.values_empty[stage], 4 * P::kTile.groups);
    }
    barrier_init_fence();
  }
  block_barrier();
  if (thread_index() < 128) {
    registers_decrease<forward_split<P>().copying>();
    if (thread_index() < ForwardCopier<P>::kThreads) ForwardCopier<P>(problem, maps, shared).run(counter);
  } else {
    registers_increase<forward_split<P>().multiplying>();
    Forward<P>(problem, shared, warpgroup_index() - 1).run();
  }
}
