// What the parts of fusion are given: a graph, what it is compiled for, and what they all ask of its values.
#pragma once

#include <cstdint>
#include <vector>

#include "causeway/codegen/kernel.h"
#include "causeway/graph/graph.h"
#include "causeway/program/fusion_rules.h"

namespace causeway::program {

struct FusionProblem {
  // The graph and the target outlive it.
  FusionProblem(const Graph& graph, const Target& target, bool fixed_order);

  int uses(Value value) const { return use_counts[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)]; }

  const Graph& graph;
  const Target& target;
  bool fixed_order;  // of all kernels (KernelRequest)
  FusionRules rules;
  std::vector<bool> needed;                  // by node
  std::vector<std::vector<int>> use_counts;  // by node and output
};

bool is_gemm(Op op);

// A loop computes it in place, wherever it is used.
bool is_expandable(Op op);

// Of a reduction: whether each of its sums is over elements that lie side by side.
bool reduces_trailing_axes(const Graph& graph, const Node& node);

bool has_reductions(const Graph& graph, const KernelRequest& request);

// Of a GEMM: reading B takes longer than whatever is computed of the result.
bool is_skinny_gemm(const Graph& graph, const KernelRequest& gemm);

// The values in memory that computing `value` reads.
std::vector<Value> values_read(const Graph& graph, const MaterializedValues& materialized, Value value);

// Whether `source` is the value or is read to compute it, where that is not in memory.
bool depends_on(const Graph& graph, const MaterializedValues& materialized, Value value, Value source);

// What is moved to make `value`: seen through reshapes, permutes and broadcasts to what is in memory or computed.
Value below_movement(const Graph& graph, const MaterializedValues& materialized, Value value);

// A kernel of nothing but these outputs of a node.
KernelRequest lone_request(const FusionProblem& problem, int32_t node, std::vector<Value> members);

}  // namespace causeway::program
