#include "causeway/bench/telemetry/processor_telemetry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "causeway/bench/telemetry/rapl.h"
#include "tests/bench/temporary_tree.h"

namespace causeway::bench {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kRapl = "sys/class/powercap/";

class ProcessorTelemetryTest : public testing::Test {
 protected:
  std::unique_ptr<TelemetryReader> open() {
    TelemetrySources sources;
    sources.system = tree_.root() / "sys";
    sources.processes = tree_.root() / "proc";
    return open_telemetry("cpu", "", sources);
  }
  RaplEnergy open_rapl() { return RaplEnergy(tree_.root() / "sys"); }
  void write_zone(const std::string& zone, const std::string& name, const std::string& microjoules) {
    tree_.write(kRapl + zone + "/name", name + "\n");
    tree_.write(kRapl + zone + "/energy_uj", microjoules + "\n");
    tree_.write(kRapl + zone + "/max_energy_range_uj", "10000000\n");
  }

  TemporaryTree tree_;
};

TEST_F(ProcessorTelemetryTest, AddsThePackagesAndNothingTwice) {
  write_zone("intel-rapl:0", "package-0", "1000000");
  write_zone("intel-rapl:1", "package-1", "5000000");
  write_zone("intel-rapl:0:0", "core", "1");          // a part of package 0
  write_zone("intel-rapl:2", "psys", "1");            // the whole board
  write_zone("intel-rapl-mmio:0", "package-0", "1");  // the same package, seen another way
  RaplEnergy energy = open_rapl();
  EXPECT_EQ(energy.joules(), 0);
  write_zone("intel-rapl:0", "package-0", "3000000");
  write_zone("intel-rapl:1", "package-1", "5500000");
  write_zone("intel-rapl:0:0", "core", "9000000");
  write_zone("intel-rapl:2", "psys", "9000000");
  write_zone("intel-rapl-mmio:0", "package-0", "9000000");
  EXPECT_DOUBLE_EQ(energy.joules().value(), 2.5);
}

TEST_F(ProcessorTelemetryTest, CountersWrap) {
  write_zone("intel-rapl:0", "package-0", "9000000");
  RaplEnergy energy = open_rapl();
  write_zone("intel-rapl:0", "package-0", "500000");
  EXPECT_DOUBLE_EQ(energy.joules().value(), 1.5);
  write_zone("intel-rapl:0", "package-0", "200000");
  EXPECT_DOUBLE_EQ(energy.joules().value(), 11.2);
}

TEST_F(ProcessorTelemetryTest, ACounterThatCannotBeReadMakesEnergyAbsent) {
  EXPECT_EQ(open_rapl().joules(), std::nullopt);
  write_zone("intel-rapl:0", "package-0", "1");
  write_zone("intel-rapl:1", "package-1", "");
  EXPECT_EQ(open_rapl().joules(), std::nullopt);
  write_zone("intel-rapl:1", "package-1", "1");
  RaplEnergy energy = open_rapl();
  EXPECT_EQ(energy.joules(), 0);
  tree_.remove(std::string(kRapl) + "intel-rapl:1");
  EXPECT_EQ(energy.joules(), std::nullopt);
}

TEST_F(ProcessorTelemetryTest, PowerIsTheMeanSinceTheLastRead) {
  write_zone("intel-rapl:0", "package-0", "0");
  const auto begin = std::chrono::steady_clock::now();
  const auto reader = open();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  write_zone("intel-rapl:0", "package-0", "5000000");
  const double watts = reader->read().power_watts.value();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_GE(watts, 5 / seconds);
  EXPECT_LE(watts, 5 / 0.05);
  EXPECT_EQ(reader->read().power_watts, std::nullopt);  // too soon
  EXPECT_EQ(reader->energy_joules(), 5);
}

TEST_F(ProcessorTelemetryTest, TheClockIsTheMeanOfTheCores) {
  tree_.write("proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 3000.500\nprocessor\t: 1\ncpu MHz\t\t: 2000.500\n");
  tree_.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "999000\n");
  EXPECT_EQ(open()->read().graphics_clock_mhz, 2500.5);
  tree_.write("proc/cpuinfo", "processor\t: 0\nprocessor\t: 1\n");
  tree_.write("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "1999000\n");
  tree_.write("sys/devices/system/cpu/cpufreq/scaling_cur_freq", "1\n");  // no core
  EXPECT_EQ(open()->read().graphics_clock_mhz, 1499);
}

TEST_F(ProcessorTelemetryTest, TheTemperatureIsTheHottestOfTheProcessor) {
  tree_.write("sys/class/thermal/thermal_zone0/type", "acpitz\n");
  tree_.write("sys/class/thermal/thermal_zone0/temp", "99000\n");
  tree_.write("sys/class/thermal/thermal_zone1/type", "x86_pkg_temp\n");
  tree_.write("sys/class/thermal/thermal_zone1/temp", "51000\n");
  EXPECT_EQ(open()->read().temperature_celsius, 51);
  tree_.write("sys/class/hwmon/hwmon0/name", "nvme\n");
  tree_.write("sys/class/hwmon/hwmon0/temp1_input", "88000\n");
  tree_.write("sys/class/hwmon/hwmon1/name", "k10temp\n");
  tree_.write("sys/class/hwmon/hwmon1/temp1_input", "62500\n");
  tree_.write("sys/class/hwmon/hwmon1/temp3_input", "64250\n");
  tree_.write("sys/class/hwmon/hwmon1/temp1_max", "95000\n");
  EXPECT_EQ(open()->read().temperature_celsius, 64.25);
}

TEST_F(ProcessorTelemetryTest, ThrottlingIsWhatHappenedSinceTheLastRead) {
  const std::string core = "sys/devices/system/cpu/cpu0/";
  tree_.write(core + "topology/physical_package_id", "0\n");
  tree_.write(core + "thermal_throttle/package_throttle_count", "41\n");
  tree_.write("proc/self/cgroup", "9:name=systemd:/\n0::/work\n");
  const std::string group = "sys/fs/cgroup/work/cpu.stat";
  tree_.write(group, "usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec 77\n");
  const auto reader = open();
  EXPECT_THAT(reader->read().throttle_reasons, IsEmpty());
  tree_.write(core + "thermal_throttle/package_throttle_count", "42\n");
  EXPECT_THAT(reader->read().throttle_reasons, ElementsAre("temperature limit"));
  tree_.write(group, "usage_usec 5\nnr_periods 9\nnr_throttled 4\nthrottled_usec 99\n");
  EXPECT_THAT(reader->read().throttle_reasons, ElementsAre("the control group's quota of processor time"));
  EXPECT_THAT(reader->read().throttle_reasons, IsEmpty());
}

TEST_F(ProcessorTelemetryTest, SaysWhatTheKernelDoesNotTell) {
  EXPECT_EQ(open()->why_absent(),
            "The kernel does not tell the processor's clock, temperature, power and energy (energy counters, RAPL, are "
            "absent or for root alone).");
  tree_.write("proc/cpuinfo", "cpu MHz\t\t: 3000\n");
  write_zone("intel-rapl:0", "package-0", "0");
  EXPECT_EQ(open()->why_absent(), "The kernel does not tell the processor's temperature.");
  tree_.write("sys/class/hwmon/hwmon1/name", "coretemp\n");
  tree_.write("sys/class/hwmon/hwmon1/temp1_input", "40000\n");
  EXPECT_EQ(open()->why_absent(), "");
}

TEST(ProcessorTelemetry, ReadsThisMachineWithoutFail) {
  const auto reader = open_telemetry("cpu");
  const Telemetry state = reader->read("after");
  EXPECT_EQ(state.moment, "after");
  if (state.graphics_clock_mhz) EXPECT_GT(*state.graphics_clock_mhz, 100);
  if (state.temperature_celsius) EXPECT_LT(*state.temperature_celsius, 150);
}

}  // namespace
}  // namespace causeway::bench
