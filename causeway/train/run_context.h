// What a run computes with: its device, and where it is one of several processes, the others.
#pragma once

#include <memory>

#include "causeway/program/context.h"
#include "causeway/train/log/start_times.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {

// A context on the recipe's device; where the recipe has a mesh, this process's rank of it, of the processes that MPI
// started, on a GPU of its own where the recipe numbers none. Throws as open_device(), open_mpi() and
// require_expected_processes() do, and Error(kInvalidArgument) where the mesh has another number of ranks than there
// are processes. `start` learns how long each part took.
std::shared_ptr<Context> open_run_context(const Recipe& recipe, StartTimes& start);

}  // namespace causeway::train
