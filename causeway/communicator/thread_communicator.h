// Collectives among ranks in the processor's memory, all driven by one caller.
#pragma once

#include <memory>
#include <vector>

#include "causeway/communicator/communicator.h"

namespace causeway::communicator {

// A thread of its own for every rank; calls return when all is done, whatever the queue. Sums as memory_collectives.h
// says. Devices share the host's memory, and may be the same one.
std::unique_ptr<Communicator> make_thread_communicator(std::vector<std::shared_ptr<Device>> devices);

}  // namespace causeway::communicator
