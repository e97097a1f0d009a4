// GEMMs of at most 16 rows, C[batch, m, n] = A[batch, m, k] B[batch, k, n], on architectures with mma.sync:
// each element of B is read once and multiplied by few, so reading it takes all the time. A block has some columns and
// all of k, or a part of it, of which each of its waves sums a part. Every lane copies into shared memory what it
// multiplies itself, so that many bytes are on their way without holding registers, and no barrier stands between them
// and the sums.
//
// The kernel is a CAUSEWAY_EARLY_KERNEL: B, which no launch of the program writes, is read while launches before it
// end, several of them where their blocks leave room.
#pragma once

#include "causeway/kernels/gpu/gemm.h"
#include "causeway/kernels/gpu/skinny_gemm_layout.h"
#if CAUSEWAY_NVIDIA >= 90
#include "causeway/kernels/gpu/hopper.h"
#endif

// Operands are bf16 or f16; m is known. kTile: k is a multiple of its parts times kSkinnyGemmSlice; more than one part
// where there are clusters: the launch's are of as many blocks.
template <class P>
concept SkinnyGemmProblem = GemmWithSizes<P> && GemmWithEpilogue<P> && LoadedGemmOperand<typename P::A> &&
                            LoadedGemmOperand<typename P::B> && P::A::kContiguousInK && P::B::kContiguousInK &&
                            P::A::kAligned && P::B::kAligned && SameType<decltype(P::kTile), SkinnyGemmTile>;

// A wave's sums. Which lane multiplies which k is free, as long as A's and B's agree: a lane takes what neighbours in
// memory. In the terms of nvidia_fragments.h it is lane `group` x 4 + `pair`.
template <class Problem>
class SkinnySums {
  using Operand = typename Problem::Operand;
  static constexpr SkinnyGemmTile kTile = Problem::kTile;
  static constexpr int kWaves = kTile.waves;
  static constexpr bool kManyRows = Problem::m > 8;
  static constexpr int kHalves = kManyRows ? 2 : 1;
  static constexpr int kPieces = kTile.columns / 8;
  static constexpr int kWords = 4;  // of a lane, of 8 columns or 8 rows of a slice
  static constexpr int kSlots = skinny_gemm_slots(kTile, static_cast<int>(Problem::m), Problem::k);
  static constexpr int kSlotBytes = kWaves * skinny_gemm_slice_bytes(kTile.columns);  // from a wave's one to its next
  static constexpr int64_t kDepth = Problem::k / kTile.parts;
  static constexpr int kSlices = static_cast<int>(kDepth / kSkinnyGemmSlice);
  // Slices whose rows are in registers: all of a wave's, or as many as leave room for a loop's variables.
  static constexpr int kOfWave = (kSlices + kWaves - 1) / kWaves;
  static constexpr int kRowSlices = kOfWave * kHalves <= 7 ? kOfWave : 4 / kHalves;

 public:
  CAUSEWAY_INLINE SkinnySums(const Problem& problem, int64_t batch, int first_column, int part) {
    const int group = lane_index() / 4, pair = lane_index() % 4;
    a_ = problem.a.data + problem.a.batch_offset(batch) + part * kDepth;
    b_ = problem.b.data + problem.b.batch_offset(batch) + part * kDepth;
    const uint32_t first = pair * 8 + wave_index() * kSkinnyGemmSlice;
    // What lies beyond the last row or column is replaced by the first; what comes of it is not stored.
#pragma clang loop unroll(full)
    for (int half = 0; half < kHalves; ++half) {
      const int row = group + 8 * half;
      rows_[half] = first + (row < Problem::m ? row : 0) * static_cast<uint32_t>(problem.a.stride);
    }
#pragma clang loop unroll(full)
    for (int piece = 0; piece < kPieces; ++piece) {
      const int column = first_column + 8 * piece + group;
      columns_[piece] = first + (column < problem.n ? column : 0) * static_cast<uint32_t>(problem.b.stride);
    }
    slots_ =
        shared_memory() + kTile.row_bytes + wave_index() * skinny_gemm_slice_bytes(kTile.columns) + lane_index() * 16;
  }

