// Attention on CDNA 2 and CDNA 3, forward, for the CdnaAttentionProblem of attention_problem.h: heads of 64 or 128
// elements of two bytes whose keys and values lie in memory as rows: two rows of four waves, one of each row on every
// SIMD, are half a turn apart, so that one multiplies while the other takes exponentials, as the MMAs of gemm_cdna.h
// do. Between those a wave has a tile's scores in registers, so that the MMAs with its values come a turn after those
// with its keys, together with those with the next tile's keys: slice s in shared memory is the keys of tile s and the
// values of tile s - 1, and there are two of them.
//
//   turn        row 0                                       row 1
//   2 s         MMAs with values s - 1 and keys s       exponentials of tile s - 1, stores its part of slice s + 1,
//                                                           asks device memory for its part of s + 2
//   2 s + 1     exponentials of tile s, stores its part     MMAs with values s - 1 and keys s
//               of slice s + 1, asks for s + 2
#pragma once

#include "causeway/kernels/gpu/attention.h"
#include "causeway/kernels/gpu/attention_cdna_tile.h"

namespace attention_tile {

template <class P>
class ForwardPingPong : Forward<P, OthersInPairs> {
  using Base = Forward<P, OthersInPairs>;
  using T = typename P::Operand;
  using Base::b_, Base::first_line_, Base::h_, Base::kv_head_, Base::output_, Base::p, Base::queries_;
  using Base::kBlocks, Base::kInner, Base::kOthers, Base::kThreads;
  static constexpr int kDim = kDimPadded<P>, kKeys = P::kTile.keys, kInRow = kDim / kPieceElements;
  static constexpr int kSliceElements = 2 * kKeys * kDim;
  // Pieces of keys that each thread brings, and of values: two neighbouring keys' at once.
  static constexpr int kKeyPieces = kKeys * kInRow / kThreads, kValuePairs = kKeys / 2 * kInRow;
  static_assert(kValuePairs <= kThreads && kKeyPieces >= 1);

 public:
  CAUSEWAY_INLINE ForwardPingPong(const P& problem, int task) : Base(problem, task) {}

  CAUSEWAY_INLINE void run() {
    load_queries();
#pragma clang loop unroll(full)
    for (int r = 0; r < kBlocks; ++r) {
#pragma clang loop unroll(full)
      for (int d = 0; d < kInner; ++d) output_[r][d] = Accumulator{};
      this->maximum_[r][0] = -kInfinity;
      this->sum_[r][0] = 0.0f;
    }
    const int row = same_in_wave(wave_index()) / 4, end = static_cast<int>(p.key_length);
    int key = next_keys_ = next_tile(0), stage = 0;
    next_values_ = end;
    bool seen = false;  // the tile before has weights
    begin_ping_pong(row, [&] { fetch(); }, [&](int to) { put(to); });
#pragma clang loop unroll(disable)
    for (;;) {
      wave_priority<1>();
      if (seen) add_values(stage);
      int kind = 0;
      if (key < end) {
        if (first_line_ < p.query_length) kind = same_in_wave(block_kind(p, b_, h_, first_line_, key));
        if (kind != 0) find_scores(stage);
      }
      wave_priority<0>();
      ping_pong_barrier_after_mma();
      if (key >= end) break;
      seen = kind != 0;
      if (seen) {
        this->soften_tile(scores_, key, P::kHasMask && kind == 1);
#pragma clang loop unroll(full)
        for (int r = 0; r < kBlocks; ++r)
#pragma clang loop unroll(full)
          for (int n = 0; n < kOthers; ++n) set_weights(weights_[r][n], scores_[r][n]);
      }
      put(stage ^ row ^ 1);
      fetch();
      turn_barrier();
      key = next_tile(key + kKeys);
      stage ^= 1;
    }
    if (row == 0) turn_barrier();
    this->finish();
  }

 private:
  // As Base's, by scalar branches.
  CAUSEWAY_INLINE int next_tile(int key) const {
    const int64_t last = this->first_query_ + P::kTile.queries;
    const int64_t end = last < p.query_length ? last : p.query_length;
    if constexpr (P::kHasBlockMap && P::kTile.map_is_usable)
      for (; key < p.key_length; key += kKeys)
        for (int64_t t = this->first_query_; t < end; t += P::kBlockQ)
          if (same_in_wave(block_kind(p, b_, h_, t, key)) != 0) return key;
    return key;
  }

  CAUSEWAY_INLINE static T* keys(int stage) { return reinterpret_cast<T*>(shared_memory()) + stage * kSliceElements; }
  CAUSEWAY_INLINE static T* values(int stage) { return keys(stage) + kKeys * kDim; }

