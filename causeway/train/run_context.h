// What a run computes with: its device, and where it is one of several processes, the others.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "causeway/communicator/mpi_launch.h"
#include "causeway/device/open_device.h"
#include "causeway/program/context.h"
#include "causeway/train/log/start_times.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {

// The device that this process of a launch works with: GPUs that `device` does not number go to the processes of a
// machine in their order ("cuda": "cuda:1"). A launcher that shows each process one GPU has done so already.
// `architecture`: what kernels are compiled for, or empty; "auto" then is a GPU of the vendor that has it. Throws
// Error(kInvalidArgument) where none is left, and for an architecture that is not known.
std::string device_of_process(const std::string& device, const std::optional<MpiLaunch>& launch,
                              const std::string& architecture = {}, const DeviceLibraries& libraries = {});

// A context on the recipe's device; where the recipe has a mesh, this process's rank of it, of the processes that MPI
// started, on a GPU of its own where the recipe numbers none. Throws as open_device(), open_mpi() and
// require_expected_processes() do, and Error(kInvalidArgument) where the mesh has another number of ranks than there
// are processes. `start` learns how long each part took.
std::shared_ptr<Context> open_run_context(const Recipe& recipe, StartTimes& start);

}  // namespace causeway::train
