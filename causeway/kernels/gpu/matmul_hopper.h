// Matrix products on Hopper (sm_90a), for the Problem that matmul.h describes, with the differences that it lists: one
// warpgroup loads slices of A and B by the tensor copy engine into a ring in shared memory, the others multiply them by
// wgmma. Blocks are persistent: while a tile's results are stored, the slices of the next one are on their way, and
// multiplied where warpgroups compute tiles in turns.
// After the ladder that CUTLASS ("warp-specialized persistent cooperative" and "ping-pong") and DeepGEMM describe.
#pragma once

#include "causeway/kernels/gpu/hopper.h"
#include "causeway/kernels/gpu/matmul.h"
#include "causeway/kernels/gpu/matmul_hopper_layout.h"

// Which tiles are computed by a cluster at the same time. Clusters that run together share lines of A and of B: tiles
// are counted down through groups of about 2,048 rows, then along n.
template <class Problem>
struct HopperMatmulSchedule {
  static constexpr HopperMatmulTile kTile = Problem::kTile;
  static constexpr int kRows = kTile.m * kTile.cluster;
  static constexpr int kGroup = 2048 / kRows;
  int rows_m, tiles_n, work;  // a row of tiles is kRows high
  int k_slices, split_slices;

  CAUSEWAY_INLINE explicit HopperMatmulSchedule(const Problem& problem) {
    rows_m = (static_cast<int>(problem.m) + kRows - 1) / kRows;
    tiles_n = (static_cast<int>(problem.n) + kTile.n - 1) / kTile.n;
    work = rows_m * tiles_n * Problem::kSplits * static_cast<int>(problem.batch);
    const int slices = static_cast<int>((problem.k + kHopperMatmulDepth - 1) / kHopperMatmulDepth);
    k_slices = slices > 0 ? slices : 1;
    split_slices = (k_slices + Problem::kSplits - 1) / Problem::kSplits;
  }
};

struct HopperMatmulPosition {
  int batch, split, m, n;  // m, n: the first element
  int first_slice, slices;

  template <class Problem>
  CAUSEWAY_INLINE HopperMatmulPosition(const HopperMatmulSchedule<Problem>& schedule, int index, int rank) {
    using Schedule = HopperMatmulSchedule<Problem>;
    // Not known to the compiler where the number of blocks is not. Known, a division by a constant is a product and a
    // shift, and where sizes are fixed none is by a variable.
    __builtin_assume(index >= 0);
    const int in_matrix = index % (schedule.rows_m * schedule.tiles_n);
    const int matrix = index / (schedule.rows_m * schedule.tiles_n);
    split = matrix % Problem::kSplits;
    batch = matrix / Problem::kSplits;
    const int group = in_matrix / (Schedule::kGroup * schedule.tiles_n);
    const int in_group = in_matrix % (Schedule::kGroup * schedule.tiles_n);
    const int rest = schedule.rows_m - group * Schedule::kGroup;
    const int rows = rest < Schedule::kGroup ? rest : Schedule::kGroup;
    m = (group * Schedule::kGroup + in_group % rows) * Schedule::kRows + rank * Schedule::kTile.m;
    n = in_group / rows * Schedule::kTile.n;
    first_slice = Problem::kSplits == 1 ? 0 : split * schedule.split_slices;
    const int left = schedule.k_slices - first_slice;
    slices = Problem::kSplits == 1 || left < schedule.split_slices ? left : schedule.split_slices;
  }
};

