// The gradient of blockwise attention on x86-64: dq, dk and dv from q, k, v, dout and two numbers a row (the forward's
// log-sum-exp, and delta = sum over d of out * dout). Score tiles are recomputed block by block, as in
// FlashAttention-2 (arXiv 2307.08691), queries outermost.
//
// The problem P provides what the forward kernel asks for (attention.h; query_splits, store_out and store_lse are not
// used), and
//   float score_gradient(b, hq, t, s, float x) const;   // with kHasScore: d score / d x at x = scale q.k
//   float load_out_gradient(b, hq, t, d), load_lse(b, hq, t), load_delta(b, hq, t) const;
//   void store_dq(b, hq, t, d, float), store_dk(b, hkv, s, d, float), store_dv(b, hkv, s, d, float) const;
// A gradient of the loss in lse is passed by subtracting it from delta.
//
// GEMMs of bf16 go through matrix registers where attention.h says so and blocks of queries are multiples of 32,
// too. Those registers have rows of a left operand along the contraction, so that what is contracted over queries is
// computed transposed: dv^T += dout^T p and dk^T += q^T dscore.
//
// A task covers one (batch, kv head) and all the query heads that read it, so every sum has one fixed order. Each
// element of dq, dk and dv is stored exactly once, zeros included.
#pragma once

#include "causeway/kernels/x86/attention.h"

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpsabi"

namespace attention_tile {

template <class P>
class Backward {
 public:
  CAUSEWAY_INLINE Backward(const P& problem, void* scratch) : p(problem) {
    const AttentionBackwardLayout layout =
        attention_backward_layout(P::kHeadDim, P::kValueDim, P::kBlockQ, P::kBlockK, p.key_length, 4 / kElements);
    char* base = static_cast<char*>(scratch);
    keys_ = reinterpret_cast<uint32_t*>(base + layout.keys);
    values_ = reinterpret_cast<uint32_t*>(base + layout.values);
    key_rows_ = reinterpret_cast<uint32_t*>(base + layout.key_rows);
    packed_ = reinterpret_cast<uint8_t*>(base + layout.packed);
    key_gradient_ = reinterpret_cast<float*>(base + layout.key_gradient);
    value_gradient_ = reinterpret_cast<float*>(base + layout.value_gradient);
    queries_ = reinterpret_cast<uint32_t*>(base + layout.queries);
    query_rows_ = reinterpret_cast<uint32_t*>(base + layout.query_rows);
    out_gradients_ = reinterpret_cast<uint32_t*>(base + layout.out_gradients);
    out_gradient_rows_ = reinterpret_cast<uint32_t*>(base + layout.out_gradient_rows);
    query_gradient_ = reinterpret_cast<float*>(base + layout.query_gradient);
    weights_ = reinterpret_cast<uint32_t*>(base + layout.weights);
    score_gradients_ = reinterpret_cast<uint32_t*>(base + layout.score_gradients);
    log_sums_ = reinterpret_cast<float*>(base + layout.row_terms);
    deltas_ = log_sums_ + P::kBlockQ;
  }

  CAUSEWAY_INLINE void run(int64_t task) {
    b_ = task / p.kv_heads;
    kv_head_ = task % p.kv_heads;
    const int64_t group = p.query_heads / p.kv_heads;
    const int64_t query_blocks = attention_block_count(p.query_length, P::kBlockQ);
    const int64_t key_blocks = attention_block_count(p.key_length, P::kBlockK);
    const int64_t keys = key_blocks * P::kBlockK;
    clear(packed_, attention_round_up(key_blocks, 64) / 4);
    clear(key_gradient_, keys * kKeyWidth);
    clear(value_gradient_, keys * kValueWidth);
    if (kTiles) begin_tiles();
    for (int64_t i = 0; i < group; ++i) {
      head_ = kv_head_ * group + i;
      for (q_block_ = 0; q_block_ < query_blocks; ++q_block_) {
        const int64_t left = p.query_length - q_block_ * P::kBlockQ;
        rows_ = static_cast<int>(left < P::kBlockQ ? left : P::kBlockQ);
        query_block(key_blocks);
      }
    }
    if (kTiles) {
      end_tiles();
      for (int64_t s = 0; s < p.key_length; s += 16) store_transposed_keys(s);
    } else {
      for (int64_t s = 0; s < p.key_length; ++s) {
        store_key_row(s, key_gradient_ + s * kKeyWidth, value_gradient_ + s * kValueWidth);
      }
    }
  }

