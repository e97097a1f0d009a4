// Attention of one query to each head's keys, forward: what a text's next token needs. A key is met by few queries,
// those of the heads that share it, of which kHeads are a block's, so that a block goes over keys and values as they
// lie in memory, without matrix instructions: teams of lanes share a key, each lane 16 bytes of it, and keep a running
// maximum and sum of the keys that they had. Where heads are few and keys many, several blocks share a head's, and a
// second launch combines what they leave.
// The length of rows divides into a power of two of 16-byte pieces.
#pragma once

#include "causeway/kernels/gpu/attention_problem.h"
#include "causeway/kernels/gpu/attention_tile.h"

namespace attention_tile {

// What `from` has added to it; `largest` is that of both.
CAUSEWAY_INLINE float rescaled(float from, float largest) {
  return fast_exp2(from - (largest == -kInfinity ? 0.0f : largest));
}

template <class P>
CAUSEWAY_INLINE void store_one_query(const P& p, int64_t b, int64_t h, int d, float largest, float sum, float output) {
  p.store_out(b, h, 0, d, sum == 0.0f ? 0.0f : output / sum);
  if (d == 0) p.store_lse(b, h, 0, (largest + fast_log2(sum)) * kLn2);
}

template <class P, int kHeads>
class OneQuery {
  using T = typename P::Operand;
  static constexpr int kPiece = 16 / sizeof(T);
  static constexpr int kLanes = P::kHeadDim / kPiece;  // of a team
  static constexpr int kTeams = P::kTile.waves * kWaveWidth / kLanes;
  static constexpr int kAtOnce = 4;  // keys on their way to a lane
  static_assert(kLanes * kPiece == P::kHeadDim && (kLanes & (kLanes - 1)) == 0 && kLanes <= kWaveWidth);

 public:
  CAUSEWAY_INLINE OneQuery(const P& problem, int task) : p(problem) {
    parts_ = static_cast<int>(one_query_parts(p.key_length, P::kTile.most_parts));
    part_ = task % parts_;
    const auto heads = static_cast<int>(p.query_heads) / kHeads, head = task / parts_;
    b_ = head / heads;
    h_ = head % heads * kHeads;
    kv_head_ = h_ / (p.query_heads / p.kv_heads);
    const auto length = static_cast<int32_t>(p.key_length), of_part = (length + parts_ - 1) / parts_;
    begin_ = part_ * of_part;
    end_ = begin_ + of_part < length ? begin_ + of_part : length;
  }

  // What the first round reads, into the second-level cache; before earlier launches are waited for, which may write
  // it.
  CAUSEWAY_INLINE void begin() const {
    constexpr int kLine = 128, kRowBytes = P::kHeadDim * sizeof(T), kLines = (kRowBytes + kLine - 1) / kLine;
    const int32_t keys = end_ - begin_ < kTeams * kAtOnce ? end_ - begin_ : kTeams * kAtOnce;
#pragma clang loop unroll(disable)
    for (int32_t line = static_cast<int32_t>(thread_index()); line < keys * kLines;
         line += P::kTile.waves * kWaveWidth) {
      const int32_t key = begin_ + line / kLines, at = line % kLines * (kLine / static_cast<int>(sizeof(T)));
      prefetch_line(p.k_row(b_, kv_head_, key) + at);
      prefetch_line(p.v_row(b_, kv_head_, key) + at);
    }
  }

  CAUSEWAY_INLINE void run() {
    float queries[kHeads][kPiece];
#pragma clang loop unroll(full)
    for (int g = 0; g < kHeads; ++g) {
      to_floats(load(p.q_row(b_, h_ + g, 0)), queries[g]);
      maximum_[g] = -kInfinity;
    }
    const int team = thread_index() / kLanes;
#pragma clang loop unroll(disable)
    for (int32_t first = begin_; first < end_; first += kTeams * kAtOnce) {
      Piece keys[kAtOnce], values[kAtOnce];
#pragma clang loop unroll(full)
      for (int i = 0; i < kAtOnce; ++i) {
        // Past the end the last one again, which does not count.
        const int32_t key = first + i * kTeams + team < end_ ? first + i * kTeams + team : end_ - 1;
        keys[i] = load(p.k_row(b_, kv_head_, key));
        values[i] = load(p.v_row(b_, kv_head_, key));
      }
      take(first + team, queries, keys, values);
    }
    finish();
  }

