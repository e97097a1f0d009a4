#include "causeway/passes/narrow_weights.h"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "causeway/base/error.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/builder.h"

namespace causeway::passes {
namespace {

bool multiplies_weights(Op op) { return op == Op::kDot || op == Op::kLinearCrossEntropy; }
bool only_moves(Op op) { return op == Op::kReshape || op == Op::kSlice || op == Op::kPermute; }

class WeightNarrowing {
 public:
  WeightNarrowing(const std::vector<bool>& never_change, DType compute)
      : never_change_(never_change), compute_(compute) {}

  std::vector<Value> transform(Graph& target, const Node& node, std::vector<Value> inputs) {
    if (multiplies_weights(node.op))
      for (size_t i = 0; i < 2; ++i)
        if (weight_of(target, inputs[i])) inputs[i] = Builder(target).cast(narrowed(target, inputs[i]), DType::kF32);
    return copy_node(target, node, std::move(inputs));
  }
  const std::vector<size_t>& sources() const { return sources_; }

 private:
  // The number of the input that the value is, moved at most; nothing where it may change.
  std::optional<size_t> weight_of(const Graph& target, Value value) const {
    while (only_moves(target.node(value).op)) value = target.node(value).inputs[0];
    if (target.node(value).op != Op::kInput || target.dtype(value) != DType::kF32) return std::nullopt;
    // Inputs come first and in order, the narrow ones behind those of the source.
    const auto number = static_cast<size_t>(value.node);
    return never_change_[number] ? std::optional(number) : std::nullopt;
  }

  Value narrowed(Graph& target, Value value) {
    const Node node = target.node(value);
    if (node.op != Op::kInput) return target.add(node.op, {narrowed(target, node.inputs[0])}, node.attributes);
    const auto number = static_cast<size_t>(value.node);
    const auto [found, is_new] = narrow_.try_emplace(number);
    if (is_new) {
      found->second = target.add_input(fmt::format("{} in {}", node.attributes.name, dtype_name(compute_)),
                                       {compute_, target.shape(value)});
      sources_.push_back(number);
    }
    return found->second;
  }

  const std::vector<bool>& never_change_;
  const DType compute_;
  std::map<size_t, Value> narrow_;
  std::vector<size_t> sources_;
};

}  // namespace

NarrowedWeights narrow_weights(const Graph& graph, const std::vector<bool>& never_change, DType compute) {
  CAUSEWAY_CHECK(never_change.size() == graph.inputs().size());
  WeightNarrowing narrowing(never_change, compute);
  Graph result = rebuild_graph(graph, [&](Graph& target, const Node& node, const std::vector<Value>& inputs) {
    return narrowing.transform(target, node, inputs);
  });
  return {std::move(result), narrowing.sources()};
}

}  // namespace causeway::passes
