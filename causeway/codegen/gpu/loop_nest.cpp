#include "causeway/codegen/gpu/loop_nest.h"

#include <algorithm>

namespace causeway::codegen {

GpuLoopNest::GpuLoopNest(const KernelInputs& inputs, const GpuLoopPlan& plan)
    : LoopNest(inputs, plan), lanes_(plan.lanes), parts_(plan.parts), held_(plan.held) {
  if (plan.unaligned_columns) unaligned_columns_ = Dim(*plan.unaligned_columns);
}

void GpuLoopNest::analyse() {
  reset();
  ElementWalk analysis(graph_, *this, variables_);
  if (axes_.back().is_lane) analysis.set_lanes(lane_variable(), lanes_);
  LoopVisitor nobody;
  walk(analysis, nobody);
  if (parts_ > 1 && !wanted_split_) walk_finish(analysis, nobody);
}

void GpuLoopNest::walk(ElementWalk& walk, LoopVisitor& visitor) {
  if (parts_ > 1) {
    walk_phase(walk, visitor, 0, false);
  } else {
    LoopNest::walk(walk, visitor);
  }
}

void GpuLoopNest::walk_finish(ElementWalk& walk, LoopVisitor& visitor) {
  walk.leave_loops(0);
  member_variables_.clear();
  for (size_t i = 0; i < request_.members.size(); ++i)
    if (role(request_.members[i]) == Role::kReduction) name_sum(visitor, i);
  for (const Value member : request_.members)
    if (role(member) == Role::kRow) walk_row_member(walk, visitor, member);
}

const GpuLoopPlan::HeldRow* GpuLoopNest::held(Value value, const Index& linear) const {
  // A member is a variable of the pass that computes it.
  if (!(linear == full_linear()) || member_variables_.contains(value)) return nullptr;
  const auto entry = std::ranges::find(held_, value, &GpuLoopPlan::HeldRow::value);
  return entry == held_.end() ? nullptr : &*entry;
}

std::optional<ElementValue> GpuLoopNest::variable(Value value, const Index& linear) {
  if (held(value, linear) != nullptr) return ElementValue{{}, kLaneDepth};
  if (request_.computes(value) && linear == full_linear() && !member_variables_.contains(value) && hold(value))
    return ElementValue{{}, kLaneDepth};
  return LoopNest::variable(value, linear);
}

}  // namespace causeway::codegen
