#include "causeway/bench/clock_probe.h"

#include <gtest/gtest.h>

#include <cmath>

#include "causeway/device/cpu/cpu_device.h"
#include "causeway/device/emulator/emulator_device.h"
#include "causeway/device/offline/offline_device.h"

namespace causeway::bench {
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
    // The processor may be taken away in the middle of a reading, though not every time.
    for (const int readings : {1, ClockProbe::kMostReadings}) {
      double nearest = 0;
      for (int attempt = 0; attempt < 20 && std::abs(nearest - 1000) > 20; ++attempt) {
        for (int i = 0; i < readings; ++i) probe->read();
        nearest = probe->mean_mhz().value_or(0);
        EXPECT_EQ(probe->mean_mhz(), std::nullopt);
      }
      EXPECT_NEAR(nearest, 1000, 20) << architecture << ", " << readings;
    }
  }
}

TEST(ClockProbe, CompilesForEveryArchitecture) {
  for (const char* target : {"sm_80", "sm_90a", "gfx90a", "gfx942"}) {
    OfflineDevice device(gpu_target(target));
    EXPECT_NE(ClockProbe::open(device), nullptr) << target;
  }
}

}  // namespace
}  // namespace causeway::bench
