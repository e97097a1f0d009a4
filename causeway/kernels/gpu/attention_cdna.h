// Attention on CDNA 2 and CDNA 3, forward, for the Problem that attention.h describes with heads of 64 or 128 elements
// of two bytes whose keys and values lie in memory as rows: two rows of four waves, one of each row on every SIMD, are
// half a turn apart, so that one multiplies while the other takes exponentials, as the products of matmul_cdna.h do.
// Between those a wave has a tile's scores in registers, so that the products with its values come a turn after those
// with its keys, together with those with the next tile's keys: slice s in shared memory is the keys of tile s and the
// values of tile s - 1, and there are two of them.
//
//   turn        row 0                                       row 1
//   2 s         products with values s - 1 and keys s       exponentials of tile s - 1, stores its part of slice s + 1,
//                                                           asks device memory for its part of s + 2
//   2 s + 1     exponentials of tile s, stores its part     products with values s - 1 and keys s
//               of slice s + 1, asks for s + 2
//
// Fragments are loaded 16 bytes at a time: of keys the elements of both operands are exchanged alike, and of scores
// rows are so exchanged that a lane's are of eight neighbouring keys, as it reads values, which lie across.
#pragma once

#include "causeway/kernels/gpu/attention.h"
#include "causeway/kernels/gpu/cdna.h"
#include "causeway/kernels/gpu/matmul.h"

namespace attention_tile {

// Two neighbouring blocks of 16 scores have 32 keys, a lane's rows of the first four of eight and of the second the
// rest.
struct KeysInPairs {
  CAUSEWAY_INLINE static constexpr int of_block(int n) { return n / 2 * 32 + n % 2 * 4; }
  CAUSEWAY_INLINE static int of(int n, int i) { return of_block(n) + lane_index() / 16 * 8 + i; }
  // The key of row `row` of block n.
  CAUSEWAY_INLINE static int of_row(int n, int row) { return of_block(n) + row / 4 * 8 + row % 4; }
};

template <class P>
class ForwardInTurns : Forward<P, KeysInPairs> {
  using Base = Forward<P, KeysInPairs>;
  using T = typename P::Operand;
  using Base::b_, Base::first_line_, Base::h_, Base::kv_head_, Base::output_, Base::p, Base::queries_;
  using Base::kBlocks, Base::kInner, Base::kOthers, Base::kThreads;
  static constexpr int kDim = P::kDimPadded, kKeys = P::kKeyTile, kPiece = 16 / sizeof(T);
  static constexpr int kSliceElements = 2 * kKeys * kDim;
  // Pieces of keys that each thread brings, and of values: two neighbouring keys' at once.
  static constexpr int kKeyPieces = kKeys * kDim / kPiece / kThreads;
  static constexpr int kValuePairs = kKeys / 2 * kDim / kPiece;
  static_assert(sizeof(T) == 2 && P::kWaves == 8 && kKeys == 64 && (kDim == 64 || kDim == 128));
  static_assert(P::kHeadDim == kDim && P::kDirectK && P::kDirectV && kValuePairs <= kThreads && kKeyPieces >= 1);

 public:
  CAUSEWAY_INLINE ForwardInTurns(const P& problem, int task) : Base(problem, task) {}

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
    next_keys_ = next_tile(0);
    next_values_ = end;
    int key = next_keys_, before = end;
    fetch();
    put(0);
    fetch();
    turn_barrier();
    if (row == 1) {
      put(1);
      fetch();
      turn_barrier();
    }
    int stage = 0;
#pragma clang loop unroll(disable)
    for (;;) {
      wave_priority<1>();
      if (before < end && seen_) add_values(stage);
      int kind = 0;
      if (key < end) {
        if (first_line_ < p.query_length) kind = same_in_wave(block_kind(p, b_, h_, first_line_, key));
        if (kind != 0) find_scores(stage);
      }
      wave_priority<0>();
      turn_barrier();
      if (key >= end) break;
      seen_ = kind != 0;
      if (seen_) {
        this->soften_tile(scores_, key, P::kHasMask && kind == 1);
#pragma clang loop unroll(full)
        for (int r = 0; r < kBlocks; ++r)
#pragma clang loop unroll(full)
          for (int n = 0; n < kOthers; ++n) set_weights(weights_[r][n], scores_[r][n]);
      }
      put(stage ^ row ^ 1);
      fetch();
      turn_barrier();
      before = key;
      key = next_tile(key + kKeys);
      stage ^= 1;
    }
    if (row == 0) turn_barrier();
    this->finish();
  }

