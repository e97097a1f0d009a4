// Attention of one query to each head's keys, forward: what a text's next token needs. Every key and value is read once
// and met by one query, so that a block, of one head, goes over them as they lie in memory, without matrix
// instructions: teams of lanes share a key, each lane 16 bytes of it, and keep a running maximum and sum of the keys
// that they had. Where heads are few and keys many, several blocks share a head's, and a second launch combines what
// they leave.
//
// The problem P provides what attention.h asks for, with rows of queries, keys and values in memory (kDirectQ,
// kDirectK, kDirectV) whose length divides into a power of two of 16-byte pieces; of its tiles kWaves alone. Also
//
//   static constexpr int kMostParts;   // that a head's keys are cut into
//   float* workspace;                  // for what blocks leave of their parts, if there may be several
#pragma once

#include "causeway/kernels/gpu/attention_one_query_layout.h"
#include "causeway/kernels/gpu/attention_tile.h"

namespace attention_tile {

template <class P>
class OneQuery {
  using T = typename P::Operand;
  static constexpr int kPiece = 16 / sizeof(T);
  static constexpr int kLanes = P::kHeadDim / kPiece;  // of a team
  static constexpr int kTeams = P::kWaves * kWaveWidth / kLanes;
  static constexpr int kAtOnce = 4;  // keys on their way to a lane
  static_assert(kLanes * kPiece == P::kHeadDim && (kLanes & (kLanes - 1)) == 0 && kLanes <= kWaveWidth);

 public:
  CAUSEWAY_INLINE OneQuery(const P& problem, int task) : p(problem), task_(task) {
    parts_ = static_cast<int>(one_query_parts(p.key_length, P::kMostParts));
    const int head = task / parts_;
    b_ = head / p.query_heads;
    h_ = head % p.query_heads;
    kv_head_ = h_ / (p.query_heads / p.kv_heads);
    const auto length = static_cast<int32_t>(p.key_length), of_part = (length + parts_ - 1) / parts_;
    begin_ = task % parts_ * of_part;
    end_ = begin_ + of_part < length ? begin_ + of_part : length;
  }

  // What the first round reads, into the second-level cache; before earlier launches are waited for, which may write
  // it.
  CAUSEWAY_INLINE void begin() const {
    constexpr int kLine = 128, kRowBytes = P::kHeadDim * sizeof(T), kLines = (kRowBytes + kLine - 1) / kLine;
    const int32_t keys = end_ - begin_ < kTeams * kAtOnce ? end_ - begin_ : kTeams * kAtOnce;
#pragma clang loop unroll(disable)
    for (int32_t line = static_cast<int32_t>(thread_index()); line < keys * kLines; line += P::kWaves * kWaveWidth) {
      const int32_t key = begin_ + line / kLines, at = line % kLines * (kLine / static_cast<int>(sizeof(T)));
      prefetch_line(p.k_row(b_, kv_head_, key) + at);
      prefetch_line(p.v_row(b_, kv_head_, key) + at);
    }
  }

  CAUSEWAY_INLINE void run() {
    float query[kPiece];
    load(p.q_row(b_, h_, 0), query);
    const int team = thread_index() / kLanes;
#pragma clang loop unroll(disable)
    for (int32_t first = begin_; first < end_; first += kTeams * kAtOnce) {
      float keys[kAtOnce][kPiece], values[kAtOnce][kPiece];
#pragma clang loop unroll(full)
      for (int i = 0; i < kAtOnce; ++i) {
        // Past the end the last one again, which does not count.
        const int32_t key = first + i * kTeams + team < end_ ? first + i * kTeams + team : end_ - 1;
        load(p.k_row(b_, kv_head_, key), keys[i]);
        load(p.v_row(b_, kv_head_, key), values[i]);
      }
      take(first + team, query, keys, values);
    }
    finish();
  }

  CAUSEWAY_INLINE static void store(const P& p, int64_t b, int64_t h, int d, float largest, float sum, float output) {
    p.store_out(b, h, 0, d, sum == 0.0f ? 0.0f : output / sum);
    if (d == 0) p.store_lse(b, h, 0, (largest + fast_log2(sum)) * kLn2);
  }

  // What `from` has added to it; `largest` is that of both.
  CAUSEWAY_INLINE static float rescaled(float from, float largest) {
    return fast_exp2(from - (largest == -kInfinity ? 0.0f : largest));
  }

 private:
  CAUSEWAY_INLINE static void load(const T* row, float (&to)[kPiece]) {
    T piece[kPiece];
    __builtin_memcpy(piece, __builtin_assume_aligned(row + thread_index() % kLanes * kPiece, 16), 16);
#pragma clang loop unroll(full)
    for (int e = 0; e < kPiece; ++e) to[e] = to_float(piece[e]);
  }

