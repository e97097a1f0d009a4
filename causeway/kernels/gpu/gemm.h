// GEMMs on GPUs: C[batch, m, n] = A[batch, m, k] B[batch, k, n], accumulated in float, for every architecture that has
// intrinsics.h and the Problem of gemm_problem.h. Operands are copied into shared memory in slices of k while the slice
// before is multiplied.
#pragma once

#include "causeway/kernels/gpu/gemm_layout.h"
#include "causeway/kernels/gpu/gemm_problem.h"
#include "causeway/kernels/gpu/intrinsics.h"

template <class P>
concept GemmProblem = GemmWithSizes<P> && GemmWithEpilogue<P> && LoadedGemmOperand<typename P::A> &&
                      LoadedGemmOperand<typename P::B> && SameType<decltype(P::kTile), GpuGemmTile>;

template <bool kFirst, class First, class Second>
struct ChooseType {
  using Type = First;
};
template <class First, class Second>
struct ChooseType<false, First, Second> {
  using Type = Second;
};

template <class Operand>
CAUSEWAY_INLINE Operand operand_from_float(float value) {
  if constexpr (__is_same(Operand, bf16)) {
    return to_bf16(value);
  } else if constexpr (__is_same(Operand, f16)) {
    return to_f16(value);
  } else {
    return value;
  }
}

typedef Vector<uint32_t, 4> GemmPiece;  // 16 bytes
CAUSEWAY_INLINE GemmPiece load_piece(const void* from) {
  GemmPiece piece;
  __builtin_memcpy(&piece, __builtin_assume_aligned(from, 16), 16);
  return piece;
}
CAUSEWAY_INLINE void store_piece(void* to, const GemmPiece& piece) {
  __builtin_memcpy(__builtin_assume_aligned(to, 16), &piece, 16);
}

// The same from any address: put together from the two aligned pieces that hold it. Reads up to 16 bytes beyond.
CAUSEWAY_INLINE GemmPiece load_unaligned_piece(const void* from) {
  typedef Vector<uint64_t, 2> Halves;
  const int shift = static_cast<int>(reinterpret_cast<uint64_t>(from) % 16);
  const char* aligned = static_cast<const char*>(from) - shift;
  const Halves low = __builtin_bit_cast(Halves, load_piece(aligned));
  const Halves high = __builtin_bit_cast(Halves, load_piece(aligned + 16));
  const uint64_t first = shift < 8 ? low[0] : low[1];
  const uint64_t second = shift < 8 ? low[1] : high[0];
  const uint64_t third = shift < 8 ? high[0] : high[1];
  const int bits = shift % 8 * 8;
  const Halves result = {first >> bits | second << 1 << (63 - bits), second >> bits | third << 1 << (63 - bits)};
  return __builtin_bit_cast(GemmPiece, result);
}

#if defined(CAUSEWAY_NVIDIA)
constexpr bool kCopiesAsynchronously = true;
#else
constexpr bool kCopiesAsynchronously = false;
#endif

// A slice in shared memory, kLines x kDepth: lines along k, or rows of neighbouring lines, padded so that no bank is
// met twice.
template <class Operand, int kLines, int kDepth, bool kKMajor>
struct PaddedSlice {
  static constexpr int kStride = gpu_gemm_stride(kKMajor ? kDepth : kLines, sizeof(Operand));
  static constexpr int kBytes = gpu_gemm_slice_bytes(kLines, kDepth, kKMajor, sizeof(Operand));
  CAUSEWAY_INLINE static int place(int line, int depth) {
    return kKMajor ? line * kStride + depth : depth * kStride + line;
  }
};

// Copies slices of an operand, kLines x kDepth, into shared memory: fetch() begins, put() ends it. Where the copy is
// asynchronous, fetch() is all of it.
template <class Source, class Operand, int kLines, int kDepth, int kThreads,
          template <class, int, int, bool> class Slice = PaddedSlice>
