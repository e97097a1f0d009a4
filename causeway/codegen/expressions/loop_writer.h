// What the writers of loop kernels share: a kernel's text is written along a walk over its nest.
#pragma once

#include "causeway/base/error.h"
#include "causeway/codegen/expressions/kernel_writer.h"
#include "causeway/codegen/expressions/loop_nest.h"

namespace causeway::codegen {

// Nest: LoopNest or a class derived from it.
template <class Nest>
class LoopWriter : public KernelWriter, protected LoopVisitor {
 public:
  explicit LoopWriter(const KernelInputs& inputs) : KernelWriter(inputs), nest_(inputs) {}

  bool is_stored(Value value) override { return nest_.is_stored(value); }
  std::optional<ElementValue> variable(Value value, const Index& linear) override {
    return nest_.variable(value, linear);
  }
  void note_load(Value value, const Index& linear) override { nest_.note_load(value, linear); }
  void want_split(int variable, const Dim& inner) override { nest_.want_split(variable, inner); }

 protected:
  using Axis = LoopNest::Axis;
  using Role = LoopNest::Role;
  static constexpr int kRowDepth = LoopNest::kRowDepth;
  static constexpr int kLaneDepth = LoopNest::kLaneDepth;

  // After the walk that wrote, given what the plan before it came to.
  void check_written(const std::optional<Obstacle>& planned) const {
    CAUSEWAY_CHECK(!nest_.wants_split(), "the nest wants other axes than those it was planned with");
    const bool expected = planned && planned->kind == Obstacle::Kind::kOwnValueElsewhere;
    CAUSEWAY_CHECK(nest_.obstacle().has_value() == expected, "a loop was written otherwise than it was analysed");
    check_no_obstacle(planned);
  }

  Nest nest_;
};

}  // namespace causeway::codegen