 private:
  // As Base's, by scalar branches.
  CAUSEWAY_INLINE int next_tile(int key) const {
    const int64_t end =
        this->first_query_ + P::kQueryTile < p.query_length ? this->first_query_ + P::kQueryTile : p.query_length;
    if constexpr (P::kHasBlockMap && P::kMapIsUsable)
      for (; key < p.key_length; key += kKeys)
        for (int64_t t = this->first_query_; t < end; t += P::kBlockQ)
          if (same_in_wave(block_kind(p, b_, h_, t, key)) != 0) return key;
    return key;
  }

  // Where an element of a key is in a slice, and one of a value: keys' lines are a head's elements, values' the keys.
  // Pieces of 16 bytes are exchanged so that eight lanes, which read or write at once, do so in different banks.
  CAUSEWAY_INLINE static int key_place(int key, int d) {
    const int exchange = key % 4 + key / 8 % 2 * 4;
    return key * kDim + ((d / kPiece) ^ exchange) * kPiece + d % kPiece;
  }
  CAUSEWAY_INLINE static int value_place(int key, int d) {
    const int exchange = (d ^ d / 8) % 8;
    return d * kKeys + ((key / kPiece) ^ exchange) * kPiece + key % kPiece;
  }
  CAUSEWAY_INLINE static T* keys(int stage) { return reinterpret_cast<T*>(shared_memory()) + stage * kSliceElements; }
  CAUSEWAY_INLINE static T* values(int stage) { return keys(stage) + kKeys * kDim; }

  // A lane's eight elements of every 32 of a query, of which the first instruction takes four and the second the rest.
  CAUSEWAY_INLINE void load_queries() {
#pragma clang loop unroll(full)
    for (int r = 0; r < kBlocks; ++r) {
      const int64_t line = first_line_ + 16 * r + lane_index() % 16;
      const int64_t t = line < p.query_length ? line : p.query_length - 1;
#pragma clang loop unroll(full)
      for (int d = 0; d < kInner; d += 2) {
        const int first = 16 * d + lane_index() / 16 * kPiece;
        MatmulPiece piece;
        if constexpr (P::kDirectQ) {
          piece = load_piece(p.q_row(b_, h_, t) + first);
        } else {
          T elements[kPiece];
#pragma clang loop unroll(full)
          for (int e = 0; e < kPiece; ++e) elements[e] = to_operand<T>(p.load_q(b_, h_, t, first + e));
          __builtin_memcpy(&piece, elements, 16);
        }
        __builtin_memcpy(&queries_[r][d], &piece, 16);
      }
    }
  }

  // This thread's part of the next slice, into registers; keys past the last are zero.
  CAUSEWAY_INLINE void fetch() {
#pragma clang loop unroll(full)
    for (int i = 0; i < kKeyPieces; ++i) {
      const int at = thread_index() + i * kThreads, d = at % (kDim / kPiece) * kPiece;
      held_keys_[i] =
          piece_at(next_keys_ + at / (kDim / kPiece), [&](int64_t s) { return p.k_row(b_, kv_head_, s) + d; });
    }
    const int at = thread_index() % kValuePairs, d = at % (kDim / kPiece) * kPiece;
#pragma clang loop unroll(full)
    for (int i = 0; i < 2; ++i)
      held_values_[i] = piece_at(next_values_ + at / (kDim / kPiece) * 2 + i,
                                 [&](int64_t s) { return p.v_row(b_, kv_head_, s) + d; });
    next_values_ = next_keys_;
    if (next_keys_ < p.key_length) next_keys_ = next_tile(next_keys_ + kKeys);
  }
  template <class Row>
  CAUSEWAY_INLINE MatmulPiece piece_at(int key, Row row) const {
    return key < p.key_length ? load_piece(row(key)) : MatmulPiece(0);
  }

  CAUSEWAY_INLINE void put(int stage) const {
#pragma clang loop unroll(full)
    for (int i = 0; i < kKeyPieces; ++i) {
      const int at = thread_index() + i * kThreads;
      store_piece(keys(stage) + key_place(at / (kDim / kPiece), at % (kDim / kPiece) * kPiece), held_keys_[i]);
    }
    if (kValuePairs < kThreads && thread_index() >= kValuePairs) return;
    const int key = thread_index() / (kDim / kPiece) * 2, d = thread_index() % (kDim / kPiece) * kPiece;
    T pieces[2][kPiece];
    __builtin_memcpy(pieces, held_values_, sizeof(pieces));
#pragma clang loop unroll(full)
    for (int e = 0; e < kPiece; ++e) {
      const T pair[2] = {pieces[0][e], pieces[1][e]};
      __builtin_memcpy(__builtin_assume_aligned(values(stage) + value_place(key, d + e), 4), pair, 4);
    }
  }

