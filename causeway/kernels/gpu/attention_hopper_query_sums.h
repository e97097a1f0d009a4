// Attention on Hopper (sm_90a), backward, in one pass: gradients of queries, to which each block of keys adds. What a
// tile of keys adds to 64 queries goes through shared memory to sums in memory, by bulk copies
// (cp.reduce.async.bulk), in the order of the keys, which a number for each of these sums keeps: so results are the
// same in every run. A last launch scales the sums and stores them.
//
// Blocks take tasks in the order of their numbers, and a head's tiles of keys have growing ones: who waits for a turn
// waits for blocks that have begun, the first of which waits for nobody.
//
// The problem's workspace has sums, [B][H][tiles of 64 queries][query_sum_floats(D)], then the turns of each tile.
#pragma once

#include "causeway/kernels/gpu/attention_hopper_gradient.h"

namespace attention_hopper {

// Floats of a tile of 64 queries.
constexpr int query_sum_floats(int head_dim) { return 64 * head_dim; }

template <class P>
CAUSEWAY_INLINE int32_t query_tiles(const P& p) {
  return (static_cast<int32_t>(p.query_length) + P::kTile.others - 1) / P::kTile.others;
}
// A number for each tile of queries: 1 more than that of the tile of keys which has added last, at first 0.
template <class P>
CAUSEWAY_INLINE uint32_t* query_turns(const P& p) {
  return reinterpret_cast<uint32_t*>(p.workspace +
                                     p.batch * p.query_heads * query_tiles(p) * query_sum_floats(P::kHeadDim));
}

// What a warpgroup has added up of a tile of queries, for the warp that sends it.
struct SumNote {
  int32_t b, head, query, key;  // head: of queries; key: the first of the block's; -1: there are no more
};

// What warpgroups leave for those that send: parts of a tile's sums, each as 128 threads have it, floats of four. A
// kernel's Shared says how many parts a warpgroup has, sum_parts(group), and where in a tile they begin,
// first_sum(group).
template <class P, int kFloats, int kSumStages>
struct SharedSums {
  static constexpr int kStages = kSumStages, kPartFloats = kFloats;
  float parts[P::kTile.groups][kStages][kPartFloats];
};
template <class P, int kSumStages>
struct SumBarriers {
  Mbarrier full[P::kTile.groups][kSumStages], empty[P::kTile.groups][kSumStages];

  CAUSEWAY_INLINE void begin() {
    for (int group = 0; group < P::kTile.groups; ++group)
      for (int stage = 0; stage < kSumStages; ++stage) {
        barrier_init(&full[group][stage], 4);
        barrier_init(&empty[group][stage], 1);
      }
  }
};

// A tile of queries among all of them.
template <class P>
CAUSEWAY_INLINE int64_t query_tile_number(const P& p, int32_t b, int32_t head, int32_t query) {
  return (static_cast<int64_t>(b) * p.query_heads + head) * query_tiles(p) + query / P::kTile.others;
}

// A warp for each warpgroup: sends what that has added up, tile after tile.
template <class P, class Shared>
class SumSender {
 public:
  CAUSEWAY_INLINE SumSender(const P& problem, Shared& shared, int group) : p(problem), shared_(shared), group_(group) {}

  CAUSEWAY_INLINE void run() {
#pragma clang loop unroll(disable)
    for (;;) {
      barrier_wait(&shared_.sum_barriers.full[group_][ring_.stage], ring_.parity);
      const SumNote note = shared_.sum_notes[group_][ring_.stage];
      if (uniform(note.key) < 0) return;
      const int32_t before = key_tile_before(note);
      wave_barrier();  // all lanes have read the note, which may be written again when sums are handed back
      if (elects_lane()) send(note, before, ring_);
      ring_.skip(Shared::sum_parts(group_));
      wave_barrier();
    }
  }

 private:
  using Sums = decltype(Shared::sums);
  using Ring = StageRing<Sums::kStages>;
  static constexpr int kLines = Shared::kLines;

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

