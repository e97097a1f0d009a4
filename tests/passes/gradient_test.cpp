#include "causeway/passes/gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "causeway/graph/op.h"
#include "causeway/passes/gradient_rules.h"
#include "tests/passes/gradient_check.h"

namespace causeway::passes {
namespace {

using Values = std::vector<Value>;

Attributes with_axes(std::vector<int64_t> axes) {
  Attributes attributes;
  attributes.axes = std::move(axes);
  return attributes;
}

// Sizes from 1 to 5, odd ones included.
std::vector<int64_t> random_shape(std::mt19937& random, size_t rank) {
  std::vector<int64_t> shape;
  for (size_t i = 0; i < rank; ++i) shape.push_back(1 + static_cast<int64_t>(random() % 5));
  return shape;
}

TEST(Gradient, Unary) {
  struct Case {
    Op op;
    double low, high;
  };
  std::mt19937 random(1);
  for (const auto& [op, low, high] :
       {Case{Op::kNeg, -2, 2}, Case{Op::kAbs, 0.1, 2}, Case{Op::kAbs, -2, -0.1}, Case{Op::kExp2, -3, 3},
        Case{Op::kLog2, 0.2, 4}, Case{Op::kSin, -4, 4}, Case{Op::kCos, -4, 4}, Case{Op::kSqrt, 0.3, 4},
        Case{Op::kRsqrt, 0.3, 4}, Case{Op::kRecip, 0.4, 3}, Case{Op::kRecip, -3, -0.4}, Case{Op::kTanh, -2, 2},
        Case{Op::kErf, -2, 2}}) {
    SCOPED_TRACE(op_name(op));
    const Op current = op;
    for (size_t rank = 0; rank < 3; ++rank)
      expect_gradients([&](const Builder& b, const Values& x) { return Values{b.graph().add(current, {x[0]})}; },
                       {checked(DType::kF32, random_shape(random, rank), 5, low, high)});
  }
}

TEST(Gradient, Binary) {
  struct Case {
    Op op;
    double low, high;
  };
  std::mt19937 random(2);
  for (const auto& [op, low, high] :
       {Case{Op::kAdd, -2, 2}, Case{Op::kSub, -2, 2}, Case{Op::kMul, -2, 2}, Case{Op::kDiv, 0.4, 2},
        Case{Op::kRem, 0.5, 5}, Case{Op::kMax, -2, 2}, Case{Op::kMin, -2, 2}, Case{Op::kPow, 0.3, 2.5}}) {
    SCOPED_TRACE(op_name(op));
    const Op current = op;
    const std::vector<int64_t> shape = random_shape(random, 2);
    expect_gradients([&](const Builder& b, const Values& x) { return Values{b.graph().add(current, {x[0], x[1]})}; },
                     {checked(DType::kF32, shape, 11, low, high), checked(DType::kF32, shape, 12, low, high)});
    // The same value twice: its contributions add up.
    if (op != Op::kRem && op != Op::kMax && op != Op::kMin)
      expect_gradients([&](const Builder& b, const Values& x) { return Values{b.graph().add(current, {x[0], x[0]})}; },
                       {checked(DType::kF32, shape, 13, low, high)});
  }
}

// The gradient of `build(x)` summed, at the given elements.
std::vector<double> gradient_at(const std::function<Value(const Builder&, Value)>& build, std::vector<double> x) {
  Graph graph;
  const auto n = static_cast<int64_t>(x.size());
  const Value input = graph.add_input("x", {DType::kF32, {n}});
  const Builder b(graph);
  const Value loss = b.reduce_sum(build(b, input), {0});
  graph.outputs = add_gradients(graph, loss, std::vector{input});
  return interpret(graph, {make_host_tensor(DType::kF32, {n}, std::move(x))})[0].values;
}

TEST(Gradient, Conventions) {
  using testing::ElementsAre;
  EXPECT_THAT(gradient_at([](const Builder& b, Value x) { return b.graph().add(Op::kAbs, {x}); }, {-2, 0, 3}),
              ElementsAre(-1, 0, 1));
  EXPECT_THAT(
      gradient_at([](const Builder& b, Value x) { return b.graph().add(Op::kMax, {x, b.zeros_like(x)}); }, {-1, 0, 2}),
      ElementsAre(0, 1, 1));
  EXPECT_THAT(
      gradient_at([](const Builder& b, Value x) { return b.graph().add(Op::kMin, {b.zeros_like(x), x}); }, {-1, 0, 2}),
      ElementsAre(1, 0, 0));
  EXPECT_THAT(
      gradient_at([](const Builder& b, Value x) { return b.reshape(b.reduce_max(x, {0}), {1}); }, {3, 1, 3, 3, 0}),
      ElementsAre(1.0 / 3, 0, 1.0 / 3, 1.0 / 3, 0));
  EXPECT_THAT(gradient_at([](const Builder& b, Value x) { return b.graph().add(Op::kFloor, {x}); }, {0.5, 1.5}),
              ElementsAre(0, 0));
  // x^0 has slope 0, also at 0; d/db of 0^b is 0.
  EXPECT_THAT(
      gradient_at([](const Builder& b, Value x) { return b.graph().add(Op::kPow, {x, b.zeros_like(x)}); }, {0, 2}),
      ElementsAre(0, 0));
  EXPECT_THAT(
      gradient_at([](const Builder& b, Value x) { return b.graph().add(Op::kPow, {b.zeros_like(x), x}); }, {1, 2}),
      ElementsAre(0, 0));
}

TEST(Gradient, SelectFmaAndCast) {
  expect_gradients(
      [](const Builder& b, const Values& x) {
        const Value wide = b.graph().add(Op::kFma, {x[0], x[1], b.cast(b.cast(x[2], DType::kBF16), DType::kF32)});
        return Values{b.select(b.less(x[0], x[1]), wide, b.mul(x[2], x[2]))};
      },
      {checked(DType::kF32, {3, 5}, 1), checked(DType::kF32, {3, 5}, 2), checked(DType::kF32, {3, 5}, 3)});
}

TEST(Gradient, Reductions) {
  std::mt19937 random(3);
  for (const std::vector<int64_t>& axes : std::vector<std::vector<int64_t>>{{0}, {1}, {2}, {0, 2}, {0, 1, 2}}) {
    for (const Op op : {Op::kReduceSum, Op::kReduceMax}) {
      SCOPED_TRACE(fmt::format("{} over {} axes", op_name(op), axes.size()));
      expect_gradients([&](const Builder& b,
                           const Values& x) { return Values{b.graph().add(op, {b.mul(x[0], x[0])}, with_axes(axes))}; },
                       {checked(DType::kF32, random_shape(random, 3), 21, 0.1, 1)});
    }
  }
  for (const int64_t axis : {0, 1})
    expect_gradients(
        [&](const Builder& b, const Values& x) {
          return Values{b.graph().add(Op::kCumsum, {b.mul(x[0], x[0])}, with_axes({axis}))};
        },
        {checked(DType::kF32, {4, 5}, 22)});
}

TEST(Gradient, Movement) {
  const auto square = [](const Builder& b, Value x) { return b.mul(x, x); };
  expect_gradients(
      [&](const Builder& b, const Values& x) {
        const Value reshaped = b.permute(b.reshape(square(b, x[0]), {5, 2, 6}), {2, 0, 1});
        return Values{b.pad(b.slice(reshaped, {1, 0, 1}, {4, 4, 2}), {2, 0, 1}, {0, 3, 1}, 7)};
      },
      {checked(DType::kF32, {3, 4, 5}, 31)});
  expect_gradients(
      [&](const Builder& b, const Values& x) {
        return Values{b.broadcast(square(b, x[0]), {2, 3, 4, 5}, {1, 2}), b.broadcast(x[1], {3, 2}, {})};
      },
      {checked(DType::kF32, {3, 1}, 32), checked(DType::kF32, {}, 33)});
  expect_gradients(
      [&](const Builder& b, const Values& x) { return Values{b.concat({square(b, x[0]), x[1], x[0]}, 1)}; },
      {checked(DType::kF32, {3, 2}, 34), checked(DType::kF32, {3, 4}, 35)});
}

TEST(Gradient, StridedSlice) {
  struct Case {
    int64_t start, limit, stride;
  };
  for (const auto& [start, limit, stride] :
       {Case{0, 7, 2}, Case{1, 7, 2}, Case{0, 6, 3}, Case{2, 6, 5}, Case{1, 1, 2}}) {
    Attributes attributes;
    attributes.start = {1, start};
    attributes.limit = {5, limit};
    attributes.strides = {3, stride};
    expect_gradients(
        [&](const Builder& b, const Values& x) {
          return Values{b.graph().add(Op::kSlice, {b.mul(x[0], x[0])}, attributes)};
        },
        {checked(DType::kF32, {5, 7}, 36)});
  }
}

TEST(Gradient, Indexing) {
  const CheckedInput indices = {{DType::kI32, {2, 3}}, make_host_tensor(DType::kI32, {2, 3}, {3, 0, 3, 1, 3, 2})};
  for (const int64_t axis : {0, 1}) {
    expect_gradients([&](const Builder& b, const Values& x) { return Values{b.gather(b.mul(x[0], x[0]), x[1], axis)}; },
                     {checked(DType::kF32, {4, 5}, 41), indices});
  }
  // Some indices lie outside: their updates are ignored, and so have no gradient.
  const CheckedInput outside = {{DType::kI64, {4}}, make_host_tensor(DType::kI64, {4}, {-1, 2, 5, 2})};
  expect_gradients(
      [&](const Builder& b, const Values& x) { return Values{b.scatter_add(x[0], x[1], b.mul(x[2], x[2]), 1)}; },
      {checked(DType::kF32, {3, 5}, 42), outside, checked(DType::kF32, {3, 4}, 43)});
  expect_gradients(
      [&](const Builder& b, const Values& x) {
        return Values{b.scatter_add(b.mul(x[0], x[0]), x[1], b.mul(x[2], x[2]), 1, true)};
      },
      {checked(DType::kF32, {3, 5}, 42), outside, checked(DType::kF32, {3, 4}, 43)});
  Attributes topk;
  topk.count = 3;
  expect_gradients(
      [&](const Builder& b, const Values& x) { return Values{b.graph().add(Op::kTopk, {b.mul(x[0], x[0])}, topk)}; },
      {checked(DType::kF32, {2, 4, 7}, 44)});
}

TEST(Gradient, DotInEveryOrientation) {
  std::mt19937 random(4);
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const bool batched : {false, true}) {
        const std::vector<int64_t> sizes = random_shape(random, 4);
        std::vector<int64_t> a = {sizes[0], sizes[1]}, b = {sizes[1], sizes[2]};
        if (transpose_a) std::swap(a[0], a[1]);
        if (transpose_b) std::swap(b[0], b[1]);
        if (batched) a.insert(a.begin(), sizes[3]), b.insert(b.begin(), sizes[3]);
        expect_gradients(
            [&](const Builder& build, const Values& x) {
              return Values{build.dot(x[0], x[1], transpose_a, transpose_b, DType::kF32)};
            },
            {checked(DType::kF32, a, 51), checked(DType::kF32, b, 52)});
      }
    }
  }
}

