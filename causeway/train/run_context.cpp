#include "causeway/train/run_context.h"

#include <sched.h>

#include <cstdlib>
#include <optional>

#include "causeway/base/error.h"
#include "causeway/communicator/mesh_communicators.h"
#include "causeway/communicator/mpi_communicator.h"
#include "causeway/communicator/mpi_launch.h"
#include "causeway/device/open_device.h"

namespace causeway::train {
namespace {

void require_one_process_a_rank(const Recipe::MeshSizes& sizes, const std::optional<MpiLaunch>& launch) {
  const int64_t ranks = sizes.ranks(), processes = launch ? launch->size : 1;
  if (ranks == processes) return;
  std::string axes;
  for (const auto& [name, size] : sizes.axes()) axes += fmt::format("{}{} {}", axes.empty() ? "" : " x ", name, size);
  const std::string started = processes == 1 ? std::string("this process was started alone")
                                             : fmt::format("{} processes were started", processes);
  if (ranks == 1)
    throw Error(ErrorKind::kInvalidArgument, fmt::format("{}, but the recipe has no mesh", started), "mesh",
                fmt::format("Say what they share: mesh.fsdp={}, for example.", processes));
  throw Error(ErrorKind::kInvalidArgument, fmt::format("the mesh has {} ranks ({}), but {}", ranks, axes, started),
              "mesh", fmt::format("Start as many processes as ranks: causeway launch -n {} -- ...", ranks));
}

// Processes of one machine that `causeway launch` bound to no processors take each its part of them.
void take_share_of_processors(const std::optional<MpiLaunch>& launch) {
  if (!launch || !launch->local_rank || !launch->local_size || std::getenv(kProcessesVariable) == nullptr) return;
  cpu_set_t all, own;
  CPU_ZERO(&all);
  CPU_ZERO(&own);
  if (::sched_getaffinity(0, sizeof all, &all) != 0) return;
  const int count = CPU_COUNT(&all), rank = *launch->local_rank, size = *launch->local_size;
  if (count < size || rank >= size) return;
  for (int processor = 0, number = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &all)) continue;
    if (number >= count * rank / size && number < count * (rank + 1) / size) CPU_SET(processor, &own);
    ++number;
  }
  ::sched_setaffinity(0, sizeof own, &own);
}

}  // namespace

std::shared_ptr<Context> open_run_context(const Recipe& recipe, StartTimes& start) {
  require_expected_processes();
  const std::optional<MpiLaunch> launch = find_mpi_launch();
  require_one_process_a_rank(recipe.mesh, launch);
  ContextOptions options;
  options.mesh = make_mesh(recipe.mesh);
  if (options.mesh.empty()) {
    std::shared_ptr<Context> context = Context::open(recipe.device, {}, recipe.device_architecture);
    context->device().limit_memory(recipe.device_memory_limit);
    start.end_of("device");
    return context;
  }
  take_share_of_processors(launch);
  std::shared_ptr<Device> device = open_device(
      device_of_local_rank(recipe.device, launch ? launch->local_rank : std::nullopt, recipe.device_architecture), {},
      recipe.device_architecture);
  device->limit_memory(recipe.device_memory_limit);
  start.end_of("device");
  std::unique_ptr<Communicator> processes = open_mpi(device);
  start.end_of("processes");
  options.communicators =
      std::make_shared<MeshCommunicators>(open_device_communicator(std::move(processes)), options.mesh);
  start.end_of("communicators");
  options.rank = options.communicators->rank();
  return std::make_shared<Context>(std::move(device), std::move(options));
}

}  // namespace causeway::train
