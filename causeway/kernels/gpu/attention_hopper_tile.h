// What attention on Hopper (sm_90a) is made of, forward and backward: tiles of whole boxes of 64 columns in shared
// memory as wgmma wants them, and the warpgroup that copies rows there while the others multiply.
#pragma once

#include "causeway/kernels/gpu/attention_hopper_order.h"
#include "causeway/kernels/gpu/attention_tile.h"
#include "causeway/kernels/gpu/hopper.h"

namespace attention_hopper {

using attention_tile::kInfinity;
using attention_tile::kLn2;
using attention_tile::kLog2E;

// Boxes of 64 columns, lines of 128 bytes, of which pieces of 16 bytes are exchanged by the number of the line (the
// 128-byte swizzle).
template <class T>
CAUSEWAY_INLINE T* tile_piece(T* tile, uint32_t lines, uint32_t line, uint32_t piece) {
  return tile + (piece / 8 * lines + line) * 64 + ((piece % 8) ^ (line % 8)) * 8;
}

CAUSEWAY_INLINE uint64_t tile_descriptor(const void* tile, int leading_bytes) {
  return computed_here(matrix_descriptor(tile, leading_bytes, 1024, 128));
}

// Descriptors count 16 bytes: the one of a tile's lines moved by `columns` along k, and by `rows` of k where the tile
// is transposed. Added to descriptors whose upper word is in registers (tile_descriptor), as one number.
template <int kLines>
constexpr uint64_t columns_further(int columns) {
  return static_cast<uint64_t>((columns / 64 * kLines * 128 + columns % 64 * 2) / 16);
}
constexpr uint64_t rows_further(int rows) { return static_cast<uint64_t>(rows * 128 / 16); }

// Of tiles of queries and keys, and of values and output's gradients; a head's elements first.
template <class P>
constexpr int kColumns = hopper_attention_columns(P::kHeadDim);
template <class P>
constexpr int kValueColumns = hopper_attention_columns(P::kValueDim);

// Queries, or keys, of a block: parts of 64, mostly one for each warpgroup that multiplies.
template <class P>
constexpr int kPartsOfBlock = P::kTile.parts();
template <class P>
constexpr int kLinesOfBlock = hopper_attention_lines(kPartsOfBlock<P>);

// Bits that say what the map tells of each part of a tile: 0 when nothing attends, 2 when all does, 1
// otherwise.
constexpr int kind_of(int kinds, int group) { return kinds >> 2 * group & 3; }

// A task, as the copying warpgroup describes it to the others.
struct TaskNote {
  int32_t first;  // line; -1 when there are no more tasks
  int32_t b, head, kv_head;
};

// A tile of the others: the first line, two bits for each warpgroup, and whether it is the last of its task.
struct TileNote {
  int32_t first, kinds;
};
constexpr int32_t kLastTile = 1 << 30;
// Of a task without tiles: one past every end, which no warpgroup has to do with.
constexpr TileNote kNoTile = {1 << 30, 0};

// The same for all lanes of a warp, as the compiler can see: what branches and stages depend on.
CAUSEWAY_INLINE int32_t uniform(int32_t value) { return wave_shuffle(value, 0); }
CAUSEWAY_INLINE int warpgroup_index() { return uniform(thread_index() / 128); }
CAUSEWAY_INLINE TileNote uniform(const TileNote& note) { return {uniform(note.first), uniform(note.kinds)}; }

// Once for each warp, when all of its lanes have read what the barrier guards.
CAUSEWAY_INLINE void release(Mbarrier* barrier) {
  wave_barrier();
  if (lane_index() == 0) barrier_arrive(barrier);
}

template <class P>
constexpr int kWidest = P::kHeadDim > P::kValueDim ? P::kHeadDim : P::kValueDim;

// How many registers threads have of warpgroups that copy and of those that multiply; three warpgroups begin with 168,
// four with 128. copying_narrows: those that copy have enough to look at whole rows of maps at once.
struct RegisterSplit {
  int copying, multiplying;
  bool copying_narrows;
};
constexpr RegisterSplit kEvenSplit = {56, 224, true}, kUnevenSplit = {40, 232, true};
constexpr RegisterSplit kMostUnevenSplit = {24, 240, false};
constexpr RegisterSplit kEvenSplitOfFour = {56, 152, true}, kUnevenSplitOfFour = {32, 160, false};

// The kinds of a tile whose lines [own, own + kLinesOfBlock) belong to warpgroups and whose others are [other, other +
// kOthers). kOwnAreQueries: which of the two are queries. Where blocks of the map are 64 x 64 a warpgroup's part of a
// tile is one or two of them, which are asked for together; elsewhere loops are not unrolled, as the copying warpgroup
// has few registers.
template <class P, bool kOwnAreQueries, int kOthers>
CAUSEWAY_INLINE int tile_kinds(const P& p, int32_t b, int32_t h, int32_t own, int32_t other) {
  const auto queries = static_cast<int32_t>(p.query_length), keys = static_cast<int32_t>(p.key_length);
  int kinds = 0;
  if constexpr (P::kBlockQ == 64 && P::kBlockK == 64) {
    // Others that blocks do not divide begin at any multiple of 16 that divides them.
    constexpr int kStep = kOthers % 64 == 0 ? 64 : kOthers % 32 == 0 ? 32 : 16;
    constexpr int kBlocks = (64 - kStep + kOthers + 63) / 64;
    const int32_t own_blocks = ((kOwnAreQueries ? queries : keys) + 63) / 64;
    const int32_t other_blocks = ((kOwnAreQueries ? keys : queries) + 63) / 64;
    uint8_t blocks[kPartsOfBlock<P>][kBlocks];
#pragma clang loop unroll(full)
    for (int group = 0; group < kPartsOfBlock<P>; ++group)
#pragma clang loop unroll(full)
      for (int i = 0; i < kBlocks; ++i) {
        // Past an end those before it are read, and do not count.
        const int32_t line = own / 64 + group < own_blocks ? own / 64 + group : own_blocks - 1;
        const int32_t at = other / 64 + i < other_blocks ? other / 64 + i : other_blocks - 1;
        blocks[group][i] = kOwnAreQueries ? p.block_kind(b, h, line, at) : p.block_kind(b, h, at, line);
      }
#pragma clang loop unroll(full)
    for (int group = 0; group < kPartsOfBlock<P>; ++group) {
      uint32_t seen = 0, left_out = 0;
#pragma clang loop unroll(full)
      for (int i = 0; i < kBlocks; ++i) {
        if (own / 64 + group >= own_blocks || other / 64 + i >= other_blocks) continue;
        if (kStep != 64 && (other / 64 + i) * 64 >= other + kOthers) continue;
        seen |= blocks[group][i];
        left_out |= blocks[group][i] ^ 2;
      }
      kinds |= (seen == 0 ? 0 : left_out == 0 ? 2 : 1) << 2 * group;
    }
    return kinds;
  }
#pragma clang loop unroll(disable)
  for (int group = 0; group < kPartsOfBlock<P>; ++group) {
    const int32_t line = own + 64 * group;
    const int32_t t = kOwnAreQueries ? line : other, s = kOwnAreQueries ? other : line;
    const int32_t t_end = t + (kOwnAreQueries ? 64 : kOthers), s_end = s + (kOwnAreQueries ? kOthers : 64);
    const int32_t t_limit = t_end < queries ? t_end : queries, s_limit = s_end < keys ? s_end : keys;
    uint32_t seen = 0, left_out = 0;
#pragma clang loop unroll(disable)
    for (int32_t q = t / P::kBlockQ; q * P::kBlockQ < t_limit; ++q) {
#pragma clang loop unroll(disable)
      for (int32_t k = s / P::kBlockK; k * P::kBlockK < s_limit; ++k) {
        const uint32_t block = p.block_kind(b, h, q, k);
        seen |= block;
        left_out |= block ^ 2;
      }
    }
    kinds |= (seen == 0 ? 0 : left_out == 0 ? 2 : 1) << 2 * group;
  }
  return kinds;
}

// The first query of a warpgroup in a task's tile; where it is to be idle, past the end of all.
template <class P>
CAUSEWAY_INLINE int32_t first_query(const P& p, int32_t first, int group) {
  const bool idle = group == P::kTile.groups - 1 && QueryTiles(p.query_length, P::kTile.groups).is_shorter(first);
  return idle ? static_cast<int32_t>(p.query_length) : first + 64 * group;
}

// The tiles of others that own lines have to do with, in order: keys from the first one on; queries from the last one
// on, 32 tiles of each of the `group` heads that share the keys in turn, so that blocks which add to the same queries
// come to them in the order of their keys, whatever a causal mask leaves of them. Of very long maps all of a head where
// later keys see as much later queries, as in a window: so what blocks add to stays in the cache until all of them
// have. All lanes of a warp go through them together; each reads the map for one of the next 32.
template <class P, bool kOwnAreQueries, int kOthers, RegisterSplit kSplit>
class TilePlan {
 public:
  CAUSEWAY_INLINE TilePlan(const P& problem, const TaskNote& task, int32_t group)
      : p(problem), task_(task), group_(group) {
    if constexpr (kOwnAreQueries) {
      h_ = task.head;
      base_ = -32 * kOthers;
    } else {
      h_ = task.kv_head * group - 1;
      base_ = (static_cast<int32_t>(p.query_length) - 1) & -kOthers;
    }
    if constexpr (kNarrows) narrow();
    find();
  }

