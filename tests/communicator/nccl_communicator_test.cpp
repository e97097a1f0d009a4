#include "causeway/communicator/nccl_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <set>

#include "causeway/base/error.h"
#include "causeway/communicator/mesh_communicators.h"
#include "causeway/communicator/thread_ranks.h"
#include "causeway/device/cuda/cuda_device.h"
#include "causeway/device/hip/hip_device.h"
#include "tests/communicator/nccl_stand_in/nccl_stand_in.h"
#include "tests/device/gpu_stand_in_library.h"
#include "tests/fixtures/error_message.h"

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

// The driver's stand-in refuses this where the thread has no context.
bool thread_has_gpu() {
  void* driver = dlopen(CAUSEWAY_CUDA_STAND_IN, RTLD_NOW | RTLD_LOCAL);
  size_t free = 0, total = 0;
  return reinterpret_cast<int (*)(size_t*, size_t*)>(dlsym(driver, "cuMemGetInfo_v2"))(&free, &total) == 0;
}

class NcclCommunicatorTest : public testing::Test {
 protected:
  void SetUp() override {
    nccl_ = NcclStandIn();
    nccl_.has_gpu = &thread_has_gpu;
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

// Ranks that are threads, each with a GPU: the first of each group makes its identity, and each calls for itself alone.
TEST_F(NcclCommunicatorTest, ConnectsOneRankEach) {
  run_thread_ranks(gpus({0, 1, 2, 3}), [&](const std::shared_ptr<Communicator>& ends) {
    const std::shared_ptr<Communicator> world = open_device_communicator(ends, options());
    EXPECT_EQ(world->name(), "NCCL 2.27.5");
    EXPECT_EQ(world->size(), 4);
    EXPECT_EQ(world->local_size(), 1);
    const int rank = world->first_local();
    EXPECT_EQ(world->of_first(rank + 1.5), 1.5);
    world->barrier();
    world->connect();
    world->connect();
    const std::unique_ptr<Communicator> pair = world->split(rank / 2, rank);
    pair->start_connecting();
    EXPECT_EQ(pair->size(), 2);
    EXPECT_EQ(pair->first_local(), rank % 2);
    EXPECT_EQ(pair->split(std::nullopt, 0), nullptr);
  });
  EXPECT_EQ(nccl_.identities, 3);
  std::map<int, std::set<int>> ranks;  // by identity
  for (const auto& [identity, count, rank] : nccl_.ends) {
    EXPECT_EQ(count, identity == 1 ? 4 : 2);
    ranks[identity].insert(rank);
  }
  EXPECT_THAT(ranks, ElementsAre(testing::Pair(1, ElementsAre(0, 1, 2, 3)), testing::Pair(2, ElementsAre(0, 1)),
                                 testing::Pair(3, ElementsAre(0, 1))));
  EXPECT_EQ(nccl_.aborted, 0);
}

TEST_F(NcclCommunicatorTest, EachRankCallsForItself) {
  std::vector<std::vector<NcclCall>> calls(2);
  std::vector<void*> compute(2), aside(2);
  run_thread_ranks(gpus({0, 1}), [&](const std::shared_ptr<Communicator>& ends) {
    const std::shared_ptr<Communicator> world = open_device_communicator(ends, options());
    const auto rank = static_cast<size_t>(world->first_local());
    auto& gpu = static_cast<GpuDevice&>(world->device(world->first_local()));
    world->connect();
    compute[rank] = gpu.stream();
    aside[rank] = gpu.stream(kCopyQueue);
    const void* from = from_[rank];
    void* to = to_[rank];
    for (int turn = 0; turn < 2; ++turn) {
      world->barrier();
      if (turn != world->first_local()) continue;
      nccl_.calls.clear();
      world->in_one([&] {
        world->run({CollectiveKind::kAllReduce, DType::kF32, 8}, std::span(&from, 1), std::span(&to, 1));
        world->run({CollectiveKind::kAllReduce, DType::kBF16, 4}, std::span(&from, 1), std::span(&to, 1), kCopyQueue);
      });
      world->run({CollectiveKind::kAllToAll, DType::kF32, 3}, std::span(&from, 1), std::span(&to, 1));
      calls[rank] = nccl_.calls;
    }
    world->barrier();
  });
  for (int rank = 0; rank < 2; ++rank) {
    float *from = from_[rank], *to = to_[rank];
    void* stream = compute[static_cast<size_t>(rank)];
    EXPECT_THAT(calls[static_cast<size_t>(rank)],
                ElementsAre(begin_, begin_, NcclCall{"ncclAllReduce", from, to, 8, 7, 0, rank, stream}, end_, begin_,
                            NcclCall{"ncclAllReduce", from, to, 4, 9, 0, rank, aside[static_cast<size_t>(rank)]}, end_,
                            end_, begin_,
                            // To and from rank 0, then to and from rank 1, in the order of senders.
                            NcclCall{rank == 0 ? "ncclSend" : "ncclRecv", rank == 0 ? from : nullptr,
                                     rank == 0 ? nullptr : to, 3, 7, 0, rank, stream},
                            NcclCall{rank == 0 ? "ncclRecv" : "ncclSend", rank == 0 ? nullptr : from,
                                     rank == 0 ? to : nullptr, 3, 7, 0, rank, stream},
                            NcclCall{"ncclSend", from + 3, nullptr, 3, 7, 1, rank, stream},
                            NcclCall{"ncclRecv", nullptr, to + 3, 3, 7, 1, rank, stream}, end_));
  }
}

// A mesh of one axis is one group, all ranks; of several axes the ranks never are.
TEST_F(NcclCommunicatorTest, ConnectsTheGroupsOfAMeshOnce) {
  run_thread_ranks(gpus({0, 1}), [&](const std::shared_ptr<Communicator>& ends) {
    MeshCommunicators communicators(open_device_communicator(ends, options()), {{{"dp", 2, 1, true}}});
    EXPECT_EQ(&communicators.group("dp"), &communicators.world());
  });
  EXPECT_EQ(nccl_.identities, 1);
  EXPECT_EQ(nccl_.ends.size(), 2u);
  nccl_.ends.clear();
  nccl_.identities = 0;
  run_thread_ranks(gpus({0, 1, 2, 3}), [&](const std::shared_ptr<Communicator>& ends) {
    MeshCommunicators communicators(open_device_communicator(ends, options()),
                                    {{{"fsdp", 2, 1, true}, {"dp", 2, 2, true}}});
    EXPECT_EQ(communicators.group("fsdp").size(), 2);
    EXPECT_EQ(communicators.group("dp").size(), 2);
  });
  EXPECT_EQ(nccl_.identities, 4);
  for (const auto& [identity, count, rank] : nccl_.ends) EXPECT_EQ(count, 2);
}

// Every direction of every stream has ranks of its own, so that none waits for another.
TEST_F(NcclCommunicatorTest, StreamsOfMessagesAreGroupsOfTheirOwn) {
  const Mesh mesh = {{{"dp", 2, 1, true}, {"pp", 2, 2, true, true}}};
  std::mutex mutex;
  std::map<int, std::vector<NcclCall>> calls;
  std::map<int, void*> streams;
  run_thread_ranks(gpus({0, 1, 2, 3}), [&](const std::shared_ptr<Communicator>& ends) {
    const std::shared_ptr<Communicator> world = open_device_communicator(ends, options());
    EXPECT_FALSE(world->has_streams());
    const int rank = world->first_local();
    MeshCommunicators communicators(world, mesh);
    for (int turn = 0; turn < 4; ++turn) {
      world->barrier();
      if (turn != rank) continue;
      nccl_.calls.clear();
      const bool first = rank < 2;
      const auto forward = communicators.channel(first ? 1 : 0, 0, first);
      EXPECT_EQ(forward.communicator.size(), 2);
      EXPECT_EQ(forward.communicator.first_local(), first ? 0 : 1);
      const auto backward = communicators.channel(first ? 1 : 0, 1, !first);
      EXPECT_NE(&forward.communicator, &backward.communicator);
      if (first) {
        forward.communicator.send({forward.peer, 0, 8, DType::kF32}, from_[0], send_queue(0));
      } else {
        forward.communicator.receive({forward.peer, 0, 8, DType::kF32}, to_[0], receive_queue(0));
      }
      const std::lock_guard lock(mutex);
      calls[rank] = nccl_.calls;
      auto& gpu = static_cast<GpuDevice&>(world->device(rank));
      streams[rank] = gpu.stream(first ? send_queue(0) : receive_queue(0));
    }
    world->barrier();
  });
  for (const int rank : {0, 1})
    EXPECT_THAT(calls[rank], ElementsAre(NcclCall{"ncclSend", from_[0], nullptr, 8, 7, 1, 0, streams[rank]}));
  for (const int rank : {2, 3})
    EXPECT_THAT(calls[rank], ElementsAre(NcclCall{"ncclRecv", nullptr, to_[0], 8, 7, 0, 1, streams[rank]}));
}

TEST_F(NcclCommunicatorTest, ARankThatFailsAborts) {
  EXPECT_THAT(message_of([&] {
                run_thread_ranks(gpus({0, 1}), [&](const std::shared_ptr<Communicator>& ends) {
                  const std::shared_ptr<Communicator> world = open_device_communicator(ends, options());
                  world->connect();
                  if (world->first_local() == 1) throw Error(ErrorKind::kResource, "rank 1 has had enough");
                  world->barrier();
                });
              }),
              HasSubstr("rank 1 has had enough"));
  EXPECT_EQ(nccl_.aborted, 2);
  // A library that fails in one rank, or is missing, is told in all.
  nccl_.identity_result = 2;
  EXPECT_THAT(message_of([&] {
                run_thread_ranks(gpus({0, 1}), [&](const std::shared_ptr<Communicator>& ends) {
                  open_device_communicator(ends, options())->start_connecting();
                });
              }),
              HasSubstr("NCCL could not make an identity: unhandled system error"));
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
