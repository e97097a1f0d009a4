#include "causeway/communicator/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "causeway/base/error.h"
#include "causeway/communicator/thread_communicator.h"
#include "causeway/device/cpu/cpu_device.h"
#include "causeway/device/emulator/emulator_device.h"
#include "tests/communicator/exchange.h"
#include "tests/fixtures/error_message.h"

namespace causeway::communicator {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::vector<std::shared_ptr<Device>> processors(int ranks) {
  return std::vector<std::shared_ptr<Device>>(static_cast<size_t>(ranks), std::make_shared<CpuDevice>(1));
}

// To the bit, against plain loops.
void expect_right(const Exchange& exchange, const std::vector<std::vector<std::byte>>& results) {
  const Collective& collective = exchange.collective;
  for (int rank = 0; rank < exchange.ranks; ++rank)
    EXPECT_EQ(results[static_cast<size_t>(rank)], exchange.right(rank))
        << collective_name(collective.kind) << " of " << collective.count << " " << dtype_name(collective.dtype)
        << " by " << exchange.ranks << " ranks is wrong at rank " << rank;
}

template <typename Body>
void for_every_collective(Body&& body) {
  for (const CollectiveKind kind : kAllCollectives)
    for (const DType dtype : {DType::kF32, DType::kBF16})
      for (const int ranks : {1, 2, 3, 5})
        // Fewer than ranks, no multiple of them, more than a block of the sums.
        for (const int64_t count : {1, 2, 7, 64, 5003}) body(Collective{kind, dtype, count, ranks / 2}, ranks);
}

TEST(ThreadCommunicatorTest, ComputesWhatPlainLoopsCompute) {
  for_every_collective([](const Collective& collective, int ranks) {
    const auto communicator = open_communicator(processors(ranks));
    Exchange exchange(collective, ranks);
    std::vector<const void*> from;
    std::vector<void*> to;
    for (auto& buffer : exchange.sent) from.push_back(buffer.data());
    for (auto& buffer : exchange.received) to.push_back(buffer.data());
    const auto sent = exchange.sent;
    communicator->run(collective, from, to);
    communicator->synchronize();
    EXPECT_EQ(exchange.sent, sent);
    expect_right(exchange, exchange.received);
  });
}

TEST(ThreadCommunicatorTest, ComputesInPlace) {
  for_every_collective([](const Collective& collective, int ranks) {
    if (!has_in_place(collective.kind)) return;
    const auto communicator = open_communicator(processors(ranks));
    const Exchange exchange(collective, ranks);
    std::vector<std::vector<std::byte>> whole;
    std::vector<const void*> from;
    std::vector<void*> to;
    const size_t part = exchange.bytes_of(collective.count);
    for (size_t rank = 0; rank < static_cast<size_t>(ranks); ++rank) {
      const bool gathers = collective.kind == CollectiveKind::kAllGather;
      auto& buffer = whole.emplace_back(gathers ? exchange.received[rank] : exchange.sent[rank]);
      if (gathers) std::memcpy(buffer.data() + rank * part, exchange.sent[rank].data(), part);
      from.push_back(buffer.data() + (gathers ? rank * part : 0));
      to.push_back(buffer.data() + (collective.kind == CollectiveKind::kReduceScatter ? rank * part : 0));
    }
    communicator->run(collective, from, to);
    std::vector<std::vector<std::byte>> results;
    for (size_t rank = 0; rank < to.size(); ++rank) {
      const auto* begin = static_cast<const std::byte*>(to[rank]);
      results.emplace_back(begin, begin + exchange.received[rank].size());
    }
    expect_right(exchange, results);
  });
}

TEST(ThreadCommunicatorTest, RoundsSumsToNearestEvenOnceAndKeepsNaN) {
  const auto communicator = open_communicator(processors(3));
  // 256 + 0.5 + 0.5: each addition rounded would stay 256 (bf16 has 8 bits), the sum 257 rounds to even, 256; with 1.5
  // twice, 259 rounds to even, 260.
  std::vector<std::vector<uint16_t>> values(3, std::vector<uint16_t>(4));
  const double inputs[3][4] = {{256, 256, 1, -1e38}, {0.5, 1.5, NAN, -3e38}, {0.5, 1.5, 2, 0}};
  std::vector<const void*> from;
  std::vector<void*> to;
  for (size_t rank = 0; rank < 3; ++rank) {
    for (size_t i = 0; i < 4; ++i) write_element(DType::kBF16, values[rank].data(), i, inputs[rank][i]);
    from.push_back(values[rank].data());
    to.push_back(values[rank].data());
  }
  communicator->run({CollectiveKind::kAllReduce, DType::kBF16, 4}, from, to);
  for (const auto& result : values) {
    EXPECT_EQ(read_element(DType::kBF16, result.data(), 0), 256);
    EXPECT_EQ(read_element(DType::kBF16, result.data(), 1), 260);
    EXPECT_TRUE(std::isnan(read_element(DType::kBF16, result.data(), 2)));
    EXPECT_EQ(read_element(DType::kBF16, result.data(), 3), -INFINITY);
  }
}

TEST(ThreadCommunicatorTest, TransfersGoWhereTheySay) {
  const auto communicator = open_communicator(processors(3));
  std::vector<float> first = {1, 2, 3}, third = {4, 5}, at_first(2), at_second(3);
  const Transfer transfers[] = {{0, 1, first.data(), at_second.data(), 3, DType::kF32},
                                {2, 0, third.data(), at_first.data(), 2, DType::kF32}};
  communicator->send_receive(transfers);
  EXPECT_EQ(at_second, first);
  EXPECT_EQ(at_first, third);
  communicator->send_receive({});
}

TEST(CommunicatorTest, SizesOfBuffersAreNccls) {
  const auto sizes = [](CollectiveKind kind) {
    const Collective collective{kind, DType::kF32, 10, 0};
    return std::pair(collective.sent(4), collective.received(4));
  };
  EXPECT_EQ(sizes(CollectiveKind::kAllReduce), std::pair(int64_t{10}, int64_t{10}));
  EXPECT_EQ(sizes(CollectiveKind::kAllGather), std::pair(int64_t{10}, int64_t{40}));
  EXPECT_EQ(sizes(CollectiveKind::kReduceScatter), std::pair(int64_t{40}, int64_t{10}));
  EXPECT_EQ(sizes(CollectiveKind::kAllToAll), std::pair(int64_t{40}, int64_t{40}));
  EXPECT_EQ(sizes(CollectiveKind::kBroadcast), std::pair(int64_t{10}, int64_t{10}));
  EXPECT_EQ(sizes(CollectiveKind::kSendReceive), std::pair(int64_t{10}, int64_t{10}));
}

TEST(CommunicatorTest, OneProcessDecidesAlone) {
  const auto communicator = open_communicator(processors(3));
  EXPECT_EQ(communicator->first_local(), 0);
  EXPECT_EQ(communicator->local_size(), 3);
  EXPECT_TRUE(communicator->is_local(2));
  EXPECT_FALSE(communicator->is_local(3));
  EXPECT_FALSE(communicator->spans_processes());
  EXPECT_THROW(communicator->device(3), InternalError);
  EXPECT_EQ(communicator->placement().machines, 1);
  EXPECT_EQ(communicator->placement().ranks, 3);
  communicator->barrier();
  EXPECT_EQ(communicator->of_first(2.5), 2.5);
  std::vector<double> values = {1, 2};
  communicator->total(values);
  EXPECT_THAT(values, testing::ElementsAre(1, 2));
  EXPECT_THAT(message_of([&] { communicator->together([] { throw Error(ErrorKind::kResource, "no memory"); }); }),
              HasSubstr("no memory"));
}

// Rank 1 of three processes with a rank each, whose other processes give what the test says.
class ProcessOfThree : public Communicator {
 public:
  explicit ProcessOfThree(std::vector<std::string> gathered)
      : Communicator(processors(1), 1, 3), gathered_(std::move(gathered)) {}
  std::string name() const override { return "one of three"; }
  std::vector<Transfer> transfers;

