#include "causeway/graph/dtype.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "causeway/graph/host_tensor.h"

namespace causeway::graph {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

uint64_t bits_of(DType dtype, double value) {
  uint64_t bits = 0;
  write_element(dtype, &bits, 0, value);
  return bits;
}
double from_bits(DType dtype, uint64_t bits) { return read_element(dtype, &bits, 0); }

TEST(DType, NamesParseBack) {
  for (const DType dtype : kAllDTypes) EXPECT_EQ(parse_dtype(dtype_name(dtype)), dtype);
  EXPECT_EQ(parse_dtype("float"), std::nullopt);
  EXPECT_EQ(size_bytes(DType::kBF16), 2u);
  EXPECT_EQ(size_bytes(DType::kI64), 8u);
  EXPECT_FALSE(is_integer(DType::kBool));
  EXPECT_FALSE(is_float(DType::kI32));
  EXPECT_TRUE(is_float(DType::kF8E5M2));
}

// Every pattern of a small float, checked against its definition: the nearest of all representable values wins, ties go
// to the even pattern.
class SmallFloat : public testing::TestWithParam<DType> {
 protected:
  int bit_count() const { return static_cast<int>(size_bytes(GetParam())) * 8; }
};

TEST_P(SmallFloat, EveryPatternRoundTrips) {
  for (uint64_t bits = 0; bits < uint64_t{1} << bit_count(); ++bits) {
    const double value = from_bits(GetParam(), bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(from_bits(GetParam(), bits_of(GetParam(), value)))) << bits;
    } else if (std::isinf(value) && size_bytes(GetParam()) == 1) {
      EXPECT_EQ(round_to_dtype(GetParam(), value), std::copysign(57344.0, value));
    } else {
      ASSERT_EQ(bits_of(GetParam(), value), bits) << value;
    }
  }
}

