// How the CPU attention kernels (kernels/x86/attention.h, attention_gradient.h, kernels/attention_block_map.h) are
// launched: how many tasks, how much scratch for each worker.
#pragma once

#include <cstdint>

#include "causeway/namespaces.h"

namespace causeway::codegen {

struct AttentionShape {
  int64_t batch = 1;
  int64_t query_heads = 1;
  int64_t kv_heads = 1;
  int64_t query_length = 0;
  int64_t key_length = 0;
  int64_t head_dim = 0;   // of queries and keys
  int64_t value_dim = 0;  // of values and outputs
  int64_t block_q = 64;
  int64_t block_k = 64;
};

struct AttentionLaunch {
  int64_t task_count = 0;
  int64_t scratch_bytes = 0;  // for each worker, 64-byte aligned; an upper bound over operand types and machines
  int64_t query_splits = 1;   // forward only: the problem's member of that name
};

// Throws Error (kInvalidArgument) naming the field when the kernels cannot run the shape: a batch or head count or head
// dimension below 1, a negative length, query heads that are no multiple of the key/value heads, a head dimension above
// 512, or blocks that are not multiples of 16 from 16 to 256.
void check_attention_shape(const AttentionShape& shape);

// Splits the queries of a (batch, kv head) pair when the pairs alone would leave some of `workers` idle; not where
// their number is 0. The result of the kernel does not depend on the split.
AttentionLaunch attention_forward_launch(const AttentionShape& shape, int64_t workers);

AttentionLaunch attention_backward_launch(const AttentionShape& shape);

// For a map of [map_batch, map_heads, query blocks, key blocks]; `map_batch` and `map_heads` are 1 where the mask does
// not depend on them. Needs no scratch.
AttentionLaunch attention_block_map_launch(const AttentionShape& shape, int64_t map_batch, int64_t map_heads);

}  // namespace causeway::codegen
