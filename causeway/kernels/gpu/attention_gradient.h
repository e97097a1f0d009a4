// Attention on GPUs, backward, in two launches that share nothing but their inputs, so that every sum has one owner and
// one order: the gradient of the queries by blocks of queries, those of keys and values by blocks of keys. Weights are
// computed again from the logarithms that the forward pass left (lse).
//
// With x the score in natural units, w = exp(x - lse) and dw = dout . v:
//   dx = w (dw - delta),   dq = scale sum dx score'(x) k,   dk = scale sum dx score'(x) q,   dv = sum w dout
// A wave of a block of either launch has 16 lines; the block goes over the others in tiles.
#pragma once

#include "causeway/kernels/gpu/attention_problem.h"
#include "causeway/kernels/gpu/attention_tile.h"

namespace attention_tile {

// gpu_attention_gradient_shared_bytes() says how much shared memory a block takes: two operands of its own lines,
// kTile.stages of two operands of the others, and for the keys' launch the statistics of kTile.stages tiles of queries.

// Of a line, what exp2 takes off its scores; a query that sees nothing has no weights. Never +inf, so that a score of
// -inf has a weight of 0, but where lse is NaN: all keys of the tile have that then.
CAUSEWAY_INLINE float weight_shift(float lse) { return lse == -kInfinity ? -kInfinity : -lse * kLog2E; }

// A weight and the gradient of its score, from an MMA of query and key and from dout . v; the scale of scores is
// left for the end.
struct PairGradient {
  float weight, dqk;
};
// What is done to the scores of a tile: nothing, the score function where all is seen and inside, the mask where all is
// inside and there is no such function, or whatever there is: that function, the mask, the ends.
enum class Modified { kNot, kByScore, kByMask, kByAll };
// The gradient of the dot product of query and key from the weight, but for what a score function multiplies it by.
CAUSEWAY_INLINE float qk_gradient(float weight, float dweight, float delta) { return weight * (dweight - delta); }

// The weight alone, where the gradient of a score does not depend on it: there is no score function, or one that adds
// something to it.
template <Modified kModified, class P>
CAUSEWAY_INLINE float pair_weight(const P& p, float qk, float shift, int64_t b, int64_t h, int32_t t, int32_t s,
                                  bool masked) {
  if constexpr (kModified == Modified::kByAll) {
    return fast_exp2(modified_score(p, qk, b, h, t, s, masked) + shift);
  } else if constexpr (kModified == Modified::kByScore) {
    return fast_exp2(__builtin_fmaf(p.score(b, h, t, s, qk * p.scale), kLog2E, shift));
  } else {
    const float weight = fast_exp2(__builtin_fmaf(qk, p.scale * kLog2E, shift));
    if constexpr (kModified == Modified::kByMask) return p.mask(b, h, t, s) ? weight : 0.0f;
    return weight;
  }
}
template <Modified kModified, class P>
CAUSEWAY_INLINE PairGradient pair_gradient(const P& p, float qk, float dweight, float shift, float delta, int64_t b,
                                           int64_t h, int32_t t, int32_t s, bool masked) {
  if constexpr (kModified == Modified::kNot) {
    const float weight = fast_exp2(__builtin_fmaf(qk, p.scale * kLog2E, shift));
    return {weight, weight * (dweight - delta)};
  } else if constexpr (kModified == Modified::kByMask) {
    const float weight = pair_weight<kModified>(p, qk, shift, b, h, t, s, masked);
    return {weight, qk_gradient(weight, dweight, delta)};
  } else if constexpr (kModified == Modified::kByScore) {
    const float x = qk * p.scale;
    const float weight = fast_exp2(__builtin_fmaf(p.score(b, h, t, s, x), kLog2E, shift));
    const float dqk = weight * (dweight - delta) * p.score_gradient(b, h, t, s, x);
    // A score of -inf takes no part, whatever its function's gradient is there.
    return {weight, weight == 0.0f ? 0.0f : dqk};
  } else {
    const float weight = fast_exp2(modified_score(p, qk, b, h, t, s, masked) + shift);
    float dqk = weight * (dweight - delta);
    if constexpr (P::kHasScore) {
      const int32_t queries = static_cast<int32_t>(p.query_length), keys = static_cast<int32_t>(p.key_length);
      dqk *= p.score_gradient(b, h, t < queries ? t : queries - 1, s < keys ? s : keys - 1, qk * p.scale);
    }
    return {weight, weight == 0.0f ? 0.0f : dqk};
  }
}

// What both launches do alike: a block owns 16 lines for each wave, with two operands each (a, b), and goes over tiles
// of others.
template <class P>
class GradientBlock {
 protected:
  using T = typename P::Operand;
  static constexpr int kLines = 16 * P::kTile.waves;
  static_assert(kLines == P::kTile.queries && kLines == P::kTile.keys);
  static constexpr int kThreads = P::kTile.waves * kWaveWidth;
  // Operand 0 has queries or keys, operand 1 output's gradients or values.
  static constexpr int kInner = kDimPadded<P> / 16, kValueInner = kValuePadded<P> / 16;
  static constexpr int kOthers = P::kTile.others / 16;
  static constexpr int kStride = row_stride<T>(kDimPadded<P>), kValueStride = row_stride<T>(kValuePadded<P>);
  static constexpr bool kKeepLines = sizeof(T) == 2 && kInner <= 4 && kValueInner <= 4;

