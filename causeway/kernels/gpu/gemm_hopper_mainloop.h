// Mainloops of GEMMs on Hopper (gemm_hopper.h): what a consumer warpgroup does with the slices of one tile. Each has
//
//   struct Accumulators              // of one tile, in registers
//   Mainloop(problem, shared, group, first_block, piece)    // `first_block`: its first 64 rows of a tile;
//                                    // `piece`: the warp's room for results, free while slices are multiplied
//   prepare(scheduler, index, rank)  // before tile `index` is waited for, if it is one
//   multiply(tile, ring, release, accumulators)    // release(stage): hands a stage back
//   finish(release, accumulators)    // waits for the MMAs that are under way
//   results(accumulators)            // float[kRowBlocks][kTile.n / 2], as wgmma lays them out
//   kUsesRoomOfResults               // whether `piece` is used
//   kRegisters                       // of a thread, for accumulators
//
// Inlined, with what they call, to one piece: MMAs under way write the accumulators' registers, and the waits, releases
// and turns between them are ordered against one another. Accumulators are of one turn of the loop over tiles, so that
// none is kept over an epilogue.
#pragma once

#include "causeway/kernels/gpu/gemm_hopper_producer.h"

// Where the operands are in shared memory, for a warpgroup.
template <class Problem>
struct HopperGemmOperands {
  static constexpr HopperGemmTile kTile = Problem::kTile;
  uint64_t stage_0_a, stage_0_b;

  CAUSEWAY_INLINE HopperGemmOperands(const HopperGemmShared<Problem>& shared, int first_block)
      : stage_0_a(shared.descriptor_a(first_block)), stage_0_b(shared.descriptor_b()) {}
  CAUSEWAY_INLINE uint64_t a(int stage) const {
    return matrix_descriptor_at(stage_0_a, stage * hopper_gemm_stage_bytes(kTile));
  }
  CAUSEWAY_INLINE uint64_t b(int stage) const {
    return matrix_descriptor_at(stage_0_b, stage * hopper_gemm_stage_bytes(kTile));
  }
};

// The MMAs of one slice, of all of a warpgroup's 64 rows. `begins`: they do not add to the accumulators.
template <class Problem>
CAUSEWAY_INLINE void hopper_gemm_multiply_slice(
    const HopperGemmOperands<Problem>& operands, int stage, bool begins,
    float (&sums)[hopper_gemm_row_blocks(Problem::kTile)][Problem::kTile.n / 2]) {
  constexpr HopperGemmTile kTile = Problem::kTile;
  constexpr int kDepth = kHopperGemmDepth, kBoxBytes = HopperGemmShared<Problem>::kBoxBytes;
  constexpr bool kATransposed = !Problem::A::kContiguousInK, kBTransposed = !Problem::B::kContiguousInK;
  const uint64_t a = operands.a(stage), b = operands.b(stage);
  warpgroup_fence();
#pragma clang loop unroll(full)
  for (int step = 0; step < kDepth / 16; ++step) {
    // The next 16 of k, 8 of floats: 32 bytes along lines, or 16 rows of 128 bytes.
    const int a_step = step * (kATransposed ? 16 * 128 : 32), b_step = step * (kBTransposed ? 16 * 128 : 32);
#pragma clang loop unroll(full)
    for (int block = 0; block < hopper_gemm_row_blocks(kTile); ++block)
      warpgroup_multiply_add<typename Problem::Operand, kTile.n, kATransposed, kBTransposed>(
          sums[block], matrix_descriptor_at(a, block * kBoxBytes + a_step), matrix_descriptor_at(b, b_step),
          !begins || step > 0);
  }
  warpgroup_commit();
}

// Both operands from shared memory, the MMAs of two slices under way.
template <class Problem>
class HopperGemmMainloop {
  static constexpr HopperGemmTile kTile = Problem::kTile;
  static constexpr int kRowBlocks = hopper_gemm_row_blocks(kTile);

 public:
  static constexpr bool kUsesRoomOfResults = false;
  static constexpr int kRegisters = kRowBlocks * kTile.n / 2;
  struct Accumulators {
    float sums[kRowBlocks][kTile.n / 2];
    int before = -1;  // the stage that MMAs under way may still read
  };

