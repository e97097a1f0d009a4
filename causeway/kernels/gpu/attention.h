// Attention on GPUs, forward: one block of threads for some queries of one head, which goes over the keys in
// tiles and keeps a running maximum and sum for each query (FlashAttention-2, Dao, arXiv 2307.08691).
#pragma once

#include "causeway/kernels/gpu/attention_problem.h"
#include "causeway/kernels/gpu/attention_tile.h"

namespace attention_tile {

// Of a stage: keys, then values.
template <class P>
constexpr int kForwardKeyElements = P::kTile.keys * row_stride<typename P::Operand>(kDimPadded<P>);
template <class P>
constexpr int kForwardStageElements =
    kForwardKeyElements<P> + P::kTile.keys * row_stride<typename P::Operand>(kValuePadded<P>);

// Which of a tile's keys element i of a wave's n-th 16 scores is of.
struct KeysInOrder {
  CAUSEWAY_INLINE static int of(int n, int i) { return 16 * n + other_of(i); }
};

// gpu_attention_shared_bytes() says how much shared memory this takes: the tiles of all stages, or a block's rows
// of queries and later of results in their place; queries that are not kept in registers lie behind the tiles.
template <class P, class Keys = KeysInOrder>
class Forward {
 protected:
  using T = typename P::Operand;
  static constexpr int kThreads = P::kTile.waves * kWaveWidth;
  static constexpr int kBlocks = P::kTile.queries / (16 * P::kTile.waves);  // of 16 queries, in each wave
  static constexpr int kInner = kDimPadded<P> / 16, kValueInner = kValuePadded<P> / 16;
  static constexpr int kOthers = P::kTile.keys / 16;
  static constexpr int kStride = row_stride<T>(kDimPadded<P>), kValueStride = row_stride<T>(kValuePadded<P>);
  // Fragments of float are too large to keep on NVIDIA's units, which multiply them outside the matrix unit.
  static constexpr bool kKeepQueries = sizeof(T) == 2;

 public:
  CAUSEWAY_INLINE Forward(const P& problem, int task) : p(problem) {
    const int64_t heads = p.batch * p.query_heads;
    const int64_t tiles = (p.query_length + P::kTile.queries - 1) / P::kTile.queries;
    // Later queries see more keys under a causal mask: they start first.
    const TileOfHead own(task, heads, tiles);
    first_query_ = (tiles - 1 - own.tile) * P::kTile.queries;
    b_ = own.head / p.query_heads;
    h_ = own.head % p.query_heads;
    kv_head_ = h_ / (p.query_heads / p.kv_heads);
    first_line_ = first_query_ + wave_index() * 16 * kBlocks;
  }