  CAUSEWAY_INLINE explicit GradientBlock(const P& problem) : p(problem) {}

  CAUSEWAY_INLINE T* stages() const {
    return reinterpret_cast<T*>(shared_memory()) + kLines * (kStride + kValueStride);
  }
  CAUSEWAY_INLINE T* lines(int which) const { return reinterpret_cast<T*>(shared_memory()) + which * kLines * kStride; }
  CAUSEWAY_INLINE T* tile(int stage, int which) const {
    return stages() + (stage * (kStride + kValueStride) + which * kStride) * P::kTile.others;
  }
  // [kTile.stages][lse, delta][kTile.others]
  CAUSEWAY_INLINE float* statistics(int stage) const {
    return reinterpret_cast<float*>(stages() + P::kTile.stages * (kStride + kValueStride) * P::kTile.others) +
           2 * stage * P::kTile.others;
  }

  template <int kRows>
  CAUSEWAY_INLINE void stage_queries(T* to, int64_t h, int64_t t) const {
    if constexpr (P::kDirectQ) {
      stage_rows<T, kRows, kDimPadded<P>, P::kHeadDim, kThreads>(to, t, p.query_length,
                                                                 [&](int64_t i) { return p.q_row(b_, h, i); });
    } else {
      compute_rows<T, kRows, kDimPadded<P>, P::kHeadDim, kThreads>(
          to, t, p.query_length, [&](int64_t i, int d) { return p.load_q(b_, h, i, d); });
    }
  }
  template <int kRows>
  CAUSEWAY_INLINE void stage_out_gradients(T* to, int64_t h, int64_t t) const {
    if constexpr (P::kDirectGradient) {
      stage_rows<T, kRows, kValuePadded<P>, P::kValueDim, kThreads>(
          to, t, p.query_length, [&](int64_t i) { return p.out_gradient_row(b_, h, i); });
    } else {
      compute_rows<T, kRows, kValuePadded<P>, P::kValueDim, kThreads>(
          to, t, p.query_length, [&](int64_t i, int d) { return p.load_out_gradient(b_, h, i, d); });
    }
  }
  template <int kRows>
  CAUSEWAY_INLINE void stage_keys(T* to, int64_t s) const {
    if constexpr (P::kDirectK) {
      stage_rows<T, kRows, kDimPadded<P>, P::kHeadDim, kThreads>(to, s, p.key_length,
                                                                 [&](int64_t i) { return p.k_row(b_, kv_head_, i); });
    } else {
      compute_rows<T, kRows, kDimPadded<P>, P::kHeadDim, kThreads>(
          to, s, p.key_length, [&](int64_t i, int d) { return p.load_k(b_, kv_head_, i, d); });
    }
  }
  template <int kRows>
  CAUSEWAY_INLINE void stage_values(T* to, int64_t s) const {
    if constexpr (P::kDirectV) {
      stage_rows<T, kRows, kValuePadded<P>, P::kValueDim, kThreads>(
          to, s, p.key_length, [&](int64_t i) { return p.v_row(b_, kv_head_, i); });
    } else {
      compute_rows<T, kRows, kValuePadded<P>, P::kValueDim, kThreads>(
          to, s, p.key_length, [&](int64_t i, int d) { return p.load_v(b_, kv_head_, i, d); });
    }
  }

