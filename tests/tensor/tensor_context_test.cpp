// Tensors and steps of several contexts in one process.
#include <thread>

#include "causeway/program/context.h"
#include "tests/tensor/op_check.h"

namespace causeway::tensor {
namespace {

class TwoContexts : public testing::Test {
 protected:
  const std::shared_ptr<Context> here_ = Context::current(), there_ = Context::open("emulator:gfx942");
};

TEST_F(TwoContexts, TensorsBelongToTheOneThatWasCurrent) {
  const Tensor x = vector_of({1, 2});
  std::optional<ContextScope> scope(there_);
  const Tensor y = vector_of({3, 4}), z = y + 1;
  scope.reset();
  EXPECT_EQ(x.context(), here_);
  EXPECT_EQ(y.context(), there_);
  EXPECT_EQ(z.context(), there_);
  EXPECT_EQ((x + 1).context(), here_);
  // What is pending is computed where it belongs, whatever is current.
  expect_tensor(z, {2}, {4, 5});
  expect_tensor(x + 1, {2}, {2, 3});
}

TEST_F(TwoContexts, MixingIsAnErrorThatNamesBoth) {
  const Tensor x = vector_of({1, 2});
  const ContextScope scope(there_);
  Tensor y = vector_of({3, 4});
  const std::string expected = "a tensor on cpu was used in another context, on emulator:gfx942";
  EXPECT_EQ(error_text([&] { x + y; }), expected);
  EXPECT_EQ(error_text([&] { x * 2; }), expected);
  EXPECT_EQ(error_text([&] { y.assign(x); }), expected);
  Step step([&](const std::vector<Tensor>& arguments) { return std::vector<Tensor>{arguments[0] + 1}; });
  EXPECT_EQ(error_text([&] { step({x}); }), expected);
  Step captures([&](const std::vector<Tensor>& arguments) { return std::vector<Tensor>{arguments[0] + x}; });
  EXPECT_EQ(error_text([&] { captures({y}); }), expected);
  // Nothing of it is left behind.
  expect_tensor(y + 1, {2}, {4, 5});
  expect_tensor(x, {2}, {1, 2});
}

TEST_F(TwoContexts, PendingWorkOfEachIsItsOwn) {
  Tensor x = vector_of({1, 2});
  const Tensor old = x * 10;
  x.assign(x + 1);
  {
    const ContextScope scope(there_);
    Tensor y = vector_of({5, 6});
    y.assign(y * 2);
    {
      const ContextScope back(here_);
      x.assign(x + 1);
    }
    expect_tensor(y, {2}, {10, 12});
    expect_tensor(x, {2}, {3, 4});
  }
  expect_tensor(old, {2}, {10, 20});
  const std::vector<float> written = {7, 8};
  const Tensor before = x * 1.0;
  {
    const ContextScope scope(there_);
    x.write_bytes(std::as_bytes(std::span(written)));
  }
  expect_tensor(before, {2}, {3, 4});
  expect_tensor(x, {2}, {7, 8});
}

TEST_F(TwoContexts, StepsRunInTheirOwn) {
  std::optional<ContextScope> scope(there_);
  Tensor weight = vector_of({1, 2});
  Step step([&](const std::vector<Tensor>& arguments) {
    weight.assign(weight + arguments[0]);
    return std::vector<Tensor>{weight * 2, constant_tensor(DType::kF32, {}, 9)};
  });
  const Tensor x = vector_of({10, 20});
  scope.reset();
  const std::vector<Tensor> results = step({x});
  EXPECT_EQ(results[0].context(), there_);
  expect_tensor(results[0], {2}, {22, 44});
  expect_tensor(results[1], {}, {9});
  expect_tensor(weight, {2}, {11, 22});
}

TEST_F(TwoContexts, AnotherIsEnteredWhileAStepIsTraced) {
  double elsewhere = 0;
  Step step([&](const std::vector<Tensor>& arguments) {
    const Tensor doubled = arguments[0] * 2;
    {
      const ContextScope scope(there_);
      elsewhere = sum(vector_of({1, 2, 3}) * 2).item();
    }
    return std::vector<Tensor>{doubled + 1};
  });
  expect_tensor(step({vector_of({1, 2})})[0], {2}, {3, 5});
  EXPECT_EQ(elsewhere, 12);
}

TEST_F(TwoContexts, ATensorKeepsItsOwnAlive) {
  Tensor y;
  std::weak_ptr<Context> context;
  {
    const auto passing = Context::open("cpu");
    context = passing;
    const ContextScope scope(passing);
    y = vector_of({3, 4}) * 2;
  }
  expect_tensor(y, {2}, {6, 8});
  y = Tensor();
  EXPECT_TRUE(context.expired());
}

TEST_F(TwoContexts, ThreadsComputeSideBySide) {
  const auto work = [](const std::shared_ptr<Context>& context, double start, double& result) {
    const ContextScope scope(context);
    Tensor x = vector_of({start, 1});
    for (int i = 0; i < 20; ++i) {
      x = x * 2 + 1;
      if (i % 3 == 0) x.evaluate();
    }
    result = sum(x).item();
  };
  double here = 0, there = 0;
  std::thread first(work, here_, 3.0, std::ref(here)), second(work, there_, 5.0, std::ref(there));
  first.join();
  second.join();
  EXPECT_EQ(here, (3 + 1.0) * (1 << 20) - 1 + (1 + 1.0) * (1 << 20) - 1);
  EXPECT_EQ(there, (5 + 1.0) * (1 << 20) - 1 + (1 + 1.0) * (1 << 20) - 1);
}

}  // namespace
}  // namespace causeway::tensor
