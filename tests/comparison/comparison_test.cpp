#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/comparison/bounds.h"

namespace causeway::graph {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

HostTensor f32(std::vector<double> values) {
  const auto count = static_cast<int64_t>(values.size());
  return make_host_tensor(DType::kF32, {count}, std::move(values));
}

HostTensor matrix(int64_t rows, int64_t columns, double value) {
  HostTensor tensor = random_host_tensor(DType::kF32, {rows, columns}, 1, -1.7 * value, 1.7 * value);
  return tensor;
}

HostTensor with_error(HostTensor tensor, size_t first, size_t count, double error) {
  for (size_t i = first; i < first + count; ++i) tensor.values[i] += error;
  return tensor;
}

TEST(Compare, WithoutABoundDemandsEquality) {
  EXPECT_TRUE(compare(f32({0, 100}), f32({0, 100}), bounds::kExact).equal);
  EXPECT_FALSE(compare(f32({0x1p-149, 100}), f32({0, 100}), bounds::kExact).equal);
}

TEST(Compare, ScalesWithTheReference) {
  for (const double scale : {1.0, 0.02, 1000.0}) {
    const HostTensor reference = matrix(8, 8, scale);
    EXPECT_TRUE(compare(with_error(reference, 3, 1, 0.9e-2 * scale), reference, {.rms = 1e-2, .row = 1e-2}).equal);
    EXPECT_FALSE(compare(with_error(reference, 3, 1, 2e-2 * scale), reference, {.rms = 1e-2, .row = 1e-2}).equal);
    HostTensor zeros = reference;
    std::fill(zeros.values.begin(), zeros.values.end(), 0.0);
    EXPECT_FALSE(compare(zeros, reference, {.rms = 0.5, .row = 10}).equal);
  }
}

// Each element is within its bound, and all of them are off.
TEST(Compare, ASmallErrorOfEveryElementIsSeenInTheRms) {
  const HostTensor reference = matrix(8, 8, 1);
  const Comparison result = compare(with_error(reference, 0, 64, 5e-3), reference, {.rms = 1e-3, .row = 1e-2});
  EXPECT_FALSE(result.equal);
  EXPECT_EQ(result.mismatches, 0u);
  EXPECT_NEAR(result.rms, 5e-3, 1e-3);
  EXPECT_TRUE(compare(with_error(reference, 0, 1, 5e-3), reference, {.rms = 1e-3, .row = 1e-2}).equal);
}

// One row of a thousand, of smaller values than the others: the rms of all hardly moves.
TEST(Compare, AWrongRowIsSeen) {
  HostTensor reference = matrix(1000, 8, 1);
  for (size_t i = 800; i < 808; ++i) reference.values[i] *= 0.3;
  HostTensor actual = reference;
  for (size_t i = 800; i < 808; ++i) actual.values[i] = 0;
  const Comparison result = compare(actual, reference, {.rms = 2e-2, .row = 0.1});
  EXPECT_LT(result.rms, 2e-2);
  EXPECT_FALSE(result.equal);
  EXPECT_GT(result.mismatches, 4u);
}

TEST(Compare, NeighboursOfANarrowTypeAreAllowedToAFew) {
  const HostTensor reference = random_host_tensor(DType::kBF16, {64, 64}, 1, 1, 2);
  const Bound bound = bounds::product(DType::kBF16, 64);
  EXPECT_TRUE(compare(with_error(reference, 7, 4, 0x1p-7), reference, bound).equal);
  HostTensor truncated = random_host_tensor(DType::kF32, {64, 64}, 1, 1, 2);
  for (double& value : truncated.values) value = std::floor(value * 0x1p7) * 0x1p-7;
  truncated.dtype = DType::kBF16;
  const Comparison result = compare(truncated, reference, bound);
  EXPECT_FALSE(result.equal);
  EXPECT_EQ(result.mismatches, 0u);
}

TEST(Compare, AReferenceThatProvesNothingFails) {
  const HostTensor zeros = f32({0, 0}), tiny = f32({1e-4, -1e-4});
  EXPECT_FALSE(compare(zeros, zeros, {.rms = 1, .row = 1}).equal);
  const Comparison result = compare(tiny, tiny, {.rms = 1, .row = 1});
  EXPECT_FALSE(result.equal);
  EXPECT_EQ(result.text,
            "f32[2]: the rms of the reference is 0.0001, from which a fault need not differ: choose inputs that give "
            "values of order 1");
  EXPECT_TRUE(compare(zeros, zeros, bounds::kExact).equal);
  EXPECT_TRUE(compare(zeros, zeros, bounds::derived(1e-3)).equal);
}

TEST(Compare, IntegersAreEqualOrWrong) {
  const HostTensor reference = make_host_tensor(DType::kI32, {2}, {100, 7});
  EXPECT_FALSE(compare(make_host_tensor(DType::kI32, {2}, {100, 8}), reference, {.rms = 1, .row = 1, .ulps = 4}).equal);
  EXPECT_FALSE(compare(make_host_tensor(DType::kI32, {2}, {100, 8}), reference, bounds::derived(4)).equal);
}

TEST(Compare, ReportsTheWorstElement) {
  const HostTensor reference = make_host_tensor(DType::kF32, {2, 2}, {1, 2, 3, 4});
  const Comparison result =
      compare(make_host_tensor(DType::kF32, {2, 2}, {1, 2.5, 5, 4}), reference, bounds::derived(0.1));
  EXPECT_FALSE(result.equal);
  EXPECT_EQ(result.mismatches, 2u);
  EXPECT_EQ(result.worst, 2u);
  EXPECT_EQ(result.worst_error, 2);
  EXPECT_EQ(result.text,
            "f32[2, 2]: 2 of 4 elements outside of their bound; worst at [1, 0]: got 5, expected 3, error 2, allowed "
            "0.1");
}

TEST(Compare, SpecialValues) {
  const double nan = std::nan("");
  const Bound wide = bounds::derived(1e30);
  EXPECT_TRUE(compare(f32({nan, kInfinity}), f32({nan, kInfinity}), {.rms = 1}).equal);
  EXPECT_FALSE(compare(f32({nan}), f32({1}), wide).equal);
  EXPECT_FALSE(compare(f32({1}), f32({nan}), wide).equal);
  EXPECT_FALSE(compare(f32({kInfinity}), f32({-kInfinity}), wide).equal);
  EXPECT_FALSE(compare(f32({kInfinity}), f32({1e30}), wide).equal);
  EXPECT_TRUE(compare(f32({kInfinity}), f32({1e39}), {}).equal);
  EXPECT_TRUE(
      compare(make_host_tensor(DType::kF8E4M3, {1}, {448}), make_host_tensor(DType::kF8E4M3, {1}, {1000}), {}).equal);
}

TEST(Compare, TypesMustAgree) {
  const Comparison result = compare(f32({1, 2}), make_host_tensor(DType::kBF16, {2}, {1, 2}), bounds::derived(1));
  EXPECT_FALSE(result.equal);
  EXPECT_EQ(result.text, "got f32[2] with 2 values, expected bf16[2] with 2");
  EXPECT_FALSE(compare(f32({1}), f32({1, 2}), {}).equal);
}

TEST(Compare, UnitInLastPlace) {
  EXPECT_EQ(unit_in_last_place(DType::kF32, 1), 0x1p-23);
  EXPECT_EQ(unit_in_last_place(DType::kF32, -1.99), 0x1p-23);
  EXPECT_EQ(unit_in_last_place(DType::kBF16, 2), 0x1p-6);
  EXPECT_EQ(unit_in_last_place(DType::kF16, 0), 0x1p-24);
  EXPECT_EQ(unit_in_last_place(DType::kF8E4M3, 448), 32);
  EXPECT_EQ(unit_in_last_place(DType::kI32, 5), 1);
}

}  // namespace
}  // namespace causeway::graph
