// Matrix products of at most 16 rows, C[batch, m, n] = A[batch, m, k] B[batch, k, n], on architectures with mma.sync:
// each element of B is read once and multiplied by few, so reading it takes all the time. A block has some columns and
// all of k, of which each of its waves sums a part; B goes from memory straight into the registers of matrix
// instructions, as many bytes on their way at once as registers hold.
//
// Takes a Problem as matmul.h does, whose operands are bf16 or f16, A contiguous in k, both aligned; k is a multiple of
// thin_matmul_slice(), and m is known. In place of kTile and kSplits:
//
//   static constexpr int kColumns, kWaves    // of a block: 16, 32 or 64 columns
//
// The kernel is a CAUSEWAY_EARLY_KERNEL: B, which no launch of the program writes, is read while the launch before
// ends.
#pragma once

#include "causeway/kernels/gpu/matmul.h"
#include "causeway/kernels/gpu/thin_matmul_layout.h"

// A wave's sums. Which lane multiplies which columns and which k is free, as long as A's and B's agree: a lane takes
// what neighbours in memory. In the terms of nvidia_fragments.h it is lane `group` x 4 + `pair`.
template <class Problem>
struct ThinSums {
  using Operand = typename Problem::Operand;
  static constexpr bool kAlongK = Problem::B::kContiguousInK;
  static constexpr int kColumns = Problem::kColumns;
  static constexpr int kSlice = thin_matmul_slice(kAlongK);
  static constexpr bool kManyRows = Problem::m > 8;
  // Words of a slice that a lane holds. Along k a piece has 8 k of a column; otherwise one has the lane's columns of
  // one k, of which a lane has four.
  static constexpr int kLaneColumns = kColumns / 8;
  static constexpr int kPieces = kAlongK ? kLaneColumns : 4, kPieceWords = kAlongK ? 4 : kLaneColumns / 2;
  static constexpr int kRowWords = kSlice / 8;
  static constexpr int kWords = kPieces * kPieceWords + (kManyRows ? 2 : 1) * kRowWords;
  static constexpr int kMostWords = 54;  // in flight, beside the other registers of two blocks
  static constexpr int kMostSlices = 8;  // each has addresses
  static constexpr int kAtOnce = kMostWords / kWords < kMostSlices ? kMostWords / kWords : kMostSlices;

  struct Slice {
    uint32_t b[kPieces][kPieceWords];
    uint32_t a[kManyRows ? 2 : 1][kRowWords];
  };

  Accumulator sums[kColumns / 16] = {};

  template <int kCount>
  CAUSEWAY_INLINE static void load_words(uint32_t (&words)[kCount], const Operand* from) {
    __builtin_memcpy(words, __builtin_assume_aligned(from, 4 * kCount), 4 * kCount);
  }

  // a, b: the lane's first rows and columns, at the first k.
  struct Sources {
    const Operand* a[kManyRows ? 2 : 1];
    const Operand* b[kAlongK ? kPieces : 1];
  };
  // What lies beyond the last row or column is replaced by the first; what comes of it is not stored.
  CAUSEWAY_INLINE static Sources sources(const Problem& problem, int64_t batch, int first_column) {
    const int group = lane_index() / 4, pair = lane_index() % 4;
    Sources from;
    const Operand* a = problem.a.data + problem.a.batch_offset(batch);
#pragma clang loop unroll(full)
    for (int half = 0; half < (kManyRows ? 2 : 1); ++half) {
      const int row = group + 8 * half;
      from.a[half] = a + (row < Problem::m ? row : 0) * static_cast<int64_t>(problem.a.stride) + pair * (kSlice / 4);
    }
    const Operand* b = problem.b.data + problem.b.batch_offset(batch);
    if constexpr (kAlongK) {
#pragma clang loop unroll(full)
      for (int piece = 0; piece < kPieces; ++piece) {
        const int column = first_column + 8 * piece + group;
        from.b[piece] = b + (column < problem.n ? column : 0) * static_cast<int64_t>(problem.b.stride) + pair * 8;
      }
    } else {
      const int column = first_column + group * kLaneColumns;
      from.b[0] = b + (column < problem.n ? column : 0) + pair * 4 * static_cast<int64_t>(problem.b.stride);
    }
    return from;
  }

  CAUSEWAY_INLINE static void load_b(const Problem& problem, const Sources& from, int slice, Slice& to) {
    const int64_t k = static_cast<int64_t>(slice) * kSlice;
#pragma clang loop unroll(full)
    for (int piece = 0; piece < kPieces; ++piece)
      load_words(to.b[piece], kAlongK ? from.b[kAlongK ? piece : 0] + k
                                      : from.b[0] + (k + piece) * static_cast<int64_t>(problem.b.stride));
  }
  CAUSEWAY_INLINE static void load_a(const Sources& from, int slice, Slice& to) {
#pragma clang loop unroll(full)
    for (int half = 0; half < (kManyRows ? 2 : 1); ++half)
      load_words(to.a[half], from.a[half] + static_cast<int64_t>(slice) * kSlice);
  }

  // The halves of two words that have the same place in them, the first's below.
  CAUSEWAY_INLINE static uint32_t low_halves(uint32_t first, uint32_t second) {
    return (first & 0xffffu) | second << 16;
  }
  CAUSEWAY_INLINE static uint32_t high_halves(uint32_t first, uint32_t second) {
    return first >> 16 | (second & 0xffff0000u);
  }

