// How blockwise attention cuts its work into tasks and its scratch memory into parts: the arithmetic that the kernels
// and the host (codegen/x86/attention_geometry.h) must agree on. Lengths are in elements, offsets and sizes in bytes.
#pragma once

#include "causeway/kernels/types.h"

// Score tiles are computed this many query rows at a time.
constexpr int kAttentionStripRows = 4;

constexpr int64_t attention_round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

constexpr int64_t attention_block_count(int64_t length, int64_t block) { return (length + block - 1) / block; }

// On GPUs: blocks of keys that a task fills of a row of the block map, and its threads; tasks of a row.
constexpr int kBlockMapThreads = 128;
constexpr int64_t attention_block_map_parts(int64_t key_blocks) {
  return attention_block_count(key_blocks, kBlockMapThreads);
}

// The query blocks of split `index` of `splits`: [first, first of the next split).
constexpr int64_t attention_split_begin(int64_t index, int64_t splits, int64_t query_blocks) {
  return index * query_blocks / splits;
}

// Query heads of one key/value head that are computed together because each has few rows (decoding).
constexpr int64_t attention_heads_per_tile(int64_t group, int64_t query_length, int64_t block_q) {
  int64_t rows = attention_round_up(query_length < 1 ? 1 : query_length, kAttentionStripRows);
  int64_t heads = rows >= block_q ? 1 : block_q / rows;
  return heads < group ? heads : group;
}

// Whether a forward task visits each key block once, so that packed keys and values are not worth keeping.
constexpr bool attention_is_single_pass(int64_t group, int64_t query_length, int64_t block_q, int64_t splits) {
  int64_t blocks = attention_block_count(attention_block_count(query_length, block_q), splits);
  return blocks <= 1 && attention_heads_per_tile(group, query_length, block_q) == group;
}

// Widths of a row of one head: as lanes of a result, and as a packed operand (a whole number of 16-word vectors).
constexpr int64_t attention_lane_width(int64_t head_dim) { return attention_round_up(head_dim, 16); }
constexpr int64_t attention_operand_width(int64_t head_dim) { return attention_round_up(head_dim, 32); }

// Offsets into the forward kernel's scratch. `operand_bytes`: of one packed element, 2 or 4.
struct AttentionForwardLayout {
  int64_t keys;     // one packed block for each block of keys, or a single one
  int64_t values;   // likewise
  int64_t packed;   // a byte for each key block: whether its panels hold it
  int64_t queries;  // [rows][operand width] packed
  int64_t output;   // [rows][lane width] float, not yet divided by the sum
  int64_t sum;      // [rows][16] float, one partial sum for each lane
  int64_t maximum;  // [strips][16] float, each strip's row r in lanes 4r to 4r + 3
  int64_t bytes;
};

constexpr AttentionForwardLayout attention_forward_layout(int64_t head_dim, int64_t value_dim, int64_t block_q,
                                                          int64_t block_k, int64_t key_length, int64_t operand_bytes,
                                                          bool single_pass) {
  int64_t key_blocks = attention_block_count(key_length, block_k);
  int64_t panels = single_pass ? 1 : key_blocks;
  AttentionForwardLayout layout{};
  layout.keys = 0;
  layout.values = layout.keys + attention_lane_width(head_dim) * block_k * operand_bytes * panels;
  layout.packed = layout.values + attention_lane_width(value_dim) * block_k * operand_bytes * panels;
  layout.queries = layout.packed + attention_round_up(key_blocks, 64);
  layout.output = layout.queries + block_q * attention_operand_width(head_dim) * operand_bytes;
  layout.sum = layout.output + block_q * attention_lane_width(value_dim) * 4;
  layout.maximum = layout.sum + block_q * 64;
  layout.bytes = layout.maximum + block_q / kAttentionStripRows * 64;
  return layout;
}

// Offsets into the backward kernel's scratch.
struct AttentionBackwardLayout {
  int64_t keys;            // blocks [dim][key]: the right operand of q k^T
  int64_t values;          // blocks [dim][key]: the right operand of dout v^T
  int64_t key_rows;        // blocks [key][dim]: the right operand of dscore k
  int64_t packed;          // a byte for each key block: whether its panels hold it
  int64_t key_gradient;    // [keys][lane width] float; of each block [lane width][keys] by matrix registers
  int64_t value_gradient;  // likewise
  int64_t queries;         // [rows][operand width] packed: the left operand of q k^T
  int64_t query_rows;     // [query][dim] packed: the right operand of dscore^T q; transposed the left one of q^T dscore
  int64_t out_gradients;  // like queries, for dout
  int64_t out_gradient_rows;  // like query_rows, for dout
  int64_t query_gradient;     // [rows][lane width] float
  int64_t weights;            // [query][key] packed along the queries: the left operand of p^T dout
  int64_t score_gradients;    // likewise dscore
  int64_t row_terms;          // [2][rows] float: log-sum-exp in base 2, delta
  int64_t bytes;
};

constexpr AttentionBackwardLayout attention_backward_layout(int64_t head_dim, int64_t value_dim, int64_t block_q,
                                                            int64_t block_k, int64_t key_length,
                                                            int64_t operand_bytes) {
  int64_t key_blocks = attention_block_count(key_length, block_k);
  int64_t lane_width = attention_lane_width(head_dim), value_width = attention_lane_width(value_dim);
  int64_t left = block_q * attention_operand_width(head_dim) * operand_bytes;
  int64_t value_left = block_q * attention_operand_width(value_dim) * operand_bytes;
  int64_t keys = key_blocks * block_k;
  int64_t tile = attention_round_up(block_q * block_k * operand_bytes, 64);
  AttentionBackwardLayout layout{};
  layout.keys = 0;
  layout.values = layout.keys + lane_width * keys * operand_bytes;
  layout.key_rows = layout.values + value_width * keys * operand_bytes;
  layout.packed = layout.key_rows + lane_width * keys * operand_bytes;
  layout.key_gradient = layout.packed + attention_round_up(key_blocks, 64);
  layout.value_gradient = layout.key_gradient + keys * lane_width * 4;
  layout.queries = layout.value_gradient + keys * value_width * 4;
  layout.query_rows = layout.queries + left;
  layout.out_gradients = layout.query_rows + block_q * lane_width * operand_bytes;
  layout.out_gradient_rows = layout.out_gradients + value_left;
  layout.query_gradient = layout.out_gradient_rows + block_q * value_width * operand_bytes;
  layout.weights = layout.query_gradient + block_q * lane_width * 4;
  layout.score_gradients = layout.weights + tile;
  layout.row_terms = layout.score_gradients + tile;
  layout.bytes = layout.row_terms + attention_round_up(2 * block_q * 4, 64);
  return layout;
}
