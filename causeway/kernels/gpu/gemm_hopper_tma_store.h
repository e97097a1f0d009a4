// How results of a GEMM on Hopper (gemm_hopper.h) leave through TMA, for the Problem of gemm_hopper_problem.h.
#pragma once

#include "causeway/kernels/gpu/gemm_hopper_layout.h"
#include "causeway/kernels/gpu/gemm_hopper_problem.h"
#include "causeway/kernels/gpu/gemm_hopper_tile_scheduler.h"
#include "causeway/kernels/gpu/hopper.h"

// Whether blocks of the operands have scales. A block's 128 of k are a slice.
template <class Problem>
constexpr bool kHopperGemmScales = requires { Problem::kALinesOfScale; };

// Whether a thread's sums leave few registers for anything else: three warpgroups have fewer each than two.
template <class Problem>
constexpr bool kHopperGemmFewRegisters = [] {
  constexpr int kSums = (hopper_gemm_row_blocks(Problem::kTile) + kHopperGemmScales<Problem>)*Problem::kTile.n / 2;
  return kSums > (hopper_gemm_warpgroups(Problem::kTile) == 3 ? 64 : 128);
}();

// Whether results leave through TMA, and what is read at their place comes through it.
template <class Problem>
constexpr bool kHopperGemmStoresByTma = requires { typename Problem::TmaStored; };

// Bytes of an element of what TMA loads at the results' place: as many as are stored, or those of TmaFetched.
template <class Problem>
constexpr uint32_t kHopperGemmLoadedBytes = sizeof(typename Problem::TmaStored);
template <class Problem>
  requires requires { typename Problem::TmaFetched; }
constexpr uint32_t kHopperGemmLoadedBytes<Problem> = sizeof(typename Problem::TmaFetched);

// The boxes of results in which a warp's 16 rows of each 64, a part of the tile, pass through shared memory: a ring of
// kCount parts, with a box for each tensor. What is read at the result's place is loaded kCount - 1 parts ahead, and
// first beside the MMAs: into the box where it has as many bytes, and what is stored is computed where it lies; of
// 16 bits where f32 is stored, into boxes beside it. TMA leaves out what is outside the result. Nothing waits until a
// box has left, but who needs its room.
template <class Problem>
class HopperGemmTmaStore {
  using TmaStored = typename Problem::TmaStored;
  static constexpr HopperGemmTile kTile = Problem::kTile;
  static constexpr uint32_t kBytes = sizeof(TmaStored);
  static constexpr int kColumns = hopper_gemm_stored_columns(kBytes);
  static constexpr int kLast = hopper_gemm_last_stored_columns(kTile, kBytes), kWhole = kTile.n / kColumns;
  static constexpr int kTmaStored = Problem::kTmaStored, kLoaded = Problem::Fetched::kTensors;
  static constexpr uint32_t kLoadedBytes = kHopperGemmLoadedBytes<Problem>,
                            kLoadedLine = kHopperGemmBoxLine * kLoadedBytes / kBytes;
  static constexpr bool kLoadsBeside = kLoaded > 0 && kLoadedBytes < kBytes;
  static constexpr int kLoadedBoxBytes = kHopperGemmStoredRows * kLoadedLine;
  static constexpr int kSlotBytes = kTmaStored * kHopperGemmBoxBytes + (kLoadsBeside ? kLoaded * kLoadedBoxBytes : 0);
  static constexpr int kCount = hopper_gemm_wave_bytes(kTile) / kSlotBytes;
  static constexpr int kRowBlocks = hopper_gemm_row_blocks(kTile);
  static constexpr int kOfTile = kRowBlocks * (kWhole + (kLast > 0));
  static constexpr bool kLoads = kLoaded > 0;
  // Pairs that are computed before the first of them is written; more than these registers hold spill.
  static constexpr uint32_t kFew = kLoads && kRowBlocks * kTile.n / 2 > 160 ? 2 : 4;
  static constexpr bool kNeedsRegisters = kHopperGemmFewRegisters<Problem> && (kLoads || kTmaStored > 1);
  static_assert(kBytes == 2 || kBytes == 4);
  static_assert(!kLoads || (kTmaStored == 1 && kCount > 1), "room to load ahead");
  static_assert(kLoadsBeside ? kLoadedBytes == 2 && kBytes == 4 : kLoaded <= 1 && kLoadedBytes == kBytes);

