#include "causeway/passes/pipeline.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <system_error>
#include <utility>

#include "causeway/device/preferred_sizes.h"
#include "causeway/graph/printer.h"
#include "causeway/passes/canonicalize.h"
#include "causeway/passes/decoded_weights.h"
#include "causeway/passes/eliminate_common_subexpressions.h"
#include "causeway/passes/eliminate_dead_code.h"
#include "causeway/passes/expand_linear_cross_entropy.h"
#include "causeway/passes/fp8_gemms.h"
#include "causeway/passes/mixed_precision.h"
#include "causeway/passes/narrow_reductions.h"
#include "causeway/passes/normalized_values.h"
#include "causeway/passes/recompute.h"
#include "causeway/passes/regather_weights.h"
#include "causeway/passes/shard.h"
#include "causeway/passes/sparse_gradients.h"
#include "causeway/passes/sums_of_gemms.h"
#include "causeway/passes/tf32_gemms.h"

namespace causeway::passes {
namespace {

struct Pass {
  std::string name;
  std::function<Graph(const Graph&)> run;
};

std::vector<Pass> passes(const PipelineOptions& options, const PreferredSizes& sizes, const Mesh& mesh) {
  const auto canonical = [&](const Graph& graph) { return canonicalize(graph, options.mesh_independent); };
  std::vector<Pass> list = {
      // What layers compute alike (constants, masks, positions) is more than half of what is traced.
      {"eliminate_common_subexpressions", eliminate_common_subexpressions},
      {"eliminate_dead_code", eliminate_dead_code},
      {"canonicalize", canonical},
      {"eliminate_common_subexpressions", eliminate_common_subexpressions},
  };
  if (options.mixed_precision.compute != DType::kF32) {
    list.push_back(
        {"mixed_precision", [&](const Graph& graph) { return mixed_precision(graph, options.mixed_precision); }});
    if (options.fp8_gemms != Fp8Scales::kNone)
      list.push_back({"fp8_gemms", [&](const Graph& graph) {
                        PreferredSizes of_gemms = sizes;
                        // Those kernels may add up parts of k that sizes decide.
                        of_gemms.f8_blocks = sizes.f8_blocks && !options.mesh_independent;
                        return fp8_gemms(graph, options.fp8_gemms, of_gemms);
                      }});
    list.push_back({"canonicalize", canonical});
    list.push_back({"eliminate_common_subexpressions", eliminate_common_subexpressions});
  }
  const bool cuts_gemms = std::any_of(mesh.axes.begin(), mesh.axes.end(),
                                      [](const MeshAxis& axis) { return !axis.gathers_weights && axis.size > 1; });
  if (cuts_gemms && !options.mesh_independent) list.push_back({"sums_of_gemms", sums_of_gemms});
  // A vocabulary that is cut over ranks: sums and maxima over it are theirs together, for all tokens at once.
  if (options.mesh_independent || cuts_gemms)
    list.push_back({"expand_linear_cross_entropy", [&](const Graph& graph) {
                      return expand_linear_cross_entropy(
                          graph, {.logits_bytes = INT64_MAX, .narrow_logits = options.narrow_logits});
                    }});
  if (!mesh.empty()) {
    list.push_back({"shard", [&](const Graph& graph) { return shard(graph, mesh, options.mesh_independent); }});
    list.push_back({"canonicalize", canonical});
    list.push_back({"eliminate_common_subexpressions", eliminate_common_subexpressions});
    if (options.narrow_reductions)
      list.push_back({"narrow_reductions", [&](const Graph& graph) { return narrow_reductions(graph, mesh); }});
    list.push_back({"regather_weights", [&](const Graph& graph) { return regather_weights(graph, mesh); }});
  }
  // What a GEMM reads of a norm, the result or what ranks have gathered of it, depends on the mesh.
  if (options.mixed_precision.compute != DType::kF32 && !options.mesh_independent)
    list.push_back({"normalized_values", normalized_values});
  // From here on equal nodes may be there on purpose.
  if (options.recompute.policy != RecomputePolicy::kNone)
    list.push_back({"recompute", [&](const Graph& graph) { return recompute(graph, options.recompute, mesh); }});
  list.push_back({"decode_weights_at_use", decode_weights_at_use});
  list.push_back({"expand_linear_cross_entropy", [&](const Graph& graph) {
                    return expand_linear_cross_entropy(graph, {.logits_bytes = sizes.logits_bytes,
                                                               .most_logits_bytes = sizes.most_logits_bytes,
                                                               .logits_rows = sizes.logits_rows,
                                                               .narrow_logits = options.narrow_logits,
                                                               .vocabulary_multiple = sizes.vocabulary_multiple});
                  }});
  if (sizes.sparse_updates > 0)
    list.push_back(
        {"sparse_gradients", [&](const Graph& graph) { return sparse_gradients(graph, sizes.sparse_updates); }});
  if (options.tf32_gemms)
    list.push_back({"tf32_gemms", [&](const Graph& graph) {
                      return tf32_gemms(graph, sizes.tf32_along_k && !options.mesh_independent);
                    }});
  list.push_back({"canonicalize", canonical});
  return list;
}

constexpr size_t kFewNodes = 1000;  // of a graph that is no work for a thread of its own

// Verifies a graph beside the pass that reads it next. Of a few nodes it is done at once.
class Verification {
 public:
  void begin(const Graph& graph, const std::string& stage) {
    if (graph.nodes().size() <= kFewNodes) return graph.verify(stage);
    try {
      result_ = std::async(std::launch::async, [&graph, stage] { graph.verify(stage); });
    } catch (const std::system_error&) {  // no thread is to be had
      graph.verify(stage);
    }
  }
  // Throws what the graph lacks.
  void end() {
    if (result_.valid()) result_.get();
  }

 private:
  std::future<void> result_;
};

}  // namespace

Graph run_pipeline(const Graph& graph, const PipelineOptions& options, const PreferredSizes& sizes, const Mesh& mesh,
                   PipelineTrace* trace) {
  Graph current;
  const Graph* given = &graph;
  Verification verification;
  // A graph that is not needed any more: giving back its memory takes as long as many a pass.
  std::future<void> discarded;
  const auto discard = [&](Graph old) {
    if (old.nodes().size() <= kFewNodes) return;
    try {
      discarded = std::async(std::launch::async, [graph = std::move(old)]() mutable { graph = Graph(); });
    } catch (const std::system_error&) {  // no thread is to be had: it has gone
    }
  };
  verification.begin(graph, "traced graph");
  for (const Pass& pass : passes(options, sizes, mesh)) {
    const size_t before = given->nodes().size();
    const auto start = std::chrono::steady_clock::now();
    Graph next;
    try {
      next = pass.run(*given);
    } catch (...) {
      verification.end();  // a broken graph is not the pass's fault
      throw;
    }
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    verification.end();
    discard(std::exchange(current, std::move(next)));
    given = &current;
    verification.begin(current, pass.name);
    if (trace == nullptr) continue;
    trace->records.push_back({pass.name, before, current.nodes().size(), elapsed.count(),
                              trace->with_text ? print_graph(current) : std::string()});
  }
  verification.end();
  return current;
}

}  // namespace causeway::passes
