#include "causeway/model/sequence_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/base/error.h"
#include "causeway/passes/attended_pairs.h"
#include "causeway/tensor/ops.h"
#include "tests/fixtures/op_literal.h"
#include "tests/model/model_test_support.h"

namespace causeway::model {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> positions(const SequenceOrder& order, int64_t length) {
  std::vector<int64_t> positions;
  for (int64_t place = 0; place < length; ++place) positions.push_back(order.position(place));
  return positions;
}

TEST(SequenceOrder, GivesEachRankAChunkFromTheFrontAndOneFromTheBack) {
  EXPECT_THAT(positions(SequenceOrder::balanced(8, 2), 8), ElementsAre(0, 1, 6, 7, 2, 3, 4, 5));
  EXPECT_THAT(positions(SequenceOrder::balanced(6, 3), 6), ElementsAre(0, 5, 1, 4, 2, 3));
  EXPECT_THAT(positions(SequenceOrder::balanced(3, 1), 3), ElementsAre(0, 1, 2));
  EXPECT_TRUE(SequenceOrder::balanced(3, 1).is_plain());
  EXPECT_TRUE(SequenceOrder().is_plain());
  try {
    SequenceOrder::balanced(10, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), testing::HasSubstr("10 positions are not divisible into two chunks for each of 2 ranks"));
  }
}

TEST(SequenceOrder, ComputesPositionsOnDevices) {
  for (const int64_t ranks : {1, 2, 3, 8}) {
    const SequenceOrder order = SequenceOrder::balanced(48, ranks);
    const Tensor on_device = order.position(index_tensor(DType::kI32, {48}, 0));
    EXPECT_EQ(on_device.dtype(), DType::kI32);
    const std::vector<double> computed = on_device.values();
    EXPECT_EQ(std::vector<int64_t>(computed.begin(), computed.end()), positions(order, 48)) << ranks;
  }
}

// Pairs of the first `queries` places, counted from one of them on, with all others.
double pairs(const MaskFunction& mask, int64_t length, int64_t first, int64_t queries) {
  const auto from_first = [&](const AttentionPosition& at) {
    return mask({at.batch, at.head, at.query + first, at.key});
  };
  const ModelFunction function = [&](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
    return {attention(arguments[0], arguments[1], arguments[1], {.mask = from_first})};
  };
  const Graph graph = trace_graph(function, {Tensor::uninitialized({1, queries, 1, 8}, DType::kF32),
                                             Tensor::uninitialized({1, length, 1, 8}, DType::kF32)});
  for (const Node& node : graph.nodes()) {
    if (node.op != "attention"_op) continue;
    const passes::AttendedPairs counted =
        passes::count_attended_pairs(*node.attributes.attention, 1, 1, queries, length);
    EXPECT_FALSE(counted.sampled);
    EXPECT_TRUE(counted.known());
    return counted.at_most;
  }
  ADD_FAILURE() << "no attention";
  return 0;
}

// Counted without a look at every pair, of sequences that are long.
TEST(SequenceOrder, SharesTheWorkOfACausalMaskEqually) {
  constexpr int64_t kLength = 1 << 16, kRanks = 4, kOwn = kLength / kRanks;
  const SequenceOrder order = SequenceOrder::balanced(kLength, kRanks);
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(pairs(order.of_places(causal_mask()), kLength, rank * kOwn, kOwn),
              kLength / 2.0 * (kLength + 1) / kRanks);
    EXPECT_EQ(pairs(order.of_places(sliding_window_mask(512)), kLength, rank * kOwn, kOwn),
              512.0 * kOwn - (rank == 0 ? 512 * 511 / 2 : 0));
  }
}

}  // namespace
}  // namespace causeway::model
