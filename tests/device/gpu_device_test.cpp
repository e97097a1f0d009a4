// What CUDA and HIP devices have in common, against stand-ins for both drivers.
#include "causeway/device/gpu_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/codegen/compile/kernel_cache.h"
#include "causeway/device/cuda/cuda_device.h"
#include "causeway/device/hip/hip_device.h"
#include "causeway/program/arena.h"
#include "causeway/program/context.h"
#include "tests/device/gpu_stand_in_library.h"
#include "tests/device/mebibyte.h"

namespace causeway::device {

using namespace tensor;
namespace {

using testing::HasSubstr;

class GpuDeviceTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { driver_ = StandIn(); }
  void TearDown() override { expect_returned(driver_); }

  bool is_cuda() const { return GetParam() == "cuda"; }
  std::shared_ptr<GpuDevice> open() const {
    if (is_cuda()) return std::make_shared<CudaDevice>(CudaOptions{0, CAUSEWAY_CUDA_STAND_IN});
    return std::make_shared<HipDevice>(HipOptions{0, {CAUSEWAY_HIP_STAND_IN}});
  }
  std::string image(const std::string& kernels) const { return (is_cuda() ? "ptx " : "object ") + kernels; }

  StandIn& driver_ = open_stand_in(is_cuda() ? CAUSEWAY_CUDA_STAND_IN : CAUSEWAY_HIP_STAND_IN);
};

INSTANTIATE_TEST_SUITE_P(Vendors, GpuDeviceTest, testing::Values("cuda", "hip"),
                         [](const auto& info) { return info.param; });

int64_t read(GpuDevice& device, const DeviceBuffer& buffer) {
  int64_t value = 0;
  device.copy_to_host(&value, buffer.data(), sizeof value);
  return value;
}

Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorKind::kNotFound, "");
}

TEST_P(GpuDeviceTest, DescribesTheGpu) {
  const auto device = open();
  const GpuInfo info = device->info();
  EXPECT_EQ(device->name(), GetParam() + ":0");
  EXPECT_EQ(info.product, "Stand-in");
  EXPECT_EQ(info.parallel_units, 7);
  EXPECT_EQ(info.memory_total, 64 * kMiB);
  EXPECT_EQ(info.memory_free, 64 * kMiB);
  EXPECT_EQ(device->target().parallel_units, 7);
  EXPECT_EQ(device->memory_limit(), 64 * kMiB);
}

TEST_P(GpuDeviceTest, CopiesOfAnySizeArriveThoughTheGpuIsLate) {
  const auto device = open();
  // Larger than the ring, and not a multiple of a piece.
  for (const size_t bytes : {size_t{1}, size_t{4096}, 37 * kMiB + 5}) {
    if (bytes > driver_.memory_total / 2) driver_.memory_total = 4 * bytes;
    std::vector<uint8_t> host(bytes), back(bytes);
    for (size_t i = 0; i < bytes; ++i) host[i] = static_cast<uint8_t>(i * 131 + i / 251);
    const std::vector<uint8_t> expected = host;
    const DeviceBuffer first = device->allocate(bytes), second = device->allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data()) % 256, 0u);
    device->copy_to_device(first.data(), host.data(), bytes);
    // The caller's memory is the caller's again.
    std::fill(host.begin(), host.end(), uint8_t{0});
    device->copy_on_device(second.data(), first.data(), bytes);
    device->copy_to_host(back.data(), second.data(), bytes);
    ASSERT_TRUE(back == expected) << bytes;
  }
}

TEST_P(GpuDeviceTest, ManySmallCopiesInFlightKeepTheirValues) {
  const auto device = open();
  std::vector<DeviceBuffer> buffers;
  for (int64_t i = 0; i < 700; ++i) {
    buffers.push_back(device->allocate(8));
    device->copy_to_device(buffers.back().data(), &i, 8);
  }
  for (int64_t i = 0; i < 700; ++i) ASSERT_EQ(read(*device, buffers[static_cast<size_t>(i)]), i);
}

TEST_P(GpuDeviceTest, MixedCopiesLapTheRingWithoutDamage) {
  const auto device = open();
  std::vector<std::vector<uint32_t>> expected;
  std::vector<DeviceBuffer> buffers;
  uint32_t next = 1;
  for (int i = 0; i < 60; ++i) {
    const size_t words = (i * 7919 % 13 + 1) * 25013;
    std::vector<uint32_t> values(words);
    std::iota(values.begin(), values.end(), next);
    next += static_cast<uint32_t>(words);
    buffers.push_back(device->allocate(words * 4));
    device->copy_to_device(buffers.back().data(), values.data(), words * 4);
    expected.push_back(std::move(values));
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    std::vector<uint32_t> back(expected[i].size());
    device->copy_to_host(back.data(), buffers[i].data(), back.size() * 4);
    ASSERT_TRUE(back == expected[i]) << i;
  }
}

