// Ranks that are threads, each with a GPU of the driver's stand-in, which read each other's memory.
#include "causeway/communicator/peer_copies.h"

#include <gtest/gtest.h>

#include <numeric>

#include "causeway/base/error.h"
#include "causeway/communicator/mesh_communicators.h"
#include "causeway/communicator/thread_ranks.h"
#include "causeway/device/cuda/cuda_device.h"
#include "tests/communicator/nccl_stand_in/nccl_stand_in.h"
#include "tests/device/gpu_stand_in_library.h"

namespace causeway::communicator {
namespace {

constexpr size_t kShared = size_t{4} << 20;
constexpr int64_t kCount = 64 << 10;  // f32, 256 KiB: just long enough

class PeerCopiesTest : public testing::Test {
 protected:
  void SetUp() override { driver_.device_count = 4; }
  void TearDown() override {
    expect_returned(driver_);
    driver_.device_count = 2;
    driver_.out_of_reach = false;
  }

  // `work` gets each rank's end, connected, on a GPU of its own.
  static void on_ranks(int count, const std::function<void(PeerCopies&, GpuDevice&, Communicator&)>& work) {
    std::vector<std::shared_ptr<Device>> devices;
    for (int number = 0; number < count; ++number)
      devices.push_back(std::make_shared<CudaDevice>(CudaOptions{number, CAUSEWAY_CUDA_STAND_IN}));
    run_thread_ranks(devices, [&](const std::shared_ptr<Communicator>& ends) {
      auto& gpu = static_cast<GpuDevice&>(ends->device(ends->first_local()));
      const std::unique_ptr<PeerCopies> peers = PeerCopies::open(gpu, *ends);
      ASSERT_NE(peers, nullptr);
      work(*peers, gpu, *ends);
      gpu.synchronize();
      ends->barrier();
    });
  }

  // What element i of the part that `sender` has for `receiver` is, in a round.
  static float element(int round, int sender, int receiver, int64_t i) {
    return static_cast<float>(round * 1000 + sender * 100 + receiver * 10 + i % 7);
  }