 private:
  using Operand = typename P::Operand;
  static constexpr int kRows = kAttentionStripRows;
  static constexpr int kElements = kPack<Operand>;
  // Of queries and keys, of values and outputs.
  static constexpr int kKeyWidth = static_cast<int>(attention_lane_width(P::kHeadDim));
  static constexpr int kValueWidth = static_cast<int>(attention_lane_width(P::kValueDim));
  static constexpr int kKeyOperandWidth = static_cast<int>(attention_operand_width(P::kHeadDim));
  static constexpr int kValueOperandWidth = static_cast<int>(attention_operand_width(P::kValueDim));
  static constexpr int kQueryWords = kKeyOperandWidth / kElements;
  static constexpr int kOutWords = kValueOperandWidth / kElements;
  static constexpr int kKeyWords = kKeyWidth * P::kBlockK / kElements;  // of a packed block
  static constexpr int kValueWords = kValueWidth * P::kBlockK / kElements;
  static constexpr int kScoreWidth = attention_round_up(P::kBlockK, 32);
  static constexpr int kScoreWords = kScoreWidth / kElements;
  static constexpr bool kTiles = use_matrix_tiles<Operand>(kKeyWidth, P::kBlockK) &&
                                 use_matrix_tiles<Operand>(kKeyWidth, P::kBlockQ) &&
                                 use_matrix_tiles<Operand>(kValueWidth, P::kBlockQ);
  static constexpr int kTogether = kTiles ? 16 : kRows;  // rows of queries
  static constexpr int kQueryDepth = P::kBlockQ / kElements;
  static_assert(P::kBlockQ % 16 == 0 && P::kBlockK % 16 == 0);

  CAUSEWAY_INLINE void query_block(int64_t key_blocks) {
    load_queries();
    clear(query_gradient_, P::kBlockQ * kKeyWidth);
    for (int64_t k_block = 0; k_block < key_blocks; ++k_block) {
      const uint8_t kind = block_kind(p, b_, head_, q_block_, k_block);
      if (kind == kAttentionBlockEmpty) continue;
      if (!packed_[k_block]) pack_block(k_block);
      for (int row = 0; row < P::kBlockQ; row += kTogether) multiply(row, k_block, kind);
      const int64_t key = k_block * P::kBlockK;
      add_over_queries<kValueWidth>(value_gradient_ + key * kValueWidth, weights_, out_gradient_rows_);
      add_over_queries<kKeyWidth>(key_gradient_ + key * kKeyWidth, score_gradients_, query_rows_);
    }
    for (int row = 0; row < rows_; ++row) {
      store_query_row(q_block_ * P::kBlockQ + row, query_gradient_ + row * kKeyWidth);
    }
  }

  // gradient += keys^T queries of a block, contracted over its queries: p^T dout or dscore^T q, [key][dim], or
  // [dim][key] by matrix registers.
  template <int kWidth>
  CAUSEWAY_INLINE void add_over_queries(float* gradient, const uint32_t* keys, const uint32_t* queries) const {
    if constexpr (kTiles) {
      for (int d = 0; d < kWidth; d += 16) {
        multiply_rows<Operand, 16, P::kBlockK, kQueryDepth, true>(gradient + d * P::kBlockK, P::kBlockK,
                                                                  queries + d * kQueryDepth, kQueryDepth, keys);
      }
    } else {
      for (int key = 0; key < P::kBlockK; key += kRows) {
        multiply_strip<Operand, kWidth, kQueryDepth, true>(gradient + key * kWidth, kWidth, keys + key, 1, P::kBlockK,
                                                           queries);
      }
    }
  }

