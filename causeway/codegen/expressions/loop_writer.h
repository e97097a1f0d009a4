// What the writers of loop kernels share: a kernel's text is written along a walk over the nest that its plan
// describes.
#pragma once

#include <utility>

#include "causeway/base/error.h"
#include "causeway/codegen/expressions/kernel_writer.h"
#include "causeway/codegen/expressions/loop_nest.h"

namespace causeway::codegen {

// Plan: LoopPlan or a struct derived from it. Nest: LoopNest or a class derived from it.
template <class Plan, class Nest>
class LoopWriter : public KernelWriter, protected LoopVisitor {
 public:
  LoopWriter(const KernelInputs& inputs, Plan plan)
      : KernelWriter(inputs), plan_(std::move(plan)), nest_(inputs, plan_) {
    nest_.reset();
  }

  bool is_stored(Value value) override { return nest_.is_stored(value); }
  std::optional<ElementValue> variable(Value value, const Index& linear) override {
    return nest_.variable(value, linear);
  }
  void want_split(int variable, const Dim& inner) override { nest_.want_split(variable, inner); }

 protected:
  static constexpr int kRowDepth = LoopNest::kRowDepth;
  static constexpr int kLaneDepth = LoopNest::kLaneDepth;

  // After the walk that wrote.
  void check_written() const {
    CAUSEWAY_CHECK(!nest_.wants_split(), "the nest wants other axes than those it was planned with");
    const bool expected = plan_.obstacle && plan_.obstacle->kind == Obstacle::Kind::kOwnValueElsewhere;
    CAUSEWAY_CHECK(nest_.obstacle().has_value() == expected, "a loop was written otherwise than it was planned");
    check_no_obstacle(plan_.obstacle);
  }

  std::string new_result_name() { return fmt::format("s{}", next_result_++); }

  const Plan plan_;
  Nest nest_;

 private:
  int next_result_ = 0;
};

}  // namespace causeway::codegen
