#include "causeway/codegen/x86/loop_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "causeway/codegen/expressions/loop_nest.h"
#include "causeway/graph/op.h"

namespace causeway::codegen {
namespace {

constexpr int64_t kElementsPerTask = 32768;
constexpr int64_t kRowsOfUnknownLength = 8;  // of a task
// Loops without rows, and rows from so many elements on, ask ahead: where they compute much, the processor reaches too
// little ahead by itself.
constexpr int64_t kLongRow = 4096;

CpuLoopPlan::Reduction plan_reduction(const Node& node, bool fixed_order) {
  using enum CpuLoopPlan::Reduction;
  const bool floating = is_float(node.outputs[0].dtype);
  if (node.op == Op::kReduceMax) return floating ? kLargestKey : kLargest;
  // How the compiler would reorder by itself depends on what else is in the loop.
  return floating && !fixed_order ? kReassociated : kInOrder;
}

// By phase; what an earlier one has asked for is left out.
std::vector<std::vector<CpuLoopPlan::Prefetch>> plan_prefetches(const LoopPlan& plan) {
  const auto innermost = static_cast<int>(plan.axes.size()) - 1;
  std::vector<std::set<std::pair<Value, Index>>> reads;
  for (const LoopLoad& load : plan.loads) {
    if (static_cast<size_t>(load.phase) >= reads.size()) reads.resize(static_cast<size_t>(load.phase) + 1);
    reads[static_cast<size_t>(load.phase)].emplace(load.value, load.at);
  }
  std::set<std::pair<Value, Index>> known;
  std::vector<std::vector<CpuLoopPlan::Prefetch>> prefetches(reads.size());
  for (size_t phase = 0; phase < reads.size(); ++phase)
    for (const auto& [value, at] : reads[phase]) {
      const std::optional<Index> first = where_it_begins(at, innermost);
      // Variables after those of the axes are computed where they are needed.
      if (first &&
          std::ranges::all_of(first->terms, [&](const Index::Term& term) { return term.variable <= innermost; }) &&
          known.emplace(value, at).second)
        prefetches[phase].push_back({value, *first});
    }
  return prefetches;
}

}  // namespace

CpuLoopPlan plan_cpu_loop(const KernelInputs& inputs) {
  LoopNest nest(inputs);
  nest.cut_axes();
  CpuLoopPlan plan;
  nest.describe(plan);
  const KernelRequest& request = inputs.request;
  for (const LoopNest::Axis& axis : nest.axes())
    plan.axes.push_back({axis.extent, axis.is_row ? AxisMapping::kGrid : AxisMapping::kSerial});
  // Asked to vectorize, the compiler would reorder sums too.
  if (!(request.fixed_order && plan.has_reductions())) plan.axes.back().mapping = AxisMapping::kVector;
  plan.is_flat = !plan.has_reductions() && plan.axes.size() == 1;
  if (plan.is_flat) {
    plan.count = request.rows * request.columns;
    plan.per_task = kElementsPerTask;
  } else {
    Dim columns(1);
    for (const LoopAxis& axis : plan.axes) (axis.is_row() ? plan.count : columns) *= axis.extent;
    plan.per_task = columns.is_constant()
                        ? std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, columns.constant()))
                        : kRowsOfUnknownLength;
  }
  for (size_t i = 0; i < plan.members.size(); ++i)
    if (plan.members[i].role == LoopRole::kReduction)
      plan.reductions[i] = plan_reduction(inputs.graph.node(request.members[i]), request.fixed_order);
  const Dim& innermost = plan.axes.back().extent;
  if (plan.is_flat || (innermost.is_constant() && innermost.constant() >= kLongRow))
    plan.prefetches = plan_prefetches(plan);
  return plan;
}

}  // namespace causeway::codegen
