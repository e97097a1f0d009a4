#include "causeway/device/open_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/base/error.h"
#include "causeway/device/cpu/host_target.h"
#include "tests/device/gpu_stand_in_library.h"

namespace causeway::device {
namespace {

using testing::HasSubstr;

const DeviceLibraries kNone = {"/nowhere/libcuda.so.1", {"/nowhere/libamdhip64.so"}};
const DeviceLibraries kBoth = {CAUSEWAY_CUDA_STAND_IN, {CAUSEWAY_HIP_STAND_IN}};

class OpenDevice : public testing::Test {
 protected:
  void SetUp() override { cuda_ = hip_ = StandIn(); }
  void TearDown() override {
    expect_returned(cuda_);
    expect_returned(hip_);
  }
  StandIn& cuda_ = open_stand_in(CAUSEWAY_CUDA_STAND_IN);
  StandIn& hip_ = open_stand_in(CAUSEWAY_HIP_STAND_IN);
};

Error open_error(const std::string& spec, const DeviceLibraries& libraries = kNone,
                 const std::string& architecture = {}) {
  try {
    open_device(spec, libraries, architecture);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << spec;
  return Error(ErrorKind::kInterrupted, "");
}

Error target_error(const std::string& spec) {
  try {
    parse_target(spec);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << spec;
  return Error(ErrorKind::kInterrupted, "");
}

TEST_F(OpenDevice, OpensByName) {
  for (const std::string name : {"cpu", "cuda:0", "cuda:1", "hip:0", "hip:1"})
    EXPECT_EQ(open_device(name, kBoth)->name(), name);
  EXPECT_EQ(open_device("cuda", kBoth)->name(), "cuda:0");
  EXPECT_EQ(open_device("hip", kBoth)->name(), "hip:0");
}

TEST_F(OpenDevice, AutoTakesTheFirstUsable) {
  EXPECT_EQ(open_device("auto", kBoth)->name(), "cuda:0");
  cuda_.major = 7;
  EXPECT_EQ(open_device("auto", kBoth)->name(), "hip:0");
  cuda_.version = 11040;
  hip_.device_count = 0;
  EXPECT_EQ(open_device("auto", kBoth)->name(), "cpu");
  EXPECT_EQ(open_device("auto", kNone)->name(), "cpu");
}

TEST_F(OpenDevice, KernelsOfAnotherArchitectureWhereTheyRun) {
  const auto processor = [](const std::string& spec, const std::string& architecture) {
    return open_device(spec, kBoth, architecture)->target().processor;
  };
  EXPECT_EQ(processor("cuda:1", "sm_80"), "sm_80");
  EXPECT_EQ(processor("auto", "sm_80"), "sm_80");
  EXPECT_EQ(processor("auto", "gfx942"), "gfx942");
  EXPECT_EQ(processor("hip", "gfx942"), "gfx942");
  EXPECT_EQ(processor("emulator:sm_80", "sm_80"), "sm_80");
}

TEST_F(OpenDevice, KernelsOfAnotherArchitectureAreRefusedWithWhatRunsThem) {
  const auto refused = [](const std::string& spec, const std::string& architecture) {
    const Error error = open_error(spec, kBoth, architecture);
    return error.where() + ": " + error.message() + " | " + error.hint();
  };
  EXPECT_EQ(refused("cpu", "sm_80"),
            "device_architecture: the processor does not run kernels of sm_80 | Leave it out, or set device to cuda or "
            "emulator:sm_80; cuda:sm_80 where nothing is to run.");
  EXPECT_THAT(refused("hip:1", "gfx90a"),
              HasSubstr("hip:1 does not run kernels of gfx90a: its own are gfx942, and no"));
  EXPECT_THAT(refused("hip", "sm_80"), HasSubstr("set device to cuda or emulator:sm_80"));
  EXPECT_THAT(refused("cuda", "gfx942"),
              HasSubstr("cuda does not run kernels of gfx942 | Leave it out, or set device to "
                        "hip or emulator:gfx942"));
  EXPECT_THAT(refused("emulator:sm_90a", "sm_80"),
              HasSubstr("emulator:sm_90a imitates sm_90a and does not run kernels"));
  EXPECT_THAT(refused("cuda", "sm_81"), HasSubstr("unknown GPU architecture 'sm_81'"));
  // Of the other vendor, whether this one's driver is here or not.
  EXPECT_THAT(open_error("hip", kNone, "sm_80").message(), HasSubstr("hip does not run kernels of sm_80"));
  // Not the processor in its place.
  EXPECT_EQ(open_error("auto", kNone, "sm_80").message(), "no GPU here runs kernels of sm_80");
  cuda_.major = 7;
  EXPECT_EQ(open_error("auto", kBoth, "sm_80").kind(), ErrorKind::kNotFound);
}

TEST_F(OpenDevice, BadNamesNameTheNearest) {
  Error error = open_error("cuds:1");
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error.message(), "there is no device 'cuds:1'");
  EXPECT_THAT(error.hint(), HasSubstr("Did you mean cuda? Devices: auto, cpu, cpu:LEVEL, cuda, cuda:N"));
  EXPECT_THAT(open_error("quantum computer").hint(), testing::StartsWith("Devices: "));
  EXPECT_THAT(open_error("").message(), HasSubstr("there is no device ''"));
  EXPECT_EQ(open_error("cuda:one").message(), "'one' is not the number of a GPU");
  EXPECT_EQ(open_error("cuda:").message(), "'' is not the number of a GPU");
  EXPECT_EQ(open_error("hip:-1").message(), "'-1' is not the number of a GPU");
  EXPECT_EQ(open_error("hip:1x").message(), "'1x' is not the number of a GPU");
  EXPECT_EQ(open_error("cpu:3").message(), "there is no device 'cpu:3': '3' is no level of x86-64");
  EXPECT_THAT(open_error("cpu:3").hint(), testing::StartsWith("Write cpu, or cpu: and one of x86-64"));
  EXPECT_THAT(open_error("emulator").hint(), HasSubstr("emulator:sm_80"));
  EXPECT_THAT(open_error("emulator:gfx943").hint(), HasSubstr("gfx942"));
}

TEST_F(OpenDevice, WhatIsNotThereSaysWhatIs) {
  EXPECT_EQ(open_error("cuda", kNone).kind(), ErrorKind::kNotFound);
  EXPECT_EQ(open_error("cuda:5", kBoth).hint(), "The driver shows 2: cuda:0 to cuda:1.");
  hip_.device_count = 1;
  EXPECT_EQ(open_error("hip:1", kBoth).hint(), "The runtime shows one: hip:0.");
}

TEST_F(OpenDevice, DescribesWhatIsHereAndWhatIsWrongWithIt) {
  cuda_.device_count = 1;
  hip_.device_count = 1;
  hip_.architecture = "gfx1030";
  const std::vector<DeviceDescription> devices = describe_devices(kBoth);
  ASSERT_EQ(devices.size(), 3u);
  EXPECT_EQ(devices[0].spec, "cpu");
  EXPECT_TRUE(devices[0].usable);
  EXPECT_GT(devices[0].memory_total, devices[0].memory_free);
  EXPECT_EQ(devices[1].spec, "cuda:0");
  EXPECT_TRUE(devices[1].usable);
  EXPECT_EQ(devices[1].product, "Stand-in");
  EXPECT_EQ(devices[1].architecture, "sm_90");
  EXPECT_EQ(devices[1].kernel_architectures, (std::vector<std::string>{"sm_90a", "sm_80"}));
  EXPECT_EQ(devices[1].software, "driver for CUDA 13.0");
  EXPECT_EQ(devices[1].parallel_units, 7);
  EXPECT_EQ(devices[1].memory_total, 64 << 20);
  EXPECT_EQ(devices[2].spec, "hip:0");
  EXPECT_TRUE(devices[2].found);
  EXPECT_FALSE(devices[2].usable);
  EXPECT_THAT(devices[2].problem, HasSubstr("gfx1030"));
  EXPECT_THAT(devices[2].advice, HasSubstr("gfx942"));
}

TEST_F(OpenDevice, DescribesAMachineWithoutGpus) {
  const std::vector<DeviceDescription> devices = describe_devices(kNone);
  ASSERT_EQ(devices.size(), 3u);
  EXPECT_EQ(devices[1].spec, "cuda");
  EXPECT_FALSE(devices[1].found);
  EXPECT_FALSE(devices[1].usable);
  EXPECT_THAT(devices[1].advice, HasSubstr("Install NVIDIA's driver"));
  EXPECT_EQ(devices[2].spec, "hip");
  EXPECT_THAT(devices[2].problem, HasSubstr("cannot be opened"));
}

TEST(ParseTarget, ArchitecturesNeedNotBeHere) {
  EXPECT_EQ(parse_target("cuda:sm_90a"), gpu_target("sm_90a"));
  EXPECT_EQ(parse_target("hip:gfx942"), gpu_target("gfx942"));
  EXPECT_EQ(parse_target("emulator:gfx942"), gpu_target("gfx942", true));
  EXPECT_EQ(parse_target("cpu"), host_target());
}

TEST(ParseTarget, AProcessorHasKernelsOfLowerLevels) {
  EXPECT_EQ(parse_target("cpu:" + host_target().processor), host_target());
  EXPECT_EQ(open_device("cpu:x86-64")->target().text(), "x86:x86-64::16");
  if (host_target().has_avx2()) {
    const Target target = open_device("cpu:x86-64-v3")->target();
    EXPECT_TRUE(target.has_avx2());
    EXPECT_FALSE(target.has_avx512());
    EXPECT_EQ(target.vector_bytes, 32);
    EXPECT_EQ(target.parallel_units, host_target().parallel_units);
  }
  if (!host_target().has_avx512())
    EXPECT_THAT(target_error("cpu:x86-64-v4").message(), HasSubstr("does not run kernels of x86-64-v4"));
}

TEST(ParseTarget, BadOnesSayWhatToWrite) {
  EXPECT_THAT(target_error("cuda:sm_90").hint(), HasSubstr("Did you mean sm_90a?"));
  EXPECT_EQ(target_error("cuda:gfx942").hint(), "Did you mean hip:gfx942?");
  EXPECT_EQ(target_error("hip:sm_80").message(), "hip has no architecture sm_80");
  EXPECT_THAT(target_error("cuda").hint(), HasSubstr("cuda:sm_90a"));
  EXPECT_THAT(target_error("auto").message(), HasSubstr("'auto' does not say which architecture"));
  EXPECT_THAT(target_error("hpi:gfx942").hint(), HasSubstr("Did you mean hip?"));
}

}  // namespace
}  // namespace causeway::device
