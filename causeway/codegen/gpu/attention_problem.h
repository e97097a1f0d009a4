// Attention on a GPU, as plan_attention() (attention_plan.h) is asked about it: its sizes, how its operands lie in
// memory, what the kernel is to compute. attention_operand_writer.h finds the operands in a graph.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "causeway/graph/graph.h"

namespace causeway::codegen {

// Where an operand's rows lie in memory as kernels want them: contiguous, in elements from the beginning of `source`,
// at multiples of 16 bytes.
struct GpuAttentionRows {
  Value source;
  Dim offset;
  std::array<Dim, 3> strides;  // by sequence, head, position
  Shape shape;                 // [B, T, H, D]
  int64_t element_bytes = 2;
};

// Which gradients a kernel is to compute.
struct GpuAttentionGradients {
  bool queries = false, keys = false, values = false;

  bool all() const { return queries && keys && values; }
};

struct GpuAttentionProblem {
  DType dtype = DType::kBF16;  // of the operands in memory
  int64_t head_dim = 0;        // of queries and keys
  int64_t value_dim = 0;       // of values and outputs
  Dim batch, query_heads, kv_heads, query_length, key_length;
  int64_t block_q = 0, block_k = 0;  // blocks of the map
  bool has_score = false;            // a score function, which takes registers
  bool rounds_to_tf32 = false;       // f32 operands may be
  bool fixed_order = false;          // which kernel it is does not depend on sizes that sums do not run over
  std::optional<GpuAttentionGradients> gradients;  // nothing: the forward pass
  // Of queries, keys, values and, for gradients, of the output's gradient: nothing where elements are computed.
  std::vector<std::optional<GpuAttentionRows>> rows;

  int64_t element_bytes() const { return static_cast<int64_t>(size_bytes(dtype)); }
};

// Whether a head's elements are whole pieces of 16 bytes, so that its operands can lie as rows.
bool has_whole_pieces(const GpuAttentionProblem& problem);

}  // namespace causeway::codegen
