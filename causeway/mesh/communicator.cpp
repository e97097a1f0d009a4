#include "causeway/mesh/communicator.h"

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/mesh/nccl_communicator.h"
#include "causeway/mesh/thread_communicator.h"

namespace causeway {
namespace {

void check_dtype(DType dtype) {
  if (dtype != DType::kF32 && dtype != DType::kBF16)
    throw Error(ErrorKind::kUnsupported, fmt::format("collectives do not carry {}", dtype_name(dtype)), "collectives",
                "Choose f32 or bf16.");
}

}  // namespace

std::string_view collective_name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kAllToAll:
      return "all_to_all";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    default:
      return "send_receive";
  }
}

bool has_in_place(CollectiveKind kind) {
  return kind != CollectiveKind::kAllToAll && kind != CollectiveKind::kSendReceive;
}

int64_t Collective::sent(int ranks) const {
  return kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllToAll ? ranks * count : count;
}

int64_t Collective::received(int ranks) const {
  return kind == CollectiveKind::kAllGather || kind == CollectiveKind::kAllToAll ? ranks * count : count;
}

Communicator::Communicator(std::vector<std::shared_ptr<Device>> devices) : devices_(std::move(devices)) {
  CAUSEWAY_CHECK(!devices_.empty(), "a group of no devices");
}

void Communicator::run(const Collective& collective, std::span<const void* const> from, std::span<void* const> to) {
  const auto ranks = static_cast<size_t>(size());
  CAUSEWAY_CHECK(from.size() == ranks && to.size() == ranks, "{} sent and {} received buffers for {} ranks",
                 from.size(), to.size(), ranks);
  CAUSEWAY_CHECK(collective.count >= 0 && collective.root >= 0 && collective.root < size(),
                 "{} of {} elements with root {} of {}", collective_name(collective.kind), collective.count,
                 collective.root, ranks);
  check_dtype(collective.dtype);
  if (collective.count == 0) return;
  if (collective.kind != CollectiveKind::kSendReceive) return do_run(collective, from, to);
  std::vector<Transfer> transfers;
  for (int rank = 0; rank < size(); ++rank) {
    const int next = (rank + 1) % size();
    transfers.push_back({rank, next, from[static_cast<size_t>(rank)], to[static_cast<size_t>(next)], collective.count,
                         collective.dtype});
  }
  do_send_receive(transfers);
}

void Communicator::send_receive(std::span<const Transfer> transfers) {
  for (const Transfer& transfer : transfers) {
    CAUSEWAY_CHECK(transfer.sender >= 0 && transfer.sender < size() && transfer.receiver >= 0 &&
                       transfer.receiver < size() && transfer.count >= 0,
                   "{} elements from rank {} to rank {} of {}", transfer.count, transfer.sender, transfer.receiver,
                   size());
    check_dtype(transfer.dtype);
  }
  if (!transfers.empty()) do_send_receive(transfers);
}

void Communicator::synchronize() {
  for (const auto& device : devices_) device->synchronize();
}

std::unique_ptr<Communicator> open_communicator(std::vector<std::shared_ptr<Device>> devices,
                                                const CommunicatorOptions& options) {
  CAUSEWAY_CHECK(!devices.empty(), "a group of no devices");
  const Device& first = *devices.front();
  const Target::Family family = first.target().family;
  for (const auto& device : devices)
    if (device->target().family != family)
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("{} and {} cannot exchange data in one group", first.name(), device->name()),
                  "collectives", "A group has devices of one kind.");
  switch (family) {
    case Target::Family::kX86:
      return make_thread_communicator(std::move(devices));
    case Target::Family::kNvptx:
      return open_nccl(std::move(devices), options);
    case Target::Family::kAmdgpu:
      return open_rccl(std::move(devices), options);
    default:
      throw Error(ErrorKind::kUnsupported, "the emulator has no collectives", first.name(), "Choose cpu, cuda or hip.");
  }
}

}  // namespace causeway
