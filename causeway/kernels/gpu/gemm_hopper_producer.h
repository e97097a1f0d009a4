// The producer warp of GEMMs on Hopper (gemm_hopper.h): it loads slices of A and B by TMA into a ring of stages in
// shared memory, each with a full and an empty mbarrier.
#pragma once

#include "causeway/kernels/gpu/gemm.h"
#include "causeway/kernels/gpu/gemm_hopper_layout.h"
#include "causeway/kernels/gpu/gemm_hopper_tile_scheduler.h"
#include "causeway/kernels/gpu/hopper.h"

// What a block shares.
template <class Problem>
struct HopperGemmShared {
  static constexpr HopperGemmTile kTile = Problem::kTile;
  static constexpr int kWaves = hopper_gemm_waves(kTile);
  char* stages = shared_memory();
  char* behind_stages = stages + kTile.stages * hopper_gemm_stage_bytes(kTile);
  char* pieces = kTile.results_in_stages ? stages : behind_stages;
  Mbarrier* loaded = reinterpret_cast<Mbarrier*>(
      behind_stages + (kTile.results_in_stages ? 0 : kWaves * hopper_gemm_wave_bytes(kTile)));
  Mbarrier* full = loaded + kWaves * kHopperGemmMostBoxes;
  Mbarrier* empty = full + kTile.stages;
  Mbarrier* left = empty + kTile.stages;  // results have, where stages are their room
  int32_t* queue = reinterpret_cast<int32_t*>(left + 1);

  // Operands of the first stage: A from the tile's first_block'th 64 rows on, and B.
  static constexpr int kBoxBytes = 64 * kHopperGemmDepth * 2;
  CAUSEWAY_INLINE uint64_t descriptor_a(int first_block) const {
    return matrix_descriptor(stages + first_block * kBoxBytes, kBoxBytes, 1024, 128);
  }
  CAUSEWAY_INLINE uint64_t descriptor_b() const {
    return matrix_descriptor(stages + kTile.m * kHopperGemmDepth * 2, kBoxBytes, 1024, 128);
  }
};