  // A wave's slices are kWaves apart. To be called before earlier launches are waited for:
  CAUSEWAY_INLINE void begin() {
#pragma clang loop unroll(full)
    for (int i = 0; i < kSlots; ++i) copy_columns(wave_index() + i * kWaves, i * kSlotBytes);
  }

  CAUSEWAY_INLINE void run() {
    const int first = wave_index();
    uint32_t rows[kRowSlices][kHalves][kWords];
#pragma clang loop unroll(full)
    for (int i = 0; i < kRowSlices; ++i) load_rows(first + i * kWaves, rows[i]);
    int slot = 0;
#pragma clang loop unroll(disable)
    for (int start = first; start < kSlices; start += kRowSlices * kWaves) {
#pragma clang loop unroll(full)
      for (int i = 0; i < kRowSlices; ++i) {
        const int slice = start + i * kWaves;
        if (slice >= kSlices) continue;
        copy_async_wait<kSlots - 1>();
        add(rows[i], slot);
        load_rows(slice + kRowSlices * kWaves, rows[i]);
        copy_columns(slice + kSlots * kWaves, slot);
        slot = slot + kSlotBytes == kSlots * kSlotBytes ? 0 : slot + kSlotBytes;
      }
    }
  }

  CAUSEWAY_INLINE void write(float* to) const {
#pragma clang loop unroll(full)
    for (int j = 0; j < kTile.columns / 16; ++j) {
#pragma clang loop unroll(full)
      for (int e = 0; e < kAccumulatorElements; ++e)
        if (accumulator_row(e) < Problem::m)
          to[accumulator_row(e) * skinny_gemm_stride(kTile.columns) + 16 * j + accumulator_column(e)] =
              sums_[j].v[e] * kMmaFactor<Operand>;
    }
  }

 private:
  // The next slice's, if it is one; a group of copies in any case.
  CAUSEWAY_INLINE void copy_columns(int slice, int slot) {
    if (slice < kSlices) {
#pragma clang loop unroll(full)
      for (int piece = 0; piece < kPieces; ++piece)
        copy_async_16(slots_ + slot + piece * kSkinnyGemmPieceBytes, b_ + columns_[piece], true);
    }
#pragma clang loop unroll(full)
    for (int piece = 0; piece < kPieces; ++piece) columns_[piece] += kWaves * kSkinnyGemmSlice;
    copy_async_commit();
  }
  CAUSEWAY_INLINE void load_rows(int slice, uint32_t (&to)[kHalves][kWords]) {
#pragma clang loop unroll(full)
    for (int half = 0; half < kHalves; ++half) {
      if (slice < kSlices) __builtin_memcpy(to[half], __builtin_assume_aligned(a_ + rows_[half], 16), 16);
      rows_[half] += kWaves * kSkinnyGemmSlice;
    }
  }

  CAUSEWAY_INLINE void add(const uint32_t (&rows)[kHalves][kWords], int slot) {
    uint32_t columns[kPieces][kWords];
#pragma clang loop unroll(full)
    for (int piece = 0; piece < kPieces; ++piece)
      __builtin_memcpy(columns[piece], __builtin_assume_aligned(slots_ + slot + piece * kSkinnyGemmPieceBytes, 16), 16);
#pragma clang loop unroll(full)
    for (int part = 0; part < kSkinnyGemmSlice / 16; ++part) {
      FragmentA<Operand> a = {};
      a.v[0] = rows[0][2 * part];
      a.v[2] = rows[0][2 * part + 1];
      if constexpr (kManyRows) {
        a.v[1] = rows[1][2 * part];
        a.v[3] = rows[1][2 * part + 1];
      }
#pragma clang loop unroll(full)
      for (int j = 0; j < kTile.columns / 16; ++j) {
        FragmentB<Operand> b;
        b.v[0] = columns[2 * j][2 * part];
        b.v[1] = columns[2 * j][2 * part + 1];
        b.v[2] = columns[2 * j + 1][2 * part];
        b.v[3] = columns[2 * j + 1][2 * part + 1];
        multiply_add(sums_[j], a, b);
      }
    }
  }