 private:
  void do_run(const Collective&, std::span<const void* const>, std::span<void* const>, DeviceQueue) override {}
  void do_send_receive(std::span<const Transfer> all, DeviceQueue) override {
    transfers.assign(all.begin(), all.end());
  }
  std::vector<std::string> do_gather(const std::string& mine) override {
    auto all = gathered_;
    all[1] = mine;
    return all;
  }

  std::vector<std::string> gathered_;
};

TEST(CommunicatorTest, ProcessesHaveTheirLocalRanksOnly) {
  const auto bytes = [](double value) { return std::string(reinterpret_cast<const char*>(&value), sizeof value); };
  ProcessOfThree process({bytes(1), "", bytes(4)});
  EXPECT_EQ(process.size(), 3);
  EXPECT_TRUE(process.spans_processes());
  EXPECT_TRUE(process.is_local(1));
  EXPECT_FALSE(process.is_local(0));
  EXPECT_THROW(process.device(0), InternalError);
  std::vector<double> values = {2};
  process.total(values);
  EXPECT_THAT(values, testing::ElementsAre(7));
  float from = 0, to = 0;
  const void* sent = &from;
  void* received = &to;
  process.run({CollectiveKind::kSendReceive, DType::kF32, 1}, std::span(&sent, 1), std::span(&received, 1));
  ASSERT_EQ(process.transfers.size(), 3u);
  EXPECT_EQ(process.transfers[0].from, nullptr);
  EXPECT_EQ(process.transfers[0].to, &to);
  EXPECT_EQ(process.transfers[1].from, &from);
  EXPECT_EQ(process.transfers[1].to, nullptr);
  EXPECT_EQ(process.transfers[2].from, nullptr);
}

TEST(CommunicatorTest, AnErrorOfAnyProcessIsThrownInAll) {
  const int kind = static_cast<int>(ErrorKind::kResource);
  ProcessOfThree process({"", "", fmt::format(R"([{}, "no memory", "rank 2", "Buy some."])", kind)});
  int runs = 0;
  try {
    process.together([&] { ++runs; });
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResource);
    EXPECT_EQ(error.message(), "no memory");
    EXPECT_EQ(error.where(), "rank 2");
    EXPECT_EQ(error.hint(), "Buy some.");
  }
  EXPECT_EQ(runs, 1);
  // The lowest rank's goes.
  EXPECT_THAT(message_of([&] { process.together([] { throw Error(ErrorKind::kIo, "mine"); }); }), HasSubstr("mine"));
}

