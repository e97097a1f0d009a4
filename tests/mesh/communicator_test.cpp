#include "causeway/mesh/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "causeway/base/error.h"
#include "causeway/device/cpu/cpu_device.h"
#include "causeway/device/emulator/emulator_device.h"
#include "causeway/mesh/thread_communicator.h"

namespace causeway {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::vector<std::shared_ptr<Device>> processors(int ranks) {
  return std::vector<std::shared_ptr<Device>>(static_cast<size_t>(ranks), std::make_shared<CpuDevice>(1));
}

// Buffers of all ranks as bytes; what is sent holds numbers whose sums are rounded.
struct Exchange {
  Collective collective;
  int ranks;
  std::vector<std::vector<std::byte>> sent, received;

  Exchange(const Collective& collective, int ranks) : collective(collective), ranks(ranks) {
    std::mt19937_64 random(static_cast<uint64_t>(collective.count) * 31 + static_cast<uint64_t>(ranks));
    std::normal_distribution<double> normal;
    for (int rank = 0; rank < ranks; ++rank) {
      auto& values = sent.emplace_back(bytes_of(collective.sent(ranks)));
      for (int64_t i = 0; i < collective.sent(ranks); ++i)
        write_element(collective.dtype, values.data(), static_cast<size_t>(i), normal(random));
      received.emplace_back(bytes_of(collective.received(ranks)), std::byte{0xff});
    }
  }
  size_t bytes_of(int64_t count) const { return static_cast<size_t>(count) * size_bytes(collective.dtype); }
  double read(size_t rank, int64_t i) const {
    return read_element(collective.dtype, sent[rank].data(), static_cast<size_t>(i));
  }
  // In the order of ranks, in f32.
  double sum(int64_t i) const {
    auto total = static_cast<float>(read(0, i));
    for (size_t rank = 1; rank < sent.size(); ++rank) total += static_cast<float>(read(rank, i));
    return total;
  }
  double expected(int rank, int64_t i) const {
    const int64_t count = collective.count;
    switch (collective.kind) {
      case CollectiveKind::kAllReduce:
        return sum(i);
      case CollectiveKind::kReduceScatter:
        return sum(rank * count + i);
      case CollectiveKind::kAllGather:
        return read(static_cast<size_t>(i / count), i % count);
      case CollectiveKind::kAllToAll:
        return read(static_cast<size_t>(i / count), rank * count + i % count);
      case CollectiveKind::kBroadcast:
        return read(static_cast<size_t>(collective.root), i);
      default:
        return read(static_cast<size_t>((rank + ranks - 1) % ranks), i);
    }
  }
  // To the bit, against plain loops.
  void expect_right(const std::vector<std::vector<std::byte>>& results) const {
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<std::byte> right(received[static_cast<size_t>(rank)].size());
      for (int64_t i = 0; i < collective.received(ranks); ++i)
        write_element(collective.dtype, right.data(), static_cast<size_t>(i), expected(rank, i));
      EXPECT_EQ(std::memcmp(results[static_cast<size_t>(rank)].data(), right.data(), right.size()), 0)
          << collective_name(collective.kind) << " of " << collective.count << " " << dtype_name(collective.dtype)
          << " by " << ranks << " ranks is wrong at rank " << rank;
    }
  }
};

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
    exchange.expect_right(exchange.received);
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
    exchange.expect_right(results);
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

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
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
  EXPECT_THAT(message_of([&] { open_communicator({emulator}); }), HasSubstr("the emulator has no collectives"));
  EXPECT_THAT(message_of([&] { open_communicator({processors(1)[0], emulator}); }),
              HasSubstr("cpu and emulator:sm_90a cannot exchange data in one group"));
}

}  // namespace
}  // namespace causeway