  CAUSEWAY_INLINE void take(int32_t first, const float (&query)[kPiece], const float (&keys)[kAtOnce][kPiece],
                            const float (&values)[kAtOnce][kPiece]) {
    float scores[kAtOnce];
    float largest = maximum_;
#pragma clang loop unroll(full)
    for (int i = 0; i < kAtOnce; ++i) {
      float product = 0;
#pragma clang loop unroll(full)
      for (int e = 0; e < kPiece; ++e) product = __builtin_fmaf(query[e], keys[i][e], product);
#pragma clang loop unroll(full)
      for (int lanes = 1; lanes < kLanes; lanes *= 2) product += wave_shuffle_xor(product, lanes);
      // Keys behind a part's end are there, but another's.
      const int32_t key = first + i * kTeams;
      scores[i] = modified_score(p, product, b_, h_, 0, key, true);
      if (P::kMostParts > 1 && key >= end_) scores[i] = -kInfinity;
      largest = __builtin_fmaxf(largest, scores[i]);
    }
    const float shift = largest == -kInfinity ? 0.0f : largest;
    const float rescale = fast_exp2(maximum_ - shift);
    maximum_ = largest;
    sum_ *= rescale;
#pragma clang loop unroll(full)
    for (int e = 0; e < kPiece; ++e) output_[e] *= rescale;
#pragma clang loop unroll(full)
    for (int i = 0; i < kAtOnce; ++i) {
      const float weight = fast_exp2(scores[i] - shift);
      sum_ += weight;
#pragma clang loop unroll(full)
      for (int e = 0; e < kPiece; ++e) output_[e] = __builtin_fmaf(weight, values[i][e], output_[e]);
    }
  }

  // The parts of a wave's teams, then of the waves, in their order.
  CAUSEWAY_INLINE void finish() {
#pragma clang loop unroll(full)
    for (int lanes = kLanes; lanes < kWaveWidth; lanes *= 2) {
      const float largest = __builtin_fmaxf(maximum_, wave_shuffle_xor(maximum_, lanes));
      const float rescale = rescaled(maximum_, largest);
      maximum_ = largest;
      sum_ *= rescale;
      sum_ += wave_shuffle_xor(sum_, lanes);
#pragma clang loop unroll(full)
      for (int e = 0; e < kPiece; ++e) {
        output_[e] *= rescale;
        output_[e] += wave_shuffle_xor(output_[e], lanes);
      }
    }
    float* maxima = reinterpret_cast<float*>(shared_memory());
    float* sums = maxima + P::kWaves;
    float* outputs = sums + P::kWaves;
    if (lane_index() == 0) {
      maxima[wave_index()] = maximum_;
      sums[wave_index()] = sum_;
    }
    if (lane_index() < kLanes) {
#pragma clang loop unroll(full)
      for (int e = 0; e < kPiece; ++e) outputs[wave_index() * P::kHeadDim + lane_index() * kPiece + e] = output_[e];
    }
    block_barrier();
    for (int d = thread_index(); d < P::kHeadDim; d += P::kWaves * kWaveWidth) {
      float largest = -kInfinity;
#pragma clang loop unroll(full)
      for (int wave = 0; wave < P::kWaves; ++wave) largest = __builtin_fmaxf(largest, maxima[wave]);
      float sum = 0, output = 0;
#pragma clang loop unroll(full)
      for (int wave = 0; wave < P::kWaves; ++wave) {
        const float weight = rescaled(maxima[wave], largest);
        sum = __builtin_fmaf(weight, sums[wave], sum);
        output = __builtin_fmaf(weight, outputs[wave * P::kHeadDim + d], output);
      }
      if (parts_ == 1) {
        store(p, b_, h_, d, largest, sum, output);
        continue;
      }
      float* part = p.workspace + task_ * one_query_part_floats(P::kHeadDim);
      part[2 + d] = output;
      if (d == 0) {
        part[0] = largest;
        part[1] = sum;
      }
    }
  }

  const P& p;
  int task_, parts_;
  int64_t b_, h_, kv_head_;
  int32_t begin_, end_;  // of the block's keys
  float maximum_ = -kInfinity, sum_ = 0;
  float output_[kPiece] = {};
};

}  // namespace attention_tile

// One block of a launch of batch * query_heads * one_query_parts(), kWaves waves each, of a CAUSEWAY_EARLY_KERNEL.
template <class P>
CAUSEWAY_INLINE void gpu_attention_one_query(const P& problem, int task) {
  attention_tile::OneQuery<P> one(problem, task);
  one.begin();
  wait_for_launches();
  one.run();
}

// One block of a second launch of batch * query_heads, where there are several parts: combines them in their order.
template <class P>
CAUSEWAY_INLINE void gpu_attention_combine_parts(const P& problem, int task) {
  using namespace attention_tile;
  const auto parts = static_cast<int>(one_query_parts(problem.key_length, P::kMostParts));
  constexpr auto kFloats = static_cast<int>(one_query_part_floats(P::kHeadDim));
  const float* of_head = problem.workspace + int64_t{task} * parts * kFloats;
  float largest = -kInfinity;
  for (int part = 0; part < parts; ++part) largest = __builtin_fmaxf(largest, of_head[part * kFloats]);
  for (int d = thread_index(); d < P::kHeadDim; d += P::kWaves * kWaveWidth) {
    float sum = 0, output = 0;
    for (int part = 0; part < parts; ++part) {
      const float weight = OneQuery<P>::rescaled(of_head[part * kFloats], largest);
      sum = __builtin_fmaf(weight, of_head[part * kFloats + 1], sum);
      output = __builtin_fmaf(weight, of_head[part * kFloats + 2 + d], output);
    }
    OneQuery<P>::store(problem, task / problem.query_heads, task % problem.query_heads, d, largest, sum, output);
  }
}
