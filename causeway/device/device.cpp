#include "causeway/device/device.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <chrono>

#include "causeway/base/byte_size.h"
#include "causeway/base/error.h"

namespace causeway::device {
namespace {

using Clock = std::chrono::steady_clock;

struct HostMoment : DeviceMoment {
  Clock::time_point time = Clock::now();
};

struct HostEvent : DeviceEvent {
  bool signalled = false;
};

}  // namespace

// Devices with queues of their own keep the work.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
void Device::run_on_host(std::function<void()> work, DeviceQueue queue) {
  CAUSEWAY_CHECK(shares_host_memory(), "the host cannot work in the memory of {}", name());
  work();
}

// What is mapped is zero.
HostBuffer Device::allocate_host(size_t bytes, bool zeroed) {
  if (bytes == 0) return {};
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED)
    throw Error(ErrorKind::kResource, fmt::format("cannot allocate {} bytes of host memory", bytes), name());
  return {std::shared_ptr<std::byte>(static_cast<std::byte*>(memory),
                                     [bytes](std::byte* mapped) { ::munmap(mapped, bytes); }),
          bytes};
}

void Device::queue_copy_to_host(void* host, const void* from, size_t bytes, DeviceQueue queue) {
  copy_to_host(host, from, bytes);
}

void Device::queue_copy_to_device(void* to, const void* host, size_t bytes, DeviceQueue queue) {
  copy_to_device(to, host, bytes);
}

void require_below_limit(size_t bytes, int64_t in_use, int64_t limit, const std::string& device) {
  if (limit == 0 || (in_use <= limit && bytes <= static_cast<size_t>(limit - in_use))) return;
  throw Error(
      ErrorKind::kResource,
      fmt::format("cannot allocate {} bytes ({}) of device memory: {} in use here, and device_memory_limit lets "
                  "the run take {}",
                  bytes, format_gib(static_cast<int64_t>(std::min<size_t>(bytes, INT64_MAX))), format_gib(in_use),
                  format_gib(limit)),
      device,
      "Raise device_memory_limit, lower train.micro_batch_size or data.sequence_length, set train.recompute to "
      "auto, or keep the optimizer's state or activations in the host's memory (offload.optimizer=true, "
      "offload.activations=true).");
}

std::shared_ptr<DeviceEvent> Device::make_event() { return std::make_shared<HostEvent>(); }

void Device::signal(DeviceEvent& event, DeviceQueue queue) { static_cast<HostEvent&>(event).signalled = true; }

void Device::wait(const DeviceEvent& event, DeviceQueue queue) {
  CAUSEWAY_CHECK(static_cast<const HostEvent&>(event).signalled, "queue {} waits for an event that nobody signalled",
                 queue);
}

std::shared_ptr<DeviceMoment> Device::mark(DeviceQueue) {
  synchronize();
  return std::make_shared<HostMoment>();
}

double Device::seconds_between(const DeviceMoment& from, const DeviceMoment& to) {
  return std::chrono::duration<double>(static_cast<const HostMoment&>(to).time -
                                       static_cast<const HostMoment&>(from).time)
      .count();
}

}  // namespace causeway::device