TEST_P(SmallFloat, RoundsToTheNearestAndTiesToEven) {
  std::map<double, uint64_t> positive;  // finite value -> bits
  for (uint64_t bits = 0; bits < uint64_t{1} << (bit_count() - 1); ++bits)
    if (const double value = from_bits(GetParam(), bits); std::isfinite(value)) positive[value] = bits;
  for (auto next = positive.begin(), low = next++; next != positive.end(); low = next++) {
    const double middle = low->first + (next->first - low->first) / 2;
    ASSERT_EQ(next->second, low->second + 1);
    ASSERT_EQ(bits_of(GetParam(), middle), low->second % 2 == 0 ? low->second : next->second) << middle;
    ASSERT_EQ(bits_of(GetParam(), std::nextafter(middle, 0)), low->second) << middle;
    ASSERT_EQ(bits_of(GetParam(), std::nextafter(middle, kInfinity)), next->second) << middle;
    ASSERT_EQ(round_to_dtype(GetParam(), -std::nextafter(middle, kInfinity)), -next->first);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SmallFloat, testing::Values(DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

TEST(DType, KnownPatterns) {
  EXPECT_EQ(bits_of(DType::kBF16, 1.0), 0x3f80u);
  EXPECT_EQ(bits_of(DType::kBF16, -2.5), 0xc020u);
  EXPECT_EQ(bits_of(DType::kF16, 1.0), 0x3c00u);
  EXPECT_EQ(bits_of(DType::kF16, 0x1p-24), 0x0001u);
  EXPECT_EQ(bits_of(DType::kF8E4M3, 1.0), 0x38u);
  EXPECT_EQ(bits_of(DType::kF8E4M3, 448), 0x7eu);
  EXPECT_EQ(bits_of(DType::kF8E4M3, 0x1p-9), 0x01u);
  EXPECT_EQ(bits_of(DType::kF8E5M2, 1.0), 0x3cu);
  EXPECT_EQ(bits_of(DType::kF8E5M2, 57344), 0x7bu);
  EXPECT_EQ(from_bits(DType::kF8E5M2, 0x7c), kInfinity);
  EXPECT_TRUE(std::isnan(from_bits(DType::kF8E4M3, 0xff)));
  EXPECT_TRUE(std::signbit(round_to_dtype(DType::kBF16, -0.0)));
}

TEST(DType, OverflowAndNan) {
  EXPECT_EQ(round_to_dtype(DType::kF8E4M3, 1e6), 448);
  EXPECT_EQ(round_to_dtype(DType::kF8E4M3, -kInfinity), -448);
  EXPECT_EQ(round_to_dtype(DType::kF8E5M2, 1e9), 57344);
  EXPECT_EQ(round_to_dtype(DType::kF16, 65519), 65504);
  EXPECT_EQ(round_to_dtype(DType::kF16, 65520), kInfinity);
  EXPECT_EQ(round_to_dtype(DType::kBF16, -3.4e38), -kInfinity);
  EXPECT_EQ(round_to_dtype(DType::kF32, 1e39), kInfinity);
  for (const DType dtype : kAllDTypes)
    if (is_float(dtype))
      EXPECT_TRUE(std::isnan(round_to_dtype(dtype, kNan))) << dtype_name(dtype);
    else
      EXPECT_EQ(round_to_dtype(dtype, kNan), dtype == DType::kBool ? 1 : 0) << dtype_name(dtype);
}

TEST(DType, IntegersTruncateAndSaturate) {
  EXPECT_EQ(round_to_dtype(DType::kI32, -2.9), -2);
  EXPECT_EQ(round_to_dtype(DType::kI32, 3e10), 2147483647);
  EXPECT_EQ(round_to_dtype(DType::kI32, -3e10), -2147483648.0);
  EXPECT_EQ(round_to_dtype(DType::kU8, 255.9), 255);
  EXPECT_EQ(round_to_dtype(DType::kU8, -1), 0);
  EXPECT_EQ(bits_of(DType::kI64, 1e300), static_cast<uint64_t>(INT64_MAX));
  EXPECT_EQ(round_to_dtype(DType::kI64, 9007199254740991.0), 9007199254740991.0);
  EXPECT_EQ(round_to_dtype(DType::kBool, 0.25), 1);
  EXPECT_EQ(round_to_dtype(DType::kBool, -0.0), 0);
}

TEST(HostTensor, BytesRoundTripForEveryDType) {
  for (const DType dtype : kAllDTypes) {
    const HostTensor tensor = random_host_tensor(dtype, {3, 5}, 7, 0, 20);
    const std::vector<std::byte> bytes = to_bytes(tensor);
    ASSERT_EQ(bytes.size(), 15 * size_bytes(dtype));
    const HostTensor back = from_bytes(dtype, {3, 5}, bytes.data());
    EXPECT_EQ(back.values, tensor.values) << dtype_name(dtype);
    EXPECT_EQ(back.type_text(), std::string(dtype_name(dtype)) + "[3, 5]");
  }
}

TEST(HostTensor, RandomValuesFollowTheSeedAndTheRange) {
  const HostTensor a = random_host_tensor(DType::kF32, {1000}, 1, -3, 2);
  EXPECT_EQ(a.values, random_host_tensor(DType::kF32, {1000}, 1, -3, 2).values);
  EXPECT_NE(a.values, random_host_tensor(DType::kF32, {1000}, 2, -3, 2).values);
  EXPECT_LT(*std::min_element(a.values.begin(), a.values.end()), -2.9);
  EXPECT_GT(*std::max_element(a.values.begin(), a.values.end()), 1.9);
  const HostTensor whole = random_host_tensor(DType::kI64, {1000}, 1, -2, 3);
  EXPECT_EQ(*std::min_element(whole.values.begin(), whole.values.end()), -2);
  EXPECT_EQ(*std::max_element(whole.values.begin(), whole.values.end()), 2);
  for (const double value : whole.values) ASSERT_EQ(value, std::floor(value));
}

}  // namespace
}  // namespace causeway::graph