// With groups without rows, and rows of no group.
TEST(Gradient, GroupedDot) {
  const CheckedInput offsets = {{DType::kI32, {2, 4}}, make_host_tensor(DType::kI32, {2, 4}, {0, 0, 2, 3, 0, 3, 3, 5})};
  for (const bool transpose_b : {false, true})
    expect_gradients(
        [&](const Builder& build, const Values& x) {
          return Values{build.grouped_dot(x[0], x[1], x[2], false, transpose_b, DType::kF32)};
        },
        {checked(DType::kF32, {2, 5, 3}, 53),
         checked(DType::kF32, transpose_b ? std::vector<int64_t>{3, 4, 3} : std::vector<int64_t>{3, 3, 4}, 54),
         offsets});
  expect_gradients(
      [&](const Builder& build, const Values& x) {
        return Values{build.grouped_dot(x[0], x[1], x[2], true, false, DType::kF32)};
      },
      {checked(DType::kF32, {2, 5, 3}, 55), checked(DType::kF32, {2, 5, 4}, 56), offsets});
}

TEST(Gradient, DotOfNarrowInputsGivesNarrowGradients) {
  Graph graph;
  const Value a = graph.add_input("a", {DType::kBF16, {4, 8}}), b = graph.add_input("b", {DType::kBF16, {8, 3}});
  const Builder build(graph);
  const Value loss = build.reduce_sum(build.dot(a, b, false, false, DType::kF32), {0, 1});
  const Values gradients = add_gradients(graph, loss, std::vector{a, b});
  graph.verify("gradients");
  EXPECT_EQ(graph.type(gradients[0]).text(), "bf16[4, 8]");
  EXPECT_EQ(graph.type(gradients[1]).text(), "bf16[8, 3]");
}

