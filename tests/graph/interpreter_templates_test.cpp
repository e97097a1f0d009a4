// Attention and linear cross-entropy in the reference interpreter: against values worked out by hand, against the same
// computation in other ops, and gradients against finite differences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "causeway/base/error.h"
#include "causeway/graph/interpreter.h"
#include "causeway/graph/parser.h"

namespace causeway::graph {
namespace {

constexpr double kMaskedScore = -std::numeric_limits<double>::infinity();

const std::string kScore =
    "score={\n%0 = input \"b\" : i32[]\n%1 = input \"h\" : i32[]\n%2 = input \"i\" : i32[]\n%3 = input \"j\" : i32[]\n"
    "%4 = input \"s\" : f32[]\n%5 = input \"slope\" : f32[H]\n%6 = gather(%5, %1) {axes=[0]} : f32[]\n"
    "%7 = sub(%3, %2) : i32[]\n%8 = cast(%7) : f32[]\n%9 = fma(%6, %8, %4) : f32[]\n%10 = tanh(%9) : f32[]\n"
    "return %10\n}";
// d tanh(s + slope * (j - i)) / d s = 1 - tanh^2
const std::string kScoreGradient =
    "score_gradient={\n%0 = input \"b\" : i32[]\n%1 = input \"h\" : i32[]\n%2 = input \"i\" : i32[]\n"
    "%3 = input \"j\" : i32[]\n%4 = input \"s\" : f32[]\n%5 = input \"slope\" : f32[H]\n"
    "%6 = gather(%5, %1) {axes=[0]} : f32[]\n%7 = sub(%3, %2) : i32[]\n%8 = cast(%7) : f32[]\n"
    "%9 = fma(%6, %8, %4) : f32[]\n%10 = tanh(%9) : f32[]\n%11 = mul(%10, %10) : f32[]\n%12 = constant 1 : f32[]\n"
    "%13 = sub(%12, %11) : f32[]\nreturn %13\n}";
const std::string kCausal =
    "mask={\n%0 = input \"b\" : i32[]\n%1 = input \"h\" : i32[]\n%2 = input \"i\" : i32[]\n%3 = input \"j\" : i32[]\n"
    "%4 = input \"slope\" : f32[H]\n%5 = le(%3, %2) : bool[]\nreturn %5\n}";

TEST(InterpreterAttention, SmallCaseByHand) {
  const Graph graph = parse_graph(
      "%0 = input \"q\" : f32[1, 1, 1, 1]\n%1 = input \"k\" : f32[1, 2, 1, 1]\n%2 = input \"v\" : f32[1, 2, 1, 1]\n"
      "%3:2 = attention(%0, %1, %2) {scale=0.5} : f32[1, 1, 1, 1], f32[1, 1, 1]\nreturn %3, %3.1\n");
  const std::vector<HostTensor> result = interpret(
      graph, {make_host_tensor(DType::kF32, {1, 1, 1, 1}, {2}), make_host_tensor(DType::kF32, {1, 2, 1, 1}, {1, 3}),
              make_host_tensor(DType::kF32, {1, 2, 1, 1}, {10, 20})});
  const double e1 = std::exp(1.0), e3 = std::exp(3.0);
  EXPECT_NEAR(result[0].values[0], (10 * e1 + 20 * e3) / (e1 + e3), 1e-12);
  EXPECT_NEAR(result[1].values[0], std::log(e1 + e3), 1e-12);
}

TEST(InterpreterAttention, RowsThatAttendToNothingAreZero) {
  const Graph graph = parse_graph(
      "%0 = input \"q\" : f32[1, 2, 1, 1]\n%1 = input \"k\" : f32[1, 2, 1, 1]\n%2 = input \"v\" : f32[1, 2, 1, 1]\n"
      "%3:2 = attention(%0, %1, %2) {mask={\n%0 = input \"b\" : i32[]\n%1 = input \"h\" : i32[]\n"
      "%2 = input \"i\" : i32[]\n%3 = input \"j\" : i32[]\n%4 = lt(%3, %2) : bool[]\nreturn %4\n}} "
      ": f32[1, 2, 1, 1], f32[1, 1, 2]\nreturn %3, %3.1\n");
  const std::vector<HostTensor> result =
      interpret(graph, {fill_host_tensor(DType::kF32, {1, 2, 1, 1}, 1), fill_host_tensor(DType::kF32, {1, 2, 1, 1}, 1),
                        make_host_tensor(DType::kF32, {1, 2, 1, 1}, {5, 6})});
  EXPECT_EQ(result[0].values, (std::vector<double>{0, 5}));
  EXPECT_EQ(result[1].values, (std::vector<double>{kMaskedScore, 1}));
}

// GQA, a captured tensor, a score and a mask, T != S is exercised by the sizes.
struct Problem {
  int64_t B = 2, T = 3, S = 4, H = 4, Hk = 2, D = 3;
  HostTensor q = random_host_tensor(DType::kF32, {B, T, H, D}, 1),
             k = random_host_tensor(DType::kF32, {B, S, Hk, D}, 2),
             v = random_host_tensor(DType::kF32, {B, S, Hk, D}, 3),
             slope = random_host_tensor(DType::kF32, {H}, 4, 0, 0.3);

