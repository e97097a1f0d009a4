#include "causeway/passes/interval_arithmetic.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "causeway/graph/interpreter.h"
#include "causeway/graph/op.h"
#include "tests/passes/attention_specs.h"

namespace causeway::passes {
namespace {

struct Case {
  Op op;
  DType dtype;
};

// The graph of one op on scalars, and its node.
Graph graph_of(const Case& c, size_t arity) {
  Graph graph;
  std::vector<Value> inputs;
  for (size_t k = 0; k < arity; ++k) {
    const bool condition = c.op == Op::kSelect && k == 0;
    inputs.push_back(graph.add_input(fmt::format("x{}", k), {condition ? DType::kBool : c.dtype, {}}));
  }
  Attributes attributes;
  if (c.op == Op::kCast) attributes.dtype = c.dtype == DType::kF32 ? DType::kI32 : DType::kF32;
  graph.outputs = {graph.add(c.op, inputs, attributes)};
  return graph;
}

void for_each_index(const std::vector<std::vector<double>>& grid,
                    const std::function<void(const std::vector<size_t>&)>& visit) {
  std::vector<size_t> at(grid.size(), 0);
  for (bool more = true; more;) {
    visit(at);
    more = false;
    for (size_t k = 0; k < grid.size() && !more; ++k) {
      more = ++at[k] < grid[k].size();
      if (!more) at[k] = 0;
    }
  }
}

// Every result over a grid of inputs lies within the bound of every box that holds the inputs.
TEST(IntervalArithmetic, HoldsEveryResult) {
  const std::vector<Case> cases = {
      {Op::kNeg, DType::kI32},  {Op::kAbs, DType::kI32},  {Op::kAbs, DType::kF32},  {Op::kFloor, DType::kF32},
      {Op::kCast, DType::kF32}, {Op::kCast, DType::kI32}, {Op::kAdd, DType::kI32},  {Op::kSub, DType::kI32},
      {Op::kMul, DType::kI32},  {Op::kMul, DType::kF32},  {Op::kDiv, DType::kI32},  {Op::kDiv, DType::kF32},
      {Op::kRem, DType::kI32},  {Op::kRem, DType::kF32},  {Op::kMax, DType::kI32},  {Op::kMin, DType::kF32},
      {Op::kAnd, DType::kI32},  {Op::kOr, DType::kI32},   {Op::kXor, DType::kI32},  {Op::kShr, DType::kI32},
      {Op::kLt, DType::kI32},   {Op::kLe, DType::kF32},   {Op::kEq, DType::kI32},   {Op::kSelect, DType::kI32},
      {Op::kAnd, DType::kBool}, {Op::kOr, DType::kBool},  {Op::kXor, DType::kBool}, {Op::kEq, DType::kBool},
      {Op::kSqrt, DType::kF32}, {Op::kFma, DType::kF32},  {Op::kPow, DType::kF32},  {Op::kExp2, DType::kF32},
      {Op::kSub, DType::kU8},   {Op::kAdd, DType::kU8},   {Op::kNeg, DType::kU8},
  };
  for (const Case& c : cases) {
    const auto arity = static_cast<size_t>(op_info(c.op).arity);
    const Graph graph = graph_of(c, arity);
    const Node& node = graph.node(graph.outputs[0]);
    std::vector<DType> types;
    for (const Value input : node.inputs) types.push_back(graph.dtype(input));
    const auto values_of = [](DType dtype) {
      if (dtype == DType::kBool) return std::vector<double>{0, 1};
      if (dtype == DType::kU8) return std::vector<double>{0, 1, 3, 128, 255};
      if (is_float(dtype)) return std::vector<double>{-7.5, -2, -0.25, 0, 0.5, 3};
      return std::vector<double>{-2147483648.0, -7, -3, 0, 1, 3, 8, 2147483647.0};
    };
    std::vector<std::vector<double>> grid;
    for (const DType type : types) grid.push_back(values_of(type));
    std::map<std::vector<size_t>, double> results;
    for_each_index(grid, [&](const std::vector<size_t>& at) {
      std::vector<HostTensor> inputs;
      for (size_t k = 0; k < arity; ++k) inputs.push_back(make_host_tensor(types[k], {}, {grid[k][at[k]]}));
      results[at] = interpret(graph, inputs)[0].values[0];
    });
    // Intervals from one value of the grid to another.
    for_each_index(grid, [&](const std::vector<size_t>& low) {
      for_each_index(grid, [&](const std::vector<size_t>& high) {
        std::vector<Bounds> inputs;
        for (size_t k = 0; k < arity; ++k) {
          if (low[k] > high[k]) return;
          inputs.push_back({grid[k][low[k]], grid[k][high[k]]});
        }
        const Bounds bound = bound_elementwise(node, inputs, types);
        for (const auto& [at, result] : results) {
          bool within = true;
          for (size_t k = 0; k < arity; ++k) within = within && low[k] <= at[k] && at[k] <= high[k];
          if (!within) continue;
          const bool held = std::isnan(result) ? !is_finite(bound) : bound.low <= result && result <= bound.high;
          ASSERT_TRUE(held) << op_name(c.op) << " " << dtype_name(c.dtype) << ": " << result << " is not between "
                            << bound.low << " and " << bound.high;
        }
      });
    });
  }
}

TEST(IntervalArithmetic, IsTightWhereMasksNeedIt) {
  const auto bound = [](Op op, DType dtype, const std::vector<Bounds>& inputs) {
    const Graph graph = graph_of({op, dtype}, inputs.size());
    std::vector<DType> types;
    for (const Value input : graph.node(graph.outputs[0]).inputs) types.push_back(graph.dtype(input));
    const Bounds found = bound_elementwise(graph.node(graph.outputs[0]), inputs, types);
    return std::pair(found.low, found.high);
  };
  using Ends = std::pair<double, double>;
  EXPECT_EQ(bound(Op::kLe, DType::kI32, {{0, 7}, {7, 9}}), Ends(1, 1));
  EXPECT_EQ(bound(Op::kLe, DType::kI32, {{8, 9}, {0, 7}}), Ends(0, 0));
  EXPECT_EQ(bound(Op::kLt, DType::kI32, {{0, 7}, {7, 9}}), Ends(0, 1));
  EXPECT_EQ(bound(Op::kSub, DType::kI32, {{8, 15}, {0, 7}}), Ends(1, 15));
  EXPECT_EQ(bound(Op::kRem, DType::kI32, {{16, 23}, {8, 8}}), Ends(0, 7));
  EXPECT_EQ(bound(Op::kRem, DType::kI32, {{17, 19}, {8, 8}}), Ends(1, 3));
  EXPECT_EQ(bound(Op::kRem, DType::kI32, {{-3, 3}, {2, 2}}), Ends(-1, 1));
  EXPECT_EQ(bound(Op::kDiv, DType::kI32, {{16, 23}, {8, 8}}), Ends(2, 2));
  EXPECT_EQ(bound(Op::kAbs, DType::kI32, {{-3, 2}}), Ends(0, 3));
  // What might wrap around can be anything.
  EXPECT_EQ(bound(Op::kAdd, DType::kI32, {{2147483647.0, 2147483647.0}, {0, 1}}), Ends(-2147483648.0, 2147483647.0));
  // A float that might be NaN compares either way.
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(bound(Op::kLe, DType::kF32, {{-infinity, infinity}, {0, 0}}), Ends(0, 1));
}

}  // namespace
}  // namespace causeway::passes