  // Calls load(i, piece) and then multiply(i, piece) for each i below kCount, the loads kTogether ahead.
  template <int kCount, class Load, class Multiply>
  CAUSEWAY_INLINE static void load_ahead(Load load, Multiply multiply) {
    constexpr int kTogether = 2;
    MatmulPiece pieces[2][kTogether];
#pragma clang loop unroll(full)
    for (int i = 0; i < kTogether; ++i) pieces[0][i] = load(i);
#pragma clang loop unroll(full)
    for (int first = 0; first < kCount; first += kTogether) {
      const int group = first / kTogether;
#pragma clang loop unroll(full)
      for (int i = 0; i < kTogether && first + kTogether < kCount; ++i)
        pieces[(group + 1) % 2][i] = load(first + kTogether + i);
      schedule_fence();
#pragma clang loop unroll(full)
      for (int i = 0; i < kTogether; ++i) multiply(first + i, pieces[group % 2][i]);
      schedule_fence();
    }
  }

  template <class Fragment>
  CAUSEWAY_INLINE static void split(const MatmulPiece& piece, Fragment (&halves)[2]) {
    static_assert(sizeof(halves) == sizeof(piece));
    __builtin_memcpy(halves, &piece, sizeof(piece));
  }

  // Products of the wave's queries with a tile's keys. Of key_place() only the exchange of the first 32 elements with
  // the second differs from that of other rows and elements by more than a constant.
  CAUSEWAY_INLINE void find_scores(int stage) {
    const int key = KeysInPairs::of_row(0, lane_index() % 16), d = lane_index() / 16 * kPiece;
    const T* const from[2] = {keys(stage) + key_place(key, d), keys(stage) + key_place(key, d + 32)};
#pragma clang loop unroll(full)
    for (int n = 0; n < kOthers; ++n)
#pragma clang loop unroll(full)
      for (int r = 0; r < kBlocks; ++r) scores_[r][n] = Accumulator{};
    constexpr int kSteps = kDim / 32;
    load_ahead<kOthers * kSteps>(
        [&](int i) {
          const int n = i / kSteps, step = i % kSteps;
          return load_piece(from[step % 2] + KeysInPairs::of_block(n) * kDim + step / 2 * 64);
        },
        [&](int i, const MatmulPiece& piece) {
          OtherFragment<T> halves[2];
          split(piece, halves);
#pragma clang loop unroll(full)
          for (int half = 0; half < 2; ++half)
#pragma clang loop unroll(full)
            for (int r = 0; r < kBlocks; ++r)
              multiply_scores<T>(scores_[r][i / kSteps], queries_[r][i % kSteps * 2 + half], halves[half]);
        });
  }

  // Products of the tile's weights with its values. Of value_place() four exchanges differ.
  CAUSEWAY_INLINE void add_values(int stage) {
    const int line = lane_index() % 16, key = lane_index() / 16 * kPiece;
    const T* from[4];
#pragma clang loop unroll(full)
    for (int i = 0; i < 4; ++i) from[i] = values(stage) + value_place(key, 16 * i + line) - 16 * i * kKeys;
    load_ahead<kOthers / 2 * kInner>(
        [&](int i) {
          const int n = i / kInner, d = i % kInner;  // 32 keys further change the same bit of the exchange as 32 lines
          return load_piece(from[(d + 2 * n) % 4] + d * 16 * kKeys);
        },
        [&](int i, const MatmulPiece& piece) {
          ValueFragment<T> halves[2];
          split(piece, halves);
#pragma clang loop unroll(full)
          for (int half = 0; half < 2; ++half)
#pragma clang loop unroll(full)
            for (int r = 0; r < kBlocks; ++r)
              multiply_values<T>(output_[r][i % kInner], weights_[r][i / kInner * 2 + half], halves[half]);
        });
  }

  Accumulator scores_[kBlocks][kOthers];
  WeightFragment<T> weights_[kBlocks][kOthers];
  bool seen_ = false;            // the tile before has weights
  int next_keys_, next_values_;  // of the next slice to be fetched: the tiles' first keys
  MatmulPiece held_keys_[kKeyPieces], held_values_[2];
};

}  // namespace attention_tile

// As gpu_attention_forward().
template <class P>
CAUSEWAY_INLINE void cdna_attention_forward(const P& problem, int task) {
  attention_tile::ForwardInTurns<P>(problem, task).run();
}