  template <int which>
  static constexpr int kInnerOf = which == 0 ? kInner : kValueInner;
  template <int which>
  static constexpr int kStrideOf = which == 0 ? kStride : kValueStride;
  template <int which>
  CAUSEWAY_INLINE T* own_lines() const {
    return lines(which) + wave_index() * 16 * kStrideOf<which>;
  }

  // The wave's own lines, where registers can hold them.
  CAUSEWAY_INLINE void keep_lines() {
    if constexpr (kKeepLines) {
#pragma clang loop unroll(full)
      for (int d = 0; d < kInner; ++d) load_fragment(kept_[d], own_lines<0>() + 16 * d, kStride);
#pragma clang loop unroll(full)
      for (int d = 0; d < kValueInner; ++d) load_fragment(kept_[kInner + d], own_lines<1>() + 16 * d, kValueStride);
    }
  }

  // MMAs of the wave's lines of operand `which` with 16 others.
  template <int which>
  CAUSEWAY_INLINE Accumulator mma(const T* others) const {
    Accumulator result{};
#pragma clang loop unroll(full)
    for (int d = 0; d < kInnerOf<which>; ++d) {
      OtherFragment<T> other;
      load_fragment(other, others + 16 * d, kStrideOf<which>);
      if constexpr (kKeepLines) {
        multiply_scores<T>(result, kept_[which * kInner + d], other);
      } else {
        LineFragment<T> line;
        load_fragment(line, own_lines<which>() + 16 * d, kStrideOf<which>);
        multiply_scores<T>(result, line, other);
      }
    }
    return result;
  }

  // sums += weights times 16 rows of `values`, others of operand `which`.
  template <int which>
  CAUSEWAY_INLINE void accumulate(Accumulator (&sums)[kInnerOf<which>], const Accumulator& weights,
                                  const T* values) const {
    WeightFragment<T> fragment;
    set_weights(fragment, weights);
#pragma clang loop unroll(full)
    for (int d = 0; d < kInnerOf<which>; ++d) {
      ValueFragment<T> value;
      load_values(value, values + 16 * d, kStrideOf<which>);
      multiply_values<T>(sums[d], fragment, value);
    }
  }

  // The wave's 16 lines, times `factor`, through its own rows of operand `which`, in pieces of 16 bytes:
  // store_element(line, d, values, count).
  template <int which, class F>
  CAUSEWAY_INLINE void store(const Accumulator (&sums)[kInnerOf<which>], float factor, F store_element) const {
    constexpr int kWidth = which == 0 ? P::kHeadDim : P::kValueDim;
    T* rows = own_lines<which>();
    wave_barrier();
#pragma clang loop unroll(full)
    for (int d = 0; d < kInnerOf<which>; ++d) {
#pragma clang loop unroll(full)
      for (int i = 0; i < kAccumulatorElements; ++i)
        rows[line_of_slot(line_slot(i)) * kStrideOf<which> + 16 * d + other_of(i)] =
            to_operand<T>(sums[d].v[i] * factor);
    }
    wave_barrier();
    constexpr int kPiece = kWidth % (16 / sizeof(T)) == 0 ? 16 / sizeof(T) : 1;
    constexpr int kPieces = kWidth / kPiece;
    for (int piece = lane_index(); piece < 16 * kPieces; piece += kWaveWidth) {
      const int line = piece / kPieces, d = piece % kPieces * kPiece;
      float values[kPiece];
#pragma clang loop unroll(full)
      for (int e = 0; e < kPiece; ++e) values[e] = to_float(rows[line * kStrideOf<which> + d + e]);
      store_element(line, d, values, kPiece);
    }
  }

  const P& p;
  int64_t b_ = 0, kv_head_ = 0;
  LineFragment<T> kept_[kKeepLines ? kInner + kValueInner : 1];
};

template <class P>
class QueryGradient : GradientBlock<P> {
  using Base = GradientBlock<P>;
  using Base::b_, Base::kv_head_, Base::p, Base::kInner, Base::kLines, Base::kOthers, Base::kStride, Base::kValueInner,
      Base::kValueStride;
  using typename Base::T;