 public:
  // `pieces`, `loaded`: room and mbarriers of all warps that multiply, of which this one is `wave`.
  CAUSEWAY_INLINE HopperGemmTmaStore(const TensorMapBytes* maps, char* pieces, Mbarrier* loaded, int wave)
      : maps_(maps + 2),
        boxes_(pieces + wave * hopper_gemm_wave_bytes(kTile)),
        full_(loaded + wave * kHopperGemmMostBoxes) {}

  // The first parts of a tile, of whose rows `block` is this warpgroup's first 64.
  CAUSEWAY_INLINE void begin(const HopperGemmPosition& tile, int block) {
    if constexpr (kLoads) {
      if (!elects_lane()) return;
      tensor_store_wait<1>();
#pragma clang loop unroll(full)
      for (int part = 0; part < kCount - 1 && part < kOfTile; ++part) load(tile, block, part, part);
    }
  }

  // A warpgroup's rows of the tile, of which `block` is the first 64: what is read of columns serves all of them.
  CAUSEWAY_INLINE void store(const Problem& problem, const HopperGemmPosition& tile, int block,
                             const float (&sums)[kRowBlocks][kTile.n / 2]) {
#pragma clang loop unroll(full)
    for (int part = 0; part < kRowBlocks * kWhole; ++part)
      store_part<kColumns>(problem, tile, block, part, sums[part % kRowBlocks] + part / kRowBlocks * (kColumns / 2));
    if constexpr (kLast > 0) {
#pragma clang loop unroll(full)
      for (int row_block = 0; row_block < kRowBlocks; ++row_block)
        store_part<kLast>(problem, tile, block, kRowBlocks * kWhole + row_block,
                          sums[row_block] + kWhole * (kColumns / 2));
    }
  }

  // Before the block ends: TMA must have read its shared memory.
  CAUSEWAY_INLINE void end() const {
    if (elects_lane()) tensor_store_wait<0>();
  }

 private:
  CAUSEWAY_INLINE char* at(int slot, int tensor) const {
    return boxes_ + slot * kSlotBytes + tensor * kHopperGemmBoxBytes;
  }
  // Where tensor `tensor` of what is read is loaded.
  CAUSEWAY_INLINE char* loaded_at(int slot, int tensor) const {
    return kLoadsBeside ? at(slot, kTmaStored) + tensor * kLoadedBoxBytes : at(slot, 0);
  }
  CAUSEWAY_INLINE static int first_row(const HopperGemmPosition& tile, int block, int part) {
    return tile.m + (block + part % kRowBlocks) * 64 + thread_index() % 128 / 32 * kHopperGemmStoredRows;
  }
  CAUSEWAY_INLINE static int first_column(const HopperGemmPosition& tile, int part) {
    return tile.n + part / kRowBlocks * kColumns;
  }
  // Of the tensor that is sent or, by numbers from kTmaStored on, loaded: in boxes of a line, or of the last columns.
  CAUSEWAY_INLINE const TensorMapBytes* map(int tensor, bool last) const {
    return &maps_[tensor + (last ? kTmaStored + kLoaded : 0)];
  }

  // By the lane that is elected: part `part` of the tile, into the slot that many after the next one to be sent.
  CAUSEWAY_INLINE void load(const HopperGemmPosition& tile, int block, int part, int ahead) const {
    int slot = ring_.stage + ahead;
    if (slot >= kCount) slot -= kCount;
    const bool last = part >= kRowBlocks * kWhole;
    barrier_expect_bytes(full_ + slot, kLoaded * kHopperGemmStoredRows * (last ? kLast : kColumns) * kLoadedBytes);
#pragma clang loop unroll(full)
    for (int tensor = 0; tensor < kLoaded; ++tensor)
      tensor_load(loaded_at(slot, tensor), map(kTmaStored + tensor, last), full_ + slot, first_column(tile, part),
                  first_row(tile, block, part), tile.batch);
  }

  CAUSEWAY_INLINE static auto packed(float first, float second) {
    if constexpr (kBytes == 4) {
      return Vector<float, 2>{first, second};
    } else {
      return pack_pair<TmaStored>(first, second);
    }
  }