  CAUSEWAY_INLINE void run() {
    load_queries();
#pragma clang loop unroll(full)
    for (int r = 0; r < kBlocks; ++r) {
#pragma clang loop unroll(full)
      for (int d = 0; d < kValueInner; ++d) output_[r][d] = Accumulator{};
#pragma clang loop unroll(full)
      for (int slot = 0; slot < kLinesPerLane; ++slot) {
        maximum_[r][slot] = -kInfinity;
        sum_[r][slot] = 0.0f;
      }
    }
    int64_t key = next_tile(0);
    int stage = 0;
    if (P::kTile.stages > 1 && key < p.key_length) load_tile(key, stage);
    copy_async_commit();
    while (key < p.key_length) {
      const int64_t next = next_tile(key + P::kTile.keys);
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
    finish();
  }

 protected:
  CAUSEWAY_INLINE T* tile(int stage, int which) const {
    return reinterpret_cast<T*>(shared_memory()) + stage * kForwardStageElements<P> + which * kForwardKeyElements<P>;
  }

  CAUSEWAY_INLINE T* query_rows() const {
    return reinterpret_cast<T*>(shared_memory()) + (kKeepQueries ? 0 : P::kTile.stages * kForwardStageElements<P>);
  }

  CAUSEWAY_INLINE const T* query_block(int r, int d) const {
    return query_rows() + (wave_index() * kBlocks + r) * 16 * kStride + 16 * d;
  }

  CAUSEWAY_INLINE void load_queries() {
    T* rows = query_rows();
    if constexpr (P::kDirectQ) {
      stage_rows<T, P::kTile.queries, kDimPadded<P>, P::kHeadDim, kThreads>(
          rows, first_query_, p.query_length, [&](int64_t t) { return p.q_row(b_, h_, t); });
    } else {
      compute_rows<T, P::kTile.queries, kDimPadded<P>, P::kHeadDim, kThreads>(
          rows, first_query_, p.query_length, [&](int64_t t, int d) { return p.load_q(b_, h_, t, d); });
    }
    copy_async_commit();
    copy_async_wait<0>();
    block_barrier();
    if constexpr (kKeepQueries) {
#pragma clang loop unroll(full)
      for (int r = 0; r < kBlocks; ++r) {
#pragma clang loop unroll(full)
        for (int d = 0; d < kInner; ++d) load_fragment(queries_[r][d], query_block(r, d), kStride);
      }
      block_barrier();
    }
  }

  // The first tile from `key` on, of which any query of the block sees something.
  CAUSEWAY_INLINE int64_t next_tile(int64_t key) const {
    if constexpr (P::kHasBlockMap && P::kTile.map_is_usable) {
      for (; key < p.key_length; key += P::kTile.keys) {
        for (int64_t t = first_query_; t < first_query_ + P::kTile.queries && t < p.query_length; t += P::kBlockQ)
          if (block_kind(p, b_, h_, t, key) != 0) return key;
      }
    }
    return key;
  }

  CAUSEWAY_INLINE void load_tile(int64_t key, int stage) const {
    if constexpr (P::kDirectK) {
      stage_rows<T, P::kTile.keys, kDimPadded<P>, P::kHeadDim, kThreads>(
          tile(stage, 0), key, p.key_length, [&](int64_t s) { return p.k_row(b_, kv_head_, s); });
    } else {
      compute_rows<T, P::kTile.keys, kDimPadded<P>, P::kHeadDim, kThreads>(
          tile(stage, 0), key, p.key_length, [&](int64_t s, int d) { return p.load_k(b_, kv_head_, s, d); });
    }
    if constexpr (P::kDirectV) {
      stage_rows<T, P::kTile.keys, kValuePadded<P>, P::kValueDim, kThreads>(
          tile(stage, 1), key, p.key_length, [&](int64_t s) { return p.v_row(b_, kv_head_, s); });
    } else {
      compute_rows<T, P::kTile.keys, kValuePadded<P>, P::kValueDim, kThreads>(
          tile(stage, 1), key, p.key_length, [&](int64_t s, int d) { return p.load_v(b_, kv_head_, s, d); });
    }
  }

  CAUSEWAY_INLINE void process_tile(int64_t key, int stage) {
    const uint8_t kind = first_line_ < p.query_length ? block_kind(p, b_, h_, first_line_, key) : 0;
    if (kind == 0) return;
    const bool masked = P::kHasMask && kind == 1;
    Accumulator scores[kBlocks][kOthers];
#pragma clang loop unroll(full)
    for (int n = 0; n < kOthers; ++n) {
#pragma clang loop unroll(full)
      for (int r = 0; r < kBlocks; ++r) scores[r][n] = Accumulator{};
#pragma clang loop unroll(full)
      for (int d = 0; d < kInner; ++d) {
        OtherFragment<T> keys;
        load_fragment(keys, tile(stage, 0) + n * 16 * kStride + 16 * d, kStride);
#pragma clang loop unroll(full)
        for (int r = 0; r < kBlocks; ++r) {
          if constexpr (!kKeepQueries) load_fragment(queries_[r][0], query_block(r, d), kStride);
          multiply_scores<T>(scores[r][n], queries_[r][kKeepQueries ? d : 0], keys);
        }
      }
    }
    soften_tile(scores, key, masked);
#pragma clang loop unroll(full)
    for (int n = 0; n < kOthers; ++n) {
      WeightFragment<T> weights[kBlocks];
#pragma clang loop unroll(full)
      for (int r = 0; r < kBlocks; ++r) set_weights(weights[r], scores[r][n]);
#pragma clang loop unroll(full)
      for (int d = 0; d < kValueInner; ++d) {
        ValueFragment<T> values;
        load_values(values, tile(stage, 1) + n * 16 * kValueStride + 16 * d, kValueStride);
#pragma clang loop unroll(full)
        for (int r = 0; r < kBlocks; ++r) multiply_values<T>(output_[r][d], weights[r], values);
      }
    }
  }

  // MMAs of the tile from `key` on to weights.
  CAUSEWAY_INLINE void soften_tile(Accumulator (&scores)[kBlocks][kOthers], int64_t key, bool masked) {
    // Inside and unmasked, which most tiles are, positions matter to the score alone.
    const bool ends =
        key + P::kTile.keys > p.key_length || (P::kHasScore && first_line_ + 16 * kBlocks > p.query_length);
#pragma clang loop unroll(full)
    for (int r = 0; r < kBlocks; ++r) {
      if (masked || ends) {
        modify(scores[r], r, key,
               [&](float qk, int32_t t, int32_t s) { return modified_score(p, qk, b_, h_, t, s, masked); });
        soften(scores[r], r, 1.0f);
      } else if constexpr (P::kHasScore) {
        modify(scores[r], r, key, [&](float qk, int32_t t, int32_t s) { return p.score(b_, h_, t, s, qk * p.scale); });
        soften(scores[r], r, kLog2E);
      } else {
        soften(scores[r], r, p.scale * kLog2E);
      }
    }
  }

  // modified(qk, t, s).
  template <class F>
  CAUSEWAY_INLINE void modify(Accumulator (&scores)[kOthers], int r, int64_t key, F modified) const {
    const int32_t first_line = static_cast<int32_t>(first_line_) + 16 * r;
#pragma clang loop unroll(full)
    for (int n = 0; n < kOthers; ++n) {
#pragma clang loop unroll(full)
      for (int i = 0; i < kAccumulatorElements; ++i) {
        scores[n].v[i] = modified(scores[n].v[i], first_line + line_of_slot(line_slot(i)),
                                  static_cast<int32_t>(key) + Keys::of(n, i));
      }
    }
  }

  // Scores to weights exp2(factor score - maximum), with what was summed so far rescaled to the new maximum.
  CAUSEWAY_INLINE void soften(Accumulator (&scores)[kOthers], int r, float factor) {
    float shift[kLinesPerLane];
    bool grown = false;
#pragma clang loop unroll(full)
    for (int slot = 0; slot < kLinesPerLane; ++slot) {
      float largest = -kInfinity;
#pragma clang loop unroll(full)
      for (int n = 0; n < kOthers; ++n) {
#pragma clang loop unroll(full)
        for (int i = 0; i < kAccumulatorElements; ++i)
          if (line_slot(i) == slot) largest = __builtin_fmaxf(largest, scores[n].v[i]);
      }
      // The factor may be negative where the scale is.
      if (factor < 0.0f) {
        largest = kInfinity;
#pragma clang loop unroll(full)
        for (int n = 0; n < kOthers; ++n) {
#pragma clang loop unroll(full)
          for (int i = 0; i < kAccumulatorElements; ++i)
            if (line_slot(i) == slot) largest = __builtin_fminf(largest, scores[n].v[i]);
        }
      }
      largest = over_line(largest * factor, [](float a, float b) { return __builtin_fmaxf(a, b); });
      largest = __builtin_fmaxf(largest, maximum_[r][slot]);
      grown = grown || largest > maximum_[r][slot];
      shift[slot] = largest;
    }
    // Where no maximum of the wave grew, nothing is to be rescaled.
    if (wave_any(grown)) {
#pragma clang loop unroll(full)
      for (int slot = 0; slot < kLinesPerLane; ++slot) {
        const float rescale = fast_exp2(maximum_[r][slot] - (shift[slot] == -kInfinity ? 0.0f : shift[slot]));
        maximum_[r][slot] = shift[slot];
        sum_[r][slot] *= rescale;
#pragma clang loop unroll(full)
        for (int d = 0; d < kValueInner; ++d) {
#pragma clang loop unroll(full)
          for (int i = 0; i < kAccumulatorElements; ++i)
            if (line_slot(i) == slot) output_[r][d].v[i] *= rescale;
        }
      }
    }
#pragma clang loop unroll(full)
    for (int slot = 0; slot < kLinesPerLane; ++slot) shift[slot] = shift[slot] == -kInfinity ? 0.0f : -shift[slot];
#pragma clang loop unroll(full)
    for (int n = 0; n < kOthers; ++n) {
#pragma clang loop unroll(full)
      for (int i = 0; i < kAccumulatorElements; ++i) {
        const float weight = fast_exp2(__builtin_fmaf(scores[n].v[i], factor, shift[line_slot(i)]));
        scores[n].v[i] = weight;
        sum_[r][line_slot(i)] += weight;
      }
    }
  }

  CAUSEWAY_INLINE void finish() {
    T* rows = reinterpret_cast<T*>(shared_memory()) + wave_index() * 16 * kValueStride;
#pragma clang loop unroll(full)
    for (int r = 0; r < kBlocks; ++r) {
      if (r > 0) wave_barrier();
#pragma clang loop unroll(full)
      for (int slot = 0; slot < kLinesPerLane; ++slot) {
        const float sum = over_line(sum_[r][slot], [](float a, float b) { return a + b; });
        const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
        const int line = line_of_slot(slot);
        const int64_t t = first_line_ + 16 * r + line;
        if (t < p.query_length && other_of(0) == 0) p.store_lse(b_, h_, t, (maximum_[r][slot] + fast_log2(sum)) * kLn2);
#pragma clang loop unroll(full)
        for (int d = 0; d < kValueInner; ++d) {
#pragma clang loop unroll(full)
          for (int i = 0; i < kAccumulatorElements; ++i)
            if (line_slot(i) == slot)
              rows[line * kValueStride + 16 * d + other_of(i)] = to_operand<T>(output_[r][d].v[i] * inverse);
        }
      }
      wave_barrier();
      store_rows(rows, first_line_ + 16 * r);
    }
  }

  // 16 rows of results, of queries from `first` on.
  CAUSEWAY_INLINE void store_rows(const T* rows, int64_t first) const {
    constexpr int kPiece = 16 / sizeof(T), kPieces = P::kValueDim / kPiece, kRest = P::kValueDim % kPiece;
    for (int piece = lane_index(); piece < 16 * kPieces; piece += kWaveWidth) {
      const int line = piece / kPieces, d = piece % kPieces * kPiece;
      if (first + line >= p.query_length) continue;
      float values[kPiece];
#pragma clang loop unroll(full)
      for (int e = 0; e < kPiece; ++e) values[e] = to_float(rows[line * kValueStride + d + e]);
#pragma clang loop unroll(full)
      for (int e = 0; e < kPiece; ++e) p.store_out(b_, h_, first + line, d + e, values[e]);
    }
    for (int at = lane_index(); at < 16 * kRest; at += kWaveWidth) {
      const int line = at / (kRest == 0 ? 1 : kRest), d = P::kValueDim - 1 - at % (kRest == 0 ? 1 : kRest);
      if (first + line < p.query_length) p.store_out(b_, h_, first + line, d, to_float(rows[line * kValueStride + d]));
    }
  }

  const P& p;
  int64_t first_query_, first_line_, b_, h_, kv_head_;
  LineFragment<T> queries_[kBlocks][kKeepQueries ? kInner : 1];
  Accumulator output_[kBlocks][kValueInner];
  float maximum_[kBlocks][kLinesPerLane];
  float sum_[kBlocks][kLinesPerLane];
};

}  // namespace attention_tile

// One block of a launch of batch * query_heads * ceil(query_length / kTile.queries), kTile.waves waves each.
template <AttentionProblem P>
CAUSEWAY_INLINE void gpu_attention_forward(const P& problem, int task) {
  attention_tile::Forward<P>(problem, task).run();
}
