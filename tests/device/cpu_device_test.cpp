#include "causeway/device/cpu/cpu_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "causeway/base/error.h"
#include "tests/device/mebibyte.h"

namespace causeway::device {
namespace {

TEST(CpuDevice, AllocatesAlignedMemoryAndZeroesOnRequest) {
  CpuDevice device(1);
  for (const size_t bytes : {size_t{1}, size_t{100}, 3 * kMiB, 5 * kMiB + 12345}) {
    DeviceBuffer buffer = device.allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    EXPECT_EQ(buffer.bytes, bytes);
    std::memset(buffer.data(), 0xff, bytes);
    buffer = DeviceBuffer();
    const DeviceBuffer zeroed = device.allocate(bytes, true);
    for (size_t index = 0; index < bytes; ++index) ASSERT_EQ(zeroed.data()[index], std::byte{0});
  }
  EXPECT_EQ(device.allocate(0).data(), nullptr);
}

// A weight of a small model is no whole number of huge pages: its beginning is on them, its end on others.
TEST(CpuDevice, LargeBuffersBeginOnAHugePage) {
  constexpr size_t kHugePage = size_t{2} << 20;
  CpuDevice device(1);
  for (const size_t bytes : {kHugePage, kHugePage + 1, size_t{768} * 768 * 4, 2 * kHugePage - 1, 7 * kHugePage / 2}) {
    const DeviceBuffer buffer = device.allocate(bytes, true);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kHugePage, 0u) << bytes;
    EXPECT_EQ(buffer.data()[0], std::byte{0});
    EXPECT_EQ(buffer.data()[bytes - 1], std::byte{0});
    std::memset(buffer.data(), 7, bytes);
    EXPECT_EQ(buffer.data()[bytes - 1], std::byte{7});
    EXPECT_EQ(device.bytes_in_use(), static_cast<int64_t>(bytes));
  }
  EXPECT_EQ(device.bytes_in_use(), 0);
}

TEST(CpuDevice, CountsMemory) {
  CpuDevice device(1);
  {
    DeviceBuffer first = device.allocate(1000);
    DeviceBuffer second = device.allocate(8 * kMiB);
    EXPECT_EQ(device.bytes_in_use(), static_cast<int64_t>(8 * kMiB + 1000));
    second = std::move(first);
    EXPECT_EQ(second.bytes, 1000u);
  }
  EXPECT_EQ(device.bytes_in_use(), 0);
  EXPECT_EQ(device.peak_bytes(), static_cast<int64_t>(8 * kMiB + 1000));
}

TEST(CpuDevice, BuffersMayOutliveTheDevice) {
  DeviceBuffer buffer;
  {
    CpuDevice device(1);
    buffer = device.allocate(64);
  }
  std::memset(buffer.data(), 1, buffer.bytes);
}

TEST(CpuDevice, MemoryThatIsNotToBeHadIsAnError) {
  CpuDevice device(1);
  for (const size_t bytes : {size_t{1} << 50, SIZE_MAX - 5}) {
    try {
      device.allocate(bytes);
      FAIL() << "allocated " << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kResource);
      EXPECT_THAT(error.message(), testing::HasSubstr(fmt::format("cannot allocate {} bytes", bytes)));
    }
  }
  EXPECT_EQ(device.bytes_in_use(), 0);
}

// buffers[0][task] = sizes[0] + task, by way of the scratch memory.
void count_up(void* const* buffers, const int64_t* sizes, int64_t task, void* scratch) {
  auto* words = static_cast<int64_t*>(scratch);
  for (int64_t index = 0; index < sizes[1]; ++index) words[index] = sizes[0] + task;
  static_cast<int64_t*>(buffers[0])[task] = words[sizes[1] - 1];
}

const DeviceKernel kCountUp = reinterpret_cast<const void*>(&count_up);

TEST(CpuDevice, LaunchRunsEveryTaskWithScratchThatGrows) {
  for (const int threads : {1, 2, 5}) {
    CpuDevice device(threads);
    EXPECT_EQ(device.thread_count(), threads);
    std::vector<int64_t> results(300);
    void* const buffers[] = {results.data()};
    for (const int64_t words : {8, 100000, 50}) {
      const int64_t sizes[] = {words, words};
      device.launch({kCountUp, buffers, sizes, 300, words * 8});
      for (int64_t task = 0; task < 300; ++task) ASSERT_EQ(results[static_cast<size_t>(task)], words + task);
    }
    EXPECT_EQ(device.bytes_in_use(), threads * 100000 * 8);
    EXPECT_EQ(device.launch_count(), 3);
    device.set_thread_count(3);
    const int64_t sizes[] = {7, 8};
    device.launch({kCountUp, buffers, sizes, 300, 64});
    EXPECT_EQ(results[299], 306);
  }
}

TEST(CpuModule, DamagedImageIsAnError) {
  try {
    CpuModule module("not a shared object");
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_THAT(error.message(), testing::HasSubstr("cannot be loaded"));
  }
}

}  // namespace
}  // namespace causeway::device