TEST_P(GpuDeviceTest, ZeroesOnRequestEvenWhatIsReused) {
  const auto device = open();
  EXPECT_EQ(device->allocate(0).data(), nullptr);
  {
    const DeviceBuffer buffer = device->allocate(8);
    const int64_t value = 77;
    device->copy_to_device(buffer.data(), &value, 8);
  }
  EXPECT_EQ(read(*device, device->allocate(8, true)), 0);
}

TEST_P(GpuDeviceTest, AStepGetsTheSameAddressesInWhateverOrderItFrees) {
  const auto device = open();
  std::vector<std::byte*> first;
  for (int step = 0; step < 4; ++step) {
    std::vector<DeviceBuffer> buffers;
    for (const size_t bytes : {1000, 900, 3000000, 2500000, 1020}) buffers.push_back(device->allocate(bytes));
    std::vector<std::byte*> addresses;
    for (const DeviceBuffer& buffer : buffers) addresses.push_back(buffer.data());
    if (step == 1) first = addresses;
    if (step > 1) EXPECT_EQ(addresses, first);
    if (step % 2 == 0) std::swap(buffers[0], buffers[4]);
    while (!buffers.empty()) buffers.pop_back();
  }
  EXPECT_EQ(driver_.allocations, 5);
}

// In the driver's units; what is held for reuse makes room first.
TEST_P(GpuDeviceTest, ALimitIsNotExceeded) {
  const auto device = open();
  device->limit_memory(8 * kMiB);
  EXPECT_EQ(device->memory_limit(), static_cast<int64_t>(8 * kMiB));
  EXPECT_EQ(device->told_limit(), static_cast<int64_t>(8 * kMiB));
  const DeviceBuffer kept = device->allocate(3 * kMiB);
  {
    const DeviceBuffer passing = device->allocate(2 * kMiB);
  }
  EXPECT_EQ(device->reserved_bytes(), static_cast<int64_t>(6 * kMiB));
  {
    const DeviceBuffer other = device->allocate(4 * kMiB);
  }
  EXPECT_EQ(device->peak_reserved_bytes(), static_cast<int64_t>(8 * kMiB));
  const Error error = error_of([&] { device->allocate(4 * kMiB + 1); });
  EXPECT_EQ(error.kind(), ErrorKind::kResource);
  EXPECT_THAT(error.message(), HasSubstr("device_memory_limit lets the run take 0.01 GiB"));
  EXPECT_THAT(error.hint(), HasSubstr("offload.optimizer=true"));
  EXPECT_EQ(device->reserved_bytes(), static_cast<int64_t>(4 * kMiB));
  device->limit_memory(0);
  EXPECT_NO_THROW(device->allocate(10 * kMiB));
}

TEST_P(GpuDeviceTest, CountsMemoryAsAskedFor) {
  const auto device = open();
  const DeviceBuffer kept = device->allocate(1000);
  {
    const DeviceBuffer buffer = device->allocate(3 * kMiB);
    EXPECT_EQ(device->bytes_in_use(), static_cast<int64_t>(3 * kMiB + 1000));
  }
  EXPECT_EQ(device->bytes_in_use(), 1000);
  EXPECT_EQ(device->peak_bytes(), static_cast<int64_t>(3 * kMiB + 1000));
  EXPECT_EQ(device->pool().cached_bytes(), static_cast<int64_t>(4 * kMiB));
  EXPECT_EQ(device->reserved_bytes(), static_cast<int64_t>(4 * kMiB + 1024));
  EXPECT_GE(device->occupied_bytes(), device->reserved_bytes());
  device->release_unused_memory();
  EXPECT_EQ(device->pool().cached_bytes(), 0);
  EXPECT_EQ(device->reserved_bytes(), 1024);
  EXPECT_EQ(device->peak_reserved_bytes(), static_cast<int64_t>(4 * kMiB + 1024));
  EXPECT_EQ(driver_.memory_used, 1024u);
}

// `bench startup` starts a program that needs the memory of what was measured before it.
TEST_P(GpuDeviceTest, ReleasedWorkingMemoryIsFreeForOtherProcesses) {
  Context context(open(), {.cache = std::make_shared<KernelCache>("")});
  const size_t before = driver_.memory_used;
  context.arena().reserve(8 * kMiB);
  ASSERT_EQ(driver_.memory_used, before + 8 * kMiB);
  context.release_memory();
  EXPECT_EQ(driver_.memory_used, before);
}

