// Attention on CDNA 2 and CDNA 3, backward, for heads of 64 or 128 elements of two bytes whose operands lie in memory
// as rows: the two launches of attention_gradient.h, each with two rows of four waves that ping-pong as
// attention_cdna.h has them. A turn of MMAs has those that sum what the turn of exponentials before gave over its
// tile's others, and those of the lines with the next tile's: slice s in shared memory is tile s along heads' elements,
// for the latter, and tile s - 1 across, for the former.
#pragma once

#include "causeway/kernels/gpu/attention_cdna_tile.h"
#include "causeway/kernels/gpu/attention_gradient.h"

namespace attention_tile {

// A tile of others: the first of them, of a head of queries.
struct OtherTile {
  int head, first;
};

// What both launches do alike. `Self` says which lines a block owns and over which others it goes:
//   static constexpr bool kSums[2]                which sums there are: of the others' first operand by gradients of
//                                                 scores, of their second by weights
//   row(which, line), other_row(which, tile, i)   addresses of rows of both operands, i counted from the first other
//   lines(), others()                             how many there are
//   next_tile(tile), is_tile(tile), kind(tile)
//   load_statistics(tile)                         before a turn of MMAs ends
//   soften(tile, masked)                          MMAs to weights
template <class P, class Self, int kLineBlocks>
class GradientPingPong {
 protected:
  using T = typename P::Operand;
  static constexpr int kBlocks = kLineBlocks, kThreads = P::kTile.waves * kWaveWidth, kTile = P::kTile.others;
  static constexpr int kDim = kDimPadded<P>, kInner = kDim / 16, kOthers = kTile / 16, kInRow = kDim / kPieceElements;
  static constexpr int kLines = P::kTile.waves * 16 * kBlocks;
  // Pieces of a tile of one operand, of which each thread brings one or two of both; and pairs of them.
  static constexpr int kPieces = kTile * kInRow, kHeld = 2 * kPieces / kThreads, kPairs = kPieces / 2;
  static constexpr int kImage = kTile * kDim;  // elements
  static_assert(2 * kPairs <= kThreads);

  CAUSEWAY_INLINE explicit GradientPingPong(const P& problem) : p(problem) {}

  CAUSEWAY_INLINE void sum_up(OtherTile tile, OtherTile end) {
#pragma clang loop unroll(full)
    for (int which = 0; which < 2; ++which)
#pragma clang loop unroll(full)
      for (int r = 0; r < kBlocks; ++r) {
        const int64_t line = own_line(r), last = self().lines() - 1;
        load_line_fragments([&](int d) { return load_piece(self().row(which, line < last ? line : last) + d); },
                            lines_[which][r]);
#pragma clang loop unroll(full)
        for (int d = 0; d < kInner; ++d) sums_[which][r][d] = Accumulator{};
      }
    const int row = same_in_wave(wave_index()) / 4;
    next_ = tile = self().next_tile(tile);
    crossing_ = end;
    bool seen = false;  // the tile before has weights
    int stage = 0;
    begin_ping_pong(row, [&] { fetch(); }, [&](int to) { put(to); });
#pragma clang loop unroll(disable)
    for (;;) {
      wave_priority<1>();
      if (seen) add_others(stage);
      const bool more = self().is_tile(tile);
      int kind = 0;
      if (more) {
        if (first_line_ < self().lines()) kind = same_in_wave(self().kind(tile));
        if (kind != 0) {
          self().load_statistics(tile);
          multiply_lines(stage);
        }
      }
      wave_priority<0>();
      ping_pong_barrier_after_mma();
      if (!more) break;
      seen = kind != 0;
      if (seen) self().soften(tile, P::kHasMask && kind == 1);
      put(stage ^ row ^ 1);
      fetch();
      turn_barrier();
      tile = self().next_tile({tile.head, tile.first + kTile});
      stage ^= 1;
    }
    if (row == 0) turn_barrier();
  }