 public:
  CAUSEWAY_INLINE QueryGradient(const P& problem, int task) : Base(problem) {
    const int64_t blocks = (p.query_length + kLines - 1) / kLines;
    const TileOfHead own(task, p.batch * p.query_heads, blocks);
    first_query_ = (blocks - 1 - own.tile) * kLines;
    b_ = own.head / p.query_heads;
    h_ = own.head % p.query_heads;
    kv_head_ = h_ / (p.query_heads / p.kv_heads);
    first_line_ = first_query_ + wave_index() * 16;
  }

  CAUSEWAY_INLINE void run() {
    this->template stage_queries<kLines>(this->lines(0), h_, first_query_);
    this->template stage_out_gradients<kLines>(this->lines(1), h_, first_query_);
    copy_async_commit();
#pragma clang loop unroll(full)
    for (int slot = 0; slot < kLinesPerLane; ++slot) {
      const int64_t t = first_line_ + line_of_slot(slot);
      shift_[slot] = t < p.query_length ? weight_shift(p.load_lse(b_, h_, t)) : -kInfinity;
      delta_[slot] = t < p.query_length ? p.load_delta(b_, h_, t) : 0.0f;
    }
#pragma clang loop unroll(full)
    for (int d = 0; d < kInner; ++d) sums_[d] = Accumulator{};
    copy_async_wait<0>();
    block_barrier();
    this->keep_lines();
    int64_t key = next_tile(0);
    int stage = 0;
    if (P::kTile.stages > 1 && key < p.key_length) load_tile(key, stage);
    copy_async_commit();
    while (key < p.key_length) {
      const int64_t next = next_tile(key + P::kTile.others);
      if constexpr (P::kTile.stages > 1) {
        if (next < p.key_length) load_tile(next, stage ^ 1);
        copy_async_commit();
        copy_async_wait<1>();
      } else {
        load_tile(key, 0);
        copy_async_commit();
        copy_async_wait<0>();
      }
      block_barrier();
      process_tile(key, stage);
      block_barrier();
      key = next;
      if constexpr (P::kTile.stages > 1) stage ^= 1;
    }
    copy_async_wait<0>();
    block_barrier();
    this->template store<0>(sums_, p.scale, [&](int line, int d, const float* values, int count) {
      if (first_line_ + line >= p.query_length) return;
#pragma clang loop unroll(full)
      for (int e = 0; e < count; ++e) p.store_dq(b_, h_, first_line_ + line, d + e, values[e]);
    });
  }

 private:
  CAUSEWAY_INLINE int64_t next_tile(int64_t key) const {
    if constexpr (P::kHasBlockMap && P::kTile.map_is_usable) {
      for (; key < p.key_length; key += P::kTile.others) {
        for (int64_t t = first_query_; t < first_query_ + kLines && t < p.query_length; t += P::kBlockQ)
          if (block_kind(p, b_, h_, t, key) != 0) return key;
      }
    }
    return key;
  }

  CAUSEWAY_INLINE void load_tile(int64_t key, int stage) const {
    this->template stage_keys<P::kTile.others>(this->tile(stage, 0), key);
    this->template stage_values<P::kTile.others>(this->tile(stage, 1), key);
  }

  CAUSEWAY_INLINE void process_tile(int64_t key, int stage) {
    const uint8_t kind = first_line_ < p.query_length ? block_kind(p, b_, h_, first_line_, key) : 0;
    if (kind == 0) return;
    const bool masked = P::kHasMask && kind == 1;
    // Lines past the end are not stored, and their weights are 0.
    if (masked || key + P::kTile.others > p.key_length || (P::kHasScore && first_line_ + 16 > p.query_length)) {
      add_tile<Modified::kByAll>(key, stage, masked);
    } else {
      add_tile<P::kHasScore ? Modified::kByScore : Modified::kNot>(key, stage, false);
    }
  }

