#include "causeway/codegen/gpu/column_reduce_plan.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/codegen/divide_up.h"
#include "causeway/codegen/expressions/kernel_writer.h"
#include "causeway/codegen/gpu/loops.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/graph/op.h"

namespace causeway::codegen {
namespace {

// Enough to keep a large GPU busy; constants, so that devices agree in results. Blocks that also store elements run
// longer and fewer at a time, and the last of them are not to leave most of the GPU idle: five rounds of three for each
// of so many multiprocessors, a few less where columns do not divide them.
constexpr int64_t kManyBlocks = 512, kManyStoringBlocks = 5 * 3 * device::kMeasuredUnits;
constexpr int kStoringBlocksPerUnit = 3;  // registers for less would leave too few loads under way
constexpr int64_t kLeastSteps = 8;        // of a thread in one part
constexpr int64_t kPartsOfUnknownColumns = 32;

bool is_reduced(const Node& node, size_t axis) {
  return std::binary_search(node.attributes.axes.begin(), node.attributes.axes.end(), static_cast<int64_t>(axis));
}

// Walks over the axes, to learn where to cut them.
class ColumnReducePlanner : public ReadContext {
 public:
  explicit ColumnReducePlanner(const KernelInputs& inputs)
      : graph_(inputs.graph), materialized_(inputs.materialized), request_(inputs.request) {}

  GpuColumnReducePlan plan() {
    for (size_t i = 0; i < request_.members.size(); ++i)
      (op_info(graph_.node(request_.members[i]).op).kind == OpKind::kReduce ? plan_.reductions : plan_.elements)
          .push_back(i);
    plan_.index_type = gpu_index_type(graph_, materialized_, request_);
    measure(graph_.node(request_.members[plan_.reductions.front()]));
    CAUSEWAY_CHECK(plan_.adjacent || plan_.elements.empty(), "elements are stored in the order of the input");
    plan_.axes = {
        {plan_.outer, AxisMapping::kGrid}, {plan_.reduced, AxisMapping::kTeam}, {plan_.inner, AxisMapping::kBlock}};
    cut_axes();
    cut_lanes();
    cut_axes();
    plan_threads();
    return plan_;
  }

  bool is_stored(Value value) override { return materialized_.contains(value); }
  std::optional<ElementValue> variable(Value, const Index&) override { return std::nullopt; }
  void want_split(int variable, const Dim& inner) override {
    const auto axis = static_cast<size_t>(variable);
    if (axis < plan_.axes.size() && !wanted_split_ && !plan_.axes[axis].is_lane()) wanted_split_ = {axis, inner};
  }

 private:
  void measure(const Node& node) {
    const Shape& shape = graph_.shape(node.inputs[0]);
    size_t trailing = shape.size();
    while (trailing > 0 && !is_reduced(node, trailing - 1)) plan_.inner *= shape[--trailing];
    for (size_t i = 0; i < trailing; ++i) (is_reduced(node, i) ? plan_.reduced : plan_.outer) *= shape[i];
    const std::vector<int64_t>& axes = node.attributes.axes;
    plan_.adjacent = axes.back() - axes.front() + 1 == static_cast<int64_t>(axes.size());
  }

  // Until index arithmetic need not divide, as far as that is possible.
  void cut_axes() {
    do {
      wanted_split_.reset();
      variables_ = variables_of(plan_);
      ElementWalk walk(graph_, *this, variables_);
      if (plan_.axes.back().is_lane()) walk.set_lanes(plan_.lane_variable(), plan_.lanes);
      const Value first = request_.members[plan_.reductions.front()];
      const ElementPosition position = column_reduce_position(plan_, graph_, first, walk);
      for (const size_t element : plan_.elements) walk.define(request_.members[element], position);
      for (const size_t reduction : plan_.reductions)
        walk.compute(graph_.node(request_.members[reduction]).inputs[0], position);
    } while (cut_wanted_axis());
  }

  bool cut_wanted_axis() {
    if (!wanted_split_) return false;
    const auto [axis, inner] = *wanted_split_;
    const LoopAxis cut = plan_.axes[axis];
    plan_.axes[axis] = {inner, cut.mapping};
    plan_.axes.insert(plan_.axes.begin() + static_cast<ptrdiff_t>(axis),
                      {*cut.extent.divide_exactly(inner), cut.mapping});
    return true;
  }

  void cut_lanes() {
    const Dim extent = plan_.axes.back().extent;
    plan_.lanes = gpu_lanes(graph_, materialized_, request_, plan_.outer * plan_.reduced * plan_.inner, extent);
    plan_.axes.back().extent = *extent.divide_exactly(plan_.lanes);
    plan_.axes.push_back({Dim(plan_.lanes), AxisMapping::kLane});
    plan_.vectors = *plan_.inner.divide_exactly(plan_.lanes);
  }

