#include "causeway/bench/telemetry/telemetry.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/bench/nvml_stand_in/nvml_stand_in.h"
#include "tests/bench/rocm_smi_stand_in/rocm_smi_stand_in.h"

namespace causeway::bench {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

template <typename State>
State& open_stand_in(const char* path, const char* function) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return *reinterpret_cast<State* (*)()>(dlsym(library, function))();
}

TelemetrySources stand_ins() {
  TelemetrySources sources;
  sources.nvml = CAUSEWAY_NVML_STAND_IN;
  sources.drivers.cuda = CAUSEWAY_NVML_STAND_IN;
  sources.rocm_smi = {CAUSEWAY_ROCM_SMI_STAND_IN};
  sources.drivers.hip = {CAUSEWAY_ROCM_SMI_STAND_IN};
  return sources;
}

class NvmlTelemetryTest : public testing::Test {
 protected:
  void SetUp() override { nvml_ = NvmlStandIn(); }
  void TearDown() override { EXPECT_EQ(nvml_.started, 0); }

  NvmlStandIn& nvml_ = open_stand_in<NvmlStandIn>(CAUSEWAY_NVML_STAND_IN, "nvml_stand_in");
};

TEST_F(NvmlTelemetryTest, ReadsAllThatTheGpuTells) {
  const auto reader = open_telemetry("cuda:0", "", stand_ins());
  const Telemetry state = reader->read("before");
  EXPECT_EQ(state.moment, "before");
  EXPECT_EQ(state.graphics_clock_mhz, 1980);
  EXPECT_EQ(state.memory_clock_mhz, 3201);
  EXPECT_EQ(state.power_watts, 650.5);
  EXPECT_EQ(state.temperature_celsius, 61);
  EXPECT_THAT(state.throttle_reasons, IsEmpty());
  EXPECT_EQ(reader->why_absent(), "");
  EXPECT_EQ(reader->energy_joules(), 1.5);
  nvml_.millijoules = 2750;
  EXPECT_EQ(reader->energy_joules(), 2.75);
}

TEST_F(NvmlTelemetryTest, FindsTheGpuThatTheDriverMeans) {
  // The CUDA driver counts from the other end.
  open_telemetry("cuda:0", "", stand_ins())->read();
  EXPECT_EQ(nvml_.asked, 2);
  open_telemetry("cuda", "", stand_ins())->read();
  EXPECT_EQ(nvml_.asked, 2);
  open_telemetry("cuda:2", "", stand_ins())->read();
  EXPECT_EQ(nvml_.asked, 0);
  // What the caller knows goes before what the driver says.
  open_telemetry("cuda:2", "0000:20:00.0", stand_ins())->read();
  EXPECT_EQ(nvml_.asked, 1);
  open_telemetry("cuda:2", "GPU-1", stand_ins())->read();
  EXPECT_EQ(nvml_.asked, 1);
  // Without a driver that answers, the numbers are taken to agree.
  nvml_.cuda_result = 100;
  open_telemetry("cuda:1", "", stand_ins())->read();
  EXPECT_EQ(nvml_.asked, 1);
  TelemetrySources without_driver = stand_ins();
  without_driver.drivers.cuda = "libnowhere.so";
  open_telemetry("cuda:2", "", without_driver)->read();
  EXPECT_EQ(nvml_.asked, 2);
}

TEST_F(NvmlTelemetryTest, NamesWhatSlowsTheChipAndNothingElse) {
  const auto reader = open_telemetry("cuda:0", "", stand_ins());
  const auto words = [&](unsigned long long bits) {
    nvml_.throttle_reasons = bits;
    return reader->read().throttle_reasons;
  };
  EXPECT_THAT(words(0x1), IsEmpty());    // idle
  EXPECT_THAT(words(0x2), IsEmpty());    // application clocks
  EXPECT_THAT(words(0x100), IsEmpty());  // display clocks
  EXPECT_THAT(words(0x4), ElementsAre("power cap"));
  EXPECT_THAT(words(0x20 | 0x4), ElementsAre("power cap", "temperature limit"));
  EXPECT_THAT(words(0x40 | 0x8), ElementsAre("overheating: clocks halved or less"));
  EXPECT_THAT(words(0x80 | 0x8), ElementsAre("power brake from the machine: clocks halved or less"));
  EXPECT_THAT(words(0x8), ElementsAre("hardware slowdown: clocks halved or less"));
  EXPECT_THAT(words(0x10), ElementsAre("held to the clock of slower GPUs (sync boost)"));
}

