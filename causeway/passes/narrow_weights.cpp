#include "causeway/passes/narrow_weights.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/graph/op.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/builder.h"
#include "causeway/passes/weight_operands.h"

namespace causeway::passes {
namespace {

// Columns of a joined dot that one matrix has are a multiple of it: 16 bytes of the narrowest type that is computed in,
// so that what follows reads them in whole vectors.
constexpr int64_t kJoinedColumns = 8;

// Dots of a graph that multiply one activation by matrices of their own.
class JoinedDots {
 public:
  // A dot and its place among those that it is joined with.
  struct Place {
    size_t group = 0;
    Dim first_column, columns;
  };
  struct Group {
    std::vector<size_t> inputs;  // the matrices, by their numbers
    bool transposed = false;     // they lie as [k, n]
    Dim columns;
  };

  JoinedDots(const Graph& graph, const std::vector<bool>& never_change) : graph_(graph), never_change_(never_change) {
    for (size_t i = 0; i < graph.inputs().size(); ++i) number_[graph.inputs()[i]] = i;
    count_uses();
    std::map<std::pair<Value, bool>, std::vector<size_t>> found;  // by activation and how the matrices lie
    const std::vector<bool> needed = needed_nodes(graph);
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      const Node& node = graph.nodes()[i];
      if (!needed[i] || !may_be_joined(node)) continue;
      std::vector<size_t>& alike = found[{below_reshapes(node.inputs[0]), !node.attributes.transpose_b}];
      if (alike.empty() || graph.shape(graph.nodes()[alike.front()].inputs[0]) == graph.shape(node.inputs[0]))
        alike.push_back(i);
    }
    for (const auto& [key, dots] : found)
      if (dots.size() > 1) add_group(dots, key.second);
  }

  const Group& group(const Place& place) const { return groups_[place.group]; }
  // Nothing where the node stays by itself.
  std::optional<Place> place(size_t node) const {
    const auto found = places_.find(node);
    return found == places_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  void count_uses() {
    uses_.resize(graph_.inputs().size());
    for (const Node& node : graph_.nodes()) {
      if (!multiplies_weights(node.op)) continue;
      for (size_t i = 0; i < 2; ++i) {
        Value value = node.inputs[i];
        while (only_moves(graph_.node(value).op)) value = graph_.node(value).inputs[0];
        if (const auto input = number_.find(value); input != number_.end()) ++uses_[input->second];
      }
    }
  }

  Value below_reshapes(Value value) const {
    while (graph_.node(value).op == Op::kReshape) value = graph_.node(value).inputs[0];
    return value;
  }

  // A matrix that other GEMMs read, too, would be there twice.
  bool may_be_joined(const Node& node) const {
    if (node.op != Op::kDot || node.attributes.transpose_a || node.outputs[0].dtype != DType::kF32) return false;
    const Value activation = node.inputs[0], matrix = node.inputs[1];
    const auto input = number_.find(matrix);
    if (input == number_.end() || !never_change_[input->second] || uses_[input->second] != 1 ||
        graph_.dtype(matrix) != DType::kF32 || graph_.dtype(activation) != DType::kF32)
      return false;
    const Shape& shape = graph_.shape(matrix);
    return shape.size() == 2 && graph_.shape(activation).size() == 2 && columns_of(node).is_constant() &&
           columns_of(node).divide_exactly(kJoinedColumns).has_value();
  }

  const Dim& columns_of(const Node& node) const {
    return graph_.shape(node.inputs[1])[node.attributes.transpose_b ? 0 : 1];
  }

  void add_group(const std::vector<size_t>& dots, bool transposed) {
    Group group{{}, transposed, Dim(0)};
    for (const size_t i : dots) {
      const Node& node = graph_.nodes()[i];
      group.inputs.push_back(number_.at(node.inputs[1]));
      places_[i] = {groups_.size(), group.columns, columns_of(node)};
      group.columns += columns_of(node);
    }
    groups_.push_back(std::move(group));
  }

  const Graph& graph_;
  const std::vector<bool>& never_change_;
  std::map<Value, size_t> number_;  // of inputs
  std::vector<int> uses_;           // of inputs, by GEMMs
  std::vector<Group> groups_;
  std::map<size_t, Place> places_;  // by node
};

class WeightNarrowing {
 public:
  WeightNarrowing(const Graph& source, const std::vector<bool>& never_change, DType compute, NarrowWeightsLayout layout)
      : never_change_(never_change), compute_(compute), layout_(layout) {
    if (layout.joined) joined_.emplace(source, never_change);
  }

