#include "causeway/communicator/communicator.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/base/thread_pool.h"
#include "causeway/communicator/nccl_communicator.h"
#include "causeway/communicator/thread_communicator.h"

namespace causeway::communicator {
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

Communicator::Communicator(std::vector<std::shared_ptr<Device>> devices)
    : devices_(std::move(devices)), size_(local_size()) {
  CAUSEWAY_CHECK(!devices_.empty(), "a group of no devices");
}

Communicator::Communicator(std::vector<std::shared_ptr<Device>> devices, int first_local, int size)
    : devices_(std::move(devices)), first_local_(first_local), size_(size) {
  CAUSEWAY_CHECK(!devices_.empty() && first_local >= 0 && first_local + local_size() <= size,
                 "{} ranks from {} on, of {}", devices_.size(), first_local, size);
}

const std::shared_ptr<Device>& Communicator::shared_device(int rank) const {
  CAUSEWAY_CHECK(is_local(rank), "rank {} is another process's", rank);
  return devices_[static_cast<size_t>(rank - first_local_)];
}

Placement Communicator::placement() const {
  return device(first_local_).target().computes_on_processors() ? Placement{1, size(), available_processors()}
                                                                : Placement{};
}

void Communicator::run(const Collective& collective, std::span<const void* const> from, std::span<void* const> to,
                       DeviceQueue queue) {
  const auto local = static_cast<size_t>(local_size());
  CAUSEWAY_CHECK(from.size() == local && to.size() == local, "{} sent and {} received buffers for {} ranks",
                 from.size(), to.size(), local);
  CAUSEWAY_CHECK(collective.count >= 0 && collective.root >= 0 && collective.root < size(),
                 "{} of {} elements with root {} of {}", collective_name(collective.kind), collective.count,
                 collective.root, size());
  check_dtype(collective.dtype);
  if (collective.count == 0) return;
  if (collective.kind != CollectiveKind::kSendReceive) return do_run(collective, from, to, queue);
  std::vector<Transfer> transfers;
  const auto place = [&](int rank) { return static_cast<size_t>(rank - first_local()); };
  for (int rank = 0; rank < size(); ++rank) {
    const int next = (rank + 1) % size();
    transfers.push_back({rank, next, is_local(rank) ? from[place(rank)] : nullptr,
                         is_local(next) ? to[place(next)] : nullptr, collective.count, collective.dtype});
  }
  do_send_receive(transfers, queue);
}

void Communicator::send_receive(std::span<const Transfer> transfers, DeviceQueue queue) {
  for (const Transfer& transfer : transfers) {
    CAUSEWAY_CHECK(transfer.sender >= 0 && transfer.sender < size() && transfer.receiver >= 0 &&
                       transfer.receiver < size() && transfer.count >= 0,
                   "{} elements from rank {} to rank {} of {}", transfer.count, transfer.sender, transfer.receiver,
                   size());
    check_dtype(transfer.dtype);
  }
  if (!transfers.empty()) do_send_receive(transfers, queue);
}

void Communicator::send(const Message& message, const void* from, DeviceQueue queue) {
  check_message(message);
  if (message.count > 0) do_send(message, from, queue);
}

void Communicator::receive(const Message& message, void* to, DeviceQueue queue) {
  check_message(message);
  if (message.count > 0) do_receive(message, to, queue);
}

void Communicator::check_message(const Message& message) const {
  CAUSEWAY_CHECK(local_size() == 1 && message.peer >= 0 && message.peer < size() && message.peer != first_local() &&
                     message.stream >= 0 && message.stream < kMessageStreams && message.count >= 0,
                 "a message between rank {} and rank {} of {}, in stream {}", first_local(), message.peer, size(),
                 message.stream);
  check_dtype(message.dtype);
}

void Communicator::do_send(const Message&, const void*, DeviceQueue) {
  CAUSEWAY_CHECK(false, "{} sends no messages", name());
}

void Communicator::do_receive(const Message&, void*, DeviceQueue) {
  CAUSEWAY_CHECK(false, "{} receives no messages", name());
}

std::unique_ptr<Communicator> Communicator::split(std::optional<int> color, int key) {
  CAUSEWAY_CHECK(local_size() == 1, "a process that drives {} ranks splits their group", local_size());
  return do_split(color, key);
}

std::unique_ptr<Communicator> Communicator::do_split(std::optional<int> color, int key) {
  CAUSEWAY_CHECK(false, "{} splits no groups", name());
  return nullptr;
}

void Communicator::synchronize() {
  for (const auto& device : devices_) device->synchronize();
}

void Communicator::barrier() {
  if (spans_processes()) do_barrier();
}

double Communicator::of_first(double value) { return spans_processes() ? do_of_first(value) : value; }

std::string Communicator::of_first(std::string bytes) {
  if (!spans_processes()) return bytes;
  return do_gather(first_local() == 0 ? bytes : std::string()).front();
}

double Communicator::do_of_first(double value) {
  const std::string bytes = of_first(std::string(reinterpret_cast<const char*>(&value), sizeof value));
  CAUSEWAY_CHECK(bytes.size() == sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::vector<std::string> Communicator::gather(const std::string& bytes) {
  if (!spans_processes()) return {bytes};
  return do_gather(bytes);
}

std::vector<std::string> Communicator::do_gather(const std::string& bytes) {
  CAUSEWAY_CHECK(!spans_processes(), "{} does not exchange bytes", name());
  return {bytes};
}

void Communicator::total(std::span<double> values) {
  if (!spans_processes() || values.empty()) return;
  const size_t bytes = values.size_bytes();
  const std::vector<std::string> all = do_gather(std::string(reinterpret_cast<const char*>(values.data()), bytes));
  std::fill(values.begin(), values.end(), 0);
  std::vector<double> one(values.size());
  for (const std::string& of_process : all) {
    CAUSEWAY_CHECK(of_process.size() == bytes, "{} bytes to be added to {}", of_process.size(), bytes);
    std::memcpy(one.data(), of_process.data(), bytes);
    for (size_t i = 0; i < one.size(); ++i) values[i] += one[i];
  }
}

void Communicator::together(const std::function<void()>& work) {
  if (!spans_processes()) return work();
  std::string failure;
  const auto tell = [&](ErrorKind kind, const std::string& message, const std::string& where, const std::string& hint) {
    failure = nlohmann::json({static_cast<int>(kind), message, where, hint})
                  .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  try {
    work();
  } catch (const CollectiveError&) {
    throw;  // nothing can be told
  } catch (const Error& error) {
    tell(error.kind(), error.message(), error.where(), error.hint());
  } catch (const std::bad_alloc&) {
    tell(ErrorKind::kResource, "this machine's memory does not suffice", "",
         "Choose smaller sizes, or fewer processes.");
  }
  for (const std::string& of_process : do_gather(failure)) {
    if (of_process.empty()) continue;
    const nlohmann::json error = nlohmann::json::parse(of_process);
    throw Error(static_cast<ErrorKind>(error[0].get<int>()), error[1], error[2], error[3]);
  }
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
    case Target::Family::kEmulator:
      return make_thread_communicator(std::move(devices));
    case Target::Family::kNvptx:
      return open_nccl(std::move(devices), options);
    case Target::Family::kAmdgpu:
      return open_rccl(std::move(devices), options);
  }
  CAUSEWAY_CHECK(false, "no such family of devices");
  return nullptr;
}

std::shared_ptr<Communicator> open_device_communicator(std::shared_ptr<Communicator> ends,
                                                       const CommunicatorOptions& options) {
  const std::string family(target_family_name(ends->device(ends->first_local()).target().family));
  const std::vector<std::string> families = ends->gather(family);
  for (size_t rank = 0; rank < families.size(); ++rank)
    if (families[rank] != families.front())
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("rank 0 computes on {} and rank {} on {}", families.front(), rank, families[rank]),
                  "collectives", "A group has devices of one kind.");
  switch (ends->device(ends->first_local()).target().family) {
    case Target::Family::kNvptx:
      return open_nccl(ends, options);
    case Target::Family::kAmdgpu:
      return open_rccl(ends, options);
    default:
      return ends;
  }
}

}  // namespace causeway::communicator
