// Blockwise attention with an online softmax on x86-64: out = softmax(score(scale q k^T)) v for every row, without a
// [query_length, key_length] matrix in memory. The method is FlashAttention-2 (arXiv 2307.08691), with the running
// maximum raised only when it has grown by a factor of 2^8, as in FlashAttention-4.
//
// The problem P provides (constants may be static constexpr members or members set at run time)
//   using Operand = bf16 or float;       // the type q k^T and p v multiply in; sums are float
//   static constexpr int kHeadDim;       // of queries and keys, at least 1
//   static constexpr int kValueDim;      // of values and outputs, likewise
//   static constexpr int kBlockQ, kBlockK;   // of the block map and of the tiles: multiples of 16
//   int64_t batch, query_heads, kv_heads, query_length, key_length;   // query_heads a multiple of kv_heads
//   float scale;                         // multiplied into q.k before score()
//   int64_t query_splits;                // tasks for each (batch, kv head), 1 to the number of query blocks
//   float load_q(b, hq, t, d), load_k(b, hkv, s, d), load_v(b, hkv, s, d) const;
//   static constexpr bool kHasScore;     // then: float score(b, hq, t, s, float x) const, x = scale q.k
//   static constexpr bool kHasMask;      // then: bool mask(b, hq, t, s) const, true to attend
//   static constexpr bool kHasBlockMap;  // then: uint8_t block_kind(b, hq, q_block, k_block) const
//   void store_out(b, hq, t, d, float) const, store_lse(b, hq, t, float) const;
// Indices are int64_t; score and mask are fastest when they declare positions as int32_t. They are called with s
// innermost, so a captured array should be contiguous along s. lse is the natural logarithm of the sum of
// exp(score); a row with no allowed key gives out = 0 and lse = -inf.
//
// GEMMs of bf16 go through matrix registers where the machine has them (AMX) and blocks of keys and both widths of
// heads, rounded up to 16, are multiples of 32; not those of heads that are computed together because each has few
// rows.
//
// A task's result depends on nothing but the problem: neither on query_splits nor on the order of the tasks. Keys and
// values in blocks of kind kAttentionBlockEmpty for all rows of a task are never loaded.
#pragma once

#include "causeway/kernels/attention_block_map.h"
#include "causeway/kernels/x86/attention_tile.h"

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpsabi"

namespace attention_tile {

template <class P>
CAUSEWAY_INLINE uint8_t block_kind(const P& p, int64_t b, int64_t h, int64_t q_block, int64_t k_block) {
  if constexpr (P::kHasBlockMap) return p.block_kind(b, h, q_block, k_block);
  return P::kHasMask ? kAttentionBlockPartial : kAttentionBlockFull;
}

template <class P>
class Forward {
 public:
  CAUSEWAY_INLINE Forward(const P& problem, void* scratch) : p(problem) {
    single_pass_ = attention_is_single_pass(group(), p.query_length, P::kBlockQ, p.query_splits);
    const AttentionForwardLayout layout = attention_forward_layout(P::kHeadDim, P::kValueDim, P::kBlockQ, P::kBlockK,
                                                                   p.key_length, 4 / kElements, single_pass_);
    char* base = static_cast<char*>(scratch);
    keys_ = reinterpret_cast<uint32_t*>(base + layout.keys);
    values_ = reinterpret_cast<uint32_t*>(base + layout.values);
    packed_ = reinterpret_cast<uint8_t*>(base + layout.packed);
    queries_ = reinterpret_cast<uint32_t*>(base + layout.queries);
    output_ = reinterpret_cast<float*>(base + layout.output);
    sum_ = reinterpret_cast<float*>(base + layout.sum);
    maximum_ = reinterpret_cast<float*>(base + layout.maximum);
    // The maximum is taken before scaling, so the factor must be positive: its sign goes into the packed queries.
    factor_ = P::kHasScore ? kLog2E : (p.scale < 0.0f ? -p.scale : p.scale) * kLog2E;
    if (factor_ == 0.0f) factor_ = 1.0f;
    query_factor_ = P::kHasScore || p.scale > 0.0f ? 1.0f : p.scale < 0.0f ? -1.0f : p.scale;
  }

