// Queues and events: on every kind of device, GPUs by stand-ins for their drivers; or on the one that the environment
// variable CAUSEWAY_TEST_DEVICE names ("cuda", "hip").
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/codegen/compile/compiler.h"
#include "causeway/device/cuda/cuda_device.h"
#include "causeway/device/hip/hip_device.h"
#include "tests/device/device_under_test.h"
#include "tests/device/gpu_stand_in_library.h"

namespace causeway::device {

using namespace codegen;

namespace {

std::vector<std::string> device_specs() {
  return devices_under_test({"cpu", "emulator:sm_90a", "emulator:gfx942", "cuda stand-in", "hip stand-in"});
}
// Those that run GPUs' kernels.
std::vector<std::string> kernel_specs() { return devices_under_test({"emulator:sm_90a", "emulator:gfx942"}); }
// Those that do other queues' work as late as they may.
std::vector<std::string> late_specs() { return {"emulator:sm_90a", "cuda stand-in", "hip stand-in"}; }

class DeviceQueues : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "cuda stand-in") {
      open_stand_in(CAUSEWAY_CUDA_STAND_IN) = StandIn();
      device_ = std::make_shared<CudaDevice>(CudaOptions{0, CAUSEWAY_CUDA_STAND_IN});
    } else if (GetParam() == "hip stand-in") {
      open_stand_in(CAUSEWAY_HIP_STAND_IN) = StandIn();
      device_ = std::make_shared<HipDevice>(HipOptions{0, {CAUSEWAY_HIP_STAND_IN}});
    } else {
      device_ = open_device_under_test(GetParam());
    }
    // Long enough on a GPU that what is queued next could overtake it.
    if (GetParam() == device_of_environment()) words_ = size_t{64} << 20;
    for (DeviceBuffer* buffer : {&a_, &b_, &c_, &d_}) *buffer = device_->allocate(bytes(), true);
  }
  void TearDown() override {
    for (DeviceBuffer* buffer : {&a_, &b_, &c_, &d_}) *buffer = {};
    device_.reset();
    if (is_stand_in()) {
      expect_returned(open_stand_in(GetParam() == "cuda stand-in" ? CAUSEWAY_CUDA_STAND_IN : CAUSEWAY_HIP_STAND_IN));
    }
  }

  bool is_stand_in() const { return GetParam().ends_with("stand-in"); }
  size_t bytes() const { return words_ * sizeof(uint32_t); }
  void write(const DeviceBuffer& buffer, uint32_t value) {
    const std::vector<uint32_t> words(words_, value);
    device_->copy_to_device(buffer.data(), words.data(), bytes());
  }
  // What every word of the buffer is; -1 where they differ.
  int64_t read(const DeviceBuffer& buffer) {
    std::vector<uint32_t> words(words_);
    device_->copy_to_host(words.data(), buffer.data(), bytes());
    const bool equal = std::all_of(words.begin(), words.end(), [&](uint32_t word) { return word == words[0]; });
    return equal ? int64_t{words[0]} : -1;
  }
  void copy(const DeviceBuffer& to, const DeviceBuffer& from, DeviceQueue queue) {
    device_->copy_on_device(to.data(), from.data(), bytes(), queue);
  }

  // b = a in the compute queue; c = b in the copy queue; then b = d in the compute queue, and d = c in the end.
  void there_and_back(DeviceEvent& written, DeviceEvent& copied) {
    // What takes its time before b is there.
    for (int i = 0; i < 8; ++i) copy(b_, d_, kComputeQueue);
    copy(b_, a_, kComputeQueue);
    device_->signal(written, kComputeQueue);
    device_->wait(written, kCopyQueue);
    copy(c_, b_, kCopyQueue);
    device_->signal(copied, kCopyQueue);
    device_->wait(copied, kComputeQueue);
    copy(b_, d_, kComputeQueue);
    copy(d_, c_, kComputeQueue);
  }

  std::shared_ptr<Device> device_;
  size_t words_ = 1000;
  DeviceBuffer a_, b_, c_, d_;
};