TEST(CommunicatorTest, SaysWhatItCannotDo) {
  const auto communicator = open_communicator(processors(2));
  EXPECT_EQ(communicator->name(), "threads");
  EXPECT_EQ(communicator->size(), 2);
  std::vector<uint16_t> values(4);
  const std::vector<const void*> from(2, values.data());
  const std::vector<void*> to(2, values.data());
  EXPECT_THAT(message_of([&] { communicator->run({CollectiveKind::kAllReduce, DType::kF16, 4}, from, to); }),
              AllOf(HasSubstr("collectives do not carry f16"), HasSubstr("f32 or bf16")));
  EXPECT_THROW(communicator->run({CollectiveKind::kBroadcast, DType::kF32, 1, 2}, from, to), InternalError);
  EXPECT_THROW(communicator->run({CollectiveKind::kAllReduce, DType::kF32, 1}, {}, to), InternalError);

  const auto emulator = std::make_shared<EmulatorDevice>("sm_90a");
  EXPECT_EQ(open_communicator({emulator, emulator})->name(), "threads");
  EXPECT_THAT(message_of([&] { open_communicator({processors(1)[0], emulator}); }),
              HasSubstr("cpu and emulator:sm_90a cannot exchange data in one group"));
}

}  // namespace
}  // namespace causeway::communicator