  // The head of queries of the next tile.
  CAUSEWAY_INLINE int32_t head() const { return h_; }
  // The next tile; kNoTile, as the last, where there is none at all.
  CAUSEWAY_INLINE TileNote take() {
    TileNote note = kNoTile;
    if (lanes_ != 0) {
      const int lane = __builtin_ctz(lanes_);
      note = {other(lane), wave_shuffle(kinds_, lane)};
      lanes_ &= lanes_ - 1;
      find();
    }
    if (lanes_ == 0) note.kinds |= kLastTile;
    return note;
  }

 private:
  // Every position, or what the mask says.
  static constexpr int kKindWithoutMap = P::kHasMask ? 0x55 : 0xaa;

  // Pieces of a row, of 16 blocks each, from which on looking at it once is less work for a warp of few registers too.
  // Beside masks that read memory it has none to spare.
  static constexpr int kLongRow = 32;
  // Whether long maps' rows are looked at once, for the part that tiles are looked for in.
  static constexpr bool narrows() {
    if constexpr (!P::kHasBlockMap)
      return false;
    else
      return kSplit.copying_narrows || (kOwnAreQueries && P::kMapRowPieces >= kLongRow && !P::kMaskReadsMemory);
  }
  static constexpr bool kNarrows = narrows();

  // A row of the map in pieces of 16 blocks, 32 at a time, each lane one of them: how far apart the first and the last
  // are that any of the own rows sees something of.
  CAUSEWAY_INLINE void narrow_by_pieces() {
    constexpr int32_t kPiece = 16 * P::kBlockK;
    const int32_t last_row = (static_cast<int32_t>(p.query_length) + P::kBlockQ - 1) / P::kBlockQ - 1;
    constexpr int kRows = (kLinesOfBlock<P> + P::kBlockQ - 1) / P::kBlockQ;
    int32_t first = -1, last = -1;
#pragma clang loop unroll_count(kSplit.copying_narrows ? 2 : 1)
    for (int32_t round = 0; round < P::kMapRowPieces; round += 32) {
      const int32_t piece = round + lane_index() < P::kMapRowPieces ? round + lane_index() : P::kMapRowPieces - 1;
      uint32_t seen = 0;
#pragma clang loop unroll_count(kSplit.copying_narrows ? kRows : 1)
      for (int i = 0; i < kRows; ++i) {
        const int32_t row = task_.first / P::kBlockQ + i < last_row ? task_.first / P::kBlockQ + i : last_row;
        Vector<uint32_t, 4> blocks;
        __builtin_memcpy(&blocks, __builtin_assume_aligned(p.block_row(task_.b, h_, row) + piece * 16, 16), 16);
        seen |= blocks[0] | blocks[1] | blocks[2] | blocks[3];
      }
      const auto lanes = static_cast<uint32_t>(wave_ballot(seen != 0));
      if (lanes == 0) continue;
      if (first < 0) first = round + __builtin_ctz(lanes);
      last = round + 31 - __builtin_clz(lanes);
    }
    if (first < 0) return;  // nobody sees anything: found out by looking at all of it
    base_ = first * kPiece / kOthers * kOthers - 32 * kOthers;
    const auto length = static_cast<int32_t>(p.key_length);
    if ((last + 1) * kPiece < length) bound_ = (last + 1) * kPiece;
  }

