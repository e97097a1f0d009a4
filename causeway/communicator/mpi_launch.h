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
  // Among the processes on this machine, by which each takes a GPU of its own; the rank where nobody tells.
  int local_rank = 0;
};

// From OMPI_COMM_WORLD_SIZE and _RANK (Open MPI 1.3 to 5), PMI_SIZE and _RANK (MPICH, Intel MPI, srun --mpi=pmi2),
// MV2_COMM_WORLD_SIZE and _RANK (MVAPICH2), SLURM_NTASKS with PMIX_RANK (srun --mpi=pmix), in this order; on
// a machine from OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID, MV2_COMM_WORLD_LOCAL_RANK, SLURM_LOCALID. Nothing where
// none is there or makes sense. `environment` is as std::getenv().
std::optional<MpiLaunch> find_mpi_launch(const std::function<const char*(const char*)>& environment);
// Of this process.
std::optional<MpiLaunch> find_mpi_launch();

}  // namespace causeway::communicator
