// GEMMs on Hopper (sm_90a), for the Problem of gemm_hopper_problem.h: a warp of one warpgroup, the producer, loads
// slices of A and B by TMA into a ring in shared memory, the other warpgroups, the consumers, multiply them by wgmma.
// Blocks are persistent: while a tile's results are stored, the slices of the next one are on their way, and multiplied
// where warpgroups ping-pong. A block takes the next tile when it has room for its slices: one that begins late,
// because something else held its multiprocessor, finds that the others have done its work; blocks of clusters have
// their tiles dealt out. After the schedules that CUTLASS ("warp-specialized persistent cooperative" and "ping-pong")
// and DeepGEMM describe.
//
// Composed of a tile scheduler (gemm_hopper_tile_scheduler.h), a producer (gemm_hopper_producer.h), a mainloop
// (gemm_hopper_mainloop.h, gemm_hopper_block_scaled.h), an epilogue (gemm_hopper_epilogue.h), and the order of the
// consumers, which is here.
#pragma once

#include "causeway/kernels/gpu/gemm.h"
#include "causeway/kernels/gpu/gemm_hopper_block_scaled.h"
#include "causeway/kernels/gpu/gemm_hopper_epilogue.h"
#include "causeway/kernels/gpu/gemm_hopper_layout.h"
#include "causeway/kernels/gpu/gemm_hopper_mainloop.h"
#include "causeway/kernels/gpu/gemm_hopper_problem.h"
#include "causeway/kernels/gpu/gemm_hopper_producer.h"
#include "causeway/kernels/gpu/gemm_hopper_tile_scheduler.h"
#include "causeway/kernels/gpu/gemm_hopper_tma_store.h"
#include "causeway/kernels/gpu/hopper.h"

// Warpgroups share every tile: each has its share of the rows.
template <class Problem>
struct HopperGemmCooperative {
  using Queue = HopperGemmTileQueue<Problem>;
  static constexpr HopperGemmTile kTile = Problem::kTile;
  CAUSEWAY_INLINE static int first_block(int group) { return group * hopper_gemm_row_blocks(kTile); }
  CAUSEWAY_INLINE static void begin(const HopperGemmTileScheduler<Problem>&, int, Queue&, StageRing<kTile.stages>&) {}
  CAUSEWAY_INLINE static void take_turn(int) {}
  CAUSEWAY_INLINE static void pass_turn(const HopperGemmTileScheduler<Problem>&, StageRing<kTile.stages>&) {}
};

// Each of two warpgroups has all rows of every second tile: one stores its results while the other multiplies.
template <class Problem>
struct HopperGemmPingPong {
  using Queue = HopperGemmTileQueue<Problem>;
  static constexpr HopperGemmTile kTile = Problem::kTile;
  static_assert(Problem::kSplits == 1, "tiles of the other warpgroup have as many slices");
  static_assert(!kTile.results_in_stages);

  CAUSEWAY_INLINE static int first_block(int) { return 0; }
  // The second one's first tile is the block's second.
  CAUSEWAY_INLINE static void begin(const HopperGemmTileScheduler<Problem>& scheduler, int group, Queue& queue,
                                    StageRing<kTile.stages>& ring) {
    if (group == 1) {
      queue.advance(1);
      ring.skip(scheduler.k_slices);
      named_barrier_arrive(1, 256);
    }
  }
  // A stage's parity tells whether it is full only to those whom all stages before it were full for.
  CAUSEWAY_INLINE static void take_turn(int index) {
    if (index != Queue::kNoneBefore) named_barrier(1 + this_group(), 256);
  }
  CAUSEWAY_INLINE static void pass_turn(const HopperGemmTileScheduler<Problem>& scheduler,
                                        StageRing<kTile.stages>& ring) {
    named_barrier_arrive(2 - this_group(), 256);
    ring.skip(scheduler.k_slices);
  }

 private:
  // Read again where it is needed: accumulators leave few registers for it.
  CAUSEWAY_INLINE static int this_group() { return computed_here(thread_index()) / 128 - 1; }
};

template <class Problem>
using HopperGemmOrder =
    typename ChooseType<Problem::kTile.ping_pong, HopperGemmPingPong<Problem>, HopperGemmCooperative<Problem>>::Type;

// The mainloop for what the operands are.
template <class Problem>
using HopperGemmMainloopOf = typename ChooseType<
    kHopperGemmScales<Problem>, HopperGemmBlockScaledMainloop<Problem>,
    typename ChooseType<
        kIsF8Pair<typename Problem::Operand>, HopperGemmPromotedMainloop<Problem>,
        typename ChooseType<sizeof(typename Problem::Operand) == 4 && !Problem::A::kContiguousInK,
                            HopperGemmRegisterMainloop<Problem>, HopperGemmMainloop<Problem>>::Type>::Type>::Type;