  const Operand *a_, *b_;
  // From there, in elements, of the next slice that is loaded or copied.
  uint32_t rows_[kHalves], columns_[kPieces];
  char* slots_;
  Accumulator sums_[kTile.columns / 16] = {};
};

// One block. Where it computes A, that is what compute_rows does, with all of the block's threads.
template <SkinnyGemmProblem Problem, class ComputeRows>
CAUSEWAY_INLINE void skinny_gemm_run(const Problem& problem, int task, ComputeRows&& compute_rows) {
  constexpr SkinnyGemmTile kTile = Problem::kTile;
  constexpr int kRows = static_cast<int>(Problem::m), kThreads = kTile.waves * kWaveWidth;
  static_assert(kRows <= kSkinnyGemmRows && Problem::k % (kTile.parts * kSkinnyGemmSlice) == 0);
  static_assert(Problem::A::kContiguousInK && Problem::B::kContiguousInK);
  constexpr int kSumsOfWave = kRows * skinny_gemm_stride(kTile.columns);
  const int n = static_cast<int>(problem.n), tiles = (n + kTile.columns - 1) / kTile.columns;
  const int part = task % kTile.parts, tile = task / kTile.parts;
  const int64_t batch = tile / tiles;
  const int first_column = tile % tiles * kTile.columns;

  SkinnySums<Problem> sums(problem, batch, first_column, part);
  sums.begin();
#if CAUSEWAY_NVIDIA >= 90
  if constexpr (kTile.parts > 1) cluster_barrier();  // the block that gathers sums has begun
#endif
  wait_for_launches();

  // A thread stores these elements, in the cluster's first block; what else goes into them is on its way meanwhile.
  constexpr int kOutputs = kRows * kTile.columns, kOfThread = (kOutputs + kThreads - 1) / kThreads;
  typename Problem::Fetched fetched[kOfThread];
  typename Problem::FetchedColumns fetched_columns[kOfThread];
  bool stores[kOfThread];
#pragma clang loop unroll(full)
  for (int i = 0; i < kOfThread; ++i) {
    const int output = thread_index() + i * kThreads, column = first_column + output % kTile.columns;
    stores[i] = output < kOutputs && column < n;
    if (!stores[i] || part != 0) continue;
    problem.template fetch<1>(batch, output / kTile.columns, column, fetched[i]);
    problem.template fetch_columns<1>(column, fetched_columns[i]);
  }
  if constexpr (kTile.row_bytes > 0) {
    compute_rows();
    block_barrier();
  }
  sums.run();
  block_barrier();  // what lies where sums go has been multiplied
  float* of_waves = reinterpret_cast<float*>(shared_memory() + kTile.row_bytes);
  sums.write(of_waves + wave_index() * kSumsOfWave);
  block_barrier();

  float* of_parts =
      reinterpret_cast<float*>(shared_memory() + kTile.row_bytes + skinny_gemm_slices_bytes(kTile, kRows, Problem::k));
  float values[kOfThread][1] = {};
#pragma clang loop unroll(full)
  for (int i = 0; i < kOfThread; ++i) {
    if (!stores[i]) continue;
    const int output = thread_index() + i * kThreads;
    const int at = output / kTile.columns * skinny_gemm_stride(kTile.columns) + output % kTile.columns;
#pragma clang loop unroll(full)
    for (int wave = 0; wave < kTile.waves; ++wave) values[i][0] += of_waves[wave * kSumsOfWave + at];
#if CAUSEWAY_NVIDIA >= 90
    if (part != 0) store_in_block(of_parts + (part - 1) * kOutputs + output, 0, values[i][0]);
#endif
  }
#if CAUSEWAY_NVIDIA >= 90
  if constexpr (kTile.parts > 1) cluster_barrier();
#endif
  if (part != 0) return;
#pragma clang loop unroll(full)
  for (int i = 0; i < kOfThread; ++i) {
    if (!stores[i]) continue;
    const int output = thread_index() + i * kThreads;
#pragma clang loop unroll(full)
    for (int other = 1; other < kTile.parts; ++other) values[i][0] += of_parts[(other - 1) * kOutputs + output];
    problem.store(batch, output / kTile.columns, first_column + output % kTile.columns, values[i], fetched[i],
                  fetched_columns[i]);
  }
}
