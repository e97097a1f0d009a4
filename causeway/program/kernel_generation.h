// What is found out of each kernel of a program, or written for it, by several threads: it depends on the graph and its
// own request alone.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "causeway/codegen/kernel.h"
#include "causeway/device/target.h"
#include "causeway/program/fusion.h"

namespace causeway::program {

// Calls `work` for each of so many kernels, on as many threads as that is worth; throws what one of them throws.
void for_each_kernel(size_t count, const std::function<void(size_t kernel)>& work);

// Of each request of the fusion, as generate_kernel() writes and throws.
std::vector<GeneratedKernel> generate_kernels(const Graph& graph, const FusionResult& fusion, const Target& target);

}  // namespace causeway::program