  // Each lane looks at as many blocks of the map, one after the other.
  CAUSEWAY_INLINE void narrow() {
    constexpr int kBlock = kOwnAreQueries ? P::kBlockK : P::kBlockQ,
                  kOwnBlock = kOwnAreQueries ? P::kBlockQ : P::kBlockK;
    constexpr int32_t kShort = 2 * 32, kFar = 1024;  // blocks; positions of a lane's, of sequences of 32,768
    const auto length = static_cast<int32_t>(kOwnAreQueries ? p.key_length : p.query_length);
    const auto own_length = static_cast<int32_t>(kOwnAreQueries ? p.query_length : p.key_length);
    bound_ = kOwnAreQueries ? length : 0;
    const int32_t blocks = (length + kBlock - 1) / kBlock, each = (blocks + 31) / 32;
    if (blocks <= kShort) return;
    if constexpr (kOwnAreQueries && P::kMapRowPieces > 0) {
      narrow_by_pieces();
      return;
    }
    constexpr bool kHeads = !kOwnAreQueries && P::kMapHasHeads;  // whose parts of the map differ
    const int32_t own_end = task_.first + kLinesOfBlock<P> < own_length ? task_.first + kLinesOfBlock<P> : own_length;
    uint32_t seen = 0;
    for (int32_t head = kOwnAreQueries ? h_ : h_ + 1, left = kHeads ? group_ : 1; left > 0; ++head, --left) {
#pragma clang loop unroll(disable)
      for (int32_t own = task_.first / kOwnBlock; own * kOwnBlock < own_end; ++own) {
#pragma clang loop unroll_count(8)
        for (int32_t i = 0; i < each; ++i) {
          const int32_t block = lane_index() * each + i < blocks ? lane_index() * each + i : blocks - 1;
          seen |= kOwnAreQueries ? p.block_kind(task_.b, head, own, block) : p.block_kind(task_.b, head, block, own);
        }
      }
    }
    const auto lanes = static_cast<uint32_t>(wave_ballot(seen != 0));
    if (lanes == 0) return;  // nobody sees anything: found out by looking at all of it
    const int32_t first = __builtin_ctz(lanes) * each * kBlock, end = (32 - __builtin_clz(lanes)) * each * kBlock;
    if constexpr (kOwnAreQueries) {
      base_ = first / kOthers * kOthers - 32 * kOthers;
      if (end < length) bound_ = end;
    } else {
      bound_ = first;
      if (end >= length) return;
      base_ = (end - 1) & -kOthers;
      if (each * kBlock < kFar) return;
      const int32_t later = task_.first + each * kBlock;
      if (later >= own_length || p.block_kind(task_.b, h_ + 1, end / kBlock, later / kOwnBlock) == 0) return;
      top_ = base_;
      base_ += 32 * kOthers;
      ++h_;
    }
  }

