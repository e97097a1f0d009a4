#include "tests/tensor/op_check.h"

namespace causeway::tensor {
namespace {

TEST(Eager, NothingIsComputedUntilValuesAreAskedFor) {
  const Tensor x = vector_of({1, 2});
  EXPECT_TRUE(x.holds_values());
  const Tensor y = x + 1, z = y * 2;
  EXPECT_FALSE(y.holds_values());
  EXPECT_EQ(y.type(), x.type());
  expect_tensor(z, {2}, {4, 6});
  // One request computes everything that is pending.
  EXPECT_TRUE(y.holds_values());
  expect_tensor(y, {2}, {2, 3});
  expect_tensor(z - y, {2}, {2, 3});
}

TEST(Eager, EvaluateComputesNow) {
  const Tensor x = zeros({3}) + 5;
  x.evaluate();
  EXPECT_TRUE(x.holds_values());
  expect_tensor(x, {3}, {5, 5, 5});
}

TEST(Eager, ValuesInEveryDType) {
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kBool) continue;
    SCOPED_TRACE(dtype_name(dtype));
    const Tensor x = vector_of({1, 2, 4}, dtype);
    expect_tensor(x, {3}, {1, 2, 4});
    expect_tensor(cast(cast(x, DType::kF32) * 2, dtype), {3}, {2, 4, 8});
  }
  EXPECT_EQ(Tensor::from_values({7}, {}).item(), 7);
  expect_tensor(zeros({2, 0, 3}) + 1, {2, 0, 3}, {});
}

TEST(Eager, AssignChangesTheTensorAndNotWhatCameBefore) {
  Tensor x = vector_of({1, 2});
  const Tensor handle = x, before = x * 10;
  x.assign(x + 1);
  const Tensor after = x * 10;
  expect_tensor(x, {2}, {2, 3});
  expect_tensor(handle, {2}, {2, 3});
  expect_tensor(before, {2}, {10, 20});
  expect_tensor(after, {2}, {20, 30});
  Tensor pending = after + 1;
  pending.assign(x);
  expect_tensor(pending, {2}, {2, 3});
  EXPECT_EQ(error_text([&] { x.assign(zeros({3})); }),
            "a tensor of type f32[3] cannot be assigned to one of type f32[2]");
}

TEST(Eager, AssignmentsOfManyTensorsToEachOther) {
  Tensor a = vector_of({1, 2}), b = vector_of({3, 4});
  const Tensor old = a * 1.0;
  a.assign(b);
  b.assign(old);
  expect_tensor(a, {2}, {3, 4});
  expect_tensor(b, {2}, {1, 2});
}

TEST(Eager, WriteBytesDoesNotReachBack) {
  Tensor x = vector_of({1, 2});
  const Tensor before = x + 0.5;
  const float fresh[] = {8, 9};
  x.write_bytes(std::as_bytes(std::span(fresh)));
  expect_tensor(before, {2}, {1.5, 2.5});
  expect_tensor(x, {2}, {8, 9});
  EXPECT_EQ(error_text([&] { x.write_bytes({}); }), "0 bytes for a tensor of type f32[2]");
}

TEST(Eager, GradientsBeforeEvaluation) {
  const Tensor x = vector_of({1, 2, 3});
  const Tensor loss = sum(x * x);
  expect_tensor(gradients(loss, std::span(&x, 1))[0], {3}, {2, 4, 6});
  EXPECT_EQ(loss.item(), 14);
  EXPECT_EQ(error_text([&] { gradients(loss, std::span(&x, 1)); }),
            "gradients of a loss whose values have already been computed");
  EXPECT_EQ(error_text([&] { gradients(x * x, std::span(&x, 1)); }),
            "the loss is a f32[3], but gradients need a scalar float");
}

// Second derivatives go through the nodes that the first ones appended.
TEST(Eager, GradientsOfGradients) {
  const Tensor x = vector_of({0.5, 2});
  const Tensor first = gradients(sum(x * x * x), std::span(&x, 1))[0];
  expect_tensor(gradients(sum(first), std::span(&x, 1))[0], {2}, {3, 12});
}

TEST(Eager, LongLoopsAreCutIntoPieces) {
  Tensor x = zeros({2});
  const Tensor step = vector_of({1, 2});
  for (int i = 0; i < 25000; ++i) x = x + step;
  EXPECT_LT(Trace::current().graph.nodes().size(), 21000u);
  expect_tensor(x, {2}, {25000, 50000});
}

// States that die leave nothing behind for those that are made at the same address.
TEST(Eager, ReusedMemoryIsNotMistakenForAnOldTensor) {
  Tensor x = vector_of({1});
  for (int i = 0; i < 50; ++i) {
    Tensor temporary = x * 2;
    temporary.assign(x + static_cast<double>(i));
    expect_tensor(temporary + 0.5, {1}, {1.5 + i});
  }
}

TEST(Eager, Errors) {
  const Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_EQ(error_text([&] { none + 1; }), "an undefined tensor was used");
  EXPECT_EQ(error_text([&] { none.values(); }), "an undefined tensor was used");
  EXPECT_EQ(error_text([&] { zeros({2}).item(); }), "item() of a tensor of type f32[2]");
  EXPECT_EQ(error_text([&] { zeros({2}).size(1); }), "axis 1 of a tensor of type f32[2]");
  EXPECT_EQ(error_text([&] { Tensor::from_values({1, 2, 3}, {2}); }), "12 bytes for a tensor of type f32[2]");
  EXPECT_EQ(error_text([&] { Tensor::uninitialized({-1}, DType::kF32); }), "a tensor dimension of -1");
}

}  // namespace
}  // namespace causeway::tensor
