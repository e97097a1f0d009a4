#include "causeway/graph/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace causeway {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

HostTensor f32(std::vector<double> values) {
  const auto count = static_cast<int64_t>(values.size());
  return make_host_tensor(DType::kF32, {count}, std::move(values));
}

TEST(Compare, AllowsAbsoluteRelativeAndUlps) {
  const HostTensor reference = f32({0, 100});
  EXPECT_TRUE(compare(f32({0.01, 100}), reference, {.absolute = 0.01}).equal);
  EXPECT_FALSE(compare(f32({0.02, 100}), reference, {.absolute = 0.01}).equal);
  EXPECT_TRUE(compare(f32({0, 101}), reference, {.relative = 0.01}).equal);
  EXPECT_FALSE(compare(f32({0, 101.5}), reference, {.relative = 0.01}).equal);
  EXPECT_TRUE(compare(f32({0, 100 + 2 * 0x1p-17}), reference, {.ulps = 2}).equal);
  EXPECT_FALSE(compare(f32({0, 100 + 3 * 0x1p-17}), reference, {.ulps = 2}).equal);
}

TEST(Compare, ReportsTheWorstElement) {
  const HostTensor reference = make_host_tensor(DType::kF32, {2, 2}, {1, 2, 3, 4});
  const Comparison result =
      compare(make_host_tensor(DType::kF32, {2, 2}, {1, 2.5, 5, 4}), reference, {.absolute = 0.1});
  EXPECT_FALSE(result.equal);
  EXPECT_EQ(result.mismatches, 2u);
  EXPECT_EQ(result.worst, 2u);
  EXPECT_EQ(result.worst_error, 2);
  EXPECT_EQ(result.text,
            "f32[2, 2]: 2 of 4 elements outside tolerance; worst at [1, 0]: got 5, expected 3, error 2, allowed 0.1");
}

TEST(Compare, SpecialValues) {
  const double nan = std::nan("");
  EXPECT_TRUE(compare(f32({nan, kInfinity}), f32({nan, kInfinity}), {}).equal);
  EXPECT_FALSE(compare(f32({nan}), f32({1}), {.absolute = 1e30}).equal);
  EXPECT_FALSE(compare(f32({1}), f32({nan}), {.absolute = 1e30}).equal);
  EXPECT_FALSE(compare(f32({kInfinity}), f32({-kInfinity}), {.absolute = 1e30}).equal);
  EXPECT_FALSE(compare(f32({kInfinity}), f32({1e30}), {.absolute = 1e30}).equal);
  EXPECT_TRUE(compare(f32({kInfinity}), f32({1e39}), {}).equal);
  EXPECT_TRUE(
      compare(make_host_tensor(DType::kF8E4M3, {1}, {448}), make_host_tensor(DType::kF8E4M3, {1}, {1000}), {}).equal);
}

TEST(Compare, TypesMustAgree) {
  const Comparison result = compare(f32({1, 2}), make_host_tensor(DType::kBF16, {2}, {1, 2}), {.absolute = 1});
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
}  // namespace causeway