struct OperandStage {
  static constexpr int kPiece = 16 / sizeof(Operand);
  static constexpr bool kAsynchronous =
      kCopiesAsynchronously && Source::kAligned && __is_same(typename Source::Element, Operand);
  // AMD's fragments are loaded from lines along k only; others are transposed on their way through registers.
  static constexpr bool kTransposes = !kCopiesAsynchronously && !Source::kContiguousInK;
  static constexpr bool kKMajor = Source::kContiguousInK || kTransposes;
  using Places = Slice<Operand, kLines, kDepth, kKMajor>;
  static constexpr int kStride = Places::kStride, kBytes = Places::kBytes;
  static constexpr int kPieces = kLines * kDepth / kPiece;
  static constexpr int kHeld = (kPieces + kThreads - 1) / kThreads;  // pieces of each thread
  // Pieces of neighbouring k that one thread transposes together, so that it writes 4 or 8 bytes at once.
  static constexpr int kTogether = !kTransposes ? 1 : kHeld >= 4 ? 4 : kHeld >= 2 ? 2 : 1;

  const Source& source;
  const typename Source::Element* matrix;
  int first_line;
  int lines;  // of the whole operand
  GemmPiece held[kAsynchronous ? 1 : kHeld];

  CAUSEWAY_INLINE OperandStage(const Source& operand, int64_t batch, int64_t first, int64_t line_count)
      : source(operand),
        matrix(operand.data + operand.batch_offset(batch)),
        first_line(static_cast<int>(first)),
        lines(static_cast<int>(line_count)) {}

  // Where piece `i` of this thread begins, in the slice.
  CAUSEWAY_INLINE static void position(int i, int& line, int& depth) {
    if constexpr (kTransposes) {
      const int group = thread_index() + i / kTogether * kThreads;
      depth = group % (kDepth / kTogether) * kTogether + i % kTogether;
      line = group / (kDepth / kTogether) * kPiece;
    } else {
      const int piece = thread_index() + i * kThreads;
      constexpr int kInLine = (Source::kContiguousInK ? kDepth : kLines) / kPiece;
      line = Source::kContiguousInK ? piece / kInLine : piece % kInLine * kPiece;
      depth = Source::kContiguousInK ? piece % kInLine * kPiece : piece / kInLine;
    }
  }
  CAUSEWAY_INLINE static bool is_whole(int line, int depth) {
    return (kPieces % kThreads == 0 && kHeld % kTogether == 0) || (line < kLines && depth < kDepth);
  }

  // k_end: the first k that does not count. kWholeSlices: it is a slice's end.
  template <bool kWholeSlices = false>
  CAUSEWAY_INLINE void fetch(Operand* shared, int first_k, int k_end) {
#pragma clang loop unroll(full)
    for (int i = 0; i < kHeld; ++i) {
      int slice_line, slice_depth;
      position(i, slice_line, slice_depth);
      const int line = first_line + slice_line, depth = first_k + slice_depth;
      const auto address = [&](int at) {
        return matrix + (Source::kContiguousInK ? at * static_cast<int64_t>(source.stride) + depth
                                                : depth * static_cast<int64_t>(source.stride) + at);
      };
      if constexpr (kAsynchronous) {
        const bool valid = line < lines && depth < k_end;
        if (is_whole(slice_line, slice_depth))
          copy_async_16(shared + Places::place(slice_line, slice_depth), valid ? address(line) : source.data, valid);
      } else if constexpr (Source::kAligned && __is_same(typename Source::Element, Operand)) {
        // Of lines beyond the operand's nothing is stored: any others do.
        const int last = lines - (Source::kContiguousInK ? 1 : kPiece);
        const auto* from = address(line < last ? line : last);
        if constexpr (kWholeSlices && kPieces % kThreads == 0 && kHeld % kTogether == 0) {
          held[i] = load_piece(from);
        } else {
          held[i] = GemmPiece(0);
          if (depth < k_end && is_whole(slice_line, slice_depth)) held[i] = load_piece(from);
        }
      } else {
        held[i] = load_elements(address(line), line, depth, k_end);
      }
    }
  }

  // The piece at `from`, one element at a time where it reaches over an edge.
  CAUSEWAY_INLINE GemmPiece load_elements(const typename Source::Element* from, int line, int depth, int k_end) const {
    constexpr bool kSame = __is_same(typename Source::Element, Operand);
    if constexpr (kSame) {
      // Within the last line, what follows may be outside of the buffer.
      const bool whole = Source::kContiguousInK ? line + 1 < lines && depth + kPiece <= k_end
                                                : depth + 1 < k_end && line + kPiece <= lines;
      if (whole && source.stride >= kPiece) return load_unaligned_piece(from);
    }
    Operand elements[kPiece];
#pragma clang loop unroll(full)
    for (int e = 0; e < kPiece; ++e) {
      const bool inside =
          Source::kContiguousInK ? line < lines && depth + e < k_end : depth < k_end && line + e < lines;
      if constexpr (kSame) {
        elements[e] = inside ? from[e] : Operand{};
      } else {
        elements[e] = operand_from_float<Operand>(inside ? to_float(from[e]) : 0.0f);
      }
    }
    GemmPiece piece;
    __builtin_memcpy(&piece, elements, 16);
    return piece;
  }

