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

class WeightNarrowing {
 public:
  WeightNarrowing(const std::vector<bool>& never_change, DType compute, bool lines_along_k)
      : never_change_(never_change), compute_(compute), lines_along_k_(lines_along_k) {}

  std::vector<Value> transform(Graph& target, const Node& node, std::vector<Value> inputs) {
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

  // `along_n`: the value is an input that is read so. Of a weight that is read in several ways the first one counts.
  Value narrowed(Graph& target, Value value, bool along_n) {
    const Node node = target.node(value);
    if (node.op != Op::kInput) return target.add(node.op, {narrowed(target, node.inputs[0], false)}, node.attributes);
    const auto number = static_cast<size_t>(value.node);
    if (const auto found = narrow_.find(number); found != narrow_.end()) return found->second;
    const bool transposed = lines_along_k_ && along_n;
    Shape shape = target.shape(value);
    if (transposed) std::swap(shape[0], shape[1]);
    Value narrow = target.add_input(
        fmt::format("{} in {}{}", node.attributes.name, dtype_name(compute_), transposed ? ", transposed" : ""),
        {compute_, shape});
    if (transposed) narrow = Builder(target).permute(narrow, {1, 0});
    sources_.push_back({number, transposed});
    return narrow_[number] = narrow;
  }

  const std::vector<bool>& never_change_;
  const DType compute_;
  const bool lines_along_k_;
  std::map<size_t, Value> narrow_;
  std::vector<NarrowedWeights::Source> sources_;
};

}  // namespace

NarrowedWeights narrow_weights(const Graph& graph, const std::vector<bool>& never_change, DType compute,
                               bool lines_along_k) {
  CAUSEWAY_CHECK(never_change.size() == graph.inputs().size());
  WeightNarrowing narrowing(never_change, compute, lines_along_k);
  Graph result = rebuild_graph(graph, [&](Graph& target, const Node& node, const std::vector<Value>& inputs) {
    return narrowing.transform(target, node, inputs);
  });
  return {std::move(result), narrowing.sources()};
}

}  // namespace causeway::passes
