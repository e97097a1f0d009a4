#include "causeway/device/cuda/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/device/cuda/cuda_driver.h"
#include "causeway/device/gpu_architecture.h"
#include "tests/device/gpu_stand_in_library.h"
#include "tests/fixtures/temporary_directory.h"

namespace causeway::device {
namespace {

using testing::HasSubstr;

class CudaDeviceTest : public testing::Test {
 protected:
  void SetUp() override { driver_ = StandIn(); }
  void TearDown() override { expect_returned(driver_); }

  Error open_error(const std::string& library = CAUSEWAY_CUDA_STAND_IN) const {
    try {
      CudaDevice device(CudaOptions{0, library});
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "opened";
    return Error(ErrorKind::kInvalidArgument, "");
  }

  StandIn& driver_ = open_stand_in(CAUSEWAY_CUDA_STAND_IN);
  const CudaOptions options_{0, CAUSEWAY_CUDA_STAND_IN};
};

TEST_F(CudaDeviceTest, TakesTheBestArchitectureForTheGpu) {
  const auto opened = [&](int major, int minor) {
    driver_.major = major;
    driver_.minor = minor;
    CudaDevice device(options_);
    return device.target().text();
  };
  EXPECT_EQ(opened(9, 0), "nvptx:sm_90a::16");
  EXPECT_EQ(opened(8, 0), "nvptx:sm_80::16");
  EXPECT_EQ(opened(8, 9), "nvptx:sm_80::16");
  for (const auto& [major, minor] : std::vector<std::pair<int, int>>{{7, 5}, {10, 0}, {12, 0}}) {
    driver_.major = major;
    driver_.minor = minor;
    const Error error = open_error();
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_EQ(error.message(),
              fmt::format("Stand-in has compute capability {}.{}, which kernels are not made for", major, minor));
    EXPECT_THAT(error.hint(), HasSubstr("H100"));
  }
}

// PTX of sm_80 runs on all newer GPUs, that of sm_90a on 9.0 alone.
TEST_F(CudaDeviceTest, TakesAnOlderArchitectureThatIsAskedFor) {
  const auto target = [&](int major, int minor, const std::string& architecture) -> std::string {
    driver_.major = major;
    driver_.minor = minor;
    try {
      CudaDevice device(CudaOptions{0, CAUSEWAY_CUDA_STAND_IN, architecture});
      return device.target().text();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
      return error.message() + " | " + error.hint();
    }
  };
  EXPECT_EQ(target(9, 0, "sm_80"), "nvptx:sm_80::16");
  EXPECT_EQ(target(9, 0, "sm_90a"), "nvptx:sm_90a::16");
  EXPECT_EQ(target(8, 6, "sm_80"), "nvptx:sm_80::16");
  EXPECT_EQ(target(12, 0, "sm_80"), "nvptx:sm_80::16");
  EXPECT_EQ(
      target(8, 0, "sm_90a"),
      "Stand-in has compute capability 8.0 and does not run kernels of sm_90a | Set device_architecture to sm_80, or "
      "leave it out.");
  EXPECT_EQ(
      target(10, 0, "sm_90a"),
      "Stand-in has compute capability 10.0 and does not run kernels of sm_90a | Set device_architecture to sm_80.");
  EXPECT_EQ(
      target(7, 5, "sm_80"),
      "Stand-in has compute capability 7.5 and does not run kernels of sm_80 | Kernels need compute capability 8.0 or "
      "newer.");
  // Nothing is compiled for a GPU that is not known unless it is asked for.
  EXPECT_THAT(target(10, 0, ""), HasSubstr("run here with device_architecture=sm_80"));
}

TEST_F(CudaDeviceTest, WithoutADriverSaysWhatToInstall) {
  const Error error = open_error("/nowhere/libcuda.so.1");
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.message(), HasSubstr("/nowhere/libcuda.so.1: cannot open shared object file"));
  EXPECT_THAT(error.hint(), HasSubstr("version 525 (CUDA 12.0) or newer"));
}

TEST_F(CudaDeviceTest, AnOldDriverIsAnError) {
  driver_.version = 11080;
  const Error error = open_error();
  EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
  EXPECT_EQ(error.message(), "the NVIDIA driver is too old: it serves CUDA 11.8, and kernels need 12.0");
  EXPECT_THAT(error.hint(), HasSubstr("525"));
}

TEST_F(CudaDeviceTest, ALibraryOfAnotherKindIsAnError) {
  const Error error = open_error("libm.so.6");
  EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
  EXPECT_EQ(error.message(), "libm.so.6 is too old: it has no function cuInit");
}

TEST_F(CudaDeviceTest, ADriverThatDoesNotStartSaysWhy) {
  driver_.init_result = 100;
  Error error = open_error();
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_EQ(error.message(), "the NVIDIA driver finds no GPU");
  EXPECT_THAT(error.hint(), HasSubstr("CUDA_VISIBLE_DEVICES"));
  driver_.init_result = 803;
  error = open_error();
  EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(error.message(), HasSubstr("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"));
  EXPECT_THAT(error.hint(), HasSubstr("reboot"));
}

TEST_F(CudaDeviceTest, AGpuThatIsTakenClosedOrFullSaysSo) {
  driver_.open_result = 46;
  driver_.compute_mode = 3;
  Error error = open_error();
  EXPECT_EQ(error.kind(), ErrorKind::kResource);
  EXPECT_EQ(error.message(), "the GPU is taken: another process holds it for itself");
  EXPECT_THAT(error.hint(), HasSubstr("nvidia-smi -c DEFAULT"));
  driver_.compute_mode = 2;
  EXPECT_THAT(open_error().message(), HasSubstr("closed to programs"));
  driver_.open_result = 2;
  EXPECT_THAT(open_error().message(), HasSubstr("memory is full"));
}

// Whatever the environment says, as in images for containers.
TEST_F(CudaDeviceTest, TheDriverKeepsMachineCodeBesideTheKernels) {
  CudaDevice device(options_);
  EXPECT_THAT(std::getenv("CUDA_CACHE_PATH"), testing::EndsWith("/nvidia"));
  EXPECT_STREQ(std::getenv("CUDA_CACHE_DISABLE"), "0");
  EXPECT_STREQ(std::getenv("CUDA_MODULE_LOADING"), "LAZY");
}

// It would run what others left there.
TEST_F(CudaDeviceTest, TheDriverKeepsNoMachineCodeWhereOthersCouldHaveWrittenIt) {
  const char* kept = std::getenv("XDG_CACHE_HOME");
  const std::string kept_value = kept == nullptr ? "" : kept;
  const TemporaryDirectory home;
  setenv("XDG_CACHE_HOME", home.path().c_str(), 1);
  choose_cuda_cache();
  EXPECT_EQ(std::getenv("CUDA_CACHE_PATH"), home.path() / "causeway/nvidia");
  EXPECT_STREQ(std::getenv("CUDA_CACHE_DISABLE"), "0");
  std::ofstream(home.path() / "causeway/nvidia/code") << "planted";
  std::filesystem::permissions(home.path() / "causeway/nvidia/code", std::filesystem::perms(0666));
  testing::internal::CaptureStderr();
  choose_cuda_cache();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(HasSubstr("for this run alone"), HasSubstr("nvidia/code may be written to by everybody")));
  EXPECT_EQ(std::getenv("CUDA_CACHE_PATH"), nullptr);
  EXPECT_STREQ(std::getenv("CUDA_CACHE_DISABLE"), "1");
  if (kept == nullptr) unsetenv("XDG_CACHE_HOME");
  if (kept != nullptr) setenv("XDG_CACHE_HOME", kept_value.c_str(), 1);
  choose_cuda_cache();
}

TEST_F(CudaDeviceTest, LoadsOnAnyThread) {
  CudaDevice device(options_);
  std::shared_ptr<DeviceModule> module;
  std::thread([&] { module = device.load("ptx add"); }).join();
  EXPECT_NE(module->kernel("add"), nullptr);
  try {
    device.load("not assembly");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr("ptxas error : line 1 is wrong"));
    EXPECT_THAT(error.message(), HasSubstr("CUDA_ERROR_INVALID_PTX"));
  }
}

