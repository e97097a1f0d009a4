// The mainloop of GEMMs on Hopper whose operands, of 8 bits, have scales of blocks (graph.h, scaled_dot).
#pragma once

#include "causeway/kernels/gpu/gemm_hopper_mainloop.h"
#include "causeway/kernels/gpu/gemm_hopper_tma_store.h"

// Whether each column has scales of its own.
template <class Problem>
constexpr bool kHopperGemmColumnScales = requires { requires Problem::kBLinesOfScale == 1; };

// The scales of four slices for a thread's sums[i] of each 64 rows that its warpgroup has: rows row and row + 8,
// columns from lane % 4 * 2 on by eights. A scale that four neighbours share is loaded by each of them for another
// slice.
template <class Problem>
struct HopperGemmFourScales {
  static constexpr HopperGemmTile kTile = Problem::kTile;
  static constexpr int kRowBlocks = hopper_gemm_row_blocks(kTile);
  static constexpr bool kSharedColumns = !kHopperGemmColumnScales<Problem>;
  static_assert(!kSharedColumns || Problem::kBLinesOfScale % kTile.n == 0);
  float rows[kRowBlocks * 2];
  float column;  // where all columns share one

  // Of slices slice .. slice + 3 of the tile. `first_block`: the warpgroup's first 64 of the tile's rows.
  CAUSEWAY_INLINE void load(const Problem& problem, const HopperGemmPosition& tile, int first_block, int slice) {
    const int lane = lane_index(), own = slice + lane % 4;
    const int k_block = tile.first_slice + (own < tile.slices ? own : tile.slices - 1);
    const int first_row = tile.m + first_block * 64 + thread_index() % 128 / 32 * 16 + lane / 4;
#pragma clang loop unroll(full)
    for (int i = 0; i < kRowBlocks * 2; ++i) {
      const int row = first_row + i / 2 * 64 + i % 2 * 8;
      const bool exists = problem.m % hopper_gemm_cluster_rows(kTile) == 0 || row < static_cast<int>(problem.m);
      rows[i] = *problem.a_scale(exists ? row : 0, k_block);
    }
    if constexpr (kSharedColumns) column = *problem.b_scale(tile.n, k_block);
  }
  // Of rows i % 2 * 8 of block i / 2 in the slice that follows the first by `slice`, times the columns' if they share
  // one.
  CAUSEWAY_INLINE float of(int i, int slice) const {
    const int from = lane_index() / 4 * 4 + slice;
    const float row = wave_shuffle(rows[i], from);
    return kSharedColumns ? row * wave_shuffle(column, from) : row;
  }
};

// The scales of one slice for columns that do not share one. A warp loads each of them once and passes them on in
// shared memory: loaded by those who need them they would be eight times as many.
template <class Problem>
struct HopperGemmColumnScales {
  static constexpr HopperGemmTile kTile = Problem::kTile;
  static constexpr int kLoads = (kTile.n + 63) / 64;
  float pairs[kLoads][2];  // on their way
  float columns[kTile.n / 4];

  CAUSEWAY_INLINE void load(const Problem& problem, const HopperGemmPosition& tile, int slice) {
    const int k_block = tile.first_slice + (slice < tile.slices ? slice : tile.slices - 1);
#pragma clang loop unroll(full)
    for (int i = 0; i < kLoads; ++i) {
      const int column = tile.n + i * 64 + lane_index() * 2, n = static_cast<int>(problem.n);
      const float* scales = problem.b_scale(column < n ? column : 0, k_block);
      pairs[i][0] = scales[0];
      pairs[i][1] = scales[1];
    }
  }
  // `piece`: room for a float of each column, of this warp.
  CAUSEWAY_INLINE void pass_on(float* piece) {
    using Pair = Vector<float, 2>;
    wave_barrier();
#pragma clang loop unroll(full)
    for (int i = 0; i < kLoads; ++i)
      *reinterpret_cast<Pair*>(piece + i * 64 + lane_index() * 2) = Pair{pairs[i][0], pairs[i][1]};
    wave_barrier();
#pragma clang loop unroll(full)
    for (int i = 0; i < kTile.n / 4; i += 2) {
      const Pair pair = *reinterpret_cast<const Pair*>(piece + i * 4 + lane_index() % 4 * 2);
      columns[i] = pair[0];
      columns[i + 1] = pair[1];
    }
  }
  // Of sums[i].
  CAUSEWAY_INLINE float of(int i) const { return columns[i / 4 * 2 + i % 2]; }
};

// Two warpgroups begin their MMAs in turns: while one adds up, the other's are under way.
template <class Problem>
class HopperGemmBlockScaledMainloop {
  using Operand = typename Problem::Operand;
  using FourScales = HopperGemmFourScales<Problem>;
  static constexpr HopperGemmTile kTile = Problem::kTile;
  static constexpr int kDepth = kHopperGemmDepth, kBoxBytes = HopperGemmShared<Problem>::kBoxBytes;
  static constexpr int kRowBlocks = hopper_gemm_row_blocks(kTile), kTurn = 1;
  static constexpr bool kTurns = hopper_gemm_warpgroups(kTile) == 2;
  static_assert(!kTile.ping_pong);

