// Collectives among GPUs by their vendor's library, opened when it is needed. NVIDIA's NCCL and AMD's RCCL export the
// same functions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "causeway/communicator/communicator.h"

namespace causeway::communicator {

// Work is queued on each device's stream. The order in which ranks are added up is the library's. Devices are GPUs of
// one vendor, each its own. Errors as open_communicator() says.
std::unique_ptr<Communicator> open_nccl(std::vector<std::shared_ptr<Device>> devices,
                                        const CommunicatorOptions& options);

// One rank's end on its GPU, among the ranks of `control`, which drives one rank each and tells them of one another.
// Called by all of them.
std::unique_ptr<Communicator> open_nccl(const std::shared_ptr<Communicator>& control,
                                        const CommunicatorOptions& options);

// RCCL, likewise.
//
// Unproven: tested against a stand-in for the library; it has not run on a GPU.
std::unique_ptr<Communicator> open_rccl(std::vector<std::shared_ptr<Device>> devices,
                                        const CommunicatorOptions& options);
std::unique_ptr<Communicator> open_rccl(const std::shared_ptr<Communicator>& control,
                                        const CommunicatorOptions& options);

}  // namespace causeway::communicator
