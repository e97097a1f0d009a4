#include "causeway/passes/split_weights.h"

#include <map>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/graph/op.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/builder.h"
#include "causeway/passes/weight_operands.h"

namespace causeway::passes {
namespace {

struct Halves {
  Value upper, lower;
};

Value bitcast(Graph& graph, Value x, DType dtype) {
  Attributes attributes;
  attributes.dtype = dtype;
  return graph.add(Op::kBitcast, {x}, attributes);
}

Value join(Graph& graph, Halves halves) {
  const Builder build(graph);
  const Value upper = build.cast(bitcast(graph, halves.upper, DType::kI16), DType::kI32);
  const Value bits =
      build.add(graph.add(Op::kShl, {upper, build.constant_like(upper, 16)}), build.cast(halves.lower, DType::kI32));
  return bitcast(graph, bits, DType::kF32);
}

Halves split(Graph& graph, Value x) {
  const Builder build(graph);
  const Value bits = bitcast(graph, x, DType::kI32);
  const auto number = [&](double value) { return build.constant_like(bits, value); };
  // NaNs whose bits would overflow become one whose bits do not.
  const Value rounded = build.select(build.equal(x, x), build.add(bits, number(0x8000)), number(0x7fc00000));
  const Value upper = graph.add(Op::kShr, {rounded, number(16)});
  // Of the lower 16 bits as a signed number.
  const Value low_bits = graph.add(Op::kAnd, {bits, number(0xffff)});
  const Value lower = build.sub(graph.add(Op::kXor, {low_bits, number(0x8000)}), number(0x8000));
  return {bitcast(graph, build.cast(upper, DType::kI16), DType::kBF16), build.cast(lower, DType::kI16)};
}

class WeightSplitting {
 public:
  WeightSplitting(const Graph& source, const std::vector<bool>& split, bool narrow_gemms)
      : source_(source), split_(split), narrow_gemms_(narrow_gemms) {}

  SplitWeights run() {
    add_inputs();
    const std::vector<bool> needed = needed_nodes(source_);
    for (size_t i = 0; i < source_.nodes().size(); ++i) {
      const Node& node = source_.nodes()[i];
      if (!needed[i] || node.op == Op::kInput) continue;
      target_.set_scope(node.scope);
      target_.set_backward(node.backward);
      std::vector<Value> inputs;
      for (size_t k = 0; k < node.inputs.size(); ++k)
        inputs.push_back(narrow_gemms_ && multiplies_weights(node.op) && k < 2 ? operand(node.inputs[k])
                                                                               : value(node.inputs[k]));
      mapped_[i] = copy_node(target_, node, std::move(inputs));
      // Beside what computes it, so that one kernel does both.
      for (const Assignment& assignment : source_.assignments)
        if (assignment.value.node == static_cast<int32_t>(i) && halves_.contains(assignment.target))
          assigned_[assignment.target] = split(target_, value(assignment.value));
    }
    for (const Value output : source_.outputs) target_.outputs.push_back(value(output));
    for (const Assignment& assignment : source_.assignments) assign(assignment);
    target_.set_scope({});
    target_.set_backward(false);
    return {std::move(target_), std::move(lower_)};
  }

 private:
  void add_inputs() {
    mapped_.resize(source_.nodes().size());
    const std::vector<Value>& inputs = source_.inputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Attributes& of_input = source_.node(inputs[i]).attributes;
      TensorType type = source_.type(inputs[i]);
      if (split_[i]) {
        CAUSEWAY_CHECK(type.dtype == DType::kF32);
        type.dtype = DType::kBF16;
      }
      mapped_[static_cast<size_t>(inputs[i].node)] = {
          target_.add_input(of_input.name, type, of_input.sharding, of_input.on_host)};
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!split_[i]) continue;
      const Attributes& of_input = source_.node(inputs[i]).attributes;
      halves_[inputs[i]] = {mapped_[static_cast<size_t>(inputs[i].node)][0],
                            target_.add_input(of_input.name + ", lower halves", {DType::kI16, source_.shape(inputs[i])},
                                              of_input.sharding)};
      lower_.push_back(i);
    }
  }

  Value value(Value old) {
    if (const auto known = halves_.find(old); known != halves_.end()) return join(target_, known->second);
    return mapped_[static_cast<size_t>(old.node)].at(static_cast<size_t>(old.output));
  }

  // Of a GEMM.
  Value operand(Value old) {
    std::vector<const Node*> moves;
    Value below = old;
    for (; only_moves(source_.node(below).op); below = source_.node(below).inputs[0])
      moves.push_back(&source_.node(below));
    const auto known = halves_.find(below);
    if (known == halves_.end()) return value(old);
    Value moved = known->second.upper;
    for (size_t m = moves.size(); m-- > 0;) moved = copy_node(target_, *moves[m], {moved}).front();
    return Builder(target_).cast(moved, DType::kF32);
  }

  void assign(const Assignment& assignment) {
    const auto known = halves_.find(assignment.target);
    if (known == halves_.end()) {
      target_.assignments.push_back({value(assignment.target), value(assignment.value)});
      return;
    }
    const auto computed = assigned_.find(assignment.target);
    const Halves halves = computed != assigned_.end() ? computed->second : split(target_, value(assignment.value));
    target_.assignments.push_back({known->second.upper, halves.upper});
    target_.assignments.push_back({known->second.lower, halves.lower});
  }

  const Graph& source_;
  const std::vector<bool>& split_;
  const bool narrow_gemms_;
  Graph target_;
  std::vector<std::vector<Value>> mapped_;  // by node
  std::map<Value, Halves> halves_;          // of the old graph's inputs
  std::map<Value, Halves> assigned_;        // to those
  std::vector<size_t> lower_;
};

}  // namespace

SplitWeights split_weights(const Graph& graph, const std::vector<bool>& split, bool narrow_gemms) {
  CAUSEWAY_CHECK(split.size() == graph.inputs().size());
  return WeightSplitting(graph, split, narrow_gemms).run();
}

}  // namespace causeway::passes