  CAUSEWAY_INLINE HopperGemmMainloop(const Problem&, const HopperGemmShared<Problem>& shared, int, int first_block,
                                     float*)
      : shared_(shared), operands_(shared, first_block) {}

  CAUSEWAY_INLINE void prepare(const HopperGemmTileScheduler<Problem>&, int, int) {}

  template <class Release>
  CAUSEWAY_INLINE void multiply(const HopperGemmPosition& tile, StageRing<kTile.stages>& ring, Release&& release,
                                Accumulators& accumulators) {
    const int slices = tile.slices;
#pragma clang loop unroll(disable)
    for (int slice = 0; slice < slices; ++slice) {
      barrier_wait(shared_.full + ring.stage, ring.parity);
      hopper_gemm_multiply_slice(operands_, ring.stage, slice == 0, accumulators.sums);
      // The slice before has been read when only this one's MMAs are under way.
      warpgroup_wait<1>();
      if (accumulators.before >= 0) release(accumulators.before);
      accumulators.before = ring.stage;
      ring.advance();
    }
  }

  template <class Release>
  CAUSEWAY_INLINE void finish(Release&& release, Accumulators& accumulators) {
    warpgroup_wait<0>();
    if (accumulators.before >= 0) release(accumulators.before);
  }

  CAUSEWAY_INLINE static auto& results(Accumulators& accumulators) { return accumulators.sums; }

 private:
  const HopperGemmShared<Problem>& shared_;
  HopperGemmOperands<Problem> operands_;
};

// Accumulators of 8-bit MMAs lose bits as they grow (14 are kept when a number is added), so that those of a few slices
// are promoted, added up in float: 512 of k. ("DeepSeek-V3 Technical Report", section 3.3.2.)
constexpr int kHopperGemmPromotedSlices = 4;

template <class Problem>
class HopperGemmPromotedMainloop {
  static constexpr HopperGemmTile kTile = Problem::kTile;
  static constexpr int kRowBlocks = hopper_gemm_row_blocks(kTile);
  static_assert(!kTile.ping_pong && kRowBlocks == 1);

 public:
  static constexpr bool kUsesRoomOfResults = false;
  static constexpr int kRegisters = (kRowBlocks + 1) * kTile.n / 2;
  struct Accumulators {
    float sums[kRowBlocks][kTile.n / 2];
    float totals[kRowBlocks][kTile.n / 2];
    int before;  // the stage that MMAs under way may still read
  };

  CAUSEWAY_INLINE HopperGemmPromotedMainloop(const Problem&, const HopperGemmShared<Problem>& shared, int group,
                                             int first_block, float*)
      : shared_(shared), operands_(shared, first_block), lead_(kHopperGemmPromotedSlices / 2 * group) {}

  CAUSEWAY_INLINE void prepare(const HopperGemmTileScheduler<Problem>&, int, int) {}

  template <class Release>
  CAUSEWAY_INLINE void multiply(const HopperGemmPosition& tile, StageRing<kTile.stages>& ring, Release&& release,
                                Accumulators& accumulators) {
    auto& [sums, totals, last] = accumulators;
#pragma clang loop unroll(full)
    for (int i = 0; i < kTile.n / 2; ++i) totals[0][i] = 0;
    const auto ends_sum = [&](int slices) { return (slices + lead_) % kHopperGemmPromotedSlices == 0; };
    int before = -1;
#pragma clang loop unroll(disable)
    for (int slice = 0; slice < tile.slices; ++slice) {
      barrier_wait(shared_.full + ring.stage, ring.parity);
      hopper_gemm_multiply_slice(operands_, ring.stage, slice == 0 || ends_sum(slice), sums);
      if (ends_sum(slice + 1) || slice + 1 == tile.slices) {
        warpgroup_wait<0>();
        if (before >= 0) release(before);
        release(ring.stage);
        before = -1;
        ring.advance();
#pragma clang loop unroll(full)
        for (int i = 0; i < kTile.n / 2; ++i) totals[0][i] += sums[0][i];
        continue;
      }
      warpgroup_wait<1>();
      if (before >= 0) release(before);
      before = ring.stage;
      ring.advance();
    }
    last = before;
  }