  // `index`: of the node in the source.
  std::vector<Value> transform(Graph& target, const Node& node, std::vector<Value> inputs, size_t index) {
    if (joined_)
      if (const std::optional<JoinedDots::Place> place = joined_->place(index))
        return {part_of_joined(target, inputs[0], *place)};
    if (multiplies_weights(node.op))
      for (size_t i = 0; i < 2; ++i)
        if (weight_of(target, inputs[i]))
          inputs[i] =
              Builder(target).cast(narrowed(target, inputs[i], lies_along_n(target, node, inputs, i)), DType::kF32);
    return copy_node(target, node, std::move(inputs));
  }
  const std::vector<NarrowedWeights::Source>& sources() const { return sources_; }

 private:
  // The number of the input that the value is, moved at most; nothing where it may change.
  std::optional<size_t> weight_of(const Graph& target, Value value) const {
    while (only_moves(target.node(value).op)) value = target.node(value).inputs[0];
    if (target.node(value).op != Op::kInput || target.dtype(value) != DType::kF32) return std::nullopt;
    // Inputs come first and in order, the narrow ones behind those of the source.
    const auto number = static_cast<size_t>(value.node);
    return never_change_[number] ? std::optional(number) : std::nullopt;
  }

  // Whether the operand is a weight [k, n].
  static bool lies_along_n(const Graph& target, const Node& node, const std::vector<Value>& inputs, size_t operand) {
    return node.op == Op::kDot && operand == 1 && !node.attributes.transpose_b &&
           target.node(inputs[operand]).op == Op::kInput && target.shape(inputs[operand]).size() == 2;
  }

  // The columns of one dot, of that of all matrices of its group, which comes with the first of them.
  Value part_of_joined(Graph& target, Value activation, const JoinedDots::Place& place) {
    const Builder build(target);
    auto found = products_.find(place.group);
    if (found == products_.end()) {
      const JoinedDots::Group& group = joined_->group(place);
      std::string names;
      for (const size_t input : group.inputs)
        names += (names.empty() ? "" : ", ") + target.node(target.inputs()[input]).attributes.name;
      const Value narrow = target.add_input(fmt::format("{} in {}, joined", names, dtype_name(compute_)),
                                            {compute_, {group.columns, target.shape(activation)[1]}});
      sources_.push_back({group.inputs, group.transposed});
      const Value product = build.dot(activation, build.cast(narrow, DType::kF32), false, true, DType::kF32);
      found = products_.emplace(place.group, product).first;
    }
    return build.slice_axis(found->second, 1, place.first_column, place.first_column + place.columns);
  }

  // `along_n`: the value is an input that is read so. Of a weight that is read in several ways the first one counts.
  Value narrowed(Graph& target, Value value, bool along_n) {
    const Node node = target.node(value);
    if (node.op != Op::kInput) return target.add(node.op, {narrowed(target, node.inputs[0], false)}, node.attributes);
    const auto number = static_cast<size_t>(value.node);
    if (const auto found = narrow_.find(number); found != narrow_.end()) return found->second;
    const bool transposed = layout_.lines_along_k && along_n;
    Shape shape = target.shape(value);
    if (transposed) std::swap(shape[0], shape[1]);
    Value narrow = target.add_input(
        fmt::format("{} in {}{}", node.attributes.name, dtype_name(compute_), transposed ? ", transposed" : ""),
        {compute_, shape});
    if (transposed) narrow = Builder(target).permute(narrow, {1, 0});
    sources_.push_back({{number}, transposed});
    return narrow_[number] = narrow;
  }

  const std::vector<bool>& never_change_;
  const DType compute_;
  const NarrowWeightsLayout layout_;
  std::optional<JoinedDots> joined_;
  std::map<size_t, Value> products_;  // by group
  std::map<size_t, Value> narrow_;
  std::vector<NarrowedWeights::Source> sources_;
};

}  // namespace

NarrowedWeights narrow_weights(const Graph& graph, const std::vector<bool>& never_change, DType compute,
                               NarrowWeightsLayout layout) {
  CAUSEWAY_CHECK(never_change.size() == graph.inputs().size());
  CAUSEWAY_CHECK(layout.lines_along_k || !layout.joined, "joined matrices lie along k");
  WeightNarrowing narrowing(graph, never_change, compute, layout);
  // Nodes are handed to the transform by reference into the list: their position is their index.
  const Node* first = graph.nodes().data();
  Graph result = rebuild_graph(graph, [&](Graph& target, const Node& node, const std::vector<Value>& inputs) {
    return narrowing.transform(target, node, inputs, static_cast<size_t>(&node - first));
  });
  return {std::move(result), narrowing.sources()};
}

}  // namespace causeway::passes
