#include "causeway/program/materialization.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "causeway/graph/op.h"
#include "causeway/program/rounded_gemm.h"

namespace causeway::program {
namespace {

// Costs in simple operations for each element.
constexpr int kCheapUnderBroadcast = 4;  // a value that a broadcast repeats
constexpr int kCheapOperand = 2;         // an operand of a template computed while it is packed
constexpr int kLargestExpression = 200;
// On a stage of a pipeline: more nodes than lie between most terms of one micro-batch's sums, fewer than between those
// of two micro-batches. A distance is a heuristic. The messages that a value is computed from would tell micro-batches
// apart (each has its own), but they give other programs: sums within a micro-batch whose terms lie far apart, such as
// those of the chunked loss and of gradients, are stored by this rule too, and that frees their terms.
constexpr int32_t kOtherWork = 64;

// By node: elementwise values that a reduction reads. They are computed again in the pass after the reduction, not
// stored between.
std::vector<bool> find_reduction_inputs(const Graph& graph) {
  std::vector<bool> feeds(graph.nodes().size());
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    const bool marks = op_info(node.op).kind == OpKind::kReduce || (feeds[i] && is_elementwise(node.op));
    if (!marks) continue;
    for (const Value input : node.inputs) feeds[static_cast<size_t>(input.node)] = true;
  }
  return feeds;
}

// By node: values whose largest magnitude is taken, as a scale for all of them is found.
std::vector<bool> find_scaled_values(const Graph& graph) {
  std::vector<bool> scaled(graph.nodes().size());
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::kReduceMax || node.attributes.axes.size() != graph.shape(node.inputs[0]).size()) continue;
    const Node& input = graph.node(node.inputs[0]);
    if (input.op == Op::kAbs) scaled[static_cast<size_t>(input.inputs[0].node)] = true;
  }
  return scaled;
}

bool is_view_op(Op op) { return op == Op::kReshape || op == Op::kPermute || op == Op::kSlice; }

class MaterializationChooser {
 public:
  explicit MaterializationChooser(const FusionProblem& problem)
      : problem_(problem),
        graph_(problem.graph),
        rules_(problem.rules),
        is_stage_(std::ranges::any_of(
            graph_.nodes(), [](const Node& node) { return node.op == Op::kSend || node.op == Op::kReceive; })),
        materialized_(graph_),
        costs_(graph_),
        feeds_reduction_(find_reduction_inputs(graph_)),
        is_scaled_(find_scaled_values(graph_)) {}

