#include "causeway/passes/normalized_values.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "causeway/graph/op.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/builder.h"

namespace causeway::passes {
namespace {

// Values of the graph that a norm is made of.
struct Norm {
  Value centered;             // x, or x - mean, in f32
  Value deviation;            // r, repeated
  Value normalized;           // centered r
  DType narrow;               // what its result is cast to
  std::vector<int64_t> axes;  // that r is repeated along
  bool sums_to_zero;          // along the axes, as x - mean does
};

// A norm's result in 16 bits: normalized * weight + bias, of which vectors [C] may be missing.
struct NormResult {
  Value normalized, weight, bias;
};

// Along which axes a broadcast repeats its input.
std::vector<int64_t> repeated_axes(const Graph& graph, Value value) {
  const Node& node = graph.node(value);
  std::vector<int64_t> axes;
  for (size_t axis = 0, next = 0; axis < graph.shape(value).size(); ++axis) {
    const bool maps = next < node.attributes.axes.size() && node.attributes.axes[next] == static_cast<int64_t>(axis);
    const bool repeats = !maps || graph.shape(node.inputs[0])[next] != graph.shape(value)[axis];
    if (maps) ++next;
    if (repeats) axes.push_back(static_cast<int64_t>(axis));
  }
  return axes;
}

class Norms {
 public:
  explicit Norms(const Graph& graph) : graph_(graph), forward_users_(graph.nodes().size()) {
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      const Node& node = graph.nodes()[i];
      if (!node.backward)
        for (const Value input : node.inputs)
          forward_users_[static_cast<size_t>(input.node)].push_back(static_cast<int32_t>(i));
      if (node.backward && node.op == Op::kReduceSum) note_sum(static_cast<int32_t>(i));
    }
    for (size_t i = 0; i < graph.nodes().size(); ++i) find_norm(static_cast<int32_t>(i));
  }

  // By normalized values, and by what these are computed from.
  const Norm* by_normalized(Value value) const { return find(by_normalized_, value); }
  const Norm* by_centered(Value value) const {
    const auto found = by_centered_.find(value);
    return found == by_centered_.end() ? nullptr : by_normalized(found->second);
  }
  // By the cast to 16 bits.
  const NormResult* by_result(Value value) const { return find(results_, value); }

  // The sum over tokens of `gradient` [N, O], of its values before they were rounded perhaps, if a node before `node`
  // computes it; else invalid.
  Value sum_before(Value gradient, int32_t node) const {
    const auto found = sums_.find(behind_movement(gradient));
    if (found == sums_.end() || found->second.node >= node) return {};
    return graph_.shape(found->second) == Shape{graph_.shape(gradient).back()} ? found->second : Value{};
  }

 private:
  template <class T>
  static const T* find(const std::map<Value, T>& values, Value value) {
    const auto found = values.find(value);
    return found == values.end() ? nullptr : &found->second;
  }

  Value behind_movement(Value value) const {
    while (graph_.node(value).op == Op::kCast || graph_.node(value).op == Op::kReshape)
      value = graph_.node(value).inputs[0];
    return value;
  }

  // Sums over all axes but the last.
  void note_sum(int32_t index) {
    const Node& node = graph_.nodes()[static_cast<size_t>(index)];
    if (node.attributes.axes.size() + 1 != graph_.shape(node.inputs[0]).size()) return;
    if (node.attributes.axes.back() + 1 == std::ssize(graph_.shape(node.inputs[0]))) return;
    sums_.try_emplace(behind_movement(node.inputs[0]), Value{index, 0});
  }

  void find_norm(int32_t index) {
    const Node& node = graph_.nodes()[static_cast<size_t>(index)];
    if (node.backward || node.op != Op::kMul || node.outputs[0].dtype != DType::kF32) return;
    for (const bool swapped : {false, true}) {
      const Value centered = node.inputs[swapped ? 1 : 0], repeated = node.inputs[swapped ? 0 : 1];
      const Node& broadcast = graph_.node(repeated);
      if (broadcast.op != Op::kBroadcast || graph_.node(centered).op == Op::kBroadcast) continue;
      if (graph_.node(broadcast.inputs[0]).op != Op::kRsqrt || repeated_axes(graph_, repeated).empty()) continue;
      if (!is_wide(centered) || !has_no_other_gradient(centered, index)) continue;
      const std::optional<DType> narrow = find_results({index, 0});
      if (!narrow) continue;
      std::vector<int64_t> axes = repeated_axes(graph_, repeated);
      const bool sums_to_zero = subtracts_mean(centered, axes);
      by_normalized_[{index, 0}] = {centered, repeated, {index, 0}, *narrow, std::move(axes), sums_to_zero};
      by_centered_[centered] = {index, 0};
    }
  }

