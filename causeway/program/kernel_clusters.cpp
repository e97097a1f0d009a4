#include "causeway/program/kernel_clusters.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "causeway/graph/op.h"
#include "causeway/passes/joined_gradients.h"
#include "causeway/program/rounded_gemm.h"

namespace causeway::program {
namespace {

constexpr int kHiddenEpilogue = 30;  // of what a GEMM computes while the next tile is multiplied, operations an element
constexpr size_t kMostMembers = 12;
constexpr size_t kMostReads = 24;
constexpr size_t kMostColumnMembers = 4;  // of a kernel that reduces columns: each has registers for every lane

// A value, or the outputs of a node, on the way to a kernel.
struct Candidate {
  KernelRequest request;  // of a kernel of its own
  std::set<Value> reads;

  Value value() const { return request.members.front(); }
  Dim count() const { return request.rows * request.columns; }
};

class Clusterer {
 public:
  Clusterer(const FusionProblem& problem, const Materialization& materialization)
      : problem_(problem),
        graph_(problem.graph),
        rules_(problem.rules),
        materialization_(materialization),
        materialized_(materialization.values),
        last_use_(problem.graph.nodes().size(), -1) {
    for (size_t i = 0; i < graph_.nodes().size(); ++i)
      if (problem_.needed[i] && graph_.nodes()[i].op != Op::kPermute)
        for (const Value input : graph_.nodes()[i].inputs)
          last_use_[static_cast<size_t>(input.node)] = static_cast<int32_t>(i);
  }

  FusedKernels run() {
    for (size_t i = 0; i < graph_.nodes().size(); ++i)
      if (problem_.needed[i] && graph_.nodes()[i].op != Op::kInput) place(static_cast<int32_t>(i));
    return std::move(kernels_);
  }

 private:
  void place(int32_t node_index) {
    std::vector<Value> members;
    for (size_t output = 0; output < graph_.node(node_index).outputs.size(); ++output) {
      const Value value{node_index, static_cast<int32_t>(output)};
      if (materialized_.contains(value)) members.push_back(value);
    }
    if (members.empty()) return;
    const std::vector<Value> reads = values_read(graph_, materialized_, members.front());
    Candidate candidate{lone_request(problem_, node_index, std::move(members)), {reads.begin(), reads.end()}};
    if (candidate.request.kind == KernelKind::kLoop && join_attention_gradient(candidate.value())) return;
    if (rules_.stores_both_orders && join_transposed(candidate)) return;
    if (candidate.request.kind == KernelKind::kLoop && join_recent(candidate)) return;
    if (rules_.joins_column_sums && join_recent_column_sums(candidate)) return;
    kernels_.append(std::move(candidate.request), std::move(candidate.reads));
  }

  size_t first_recent() const { return kernels_.size() > kRecentKernels ? kernels_.size() - kRecentKernels : 0; }
  // Kernels before this one do not have all inputs ready.
  size_t first_ready(const Candidate& candidate) const { return kernels_.last_writer(candidate.reads).value_or(0); }

  bool join_recent(const Candidate& candidate) {
    const size_t ready = first_ready(candidate), recent = first_recent();
    // A number of each row goes to the loop over these rows, sooner than to one over such numbers, which is there for
    // what comes last: other values of the loop's may wait for it.
    for (size_t k = std::max(ready, recent); rules_.shares_launches && k < kernels_.size(); ++k)
      if (is_number_of_rows(kernels_.request(k), candidate) && join(k, candidate)) return true;
    for (size_t k = kernels_.size(); k-- > std::max(ready, recent);)
      if (join(k, candidate)) return true;
    if (ready < recent && rounds_gemm(problem_, materialized_, candidate.value()) && join(ready, candidate))
      return true;
    for (size_t k = std::min(ready, kernels_.size()); k-- > recent;)
      if (join_later(k, candidate)) return true;
    return false;
  }

  bool is_number_of_rows(const KernelRequest& kernel, const Candidate& candidate) const {
    return kernel.kind == KernelKind::kLoop && !is_sum(candidate.value()) && !kernel.rows.is_constant(1) &&
           !kernel.columns.is_constant(1) && has_reductions(graph_, kernel) && candidate.count() == kernel.rows;
  }

  bool join_recent_column_sums(const Candidate& candidate) {
    for (size_t k = kernels_.size(); k-- > std::max(first_ready(candidate), first_recent());)
      if (join_column_reduce(k, candidate)) return true;
    return false;
  }

  // Gradients that are put side by side, for nothing else, are stored so.
  bool join_attention_gradient(Value value) {
    const std::optional<passes::JoinedGradients> joined = passes::find_joined_gradients(graph_, value);
    if (!joined) return false;
    const auto is_step = [&](Value step) { return problem_.uses(step) == 1 && !materialized_.contains(step); };
    if (!std::all_of(joined->between.begin(), joined->between.end(), is_step)) return false;
    for (const passes::JoinedGradient& part : joined->parts)
      if (problem_.uses(part.gradient) != 1) return false;
    const size_t k = kernels_.kernel_of(joined->parts.front().gradient).value();
    KernelRequest request = kernels_.request(k);
    request.stored.assign(request.members.size(), false);
    request.members.push_back(value);
    request.stored.push_back(true);
    kernels_.replace(k, std::move(request), kernels_.reads(k));
    return true;
  }

