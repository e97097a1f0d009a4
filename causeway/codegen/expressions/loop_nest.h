// The loops of a loop kernel, rows x columns, worked through in phases. Each phase is one pass over the columns that
// computes elements and sums; what depends on a row's sums comes in a later phase.
//
// A nest is analysed before anything is written: walking it shows which axes to cut so that index arithmetic need not
// divide, and whether every value can be computed at all.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "causeway/codegen/expressions/element_walk.h"
#include "causeway/codegen/expressions/loop_plan.h"
#include "causeway/codegen/kernel_writers.h"

namespace causeway::codegen {

// What a walk over the nest comes by, in order. A nest that is analysed needs none of it; a writer takes it down.
class LoopVisitor {
 public:
  virtual ~LoopVisitor() = default;
  virtual void begin_phase() {}
  // A member with one element for each row, computed outside of the columns.
  virtual void row_value(Value member, const ElementValue& value) {}
  // The member at `position` of the request: an element of it, and the element that its sum takes in.
  virtual void element(size_t position, const ElementValue& value) {}
  virtual void summand(size_t position, const ElementValue& value) {}
  // The element that the sum over rows at `position` takes in, of the column that the loops are at.
  virtual void row_summand(size_t position, const ElementValue& value) {}
  // The pass over the columns is complete. What only exists inside of it is forgotten next.
  virtual void end_pass() {}
  // The sum is complete. The name by which it is known from here on.
  virtual std::string result(size_t position) { return {}; }
};

// The phase in which each member of a loop is computed, by its position.
std::vector<int> loop_phases(const Graph& graph, const MaterializedValues& materialized, const KernelRequest& request);

class LoopNest : public ReadContext {
 public:
  static constexpr int kRowDepth = 1;   // loop depth of row variables; columns are deeper
  static constexpr int kLaneDepth = 3;  // of the lane axis

  // The row axes in order, then the column axes. A lane axis is the last: the elements that one GPU thread computes
  // side by side. Without one, each column axis is a loop inside the one before.
  struct Axis {
    Dim extent;
    bool is_row = false;
    bool is_lane = false;
  };

  using Role = LoopRole;

  // To be planned, and as planned.
  explicit LoopNest(const KernelInputs& inputs);
  LoopNest(const KernelInputs& inputs, const LoopPlan& plan);

  // Cuts axes until index arithmetic need not divide, as far as that is possible.
  void cut_axes();
  // After cut_axes(): all of the plan but its axes.
  void describe(LoopPlan& plan) const;
  // After a walk: why the nest cannot be written.
  const std::optional<Obstacle>& obstacle() const { return obstacle_; }

  // Forgets everything but the axes. To be called before each walk.
  void reset();
  // Stops early when an axis is to be cut.
  virtual void walk(ElementWalk& walk, LoopVisitor& visitor);

  bool is_stored(Value value) override;
  std::optional<ElementValue> variable(Value value, const Index& linear) override;
  void note_load(Value value, const Index& linear) override { loads_.push_back({phase_, value, linear}); }
  void want_split(int variable, const Dim& inner) override;

  bool has_reductions() const { return has_reductions_; }
  bool has_row_sums() const { return has_row_sums_; }
  Role role(Value member) const;
  bool wants_split() const { return wanted_split_.has_value(); }
  const std::vector<Axis>& axes() const { return axes_; }
  const std::string& axis_name(size_t axis) const { return variables_[axis].name; }
  // The row-major position of the element in terms of the axes.
  const Index& full_linear() const { return full_linear_; }
  IndexVariables& variables() { return variables_; }

 protected:
  // Walks without writing.
  virtual void analyse();
  // Whether the member is stored along with the one that it is the transpose of, and not walked to by itself.
  virtual bool is_transposed(Value member) const { return false; }
  // Cuts the axis that the last walk would rather have in two; false when there is none.
  bool cut_wanted_axis();
  // The phases in which members are computed, by their position.
  const std::vector<int>& phases() const { return phases_; }
  // What the last walk has read, in order.
  const std::vector<LoopLoad>& loads() const { return loads_; }
  // One pass over the columns, its sums named unless they are parts of sums.
  void walk_phase(ElementWalk& walk, LoopVisitor& visitor, int phase, bool name_sums);
  void walk_row_member(ElementWalk& walk, LoopVisitor& visitor, Value member);
  void name_sum(LoopVisitor& visitor, size_t position);
  int last_phase() const;

  const Graph& graph_;
  const MaterializedValues& materialized_;
  const KernelRequest& request_;
  std::vector<Axis> axes_;
  IndexVariables variables_;  // those of the axes come first
  // When set, the column axis counts elements and not vectors of lanes: rows of this many elements, which need not be a
  // multiple of the lanes.
  std::optional<Dim> unaligned_columns_;
  std::optional<std::pair<size_t, Dim>> wanted_split_;
  std::optional<Obstacle> obstacle_;
  // Members available as kernel variables, and the position at which they are.
  struct MemberVariable {
    ElementValue value;
    Index linear;
  };
  std::map<Value, MemberVariable> member_variables_;

 private:
  // Where a reduction reads its input.
  ElementPosition reduction_input(ElementWalk& walk, const Node& node) const;

  bool has_reductions_ = false, has_row_sums_ = false;
  std::vector<int> phases_;
  int phase_ = 0;  // that the walk is in
  std::vector<LoopLoad> loads_;
  Index row_linear_, column_linear_, full_linear_;
};

}  // namespace causeway::codegen
