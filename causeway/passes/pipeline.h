// The passes a traced step goes through before it becomes a program, in order. Every pass keeps the values of outputs
// and assignments (mixed precision: up to rounding) and is followed by Graph::verify().
#pragma once

#include <string>
#include <vector>

#include "causeway/graph/graph.h"
#include "causeway/passes/pipeline_options.h"

namespace causeway::device {
struct PreferredSizes;
}

namespace causeway::passes {

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

// `sizes` are those of the device that the graph is for (Target::preferred_sizes()). The graph is of whole tensors;
// what comes out is of one rank's parts where the mesh has several ranks.
Graph run_pipeline(const Graph& graph, const PipelineOptions& options, const PreferredSizes& sizes,
                   const Mesh& mesh = {}, PipelineTrace* trace = nullptr);

}  // namespace causeway::passes