  template <class Release>
  CAUSEWAY_INLINE void finish(Release&& release, Accumulators& accumulators) {
    warpgroup_wait<0>();
    if (accumulators.before >= 0) release(accumulators.before);
  }

  CAUSEWAY_INLINE static auto& results(Accumulators& accumulators) { return accumulators.totals; }

 private:
  const HopperGemmShared<Problem>& shared_;
  HopperGemmOperands<Problem> operands_;
  // The second warpgroup's first sum is of half as many slices, so that one multiplies while the other adds up.
  int lead_;
};

// A from registers, 64 rows of it, B from shared memory: A has lines of floats side by side, which MMAs take from
// registers alone. Those of the next slice are loaded beside the MMAs.
template <class Problem>
class HopperGemmRegisterMainloop {
  using Operand = typename Problem::Operand;
  static constexpr HopperGemmTile kTile = Problem::kTile;
  static constexpr int kSteps = kHopperGemmDepth / 16, kLines = hopper_gemm_slice_k(sizeof(Operand));
  static_assert(hopper_gemm_row_blocks(kTile) == 1 && !kTile.ping_pong);

 public:
  static constexpr bool kUsesRoomOfResults = false;
  static constexpr int kRegisters = kTile.n / 2;
  struct Accumulators {
    float sums[1][kTile.n / 2];
  };

  CAUSEWAY_INLINE HopperGemmRegisterMainloop(const Problem&, const HopperGemmShared<Problem>& shared, int,
                                             int first_block, float*)
      : shared_(shared), first_block_(first_block) {}

  CAUSEWAY_INLINE void prepare(const HopperGemmTileScheduler<Problem>&, int, int) {}

  template <class Release>
  CAUSEWAY_INLINE void multiply(const HopperGemmPosition& tile, StageRing<kTile.stages>& ring, Release&& release,
                                Accumulators& accumulators) {
    const int lane = lane_index(), first_line = first_block_ * 64 + thread_index() % 128 / 32 * 16 + lane / 4;
    const uint64_t stage_0_b = shared_.descriptor_b();
    uint32_t a[kSteps][4], next[kSteps][4];
    const auto load = [&](uint32_t (&to)[kSteps][4]) {
      barrier_wait(shared_.full + ring.stage, ring.parity);
      const char* lines = shared_.stages + ring.stage * hopper_gemm_stage_bytes(kTile);
#pragma clang loop unroll(full)
      for (int step = 0; step < kSteps; ++step)
#pragma clang loop unroll(full)
        for (int i = 0; i < 4; ++i) {
          const int line = first_line + i % 2 * 8, k = lane % 4 + i / 2 * 4;  // of a step's 8
          const int piece = line % kLines / 4 ^ k;
          to[step][i] = *reinterpret_cast<const uint32_t*>(lines + line / kLines * (kLines * 128) +
                                                           (step * 8 + k) * 128 + piece * 16 + line % 4 * 4);
        }
    };
    load(a);
#pragma clang loop unroll(disable)
    for (int slice = 0; slice < tile.slices; ++slice) {
      const int stage = ring.stage;
      const uint64_t b = matrix_descriptor_at(stage_0_b, stage * hopper_gemm_stage_bytes(kTile));
      warpgroup_fence();
#pragma clang loop unroll(full)
      for (int step = 0; step < kSteps; ++step)
        warpgroup_multiply_add<Operand, kTile.n, false>(accumulators.sums[0], a[step],
                                                        matrix_descriptor_at(b, step * 32), slice + step > 0);
      warpgroup_commit();
      ring.advance();
      if (slice + 1 < tile.slices) load(next);
      warpgroup_wait<0>();
      // What the warp's other lanes have loaded is read, too.
      wave_barrier();
      release(stage);
#pragma clang loop unroll(full)
      for (int step = 0; step < kSteps; ++step)
#pragma clang loop unroll(full)
        for (int i = 0; i < 4; ++i) a[step][i] = next[step][i];
    }
  }

  template <class Release>
  CAUSEWAY_INLINE void finish(Release&&, Accumulators&) {
    warpgroup_wait<0>();
  }

  CAUSEWAY_INLINE static auto& results(Accumulators& accumulators) { return accumulators.sums; }

 private:
  const HopperGemmShared<Problem>& shared_;
  int first_block_;
};
