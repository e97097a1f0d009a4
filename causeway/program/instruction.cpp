#include "causeway/program/instruction.h"

#include <fmt/format.h>

#include <algorithm>

namespace causeway::program {

int64_t larger_bytes(const Collectives::Part& part, int ranks) {
  return std::max(part.collective.sent(ranks), part.collective.received(ranks)) *
         static_cast<int64_t>(size_bytes(part.collective.dtype));
}

std::vector<Access> Instruction::accesses() const {
  if (const auto* launch = std::get_if<Launch>(&work)) return launch->accesses;
  if (const auto* copy = std::get_if<Copy>(&work)) return {{copy->from, false}, {{copy->to, copy->from.content}, true}};
  if (const auto* message = std::get_if<StageMessage>(&work)) return {{message->holding, !message->sends}};
  std::vector<Access> accesses;
  if (const auto* collectives = std::get_if<Collectives>(&work)) {
    for (const Collectives::Part& part : collectives->parts) {
      accesses.push_back({part.from, false});
      accesses.push_back({part.to, true});
    }
  }
  return accesses;
}

std::string queue_name(DeviceQueue queue) {
  return queue == kComputeQueue         ? "the compute queue"
         : queue == kCopyQueue          ? "the copy queue"
         : queue == kCommunicationQueue ? "the communication queue"
         : queue == kSaveQueue          ? "the save queue"
         : queue == kLoadQueue          ? "the load queue"
         : queue == kStoreQueue         ? "the store queue"
                                        : fmt::format("queue {}", queue);
}

std::string describe(const Instruction& instruction) {
  std::string what;
  if (const auto* launch = std::get_if<Launch>(&instruction.work)) {
    what = fmt::format("launch of kernel {}", launch->kernel);
  } else if (const auto* copy = std::get_if<Copy>(&instruction.work)) {
    what = fmt::format("copy from buffer {} to buffer {}", copy->from.buffer, copy->to);
  } else if (const auto* collectives = std::get_if<Collectives>(&instruction.work)) {
    const Collectives::Part& first = collectives->parts.front();
    what = fmt::format("{} over {} of kernel {}", collective_name(first.collective.kind), collectives->group,
                       first.kernel);
    if (collectives->parts.size() > 1) what += fmt::format(" and {} more", collectives->parts.size() - 1);
  } else if (const auto* message = std::get_if<StageMessage>(&instruction.work)) {
    what = fmt::format("{} {} {} stage {} of kernel {}", message->sends ? "send" : "receive", message->name,
                       message->sends ? "to" : "from", message->stage, message->kernel);
  } else {
    what = fmt::format("wait for signal {}", std::get<Wait>(instruction.work).signal);
  }
  return what + " on " + queue_name(instruction.queue);
}

}  // namespace causeway::program