  // Later query blocks come first: under a causal mask they are the longest tasks.
  CAUSEWAY_INLINE void run(int64_t task) {
    const int64_t pairs = p.batch * p.kv_heads;
    const int64_t split = p.query_splits - 1 - task / pairs;
    b_ = task % pairs / p.kv_heads;
    kv_head_ = task % pairs % p.kv_heads;
    const int64_t query_blocks = attention_block_count(p.query_length, P::kBlockQ);
    const int64_t key_blocks = attention_block_count(p.key_length, P::kBlockK);
    const int64_t heads_per_tile = attention_heads_per_tile(group(), p.query_length, P::kBlockQ);
    clear(packed_, attention_round_up(key_blocks, 64) / 4);
    in_tiles_ = kTiles && heads_per_tile == 1;
    if (in_tiles_) begin_tiles();
    const int64_t q_end = attention_split_begin(split + 1, p.query_splits, query_blocks);
    for (int64_t q_block = attention_split_begin(split, p.query_splits, query_blocks); q_block < q_end; ++q_block) {
      q_block_ = q_block;
      const int64_t left = p.query_length - q_block * P::kBlockQ;
      rows_ = static_cast<int>(left < P::kBlockQ ? left : P::kBlockQ);
      padded_rows_ = static_cast<int>(attention_round_up(rows_, in_tiles_ ? 16 : kRows));
      for (int64_t first = 0; first < group(); first += heads_per_tile) {
        const int64_t heads = group() - first < heads_per_tile ? group() - first : heads_per_tile;
        tile(kv_head_ * group() + first, static_cast<int>(heads), key_blocks);
      }
    }
    if (in_tiles_) end_tiles();
  }

 private:
  using Operand = typename P::Operand;
  static constexpr int kRows = kAttentionStripRows;
  static constexpr int kElements = kPack<Operand>;
  static constexpr int kKeyWidth = static_cast<int>(attention_lane_width(P::kHeadDim));
  static constexpr int kValueWidth = static_cast<int>(attention_lane_width(P::kValueDim));
  static constexpr int kOperandWidth = static_cast<int>(attention_operand_width(P::kHeadDim));
  static constexpr int kQueryWords = kOperandWidth / kElements;
  static constexpr int kDepth = kKeyWidth / kElements;
  static constexpr int kKeyWords = kKeyWidth * P::kBlockK / kElements;  // of a packed block
  static constexpr int kValueWords = kValueWidth * P::kBlockK / kElements;
  static constexpr int kWeightWords = attention_round_up(P::kBlockK, 32) / kElements;
  static constexpr int kScoreWidth = attention_round_up(P::kBlockK, 32);
  static constexpr bool kTiles =
      use_matrix_tiles<Operand>(kKeyWidth, P::kBlockK) && use_matrix_tiles<Operand>(kValueWidth, P::kBlockK);
  // The running maximum may lag behind the true one by this power of two.
  static constexpr float kSlack = 8.0f;
  static_assert(P::kBlockQ % 16 == 0 && P::kBlockK % 16 == 0);

  CAUSEWAY_INLINE int64_t group() const { return p.query_heads / p.kv_heads; }

  // All rows of one query block for `heads` query heads from `head` on, against every key block.
  CAUSEWAY_INLINE void tile(int64_t head, int heads, int64_t key_blocks) {
    for (int i = 0; i < heads; ++i) load_queries(head + i, i * padded_rows_);
    const int rows = heads * padded_rows_;
    clear(output_, rows * kValueWidth);
    clear(sum_, rows * 16);
    for (int i = 0; i < rows * 16 / kRows; i += 16) store_floats(maximum_ + i, Floats(-kInfinity));
    for (int64_t k_block = 0; k_block < key_blocks; ++k_block) {
      for (int i = 0; i < heads; ++i) {
        const uint8_t kind = block_kind(p, b_, head + i, q_block_, k_block);
        if (kind == kAttentionBlockEmpty) continue;
        if (!packed_[k_block]) pack_block(k_block);
        if constexpr (kTiles) {
          if (in_tiles_) {
            for (int row = 0; row < rows_; row += 16) multiply<16>(head + i, i * padded_rows_, row, k_block, kind);
            continue;
          }
        }
        for (int row = 0; row < rows_; row += kRows) multiply<kRows>(head + i, i * padded_rows_, row, k_block, kind);
      }
    }
    for (int i = 0; i < heads; ++i) {
      for (int row = 0; row < rows_; row += kRows) finish(head + i, i * padded_rows_, row);
    }
  }

