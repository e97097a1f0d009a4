#include "causeway/bench/clock_probe.h"

#include <gtest/gtest.h>

#include "causeway/device/cpu/cpu_device.h"
#include "causeway/device/emulator/emulator_device.h"
#include "causeway/device/offline/offline_device.h"

namespace causeway {
namespace {

TEST(ClockProbe, AProcessorHasNone) {
  CpuDevice device(1);
  EXPECT_EQ(ClockProbe::open(device), nullptr);
}

// Whose clock is 1 GHz by definition.
TEST(ClockProbe, TheMeanOfTheReadingsSinceTheLastOne) {
  for (const char* architecture : {"sm_90a", "gfx942"}) {
    EmulatorDevice device(architecture);
    const std::unique_ptr<ClockProbe> probe = ClockProbe::open(device);
    ASSERT_NE(probe, nullptr);
    EXPECT_EQ(probe->mean_mhz(), std::nullopt);
    for (int i = 0; i < ClockProbe::kMostReadings; ++i) probe->read();
    EXPECT_NEAR(probe->mean_mhz().value_or(0), 1000, 20);
    EXPECT_EQ(probe->mean_mhz(), std::nullopt);
    probe->read();
    EXPECT_NEAR(probe->mean_mhz().value_or(0), 1000, 20);
  }
}

TEST(ClockProbe, CompilesForEveryArchitecture) {
  for (const char* target : {"sm_80", "sm_90a", "gfx90a", "gfx942"}) {
    OfflineDevice device(gpu_target(target));
    EXPECT_NE(ClockProbe::open(device), nullptr) << target;
  }
}

}  // namespace
}  // namespace causeway
