// The third part of fusion: kernels that become part of others.
#pragma once

#include "causeway/program/fused_kernels.h"
#include "causeway/program/fusion_problem.h"

namespace causeway::program {

// Moves kernels of nothing but f32 sums over leading axes into loops near them that have, or compute, all they read and
// walk over each row for sums of its own anyway: the gradients of a norm's weight and bias go with that of its input,
// the gradient of a bias with the gradient that it is added up from.
FusedKernels merge_column_sums(const FusionProblem& problem, const MaterializedValues& materialized,
                               FusedKernels kernels);

// A member of a loop or a GEMM is written only when something besides its own kernel needs it.
FusedKernels choose_stored_members(const FusionProblem& problem, const MaterializedValues& materialized,
                                   FusedKernels kernels);

// A GEMM whose operand a loop with reductions computes, for it alone, computes the operand in each of its blocks
// (KernelRequest::row_members), where find_obstacle() says that blocks can: a norm before the projection of a text's
// next token. The launch would take longer than that. It comes after choose_stored_members().
FusedKernels merge_rows_into_gemms(const FusionProblem& problem, const MaterializedValues& materialized,
                                   FusedKernels kernels);

}  // namespace causeway::program
