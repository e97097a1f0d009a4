// The text of the passes of a GPU's loop kernel, as its plan has them: what the writers of whole kernels share, one for
// each family of forms.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "causeway/codegen/expressions/loop_writer.h"
#include "causeway/codegen/gpu/loop_nest.h"
#include "causeway/codegen/gpu/loop_plan.h"
#include "causeway/codegen/gpu/loops.h"

namespace causeway::codegen {

class GpuLoopWriter : public LoopWriter<GpuLoopPlan, GpuLoopNest> {
 public:
  GpuLoopWriter(const KernelInputs& inputs, GpuLoopPlan plan);

  std::optional<ElementValue> variable(Value value, const Index& linear) override;
  std::optional<std::string> known_index(const Index& linear) override;

 protected:
  using Form = GpuLoopPlan::Form;
  using HeldRow = GpuLoopPlan::HeldRow;

  // What is done with a vector of elements: with all of it, or with the lanes for which `outside` does not hold.
  struct Vector {
    Statements inside;
    std::string stores;
    Statements lane_stores;  // in place of `stores`
  };
  std::string whole(const Vector& vector) const;
  std::string cut(const Vector& vector, const std::string& outside) const;

  // Writes what follows, and checks that the plan has held.
  void write_passes();
  std::string top_, text_;                // statements of the kernel, and of a row
  std::string row_stores_;                // results of a row, stored last
  Vector vector_;                         // without sums, of the only pass
  std::string round_arrays_;              // of a tile in both orders: what a thread computes of each member
  std::string copied_from_, copied_to_;   // places of what is read across and of the result, in elements
  std::string finish_top_, finish_text_;  // of a second launch for parts of rows

  GpuAccumulator accumulator(size_t position) const;
  // The array of a thread's columns of a sum over rows.
  static std::string row_sum(size_t position) { return fmt::format("sums{}", position); }

  // The variables of the axes that a running number counts.
  std::string axis_variables(AxisMapping mapping, const std::string& running);
  // Where a row begins in the tensors that are as large as the loop, and the vector in which it does.
  std::string unaligned_row() const;
  // A vector at a multiple of the lanes, all of it or the part that is in the row.
  std::string unaligned_vector(const Vector& vector) const;

  // The row of a thread's team, the thread's first vector, and where its vectors end; for the group of rows that
  // `group` numbers, and `group_index` as an index.
  std::string row_of_team(const std::string& group, const std::string& group_index);
  // What is stored of a row, by one thread of its team.
  std::string stores_of_row();

  const std::string& axis_name(size_t axis) const { return nest_.axis_name(axis); }
  const std::string& lane_name() const { return axis_name(plan_.axes.size() - 1); }
  std::string task_text() const { return fmt::format("static_cast<{}>(task)", index_type_); }

  // The text of a kernel of the loops' headers, and a kernel by itself.
  std::string source(const std::string& name, int threads, const std::string& body, int blocks_per_unit = 1);
  std::string kernel_text(const std::string& name, int threads, const std::string& body, int blocks_per_unit = 1);

  static constexpr const char* kIncludes =
      "#include \"causeway/kernels/gpu/lanes.h\"\n#include \"causeway/kernels/gpu/reduce.h\"\n";

  const std::string index_type_;

 private:
  void row_value(Value member, const ElementValue& value) override;
  void begin_phase() override;
  void element(size_t position, const ElementValue& value) override;
  void summand(size_t position, const ElementValue& value) override;
  void row_summand(size_t position, const ElementValue& value) override;
  void end_pass() override;
  std::string result(size_t position) override;

  std::string load_held();
  std::string copy_to_shared();
  std::string ask_for_next_row();
  std::string settled_or_not(const std::string& vector);
  std::string column_loop(const std::string& inside);
  std::string reduced(size_t position) const;
  std::string partials(size_t position, size_t i) const;
  std::string first_lane_text() const;
  static std::string held_name(const HeldRow& row);
  std::string register_position() const;
  std::string cluster_sums(size_t position) const;

  ExpressionEmitter* emitter_ = nullptr;  // while the nest is walked
  // Of a phase: arrays for a vector of elements, sums before the first element, what is done with each element, and
  // the stores of a vector, whole or one by one.
  std::string arrays_, initial_, updates_, stores_, lane_stores_;
  bool stores_elements_ = false;
  std::vector<size_t> sums_;  // of the phase
  bool in_finish_ = false;
  size_t finished_sums_ = 0;
};

// The kernels, by the form of their plans.
GeneratedKernel write_gpu_element_loop(const KernelInputs& inputs, const GpuLoopPlan& plan);
GeneratedKernel write_gpu_row_loop(const KernelInputs& inputs, const GpuLoopPlan& plan);
GeneratedKernel write_gpu_row_sum_loop(const KernelInputs& inputs, const GpuLoopPlan& plan);

}  // namespace causeway::codegen