TEST_F(NvmlTelemetryTest, SaysWhatAGpuDoesNotTell) {
  nvml_.power_result = nvml_.energy_result = 3;
  const auto reader = open_telemetry("cuda:0", "", stand_ins());
  const Telemetry state = reader->read();
  EXPECT_EQ(state.power_watts, std::nullopt);
  EXPECT_EQ(state.temperature_celsius, 61);
  EXPECT_EQ(reader->energy_joules(), std::nullopt);
  EXPECT_EQ(reader->why_absent(), "NVML does not tell this GPU's power and energy.");
}

TEST_F(NvmlTelemetryTest, IsAbsentWhereNvmlIsNotOrRefuses) {
  TelemetrySources sources = stand_ins();
  sources.nvml = "libnowhere.so";
  const auto without_library = open_telemetry("cuda:0", "", sources);
  EXPECT_EQ(without_library->read().graphics_clock_mhz, std::nullopt);
  EXPECT_EQ(without_library->energy_joules(), std::nullopt);
  EXPECT_THAT(without_library->why_absent(),
              AllOf(StartsWith("Clocks, power, temperature, throttling and energy of cuda:0 are unknown: "),
                    HasSubstr("libnowhere.so"), EndsWith(".")));

  EXPECT_EQ(
      open_telemetry("cuda:0", "0000:99:00.0", stand_ins())->why_absent(),
      "Clocks, power, temperature, throttling and energy of cuda:0 are unknown: NVML cannot find GPU 0000:99:00.0: "
      "Not Found.");
  nvml_.init_result = 18;
  EXPECT_EQ(
      open_telemetry("cuda:0", "", stand_ins())->why_absent(),
      "Clocks, power, temperature, throttling and energy of cuda:0 are unknown: NVML cannot start: Driver/library "
      "version mismatch.");
}

class RocmSmiTelemetryTest : public testing::Test {
 protected:
  void SetUp() override { smi_ = RocmSmiStandIn(); }
  void TearDown() override { EXPECT_EQ(smi_.started, 0); }

  RocmSmiStandIn& smi_ = open_stand_in<RocmSmiStandIn>(CAUSEWAY_ROCM_SMI_STAND_IN, "rocm_smi_stand_in");
};

TEST_F(RocmSmiTelemetryTest, ReadsAllThatTheGpuTellsInBothLayouts) {
  for (const uint32_t version : {5u, 6u, 7u}) {
    smi_.version = version;
    const auto reader = open_telemetry("hip:0", "", stand_ins());
    const Telemetry state = reader->read();
    EXPECT_EQ(state.graphics_clock_mhz, 2100) << version;
    EXPECT_EQ(state.memory_clock_mhz, 1300) << version;
    EXPECT_EQ(state.power_watts, 700.25);
    EXPECT_EQ(state.temperature_celsius, 75.5);
    EXPECT_NEAR(reader->energy_joules().value(), 15.3, 1e-4);
    EXPECT_EQ(reader->why_absent(), "");
  }
}

TEST_F(RocmSmiTelemetryTest, FindsTheGpuThatTheDriverMeans) {
  open_telemetry("hip:0", "", stand_ins())->read();
  EXPECT_EQ(smi_.asked, 1u);
  open_telemetry("hip:1", "", stand_ins())->read();
  EXPECT_EQ(smi_.asked, 0u);
  open_telemetry("hip:1", "0001:c2:00.0", stand_ins())->read();
  EXPECT_EQ(smi_.asked, 1u);
  EXPECT_THAT(open_telemetry("hip:1", "0000:c2:00.0", stand_ins())->why_absent(),
              EndsWith("ROCm SMI shows no GPU at 0000:c2:00.0."));
  TelemetrySources without_driver = stand_ins();
  without_driver.drivers.hip = {"libnowhere.so"};
  open_telemetry("hip:1", "", without_driver)->read();
  EXPECT_EQ(smi_.asked, 1u);
  EXPECT_THAT(open_telemetry("hip:2", "", without_driver)->why_absent(),
              EndsWith("ROCm SMI shows 2 GPUs and no number 2."));
}

