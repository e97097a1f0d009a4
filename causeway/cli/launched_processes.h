// Runs a launcher of MPI, and passes on to what it started what this process is asked by signals.
#pragma once

#include <string>
#include <vector>

#include "causeway/cli/mpi_launcher.h"

namespace causeway::cli {

// Starts `words` and waits for its end; returns its exit status, as a shell gives it. The launcher has a session of its
// own, so that no signal reaches it by the terminal or the process group.
//
// Where the processes heed signals and the launcher's family is known, SIGINT, SIGTERM, SIGHUP and SIGUSR1 go to the
// first of them by a communicator::LaunchLink; otherwise the stopping ones go to the launcher. A second stopping one
// ends everything at once, and 130 is returned; those within a quarter of a second are one, because terminals,
// `timeout` and service managers send the same request twice. Signals that this process was started to ignore stay
// ignored.
//
// Nothing that was started on this machine outlives this process: what the launcher leaves behind is given ten seconds
// to end, and when this process is killed, the launcher ends the rest.
//
// Throws Error(kIo) where it cannot be started.
int run_launched_processes(const MpiLauncher& launcher, const std::vector<std::string>& words, bool heed_signals);

}  // namespace causeway::cli