  CAUSEWAY_INLINE void load_queries() {
#pragma clang loop unroll(full)
    for (int r = 0; r < kBlocks; ++r) {
      const int64_t line = first_line_ + 16 * r + lane_index() % 16;
      const int64_t t = line < p.query_length ? line : p.query_length - 1;
      load_line_fragments(
          [&](int first) {
            if constexpr (P::kDirectQ) {
              return load_piece(p.q_row(b_, h_, t) + first);
            } else {
              T elements[kPieceElements];
#pragma clang loop unroll(full)
              for (int e = 0; e < kPieceElements; ++e) elements[e] = to_operand<T>(p.load_q(b_, h_, t, first + e));
              GemmPiece piece;
              __builtin_memcpy(&piece, elements, 16);
              return piece;
            }
          },
          queries_[r]);
    }
  }

  // This thread's part of the next slice, into registers; keys past the last are zero.
  CAUSEWAY_INLINE void fetch() {
#pragma clang loop unroll(full)
    for (int i = 0; i < kKeyPieces; ++i) {
      const int at = thread_index() + i * kThreads, d = at % kInRow * kPieceElements;
      held_keys_[i] = piece_at(next_keys_ + at / kInRow, [&](int64_t s) { return p.k_row(b_, kv_head_, s) + d; });
    }
    const int at = thread_index() % kValuePairs, d = at % kInRow * kPieceElements;
#pragma clang loop unroll(full)
    for (int i = 0; i < 2; ++i)
      held_values_[i] =
          piece_at(next_values_ + at / kInRow * 2 + i, [&](int64_t s) { return p.v_row(b_, kv_head_, s) + d; });
    next_values_ = next_keys_;
    if (next_keys_ < p.key_length) next_keys_ = next_tile(next_keys_ + kKeys);
  }
  template <class Row>
  CAUSEWAY_INLINE GemmPiece piece_at(int key, Row row) const {
    return key < p.key_length ? load_piece(row(key)) : GemmPiece(0);
  }

  CAUSEWAY_INLINE void put(int stage) const {
#pragma clang loop unroll(full)
    for (int i = 0; i < kKeyPieces; ++i) {
      const int at = thread_index() + i * kThreads;
      store_piece(keys(stage) + row_place<kDim>(at / kInRow, at % kInRow * kPieceElements), held_keys_[i]);
    }
    if (kValuePairs == kThreads || thread_index() < kValuePairs)
      put_across<kKeys>(values(stage), thread_index() / kInRow * 2, thread_index() % kInRow * kPieceElements,
                        held_values_);
  }

  // MMAs of the wave's queries with a tile's keys.
  CAUSEWAY_INLINE void find_scores(int stage) {
#pragma clang loop unroll(full)
    for (int n = 0; n < kOthers; ++n)
#pragma clang loop unroll(full)
      for (int r = 0; r < kBlocks; ++r) scores_[r][n] = Accumulator{};
    const RowReader<kDim, T> rows(keys(stage));
    constexpr int kSteps = kDim / 32;
    load_ahead<kOthers * kSteps, OtherFragment<T>>(
        [&](int i) { return rows.load(i / kSteps, i % kSteps); },
        [&](int i, const OtherFragment<T>& first, const OtherFragment<T>& second) {
          const int d = i % kSteps * 2;
#pragma clang loop unroll(full)
          for (int r = 0; r < kBlocks; ++r) multiply_scores<T>(scores_[r][i / kSteps], queries_[r][d], first);
#pragma clang loop unroll(full)
          for (int r = 0; r < kBlocks; ++r) multiply_scores<T>(scores_[r][i / kSteps], queries_[r][d + 1], second);
        });
  }

  // MMAs of the tile's weights with its values.
  CAUSEWAY_INLINE void add_values(int stage) {
    const CrossReader<kKeys, T> across(values(stage));
    load_ahead<kOthers / 2 * kInner, ValueFragment<T>>(
        [&](int i) { return across.load(i / kInner, i % kInner); },
        [&](int i, const ValueFragment<T>& first, const ValueFragment<T>& second) {
          const int n = i / kInner * 2;
#pragma clang loop unroll(full)
          for (int r = 0; r < kBlocks; ++r) multiply_values<T>(output_[r][i % kInner], weights_[r][n], first);
#pragma clang loop unroll(full)
          for (int r = 0; r < kBlocks; ++r) multiply_values<T>(output_[r][i % kInner], weights_[r][n + 1], second);
        });
  }

  Accumulator scores_[kBlocks][kOthers];
  WeightFragment<T> weights_[kBlocks][kOthers];
  int next_keys_, next_values_;  // of the next slice to be fetched: the tiles' first keys
  GemmPiece held_keys_[kKeyPieces], held_values_[2];
};

}  // namespace attention_tile

// As gpu_attention_forward().
template <CdnaAttentionProblem P>
CAUSEWAY_INLINE void cdna_attention_forward(const P& problem, int task) {
  attention_tile::ForwardPingPong<P>(problem, task).run();
}
