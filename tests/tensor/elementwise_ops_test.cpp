#include <array>

#include "tests/tensor/op_check.h"

namespace causeway::tensor {
namespace {

using Scalar = double (*)(double);
using Unary = Tensor (*)(const Tensor&);

struct UnaryCase {
  const char* name;
  OpFunction op;
  std::function<double(double)> reference;
  std::vector<double> at;
  bool gradients = true;
  double tolerance = 2e-6;
  double exact_tolerance = 1e-10;
};

OpFunction of(Unary function) {
  return [function](const std::vector<Tensor>& x) { return function(x[0]); };
}

const std::vector<double> kAround = {-3.3, -1.7, -0.9, -0.31, -0.02, 0.04, 0.27, 0.81, 1.6, 3.9};
const std::vector<double> kPositive = {0.01, 0.3, 0.9, 1.1, 2.5, 17};

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double softplus_of(double x) { return std::log1p(std::exp(x)); }
double relu6_of(double x) { return std::min(std::max(x, 0.0), 6.0); }

std::vector<UnaryCase> unary_cases() {
  const double selu_scale = 1.0507009873554804934, selu_alpha = 1.6732632423543772848;
  return {
      {"neg", of(neg), [](double x) { return -x; }, kAround},
      {"abs", of(abs), [](double x) { return std::fabs(x); }, kAround},
      {"sign", of(sign), [](double x) { return x > 0   ? 1.0
                                               : x < 0 ? -1.0
                                                       : 0.0; }, kAround},
      {"square", of(square), [](double x) { return x * x; }, kAround},
      {"reciprocal", of(reciprocal), [](double x) { return 1 / x; }, {-3, -0.4, 0.6, 2}},
      {"sqrt", of(sqrt), [](double x) { return std::sqrt(x); }, kPositive},
      {"rsqrt", of(rsqrt), [](double x) { return 1 / std::sqrt(x); }, {0.2, 0.9, 3, 20}},
      {"exp", of(exp), [](double x) { return std::exp(x); }, kAround},
      {"exp2", of(exp2), [](double x) { return std::exp2(x); }, kAround},
      {"expm1", of(expm1), [](double x) { return std::expm1(x); }, kAround},
      {"log", of(log), [](double x) { return std::log(x); }, {0.2, 0.7, 1.3, 5, 90}},
      {"log2", of(log2), [](double x) { return std::log2(x); }, {0.2, 0.7, 1.3, 5, 90}},
      {"log10", of(log10), [](double x) { return std::log10(x); }, {0.2, 0.7, 1.3, 5, 90}},
      {"log1p", of(log1p), [](double x) { return std::log1p(x); }, {-0.7, -0.24, -0.01, 0.02, 0.2, 0.3, 4}},
      {"sin", of(sin), [](double x) { return std::sin(x); }, kAround},
      {"cos", of(cos), [](double x) { return std::cos(x); }, kAround},
      {"tan", of(tan), [](double x) { return std::tan(x); }, {-1.2, -0.3, 0.2, 1.1}},
      {"sinh", of(sinh), [](double x) { return std::sinh(x); }, kAround},
      {"cosh", of(cosh), [](double x) { return std::cosh(x); }, kAround},
      {"tanh", of(tanh), [](double x) { return std::tanh(x); }, kAround},
      {"erf", of(erf), [](double x) { return std::erf(x); }, kAround},
      {"erfc", of(erfc), [](double x) { return std::erfc(x); }, kAround},
      {"floor", of(floor), [](double x) { return std::floor(x); }, kAround},
      {"ceil", of(ceil), [](double x) { return std::ceil(x); }, kAround},
      {"trunc", of(trunc), [](double x) { return std::trunc(x); }, kAround},
      {"round", of(round), [](double x) { return std::nearbyint(x); }, kAround},
      {"frac", of(frac), [](double x) { return x - std::trunc(x); }, kAround},
      {"sigmoid", of(sigmoid), sigmoid_of, kAround},
      {"log_sigmoid", of(log_sigmoid), [](double x) { return -softplus_of(-x); }, kAround},
      {"softplus", [](const std::vector<Tensor>& x) { return softplus(x[0], 1.5); },
       [](double x) { return softplus_of(1.5 * x) / 1.5; }, kAround},
      {"relu", of(relu), [](double x) { return std::max(x, 0.0); }, kAround},
      {"relu6", of(relu6), relu6_of, {-2, 0.5, 5, 7}},
      {"leaky_relu", [](const std::vector<Tensor>& x) { return leaky_relu(x[0], 0.2); },
       [](double x) { return x > 0 ? x : 0.2 * x; }, kAround},
      {"elu", [](const std::vector<Tensor>& x) { return elu(x[0], 1.3); },
       [](double x) { return x > 0 ? x : 1.3 * std::expm1(x); }, kAround},
      {"celu", [](const std::vector<Tensor>& x) { return celu(x[0], 2); },
       [](double x) { return x > 0 ? x : 2 * std::expm1(x / 2); }, kAround},
      {"selu", of(selu), [=](double x) { return selu_scale * (x > 0 ? x : selu_alpha * std::expm1(x)); }, kAround},
      {"gelu", [](const std::vector<Tensor>& x) { return gelu(x[0]); },
       [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }, kAround},
      {"gelu_tanh", [](const std::vector<Tensor>& x) { return gelu(x[0], GeluApproximation::kTanh); },
       [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }, kAround},
      {"quick_gelu", of(quick_gelu), [](double x) { return x * sigmoid_of(1.702 * x); }, kAround},
      {"silu", of(silu), [](double x) { return x * sigmoid_of(x); }, kAround},
      {"mish", of(mish), [](double x) { return x * std::tanh(softplus_of(x)); }, kAround},
      {"hardsigmoid", of(hardsigmoid), [](double x) { return relu6_of(x + 3) / 6; }, {-4, -2, 0.3, 2, 5}},
      {"hardswish", of(hardswish), [](double x) { return x * relu6_of(x + 3) / 6; }, {-4, -2, 0.3, 2, 5}},
      {"hardtanh", [](const std::vector<Tensor>& x) { return hardtanh(x[0], -0.5, 2); },
       [](double x) { return std::min(std::max(x, -0.5), 2.0); }, kAround},
      {"softsign", of(softsign), [](double x) { return x / (1 + std::fabs(x)); }, kAround},
      {"tanhshrink", of(tanhshrink), [](double x) { return x - std::tanh(x); }, kAround},
      {"softshrink", [](const std::vector<Tensor>& x) { return softshrink(x[0]); },
       [](double x) { return x > 0.5    ? x - 0.5
                             : x < -0.5 ? x + 0.5
                                        : 0; }, kAround},
      {"hardshrink", [](const std::vector<Tensor>& x) { return hardshrink(x[0]); },
       [](double x) { return std::fabs(x) > 0.5 ? x : 0; }, kAround},
      {"threshold", [](const std::vector<Tensor>& x) { return threshold(x[0], 0.5, -7); },
       [](double x) { return x > 0.5 ? x : -7; }, kAround},
      {"softcap", [](const std::vector<Tensor>& x) { return softcap(x[0], 3); },
       [](double x) { return 3 * std::tanh(x / 3); }, kAround},
      {"clamp", [](const std::vector<Tensor>& x) { return clamp(x[0], -1, 1.5); },
       [](double x) { return std::min(std::max(x, -1.0), 1.5); }, kAround},
  };
}

TEST(ElementwiseOps, ValuesAndGradients) {
  for (const UnaryCase& test : unary_cases()) {
    SCOPED_TRACE(test.name);
    const HostTensor x = host({static_cast<int64_t>(test.at.size())}, test.at);
    std::vector<double> expected;
    for (const double value : x.values) expected.push_back(test.reference(value));
    expect_op(test.op, {x}, x.shape, expected, {test.exact_tolerance, test.tolerance, test.gradients});
  }
}

// What plain compositions get wrong: cancellation near 0, overflow far from it, slopes at kinks.
void expect_relative(const OpFunction& op, const std::vector<double>& at, Scalar reference, double tolerance) {
  const Tensor x = vector_of(at);
  const std::vector<double> arguments = x.values(), results = op({x}).values();
  for (size_t i = 0; i < at.size(); ++i) {
    const double expected = reference(arguments[i]);
    EXPECT_LE(std::fabs(results[i] - expected), tolerance * std::fabs(expected)) << "at " << arguments[i];
  }
}

TEST(ElementwiseOps, AccurateNearZeroAndFarFromIt) {
  constexpr double kUnit = 0x1p-23;
  const std::vector<double> tiny = {1e-30, -1e-20, 1e-8, -1e-7, 3e-5, -1e-3, 0.1, -0.2, 0.249, 0.251, 0.9, -0.99};
  expect_relative(of(expm1), tiny, [](double x) { return std::expm1(x); }, 8 * kUnit);
  expect_relative(of(log1p), tiny, [](double x) { return std::log1p(x); }, 8 * kUnit);
  expect_relative(of(sinh), tiny, [](double x) { return std::sinh(x); }, 16 * kUnit);
  expect_relative(of(sigmoid), {-80, -30, -5, 0, 5, 80}, sigmoid_of, 100 * kUnit);
  expect_relative(of(log_sigmoid), {-80, -5, 0, 5, 14}, [](double x) { return -softplus_of(-x); }, 100 * kUnit);
  expect_relative(of(exp), {-80, -20, 0, 1, 80}, [](double x) { return std::exp(x); }, 162 * kUnit);
  expect_relative(of(log), {1e-30, 0.1, 0.999, 1.001, 10, 1e30}, [](double x) { return std::log(x); }, 4 * kUnit);
}

std::vector<double> gradient_at(const OpFunction& op, const std::vector<double>& at) {
  const Tensor x = vector_of(at);
  const Tensor loss = sum(op({x}));
  return gradients(loss, std::span(&x, 1))[0].values();
}

TEST(ElementwiseOps, GradientsAtKinksAndExtremes) {
  const auto expect = [](const OpFunction& op, const std::vector<double>& at, const std::vector<double>& expected) {
    expect_close(gradient_at(op, at), expected, 1e-6, "gradient");
  };
  expect(of(relu), {0, -1, 2}, {0, 0, 1});
  expect(of(relu6), {0, 6}, {0, 0});
  expect(of(abs), {0}, {0});
  expect([](const std::vector<Tensor>& x) { return softplus(x[0]); }, {0, -1000, 1000}, {0.5, 0, 1});
  expect(of(sigmoid), {0, -1000, 1000}, {0.25, 0, 0});
  expect(of(silu), {0, -1000, 1000}, {0.5, 0, 1});
  expect(of(log1p), {0, 1e-7, -1e-7}, {1, 1, 1});
  expect(of(expm1), {0, 1e-7, -200}, {1, 1, 0});
  expect([](const std::vector<Tensor>& x) { return clamp(x[0], -1, 1); }, {-1, 1, 2}, {1, 1, 0});
  expect([](const std::vector<Tensor>& x) { return elu(x[0]); }, {-1000, 500}, {0, 1});
  expect([](const std::vector<Tensor>& x) { return logaddexp(x[0], -kInf); }, {2, 300}, {1, 1});
}

struct BinaryCase {
  const char* name;
  Tensor (*op)(const Operand&, const Operand&);
  double (*reference)(double, double);
  double low = -2;
};

double python_modulo(double a, double b) { return a - b * std::floor(a / b); }

TEST(ElementwiseOps, BinaryValuesAndGradients) {
  const BinaryCase cases[] = {
      {"add", add, [](double a, double b) { return a + b; }},
      {"sub", sub, [](double a, double b) { return a - b; }},
      {"mul", mul, [](double a, double b) { return a * b; }},
      {"div", div, [](double a, double b) { return a / b; }, 0.3},
      {"pow", pow, [](double a, double b) { return std::pow(a, b); }, 0.3},
      {"minimum", minimum, [](double a, double b) { return std::min(a, b); }},
      {"maximum", maximum, [](double a, double b) { return std::max(a, b); }},
      {"remainder", remainder, python_modulo, 0.3},
      {"fmod", fmod, [](double a, double b) { return std::fmod(a, b); }, 0.3},
      {"floor_divide", floor_divide, [](double a, double b) { return std::floor(a / b); }, 0.3},
      {"logaddexp", logaddexp, [](double a, double b) { return std::log(std::exp(a) + std::exp(b)); }},
  };
  for (const BinaryCase& test : cases) {
    SCOPED_TRACE(test.name);
    const HostTensor a = random_host({3, 4}, 1, test.low, 2), b = random_host({4}, 2, test.low, 2);
    std::vector<double> expected;
    for (size_t i = 0; i < a.values.size(); ++i) expected.push_back(test.reference(a.values[i], b.values[i % 4]));
    expect_op([&](const std::vector<Tensor>& x) { return test.op(x[0], x[1]); }, {a, b}, {3, 4}, expected);
  }
}

TEST(ElementwiseOps, SignsOfRemainders) {
  const HostTensor a = host({4}, {7, -7, 7, -7}), b = host({4}, {3, 3, -3, -3});
  for (const DType dtype : {DType::kF32, DType::kI32, DType::kI64}) {
    const Tensor x = Tensor::from_values(a.values, {4}, dtype), y = Tensor::from_values(b.values, {4}, dtype);
    expect_tensor(remainder(x, y), {4}, {1, 2, -2, -1});
    expect_tensor(fmod(x, y), {4}, {1, -1, 1, -1});
    expect_tensor(floor_divide(x, y), {4}, {2, -3, -3, 2});
  }
  EXPECT_EQ(floor_divide(vector_of({200}, DType::kU8), 7).values()[0], 28);
}

TEST(ElementwiseOps, PowersOfNumbers) {
  const HostTensor x = host({3}, {0.5, 1.5, 3});
  for (const double exponent : {-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 2.7}) {
    SCOPED_TRACE(exponent);
    std::vector<double> expected;
    for (const double value : x.values) expected.push_back(std::pow(value, exponent));
    expect_op([&](const std::vector<Tensor>& in) { return pow(in[0], exponent); }, {x}, {3}, expected, {1e-10, 1e-5});
  }
  const Tensor power = pow(vector_of({-3, 2, 10}, DType::kI32), 3);
  EXPECT_EQ(power.dtype(), DType::kI32);
  expect_tensor(power, {3}, {-27, 8, 1000});
  expect_tensor(pow(vector_of({-2, 3}), 2), {2}, {4, 9});
  expect_op([](const std::vector<Tensor>& in) { return pow(2.0, in[0]); }, {host({2}, {-1, 3})}, {2}, {0.5, 8});
}

TEST(ElementwiseOps, RoundsHalfToEven) {
  expect_tensor(round(vector_of({-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.4999, 8388609, -kInf})), {9},
                {-2, -2, 0, 0, 2, 2, 3, 8388609, -kInf});
}

TEST(ElementwiseOps, LerpAndOperators) {
  const Tensor a = vector_of({1, 2, 3}), b = vector_of({5, 4, 3});
  expect_tensor(lerp(a, b, 0.25), {3}, {2, 2.5, 3});
  expect_tensor(2 * a + b / 2 - 1, {3}, {3.5, 5, 6.5});
  expect_tensor(-a, {3}, {-1, -2, -3});
  expect_tensor(1 - a, {3}, {0, -1, -2});
  expect_tensor(a < b, {3}, {1, 1, 0});
  expect_tensor(a >= 2, {3}, {0, 1, 1});
  expect_tensor(a > b, {3}, {0, 0, 0});
  expect_tensor(3 <= a, {3}, {0, 0, 1});
}

TEST(ElementwiseOps, Comparisons) {
  const Tensor x = vector_of({1, kNan, 3, kInf, -kInf}), y = vector_of({1, 1, 2, kInf, 0});
  expect_tensor(eq(x, y), {5}, {1, 0, 0, 1, 0});
  expect_tensor(ne(x, y), {5}, {0, 1, 1, 0, 1});
  expect_tensor(lt(x, y), {5}, {0, 0, 0, 0, 1});
  expect_tensor(le(x, y), {5}, {1, 0, 0, 1, 1});
  expect_tensor(gt(x, y), {5}, {0, 0, 1, 0, 0});
  expect_tensor(ge(x, y), {5}, {1, 0, 1, 1, 0});
  expect_tensor(isnan(x), {5}, {0, 1, 0, 0, 0});
  expect_tensor(isinf(x), {5}, {0, 0, 0, 1, 1});
  expect_tensor(isfinite(x), {5}, {1, 0, 1, 0, 0});
  expect_tensor(isfinite(vector_of({1, 2}, DType::kI32)), {2}, {1, 1});
  expect_tensor(minimum(x, y), {5}, {1, kNan, 2, kInf, -kInf});
  const Tensor bools = vector_of({0, 1}, DType::kBool);
  expect_tensor(lt(bools, vector_of({1, 1}, DType::kBool)), {2}, {1, 0});
}

TEST(ElementwiseOps, LogicAndBits) {
  const Tensor a = vector_of({0, 0, 1, 1}, DType::kBool), b = vector_of({0, 1, 0, 1}, DType::kBool);
  expect_tensor(logical_and(a, b), {4}, {0, 0, 0, 1});
  expect_tensor(logical_or(a, b), {4}, {0, 1, 1, 1});
  expect_tensor(logical_xor(a, b), {4}, {0, 1, 1, 0});
  expect_tensor(logical_not(a), {4}, {1, 1, 0, 0});
  expect_tensor(logical_and(vector_of({0, 2.5}), vector_of({3, -1})), {2}, {0, 1});
  const Tensor x = vector_of({12, 10, -1}, DType::kI32);
  expect_tensor(bitwise_and(x, 10), {3}, {8, 10, 10});
  expect_tensor(bitwise_or(x, 1), {3}, {13, 11, -1});
  expect_tensor(bitwise_xor(x, 3), {3}, {15, 9, -4});
  expect_tensor(bitwise_not(x), {3}, {-13, -11, 0});
  expect_tensor(bitwise_not(vector_of({1, 255}, DType::kU8)), {2}, {254, 0});
  expect_tensor(bitwise_left_shift(x, 2), {3}, {48, 40, -4});
  expect_tensor(bitwise_right_shift(x, 1), {3}, {6, 5, -1});
}

TEST(ElementwiseOps, WhereAndMaskedFill) {
  const HostTensor condition = host({3}, {1, 0, 1}, DType::kBool);
  expect_op([](const std::vector<Tensor>& x) { return where(x[0], x[1], x[2]); },
            {condition, host({2, 3}, {1, 2, 3, 4, 5, 6}), host({2, 1}, {-1, -2})}, {2, 3}, {1, -1, 3, 4, -2, 6});
  expect_op([](const std::vector<Tensor>& x) { return masked_fill(x[1], x[0], -kInf); },
            {condition, host({3}, {1, 2, 3})}, {3}, {-kInf, 2, -kInf}, {1e-10, 1e-6, false});
  EXPECT_EQ(where(vector_of({1}, DType::kBool), 1, 0).dtype(), DType::kI64);
  EXPECT_EQ(where(vector_of({1}, DType::kBool), 1, 0.5).dtype(), DType::kF32);
}

TEST(ElementwiseOps, Gates) {
  const HostTensor gate = random_host({2, 4}, 5), up = random_host({2, 4}, 6);
  const auto expected = [&](double (*activation)(double)) {
    std::vector<double> values;
    for (size_t i = 0; i < 8; ++i) values.push_back(activation(gate.values[i]) * up.values[i]);
    return values;
  };
  expect_op([](const std::vector<Tensor>& x) { return swiglu(x[0], x[1]); }, {gate, up}, {2, 4},
            expected([](double x) { return x * sigmoid_of(x); }));
  expect_op([](const std::vector<Tensor>& x) { return geglu(x[0], x[1]); }, {gate, up}, {2, 4},
            expected([](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }));
  expect_op([](const std::vector<Tensor>& x) { return reglu(x[0], x[1]); }, {gate, up}, {2, 4},
            expected([](double x) { return std::max(x, 0.0); }));
  expect_op([](const std::vector<Tensor>& x) { return glu(cat({x[1], x[0]}, -1)); }, {gate, up}, {2, 4},
            expected(sigmoid_of));
}

TEST(ElementwiseOps, Promotion) {
  const auto of_dtype = [](DType dtype) { return zeros({2}, dtype); };
  EXPECT_EQ((of_dtype(DType::kBF16) + of_dtype(DType::kF32)).dtype(), DType::kF32);
  EXPECT_EQ((of_dtype(DType::kBF16) + of_dtype(DType::kF16)).dtype(), DType::kF32);
  EXPECT_EQ((of_dtype(DType::kF8E4M3) + of_dtype(DType::kF16)).dtype(), DType::kF16);
  EXPECT_EQ((of_dtype(DType::kI64) + of_dtype(DType::kBF16)).dtype(), DType::kBF16);
  EXPECT_EQ((of_dtype(DType::kU8) + of_dtype(DType::kI32)).dtype(), DType::kI32);
  EXPECT_EQ((of_dtype(DType::kI32) + of_dtype(DType::kI64)).dtype(), DType::kI64);
  EXPECT_EQ((of_dtype(DType::kBool) + of_dtype(DType::kU8)).dtype(), DType::kU8);
  EXPECT_EQ((of_dtype(DType::kI32) + 1).dtype(), DType::kI32);
  EXPECT_EQ((of_dtype(DType::kI32) + 1.0).dtype(), DType::kF32);
  EXPECT_EQ((of_dtype(DType::kBF16) * 0.1).dtype(), DType::kBF16);
  EXPECT_EQ((of_dtype(DType::kI32) / of_dtype(DType::kI32)).dtype(), DType::kF32);
  EXPECT_EQ((of_dtype(DType::kBool) + 1).dtype(), DType::kI64);
  EXPECT_EQ(exp(of_dtype(DType::kI32)).dtype(), DType::kF32);
  EXPECT_EQ(gelu(of_dtype(DType::kBF16)).dtype(), DType::kBF16);
  expect_tensor(vector_of({250, 3}, DType::kU8) + vector_of({10, 300}, DType::kI32), {2}, {260, 303});
}

// A composite of a narrow float is rounded once, at its end.
TEST(ElementwiseOps, NarrowFloatsRoundOnce) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const Tensor x = vector_of({-4.7, 0.3, 5.1}, dtype);
    const std::vector<double> at = x.values(), exps = exp(x).values(), sigmoids = sigmoid(x).values();
    for (size_t i = 0; i < at.size(); ++i) {
      EXPECT_EQ(exps[i], round_to_dtype(dtype, std::exp(at[i])));
      EXPECT_EQ(sigmoids[i], round_to_dtype(dtype, sigmoid_of(at[i])));
    }
  }
}

