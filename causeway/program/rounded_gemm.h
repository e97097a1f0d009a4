// The type that a GEMM's result is stored as.
#pragma once

#include "causeway/program/fusion_problem.h"

namespace causeway::program {

// Whether `value` rounds a GEMM's result and is all that is read of it: the GEMM stores it so. The same of the result's
// sum with something else, and of the result times and plus numbers of its rows and columns: GEMMs of 8 bits are
// scaled, gradients of weights behind norms too.
bool rounds_gemm(const FusionProblem& problem, const MaterializedValues& materialized, Value value);

// Less than half as many elements, or a number that is not known.
bool is_small_beside(const Graph& graph, Value value, Value other);

}  // namespace causeway::program
