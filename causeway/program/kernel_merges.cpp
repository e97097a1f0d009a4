#include "causeway/program/kernel_merges.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "causeway/graph/op.h"
#include "causeway/program/kernel_clusters.h"
#include "causeway/program/kernel_generation.h"

namespace causeway::program {
namespace {

constexpr size_t kMostColumnSums = 4;  // of a loop: each has registers for all of a thread's columns

class ColumnSumMerger {
 public:
  ColumnSumMerger(const FusionProblem& problem, const MaterializedValues& materialized, FusedKernels kernels)
      : problem_(problem), graph_(problem.graph), materialized_(materialized), kernels_(std::move(kernels)) {}

  FusedKernels run() {
    for (size_t k = 0; k < kernels_.size();) {
      if (has_only_column_sums(kernels_.request(k)) && merge(k)) {
        kernels_.erase(k);
      } else {
        ++k;
      }
    }
    return std::move(kernels_);
  }

 private:
  // Whether all members are f32 sums over the leading axes of tensors of one shape.
  bool has_only_column_sums(const KernelRequest& request) const {
    if (request.kind != KernelKind::kColumnReduce) return false;
    const Node& first = graph_.node(request.members.front());
    return std::ranges::all_of(request.members, [&](Value member) {
      const Node& node = graph_.node(member);
      const std::vector<int64_t>& axes = node.attributes.axes;
      return node.op == Op::kReduceSum && graph_.dtype(member) == DType::kF32 &&
             axes.back() + 1 == static_cast<int64_t>(axes.size()) && axes == first.attributes.axes &&
             graph_.shape(node.inputs[0]) == graph_.shape(first.inputs[0]);
    });
  }

  // Puts the sums of kernel k into a loop, too.
  bool merge(size_t k) {
    // Where everything that the sums read is there, and nothing yet needs them.
    size_t earliest = kernels_.last_writer(kernels_.reads(k)).value_or(0), latest = k;
    const auto needs_sum = [&](size_t kernel) {
      return std::ranges::any_of(kernels_.request(k).members, [&](Value sum) { return kernels_.reads(kernel, sum); });
    };
    while (latest + 1 < kernels_.size() && latest < k + kRecentKernels && !needs_sum(latest + 1)) ++latest;
    if (k > kRecentKernels) earliest = std::max(earliest, k - kRecentKernels);
    // The loop that computes what is added up, sooner than one that reads it.
    for (size_t loop = k; loop-- > earliest;)
      if (merge_into(loop, k)) return true;
    for (size_t loop = k + 1; loop <= latest; ++loop)
      if (merge_into(loop, k)) return true;
    return false;
  }

  bool merge_into(size_t loop, size_t k) {
    KernelRequest merged = kernels_.request(loop);
    if (merged.kind != KernelKind::kLoop || merged.rows.is_constant(1) || !has_reductions(graph_, merged)) return false;
    const std::vector<Value>& sums = kernels_.request(k).members;
    const Shape& shape = graph_.shape(graph_.node(sums.front()).inputs[0]);
    const Dim columns = element_count(graph_.shape(sums.front()));
    // Elementwise values alone have one row of all elements, which is not how the sums walk over theirs.
    if (!(merged.columns == columns) || !(merged.rows * merged.columns == element_count(shape))) return false;
    for (const Value read : kernels_.reads(k))
      if (!kernels_.reads(loop, read) && !merged.computes(read)) return false;
    const auto column_sums = static_cast<size_t>(std::ranges::count_if(merged.members, [&](Value member) {
      const Node& node = graph_.node(member);
      return op_info(node.op).kind == OpKind::kReduce && !reduces_trailing_axes(graph_, node);
    }));
    if (column_sums + sums.size() > kMostColumnSums) return false;
    merged.members.insert(merged.members.end(), sums.begin(), sums.end());
    merged.stored.assign(merged.members.size(), true);
    if (find_obstacle(graph_, materialized_, merged, problem_.target)) return false;
    std::set<Value> reads = kernels_.reads(loop);
    reads.insert(kernels_.reads(k).begin(), kernels_.reads(k).end());
    kernels_.replace(loop, std::move(merged), std::move(reads));
    return true;
  }

  const FusionProblem& problem_;
  const Graph& graph_;
  const MaterializedValues& materialized_;
  FusedKernels kernels_;
};

class RowMerger {
 public:
  RowMerger(const FusionProblem& problem, const MaterializedValues& materialized, FusedKernels kernels)
      : problem_(problem), graph_(problem.graph), materialized_(materialized), kernels_(std::move(kernels)) {}