TEST_F(RocmSmiTelemetryTest, NamesWhatSlowsTheChip) {
  const auto reader = open_telemetry("hip:0", "", stand_ins());
  smi_.throttle_status = uint64_t{1} << 1 | uint64_t{1} << 36;
  EXPECT_THAT(reader->read().throttle_reasons, ElementsAre("power cap", "temperature limit"));
  smi_.throttle_status = uint64_t{1} << 16 | uint64_t{1} << 57;
  EXPECT_THAT(reader->read().throttle_reasons, ElementsAre("current limit", "slowed by the firmware"));
}

TEST_F(RocmSmiTelemetryTest, SaysWhatAGpuDoesNotTell) {
  smi_.tells_clocks = smi_.tells_power = smi_.has_junction = false;
  smi_.energy_count = 0;
  smi_.throttle_status = UINT64_MAX;
  const auto reader = open_telemetry("hip:0", "", stand_ins());
  const Telemetry state = reader->read();
  EXPECT_EQ(state.graphics_clock_mhz, std::nullopt);
  EXPECT_EQ(state.temperature_celsius, 55);  // the edge's
  EXPECT_THAT(state.throttle_reasons, IsEmpty());
  EXPECT_EQ(reader->energy_joules(), std::nullopt);
  EXPECT_EQ(reader->why_absent(),
            "ROCm SMI does not tell this GPU's graphics clock, memory clock, power, throttling and energy.");
  smi_.init_result = 8;
  EXPECT_THAT(open_telemetry("hip:0", "", stand_ins())->why_absent(),
              EndsWith("ROCm SMI cannot start: no driver is loaded."));
}

TEST(Telemetry, DevicesWithoutAnyHaveNone) {
  EXPECT_EQ(open_telemetry("emulator:sm_90a")->why_absent(),
            "emulator:sm_90a is no device with a clock, power or temperature.");
  EXPECT_EQ(open_telemetry("cuda:x", "", stand_ins())->why_absent(),
            "cuda:x is no device with a clock, power or temperature.");
}

class CountingReader : public TelemetryReader {
 public:
  int reads() const { return reads_; }

 private:
  Telemetry sample() override {
    Telemetry state;
    state.power_watts = ++reads_;
    return state;
  }
  std::optional<double> sample_energy() override { return 0; }
  std::string explain_absence() override { return ""; }
  std::atomic<int> reads_ = 0;
};

TEST(TelemetrySampler, SamplesUntilStopped) {
  CountingReader reader;
  TelemetrySampler sampler(reader, std::chrono::milliseconds(5));
  while (reader.reads() < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::vector<Telemetry> samples = sampler.stop();
  ASSERT_GE(samples.size(), 3u);
  EXPECT_EQ(static_cast<int>(samples.size()), reader.reads());
  for (size_t i = 0; i < samples.size(); ++i) {
    EXPECT_EQ(samples[i].moment, "during");
    EXPECT_EQ(samples[i].power_watts, i + 1.0);
  }
  EXPECT_THAT(sampler.stop(), IsEmpty());
}

TEST(TelemetrySampler, GivesOneSampleHoweverShort) {
  CountingReader reader;
  EXPECT_EQ(TelemetrySampler(reader, std::chrono::minutes(1)).stop().size(), 1u);
}

TEST(TelemetrySummary, KeepsMediansTheHottestAndTheShareOfEachReason) {
  std::vector<Telemetry> samples(200);
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i].graphics_clock_mhz = i < 150 ? 1980 : 1400;
    samples[i].temperature_celsius = i == 7 ? 80 : 60;
    if (i < 50) samples[i].throttle_reasons = {"power cap"};
  }
  samples[199].throttle_reasons = {"temperature limit"};
  samples[0].power_watts = 100;
  samples[1].power_watts = 300;
  const Telemetry summary = summarize(samples, "during");
  EXPECT_EQ(summary.moment, "during");
  EXPECT_EQ(summary.graphics_clock_mhz, 1980);
  EXPECT_EQ(summary.memory_clock_mhz, std::nullopt);
  EXPECT_EQ(summary.power_watts, 200);
  EXPECT_EQ(summary.temperature_celsius, 80);
  EXPECT_THAT(summary.throttle_reasons,
              ElementsAre("power cap (25% of 200 samples)", "temperature limit (in 1 of 200 samples)"));
  EXPECT_EQ(summarize({}, "during").power_watts, std::nullopt);
}

}  // namespace
}  // namespace causeway::bench
