#include "causeway/tensor/step.h"

#include "causeway/program/non_finite_value.h"
#include "tests/fixtures/op_literal.h"
#include "tests/tensor/op_check.h"

namespace causeway::tensor {
namespace {

using Tensors = std::vector<Tensor>;
using Arguments = const std::vector<Tensor>&;

TEST(Step, TracesOncePerArgumentTypes) {
  int traced = 0;
  Step step([&](Arguments x) {
    ++traced;
    return Tensors{x[0] + x[1], x[0] * x[1]};
  });
  const Tensors first = step({vector_of({1, 2}), vector_of({3, 4})});
  expect_tensor(first[0], {2}, {4, 6});
  expect_tensor(first[1], {2}, {3, 8});
  expect_tensor(step({vector_of({5, 6}), vector_of({7, 8})})[0], {2}, {12, 14});
  EXPECT_EQ(traced, 1);
  expect_tensor(step({vector_of({1}), vector_of({1})})[0], {1}, {2});
  EXPECT_EQ(traced, 2);
  expect_tensor(step({vector_of({1, 2}), vector_of({3, 4})})[0], {2}, {4, 6});
  EXPECT_EQ(traced, 2);
  // Results of an earlier call keep their values.
  expect_tensor(first[0], {2}, {4, 6});
}

// run() keeps its results where they are, whatever else takes memory, and writes over them.
TEST(Step, RunsIntoTensorsThatItKeeps) {
  Tensor total = vector_of({0, 0});
  Step step(
      [&](Arguments x) {
        total.assign(total + sum(x[0], {0}));
        return Tensors{x[0] * 2, total};
      },
      {.symbolic = {{.argument = 0, .axis = 0, .symbol = "step_test_rows", .divisor = 1}}});
  const Tensor one = ones({1, 2}), three = full({3, 2}, 3);
  const Tensors& small = step.run({one});
  const std::byte* memory = small[0].buffer().data();
  expect_tensor(small[0], {1, 2}, {2, 2});
  expect_tensor(small[1], {2}, {1, 1});
  std::vector<Tensor> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(step({one})[0]);
    const Tensors& large = step.run({three});
    expect_tensor(large[0], {3, 2}, {6, 6, 6, 6, 6, 6});
    const Tensors& again = step.run({one});
    EXPECT_EQ(&again, &small);
    EXPECT_EQ(again[0].buffer().data(), memory);
    EXPECT_NE(others.back().buffer().data(), memory);
    const double sum = 1 + 11 * (i + 1);
    expect_tensor(again[1], {2}, {sum, sum});
  }
}

TEST(Step, SymbolicAxes) {
  int traced = 0;
  const Tensor weight = vector_of({1, 10});
  Step step(
      [&](Arguments x) {
        ++traced;
        return Tensors{x[0] * weight + unsqueeze(x[1], -1), sum(x[0])};
      },
      {.symbolic = {{.argument = 0, .axis = 0, .symbol = "step_test_N", .divisor = 2},
                    {.argument = 1, .axis = 0, .symbol = "step_test_N", .divisor = 2}}});
  for (const int64_t n : {2, 6, 4}) {
    const Tensor x = ones({n, 2}), y = arange(0, static_cast<double>(n));
    const Tensors results = step({x, y});
    std::vector<double> expected;
    for (int64_t i = 0; i < n; ++i)
      expected.insert(expected.end(), {1 + static_cast<double>(i), 10 + static_cast<double>(i)});
    expect_tensor(results[0], {n, 2}, expected);
    EXPECT_EQ(results[1].item(), static_cast<double>(2 * n));
  }
  EXPECT_EQ(traced, 1);
  EXPECT_EQ(error_text([&] { step({ones({3, 2}), ones({3})}); }),
            "axis 0 of argument 0 has size 3, which is no positive multiple of 2");
  EXPECT_EQ(error_text([&] { step({ones({4, 2}), ones({2})}); }),
            "axis 0 of argument 1 has size 2, but 'step_test_N' is 4 in another argument");
}

TEST(Step, AssignsInPlace) {
  Tensor weight = vector_of({1, 2}), count = full({}, 0, DType::kI32);
  weight.evaluate();
  count.evaluate();
  const std::byte* memory = weight.buffer().data();
  Step step([&](Arguments x) {
    const Tensor before = weight * 1.0;
    weight.assign(weight + x[0]);
    // Reads after the assignment see the new value, until the next one.
    const Tensor after = weight * 1.0;
    weight.assign(weight * 2);
    count.assign(count + 1);
    return Tensors{before, after};
  });
  Tensors results = step({vector_of({10, 20})});
  expect_tensor(results[0], {2}, {1, 2});
  expect_tensor(results[1], {2}, {11, 22});
  expect_tensor(weight, {2}, {22, 44});
  results = step({vector_of({1, 1})});
  expect_tensor(results[0], {2}, {22, 44});
  expect_tensor(weight, {2}, {46, 90});
  expect_tensor(count, {}, {2});
  EXPECT_EQ(weight.buffer().data(), memory);
}

// What was recorded eagerly before the step has the values from before it.
TEST(Step, EagerReadsComeBeforeTheUpdate) {
  Tensor weight = vector_of({1, 2});
  Step step([&](Arguments x) {
    weight.assign(weight + x[0]);
    return Tensors{};
  });
  const Tensor pending = weight * 100;
  step({vector_of({1, 1})});
  expect_tensor(pending, {2}, {100, 200});
  expect_tensor(weight, {2}, {2, 3});
}

// And the step sees what was assigned eagerly before it.
TEST(Step, SeesEagerAssignments) {
  Tensor weight = vector_of({1, 2});
  Step step([&](Arguments) { return Tensors{weight * 10}; });
  expect_tensor(step({})[0], {2}, {10, 20});
  weight.assign(weight + 1);
  expect_tensor(step({})[0], {2}, {20, 30});
  const float fresh[] = {7, 8};
  weight.write_bytes(std::as_bytes(std::span(fresh)));
  expect_tensor(step({})[0], {2}, {70, 80});
}

TEST(Step, CapturesPendingAndComputedTensors) {
  const Tensor computed = vector_of({1, 2});
  const Tensor pending = computed * 3;
  Step step([&](Arguments x) { return Tensors{x[0] + pending + computed, pending}; });
  const Tensors results = step({vector_of({0.5, 0.5})});
  expect_tensor(results[0], {2}, {4.5, 8.5});
  expect_tensor(results[1], {2}, {3, 6});
}

TEST(Step, TrainsALine) {
  Tensor slope = vector_of({0}), offset = vector_of({0});
  Step step([&](Arguments x) {
    const Tensor loss = mse_loss(x[0] * slope + offset, x[1]);
    const Tensor parameters[] = {slope, offset};
    const Tensors slopes = gradients(loss, parameters);
    slope.assign(slope - 0.1 * slopes[0]);
    offset.assign(offset - 0.1 * slopes[1]);
    return Tensors{loss};
  });
  double loss = 0;
  for (int i = 0; i < 300; ++i) loss = step({vector_of({-1, 0, 1, 2}), vector_of({-1, 1, 3, 5})})[0].item();
  EXPECT_LT(loss, 1e-6);
  EXPECT_NEAR(slope.item(), 2, 1e-3);
  EXPECT_NEAR(offset.item(), 1, 1e-3);
}

// The same value returned twice, an argument returned as it is, and gradients that are one value.
TEST(Step, ResultsThatCoincide) {
  Step step([](Arguments x) {
    const Tensor y = x[0] + x[1];
    const Tensors slopes = gradients(sum(y), x);
    return Tensors{y, y, x[0], slopes[0], slopes[1]};
  });
  const Tensors results = step({vector_of({1, 2}), vector_of({3, 4})});
  expect_tensor(results[0], {2}, {4, 6});
  expect_tensor(results[1], {2}, {4, 6});
  expect_tensor(results[2], {2}, {1, 2});
  expect_tensor(results[3], {2}, {1, 1});
  expect_tensor(results[4], {2}, {1, 1});
}

TEST(Step, GradientsStopAndMissAsAsked) {
  const Tensor x = vector_of({2}), y = vector_of({3}), unused = vector_of({1, 1});
  const Tensor wrt[] = {x, y, unused};
  const Tensors slopes = gradients(sum(x * stop_gradient(x * y) + y), wrt);
  expect_tensor(slopes[0], {1}, {6});
  expect_tensor(slopes[1], {1}, {1});
  expect_tensor(slopes[2], {2}, {0, 0});
}

TEST(Step, TracedGraphKeepsScopes) {
  Step step([](Arguments x) {
    const Scope layer("layers.0"), part("mlp");
    return Tensors{x[0] * x[0]};
  });
  const Graph& graph = step.traced_graph({TensorType{DType::kF32, {3}}});
  EXPECT_EQ(graph.nodes().back().op, "mul"_op);
  EXPECT_EQ(graph.nodes().back().scope, "layers.0.mlp");
}

TEST(Step, ValuesDoNotExistWhileTracing) {
  Tensor weight = vector_of({1}), leaked;
  Step reads([](Arguments x) { return Tensors{x[0] * x[0].item()}; });
  EXPECT_EQ(error_text([&] { reads({vector_of({1})}); }),
            "a tensor's values were asked for while its step was being traced");
  Step reads_assigned([&](Arguments x) {
    weight.assign(x[0]);
    return Tensors{x[0] * weight.item()};
  });
  EXPECT_EQ(error_text([&] { reads_assigned({vector_of({1})}); }),
            "a tensor's values were asked for while its step was being traced");
  Step leaks([&](Arguments x) {
    leaked = x[0] * 2;
    return Tensors{x[0]};
  });
  leaks({vector_of({1})});
  EXPECT_EQ(error_text([&] { leaked.values(); }), "a tensor was used after the step that it belonged to");
  EXPECT_EQ(error_text([&] { leaked + 1; }), "a tensor was used after the step that it belonged to");
  // None of that spoils what comes after.
  expect_tensor(weight + 1, {1}, {2});
}

TEST(Step, FindsTheFirstNonFiniteValue) {
  Step step([](Arguments x) {
    const Scope scope("head");
    return Tensors{sum(log(x[0]))};
  });
  EXPECT_FALSE(step.find_non_finite({vector_of({1, 2})}).has_value());
  EXPECT_TRUE(step.find_non_finite({vector_of({1, -2})}).has_value());
}

}  // namespace
}  // namespace causeway::tensor
