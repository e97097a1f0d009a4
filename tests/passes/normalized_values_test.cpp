#include "causeway/passes/normalized_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "causeway/graph/rewrite.h"
#include "causeway/passes/builder.h"
#include "causeway/passes/canonicalize.h"
#include "causeway/passes/eliminate_common_subexpressions.h"
#include "causeway/passes/gradient.h"
#include "causeway/passes/mixed_precision.h"
#include "tests/fixtures/op_literal.h"
#include "tests/passes/same_values.h"

namespace causeway::passes {
namespace {

constexpr int64_t kSequences = 2, kLength = 5, kWidth = 16, kOut = 24;

struct NormCase {
  bool subtracts_mean = true, weight = true, bias = true;
  bool summed = true;             // a bias follows the GEMM, whose gradient is the sum of the GEMM's
  bool weight_is_in_out = true;   // [in, out], otherwise [out, in]
  bool narrow_input = false;      // x was cast from 16 bits
  bool multiplied_again = false;  // something else that has a gradient multiplies x
  bool compared = false;          // and something compares it, as the gradient of its maximum does
};

// x is a sum, of which the next layer takes the sum with what two layers compute of its norm.
class NormModel {
 public:
  explicit NormModel(const NormCase& c) : c_(c), build_(graph) {
    Value x = build_.add(input("x", {kSequences, kLength, kWidth}, -2, 3), input("y", {kSequences, kLength, kWidth}));
    wanted_.assign(2, {});
    for (size_t i = 0; i < 2; ++i) wanted_[i] = graph.inputs()[i];
    if (c.narrow_input) x = build_.cast(build_.cast(x, DType::kBF16), DType::kF32);
    graph.set_scope("layers.0");
    const Value result = norm(x);
    const Value rows = build_.reshape(result, {Dim(kSequences * kLength), Dim(kWidth)});
    Value sum;
    for (const char* name : {"first", "second"}) {
      Value out = linear(rows, name);
      if (c.summed)
        out = build_.add(out, build_.broadcast(parameter(std::string(name) + ".bias", {kOut}), build_.shape(out), {1}));
      out = build_.mul(out, out);
      sum = sum.valid() ? build_.add(sum, out) : out;
    }
    Value loss = build_.scale(build_.reduce_sum(sum, {0, 1}), 1.0 / 64);
    if (c.multiplied_again) loss = build_.add(loss, build_.reduce_sum(build_.mul(x, wanted_[0]), {0, 1, 2}));
    if (c.compared) loss = build_.add(loss, build_.reduce_max(x, {0, 1, 2}));
    graph.set_scope("");
    graph.set_backward(true);
    const std::vector<Value> gradients = add_gradients(graph, loss, wanted_);
    graph.outputs = {loss};
    graph.outputs.insert(graph.outputs.end(), gradients.begin(), gradients.end());
    graph = eliminate_common_subexpressions(canonicalize(mixed_precision(graph, {DType::kBF16, DType::kF32})));
  }

  Graph graph;
  std::vector<HostTensor> inputs;

 private:
  Value input(const std::string& name, std::vector<int64_t> shape, double low = -1, double high = 1) {
    inputs.push_back(random_host_tensor(DType::kF32, shape, 7 + inputs.size(), low, high));
    return graph.add_input(name, {DType::kF32, Shape(shape.begin(), shape.end())});
  }
  Value parameter(const std::string& name, std::vector<int64_t> shape) {
    wanted_.push_back(input(name, std::move(shape)));
    return wanted_.back();
  }

  Value over_rows(Value of_rows, Value like) {
    return build_.broadcast(build_.reshape(of_rows, {Dim(kSequences), Dim(kLength), Dim(1)}), build_.shape(like),
                            {0, 1, 2});
  }
  Value mean(Value x) { return build_.scale(build_.reduce_sum(x, {2}), 1.0 / kWidth); }

  Value norm(Value x) {
    const Value centered = c_.subtracts_mean ? build_.sub(x, over_rows(mean(x), x)) : x;
    const Value variance =
        build_.reshape(mean(build_.mul(centered, centered)), {Dim(kSequences), Dim(kLength), Dim(1)});
    const Value deviation = graph.add("rsqrt"_op, {build_.add(variance, build_.constant_like(variance, 1e-5))});
    Value result = build_.mul(centered, build_.broadcast(deviation, build_.shape(x), {0, 1, 2}));
    if (c_.weight)
      result = build_.mul(result, build_.broadcast(parameter("norm.weight", {kWidth}), build_.shape(x), {2}));
    if (c_.bias) result = build_.add(result, build_.broadcast(parameter("norm.bias", {kWidth}), build_.shape(x), {2}));
    return result;
  }

  Value linear(Value rows, const std::string& name) {
    const std::vector<int64_t> shape = c_.weight_is_in_out ? std::vector{kWidth, kOut} : std::vector{kOut, kWidth};
    return build_.dot(rows, parameter(name, shape), false, !c_.weight_is_in_out, DType::kF32);
  }

