// One rule for each primitive: how its operands may lie along one axis of a mesh, and how its results lie then.
//
// A rule is a list of factors, as in Shardy: what may be cut, with the dimension that it is in each operand and result.
// Cutting the factor cuts it wherever it is a dimension; where a result does not have it, ranks hold terms of that
// result (a contracted dimension). Beside that a rule names the operands in which the op is linear: where ranks hold
// terms of those, they hold terms of the results. A cast is not counted as linear:
// terms are added up in the type that they were computed in.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "causeway/graph/graph.h"

namespace causeway::passes {

// How a value lies along one axis of n ranks.
struct Placement {
  enum class Kind : uint8_t { kWhole, kCut, kTerm };
  Kind kind = Kind::kWhole;
  // kCut: the dimension, seen as [outer, n, rest]: rank r has the elements whose second index is r. In whole sizes.
  int dim = 0;
  int64_t outer = 1;

  static Placement cut(int dim, int64_t outer = 1) { return {Kind::kCut, dim, outer}; }
  static Placement term() { return {Kind::kTerm, 0, 1}; }
  bool is_whole() const { return kind == Kind::kWhole; }
  bool is_cut() const { return kind == Kind::kCut; }
  bool is_term() const { return kind == Kind::kTerm; }
  auto operator<=>(const Placement&) const = default;
};

// One way for a node to work along an axis.
struct Way {
  std::vector<Placement> inputs;
  std::vector<Placement> outputs;
  // reduce_max of a cut dimension: the results are those of a rank's part, of which the largest is to be taken.
  bool maximum = false;
  // Ranks compute from where their part begins, so parts have to be of neighbouring elements.
  bool starts = false;
};

// Every operand and result whole: every op can be done so.
Way whole_way(const Node& node);

// Each in which operand `input` is cut like that, if the rule has any; n ranks share the axis.
std::vector<Way> ways_from_input(const Graph& graph, const Node& node, size_t input, Placement cut, int64_t ranks);
// Each in which result 0 is cut like that.
std::vector<Way> ways_from_output(const Graph& graph, const Node& node, Placement cut, int64_t ranks);
// Each in which ranks hold terms of operands.
std::vector<Way> linear_ways(const Node& node);

}  // namespace causeway::passes