  // Of so many columns.
  template <int kOfPart>
  CAUSEWAY_INLINE void store_part(const Problem& problem, const HopperGemmPosition& tile, int block, int part,
                                  const float* sums) {
    constexpr uint32_t kTogether = kNeedsRegisters ? kFew : kOfPart / 4;
    auto lane = static_cast<uint32_t>(lane_index());
    // So that addresses of other parts are not kept.
    if constexpr (kTogether < kOfPart / 4) lane = computed_here(lane);
    const uint32_t row = lane / 4;
    const int stage = ring_.stage, n_first = first_column(tile, part);
    // Pieces of 16 bytes are exchanged by the number of the line: so are the rows that are 8 further down.
    // Of f32, odd rows take the eight columns that are 16 further on, so that no bank is met twice.
    constexpr uint32_t kSwap = kBytes == 4 && kOfPart == kColumns ? 2 : 0;
    const bool swaps = kSwap != 0 && row % 2 == 1;
    const uint32_t of_lane =
        row * kHopperGemmBoxLine + ((lane % 4 * 2 * kBytes) ^ (row * 16) ^ (swaps ? kSwap * 8 * kBytes : 0));
    // As a rule all columns of a part exist, or none: then they are read from one address.
    const int n = static_cast<int>(problem.n);
    const bool alike = problem.n % kOfPart == 0;
    const int n_read = alike && problem.n % hopper_gemm_cluster_columns(kTile) != 0 && n_first >= n ? 0 : n_first;
    // Neighbours 2 i of the sums, in the order in which boxes have them.
    const auto place = [&](int tensor, uint32_t i) {
      return at(stage, tensor) + (of_lane ^ (i / 2 * 8 * kBytes)) + i % 2 * 8 * kHopperGemmBoxLine;
    };
    // The same neighbours in a box beside it, whose lines of 64 bytes exchange pieces by every second line's number.
    const auto loaded_place = [&](int tensor, uint32_t i) {
      const uint32_t piece = (swaps ? i / 2 ^ kSwap : i / 2) ^ row / 2 % 4;
      return loaded_at(stage, tensor) + (row + i % 2 * 8) * kLoadedLine + piece * 16 + lane % 4 * 2 * kLoadedBytes;
    };
    if constexpr (kLoads) {
      barrier_wait(full_ + stage, ring_.parity);
    } else {
      if (elects_lane()) tensor_store_wait<kCount - 1>();
      wave_barrier();
    }
    typename Problem::FetchedRow rows[2];
#pragma clang loop unroll(full)
    for (int down = 0; down < 2; ++down) {
      const int m_index = first_row(tile, block, part) + static_cast<int>(row) + 8 * down;
      problem.fetch_row(problem.m % hopper_gemm_cluster_rows(kTile) == 0 || m_index < problem.m ? m_index : 0,
                        rows[down]);
    }
    // After the wait for MMAs, though nothing but registers says so.
    float values[kOfPart / 2];
#pragma clang loop unroll(full)
    for (int i = 0; i < kOfPart / 2; ++i) values[i] = computed_here(sums[i]);
#pragma clang loop unroll(full)
    for (uint32_t first = 0; first < kOfPart / 4; first += kTogether) {
      // What later pairs load must not be loaded at first: registers would not suffice.
      if constexpr (kTogether < kOfPart / 4) asm volatile("" ::: "memory");
      decltype(packed(0, 0)) results[kTmaStored][kTogether];
#pragma clang loop unroll(full)
      for (uint32_t i = first; i < first + kTogether; i += 2) {
        // Neighbours, and those eight rows further down.
        typename Problem::FetchedColumns columns;
        const auto column = n_read + static_cast<int>((swaps ? i / 2 ^ kSwap : i / 2) * 8 + lane % 4 * 2);
        problem.template fetch_columns<2>(alike || column < n ? column : 0, columns);
#pragma clang loop unroll(full)
        for (uint32_t down = 0; down < 2; ++down) {
          typename Problem::Fetched fetched;
          if constexpr (kLoadsBeside) {
#pragma clang loop unroll(full)
            for (int tensor = 0; tensor < kLoaded; ++tensor)
              __builtin_memcpy(reinterpret_cast<char*>(&fetched) + tensor * Problem::kStoreLanes * kLoadedBytes,
                               __builtin_assume_aligned(loaded_place(tensor, i + down), 2 * kLoadedBytes),
                               2 * kLoadedBytes);
          } else if constexpr (kLoads) {
            __builtin_memcpy(&fetched, __builtin_assume_aligned(place(0, i + down), 2 * kBytes), 2 * kBytes);
          }
          float pair[2], finished[kTmaStored][2];
#pragma clang loop unroll(full)
          for (uint32_t e = 0; e < 2; ++e) {
            const float own = values[2 * (i + down) + e], swapped = values[2 * ((i ^ 2 * kSwap) + down) + e];
            pair[e] = swaps ? swapped : own;
          }
          problem.finish(pair, fetched, rows[down], columns, finished);
#pragma clang loop unroll(full)
          for (int tensor = 0; tensor < kTmaStored; ++tensor)
            results[tensor][i - first + down] = packed(finished[tensor][0], finished[tensor][1]);
        }
      }
#pragma clang loop unroll(full)
      for (int tensor = 0; tensor < kTmaStored; ++tensor)
#pragma clang loop unroll(full)
        for (uint32_t i = 0; i < kTogether; ++i)
          __builtin_memcpy(__builtin_assume_aligned(place(tensor, first + i), 2 * kBytes), &results[tensor][i],
                           2 * kBytes);
    }
    fence_async_shared();
    wave_barrier();
    if (elects_lane()) {
#pragma clang loop unroll(full)
      for (int tensor = 0; tensor < kTmaStored; ++tensor)
        tensor_store(map(tensor, kOfPart != kColumns), at(stage, tensor), n_first, first_row(tile, block, part),
                     tile.batch);
      tensor_store_commit();
      if constexpr (kLoads) {
        if (part + kCount - 1 < kOfTile) {
          // The part before has left.
          tensor_store_wait<1>();
          load(tile, block, part + kCount - 1, kCount - 1);
        }
      }
    }
    ring_.advance();
  }