  CAUSEWAY_INLINE int32_t other(int lane) const { return base_ + (kOwnAreQueries ? lane : -lane) * kOthers; }
  // The next 32; false when there are none.
  CAUSEWAY_INLINE bool advance() {
    if constexpr (kOwnAreQueries) {
      base_ += 32 * kOthers;
      return base_ < (kNarrows ? bound_ : static_cast<int32_t>(p.key_length));
    } else {
      if (top_ >= 0) {
        base_ -= 32 * kOthers;
        if (base_ + kOthers > bound_) return true;
        base_ = top_;
        return ++h_ < (task_.kv_head + 1) * group_;
      }
      if (++h_ == (task_.kv_head + 1) * group_) {
        h_ -= group_;
        base_ -= 32 * kOthers;
      }
      return base_ + kOthers > (kNarrows ? bound_ : 0);
    }
  }
  CAUSEWAY_INLINE void find() {
#pragma clang loop unroll(disable)
    while (lanes_ == 0 && advance()) {
      const int32_t first = other(lane_index());
      const bool inside = kOwnAreQueries ? first < static_cast<int32_t>(p.key_length) : first >= 0;
      kinds_ = inside ? kinds(first) : 0;
      lanes_ = static_cast<uint32_t>(wave_ballot(kinds_ != 0));
    }
  }
  CAUSEWAY_INLINE int kinds(int32_t other) const {
    const int all = kinds_of_all(other);
    if (!kOwnAreQueries || !QueryTiles(p.query_length, P::kTile.groups).is_shorter(task_.first)) return all;
    return all & ((1 << 2 * (P::kTile.groups - 1)) - 1);
  }
  CAUSEWAY_INLINE int kinds_of_all(int32_t other) const {
    if constexpr (P::kHasBlockMap) {
      return tile_kinds<P, kOwnAreQueries, kOthers>(p, task_.b, h_, task_.first, other);
    } else {
      const auto length = static_cast<int32_t>(kOwnAreQueries ? p.query_length : p.key_length);
      const int32_t inside = length - task_.first;
      return inside >= kLinesOfBlock<P> ? kKindWithoutMap & ((1 << 2 * kPartsOfBlock<P>)-1)
                                        : kKindWithoutMap & ((1 << 2 * ((inside + 63) / 64)) - 1);
    }
  }

