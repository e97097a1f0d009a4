// Collectives among ranks in the processor's memory.
#pragma once

#include <memory>
#include <vector>

#include "causeway/communicator/communicator.h"

namespace causeway::communicator {

// A thread of its own for every rank; calls return when all is done. Sums are f32, of the ranks in their order,
// whatever the sizes and the number of processors, and are rounded to bf16 once: same inputs, same bits. Devices are
// processors, and may be the same one.
std::unique_ptr<Communicator> make_thread_communicator(std::vector<std::shared_ptr<Device>> devices);

}  // namespace causeway::communicator
