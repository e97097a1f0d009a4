#include "causeway/device/hip/hip_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/base/error.h"
#include "tests/device/gpu_stand_in_library.h"

namespace causeway::device {
namespace {

using testing::HasSubstr;

class HipDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    driver_ = StandIn();
    driver_.version = 60241134;
  }
  void TearDown() override { expect_returned(driver_); }

  Error open_error(const std::string& library = CAUSEWAY_HIP_STAND_IN) const {
    try {
      HipDevice device(HipOptions{0, {library}});
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "opened";
    return Error(ErrorKind::kInvalidArgument, "");
  }

  StandIn& driver_ = open_stand_in(CAUSEWAY_HIP_STAND_IN);
  // The first that is there is taken.
  const HipOptions options_{1, {"/nowhere/libamdhip64.so", CAUSEWAY_HIP_STAND_IN}};
};

TEST_F(HipDeviceTest, ArchitectureIsThatOfTheGpuWithoutItsSettings) {
  for (const std::string architecture : {"gfx942", "gfx90a"}) {
    driver_.architecture = architecture + ":sramecc+:xnack-";
    HipDevice device(options_);
    EXPECT_EQ(device.name(), "hip:1");
    EXPECT_EQ(device.target().text(), fmt::format("amdgpu:{}::16", architecture));
    EXPECT_EQ(device.info().processor, driver_.architecture);
    EXPECT_EQ(device.info().software, "HIP 6.2");
  }
  driver_.architecture = "gfx1100";
  const Error error = open_error();
  EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
  EXPECT_EQ(error.message(), "Stand-in is a gfx1100, which kernels are not made for");
  EXPECT_THAT(error.hint(), HasSubstr("gfx942 (MI300A, MI300X, MI325X)"));
}

TEST_F(HipDeviceTest, WithoutARuntimeSaysWhatToInstall) {
  const Error error = open_error("/nowhere/libamdhip64.so");
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.message(), HasSubstr("/nowhere/libamdhip64.so: cannot open shared object file"));
  EXPECT_THAT(error.hint(), HasSubstr("ROCm 6.0 or newer"));
  EXPECT_EQ(open_error("libm.so.6").message(), "libm.so.6 is too old: it has no function hipInit");
}

TEST_F(HipDeviceTest, ARuntimeThatDoesNotStartSaysWhy) {
  driver_.init_result = 100;
  EXPECT_EQ(open_error().kind(), ErrorKind::kNotFound);
  EXPECT_THAT(open_error().hint(), HasSubstr("/dev/kfd"));
  driver_.init_result = 35;
  EXPECT_EQ(open_error().kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(open_error().message(), HasSubstr("hipErrorInsufficientDriver"));
  EXPECT_THAT(open_error().hint(), HasSubstr("update amdgpu"));
}

TEST_F(HipDeviceTest, HasNoTensorMaps) {
  HipDevice device(options_);
  const auto module = device.load("object map");
  const DeviceBuffer buffer = device.allocate(64);
  void* const buffers[] = {buffer.data()};
  const int64_t sizes[] = {3};
  const TensorMap map;
  try {
    device.launch({module->kernel("map"), buffers, sizes, 1, 0, 64, 0, 1, std::span(&map, 1)});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_THAT(error.message(), HasSubstr("no TMA"));
  }
}

}  // namespace
}  // namespace causeway::device