  CAUSEWAY_INLINE void put(Operand* shared) const {
    if constexpr (kTransposes) {
#pragma clang loop unroll(full)
      for (int i = 0; i < kHeld; i += kTogether) {
        int line, depth;
        position(i, line, depth);
        if (!is_whole(line, depth)) continue;
        Operand pieces[kTogether][kPiece];
        __builtin_memcpy(pieces, &held[i], sizeof(pieces));
#pragma clang loop unroll(full)
        for (int e = 0; e < kPiece; ++e) {
          Operand along[kTogether];
#pragma clang loop unroll(full)
          for (int j = 0; j < kTogether; ++j) along[j] = pieces[j][e];
          void* to = shared + Places::place(line + e, depth);
          __builtin_memcpy(__builtin_assume_aligned(to, sizeof(along)), along, sizeof(along));
        }
      }
    } else if constexpr (!kAsynchronous) {
#pragma clang loop unroll(full)
      for (int i = 0; i < kHeld; ++i) {
        int line, depth;
        position(i, line, depth);
        if (is_whole(line, depth)) store_piece(shared + Places::place(line, depth), held[i]);
      }
    }
  }
};

// The sums of one wave, kM x kN, in matrix fragments.
template <class Operand, int kM, int kN, class StageA, class StageB>
struct FragmentSums {
  static constexpr int kRowTiles = kM / 16, kColumnTiles = kN / 16;
  Accumulator sums[kRowTiles][kColumnTiles] = {};

  struct Fragments {
    FragmentA<Operand> a[kRowTiles];
    FragmentB<Operand> b[kColumnTiles];

    // a, b: the wave's lines at depth 0 of the slice.
    CAUSEWAY_INLINE void load(const Operand* a_slice, const Operand* b_slice, int depth) {
#pragma clang loop unroll(full)
      for (int j = 0; j < kColumnTiles; ++j) {
        if constexpr (StageB::kKMajor) {
          load_fragment(b[j], b_slice + j * 16 * StageB::kStride + depth, StageB::kStride);
        } else {
          load_fragment_transposed(b[j], b_slice + depth * StageB::kStride + j * 16, StageB::kStride);
        }
      }
#pragma clang loop unroll(full)
      for (int i = 0; i < kRowTiles; ++i) {
        if constexpr (StageA::kKMajor) {
          load_fragment(a[i], a_slice + i * 16 * StageA::kStride + depth, StageA::kStride);
        } else {
          load_fragment_transposed(a[i], a_slice + depth * StageA::kStride + i * 16, StageA::kStride);
        }
      }
    }
  };

  template <int kDepth>
  CAUSEWAY_INLINE void add(const Operand* a, const Operand* b) {
    // The fragments of the next depth are on their way while those of this one are multiplied.
    Fragments fragments[2];
    fragments[0].load(a, b, 0);
#pragma clang loop unroll(full)
    for (int step = 0; step < kDepth / 16; ++step) {
      if (step + 1 < kDepth / 16) fragments[(step + 1) % 2].load(a, b, (step + 1) * 16);
#pragma clang loop unroll(full)
      for (int i = 0; i < kRowTiles; ++i) {
#pragma clang loop unroll(full)
        for (int j = 0; j < kColumnTiles; ++j)
          multiply_add(sums[i][j], fragments[step % 2].a[i], fragments[step % 2].b[j]);
      }
    }
  }

  // Writes rows 16 strip .. 16 strip + 15.
  template <int kStride>
  CAUSEWAY_INLINE void write_strip(int strip, float* to) const {
#pragma clang loop unroll(full)
    for (int j = 0; j < kColumnTiles; ++j) {
#pragma clang loop unroll(full)
      for (int e = 0; e < kAccumulatorElements; ++e)
        to[accumulator_row(e) * kStride + j * 16 + accumulator_column(e)] = sums[strip][j].v[e] * kMmaFactor<Operand>;
    }
  }
};

