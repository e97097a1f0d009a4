#include "causeway/passes/sharding_rules.h"

#include <algorithm>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/graph/op.h"

namespace causeway::passes {
namespace {

constexpr int kNone = -1;   // an operand or result that is whole
constexpr int kTerms = -2;  // a result of which ranks hold terms
constexpr int kMaximum = -3;

// By operand and result, the dimension that the factor is there, or one of the above.
struct Factor {
  std::vector<int> inputs;
  std::vector<int> outputs;
};

int rank_of(const Graph& graph, Value value) { return static_cast<int>(graph.shape(value).size()); }

// All operands and results have the same dimensions; `but` cannot be cut.
std::vector<Factor> same_dimensions(const Graph& graph, const Node& node, const std::vector<bool>& but = {}) {
  std::vector<Factor> factors;
  const int rank = rank_of(graph, node.inputs.empty() ? Value{} : node.inputs[0]);
  for (int d = 0; d < rank; ++d)
    if (but.empty() || !but[static_cast<size_t>(d)])
      factors.push_back({std::vector<int>(node.inputs.size(), d), std::vector<int>(node.outputs.size(), d)});
  return factors;
}

std::vector<Factor> reduction(const Graph& graph, const Node& node) {
  std::vector<Factor> factors;
  int kept = 0;
  for (int d = 0; d < rank_of(graph, node.inputs[0]); ++d) {
    const auto& axes = node.attributes.axes;
    const bool removed = std::find(axes.begin(), axes.end(), d) != axes.end();
    if (!removed) {
      factors.push_back({{d}, {kept++}});
    } else if (node.op == Op::kReduceSum && is_float(graph.dtype(node.inputs[0]))) {
      factors.push_back({{d}, {kTerms}});
    } else if (node.op == Op::kReduceMax && is_float(graph.dtype(node.inputs[0]))) {
      factors.push_back({{d}, {kMaximum}});
    }
  }
  return factors;
}

std::vector<Factor> indexing(const Graph& graph, const Node& node) {
  std::vector<Factor> factors;
  const int axis = static_cast<int>(node.attributes.axes[0]);
  const int indices = rank_of(graph, node.inputs[1]), rank = rank_of(graph, node.inputs[0]);
  const bool gathers = node.op == Op::kGather;
  const auto add = [&](int x, int index, int element) {
    if (gathers) {
      factors.push_back({{x, index}, {element}});
    } else {
      factors.push_back({{x, index, element}, {x}});
    }
  };
  // Rows of the indices and the rows of x that they stand for are on the same rank.
  if (node.attributes.permutes) add(0, 0, 0);
  for (int d = 0; d < rank; ++d)
    if (d != axis) add(d, kNone, d < axis ? d : d + indices - 1);
  if (gathers) {
    for (int i = 0; i < indices; ++i) add(kNone, i, axis + i);
    if (is_float(graph.dtype(node.inputs[0]))) factors.push_back({{axis, kNone}, {kTerms}});
  } else {
    // Each rank adds its own updates, to a base of which it holds a term. A row that is replaced is so in every term.
    const bool are_terms = is_float(graph.dtype(node.inputs[0])) && !node.attributes.replaces;
    for (int i = 0; i < indices; ++i)
      if (are_terms) factors.push_back({{kTerms, i, axis + i}, {kTerms}});
    factors.push_back({{axis, kNone, kNone}, {axis}});
  }
  return factors;
}

std::vector<Factor> dot(const Graph& graph, const Node& node) {
  const int rank = rank_of(graph, node.inputs[0]);
  const bool ta = node.attributes.transpose_a, tb = node.attributes.transpose_b;
  const int m = ta ? rank - 1 : rank - 2, ka = ta ? rank - 2 : rank - 1;
  const int n = tb ? rank - 2 : rank - 1, kb = tb ? rank - 1 : rank - 2;
  std::vector<Factor> factors;
  for (int d = 0; d < rank - 2; ++d) factors.push_back({{d, d}, {d}});
  factors.push_back({{m, kNone}, {rank - 2}});
  factors.push_back({{kNone, n}, {rank - 1}});
  factors.push_back({{ka, kb}, {kTerms}});
  return factors;
}

// Slabs are cut with their offsets. Groups are not: whose rows a rank needs then, data decides.
std::vector<Factor> grouped_dot(const Node& node) {
  if (node.attributes.transpose_a) return {{{0, 0, 0}, {kTerms}}, {{2, kNone, kNone}, {1}}, {{kNone, 2, kNone}, {2}}};
  const int n = node.attributes.transpose_b ? 1 : 2, k = node.attributes.transpose_b ? 2 : 1;
  return {{{0, kNone, 0}, {0}}, {{kNone, n, kNone}, {2}}, {{2, k, kNone}, {kTerms}}};
}

// Captured tensors are whole: score and mask index them by whole positions.
std::vector<Factor> attention(const Graph& graph, const Node& node) {
  const AttentionSpec& spec = *node.attributes.attention;
  const size_t count = node.inputs.size();
  const auto factor = [&](std::vector<int> inputs, std::vector<int> outputs) {
    inputs.resize(count, kNone);
    return Factor{std::move(inputs), std::move(outputs)};
  };
  if (node.op == Op::kAttentionBlockMap) {
    const Shape& out = node.outputs[0].shape;
    std::vector<Factor> factors;
    for (int d = 0; d < 2; ++d) factors.push_back(factor({}, {out[static_cast<size_t>(d)].is_constant(1) ? kNone : d}));
    factors.push_back(factor({}, {2}));
    return factors;
  }
  const bool backward = node.op == Op::kAttentionGradient;
  const auto with_map = [&](std::vector<int> inputs, int dim) {
    if (spec.has_block_map) {
      const Shape& map = graph.shape(node.inputs[inputs.size()]);
      inputs.push_back(dim < 2 && map[static_cast<size_t>(dim)].is_constant(1) ? kNone : dim);
    }
    return inputs;
  };
  std::vector<Factor> factors;
  if (!backward) {
    factors.push_back(factor(with_map({0, 0, 0}, 0), {0, 0}));
    factors.push_back(factor(with_map({2, 2, 2}, 1), {2, 1}));
    factors.push_back(factor(with_map({1, kNone, kNone}, 2), {1, 2}));
  } else {
    factors.push_back(factor(with_map({0, 0, 0, 0, 0, 0}, 0), {0, 0, 0}));
    factors.push_back(factor(with_map({2, 2, 2, 2, 1, 1}, 1), {2, 2, 2}));
    factors.push_back(factor(with_map({1, kNone, kNone, 1, 2, 2}, 2), {1, kTerms, kTerms}));
  }
  return factors;
}

std::vector<Factor> factors_of(const Graph& graph, const Node& node) {
  if (is_elementwise(node.op)) return same_dimensions(graph, node);
  switch (node.op) {
    case Op::kConstant:
    case Op::kIota: {
      std::vector<Factor> factors;
      for (size_t d = 0; d < node.outputs[0].shape.size(); ++d) factors.push_back({{}, {static_cast<int>(d)}});
      return factors;
    }
    case Op::kReduceSum:
    case Op::kReduceMax:
    case Op::kArgmax:
      return reduction(graph, node);
    case Op::kCumsum: {
      std::vector<bool> fixed(graph.shape(node.inputs[0]).size());
      fixed[static_cast<size_t>(node.attributes.axes[0])] = true;
      return same_dimensions(graph, node, fixed);
    }
    case Op::kTopk: {
      std::vector<bool> fixed(graph.shape(node.inputs[0]).size());
      fixed.back() = true;
      return same_dimensions(graph, node, fixed);
    }
    case Op::kConcat: {
      std::vector<bool> fixed(node.outputs[0].shape.size());
      fixed[static_cast<size_t>(node.attributes.axes[0])] = true;
      return same_dimensions(graph, node, fixed);
    }
    case Op::kSlice:
    case Op::kPad: {
      const Shape &in = graph.shape(node.inputs[0]), &out = node.outputs[0].shape;
      std::vector<bool> fixed;
      for (size_t d = 0; d < in.size(); ++d)
        fixed.push_back(!(in[d] == out[d]) || !node.attributes.start[d].is_constant(0));
      return same_dimensions(graph, node, fixed);
    }
    case Op::kConstrainSharding:
    case Op::kAllReduce:  // over stages, which cut nothing
      return same_dimensions(graph, node);
    case Op::kPermute: {
      std::vector<Factor> factors;
      for (size_t i = 0; i < node.attributes.axes.size(); ++i)
        factors.push_back({{static_cast<int>(node.attributes.axes[i])}, {static_cast<int>(i)}});
      return factors;
    }
    case Op::kBroadcast: {
      std::vector<Factor> factors;
      const Shape &in = graph.shape(node.inputs[0]), &out = node.outputs[0].shape;
      for (size_t d = 0; d < out.size(); ++d) {
        const auto& axes = node.attributes.axes;
        const auto from = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d));
        const bool carried = from != axes.end() && in[static_cast<size_t>(from - axes.begin())] == out[d];
        factors.push_back({{carried ? static_cast<int>(from - axes.begin()) : kNone}, {static_cast<int>(d)}});
      }
      return factors;
    }
    case Op::kGather:
    case Op::kScatterAdd:
      return indexing(graph, node);
    case Op::kDot:
      return dot(graph, node);
    case Op::kGroupedDot:
      return grouped_dot(node);
    case Op::kScaledDot:
      return {{{0, kNone, 1, kNone}, {0}}, {{kNone, 0, kNone, 1}, {1}}, {{1, 1, 0, 0}, {kTerms}}};
    case Op::kLinearCrossEntropy:
      if (node.attributes.z_loss > 0) return {{{0, kNone, 0, 0}, {kTerms, 0, kTerms, 0, kTerms}}};
      return {{{0, kNone, 0, 0}, {kTerms, 0, kTerms, 0}}};
    case Op::kAttention:
    case Op::kAttentionGradient:
    case Op::kAttentionBlockMap:
      return attention(graph, node);
    default:
      return {};
  }
}

