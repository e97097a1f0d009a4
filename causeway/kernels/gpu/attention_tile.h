// The pieces blockwise attention on GPUs is made of: one wave's tiles of scores and weighted sums, in fragments, and
// rows of operands staged in shared memory.
//
// A wave owns 16 lines (queries of the forward pass, keys for their gradients) and goes over the others. Scores come
// out of one MMA and go into the next as an operand; the orientation below makes the registers of the result
// those of the operand, on both vendors' units: NVIDIA's accumulator has the layout of a left operand, CDNA's of a
// right one, so there everything is computed transposed.
#pragma once

#include "causeway/kernels/gpu/attention_tile_layout.h"
#include "causeway/kernels/gpu/intrinsics.h"

namespace attention_tile {

constexpr float kInfinity = __builtin_inff();
constexpr float kLog2E = 1.44269504f;
constexpr float kLn2 = 0.693147181f;

#if defined(CAUSEWAY_AMD)

template <class T>
using LineFragment = FragmentB<T>;  // [16 lines][16 of the inner dimension]
template <class T>
using OtherFragment = FragmentA<T>;
template <class T>
using WeightFragment = FragmentB<T>;  // [16 lines][16 others]
template <class T>
using ValueFragment = FragmentA<T>;  // [16 others][16 columns]

// How many of the wave's 16 lines a lane has elements of, and which of them element i of a tile belongs to.
constexpr int kLinesPerLane = 1;
CAUSEWAY_INLINE constexpr int line_slot(int i) { return 0; }
CAUSEWAY_INLINE int line_of_slot(int slot) { return accumulator_column(0); }
CAUSEWAY_INLINE int other_of(int i) { return accumulator_row(i); }
// Combines a value over the lanes that hold parts of the same line.
template <class F>
CAUSEWAY_INLINE float over_line(float value, F function) {
  value = function(value, wave_shuffle_xor(value, 16));
  return function(value, wave_shuffle_xor(value, 32));
}
template <class T>
CAUSEWAY_INLINE void multiply_scores(Accumulator& c, const LineFragment<T>& line, const OtherFragment<T>& other) {
  multiply_add(c, other, line);
}
template <class T>
CAUSEWAY_INLINE void multiply_values(Accumulator& c, const WeightFragment<T>& weight, const ValueFragment<T>& value) {
  multiply_add(c, value, weight);
}
CAUSEWAY_INLINE void set_weights(WeightFragment<bf16>& weight, const Accumulator& c) {
  for (int i = 0; i < 4; ++i) weight.v[i] = to_bf16(c.v[i]);
}
CAUSEWAY_INLINE void set_weights(WeightFragment<f16>& weight, const Accumulator& c) {
  for (int i = 0; i < 4; ++i) weight.v[i] = to_f16(c.v[i]);
}
CAUSEWAY_INLINE void set_weights(WeightFragment<float>& weight, const Accumulator& c) {
  for (int i = 0; i < 4; ++i) weight.v[i] = c.v[i];
}

#else

template <class T>
using LineFragment = FragmentA<T>;
template <class T>
using OtherFragment = FragmentB<T>;
template <class T>
using WeightFragment = FragmentA<T>;
template <class T>
using ValueFragment = FragmentB<T>;

constexpr int kLinesPerLane = 2;
CAUSEWAY_INLINE constexpr int line_slot(int i) { return (i & 2) / 2; }
CAUSEWAY_INLINE int line_of_slot(int slot) { return accumulator_row(2 * slot); }
CAUSEWAY_INLINE int other_of(int i) { return accumulator_column(i); }
template <class F>
CAUSEWAY_INLINE float over_line(float value, F function) {
  value = function(value, wave_shuffle_xor(value, 1));
  return function(value, wave_shuffle_xor(value, 2));
}
template <class T>
CAUSEWAY_INLINE void multiply_scores(Accumulator& c, const LineFragment<T>& line, const OtherFragment<T>& other) {
  multiply_add(c, line, other);
}
template <class T>
CAUSEWAY_INLINE void multiply_values(Accumulator& c, const WeightFragment<T>& weight, const ValueFragment<T>& value) {
  multiply_add(c, weight, value);
}
template <class T>
CAUSEWAY_INLINE void set_weights(WeightFragment<T>& weight, const Accumulator& c) {
#pragma clang loop unroll(full)
  for (int i = 0; i < 4; ++i) weight.v[i] = pack_pair<T>(c.v[2 * i], c.v[2 * i + 1]);
}
// A lane needs whole rows: the four lanes that share a row pass their columns round.
CAUSEWAY_INLINE void set_weights(WeightFragment<float>& weight, const Accumulator& c) {
  const int first = lane_index() & ~3;
#pragma clang loop unroll(full)
  for (int k = 0; k < 16; ++k) {
#pragma clang loop unroll(full)
    for (int half = 0; half < 2; ++half)
      weight.v[half][k] = wave_shuffle(c.v[(k & 1) + 2 * half + (k & 8) / 2], first + (k & 7) / 2);
  }
}
// Of the four others that a lane has of each eight, the instruction takes a lane's first as the one numbered lane % 4
// and its second as the one 4 further, wherever they come from: values are loaded in that order.
CAUSEWAY_INLINE void set_weights(WeightFragment<tf32>& weight, const Accumulator& c) {
#pragma clang loop unroll(full)
  for (int i = 0; i < 8; ++i) weight.v[i] = round_to_tf32(bits_from_float(c.v[(i & 4) + (i & 1) * 2 + (i & 2) / 2]));
}
CAUSEWAY_INLINE void load_values(ValueFragment<tf32>& values, const tf32* shared, int stride) {
  const tf32* from = shared + lane_index() % 4 * 2 * stride + lane_index() / 4;
#pragma clang loop unroll(full)
  for (int i = 0; i < 8; ++i)
    values.v[i] = round_to_tf32(bits_from_float(from[((i & 1) + (i & 2) * 4) * stride + i / 4 * 8].value));
}

#endif

// 16 rows of values, in the order in which set_weights() has their weights.
template <class T>
CAUSEWAY_INLINE void load_values(ValueFragment<T>& values, const T* shared, int stride) {
  load_fragment_transposed(values, shared, stride);
}

// A head's elements in whole fragments.
template <class P>
constexpr int kDimPadded = gpu_attention_padded_dim(P::kHeadDim);
template <class P>
constexpr int kValuePadded = gpu_attention_padded_dim(P::kValueDim);

// Elements between rows in shared memory: 16 bytes of padding keep rows on different banks.
template <class T>
constexpr int row_stride(int width) {
  return width + 16 / static_cast<int>(sizeof(T));
}

// Stages rows [first, first + kRows) of kWidth elements (kSource of them exist in memory, the others are zero) in
// shared memory, by kThreads threads; rows from `limit` on are zero. `row(index)` gives the address of a row's
// elements, 16-byte aligned; copies end at copy_async_wait().
template <class T, int kRows, int kWidth, int kSource, int kThreads, class F>
CAUSEWAY_INLINE void stage_rows(T* shared, int64_t first, int64_t limit, F row) {
  constexpr int kPieceElements = 16 / sizeof(T);
  constexpr int kPieces = kWidth / kPieceElements;
#pragma clang loop unroll_count(8)
  for (int piece = thread_index(); piece < kRows * kPieces; piece += kThreads) {
    const int line = piece / kPieces, at = piece % kPieces * kPieceElements;
    const bool valid = first + line < limit && at < kSource;
    const int64_t from = first + line < limit ? first + line : (limit > 0 ? limit - 1 : 0);
    copy_async_16(shared + line * row_stride<T>(kWidth) + at, row(from) + (at < kSource ? at : 0), valid);
  }
}

template <class T>
CAUSEWAY_INLINE T to_operand(float value) {
  if constexpr (sizeof(T) == 4) {
    return T{value};
  } else if constexpr (__is_same(T, bf16)) {
    return to_bf16(value);
  } else {
    return to_f16(value);
  }
}

// The same where elements have to be computed: `element(index, d)` gives a float.
template <class T, int kRows, int kWidth, int kSource, int kThreads, class F>
CAUSEWAY_INLINE void compute_rows(T* shared, int64_t first, int64_t limit, F element) {
  for (int at = thread_index(); at < kRows * kWidth; at += kThreads) {
    const int line = at / kWidth, d = at % kWidth;
    const float value = first + line < limit && d < kSource ? element(first + line, d) : 0.0f;
    shared[line * row_stride<T>(kWidth) + d] = to_operand<T>(value);
  }
}

// Which head a block has, and which of its tiles: all heads' first tiles come first. A chiplet has runs of heads, whose
// tiles share what they read in its cache: there a head's tiles follow one another.
struct TileOfHead {
  int64_t head, tile;
  CAUSEWAY_INLINE TileOfHead(int task, int64_t heads, int64_t tiles) : head(task % heads), tile(task / heads) {
    if constexpr (kChiplets > 1) {
      const int own = task_of_chiplet(task, static_cast<int>(heads * tiles));
      head = own / tiles;
      tile = own % tiles;
    }
  }
};

// Whether any element of a block of the attention matrix, or all, attend; for problems without a map everything does,
// or the mask decides.
template <class P>
CAUSEWAY_INLINE uint8_t block_kind(const P& p, int64_t b, int64_t h, int64_t t, int64_t s) {
  if constexpr (P::kHasBlockMap) {
    if constexpr (P::kTile.map_is_usable) return p.block_kind(b, h, t / P::kBlockQ, s / P::kBlockK);
    return 1;
  } else {
    return P::kHasMask ? 1 : 2;
  }
}

// A score as the softmax takes it, in base 2, from an MMA of query and key. Positions past the ends are computed
// like the last ones; keys there are left out.
template <class P>
CAUSEWAY_INLINE float modified_score(const P& p, float qk, int64_t b, int64_t h, int32_t t, int32_t s, bool masked) {
  const int32_t queries = static_cast<int32_t>(p.query_length), keys = static_cast<int32_t>(p.key_length);
  const int32_t t_inside = t < queries ? t : queries - 1, s_inside = s < keys ? s : keys - 1;
  float x = qk * p.scale;
  if constexpr (P::kHasScore) x = p.score(b, h, t_inside, s_inside, x);
  bool seen = s < keys;
  if constexpr (P::kHasMask) seen = seen && (!masked || p.mask(b, h, t_inside, s_inside));
  return seen ? x * kLog2E : -kInfinity;
}

}  // namespace attention_tile
