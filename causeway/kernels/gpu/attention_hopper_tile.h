// What attention on Hopper (sm_90a) is made of, forward and backward: tiles of 64 or 128 columns in shared memory as
// wgmma wants them, and the warpgroup that copies rows there while the others multiply.
#pragma once

#include "causeway/kernels/gpu/attention_tile.h"
#include "causeway/kernels/gpu/hopper.h"

namespace attention_hopper {

using attention_tile::kInfinity;
using attention_tile::kLn2;
using attention_tile::kLog2E;

// Boxes of 64 columns, lines of 128 bytes, of which pieces of 16 bytes are exchanged by the number of the line (the
// 128-byte swizzle).
template <class T>
CAUSEWAY_INLINE T* tile_piece(T* tile, int lines, int line, int piece) {
  return tile + (piece / 8 * lines + line) * 64 + ((piece % 8) ^ (line % 8)) * 8;
}

// A descriptor that the compiler does not keep, with all that follows from it, in registers over a whole loop.
CAUSEWAY_INLINE uint64_t tile_descriptor(const void* tile, int leading_bytes) {
  uint64_t descriptor = matrix_descriptor(tile, leading_bytes, 1024, 128);
#if !defined(CAUSEWAY_EMULATOR)
  asm volatile("" : "+l"(descriptor));
#endif
  return descriptor;
}

// Descriptors count 16 bytes: the one of a tile's lines moved by `columns` along k, and by `rows` of k where the tile
// is transposed.
template <int kLines>
constexpr uint64_t columns_further(int columns) {
  return static_cast<uint64_t>((columns / 64 * kLines * 128 + columns % 64 * 2) / 16);
}
constexpr uint64_t rows_further(int rows) { return static_cast<uint64_t>(rows * 128 / 16); }

// Bits that say what the map tells of each warpgroup's part of a tile: 0 when nothing attends, 2 when all does, 1
// otherwise.
constexpr int kind_of(int kinds, int group) { return kinds >> 2 * group & 3; }

// Which queries a block has.
template <class P>
struct QueryPlace {
  int32_t first, b, h, kv_head;
  CAUSEWAY_INLINE QueryPlace(const P& p, int task, int lines) {
    const auto heads = static_cast<int32_t>(p.query_heads), all = static_cast<int32_t>(p.batch) * heads;
    const auto tiles = static_cast<int32_t>((p.query_length + lines - 1) / lines);
    // Later queries see more keys under a causal mask: they start first.
    first = (tiles - 1 - task / all) * lines;
    b = task % all / heads;
    h = task % all % heads;
    kv_head = h / (heads / static_cast<int32_t>(p.kv_heads));
  }
};

constexpr int kPlannedTiles = 128;

// A tile of the others, as the copying warpgroup describes it.
struct TileNote {
  int32_t first;  // the first line; -1 when there are no more tiles
  int32_t kinds;  // two bits for each warpgroup
};

// The same for all lanes, as the compiler can see.
CAUSEWAY_INLINE int warpgroup_index() { return wave_shuffle(thread_index() / 128, 0); }

// Once for each wave, when all of its lanes have read what the barrier guards.
CAUSEWAY_INLINE void release(TransferBarrier* barrier) {
  wave_barrier();
  if (lane_index() == 0) barrier_arrive(barrier);
}

// The kinds of a tile whose lines [own, own + 64 kGroups) belong to warpgroups and whose others are [other, other +
// kOthers). kOwnAreQueries: which of the two are queries.
template <class P, bool kOwnAreQueries, int kOthers>
CAUSEWAY_INLINE int tile_kinds(const P& p, int64_t b, int64_t h, int64_t own, int64_t other) {
  int kinds = 0;
#pragma clang loop unroll(full)
  for (int group = 0; group < P::kGroups; ++group) {
    const int64_t line = own + 64 * group;
    const int64_t t = kOwnAreQueries ? line : other, s = kOwnAreQueries ? other : line;
    const int64_t t_end = t + (kOwnAreQueries ? 64 : kOthers), s_end = s + (kOwnAreQueries ? kOthers : 64);
    const int64_t queries = t_end < p.query_length ? t_end : p.query_length;
    const int64_t keys = s_end < p.key_length ? s_end : p.key_length;
    bool any = false, all = true;
    for (int64_t q = t / P::kBlockQ; q * P::kBlockQ < queries; ++q) {
      for (int64_t k = s / P::kBlockK; k * P::kBlockK < keys; ++k) {
        const uint8_t block = p.block_kind(b, h, q, k);
        any = any || block != 0;
        all = all && block == 2;
      }
    }
    kinds |= (!any ? 0 : all ? 2 : 1) << 2 * group;
  }
  return kinds;
}

// The copying warpgroup's part of both directions.
template <class P>
class Copier {
 protected:
  using T = typename P::Operand;
  // Copies end late: those before the newest are waited for, so that two tiles are always on their way.
  CAUSEWAY_INLINE void announce(TransferBarrier* barrier) {
    copy_async_commit();
    if (before_ != nullptr) {
      copy_async_wait<1>();
      fence_async_shared();
      barrier_arrive(before_);
    }
    before_ = barrier;
  }
  CAUSEWAY_INLINE void announce_last() {
    copy_async_wait<0>();
    fence_async_shared();
    barrier_arrive(before_);
  }

