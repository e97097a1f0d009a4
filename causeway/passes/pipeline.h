// The passes a traced step goes through before it becomes a program, in order. Every pass keeps the values of outputs
// and assignments (mixed precision: up to rounding) and is followed by Graph::verify().
#pragma once

#include <string>
#include <vector>

#include "causeway/graph/graph.h"
#include "causeway/passes/expand_linear_cross_entropy.h"
#include "causeway/passes/mixed_precision.h"
#include "causeway/passes/recompute.h"

namespace causeway::passes {

struct PipelineOptions {
  MixedPrecisionOptions mixed_precision;
  bool fp8_products = false;  // asks for mixed_precision to bf16
  bool tf32_products = false;
  RecomputePolicy recompute = RecomputePolicy::kNone;
  // Off for a device with a linear_cross_entropy kernel of its own.
  bool expand_linear_cross_entropy = true;
  ExpandLinearCrossEntropyOptions linear_cross_entropy;
};

// What one pass did, for `causeway explain`.
struct PassRecord {
  std::string name;
  size_t nodes_before = 0;
  size_t nodes_after = 0;
  double milliseconds = 0;
  std::string text;  // the graph after the pass as print_graph() gives it, when asked for
};

// What to record, when records are wanted.
struct PipelineTrace {
  bool with_text = false;
  std::vector<PassRecord> records;
};

Graph run_pipeline(const Graph& graph, const PipelineOptions& options, PipelineTrace* trace = nullptr);

}  // namespace causeway::passes
