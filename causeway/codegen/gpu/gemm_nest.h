// A GEMM on a GPU: operands are read from memory as they lie there, so what they are parts of has to be
// found.
#pragma once

#include <string>
#include <vector>

#include "causeway/codegen/expressions/gemm_nest.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/kernels/gpu/skinny_gemm_layout.h"

namespace causeway::codegen {

// An operand as it lies in memory: element (batch, line, k) of `value` is at
// offset + batch indices . batch strides + (contiguous_in_k ? line * stride + k : k * stride + line).
struct DirectOperand {
  Value value;
  std::string element;
  int64_t element_bytes = 0;
  Dim offset;
  bool contiguous_in_k = true;
  Dim stride;
  struct BatchDimension {
    Dim extent;
    Dim stride;
  };
  std::vector<BatchDimension> batch;  // the fastest last; none of extent 1
  bool aligned = false;
  Dim lines, k;

  // Whether offset, strides and the contiguous extent are multiples of so many elements.
  bool is_multiple(int64_t elements) const;
  // Whether Hopper's TMA brings slices of k from where it lies.
  bool fits_tma() const;
};

class GpuGemmNest : public GemmNest {
 public:
  explicit GpuGemmNest(const KernelInputs& inputs) : GemmNest(inputs), architecture_(inputs.target.architecture()) {}

  // An operand that is computed, or whose index is not such a sum, is an obstacle: stored, it is.
  void find_operands();
  const DirectOperand& a() const { return a_; }
  const DirectOperand& b() const { return b_; }

  // Sides this short have kernels that leave most of a matrix instruction unused.
  static bool is_skinny(const Dim& size) { return size.is_constant() && size.constant() <= kSkinnyGemmRows; }

 private:
  DirectOperand find_operand(Value operand, const Dim& lines, bool k_last);
  bool lies_across_k(const DirectOperand& operand, Value value) const;
  bool serves_as_it_lies(const DirectOperand& operand) const;
  bool gains_from_copies() const;

  const GpuArchitecture& architecture_;
  DirectOperand a_, b_;
};

}  // namespace causeway::codegen