  // Whether `value` is x less the sum of x along the axes over their number.
  bool subtracts_mean(Value value, const std::vector<int64_t>& axes) const {
    const Node& node = graph_.node(value);
    if (node.op != Op::kSub) return false;
    Value mean = node.inputs[1];
    while (graph_.node(mean).op == Op::kBroadcast || graph_.node(mean).op == Op::kReshape)
      mean = graph_.node(mean).inputs[0];
    if (graph_.node(mean).op != Op::kMul) return false;
    Dim count(1);
    for (const int64_t axis : axes) count *= graph_.shape(value)[static_cast<size_t>(axis)];
    for (const size_t i : {0, 1}) {
      Value sum = graph_.node(mean).inputs[i];
      while (graph_.node(sum).op == Op::kReshape) sum = graph_.node(sum).inputs[0];
      const Node &reduction = graph_.node(sum), &share = graph_.node(graph_.node(mean).inputs[1 - i]);
      if (reduction.op == Op::kReduceSum && reduction.inputs[0] == node.inputs[0] &&
          reduction.attributes.axes == axes && share.op == Op::kConstant && count.is_constant() &&
          std::abs(share.attributes.value * static_cast<double>(count.constant()) - 1) < 1e-6)
        return true;
    }
    return false;
  }

  // Whether what is behind x or x - mean is in f32 for its own sake.
  bool is_wide(Value centered) const {
    Value x = centered;
    while (true) {
      const Node& node = graph_.node(x);
      if (node.op == Op::kCast) return false;
      if (node.op != Op::kReshape && node.op != Op::kSub) return node.op != Op::kInput && node.op != Op::kConstant;
      x = node.inputs[0];
    }
  }

  // Whether backward nodes that read `centered` are of the norm's gradient: nothing but the norm multiplies it.
  bool has_no_other_gradient(Value centered, int32_t normalized) const {
    return std::ranges::all_of(forward_users_[static_cast<size_t>(centered.node)], [&](int32_t user) {
      const Node& node = graph_.nodes()[static_cast<size_t>(user)];
      const bool squares = node.op == Op::kMul && node.inputs[0] == node.inputs[1];
      const bool moves = op_info(node.op).kind == OpKind::kMovement || node.op == Op::kReduceSum;
      return user == normalized || squares || moves || node.op == Op::kAdd || node.op == Op::kSub;
    });
  }

  // A vector along the last axis, repeated along the others, or none.
  Value vector_of(Value value) const {
    const Node& node = graph_.node(value);
    const bool last = node.op == Op::kBroadcast && graph_.shape(node.inputs[0]).size() == 1 &&
                      node.attributes.axes[0] + 1 == std::ssize(graph_.shape(value)) &&
                      graph_.shape(node.inputs[0])[0] == graph_.shape(value).back() && !node.backward;
    return last ? node.inputs[0] : Value{};
  }

  // Casts of normalized values, with a weight, or with both: the type of the first, if there is one.
  std::optional<DType> find_results(Value normalized) {
    std::optional<DType> narrow;
    const auto visit = [&](const auto& self, Value value, Value weight, Value bias) -> void {
      for (const int32_t user : forward_users_[static_cast<size_t>(value.node)]) {
        const Node& node = graph_.nodes()[static_cast<size_t>(user)];
        const Value result = {user, 0};
        if (node.op == Op::kCast && size_bytes(node.outputs[0].dtype) == 2 && is_float(node.outputs[0].dtype)) {
          results_[result] = {normalized, weight, bias};
          if (!narrow) narrow = node.outputs[0].dtype;
        } else if ((node.op == Op::kMul && !weight.valid() && !bias.valid()) ||
                   (node.op == Op::kAdd && !bias.valid())) {
          const Value vector = vector_of(node.inputs[node.inputs[0] == value ? 1 : 0]);
          if (vector.valid())
            self(self, result, node.op == Op::kMul ? vector : weight, node.op == Op::kAdd ? vector : bias);
        }
      }
    };
    visit(visit, normalized, {}, {});
    return narrow;
  }