  const NormCase c_;
  const Builder build_;
  std::vector<Value> wanted_;
};

// Bytes of forward results with an element for each of a norm's that backward nodes read.
std::multiset<std::string> kept(const Graph& graph) {
  std::set<Value> read;
  const std::vector<bool> needed = needed_nodes(graph);
  for (size_t i = 0; i < graph.nodes().size(); ++i)
    if (needed[i] && graph.nodes()[i].backward)
      for (const Value input : graph.nodes()[i].inputs) {
        // Through what takes no memory.
        Value value = input;
        while (graph.node(value).op == "reshape"_op) value = graph.node(value).inputs[0];
        if (!graph.node(value).backward && graph.node(value).op != "input"_op && graph.node(value).op != "broadcast"_op)
          read.insert(value);
      }
  std::multiset<std::string> types;
  for (const Value value : read)
    if (graph.shape(value) == Shape{Dim(kSequences), Dim(kLength), Dim(kWidth)})
      types.insert(std::string(dtype_name(graph.dtype(value))));
  return types;
}

using Kept = std::multiset<std::string>;

// How many sums over rows of the backward pass wait for another one of them.
int waiting_sums(const Graph& graph) {
  std::vector<bool> after(graph.nodes().size());
  int count = 0;
  for (size_t i = 0; i < after.size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (!node.backward) continue;
    for (const Value input : node.inputs) after[i] = after[i] || after[static_cast<size_t>(input.node)];
    if (node.op != "reduce_sum"_op || node.attributes.axes != std::vector<int64_t>{2}) continue;
    count += after[i] ? 1 : 0;
    after[i] = true;
  }
  return count;
}

// With casts that do not round both are the same sums in another order.
void expect_same_gradients(const NormModel& model, const Graph& after) {
  after.verify("normalized_values");
  expect_same_values(model.graph, after, model.inputs, {}, bounds::kInterpreted);
}

TEST(NormalizedValues, GradientsAreTheSameAndNeedNothingElse) {
  for (const bool subtracts_mean : {true, false})
    for (const bool weight : {true, false})
      for (const bool bias : {true, false})
        for (const bool weight_is_in_out : {true, false}) {
          const NormModel model(
              {.subtracts_mean = subtracts_mean, .weight = weight, .bias = bias, .weight_is_in_out = weight_is_in_out});
          SCOPED_TRACE(
              fmt::format("mean {}, weight {}, bias {}, [in, out] {}", subtracts_mean, weight, bias, weight_is_in_out));
          EXPECT_TRUE(kept(model.graph).contains("f32"));
          const Graph after = normalized_values(model.graph);
          expect_same_gradients(model, after);
          EXPECT_EQ(kept(after), (Kept{"bf16"}));
          EXPECT_EQ(waiting_sums(model.graph), subtracts_mean ? 1 : 0);
          EXPECT_EQ(waiting_sums(after), 0);
          for (const Node& node : after.nodes()) EXPECT_TRUE(node.scope.empty() || node.scope == "layers.0");
        }
}

TEST(NormalizedValues, OfAGemmWhoseGradientNobodySumsUpTheResultIsKeptToo) {
  const NormModel model({.summed = false});
  const Graph after = normalized_values(model.graph);
  expect_same_gradients(model, after);
  EXPECT_EQ(kept(after), (Kept{"bf16", "bf16"}));
  // Without a bias no sum is asked for.
  const NormModel without({.bias = false, .summed = false});
  EXPECT_EQ(kept(normalized_values(without.graph)), (Kept{"bf16"}));
}

TEST(NormalizedValues, AnInputOf16BitsStays) {
  const NormModel model({.narrow_input = true});
  EXPECT_EQ(print_graph(normalized_values(model.graph)), print_graph(rebuild_graph(model.graph, copy_node)));
}

// Its gradient would be of a rounded x.
TEST(NormalizedValues, WhatSomethingElseReadsStays) {
  for (const bool compared : {false, true}) {
    const NormModel model({.subtracts_mean = false, .multiplied_again = !compared, .compared = compared});
    EXPECT_EQ(print_graph(normalized_values(model.graph)), print_graph(rebuild_graph(model.graph, copy_node)));
  }
}

// Rounded for real: gradients change by about half of the last of 8 bits, and do not vanish.
TEST(NormalizedValues, RoundsGradientsAlone) {
  const NormModel model({});
  const Graph after = normalized_values(model.graph);
  const std::vector<HostTensor> exact = interpret(model.graph, model.inputs, {}, Rounding::kRounded),
                                rounded = interpret(after, model.inputs, {}, Rounding::kRounded);
  EXPECT_EQ(exact[0].values, rounded[0].values);
  for (size_t i = 1; i < exact.size(); ++i) {
    double size = 0, difference = 0;
    for (size_t j = 0; j < exact[i].values.size(); ++j) {
      size += exact[i].values[j] * exact[i].values[j];
      difference += std::pow(exact[i].values[j] - rounded[i].values[j], 2);
    }
    EXPECT_GT(size, 0);
    EXPECT_LE(std::sqrt(difference), std::sqrt(size) / 128) << "gradient " << i;
  }
}

}  // namespace
}  // namespace causeway::passes
