// From fused and generated kernels to instructions over buffers, for given sizes.
#pragma once

#include <vector>

#include "causeway/program/fusion.h"
#include "causeway/program/instruction.h"
#include "causeway/program/schedule.h"

namespace causeway::program {

// What of a program does not depend on its sizes.
struct ProgramKernels {
  const Graph& graph;
  const FusionResult& fusion;
  const std::vector<GeneratedKernel>& kernels;            // of each request of the fusion
  const std::vector<std::vector<DeviceKernel>>& entries;  // by kernel and phase
};

// Instructions, buffers and the memory that they share; verified.
LoweredProgram lower(const ProgramKernels& program, const SymbolBindings& bindings, const ScheduleOptions& options);

}  // namespace causeway::program