  // A part is handed back when the next one is on its way.
  CAUSEWAY_INLINE void send(const SumNote& note, int32_t before, Ring ring) {
    const int64_t tile = query_tile_number(p, note.b, note.head, note.query);
    float* to = p.workspace + tile * query_sum_floats(P::kHeadDim) + Shared::first_sum(group_);
    uint32_t* turn = query_turns(p) + tile;
    constexpr int kBytes = Sums::kPartFloats * 4;
    if (before >= 0) wait_for_turn(turn, static_cast<uint32_t>(before) + 1);
    int sent = ring.stage;
#pragma clang loop unroll(disable)
    for (int part = 0; part < Shared::sum_parts(group_); ++part) {
      if (part > 0) barrier_wait(&shared_.sum_barriers.full[group_][ring.stage], ring.parity);
      float* from = shared_.sums.parts[group_][ring.stage];
      if (before < 0) {
        bulk_store(to + part * Sums::kPartFloats, from, kBytes);
      } else {
        bulk_add(to + part * Sums::kPartFloats, from, kBytes);
      }
      tensor_store_commit();
      if (part > 0) {
        tensor_store_wait<1>();
        barrier_arrive(&shared_.sum_barriers.empty[group_][sent]);
      }
      sent = ring.stage;
      ring.advance();
    }
    tensor_store_wait<0>();
    barrier_arrive(&shared_.sum_barriers.empty[group_][sent]);
    bulk_wait<0>();
    pass_turn(turn, static_cast<uint32_t>(note.key / kLines) + 1);
  }

  const P& p;
  Shared& shared_;
  int group_;
  Ring ring_;
};

// What warpgroups that multiply do alike: a task at a time, and what they leave for those that send.
template <class P, class Shared>
class SumGroup {
 protected:
  using T = typename P::Operand;
  using Sums = decltype(Shared::sums);
  static constexpr int kLines = Shared::kLines, kOthers = P::kTile.others;
  // Weights alone are computed beside the MMAs that give their gradients, where nothing else needs the scores.
  static constexpr bool kBeside = !P::kHasScore || P::kScoreIsShifted;
  static constexpr Modified kMasked = ScoreWork<P>::kMasked, kUnmasked = ScoreWork<P>::kUnmasked;

  CAUSEWAY_INLINE SumGroup(const P& problem, Shared& shared, int group) : p(problem), shared_(shared), group_(group) {}

  // Waits for the next task; false when there are no more.
  CAUSEWAY_INLINE bool begin_task() {
    barrier_wait(&shared_.own_full[own_.stage], own_.parity);
    const TaskNote task = shared_.tasks[own_.stage];
    const int32_t first = uniform(task.first);
    b_ = task.b, first_key_ = first;
    return first >= 0;
  }
  CAUSEWAY_INLINE void end_task() {
    release(&shared_.own_empty[own_.stage]);
    own_.advance();
  }
  // The warp that sends has nothing more to do.
  CAUSEWAY_INLINE void end_tasks() {
    barrier_wait(&shared_.sum_barriers.empty[group_][sums_.stage], sums_.parity ^ 1);
    announce({0, 0, 0, -1}, true);
  }

  // Some parts to the warp that sends: a thread's sums of four, 128 threads apart.
  template <int kFirst, int kEnd, int kSums>
  CAUSEWAY_INLINE void hand_on(const float (&dq)[kSums], const SumNote& note) {
    constexpr int kEach = Sums::kPartFloats / 128;
#pragma clang loop unroll(full)
    for (int part = kFirst; part < kEnd; ++part) {
      barrier_wait(&shared_.sum_barriers.empty[group_][sums_.stage], sums_.parity ^ 1);
      float* to = shared_.sums.parts[group_][sums_.stage] + computed_here(thread_index() % 128) * 4;
#pragma clang loop unroll(full)
      for (int i = 0; i < kEach; i += 4) {
        const float* from = dq + part * kEach + i;
        const Vector<float, 4> sums = {computed_here(from[0]), computed_here(from[1]), computed_here(from[2]),
                                       computed_here(from[3])};
        __builtin_memcpy(__builtin_assume_aligned(to + i * 128, 16), &sums, 16);
      }
      fence_async_shared();
      announce(note, part == 0);
    }
  }
  // The sender takes a tile's note with the first part.
  CAUSEWAY_INLINE void announce(const SumNote& note, bool first_part) {
    if (first_part && thread_index() % 128 == 0) shared_.sum_notes[group_][sums_.stage] = note;
    release(&shared_.sum_barriers.full[group_][sums_.stage]);
    sums_.advance();
  }