  // The wave's lines of a sum, times `factor`, through its own shared memory, in pieces of 16 bytes:
  // store_element(line, d, values).
  template <class F>
  CAUSEWAY_INLINE void store(int which, float factor, F store_element) const {
    constexpr int kStride = row_stride<T>(kDim);
    T* rows = reinterpret_cast<T*>(shared_memory()) + wave_index() * 16 * kStride;
#pragma clang loop unroll(full)
    for (int r = 0; r < kBlocks; ++r) {
      wave_barrier();
#pragma clang loop unroll(full)
      for (int d = 0; d < kInner; ++d)
#pragma clang loop unroll(full)
        for (int i = 0; i < kAccumulatorElements; ++i)
          rows[line_of_slot(0) * kStride + 16 * d + other_of(i)] = to_operand<T>(sums_[which][r][d].v[i] * factor);
      wave_barrier();
      for (int piece = lane_index(); piece < 16 * kInRow; piece += kWaveWidth) {
        const int line = piece / kInRow, d = piece % kInRow * kPieceElements;
        if (first_line_ + 16 * r + line >= self().lines()) continue;
        float values[kPieceElements];
#pragma clang loop unroll(full)
        for (int e = 0; e < kPieceElements; ++e) values[e] = to_float(rows[line * kStride + d + e]);
#pragma clang loop unroll(full)
        for (int e = 0; e < kPieceElements; ++e) store_element(first_line_ + 16 * r + line, d + e, values[e]);
      }
    }
  }

  CAUSEWAY_INLINE Self& self() { return *static_cast<Self*>(this); }
  CAUSEWAY_INLINE const Self& self() const { return *static_cast<const Self*>(this); }
  CAUSEWAY_INLINE int64_t own_line(int r) const { return first_line_ + 16 * r + line_of_slot(0); }

 private:
  // Of a stage: both operands along heads' elements, then across.
  CAUSEWAY_INLINE static T* image(int stage, int which) {
    return reinterpret_cast<T*>(shared_memory()) + (4 * stage + which) * kImage;
  }

  // This thread's part of the next slice, into registers; others past the last are zero.
  CAUSEWAY_INLINE void fetch() {
#pragma clang loop unroll(full)
    for (int i = 0; i < kHeld; ++i) {
      const int at = thread_index() + i * kThreads, which = at / kPieces, piece = at % kPieces;
      held_[i] = piece_at(which, next_, piece / kInRow, piece % kInRow * kPieceElements);
    }
    const int which = thread_index() / kPairs, pair = thread_index() % kPairs;
#pragma clang loop unroll(full)
    for (int i = 0; i < 2; ++i)
      across_[i] = crosses(which) ? piece_at(which, crossing_, pair / kInRow * 2 + i, pair % kInRow * kPieceElements)
                                  : GemmPiece(0);
    crossing_ = next_;
    if (self().is_tile(next_)) next_ = self().next_tile({next_.head, next_.first + kTile});
  }
  CAUSEWAY_INLINE GemmPiece piece_at(int which, const OtherTile& tile, int i, int d) const {
    return self().is_tile(tile) && tile.first + i < self().others() ? load_piece(self().other_row(which, tile, i) + d)
                                                                    : GemmPiece(0);
  }
  CAUSEWAY_INLINE static bool crosses(int which) {
    return (which == 0 && Self::kSums[0]) || (which == 1 && Self::kSums[1]);
  }

  CAUSEWAY_INLINE void put(int stage) const {
#pragma clang loop unroll(full)
    for (int i = 0; i < kHeld; ++i) {
      const int at = thread_index() + i * kThreads, piece = at % kPieces;
      store_piece(image(stage, at / kPieces) + row_place<kDim>(piece / kInRow, piece % kInRow * kPieceElements),
                  held_[i]);
    }
    const int which = thread_index() / kPairs, pair = thread_index() % kPairs;
    if (crosses(which))
      put_across<kTile>(image(stage, 2 + which), pair / kInRow * 2, pair % kInRow * kPieceElements, across_);
  }

  // MMAs of the wave's lines with a tile's others, of both operands.
  CAUSEWAY_INLINE void multiply_lines(int stage) {
    constexpr int kSteps = kDim / 32;
#pragma clang loop unroll(full)
    for (int which = 0; which < 2; ++which) {
#pragma clang loop unroll(full)
      for (int r = 0; r < kBlocks; ++r)
#pragma clang loop unroll(full)
        for (int n = 0; n < kOthers; ++n) accumulators_[which][r][n] = Accumulator{};
      const RowReader<kDim, T> rows(image(stage, which));
      load_ahead<kOthers * kSteps, OtherFragment<T>>(
          [&](int i) { return rows.load(i / kSteps, i % kSteps); },
          [&](int i, const OtherFragment<T>& first, const OtherFragment<T>& second) {
            const int n = i / kSteps, d = i % kSteps * 2;
#pragma clang loop unroll(full)
            for (int r = 0; r < kBlocks; ++r)
              multiply_scores<T>(accumulators_[which][r][n], lines_[which][r][d], first);
#pragma clang loop unroll(full)
            for (int r = 0; r < kBlocks; ++r)
              multiply_scores<T>(accumulators_[which][r][n], lines_[which][r][d + 1], second);
          });
    }
  }