TEST_P(DeviceQueues, EventsOrderThem) {
  const auto written = device_->make_event(), copied = device_->make_event();
  // Events serve again and again.
  for (uint32_t value = 1; value < 6; ++value) {
    write(a_, value);
    write(d_, 100 + value);
    there_and_back(*written, *copied);
    EXPECT_EQ(read(c_), value);
    EXPECT_EQ(read(b_), 100 + value);
    EXPECT_EQ(read(d_), value);
  }
}

TEST_P(DeviceQueues, ARecordingForksAndJoins) {
  const auto written = device_->make_event(), copied = device_->make_event();
  there_and_back(*written, *copied);
  const std::shared_ptr<DeviceGraph> graph = device_->record([&] { there_and_back(*written, *copied); });
  if (!device_->target().is_gpu() || GetParam().starts_with("emulator")) {
    EXPECT_EQ(graph, nullptr);
    return;
  }
  ASSERT_NE(graph, nullptr);
  for (uint32_t value = 1; value < 6; ++value) {
    write(a_, value);
    write(d_, 100 + value);
    device_->replay(*graph);
    EXPECT_EQ(read(c_), value);
    EXPECT_EQ(read(b_), 100 + value);
    EXPECT_EQ(read(d_), value);
  }
  // Events that were recorded serve outside of it too.
  write(a_, 9);
  there_and_back(*written, *copied);
  EXPECT_EQ(read(c_), 9);
}

TEST_P(DeviceQueues, SynchronizingWaitsForAll) {
  write(a_, 5);
  const auto written = device_->make_event();
  device_->signal(*written, kComputeQueue);
  for (const DeviceQueue queue : {1, 2, 5}) device_->wait(*written, queue);
  copy(b_, a_, 1);
  copy(c_, a_, 2);
  copy(d_, a_, 5);
  device_->synchronize();
  for (const DeviceBuffer* buffer : {&b_, &c_, &d_}) EXPECT_EQ(read(*buffer), 5);
}

TEST_P(DeviceQueues, CopiesToTheHostAreOrderedByEvents) {
  const HostBuffer host = device_->allocate_host(bytes());
  EXPECT_EQ(host.bytes, bytes());
  EXPECT_EQ(device_->allocate_host(0).data(), nullptr);
  const auto written = device_->make_event(), copied = device_->make_event();
  for (uint32_t value = 1; value < 4; ++value) {
    write(a_, value);
    write(d_, 100 + value);
    device_->signal(*written, kComputeQueue);
    device_->wait(*written, kSaveQueue);
    device_->queue_copy_to_host(host.data(), a_.data(), bytes(), kSaveQueue);
    device_->signal(*copied, kSaveQueue);
    device_->wait(*copied, kComputeQueue);
    copy(a_, d_, kComputeQueue);
    device_->synchronize();
    const auto* words = reinterpret_cast<const uint32_t*>(host.data());
    EXPECT_EQ(std::count(words, words + words_, value), static_cast<std::ptrdiff_t>(words_));
    EXPECT_EQ(read(a_), 100 + value);
  }
}

// State that lies on the host: it comes by one queue and goes by another.
TEST_P(DeviceQueues, CopiesFromTheHostAndBackAreOrderedByEvents) {
  const HostBuffer host = device_->allocate_host(bytes());
  auto* const words = reinterpret_cast<uint32_t*>(host.data());
  const auto begun = device_->make_event(), there = device_->make_event(), used = device_->make_event(),
             back = device_->make_event();
  for (uint32_t value = 1; value < 4; ++value) {
    std::fill(words, words + words_, value);
    write(d_, 100 + value);
    device_->signal(*begun, kComputeQueue);
    device_->wait(*begun, kLoadQueue);
    device_->queue_copy_to_device(a_.data(), host.data(), bytes(), kLoadQueue);
    device_->signal(*there, kLoadQueue);
    device_->wait(*there, kComputeQueue);
    copy(b_, a_, kComputeQueue);
    copy(a_, d_, kComputeQueue);
    device_->signal(*used, kComputeQueue);
    device_->wait(*used, kStoreQueue);
    device_->queue_copy_to_host(host.data(), a_.data(), bytes(), kStoreQueue);
    device_->signal(*back, kStoreQueue);
    device_->wait(*back, kComputeQueue);
    device_->synchronize();
    EXPECT_EQ(read(b_), value);
    EXPECT_EQ(std::count(words, words + words_, 100 + value), static_cast<std::ptrdiff_t>(words_));
  }
  const HostBuffer zeros = device_->allocate_host(bytes(), true);
  EXPECT_EQ(std::count(zeros.data(), zeros.data() + zeros.bytes, std::byte{0}), static_cast<std::ptrdiff_t>(bytes()));
}

