// The loops of a loop kernel on a GPU, to be walked: as a plan has them, or while they are being planned.
#pragma once

#include <optional>
#include <vector>

#include "causeway/codegen/expressions/loop_nest.h"
#include "causeway/codegen/gpu/loop_plan.h"

namespace causeway::codegen {

class GpuLoopNest : public LoopNest {
 public:
  explicit GpuLoopNest(const KernelInputs& inputs) : LoopNest(inputs) {}
  GpuLoopNest(const KernelInputs& inputs, const GpuLoopPlan& plan);

  void walk(ElementWalk& walk, LoopVisitor& visitor) override;
  // The second launch of a nest in parts, after walk(): the sums get their names, and what follows from them is
  // computed.
  void walk_finish(ElementWalk& walk, LoopVisitor& visitor);

  // Null unless threads hold the element at that position from an earlier pass, or from before the first.
  const GpuLoopPlan::HeldRow* held(Value value, const Index& linear) const;
  std::optional<ElementValue> variable(Value value, const Index& linear) override;

  int lane_variable() const { return static_cast<int>(axes_.size()) - 1; }

 protected:
  void analyse() override;
  bool is_transposed(Value member) const override {
    return !has_reductions() && transposed_member(graph_, request_, member).has_value();
  }
  // A member of an earlier pass is wanted at the loops' own position: whether threads are to hold it.
  virtual bool hold(Value member) { return false; }

  int lanes_ = 1;  // cut off the innermost axis, once it has an axis of lanes
  int64_t parts_ = 1;
  std::vector<GpuLoopPlan::HeldRow> held_;
};

}  // namespace causeway::codegen