  const TensorMapBytes* maps_;  // of what is sent, then of what is loaded
  char* boxes_;
  Mbarrier* full_;
  StageRing<kCount> ring_;  // the slot of the next part to be sent
};

// The first of the named barriers of warpgroups whose warps write boxes together.
constexpr int kHopperGemmFirstBoxBarrier = 4;

// The same where the GEMM is that of the transposes: a warpgroup's 64 rows are 64 columns of C. 64 columns of them
// are a part, whose four warps each write 16 columns of all its boxes, which lie in C's order, and each send one.
template <class Problem>
class HopperGemmSwappedTmaStore {
  using TmaStored = typename Problem::TmaStored;
  static constexpr HopperGemmTile kTile = Problem::kTile;
  static constexpr int kTmaStored = Problem::kTmaStored, kCount = hopper_gemm_boxes(kTile) / kTmaStored;
  static constexpr int kRowBlocks = hopper_gemm_row_blocks(kTile);
  static_assert(sizeof(TmaStored) == 2 && Problem::Fetched::kTensors == 0 && Problem::kSplits == 1);

 public:
  CAUSEWAY_INLINE HopperGemmSwappedTmaStore(const TensorMapBytes* maps, char* pieces, Mbarrier*, int)
      : maps_(maps + 2), pieces_(pieces) {}

  CAUSEWAY_INLINE void begin(const HopperGemmPosition&, int) {}

  CAUSEWAY_INLINE void store(const Problem& problem, const HopperGemmPosition& tile, int block,
                             const float (&sums)[kRowBlocks][kTile.n / 2]) {
#pragma clang loop unroll(full)
    for (int row_block = 0; row_block < kRowBlocks; ++row_block) {
      const int wave = this_thread() / 32 % 4;
      const int n_first = tile.m + (block + row_block) * 64;
      // The lane's two columns of C.
      typename Problem::FetchedColumns columns[2];
#pragma clang loop unroll(full)
      for (int down = 0; down < 2; ++down) {
        const int n_index = n_first + wave * 16 + lane_index() / 4 + 8 * down;
        problem.template fetch_columns<1>(
            problem.m % hopper_gemm_cluster_rows(kTile) == 0 || n_index < problem.m ? n_index : 0, columns[down]);
      }
      constexpr int kWhole = kTile.n / 64, kLast = kTile.n % 64;
#pragma clang loop unroll(full)
      for (int part = 0; part < kWhole; ++part)
        store_part<4>(problem, tile, n_first, tile.n + part * 64, sums[row_block] + part * 32, columns);
      if constexpr (kLast > 0)
        store_part<kLast / 16>(problem, tile, n_first, tile.n + kWhole * 64, sums[row_block] + kWhole * 32, columns);
    }
  }

