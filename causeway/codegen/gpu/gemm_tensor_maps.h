// What TMA is told about the tensors of a GEMM (kernels/gpu/gemm_hopper_problem.h lists the maps in their order).
#pragma once

#include <vector>

#include "causeway/codegen/gpu/gemm_plan.h"

namespace causeway::codegen {

// How wide the boxes are in which results leave: whole ones, and a tile's last ones where they have fewer columns.
std::vector<int> gemm_stored_columns(const HopperGemmTile& tile, DType stored);

// Maps of A, of B and, where TMA stores the results, of `at_result`: what is stored, then what is read at its place.
// They are positions among the kernel's arguments, as `a` and `b` are.
TensorMapFunction gemm_tensor_maps(const GpuGemmProblem& problem, const GpuGemmPlan& plan, int a, int b,
                                   const std::vector<int>& at_result);

}  // namespace causeway::codegen
