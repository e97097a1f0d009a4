#include "causeway/program/fusion.h"

#include <algorithm>
#include <map>
#include <set>

#include "causeway/base/error.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/graph/op.h"
#include "causeway/graph/rewrite.h"
#include "causeway/kernels/gpu/scatter_add_layout.h"
#include "causeway/passes/joined_gradients.h"
#include "causeway/program/horizontal_fusion.h"

namespace causeway::program {
namespace {

bool multiplies_matrices(Op op) { return op == Op::kDot || op == Op::kScaledDot; }

// Costs in simple operations for each element.
constexpr int kCheapUnderBroadcast = 4;  // a value that a broadcast repeats
constexpr int kCheapOperand = 2;         // an operand of a template computed while it is packed
constexpr int kHiddenEpilogue = 30;      // what a GEMM computes beside the next GEMMs
constexpr int kLargestExpression = 200;
constexpr size_t kRecentKernels = 12;  // how far back a value may join a kernel
constexpr size_t kMostMembers = 12;
// More nodes than lie between the terms of one sum, fewer than between those of two micro-batches.
constexpr std::ptrdiff_t kOtherWork = 64;
constexpr size_t kMostLeaves = 24;
constexpr size_t kMostColumnMembers = 4;  // of a kernel that reduces columns: each has registers for every lane
constexpr size_t kMostRowSums = 4;        // of a loop: each has registers for all of a thread's columns

// What is weighed differently on processors and on GPUs.
struct FusionRules {
  // A value with several uses is stored from this cost on. `repeats_count_once`: as far as one kernel would pay it.
  int cheap_to_repeat;
  bool repeats_count_once;
  // Whether bytes decide if reading a value beats reading what it is computed from, and not how many tensors.
  bool bytes_decide;
  // Operands of GEMMs are packed by the kernel, and may be converted on the way.
  bool packs_operands;
  // What is computed of a GEMM's result before storing it, where that has more than a few rows.
  int cheap_epilogue;
  // A sum by index of at most so many updates computes them where it adds them.
  int64_t few_updates;
  // Sums over rows, and values computed from the same tensors, share a pass over them.
  bool joins_column_sums;
  // Copies in another order go through shared memory, alone.
  bool copies_alone;
  // A launch costs microseconds, however little it does.
  bool shares_launches;
};
constexpr FusionRules kProcessorRules = {.cheap_to_repeat = 8,
                                         .repeats_count_once = false,
                                         .bytes_decide = false,
                                         .packs_operands = true,
                                         .cheap_epilogue = 1 << 30,
                                         .few_updates = 0,
                                         .joins_column_sums = false,
                                         .copies_alone = false,
                                         .shares_launches = false};
// Arithmetic waits for memory here. The few threads that own a GEMM's result would hold up the matrix units with a
// costlier epilogue.
constexpr FusionRules kGpuRules = {.cheap_to_repeat = 40,
                                   .repeats_count_once = true,
                                   .bytes_decide = true,
                                   .packs_operands = false,
                                   .cheap_epilogue = 6,
                                   .few_updates = kFewUpdates,
                                   .joins_column_sums = true,
                                   .copies_alone = true,
                                   .shares_launches = true};
// Which sums share a pass would decide how they are added up.
constexpr FusionRules kGpuRulesOfFixedOrder = [] {
  FusionRules rules = kGpuRules;
  rules.joins_column_sums = false;
  rules.shares_launches = false;
  return rules;
}();

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

// Loops can compute it in place, wherever it is used.
bool is_expandable(Op op) {
  const OpKind kind = op_info(op).kind;
  return is_elementwise(op) || kind == OpKind::kMovement || op == Op::kConstant || op == Op::kIota ||
         op == Op::kRandomBits || op == Op::kGather;
}

bool reduces_trailing_axes(const Graph& graph, const Node& node) {
  const size_t rank = graph.shape(node.inputs[0]).size();
  return node.attributes.axes.front() == static_cast<int64_t>(rank - node.attributes.axes.size());
}

class Fuser {
 public:
  Fuser(const Graph& graph, const Target& target, bool fixed_order)
      : graph_(graph),
        target_(target),
        fixed_order_(fixed_order),
        rules_(target.is_gpu() ? (fixed_order ? kGpuRulesOfFixedOrder : kGpuRules) : kProcessorRules),
        needed_(needed_nodes(graph)),
        uses_(count_uses(graph)),
        materialized_(graph),
        is_stage_(std::ranges::any_of(
            graph.nodes(), [](const Node& node) { return node.op == Op::kSend || node.op == Op::kReceive; })) {}

  FusionResult run() {
    choose_materialized();
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      if (!needed_[i] || graph_.nodes()[i].op == Op::kInput) continue;
      place(static_cast<int32_t>(i));
    }
    if (rules_.joins_column_sums) join_sums_to_loops();
    decide_stores();
    if (rules_.shares_launches) compute_rows_in_gemms();
    FusionResult result = {materialized_, std::move(kernels_)};
    if (rules_.shares_launches) fuse_horizontally(graph_, target_, reads_, result);
    return result;
  }