  CAUSEWAY_INLINE void end() const {
    if (elects_lane()) tensor_store_wait<0>();
  }

 private:
  static constexpr int kWaveBytes = hopper_gemm_wave_bytes(kTile);

  // Read again where it is needed: sums leave few registers for what it tells.
  CAUSEWAY_INLINE static int this_thread() { return computed_here(thread_index()); }
  // The box that warp `wave` of the thread's warpgroup sends.
  CAUSEWAY_INLINE char* at(int thread, int wave, int tensor) const {
    return pieces_ + ((thread / 128 - 1) * 4 + wave) * kWaveBytes +
           (ring_.stage * kTmaStored + tensor) * kHopperGemmBoxBytes;
  }
  // Of the warpgroup.
  CAUSEWAY_INLINE static void barrier() { named_barrier(kHopperGemmFirstBoxBarrier + this_thread() / 128 - 1, 128); }

  // kBoxes of 16 rows of C each, from `m_first` on.
  template <int kBoxes>
  CAUSEWAY_INLINE void store_part(const Problem& problem, const HopperGemmPosition& tile, int n_first, int m_first,
                                  const float* sums, const typename Problem::FetchedColumns (&columns)[2]) {
    const int thread = this_thread(), wave = thread / 32 % 4;
    int lane = lane_index();
    if (elects_lane()) tensor_store_wait<kCount - 1>();
    barrier();
#pragma clang loop unroll(full)
    for (int box = 0; box < kBoxes; ++box) {
      if constexpr (kHopperGemmFewRegisters<Problem>) {
        // So that addresses of other boxes are not kept, and what they load is not loaded at first.
        lane = computed_here(lane);
        asm volatile("" ::: "memory");
      }
      // Where the lane's row of four 8 x 8 matrices of a box begins: of those, two lie beside and two below one
      // another.
      const int row = lane / 16 * 8 + lane % 8, piece = (wave * 2 + lane / 8 % 2) ^ lane % 8;
      uint32_t results[kTmaStored][4];
#pragma clang loop unroll(full)
      for (int i = 0; i < 4; ++i) {
        float finished[2][kTmaStored][1];
#pragma clang loop unroll(full)
        for (int e = 0; e < 2; ++e) {
          const int m_index = m_first + box * 16 + i / 2 * 8 + lane % 4 * 2 + e;
          typename Problem::FetchedRow fetched_row;
          problem.fetch_row(problem.n % hopper_gemm_cluster_columns(kTile) == 0 || m_index < problem.n ? m_index : 0,
                            fetched_row);
          // After the wait for MMAs, though nothing but registers says so.
          const float value[1] = {computed_here(sums[box * 8 + i * 2 + e])};
          problem.finish(value, {}, fetched_row, columns[i % 2], finished[e]);
        }
#pragma clang loop unroll(full)
        for (int tensor = 0; tensor < kTmaStored; ++tensor)
          results[tensor][i] = pack_pair<TmaStored>(finished[0][tensor][0], finished[1][tensor][0]);
      }
#pragma clang loop unroll(full)
      for (int tensor = 0; tensor < kTmaStored; ++tensor)
        store_matrices_transposed(at(thread, box, tensor) + row * 128 + piece * 16, results[tensor]);
    }
    fence_async_shared();
    barrier();
    if (elects_lane()) {
      if (wave < kBoxes) {
#pragma clang loop unroll(full)
        for (int tensor = 0; tensor < kTmaStored; ++tensor)
          tensor_store(&maps_[tensor], at(thread, wave, tensor), n_first, m_first + wave * kHopperGemmStoredRows,
                       tile.batch);
      }
      // Without a box, too: groups count parts.
      tensor_store_commit();
    }
    ring_.advance();
  }

  const TensorMapBytes* maps_;
  char* pieces_;
  StageRing<kCount> ring_;
};