// Loads the slices of all tiles of this block; one thread.
template <class Problem>
CAUSEWAY_INLINE void hopper_matmul_load(const Problem& problem, const TensorMapBytes* maps, int task, int rank,
                                        char* stages, TransferBarrier* full, TransferBarrier* empty) {
  constexpr HopperMatmulTile kTile = Problem::kTile;
  constexpr int kDepth = kHopperMatmulDepth, kABytes = kTile.m * kDepth * 2, kBoxBytes = 64 * kDepth * 2;
  constexpr int kLinesB = kTile.n / kTile.cluster;  // that this block loads
  const HopperMatmulSchedule<Problem> schedule(problem);
  prefetch_tensor_map(&maps[0]);
  prefetch_tensor_map(&maps[1]);
  StageRing<kTile.stages> ring;
#pragma clang loop unroll(disable)
  for (int index = task / kTile.cluster; index < schedule.work; index += block_count() / kTile.cluster) {
    const HopperMatmulPosition tile(schedule, index, rank);
#pragma clang loop unroll(disable)
    for (int slice = 0; slice < tile.slices; ++slice) {
      const int k = (tile.first_slice + slice) * kDepth;
      barrier_wait(empty + ring.stage, ring.parity ^ 1);
      TransferBarrier* barrier = full + ring.stage;
      barrier_expect_bytes(barrier, hopper_matmul_stage_bytes(kTile));
      char* a = stages + ring.stage * hopper_matmul_stage_bytes(kTile);
      char* b = a + kABytes + rank * (kLinesB * kDepth * 2);
      if constexpr (Problem::A::kContiguousInK) {
        problem.a.load(a, &maps[0], barrier, k, tile.m, tile.batch);
      } else {
#pragma clang loop unroll(full)
        for (int box = 0; box < kTile.m / 64; ++box)
          problem.a.load(a + box * kBoxBytes, &maps[0], barrier, tile.m + box * 64, k, tile.batch);
      }
      const int first = tile.n + rank * kLinesB;
      constexpr int kBoxes = Problem::B::kContiguousInK ? 1 : kLinesB / 64;
#pragma clang loop unroll(full)
      for (int box = 0; box < kBoxes; ++box) {
        char* to = b + box * kBoxBytes;
        const int contiguous = Problem::B::kContiguousInK ? k : first + box * 64;
        const int other = Problem::B::kContiguousInK ? first : k;
        if constexpr (kTile.cluster > 1) {
          problem.b.load_multicast(to, &maps[1], barrier, contiguous, other, tile.batch,
                                   static_cast<uint16_t>((1 << kTile.cluster) - 1));
        } else {
          problem.b.load(to, &maps[1], barrier, contiguous, other, tile.batch);
        }
      }
      ring.advance();
    }
  }
}

// Sums of 8-bit products lose bits as they grow (14 are kept when a product is added), so that those of a few slices
// are added up in float: 512 of k. ("DeepSeek-V3 Technical Report", section 3.3.2.) 0: all slices go into one sum.
template <class Operand>
constexpr int kHopperMatmulSlicesPerSum = kIsF8Pair<Operand> ? 4 : 0;

// Stores the 64 x n sums of one warpgroup, whose first row is `m_first`. Each wave has 16 rows of them, which pass
// through its own piece of shared memory; groups of eight columns are exchanged there so that no bank is met twice.
template <class Problem>
CAUSEWAY_INLINE void hopper_matmul_store(const Problem& problem, const HopperMatmulPosition& tile, int m_first,
                                         const float (&sums)[Problem::kTile.n / 2], float* piece) {
  constexpr int kLanesOut = Problem::kStoreLanes;
  constexpr int kInRow = 64 / kLanesOut, kRounds = 16 * kInRow / 32;
  const int m = static_cast<int>(problem.m), n = static_cast<int>(problem.n);
  const int lane = lane_index(), first_row = m_first + thread_index() % 128 / 32 * 16;
#pragma clang loop unroll(full)
  for (int part = 0; part < Problem::kTile.n / 64; ++part) {
    wave_barrier();
#pragma clang loop unroll(full)
    for (int i = 0; i < 32; i += 2) {
      const int row = lane / 4 + (i & 2) * 4;
      float* to = piece + row * 64 + ((i / 4) ^ (row % 8)) * 8 + lane % 4 * 2;
      to[0] = sums[part * 32 + i];
      to[1] = sums[part * 32 + i + 1];
    }
    wave_barrier();
    constexpr int kTogether = kRounds < 2 ? kRounds : 2;
#pragma clang loop unroll_count(kTogether)
    for (int round = 0; round < kRounds; ++round) {
      const int item = round * 32 + lane;
      const int row = item / kInRow, column = item % kInRow * kLanesOut;
      const int m_index = first_row + row, n_index = tile.n + part * 64 + column;
      if (m_index >= m || n_index >= n) continue;
      const float* from = piece + row * 64 + ((column / 8) ^ (row % 8)) * 8 + column % 8;
      float values[kLanesOut];
#pragma clang loop unroll(full)
      for (int e = 0; e < kLanesOut; ++e) values[e] = from[e];
      if constexpr (Problem::kSplits == 1) {
        problem.store(static_cast<int64_t>(tile.batch), static_cast<int64_t>(m_index), static_cast<int64_t>(n_index),
                      values);
      } else {
        float* to =
            problem.workspace +
            ((static_cast<int64_t>(tile.split) * problem.batch + tile.batch) * problem.m + m_index) * problem.n +
            n_index;
#pragma clang loop unroll(full)
        for (int e = 0; e < kLanesOut; ++e) to[e] = values[e];
      }
    }
  }
}