  // Sums of the tile's others by the weights that `soften` left.
  CAUSEWAY_INLINE void add_others(int stage) {
#pragma clang loop unroll(full)
    for (int which = 0; which < 2; ++which) {
      if (!Self::kSums[which]) continue;
      const CrossReader<kTile, T> across(image(stage, 2 + which));
      load_ahead<kInner, ValueFragment<T>>([&](int d) { return across.load(0, d); },
                                           [&](int d, const ValueFragment<T>& first, const ValueFragment<T>& second) {
#pragma clang loop unroll(full)
                                             for (int r = 0; r < kBlocks; ++r)
                                               multiply_values<T>(sums_[which][r][d], weights_[which][r][0], first);
#pragma clang loop unroll(full)
                                             for (int r = 0; r < kBlocks; ++r)
                                               multiply_values<T>(sums_[which][r][d], weights_[which][r][1], second);
                                           });
    }
  }

 protected:
  const P& p;
  int64_t first_line_ = 0;                          // of the wave
  Accumulator accumulators_[2][kBlocks][kOthers];   // of both operands
  WeightFragment<T> weights_[2][kBlocks][kOthers];  // gradients of scores, weights

 private:
  LineFragment<T> lines_[2][kBlocks][kInner];
  Accumulator sums_[2][kBlocks][kInner];
  OtherTile next_, crossing_;  // of the next slice to be fetched: the tile along, and the one across
  GemmPiece held_[kHeld], across_[2];
};

template <class P>
class QueryGradientPingPong : GradientPingPong<P, QueryGradientPingPong<P>, 2> {
  using Base = GradientPingPong<P, QueryGradientPingPong<P>, 2>;
  friend Base;
  using Base::first_line_, Base::kBlocks, Base::kLines, Base::kOthers, Base::kTile, Base::p;
  using typename Base::T;
  static_assert(kLines == P::kTile.queries);

 public:
  CAUSEWAY_INLINE QueryGradientPingPong(const P& problem, int task) : Base(problem) {
    const int64_t blocks = (p.query_length + kLines - 1) / kLines;
    const TileOfHead own(task, p.batch * p.query_heads, blocks);
    first_query_ = (blocks - 1 - own.tile) * kLines;
    b_ = own.head / p.query_heads;
    h_ = own.head % p.query_heads;
    kv_head_ = h_ / (p.query_heads / p.kv_heads);
    first_line_ = first_query_ + same_in_wave(wave_index()) * 16 * kBlocks;
  }

  CAUSEWAY_INLINE void run() {
#pragma clang loop unroll(full)
    for (int r = 0; r < kBlocks; ++r) {
      const int64_t t = this->own_line(r);
      shift_[r] = t < p.query_length ? weight_shift(p.load_lse(b_, h_, t)) : -kInfinity;
      delta_[r] = t < p.query_length ? p.load_delta(b_, h_, t) : 0.0f;
    }
    this->sum_up({0, 0}, {0, static_cast<int>(p.key_length)});
    this->store(0, p.scale, [&](int64_t t, int d, float value) { p.store_dq(b_, h_, t, d, value); });
  }

