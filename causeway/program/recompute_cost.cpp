#include "causeway/program/recompute_cost.h"

#include <algorithm>
#include <set>

#include "causeway/graph/op.h"

namespace causeway::program {

int node_cost(Op op) {
  switch (op) {
    case Op::kExp2:
    case Op::kLog2:
    case Op::kSin:
    case Op::kCos:
    case Op::kTanh:
    case Op::kErf:
      return 8;
    case Op::kPow:
      return 20;
    case Op::kRandomBits:
      return 30;
    case Op::kSqrt:
    case Op::kRsqrt:
    case Op::kRecip:
    case Op::kDiv:
    case Op::kRem:
      return 3;
    case Op::kGather:
      return 2;
    case Op::kConcat:
    case Op::kPad:
      return 2;
    default:
      return is_elementwise(op) ? 1 : 0;
  }
}

int RecomputeCosts::count(Value value, const MaterializedValues& materialized) {
  const Node& node = graph_.node(value);
  int cost = node_cost(node.op);
  for (const Value input : node.inputs)
    if (!materialized.contains(input)) cost += of(input);
  // Costs of long chains of sums of a value with itself double at every node.
  constexpr int kMost = 1 << 20;
  return costs_[static_cast<size_t>(value.node)] = std::min(cost, kMost);
}

void RecomputeCosts::count_conversion_only(Value value) {
  costs_[static_cast<size_t>(value.node)] = node_cost(graph_.node(value).op);
}

bool RecomputeCosts::is_at_least(Value value, int least, const MaterializedValues& materialized) const {
  if (of(value) < least) return false;
  int cost = 0;
  std::set<int32_t> visited = {value.node};
  std::vector<int32_t> pending = {value.node};
  while (!pending.empty() && cost < least) {
    const Node& node = graph_.node(pending.back());
    pending.pop_back();
    cost += node_cost(node.op);
    for (const Value input : node.inputs)
      if (!materialized.contains(input) && visited.insert(input.node).second) pending.push_back(input.node);
  }
  return cost >= least;
}

}  // namespace causeway::program