// Multiplies what hopper_gemm_produce loads, and stores the results; one consumer warpgroup.
template <class Problem>
CAUSEWAY_INLINE void hopper_gemm_consume(const Problem& problem, const TensorMapBytes* maps, int rank, int group,
                                         const HopperGemmShared<Problem>& shared) {
  using Order = HopperGemmOrder<Problem>;
  using Mainloop = HopperGemmMainloopOf<Problem>;
  using Queue = HopperGemmTileQueue<Problem>;
  constexpr HopperGemmTile kTile = Problem::kTile;
  if constexpr (kHopperGemmBeginsEarly<Problem>) wait_for_launches();
  const HopperGemmTileScheduler<Problem> scheduler(problem);
  const int first_block = Order::first_block(group), wave = wave_index() - 4;
  float* piece = reinterpret_cast<float*>(shared.pieces + wave * hopper_gemm_wave_bytes(kTile));
  Mainloop mainloop(problem, shared, group, first_block, piece);
  HopperGemmEpilogueOf<Problem> epilogue(maps, shared, wave, piece);
  StageRing<kTile.stages> ring;
  Queue queue;
  const int lane = lane_index();
  // Whether the block that is the lane's number loads into this one. Every warp hands stages back to those that do.
  const uint32_t loaders = hopper_gemm_sharers(kTile, false, rank) | hopper_gemm_sharers(kTile, true, rank);
  const bool loads_here = (loaders >> lane & 1) != 0;
  const auto arrive = [&](Mbarrier* barrier) {
    if constexpr (hopper_gemm_cluster(kTile) == 1) {
      if (lane == 0) barrier_arrive(barrier);
    } else {
      if (loads_here) barrier_arrive_in_block(barrier, lane);
    }
  };
  const auto release = [&](int stage) { arrive(shared.empty + stage); };
  // The same for all lanes, as the compiler can see.
  const auto next_queued = [&] { return wave_shuffle(shared.queue[queue.at], 0); };
  // Slices, or scales of columns, pass through the room for results.
  static_assert(!(kTile.results_in_stages && Mainloop::kUsesRoomOfResults));
  constexpr bool kSharesRoom = kTile.results_in_stages || Mainloop::kUsesRoomOfResults;
  Order::begin(scheduler, group, queue, ring);
  int index = next_queued();
  mainloop.prepare(scheduler, index, rank);
#pragma clang loop unroll(disable)
  for (;;) {
    Order::take_turn(index);
    if (index < 0) break;
    const HopperGemmPosition tile(scheduler, index, rank);
    hopper_gemm_prefetch(problem, tile, first_block);
    if constexpr (!kSharesRoom) epilogue.begin(tile, first_block);
    typename Mainloop::Accumulators accumulators;
    mainloop.multiply(tile, ring, release, accumulators);
    Order::pass_turn(scheduler, ring);
    queue.advance(Queue::kStep);
    index = next_queued();
    mainloop.prepare(scheduler, index, rank);
    mainloop.finish(release, accumulators);
    if constexpr (kTile.results_in_stages) named_barrier(3, hopper_gemm_warpgroups(kTile) * 128);
    if constexpr (kSharesRoom) epilogue.begin(tile, first_block);
    hopper_gemm_store(problem, scheduler, tile, rank, first_block, Mainloop::results(accumulators), epilogue);
    if constexpr (kTile.results_in_stages) {
      if (index >= 0) {
        epilogue.end();
        fence_async_shared();
        wave_barrier();
        arrive(shared.left);
      }
    }
  }
  epilogue.end();
}