  // Packs the rows of a [query][dim] operand both ways: as a left operand, and for contraction over the queries, as
  // [query][dim], or [dim][query] for matrix registers.
  template <int kDim, class Load>
  CAUSEWAY_INLINE void pack_queries(uint32_t* left, uint32_t* right, Load load) {
    constexpr int kLaneWidth = static_cast<int>(attention_lane_width(kDim));
    constexpr int kOperandWidth = static_cast<int>(attention_operand_width(kDim));
    alignas(64) float row[kOperandWidth];
    const int64_t first = q_block_ * P::kBlockQ;
    for (int i = 0; i < P::kBlockQ; ++i) {
      if (i < rows_) {
        load_row<kDim, kOperandWidth>(row, [&](int d) { return load(first + i, d); });
      } else {
        clear(row, kOperandWidth);
      }
      pack_along<Operand, kOperandWidth>(left + i * kOperandWidth / kElements, row);
    }
    const auto fill = [&](int i, float* to) {
      load_row<kDim, kLaneWidth>(to, [&](int d) { return load(first + i, d); });
    };
    if constexpr (kTiles) {
      pack_columns<Operand, kLaneWidth, P::kBlockQ>(right, rows_, fill);
    } else {
      pack_rows<Operand, kLaneWidth, kLaneWidth, P::kBlockQ>(right, rows_, fill);
    }
  }

  CAUSEWAY_INLINE void load_queries() {
    pack_queries<P::kHeadDim>(queries_, query_rows_, [&](int64_t t, int d) { return p.load_q(b_, head_, t, d); });
    pack_queries<P::kValueDim>(out_gradients_, out_gradient_rows_,
                               [&](int64_t t, int d) { return p.load_out_gradient(b_, head_, t, d); });
    // Rows that do not exist, or that attend to nothing, get a log-sum-exp of +inf: all their weights become 0.
    for (int i = 0; i < P::kBlockQ; ++i) {
      float log_sum = kInfinity;
      float delta = 0.0f;
      if (i < rows_) {
        log_sum = p.load_lse(b_, head_, q_block_ * P::kBlockQ + i) * kLog2E;
        delta = p.load_delta(b_, head_, q_block_ * P::kBlockQ + i);
      }
      log_sums_[i] = log_sum == -kInfinity ? kInfinity : log_sum;
      deltas_[i] = delta;
    }
  }

  CAUSEWAY_INLINE int key_count(int64_t k_block) const {
    const int64_t left = p.key_length - k_block * P::kBlockK;
    return static_cast<int>(left < P::kBlockK ? left : P::kBlockK);
  }

  CAUSEWAY_INLINE void pack_block(int64_t k_block) {
    const int64_t first = k_block * P::kBlockK;
    const auto load_key = [&](int64_t s, int d) { return p.load_k(b_, kv_head_, s, d); };
    pack_transposed<Operand, kKeyOperandWidth, kKeyWidth / kElements, P::kBlockK>(
        keys_ + k_block * kKeyWords, key_count(k_block), [&](int i, float* row) {
          load_row<P::kHeadDim, kKeyOperandWidth>(row, [&](int d) { return load_key(first + i, d); });
        });
    pack_rows<Operand, kKeyWidth, kKeyWidth, P::kBlockK>(
        key_rows_ + k_block * kKeyWords, key_count(k_block), [&](int i, float* row) {
          load_row<P::kHeadDim, kKeyWidth>(row, [&](int d) { return load_key(first + i, d); });
        });
    pack_transposed<Operand, kValueOperandWidth, kValueWidth / kElements, P::kBlockK>(
        values_ + k_block * kValueWords, key_count(k_block), [&](int i, float* row) {
          load_row<P::kValueDim, kValueOperandWidth>(row, [&](int d) { return p.load_v(b_, kv_head_, first + i, d); });
        });
    packed_[k_block] = 1;
  }

  // Turns a row of q.k into log2 of its weights, and dp - delta into what multiplies a weight to give dscore.
  template <bool kMasked>
  CAUSEWAY_INLINE void modify(float* __restrict scores, float* __restrict slopes, int64_t t, int64_t first, int count,
                              float log_sum, float delta) const {
    for (int j = 0; j < count; ++j) {
      const float x = scores[j] * p.scale;
      float score = x;
      float slope = slopes[j] - delta;
      if constexpr (P::kHasScore) {
        score = p.score(b_, head_, t, first + j, x);
        slope *= p.score_gradient(b_, head_, t, first + j, x);
        // A score of -inf takes no part, whatever its function's gradient is there.
        slope = score == -kInfinity ? 0.0f : slope;
      }
      float exponent = score * kLog2E - log_sum;
      if constexpr (kMasked) {
        const bool allowed = p.mask(b_, head_, t, first + j);
        exponent = allowed ? exponent : -kInfinity;
        slope = allowed ? slope : 0.0f;
      }
      scores[j] = exponent;
      slopes[j] = slope;
    }
  }