// Multiplies what hopper_matmul_load loads; one warpgroup, which has rows 64 group .. 64 group + 63 of each tile or, in
// turns, all rows of every second tile.
template <class Problem>
CAUSEWAY_INLINE void hopper_matmul_multiply(const Problem& problem, int task, int rank, int group, char* stages,
                                            float* piece, TransferBarrier* full, TransferBarrier* empty) {
  using Operand = typename Problem::Operand;
  constexpr HopperMatmulTile kTile = Problem::kTile;
  constexpr int kDepth = kHopperMatmulDepth, kABytes = kTile.m * kDepth * 2, kBoxBytes = 64 * kDepth * 2;
  constexpr bool kATransposed = !Problem::A::kContiguousInK, kBTransposed = !Problem::B::kContiguousInK;
  const HopperMatmulSchedule<Problem> schedule(problem);
  constexpr int kRowBlocks = kTile.in_turns ? kTile.m / 64 : 1;  // of this warpgroup, 64 rows each
  const int first_block = kTile.in_turns ? 0 : group;
  StageRing<kTile.stages> ring;
  int turn = 0;
  const int lane = lane_index();
  // Every wave hands a stage back to the blocks that load it.
  const auto release = [&](int stage) {
    if constexpr (kTile.cluster == 1) {
      if (lane == 0) barrier_arrive(empty + stage);
    } else {
      if (lane < kTile.cluster) barrier_arrive_in_block(empty + stage, lane);
    }
  };
#pragma clang loop unroll(disable)
  for (int index = task / kTile.cluster; index < schedule.work; index += block_count() / kTile.cluster) {
    const HopperMatmulPosition tile(schedule, index, rank);
    // Before the products: between them and the other warpgroup's nothing is to be waited for.
    const bool is_last = kTile.in_turns && index + block_count() / kTile.cluster >= schedule.work;
    if constexpr (kTile.in_turns) {
      if (turn++ % 2 != group) {
        ring.skip(tile.slices);
        continue;
      }
      // A stage's parity tells whether it is full only to those whom all stages before it were full for.
      if (turn > 1) named_barrier(1 + group, 256);
    }
    constexpr int kSlicesPerSum = kHopperMatmulSlicesPerSum<Operand>;
    static_assert(kSlicesPerSum == 0 || !kTile.in_turns);
    float sums[kRowBlocks][kTile.n / 2];
    float totals[kSlicesPerSum > 0 ? kTile.n / 2 : 1] = {};
    int before = -1;  // the stage that products under way may still read
#pragma clang loop unroll(disable)
    for (int slice = 0; slice < tile.slices; ++slice) {
      barrier_wait(full + ring.stage, ring.parity);
      char* stage = stages + ring.stage * hopper_matmul_stage_bytes(kTile);
      const uint64_t a = matrix_descriptor(stage + first_block * kBoxBytes, kBoxBytes, 1024, 128);
      const uint64_t b = matrix_descriptor(stage + kABytes, kBoxBytes, 1024, 128);
      const bool begins = kSlicesPerSum > 0 ? slice % kSlicesPerSum == 0 : slice == 0;
      warpgroup_fence();
#pragma clang loop unroll(full)
      for (int step = 0; step < kDepth / 16; ++step) {
        // The next 16 of k: 32 bytes along lines, or 16 rows of 128 bytes. Descriptors count 16 bytes.
        const uint64_t a_step = static_cast<uint64_t>(step * (kATransposed ? 16 * 128 : 32) / 16);
        const uint64_t b_step = static_cast<uint64_t>(step * (kBTransposed ? 16 * 128 : 32) / 16);
#pragma clang loop unroll(full)
        for (int block = 0; block < kRowBlocks; ++block)
          warpgroup_multiply_add<Operand, kTile.n, kATransposed, kBTransposed>(
              sums[block], a + a_step + static_cast<uint64_t>(block * kBoxBytes / 16), b + b_step, !begins || step > 0);
      }
      warpgroup_commit();
      if constexpr (kSlicesPerSum > 0) {
        if ((slice + 1) % kSlicesPerSum == 0 || slice + 1 == tile.slices) {
          warpgroup_wait<0>();
          if (before >= 0) release(before);
          release(ring.stage);
          before = -1;
          ring.advance();
#pragma clang loop unroll(full)
          for (int i = 0; i < kTile.n / 2; ++i) totals[i] += sums[0][i];
          continue;
        }
      }
      // The slice before has been read when only this one's products are under way.
      warpgroup_wait<1>();
      if (before >= 0) release(before);
      before = ring.stage;
      ring.advance();
    }
    if constexpr (kTile.in_turns) {
      if (!is_last) named_barrier_arrive(2 - group, 256);
    }
    warpgroup_wait<0>();
    if (before >= 0) release(before);
    if constexpr (kSlicesPerSum > 0) {
      hopper_matmul_store(problem, tile, tile.m + group * 64, totals, piece);
    } else {
#pragma clang loop unroll(full)
      for (int block = 0; block < kRowBlocks; ++block)
        hopper_matmul_store(problem, tile, tile.m + (first_block + block) * 64, sums[block], piece);
    }
  }
}