  FusedKernels run() {
    for (size_t k = 0; k < kernels_.size(); ++k) {
      const KernelRequest& gemm = kernels_.request(k);
      if (gemm.kind != KernelKind::kDot) continue;
      Value operand = graph_.node(gemm.members.front()).inputs[0];
      while (!materialized_.contains(operand) && graph_.node(operand).op == Op::kReshape)
        operand = graph_.node(operand).inputs[0];
      const std::optional<size_t> loop = kernels_.kernel_of(operand);
      if (!loop || !serves_only(*loop, k, operand)) continue;
      KernelRequest merged = gemm;
      merged.row_members = kernels_.request(*loop).members;
      merged.rows = kernels_.request(*loop).rows;
      merged.columns = kernels_.request(*loop).columns;
      if (find_obstacle(graph_, materialized_, merged, problem_.target)) continue;
      std::set<Value> reads = kernels_.reads(k);
      reads.erase(operand);
      reads.insert(kernels_.reads(*loop).begin(), kernels_.reads(*loop).end());
      kernels_.replace(k, std::move(merged), std::move(reads));
      kernels_.erase(*loop);
      --k;
    }
    return std::move(kernels_);
  }

 private:
  // Whether `loop` is there for the first operand of GEMM k alone and stores nothing else.
  bool serves_only(size_t loop, size_t k, Value operand) const {
    const KernelRequest& request = kernels_.request(loop);
    if (loop >= k || request.kind != KernelKind::kLoop || !has_reductions(graph_, request)) return false;
    for (size_t i = 0; i < request.members.size(); ++i)
      if (request.stored[i] != (request.members[i] == operand)) return false;
    for (size_t other = 0; other < kernels_.size(); ++other)
      if (other != k && kernels_.reads(other, operand)) return false;
    const std::vector<Value>& members = kernels_.request(k).members;
    if (depends_on(graph_, materialized_, graph_.node(members.front()).inputs[1], operand) ||
        std::any_of(members.begin() + 1, members.end(), [&](Value member) {
          const std::vector<Value> read = values_read(graph_, materialized_, member);
          return std::find(read.begin(), read.end(), operand) != read.end();
        }))
      return false;
    return std::ranges::none_of(graph_.outputs, [&](Value output) { return output == operand; }) &&
           std::ranges::none_of(graph_.assignments,
                                [&](const Assignment& assignment) { return assignment.value == operand; });
  }

  const FusionProblem& problem_;
  const Graph& graph_;
  const MaterializedValues& materialized_;
  FusedKernels kernels_;
};

}  // namespace

FusedKernels merge_column_sums(const FusionProblem& problem, const MaterializedValues& materialized,
                               FusedKernels kernels) {
  return ColumnSumMerger(problem, materialized, std::move(kernels)).run();
}

FusedKernels choose_stored_members(const FusionProblem& problem, const MaterializedValues& materialized,
                                   FusedKernels kernels) {
  const Graph& graph = problem.graph;
  std::set<Value> wanted(graph.outputs.begin(), graph.outputs.end());
  for (const Assignment& assignment : graph.assignments) wanted.insert(assignment.value);
  for (size_t k = 0; k < kernels.size(); ++k)
    for (const Value member : kernels.request(k).members)
      for (const Value read : values_read(graph, materialized, member))
        if (const std::optional<size_t> writer = kernels.kernel_of(read); writer && *writer != k) wanted.insert(read);
  std::vector<std::vector<bool>> stored(kernels.size());
  for_each_kernel(kernels.size(), [&](size_t k) {
    KernelRequest request = kernels.request(k);
    if (request.kind != KernelKind::kLoop && request.kind != KernelKind::kDot) return;
    for (size_t i = 0; i < request.members.size(); ++i) request.stored[i] = wanted.contains(request.members[i]);
    // A later pass over the row may need a value that no register keeps.
    if (find_obstacle(graph, materialized, request, problem.target))
      request.stored.assign(request.members.size(), true);
    stored[k] = std::move(request.stored);
  });
  for (size_t k = 0; k < kernels.size(); ++k)
    if (!stored[k].empty()) kernels.set_stored(k, std::move(stored[k]));
  return kernels;
}

FusedKernels merge_rows_into_gemms(const FusionProblem& problem, const MaterializedValues& materialized,
                                   FusedKernels kernels) {
  return RowMerger(problem, materialized, std::move(kernels)).run();
}

}  // namespace causeway::program
