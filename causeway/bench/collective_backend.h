// Who carries out the collectives that are measured.
#pragma once

#include <optional>
#include <string>

#include "causeway/communicator/mpi_launch.h"

namespace causeway::bench {

struct CollectiveBackend {
  bool mpi = false;    // between the processes of a launch, a rank each; otherwise what the device has, in this process
  std::string device;  // to open
};

// `asked` is "threads", "mpi", "nccl", "rccl", or empty: then MPI where a launcher started this process as one of
// several, otherwise what goes with the device. `device` is as open_device() takes it; "auto" becomes what goes with
// the backend. Throws Error(kInvalidArgument): an unknown name; a device that the backend does not serve; MPI without a
// launcher, or with one process, with how to start it.
CollectiveBackend choose_collective_backend(const std::string& asked, const std::string& device,
                                            const std::optional<MpiLaunch>& launch);

}  // namespace causeway::bench