  CAUSEWAY_INLINE void hide(float* scores, float* slopes, int from) const {
    for (int j = from; j < P::kBlockK; ++j) {
      scores[j] = -kInfinity;
      slopes[j] = 0.0f;
    }
  }

  // Weights and their gradients of kTogether query rows against one key block; adds to dq.
  CAUSEWAY_INLINE void multiply(int row, int64_t k_block, uint8_t kind) {
    alignas(64) float scores[kTogether * kScoreWidth];
    alignas(64) float slopes[kTogether * kScoreWidth];
    alignas(64) uint32_t gradients[kTogether * kScoreWords];
    multiply_rows<Operand, kTogether, P::kBlockK, kKeyWidth / kElements, false>(
        scores, kScoreWidth, queries_ + row * kQueryWords, kQueryWords, keys_ + k_block * kKeyWords);
    multiply_rows<Operand, kTogether, P::kBlockK, kValueWidth / kElements, false>(
        slopes, kScoreWidth, out_gradients_ + row * kOutWords, kOutWords, values_ + k_block * kValueWords);
    for (int i = 0; i < kTogether; i += kRows) {
      weigh(row + i, k_block, kind, scores + i * kScoreWidth, slopes + i * kScoreWidth, gradients + i * kScoreWords);
    }
    multiply_rows<Operand, kTogether, kKeyWidth, P::kBlockK / kElements, true>(
        query_gradient_ + row * kKeyWidth, kKeyWidth, gradients, kScoreWords, key_rows_ + k_block * kKeyWords);
  }