bool cuts_evenly(const Shape& shape, Placement cut, int64_t ranks) {
  const Dim& size = shape[static_cast<size_t>(cut.dim)];
  return size.is_constant() && size.constant() > 0 && size.constant() % (cut.outer * ranks) == 0;
}

// The way of one factor, cut as `cut` is.
std::optional<Way> way_of(const Graph& graph, const Node& node, const Factor& factor, Placement cut, int64_t ranks) {
  Way way;
  const auto place = [&](int dim) {
    return dim >= 0 ? Placement::cut(dim, cut.outer) : dim == kTerms ? Placement::term() : Placement();
  };
  for (size_t i = 0; i < factor.inputs.size(); ++i) {
    way.inputs.push_back(place(factor.inputs[i]));
    if (factor.inputs[i] >= 0 && !cuts_evenly(graph.shape(node.inputs[i]), way.inputs.back(), ranks))
      return std::nullopt;
  }
  for (size_t o = 0; o < factor.outputs.size(); ++o) {
    way.outputs.push_back(place(factor.outputs[o]));
    way.maximum = way.maximum || factor.outputs[o] == kMaximum;
    if (factor.outputs[o] >= 0 && !cuts_evenly(node.outputs[o].shape, way.outputs.back(), ranks)) return std::nullopt;
  }
  return way;
}

