// The passes a traced step goes through before it becomes a program, in order. Every pass keeps the values of outputs
// and assignments (mixed precision: up to rounding) and is followed by Graph::verify().
#pragma once

#include <string>
#include <vector>

#include "causeway/base/fields.h"
#include "causeway/device/preferred_sizes.h"
#include "causeway/graph/graph.h"
#include "causeway/passes/fp8_gemms.h"
#include "causeway/passes/mixed_precision.h"
#include "causeway/passes/recompute.h"

namespace causeway::passes {

// What is asked of the passes, whatever the device.
struct PipelineOptions {
  MixedPrecisionOptions mixed_precision;
  Fp8Scales fp8_gemms = Fp8Scales::kNone;  // others ask for mixed_precision to bf16
  bool tf32_gemms = false;
  Recomputation recompute;
  // Store the logits of linear_cross_entropy in the compute type instead of f32: longer chunks in the same memory,
  // whose GEMMs run faster.
  bool narrow_logits = false;
  // Round to bf16 what ranks add up of gradients that are used so rounded alone (narrow_reductions.h).
  bool narrow_reductions = false;
  // The same bits on every mesh: no sum is made of what several ranks summed up.
  bool mesh_independent = false;

  static constexpr auto fields() {
    return std::tuple{ListedField{"mixed_precision", &PipelineOptions::mixed_precision},
                      ListedField{"fp8_gemms", &PipelineOptions::fp8_gemms},
                      ListedField{"tf32_gemms", &PipelineOptions::tf32_gemms},
                      ListedField{"recompute", &PipelineOptions::recompute},
                      ListedField{"narrow_logits", &PipelineOptions::narrow_logits},
                      ListedField{"narrow_reductions", &PipelineOptions::narrow_reductions},
                      ListedField{"mesh_independent", &PipelineOptions::mesh_independent}};
  }
};
static_assert(lists_every_field<PipelineOptions>);

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