  // The transpose of an 8-bit matrix is stored by the kernel that computes the matrix, however far back: a read of it
  // less. GEMMs of training want the matrix soon and its transpose late, so that the one is kept in place of the other;
  // where the matrix is read late too, both would take memory until then.
  bool join_transposed(const Candidate& candidate) {
    const Node& node = graph_.node(candidate.value());
    const std::optional<size_t> k = node.inputs.empty() ? std::nullopt : kernels_.kernel_of(node.inputs[0]);
    if (!k || kernels_.request(*k).kind != KernelKind::kLoop || size_bytes(node.outputs[0].dtype) != 1) return false;
    KernelRequest request = kernels_.request(*k);
    if (has_reductions(graph_, request)) return false;
    request.members.push_back(candidate.value());
    request.stored.push_back(true);
    if (!transposed_member(graph_, request, candidate.value()) || request.members.size() > kMostMembers) return false;
    const int32_t computed = node.inputs[0].node, used = last_use_[static_cast<size_t>(computed)];
    if (*k < first_recent() && used - computed > candidate.value().node - used) return false;
    request.rows = graph_.shape(node.inputs[0])[0];
    request.columns = graph_.shape(node.inputs[0])[1];
    if (find_obstacle(graph_, materialized_, request, problem_.target)) return false;
    kernels_.replace(*k, std::move(request), reads_with(*k, candidate));
    return true;
  }

  // Kernel k with the candidate as one more member; nothing where that is no kernel or gains nothing.
  std::optional<KernelRequest> with_member(size_t k, const Candidate& candidate) const {
    KernelRequest request = kernels_.request(k);
    if (request.members.size() >= kMostMembers || !match_sizes(request, candidate) || !is_worthwhile(k, candidate))
      return std::nullopt;
    request.members.push_back(candidate.value());
    request.stored.push_back(true);
    if (find_obstacle(graph_, materialized_, request, problem_.target)) return std::nullopt;
    return request;
  }

  std::set<Value> reads_with(size_t k, const Candidate& candidate) const {
    std::set<Value> reads = kernels_.reads(k);
    reads.insert(candidate.reads.begin(), candidate.reads.end());
    return reads;
  }

  bool join(size_t k, const Candidate& candidate) {
    std::optional<KernelRequest> joined = with_member(k, candidate);
    if (!joined) return false;
    kernels_.replace(k, *std::move(joined), reads_with(k, candidate));
    return true;
  }

  // Joins a kernel that comes before some of the inputs, by moving that kernel to the end, where nothing waits for it.
  bool join_later(size_t k, const Candidate& candidate) {
    const std::vector<Value>& members = kernels_.request(k).members;
    for (size_t later = k + 1; later < kernels_.size(); ++later)
      if (std::ranges::any_of(members, [&](Value member) { return kernels_.reads(later, member); })) return false;
    std::optional<KernelRequest> joined = with_member(k, candidate);
    if (!joined) return false;
    std::set<Value> reads = reads_with(k, candidate);
    kernels_.move_to_end(k);
    kernels_.replace(kernels_.size() - 1, *std::move(joined), std::move(reads));
    return true;
  }

  bool is_sum(Value value) const { return op_info(graph_.node(value).op).kind == OpKind::kReduce; }

  // A column sum and the values that are computed from the same tensors, or several such sums, in one pass over them.
  bool join_column_reduce(size_t k, const Candidate& candidate) {
    const KernelRequest& kernel = kernels_.request(k);
    if (kernel.members.size() >= kMostColumnMembers) return false;
    for (const KernelRequest* request : {&kernel, &candidate.request})
      if (request->kind != KernelKind::kColumnReduce && request->kind != KernelKind::kLoop) return false;
    std::vector<Value> members = kernel.members;
    // The first member says what kind of kernel it is.
    members.insert(is_sum(candidate.value()) ? members.begin() : members.end(), candidate.value());
    const Node& first = graph_.node(members.front());
    if (!is_column_sum(members.front())) return false;
    for (const Value member : members) {
      const bool fits = is_sum(member) ? is_sum_beside(member, first) : is_value_beside(member, first, k, candidate);
      if (!fits || candidate.reads.contains(member) || kernels_.reads(k, member)) return false;
    }
    // One of the two reads nothing more than the other.
    const std::set<Value>&reads = kernels_.reads(k), &others = candidate.reads;
    if (others.empty() || !(std::ranges::includes(reads, others) || std::ranges::includes(others, reads))) return false;
    KernelRequest joined;
    joined.fixed_order = problem_.fixed_order;
    joined.kind = KernelKind::kColumnReduce;
    joined.members = std::move(members);
    joined.stored.assign(joined.members.size(), true);
    kernels_.replace(k, std::move(joined), reads_with(k, candidate));
    return true;
  }