// The sums of one wave of 32 lanes in float, where matrix instructions are less precise than float: lane (r, c) of 8 x
// 4 has kM / 8 rows and kN / 4 columns. Lines are spread over the lanes so that what neighbouring lanes read at the
// same moment lies in different banks.
template <int kM, int kN, class StageA, class StageB>
struct LaneSums {
  static constexpr int kRows = kM / 8, kColumns = kN / 4;
  float sums[kRows][kColumns] = {};

  template <int kLanes, int kCount, bool kKMajor>
  CAUSEWAY_INLINE static int line(int lane, int i) {
    return kKMajor || kCount % 4 != 0 ? lane + kLanes * i : i / 4 * (4 * kLanes) + lane * 4 + i % 4;
  }
  CAUSEWAY_INLINE static int row(int i) { return line<8, kRows, StageA::kKMajor>(lane_index() / 4, i); }
  CAUSEWAY_INLINE static int column(int j) { return line<4, kColumns, StageB::kKMajor>(lane_index() % 4, j); }

  // Element `depth + d` of line i, for d < 4.
  template <class Stage>
  CAUSEWAY_INLINE static float element(const float* slice, int line, int depth) {
    return slice[Stage::kKMajor ? line * Stage::kStride + depth : depth * Stage::kStride + line];
  }

  template <int kDepth>
  CAUSEWAY_INLINE void add(const float* a, const float* b) {
#pragma clang loop unroll(disable)
    for (int depth = 0; depth < kDepth; depth += 4) {
      float rows[kRows][4];
#pragma clang loop unroll(full)
      for (int i = 0; i < kRows; ++i) {
#pragma clang loop unroll(full)
        for (int d = 0; d < 4; ++d) rows[i][d] = element<StageA>(a, row(i), depth + d);
      }
#pragma clang loop unroll(full)
      for (int j = 0; j < kColumns; ++j) {
        float along[4];
#pragma clang loop unroll(full)
        for (int d = 0; d < 4; ++d) along[d] = element<StageB>(b, column(j), depth + d);
#pragma clang loop unroll(full)
        for (int i = 0; i < kRows; ++i) {
#pragma clang loop unroll(full)
          for (int d = 0; d < 4; ++d) sums[i][j] = __builtin_fmaf(rows[i][d], along[d], sums[i][j]);
        }
      }
    }
  }

  template <int kStride>
  CAUSEWAY_INLINE void write_strip(int strip, float* to) const {
#pragma clang loop unroll(full)
    for (int i = 0; i < kRows; ++i) {
      if (row(i) / kGpuGemmStripRows != strip) continue;
#pragma clang loop unroll(full)
      for (int j = 0; j < kColumns; ++j) to[row(i) % kGpuGemmStripRows * kStride + column(j)] = sums[i][j];
    }
  }
};

// Which part of the GEMM a block computes. Blocks that run at the same time share lines of A and of B: tiles are
// counted down through groups of kGroup rows of tiles, then along n; and each chiplet has a run of neighbouring ones.
struct GemmPosition {
  int64_t batch;
  int split;
  int m;
  int n;

  CAUSEWAY_INLINE GemmPosition(int task, int tiles_m, int tiles_n, int splits, int batches, int kGroup = 8) {
    task = task_of_chiplet(task, tiles_m * tiles_n * splits * batches);
    const int in_matrix = task % (tiles_m * tiles_n), matrix = task / (tiles_m * tiles_n);
    split = matrix % splits;
    batch = matrix / splits;
    const int group = in_matrix / (kGroup * tiles_n), in_group = in_matrix % (kGroup * tiles_n);
    const int rows = tiles_m - group * kGroup < kGroup ? tiles_m - group * kGroup : kGroup;
    m = group * kGroup + in_group % rows;
    n = in_group / rows;
  }
};

// What store() takes beside the sums, fetched and used at once.
template <class Problem, int kLanesOut>
CAUSEWAY_INLINE void gemm_fetch_and_store(const Problem& problem, int64_t batch_index, int64_t m_index, int64_t n_index,
                                          const float (&values)[kLanesOut]) {
  typename Problem::Fetched fetched;
  typename Problem::FetchedColumns columns;
  problem.template fetch<kLanesOut>(batch_index, m_index, n_index, fetched);
  problem.template fetch_columns<kLanesOut>(n_index, columns);
  problem.store(batch_index, m_index, n_index, values, fetched, columns);
}

