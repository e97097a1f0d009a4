// What it costs to compute a value again where it is used: simple operations for each element.
#pragma once

#include <vector>

#include "causeway/codegen/kernel.h"
#include "causeway/graph/graph.h"

namespace causeway::program {

int node_cost(Op op);

class RecomputeCosts {
 public:
  explicit RecomputeCosts(const Graph& graph) : graph_(graph), costs_(graph.nodes().size()) {}

  // Of the value of an expandable node, whose inputs have been counted before.
  int count(Value value, const MaterializedValues& materialized);
  // What the value converts is in memory from now on.
  void count_conversion_only(Value value);

  // A node counts once for each way from it to the value. 0 for what was not counted.
  int of(Value value) const { return costs_[static_cast<size_t>(value.node)]; }
  // Whether it costs so much when each node counts once.
  bool is_at_least(Value value, int least, const MaterializedValues& materialized) const;

 private:
  const Graph& graph_;
  std::vector<int> costs_;  // by node
};

}  // namespace causeway::program
