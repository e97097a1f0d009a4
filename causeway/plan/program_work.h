// The work of a program of ours, instruction by instruction: what `causeway train` would launch, on a device that need
// not be here.
#pragma once

#include <memory>
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
// compiled. Collectives that go together are one piece of work.
ProgramWork work_of_program(const Graph& graph, const Target& target, const Mesh& mesh, int64_t devices_per_node);

}  // namespace causeway::plan