 public:
  // Scales of columns pass through it.
  static constexpr bool kUsesRoomOfResults = kHopperGemmColumnScales<Problem>;
  static constexpr int kRegisters = (kRowBlocks + 1) * kTile.n / 2;
  struct Accumulators {
    float totals[kRowBlocks][kTile.n / 2] = {};
  };

  CAUSEWAY_INLINE HopperGemmBlockScaledMainloop(const Problem& problem, const HopperGemmShared<Problem>& shared,
                                                int group, int first_block, float* piece)
      : problem_(problem), shared_(shared), group_(group), first_block_(first_block), piece_(piece) {}

  // Loads the scales of the tile's first slices.
  CAUSEWAY_INLINE void prepare(const HopperGemmTileScheduler<Problem>& scheduler, int index, int rank) {
    if (index >= 0) next_scales_.load(problem_, HopperGemmPosition(scheduler, index, rank), first_block_, 0);
  }

  template <class Release>
  CAUSEWAY_INLINE void multiply(const HopperGemmPosition& tile, StageRing<kTile.stages>& ring, Release&& release,
                                Accumulators& accumulators) {
    const HopperGemmOperands<Problem> operands(shared_, first_block_);
    HopperGemmColumnScales<Problem> columns;
    if constexpr (!FourScales::kSharedColumns) {
      columns.load(problem_, tile, 0);
      // The tile before leaves from the same room.
      if (kHopperGemmStoresByTma<Problem> && elects_lane()) tensor_store_wait<0>();
      wave_barrier();
    }
    barrier_wait(shared_.full + ring.stage, ring.parity);
#pragma clang loop unroll(disable)
    for (int first = 0; first < tile.slices; first += 4) {
      // Loaded four slices ahead, in a loop around that of slices: within it, the assembler would move what it has just
      // loaded to where the next turn has it, and wait for it there.
      const FourScales scales = next_scales_;
      next_scales_.load(problem_, tile, first_block_, first + 4);
      const int left = tile.slices - first, count = left < 4 ? left : 4;
#pragma clang loop unroll(disable)
      for (int slice = 0; slice < count; ++slice) {
        const int stage = ring.stage;
        const uint64_t a = operands.a(stage);
        const uint64_t b = operands.b(stage);
#pragma clang loop unroll(full)
        for (int block = 0; block < kRowBlocks; ++block) {
          float sums[kTile.n / 2];
          if constexpr (kTurns) {
            if (group_ == 1) named_barrier(kTurn, 256);
          }
          warpgroup_fence();
#pragma clang loop unroll(full)
          for (int step = 0; step < kDepth / 16; ++step) {
            warpgroup_multiply_add<Operand, kTile.n, false, false>(
                sums, matrix_descriptor_at(a, block * kBoxBytes + step * 32), matrix_descriptor_at(b, step * 32),
                step > 0);
          }
          warpgroup_commit();
          if constexpr (kTurns) {
            if (group_ == 0) named_barrier(kTurn, 256);
          }
          if constexpr (!FourScales::kSharedColumns) {
            if (block == 0) {
              columns.pass_on(piece_);
              // A slice ahead, into the registers that have just been read.
              columns.load(problem_, tile, first + slice + 1);
            }
          }
          const float upper = scales.of(block * 2, slice), lower = scales.of(block * 2 + 1, slice);
          // The next slice is there before these MMAs are, as a rule.
          if (block + 1 == kRowBlocks) {
            ring.advance();
            if (first + slice + 1 < tile.slices) barrier_wait(shared_.full + ring.stage, ring.parity);
          }
          warpgroup_wait<0>();
          if (block + 1 == kRowBlocks) release(stage);
          // Before the registers are multiplied into again, though nothing but registers says so.
#pragma clang loop unroll(full)
          for (int i = 0; i < kTile.n / 2; ++i) sums[i] = computed_here(sums[i]);
#pragma clang loop unroll(full)
          for (int i = 0; i < kTile.n / 2; ++i) {
            const float factor = i / 2 % 2 == 0 ? upper : lower;
            float& total = accumulators.totals[block][i];
            if constexpr (FourScales::kSharedColumns) {
              total = computed_here(total + sums[i] * factor);
            } else {
              total = computed_here(total + sums[i] * (factor * columns.of(i)));
            }
          }
        }
      }
    }
  }

  template <class Release>
  CAUSEWAY_INLINE void finish(Release&&, Accumulators&) {
    warpgroup_wait<0>();
  }

  CAUSEWAY_INLINE static auto& results(Accumulators& accumulators) { return accumulators.totals; }

 private:
  const Problem& problem_;
  const HopperGemmShared<Problem>& shared_;
  int group_, first_block_;
  float* piece_;
  FourScales next_scales_;  // of the tile's first slices
};