 private:
  struct Piece {
    T elements[kPiece];
  };
  CAUSEWAY_INLINE static Piece load(const T* row) {
    Piece piece;
    __builtin_memcpy(&piece, __builtin_assume_aligned(row + thread_index() % kLanes * kPiece, 16), 16);
    return piece;
  }
  CAUSEWAY_INLINE static void to_floats(const Piece& piece, float (&to)[kPiece]) {
#pragma clang loop unroll(full)
    for (int e = 0; e < kPiece; ++e) to[e] = to_float(piece.elements[e]);
  }

  CAUSEWAY_INLINE void take(int32_t first, const float (&queries)[kHeads][kPiece], const Piece (&keys)[kAtOnce],
                            const Piece (&values)[kAtOnce]) {
    float weights[kHeads][kAtOnce];
#pragma clang loop unroll(full)
    for (int i = 0; i < kAtOnce; ++i) {
      float piece[kPiece];
      to_floats(keys[i], piece);
#pragma clang loop unroll(full)
      for (int g = 0; g < kHeads; ++g) {
        float qk = 0;
#pragma clang loop unroll(full)
        for (int e = 0; e < kPiece; ++e) qk = __builtin_fmaf(queries[g][e], piece[e], qk);
#pragma clang loop unroll(full)
        for (int lanes = 1; lanes < kLanes; lanes *= 2) qk += wave_shuffle_xor(qk, lanes);
        // Keys behind a part's end are there, but another's.
        const int32_t key = first + i * kTeams;
        weights[g][i] = modified_score(p, qk, b_, h_ + g, 0, key, true);
        if (P::kTile.most_parts > 1 && key >= end_) weights[g][i] = -kInfinity;
      }
    }
#pragma clang loop unroll(full)
    for (int g = 0; g < kHeads; ++g) {
      float largest = maximum_[g];
#pragma clang loop unroll(full)
      for (int i = 0; i < kAtOnce; ++i) largest = __builtin_fmaxf(largest, weights[g][i]);
      const float rescale = rescaled(maximum_[g], largest);
      maximum_[g] = largest;
      sum_[g] *= rescale;
#pragma clang loop unroll(full)
      for (int e = 0; e < kPiece; ++e) output_[g][e] *= rescale;
#pragma clang loop unroll(full)
      for (int i = 0; i < kAtOnce; ++i) {
        weights[g][i] = rescaled(weights[g][i], largest);
        sum_[g] += weights[g][i];
      }
    }
#pragma clang loop unroll(full)
    for (int i = 0; i < kAtOnce; ++i) {
      float piece[kPiece];
      to_floats(values[i], piece);
#pragma clang loop unroll(full)
      for (int g = 0; g < kHeads; ++g) {
#pragma clang loop unroll(full)
        for (int e = 0; e < kPiece; ++e) output_[g][e] = __builtin_fmaf(weights[g][i], piece[e], output_[g][e]);
      }
    }
  }