  // Rows [first, first + kLines), zeros from `limit` on; `row(i)` is where they lie, `element(i, d)` computes one.
  template <int kLines, bool kDirect, class Row, class Element>
  CAUSEWAY_INLINE void copy(T* tile, int64_t first, int64_t limit, Row row, Element element) {
    constexpr int kPieces = P::kHeadDim / 8, kTogether = 128 / kPieces;
    const int piece = thread_index() % kPieces;
#pragma clang loop unroll_count(8)
    for (int round = 0; round < kLines / kTogether; ++round) {
      const int line = round * kTogether + thread_index() / kPieces;
      const bool valid = first + line < limit;
      const int64_t from = valid ? first + line : limit - 1;
      T* to = tile_piece(tile, kLines, line, piece);
      if constexpr (kDirect) {
        copy_async_16(to, row(from) + piece * 8, valid);
      } else {
#pragma clang loop unroll(full)
        for (int e = 0; e < 8; ++e)
          to[e] = attention_tile::to_operand<T>(valid ? element(from, piece * 8 + e) : 0.0f);
      }
    }
  }

  // The kinds of the tile of own lines from `own` on and others from `other` on, which end at `limit` and are gone
  // through in order. Reading the map takes long: one tile each thread, for kPlannedTiles tiles at a time.
  template <bool kOwnAreQueries, int kOthers>
  CAUSEWAY_INLINE int kinds_of(const P& p, uint8_t* plan, int64_t b, int64_t h, int64_t own, int64_t other,
                               int64_t limit) {
    if constexpr (!P::kHasBlockMap) {
      return kKindWithoutMap;
    } else {
      constexpr int kPlanned = kPlannedTiles * kOthers;
      if (other % kPlanned == 0) {
        const int64_t first = other + thread_index() * kOthers;
        named_barrier(1 + P::kGroups, 128);  // the plan before has been read
        plan[thread_index()] = static_cast<uint8_t>(
            first < limit ? tile_kinds<P, kOwnAreQueries, kOthers>(p, b, h, own, first) : 0);
        named_barrier(1 + P::kGroups, 128);
      }
      return plan[other % kPlanned / kOthers];
    }
  }

 private:
  // Without a map: every position, or what the mask says.
  static constexpr int kKindWithoutMap = (P::kHasMask ? 0x55 : 0xaa) & ((1 << 2 * P::kGroups) - 1);

  TransferBarrier* before_ = nullptr;  // whose copies have begun and not been announced
};

// Products' registers of 16 columns are those of a left operand.
template <class T, int kColumns>
CAUSEWAY_INLINE void pack(const float (&values)[kColumns / 2], uint32_t (&packed)[kColumns / 16][4]) {
#pragma clang loop unroll(full)
  for (int step = 0; step < kColumns / 16; ++step) {
#pragma clang loop unroll(full)
    for (int i = 0; i < 4; ++i) {
      const float low = values[8 * step + 2 * i], high = values[8 * step + 2 * i + 1];
      if constexpr (__is_same(T, bf16)) {
        packed[step][i] = pack_bf16(low, high);
      } else {
        packed[step][i] = attention_tile::pack_pair(to_f16(low), to_f16(high));
      }
    }
  }
}

// c (+)= A B^T: 64 lines of `a`, a tile of kLinesA lines, from `first` on; all kLinesB lines of `b`.
template <class P, int kLinesA, int kLinesB, class T>
CAUSEWAY_INLINE void multiply_lines(float (&c)[kLinesB / 2], T* a, int first, T* b) {
  const uint64_t left = tile_descriptor(a + first * 64, kLinesA * 128);
  const uint64_t right = tile_descriptor(b, kLinesB * 128);
#pragma clang loop unroll(full)
  for (int d = 0; d < P::kHeadDim; d += 16)
    warpgroup_multiply_add<T, kLinesB, false, false>(c, left + columns_further<kLinesA>(d),
                                                     right + columns_further<kLinesB>(d), d > 0);
}

// c += W B: packed weights of kLines columns, all kLines lines of `b`.
template <class P, int kLines, class T>
CAUSEWAY_INLINE void multiply_weights(float (&c)[P::kHeadDim / 2], const uint32_t (&weights)[kLines / 16][4], T* b) {
  const uint64_t right = tile_descriptor(b, kLines * 128);
#pragma clang loop unroll(full)
  for (int step = 0; step < kLines / 16; ++step)
    warpgroup_multiply_add<T, P::kHeadDim, true>(c, weights[step], right + rows_further(16 * step), true);
}

// A warpgroup's 64 lines, each times its factor, through its own part of `tile`, which its products have read:
// store_element(line, d, value).
template <class P, int kLines, class T, class F>
CAUSEWAY_INLINE void store_lines(const float (&sums)[P::kHeadDim / 2], const float (&factors)[2], T* tile, int group,
                                 F store_element) {
#pragma clang loop unroll(full)
  for (int i = 0; i < P::kHeadDim / 2; i += 2) {
    const int column = warpgroup_column(i);
    T* to = tile_piece(tile, kLines, group * 64 + warpgroup_row(i), column / 8) + column % 8;
    to[0] = attention_tile::to_operand<T>(sums[i] * factors[(i & 2) / 2]);
    to[1] = attention_tile::to_operand<T>(sums[i + 1] * factors[(i & 2) / 2]);
  }
  wave_barrier();
  constexpr int kPieces = P::kHeadDim / 8;
  for (int at = lane_index(); at < 16 * kPieces; at += 32) {
    const int line = thread_index() % 128 / 32 * 16 + at / kPieces, piece = at % kPieces;
    const T* from = tile_piece(tile, kLines, group * 64 + line, piece);
    float values[8];
#pragma clang loop unroll(full)
    for (int e = 0; e < 8; ++e) values[e] = to_float(from[e]);
    store_element(line, piece * 8, values);
  }
}

}  // namespace attention_hopper