// Stores a wave's kWaveM x kWaveN sums, of which (m_first, n_first) are the first of C, or leaves them in the
// workspace: rows before m_end. `strip`: the wave's own shared memory.
template <int kWaveM, int kWaveN, class Problem, class Sums>
CAUSEWAY_INLINE void gemm_store_sums(const Problem& problem, const GemmPosition& tile, int m_first, int n_first,
                                     int m_end, const Sums& sums, float* strip) {
  constexpr int kStripStride = gpu_gemm_strip_stride(kWaveN);
  constexpr int kLanesOut = Problem::kStoreLanes;
  constexpr int kPieces = kGpuGemmStripRows * kWaveN / kLanesOut;
  const int m = static_cast<int>(problem.m), n = static_cast<int>(problem.n);
#pragma clang loop unroll(full)
  for (int row_strip = 0; row_strip < kWaveM / kGpuGemmStripRows; ++row_strip) {
    if (row_strip != 0) wave_barrier();
    sums.template write_strip<kStripStride>(row_strip, strip);
    wave_barrier();
#pragma clang loop unroll(disable)
    for (int piece = lane_index(); piece < kPieces; piece += kWaveWidth) {
      const int row = piece / (kWaveN / kLanesOut), column = piece % (kWaveN / kLanesOut) * kLanesOut;
      const int m_index = m_first + row_strip * kGpuGemmStripRows + row, n_index = n_first + column;
      if (m_index >= m_end || n_index >= n) continue;
      float values[kLanesOut];
#pragma clang loop unroll(full)
      for (int e = 0; e < kLanesOut; ++e) values[e] = strip[row * kStripStride + column + e];
      if constexpr (Problem::kSplits == 1) {
        gemm_fetch_and_store(problem, tile.batch, m_index, n_index, values);
      } else {
        float* to = problem.workspace + ((tile.split * problem.batch + tile.batch) * m + m_index) * problem.n + n_index;
#pragma clang loop unroll(full)
        for (int e = 0; e < kLanesOut; ++e) to[e] = values[e];
      }
    }
  }
}

// How a block copies slices of its operands.
template <GemmProblem Problem>
struct GemmStages {
  static constexpr GpuGemmTile kTile = Problem::kTile;
  static constexpr int kThreads = gpu_gemm_waves(kTile) * kWaveWidth;
  using A = OperandStage<typename Problem::A, typename Problem::Operand, kTile.m, kTile.k, kThreads>;
  using B = OperandStage<typename Problem::B, typename Problem::Operand, kTile.n, kTile.k, kThreads>;
};

// Multiplies `slices` slices of k and stores their sums: a tile of C from (m_first, n_first) on, of whose rows those
// before m_end are there. fetch(slice, a_slice, b_slice) begins to copy a slice of both operands; slices are asked for
// in order. In one piece, as registers and shared memory are planned together.
template <GemmProblem Problem, class StageA, class StageB, class Fetch>
CAUSEWAY_INLINE void gemm_run_slices(const Problem& problem, const GemmPosition& tile, int m_first, int n_first,
                                     int m_end, int slices, StageA& a, StageB& b, const Fetch& fetch) {
  using Operand = typename Problem::Operand;
  constexpr GpuGemmTile kTile = Problem::kTile;
  static_assert(kTile.stages > 1 || !kCopiesAsynchronously);

  char* slice_memory = shared_memory();
  const auto a_slice = [&](int stage) {
    return reinterpret_cast<Operand*>(slice_memory + stage * (StageA::kBytes + StageB::kBytes));
  };
  const auto b_slice = [&](int stage) {
    return reinterpret_cast<Operand*>(slice_memory + stage * (StageA::kBytes + StageB::kBytes) + StageA::kBytes);
  };
  constexpr int kWavesN = kTile.n / kTile.wave_n;
  const int wave_m = wave_index() / kWavesN * kTile.wave_m, wave_n = wave_index() % kWavesN * kTile.wave_n;

#if defined(CAUSEWAY_NVIDIA)
  constexpr bool kLanes = __is_same(Operand, float);
#else
  constexpr bool kLanes = false;
#endif
  using Sums = typename ChooseType<kLanes, LaneSums<kTile.wave_m, kTile.wave_n, StageA, StageB>,
                                   FragmentSums<Operand, kTile.wave_m, kTile.wave_n, StageA, StageB>>::Type;
  Sums sums;

  // A slice is in flight, or in registers, for kAhead turns of the loop.
  constexpr int kAhead = kTile.stages > 1 ? kTile.stages - 1 : 1;
#pragma clang loop unroll(full)
  for (int slice = 0; slice < kAhead; ++slice) {
    if (slice < slices) {
      fetch(slice, a_slice(slice), b_slice(slice));
      a.put(a_slice(slice));
      b.put(b_slice(slice));
    }
    copy_async_commit();
  }
  int stage = 0, next_stage = kAhead % kTile.stages;
#pragma clang loop unroll(disable)
  for (int slice = 0; slice < slices; ++slice) {
    copy_async_wait<kAhead - 1>();
    block_barrier();
    const bool more = slice + kAhead < slices;
    if (more) fetch(slice + kAhead, a_slice(next_stage), b_slice(next_stage));
    copy_async_commit();
    sums.template add<kTile.k>(a_slice(stage) + (StageA::kKMajor ? wave_m * StageA::kStride : wave_m),
                               b_slice(stage) + (StageB::kKMajor ? wave_n * StageB::kStride : wave_n));
    if constexpr (kTile.stages == 1) block_barrier();
    if (more) {
      a.put(a_slice(next_stage));
      b.put(b_slice(next_stage));
    }
    stage = stage + 1 == kTile.stages ? 0 : stage + 1;
    next_stage = next_stage + 1 == kTile.stages ? 0 : next_stage + 1;
  }
  copy_async_wait<0>();
  block_barrier();

  constexpr int kStripElements = kGpuGemmStripRows * gpu_gemm_strip_stride(kTile.wave_n);
  float* strip = reinterpret_cast<float*>(shared_memory()) + wave_index() * kStripElements;
  gemm_store_sums<kTile.wave_m, kTile.wave_n>(problem, tile, m_first + wave_m, n_first + wave_n, m_end, sums, strip);
}