  // An f32 sum over neighbouring axes, the last one not among them.
  bool is_column_sum(Value value) const {
    const Node& node = graph_.node(value);
    if (node.op != Op::kReduceSum || graph_.dtype(value) != DType::kF32) return false;
    const std::vector<int64_t>& axes = node.attributes.axes;
    return axes.back() - axes.front() + 1 == static_cast<int64_t>(axes.size()) && !reduces_trailing_axes(graph_, node);
  }

  bool is_sum_beside(Value sum, const Node& first) const {
    const Node& node = graph_.node(sum);
    return node.op == Op::kReduceSum && graph_.dtype(sum) == DType::kF32 &&
           node.attributes.axes == first.attributes.axes &&
           graph_.shape(node.inputs[0]) == graph_.shape(first.inputs[0]);
  }

  bool is_value_beside(Value value, const Node& first, size_t k, const Candidate& candidate) const {
    // What a reduction of rows reads as well belongs to that kernel.
    if (!(element_count(graph_.shape(value)) == element_count(graph_.shape(first.inputs[0]))) || is_copy(value) ||
        materialization_.feeds_reduction[static_cast<size_t>(value.node)])
      return false;
    // A value that takes the place of one it is computed from keeps a kernel that may overwrite it.
    return std::ranges::none_of(graph_.assignments, [&](const Assignment& assignment) {
      return assignment.value == value &&
             (kernels_.reads(k, assignment.target) || candidate.reads.contains(assignment.target));
    });
  }

  // Gives `joined` the rows and columns that serve both; false when none do.
  bool match_sizes(KernelRequest& joined, const Candidate& candidate) const {
    const KernelRequest& lone = candidate.request;
    const bool reduces = is_sum(candidate.value());
    if (joined.kind == KernelKind::kDot)
      return !reduces && candidate.count() == element_count(graph_.shape(joined.members.front()));
    if (joined.kind != KernelKind::kLoop) return false;
    if (reduces && !reduces_trailing_axes(graph_, graph_.node(candidate.value()))) return false;
    const bool rows_fixed = has_reductions(graph_, joined);
    if (rows_fixed) {
      for (const Value other : joined.members)
        if (is_sum(other) && !reduces_trailing_axes(graph_, graph_.node(other))) return false;
      if (reduces) return joined.rows == lone.rows && joined.columns == lone.columns;
      return candidate.count() == joined.rows * joined.columns || candidate.count() == joined.rows;
    }
    if (!(joined.rows * joined.columns == candidate.count())) return false;
    if (reduces) {
      joined.rows = lone.rows;
      joined.columns = lone.columns;
    }
    return true;
  }

  bool is_worthwhile(size_t k, const Candidate& candidate) const {
    const KernelRequest& kernel = kernels_.request(k);
    if (reads_with(k, candidate).size() > kMostReads) return false;
    if (rules_.copies_alone && (is_copy(candidate.value()) || is_copy(kernel.members.front()))) return false;
    if (kernel.kind == KernelKind::kDot && !takes_epilogue(kernel, candidate)) return false;
    if (std::ranges::any_of(kernel.members, [&](Value member) { return candidate.reads.contains(member); }))
      return true;
    if (kernel.kind == KernelKind::kDot) return false;
    // Reading the same large tensor once instead of twice; a number for each row takes a launch of its own otherwise.
    const Dim count = candidate.count();
    const bool is_of_rows = rules_.shares_launches && has_reductions(graph_, kernel) && count == kernel.rows;
    return std::ranges::any_of(candidate.reads, [&](Value read) {
      return kernels_.reads(k, read) && (is_of_rows || element_count(graph_.shape(read)) == count);
    });
  }

  // Whether the GEMM computes the value in its epilogue without taking longer than is saved.
  bool takes_epilogue(const KernelRequest& gemm, const Candidate& candidate) const {
    const RecomputeCosts& costs = materialization_.costs;
    if (costs.of(candidate.value()) <= rules_.cheap_epilogue || is_skinny_gemm(graph_, gemm)) return true;
    if (!hides_epilogue(graph_, gemm, candidate.value(), problem_.target) ||
        costs.is_at_least(candidate.value(), kHiddenEpilogue, materialized_))
      return false;
    // Another tensor that is read where results are stored costs as much as is saved.
    const Value result = gemm.members.front();
    const Dim count = element_count(graph_.shape(result));
    return std::ranges::none_of(
        candidate.reads, [&](Value read) { return read != result && element_count(graph_.shape(read)) == count; });
  }

  bool is_copy(Value value) const {
    const Node& node = graph_.node(value);
    return node.op == Op::kPermute && materialized_.contains(below_movement(graph_, materialized_, node.inputs[0]));
  }

  const FusionProblem& problem_;
  const Graph& graph_;
  const FusionRules& rules_;
  const Materialization& materialization_;
  const MaterializedValues& materialized_;
  std::vector<int32_t> last_use_;  // by node, the last one that it is an input of, permutations apart
  FusedKernels kernels_;
};

}  // namespace

FusedKernels cluster_values(const FusionProblem& problem, const Materialization& materialization) {
  return Clusterer(problem, materialization).run();
}

}  // namespace causeway::program
