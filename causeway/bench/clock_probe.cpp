#include "causeway/bench/clock_probe.h"

#include <array>
#include <cstdint>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/codegen/compile/kernel_cache.h"
#include "causeway/program/kernel_library.h"

namespace causeway::bench {
namespace {

constexpr int kThreads = 64;  // whole waves, whatever the architecture
constexpr const char* kFunction = "read_clock";

// From one step of the time to another, so that its resolution does not matter. A time that stands still must not hold
// up the device: then no nanoseconds have passed.
constexpr const char* kSource = R"(#include "causeway/kernels/gpu/intrinsics.h"
CAUSEWAY_KERNEL(read_clock, 64, 1, 1, 1, 0) {
  if (thread_index() != 0) return;
  uint64_t* reading = static_cast<uint64_t*>(buffers[0]) + 2 * sizes[0];
  const uint64_t before = device_nanoseconds();
  uint64_t begin = before, end = before;
  int polls = 1 << 16;
  while (begin == before && --polls > 0) begin = device_nanoseconds();
  const uint64_t first = multiprocessor_cycles();
  while (end < begin + 20000 && --polls > 0) end = device_nanoseconds();
  reading[0] = multiprocessor_cycles() - first;
  reading[1] = polls > 0 ? end - begin : 0;
}
)";

}  // namespace

std::unique_ptr<ClockProbe> ClockProbe::open(Device& device) {
  if (!device.target().is_gpu()) return nullptr;
  KernelLibrary library(device, std::make_shared<KernelCache>());
  return std::unique_ptr<ClockProbe>(new ClockProbe(device, library.load({kSource}).front()));
}

ClockProbe::ClockProbe(Device& device, std::shared_ptr<DeviceModule> module)
    : device_(device),
      module_(std::move(module)),
      readings_(device.allocate(kMostReadings * 2 * sizeof(uint64_t), true)) {}

void ClockProbe::read() {
  CAUSEWAY_CHECK(count_ < kMostReadings, "{} readings of the clock are waiting", count_);
  void* const buffers[] = {readings_.data()};
  const int64_t sizes[] = {count_++};
  device_.launch(
      {.kernel = module_->kernel(kFunction), .buffers = buffers, .sizes = sizes, .task_count = 1, .threads = kThreads});
}

std::optional<double> ClockProbe::mean_mhz() {
  if (count_ == 0) return std::nullopt;
  std::array<uint64_t, 2 * kMostReadings> readings;
  device_.copy_to_host(readings.data(), readings_.data(), sizeof readings);
  const int count = std::exchange(count_, 0);
  double sum = 0;
  int good = 0;
  for (int i = 0; i < count; ++i) {
    if (readings[2 * i + 1] == 0) continue;
    sum += 1000 * static_cast<double>(readings[2 * i]) / static_cast<double>(readings[2 * i + 1]);
    ++good;
  }
  return good == 0 ? std::nullopt : std::optional(sum / good);
}

}  // namespace causeway::bench