TEST_P(DeviceQueues, AnEventThatNobodySignalledIsWaitedForByNobody) {
  const auto event = device_->make_event();
  EXPECT_THROW(device_->wait(*event, kCopyQueue), InternalError);
}

class KernelsOnQueues : public DeviceQueues {};

TEST_P(KernelsOnQueues, RunInAnyOfThem) {
  const auto module = device_->load(compile_module(R"(
#include "causeway/kernels/gpu/intrinsics.h"

CAUSEWAY_KERNEL(add_to_all, 256, 1, 1, 2, 0) {
  uint32_t* out = global_pointer<uint32_t>(buffers[0]);
  for (int64_t at = task * 256 + thread_index(); at < sizes[0]; at += 256 * 64)
    out[at] += static_cast<uint32_t>(sizes[1]);
}
)",
                                                   device_->target()));
  const auto add = [&](const DeviceBuffer& buffer, int64_t amount, DeviceQueue queue) {
    void* const buffers[] = {buffer.data()};
    const int64_t sizes[] = {static_cast<int64_t>(words_), amount};
    device_->launch({module->kernel("add_to_all"), buffers, sizes, 64, 0, 256, 0, 1, {}, queue});
  };
  const auto begun = device_->make_event(), added = device_->make_event();
  const auto work = [&] {
    add(b_, 1, kComputeQueue);
    device_->signal(*begun, kComputeQueue);
    device_->wait(*begun, kCopyQueue);
    add(b_, 10, kCopyQueue);
    copy(c_, b_, kCopyQueue);
    device_->signal(*added, kCopyQueue);
    add(a_, 1000, kComputeQueue);
    device_->wait(*added, kComputeQueue);
    add(b_, 100, kComputeQueue);
  };
  work();
  EXPECT_EQ(read(a_), 1000);
  EXPECT_EQ(read(b_), 111);
  EXPECT_EQ(read(c_), 11);
  if (const auto graph = device_->record(work); graph != nullptr) {
    device_->replay(*graph);
    EXPECT_EQ(read(a_), 2000);
    EXPECT_EQ(read(b_), 222);
    EXPECT_EQ(read(c_), 122);
  }
}

TEST_P(DeviceQueues, ARecordingThatIsNotJoinedIsAnErrorAndTheDeviceGoesOn) {
  const auto event = device_->make_event();
  const auto work = [&] {
    device_->signal(*event, kComputeQueue);
    device_->wait(*event, kCopyQueue);
    copy(b_, a_, kCopyQueue);
  };
  // So that no stream is made while recording.
  work();
  device_->synchronize();
  if (!device_->target().is_gpu() || GetParam().starts_with("emulator")) return;
  EXPECT_THROW(device_->record(work), Error);
  write(a_, 3);
  work();
  device_->synchronize();
  EXPECT_EQ(read(b_), 3);
}

class WorkThatComesLate : public DeviceQueues {};

// What lacks a wait reads what came later.
TEST_P(WorkThatComesLate, AMissingWaitShows) {
  write(a_, 1);
  write(b_, 2);
  const auto written = device_->make_event();
  device_->signal(*written, kComputeQueue);
  device_->wait(*written, kCopyQueue);
  copy(c_, a_, kCopyQueue);
  copy(a_, b_, kComputeQueue);
  device_->synchronize();
  EXPECT_EQ(read(c_), 2);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceQueues, testing::ValuesIn(device_specs()), named_by_device);
INSTANTIATE_TEST_SUITE_P(Devices, KernelsOnQueues, testing::ValuesIn(kernel_specs()), named_by_device);
INSTANTIATE_TEST_SUITE_P(Devices, WorkThatComesLate, testing::ValuesIn(late_specs()), named_by_device);

}  // namespace
}  // namespace causeway::device