  const P& p;
  const TaskNote& task_;
  int32_t group_, h_ = 0, base_ = 0;
  int32_t bound_ = 0;   // where they end, in their order
  int32_t top_ = -1;    // where they begin, if all of a head come one after the other
  int kinds_ = 0;       // of this lane's tile
  uint32_t lanes_ = 0;  // whose tiles are still to come
};

// The copying warpgroup's part of both directions. Where operands lie in memory as rows, one thread asks TMA for
// them; others are computed by all threads.
template <class P>
class Copier {
 public:
  // One warp suffices where nothing is computed.
  static constexpr int kThreads = P::kComputesOperands ? 128 : 32;

 protected:
  using T = typename P::Operand;
  // Arrivals that make a tile full: TMA's, and that of what threads write.
  static constexpr int kArrivals = P::kComputesOperands ? 2 : 1;

  CAUSEWAY_INLINE explicit Copier(const TensorMapBytes* maps) : maps_(maps) {}

  // Asked by whole warps.
  CAUSEWAY_INLINE static bool leads() { return wave_index() == 0 && elects_lane(); }

  // By the thread that leads, before the tile's loads.
  template <int kBytes>
  CAUSEWAY_INLINE static void expect(Mbarrier* barrier) {
    if constexpr (kBytes > 0) {
      barrier_expect_bytes(barrier, kBytes);
    } else {
      barrier_arrive(barrier);
    }
  }
  // Of those that copy.
  CAUSEWAY_INLINE static void copiers_barrier() {
    if constexpr (P::kComputesOperands) {
      named_barrier(1 + P::kTile.groups, 128);
    } else {
      wave_barrier();
    }
  }
  // By all: the arrival of what threads have written.
  CAUSEWAY_INLINE static void announce(Mbarrier* barrier) {
    if constexpr (P::kComputesOperands) fence_async_shared();
    copiers_barrier();
    if (leads()) barrier_arrive(barrier);
  }

  // Lines [first, first + kLines) of a head of kDim elements, zeros past the end: loaded, by the thread that leads, ...
  template <int kLines, int kDim, int kMap>
  static constexpr int kLoadedBytes = kMap < 0 ? 0 : kLines * hopper_attention_columns(kDim) * 2;
  template <int kLines, int kDim, int kMap>
  CAUSEWAY_INLINE void load(T* tile, Mbarrier* barrier, int32_t b, int32_t head, int32_t first) const {
    if constexpr (kMap >= 0) {
#pragma clang loop unroll(full)
      for (int column = 0; column < kDim; column += 64)
#pragma clang loop unroll(full)
        for (int line = 0; line < kLines; line += hopper_attention_box_lines(kLines))
          tensor_load(tile + (column / 64 * kLines + line) * 64, &maps_[kMap], barrier, column, first + line, head, b);
    }
  }
  // ... or computed, by all: `element(i, d)`.
  template <int kLines, int kDim, int kMap, class Element>
  CAUSEWAY_INLINE static void compute(T* tile, int32_t first, int64_t limit, Element element) {
    if constexpr (kMap < 0) {
      // Where a head's pieces do not share out threads, a thread's columns change from round to round.
      constexpr int kPieces = kDim / 8;
#pragma clang loop unroll_count(8)
      for (int round = 0; round < kLines * kPieces / 128; ++round) {
        const int at = 128 % kPieces == 0 ? thread_index() : round * 128 + thread_index();
        const int piece = at % kPieces, line = at / kPieces + (128 % kPieces == 0 ? round * (128 / kPieces) : 0);
        const bool valid = first + line < limit;
        T* to = tile_piece(tile, kLines, line, piece);
#pragma clang loop unroll(full)
        for (int e = 0; e < 8; ++e)
          to[e] = attention_tile::to_operand<T>(valid ? element(first + line, piece * 8 + e) : 0.0f);
      }
    }
  }