  CAUSEWAY_INLINE void add(const Slice& slice) {
#pragma clang loop unroll(full)
    for (int part = 0; part < kSlice / 16; ++part) {
      FragmentA<Operand> a = {};
      a.v[0] = slice.a[0][2 * part];
      a.v[2] = slice.a[0][2 * part + 1];
      if constexpr (kManyRows) {
        a.v[1] = slice.a[1][2 * part];
        a.v[3] = slice.a[1][2 * part + 1];
      }
#pragma clang loop unroll(full)
      for (int j = 0; j < kColumns / 16; ++j) {
        FragmentB<Operand> b;
        if constexpr (kAlongK) {
          b.v[0] = slice.b[2 * j][2 * part];
          b.v[1] = slice.b[2 * j][2 * part + 1];
          b.v[2] = slice.b[2 * j + 1][2 * part];
          b.v[3] = slice.b[2 * j + 1][2 * part + 1];
        } else {
          b.v[0] = low_halves(slice.b[0][j], slice.b[1][j]);
          b.v[1] = low_halves(slice.b[2][j], slice.b[3][j]);
          b.v[2] = high_halves(slice.b[0][j], slice.b[1][j]);
          b.v[3] = high_halves(slice.b[2][j], slice.b[3][j]);
        }
        multiply_add(sums[j], a, b);
      }
    }
  }

  // In the block, of the e-th element of the j-th sums.
  CAUSEWAY_INLINE static int column(int j, int e) {
    const int in_instruction = accumulator_column(e);
    return kAlongK ? 16 * j + in_instruction : in_instruction % 8 * kLaneColumns + 2 * j + in_instruction / 8;
  }

  CAUSEWAY_INLINE void write(float* to) const {
#pragma clang loop unroll(full)
    for (int j = 0; j < kColumns / 16; ++j) {
#pragma clang loop unroll(full)
      for (int e = 0; e < kAccumulatorElements; ++e)
        if (accumulator_row(e) < Problem::m)
          to[accumulator_row(e) * thin_matmul_stride(kColumns) + column(j, e)] = sums[j].v[e] * kProductFactor<Operand>;
    }
  }
};

// One block.
template <class Problem>
CAUSEWAY_INLINE void thin_matmul_run(const Problem& problem, int task) {
  using Sums = ThinSums<Problem>;
  static_assert(Problem::m <= kThinMatmulRows && Problem::k % Sums::kSlice == 0);
  constexpr int kColumns = Problem::kColumns, kStride = thin_matmul_stride(kColumns);
  constexpr int kSlices = static_cast<int>(Problem::k / Sums::kSlice);
  const int n = static_cast<int>(problem.n), tiles = (n + kColumns - 1) / kColumns;
  const int64_t batch = task / tiles;
  const int first_column = task % tiles * kColumns;

  const typename Sums::Sources from = Sums::sources(problem, batch, first_column);
  Sums sums;
  // A wave's slices are Problem::kWaves apart; of those at hand each makes way for the one kAtOnce further on as soon
  // as it has been multiplied.
  typename Sums::Slice slices[Sums::kAtOnce];
#pragma clang loop unroll(full)
  for (int i = 0; i < Sums::kAtOnce; ++i) {
    const int slice = wave_index() + i * Problem::kWaves;
    if (slice < kSlices) Sums::load_b(problem, from, slice, slices[i]);
  }
  wait_for_launches();
#pragma clang loop unroll(full)
  for (int i = 0; i < Sums::kAtOnce; ++i) {
    const int slice = wave_index() + i * Problem::kWaves;
    if (slice < kSlices) Sums::load_a(from, slice, slices[i]);
  }
#pragma clang loop unroll(disable)
  for (int first = wave_index(); first < kSlices; first += Problem::kWaves * Sums::kAtOnce) {
#pragma clang loop unroll(full)
    for (int i = 0; i < Sums::kAtOnce; ++i) {
      const int slice = first + i * Problem::kWaves, next = slice + Sums::kAtOnce * Problem::kWaves;
      if (slice < kSlices) sums.add(slices[i]);
      if (next < kSlices) {
        Sums::load_b(problem, from, next, slices[i]);
        Sums::load_a(from, next, slices[i]);
      }
    }
  }

  float* of_waves = reinterpret_cast<float*>(shared_memory());
  constexpr int kRows = static_cast<int>(Problem::m);
  sums.write(of_waves + wave_index() * kRows * kStride);
  block_barrier();
  constexpr int kLanesOut = Problem::kStoreLanes;
  constexpr int kInRow = kColumns / kLanesOut;
#pragma clang loop unroll(disable)
  for (int piece = thread_index(); piece < kRows * kInRow; piece += Problem::kWaves * kWaveWidth) {
    const int row = piece / kInRow, column = piece % kInRow * kLanesOut;
    if (first_column + column >= n) continue;
    float values[kLanesOut] = {};
#pragma clang loop unroll(full)
    for (int wave = 0; wave < Problem::kWaves; ++wave) {
#pragma clang loop unroll(full)
      for (int e = 0; e < kLanesOut; ++e) values[e] += of_waves[(wave * kRows + row) * kStride + column + e];
    }
    matmul_fetch_and_store(problem, batch, row, first_column + column, values);
  }
}
