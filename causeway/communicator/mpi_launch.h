// Whether this process is one of several that mpirun, mpiexec or srun started, as they tell through the environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "causeway/namespaces.h"

namespace causeway::communicator {

// Whose library goes with the launcher.
enum class MpiFamily { kOpenMpi, kMpich, kEither };

struct MpiLaunch {
  MpiFamily family = MpiFamily::kEither;
  std::string variable;  // that told, "OMPI_COMM_WORLD_SIZE"
  int size = 1;
  int rank = 0;
  // Among the launch's processes on this machine, where the launcher tells.
  std::optional<int> local_rank = {}, local_size = {};
};

// From OMPI_COMM_WORLD_SIZE and _RANK (Open MPI 1.3 to 5), PMI_SIZE and _RANK (MPICH, Intel MPI, srun --mpi=pmi2),
// MV2_COMM_WORLD_SIZE and _RANK (MVAPICH2), SLURM_NTASKS with PMIX_RANK (srun --mpi=pmix), in this order; on
// a machine from OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID, MV2_COMM_WORLD_LOCAL_RANK, SLURM_LOCALID. Nothing where
// none is there or makes sense. `environment` is as std::getenv().
std::optional<MpiLaunch> find_mpi_launch(const std::function<const char*(const char*)>& environment);
// Of this process.
std::optional<MpiLaunch> find_mpi_launch();

// Set by `causeway launch`, and by whoever starts processes otherwise: how many there should be.
inline constexpr const char* kProcessesVariable = "CAUSEWAY_PROCESSES";

// How many processes somebody meant to start, whatever they know of each other.
struct ExpectedProcesses {
  std::string variable;  // that tells, "SLURM_NTASKS"
  int count = 1;
};

// From kProcessesVariable, or where srun started this process (SLURM_PROCID) SLURM_STEP_NUM_TASKS or SLURM_NTASKS. A
// shell within a job has no SLURM_PROCID.
std::optional<ExpectedProcesses> find_expected_processes(const std::function<const char*(const char*)>& environment);

// Throws Error(kUnsupported) where the processes of this launch are not as many as were meant to be: above all where
// each of several takes itself for the only one, because the launcher speaks another protocol than the MPI.
void require_expected_processes(const std::optional<MpiLaunch>& launch,
                                const std::optional<ExpectedProcesses>& expected);
void require_expected_processes();  // of this process

}  // namespace causeway::communicator
