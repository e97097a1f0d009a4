#include "causeway/passes/count_flops.h"

#include <fmt/format.h>

#include <array>

#include "causeway/graph/op.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/attended_pairs.h"
#include "causeway/passes/optimizer_scope.h"

namespace causeway::passes {
namespace {

std::string operand_name(DType dtype) {
  const bool eight_bits = dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2;
  return eight_bits ? "fp8" : std::string(dtype_name(dtype));
}

class FlopCounter {
 public:
  FlopCounter(const Graph& graph, const SymbolBindings& bindings) : graph_(graph), bindings_(bindings) {}

  FlopCount count() {
    const std::vector<std::vector<int>> uses = count_uses(graph_);
    const std::vector<bool> needed = needed_nodes(graph_);
    for (size_t i = 0; i < needed.size(); ++i)
      if (needed[i]) count_node(graph_.nodes()[i], uses[i]);
    return result_;
  }

 private:
  double size(const Dim& dim) const { return static_cast<double>(dim.evaluate(bindings_)); }

  void count_node(const Node& node, const std::vector<int>& uses) {
    switch (node.op) {
      case Op::kDot:
      case Op::kScaledDot: {
        const Shape& a = graph_.shape(node.inputs[0]);
        const Dim& k = a[node.attributes.transpose_a ? a.size() - 2 : a.size() - 1];
        add(node, node.backward, 2 * size(element_count(node.outputs[0].shape)) * size(k));
        break;
      }
      // Either way each row meets one matrix. Rows of no group count too: how many they are, data decides.
      case Op::kGroupedDot:
        add(node, node.backward,
            2 * size(element_count(graph_.shape(node.inputs[0]))) * size(node.outputs[0].shape.back()));
        break;
      case Op::kAttention:
      case Op::kAttentionGradient: {
        const double pairs = attended(node);
        add(node, node.backward,
            pairs * attention_flops_of_pair(node.op, size(graph_.shape(node.inputs[0])[3]),
                                            size(graph_.shape(node.inputs[2])[3])));
        break;
      }
      case Op::kLinearCrossEntropy: {
        const double gemm =
            2 * size(element_count(graph_.shape(node.inputs[0]))) * size(graph_.shape(node.inputs[1])[0]);
        // What only gradients are taken of has its logits computed again.
        if (uses[0] > 0 || uses[3] > 0 || (uses.size() > 4 && uses[4] > 0)) add(node, node.backward, gemm);
        add(node, true, gemm * ((uses[1] > 0 ? 1 : 0) + (uses[2] > 0 ? 1 : 0)));
        break;
      }
      default:
        break;
    }
  }

  void add(const Node& node, bool backward, double flops) {
    if (is_of_optimizer(node)) {
      result_.optimizer += flops;
      return;
    }
    (backward ? result_.backward : result_.forward) += flops;
    result_.by_operand[node.attributes.tf32 ? "tf32" : operand_name(graph_.dtype(node.inputs[0]))] += flops;
  }

  double attended(const Node& node) {
    const std::vector<int64_t> q = evaluate(graph_.shape(node.inputs[0]), bindings_);
    const std::vector<int64_t> k = evaluate(graph_.shape(node.inputs[1]), bindings_);
    const std::array<int64_t, 4> sizes = {q[0], q[2], q[1], k[1]};
    const double all = static_cast<double>(sizes[0] * sizes[1]) * static_cast<double>(sizes[2] * sizes[3]);
    const AttendedPairs pairs =
        count_attended_pairs(*node.attributes.attention, sizes[0], sizes[1], sizes[2], sizes[3]);
    if (!pairs.known()) result_.at_most = true;
    if (pairs.sampled) result_.sampled = true;
    if (node.op == Op::kAttention && !node.backward) {
      result_.attended_pairs += pairs.at_most;
      result_.attention_pairs += all;
    }
    return pairs.at_most;
  }

  const Graph& graph_;
  const SymbolBindings& bindings_;
  FlopCount result_;
};

}  // namespace

FlopCount FlopCount::scaled(double times) const {
  FlopCount result = *this;
  for (double* figure :
       {&result.forward, &result.backward, &result.attended_pairs, &result.attention_pairs, &result.optimizer})
    *figure *= times;
  for (auto& [operand, flops] : result.by_operand) flops *= times;
  return result;
}

void FlopCount::share_out(std::map<std::string, double> parts) {
  double sum = 0;
  for (const auto& [operand, part] : parts) sum += part;
  for (auto& [operand, part] : parts) part *= total() / sum;
  by_operand = std::move(parts);
}

std::string density_text(const FlopCount& count) {
  return fmt::format("{}{}{:.4g} of all pairs{}", count.at_most ? "at most " : "", count.sampled ? "about " : "",
                     count.density(), count.at_most ? " (data decides)" : "");
}

double attention_flops_of_pair(Op op, double head_dim, double value_dim) {
  return op == Op::kAttention ? 2 * (head_dim + value_dim) : 2 * (3 * head_dim + 2 * value_dim);
}

FlopCount count_flops(const Graph& graph, const SymbolBindings& bindings) {
  return FlopCounter(graph, bindings).count();
}

}  // namespace causeway::passes
