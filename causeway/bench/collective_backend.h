// Who carries out the collectives that are measured.
#pragma once

#include <optional>
#include <string>

#include "causeway/communicator/mpi_launch.h"

namespace causeway::bench {

struct CollectiveBackend {
  bool between_processes = false;  // of a launch, a rank each; otherwise between devices of this process
  std::string device;              // to open; between processes a GPU without a number is one for each process
};

// `asked` is "threads", "mpi", "nccl", "rccl", or empty: then what goes with the device, where a launcher started this
// process as one of several MPI unless that is a GPU. NCCL and RCCL exchange between processes where there are several.
// `device` is as open_device() takes it; "auto" becomes what goes with the backend. Throws Error(kInvalidArgument): an
// unknown name; a device that the backend does not serve; MPI without a launcher, or with one process, with how to
// start it.
CollectiveBackend choose_collective_backend(const std::string& asked, const std::string& device,
                                            const std::optional<MpiLaunch>& launch);

}  // namespace causeway::bench