  template <Modified kModified>
  CAUSEWAY_INLINE void add_tile(int64_t key, int stage, bool masked) {
    // Not unrolled: registers of one piece serve the next, and more blocks fit.
#pragma clang loop unroll(disable)
    for (int n = 0; n < kOthers; ++n) {
      const T* keys = this->tile(stage, 0) + n * 16 * kStride;
      const Accumulator scores = this->template mma<0>(keys);
      const Accumulator dweights = this->template mma<1>(this->tile(stage, 1) + n * 16 * kValueStride);
      Accumulator gradients;
#pragma clang loop unroll(full)
      for (int i = 0; i < kAccumulatorElements; ++i) {
        const int slot = line_slot(i);
        gradients.v[i] = pair_gradient<kModified>(p, scores.v[i], dweights.v[i], shift_[slot], delta_[slot], b_, h_,
                                                  static_cast<int32_t>(first_line_) + line_of_slot(slot),
                                                  static_cast<int32_t>(key) + 16 * n + other_of(i), masked)
                             .dqk;
      }
      this->template accumulate<0>(sums_, gradients, keys);
    }
  }

  int64_t first_query_, first_line_, h_;
  float shift_[kLinesPerLane], delta_[kLinesPerLane];
  Accumulator sums_[kInner];
};

// kForKeys, kForValues: which of the two sums to compute; registers hold both unless heads are wide.
template <class P, bool kForKeys, bool kForValues>
class KeyGradient : GradientBlock<P> {
  using Base = GradientBlock<P>;
  using Base::b_, Base::kv_head_, Base::p, Base::kInner, Base::kLines, Base::kOthers, Base::kStride, Base::kValueInner,
      Base::kValueStride;
  using typename Base::T;

 public:
  CAUSEWAY_INLINE KeyGradient(const P& problem, int task) : Base(problem) {
    // The first keys are seen by the most queries under a causal mask: they start first.
    const TileOfHead own(task, p.batch * p.kv_heads, (p.key_length + kLines - 1) / kLines);
    first_key_ = own.tile * kLines;
    b_ = own.head / p.kv_heads;
    kv_head_ = own.head % p.kv_heads;
    first_line_ = first_key_ + wave_index() * 16;
  }

  CAUSEWAY_INLINE void run() {
    this->template stage_keys<kLines>(this->lines(0), first_key_);
    this->template stage_values<kLines>(this->lines(1), first_key_);
    copy_async_commit();
#pragma clang loop unroll(full)
    for (int d = 0; d < kInner; ++d) dk_[d] = Accumulator{};
#pragma clang loop unroll(full)
    for (int d = 0; d < kValueInner; ++d) dv_[d] = Accumulator{};
    copy_async_wait<0>();
    block_barrier();
    this->keep_lines();
    const int64_t group = p.query_heads / p.kv_heads;
    Position at = next_tile({kv_head_ * group, 0});
    const int64_t end = (kv_head_ + 1) * group;
    int stage = 0;
    if (P::kTile.stages > 1 && at.head < end) load_tile(at, stage);
    copy_async_commit();
    while (at.head < end) {
      const Position next = next_tile({at.head, at.query + P::kTile.others});
      if constexpr (P::kTile.stages > 1) {
        if (next.head < end) load_tile(next, stage ^ 1);
        copy_async_commit();
        copy_async_wait<1>();
      } else {
        load_tile(at, 0);
        copy_async_commit();
        copy_async_wait<0>();
      }
      block_barrier();
      process_tile(at, stage);
      block_barrier();
      at = next;
      if constexpr (P::kTile.stages > 1) stage ^= 1;
    }
    copy_async_wait<0>();
    block_barrier();
    if constexpr (kForKeys)
      this->template store<0>(dk_, p.scale, [&](int line, int d, const float* values, int count) {
        if (first_line_ + line >= p.key_length) return;
#pragma clang loop unroll(full)
        for (int e = 0; e < count; ++e) p.store_dk(b_, kv_head_, first_line_ + line, d + e, values[e]);
      });
    if constexpr (kForValues)
      this->template store<1>(dv_, 1.0f, [&](int line, int d, const float* values, int count) {
        if (first_line_ + line >= p.key_length) return;
#pragma clang loop unroll(full)
        for (int e = 0; e < count; ++e) p.store_dv(b_, kv_head_, first_line_ + line, d + e, values[e]);
      });
  }

 private:
  struct Position {
    int64_t head, query;
  };

