// What the writers of loop kernels share: rows x columns, worked through in phases. Each phase is one pass over the
// columns that computes elements and sums; what depends on a row's sums comes in a later phase.
#pragma once

#include "causeway/codegen/expressions/kernel_writer.h"

namespace causeway::codegen {

class LoopWriter : public KernelWriter {
 public:
  using KernelWriter::KernelWriter;

  void want_split(int variable, const Dim& inner) override;
  bool is_stored(Value value) override;
  std::optional<EmittedValue> variable(Value value, const Index& linear) override;

 protected:
  static constexpr int kRowDepth = 1;   // loop depth of row variables; columns are deeper
  static constexpr int kLaneDepth = 3;  // of the lane axis

  // The row axes in order, then the column axes. A lane axis is the last: the elements that one GPU thread computes
  // side by side. Without one, each column axis is a loop inside the one before.
  struct Axis {
    Dim extent;
    bool is_row = false;
    bool is_lane = false;
  };

  enum class Role { kFull, kRow, kReduction };

  // The rows and the columns, not cut yet.
  void start_axes();
  // Forgets everything but the axes, so that the text can be written anew.
  void reset();
  // Cuts the axis that the text written last would rather have in two; false when there is none.
  bool cut_wanted_axis();
  bool has_reductions() const;
  Role role(Value member) const;
  // Phases in which the members are computed.
  std::map<Value, int> assign_phases() const;
  // Where a reduction reads its input.
  ElementPosition reduction_input(ExpressionEmitter& emitter, const Node& node);

  std::vector<Axis> axes_;
  std::vector<int> axis_variables_;
  // When set, the column axis counts elements and not vectors of lanes: rows of this many elements, which need not be a
  // multiple of the lanes.
  std::optional<Dim> unaligned_columns_;
  std::optional<std::pair<size_t, Dim>> wanted_split_;
  Index row_linear_, column_linear_, full_linear_;
  int next_result_ = 0;

 private:
  std::vector<Index> scattered_reduction_input(ExpressionEmitter& emitter, const Node& node);
};

}  // namespace causeway::codegen