// One block of a launch of any number, in whole clusters: each computes tiles until none is left. `counter` is what
// they take them from (take_task), their own alone while they run; null where they begin early.
template <HopperGemmProblem Problem>
CAUSEWAY_INLINE void hopper_gemm_run(const Problem& problem, const TensorMapBytes* maps, uint32_t* counter) {
  constexpr HopperGemmTile kTile = Problem::kTile;
  constexpr int kGroups = hopper_gemm_warpgroups(kTile);
  static_assert(!kHopperGemmStoresByTma<Problem> || GemmStoredByTma<Problem>);
  static_assert(!kHopperGemmScales<Problem> || GemmWithScales<Problem>);
  static_assert(kTile.m % 64 == 0 && kTile.n % 16 == 0 && kTile.n <= 256);
  static_assert(sizeof(typename Problem::Operand) == 2 || Problem::B::kContiguousInK);
  static_assert(!kTile.b_along_k || Problem::B::kContiguousInK);
  static_assert(hopper_gemm_boxes(kTile) >= kHopperGemmBoxesOfPiece);
  // What a block loads is whole lines of a swizzle or, side by side, whole boxes.
  static_assert(hopper_gemm_cluster(kTile) <= 8);
  static_assert(kTile.cluster_n == 1 ||
                hopper_gemm_loaded_lines(kTile, false) % (Problem::A::kContiguousInK ? 8 : 64) == 0);
  static_assert(kTile.cluster_m == 1 ||
                hopper_gemm_loaded_lines(kTile, true) % (Problem::B::kContiguousInK ? 8 : 64) == 0);
  static_assert(hopper_gemm_shared_bytes(kTile) <= kHopperGemmMostShared);
  static_assert(!kTile.swapped || kHopperGemmStoresByTma<Problem>);
  static_assert(!kHopperGemmBeginsEarly<Problem> || !kTile.ping_pong);
  const HopperGemmShared<Problem> shared;
  // One lane begins and loads, the same each time.
  int first = 0, second = 0;
  if (wave_index() == 0 && elects_lane()) {
    prefetch_tensor_map(&maps[0]);
    prefetch_tensor_map(&maps[1]);
    const HopperGemmTileScheduler<Problem> scheduler(problem);
    first = hopper_gemm_next_tile(scheduler, counter, -1);
    if constexpr (kTile.ping_pong) second = hopper_gemm_next_tile(scheduler, counter, first);
    // Text is not in the cache yet: the less of it, the sooner all of it has come.
#pragma clang loop unroll(disable)
    for (int stage = 0; stage < kTile.stages; ++stage) {
      barrier_init(shared.full + stage, 1);
      barrier_init(shared.empty + stage, (kTile.ping_pong ? 1 : kGroups) * 4 * hopper_gemm_loaders(kTile));
    }
    if constexpr (kHopperGemmStoresByTma<Problem> && Problem::Fetched::kTensors > 0) {
#pragma clang loop unroll(disable)
      for (int box = 0; box < shared.kWaves * kHopperGemmMostBoxes; ++box) barrier_init(shared.loaded + box, 1);
    }
    if constexpr (kTile.results_in_stages) barrier_init(shared.left, shared.kWaves * hopper_gemm_loaders(kTile));
    barrier_init_fence();
    hopper_gemm_enqueue(shared.queue, scheduler, 0, first, -1);
    if constexpr (kTile.ping_pong) hopper_gemm_enqueue(shared.queue, scheduler, 1, second, first);
  }
  int rank = 0;
  block_barrier();
  if constexpr (hopper_gemm_cluster(kTile) > 1) {
    rank = cluster_rank();
    cluster_begin();
  }
  // The registers of the block, 168 for each thread of three warpgroups, 128 of four, go to those that multiply: all
  // that can be where they have most accumulators, or many and a row's factors for each. In other tiles some of those
  // that load would spill with 24.
  constexpr int kRegisters = HopperGemmMainloopOf<Problem>::kRegisters;
  constexpr bool kManySums = kRegisters > 192 || (kTile.swapped && kRegisters >= 160);
  constexpr int kLoading = kGroups == 3 ? 56 : kManySums ? 24 : 40;
  constexpr int kMultiplying = kGroups == 3 ? 152 : kManySums ? 240 : 232;
  if (thread_index() < 128) {
    if constexpr (kGroups > 1) registers_decrease<kLoading>();
    if (wave_index() == 0 && elects_lane()) hopper_gemm_produce(problem, maps, counter, first, second, rank, shared);
  } else {
    if constexpr (kGroups > 1) registers_increase<kMultiplying>();
    // The same for all lanes, as the assembler can see: operands' descriptors are in uniform registers then.
    hopper_gemm_consume(problem, maps, rank, wave_shuffle(thread_index() / 128, 0) - 1, shared);
  }
}

// One block of a launch of as many as there are tiles and parts of tiles, of a CAUSEWAY_EARLY_KERNEL.
template <HopperGemmProblem Problem>
CAUSEWAY_INLINE void hopper_gemm_run(const Problem& problem, const TensorMapBytes* maps, int) {
  static_assert(kHopperGemmBeginsEarly<Problem>);
  hopper_gemm_run(problem, maps, static_cast<uint32_t*>(nullptr));
}
