#include "causeway/communicator/mpi_launch.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "causeway/base/error.h"

namespace causeway::communicator {
namespace {

std::optional<int> number(const char* text) {
  if (text == nullptr) return {};
  const std::string_view digits = text;
  int value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (problem != std::errc() || end != digits.data() + digits.size()) return {};
  return value;
}

std::optional<int> first_number(const std::function<const char*(const char*)>& environment,
                                std::initializer_list<const char*> variables) {
  for (const char* variable : variables)
    if (const std::optional<int> value = number(environment(variable))) return value;
  return {};
}

const char* variable_of_process(const char* name) { return std::getenv(name); }

}  // namespace

std::optional<MpiLaunch> find_mpi_launch(const std::function<const char*(const char*)>& environment) {
  struct Variables {
    MpiFamily family;
    const char *size, *rank;
  };
  for (const Variables& variables : {Variables{MpiFamily::kOpenMpi, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                     {MpiFamily::kMpich, "PMI_SIZE", "PMI_RANK"},
                                     {MpiFamily::kMpich, "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
                                     {MpiFamily::kEither, "SLURM_NTASKS", "PMIX_RANK"}}) {
    const std::optional<int> size = number(environment(variables.size)), rank = number(environment(variables.rank));
    if (!size || !rank || *rank < 0 || *rank >= *size) continue;
    MpiLaunch launch{variables.family, variables.size, *size, *rank};
    launch.local_rank = first_number(
        environment, {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"});
    launch.local_size =
        first_number(environment, {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE"});
    return launch;
  }
  return {};
}

std::optional<MpiLaunch> find_mpi_launch() { return find_mpi_launch(variable_of_process); }

std::optional<ExpectedProcesses> find_expected_processes(const std::function<const char*(const char*)>& environment) {
  if (const std::optional<int> count = number(environment(kProcessesVariable)); count && *count > 0)
    return ExpectedProcesses{kProcessesVariable, *count};
  if (environment("SLURM_PROCID") == nullptr) return {};
  for (const char* variable : {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"})
    if (const std::optional<int> count = number(environment(variable)); count && *count > 0)
      return ExpectedProcesses{variable, *count};
  return {};
}

void require_expected_processes(const std::optional<MpiLaunch>& launch,
                                const std::optional<ExpectedProcesses>& expected) {
  const int processes = launch ? launch->size : 1;
  if (!expected || expected->count == processes) return;
  // mpirun within a job of Slurm starts what it is told to.
  if (launch && launch->family != MpiFamily::kEither && expected->variable != kProcessesVariable) return;
  const std::string knows = launch ? fmt::format("the launcher tells each of {} ({})", processes, launch->variable)
                                   : "this one knows of no other";
  const std::string hint =
      expected->variable == kProcessesVariable
          ? fmt::format(
                "Start them by `causeway launch -n {}`, or by the mpirun of the MPI that is installed; unset {} "
                "for a run of other size.",
                expected->count, kProcessesVariable)
          : "The launcher's process manager is not the MPI's: start them by srun --mpi=pmix (srun --mpi=list shows "
            "what "
            "there is), or by mpirun; for one process by srun -n 1.";
  throw Error(ErrorKind::kUnsupported,
              fmt::format("{} processes were to be started ({}), but {}", expected->count, expected->variable, knows),
              "launch", hint);
}

void require_expected_processes() {
  require_expected_processes(find_mpi_launch(), find_expected_processes(variable_of_process));
}

}  // namespace causeway::communicator