TEST(Gradient, SymbolicShapes) {
  const Dim batch = Dim::symbol("B"), length = Dim::symbol("T");
  const SymbolBindings bindings = {{Dim::symbol_id("B"), 2}, {Dim::symbol_id("T"), 3}};
  const CheckedInput x = {{DType::kF32, {batch, length, 4}}, random_host_tensor(DType::kF32, {2, 3, 4}, 61)};
  expect_gradients(
      [&](const Builder& b, const Values& in) {
        const Value rows = b.reshape(in[0], {batch * length, 4});
        const Value hidden = b.reshape(b.dot(rows, in[1], false, false, DType::kF32), {batch, length, 5});
        const Value mean = b.reduce_sum(hidden, {1});
        const Value padded = b.pad(b.slice_axis(hidden, 1, 1, length), {0, 1, 0}, {0, 0, 0}, 0);
        return Values{b.sub(padded, b.broadcast(b.reshape(mean, {batch, 1, 5}), {batch, length, 5}, {0, 1, 2}))};
      },
      {x, checked(DType::kF32, {4, 5}, 62)}, bindings);
}

// `of_terms`: the loss is made of the sum and of every term, each to the second power. `z_loss`: the z-loss is added
// `z_times`.
void expect_gradients_of_linear_cross_entropy(double softcap, bool of_terms = false, double z_loss = 0,
                                              double z_times = 1, double loss_times = 1) {
  const CheckedInput targets = {{DType::kI32, {6}}, make_host_tensor(DType::kI32, {6}, {0, 4, -1, 2, 2, 3})};
  Graph graph;
  const Value x = graph.add_input("x", {DType::kF32, {6, 3}}),
              weight = graph.add_input("weight", {DType::kF32, {5, 3}});
  const Value target = graph.add_input("targets", {DType::kI32, {6}});
  const Value token_weights = graph.add_input("token_weights", {DType::kF32, {6}});
  const Builder build(graph);
  Attributes attributes;
  attributes.value = softcap;
  attributes.z_loss = z_loss;
  const Value loss = graph.add(Op::kLinearCrossEntropy, {x, weight, target, token_weights}, attributes);
  const auto times = [&](Value value, double factor) { return factor == 1 ? value : build.scale(value, factor); };
  Value sum = times(loss, loss_times);
  if (z_loss > 0) sum = build.add(sum, times({loss.node, 4}, z_times));
  Value scaled = build.scale(build.mul(sum, sum), 0.5);
  if (of_terms) {
    const Value terms = {loss.node, 3};
    scaled = build.add(scaled, build.reduce_sum(build.mul(terms, terms), {0}));
  }
  graph.outputs = add_gradients(graph, scaled, std::vector{x, weight});
  graph.outputs.push_back(scaled);
  std::vector<HostTensor> values = {random_host_tensor(DType::kF32, {6, 3}, 71),
                                    random_host_tensor(DType::kF32, {5, 3}, 72), targets.value,
                                    random_host_tensor(DType::kF32, {6}, 73, 0.1, 1)};
  const std::vector<HostTensor> result = interpret(graph, values);
  for (const size_t input : {0, 1}) {
    for (size_t e = 0; e < values[input].values.size(); ++e) {
      double& element = values[input].values[e];
      const double center = element;
      element = center + 1e-5;
      const double above = interpret(graph, values)[2].values[0];
      element = center - 1e-5;
      const double below = interpret(graph, values)[2].values[0];
      element = center;
      EXPECT_NEAR(result[input].values[e], (above - below) / 2e-5, 1e-6) << "input " << input << ", element " << e;
    }
  }
  EXPECT_THAT([&] { add_gradients(graph, scaled, std::vector{token_weights}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("has no gradient for its token weights")));
}

TEST(Gradient, LinearCrossEntropy) { expect_gradients_of_linear_cross_entropy(0); }

TEST(Gradient, LinearCrossEntropyOfCappedLogits) { expect_gradients_of_linear_cross_entropy(0.8); }

TEST(Gradient, TermsOfLinearCrossEntropy) {
  expect_gradients_of_linear_cross_entropy(0, true);
  expect_gradients_of_linear_cross_entropy(0.8, true);
}

TEST(Gradient, ZLossOfLinearCrossEntropy) {
  for (const double softcap : {0.0, 0.8}) {
    expect_gradients_of_linear_cross_entropy(softcap, false, 0.3);
    expect_gradients_of_linear_cross_entropy(softcap, true, 0.3);
    // Not in one sum, and each alone.
    expect_gradients_of_linear_cross_entropy(softcap, false, 0.3, 3, 2);
    expect_gradients_of_linear_cross_entropy(softcap, true, 0.3, 0, 1);
    expect_gradients_of_linear_cross_entropy(softcap, false, 0.3, 1, 0);
  }
}

// What is added up is differentiated by the one node that computes it.
TEST(Gradient, ALossAndItsZLossAreDifferentiatedTogether) {
  Graph graph;
  const Value x = graph.add_input("x", {DType::kF32, {6, 3}}), w = graph.add_input("w", {DType::kF32, {5, 3}}),
              t = graph.add_input("t", {DType::kI32, {6}}), m = graph.add_input("m", {DType::kF32, {6}});
  const Builder build(graph);
  Attributes attributes;
  attributes.z_loss = 1e-2;
  const Value loss = graph.add(Op::kLinearCrossEntropy, {x, w, t, m}, attributes);
  graph.outputs = add_gradients(graph, build.add(loss, {loss.node, 4}), std::vector{x, w});
  EXPECT_EQ(std::ranges::count(graph.nodes(), Op::kLinearCrossEntropy, &Node::op), 1);
}

TEST(Gradient, StopsAtIntegersComparisonsAndStoppedValues) {
  Graph graph;
  const Value x = graph.add_input("x", {DType::kF32, {3}}), unused = graph.add_input("unused", {DType::kF32, {2}});
  const Builder b(graph);
  const Value rounded = b.cast(b.cast(x, DType::kI32), DType::kF32);
  const Value stopped = b.mul(x, x);
  const Value loss = b.reduce_sum(b.add(b.mul(x, stopped), rounded), {0});
  const Values gradients = add_gradients(graph, loss, std::vector{x, unused}, std::vector{stopped});
  graph.outputs = gradients;
  const std::vector<HostTensor> result =
      interpret(graph, {make_host_tensor(DType::kF32, {3}, {1, 2, 3}), fill_host_tensor(DType::kF32, {2}, 1)});
  EXPECT_THAT(result[0].values, testing::ElementsAre(1, 4, 9));
  EXPECT_THAT(result[1].values, testing::ElementsAre(0, 0));
  EXPECT_EQ(graph.type(gradients[1]).text(), "f32[2]");
}

TEST(Gradient, OfIntermediateValues) {
  Graph graph;
  const Value x = graph.add_input("x", {DType::kF32, {2}});
  const Builder b(graph);
  const Value square = b.mul(x, x);
  const Value loss = b.reduce_sum(b.mul(square, square), {0});
  graph.outputs = add_gradients(graph, loss, std::vector{square, x, loss});
  const std::vector<HostTensor> result = interpret(graph, {make_host_tensor(DType::kF32, {2}, {1, 2})});
  EXPECT_THAT(result[0].values, testing::ElementsAre(2, 8));
  EXPECT_THAT(result[1].values, testing::ElementsAre(4, 32));
  EXPECT_THAT(result[2].values, testing::ElementsAre(1));
}

TEST(Gradient, MarksAndNamesBackwardNodes) {
  Graph graph;
  const Value x = graph.add_input("x", {DType::kF32, {2}});
  graph.set_scope("layers.3.mlp");
  const Value y = graph.add(Op::kTanh, {x});
  graph.set_scope("");
  const Value loss = graph.add(Op::kReduceSum, {y}, with_axes({0}));
  const size_t forward = graph.nodes().size();
  add_gradients(graph, loss, std::vector{x});
  bool named = false;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    EXPECT_EQ(graph.nodes()[i].backward, i >= forward) << i;
    named = named || (i >= forward && graph.nodes()[i].scope == "layers.3.mlp");
  }
  EXPECT_TRUE(named);
  EXPECT_FALSE(graph.backward());
  EXPECT_EQ(graph.scope(), "");
}

TEST(Gradient, RefusesWhatItCannotDifferentiate) {
  using testing::HasSubstr;
  using testing::ThrowsMessage;
  Graph graph;
  const Value x = graph.add_input("x", {DType::kF32, {2}}), n = graph.add_input("n", {DType::kI32, {2}});
  const Value loss = graph.add(Op::kReduceSum, {x}, with_axes({0}));
  EXPECT_THAT([&] { add_gradients(graph, x, std::vector{x}); },
              ThrowsMessage<Error>(HasSubstr("the loss is a f32[2], but gradients need a scalar float")));
  EXPECT_THAT([&] { add_gradients(graph, loss, std::vector{n}); },
              ThrowsMessage<Error>(HasSubstr("with respect to a i32[2]")));
  EXPECT_THAT([&] { add_gradients(graph, std::vector{x}, std::vector{loss}, std::vector{x}); },
              ThrowsMessage<Error>(HasSubstr("the gradient of a f32[2] was given as f32[]")));
}

}  // namespace
}  // namespace causeway::passes
