#include "causeway/codegen/expressions/loop_writer.h"

#include <algorithm>

#include "causeway/base/error.h"

namespace causeway::codegen {

void LoopWriter::start_axes() {
  axes_ = {{request_.rows, true}, {request_.columns, false}};
  std::erase_if(axes_, [](const Axis& axis) { return axis.is_row && axis.extent.is_constant(1); });
}

void LoopWriter::want_split(int variable, const Dim& inner) {
  for (size_t i = 0; i < axes_.size(); ++i)
    if (axis_variables_[i] == variable && !wanted_split_ && !axes_[i].is_lane &&
        (axes_[i].is_row || !unaligned_columns_))
      wanted_split_ = {i, inner};
}

bool LoopWriter::cut_wanted_axis() {
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

bool LoopWriter::has_reductions() const {
  return std::any_of(request_.members.begin(), request_.members.end(),
                     [&](Value member) { return op_info(graph_.node(member).op).kind == OpKind::kReduce; });
}

LoopWriter::Role LoopWriter::role(Value member) const {
  if (op_info(graph_.node(member).op).kind == OpKind::kReduce) return Role::kReduction;
  const Dim count = element_count(graph_.shape(member));
  if (has_reductions() && count == request_.rows && !(count == request_.rows * request_.columns)) return Role::kRow;
  CAUSEWAY_CHECK(count == request_.rows * request_.columns, "{} in a kernel of {} x {}", graph_.type(member).text(),
                 request_.rows.text(), request_.columns.text());
  return Role::kFull;
}

void LoopWriter::reset() {
  variables_.clear();
  symbols_ = {};
  arguments_.clear();
  pointers_.clear();
  sizes_.clear();
  member_variables_.clear();
  conflict_ = false;
  next_result_ = 0;
  wanted_split_.reset();
  axis_variables_.clear();
  row_linear_ = Index::constant(0);
  column_linear_ = Index::constant(0);
  Dim row_stride(1), column_stride(1);
  const bool has_lanes = axes_.back().is_lane;
  int depth = kRowDepth;
  for (const Axis& axis : axes_) {
    if (!axis.is_row) depth = axis.is_lane ? kLaneDepth : has_lanes ? kRowDepth + 1 : depth + 1;
    axis_variables_.push_back(static_cast<int>(variables_.size()));
    variables_.push_back({fmt::format("{}{}",
                                      axis.is_row    ? "r"
                                      : axis.is_lane ? "e"
                                                     : "c",
                                      variables_.size()),
                          axis.extent, axis.is_row ? kRowDepth : depth});
  }
  for (size_t i = axes_.size(); i-- > 0;) {
    Dim& stride = axes_[i].is_row ? row_stride : column_stride;
    Index& linear = axes_[i].is_row ? row_linear_ : column_linear_;
    linear = add(linear, scale(Index::of(axis_variables_[i]), stride));
    stride *= axes_[i].extent;
  }
  if (unaligned_columns_) {
    column_linear_ = add(Index::of(axis_variables_[axes_.size() - 2]), Index::of(axis_variables_.back()));
    column_stride = *unaligned_columns_;
  }
  // Reductions keep the row axes apart from the columns; otherwise the axes are cut from one row-major range.
  full_linear_ = add(scale(row_linear_, column_stride), column_linear_);
}

std::map<Value, int> LoopWriter::assign_phases() const {
  std::map<Value, int> phases;
  for (const Value member : request_.members) {
    int phase = 0;
    for (const Value leaf : leaves(member)) {
      const auto entry = phases.find(leaf);
      if (entry == phases.end()) continue;
      phase = std::max(phase, entry->second + (role(leaf) == Role::kReduction ? 1 : 0));
    }
    phases[member] = phase;
  }
  return phases;
}

ElementPosition LoopWriter::reduction_input(ExpressionEmitter& emitter, const Node& node) {
  const Shape& shape = graph_.shape(node.inputs[0]);
  const std::vector<int64_t>& axes = node.attributes.axes;
  if (axes.front() == static_cast<int64_t>(shape.size() - axes.size())) return {full_linear_, {}};
  return {{}, scattered_reduction_input(emitter, node)};
}

std::vector<Index> LoopWriter::scattered_reduction_input(ExpressionEmitter& emitter, const Node& node) {
  const Shape& shape = graph_.shape(node.inputs[0]);
  Shape kept, reduced;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool is_reduced = std::binary_search(node.attributes.axes.begin(), node.attributes.axes.end(), int64_t(i));
    (is_reduced ? reduced : kept).push_back(shape[i]);
  }
  const std::vector<Index> kept_at = emitter.delinearize(row_linear_, kept);
  const std::vector<Index> reduced_at = emitter.delinearize(column_linear_, reduced);
  std::vector<Index> multi;
  size_t next_kept = 0, next_reduced = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool is_reduced = std::binary_search(node.attributes.axes.begin(), node.attributes.axes.end(), int64_t(i));
    multi.push_back(is_reduced ? reduced_at[next_reduced++] : kept_at[next_kept++]);
  }
  return multi;
}

bool LoopWriter::is_stored(Value value) { return is_member(value) || KernelWriter::is_stored(value); }

std::optional<EmittedValue> LoopWriter::variable(Value value, const Index& linear) {
  if (!is_member(value)) return std::nullopt;
  const auto entry = member_variables_.find(value);
  if (entry != member_variables_.end() && entry->second.linear == linear) return entry->second.value;
  // An element of an earlier pass over the same row can be read back; any other may not have been computed yet.
  if (!member_stored(value) || entry != member_variables_.end() || role(value) != Role::kFull ||
      !(linear == full_linear_))
    conflict_ = true;
  return std::nullopt;
}

}  // namespace causeway::codegen