  const Graph& graph_;
  std::vector<std::vector<int32_t>> forward_users_;
  std::map<Value, Norm> by_normalized_;
  std::map<Value, Value> by_centered_;
  std::map<Value, NormResult> results_;
  std::map<Value, Value> sums_;  // by what is summed, behind casts and reshapes
};

class NormalizedValues {
 public:
  explicit NormalizedValues(const Graph& graph) : graph_(graph), norms_(graph), rebuilt_(graph.nodes().size()) {}

  std::vector<Value> transform(Graph& target, const Node& node, const std::vector<Value>& inputs, int32_t index) {
    std::vector<Value> results;
    if (!node.backward) {
      results = copy_node(target, node, inputs);
      if (const Norm* norm = norms_.by_normalized({index, 0}))
        narrow_[norm->normalized] = Builder(target).cast(results[0], norm->narrow);
    } else {
      std::vector<Value> read = inputs;
      for (size_t i = 0; i < inputs.size(); ++i) read[i] = for_gradient(target, node.inputs[i], inputs[i]);
      results = weight_gradient(target, node, read, index);
      if (results.empty()) results = sum_of_rows(target, node);
      if (results.empty()) results = copy_node(target, node, read);
    }
    rebuilt_[static_cast<size_t>(index)] = results;
    return results;
  }

 private:
  // What a backward node reads in place of `value`, whose counterpart is `original`.
  Value for_gradient(Graph& target, Value value, Value original) {
    const Norm* norm = norms_.by_normalized(value);
    const bool is_normalized = norm != nullptr;
    if (!is_normalized) norm = norms_.by_centered(value);
    if (norm == nullptr) return original;
    const Builder build(target);
    Value& normalized = wide_[norm->normalized];
    if (!normalized.valid()) normalized = build.cast(narrow_.at(norm->normalized), DType::kF32);
    if (is_normalized) return normalized;
    Value& centered = wide_[norm->centered];
    if (!centered.valid()) {
      const Node& repeated = graph_.node(norm->deviation);
      const Value scale = build.recip(in_target(target, repeated.inputs[0]));
      centered = build.mul(normalized, build.broadcast(scale, build.shape(normalized), repeated.attributes.axes));
    }
    return centered;
  }

  // A GEMM over all tokens of a norm's result and of the gradient of what reads it; empty if `node` is none.
  std::vector<Value> weight_gradient(Graph& target, const Node& node, const std::vector<Value>& inputs, int32_t index) {
    if (node.op != Op::kDot || !node.attributes.transpose_a || node.attributes.transpose_b ||
        node.outputs[0].dtype != DType::kF32 || node.outputs[0].shape.size() != 2)
      return {};
    for (const size_t side : {0, 1}) {
      Value operand = node.inputs[side];
      while (graph_.node(operand).op == Op::kReshape) operand = graph_.node(operand).inputs[0];
      const NormResult* result = norms_.by_result(operand);
      if (result == nullptr || graph_.shape(operand).back() != graph_.shape(node.inputs[side]).back()) continue;
      const Norm* norm = norms_.by_normalized(result->normalized);
      if (norm == nullptr || norm->narrow != graph_.dtype(operand)) continue;
      const Value sum = result->bias.valid() ? norms_.sum_before(node.inputs[1 - side], index) : Value{};
      if (result->bias.valid() && (!sum.valid() || graph_.dtype(sum) != DType::kF32)) continue;
      const Builder build(target);
      std::vector<Value> operands = inputs;
      operands[side] = build.reshape(narrow_.at(norm->normalized), build.shape(inputs[side]));
      Value gradient = build.dot(operands[0], operands[1], true, false, DType::kF32, node.attributes.tf32);
      const auto along = [&](Value vector, size_t axis) {
        return build.broadcast(vector, build.shape(gradient), {static_cast<int64_t>(axis)});
      };
      if (result->weight.valid()) gradient = build.mul(gradient, along(in_target(target, result->weight), side));
      if (result->bias.valid())
        gradient = build.add(
            gradient, build.mul(along(in_target(target, result->bias), side), along(in_target(target, sum), 1 - side)));
      return {gradient};
    }
    return {};
  }

