#include "causeway/codegen/x86/attention_geometry.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "causeway/base/error.h"
#include "causeway/kernels/attention_layout.h"

namespace causeway::codegen {

namespace {

// Packed elements take 2 bytes for bf16 where the machine multiplies bf16 pairs, 4 otherwise.
constexpr int64_t kMaxOperandBytes = 4;

// A split packs its own keys, which costs as much as about a tenth of a query block's work against them.
constexpr int64_t kMinTilesPerSplit = 4;

// Tasks for each worker at which uneven tasks (a causal mask) still balance.
constexpr int64_t kTasksPerWorker = 4;

void require(bool condition, const std::string& what, const std::string& hint) {
  if (!condition) throw Error(ErrorKind::kInvalidArgument, what, "attention", hint);
}

}  // namespace

void check_attention_shape(const AttentionShape& shape) {
  require(shape.batch >= 1, fmt::format("batch is {}", shape.batch), "give at least one sequence");
  require(shape.query_heads >= 1 && shape.kv_heads >= 1,
          fmt::format("there are {} query heads and {} key/value heads", shape.query_heads, shape.kv_heads),
          "give at least one of each");
  require(shape.query_heads % shape.kv_heads == 0,
          fmt::format("{} query heads cannot share {} key/value heads evenly", shape.query_heads, shape.kv_heads),
          "make the number of query heads a multiple of the number of key/value heads");
  require(shape.query_length >= 0 && shape.key_length >= 0,
          fmt::format("the query length is {}, the key length {}", shape.query_length, shape.key_length),
          "lengths cannot be negative");
  for (int64_t dim : {shape.head_dim, shape.value_dim})
    require(dim >= 1 && dim <= 512, fmt::format("the head dimension is {}", dim), "use a head dimension from 1 to 512");
  for (int64_t block : {shape.block_q, shape.block_k}) {
    require(block >= 16 && block <= 256 && block % 16 == 0, fmt::format("the block size is {}", block),
            "use a multiple of 16 from 16 to 256");
  }
}

AttentionLaunch attention_forward_launch(const AttentionShape& shape, int64_t workers) {
  check_attention_shape(shape);
  const int64_t pairs = shape.batch * shape.kv_heads;
  const int64_t group = shape.query_heads / shape.kv_heads;
  const int64_t query_blocks = attention_block_count(shape.query_length, shape.block_q);
  const int64_t wanted = attention_block_count(kTasksPerWorker * workers, pairs);
  const int64_t worthwhile = query_blocks * group / kMinTilesPerSplit;
  AttentionLaunch launch;
  launch.query_splits = std::max<int64_t>(1, std::min({wanted, worthwhile, query_blocks}));
  launch.task_count = pairs * launch.query_splits;
  const bool single_pass = attention_is_single_pass(group, shape.query_length, shape.block_q, launch.query_splits);
  launch.scratch_bytes = attention_forward_layout(shape.head_dim, shape.value_dim, shape.block_q, shape.block_k,
                                                  shape.key_length, kMaxOperandBytes, single_pass)
                             .bytes;
  return launch;
}

AttentionLaunch attention_backward_launch(const AttentionShape& shape) {
  check_attention_shape(shape);
  AttentionLaunch launch;
  launch.task_count = shape.batch * shape.kv_heads;
  launch.scratch_bytes = attention_backward_layout(shape.head_dim, shape.value_dim, shape.block_q, shape.block_k,
                                                   shape.key_length, kMaxOperandBytes)
                             .bytes;
  return launch;
}

AttentionLaunch attention_block_map_launch(const AttentionShape& shape, int64_t map_batch, int64_t map_heads) {
  check_attention_shape(shape);
  AttentionLaunch launch;
  launch.task_count = map_batch * map_heads * attention_block_count(shape.query_length, shape.block_q);
  return launch;
}

}  // namespace causeway::codegen
