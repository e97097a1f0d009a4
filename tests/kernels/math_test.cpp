#include "causeway/kernels/math.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "causeway/codegen/compile/compiler.h"
#include "causeway/device/cpu/cpu_device.h"
#include "causeway/device/cpu/cpu_module.h"
#include "causeway/device/cpu/host_target.h"

// The functions are compiled as they are in use: by the embedded compiler, in loops, with and without fused
// multiply-adds. The references are the C library's functions of doubles, whose errors are far below a float's ulp.
namespace causeway::program {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kTiniest = std::numeric_limits<float>::denorm_min();

const Target kPortable{Target::Family::kX86, "x86-64", {}, 16};
const Target kAvx2{Target::Family::kX86, "x86-64-v3", {}, 32};
const Target kAvx512{Target::Family::kX86, "x86-64-v4", {}, 64};

std::string loop(const std::string& name, const std::string& arguments) {
  return "extern \"C\" void " + name +
         "(void* const* buffers, const int64_t* sizes, int64_t, void*) {\n"
         "  float* __restrict out = static_cast<float*>(buffers[0]);\n"
         "  const float* __restrict x = static_cast<const float*>(buffers[1]);\n"
         "  const float* __restrict y = static_cast<const float*>(buffers[2]);\n"
         "  const int64_t count = sizes[0];\n"
         "  for (int64_t i = 0; i < count; ++i) out[i] = " +
         name + "_f32(" + arguments + ");\n}\n";
}

const std::vector<std::string> kOfOne = {"exp2", "log2", "sin", "cos", "tanh", "erf", "one_plus_erf"};
const std::vector<std::string> kOfTwo = {"pow", "fmod", "max", "min"};

std::string all_loops() {
  std::string text = "#include \"causeway/kernels/math.h\"\n";
  for (const std::string& name : kOfOne) text += loop(name, "x[i]");
  for (const std::string& name : kOfTwo) text += loop(name, "x[i], y[i]");
  return text;
}

struct Compiled {
  Target target;
  CpuModule module;
};

const std::vector<Compiled>& compiled() {
  static const std::vector<Compiled>& all = *[] {
    auto* modules = new std::vector<Compiled>;
    std::vector<Target> targets = {kPortable};
    if (host_target().has_avx2()) targets.push_back(kAvx2);
    if (host_target().has_avx512()) targets.push_back(host_target());
    for (const Target& target : targets) modules->push_back({target, CpuModule(compile_module(all_loops(), target))});
    return modules;
  }();
  return all;
}

std::vector<float> run(const Compiled& with, const std::string& name, const std::vector<float>& x,
                       const std::vector<float>& y) {
  std::vector<float> out(x.size());
  void* buffers[] = {out.data(), const_cast<float*>(x.data()), const_cast<float*>(y.data())};
  const int64_t sizes[] = {static_cast<int64_t>(x.size())};
  CpuDevice device(1);
  device.launch({with.module.kernel(name), buffers, sizes, 1, 0});
  return out;
}

std::string text_of(float value) {
  return testing::PrintToString(value) + " (" + std::to_string(std::bit_cast<uint32_t>(value)) + ")";
}

// |got - exact| in ulps of the exact value. The range has no upper end here: infinity stands for 2^128.
double error_in_ulps(float got, double exact) {
  if (std::isnan(got) || std::isnan(exact)) return std::isnan(got) && std::isnan(exact) ? 0 : kInfinity;
  const double bounded = std::clamp(exact, -0x1p128, 0x1p128);
  const double value = std::isinf(got) ? std::copysign(0x1p128, got) : got;
  // The exponent field of doubles; that of 1 is 1023.
  const int64_t exponent = static_cast<int64_t>(std::bit_cast<uint64_t>(bounded) >> 52 & 0x7ff) - 1023;
  const int64_t of_ulp = std::clamp<int64_t>(exponent, -126, 127) - 23;
  return std::abs(value - bounded) * std::bit_cast<double>(static_cast<uint64_t>(1023 - of_ulp) << 52);
}

// Every `step`-th float of [low, high] of one sign, by bits.
void add_range(std::vector<float>& to, float low, float high, uint32_t step) {
  const uint32_t last = std::bit_cast<uint32_t>(high);
  for (uint32_t bits = std::bit_cast<uint32_t>(low); bits <= last; bits += step)
    to.push_back(std::bit_cast<float>(bits));
}

struct Unary {
  std::string name;
  double (*exact)(double);
  double bound;     // in ulps, as math.h states it
  float low, high;  // the magnitudes where the function is neither its limit nor its tangent: the dense part
  float end;        // the largest magnitude the bound holds for
  bool of_negative;
};

const std::vector<Unary> kUnaries = {
    {"exp2", std::exp2, 1.21, 0x1p-24f, 152, kInfinity, true},
    {"log2", std::log2, 1.51, 0x1p-8f, 0x1p8f, kInfinity, false},
    {"sin", std::sin, 1.55, 0x1p-11f, 1e5f, 1e5f, true},
    {"cos", std::cos, 1.55, 0x1p-11f, 1e5f, 1e5f, true},
    {"tanh", std::tanh, 1.97, 0x1p-11f, 10, kInfinity, true},
    {"erf", std::erf, 1.94, 0x1p-11f, 4.5f, kInfinity, true},
};

std::vector<float> sample(const Unary& function) {
  std::vector<float> x = {0.0f, 1.0f, kTiniest, kInfinity};
  if (function.end != kInfinity) x.pop_back();
  const uint32_t dense = std::bit_cast<uint32_t>(function.high) - std::bit_cast<uint32_t>(function.low);
  add_range(x, function.low, function.high, dense / 600'000 | 1);
  add_range(x, kTiniest, function.end, 20'011);
  if (function.of_negative) {
    const size_t count = x.size();
    for (size_t i = 0; i < count; ++i) x.push_back(-x[i]);
  }
  return x;
}

TEST(Math, UnaryFunctionsKeepTheirBounds) {
  size_t points = 0;
  for (const Unary& function : kUnaries) {
    const std::vector<float> x = sample(function);
    points += x.size();
    std::vector<double> exact(x.size());
    std::transform(x.begin(), x.end(), exact.begin(), [&](float value) { return function.exact(value); });
    for (const Compiled& with : compiled()) {
      const std::vector<float> got = run(with, function.name, x, x);
      size_t worst = 0;
      double error = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double here = error_in_ulps(got[i], exact[i]);
        if (!(here <= error)) {
          error = here;
          worst = i;
        }
      }
      EXPECT_LE(error, function.bound) << function.name << "(" << text_of(x[worst]) << ") = " << text_of(got[worst])
                                       << ", exactly " << exact[worst] << ", on " << with.target.text();
      // A bound far above what is reached would hide a loss of accuracy.
      EXPECT_GT(error, 0.75 * function.bound) << function.name << " on " << with.target.text();
    }
  }
  EXPECT_GE(points, 1u << 22);
}

TEST(Math, UnaryFunctionsAtSpecialValues) {
  struct Case {
    std::string name;
    float x, result;
  };
  const std::vector<Case> cases = {
      {"exp2", 0.0f, 1.0f},
      {"exp2", -0.0f, 1.0f},
      {"exp2", 1.0f, 2.0f},
      {"exp2", 10.0f, 1024.0f},
      {"exp2", 127.0f, 0x1p127f},
      {"exp2", 128.0f, kInfinity},
      {"exp2", 1e30f, kInfinity},
      {"exp2", kInfinity, kInfinity},
      {"exp2", -126.0f, 0x1p-126f},
      {"exp2", -149.0f, kTiniest},
      {"exp2", -150.0f, 0.0f},
      {"exp2", -253.5f, 0.0f},
      {"exp2", -1e30f, 0.0f},
      {"exp2", -kInfinity, 0.0f},
      {"log2", 0.0f, -kInfinity},
      {"log2", -0.0f, -kInfinity},
      {"log2", 1.0f, 0.0f},
      {"log2", 8.0f, 3.0f},
      {"log2", 0x1p-126f, -126.0f},
      {"log2", kTiniest, -149.0f},
      {"log2", kInfinity, kInfinity},
      {"log2", -kTiniest, kNaN},
      {"log2", -1.0f, kNaN},
      {"log2", -kInfinity, kNaN},
      {"sin", 0.0f, 0.0f},
      {"sin", -0.0f, -0.0f},
      {"sin", kTiniest, kTiniest},
      {"sin", kInfinity, kNaN},
      {"sin", -kInfinity, kNaN},
      {"cos", 0.0f, 1.0f},
      {"cos", -0.0f, 1.0f},
      {"cos", kInfinity, kNaN},
      {"cos", -kInfinity, kNaN},
      {"tanh", 0.0f, 0.0f},
      {"tanh", -0.0f, -0.0f},
      {"tanh", -kTiniest, -kTiniest},
      {"tanh", 10.0f, 1.0f},
      {"tanh", kInfinity, 1.0f},
      {"tanh", -kInfinity, -1.0f},
      {"erf", 0.0f, 0.0f},
      {"erf", -0.0f, -0.0f},
      {"erf", 4.0f, 1.0f},
      {"erf", -kLargest, -1.0f},
      {"erf", kInfinity, 1.0f},
      {"erf", -kInfinity, -1.0f},
      {"one_plus_erf", 0.0f, 1.0f},
      {"one_plus_erf", 10.0f, 2.0f},
      {"one_plus_erf", kInfinity, 2.0f},
      {"one_plus_erf", -0.0f, 1.0f},
      {"one_plus_erf", -20.0f, 0.0f},
      {"one_plus_erf", -kInfinity, 0.0f},
      {"one_plus_erf", kLargest, 2.0f},
      {"one_plus_erf", -kLargest, 0.0f},
  };
  for (const Compiled& with : compiled()) {
    for (const Case& c : cases) {
      // Seventeen at once, so that the loop's vector part and its remainder both run.
      const std::vector<float> x(17, c.x);
      for (const float got : run(with, c.name, x, x)) {
        const bool same =
            std::isnan(c.result) ? std::isnan(got) : std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(c.result);
        EXPECT_TRUE(same) << c.name << "(" << c.x << ") = " << got << " on " << with.target.text();
      }
    }
    for (const std::string& name : kOfOne) EXPECT_TRUE(std::isnan(run(with, name, {kNaN}, {kNaN})[0])) << name;
  }
}

// Its error is that of a number between 0 and 2, on both sides of 0.
TEST(Math, OnePlusErfKeepsItsBound) {
  std::vector<float> x = {0.0f};
  add_range(x, 0x1p-20f, 8.0f, 97);
  add_range(x, kTiniest, kLargest, 20'011);
  const size_t count = x.size();
  for (size_t i = 0; i < count; ++i) x.push_back(-x[i]);
  for (const Compiled& with : compiled()) {
    const std::vector<float> got = run(with, "one_plus_erf", x, x);
    double worst = 0;
    size_t where = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = std::abs(got[i] - std::erfc(-static_cast<double>(x[i])));
      if (error <= worst) continue;
      worst = error;
      where = i;
    }
    EXPECT_LE(worst, 1.6e-7) << "1 + erf(" << text_of(x[where]) << ") = " << text_of(got[where]) << " on "
                             << with.target.text();
    EXPECT_GT(worst, 1e-7) << with.target.text();
    for (const float value : got) ASSERT_FALSE(std::isnan(value));
  }
}

TEST(Math, BoundedFunctionsStayWithinOne) {
  std::vector<float> x;
  add_range(x, 1e5f, kLargest, 10'007);  // where sin and cos have no error bound
  add_range(x, 2.0f, 10.0f, 101);
  for (const Compiled& with : compiled()) {
    for (const std::string name : {"sin", "cos", "tanh", "erf"}) {
      for (const float value : run(with, name, x, x)) ASSERT_LE(std::abs(value), 1.0f) << name;
    }
  }
}

const std::vector<float> kSpecial = {
    0.0f,     -0.0f,     1.0f,   -1.0f,       2.0f,         -2.0f,       3.0f,      -3.0f,       0.5f,
    -0.5f,    1.5f,      -1.5f,  0.25f,       kInfinity,    -kInfinity,  kNaN,      kTiniest,    -kTiniest,
    kLargest, -kLargest, 1e-40f, 16777215.0f, -16777215.0f, 33554432.0f, 0x1p-126f, 0.99999994f, 1.0000001f};

struct Pairs {
  std::vector<float> x, y;
  void add(float a, float b) {
    x.push_back(a);
    y.push_back(b);
  }
};

float any_float(std::mt19937& random) { return std::bit_cast<float>(static_cast<uint32_t>(random())); }

TEST(Math, PowKeepsItsBound) {
  Pairs pairs;
  for (const float a : kSpecial) {
    for (const float b : kSpecial) pairs.add(a, b);
  }
  std::mt19937 random(7);
  std::uniform_real_distribution<float> exponent(-151, 129), near_one(0.5f, 2), whole(-40, 40);
  for (int i = 0; i < 120'000; ++i) {
    const float x = std::abs(any_float(random));
    pairs.add(x, exponent(random) / std::log2(x));
    const float m = near_one(random);
    pairs.add(m, exponent(random) / (std::log2(m) + 1e-9f));
    pairs.add(near_one(random) * -8, std::round(whole(random)));
    pairs.add(any_float(random), any_float(random));
  }
  for (const Compiled& with : compiled()) {
    const std::vector<float> got = run(with, "pow", pairs.x, pairs.y);
    double worst = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const double exact = std::pow(static_cast<double>(pairs.x[i]), static_cast<double>(pairs.y[i]));
      const double error = error_in_ulps(got[i], exact);
      worst = std::max(worst, error);
      ASSERT_LE(error, 1.5) << "pow(" << text_of(pairs.x[i]) << ", " << text_of(pairs.y[i]) << ") = " << text_of(got[i])
                            << " on " << with.target.text();
      if (!std::isnan(exact)) ASSERT_EQ(std::signbit(got[i]), std::signbit(exact)) << pairs.x[i] << " " << pairs.y[i];
      if (i < kSpecial.size() * kSpecial.size()) {
        ASSERT_EQ(std::isinf(got[i]), std::isinf(static_cast<float>(exact))) << pairs.x[i] << " " << pairs.y[i];
      }
    }
    EXPECT_GT(worst, 1.1);
  }
}

TEST(Math, FmodIsExact) {
  Pairs pairs;
  for (const float a : kSpecial) {
    for (const float b : kSpecial) pairs.add(a, b);
  }
  std::mt19937 random(11);
  std::uniform_real_distribution<float> plain(-1000, 1000), divisor(1, 0x1p29f);
  for (int i = 0; i < 80'000; ++i) {
    pairs.add(plain(random), plain(random));
    const float x = any_float(random);
    pairs.add(x, x / divisor(random));
    pairs.add(x, x / std::round(plain(random)));
    pairs.add(x, any_float(random));
  }
  for (const Compiled& with : compiled()) {
    const std::vector<float> got = run(with, "fmod", pairs.x, pairs.y);
    for (size_t i = 0; i < got.size(); ++i) {
      const float x = pairs.x[i], y = pairs.y[i];
      const float exact = std::fmod(x, y);
      if (std::abs(static_cast<double>(x) / y) < 0x1p29 || std::isnan(exact)) {
        const bool same =
            std::isnan(exact) ? std::isnan(got[i]) : std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(exact);
        ASSERT_TRUE(same) << "fmod(" << text_of(x) << ", " << text_of(y) << ") = " << text_of(got[i]) << ", exactly "
                          << text_of(exact) << ", on " << with.target.text();
      } else {
        ASSERT_LT(std::abs(got[i]), std::abs(y)) << x;
        ASSERT_EQ(std::signbit(got[i]), std::signbit(x)) << y;
      }
    }
  }
}

TEST(Math, MaxAndMinKeepNaN) {
  Pairs pairs;
  for (const float a : kSpecial) {
    for (const float b : kSpecial) pairs.add(a, b);
  }
  for (const Compiled& with : compiled()) {
    const std::vector<float> larger = run(with, "max", pairs.x, pairs.y);
    const std::vector<float> smaller = run(with, "min", pairs.x, pairs.y);
    for (size_t i = 0; i < larger.size(); ++i) {
      const float x = pairs.x[i], y = pairs.y[i];
      if (std::isnan(x) || std::isnan(y)) {
        EXPECT_TRUE(std::isnan(larger[i]) && std::isnan(smaller[i])) << x << " " << y;
      } else {
        EXPECT_EQ(larger[i], std::max(x, y));
        EXPECT_EQ(smaller[i], std::min(x, y));
      }
    }
  }
}

TEST(Math, LoopsAreVectorsWithoutCalls) {
  for (const auto& [target, registers] : {std::pair(kAvx2, "%ymm"), std::pair(kAvx512, "%zmm")}) {
    const std::string listing = compile_to_assembly(all_loops(), target);
    EXPECT_THAT(listing, Not(HasSubstr("call")));
    for (const auto* names : {&kOfOne, &kOfTwo}) {
      for (const std::string& name : *names) {
        const size_t begin = listing.find("\n" + name + ":"), end = listing.find(".size\t" + name + ",");
        ASSERT_LT(begin, end) << name;
        EXPECT_THAT(listing.substr(begin, end - begin), HasSubstr(registers)) << name;
      }
    }
  }
}

// The header is host text too, and says the same there.
TEST(Math, TheHostComputesTheSame) {
  const Compiled& portable = compiled().front();
  const std::vector<float> x = {-3.25f, -0.75f, 0.0f, 0.3f, 1.0f, 2.5f, 7.0f};
  const std::vector<float> exp2 = run(portable, "exp2", x, x), tanh = run(portable, "tanh", x, x);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_FLOAT_EQ(exp2_f32(x[i]), exp2[i]);
    EXPECT_FLOAT_EQ(tanh_f32(x[i]), tanh[i]);
  }
}

}  // namespace
}  // namespace causeway::program