  CAUSEWAY_INLINE void load_queries(int64_t head, int base) {
    alignas(64) float row[kOperandWidth];
    for (int i = 0; i < padded_rows_; ++i) {
      const int64_t t = q_block_ * P::kBlockQ + i;
      if (i < rows_) {
        load_row<P::kHeadDim, kOperandWidth>(row, [&](int d) { return p.load_q(b_, head, t, d) * query_factor_; });
      } else {
        clear(row, kOperandWidth);
      }
      pack_along<Operand, kOperandWidth>(queries_ + (base + i) * kQueryWords, row);
    }
  }

  CAUSEWAY_INLINE int64_t slot(int64_t k_block) const { return single_pass_ ? 0 : k_block; }

  CAUSEWAY_INLINE int key_count(int64_t k_block) const {
    const int64_t left = p.key_length - k_block * P::kBlockK;
    return static_cast<int>(left < P::kBlockK ? left : P::kBlockK);
  }

  CAUSEWAY_INLINE void pack_block(int64_t k_block) {
    const int64_t first = k_block * P::kBlockK;
    pack_transposed<Operand, kOperandWidth, kDepth, P::kBlockK>(
        keys_ + slot(k_block) * kKeyWords, key_count(k_block), [&](int i, float* row) {
          load_row<P::kHeadDim, kOperandWidth>(row, [&](int d) { return p.load_k(b_, kv_head_, first + i, d); });
        });
    pack_rows<Operand, kValueWidth, kValueWidth, P::kBlockK>(
        values_ + slot(k_block) * kValueWords, key_count(k_block), [&](int i, float* row) {
          load_row<P::kValueDim, kValueWidth>(row, [&](int d) { return p.load_v(b_, kv_head_, first + i, d); });
        });
    packed_[k_block] = 1;
  }

  template <bool kMasked>
  CAUSEWAY_INLINE void modify(float* __restrict scores, int64_t head, int64_t t, int64_t first, int count) const {
    for (int j = 0; j < count; ++j) {
      float x = scores[j];
      if constexpr (P::kHasScore) x = p.score(b_, head, t, first + j, x * p.scale);
      if constexpr (kMasked) x = p.mask(b_, head, t, first + j) ? x : -kInfinity;
      scores[j] = x;
    }
  }

  // kCount rows of a head against one key block.
  template <int kCount>
  CAUSEWAY_INLINE void multiply(int64_t head, int base, int row, int64_t k_block, uint8_t kind) {
    alignas(64) float scores[kCount * kScoreWidth];
    alignas(64) uint32_t weights[kCount * kWeightWords];
    const int at = base + row;
    multiply_rows<Operand, kCount, P::kBlockK, kDepth, false>(scores, kScoreWidth, queries_ + at * kQueryWords,
                                                              kQueryWords, keys_ + slot(k_block) * kKeyWords);
    for (int i = 0; i < kCount; i += kRows) {
      if (row + i < rows_) {
        weigh(head, row + i, at + i, k_block, kind, scores + i * kScoreWidth, weights + i * kWeightWords);
      } else {
        clear(weights + i * kWeightWords, kRows * kWeightWords);
      }
    }
    multiply_rows<Operand, kCount, kValueWidth, P::kBlockK / kElements, true>(
        output_ + at * kValueWidth, kValueWidth, weights, kWeightWords, values_ + slot(k_block) * kValueWords);
  }

  // Four rows of a head, of which `at` is the place in the task's rows: from scores to packed weights.
  CAUSEWAY_INLINE void weigh(int64_t head, int row, int at, int64_t k_block, uint8_t kind, float* scores,
                             uint32_t* weights) {
    const int keys = key_count(k_block);
    const int64_t t = q_block_ * P::kBlockQ + row;
    const int64_t first = k_block * P::kBlockK;
    const int rows = rows_ - row < kRows ? rows_ - row : kRows;
    if (P::kHasMask && kind == kAttentionBlockPartial) {
      for (int r = 0; r < rows; ++r) modify<P::kHasMask>(scores + r * kScoreWidth, head, t + r, first, keys);
    } else if constexpr (P::kHasScore) {
      for (int r = 0; r < rows; ++r) modify<false>(scores + r * kScoreWidth, head, t + r, first, keys);
    }
    if (keys < P::kBlockK) {
      for (int r = 0; r < kRows; ++r) {
        for (int j = keys; j < P::kBlockK; ++j) scores[r * kScoreWidth + j] = -kInfinity;
      }
    }
    raise_maximum(scores, output_ + at * kValueWidth, at);
    alignas(64) float shifts[16];
    const Floats maximum = load_floats(maximum_ + at / kRows * 16);
    store_floats(shifts, maximum == -kInfinity ? Floats(0.0f) : -maximum);
    for (int r = 0; r < kRows; ++r) {
      float* from = scores + r * kScoreWidth;
      Floats sum = load_floats(sum_ + (at + r) * 16);
#pragma clang loop unroll(full)
      for (int j = 0; j < P::kBlockK; j += 16) {
        const Floats weight =
            exp2<Operand>(multiply_add(load_floats(from + j), Floats(factor_), Floats(shifts[4 * r])));
        sum += weight;
        store_floats(from + j, weight);
      }
      for (int j = P::kBlockK; j < kScoreWidth; ++j) from[j] = 0.0f;
      store_floats(sum_ + (at + r) * 16, sum);
      pack_along<Operand, kScoreWidth>(weights + r * kWeightWords, from);
    }
  }

