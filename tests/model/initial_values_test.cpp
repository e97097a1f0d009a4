#include "causeway/model/initial_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "causeway/base/hash.h"
#include "causeway/graph/philox.h"

namespace causeway::model {
namespace {

std::vector<float> normal(uint64_t seed, const char* name, double deviation, size_t count) {
  std::vector<float> values(count);
  const std::vector<int64_t> shape = {static_cast<int64_t>(count)};
  InitialValues(seed).fill_normal(name, deviation, shape, whole_box(shape), values);
  return values;
}

TEST(InitialValues, IsTheBoxMullerTransformOfPhiloxWords) {
  const std::vector<float> values = normal(0x123456789abcdefULL, "wte", 0.02, 5000);
  const uint64_t stream = hash_text("wte").low;
  for (size_t i = 0; i < values.size(); i += 2) {
    const auto words = philox_4x32_10(
        {static_cast<uint32_t>(i / 4), 0, static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
        {0x89abcdef, 0x01234567});
    const size_t half = i % 4;
    const double radius = 0.02 * std::sqrt(-2 * std::log((words[half] + 1.0) / 4294967296.0));
    const double angle = 2 * std::numbers::pi * words[half + 1] / 4294967296.0;
    ASSERT_NEAR(values[i], radius * std::cos(angle), 1e-8) << i;
    ASSERT_NEAR(values[i + 1], radius * std::sin(angle), 1e-8) << i;
  }
}

TEST(InitialValues, AreTheSameInWhateverBoxes) {
  const std::vector<int64_t> shape = {5, 70, 9, 61};
  const std::vector<float> whole = normal(7, "wte", 0.5, 5 * 70 * 9 * 61);
  const std::vector<Box> boxes = {{{0, 0, 0, 0}, shape},           {{2, 0, 0, 0}, {3, 70, 9, 61}},
                                  {{1, 30, 0, 0}, {2, 40, 9, 61}}, {{0, 0, 3, 0}, {5, 70, 4, 61}},
                                  {{4, 1, 8, 13}, {1, 69, 1, 47}}, {{0, 0, 0, 60}, {5, 70, 9, 1}}};
  for (const Box& box : boxes) {
    std::vector<float> expected(checked_volume(box.shape).value()), values(expected.size());
    copy_common_box(std::as_bytes(std::span(whole)), whole_box(shape), std::as_writable_bytes(std::span(expected)), box,
                    sizeof(float));
    InitialValues(7).fill_normal("wte", 0.5, shape, box, values);
    EXPECT_EQ(values, expected) << describe_box(box);
  }
}

TEST(InitialValues, AreNormal) {
  const std::vector<float> values = normal(3, "wte", 2.0, 1 << 20);
  double sum = 0, squares = 0, cubes = 0, fourths = 0;
  std::vector<double> ordered(values.begin(), values.end());
  for (const double value : ordered) {
    const double z = value / 2;
    sum += z;
    squares += z * z;
    cubes += z * z * z;
    fourths += z * z * z * z;
  }
  const double n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(cubes / n, 0, 5 * std::sqrt(15 / n));
  EXPECT_NEAR(fourths / n, 3, 5 * std::sqrt(96 / n));
  // Kolmogorov-Smirnov distance; 1.95 / sqrt(n) is exceeded once in a thousand.
  std::sort(ordered.begin(), ordered.end());
  double distance = 0;
  for (size_t i = 0; i < ordered.size(); ++i)
    distance = std::max(distance, std::fabs(0.5 * std::erfc(-ordered[i] / 2 / std::numbers::sqrt2) -
                                            (static_cast<double>(i) + 0.5) / n));
  EXPECT_LT(distance, 1.95 / std::sqrt(n));
}

TEST(InitialValues, DependOnSeedAndNameAndOnNothingElse) {
  const std::vector<float> values = normal(3, "wte", 0.02, 100'001);
  EXPECT_EQ(values, normal(3, "wte", 0.02, 100'001));
  EXPECT_NE(values, normal(4, "wte", 0.02, 100'001));
  EXPECT_NE(values, normal(3, "wpe", 0.02, 100'001));
  // A longer tensor begins with the same values: an element depends on its index alone.
  const std::vector<float> longer = normal(3, "wte", 0.02, 200'000);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), longer.begin()));
}

TEST(InitialValues, KeepTheirBits) {
  // Golden: a change here changes every training run.
  const std::vector<float> values = normal(1, "transformer.wte.weight", 0.02, 1'000'000);
  EXPECT_EQ(hash_bytes(std::as_bytes(std::span<const float>(values))).hex(), "952544cacc6179f78487422b4655be92");
}

}  // namespace
}  // namespace causeway::model