 private:
  const TensorMapBytes* maps_;
};

// MMAs' registers of 16 columns are those of a left operand.
template <class T, int kColumns>
CAUSEWAY_INLINE void pack(const float (&values)[kColumns / 2], uint32_t (&packed)[kColumns / 16][4]) {
#pragma clang loop unroll(full)
  for (int step = 0; step < kColumns / 16; ++step) {
#pragma clang loop unroll(full)
    for (int i = 0; i < 4; ++i) packed[step][i] = pack_pair<T>(values[8 * step + 2 * i], values[8 * step + 2 * i + 1]);
  }
}

// c (+)= A B^T over kDim columns: 64 lines of `a`, a tile of kLinesA lines, from `first` on; all kLinesB lines of `b`.
template <int kDim, int kLinesA, int kLinesB, class T>
CAUSEWAY_INLINE void multiply_lines(float (&c)[kLinesB / 2], T* a, int first, T* b) {
  const uint64_t left = tile_descriptor(a + first * 64, kLinesA * 128);
  const uint64_t right = tile_descriptor(b, kLinesB * 128);
#pragma clang loop unroll(full)
  for (int d = 0; d < kDim; d += 16)
    warpgroup_multiply_add<T, kLinesB, false, false>(c, left + columns_further<kLinesA>(d),
                                                     right + columns_further<kLinesB>(d), d > 0);
}

// c += W B: packed weights of kLines columns, all kLines lines of `b`, kDim columns of it.
template <int kDim, int kLines, class T>
CAUSEWAY_INLINE void multiply_weights(float (&c)[kDim / 2], const uint32_t (&weights)[kLines / 16][4], T* b) {
  const uint64_t right = tile_descriptor(b, kLines * 128);
#pragma clang loop unroll(full)
  for (int step = 0; step < kLines / 16; ++step)
    warpgroup_multiply_add<T, kDim, true>(c, weights[step], right + rows_further(16 * step), true);
}

// The piece of 16 bytes that a lane stores of 16 lines in a round, neighbours along a line side by side: its line, from
// `first` on, and its number in the line.
template <uint32_t kPieces>
CAUSEWAY_INLINE uint32_t stored_line(uint32_t first, uint32_t round, uint32_t lane) {
  if constexpr (32 % kPieces == 0) return first + round * (32 / kPieces) + lane / kPieces;
  return first + (round * 32 + lane) / kPieces;
}
template <uint32_t kPieces>
CAUSEWAY_INLINE uint32_t stored_piece(uint32_t round, uint32_t lane) {
  return (32 % kPieces == 0 ? lane : round * 32 + lane) % kPieces;
}

// A warpgroup's 64 lines of kDim elements, each times its factor, through its own part of `tile`, which its MMAs have
// read and which TMA may write to afterwards: store_element(line, d, value).
template <int kDim, int kLines, class T, class F>
CAUSEWAY_INLINE void store_lines(const float (&sums)[kDim / 2], const float (&factors)[2], T* tile, int group,
                                 F store_element) {
  // Without signs, which every address would have to take care of.
  const uint32_t thread = computed_here(static_cast<uint32_t>(thread_index()) % 128);
  const uint32_t lane = thread % 32, first = thread / 32 * 16, own = static_cast<uint32_t>(group) * 64;
#pragma clang loop unroll(full)
  for (uint32_t i = 0; i < kDim / 2; i += 2) {
    // As warpgroup_row(i) and warpgroup_column(i).
    T* to = tile_piece(tile, kLines, own + first + lane / 4 + (i & 2) * 4, i / 4) + lane % 4 * 2;
    const float factor = factors[(i & 2) / 2];
    const uint32_t pair = pack_pair<T>(sums[i] * factor, sums[i + 1] * factor);
    __builtin_memcpy(__builtin_assume_aligned(to, 4), &pair, 4);
  }
  wave_barrier();
  constexpr uint32_t kPieces = kDim / 8, kRounds = kPieces / 2;
  alignas(16) T stored[kRounds][8];
#pragma clang loop unroll(full)
  for (uint32_t round = 0; round < kRounds; ++round) {
    const T* from =
        tile_piece(tile, kLines, stored_line<kPieces>(own + first, round, lane), stored_piece<kPieces>(round, lane));
    __builtin_memcpy(stored[round], __builtin_assume_aligned(from, 16), 16);
  }
  fence_async_shared();
#pragma clang loop unroll(full)
  for (uint32_t round = 0; round < kRounds; ++round) {
    float values[8];
#pragma clang loop unroll(full)
    for (int e = 0; e < 8; ++e) values[e] = to_float(stored[round][e]);
    store_element(static_cast<int>(stored_line<kPieces>(first, round, lane)),
                  static_cast<int>(stored_piece<kPieces>(round, lane) * 8), values);
  }
}

// The same from registers: four lanes, which have pairs of columns, exchange them for pieces of 16 bytes. The tile is
// free for what TMA writes next while these are on their way.
template <int kDim, class T, class F>
CAUSEWAY_INLINE void store_lines_by_lanes(const float (&sums)[kDim / 2], const float (&factors)[2], F store_element) {
  const uint32_t thread = computed_here(static_cast<uint32_t>(thread_index()) % 128);
  const uint32_t lane = thread % 4, line = thread / 32 * 16 + thread % 32 / 4;
  const bool odd = (lane & 1) != 0, upper = (lane & 2) != 0;
  constexpr int kPieces = kDim / 8;
#pragma clang loop unroll(full)
  for (int piece = 0; piece < kPieces; piece += 4) {
#pragma clang loop unroll(full)
    for (int slot = 0; slot < 2; ++slot) {
      uint32_t own[4];  // this lane's pair of each piece
#pragma clang loop unroll(full)
      for (int i = 0; i < 4; ++i) {
        const int at = 4 * (piece + i) + 2 * slot;
        own[i] = piece + i < kPieces ? pack_pair<T>(sums[at] * factors[slot], sums[at + 1] * factors[slot]) : 0;
      }
      // Of the pieces of lanes on this side: this lane's pair and that of the lane two further, ...
      const uint32_t even_own = upper ? own[2] : own[0], odd_own = upper ? own[3] : own[1];
      const uint32_t even_far = wave_shuffle_xor(upper ? own[0] : own[2], 2);
      const uint32_t odd_far = wave_shuffle_xor(upper ? own[1] : own[3], 2);
      // ... then of this lane's piece the neighbours' too.
      const uint32_t near[2] = {odd ? odd_own : even_own, wave_shuffle_xor(odd ? even_own : odd_own, 1)};
      const uint32_t far[2] = {odd ? odd_far : even_far, wave_shuffle_xor(odd ? even_far : odd_far, 1)};
      const uint32_t near_pairs[2] = {odd ? near[1] : near[0], odd ? near[0] : near[1]};
      const uint32_t far_pairs[2] = {odd ? far[1] : far[0], odd ? far[0] : far[1]};
      alignas(16) uint32_t pairs[4];
#pragma clang loop unroll(full)
      for (int i = 0; i < 2; ++i) {
        pairs[i] = upper ? far_pairs[i] : near_pairs[i];
        pairs[2 + i] = upper ? near_pairs[i] : far_pairs[i];
      }
      if (piece + 4 > kPieces && piece + static_cast<int>(lane) >= kPieces) continue;
      T stored[8];
      __builtin_memcpy(stored, pairs, sizeof stored);
      float values[8];
#pragma clang loop unroll(full)
      for (int e = 0; e < 8; ++e) values[e] = to_float(stored[e]);
      store_element(static_cast<int>(line) + 8 * slot, (piece + static_cast<int>(lane)) * 8, values);
    }
  }
}

}  // namespace attention_hopper