  static std::string header() {
    return "%0 = input \"q\" : f32[2, 3, 4, 3]\n%1 = input \"k\" : f32[2, 4, 2, 3]\n%2 = input \"v\" : f32[2, 4, 2, "
           "3]\n";
  }
  static Graph text(std::string body) {
    for (size_t at = 0; (at = body.find("[H]")) != std::string::npos;) body.replace(at, 3, "[4]");
    return parse_graph(body);
  }
  static Graph forward() {
    return text(header() + "%3 = input \"slope\" : f32[H]\n%4:2 = attention(%0, %1, %2, %3) {scale=0.7,\n" + kScore +
                ",\n" + kCausal + "} : f32[2, 3, 4, 3], f32[2, 4, 3]\nreturn %4, %4.1\n");
  }
  static Graph backward() {
    return text(header() +
                "%3 = input \"dout\" : f32[2, 3, 4, 3]\n%4 = input \"lse\" : f32[2, 4, 3]\n"
                "%5 = input \"delta\" : f32[2, 4, 3]\n%6 = input \"slope\" : f32[H]\n"
                "%7:3 = attention_gradient(%0, %1, %2, %3, %4, %5, %6) {scale=0.7,\n" +
                kScore + ",\n" + kScoreGradient + ",\n" + kCausal +
                "} : f32[2, 3, 4, 3], f32[2, 4, 2, 3], f32[2, 4, 2, 3]\nreturn %7, %7.1, %7.2\n");
  }
  std::vector<HostTensor> run() const { return interpret(forward(), {q, k, v, slope}); }
};

TEST(InterpreterAttention, MatchesDirectLoops) {
  const Problem p;
  const std::vector<HostTensor> result = p.run();
  for (int64_t b = 0; b < p.B; ++b)
    for (int64_t h = 0; h < p.H; ++h)
      for (int64_t i = 0; i < p.T; ++i) {
        double total = 0;
        std::vector<double> out(3, 0);
        for (int64_t j = 0; j <= i; ++j) {
          double s = 0;
          for (int64_t d = 0; d < p.D; ++d)
            s += p.q.values[((b * p.T + i) * p.H + h) * p.D + d] * p.k.values[((b * p.S + j) * p.Hk + h / 2) * p.D + d];
          const double weight = std::exp(std::tanh(0.7 * s + p.slope.values[h] * static_cast<double>(j - i)));
          total += weight;
          for (int64_t d = 0; d < p.D; ++d) out[d] += weight * p.v.values[((b * p.S + j) * p.Hk + h / 2) * p.D + d];
        }
        EXPECT_NEAR(result[1].values[(b * p.H + h) * p.T + i], std::log(total), 1e-12);
        for (int64_t d = 0; d < p.D; ++d)
          EXPECT_NEAR(result[0].values[((b * p.T + i) * p.H + h) * p.D + d], out[d] / total, 1e-12);
      }
}

// L = sum(out * dout) + sum(lse * dlse)
TEST(InterpreterAttention, GradientMatchesFiniteDifferences) {
  Problem p;
  const HostTensor dout = random_host_tensor(DType::kF32, p.q.shape, 5);
  const HostTensor dlse = random_host_tensor(DType::kF32, {p.B, p.H, p.T}, 6);
  const auto loss = [&] {
    const std::vector<HostTensor> result = p.run();
    double sum = 0;
    for (size_t i = 0; i < dout.values.size(); ++i) sum += result[0].values[i] * dout.values[i];
    for (size_t i = 0; i < dlse.values.size(); ++i) sum += result[1].values[i] * dlse.values[i];
    return sum;
  };
  const std::vector<HostTensor> forward = p.run();
  HostTensor delta = dlse;
  for (int64_t b = 0; b < p.B; ++b)
    for (int64_t h = 0; h < p.H; ++h)
      for (int64_t i = 0; i < p.T; ++i) {
        double sum = 0;
        for (int64_t d = 0; d < p.D; ++d) {
          const auto at = static_cast<size_t>(((b * p.T + i) * p.H + h) * p.D + d);
          sum += forward[0].values[at] * dout.values[at];
        }
        double& value = delta.values[static_cast<size_t>((b * p.H + h) * p.T + i)];
        value = sum - value;
      }
  const std::vector<HostTensor> gradients =
      interpret(Problem::backward(), {p.q, p.k, p.v, dout, forward[1], delta, p.slope});
  HostTensor* const inputs[] = {&p.q, &p.k, &p.v};
  for (size_t n = 0; n < 3; ++n)
    for (size_t i = 0; i < inputs[n]->values.size(); ++i) {
      const double at = inputs[n]->values[i], step = 1e-5;
      inputs[n]->values[i] = at + step;
      const double above = loss();
      inputs[n]->values[i] = at - step;
      const double below = loss();
      inputs[n]->values[i] = at;
      ASSERT_NEAR(gradients[n].values[i], (above - below) / (2 * step), 1e-8) << "input " << n << " element " << i;
    }
}

TEST(InterpreterAttention, BlockMap) {
  const std::string mask =
      "mask={\n%0 = input \"b\" : i32[]\n%1 = input \"h\" : i32[]\n%2 = input \"i\" : i32[]\n%3 = input \"j\" : i32[]\n"
      "%4 = input \"documents\" : i32[2, 5]\n%5 = gather(%4, %0) {axes=[0]} : i32[5]\n"
      "%6 = gather(%5, %2) {axes=[0]} : i32[]\n%7 = gather(%5, %3) {axes=[0]} : i32[]\n%8 = eq(%6, %7) : bool[]\n"
      "%9 = le(%3, %2) : bool[]\n%10 = and(%8, %9) : bool[]\nreturn %10\n}";
  const Graph graph = parse_graph(
      "%0 = input \"documents\" : i32[2, 5]\n%1 = attention_block_map(%0) {shape=[2, 4, 5, 5], block_q=2, "
      "block_k=2,\n" +
      mask + "} : u8[2, 1, 3, 3]\nreturn %1\n");
  const std::vector<HostTensor> result =
      interpret(graph, {make_host_tensor(DType::kI32, {2, 5}, {0, 0, 0, 0, 0, 0, 0, 1, 1, 1})});
  EXPECT_EQ(result[0].values, (std::vector<double>{1, 0, 0, 2, 1, 0, 2, 2, 2,  //
                                                   1, 0, 0, 0, 1, 0, 0, 2, 2}));
}

TEST(InterpreterAttention, ABlockMapChangesNothing) {
  const Graph graph = parse_graph(
      "%0 = input \"q\" : f32[1, 2, 1, 1]\n%1 = input \"k\" : f32[1, 2, 1, 1]\n%2 = input \"v\" : f32[1, 2, 1, 1]\n"
      "%3 = constant 0 : u8[1, 1, 1, 1]\n%4:2 = attention(%0, %1, %2, %3) {block_map} : f32[1, 2, 1, 1], f32[1, 1, 2]\n"
      "return %4\n");
  const std::vector<HostTensor> result =
      interpret(graph, {fill_host_tensor(DType::kF32, {1, 2, 1, 1}, 0), fill_host_tensor(DType::kF32, {1, 2, 1, 1}, 1),
                        make_host_tensor(DType::kF32, {1, 2, 1, 1}, {4, 6})});
  EXPECT_EQ(result[0].values, (std::vector<double>{5, 5}));
}

const char* const kCrossEntropy =
    "%0 = input \"x\" : f32[4, 3]\n%1 = input \"w\" : f32[5, 3]\n%2 = input \"t\" : i32[4]\n%3 = input \"m\" : f32[4]\n"
    "%4:4 = linear_cross_entropy(%0, %1, %2, %3) : f32[], f32[4, 3], f32[5, 3], f32[4]\nreturn %4, %4.1, %4.2, %4.3\n";

TEST(InterpreterCrossEntropy, LossAndGradients) {
  const Graph graph = parse_graph(kCrossEntropy);
  std::vector<HostTensor> inputs = {
      random_host_tensor(DType::kF32, {4, 3}, 1), random_host_tensor(DType::kF32, {5, 3}, 2),
      make_host_tensor(DType::kI32, {4}, {3, -1, 0, 4}), make_host_tensor(DType::kF32, {4}, {1, 1, 0.5, 2})};
  const std::vector<HostTensor> result = interpret(graph, inputs);
  double expected = 0;
  for (size_t i = 0; i < 4; ++i) {
    if (inputs[2].values[i] < 0) continue;
    double total = 0, target = 0;
    for (size_t v = 0; v < 5; ++v) {
      double logit = 0;
      for (size_t c = 0; c < 3; ++c) logit += inputs[0].values[i * 3 + c] * inputs[1].values[v * 3 + c];
      total += std::exp(logit);
      if (static_cast<double>(v) == inputs[2].values[i]) target = logit;
    }
    const double term = inputs[3].values[i] * (std::log(total) - target);
    EXPECT_NEAR(result[3].values[i], term, 1e-12) << i;
    expected += term;
  }
  EXPECT_EQ(result[3].values[1], 0);  // the ignored token's
  EXPECT_NEAR(result[0].values[0], expected, 1e-12);
  for (size_t n = 0; n < 2; ++n)
    for (size_t i = 0; i < inputs[n].values.size(); ++i) {
      const double at = inputs[n].values[i], step = 1e-5;
      inputs[n].values[i] = at + step;
      const double above = interpret(graph, inputs)[0].values[0];
      inputs[n].values[i] = at - step;
      const double below = interpret(graph, inputs)[0].values[0];
      inputs[n].values[i] = at;
      ASSERT_NEAR(result[n + 1].values[i], (above - below) / (2 * step), 1e-8);
    }
  for (size_t c = 0; c < 3; ++c) EXPECT_EQ(result[1].values[3 + c], 0);  // the ignored token
}

TEST(InterpreterCrossEntropy, ATargetBeyondTheVocabularyIsAnError) {
  try {
    interpret(parse_graph(kCrossEntropy),
              {fill_host_tensor(DType::kF32, {4, 3}, 0), fill_host_tensor(DType::kF32, {5, 3}, 0),
               make_host_tensor(DType::kI32, {4}, {0, 0, 5, 0}), fill_host_tensor(DType::kF32, {4}, 1)});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "linear_cross_entropy was given target 5 at token 2 but 5 classes");
  }
}

}  // namespace
}  // namespace causeway::graph
