#include "causeway/bench/collective_backend.h"

#include <array>

#include "causeway/base/error.h"
#include "causeway/bench/choices.h"

namespace causeway::bench {
namespace {

constexpr const char* kHowToStart =
    "MPI is between processes that it starts: mpirun -n 4 causeway bench collectives --backend mpi.";

struct Backend {
  const char *name, *device, *serves;
};
constexpr std::array<Backend, 4> kBackends = {{{"threads", "cpu", "processors"},
                                               {"mpi", "cpu", "processors"},
                                               {"nccl", "cuda", "NVIDIA's GPUs"},
                                               {"rccl", "hip", "AMD's GPUs"}}};

}  // namespace

CollectiveBackend choose_collective_backend(const std::string& asked, const std::string& device,
                                            const std::optional<MpiLaunch>& launch) {
  const bool of_several = launch && launch->size > 1;
  std::string name = asked;
  const std::string kind = device.substr(0, device.find(':'));
  if (name.empty()) {
    if (!of_several) return {false, device};
    name = kind == "cuda" ? "nccl" : kind == "hip" ? "rccl" : "mpi";
  }
  const Backend& backend =
      kBackends[choose("backend of collectives", name, "--backend", {"threads", "mpi", "nccl", "rccl"})];
  const bool mpi = name == "mpi";
  if (mpi && !launch)
    throw Error(ErrorKind::kInvalidArgument, "this process was not started by mpirun, mpiexec or srun", "--backend mpi",
                kHowToStart);
  if (mpi && !of_several)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("{} started one process, which has nobody to exchange with",
                            launch->variable == "SLURM_NTASKS" ? "srun" : "mpirun"),
                "--backend mpi", kHowToStart);
  if (name == "threads" && of_several)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("{} processes were started, and {} exchanges within one", launch->size, name), "--backend",
                "Start the program alone, or choose mpi.");
  if (device == "auto") return {of_several, backend.device};
  if (kind != backend.device)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("{} exchanges between {} here, and {} is none", name, backend.serves, device), "--device",
                mpi ? "Leave --device out, or --backend: GPUs exchange by NCCL or RCCL."
                    : fmt::format("Leave --device out, or give {}.", backend.device));
  return {of_several, device};
}

}  // namespace causeway::bench