TEST_P(GpuDeviceTest, FreeBlocksGoBackBeforeMemoryIsSaidToBeOut) {
  const auto device = open();
  {
    const DeviceBuffer buffer = device->allocate(40 * kMiB);
  }
  const DeviceBuffer other = device->allocate(50 * kMiB);
  EXPECT_EQ(driver_.frees, 1);
  const Error error = error_of([&] { device->allocate(20 * kMiB); });
  EXPECT_EQ(error.kind(), ErrorKind::kResource);
  EXPECT_EQ(error.where(), GetParam() + ":0");
  EXPECT_EQ(error.message(),
            "cannot allocate 20971520 bytes (0.02 GiB) of GPU memory: 0.05 GiB in use here, 0.01 GiB of 0.06 GiB free");
  EXPECT_THAT(error.hint(), HasSubstr("smaller batch"));
  EXPECT_EQ(error_of([&] { device->allocate(SIZE_MAX - 5); }).kind(), ErrorKind::kResource);
  EXPECT_EQ(device->bytes_in_use(), static_cast<int64_t>(50 * kMiB));
}

TEST_P(GpuDeviceTest, BuffersModulesAndRecordingsMayOutliveTheDevice) {
  DeviceBuffer buffer;
  std::shared_ptr<DeviceModule> module;
  std::shared_ptr<DeviceGraph> graph;
  {
    const auto device = open();
    buffer = device->allocate(64);
    module = device->load(image("add"));
    graph = device->record([] {});
  }
  EXPECT_EQ(driver_.streams, 1);
}

TEST_P(GpuDeviceTest, LaunchesWithPackedArguments) {
  const auto device = open();
  const auto module = device->load(image("add none"));
  const DeviceKernel add = module->kernel("add");
  EXPECT_EQ(module->kernel("add"), add);
  const DeviceBuffer sum = device->allocate(8, true);
  void* const buffers[] = {sum.data()};
  const int64_t sizes[] = {5};
  device->launch({add, buffers, sizes, 300, 0, 128, 4096});
  device->launch({add, buffers, sizes, 0, 0, 128, 4096});  // of no blocks: nothing
  ASSERT_EQ(driver_.launches.size(), 1u);
  const StandInLaunch& launch = driver_.launches[0];
  EXPECT_EQ(launch.kernel, "add");
  EXPECT_EQ(launch.blocks, 300u);
  EXPECT_EQ(launch.threads, 128u);
  EXPECT_EQ(launch.shared_bytes, 4096u);
  EXPECT_EQ(launch.cluster, 1u);
  EXPECT_EQ(launch.arguments.size(), 16u);
  EXPECT_EQ(read(*device, sum), 5);
}

TEST_P(GpuDeviceTest, RecordsAndReplays) {
  const auto device = open();
  const auto module = device->load(image("add"));
  const DeviceBuffer sum = device->allocate(8, true), copy = device->allocate(8, true);
  const auto graph = device->record([&] {
    for (const int64_t amount : {1, 10}) {
      void* const buffers[] = {sum.data()};
      device->launch({module->kernel("add"), buffers, std::span(&amount, 1), 1, 0, 64});
    }
    device->copy_on_device(copy.data(), sum.data(), 8);
  });
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(read(*device, sum), 0);
  device->replay(*graph);
  device->replay(*graph);
  EXPECT_EQ(read(*device, copy), 22);
  EXPECT_EQ(driver_.replays, 2);
}

TEST_P(GpuDeviceTest, ARecordingRefusesWhatCannotBeReplayedAndRecovers) {
  const auto device = open();
  const DeviceBuffer buffer = device->allocate(8, true);
  int64_t value = 3;
  const std::vector<std::function<void()>> forbidden = {[&] { device->allocate(8); },
                                                        [&] { device->copy_to_device(buffer.data(), &value, 8); },
                                                        [&] { device->copy_to_host(&value, buffer.data(), 8); },
                                                        [&] { device->synchronize(); }, [&] { device->record([] {}); }};
  for (const auto& work : forbidden) EXPECT_THROW(device->record(work), InternalError);
  device->copy_to_device(buffer.data(), &value, 8);
  EXPECT_EQ(read(*device, buffer), 3);
}