TEST_F(CudaDeviceTest, WhatTheAssemblerCouldNotDoWellIsAWarning) {
  CudaDevice device(options_);
  testing::internal::CaptureStderr();
  device.load("ptx add");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  device.load("ptx serialized");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("a kernel is slower than it should be; please report it: ptxas info : (C7510) Potential "
                        "Performance Loss: wgmma.mma_async instructions are serialized"));
}

TEST_F(CudaDeviceTest, SharedMemoryBeyondTheDefaultIsAskedFor) {
  CudaDevice device(options_);
  const auto module = device.load("ptx none");
  void* const buffers[] = {nullptr};
  const int64_t sizes[] = {0};
  for (const int bytes : {227 << 10, 100 << 10, 1 << 10})
    device.launch({module->kernel("none"), buffers, sizes, 1, 0, 128, bytes});
  EXPECT_EQ(driver_.launches.size(), 3u);
}

TEST_F(CudaDeviceTest, LaunchesClusters) {
  CudaDevice device(options_);
  const auto module = device.load("ptx none");
  void* const buffers[] = {nullptr};
  const int64_t sizes[] = {0};
  device.launch({module->kernel("none"), buffers, sizes, 6, 0, 384, 0, 2});
  EXPECT_EQ(driver_.launches.at(0).cluster, 2u);
  EXPECT_EQ(driver_.launches.at(0).blocks, 6u);
}

