// GEMMs of 16-bit operands on CDNA 2 and CDNA 3, for the Problem of gemm_problem.h with a ping-pong
// tile: two rows of four waves, one of each row on every SIMD (if waves are dealt out to SIMDs in turns, as is
// assumed), are half a turn apart, so that one multiplies while the other loads what it multiplies next. After the
// eight-wave ping-pong schedule that HipKittens describes, with these differences: a slice is 32 of k and not 64, and
// shared memory holds two of them, so that the slice after is stored beside the loads of this one and no turn passes
// without MMAs; fragments are loaded 16 bytes at a time, with the k of both operands exchanged alike.
//
//   turn        row 0                                       row 1
//   2 s         loads slice s, stores its part of s + 1,    multiplies slice s - 1
//               asks device memory for its part of s + 2
//   2 s + 1     multiplies slice s                          loads, stores and asks as row 0 did
//
// What is stored of slice s + 1 takes the place of slice s - 1, which row 1 has loaded a turn before row 0 stores.
#pragma once

#include "causeway/kernels/gpu/cdna.h"
#include "causeway/kernels/gpu/gemm.h"

// Lines of 64 bytes along k. Pieces of 16 bytes are exchanged by the number of the pair of lines, so that eight
// neighbouring lines' pieces of the same k lie in different banks.
template <class Operand, int kLines, int kDepth, bool kKMajor>
struct ExchangedSlice {
  static_assert(kKMajor && kDepth * sizeof(Operand) == 64);
  static constexpr int kStride = kDepth, kBytes = kLines * 64, kPiece = 16 / sizeof(Operand);
  CAUSEWAY_INLINE static int place(int line, int depth) {
    return line * kStride + ((depth / kPiece) ^ (line / 2 % 4)) * kPiece + depth % kPiece;
  }
};

// The sums of one wave. A fragment is two of the instructions': 16 lines of 32 k, of which a lane has the eight k from
// 8 (lane / 16) on of line lane % 16, where the first instruction takes four and the second the rest.
template <class Operand, int kM, int kN>
struct CdnaSums {
  static constexpr int kRowTiles = kM / 16, kColumnTiles = kN / 16;
  Accumulator sums[kRowTiles][kColumnTiles] = {};
  GemmPiece a[kRowTiles], b[kColumnTiles];

  // a_slice, b_slice: slices, of which the wave has the lines from a_line and b_line on.
  template <class StageA, class StageB>
  CAUSEWAY_INLINE void load(const Operand* a_slice, int a_line, const Operand* b_slice, int b_line) {
    // Where it is depends on the last three bits of the line, which are the lane's.
    const int place = StageA::Places::place(lane_index() % 16, lane_index() / 16 * 8);
    static_assert(StageA::kStride == StageB::kStride);
#pragma clang loop unroll(full)
    for (int j = 0; j < kColumnTiles; ++j) b[j] = load_piece(b_slice + (b_line + j * 16) * StageB::kStride + place);
#pragma clang loop unroll(full)
    for (int i = 0; i < kRowTiles; ++i) a[i] = load_piece(a_slice + (a_line + i * 16) * StageA::kStride + place);
  }

  template <class Fragment>
  CAUSEWAY_INLINE static Fragment half_of(const GemmPiece& piece, int half) {
    Fragment halves[2];
    static_assert(sizeof(halves) == sizeof(piece));
    __builtin_memcpy(halves, &piece, sizeof(piece));
    return halves[half];
  }
  CAUSEWAY_INLINE void add() {
#pragma clang loop unroll(full)
    for (int half = 0; half < 2; ++half)
#pragma clang loop unroll(full)
      for (int i = 0; i < kRowTiles; ++i)
#pragma clang loop unroll(full)
        for (int j = 0; j < kColumnTiles; ++j)
          multiply_add(sums[i][j], half_of<FragmentA<Operand>>(a[i], half), half_of<FragmentB<Operand>>(b[j], half));
  }

