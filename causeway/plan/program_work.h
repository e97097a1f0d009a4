// The work of a program of ours, instruction by instruction: what `causeway train` would launch, on a device that need
// not be here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "causeway/device/target.h"
#include "causeway/plan/work.h"
#include "causeway/program/program_memory.h"

namespace causeway::plan {

struct ProgramWork {
  std::vector<Work> work;
  ProgramMemory memory;  // to the byte
};

// `graph` has been through the passes for a rank of the mesh. Kernels are generated, which memory depends on, and not
// compiled. Collectives that go together are one piece of work. `fixed_order` and `offloads_activations`: as
// LoweringOptions has them.
ProgramWork work_of_program(const Graph& graph, const Target& target, const Mesh& mesh, int64_t devices_per_node,
                            bool fixed_order = false, bool offloads_activations = false);

// What one launch of a kernel cannot do without.
struct KernelWork {
  double bytes = 0;     // read and written, each tensor once
  double flops = 0;     // of GEMMs and attention, as Work has them
  std::string operand;  // of these: what is multiplied, "bf16"
};
// Of each kernel of the program that the graph becomes, in the order of Program::kernel_reports(). Exchanges have none.
// `bindings` gives every symbol's value.
std::vector<KernelWork> work_of_kernels(const Graph& graph, const Target& target, const SymbolBindings& bindings = {},
                                        bool fixed_order = false);

}  // namespace causeway::plan