  StandIn& driver_ = open_stand_in(CAUSEWAY_CUDA_STAND_IN);
};

// Several rounds, whose sources are overwritten as soon as the queue has done a round.
TEST_F(PeerCopiesTest, GiveEachRankItsParts) {
  for (const int ranks : {2, 4})
    on_ranks(ranks, [&](PeerCopies& peers, GpuDevice& gpu, Communicator& ends) {
      const int rank = ends.first_local();
      const DeviceBuffer shared = gpu.allocate(kShared);
      const auto all = static_cast<size_t>(kCount * ranks);
      const DeviceBuffer gathered = gpu.allocate(all * sizeof(float)), exchanged = gpu.allocate(all * sizeof(float));
      ASSERT_TRUE(peers.share(shared.data(), kShared));
      std::byte* const to_all = shared.data() + 512;
      std::byte* const to_each = to_all + kCount * sizeof(float);
      for (int round = 0; round < 3; ++round) {
        std::vector<float> one(static_cast<size_t>(kCount)), each(all), result(all);
        for (int64_t i = 0; i < kCount; ++i) {
          one[static_cast<size_t>(i)] = element(round, rank, 9, i);
          for (int other = 0; other < ranks; ++other)
            each[static_cast<size_t>(other * kCount + i)] = element(round, rank, other, i);
        }
        gpu.copy_to_device(to_all, one.data(), one.size() * sizeof(float));
        gpu.copy_to_device(to_each, each.data(), each.size() * sizeof(float));
        const PeerCopy copies[] = {{{CollectiveKind::kAllGather, DType::kF32, kCount}, to_all, gathered.data()},
                                   {{CollectiveKind::kAllToAll, DType::kF32, kCount}, to_each, exchanged.data()}};
        for (const PeerCopy& copy : copies) ASSERT_TRUE(peers.serves(copy));
        peers.run(copies, kComputeQueue);
        gpu.copy_to_host(result.data(), gathered.data(), all * sizeof(float));
        for (int other = 0; other < ranks; ++other)
          for (int64_t i = 0; i < kCount; ++i)
            ASSERT_EQ(result[static_cast<size_t>(other * kCount + i)], element(round, other, 9, i)) << rank << other;
        gpu.copy_to_host(result.data(), exchanged.data(), all * sizeof(float));
        for (int other = 0; other < ranks; ++other)
          for (int64_t i = 0; i < kCount; ++i)
            ASSERT_EQ(result[static_cast<size_t>(other * kCount + i)], element(round, other, rank, i)) << rank << other;
      }
      // From memory that is not shared, to such that is, again and again.
      const DeviceBuffer state = gpu.allocate(kCount * sizeof(float));
      for (int round = 0; round < 3; ++round) {
        std::vector<float> one(static_cast<size_t>(kCount)), result(all);
        for (int64_t i = 0; i < kCount; ++i) one[static_cast<size_t>(i)] = element(round, rank, 8, i);
        gpu.copy_to_device(state.data(), one.data(), one.size() * sizeof(float));
        const PeerCopy through{{CollectiveKind::kAllGather, DType::kF32, kCount}, state.data(), to_all};
        ASSERT_TRUE(peers.serves(through));
        peers.run(std::span(&through, 1), kComputeQueue);
        gpu.copy_to_host(result.data(), to_all, all * sizeof(float));
        for (int other = 0; other < ranks; ++other)
          for (int64_t i = 0; i < kCount; ++i)
            ASSERT_EQ(result[static_cast<size_t>(other * kCount + i)], element(round, other, 8, i)) << rank << other;
      }
      // In place: each rank's part where the others receive it.
      std::vector<float> one(static_cast<size_t>(kCount), static_cast<float>(rank + 1)), result(all);
      std::byte* const own = to_all + static_cast<size_t>(rank * kCount) * sizeof(float);
      gpu.copy_to_device(own, one.data(), one.size() * sizeof(float));
      const PeerCopy in_place{{CollectiveKind::kAllGather, DType::kF32, kCount}, own, to_all};
      peers.run(std::span(&in_place, 1), kComputeQueue);
      gpu.copy_to_host(result.data(), to_all, all * sizeof(float));
      for (int other = 0; other < ranks; ++other)
        for (int64_t i = 0; i < kCount; ++i)
          ASSERT_EQ(result[static_cast<size_t>(other * kCount + i)], static_cast<float>(other + 1)) << rank << other;
      peers.forget();
    });
}

TEST_F(PeerCopiesTest, ServeWhatIsSharedAndLong) {
  on_ranks(2, [&](PeerCopies& peers, GpuDevice& gpu, Communicator&) {
    const DeviceBuffer shared = gpu.allocate(kShared), other = gpu.allocate(kShared), to = gpu.allocate(kShared);
    const auto serves = [&](CollectiveKind kind, const void* from, int64_t count = kCount) {
      return peers.serves({{kind, DType::kF32, count}, from, to.data()});
    };
    EXPECT_FALSE(serves(CollectiveKind::kAllGather, shared.data()));
    ASSERT_TRUE(peers.share(shared.data(), kShared));
    EXPECT_TRUE(serves(CollectiveKind::kAllGather, shared.data()));
    EXPECT_TRUE(serves(CollectiveKind::kAllToAll, shared.data()));
    EXPECT_FALSE(serves(CollectiveKind::kAllReduce, shared.data()));
    EXPECT_FALSE(serves(CollectiveKind::kReduceScatter, shared.data()));
    EXPECT_FALSE(serves(CollectiveKind::kAllGather, shared.data(), kCount - 1));
    EXPECT_FALSE(serves(CollectiveKind::kAllGather, other.data()));
    // Its end, and one part of two beyond it.
    const std::byte* const last = shared.data() + kShared - kCount * sizeof(float);
    EXPECT_TRUE(serves(CollectiveKind::kAllGather, last));
    EXPECT_FALSE(serves(CollectiveKind::kAllGather, last + 4));
    EXPECT_FALSE(serves(CollectiveKind::kAllToAll, last));
    EXPECT_FALSE(serves(CollectiveKind::kAllGather, shared.data() - 4));
    // Its own part of a result that is shared.
    const auto serves_to = [&](CollectiveKind kind, std::byte* to) {
      return peers.serves({{kind, DType::kF32, kCount}, other.data(), to});
    };
    EXPECT_TRUE(serves_to(CollectiveKind::kAllGather, shared.data()));
    EXPECT_FALSE(serves_to(CollectiveKind::kAllToAll, shared.data()));
    EXPECT_FALSE(serves_to(CollectiveKind::kAllGather, shared.data() + kShared - kCount * sizeof(float)));
    // Shared anew, the memory before no longer is.
    ASSERT_TRUE(peers.share(other.data(), kShared));
    EXPECT_TRUE(serves(CollectiveKind::kAllGather, other.data()));
    EXPECT_FALSE(serves(CollectiveKind::kAllGather, shared.data()));
    peers.forget();
    EXPECT_FALSE(serves(CollectiveKind::kAllGather, other.data()));
  });
}

TEST_F(PeerCopiesTest, AreNotHadWhereOneRankCannot) {
  on_ranks(2, [&](PeerCopies& peers, GpuDevice& gpu, Communicator& ends) {
    const DeviceBuffer shared = gpu.allocate(2 * kShared);
    // Other sizes, and less than the driver maps.
    EXPECT_FALSE(peers.share(shared.data(), ends.first_local() == 0 ? kShared : 2 * kShared));
    EXPECT_FALSE(peers.share(shared.data(), 1 << 20));
    ends.barrier();
    if (ends.first_local() == 0) driver_.out_of_reach = true;
    ends.barrier();
    EXPECT_FALSE(peers.share(shared.data(), kShared));
    EXPECT_EQ(PeerCopies::open(gpu, ends), nullptr);
  });
}

// What of one exchange is short, or no copy, goes by the library; groups made later share what was shared before.
TEST_F(PeerCopiesTest, TakePartOfACommunicatorsWork) {
  void* library = dlopen(CAUSEWAY_NCCL_STAND_IN, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
  NcclStandIn& nccl = *reinterpret_cast<NcclStandIn* (*)()>(dlsym(library, "nccl_stand_in"))();
  nccl = NcclStandIn();
  std::vector<std::shared_ptr<Device>> devices;
  for (int number = 0; number < 4; ++number)
    devices.push_back(std::make_shared<CudaDevice>(CudaOptions{number, CAUSEWAY_CUDA_STAND_IN}));
  run_thread_ranks(devices, [&](const std::shared_ptr<Communicator>& ends) {
    auto& gpu = static_cast<GpuDevice&>(ends->device(ends->first_local()));
    MeshCommunicators mesh(open_device_communicator(ends, {CAUSEWAY_NCCL_STAND_IN, true}),
                           {{{"fsdp", 2, 1, true}, {"dp", 2, 2, true}}});
    const DeviceBuffer shared = gpu.allocate(kShared), to = gpu.allocate(kShared);
    Communicator& fsdp = mesh.group("fsdp");
    EXPECT_EQ(fsdp.name(), "NCCL 2.27.5");
    mesh.share_memory(shared.data(), kShared);
    EXPECT_EQ(fsdp.name(), "NCCL 2.27.5, copies between GPUs");
    Communicator& dp = mesh.group("dp");
    EXPECT_EQ(dp.name(), "NCCL 2.27.5, copies between GPUs");
    const std::vector<float> own(static_cast<size_t>(kCount), static_cast<float>(ends->first_local()));
    gpu.copy_to_device(shared.data(), own.data(), own.size() * sizeof(float));
    const void* from = shared.data();
    void* const results = to.data();
    dp.in_one([&] {
      dp.run({CollectiveKind::kAllGather, DType::kF32, kCount}, std::span(&from, 1), std::span(&results, 1));
      dp.run({CollectiveKind::kAllGather, DType::kF32, 8}, std::span(&from, 1), std::span(&results, 1));
    });
    std::vector<float> gathered(static_cast<size_t>(2 * kCount));
    gpu.copy_to_host(gathered.data(), results, gathered.size() * sizeof(float));
    EXPECT_EQ(gathered.front(), static_cast<float>(ends->first_local() % 2));
    EXPECT_EQ(gathered.back(), static_cast<float>(ends->first_local() % 2 + 2));
    mesh.forget_memory();
    EXPECT_EQ(dp.name(), "NCCL 2.27.5");
    dp.run({CollectiveKind::kAllGather, DType::kF32, kCount}, std::span(&from, 1), std::span(&results, 1));
    ends->barrier();
  });
  // Of each rank the short one, and the one after memory was forgotten.
  const auto gathers = std::ranges::count(nccl.calls, std::string("ncclAllGather"), &NcclCall::function);
  EXPECT_EQ(gathers, 8);
  EXPECT_EQ(std::ranges::count(nccl.calls, size_t{8}, &NcclCall::count), 4);
}

}  // namespace
}  // namespace causeway::communicator
