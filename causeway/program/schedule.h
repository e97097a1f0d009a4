// The order over queues: which instruction goes to which queue, and the signals and waits between them.
#pragma once

#include <cstdint>
#include <vector>

#include "causeway/program/collective_order.h"
#include "causeway/program/host_offload.h"
#include "causeway/program/instruction.h"

namespace causeway::program {

struct ScheduleOptions {
  // Copies of so many bytes and more go to the copy queue where a launch is left to run beside them.
  int64_t copy_queue_from = INT64_MAX;
  // Collectives go to the communication queue, together up to so many bytes, as order_collectives() says, and messages
  // to the queues of their streams. 0: to the compute queue, one by one, where they are.
  int64_t collective_bucket_bytes = 0;
  // Copies between the host and the device go to the load and the store queue, in batches of so many bytes where there
  // is that much of them (a kHostBatches-th of all, where that is less), so that two batches come or go while one is
  // used. 0: to the compute queue, right where they are needed.
  int64_t host_batch_bytes = 0;
};
inline constexpr int64_t kHostBatches = 16;

// On a GPU copies are done beside kernels where they take longer than the signal and the wait that they cost, and so
// are collectives. A processor does one thing after the other.
ScheduleOptions default_schedule(const Target& target);

struct InstructionSchedule {
  std::vector<Instruction> instructions;
  int signals = 1;
};

// `kernels` as they may run one after the other, and `copies` as they may after all of them. A copy is queued as soon
// as what it reads is written and what it overwrites is read, and the compute queue waits at last for every other one.
// Copies between the host and the device are placed as host_offload.h says. What buffers of the arena share is planned
// afterwards, over this order.
InstructionSchedule schedule_instructions(std::vector<KernelWork> kernels, const std::vector<Copy>& copies,
                                          const ScheduleOptions& options, const HostCopies& host = {});

}  // namespace causeway::program
