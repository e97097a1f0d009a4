// From fused and generated kernels to instructions over buffers, for given sizes.
#pragma once

#include <cstdint>
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

struct LoweringOptions {
  ScheduleOptions schedule;
  // Blocks of a persistent kernel at most, rounded down to whole clusters, of which there is at least one.
  int64_t persistent_blocks = INT64_MAX;
  // What a value is, to the last bit, depends neither on the sizes of dimensions that its sum does not run over nor on
  // what else its kernel computes: KernelRequest::fixed_order.
  bool fixed_order = false;
  bool offloads_activations = false;  // as ProgramOptions has it
};

// The schedule that suits the target, and one persistent block on each multiprocessor of the device at hand but
// `free_units`. Throws Error(kInvalidArgument) when none would be left. A processor has no persistent kernels.
LoweringOptions default_lowering(const Target& target, int free_units = 0);

// A graph as a program of it would be, but that no kernel is compiled: for what it takes, not to be run.
struct UnloadedProgram {
  FusionResult fusion;
  std::vector<GeneratedKernel> kernels;  // of each request of the fusion
  LoweredProgram lowered;
};
UnloadedProgram lower_unloaded(const Graph& graph, const Target& target, const LoweringOptions& options);

// Instructions, buffers and the memory that they share; verified.
LoweredProgram lower(const ProgramKernels& program, const SymbolBindings& bindings, const LoweringOptions& options);

}  // namespace causeway::program