// Where a digit of the elements' row-major index that is cut in one shape lies in another one with as many elements.
std::optional<Placement> through_reshape(const Shape& from, const Shape& to, Placement cut, int64_t ranks) {
  int64_t before = cut.outer;  // values of the digits before it
  for (int d = 0; d < cut.dim; ++d) {
    if (!from[static_cast<size_t>(d)].is_constant()) return std::nullopt;
    before *= from[static_cast<size_t>(d)].constant();
  }
  int64_t passed = 1;
  for (size_t d = 0; d < to.size(); ++d) {
    if (!to[d].is_constant()) return std::nullopt;
    const int64_t size = to[d].constant();
    if (size > 0 && before % passed == 0 && size % ((before / passed) * ranks) == 0 && before / passed >= 1)
      return Placement::cut(static_cast<int>(d), before / passed);
    passed *= size;
  }
  return std::nullopt;
}

// Blocks of queries are cut with the queries.
bool blocks_fit(const Node& node, const Way& way, int64_t ranks) {
  if (node.attributes.attention == nullptr) return true;
  const bool map = node.op == Op::kAttentionBlockMap;
  const Placement& placed = map ? way.outputs[0] : way.inputs[0];
  if (!placed.is_cut() || placed.dim != (map ? 2 : 1)) return true;
  if (!map && !node.attributes.attention->has_block_map) return true;
  const Dim& length = map ? node.attributes.shape[2] : node.outputs[0].shape[1];
  return length.is_constant() && length.constant() % (placed.outer * ranks * node.attributes.attention->block_q) == 0;
}