  // The first tile of queries from `at` on that sees any of the block's keys; heads of the group follow each other.
  CAUSEWAY_INLINE Position next_tile(Position at) const {
    const int64_t end = (kv_head_ + 1) * (p.query_heads / p.kv_heads);
    while (at.head < end) {
      for (; at.query < p.query_length; at.query += P::kTile.others) {
        if constexpr (!(P::kHasBlockMap && P::kTile.map_is_usable)) return at;
        for (int64_t s = first_key_; s < first_key_ + kLines && s < p.key_length; s += P::kBlockK)
          if (block_kind(p, b_, at.head, at.query, s) != 0) return at;
      }
      at = {at.head + 1, 0};
    }
    return at;
  }

  CAUSEWAY_INLINE void load_tile(const Position& at, int stage) const {
    this->template stage_queries<P::kTile.others>(this->tile(stage, 0), at.head, at.query);
    this->template stage_out_gradients<P::kTile.others>(this->tile(stage, 1), at.head, at.query);
    float* statistics = this->statistics(stage);
    for (int i = thread_index(); i < P::kTile.others; i += Base::kThreads) {
      const int64_t t = at.query + i;
      statistics[i] = t < p.query_length ? weight_shift(p.load_lse(b_, at.head, t)) : -kInfinity;
      statistics[P::kTile.others + i] = t < p.query_length ? p.load_delta(b_, at.head, t) : 0.0f;
    }
  }

  CAUSEWAY_INLINE void process_tile(const Position& at, int stage) {
    const uint8_t kind = first_line_ < p.key_length ? block_kind(p, b_, at.head, at.query, first_line_) : 0;
    if (kind == 0) return;
    const bool masked = P::kHasMask && kind == 1;
    // Queries past the end have weights of 0, and keys past the end are not stored.
    if (masked || (P::kHasScore && (at.query + P::kTile.others > p.query_length || first_line_ + 16 > p.key_length))) {
      add_tile<Modified::kByAll>(at, stage, masked);
    } else {
      add_tile<P::kHasScore ? Modified::kByScore : Modified::kNot>(at, stage, false);
    }
  }

  template <Modified kModified>
  CAUSEWAY_INLINE void add_tile(const Position& at, int stage, bool masked) {
    const float* statistics = this->statistics(stage);
    // Not unrolled: registers of one piece serve the next, and more blocks fit.
#pragma clang loop unroll(disable)
    for (int n = 0; n < kOthers; ++n) {
      const T* queries = this->tile(stage, 0) + n * 16 * kStride;
      const T* out_gradients = this->tile(stage, 1) + n * 16 * kValueStride;
      Accumulator scores = this->template mma<0>(queries);
      Accumulator dweights = this->template mma<1>(out_gradients);
#pragma clang loop unroll(full)
      for (int i = 0; i < kAccumulatorElements; ++i) {
        const int other = 16 * n + other_of(i);
        const PairGradient pair = pair_gradient<kModified>(
            p, scores.v[i], dweights.v[i], statistics[other], statistics[P::kTile.others + other], b_, at.head,
            static_cast<int32_t>(at.query) + other, static_cast<int32_t>(first_line_) + line_of_slot(line_slot(i)),
            masked);
        scores.v[i] = pair.weight;
        dweights.v[i] = pair.dqk;
      }
      if constexpr (kForValues) this->template accumulate<1>(dv_, scores, out_gradients);
      if constexpr (kForKeys) this->template accumulate<0>(dk_, dweights, queries);
    }
  }

  int64_t first_key_, first_line_;
  Accumulator dk_[kInner], dv_[kValueInner];
};

}  // namespace attention_tile

// One block of a launch of batch * query_heads * ceil(query_length / kTile.queries).
template <AttentionGradientProblem P>
CAUSEWAY_INLINE void gpu_attention_query_gradient(const P& problem, int task) {
  attention_tile::QueryGradient<P>(problem, task).run();
}

// One block of a launch of batch * kv_heads * ceil(key_length / kTile.keys).
template <bool kForKeys, bool kForValues, AttentionGradientProblem P>
CAUSEWAY_INLINE void gpu_attention_key_gradient(const P& problem, int task) {
  attention_tile::KeyGradient<P, kForKeys, kForValues>(problem, task).run();
}