 private:
  static constexpr bool kSums[2] = {true, false};
  CAUSEWAY_INLINE const T* row(int which, int64_t t) const {
    return which == 0 ? p.q_row(b_, h_, t) : p.out_gradient_row(b_, h_, t);
  }
  CAUSEWAY_INLINE const T* other_row(int which, const OtherTile& tile, int i) const {
    return which == 0 ? p.k_row(b_, kv_head_, tile.first + i) : p.v_row(b_, kv_head_, tile.first + i);
  }
  CAUSEWAY_INLINE int64_t lines() const { return p.query_length; }
  CAUSEWAY_INLINE int64_t others() const { return p.key_length; }
  CAUSEWAY_INLINE bool is_tile(const OtherTile& tile) const { return tile.first < p.key_length; }
  CAUSEWAY_INLINE int kind(const OtherTile& tile) const { return block_kind(p, b_, h_, first_line_, tile.first); }
  CAUSEWAY_INLINE OtherTile next_tile(OtherTile tile) const {
    if constexpr (P::kHasBlockMap && P::kTile.map_is_usable)
      for (; tile.first < p.key_length; tile.first += kTile)
        for (int64_t t = first_query_; t < first_query_ + kLines && t < p.query_length; t += P::kBlockQ)
          if (same_in_wave(block_kind(p, b_, h_, t, tile.first)) != 0) return tile;
    return tile;
  }
  CAUSEWAY_INLINE void load_statistics(const OtherTile&) const {}

  CAUSEWAY_INLINE void soften(const OtherTile& tile, bool masked) {
    // Lines past the end are not stored, and their weights are 0.
    if (masked || tile.first + kTile > p.key_length || (P::kHasScore && first_line_ + 16 * kBlocks > p.query_length)) {
      find_weights<Modified::kByAll>(tile, masked);
    } else {
      find_weights<P::kHasScore ? Modified::kByScore : Modified::kNot>(tile, false);
    }
  }
  template <Modified kModified>
  CAUSEWAY_INLINE void find_weights(const OtherTile& tile, bool masked) {
#pragma clang loop unroll(full)
    for (int r = 0; r < kBlocks; ++r)
#pragma clang loop unroll(full)
      for (int n = 0; n < kOthers; ++n) {
        Accumulator gradients;
#pragma clang loop unroll(full)
        for (int i = 0; i < kAccumulatorElements; ++i)
          gradients.v[i] =
              pair_gradient<kModified>(p, this->accumulators_[0][r][n].v[i], this->accumulators_[1][r][n].v[i],
                                       shift_[r], delta_[r], b_, h_, static_cast<int32_t>(this->own_line(r)),
                                       tile.first + OthersInPairs::of(n, i), masked)
                  .dqk;
        set_weights(this->weights_[0][r][n], gradients);
      }
  }

