// What tests of fusion say about its results: nodes by the numbers that they have in the graph's text.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "causeway/device/target.h"
#include "causeway/graph/parser.h"
#include "causeway/program/fusion_problem.h"
#include "causeway/program/kernel_clusters.h"

namespace causeway::program {

// "2 5 7.1": the values in memory, inputs left out.
inline std::string values_in_memory(const Graph& graph, const MaterializedValues& materialized) {
  std::string text;
  for (size_t node = 0; node < graph.nodes().size(); ++node) {
    if (is_input(graph.nodes()[node].op)) continue;
    for (size_t output = 0; output < graph.nodes()[node].outputs.size(); ++output)
      if (materialized.contains({static_cast<int32_t>(node), static_cast<int32_t>(output)}))
        text += fmt::format("{}{}{}", text.empty() ? "" : " ", node, output == 0 ? "" : fmt::format(".{}", output));
  }
  return text;
}

inline std::string members_text(const std::vector<Value>& members) {
  std::string text;
  for (const Value member : members) text += fmt::format(" {}", member.node);
  return text;
}

// "dot 2 3, loop 4": each kernel's kind and members.
inline std::string kernels_text(const FusedKernels& kernels) {
  std::string text;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const KernelRequest& request = kernels.request(k);
    text += fmt::format("{}{}{}", k == 0 ? "" : ", ", kernel_kind_name(request.kind), members_text(request.members));
    if (!request.row_members.empty()) text += " with rows" + members_text(request.row_members);
  }
  return text;
}

inline FusedKernels clusters(const FusionProblem& problem) {
  return cluster_values(problem, choose_materialized(problem));
}

}  // namespace causeway::program
