#include "tests/tensor/op_check.h"

namespace causeway::tensor {
namespace {

using List = std::vector<double>;

struct Statistics {
  double mean = 0, variance = 0, low = kInf, high = -kInf;
};

Statistics statistics_of(const List& values) {
  Statistics s;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) {
    s.mean += value / n;
    s.low = std::min(s.low, value);
    s.high = std::max(s.high, value);
  }
  for (const double value : values) s.variance += (value - s.mean) * (value - s.mean) / n;
  return s;
}

constexpr int64_t kCount = 20000;

// Bounds are five standard deviations of the estimate.
TEST(RandomOps, Distributions) {
  const Tensor key = random_key(42);
  const Statistics uniform = statistics_of(rand({kCount}, key).values());
  EXPECT_NEAR(uniform.mean, 0.5, 5 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(uniform.variance, 1.0 / 12, 0.003);
  EXPECT_GE(uniform.low, 0);
  EXPECT_LT(uniform.high, 1);
  const Statistics normal = statistics_of(randn({kCount}, key).values());
  EXPECT_NEAR(normal.mean, 0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(normal.variance, 1, 5 * std::sqrt(2.0 / kCount));
  EXPECT_LT(normal.high, 5.8);
  EXPECT_GT(normal.high, 3);
  const List dice = randint(-3, 3, {kCount}, key).values();
  for (int face = -3; face < 3; ++face)
    EXPECT_NEAR(static_cast<double>(std::count(dice.begin(), dice.end(), face)), kCount / 6.0,
                5 * std::sqrt(kCount * 5.0 / 36));
  const Statistics coin = statistics_of(bernoulli(full({kCount}, 0.3), key).values());
  EXPECT_NEAR(coin.mean, 0.3, 5 * std::sqrt(0.21 / kCount));
}

TEST(RandomOps, KeysDecide) {
  const OpFunction draw = [](const std::vector<Tensor>& x) { return rand({8}, x[0]); };
  const auto of_key = [&](double seed, double step) {
    return interpret_op(draw, {host({2}, {seed, step}, DType::kI64)}).values;
  };
  EXPECT_EQ(of_key(1, 2), of_key(1, 2));
  EXPECT_NE(of_key(1, 2), of_key(1, 3));
  EXPECT_NE(of_key(1, 2), of_key(2, 2));
  // Two ops of one trace draw different numbers from one key, and kernels draw what the interpreter does.
  const Tensor key = random_key(1, 2);
  const Tensor first = rand({8}, key), second = rand({8}, key);
  EXPECT_NE(first.values(), second.values());
  Step step([](const std::vector<Tensor>& x) { return std::vector<Tensor>{rand({8}, x[0])}; });
  EXPECT_EQ(step({random_key(1, 2)})[0].values(), of_key(1, 2));
  EXPECT_EQ(step({random_key(7, 3)})[0].values(), of_key(7, 3));
}

TEST(RandomOps, Dropout) {
  const Tensor x = full({kCount}, 3);
  const List values = dropout(x, 0.25, random_key(5)).values();
  const auto dropped = std::count(values.begin(), values.end(), 0.0),
             kept = std::count(values.begin(), values.end(), 4.0);
  EXPECT_EQ(dropped + kept, kCount);
  EXPECT_NEAR(static_cast<double>(dropped), 0.25 * kCount, 5 * std::sqrt(kCount * 0.1875));
  EXPECT_EQ(statistics_of(dropout(x, 1, random_key(5)).values()).high, 0);
  EXPECT_EQ(dropout(x, 0, random_key(5)).state(), x.state());
  // The gradient passes where the value does.
  const Tensor y = full({64}, 1);
  const Tensor out = dropout(y, 0.5, random_key(6));
  const List slope = gradients(sum(out), std::span(&y, 1))[0].values();
  for (const double value : slope) EXPECT_TRUE(value == 0 || value == 2);
  EXPECT_GT(statistics_of(slope).mean, 0.3);
  Step step([](const std::vector<Tensor>& in) {
    const Tensor dropped = dropout(in[0], 0.5, in[1]);
    return std::vector<Tensor>{dropped, gradients(sum(dropped), std::span(&in[0], 1))[0]};
  });
  const std::vector<Tensor> results = step({y, random_key(6)});
  EXPECT_EQ(results[0].values(), results[1].values());
}

TEST(RandomOps, Errors) {
  EXPECT_EQ(error_text([] { rand({2}, zeros({2})); }),
            "rand: takes a key, an i64[2] of seed and step; it was given (f32[2])");
  EXPECT_EQ(error_text([] { dropout(zeros({2}), 1.5, random_key(1)); }),
            "dropout: a probability of 1.5 is not within [0, 1]; it was given (f32[2])");
  EXPECT_EQ(error_text([] { randint(5, 5, {2}, random_key(1)); }),
            "randint: there is no range of 1 to 2^31 - 1 numbers from 5 to below 5");
  EXPECT_EQ(error_text([] { randint(0, 300, {2}, random_key(1), DType::kU8); }),
            "randint: 0 to 299 does not fit in u8");
}

TEST(PositionOps, RotatesHalves) {
  const int64_t batch = 2, length = 3, heads = 2, width = 6, dims = 4;
  const HostTensor x = random_host({batch, length, heads, width}, 3);
  const HostTensor positions = host({batch, length}, {0, 1, 2, 7, 3, 100}, DType::kI32);
  const auto rotated = [&](const List& where_at) {
    List expected = x.values;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t t = 0; t < length; ++t)
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t i = 0; i < dims / 2; ++i) {
            const auto base = static_cast<size_t>(((b * length + t) * heads + h) * width + i);
            const double frequency = static_cast<float>(std::pow(500.0, -2.0 * static_cast<double>(i) / dims));
            const double angle = where_at[static_cast<size_t>(b * length + t)] * frequency;
            const double first = x.values[base], second = x.values[base + dims / 2];
            expected[base] = first * std::cos(angle) - second * std::sin(angle);
            expected[base + dims / 2] = second * std::cos(angle) + first * std::sin(angle);
          }
    return expected;
  };
  const Tensor frequencies = rotary_frequencies(dims, 500);
  expect_op([&](const std::vector<Tensor>& in) { return rotary_embedding(in[0], frequencies, in[1]); }, {x, positions},
            x.shape, rotated(positions.values), {1e-9, 1e-5, true});
  expect_op([&](const std::vector<Tensor>& in) { return rotary_embedding(in[0], frequencies); }, {x}, x.shape,
            rotated({0, 1, 2, 0, 1, 2}), {1e-9, 2e-6, false});
  EXPECT_EQ(error_text([&] { rotary_embedding(zeros({2, 3, 1, 2}), frequencies); }),
            "rotary_embedding: takes at most half as many frequencies as the last axis has elements; it was given "
            "(f32[2, 3, 1, 2], f32[2])");
  EXPECT_EQ(error_text([&] { rotary_frequencies(3); }),
            "rotary_frequencies: takes an even number of dimensions and a positive theta, not 3 and 10000");
}

// Wavelengths below 2048 stay, those above 8192 are stretched eightfold, with a ramp between.
TEST(PositionOps, StretchesLongWavelengths) {
  const List plain = rotary_frequencies(128, 500000).values();
  const List stretched = rotary_frequencies(128, 500000, RotaryScaling{}).values();
  for (size_t i = 0; i < plain.size(); ++i) {
    const double wavelength = 2 * M_PI / plain[i];
    if (wavelength < 2048) {
      EXPECT_EQ(stretched[i], plain[i]);
    } else if (wavelength > 8192) {
      EXPECT_NEAR(stretched[i], plain[i] / 8, 1e-7 * plain[i]);
    } else {
      EXPECT_LT(stretched[i], plain[i]);
      EXPECT_GT(stretched[i], plain[i] / 8);
    }
  }
}

TEST(PositionOps, AlibiSlopes) {
  expect_tensor(alibi_slopes(4), {4}, {0.25, 0.0625, 0.015625, 0.00390625});
  // Six heads: those of four, then every second one of eight.
  expect_tensor(alibi_slopes(6), {6}, {0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125});
  expect_tensor(alibi_slopes(1), {1}, {0.00390625});
  EXPECT_EQ(error_text([] { alibi_slopes(0); }), "alibi_slopes: 0 heads");
}

}  // namespace
}  // namespace causeway::tensor