// One block: a tile of C, or of one split's sums.
template <GemmProblem Problem>
CAUSEWAY_INLINE void gemm_run(const Problem& problem, int task) {
  using Operand = typename Problem::Operand;
  constexpr GpuGemmTile kTile = Problem::kTile;
  const int m = static_cast<int>(problem.m), n = static_cast<int>(problem.n), k = static_cast<int>(problem.k);
  const GemmPosition tile(task, (m + kTile.m - 1) / kTile.m, (n + kTile.n - 1) / kTile.n, Problem::kSplits,
                          static_cast<int>(problem.batch));
  const int split_k = static_cast<int>(gpu_gemm_split_k(k, Problem::kSplits, kTile.k));
  const int k_begin = Problem::kSplits == 1 ? 0 : tile.split * split_k;
  const int k_end = Problem::kSplits == 1 || k_begin + split_k > k ? k : k_begin + split_k;
  const int slices = k_end > k_begin ? (k_end - k_begin + kTile.k - 1) / kTile.k : 0;
  typename GemmStages<Problem>::A a(problem.a, tile.batch, tile.m * kTile.m, m);
  typename GemmStages<Problem>::B b(problem.b, tile.batch, tile.n * kTile.n, n);
  gemm_run_slices(problem, tile, tile.m * kTile.m, tile.n * kTile.n, m, slices, a, b,
                  [&](int slice, Operand* a_slice, Operand* b_slice) {
                    a.fetch(a_slice, k_begin + slice * kTile.k, k_end);
                    b.fetch(b_slice, k_begin + slice * kTile.k, k_end);
                  });
}

// The second launch of a GEMM whose k was split: adds the splits' sums in order. Each thread has kStoreLanes
// elements.
template <GemmProblem Problem>
CAUSEWAY_INLINE void gemm_combine(const Problem& problem, int task) {
  constexpr int kLanesOut = Problem::kStoreLanes;
  const int64_t count = problem.batch * problem.m * problem.n;
  const int64_t piece = static_cast<int64_t>(task) * kGpuGemmCombineThreads + thread_index();
  if (piece * kLanesOut >= count) return;
  float values[kLanesOut] = {};
#pragma clang loop unroll_count(4)
  for (int split = 0; split < Problem::kSplits; ++split) {
    const float* from = problem.workspace + split * count + piece * kLanesOut;
#pragma clang loop unroll(full)
    for (int e = 0; e < kLanesOut; ++e) values[e] += from[e];
  }
  const int64_t in_line = piece % (problem.n / kLanesOut), line = piece / (problem.n / kLanesOut);
  gemm_fetch_and_store(problem, line / problem.m, line % problem.m, in_line * kLanesOut, values);
}