TEST_P(GpuDeviceTest, LimitsOfALaunchAreErrorsThatNameTheKernel) {
  const auto device = open();
  const auto module = device->load(image("none fat"));
  void* const buffers[] = {nullptr};
  const int64_t sizes[] = {0};
  const auto launch = [&](const char* kernel, int64_t blocks, int threads, int shared, int cluster) {
    return error_of(
        [&] { device->launch({module->kernel(kernel), buffers, sizes, blocks, 0, threads, shared, cluster}); });
  };
  Error error = launch("fat", 1, 64, 227 * 1024, 1);
  EXPECT_EQ(error.kind(), ErrorKind::kResource);
  EXPECT_EQ(error.message(), "the kernel fat needs 233472 bytes of shared memory in a block; the GPU has 232448");
  EXPECT_EQ(launch("fat", 1, 256, 0, 1).message(),
            "the kernel fat needs blocks of 256 threads; with its registers, the GPU allows 128");
  EXPECT_THAT(launch("none", int64_t{1} << 32, 64, 0, 1).message(), HasSubstr("needs 4294967296 blocks"));
  if (is_cuda()) {
    EXPECT_THAT(launch("none", 32, 64, 0, 16).message(), HasSubstr("clusters of 16 blocks; the GPU allows 8"));
  } else {
    EXPECT_THAT(launch("none", 32, 64, 0, 2).message(), HasSubstr("the GPU has no clusters"));
    EXPECT_THAT(launch("none", int64_t{1} << 27, 64, 0, 1).message(), HasSubstr("a launch has at most 67108863"));
  }
  EXPECT_THROW(device->launch({module->kernel("none"), buffers, sizes, 1, 0, 33}), InternalError);
  EXPECT_THROW(device->launch({module->kernel("none"), buffers, sizes, 3, 0, 64, 0, 2}), InternalError);
  EXPECT_TRUE(driver_.launches.empty());
}

TEST_P(GpuDeviceTest, ImagesAndKernelsThatAreNotThere) {
  const auto device = open();
  Error error = error_of([&] { device->load("something else"); });
  EXPECT_EQ(error.kind(), is_cuda() ? ErrorKind::kInvalidArgument : ErrorKind::kCorrupt);
  EXPECT_THAT(error.hint(), HasSubstr(is_cuda() ? "your own kernel" : "kernel cache"));
  const auto module = device->load(image("add"));
  error = error_of([&] { module->kernel("subtract"); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_EQ(error.message(), "the module has no kernel \"subtract\"");
}

TEST_P(GpuDeviceTest, AFaultNamesWhatRanLast) {
  const auto device = open();
  const auto module = device->load(image("none crash"));
  void* const buffers[] = {nullptr};
  const int64_t sizes[] = {0};
  const auto launch = [&](const char* name) { device->launch({module->kernel(name), buffers, sizes, 1, 0, 64}); };
  {
    const auto graph = device->record([&] { launch("none"); });
    device->replay(*graph);
    launch("none");
    launch("crash");
    const Error error = error_of([&] { device->synchronize(); });
    EXPECT_THAT(error.message(), HasSubstr("launched last: a recorded run of 1 launches (none), none, crash"));
    EXPECT_THAT(error.message(), HasSubstr("as the stand-in says"));
    EXPECT_THAT(error.hint(), HasSubstr("last checkpoint"));
  }
  // It stays unusable, and says so.
  EXPECT_THAT(error_of([&] { device->allocate(8); }).message(), HasSubstr("launched last: none, crash"));
}

TEST_P(GpuDeviceTest, ARefusedLaunchSaysWithWhat) {
  const auto device = open();
  const auto module = device->load(image("none"));
  void* const buffers[] = {nullptr};
  const int64_t sizes[] = {0};
  driver_.launch_result = 1;
  EXPECT_THAT(error_of([&] { device->launch({module->kernel("none"), buffers, sizes, 2, 0, 64, 512}); }).message(),
              HasSubstr("cannot launch none (2 blocks of 64 threads, 512 bytes of shared memory"));
}

TEST_P(GpuDeviceTest, AnIndexThatIsNotThereSaysWhatIs) {
  const auto open_index = [&](int index) {
    return error_of([&] {
      if (is_cuda()) {
        CudaDevice device({index, CAUSEWAY_CUDA_STAND_IN});
      } else {
        HipDevice device({index, {CAUSEWAY_HIP_STAND_IN}});
      }
    });
  };
  Error error = open_index(2);
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_EQ(error.message(), "there is no such GPU");
  EXPECT_THAT(error.hint(), HasSubstr(fmt::format("shows 2: {0}:0 to {0}:1.", GetParam())));
  driver_.device_count = 0;
  EXPECT_THAT(open_index(0).message(), HasSubstr("finds no GPU"));
}

}  // namespace
}  // namespace causeway::device