  // The parts of a wave's teams, then of the waves, in their order.
  CAUSEWAY_INLINE void finish() {
    float* maxima = reinterpret_cast<float*>(shared_memory());
    float* sums = maxima + P::kTile.waves * kHeads;
    float* outputs = sums + P::kTile.waves * kHeads;
#pragma clang loop unroll(full)
    for (int g = 0; g < kHeads; ++g) {
#pragma clang loop unroll(full)
      for (int lanes = kLanes; lanes < kWaveWidth; lanes *= 2) {
        const float largest = __builtin_fmaxf(maximum_[g], wave_shuffle_xor(maximum_[g], lanes));
        const float rescale = rescaled(maximum_[g], largest);
        maximum_[g] = largest;
        sum_[g] *= rescale;
        sum_[g] += wave_shuffle_xor(sum_[g], lanes);
#pragma clang loop unroll(full)
        for (int e = 0; e < kPiece; ++e) {
          output_[g][e] *= rescale;
          output_[g][e] += wave_shuffle_xor(output_[g][e], lanes);
        }
      }
      const int of_wave = g * P::kTile.waves + wave_index();
      if (lane_index() == 0) {
        maxima[of_wave] = maximum_[g];
        sums[of_wave] = sum_[g];
      }
      if (lane_index() < kLanes) {
#pragma clang loop unroll(full)
        for (int e = 0; e < kPiece; ++e) outputs[of_wave * P::kHeadDim + lane_index() * kPiece + e] = output_[g][e];
      }
    }
    block_barrier();
    for (int i = thread_index(); i < kHeads * P::kHeadDim; i += P::kTile.waves * kWaveWidth) {
      const int g = i / P::kHeadDim, d = i % P::kHeadDim;
      float largest = -kInfinity;
#pragma clang loop unroll(full)
      for (int wave = 0; wave < P::kTile.waves; ++wave)
        largest = __builtin_fmaxf(largest, maxima[g * P::kTile.waves + wave]);
      float sum = 0, output = 0;
#pragma clang loop unroll(full)
      for (int wave = 0; wave < P::kTile.waves; ++wave) {
        const int of_wave = g * P::kTile.waves + wave;
        const float weight = rescaled(maxima[of_wave], largest);
        sum = __builtin_fmaf(weight, sums[of_wave], sum);
        output = __builtin_fmaf(weight, outputs[of_wave * P::kHeadDim + d], output);
      }
      if (parts_ == 1) {
        store_one_query(p, b_, h_ + g, d, largest, sum, output);
        continue;
      }
      float* part = p.workspace + ((b_ * p.query_heads + h_ + g) * parts_ + part_) * one_query_part_floats(P::kHeadDim);
      part[2 + d] = output;
      if (d == 0) {
        part[0] = largest;
        part[1] = sum;
      }
    }
  }

  const P& p;
  int parts_, part_;
  int64_t b_, h_, kv_head_;
  int32_t begin_, end_;  // of the block's keys
  float maximum_[kHeads], sum_[kHeads] = {};
  float output_[kHeads][kPiece] = {};
};

}  // namespace attention_tile

// One block of a launch of batch * query_heads / kHeads * one_query_parts(), kTile.waves waves each, of a
// CAUSEWAY_EARLY_KERNEL.
template <int kHeads, OneQueryAttentionProblem P>
CAUSEWAY_INLINE void gpu_attention_one_query(const P& problem, int task) {
  attention_tile::OneQuery<P, kHeads> one(problem, task);
  one.begin();
  wait_for_launches();
  one.run();
}

// One block of a second launch of batch * query_heads, where there are several parts: combines them in their order.
template <OneQueryAttentionProblem P>
CAUSEWAY_INLINE void gpu_attention_combine_parts(const P& problem, int task) {
  using namespace attention_tile;
  const auto parts = static_cast<int>(one_query_parts(problem.key_length, P::kTile.most_parts));
  constexpr auto kFloats = static_cast<int>(one_query_part_floats(P::kHeadDim));
  const float* of_head = problem.workspace + int64_t{task} * parts * kFloats;
  float largest = -kInfinity;
  for (int part = 0; part < parts; ++part) largest = __builtin_fmaxf(largest, of_head[part * kFloats]);
  for (int d = thread_index(); d < P::kHeadDim; d += P::kTile.waves * kWaveWidth) {
    float sum = 0, output = 0;
    for (int part = 0; part < parts; ++part) {
      const float weight = rescaled(of_head[part * kFloats], largest);
      sum = __builtin_fmaf(weight, of_head[part * kFloats + 1], sum);
      output = __builtin_fmaf(weight, of_head[part * kFloats + 2 + d], output);
    }
    store_one_query(problem, task / problem.query_heads, task % problem.query_heads, d, largest, sum, output);
  }
}
