// Routing of tokens to experts against counting in plain loops, forward and backward.
#include "causeway/tensor/routing_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <utility>

#include "causeway/graph/op.h"
#include "causeway/tensor/step.h"
#include "tests/tensor/op_check.h"

namespace causeway::tensor {
namespace {

using In = const std::vector<Tensor>&;

struct Rows {
  std::vector<double> counts, offsets, row_of_slot, slot_of_row;
};

// By sorting slots, equal experts in their order.
Rows sorted_by_expert(const std::vector<double>& experts, int64_t slabs, int64_t slots, int64_t count) {
  Rows rows;
  rows.row_of_slot.resize(experts.size());
  for (int64_t p = 0; p < slabs; ++p) {
    const int64_t begin = p * slots;
    std::vector<int64_t> order(static_cast<size_t>(slots));
    std::iota(order.begin(), order.end(), begin);
    std::ranges::sort(order, {}, [&](int64_t slot) { return std::pair(experts[static_cast<size_t>(slot)], slot); });
    rows.offsets.push_back(0);
    for (int64_t e = 0; e < count; ++e) {
      const auto of_expert = std::count(experts.begin() + begin, experts.begin() + begin + slots, e);
      rows.counts.push_back(static_cast<double>(of_expert));
      rows.offsets.push_back(rows.offsets.back() + static_cast<double>(of_expert));
    }
    for (int64_t r = 0; r < slots; ++r) {
      rows.slot_of_row.push_back(static_cast<double>(order[static_cast<size_t>(r)]));
      rows.row_of_slot[static_cast<size_t>(order[static_cast<size_t>(r)])] = static_cast<double>(begin + r);
    }
  }
  return rows;
}

void expect_rows(const HostTensor& experts, int64_t count) {
  const int64_t slabs = experts.shape[0], slots = experts.shape[1] * experts.shape[2];
  const Rows expected = sorted_by_expert(experts.values, slabs, slots, count);
  const ExpertRows rows = rows_by_expert(to_tensor(experts), count);
  expect_tensor(rows.counts, {slabs, count}, expected.counts, 0);
  expect_tensor(rows.offsets, {slabs, count + 1}, expected.offsets, 0);
  expect_tensor(rows.row_of_slot, {slabs, slots}, expected.row_of_slot, 0);
  expect_tensor(rows.slot_of_row, {slabs, slots}, expected.slot_of_row, 0);
}

HostTensor drawn_experts(std::vector<int64_t> shape, int64_t count, uint64_t seed) {
  HostTensor drawn = random_host(std::move(shape), seed, 0, static_cast<double>(count));
  drawn.dtype = DType::kI32;
  for (double& value : drawn.values) value = std::min(std::floor(value), static_cast<double>(count - 1));
  return drawn;
}

// Experts without a row, all rows of one, a token that chose one expert twice, and more tokens than one block of the
// sums over tokens has.
TEST(RoutingOps, RowsLieInTheOrderOfExpertsTokensAndChoices) {
  expect_rows(host({1, 4, 2}, {2, 0, 0, 2, 3, 0, 2, 3}, DType::kI32), 5);
  expect_rows(host({2, 2, 2}, {1, 1, 0, 1, 3, 3, 3, 3}, DType::kI32), 4);
  expect_rows(host({1, 3, 1}, {0, 0, 0}, DType::kI32), 1);
  expect_rows(drawn_experts({3, 7, 3}, 6, 1), 6);
  expect_rows(drawn_experts({1, 256, 2}, 5, 2), 5);
  expect_rows(drawn_experts({2, 384, 4}, 9, 3), 9);
}

TEST(RoutingOps, ChoosesTheLikeliestAndOfEqualOnesTheFirst) {
  const HostTensor logits = host({1, 3, 4}, {0, 0, 0, 0, 1, 3, 3, 2, -1, 5, 5, 5});
  const ExpertChoice choice = choose_experts(to_tensor(logits), 2, false);
  expect_tensor(choice.experts, {1, 3, 2}, {0, 1, 1, 2, 1, 2}, 0);
  const ExpertChoice normalized = choose_experts(to_tensor(logits), 2, true);
  expect_tensor(normalized.weights, {1, 3, 2}, {0.5, 0.5, 0.5, 0.5, 0.5, 0.5});
  // Not normalized, they are probabilities among all four.
  const double all = std::exp(1) + 2 * std::exp(3) + std::exp(2);
  EXPECT_NEAR(choice.weights.values()[0], 0.25, 1e-6);
  EXPECT_NEAR(choice.weights.values()[2], std::exp(3) / all, 1e-6);
  EXPECT_THROW(choose_experts(to_tensor(logits), 5, false), Error);
}

// Through experts that multiply by 1, 2, 3, ...: a row that goes to a wrong place, or back to one, changes the sum.
TEST(RoutingOps, RowsGoThereAndBackAndSoDoGradients) {
  const HostTensor x = random_host({2, 5, 3}, 4), weights = random_host({2, 5, 2}, 5);
  const HostTensor experts = host({2, 5, 2}, {2, 0, 1, 2, 0, 3, 3, 1, 2, 3, 0, 1, 1, 2, 3, 2, 2, 0, 1, 0}, DType::kI32);
  const auto through = [&](In in) {
    const ExpertRows rows = rows_by_expert(to_tensor(experts), 4);
    const Tensor given = permute_rows(in[0], rows);
    // A row's expert, from where it came.
    const Tensor of_row = index_select(reshape(to_tensor(experts), {20}), 0, rows.slot_of_row);
    return combine_rows(given * unsqueeze(cast(of_row, DType::kF32) + 1.0, 2), in[1], rows);
  };
  std::vector<double> expected;
  for (size_t token = 0; token < 10; ++token)
    for (size_t c = 0; c < 3; ++c) {
      double sum = 0;
      for (size_t j = 0; j < 2; ++j)
        sum += weights.values[token * 2 + j] * (experts.values[token * 2 + j] + 1) * x.values[token * 3 + c];
      expected.push_back(sum);
    }
  expect_op(through, {x, weights}, {2, 5, 3}, expected);
}

// Neither direction adds up at computed positions: that would be slower, and take another order on other devices.
TEST(RoutingOps, GradientsOfRowsAreGathers) {
  TracedOp traced;
  trace_op(traced,
           [](In in) {
             const ExpertRows rows = rows_by_expert(in[1], 4);
             return sum(combine_rows(permute_rows(in[0], rows), ones({1, 6, 2}), rows));
           },
           {random_host({1, 6, 3}, 1), drawn_experts({1, 6, 2}, 4, 2)});
  Graph& graph = traced.trace.graph;
  passes::add_gradients(graph, graph.outputs[0], std::vector{traced.arguments[0]});
  for (const Node& node : graph.nodes())
    if (node.op == Op::kScatterAdd) EXPECT_EQ(node.outputs[0].dtype, DType::kI32);
}

TEST(RoutingOps, BalanceLossIsKWhereAllIsEven) {
  const Tensor even = to_tensor(host({4}, {6, 6, 6, 6})), uneven = to_tensor(host({4}, {12, 12, 0, 0}));
  const Tensor probabilities = to_tensor(host({4}, {3, 3, 3, 3})), drawn = to_tensor(host({4}, {6, 6, 0, 0}));
  EXPECT_NEAR(balance_loss(even, probabilities, 12).item(), 2, 1e-6);
  EXPECT_NEAR(balance_loss(uneven, drawn, 12).item(), 4, 1e-6);
}

}  // namespace
}  // namespace causeway::tensor
