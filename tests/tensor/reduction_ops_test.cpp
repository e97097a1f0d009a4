#include <algorithm>

#include "tests/tensor/op_check.h"

namespace causeway::tensor {
namespace {

using List = std::vector<double>;

OpFunction one(std::function<Tensor(const Tensor&)> function) {
  return [function = std::move(function)](const std::vector<Tensor>& x) { return function(x[0]); };
}

TEST(ReductionOps, SumAndMean) {
  const HostTensor x = host({2, 3}, {1, 2, 3, 4, 5, 7});
  expect_op(one([](const Tensor& t) { return sum(t); }), {x}, {}, {22});
  expect_op(one([](const Tensor& t) { return sum(t, 0); }), {x}, {3}, {5, 7, 10});
  expect_op(one([](const Tensor& t) { return sum(t, -1, true); }), {x}, {2, 1}, {6, 16});
  expect_op(one([](const Tensor& t) { return sum(t, {0, 1}, true); }), {x}, {1, 1}, {22});
  expect_op(one([](const Tensor& t) { return mean(t); }), {x}, {}, {22.0 / 6});
  expect_op(one([](const Tensor& t) { return mean(t, {1}); }), {x}, {2}, {2, 16.0 / 3});
  expect_tensor(sum(Tensor::from_values({5}, {})), {}, {5});
  const Tensor integers = vector_of({2147483647, 5}, DType::kI32);
  EXPECT_EQ(sum(integers).dtype(), DType::kI64);
  EXPECT_EQ(sum(integers).item(), 2147483652.0);
  EXPECT_EQ(sum(vector_of({1, 0, 1}, DType::kBool)).item(), 2);
  EXPECT_EQ(mean(integers).dtype(), DType::kF32);
}

TEST(ReductionOps, Products) {
  const HostTensor x = host({2, 5}, {1, 2, 3, -4, 5, 0.5, 2, 0, 3, 7});
  expect_op(one([](const Tensor& t) { return prod(t, 1); }), {x}, {2}, {-120, 0});
  expect_op(one([](const Tensor& t) { return prod(t); }), {x}, {}, {0});
  expect_op(one([](const Tensor& t) { return prod(t, 0, true); }), {x}, {1, 5}, {0.5, 4, 0, -12, 35});
  EXPECT_EQ(prod(vector_of({100000, 100000, 3}, DType::kI32)).item(), 3e10);
  EXPECT_EQ(prod(zeros({0})).item(), 1);
}

TEST(ReductionOps, Spread) {
  const HostTensor x = host({2, 4}, {1, 2, 3, 6, 1000001, 1000002, 1000003, 1000006});
  expect_op(one([](const Tensor& t) { return var(t, 1); }), {x}, {2}, {14.0 / 3, 14.0 / 3}, {1e-9, 1e-6, false});
  expect_op(one([](const Tensor& t) { return var(t, 1, 0, true); }), {x}, {2, 1}, {3.5, 3.5}, {1e-9, 1e-6, false});
  const HostTensor y = random_host({2, 4}, 3);
  double total = 0, squares = 0;
  for (const double value : y.values) total += value;
  for (const double value : y.values) squares += (value - total / 8) * (value - total / 8);
  expect_op(one([](const Tensor& t) { return std(t); }), {y}, {}, {std::sqrt(squares / 7)});
  expect_op(one([](const Tensor& t) { return var(t, {0, 1}, 0); }), {y}, {}, {squares / 8});
}

TEST(ReductionOps, Extremes) {
  const HostTensor x = host({2, 3}, {3, -1, 2, -5, 4, -9});
  expect_op(one([](const Tensor& t) { return amax(t, 1); }), {x}, {2}, {3, 4});
  expect_op(one([](const Tensor& t) { return amin(t, 0, true); }), {x}, {1, 3}, {-5, -1, -9});
  expect_tensor(argmax(to_tensor(x), 1), {2}, {0, 1});
  expect_tensor(argmax(to_tensor(x)), {}, {4});
  expect_tensor(argmin(to_tensor(x), 0, true), {1, 3}, {1, 0, 1});
  expect_tensor(argmax(vector_of({1, 3, 3})), {}, {1});
  const Tensor smallest = vector_of({5, -2147483648.0, 7}, DType::kI32);
  expect_tensor(amin(smallest), {}, {-2147483648.0});
  expect_tensor(argmin(smallest), {}, {1});
  expect_tensor(amin(vector_of({5, 3, 200}, DType::kU8)), {}, {3});
  expect_tensor(argmin(vector_of({5, 0, 200}, DType::kU8)), {}, {1});
  expect_tensor(amax(vector_of({1, kNan, 7})), {}, {kNan});
  // Ties share the gradient.
  const Tensor tied = vector_of({2, 1, 2});
  expect_close(gradients(amax(tied), std::span(&tied, 1))[0].values(), {0.5, 0, 0.5}, 0, "gradient");
}

TEST(ReductionOps, AnyAndAll) {
  const Tensor x = Tensor::from_values({1, 0, 1, 1}, {2, 2}, DType::kBool);
  expect_tensor(any(x, 1), {2}, {1, 1});
  expect_tensor(all(x, 1), {2}, {0, 1});
  expect_tensor(any(x), {}, {1});
  expect_tensor(all(vector_of({0.5, -3})), {}, {1});
  expect_tensor(any(vector_of({0, 0}), 0, true), {1}, {0});
  EXPECT_EQ(any(x).dtype(), DType::kBool);
}

TEST(ReductionOps, Norms) {
  const HostTensor x = host({2, 2}, {3, -4, 1, 2});
  expect_op(one([](const Tensor& t) { return norm(t, 2, 1); }), {x}, {2}, {5, std::sqrt(5.0)});
  expect_op(one([](const Tensor& t) { return norm(t); }), {x}, {}, {std::sqrt(30.0)});
  expect_op(one([](const Tensor& t) { return norm(t, 1, 1, true); }), {x}, {2, 1}, {7, 3});
  expect_op(one([](const Tensor& t) { return norm(t, kInf, 0); }), {x}, {2}, {3, 4});
  expect_op(one([](const Tensor& t) { return norm(t, 3); }), {x}, {}, {std::cbrt(27.0 + 64 + 1 + 8)});
  const Tensor zero = zeros({2});
  expect_close(gradients(norm(zero), std::span(&zero, 1))[0].values(), {0, 0}, 0, "gradient at 0");
}

List softmax_of(const List& x) {
  const double largest = *std::max_element(x.begin(), x.end());
  double total = 0;
  List result;
  for (const double value : x) total += std::exp(value - largest);
  for (const double value : x) result.push_back(std::exp(value - largest) / total);
  return result;
}

TEST(ReductionOps, SoftmaxFamily) {
  const List row = {0.3, -1.2, 2.5, 0.9};
  const List probabilities = softmax_of(row);
  List logs;
  for (const double p : probabilities) logs.push_back(std::log(p));
  double total = 0;
  for (const double value : row) total += std::exp(value);
  const CheckOptions rounded = {1e-6, 2e-6, true};  // the inputs are rounded to f32
  expect_op(one([](const Tensor& t) { return softmax(t); }), {host({4}, row)}, {4}, probabilities, rounded);
  expect_op(one([](const Tensor& t) { return softmax(t, 0); }), {host({4, 1}, row)}, {4, 1}, probabilities, rounded);
  expect_op(one([](const Tensor& t) { return log_softmax(t); }), {host({1, 4}, row)}, {1, 4}, logs, rounded);
  expect_op(one([](const Tensor& t) { return logsumexp(t, -1); }), {host({1, 4}, row)}, {1}, {std::log(total)},
            rounded);
  // Around the maximum: no overflow, and masked elements are exactly 0.
  expect_tensor(softmax(vector_of({1000, 1000, -kInf})), {3}, {0.5, 0.5, 0});
  expect_tensor(log_softmax(vector_of({-1000, -1000})), {2}, {-std::log(2.0), -std::log(2.0)});
  expect_tensor(logsumexp(vector_of({1000, 1000}), 0, true), {1}, {1000 + std::log(2.0)});
  expect_tensor(logsumexp(vector_of({-kInf, -kInf})), {}, {-kInf});
  expect_tensor(logsumexp(vector_of({kInf, 0})), {}, {kInf});
  expect_tensor(softmax(vector_of({-kInf, -kInf})), {2}, {kNan, kNan});
  EXPECT_EQ(softmax(zeros({2}, DType::kBF16)).dtype(), DType::kBF16);
}

TEST(ReductionOps, TopkAndCumsum) {
  const HostTensor x = host({2, 4}, {3, 1, 4, 1.5, -1, -5, 9, 2});
  expect_op(one([](const Tensor& t) { return topk(t, 2).values; }), {x}, {2, 2}, {4, 3, 9, 2});
  expect_op(one([](const Tensor& t) { return topk(t, 2, -1, false).values; }), {x}, {2, 2}, {1, 1.5, -5, -1});
  expect_op(one([](const Tensor& t) { return topk(t, 1, 0).values; }), {x}, {1, 4}, {3, 1, 9, 2});
  expect_tensor(topk(to_tensor(x), 2).indices, {2, 2}, {2, 0, 2, 3});
  expect_tensor(topk(to_tensor(x), 1, 0, false).indices, {1, 4}, {1, 1, 0, 0});
  expect_op(one([](const Tensor& t) { return cumsum(t, 1); }), {x}, {2, 4}, {3, 4, 8, 9.5, -1, -6, 3, 5});
  expect_op(one([](const Tensor& t) { return cumsum(t, 0); }), {x}, {2, 4}, {3, 1, 4, 1.5, 2, -4, 13, 3.5});
  EXPECT_EQ(cumsum(ones({3}, DType::kBool), 0).dtype(), DType::kI64);
}

TEST(ReductionOps, SymbolicMean) {
  Step step([](const std::vector<Tensor>& x) { return std::vector<Tensor>{mean(x[0]), var(x[0], 0), sum(x[0], 1)}; },
            {.symbolic = {{.argument = 0, .axis = 0, .symbol = "reduction_test_N"}}});
  for (const int64_t n : {3, 7}) {
    const HostTensor x = random_host({n, 2}, 11);
    double total = 0;
    for (const double value : x.values) total += value;
    const std::vector<Tensor> results = step({to_tensor(x)});
    EXPECT_NEAR(results[0].item(), total / static_cast<double>(2 * n), 1e-6);
    expect_close(results[1].values(), var(to_tensor(x), 0).values(), 1e-6, "variance");
    EXPECT_EQ(sizes_of(results[2]), std::vector<int64_t>{n});
  }
}

TEST(ReductionOps, Errors) {
  const Tensor x = zeros({2, 3});
  EXPECT_EQ(error_text([&] { sum(x, 2); }), "sum: there is no axis 2; it was given (f32[2, 3])");
  EXPECT_EQ(error_text([&] { sum(x, {0, -2}); }), "sum: axis 0 was given twice; it was given (f32[2, 3])");
  EXPECT_EQ(error_text([&] { amax(zeros({2, 0}), 1); }), "amax: axis 1 has no elements; it was given (f32[2, 0])");
  EXPECT_EQ(error_text([&] { topk(x, 4); }), "topk: 4 elements of an axis of size 3; it was given (f32[2, 3])");
  EXPECT_EQ(error_text([&] { norm(x, 0.5); }), "norm: takes p of at least 1, not 0.5; it was given (f32[2, 3])");
  EXPECT_EQ(error_text([&] { softmax(x, 5); }), "softmax: there is no axis 5; it was given (f32[2, 3])");
}

}  // namespace
}  // namespace causeway::tensor