  // How threads and parts share the work; it depends on sizes only, and in a fixed order on none.
  void plan_threads() {
    const Dim &outer = plan_.outer, &reduced = plan_.reduced, &vectors = plan_.vectors;
    if (vectors.is_constant() && !request_.fixed_order)
      while (plan_.block_columns > 1 && plan_.block_columns / 2 >= vectors.constant()) plan_.block_columns /= 2;
    plan_.block_rows = kLoopThreads / plan_.block_columns;
    if (outer.is_constant() && vectors.is_constant() && !request_.fixed_order) {
      const int64_t blocks =
          std::max<int64_t>(1, outer.constant() * divide_up(vectors.constant(), plan_.block_columns));
      const int64_t wanted = (plan_.elements.empty() ? kManyBlocks : kManyStoringBlocks) / blocks;
      const int64_t most =
          reduced.is_constant() ? reduced.constant() / (plan_.block_rows * kLeastSteps) : kPartsOfUnknownColumns;
      plan_.parts = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, most));
    }
    if (!plan_.elements.empty()) plan_.blocks_per_unit = kStoringBlocksPerUnit;
    for (const size_t reduction : plan_.reductions) {
      const DType dtype = graph_.dtype(request_.members[reduction]);
      const int bytes = is_float(dtype) ? 4 : static_cast<int>(size_bytes(dtype));
      plan_.accumulator_bytes = std::max(plan_.accumulator_bytes, bytes);
    }
    if (plan_.block_rows > 1) plan_.shared_bytes = kLoopThreads * plan_.lanes * plan_.accumulator_bytes;
    if (plan_.parts == 1) return;
    plan_.finish_shared_bytes = kLoopThreads * plan_.accumulator_bytes;
    plan_.workspace_bytes = plan_.outer * plan_.inner *
                            Dim(plan_.parts * static_cast<int64_t>(plan_.reductions.size()) * plan_.accumulator_bytes);
  }

  const Graph& graph_;
  const MaterializedValues& materialized_;
  const KernelRequest& request_;
  GpuColumnReducePlan plan_;
  IndexVariables variables_;
  std::optional<std::pair<size_t, Dim>> wanted_split_;
};

}  // namespace

GpuColumnReducePlan plan_gpu_column_reduce(const KernelInputs& inputs) { return ColumnReducePlanner(inputs).plan(); }

IndexVariables variables_of(const GpuColumnReducePlan& plan) {
  IndexVariables variables;
  for (const LoopAxis& axis : plan.axes) {
    const char* prefix = axis.mapping == AxisMapping::kGrid   ? "o"
                         : axis.mapping == AxisMapping::kTeam ? "k"
                         : axis.is_lane()                     ? "e"
                                                              : "c";
    const int depth = axis.mapping == AxisMapping::kTeam ? kElementDepth : axis.is_lane() ? kLaneDepth : kThreadDepth;
    variables.push_back({fmt::format("{}{}", prefix, variables.size()), axis.extent, depth});
  }
  return variables;
}

Index running_index(const GpuColumnReducePlan& plan, AxisMapping mapping) {
  Index linear = Index::constant(0);
  Dim stride(1);
  for (size_t i = plan.axes.size(); i-- > 0;) {
    if (plan.axes[i].mapping != mapping && !(mapping == AxisMapping::kBlock && plan.axes[i].is_lane())) continue;
    linear = add(linear, scale(Index::of(static_cast<int>(i)), stride));
    stride *= plan.axes[i].extent;
  }
  return linear;
}

ElementPosition column_reduce_position(const GpuColumnReducePlan& plan, const Graph& graph, Value reduction,
                                       ElementWalk& walk) {
  const Index outer = running_index(plan, AxisMapping::kGrid), reduced = running_index(plan, AxisMapping::kTeam),
              column = running_index(plan, AxisMapping::kBlock);
  if (plan.adjacent) return {add(add(scale(outer, plan.reduced * plan.inner), scale(reduced, plan.inner)), column), {}};
  const Node& node = graph.node(reduction);
  const Shape& shape = graph.shape(node.inputs[0]);
  const size_t trailing = static_cast<size_t>(node.attributes.axes.back()) + 1;
  Shape outer_shape, reduced_shape;
  for (size_t i = 0; i < trailing; ++i) (is_reduced(node, i) ? reduced_shape : outer_shape).push_back(shape[i]);
  const std::vector<Index> outer_at = walk.delinearize(outer, outer_shape);
  const std::vector<Index> reduced_at = walk.delinearize(reduced, reduced_shape);
  const std::vector<Index> inner_at =
      walk.delinearize(column, Shape(shape.begin() + static_cast<ptrdiff_t>(trailing), shape.end()));
  std::vector<Index> at;
  size_t next_outer = 0, next_reduced = 0;
  for (size_t i = 0; i < trailing; ++i)
    at.push_back(is_reduced(node, i) ? reduced_at[next_reduced++] : outer_at[next_outer++]);
  at.insert(at.end(), inner_at.begin(), inner_at.end());
  return {{}, at};
}

}  // namespace causeway::codegen