  // Raises the running maximum of four rows where theirs exceeds it by more than the slack, and scales what has been
  // summed so far to match.
  CAUSEWAY_INLINE void raise_maximum(const float* scores, float* output, int at) {
    Floats largest[kRows];
#pragma clang loop unroll(full)
    for (int r = 0; r < kRows; ++r) {
      largest[r] = load_floats(scores + r * kScoreWidth);
#pragma clang loop unroll(full)
      for (int j = 16; j < P::kBlockK; j += 16) {
        largest[r] = larger(largest[r], load_floats(scores + r * kScoreWidth + j));
      }
    }
    const Floats peak =
        fold_rows(largest[0], largest[1], largest[2], largest[3], [](Floats a, Floats b) { return larger(a, b); }) *
        factor_;
    float* held = maximum_ + at / kRows * 16;
    const Floats before = load_floats(held);
    const auto grown = peak > before + kSlack;
    if (!__builtin_reduce_or(grown)) return;
    const Floats after = grown ? peak : before;
    store_floats(held, after);
    // Where a row has seen nothing yet, both may be -inf and there is nothing to scale.
    alignas(64) float scales[16];
    store_floats(scales, exp2<float>(grown ? before - after : Floats(0.0f)));
    for (int r = 0; r < kRows; ++r) {
      const Floats scale = Floats(scales[4 * r]);
      store_floats(sum_ + (at + r) * 16, load_floats(sum_ + (at + r) * 16) * scale);
      for (int d = 0; d < kValueWidth; d += 16) {
        store_floats(output + r * kValueWidth + d, load_floats(output + r * kValueWidth + d) * scale);
      }
    }
  }

  CAUSEWAY_INLINE void finish(int64_t head, int base, int row) {
    const int at = base + row;
    const float* sums = sum_ + at * 16;
    const Floats sum = fold_rows(load_floats(sums), load_floats(sums + 16), load_floats(sums + 32),
                                 load_floats(sums + 48), [](Floats a, Floats b) { return a + b; });
    alignas(64) float inverses[16];
    alignas(64) float logarithms[16];
    store_floats(inverses, sum == 0.0f ? Floats(0.0f) : 1.0f / sum);
    store_floats(logarithms, (load_floats(maximum_ + at / kRows * 16) + log2(sum)) * kLn2);
    const int64_t t = q_block_ * P::kBlockQ + row;
    for (int r = 0; r < kRows && row + r < rows_; ++r) {
      store_row(head, t + r, output_ + (at + r) * kValueWidth, inverses[4 * r]);
      p.store_lse(b_, head, t + r, logarithms[4 * r]);
    }
  }

  CAUSEWAY_INLINE void store_row(int64_t head, int64_t t, const float* __restrict row, float inverse) const {
    for (int d = 0; d < P::kValueDim; ++d) p.store_out(b_, head, t, d, row[d] * inverse);
  }

  const P p;
  bool single_pass_;
  uint32_t* keys_;
  uint32_t* values_;
  uint8_t* packed_;
  uint32_t* queries_;
  float* output_;
  float* sum_;
  float* maximum_;
  float factor_;
  float query_factor_;
  int64_t b_ = 0;
  int64_t kv_head_ = 0;
  int64_t q_block_ = 0;
  int rows_ = 0;
  int padded_rows_ = 0;
  bool in_tiles_ = false;
};

}  // namespace attention_tile

#pragma clang diagnostic pop

// Runs task 0 to batch * kv_heads * query_splits - 1. `scratch`: 64-byte aligned, of the size that
// attention_forward_launch() states.
template <class P>
inline void attention_forward(const P& problem, int64_t task, void* scratch) {
  attention_tile::Forward<P>(problem, scratch).run(task);
}
