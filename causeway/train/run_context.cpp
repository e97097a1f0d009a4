#include "causeway/train/run_context.h"

#include "causeway/base/error.h"
#include "causeway/communicator/mesh_communicators.h"
#include "causeway/communicator/mpi_communicator.h"
#include "causeway/communicator/mpi_launch.h"
#include "causeway/device/open_device.h"
#include "causeway/train/ranks.h"

namespace causeway::train {
namespace {

void require_one_process_a_rank(const Recipe::MeshSizes& sizes, const std::optional<MpiLaunch>& launch) {
  const int64_t ranks = sizes.ranks(), processes = launch ? launch->size : 1;
  if (ranks == processes) return;
  if (launch && launch->rank != 0) throw SaidElsewhere();
  std::string axes;
  for (const auto& [name, size] : {std::pair{"dp", sizes.dp}, {"fsdp", sizes.fsdp}, {"cp", sizes.cp}, {"tp", sizes.tp}})
    if (size > 1) axes += fmt::format("{}{} {}", axes.empty() ? "" : " x ", name, size);
  const std::string started = processes == 1 ? std::string("this process was started alone")
                                             : fmt::format("{} processes were started", processes);
  if (ranks == 1)
    throw Error(ErrorKind::kInvalidArgument, fmt::format("{}, but the recipe has no mesh", started), "mesh",
                fmt::format("Say what they share: mesh.fsdp={}, for example.", processes));
  throw Error(ErrorKind::kInvalidArgument, fmt::format("the mesh has {} ranks ({}), but {}", ranks, axes, started),
              "mesh", fmt::format("Start as many processes as ranks: mpirun -n {} causeway train ...", ranks));
}

// Each process on a machine has a GPU of its own, where the recipe names none.
std::string device_of_rank(const std::string& device, int local_rank) {
  if (device == "cuda" || device == "hip") return fmt::format("{}:{}", device, local_rank);
  if (device != "auto") return device;
  for (const DeviceDescription& found : describe_devices())
    for (const char* vendor : {"cuda", "hip"})
      if (found.usable && found.spec == fmt::format("{}:{}", vendor, local_rank)) return found.spec;
  return device;
}

}  // namespace

std::shared_ptr<Context> open_run_context(const Recipe& recipe) {
  const std::optional<MpiLaunch> launch = find_mpi_launch();
  require_one_process_a_rank(recipe.mesh, launch);
  ContextOptions options;
  options.mesh = make_mesh(recipe.mesh);
  if (options.mesh.empty()) return Context::open(recipe.device);
  std::shared_ptr<Device> device = open_device(device_of_rank(recipe.device, launch->local_rank));
  options.communicators = std::make_shared<MeshCommunicators>(open_device_communicator(open_mpi(device)), options.mesh);
  options.rank = options.communicators->rank();
  return std::make_shared<Context>(std::move(device), std::move(options));
}

}  // namespace causeway::train