  const P& p;
  Shared& shared_;
  int32_t group_, b_ = 0, first_key_ = 0;
  StageRing<P::kTile.own_stages> own_;
  StageRing<P::kTile.stages> ring_;
  StageRing<Sums::kStages> sums_;
  GradientTileNote note_ = {{0, 0}, 0, 0};
};

// Barriers; then a warp copies operands, one for each warpgroup sends its sums, and warpgroups multiply, each as a
// Group. `begin`: by one thread, sets barriers that are the kernel's own.
template <class Group, class Shared, int kCopyingRegisters, int kMultiplyingRegisters, class P, class F>
CAUSEWAY_INLINE void run_in_one_pass(const P& p, const TensorMapBytes* maps, uint32_t* counter, F begin) {
  using GroupCopier = GradientCopier<P, false, Shared>;
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
    shared.sum_barriers.begin();
    begin(shared);
    barrier_init_fence();
  }
  block_barrier();
  if (thread_index() < 128) {
    registers_decrease<kCopyingRegisters>();
    if (thread_index() < 32) {
      GroupCopier(p, maps, shared).run(counter);
    } else if (thread_index() < 32 * (1 + P::kTile.groups)) {
      SumSender<P, Shared>(p, shared, uniform(thread_index() / 32) - 1).run();
    }
  } else {
    registers_increase<kMultiplyingRegisters>();
    Group(p, shared, warpgroup_index() - 1).run();
  }
}

}  // namespace attention_hopper

// Sets what blocks take turns by.
template <HopperAttentionQuerySumsProblem P>
CAUSEWAY_INLINE void hopper_attention_begin_turns(const P& p, int task) {
  using namespace attention_hopper;
  const int64_t at = static_cast<int64_t>(task) * 128 + thread_index();
  if (at < p.batch * p.query_heads * query_tiles(p)) query_turns(p)[at] = 0;
}

// The gradient of 64 queries of a head from their sums; 128 threads.
template <HopperAttentionQuerySumsProblem P>
CAUSEWAY_INLINE void hopper_attention_finish_queries(const P& p, int task) {
  using namespace attention_hopper;
  using T = typename P::Operand;
  const int32_t tiles = query_tiles(p);
  const int32_t tile = task % tiles, head = task / tiles % static_cast<int32_t>(p.query_heads);
  const int32_t b = task / tiles / static_cast<int32_t>(p.query_heads), query = tile * P::kTile.others;
  // Nobody has added to queries that see nothing.
  const bool added = query_turns(p)[task] != 0;
  const float* from = p.workspace + static_cast<int64_t>(task) * query_sum_floats(P::kHeadDim);
  float sums[P::kHeadDim / 2];
#pragma clang loop unroll(full)
  for (int i = 0; i < P::kHeadDim / 2; i += 4) {
    Vector<float, 4> four = {};
    if (added) __builtin_memcpy(&four, __builtin_assume_aligned(from + i * 128 + thread_index() * 4, 16), 16);
#pragma clang loop unroll(full)
    for (int e = 0; e < 4; ++e) sums[i + e] = four[e];
  }
  const float factors[2] = {p.scale, p.scale};
  store_lines<P, 64>(sums, factors, reinterpret_cast<T*>(shared_memory()), 0,
                     [&](int line, int d, const float (&values)[8]) {
                       if (query + line >= p.query_length) return;
#pragma clang loop unroll(full)
                       for (int e = 0; e < 8; ++e) p.store_dq(b, head, query + line, d + e, values[e]);
                     });
}