// Loads the slices of all tiles of this block, of which `index` is the first and, of ping-pong tiles, `second` the
// second; one thread.
template <class Problem>
CAUSEWAY_INLINE void hopper_gemm_produce(const Problem& problem, const TensorMapBytes* maps, uint32_t* counter,
                                         int index, int second, int rank, const HopperGemmShared<Problem>& shared) {
  constexpr HopperGemmTile kTile = Problem::kTile;
  constexpr int kDepth = kHopperGemmDepth, kABytes = kTile.m * kDepth * 2;
  constexpr int kBoxBytes = HopperGemmShared<Problem>::kBoxBytes;
  constexpr int kLinesA = hopper_gemm_loaded_lines(kTile, false), kLinesB = hopper_gemm_loaded_lines(kTile, true);
  constexpr bool kSharesA = kTile.cluster_n > 1, kSharesB = kTile.cluster_m > 1;
  const auto sharers_of_a = static_cast<uint16_t>(hopper_gemm_sharers(kTile, false, rank));
  const auto sharers_of_b = static_cast<uint16_t>(hopper_gemm_sharers(kTile, true, rank));
  const int first_a = rank / kTile.cluster_m * kLinesA, first_b = rank % kTile.cluster_m * kLinesB;
  constexpr int kLoadedBytes =
      Problem::B::kContiguousInK ? (kTile.m + kTile.n) * kDepth * 2 : hopper_gemm_stage_bytes(kTile);
  using Queue = HopperGemmTileQueue<Problem>;
  const HopperGemmTileScheduler<Problem> scheduler(problem);
  StageRing<kTile.stages> ring;
  Queue queue;
  queue.advance(Queue::kStep);
  const auto load_a = [&](const HopperGemmPosition& tile, int stage, int k) {
    const auto load = [&](char* to, int contiguous, int other) {
      if constexpr (kSharesA) {
        problem.a.load_multicast(to, &maps[0], shared.full + stage, contiguous, other, tile.batch, sharers_of_a);
      } else {
        problem.a.load(to, &maps[0], shared.full + stage, contiguous, other, tile.batch);
      }
    };
    char* a = shared.stages + stage * hopper_gemm_stage_bytes(kTile) + first_a * (kDepth * 2);
    if constexpr (Problem::A::kContiguousInK) {
      load(a, k, tile.m + first_a);
    } else {
      // As many lines in 128 bytes as a slice has of k.
      constexpr int kLines = hopper_gemm_slice_k(sizeof(typename Problem::Operand));
#pragma clang loop unroll(full)
      for (int box = 0; box < kLinesA / kLines; ++box) load(a + box * kLines * 128, tile.m + first_a + box * kLines, k);
    }
  };
  const auto load_b = [&](const HopperGemmPosition& tile, int stage, int k) {
    const auto load = [&](char* to, int contiguous, int other) {
      if constexpr (kSharesB) {
        problem.b.load_multicast(to, &maps[1], shared.full + stage, contiguous, other, tile.batch, sharers_of_b);
      } else {
        problem.b.load(to, &maps[1], shared.full + stage, contiguous, other, tile.batch);
      }
    };
    char* b = shared.stages + stage * hopper_gemm_stage_bytes(kTile) + kABytes + first_b * (kDepth * 2);
    constexpr int kBoxes = Problem::B::kContiguousInK ? 1 : (kLinesB + 63) / 64;
#pragma clang loop unroll(full)
    for (int box = 0; box < kBoxes; ++box) {
      const int line = tile.n + first_b + box * 64;
      load(b + box * kBoxBytes, Problem::B::kContiguousInK ? k : line, Problem::B::kContiguousInK ? line : k);
    }
  };
  const auto k_of = [](const HopperGemmPosition& tile, int slice) {
    return (tile.first_slice + slice) * hopper_gemm_slice_k(sizeof(typename Problem::Operand));
  };
  // Slices of the block's tile whose weights are on their way before earlier launches have ended.
  [[maybe_unused]] int begun = 0;
  if constexpr (kHopperGemmBeginsEarly<Problem>) {
    const HopperGemmPosition tile(scheduler, index, rank);
    // Before any arrival of this thread, so that whichever slice is the last one to come, consumers see it.
    hopper_gemm_enqueue(shared.queue, scheduler, queue.at, scheduler.work, index);
    begun = tile.slices < kTile.stages ? tile.slices : kTile.stages;
#pragma clang loop unroll(disable)
    for (int slice = 0; slice < begun; ++slice) {
      barrier_expect_bytes(shared.full + slice, kLoadedBytes);
      if constexpr (kTile.swapped) {
        load_a(tile, slice, k_of(tile, slice));
      } else {
        load_b(tile, slice, k_of(tile, slice));
      }
    }
    wait_for_launches();
  }
  int taken = kTile.ping_pong ? second : index;  // the last one
  [[maybe_unused]] int tiles_before = 0;
#pragma clang loop unroll(disable)
  while (index < scheduler.work) {
    const HopperGemmPosition tile(scheduler, index, rank);
    const int before = taken;
    // Early enough to be known with the last slice, late enough to leave the tile to a block that gets there first.
    const int asks = tile.slices > kTile.stages ? tile.slices - kTile.stages : 0;
#pragma clang loop unroll(disable)
    for (int slice = 0; slice < tile.slices; ++slice) {
      if (slice == asks) taken = hopper_gemm_next_tile(scheduler, counter, before);
      const int k = k_of(tile, slice);
      barrier_wait(shared.empty + ring.stage, ring.parity ^ 1);
      if (!kHopperGemmBeginsEarly<Problem> && slice + 1 == tile.slices)
        hopper_gemm_enqueue(shared.queue, scheduler, queue.at, taken, before);
      if constexpr (kHopperGemmBeginsEarly<Problem>) {
        const bool has_weights = slice < begun;
        if (!has_weights) barrier_expect_bytes(shared.full + ring.stage, kLoadedBytes);
        if (!kTile.swapped || !has_weights) load_a(tile, ring.stage, k);
        if (kTile.swapped || !has_weights) load_b(tile, ring.stage, k);
      } else {
        barrier_expect_bytes(shared.full + ring.stage, kLoadedBytes);
        load_a(tile, ring.stage, k);
        load_b(tile, ring.stage, k);
      }
      ring.advance();
    }
    queue.advance(1);
    index = kTile.ping_pong ? before : taken;
    if constexpr (kTile.results_in_stages) {
      if (index < scheduler.work) barrier_wait(shared.left, tiles_before++ % 2);
    }
  }
  // The block may end when no other will load into it or arrive at its barriers: when all have handed back all stages.
  if constexpr (hopper_gemm_cluster(kTile) > 1) {
#pragma clang loop unroll(disable)
    for (int stage = 0; stage < kTile.stages; ++stage) {
      barrier_wait(shared.empty + ring.stage, ring.parity ^ 1);
      ring.advance();
    }
  }
}