  Materialization run() {
    for (const Value output : graph_.outputs) materialized_.insert(output);
    for (const Assignment& assignment : graph_.assignments) materialized_.insert(assignment.value);
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (!problem_.needed[i] || node.op == Op::kInput) continue;
      const auto index = static_cast<int32_t>(i);
      require_inputs(node, index);
      if (!is_expandable(node.op)) {
        store_outputs(node, index);
      } else {
        store_partial_sums(node, index);
        consider({index, 0});
      }
    }
    return {std::move(materialized_), std::move(costs_), std::move(feeds_reduction_)};
  }

 private:
  // A kernel of the user's writes all its outputs, wanted or not.
  void store_outputs(const Node& node, int32_t index) {
    for (size_t output = 0; output < node.outputs.size(); ++output) {
      const Value value{index, static_cast<int32_t>(output)};
      if (node.op == Op::kUserKernel || is_effect(node.op) || problem_.uses(value) > 0) materialized_.insert(value);
    }
  }

  // Stores the value of an expandable node where that is better than computing it in every kernel that uses it.
  void consider(Value value) {
    const int cost = costs_.count(value, materialized_);
    const bool several_uses = problem_.uses(value) > 1 && op_info(graph_.node(value).op).kind != OpKind::kMovement;
    const bool costly =
        !feeds_reduction_[static_cast<size_t>(value.node)] &&
        (rules_.repeats_count_once ? costs_at_least(value, rules_.cheap_to_repeat) : cost >= rules_.cheap_to_repeat);
    if ((several_uses && (costly || reads_several_tensors(value))) || costs_at_least(value, kLargestExpression) ||
        rounds_gemm(problem_, materialized_, value) || adds_up_exchanged_terms(value)) {
      const Value stored = narrower(value);
      materialized_.insert(stored);
      if (stored != value) costs_.count_conversion_only(value);
    } else if (several_uses && is_scaled_[static_cast<size_t>(value.node)]) {
      computed_twice_ = value;
    }
  }

  bool costs_at_least(Value value, int least) const { return costs_.is_at_least(value, least, materialized_); }

  // What a cast to a wider float converts, where that is in no memory yet: it takes fewer bytes. Otherwise the value.
  Value narrower(Value value) const {
    const Node& node = graph_.node(value);
    if (node.op != Op::kCast || materialized_.contains(node.inputs[0])) return value;
    const DType from = graph_.dtype(node.inputs[0]), to = node.outputs[0].dtype;
    return is_float(from) && is_float(to) && size_bytes(from) < size_bytes(to) ? node.inputs[0] : value;
  }

  // The rounded sum of what one exchange between ranks gave, which is larger and would stay until the last use.
  bool adds_up_exchanged_terms(Value value) const {
    const Node& node = graph_.node(value);
    if (node.op != Op::kCast || graph_.node(node.inputs[0]).op != Op::kAdd) return false;
    const std::vector<Value> reads = values_read(graph_, materialized_, value);
    return reads.size() == 1 && op_info(graph_.node(reads.front()).op).kind == OpKind::kCollective &&
           !(element_count(graph_.shape(reads.front())) == element_count(node.outputs[0].shape));
  }

  // Of a sum of several GEMMs, each partial sum is stored by the kernel of its last GEMM; otherwise every GEMM would be
  // kept until the end. The same of what ranks exchange and of scatter-adds: gradients of micro-batches. And of
  // whatever a stage of a pipeline adds up again after other work: the next micro-batch's.
  void store_partial_sums(const Node& node, int32_t index) {
    if (node.op != Op::kAdd) return;
    for (const Value partial : node.inputs)
      if (is_stage_ && !materialized_.contains(partial) && graph_.node(partial).op == Op::kAdd &&
          index - partial.node > kOtherWork)
        materialized_.insert(partial);
    const auto is_term = [&](Value value) {
      while (!materialized_.contains(value) && graph_.node(value).op == Op::kReshape)
        value = graph_.node(value).inputs[0];
      const Op op = graph_.node(value).op;
      return is_gemm(op) || op == Op::kGroupedDot || op == Op::kScatterAdd || op_info(op).kind == OpKind::kCollective;
    };
    for (size_t i = 0; i < 2; ++i) {
      const Value partial = node.inputs[i];
      if (materialized_.contains(partial) || graph_.node(partial).op != Op::kAdd || !is_term(node.inputs[1 - i]))
        continue;
      const std::vector<Value>& terms = graph_.node(partial).inputs;
      if (is_term(terms[0]) || is_term(terms[1])) materialized_.insert(partial);
    }
  }

  // Computing it again would read more than one tensor as large as itself, where reading it would read one: the sums of
  // a residual stream. Two values that get scales share a loop that finds them, and another that applies them: what the
  // first of them reads in both loops costs the second one nothing.
  bool reads_several_tensors(Value value) const {
    const Dim count = element_count(graph_.shape(value));
    if (count.is_constant(1) || is_small_comparison(value)) return false;
    size_t tensors = 0, bytes = 0;
    const std::vector<Value> beside = read_beside(value);
    for (const Value read : values_read(graph_, materialized_, value)) {
      if (!(element_count(graph_.shape(read)) == count) || std::ranges::find(beside, read) != beside.end()) continue;
      ++tensors;
      bytes += size_bytes(graph_.dtype(read));
    }
    return rules_.bytes_decide ? bytes > size_bytes(graph_.dtype(value)) : tensors > 1;
  }

  // Of a number for each row: a kernel that stores it saves nothing.
  bool is_small_comparison(Value value) const {
    constexpr int64_t kFew = 1 << 16;
    const Dim count = element_count(graph_.shape(value));
    return rules_.bytes_decide && graph_.dtype(value) == DType::kBool && count.is_constant() &&
           count.constant() <= kFew;
  }

  std::vector<Value> read_beside(Value value) const {
    constexpr int32_t kNear = 64;  // nodes
    if (!rules_.bytes_decide || !computed_twice_ || !is_scaled_[static_cast<size_t>(value.node)] ||
        value.node - computed_twice_->node > kNear)
      return {};
    return values_read(graph_, materialized_, *computed_twice_);
  }

  // Of a scatter-add, of what does not depend on the base: they do not change while rows are written.
  bool updates_are_few(const Node& node) const {
    const Dim count = element_count(graph_.shape(node.inputs[1]));
    return count.is_constant() && count.constant() <= rules_.few_updates && materialized_.contains(node.inputs[0]) &&
           !depends_on(graph_, materialized_, node.inputs[1], node.inputs[0]) &&
           !depends_on(graph_, materialized_, node.inputs[2], node.inputs[0]);
  }

  // Stores the inputs that this node needs in memory.
  void require_inputs(const Node& node, int32_t index) {
    switch (node.op) {
      case Op::kBroadcast: {
        const Value source = below_movement(graph_, materialized_, node.inputs[0]);
        if (!materialized_.contains(source) && costs_.of(source) >= kCheapUnderBroadcast &&
            !(element_count(graph_.shape(source)) == element_count(node.outputs[0].shape)))
          materialized_.insert(source);
        return;
      }
      case Op::kGather:
        if (costs_.of(node.inputs[0]) > 1) materialized_.insert(node.inputs[0]);
        return;
      case Op::kScatterAdd:
        require_scatter_add_inputs(node);
        return;
      case Op::kDot:
        for (const Value input : node.inputs) require_operand(input);
        make_operands_direct(node, index);
        return;
      case Op::kScaledDot:
        for (size_t i = 0; i < 2; ++i) {
          require_operand(node.inputs[i]);
          materialized_.insert(node.inputs[i + 2]);
        }
        make_operands_direct(node, index);
        return;
      case Op::kGroupedDot:
        for (size_t i = 0; i < 2; ++i) require_operand(node.inputs[i]);
        materialized_.insert(node.inputs[2]);
        make_operands_direct(node, index);
        return;
      case Op::kAttention:
      case Op::kAttentionGradient:
        require_attention_inputs(node, index);
        return;
      case Op::kAttentionBlockMap:
      case Op::kUserKernel:
        for (const Value input : node.inputs) materialized_.insert(input);
        return;
      case Op::kAllReduce:
      case Op::kAllGather:
      case Op::kReduceScatter:
      case Op::kAllToAll:
      case Op::kSend:
        // It sends what lies in memory in one piece.
        materialized_.insert(collective_source(graph_, materialized_, node));
        return;
      default:
        return;
    }
  }

  void require_scatter_add_inputs(const Node& node) {
    if (updates_are_few(node)) return;
    const Op base = graph_.node(node.inputs[0]).op;
    // In memory, the base can become the result in place.
    if (base != Op::kConstant && is_expandable(base))
      for (const Value input : node.inputs) materialized_.insert(input);
    // So can an input that is given the result, where what is added is little beside it.
    if (base == Op::kInput && is_small_beside(graph_, node.inputs[2], node.inputs[0]))
      for (const Value input : {node.inputs[1], node.inputs[2]}) materialized_.insert(input);
  }

  void require_attention_inputs(const Node& node, int32_t index) {
    const size_t operands = node.op == Op::kAttention ? 3 : 4;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (i < operands) {
        require_operand(node.inputs[i]);
      } else {
        materialized_.insert(node.inputs[i]);
      }
    }
    // What ranks gathered along positions, of several sequences: a block reads it once for each of its own rows.
    while (const auto obstacle = find_lone_obstacle(index)) materialized_.insert(obstacle->value);
  }

  std::optional<Obstacle> find_lone_obstacle(int32_t index) const {
    return find_obstacle(graph_, materialized_, lone_request(problem_, index, {{index, 0}}), problem_.target);
  }

  void require_operand(Value value) {
    if (materialized_.contains(value)) return;
    if (costs_.of(value) <= kCheapOperand && is_view(value)) return;
    // What the operand is a part of may serve other operands too.
    Value source = value;
    while (!materialized_.contains(source) && is_view_op(graph_.node(source).op))
      source = graph_.node(source).inputs[0];
    const Op op = graph_.node(source).op;
    materialized_.insert(is_expandable(op) && op != Op::kConstant ? source : value);
  }

  // One tensor in memory, seen through movement ops and, where operands are packed anyway, conversions. A GPU copies
  // operands from memory as they are.
  bool is_view(Value value) const {
    while (!materialized_.contains(value)) {
      const Node& node = graph_.node(value);
      if (!is_view_op(node.op) && (node.op != Op::kCast || !rules_.packs_operands)) return false;
      value = node.inputs[0];
    }
    return true;
  }

  // Operands whose index arithmetic cannot be had for free while packing are stored beforehand.
  void make_operands_direct(const Node& node, int32_t index) {
    auto obstacle = find_lone_obstacle(index);
    for (; obstacle && obstacle->kind == Obstacle::Kind::kOperandAcrossK; obstacle = find_lone_obstacle(index))
      materialized_.insert(obstacle->value);
    if (!obstacle) return;
    for (const Value input : node.inputs) materialized_.insert(input);
  }

  const FusionProblem& problem_;
  const Graph& graph_;
  const FusionRules& rules_;
  bool is_stage_;
  MaterializedValues materialized_;
  RecomputeCosts costs_;
  std::vector<bool> feeds_reduction_;
  std::vector<bool> is_scaled_;
  std::optional<Value> computed_twice_;  // the last value that gets a scale and is not stored
};

}  // namespace

Materialization choose_materialized(const FusionProblem& problem) { return MaterializationChooser(problem).run(); }

}  // namespace causeway::program
