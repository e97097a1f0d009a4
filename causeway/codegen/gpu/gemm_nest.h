// A GEMM on a GPU: operands are read from memory as they lie there, so what they are parts of has to be
// found.
#pragma once

#include "causeway/codegen/expressions/gemm_nest.h"
#include "causeway/codegen/gpu/gemm_problem.h"

namespace causeway::codegen {

class GpuGemmNest : public GemmNest {
 public:
  explicit GpuGemmNest(const KernelInputs& inputs) : GemmNest(inputs), architecture_(inputs.target.architecture()) {}

  // An operand that is computed, or whose index is not such a sum, is an obstacle: stored, it is.
  void find_operands();
  // Once they are found: without its epilogue.
  GpuGemmProblem problem() const;

 private:
  GpuGemmOperand find_operand(Value operand, const Dim& lines, bool k_last);
  bool never_changes(Value value) const;

  const GpuArchitecture& architecture_;
  GpuGemmOperand a_, b_;
};

}  // namespace causeway::codegen
