#include "causeway/communicator/nccl_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "causeway/base/error.h"
#include "causeway/device/cuda/cuda_device.h"
#include "causeway/device/hip/hip_device.h"
#include "tests/communicator/nccl_stand_in/nccl_stand_in.h"
#include "tests/device/gpu_stand_in_library.h"

namespace causeway::communicator {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

NcclStandIn& open_nccl_stand_in() {
  void* library = dlopen(CAUSEWAY_NCCL_STAND_IN, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return *reinterpret_cast<NcclStandIn* (*)()>(dlsym(library, "nccl_stand_in"))();
}

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class NcclCommunicatorTest : public testing::Test {
 protected:
  void SetUp() override {
    nccl_ = NcclStandIn();
    driver_.device_count = 4;
    ::unsetenv("NCCL_NVLS_ENABLE");
  }
  void TearDown() override {
    EXPECT_EQ(nccl_.communicators, 0);
    expect_returned(driver_);
    driver_.device_count = 2;
  }

  static std::vector<std::shared_ptr<Device>> gpus(const std::vector<int>& numbers) {
    std::vector<std::shared_ptr<Device>> devices;
    for (const int number : numbers)
      devices.push_back(std::make_shared<CudaDevice>(CudaOptions{number, CAUSEWAY_CUDA_STAND_IN}));
    return devices;
  }
  static CommunicatorOptions options() { return {CAUSEWAY_NCCL_STAND_IN, true}; }

  std::vector<NcclCall> calls_of(CollectiveKind kind, DType dtype, int64_t count, int root = 0) {
    const auto communicator = open_communicator(gpus({0, 1}), options());
    for (int i = 0; i < 2; ++i) streams_[i] = static_cast<GpuDevice&>(communicator->device(i)).stream();
    nccl_.calls.clear();
    communicator->run({kind, dtype, count, root}, std::vector<const void*>{from_[0], from_[1]},
                      std::vector<void*>{to_[0], to_[1]});
    return nccl_.calls;
  }

  StandIn& driver_ = open_stand_in(CAUSEWAY_CUDA_STAND_IN);
  NcclStandIn& nccl_ = open_nccl_stand_in();
  float from_[2][8] = {}, to_[2][8] = {};
  void* streams_[2] = {};
  const NcclCall begin_{.function = "group {"}, end_{.function = "}"};
};

TEST_F(NcclCommunicatorTest, ConnectsTheDevicesByTheirNumbers) {
  const auto communicator = open_communicator(gpus({2, 0, 3}), options());
  EXPECT_THAT(nccl_.devices, ElementsAre(2, 0, 3));
  EXPECT_EQ(communicator->name(), "NCCL 2.27.5");
  nccl_.version = 2804;
  EXPECT_EQ(communicator->name(), "NCCL 2.8.4");
  EXPECT_EQ(nccl_.communicators, 3);
}

TEST_F(NcclCommunicatorTest, CallsNcclForEveryRankInOneGroup) {
  std::vector<NcclCall> calls;
  calls = calls_of(CollectiveKind::kAllReduce, DType::kF32, 8);
  EXPECT_THAT(calls, ElementsAre(begin_, NcclCall{"ncclAllReduce", from_[0], to_[0], 8, 7, 0, 0, streams_[0]},
                                 NcclCall{"ncclAllReduce", from_[1], to_[1], 8, 7, 0, 1, streams_[1]}, end_));
  EXPECT_NE(streams_[0], nullptr);
  EXPECT_NE(streams_[0], streams_[1]);
  calls = calls_of(CollectiveKind::kReduceScatter, DType::kBF16, 4);
  EXPECT_THAT(calls, ElementsAre(begin_, NcclCall{"ncclReduceScatter", from_[0], to_[0], 4, 9, 0, 0, streams_[0]},
                                 NcclCall{"ncclReduceScatter", from_[1], to_[1], 4, 9, 0, 1, streams_[1]}, end_));
  calls = calls_of(CollectiveKind::kAllGather, DType::kBF16, 4);
  EXPECT_THAT(calls, ElementsAre(begin_, NcclCall{"ncclAllGather", from_[0], to_[0], 4, 9, 0, 0, streams_[0]},
                                 NcclCall{"ncclAllGather", from_[1], to_[1], 4, 9, 0, 1, streams_[1]}, end_));
  calls = calls_of(CollectiveKind::kBroadcast, DType::kF32, 8, 1);
  EXPECT_THAT(calls, ElementsAre(begin_, NcclCall{"ncclBroadcast", from_[0], to_[0], 8, 7, 1, 0, streams_[0]},
                                 NcclCall{"ncclBroadcast", from_[1], to_[1], 8, 7, 1, 1, streams_[1]}, end_));
  EXPECT_THAT(calls_of(CollectiveKind::kAllReduce, DType::kF32, 0), IsEmpty());
}

TEST_F(NcclCommunicatorTest, SendsAndReceives) {
  std::vector<NcclCall> calls;
  calls = calls_of(CollectiveKind::kSendReceive, DType::kF32, 8);
  EXPECT_THAT(calls, ElementsAre(begin_, NcclCall{"ncclSend", from_[0], nullptr, 8, 7, 1, 0, streams_[0]},
                                 NcclCall{"ncclRecv", nullptr, to_[1], 8, 7, 0, 1, streams_[1]},
                                 NcclCall{"ncclSend", from_[1], nullptr, 8, 7, 0, 1, streams_[1]},
                                 NcclCall{"ncclRecv", nullptr, to_[0], 8, 7, 1, 0, streams_[0]}, end_));
  // Parts of 3 elements.
  calls = calls_of(CollectiveKind::kAllToAll, DType::kF32, 3);
  EXPECT_THAT(calls, ElementsAre(begin_, NcclCall{"ncclSend", from_[0], nullptr, 3, 7, 0, 0, streams_[0]},
                                 NcclCall{"ncclRecv", nullptr, to_[0], 3, 7, 0, 0, streams_[0]},
                                 NcclCall{"ncclSend", from_[0] + 3, nullptr, 3, 7, 1, 0, streams_[0]},
                                 NcclCall{"ncclRecv", nullptr, to_[1], 3, 7, 0, 1, streams_[1]},
                                 NcclCall{"ncclSend", from_[1], nullptr, 3, 7, 0, 1, streams_[1]},
                                 NcclCall{"ncclRecv", nullptr, to_[0] + 3, 3, 7, 1, 0, streams_[0]},
                                 NcclCall{"ncclSend", from_[1] + 3, nullptr, 3, 7, 1, 1, streams_[1]},
                                 NcclCall{"ncclRecv", nullptr, to_[1] + 3, 3, 7, 1, 1, streams_[1]}, end_));
}

TEST_F(NcclCommunicatorTest, LeavesMulticastAloneUnlessAsked) {
  open_communicator(gpus({0, 1}), options());
  EXPECT_EQ(nccl_.nvls_at_start, "");
  CommunicatorOptions without = options();
  without.nvlink_multicast = false;
  open_communicator(gpus({0, 1}), without);
  EXPECT_EQ(nccl_.nvls_at_start, "0");
}

TEST_F(NcclCommunicatorTest, PassesOnWhatTheLibrarySays) {
  nccl_.init_result = 2;
  EXPECT_THAT(message_of([&] { open_communicator(gpus({0, 1}), options()); }),
              HasSubstr("NCCL could not connect the GPUs: unhandled system error"));
  nccl_.init_result = 0;
  const auto communicator = open_communicator(gpus({0, 1}), options());
  nccl_.call_result = 5;
  const std::vector<const void*> from = {from_[0], from_[1]};
  const std::vector<void*> to = {to_[0], to_[1]};
  EXPECT_THAT(message_of([&] { communicator->run({CollectiveKind::kAllReduce, DType::kF32, 8}, from, to); }),
              AllOf(HasSubstr("NCCL could not run all_reduce: invalid usage; said more about it"),
                    HasSubstr("NCCL_DEBUG=INFO")));
  // The group was ended all the same.
  EXPECT_EQ(nccl_.calls.back().function, "}");
  nccl_.call_result = 0;
  nccl_.group_result = 5;
  EXPECT_THAT(message_of([&] { communicator->run({CollectiveKind::kAllToAll, DType::kF32, 4}, from, to); }),
              HasSubstr("NCCL could not send and receive: invalid usage"));
}

TEST_F(NcclCommunicatorTest, SaysWhatIsMissing) {
  CommunicatorOptions elsewhere;
  elsewhere.library = "/no/such/libnccl.so.2";
  EXPECT_THAT(message_of([&] { open_communicator(gpus({0, 1}), elsewhere); }),
              AllOf(HasSubstr("NCCL cannot be opened: /no/such/libnccl.so.2"), HasSubstr("It comes with PyTorch")));
  // A library without NCCL's functions.
  elsewhere.library = CAUSEWAY_CUDA_STAND_IN;
  EXPECT_THAT(message_of([&] { open_communicator(gpus({0, 1}), elsewhere); }),
              HasSubstr("is too old: it has no function ncclGetVersion"));
  EXPECT_THAT(message_of([&] { open_communicator(gpus({1, 1}), options()); }),
              HasSubstr("cuda:1 stands twice in a group"));
}

TEST(RcclCommunicatorTest, IsTheSameLibraryByAnotherName) {
  NcclStandIn& nccl = open_nccl_stand_in();
  nccl = NcclStandIn();
  {
    const std::vector<std::shared_ptr<Device>> devices = {
        std::make_shared<HipDevice>(HipOptions{0, {CAUSEWAY_HIP_STAND_IN}}),
        std::make_shared<HipDevice>(HipOptions{1, {CAUSEWAY_HIP_STAND_IN}})};
    const auto communicator = open_communicator(devices, {CAUSEWAY_NCCL_STAND_IN, true});
    EXPECT_EQ(communicator->name(), "RCCL 2.27.5");
    EXPECT_THAT(nccl.devices, ElementsAre(0, 1));
    EXPECT_THAT(message_of([&] { open_communicator(devices, {"/no/such/librccl.so.1", true}); }),
                AllOf(HasSubstr("RCCL cannot be opened: /no/such/librccl.so.1"), HasSubstr("PyTorch for ROCm")));
  }
  EXPECT_EQ(nccl.communicators, 0);
}

}  // namespace
}  // namespace causeway::communicator
