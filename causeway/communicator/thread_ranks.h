// Ranks that are threads of this process, each with one rank's end of a group: several contexts at once, above all in
// tests.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "causeway/communicator/communicator.h"

namespace causeway::communicator {

// Calls `body` in a thread for each of the devices at the same time, with that rank's end of a group of all, which no
// other thread uses. Returns when all have ended. When a rank throws, whoever waits for it gets Error(kIo) that says
// so; what the first one threw is thrown here. A rank that ends early, or destroys its end of a group, is waited for no
// more either.
//
// Sums as memory_collectives.h says. Devices may be of any kind; those that do not share the host's memory exchange
// bytes (gather() and what is made of it) and no collectives. Ranks that come with different collectives get
// Error(kInvalidArgument), all of them.
void run_thread_ranks(const std::vector<std::shared_ptr<Device>>& devices,
                      const std::function<void(std::shared_ptr<Communicator> rank)>& body);

}  // namespace causeway::communicator