// Kernels of an H200 wait for the launch before theirs themselves. Drivers of CUDA 12.2 do not record such launches,
// and those before 12.8 are not asked how to divide a multiprocessor's memory.
TEST_F(CudaDeviceTest, WhatFollowsALaunchMayBeginEarly) {
  for (const int version : {12020, 12030, 12080}) {
    driver_.version = version;
    CudaDevice device(options_);
    const auto module = device.load("ptx none");
    void* const buffers[] = {nullptr};
    const int64_t sizes[] = {0};
    for (const bool follows : {false, true}) {
      DeviceLaunch launch{module->kernel("none"), buffers, sizes, 6, 0, 384, 0, 2};
      launch.follows_launch = follows;
      device.launch(launch);
      const bool may_be_early = follows && device.target().architecture().waits_for_launches;
      EXPECT_EQ(driver_.launches.back().begins_early, may_be_early && version >= 12030);
      EXPECT_EQ(driver_.launches.back().shared_percent, may_be_early && version >= 12080 ? 100u : 0u);
      EXPECT_EQ(driver_.launches.back().cluster, 2u);
    }
  }
}

TEST_F(CudaDeviceTest, EncodesTensorMapsIntoTheArguments) {
  CudaDevice device(options_);
  const auto module = device.load("ptx map");
  const DeviceBuffer matrix = device.allocate(1 << 16, true);
  TensorMap map;
  map.offset = 32;
  map.sizes = {100, 60};
  map.stride_bytes = {2, 256};
  map.box = {64, 32};
  map.swizzle_bytes = 128;
  void* const buffers[] = {matrix.data()};
  const int64_t sizes[] = {3};
  device.launch({module->kernel("map"), buffers, sizes, 1, 0, 128, 0, 1, std::span(&map, 1)});
  const std::vector<std::byte>& arguments = driver_.launches.at(0).arguments;
  ASSERT_EQ(arguments.size(), 256u);
  std::array<uint64_t, 18> words;
  std::memcpy(words.data(), arguments.data(), sizeof words);
  const auto base = reinterpret_cast<uint64_t>(matrix.data());
  // Type (16 bits), rank, address, sizes, stride, box, element strides, interleave, swizzle, promotion, fill.
  EXPECT_THAT(std::span(words).first(14),
              testing::ElementsAre(1, 2, base + 32, 100, 60, 256, 64, 32, 1, 1, 0, 3, 3, 0));
  EXPECT_EQ(words[16], base);
  EXPECT_EQ(words[17], 3u);

  map.offset = 8;
  try {
    device.launch({module->kernel("map"), buffers, sizes, 1, 0, 128, 0, 1, std::span(&map, 1)});
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), HasSubstr("offset 8, swizzle 128, 100 every 2 bytes in boxes of 64"));
  }
}

TEST_F(CudaDeviceTest, ArgumentsThatTheKernelDoesNotTakeAreCaught) {
  CudaDevice device(options_);
  const auto module = device.load("ptx add");
  void* const buffers[] = {nullptr, nullptr};
  const int64_t sizes[] = {3};
  try {
    device.launch({module->kernel("add"), buffers, sizes, 1, 0, 128});
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("add takes 16 bytes of arguments and is launched with 24: 0 maps, 2 buffers, 1 sizes"));
  }
}

}  // namespace
}  // namespace causeway::device
