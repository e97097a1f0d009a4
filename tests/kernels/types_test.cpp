#include "causeway/kernels/types.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace {

// A small float format written from its definition, in double precision: the reference for the conversions.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  double largest;
  bool has_infinity;  // else the topmost exponent holds ordinary numbers, and NaN is all ones

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }

  double decode(uint32_t code) const {
    const uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
    const uint32_t exponent = (code >> mantissa_bits) & ((1u << exponent_bits) - 1);
    const double sign = (code >> (mantissa_bits + exponent_bits)) != 0 ? -1.0 : 1.0;
    const bool top = exponent == (1u << exponent_bits) - 1;
    if (top && has_infinity) {
      return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    }
    if (top && mantissa == (1u << mantissa_bits) - 1) return std::numeric_limits<double>::quiet_NaN();
    const double fraction = std::ldexp(mantissa, -mantissa_bits);
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias());
    return sign * std::ldexp(1.0 + fraction, static_cast<int>(exponent) - bias());
  }

  // The finite number nearest to `value`, ties to the even mantissa; at most `largest` in magnitude.
  double round(double value) const {
    if (value == 0) return value;
    const int exponent = std::max(std::ilogb(value), 1 - bias());
    const double step = std::ldexp(1.0, exponent - mantissa_bits);
    const double rounded = std::nearbyint(value / step) * step;
    return std::copysign(std::min(std::abs(rounded), largest), value);
  }
};

constexpr Format kE4M3{4, 3, 448.0, false};
constexpr Format kE5M2{5, 2, 57344.0, true};

std::vector<float> samples() {
  std::vector<float> values = {0.0f,    -0.0f,    448.0f,     464.0f,   465.0f,   57344.0f,   61440.0f, 65536.0f,
                               0x1p-9f, 0x1p-10f, 0x1.8p-10f, 0x1p-16f, 0x1p-17f, 0x1.8p-17f, 1e-40f,   3e38f};
  for (int exponent = -20; exponent < 20; ++exponent) {
    for (int step = 0; step < 64; ++step) values.push_back(std::ldexp(1.0f + static_cast<float>(step) / 64, exponent));
  }
  std::mt19937 generator(3);
  for (int count = 0; count < 100000; ++count) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(generator()));
    if (std::isfinite(value)) values.push_back(value);
  }
  const size_t size = values.size();
  for (size_t index = 0; index < size; ++index) values.push_back(-values[index]);
  return values;
}

TEST(Types, SmallFloatsDecodeAsDefined) {
  for (uint32_t code = 0; code < 256; ++code) {
    const float e4m3 = to_float(f8e4m3{static_cast<uint8_t>(code)});
    const float e5m2 = to_float(f8e5m2{static_cast<uint8_t>(code)});
    if (std::isnan(kE4M3.decode(code))) {
      EXPECT_TRUE(std::isnan(e4m3)) << code;
    } else {
      EXPECT_EQ(e4m3, kE4M3.decode(code)) << code;
      EXPECT_EQ(to_f8e4m3(e4m3).bits, code);
    }
    if (std::isnan(kE5M2.decode(code))) {
      EXPECT_TRUE(std::isnan(e5m2)) << code;
    } else {
      EXPECT_EQ(e5m2, kE5M2.decode(code)) << code;
      if (std::isfinite(e5m2)) EXPECT_EQ(to_f8e5m2(e5m2).bits, code);
    }
  }
}

TEST(Types, SmallFloatsRoundToNearestEvenAndSaturate) {
  for (const float value : samples()) {
    const float e4m3 = to_float(to_f8e4m3(value));
    const float e5m2 = to_float(to_f8e5m2(value));
    ASSERT_EQ(e4m3, kE4M3.round(value)) << value;
    ASSERT_EQ(e5m2, kE5M2.round(value)) << value;
    ASSERT_EQ(std::signbit(e4m3), std::signbit(value)) << value;
    ASSERT_EQ(std::signbit(e5m2), std::signbit(value)) << value;
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(to_f8e4m3(infinity).bits, 0x7e);
  EXPECT_EQ(to_f8e4m3(-infinity).bits, 0xfe);
  EXPECT_EQ(to_f8e5m2(infinity).bits, 0x7b);
  EXPECT_EQ(to_f8e4m3(std::nanf("")).bits & 0x7f, 0x7f);
  EXPECT_TRUE(std::isnan(to_float(to_f8e5m2(std::nanf("")))));
}

TEST(Types, Bfloat16RoundsToNearestEvenAndKeepsNan) {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const bf16 value{static_cast<uint16_t>(code)};
    const float exact = to_float(value);
    EXPECT_EQ(std::bit_cast<uint32_t>(exact), code << 16);
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(to_float(to_bf16(exact)))) << code;
      continue;
    }
    ASSERT_EQ(to_bf16(exact).bits, code);
    if (std::isinf(exact)) continue;
    const auto rounded = [&](uint32_t lower) { return to_bf16(std::bit_cast<float>(code << 16 | lower)).bits; };
    ASSERT_EQ(rounded(0x7fff), code);
    ASSERT_EQ(rounded(0x8000), code + (code & 1)) << code;
    ASSERT_EQ(rounded(0x8001), code + 1) << code;
  }
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(Types, HalfConverts) {
  EXPECT_EQ(to_float(to_f16(65504.0f)), 65504.0f);
  EXPECT_EQ(to_float(to_f16(1.0f + 0x1p-11f)), 1.0f);
  EXPECT_EQ(to_float(to_f16(1.0f + 0x3p-11f)), 1.0f + 0x1p-9f);
  EXPECT_TRUE(std::isinf(to_float(to_f16(70000.0f))));
}

}  // namespace