 private:
  bool used(Value value) const { return uses_[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)] > 0; }
  int uses(Value value) const { return uses_[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)]; }

  void choose_materialized() {
    costs_.resize(graph_.nodes().size());
    for (const Value output : graph_.outputs) materialized_.insert(output);
    for (const Assignment& assignment : graph_.assignments) materialized_.insert(assignment.value);
    mark_reduction_inputs();
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      if (!needed_[i]) continue;
      const Node& node = graph_.nodes()[i];
      const Value value{static_cast<int32_t>(i), 0};
      if (node.op == Op::kInput) continue;
      require_inputs(node);
      if (!is_expandable(node.op)) {
        // A kernel of the user's writes all its outputs, wanted or not.
        for (size_t output = 0; output < node.outputs.size(); ++output)
          if (node.op == Op::kUserKernel || is_effect(node.op) || used({value.node, static_cast<int32_t>(output)}))
            materialized_.insert({value.node, static_cast<int32_t>(output)});
        continue;
      }
      store_partial_sums(node);
      int cost = node_cost(node.op);
      for (const Value input : node.inputs)
        if (!materialized_.contains(input)) cost += costs_[static_cast<size_t>(input.node)];
      costs_[i] = std::min(cost, 1 << 20);
      const bool several_uses = uses(value) > 1 && op_info(node.op).kind != OpKind::kMovement;
      const bool costly =
          !feeds_reduction_[i] &&
          (rules_.repeats_count_once ? costs_at_least(value, rules_.cheap_to_repeat) : cost >= rules_.cheap_to_repeat);
      if ((several_uses && (costly || reads_several_tensors(value))) || costs_at_least(value, kLargestExpression) ||
          rounds_gemm(value) || adds_up_exchanged_terms(value)) {
        const Value stored = narrower(value);
        materialized_.insert(stored);
        if (stored != value) costs_[i] = node_cost(node.op);
      }
    }
  }

  // What a cast to a wider float converts, where that is in no memory yet: it takes fewer bytes. Otherwise the value.
  Value narrower(Value value) const {
    const Node& node = graph_.node(value);
    if (node.op != Op::kCast || materialized_.contains(node.inputs[0])) return value;
    const DType from = graph_.dtype(node.inputs[0]), to = node.outputs[0].dtype;
    return is_float(from) && is_float(to) && size_bytes(from) < size_bytes(to) ? node.inputs[0] : value;
  }

  // All that is read of a GEMM's result, of its sum with something else or of it times and plus numbers of its lines
  // and columns (8-bit GEMMs are scaled, weights' gradients of norms' results too) is what that is rounded to: the
  // GEMM stores it so.
  bool rounds_gemm(Value value) const {
    const Node& node = graph_.node(value);
    if (node.op != Op::kCast || uses(node.inputs[0]) > 1) return false;
    const DType from = graph_.dtype(node.inputs[0]), to = node.outputs[0].dtype;
    if (!is_float(from) || !is_float(to) || size_bytes(to) >= size_bytes(from)) return false;
    if (is_scaled_gemm(node.inputs[0])) return true;
    const Node& source = graph_.node(node.inputs[0]);
    return !materialized_.contains(node.inputs[0]) && source.op == Op::kAdd &&
           std::any_of(source.inputs.begin(), source.inputs.end(), [&](Value term) { return is_scaled_gemm(term); });
  }

  // A GEMM that nothing else uses, or such a one times or plus fewer numbers than it has.
  bool is_scaled_gemm(Value value) const {
    const Node& node = graph_.node(value);
    if (uses(value) > 1) return false;
    if (multiplies_matrices(node.op)) return true;
    if (materialized_.contains(value) || (node.op != Op::kMul && node.op != Op::kAdd)) return false;
    for (const size_t i : {0, 1})
      if (is_scaled_gemm(node.inputs[i]) && is_of_fewer_numbers(node.inputs[1 - i])) return true;
    return false;
  }

  bool is_of_fewer_numbers(Value value) const {
    if (materialized_.contains(value)) return false;
    const std::vector<Value> reads = leaves(value);
    return std::all_of(reads.begin(), reads.end(), [&](Value read) { return is_small_beside(read, value); });
  }

  // The rounded sum of what one exchange between ranks gave, which is larger and would stay until the last use.
  bool adds_up_exchanged_terms(Value value) const {
    const Node& node = graph_.node(value);
    if (node.op != Op::kCast || graph_.node(node.inputs[0]).op != Op::kAdd) return false;
    const std::vector<Value> reads = leaves(value);
    return reads.size() == 1 && op_info(graph_.node(reads.front()).op).kind == OpKind::kCollective &&
           !(element_count(graph_.shape(reads.front())) == element_count(node.outputs[0].shape));
  }

  // Whether computing the value where it is used costs so much, each node once. costs_ counts a node once for each of
  // its uses and so is never less.
  bool costs_at_least(Value value, int least) const {
    if (costs_[static_cast<size_t>(value.node)] < least) return false;
    int cost = 0;
    std::set<int32_t> visited = {value.node};
    std::vector<int32_t> pending = {value.node};
    while (!pending.empty() && cost < least) {
      const Node& node = graph_.node(Value{pending.back(), 0});
      pending.pop_back();
      cost += node_cost(node.op);
      for (const Value input : node.inputs)
        if (!materialized_.contains(input) && visited.insert(input.node).second) pending.push_back(input.node);
    }
    return cost >= least;
  }

  // Of a sum of several GEMMs, each partial sum is stored by the kernel of its last GEMM; otherwise every GEMM
  // would be kept until the end. The same of what ranks exchange and of sums by index: gradients of micro-batches. And
  // of whatever a stage of a pipeline adds up again after other work: the next micro-batch's.
  void store_partial_sums(const Node& node) {
    if (node.op != Op::kAdd) return;
    for (const Value partial : node.inputs)
      if (is_stage_ && !materialized_.contains(partial) && graph_.node(partial).op == Op::kAdd &&
          &node - &graph_.node(partial) > kOtherWork)
        materialized_.insert(partial);
    const Dim count = element_count(node.outputs[0].shape);
    const auto is_gemm = [&](Value value) {
      while (!materialized_.contains(value) && graph_.node(value).op == Op::kReshape)
        value = graph_.node(value).inputs[0];
      const Op op = graph_.node(value).op;
      return multiplies_matrices(op) || op == Op::kScatterAdd || op_info(op).kind == OpKind::kCollective;
    };
    for (size_t i = 0; i < 2; ++i) {
      const Value partial = node.inputs[i];
      if (materialized_.contains(partial) || graph_.node(partial).op != Op::kAdd || !is_gemm(node.inputs[1 - i]))
        continue;
      const std::vector<Value>& terms = graph_.node(partial).inputs;
      if (is_gemm(terms[0]) || is_gemm(terms[1])) materialized_.insert(partial);
    }
  }

  // Computing it again would read more than one tensor as large as itself, where reading it would read one: the sums of
  // a residual stream.
  bool reads_several_tensors(Value value) const {
    const Dim count = element_count(graph_.shape(value));
    if (count.is_constant(1)) return false;
    const std::vector<Value> reads = leaves(value);
    if (rules_.bytes_decide) {
      size_t bytes = 0;
      for (const Value read : reads)
        if (element_count(graph_.shape(read)) == count) bytes += size_bytes(graph_.dtype(read));
      return bytes > size_bytes(graph_.dtype(value));
    }
    return std::count_if(reads.begin(), reads.end(),
                         [&](Value read) { return element_count(graph_.shape(read)) == count; }) > 1;
  }

  // Elementwise values that a sum reads: they are computed again in the pass after the sum, not stored between.
  void mark_reduction_inputs() {
    feeds_reduction_.resize(graph_.nodes().size());
    for (size_t i = graph_.nodes().size(); i-- > 0;) {
      const Node& node = graph_.nodes()[i];
      const bool marks = op_info(node.op).kind == OpKind::kReduce || (feeds_reduction_[i] && is_elementwise(node.op));
      if (!marks) continue;
      for (const Value input : node.inputs) feeds_reduction_[static_cast<size_t>(input.node)] = true;
    }
  }

  // Less than half as many elements, or a number that is not known.
  bool is_small_beside(Value value, Value other) const {
    const Dim count = element_count(graph_.shape(value)), all = element_count(graph_.shape(other));
    return !count.is_constant() || !all.is_constant() || 2 * count.constant() < all.constant();
  }

  // Of a sum by index, of what does not depend on the base: they do not change while rows are written.
  bool updates_are_few(const Node& node) const {
    const Dim count = element_count(graph_.shape(node.inputs[1]));
    return count.is_constant() && count.constant() <= rules_.few_updates && materialized_.contains(node.inputs[0]) &&
           !depends_on(node.inputs[1], node.inputs[0]) && !depends_on(node.inputs[2], node.inputs[0]);
  }

  bool depends_on(Value value, Value source) const {
    if (value == source) return true;
    const std::vector<Value> read = leaves(value);
    return !materialized_.contains(value) && std::find(read.begin(), read.end(), source) != read.end();
  }

  // Inputs that this node needs in memory.
  void require_inputs(const Node& node) {
    switch (node.op) {
      case Op::kBroadcast: {
        const Value source = below_movement(node.inputs[0]);
        if (!materialized_.contains(source) && costs_[static_cast<size_t>(source.node)] >= kCheapUnderBroadcast &&
            !(element_count(graph_.shape(source)) == element_count(node.outputs[0].shape)))
          materialized_.insert(source);
        return;
      }
      case Op::kGather:
        if (costs_[static_cast<size_t>(node.inputs[0].node)] > 1) materialized_.insert(node.inputs[0]);
        return;
      case Op::kScatterAdd:
        if (updates_are_few(node)) return;
        // In memory, the base can become the result in place.
        if (graph_.node(node.inputs[0]).op != Op::kConstant && is_expandable(graph_.node(node.inputs[0]).op))
          for (const Value input : node.inputs) materialized_.insert(input);
        // So can an input that is given the result, where what is added is little beside it.
        if (graph_.node(node.inputs[0]).op == Op::kInput && is_small_beside(node.inputs[2], node.inputs[0]))
          for (const Value input : {node.inputs[1], node.inputs[2]}) materialized_.insert(input);
        return;
      case Op::kDot:
        for (const Value input : node.inputs) require_operand(input);
        make_operands_direct(node);
        return;
      case Op::kScaledDot:
        for (size_t i = 0; i < 2; ++i) {
          require_operand(node.inputs[i]);
          materialized_.insert(node.inputs[i + 2]);
        }
        make_operands_direct(node);
        return;
      case Op::kAttention:
      case Op::kAttentionGradient: {
        const size_t operands = node.op == Op::kAttention ? 3 : 4;
        for (size_t i = 0; i < node.inputs.size(); ++i) {
          if (i < operands) {
            require_operand(node.inputs[i]);
          } else {
            materialized_.insert(node.inputs[i]);
          }
        }
        // What ranks gathered along positions, of several sequences: a block reads it once for each of its own rows.
        const Value result{static_cast<int32_t>(&node - graph_.nodes().data()), 0};
        while (const auto obstacle = find_obstacle(graph_, materialized_, lone_request(node, {result}), target_))
          materialized_.insert(obstacle->value);
        return;
      }
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

  void require_operand(Value value) {
    if (materialized_.contains(value)) return;
    if (costs_[static_cast<size_t>(value.node)] <= kCheapOperand && is_view(value)) return;
    // What the operand is a part of may serve other operands too.
    Value source = value;
    while (!materialized_.contains(source) && moves(graph_.node(source).op)) source = graph_.node(source).inputs[0];
    materialized_.insert(is_expandable(graph_.node(source).op) && graph_.node(source).op != Op::kConstant ? source
                                                                                                          : value);
  }

  static bool moves(Op op) { return op == Op::kReshape || op == Op::kPermute || op == Op::kSlice; }

  // One tensor in memory, seen through movement ops and, where operands are packed anyway, conversions. A GPU copies
  // operands from memory as they are.
  bool is_view(Value value) const {
    while (!materialized_.contains(value)) {
      const Node& node = graph_.node(value);
      if (!moves(node.op) && (node.op != Op::kCast || !rules_.packs_operands)) return false;
      value = node.inputs[0];
    }
    return true;
  }

  Value below_movement(Value value) const {
    while (!materialized_.contains(value) &&
           (graph_.node(value).op == Op::kReshape || graph_.node(value).op == Op::kPermute ||
            graph_.node(value).op == Op::kBroadcast))
      value = graph_.node(value).inputs[0];
    return value;
  }

  // The values in memory that computing `value` reads.
  std::vector<Value> leaves(Value value) const {
    std::vector<Value> found;
    std::set<Value> visited;
    std::vector<Value> pending = graph_.node(value).inputs;
    while (!pending.empty()) {
      const Value next = pending.back();
      pending.pop_back();
      if (!visited.insert(next).second) continue;
      if (materialized_.contains(next)) {
        found.push_back(next);
      } else {
        const std::vector<Value>& inputs = graph_.node(next).inputs;
        pending.insert(pending.end(), inputs.begin(), inputs.end());
      }
    }
    return found;
  }

  void place(int32_t node_index) {
    const Node& node = graph_.node(node_index);
    std::vector<Value> members;
    for (size_t output = 0; output < node.outputs.size(); ++output) {
      const Value value{node_index, static_cast<int32_t>(output)};
      if (materialized_.contains(value)) members.push_back(value);
    }
    if (members.empty()) return;
    KernelRequest request = lone_request(node, members);
    const std::vector<Value> reads = leaves(members.front());
    size_t earliest = 0;  // kernels before this one do not have all inputs ready
    for (const Value read : reads)
      if (const auto entry = kernel_of_.find(read); entry != kernel_of_.end())
        earliest = std::max(earliest, entry->second);
    if (request.kind == KernelKind::kLoop && join_attention_gradient(members.front())) return;
    if (request.kind == KernelKind::kLoop) {
      const size_t recent = kernels_.size() > kRecentKernels ? kernels_.size() - kRecentKernels : 0;
      for (size_t k = kernels_.size(); k-- > std::max(earliest, recent);)
        if (try_join(k, request, reads)) return;
      if (earliest < recent && rounds_gemm(members.front()) && try_join(earliest, request, reads)) return;
      for (size_t k = std::min(earliest, kernels_.size()); k-- > recent;)
        if (join_later(k, request, reads)) return;
    }
    if (rules_.joins_column_sums) {
      const size_t recent = kernels_.size() > kRecentKernels ? kernels_.size() - kRecentKernels : 0;
      for (size_t k = kernels_.size(); k-- > std::max(earliest, recent);)
        if (join_column_reduce(k, request, reads)) return;
    }
    for (const Value member : members) kernel_of_[member] = kernels_.size();
    kernels_.push_back(std::move(request));
    reads_.emplace_back(reads.begin(), reads.end());
  }

  // Gradients that are put side by side, for nothing else, are stored so.
  bool join_attention_gradient(Value value) {
    const std::optional<passes::JoinedGradients> joined = passes::find_joined_gradients(graph_, value);
    if (!joined) return false;
    const auto is_step = [&](Value step) { return uses(step) == 1 && !materialized_.contains(step); };
    if (!std::all_of(joined->between.begin(), joined->between.end(), is_step)) return false;
    for (const passes::JoinedGradient& part : joined->parts)
      if (uses(part.gradient) != 1) return false;
    KernelRequest& kernel = kernels_[kernel_of_.at(joined->parts.front().gradient)];
    kernel.stored.assign(kernel.members.size(), false);
    kernel.members.push_back(value);
    kernel.stored.push_back(true);
    kernel_of_[value] = kernel_of_.at(joined->parts.front().gradient);
    return true;
  }

  KernelRequest lone_request(const Node& node, std::vector<Value> members) const {
    KernelRequest request;
    request.fixed_order = fixed_order_;
    request.stored.assign(members.size(), true);
    request.members = std::move(members);
    switch (node.op) {
      case Op::kReduceSum:
      case Op::kReduceMax: {
        const Shape& shape = graph_.shape(node.inputs[0]);
        const bool last_kept = node.attributes.axes.back() + 1 != static_cast<int64_t>(shape.size());
        request.rows = element_count(node.outputs[0].shape);
        request.columns = Dim(1);
        for (const int64_t axis : node.attributes.axes) request.columns *= shape[static_cast<size_t>(axis)];
        if (last_kept && !request.columns.is_constant(1)) request.kind = KernelKind::kColumnReduce;
        return request;
      }
      case Op::kArgmax:
        request.kind = KernelKind::kArgmax;
        return request;
      case Op::kCumsum:
        request.kind = KernelKind::kCumsum;
        return request;
      case Op::kTopk:
        request.kind = KernelKind::kTopk;
        return request;
      case Op::kScatterAdd:
        request.kind = KernelKind::kScatterAdd;
        return request;
      case Op::kDot:
      case Op::kScaledDot:
        request.kind = KernelKind::kDot;
        return request;
      case Op::kAttention:
        request.kind = KernelKind::kAttention;
        return request;
      case Op::kAttentionGradient:
        request.kind = KernelKind::kAttentionGradient;
        return request;
      case Op::kAttentionBlockMap:
        request.kind = KernelKind::kAttentionBlockMap;
        return request;
      case Op::kUserKernel:
        request.kind = KernelKind::kUser;
        return request;
      case Op::kAllReduce:
      case Op::kAllGather:
      case Op::kReduceScatter:
      case Op::kAllToAll:
        request.kind = KernelKind::kCollective;
        return request;
      case Op::kSend:
      case Op::kReceive:
        request.kind = KernelKind::kMessage;
        return request;
      default:
        CAUSEWAY_CHECK(is_expandable(node.op), "no kernel computes {}", op_name(node.op));
        request.columns = element_count(node.outputs[0].shape);
        return request;
    }
  }

  static bool has_reductions(const Graph& graph, const KernelRequest& request) {
    return std::any_of(request.members.begin(), request.members.end(),
                       [&](Value member) { return op_info(graph.node(member).op).kind == OpKind::kReduce; });
  }

  bool try_join(size_t k, const KernelRequest& lone, const std::vector<Value>& reads) {
    KernelRequest& kernel = kernels_[k];
    if (kernel.members.size() >= kMostMembers) return false;
    KernelRequest joined = kernel;
    if (!match_sizes(joined, lone) || !worthwhile(k, lone, reads)) return false;
    joined.members.push_back(lone.members.front());
    joined.stored.push_back(true);
    if (find_obstacle(graph_, materialized_, joined, target_)) return false;
    kernel_of_[lone.members.front()] = k;
    kernel = std::move(joined);
    reads_[k].insert(reads.begin(), reads.end());
    return true;
  }

  // A sum over rows and the values that are computed from the same tensors, or several such sums, in one pass over
  // them.
  bool join_column_reduce(size_t k, const KernelRequest& lone, const std::vector<Value>& reads) {
    const KernelRequest& kernel = kernels_[k];
    if (kernel.members.size() >= kMostColumnMembers) return false;
    std::vector<Value> members = kernel.members;
    const auto is_sum = [&](Value value) { return op_info(graph_.node(value).op).kind == OpKind::kReduce; };
    // The first member says what kind of kernel it is.
    members.insert(is_sum(lone.members.front()) ? members.begin() : members.end(), lone.members.front());
    const Node& first = graph_.node(members.front());
    if (first.op != Op::kReduceSum || graph_.dtype(members.front()) != DType::kF32) return false;
    const std::vector<int64_t>& axes = first.attributes.axes;
    const Shape& shape = graph_.shape(first.inputs[0]);
    if (axes.back() - axes.front() + 1 != static_cast<int64_t>(axes.size()) ||
        axes.back() + 1 == static_cast<int64_t>(shape.size()))
      return false;
    for (const KernelRequest* request : {&kernel, &lone})
      if (request->kind != KernelKind::kColumnReduce && request->kind != KernelKind::kLoop) return false;
    const Dim count = element_count(shape);
    const std::set<Value> of_lone(reads.begin(), reads.end());
    // A value that takes the place of one it is computed from keeps a kernel that may overwrite it.
    const auto replaces_its_input = [&](Value member) {
      return std::any_of(graph_.assignments.begin(), graph_.assignments.end(), [&](const Assignment& assignment) {
        return assignment.value == member &&
               (reads_[k].contains(assignment.target) || of_lone.contains(assignment.target));
      });
    };
    for (const Value member : members) {
      const Node& node = graph_.node(member);
      if (is_sum(member)) {
        if (node.op != Op::kReduceSum || graph_.dtype(member) != DType::kF32 || node.attributes.axes != axes ||
            graph_.shape(node.inputs[0]) != shape)
          return false;
      } else if (!(element_count(graph_.shape(member)) == count) || is_copy(member) ||
                 feeds_reduction_[static_cast<size_t>(member.node)] || replaces_its_input(member)) {
        // What a sum over a row reads as well belongs to that kernel.
        return false;
      }
      if (std::find(reads.begin(), reads.end(), member) != reads.end() || reads_[k].contains(member)) return false;
    }
    // One of the two reads nothing more than the other.
    if (of_lone.empty() || !(std::includes(reads_[k].begin(), reads_[k].end(), of_lone.begin(), of_lone.end()) ||
                             std::includes(of_lone.begin(), of_lone.end(), reads_[k].begin(), reads_[k].end())))
      return false;
    KernelRequest joined;
    joined.fixed_order = fixed_order_;
    joined.kind = KernelKind::kColumnReduce;
    joined.members = std::move(members);
    joined.stored.assign(joined.members.size(), true);
    kernels_[k] = std::move(joined);
    kernel_of_[lone.members.front()] = k;
    reads_[k].insert(reads.begin(), reads.end());
    return true;
  }

  // Kernels of nothing but sums over rows give them to loops near them that have, or compute, all they read and walk
  // over each row for sums of its own anyway: the gradients of a norm's weight and bias go with that of its input, and
  // the gradient of a bias with the gradient that it is added up from.
  void join_sums_to_loops() {
    for (size_t k = 0; k < kernels_.size();) {
      if (sums_over_rows(kernels_[k]) && join_loop(k)) {
        kernels_.erase(kernels_.begin() + static_cast<ptrdiff_t>(k));
        reads_.erase(reads_.begin() + static_cast<ptrdiff_t>(k));
        for (auto& [value, kernel] : kernel_of_)
          if (kernel > k) --kernel;
      } else {
        ++k;
      }
    }
  }

  // Whether all members are f32 sums over the leading axes of tensors of one shape.
  bool sums_over_rows(const KernelRequest& request) const {
    if (request.kind != KernelKind::kColumnReduce) return false;
    const Node& first = graph_.node(request.members.front());
    return std::all_of(request.members.begin(), request.members.end(), [&](Value member) {
      const Node& node = graph_.node(member);
      const std::vector<int64_t>& axes = node.attributes.axes;
      return node.op == Op::kReduceSum && graph_.dtype(member) == DType::kF32 &&
             axes.back() + 1 == static_cast<int64_t>(axes.size()) && axes == first.attributes.axes &&
             graph_.shape(node.inputs[0]) == graph_.shape(first.inputs[0]);
    });
  }

  // Moves the sums of kernel k into a loop.
  bool join_loop(size_t k) {
    size_t earliest = 0, latest = k;  // where everything that the sums read is there, and nothing yet needs them
    for (const Value read : reads_[k])
      if (const auto entry = kernel_of_.find(read); entry != kernel_of_.end())
        earliest = std::max(earliest, entry->second);
    const std::vector<Value>& sums = kernels_[k].members;
    const auto needs_sum = [&](size_t kernel) {
      return std::any_of(sums.begin(), sums.end(), [&](Value sum) { return reads_[kernel].contains(sum); });
    };
    while (latest + 1 < kernels_.size() && latest < k + kRecentKernels && !needs_sum(latest + 1)) ++latest;
    if (k > kRecentKernels) earliest = std::max(earliest, k - kRecentKernels);
    // The loop that computes what is added up, sooner than one that reads it.
    for (size_t loop = k; loop-- > earliest;)
      if (try_join_sums(loop, k)) return true;
    for (size_t loop = k + 1; loop <= latest; ++loop)
      if (try_join_sums(loop, k)) return true;
    return false;
  }

  bool try_join_sums(size_t loop, size_t k) {
    KernelRequest joined = kernels_[loop];
    if (joined.kind != KernelKind::kLoop || joined.rows.is_constant(1) || !has_reductions(graph_, joined)) return false;
    const std::vector<Value>& sums = kernels_[k].members;
    const Shape& shape = graph_.shape(graph_.node(sums.front()).inputs[0]);
    const Dim columns = element_count(graph_.shape(sums.front()));
    if (!(joined.columns == columns) || !(joined.rows * joined.columns == element_count(shape))) return false;
    for (const Value read : reads_[k])
      if (!reads_[loop].contains(read) && !joined.computes(read)) return false;
    const auto row_sums =
        static_cast<size_t>(std::count_if(joined.members.begin(), joined.members.end(), [&](Value member) {
          return op_info(graph_.node(member).op).kind == OpKind::kReduce &&
                 !reduces_trailing_axes(graph_, graph_.node(member));
        }));
    if (row_sums + sums.size() > kMostRowSums) return false;
    joined.members.insert(joined.members.end(), sums.begin(), sums.end());
    joined.stored.assign(joined.members.size(), true);
    if (find_obstacle(graph_, materialized_, joined, target_)) return false;
    for (const Value sum : sums) kernel_of_[sum] = loop;
    kernels_[loop] = std::move(joined);
    reads_[loop].insert(reads_[k].begin(), reads_[k].end());
    return true;
  }

  // Joins a kernel that comes before some of the inputs, by moving that kernel to the end, where nothing waits for it.
  bool join_later(size_t k, const KernelRequest& lone, const std::vector<Value>& reads) {
    KernelRequest joined = kernels_[k];
    if (joined.members.size() >= kMostMembers || !match_sizes(joined, lone) || !worthwhile(k, lone, reads))
      return false;
    for (size_t later = k + 1; later < kernels_.size(); ++later)
      for (const Value member : joined.members)
        if (reads_[later].contains(member)) return false;
    joined.members.push_back(lone.members.front());
    joined.stored.push_back(true);
    if (find_obstacle(graph_, materialized_, joined, target_)) return false;
    std::rotate(kernels_.begin() + static_cast<ptrdiff_t>(k), kernels_.begin() + static_cast<ptrdiff_t>(k) + 1,
                kernels_.end());
    std::rotate(reads_.begin() + static_cast<ptrdiff_t>(k), reads_.begin() + static_cast<ptrdiff_t>(k) + 1,
                reads_.end());
    kernels_.back() = std::move(joined);
    reads_.back().insert(reads.begin(), reads.end());
    for (size_t moved = k; moved < kernels_.size(); ++moved)
      for (const Value member : kernels_[moved].members) kernel_of_[member] = moved;
    return true;
  }

  // Gives `joined` the rows and columns that serve both; false when none do.
  bool match_sizes(KernelRequest& joined, const KernelRequest& lone) const {
    const Value member = lone.members.front();
    const bool reduces = op_info(graph_.node(member).op).kind == OpKind::kReduce;
    const Dim count = lone.rows * lone.columns;
    if (joined.kind == KernelKind::kDot)
      return !reduces && count == element_count(graph_.shape(joined.members.front()));
    if (joined.kind != KernelKind::kLoop) return false;
    if (reduces && !reduces_trailing_axes(graph_, graph_.node(member))) return false;
    const bool rows_fixed = has_reductions(graph_, joined);
    if (rows_fixed) {
      for (const Value other : joined.members)
        if (op_info(graph_.node(other).op).kind == OpKind::kReduce &&
            !reduces_trailing_axes(graph_, graph_.node(other)))
          return false;
      if (reduces) return joined.rows == lone.rows && joined.columns == lone.columns;
      return count == joined.rows * joined.columns || count == joined.rows;
    }
    if (!(joined.rows * joined.columns == count)) return false;
    if (reduces) {
      joined.rows = lone.rows;
      joined.columns = lone.columns;
    }
    return true;
  }

  bool worthwhile(size_t k, const KernelRequest& lone, const std::vector<Value>& reads) const {
    const KernelRequest& kernel = kernels_[k];
    const auto is_member = [&](Value value) {
      return std::find(kernel.members.begin(), kernel.members.end(), value) != kernel.members.end();
    };
    std::set<Value> all = reads_[k];
    all.insert(reads.begin(), reads.end());
    if (all.size() > kMostLeaves) return false;
    if (rules_.copies_alone && (is_copy(lone.members.front()) || is_copy(kernel.members.front()))) return false;
    if (kernel.kind == KernelKind::kDot &&
        costs_[static_cast<size_t>(lone.members.front().node)] > rules_.cheap_epilogue && !has_few_rows(kernel) &&
        !hides_epilogue(kernel, lone.members.front(), reads))
      return false;
    if (std::any_of(reads.begin(), reads.end(), is_member)) return true;
    if (kernel.kind == KernelKind::kDot) return false;
    // Reading the same large tensor once instead of twice; a number for each row takes a launch of its own otherwise.
    const Dim count = lone.rows * lone.columns;
    const bool is_of_rows = rules_.shares_launches && has_reductions(graph_, kernel) && count == kernel.rows;
    return std::any_of(reads.begin(), reads.end(), [&](Value read) {
      return reads_[k].contains(read) && (is_of_rows || element_count(graph_.shape(read)) == count);
    });
  }

  // Whether the GEMM can compute the value beside the next GEMMs: it has operands of 16 bits, and TMA
  // has boxes for its results (gemm_hopper.h).
  bool hides_epilogue(const KernelRequest& kernel, Value value, const std::vector<Value>& reads) const {
    if (fixed_order_ || !target_.is_gpu() || !target_.architecture().has_warpgroup_matrix) return false;
    constexpr size_t kMostTensors = 2;
    const Value product = kernel.members.front();
    const DType dtype = graph_.dtype(product);
    const bool has_whole_pieces = graph_.shape(product).back().divide_exactly(8).has_value();  // rows, of 16 bytes
    if (!has_whole_pieces || size_bytes(dtype) != 2 || graph_.dtype(value) != dtype ||
        size_bytes(graph_.dtype(graph_.node(product).inputs[0])) != 2 || kernel.members.size() >= kMostTensors ||
        costs_at_least(value, kHiddenEpilogue))
      return false;
    // Another tensor that is read where results are stored costs as much as is saved.
    const Dim count = element_count(graph_.shape(product));
    return std::none_of(reads.begin(), reads.end(),
                        [&](Value read) { return read != product && element_count(graph_.shape(read)) == count; });
  }

  // Of a GEMM: reading its weights takes longer than whatever is computed of the result.
  bool has_few_rows(const KernelRequest& kernel) const {
    constexpr int64_t kFewRows = 16;
    const Shape& shape = graph_.shape(kernel.members.front());
    const Dim& rows = shape[shape.size() - 2];
    return rows.is_constant() && rows.constant() <= kFewRows;
  }

  bool is_copy(Value value) const {
    return graph_.node(value).op == Op::kPermute &&
           materialized_.contains(below_movement(graph_.node(value).inputs[0]));
  }

  // Operands whose index arithmetic cannot be had for free while packing are stored beforehand.
  void make_operands_direct(const Node& node) {
    const Value result{static_cast<int32_t>(&node - graph_.nodes().data()), 0};
    const KernelRequest request = lone_request(node, {result});
    auto obstacle = find_obstacle(graph_, materialized_, request, target_);
    for (; obstacle && obstacle->kind == Obstacle::Kind::kOperandAcrossK;
         obstacle = find_obstacle(graph_, materialized_, request, target_))
      materialized_.insert(obstacle->value);
    if (!obstacle) return;
    for (const Value input : node.inputs) materialized_.insert(input);
  }

  // A member is written when anything but its own kernel needs it.
  void decide_stores() {
    std::set<Value> wanted(graph_.outputs.begin(), graph_.outputs.end());
    for (const Assignment& assignment : graph_.assignments) wanted.insert(assignment.value);
    for (size_t k = 0; k < kernels_.size(); ++k)
      for (const Value member : kernels_[k].members)
        for (const Value read : leaves(member))
          if (const auto entry = kernel_of_.find(read); entry != kernel_of_.end() && entry->second != k)
            wanted.insert(read);
    for (KernelRequest& kernel : kernels_) {
      if (kernel.kind != KernelKind::kLoop && kernel.kind != KernelKind::kDot) continue;
      for (size_t i = 0; i < kernel.members.size(); ++i) kernel.stored[i] = wanted.contains(kernel.members[i]);
      // A later pass over the row may need a value that no register keeps.
      if (find_obstacle(graph_, materialized_, kernel, target_)) kernel.stored.assign(kernel.members.size(), true);
    }
  }

  // A GEMM of few rows whose operand a loop with sums computes, for it alone, computes it in each block: a norm
  // before a projection of a text's next token. The launch would take longer than that.
  void compute_rows_in_gemms() {
    for (size_t k = 0; k < kernels_.size(); ++k) {
      if (kernels_[k].kind != KernelKind::kDot || !has_few_rows(kernels_[k])) continue;
      Value operand = graph_.node(kernels_[k].members.front()).inputs[0];
      while (!materialized_.contains(operand) && graph_.node(operand).op == Op::kReshape)
        operand = graph_.node(operand).inputs[0];
      const auto entry = kernel_of_.find(operand);
      if (entry == kernel_of_.end() || !may_compute_rows(k, entry->second, operand)) continue;
      const size_t loop = entry->second;
      KernelRequest joined = kernels_[k];
      joined.row_members = kernels_[loop].members;
      joined.rows = kernels_[loop].rows;
      joined.columns = kernels_[loop].columns;
      if (find_obstacle(graph_, materialized_, joined, target_)) continue;
      kernels_[k] = std::move(joined);
      reads_[k].erase(operand);
      reads_[k].insert(reads_[loop].begin(), reads_[loop].end());
      kernels_.erase(kernels_.begin() + static_cast<ptrdiff_t>(loop));
      reads_.erase(reads_.begin() + static_cast<ptrdiff_t>(loop));
      for (auto& [value, kernel] : kernel_of_)
        if (kernel > loop) --kernel;
      --k;
    }
  }

  // Whether `loop` is there for kernel k's first operand alone and stores nothing else.
  bool may_compute_rows(size_t k, size_t loop, Value operand) const {
    const KernelRequest& request = kernels_[loop];
    if (loop >= k || request.kind != KernelKind::kLoop || !has_reductions(graph_, request)) return false;
    for (size_t i = 0; i < request.members.size(); ++i)
      if (request.stored[i] != (request.members[i] == operand)) return false;
    for (size_t other = 0; other < kernels_.size(); ++other)
      if (other != k && reads_[other].contains(operand)) return false;
    const std::vector<Value>& members = kernels_[k].members;
    if (depends_on(graph_.node(members.front()).inputs[1], operand) ||
        std::any_of(members.begin() + 1, members.end(), [&](Value member) {
          const std::vector<Value> read = leaves(member);
          return std::find(read.begin(), read.end(), operand) != read.end();
        }))
      return false;
    return std::none_of(graph_.outputs.begin(), graph_.outputs.end(),
                        [&](Value output) { return output == operand; }) &&
           std::none_of(graph_.assignments.begin(), graph_.assignments.end(),
                        [&](const Assignment& assignment) { return assignment.value == operand; });
  }

  const Graph& graph_;
  const Target& target_;
  const bool fixed_order_;
  const FusionRules& rules_;
  std::vector<bool> needed_;
  std::vector<std::vector<int>> uses_;
  MaterializedValues materialized_;
  bool is_stage_;
  std::vector<int> costs_;
  std::vector<bool> feeds_reduction_;
  std::vector<KernelRequest> kernels_;
  std::vector<std::set<Value>> reads_;
  std::map<Value, size_t> kernel_of_;
};

}  // namespace

FusionResult fuse(const Graph& graph, const Target& target, bool fixed_order) {
  return Fuser(graph, target, fixed_order).run();
}

}  // namespace causeway::program