  // A sum along a norm's axes, of which some terms are x - mean times numbers of their rows, whose sums are zero: those
  // terms are left out. So the gradient of the mean does not wait for the sum that those numbers are computed from.
  // Empty if `node` is no such sum.
  std::vector<Value> sum_of_rows(Graph& target, const Node& node) {
    if (node.op != Op::kReduceSum) return {};
    Terms terms;
    count_terms(node.inputs[0], node.attributes.axes, terms);
    if (terms.zero == 0 || terms.zero > kMostTerms || terms.other > 1) return {};
    const Builder build(target);
    const Value sum = add_terms(build, node.inputs[0], node.attributes.axes);
    return {sum.valid() ? sum : build.constant(node.outputs[0].dtype, node.outputs[0].shape, 0)};
  }

  static constexpr int kMostTerms = 8;  // that are zero
  struct Terms {
    int zero = 0, other = 0;
  };

  bool sums_to_zero(Value value, const std::vector<int64_t>& axes) const {
    const Norm* norm = norms_.by_normalized(value);
    if (norm == nullptr) norm = norms_.by_centered(value);
    return norm != nullptr && norm->sums_to_zero && norm->axes == axes;
  }

  // What `value` repeats, if that is one number for all elements along the axes.
  std::optional<Value> number_of_row(Value value, const std::vector<int64_t>& axes) const {
    const Node& node = graph_.node(value);
    if (node.op != Op::kBroadcast || repeated_axes(graph_, value) != axes) return std::nullopt;
    return node.inputs[0];
  }

  void count_terms(Value value, const std::vector<int64_t>& axes, Terms& terms) const {
    const Node& node = graph_.node(value);
    if (terms.other > 1 || terms.zero > kMostTerms) return;
    if (sums_to_zero(value, axes)) {
      ++terms.zero;
    } else if (node.op == Op::kNeg || node.op == Op::kAdd) {
      for (const Value input : node.inputs) count_terms(input, axes, terms);
    } else if (const size_t factor = row_factor(node, axes); factor < 2) {
      count_terms(node.inputs[1 - factor], axes, terms);
    } else {
      ++terms.other;
    }
  }

  // Which operand of a GEMM is a number of the row; 2 if none is.
  size_t row_factor(const Node& node, const std::vector<int64_t>& axes) const {
    if (node.op != Op::kMul) return 2;
    for (const size_t i : {0, 1})
      if (number_of_row(node.inputs[i], axes)) return i;
    return 2;
  }

  // Invalid: zero.
  Value add_terms(const Builder& build, Value value, const std::vector<int64_t>& axes) {
    if (sums_to_zero(value, axes)) return {};
    const Node& node = graph_.node(value);
    if (node.op == Op::kNeg) {
      const Value sum = add_terms(build, node.inputs[0], axes);
      return sum.valid() ? build.neg(sum) : sum;
    }
    if (node.op == Op::kAdd) {
      const Value first = add_terms(build, node.inputs[0], axes), second = add_terms(build, node.inputs[1], axes);
      return first.valid() && second.valid() ? build.add(first, second) : first.valid() ? first : second;
    }
    if (const size_t factor = row_factor(node, axes); factor < 2) {
      const Value sum = add_terms(build, node.inputs[1 - factor], axes);
      if (!sum.valid()) return sum;
      const Value number = in_target(build.graph(), *number_of_row(node.inputs[factor], axes));
      return build.mul(build.reshape(number, build.shape(sum)), sum);
    }
    return build.reduce_sum(for_gradient(build.graph(), value, in_target(build.graph(), value)), axes);
  }

  // The counterpart of a value of the source graph.
  Value in_target(const Graph& target, Value value) const {
    const std::vector<Value>& from = graph_.inputs();
    const auto input = std::find(from.begin(), from.end(), value);
    if (input != from.end()) return target.inputs()[static_cast<size_t>(input - from.begin())];
    return rebuilt_[static_cast<size_t>(value.node)].at(static_cast<size_t>(value.output));
  }

  const Graph& graph_;
  const Norms norms_;
  std::vector<std::vector<Value>> rebuilt_;  // of each node of the source graph but inputs
  std::map<Value, Value> narrow_;            // normalized values in 16 bits, by the source graph's
  std::map<Value, Value> wide_;              // what backward nodes read, by the source graph's
};

}  // namespace

Graph normalized_values(const Graph& graph) {
  NormalizedValues pass(graph);
  const Node* first = graph.nodes().data();
  return rebuild_graph(graph, [&](Graph& target, const Node& node, const std::vector<Value>& inputs) {
    return pass.transform(target, node, inputs, static_cast<int32_t>(&node - first));
  });
}

}  // namespace causeway::passes