  int64_t first_query_, b_, h_, kv_head_;
  float shift_[kBlocks], delta_[kBlocks];
};

// kForKeys, kForValues: which of the two sums to compute.
template <class P, bool kForKeys, bool kForValues>
class KeyGradientPingPong
    : GradientPingPong<P, KeyGradientPingPong<P, kForKeys, kForValues>, cdna_attention_key_blocks(kDimPadded<P>)> {
  using Base = GradientPingPong<P, KeyGradientPingPong, cdna_attention_key_blocks(kDimPadded<P>)>;
  friend Base;
  using Base::first_line_, Base::kBlocks, Base::kLines, Base::kOthers, Base::kTile, Base::p;
  using typename Base::T;
  static_assert(kLines == P::kTile.keys);

 public:
  CAUSEWAY_INLINE KeyGradientPingPong(const P& problem, int task) : Base(problem) {
    // The first keys are seen by the most queries under a causal mask: they start first.
    const TileOfHead own(task, p.batch * p.kv_heads, (p.key_length + kLines - 1) / kLines);
    first_key_ = own.tile * kLines;
    b_ = own.head / p.kv_heads;
    kv_head_ = own.head % p.kv_heads;
    first_line_ = first_key_ + wave_index() * 16 * kBlocks;
    end_ = static_cast<int>((kv_head_ + 1) * (p.query_heads / p.kv_heads));
  }

  CAUSEWAY_INLINE void run() {
    this->sum_up({static_cast<int>(kv_head_ * (p.query_heads / p.kv_heads)), 0}, {end_, 0});
    if constexpr (kForKeys)
      this->store(0, p.scale, [&](int64_t s, int d, float value) { p.store_dk(b_, kv_head_, s, d, value); });
    if constexpr (kForValues)
      this->store(1, 1.0f, [&](int64_t s, int d, float value) { p.store_dv(b_, kv_head_, s, d, value); });
  }

 private:
  static constexpr bool kSums[2] = {kForKeys, kForValues};
  CAUSEWAY_INLINE const T* row(int which, int64_t s) const {
    return which == 0 ? p.k_row(b_, kv_head_, s) : p.v_row(b_, kv_head_, s);
  }
  CAUSEWAY_INLINE const T* other_row(int which, const OtherTile& tile, int i) const {
    return which == 0 ? p.q_row(b_, tile.head, tile.first + i) : p.out_gradient_row(b_, tile.head, tile.first + i);
  }
  CAUSEWAY_INLINE int64_t lines() const { return p.key_length; }
  CAUSEWAY_INLINE int64_t others() const { return p.query_length; }
  CAUSEWAY_INLINE bool is_tile(const OtherTile& tile) const { return tile.head < end_; }
  CAUSEWAY_INLINE int kind(const OtherTile& tile) const {
    return block_kind(p, b_, tile.head, tile.first, first_line_);
  }
  // Heads of the group follow each other.
  CAUSEWAY_INLINE OtherTile next_tile(OtherTile tile) const {
    while (tile.head < end_) {
      for (; tile.first < p.query_length; tile.first += kTile) {
        if constexpr (!(P::kHasBlockMap && P::kTile.map_is_usable)) return tile;
        for (int64_t s = first_key_; s < first_key_ + kLines && s < p.key_length; s += P::kBlockK)
          if (same_in_wave(block_kind(p, b_, tile.head, tile.first, s)) != 0) return tile;
      }
      tile = {tile.head + 1, 0};
    }
    return tile;
  }
  CAUSEWAY_INLINE void load_statistics(const OtherTile& tile) {
#pragma clang loop unroll(full)
    for (int i = 0; i < kStatistics; ++i) {
      const int64_t t = tile.first + OthersInPairs::of(i / 4, i % 4);
      lse_[i] = t < p.query_length ? p.load_lse(b_, tile.head, t) : -kInfinity;
      delta_[i] = t < p.query_length ? p.load_delta(b_, tile.head, t) : 0.0f;
    }
  }

  CAUSEWAY_INLINE void soften(const OtherTile& tile, bool masked) {
    // Queries past the end have weights of 0, and keys past the end are not stored.
    if (masked ||
        (P::kHasScore && (tile.first + kTile > p.query_length || first_line_ + 16 * kBlocks > p.key_length))) {
      find_weights<Modified::kByAll>(tile, masked);
    } else {
      find_weights<P::kHasScore ? Modified::kByScore : Modified::kNot>(tile, false);
    }
  }
  template <Modified kModified>
  CAUSEWAY_INLINE void find_weights(const OtherTile& tile, bool masked) {
#pragma clang loop unroll(full)
    for (int r = 0; r < kBlocks; ++r)
#pragma clang loop unroll(full)
      for (int n = 0; n < kOthers; ++n) {
        Accumulator gradients, weights;
#pragma clang loop unroll(full)
        for (int i = 0; i < kAccumulatorElements; ++i) {
          const PairGradient pair = pair_gradient<kModified>(
              p, this->accumulators_[0][r][n].v[i], this->accumulators_[1][r][n].v[i], weight_shift(lse_[4 * n + i]),
              delta_[4 * n + i], b_, tile.head, tile.first + OthersInPairs::of(n, i),
              static_cast<int32_t>(this->own_line(r)), masked);
          gradients.v[i] = pair.dqk;
          weights.v[i] = pair.weight;
        }
        set_weights(this->weights_[0][r][n], gradients);
        set_weights(this->weights_[1][r][n], weights);
      }
  }

  static constexpr int kStatistics = 4 * kOthers;
  int64_t first_key_, b_, kv_head_;
  int end_;  // the first head of queries after the group's
  float lse_[kStatistics], delta_[kStatistics];
};

}  // namespace attention_tile

// One block of a launch of batch * query_heads * ceil(query_length / kTile.queries).
template <CdnaAttentionGradientProblem P>
CAUSEWAY_INLINE void cdna_attention_query_gradient(const P& problem, int task) {
  attention_tile::QueryGradientPingPong<P>(problem, task).run();
}

// One block of a launch of batch * kv_heads * ceil(key_length / kTile.keys).
template <bool kForKeys, bool kForValues, CdnaAttentionGradientProblem P>
CAUSEWAY_INLINE void cdna_attention_key_gradient(const P& problem, int task) {
  attention_tile::KeyGradientPingPong<P, kForKeys, kForValues>(problem, task).run();
}