bool starts_matter(const Node& node, const Way& way) {
  switch (node.op) {
    case Op::kIota:
      return way.outputs[0].is_cut() && way.outputs[0].dim == node.attributes.axes[0];
    case Op::kGather:
    case Op::kScatterAdd:
      return way.inputs[0].is_cut() && way.inputs[0].dim == node.attributes.axes[0];
    case Op::kAttention:
    case Op::kAttentionGradient:
      return way.inputs[0].is_cut();
    case Op::kAttentionBlockMap:
      return way.outputs[0].is_cut();
    default:
      return false;
  }
}

std::vector<Way> ways_from(const Graph& graph, const Node& node, bool output, size_t operand, Placement cut,
                           int64_t ranks) {
  std::vector<Way> ways;
  if (node.op == Op::kReshape) {
    const Shape &in = graph.shape(node.inputs[0]), &out = node.outputs[0].shape;
    const std::optional<Placement> other =
        output ? through_reshape(out, in, cut, ranks) : through_reshape(in, out, cut, ranks);
    if (other) ways.push_back(output ? Way{{*other}, {cut}} : Way{{cut}, {*other}});
    return ways;
  }
  for (const Factor& factor : factors_of(graph, node)) {
    if ((output ? factor.outputs[operand] : factor.inputs[operand]) != cut.dim) continue;
    std::optional<Way> way = way_of(graph, node, factor, cut, ranks);
    if (!way || !blocks_fit(node, *way, ranks)) continue;
    way->starts = starts_matter(node, *way);
    ways.push_back(std::move(*way));
  }
  return ways;
}

}  // namespace

Way whole_way(const Node& node) {
  return {std::vector<Placement>(node.inputs.size()), std::vector<Placement>(node.outputs.size())};
}

std::vector<Way> ways_from_input(const Graph& graph, const Node& node, size_t input, Placement cut, int64_t ranks) {
  return ways_from(graph, node, false, input, cut, ranks);
}

std::vector<Way> ways_from_output(const Graph& graph, const Node& node, Placement cut, int64_t ranks) {
  return ways_from(graph, node, true, 0, cut, ranks);
}

std::vector<Way> linear_ways(const Node& node) {
  if (!is_float(node.outputs[0].dtype)) return {};
  std::vector<std::vector<bool>> patterns;  // which operands are terms
  switch (node.op) {
    case Op::kNeg:
    case Op::kReduceSum:
    case Op::kReshape:
    case Op::kPermute:
    case Op::kSlice:
    case Op::kCumsum:
      // Not a broadcast: fewer elements are added up before it.
      patterns = {{true}};
      break;
    case Op::kPad:
      if (node.attributes.value == 0) patterns = {{true}};
      break;
    case Op::kAdd:
    case Op::kSub:
      patterns = {{true, true}};
      break;
    case Op::kMul:
    case Op::kDot:
      patterns = {{true, false}, {false, true}};
      break;
    case Op::kGroupedDot:
      patterns = {{true, false, false}, {false, true, false}};
      break;
    case Op::kDiv:
    case Op::kGather:
      patterns = {{true, false}};
      break;
    case Op::kSelect:
      patterns = {{false, true, true}};
      break;
    case Op::kScatterAdd:
      patterns = {{true, false, true}};
      break;
    case Op::kConcat:
      patterns = {std::vector<bool>(node.inputs.size(), true)};
      break;
    default:
      break;
  }
  std::vector<Way> ways;
  for (const std::vector<bool>& terms : patterns) {
    Way way;
    for (const bool term : terms) way.inputs.push_back(term ? Placement::term() : Placement());
    way.outputs.assign(node.outputs.size(), Placement::term());
    ways.push_back(std::move(way));
  }
  return ways;
}

}  // namespace causeway::passes
