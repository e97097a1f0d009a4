#include "causeway/bench/environment.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "tests/bench/temporary_tree.h"

namespace causeway::bench {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Key;
using testing::MatchesRegex;
using testing::Not;
using testing::Pair;
using testing::StartsWith;

TEST(Environment, DescribesTheMachineFromTheKernelsFiles) {
  const TemporaryTree tree;
  tree.write("etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
  std::string cpuinfo;
  for (int i = 0; i < 4; ++i)
    cpuinfo += fmt::format(
        "processor\t: {}\nmodel name\t: AMD EPYC 9654\nphysical id\t: {}\ncore id\t: {}\nflags\t: fpu vme "
        "hypervisor\n\n",
        i, i / 2, 0);
  tree.write("proc/cpuinfo", cpuinfo);
  tree.write("proc/meminfo", "MemFree: 1 kB\nMemTotal:       25165824 kB\n");
  tree.write("proc/1/cgroup", "0::/kubepods/burstable/pod1\n");
  tree.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");

  const auto environment = describe_environment({"NVIDIA H200", "driver for CUDA 13.0", "clang 19"}, tree.root());
  EXPECT_THAT(environment, Contains(Pair("operating system", "Debian GNU/Linux 12 (bookworm)")));
  EXPECT_THAT(environment, Contains(Pair("kernel", StartsWith("Linux "))));
  EXPECT_THAT(environment, Contains(Pair("processor", "AMD EPYC 9654")));
  EXPECT_THAT(environment, Contains(Pair("processors", StartsWith("2 sockets, 2 cores, 4 threads; "))));
  EXPECT_THAT(environment, Contains(Pair("memory", "24.0 GiB")));
  EXPECT_THAT(environment, Contains(Pair("clock governor", "powersave")));
  EXPECT_THAT(environment, Contains(Pair("virtual machine", "yes")));
  EXPECT_THAT(environment, Contains(Pair("container", "Kubernetes")));
  EXPECT_THAT(environment, Contains(Pair("device", "NVIDIA H200")));
  EXPECT_THAT(environment, Contains(Pair("driver", "driver for CUDA 13.0")));
  EXPECT_THAT(environment, Contains(Pair("kernel compiler", "clang 19")));
  EXPECT_THAT(environment, Contains(Pair("program", StartsWith("causeway "))));
  EXPECT_THAT(environment, Contains(Key("commit")));
  EXPECT_THAT(environment, Contains(Key("compiler")));
}

TEST(Environment, LeavesOutWhatTheMachineDoesNotTell) {
  const TemporaryTree tree;
  const auto environment = describe_environment({}, tree.root());
  for (const char* key : {"operating system", "processor", "memory", "clock governor", "virtual machine", "device",
                          "driver", "kernel compiler"})
    EXPECT_THAT(environment, Not(Contains(Key(key))));
  EXPECT_THAT(environment, Contains(Pair("container", "none seen")));
  for (const auto& [key, value] : environment) EXPECT_THAT(value, Not(IsEmpty())) << key;
  tree.write(".dockerenv", "");
  EXPECT_EQ(describe_environment({}, tree.root())["container"], "Docker");
}

TEST(Environment, TimesAreUtcToTheSecond) {
  const std::string text = utc_now();
  EXPECT_THAT(text, MatchesRegex("20[0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]Z"));
  std::tm fields = {};
  ASSERT_NE(::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &fields), nullptr);
  EXPECT_NEAR(static_cast<double>(::timegm(&fields)), static_cast<double>(std::time(nullptr)), 5);
}

TEST(Environment, TheProgramKnowsWhatItWasBuiltFrom) {
  EXPECT_THAT(std::string(program_version()), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(std::string(program_commit()), MatchesRegex("unknown|[0-9a-f]+|[0-9a-f]+-modified"));
}

}  // namespace
}  // namespace causeway::bench
