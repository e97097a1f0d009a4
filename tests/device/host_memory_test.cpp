#include "causeway/device/cpu/host_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "causeway/device/cpu/cpu_device.h"
#include "tests/device/mebibyte.h"
#include "tests/fixtures/temporary_directory.h"

namespace causeway::device {
namespace {

// A machine's /proc and /sys.
class HostMemoryTest : public testing::Test {
 protected:
  HostMemoryTest() {
    write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 5 kB\nMemAvailable:    8388608 kB\n");
  }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  HostMemory read() const { return host_memory(root_.path()); }

  TemporaryDirectory root_;
};

TEST_F(HostMemoryTest, OfAMachineWithoutGroups) {
  EXPECT_EQ(read().total_bytes, 16384 * kMiB);
  EXPECT_EQ(read().available_bytes, 8192 * kMiB);
  EXPECT_EQ(read().limited_by, "");
}

TEST_F(HostMemoryTest, OfAGroupOfVersion2AndThoseAboveIt) {
  write("proc/self/cgroup", "0::/job/step\n");
  write("sys/fs/cgroup/job/step/memory.max", "max\n");
  write("sys/fs/cgroup/job/step/memory.current", "1048576\n");
  write("sys/fs/cgroup/job/memory.max", "1073741824\n");
  write("sys/fs/cgroup/job/memory.current", "419430400\n");
  write("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 104857600\n");
  EXPECT_EQ(read().total_bytes, 1024 * kMiB);
  EXPECT_EQ(read().available_bytes, (1024 - 400 + 100) * kMiB);
  EXPECT_EQ(read().limited_by, (root_ / "sys/fs/cgroup/job").string());
}

TEST_F(HostMemoryTest, OfAGroupOfVersion1) {
  write("proc/self/cgroup", "5:devices:/\n4:cpu,memory:/job\n0::/\n");
  write("sys/fs/cgroup/unified/cgroup.procs", "");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "536870912\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "536870912\n");
  write("sys/fs/cgroup/memory/job/memory.stat", "cache 5\ntotal_inactive_file 1048576\n");
  EXPECT_EQ(read().total_bytes, 512 * kMiB);
  EXPECT_EQ(read().available_bytes, kMiB);
}

// A container sees its own group as the root, under the path that the host knows it by.
TEST_F(HostMemoryTest, OfAContainer) {
  write("proc/self/cgroup", "4:memory:/docker/abc\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "67108864\n");
  EXPECT_EQ(read().total_bytes, 256 * kMiB);
  EXPECT_EQ(read().available_bytes, 192 * kMiB);
}

TEST_F(HostMemoryTest, WhatCannotBeReadIsNoLimit) {
  write("proc/self/cgroup", "nonsense\n4:memory\n0::/gone\n");
  write("sys/fs/cgroup/memory.max", "much\n");
  EXPECT_EQ(read().total_bytes, 16384 * kMiB);
  write("proc/meminfo", "");
  EXPECT_EQ(read().total_bytes, 0);
}

TEST(CpuDeviceMemory, IsWhatTheMachineHasLeft) {
  const CpuDevice device(1);
  EXPECT_GT(device.memory_limit(), 64 * kMiB);
  EXPECT_LE(device.memory_limit() - resident_bytes(), host_memory().total_bytes);
}

}  // namespace
}  // namespace causeway::device
