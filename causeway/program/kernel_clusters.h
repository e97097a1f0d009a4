// The second part of fusion: which kernels compute the values in memory.
//
// In the order of the graph, greedily: a value joins a recent kernel that works on the same elements and shares what it
// reads, an elementwise value the GEMM whose result it reads, a column sum what else walks over the same tensors. A
// collective is a kernel of its own; collectives keep the order of the graph, which all ranks share.
#pragma once

#include "causeway/program/fused_kernels.h"
#include "causeway/program/fusion_problem.h"
#include "causeway/program/materialization.h"

namespace causeway::program {

// How far back a value may join a kernel, in kernels.
inline constexpr size_t kRecentKernels = 12;

// All members are stored, except gradients of attention that are put side by side for nothing else.
FusedKernels cluster_values(const FusionProblem& problem, const Materialization& materialization);

}  // namespace causeway::program