// One block. `task` is its number; the launch has any number of them, in whole clusters: each computes tiles until none
// is left.
template <class Problem>
CAUSEWAY_INLINE void hopper_matmul_run(const Problem& problem, const TensorMapBytes* maps, int task) {
  constexpr HopperMatmulTile kTile = Problem::kTile;
  constexpr int kGroups = hopper_matmul_warpgroups(kTile);
  static_assert(kTile.m % 64 == 0 && kTile.n % 64 == 0 && kTile.n <= 256);
  static_assert(Problem::B::kContiguousInK || kTile.n / kTile.cluster % 64 == 0);
  static_assert(hopper_matmul_shared_bytes(kTile) <= kHopperMatmulMostShared);
  char* stages = shared_memory();
  char* pieces = stages + kTile.stages * hopper_matmul_stage_bytes(kTile);
  auto* full = reinterpret_cast<TransferBarrier*>(pieces + hopper_matmul_piece_bytes(kTile));
  TransferBarrier* empty = full + kTile.stages;
  if (thread_index() == 0) {
    for (int stage = 0; stage < kTile.stages; ++stage) {
      barrier_init(full + stage, 1);
      barrier_init(empty + stage, (kTile.in_turns ? 1 : kGroups) * 4 * kTile.cluster);
    }
    barrier_init_fence();
  }
  int rank = 0;
  if constexpr (kTile.cluster > 1) {
    rank = cluster_rank();
    cluster_barrier();
  } else {
    block_barrier();
  }
  // The registers of the block, 168 for each thread of three warpgroups, go to those that multiply.
  if (thread_index() < 128) {
    if constexpr (kGroups == 2) registers_decrease<40>();
    if (thread_index() == 0) hopper_matmul_load(problem, maps, task, rank, stages, full, empty);
  } else {
    if constexpr (kGroups == 2) registers_increase<232>();
    const int group = thread_index() / 128 - 1;
    float* piece = reinterpret_cast<float*>(pieces + (wave_index() - 4) * kHopperMatmulPieceBytes);
    hopper_matmul_multiply(problem, task, rank, group, stages, piece, full, empty);
  }
  // No block may end while others load into it or arrive at its barriers.
  if constexpr (kTile.cluster > 1) cluster_barrier();
}
