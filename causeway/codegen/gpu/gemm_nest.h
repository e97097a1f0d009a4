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
  const GpuGemmOperand& a() const { return a_; }
  const GpuGemmOperand& b() const { return b_; }

 private:
  GpuGemmOperand find_operand(Value operand, const Dim& lines, bool k_last);
  bool lies_across_k(const GpuGemmOperand& operand, Value value) const;
  bool serves_as_it_lies(const GpuGemmOperand& operand) const;
  bool gains_from_copies() const;

  const GpuArchitecture& architecture_;
  GpuGemmOperand a_, b_;
};

}  // namespace causeway::codegen
