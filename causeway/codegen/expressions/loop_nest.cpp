#include "causeway/codegen/expressions/loop_nest.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "causeway/base/error.h"

namespace causeway::codegen {

namespace {

// The values in memory, and members, that the expansion of `value` reads, not counting `value` itself.
std::vector<Value> leaves(const Graph& graph, const MaterializedValues& materialized, const KernelRequest& request,
                          Value value) {
  std::vector<Value> found;
  std::set<Value> visited;
  std::vector<Value> pending = graph.node(value).inputs;
  while (!pending.empty()) {
    const Value next = pending.back();
    pending.pop_back();
    if (!visited.insert(next).second) continue;
    if (materialized.contains(next) || request.computes(next)) {
      found.push_back(next);
    } else {
      const std::vector<Value>& inputs = graph.node(next).inputs;
      pending.insert(pending.end(), inputs.begin(), inputs.end());
    }
  }
  return found;
}

bool is_sum_over_rows(const Graph& graph, const KernelRequest& request, const Node& node) {
  return node.attributes.axes.back() + 1 != static_cast<int64_t>(graph.shape(node.inputs[0]).size()) &&
         !request.columns.is_constant(1);
}

}  // namespace

std::vector<int> loop_phases(const Graph& graph, const MaterializedValues& materialized, const KernelRequest& request) {
  std::vector<int> phases;
  std::map<Value, int> least;  // in which phases what reads a member can be
  for (const Value member : request.members) {
    int phase = 0;
    for (const Value leaf : leaves(graph, materialized, request, member))
      if (const auto entry = least.find(leaf); entry != least.end()) phase = std::max(phase, entry->second);
    phases.push_back(phase);
    const Node& node = graph.node(member);
    const bool is_reduction = op_info(node.op).kind == OpKind::kReduce && !is_sum_over_rows(graph, request, node);
    least[member] = phase + (is_reduction ? 1 : 0);
  }
  return phases;
}

LoopNest::LoopNest(const KernelInputs& inputs)
    : graph_(inputs.graph), materialized_(inputs.materialized), request_(inputs.request) {
  has_reductions_ = std::any_of(request_.members.begin(), request_.members.end(),
                                [&](Value member) { return op_info(graph_.node(member).op).kind == OpKind::kReduce; });
  has_row_sums_ = std::any_of(request_.members.begin(), request_.members.end(),
                              [&](Value member) { return role(member) == Role::kRowSum; });
  phases_ = loop_phases(graph_, materialized_, request_);
  axes_ = {{request_.rows, true}, {request_.columns, false}};
  std::erase_if(axes_, [](const Axis& axis) { return axis.is_row && axis.extent.is_constant(1); });
}

LoopNest::LoopNest(const KernelInputs& inputs, const LoopPlan& plan) : LoopNest(inputs) {
  axes_.clear();
  for (const LoopAxis& axis : plan.axes) axes_.push_back({axis.extent, axis.is_row(), axis.is_lane()});
}

void LoopNest::describe(LoopPlan& plan) const {
  for (size_t i = 0; i < request_.members.size(); ++i)
    plan.members.push_back({role(request_.members[i]), phases_[i], request_.stores(request_.members[i])});
  plan.loads = loads_;
  plan.element = full_linear_;
  plan.row = row_linear_;
  plan.obstacle = obstacle_;
}

void LoopNest::cut_axes() {
  do {
    analyse();
  } while (cut_wanted_axis());
}

void LoopNest::analyse() {
  reset();
  ElementWalk analysis(graph_, *this, variables_);
  LoopVisitor nobody;
  walk(analysis, nobody);
}

void LoopNest::want_split(int variable, const Dim& inner) {
  const auto axis = static_cast<size_t>(variable);
  if (axis < axes_.size() && !wanted_split_ && !axes_[axis].is_lane && (axes_[axis].is_row || !unaligned_columns_))
    wanted_split_ = {axis, inner};
}

bool LoopNest::cut_wanted_axis() {
  if (!wanted_split_) return false;
  const auto [axis, inner] = *wanted_split_;
  const Axis cut = axes_[axis];
  axes_[axis] = {inner, cut.is_row};
  axes_.insert(axes_.begin() + static_cast<ptrdiff_t>(axis), {*cut.extent.divide_exactly(inner), cut.is_row});
  // Without sums, everything but the innermost loop counts as rows, so that tasks are cut there.
  if (!has_reductions() && !unaligned_columns_)
    for (size_t i = 0; i < axes_.size(); ++i) axes_[i].is_row = i + 1 < axes_.size();
  return true;
}

LoopNest::Role LoopNest::role(Value member) const {
  const Node& node = graph_.node(member);
  if (op_info(node.op).kind == OpKind::kReduce)
    return is_sum_over_rows(graph_, request_, node) ? Role::kRowSum : Role::kReduction;
  if (is_transposed(member)) return Role::kTransposed;
  const Dim count = element_count(graph_.shape(member));
  if (has_reductions() && count == request_.rows && !(count == request_.rows * request_.columns)) return Role::kRow;
  CAUSEWAY_CHECK(count == request_.rows * request_.columns, "{} in a kernel of {} x {}", graph_.type(member).text(),
                 request_.rows.text(), request_.columns.text());
  return Role::kFull;
}

void LoopNest::reset() {
  variables_.clear();
  member_variables_.clear();
  obstacle_.reset();
  loads_.clear();
  wanted_split_.reset();
  row_linear_ = Index::constant(0);
  column_linear_ = Index::constant(0);
  Dim row_stride(1), column_stride(1);
  const bool has_lanes = axes_.back().is_lane;
  int depth = kRowDepth;
  for (const Axis& axis : axes_) {
    if (!axis.is_row) depth = axis.is_lane ? kLaneDepth : has_lanes ? kRowDepth + 1 : depth + 1;
    const char* prefix = axis.is_row ? "r" : axis.is_lane ? "e" : "c";
    variables_.push_back(
        {fmt::format("{}{}", prefix, variables_.size()), axis.extent, axis.is_row ? kRowDepth : depth});
  }
  for (size_t i = axes_.size(); i-- > 0;) {
    Dim& stride = axes_[i].is_row ? row_stride : column_stride;
    Index& linear = axes_[i].is_row ? row_linear_ : column_linear_;
    linear = add(linear, scale(Index::of(static_cast<int>(i)), stride));
    stride *= axes_[i].extent;
  }
  if (unaligned_columns_) {
    const int lane = static_cast<int>(axes_.size()) - 1;
    column_linear_ = add(Index::of(lane - 1), Index::of(lane));
    column_stride = *unaligned_columns_;
  }
  // Reductions keep the row axes apart from the columns; otherwise the axes are cut from one row-major range.
  full_linear_ = add(scale(row_linear_, column_stride), column_linear_);
}

int LoopNest::last_phase() const { return *std::max_element(phases_.begin(), phases_.end()); }

void LoopNest::walk(ElementWalk& walk, LoopVisitor& visitor) {
  for (int phase = 0; phase <= last_phase(); ++phase) {
    walk_phase(walk, visitor, phase, true);
    if (wanted_split_) return;
  }
}

void LoopNest::walk_row_member(ElementWalk& walk, LoopVisitor& visitor, Value member) {
  const ElementValue value = walk.define(member, {row_linear_, {}});
  visitor.row_value(member, value);
  member_variables_[member] = {value, row_linear_};
}

void LoopNest::name_sum(LoopVisitor& visitor, size_t position) {
  member_variables_[request_.members[position]] = {{visitor.result(position), kRowDepth}, row_linear_};
}

void LoopNest::walk_phase(ElementWalk& walk, LoopVisitor& visitor, int phase, bool name_sums) {
  phase_ = phase;
  const std::vector<Value>& members = request_.members;
  for (size_t i = 0; i < members.size(); ++i)
    if (phases_[i] == phase && role(members[i]) == Role::kRow) walk_row_member(walk, visitor, members[i]);
  visitor.begin_phase();
  std::vector<size_t> sums;
  bool any = false;
  for (size_t i = 0; i < members.size(); ++i) {
    const Role member_role = role(members[i]);
    if (phases_[i] != phase || member_role == Role::kRow || member_role == Role::kTransposed) continue;
    any = true;
    if (member_role == Role::kFull) {
      const ElementValue value = walk.define(members[i], {full_linear_, {}});
      member_variables_[members[i]] = {value, full_linear_};
      visitor.element(i, value);
    } else if (member_role == Role::kRowSum) {
      visitor.row_summand(i, walk.compute(graph_.node(members[i]).inputs[0], {full_linear_, {}}));
    } else {
      const Node& node = graph_.node(members[i]);
      visitor.summand(i, walk.compute(node.inputs[0], reduction_input(walk, node)));
      sums.push_back(i);
    }
  }
  if (!any) return;
  visitor.end_pass();
  // Elements of this pass are gone when its loop ends.
  walk.leave_loops(kRowDepth + 1);
  std::erase_if(member_variables_, [&](const auto& entry) { return entry.second.value.depth > kRowDepth; });
  if (!name_sums) return;
  for (const size_t position : sums) name_sum(visitor, position);
}

ElementPosition LoopNest::reduction_input(ElementWalk& walk, const Node& node) const {
  const Shape& shape = graph_.shape(node.inputs[0]);
  const std::vector<int64_t>& axes = node.attributes.axes;
  if (axes.front() == static_cast<int64_t>(shape.size() - axes.size())) return {full_linear_, {}};
  const auto is_reduced = [&](size_t axis) {
    return std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(axis));
  };
  Shape kept, reduced;
  for (size_t i = 0; i < shape.size(); ++i) (is_reduced(i) ? reduced : kept).push_back(shape[i]);
  const std::vector<Index> kept_at = walk.delinearize(row_linear_, kept);
  const std::vector<Index> reduced_at = walk.delinearize(column_linear_, reduced);
  std::vector<Index> multi;
  size_t next_kept = 0, next_reduced = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    multi.push_back(is_reduced(i) ? reduced_at[next_reduced++] : kept_at[next_kept++]);
  return {{}, multi};
}

bool LoopNest::is_stored(Value value) { return request_.computes(value) || materialized_.contains(value); }

std::optional<ElementValue> LoopNest::variable(Value value, const Index& linear) {
  if (!request_.computes(value)) return std::nullopt;
  const auto entry = member_variables_.find(value);
  if (entry != member_variables_.end() && entry->second.linear == linear) return entry->second.value;
  // An element of an earlier pass over the same row can be read back; any other may not have been computed yet.
  if (!request_.stores(value) || entry != member_variables_.end() || role(value) != Role::kFull ||
      !(linear == full_linear_))
    if (!obstacle_) obstacle_ = Obstacle{Obstacle::Kind::kOwnValueElsewhere, value};
  return std::nullopt;
}

}  // namespace causeway::codegen
