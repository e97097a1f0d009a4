// Averages in bf16 and in 8 bits: the code against its definition, blocks, what they take, what a mesh may cut, and
// AdamW with them against formulas in double, step by step.
#include "causeway/optimizer/kept_moment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "causeway/base/error.h"
#include "causeway/optimizer/optimizer.h"
#include "causeway/program/context.h"
#include "causeway/tensor/ops.h"
#include "tests/optimizer/optimizer_steps.h"

namespace causeway::optimizer {
namespace {

// bitsandbytes' create_dynamic_map(): of each decade the middles of equal cells, 0 and 1; sorted.
std::vector<double> dynamic_map(bool is_signed) {
  std::vector<double> values = {0, 1};
  for (int i = 0; i < 7; ++i) {
    const int cells = 1 << (is_signed ? i : i + 1);
    for (int k = 0; k < cells; ++k) {
      const double value = std::pow(10.0, i - 6) * (0.1 + 0.9 * (k + 0.5) / cells);
      values.push_back(value);
      if (is_signed) values.push_back(-value);
    }
  }
  std::ranges::sort(values);
  return values;
}

double nearest(const std::vector<double>& map, double x) {
  return *std::ranges::min_element(map, {}, [&](double value) { return std::abs(value - x); });
}

std::vector<double> numbers(size_t count, double scale, uint32_t seed) {
  std::vector<double> values;
  for (uint32_t x = seed; values.size() < count;) {
    x = x * 1664525 + 1013904223;
    const double size = std::pow(10.0, -6.5 * (x >> 8) / 16777216.0);
    x = x * 1664525 + 1013904223;
    values.push_back(scale * size * ((x >> 30 & 1) != 0 ? 1 : -1));
  }
  return values;
}

OptimizerConfig config_of(const std::string& moments, int64_t block = 64) {
  OptimizerConfig config;
  config.own = {{"moments", moments}, {"moment_block", block}, {"beta1", 0.8}, {"beta2", 0.9}};
  return config.resolved();
}

TEST(KeptMoment, BytesAreTheDynamicCode) {
  std::vector<double> all(256);
  for (size_t i = 0; i < 256; ++i) all[i] = static_cast<double>(i);
  const Tensor codes = cast(Tensor::from_values(all, {256}), DType::kU8);
  for (const Average average : {Average::kOfValues, Average::kOfSquares}) {
    const bool is_signed = average == Average::kOfValues;
    std::vector<double> map = dynamic_map(is_signed), decoded = decode_moment(codes, average).values();
    EXPECT_EQ(decoded[0], 0);
    std::ranges::sort(decoded);
    ASSERT_EQ(map.size(), 256u);
    for (size_t i = 0; i < 256; ++i) EXPECT_NEAR(decoded[i], map[i], 2e-6 * std::abs(map[i])) << i;
  }
}

TEST(KeptMoment, ARoundTripTakesTheNearestValue) {
  std::vector<double> x = numbers(20000, 1, 3);
  for (const double edge : {0.0, 1.0, -1.0, 1e-30, -1e-30, 1e-7, 0.1, -0.1, 0.01, 0.5}) x.push_back(edge);
  for (const Average average : {Average::kOfValues, Average::kOfSquares}) {
    const bool is_signed = average == Average::kOfValues;
    if (!is_signed)
      for (double& one : x) one = std::abs(one);
    const std::vector<double> map = dynamic_map(is_signed);
    const std::vector<double> back =
        decode_moment(encode_moment(Tensor::from_values(x, {static_cast<int64_t>(x.size())}), average), average)
            .values();
    for (size_t i = 0; i < x.size(); ++i) {
      const double best = std::abs(nearest(map, x[i]) - x[i]);
      if (!is_signed && x[i] > 0 && x[i] < map[1])
        ASSERT_NEAR(back[i], map[1], 1e-12) << x[i];
      else
        ASSERT_LE(std::abs(back[i] - x[i]), best + 3e-6 * std::abs(x[i])) << x[i] << " as " << back[i];
    }
  }
}

// Up or down, as often as the value asks for.
TEST(KeptMoment, StochasticRoundingIsTheValueInTheMean) {
  constexpr int64_t kDraws = 20000;
  const auto mean_and_values = [](const Tensor& drawn) {
    double sum = 0;
    std::set<double> values;
    for (const double one : drawn.values()) {
      sum += one;
      values.insert(one);
    }
    return std::pair{sum / kDraws, values};
  };
  const Tensor bits = bitwise_and(random_bits({Dim(kDraws)}, random_key(5, 7), 0), 0xffff);
  for (const Average average : {Average::kOfValues, Average::kOfSquares})
    for (double x : {0.3217, 0.0312, 2.5e-4, -0.7077}) {
      const std::vector<double> map = dynamic_map(average == Average::kOfValues);
      if (average == Average::kOfSquares) x = std::abs(x);
      const auto [mean, values] =
          mean_and_values(decode_moment(encode_moment(full({Dim(kDraws)}, x), average, bits), average));
      const auto above = std::ranges::lower_bound(map, x);
      const double low = *(above - 1), high = *above;
      ASSERT_EQ(values.size(), 2u) << x;
      EXPECT_NEAR(*values.begin(), low, 2e-6 * std::abs(low));
      EXPECT_NEAR(*values.rbegin(), high, 2e-6 * std::abs(high));
      // Five standard deviations of the mean.
      EXPECT_NEAR(mean, x, 2.5 * (high - low) / std::sqrt(kDraws)) << x;
    }
  for (const double x : {1.001, -1.001, 3.1e-12, 257.3}) {
    const std::vector<Tensor> before = {Tensor::zeroed({kDraws}, DType::kBF16)};
    const auto [mean, values] =
        mean_and_values(keep_moment(full({Dim(kDraws)}, x), before, Average::kOfValues, bits)[0]);
    ASSERT_EQ(values.size(), 2u) << x;
    const double step = *values.rbegin() - *values.begin();
    EXPECT_LE(*values.begin(), x);
    EXPECT_GE(*values.rbegin(), x);
    EXPECT_LE(step, std::abs(x) * 0x1p-7);
    EXPECT_NEAR(mean, x, 2.5 * step / std::sqrt(kDraws)) << x;
  }
}

TEST(KeptMoment, BlocksLieWithinRowsAndSmallThingsStayF32) {
  const auto kept = [](const std::vector<int64_t>& shape, const OptimizerConfig& config) {
    const Parameter parameter{"weight", Tensor::zeroed(shape, DType::kF32), true};
    std::string text;
    for (const OptimizerState& one : find_optimizer("adamw").state_of(parameter, config)) {
      text += one.name + " " + std::string(dtype_name(one.dtype));
      for (const int64_t size : evaluate(one.shape(parameter), {})) text += fmt::format(" {}", size);
      text += fmt::format(" = {}; ", one.bytes(parameter));
    }
    return text;
  };
  const OptimizerConfig coded = config_of("8bit", 256);
  EXPECT_EQ(kept({3, 768}, coded),
            "moment1 u8 3 768 = 2304; moment1_scale f32 3 3 = 36; moment2 u8 3 768 = 2304; "
            "moment2_scale f32 3 3 = 36; ");
  EXPECT_EQ(kept({2, 96}, coded),
            "moment1 u8 2 96 = 192; moment1_scale f32 2 3 = 24; moment2 u8 2 96 = 192; "
            "moment2_scale f32 2 3 = 24; ");
  EXPECT_EQ(kept({2, 48}, coded), "moment1 f32 2 48 = 384; moment2 f32 2 48 = 384; ");
  EXPECT_EQ(kept({512}, coded), "moment1 f32 512 = 2048; moment2 f32 512 = 2048; ");
  EXPECT_EQ(kept({2, 96}, config_of("bf16")), "moment1 bf16 2 96 = 384; moment2 bf16 2 96 = 384; ");
  EXPECT_EQ(kept({2, 96}, config_of("f32")), "moment1 f32 2 96 = 768; moment2 f32 2 96 = 768; ");
}

TEST(KeptMoment, BadValuesAreRefused) {
  const auto error = [](const std::string& moments, int64_t block) {
    try {
      config_of(moments, block);
    } catch (const Error& error) {
      return error.where() + ": " + error.message();
    }
    return std::string("no error");
  };
  EXPECT_EQ(error("4bit", 64), "optimizer.moments: '4bit' is not one of f32, bf16, 8bit");
  EXPECT_EQ(error("8bit", 96), "optimizer.moment_block: must be a power of two and at least 32");
  EXPECT_EQ(error("8bit", 16), "optimizer.moment_block: must be a power of two and at least 32");
}

// What is kept, as numbers: from tensors by the definition.
std::vector<double> kept_values(const Tensor& codes, const Tensor& scales, bool is_signed, int64_t block) {
  std::vector<double> bytes(256);
  for (size_t i = 0; i < 256; ++i) bytes[i] = static_cast<double>(i);
  const std::vector<double> value = decode_moment(cast(Tensor::from_values(bytes, {256}), DType::kU8),
                                                  is_signed ? Average::kOfValues : Average::kOfSquares)
                                        .values();
  const std::vector<double> code = codes.values(), scale = scales.values();
  std::vector<double> result;
  for (size_t i = 0; i < code.size(); ++i) {
    const double x = value[static_cast<size_t>(code[i])] * scale[i / static_cast<size_t>(block)];
    result.push_back(is_signed ? x : x * x);
  }
  return result;
}

TEST(KeptMoment, AdamWInEightBitsIsItsFormulas) {
  const OptimizerConfig config = config_of("8bit", 32);
  const double rate = 0.01, decay = 0.1;
  const size_t count = 4 * 96;
  std::vector<double> p = numbers(count, 1, 5);
  OptimizerSteps steps(config, {"weight", Tensor::from_values(p, {4, 96}), true});
  std::vector<Tensor>& state = steps.state;
  ASSERT_EQ(state.size(), 4u);
  const std::vector<double> maps[] = {dynamic_map(true), dynamic_map(false)};
  for (int step = 1; step <= 6; ++step) {
    std::vector<double> m = kept_values(state[0], state[1], true, 32), v = kept_values(state[2], state[3], false, 32);
    std::vector<double> g = numbers(count, 1, static_cast<uint32_t>(100 + step));
    // A block of zeros, and one that is all but zero.
    for (size_t i = 0; i < 32; ++i) g[i] = 0;
    for (size_t i = 32; i < 64; ++i) g[i] *= 1e-12;
    p = steps.values();
    steps.take(g, rate, decay);
    const std::vector<double> now = steps.values(), codes[] = {state[0].values(), state[2].values()},
                              scales[] = {state[1].values(), state[3].values()};
    const std::vector<double> kept[] = {kept_values(state[0], state[1], true, 32),
                                        kept_values(state[2], state[3], false, 32)};
    for (size_t i = 0; i < count; ++i) {
      m[i] = 0.8 * m[i] + 0.2 * g[i];
      v[i] = 0.9 * v[i] + 0.1 * g[i] * g[i];
      const double mean = m[i] / (1 - std::pow(0.8, step)), square = v[i] / (1 - std::pow(0.9, step));
      const double expected = p[i] * (1 - rate * decay) - rate * mean / (std::sqrt(square) + 1e-8);
      ASSERT_NEAR(now[i], expected, 1e-6) << step << ", " << i;
    }
    for (const size_t which : {0u, 1u})
      for (size_t block = 0; block < count / 32; ++block) {
        double largest = 0;
        const auto value = [&](size_t i) { return which == 0 ? m[i] : std::sqrt(v[i]); };
        for (size_t i = 32 * block; i < 32 * block + 32; ++i) largest = std::max(largest, std::abs(value(i)));
        ASSERT_NEAR(scales[which][block], largest, 1e-6 * largest) << step << ", " << block;
        for (size_t i = 32 * block; i < 32 * block + 32; ++i) {
          if (largest == 0) {
            ASSERT_EQ(codes[which][i], 0);
            continue;
          }
          const double share = value(i) / largest;
          const double is = (which == 0 ? kept[0][i] : std::sqrt(kept[1][i])) / largest;
          if (which == 1 && share > 0 && share < maps[1][1])
            ASSERT_NEAR(is, maps[1][1], 1e-12);
          else
            ASSERT_LE(std::abs(is - share), std::abs(nearest(maps[which], share) - share) + 4e-6 * std::abs(share))
                << step << ", " << i << ": " << share << " as " << is;
        }
      }
  }
}

TEST(KeptMoment, AdamWInBf16RoundsWhatItKeeps) {
  const OptimizerConfig config = config_of("bf16");
  std::vector<double> p = numbers(64, 1, 5), m(64), v(64);
  OptimizerSteps steps(config, {"weight", Tensor::from_values(p, {64}), false});
  for (int step = 1; step <= 5; ++step) {
    const std::vector<double> g = numbers(64, 1, static_cast<uint32_t>(step));
    steps.take(g, 0.01, 0);
    const std::vector<double> kept_m = steps.state[0].values(), kept_v = steps.state[1].values();
    EXPECT_EQ(steps.state[0].dtype(), DType::kBF16);
    for (size_t i = 0; i < 64; ++i) {
      m[i] = 0.8 * m[i] + 0.2 * g[i];
      v[i] = 0.9 * v[i] + 0.1 * g[i] * g[i];
      const double mean = m[i] / (1 - std::pow(0.8, step)), square = v[i] / (1 - std::pow(0.9, step));
      p[i] -= 0.01 * mean / (std::sqrt(square) + 1e-8);
      ASSERT_NEAR(steps.values()[i], p[i], 1e-6) << step;
      // To half a unit of 8 bits.
      ASSERT_NEAR(kept_m[i], m[i], std::abs(m[i]) * 0x1.01p-8) << step;
      ASSERT_NEAR(kept_v[i], v[i], std::abs(v[i]) * 0x1.01p-8) << step;
      ASSERT_EQ(kept_m[i], round_to_dtype(DType::kBF16, kept_m[i]));
    }
    m = kept_m;
    v = kept_v;
    p = steps.values();
  }
}

}  // namespace
}  // namespace causeway::optimizer
