// The MPI launcher that is installed, and how it is called.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "causeway/communicator/mpi_launch.h"

namespace causeway::cli {

struct MpiLauncher {
  std::string command;  // "mpirun"
  MpiFamily family = MpiFamily::kEither;
  std::string version;  // the first line of what it says of itself
};

// The first of mpirun, mpiexec and the names that Debian gives those of each MPI which PATH finds and which says its
// version. Nothing where there is none.
std::optional<MpiLauncher> find_mpi_launcher();

// Whether processes of this program with these words save and stop when they are asked to by a signal.
bool heeds_signals(const std::vector<std::string>& words);

// The command line that starts `program` with `words` as so many processes, each of which is told the number
// (kProcessesVariable), and where it heeds signals that they come by a LaunchLink. More processes than processors are
// allowed, and none is bound to processors: those of one machine share them out (train/run_context.h).
std::vector<std::string> launch_arguments(const MpiLauncher& launcher, int processes, bool as_root,
                                          const std::string& program, const std::vector<std::string>& words);

}  // namespace causeway::cli