  // Writes rows 16 strip .. 16 strip + 15.
  template <int kStride>
  CAUSEWAY_INLINE void write_strip(int strip, float* to) const {
#pragma clang loop unroll(full)
    for (int j = 0; j < kColumnTiles; ++j)
#pragma clang loop unroll(full)
      for (int e = 0; e < kAccumulatorElements; ++e)
        to[accumulator_row(e) * kStride + j * 16 + accumulator_column(e)] = sums[strip][j].v[e];
  }
};

// One block: a tile of C, or of one split's sums.
template <GemmProblem Problem>
CAUSEWAY_INLINE void cdna_gemm_run(const Problem& problem, int task) {
  using Operand = typename Problem::Operand;
  constexpr GpuGemmTile kTile = Problem::kTile;
  constexpr int kThreads = gpu_gemm_waves(kTile) * kWaveWidth;
  constexpr bool kWholeSlices = requires { requires Problem::k % kTile.k == 0; };
  static_assert(kTile.ping_pong && kTile.stages == 2 && kTile.m == 2 * kTile.wave_m && kTile.n == 4 * kTile.wave_n);
  using StageA = OperandStage<typename Problem::A, Operand, kTile.m, kTile.k, kThreads, ExchangedSlice>;
  using StageB = OperandStage<typename Problem::B, Operand, kTile.n, kTile.k, kThreads, ExchangedSlice>;

  const int m = static_cast<int>(problem.m), n = static_cast<int>(problem.n), k = static_cast<int>(problem.k);
  constexpr int kGroup = 4;  // as many rows of tiles as a chiplet's cache holds lines of, beside those of B
  const GemmPosition tile(task, (m + kTile.m - 1) / kTile.m, (n + kTile.n - 1) / kTile.n, Problem::kSplits,
                          static_cast<int>(problem.batch), kGroup);
  const int split_k = static_cast<int>(gpu_gemm_split_k(k, Problem::kSplits, kTile.k));
  const int k_begin = Problem::kSplits == 1 ? 0 : tile.split * split_k;
  const int k_end = Problem::kSplits == 1 || k_begin + split_k > k ? k : k_begin + split_k;
  const int slices = k_end > k_begin ? (k_end - k_begin + kTile.k - 1) / kTile.k : 0;

  const auto a_slice = [&](int slice) {
    return reinterpret_cast<Operand*>(shared_memory() + slice % 2 * (StageA::kBytes + StageB::kBytes));
  };
  const auto b_slice = [&](int slice) { return a_slice(slice) + StageA::kBytes / sizeof(Operand); };
  StageA a(problem.a, tile.batch, tile.m * kTile.m, m);
  StageB b(problem.b, tile.batch, tile.n * kTile.n, n);
  const auto fetch = [&](int slice) {
    if (slice >= slices) return;
    a.template fetch<kWholeSlices>(a_slice(slice), k_begin + slice * kTile.k, k_end);
    b.template fetch<kWholeSlices>(b_slice(slice), k_begin + slice * kTile.k, k_end);
  };
  const auto put = [&](int slice) {
    if (slice >= slices) return;
    a.put(a_slice(slice));
    b.put(b_slice(slice));
  };
  const int wave = same_in_wave(wave_index());
  const int row = wave / 4, a_line = row * kTile.wave_m, b_line = wave % 4 * kTile.wave_n;
  CdnaSums<Operand, kTile.wave_m, kTile.wave_n> sums;

  fetch(0);
  put(0);
  fetch(1);
  turn_barrier();
  if (row == 1) turn_barrier();
#pragma clang loop unroll(disable)
  for (int slice = 0; slice < slices; ++slice) {
    sums.template load<StageA, StageB>(a_slice(slice), a_line, b_slice(slice), b_line);
    put(slice + 1);
    fetch(slice + 2);
    turn_barrier();
    wave_priority<1>();
    sums.add();
    wave_priority<0>();
    ping_pong_barrier_after_mma();
  }
  if (row == 0) turn_barrier();

  constexpr int kStripElements = kGpuGemmStripRows * gpu_gemm_strip_stride(kTile.wave_n);
  gemm_store_sums<kTile.wave_m, kTile.wave_n>(problem, tile, tile.m * kTile.m + a_line, tile.n * kTile.n + b_line, m,
                                              sums, reinterpret_cast<float*>(shared_memory()) + wave * kStripElements);
}