TEST(ElementwiseOps, Errors) {
  const Tensor a = zeros({2, 3}), b = zeros({4});
  EXPECT_EQ(error_text([&] { add(a, b); }),
            "add: the shapes [2, 3] and [4] do not broadcast: axis 1 from the end has sizes 3 and 4");
  EXPECT_EQ(error_text([&] { add(zeros({2}, DType::kU8), 300); }), "add: 300 does not fit in u8");
  EXPECT_EQ(error_text([&] { add(zeros({2}, DType::kI32), int64_t{1} << 40); }),
            "add: 1099511627776 does not fit in i32");
  EXPECT_EQ(error_text([&] { Operand((int64_t{1} << 53) + 2); }),
            "the integer 9007199254740994 is beyond 2^53, where numbers are no longer exact");
  EXPECT_EQ(error_text([&] { where(a, 1.0, 2.0); }), "where: takes a bool condition; it was given (f32[2, 3])");
  EXPECT_EQ(error_text([&] { bitwise_and(a, a); }),
            "bitwise_and: takes integers or bools; it was given (f32[2, 3], f32[2, 3])");
  EXPECT_EQ(error_text([&] { pow(zeros({2}, DType::kI32), -1); }),
            "pow: an integer to the power of -1 is no integer; it was given (i32[2])");
  EXPECT_EQ(error_text([&] { clamp(a, std::nullopt, std::nullopt); }),
            "clamp: takes a lower bound, an upper bound or both; it was given (f32[2, 3])");
  EXPECT_EQ(error_text([&] { masked_fill(zeros({3}), ones({2, 3}, DType::kBool), 0); }),
            "masked_fill: takes a value and a mask that fit its first argument; it was given (f32[3], bool[2, 3])");
  EXPECT_EQ(error_text([&] { hardtanh(a, 2, 1); }), "hardtanh: 2 is above 1; it was given (f32[2, 3])");
}

}  // namespace
}  // namespace causeway::tensor