  // Four query rows, from scores and their slopes to packed weights and gradients.
  CAUSEWAY_INLINE void weigh(int row, int64_t k_block, uint8_t kind, float* scores, float* slopes,
                             uint32_t* gradients) {
    const int keys = key_count(k_block);
    const bool masked = P::kHasMask && kind == kAttentionBlockPartial;
    const bool modified = P::kHasScore || masked || keys < P::kBlockK;
    if (modified) {
      const int64_t first = k_block * P::kBlockK;
      for (int r = 0; r < kRows; ++r) {
        float* score = scores + r * kScoreWidth;
        float* slope = slopes + r * kScoreWidth;
        const int64_t t = q_block_ * P::kBlockQ + row + r;
        const bool exists = row + r < rows_;
        if (exists && masked) {
          modify<P::kHasMask>(score, slope, t, first, keys, log_sums_[row + r], deltas_[row + r]);
        } else if (exists) {
          modify<false>(score, slope, t, first, keys, log_sums_[row + r], deltas_[row + r]);
        }
        hide(score, slope, exists ? keys : 0);
      }
    }
    for (int r = 0; r < kRows; r += kElements) {
      for (int j = 0; j < P::kBlockK; j += 16) {
        Floats weights[kElements];
#pragma clang loop unroll(full)
        for (int i = 0; i < kElements; ++i) {
          float* score = scores + (r + i) * kScoreWidth + j;
          float* slope = slopes + (r + i) * kScoreWidth + j;
          Floats exponent = load_floats(score);
          Floats gradient = load_floats(slope);
          if (!modified) {
            exponent = multiply_add(exponent, Floats(p.scale * kLog2E), Floats(-log_sums_[row + r + i]));
            gradient -= Floats(deltas_[row + r + i]);
          }
          weights[i] = exp2<Operand>(exponent);
          if constexpr (kElements == 1) {
            // Words of single elements are the same in both places, and rounded once.
            const Words words = single_words<Operand>(gradient * weights[i]);
            store_words(score_gradients_ + (row + r) * P::kBlockK + j, words);
            store_words(gradients + r * kScoreWords + j, words);
          } else {
            store_floats(slope, gradient * weights[i]);
          }
        }
        store_tile(weights_, row + r, j, weights);
        if constexpr (kElements == 1) continue;
#pragma clang loop unroll(full)
        for (int i = 0; i < kElements; ++i) weights[i] = load_floats(slopes + (r + i) * kScoreWidth + j);
        store_tile(score_gradients_, row + r, j, weights);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      if constexpr (kElements == 1) {
        clear(gradients + r * kScoreWords + P::kBlockK, kScoreWords - P::kBlockK);
        continue;
      }
      for (int j = P::kBlockK; j < kScoreWidth; ++j) slopes[r * kScoreWidth + j] = 0.0f;
      pack_along<Operand, kScoreWidth>(gradients + r * kScoreWords, slopes + r * kScoreWidth);
    }
  }

  // Stores 16 keys of kElements query rows as words packed along the queries.
  CAUSEWAY_INLINE void store_tile(uint32_t* tile, int row, int key, const Floats (&rows)[kElements]) const {
    uint32_t* to = tile + row / kElements * P::kBlockK + key;
    if constexpr (kElements == 2) {
      store_words(to, pair_words(rows[0], rows[1]));
    } else {
      store_words(to, single_words<Operand>(rows[0]));
    }
  }

  CAUSEWAY_INLINE void store_query_row(int64_t t, const float* __restrict row) const {
    for (int d = 0; d < P::kHeadDim; ++d) p.store_dq(b_, head_, t, d, row[d] * p.scale);
  }

  CAUSEWAY_INLINE void store_key_row(int64_t s, const float* __restrict key, const float* __restrict value) const {
    for (int d = 0; d < P::kHeadDim; ++d) p.store_dk(b_, kv_head_, s, d, key[d] * p.scale);
    for (int d = 0; d < P::kValueDim; ++d) p.store_dv(b_, kv_head_, s, d, value[d]);
  }

  // 16 keys from `first` on, whose gradients lie [dim][key] in their block.
  CAUSEWAY_INLINE void store_transposed_keys(int64_t first) const {
    alignas(64) float keys[16 * kKeyWidth];
    alignas(64) float values[16 * kValueWidth];
    const int64_t block = first / P::kBlockK * P::kBlockK, key = first % P::kBlockK;
    transpose<kKeyWidth>(keys, key_gradient_ + block * kKeyWidth + key);
    transpose<kValueWidth>(values, value_gradient_ + block * kValueWidth + key);
    for (int i = 0; i < 16 && first + i < p.key_length; ++i) {
      store_key_row(first + i, keys + i * kKeyWidth, values + i * kValueWidth);
    }
  }

  // to[16][kWidth] from 16 columns of rows of kBlockK.
  template <int kWidth>
  CAUSEWAY_INLINE static void transpose(float* to, const float* from) {
    for (int d = 0; d < kWidth; d += 16) {
      Words block[16];
#pragma clang loop unroll(full)
      for (int i = 0; i < 16; ++i) block[i] = __builtin_bit_cast(Words, load_floats(from + (d + i) * P::kBlockK));
      transpose_block(block);
#pragma clang loop unroll(full)
      for (int i = 0; i < 16; ++i) store_floats(to + i * kWidth + d, __builtin_bit_cast(Floats, block[i]));
    }
  }

  const P p;
  uint32_t* keys_;
  uint32_t* values_;
  uint32_t* key_rows_;
  uint8_t* packed_;
  float* key_gradient_;
  float* value_gradient_;
  uint32_t* queries_;
  uint32_t* query_rows_;
  uint32_t* out_gradients_;
  uint32_t* out_gradient_rows_;
  float* query_gradient_;
  uint32_t* weights_;
  uint32_t* score_gradients_;
  float* log_sums_;
  float* deltas_;
  int64_t b_ = 0;
  int64_t kv_head_ = 0;
  int64_t head_ = 0;
  int64_t q_block_ = 0;
  int rows_ = 0;
};

}  // namespace attention_tile

#pragma clang diagnostic pop

// Runs task 0 to batch * kv_heads - 1. `scratch`: 64-byte aligned, of the size that attention_backward_launch() states.
template <class P>
inline void attention_backward(const P& problem, int64_t task, void* scratch) {
  attention_tile::Backward<P>(problem, scratch).run(task);
}
