// The kernels of a program, written side by side: each depends on the graph and its own request alone.
#pragma once

#include <vector>

#include "causeway/codegen/kernel.h"
#include "causeway/device/target.h"
#include "causeway/program/fusion.h"

namespace causeway::program {

// Of each request of the fusion, as generate_kernel() writes and throws.
std::vector<GeneratedKernel> generate_kernels(const Graph& graph, const FusionResult& fusion, const Target& target);

}  // namespace causeway::program
