// A kernel of the user's as an op: values, gradient, and what is said when it is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "causeway/base/error.h"
#include "causeway/tensor/ops.h"
#include "causeway/tensor/step.h"
#include "causeway/tensor/user_kernel_op.h"
#include "tests/tensor/op_check.h"

namespace causeway::tensor {
namespace {

using testing::HasSubstr;

// Each row divided by its root mean square.
constexpr char kRowNorm[] = R"(
void row_norm(const Block& block, const float* x, float* y, float* scale, int64_t columns) {
  const float* row = x + block.task * columns;
  float squares = 0;
  for (int64_t i = block.thread; i < columns; i += block.threads) squares += row[i] * row[i];
  const float factor = 1.0f / __builtin_sqrtf(block.sum(squares) / columns);
  if (block.thread == 0) scale[block.task] = factor;
  for (int64_t i = block.thread; i < columns; i += block.threads) y[block.task * columns + i] = row[i] * factor;
})";

UserKernel row_norm(int64_t rows, int64_t columns) {
  UserKernel kernel;
  kernel.name = "row_norm";
  kernel.source = kRowNorm;
  kernel.outputs = {{DType::kF32, {rows, columns}}, {DType::kF32, {rows}}};
  kernel.sizes = {columns};
  kernel.tasks = rows;
  kernel.gradient = [](std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                       std::span<const Tensor> output_gradients) {
    const Tensor &y = outputs[0], &dy = output_gradients[0];
    return std::vector<Tensor>{(dy - y * mean(dy * y, {-1}, true)) * unsqueeze(outputs[1], -1)};
  };
  return kernel;
}

TEST(UserKernel, ComputesAndDifferentiatesAsTheComposedOps) {
  const Tensor x = randn({5, 37}, random_key(3));
  const Tensor weight = randn({5, 37}, random_key(4));
  const Tensor by_kernel = user_kernel(row_norm(5, 37), std::vector{x})[0];
  const Tensor composed = x * rsqrt(mean(square(x), {-1}, true));
  // All recorded before any value is read: what has been computed has no gradient any more.
  const Tensor of_kernel = gradients(sum(by_kernel * weight), std::vector{x})[0];
  const Tensor of_composed = gradients(sum(composed * weight), std::vector{x})[0];
  const std::vector<double> kernel_gradient = of_kernel.values(), composed_gradient = of_composed.values();
  const std::vector<double> values = by_kernel.values(), expected = composed.values();
  expect_close(values, expected, 1e-6, "values");
  expect_close(kernel_gradient, composed_gradient, 2e-6, "gradient");
}

TEST(UserKernel, SharesMemoryWithinABlock) {
  UserKernel kernel;
  kernel.name = "reverse";
  kernel.source = R"(
void reverse(const Block& block, const int32_t* x, int32_t* y) {
  int32_t* kept = block.shared<int32_t>();
  for (int i = block.thread; i < 100; i += block.threads) kept[i] = x[i];
  block.barrier();
  for (int i = block.thread; i < 100; i += block.threads) y[i] = kept[99 - i];
})";
  kernel.outputs = {{DType::kI32, {100}}};
  kernel.shared_bytes = 400;
  const std::vector<double> values = user_kernel(kernel, std::vector{cast(arange(100), DType::kI32)})[0].values();
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(values[i], 99 - static_cast<double>(i));
}

TEST(UserKernel, RunsInsideAStep) {
  Step step([](const std::vector<Tensor>& arguments) {
    const Tensor y = user_kernel(row_norm(4, 16), arguments)[0];
    return std::vector<Tensor>{sum(square(y))};
  });
  EXPECT_NEAR(step({randn({4, 16}, random_key(1))})[0].item(), 64, 1e-3);
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(UserKernel, SaysWhereTheTextIsWrong) {
  UserKernel kernel = row_norm(1, 4);
  kernel.source =
      "\nvoid row_norm(const Block& block, const float* x, float* y, float* scale, int64_t columns) {\n"
      "  y[0] = undeclared;\n}";
  const std::string message = message_of([&] { user_kernel(kernel, std::vector{zeros({1, 4})})[0].values(); });
  EXPECT_THAT(message, HasSubstr("row_norm:3:"));
  EXPECT_THAT(message, HasSubstr("undeclared"));
}

TEST(UserKernel, RefusesWrongSpecifications) {
  UserKernel kernel = row_norm(1, 4);
  kernel.threads = 100;
  EXPECT_THAT(message_of([&] { user_kernel(kernel, std::vector{zeros({1, 4})}); }), HasSubstr("multiple of 64"));
  kernel = row_norm(1, 4);
  kernel.name = "row norm";
  EXPECT_THAT(message_of([&] { user_kernel(kernel, std::vector{zeros({1, 4})}); }), HasSubstr("C++ function"));
  kernel = row_norm(1, 4);
  kernel.gradient = nullptr;
  EXPECT_THAT(message_of([&] {
                const Tensor x = zeros({1, 4});
                gradients(sum(user_kernel(kernel, std::vector{x})[0]), std::vector{x});
              }),
              HasSubstr("without a gradient"));
}

}  // namespace
}  // namespace causeway::tensor
