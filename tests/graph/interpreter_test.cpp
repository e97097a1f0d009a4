// Each op against values worked out by hand.
#include "causeway/graph/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "causeway/base/error.h"
#include "causeway/graph/parser.h"
#include "causeway/graph/philox.h"

namespace causeway::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;
using Numbers = std::vector<double>;

constexpr double kInfiniteValue = std::numeric_limits<double>::infinity();
const double kNanValue = std::nan("");

// The outputs of a graph given as text; inputs take their type and shape from it.
std::vector<HostTensor> run(const std::string& text, const std::vector<Numbers>& inputs,
                            Rounding rounding = Rounding::kExact, const SymbolBindings& bindings = {}) {
  const Graph graph = parse_graph(text);
  std::vector<HostTensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorType& type = graph.type(graph.inputs()[i]);
    tensors.push_back(make_host_tensor(type.dtype, evaluate(type.shape, bindings), inputs[i]));
  }
  return interpret(graph, tensors, bindings, rounding);
}

// One node with inputs of the given types.
HostTensor apply(const std::string& node, const std::vector<std::string>& types, const std::vector<Numbers>& inputs,
                 const std::string& result, Rounding rounding = Rounding::kExact) {
  std::string text, arguments;
  for (size_t i = 0; i < types.size(); ++i) {
    text += fmt::format("%{} = input \"x{}\" : {}\n", i, i, types[i]);
    arguments += fmt::format("{}%{}", i == 0 ? "" : ", ", i);
  }
  const size_t brace = node.find('{');
  text += fmt::format("%{} = {}({}) {} : {}\nreturn %{}\n", types.size(), node.substr(0, brace), arguments,
                      brace == std::string::npos ? "" : node.substr(brace), result, types.size());
  return run(text, inputs, rounding).at(0);
}

Numbers unary(const std::string& op, const Numbers& x, const std::string& dtype = "f32") {
  const std::string type = fmt::format("{}[{}]", dtype, x.size());
  return apply(op, {type}, {x}, type).values;
}

Numbers binary(const std::string& op, const Numbers& x, const Numbers& y, const std::string& dtype = "f32",
               const std::string& result = "") {
  const std::string shape = fmt::format("[{}]", x.size());
  return apply(op, {dtype + shape, dtype + shape}, {x, y}, (result.empty() ? dtype : result) + shape).values;
}

MATCHER(SameNumber, "") {  // NOLINT(readability-identifier-naming): matchers are named so
  const double a = std::get<0>(arg), b = std::get<1>(arg);
  return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 1e-15 * std::abs(b);
}
auto are(const Numbers& values) { return Pointwise(SameNumber(), values); }

TEST(Interpreter, UnaryFloats) {
  EXPECT_THAT(unary("neg", {1.5, -0.0, kInfiniteValue}), are({-1.5, 0, -kInfiniteValue}));
  EXPECT_THAT(unary("abs", {-1.5, 2, -kInfiniteValue, kNanValue}), are({1.5, 2, kInfiniteValue, kNanValue}));
  EXPECT_THAT(unary("exp2", {0, 3, -1, -kInfiniteValue}), are({1, 8, 0.5, 0}));
  EXPECT_THAT(unary("log2", {8, 1, 0, -1}), are({3, 0, -kInfiniteValue, kNanValue}));
  EXPECT_THAT(unary("sin", {0, 1}), are({0, 0.8414709848078965}));
  EXPECT_THAT(unary("cos", {0, 1}), are({1, 0.5403023058681398}));
  EXPECT_THAT(unary("sqrt", {9, 2, -1}), are({3, 1.4142135623730951, kNanValue}));
  EXPECT_THAT(unary("rsqrt", {4, 0}), are({0.5, kInfiniteValue}));
  EXPECT_THAT(unary("recip", {4, -0.5, 0}), are({0.25, -2, kInfiniteValue}));
  EXPECT_THAT(unary("tanh", {0, 0.5, 100}), are({0, 0.46211715726000973, 1}));
  EXPECT_THAT(unary("erf", {0, 0.5, -10}), are({0, 0.5204998778130465, -1}));
  EXPECT_THAT(unary("floor", {1.9, -1.1, 3}), are({1, -2, 3}));
}

TEST(Interpreter, UnaryIntegersWrap) {
  EXPECT_THAT(unary("neg", {5, -2147483648.0}, "i32"), are({-5, -2147483648.0}));
  EXPECT_THAT(unary("abs", {-5, -2147483648.0}, "i32"), are({5, -2147483648.0}));
  EXPECT_THAT(unary("neg", {1, 0}, "u8"), are({255, 0}));
}

TEST(Interpreter, BinaryFloats) {
  EXPECT_THAT(binary("add", {1, 2}, {0.5, -2}), are({1.5, 0}));
  EXPECT_THAT(binary("sub", {1, 2}, {0.5, -2}), are({0.5, 4}));
  EXPECT_THAT(binary("mul", {3, -2}, {0.5, -2}), are({1.5, 4}));
  EXPECT_THAT(binary("div", {1, -1, 0}, {4, 0, 0}), are({0.25, -kInfiniteValue, kNanValue}));
  EXPECT_THAT(binary("rem", {5.5, -5.5, 1}, {2, 2, 0}), are({1.5, -1.5, kNanValue}));
  EXPECT_THAT(binary("pow", {2, 4, -2, 0}, {10, 0.5, 3, 0}), are({1024, 2, -8, 1}));
  EXPECT_THAT(binary("max", {1, kNanValue, 2, -kInfiniteValue}, {2, 1, kNanValue, 0}),
              are({2, kNanValue, kNanValue, 0}));
  EXPECT_THAT(binary("min", {1, kNanValue, 2, -kInfiniteValue}, {2, 1, kNanValue, 0}),
              are({1, kNanValue, kNanValue, -kInfiniteValue}));
}

TEST(Interpreter, BinaryIntegersWrapAsTheirDType) {
  const double largest = 2147483647, smallest = -2147483648.0;
  EXPECT_THAT(binary("add", {largest, 1}, {1, 2}, "i32"), are({smallest, 3}));
  EXPECT_THAT(binary("sub", {smallest, 1}, {1, 2}, "i32"), are({largest, -1}));
  EXPECT_THAT(binary("mul", {65536, 123456789}, {65536, 987654321}, "i32"),
              are({0, static_cast<int32_t>(123456789u * 987654321u)}));
  EXPECT_THAT(binary("add", {250, 3}, {10, 4}, "u8"), are({4, 7}));
  EXPECT_THAT(binary("sub", {3, 3}, {4, 3}, "u8"), are({255, 0}));
  EXPECT_THAT(binary("div", {7, -7, smallest, 5}, {2, 2, -1, 0}, "i32"), are({3, -3, smallest, 0}));
  EXPECT_THAT(binary("rem", {7, -7, smallest, 5}, {2, 2, -1, 0}, "i32"), are({1, -1, 0, 0}));
  EXPECT_THAT(binary("max", {-1, 5}, {3, 2}, "i64"), are({3, 5}));
  EXPECT_THAT(binary("min", {-1, 5}, {3, 2}, "i64"), are({-1, 2}));
  EXPECT_THAT(binary("and", {12, -1}, {10, 7}, "i32"), are({8, 7}));
  EXPECT_THAT(binary("or", {12, -8}, {10, 7}, "i32"), are({14, -1}));
  EXPECT_THAT(binary("xor", {12, -1}, {10, 7}, "i32"), are({6, -8}));
  EXPECT_THAT(binary("shl", {1, 3, 1}, {31, 4, 32}, "i32"), are({smallest, 48, 1}));
  EXPECT_THAT(binary("shr", {-8, 8, -1}, {1, 2, 31}, "i32"), are({-4, 2, -1}));
  EXPECT_THAT(binary("shr", {200, 255}, {1, 7}, "u8"), are({100, 1}));
  EXPECT_THAT(binary("xor", {0, 1, 1}, {0, 0, 1}, "bool"), are({0, 1, 0}));
}

TEST(Interpreter, ComparisonsAreFalseForNan) {
  EXPECT_THAT(binary("lt", {1, 2, kNanValue}, {2, 2, 1}, "f32", "bool"), are({1, 0, 0}));
  EXPECT_THAT(binary("le", {1, 2, kNanValue}, {2, 2, kNanValue}, "f32", "bool"), are({1, 1, 0}));
  EXPECT_THAT(binary("eq", {1, 2, kNanValue}, {2, 2, kNanValue}, "f32", "bool"), are({0, 1, 0}));
  EXPECT_THAT(binary("lt", {-1, 2}, {1, 2}, "i32", "bool"), are({1, 0}));
}

TEST(Interpreter, SelectAndFma) {
  EXPECT_THAT(
      apply("select", {"bool[3]", "f32[3]", "f32[3]"}, {{1, 0, 1}, {1, 2, 3}, {4, kNanValue, 6}}, "f32[3]").values,
      are({1, kNanValue, 3}));
  EXPECT_THAT(apply("fma", {"f32[2]", "f32[2]", "f32[2]"}, {{2, 3}, {4, 5}, {-1, 0.5}}, "f32[2]").values,
              are({7, 15.5}));
}

TEST(Interpreter, CastRoundsFloatsOnlyWhenAskedTo) {
  const Numbers x = {1.00390625, 3.7, -3.7, kNanValue};
  EXPECT_THAT(apply("cast", {"f32[4]"}, {x}, "bf16[4]").values, are(x));
  EXPECT_THAT(apply("cast", {"f32[4]"}, {x}, "bf16[4]", Rounding::kRounded).values,
              are({1, 3.703125, -3.703125, kNanValue}));
  EXPECT_THAT(apply("cast", {"f32[4]"}, {x}, "i32[4]").values, are({1, 3, -3, 0}));
  EXPECT_THAT(apply("cast", {"f32[4]"}, {{0, -0.0, 0.1, kNanValue}}, "bool[4]").values, are({0, 0, 1, 1}));
  EXPECT_THAT(apply("cast", {"i32[3]"}, {{300, -5, 7}}, "u8[3]").values, are({255, 0, 7}));
  EXPECT_THAT(apply("cast", {"i32[2]"}, {{16777217, 3}}, "f32[2]").values, are({16777217, 3}));
  EXPECT_THAT(apply("cast", {"i32[2]"}, {{16777217, 3}}, "f32[2]", Rounding::kRounded).values, are({16777216, 3}));
}

TEST(Interpreter, EachNodeIsRoundedInRoundedMode) {
  const std::string text =
      "%0 = input \"x\" : bf16[2]\n%1 = constant 0.1 : bf16[2]\n%2 = mul(%0, %1) : bf16[2]\n"
      "%3 = add(%2, %2) : bf16[2]\nreturn %1, %3\n";
  const std::vector<HostTensor> exact = run(text, {{3, 5}});
  EXPECT_THAT(exact[0].values, are({0.1, 0.1}));
  EXPECT_THAT(exact[1].values, are({0.6000000000000001, 1}));
  const std::vector<HostTensor> rounded = run(text, {{3, 5}}, Rounding::kRounded);
  EXPECT_THAT(rounded[0].values, are({0.10009765625, 0.10009765625}));
  EXPECT_THAT(rounded[1].values, are({0.6015625, 1}));
}

TEST(Interpreter, Bitcast) {
  EXPECT_THAT(apply("bitcast", {"f32[2]"}, {{1, -2}}, "i32[2]").values, are({0x3f800000, -1073741824.0}));
  EXPECT_THAT(apply("bitcast", {"i32[1]"}, {{0x40490fdb}}, "f32[1]").values, are({3.1415927410125732}));
  EXPECT_THAT(apply("bitcast", {"u8[2]"}, {{0x38, 0x7e}}, "f8e4m3[2]").values, are({1, 448}));
}

TEST(Interpreter, Sources) {
  EXPECT_THAT(
      run("%0 = constant 2.75 : f32[2]\n%1 = constant 2.75 : i32[1]\n%2 = constant 3 : bool[1]\n"
          "return %0, %1, %2\n",
          {}),
      ElementsAre(testing::Field(&HostTensor::values, are({2.75, 2.75})), testing::Field(&HostTensor::values, are({2})),
                  testing::Field(&HostTensor::values, are({1}))));
  EXPECT_THAT(run("%0 = iota {axes=[0]} : i32[2, 3]\n%1 = iota {axes=[1]} : f32[2, 3]\nreturn %0, %1\n", {}),
              ElementsAre(testing::Field(&HostTensor::values, are({0, 0, 0, 1, 1, 1})),
                          testing::Field(&HostTensor::values, are({0, 1, 2, 0, 1, 2}))));
  EXPECT_EQ(run("%0 = iota {axes=[0]} : u8[258]\nreturn %0\n", {})[0].values[257], 1);
}

// The known answers that Random123 publishes for philox4x32-10.
TEST(Interpreter, PhiloxKnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox_4x32_10({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox_4x32_10({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox_4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Interpreter, RandomBitsAreKeyedBySeedStreamAndStep) {
  const Numbers bits = apply("random_bits{stream=7}", {"i64[2]"}, {{0x123456789abc, 0x1000000ff}}, "i32[2, 2]").values;
  for (uint32_t i = 0; i < 4; ++i)
    EXPECT_EQ(bits[i], static_cast<int32_t>(philox_4x32_10({i, 0, 7, 0xff}, {0x56789abc, 0x1234})[0]));
  EXPECT_EQ(apply("random_bits", {"i64[2]"}, {{0, 0}}, "i32[1]").values[0], 0x6627e8d5);
}

TEST(Interpreter, Reductions) {
  const Numbers x = {1, 2, 3, 4, 5, 6};
  EXPECT_THAT(apply("reduce_sum{axes=[1]}", {"f32[2, 3]"}, {x}, "f32[2]").values, are({6, 15}));
  EXPECT_THAT(apply("reduce_sum{axes=[0]}", {"f32[2, 3]"}, {x}, "f32[3]").values, are({5, 7, 9}));
  EXPECT_THAT(apply("reduce_sum{axes=[0, 1]}", {"f32[2, 3]"}, {x}, "f32[]").values, are({21}));
  EXPECT_THAT(apply("reduce_sum{axes=[0, 2]}", {"f32[2, 1, 3]"}, {x}, "f32[1]").values, are({21}));
  EXPECT_THAT(apply("reduce_max{axes=[1]}", {"f32[2, 3]"}, {{1, kNanValue, 3, -4, -5, -6}}, "f32[2]").values,
              are({kNanValue, -4}));
  EXPECT_THAT(apply("reduce_max{axes=[0]}", {"f32[0, 2]"}, {{}}, "f32[2]").values,
              are({-kInfiniteValue, -kInfiniteValue}));
  EXPECT_THAT(apply("reduce_max{axes=[0]}", {"i32[0]"}, {{}}, "i32[]").values, are({-2147483648.0}));
  EXPECT_THAT(apply("reduce_sum{axes=[0]}", {"i32[3]"}, {{2147483647, 1, 5}}, "i32[]").values, are({-2147483643}));
  EXPECT_THAT(apply("reduce_sum{axes=[0]}", {"u8[3]"}, {{200, 100, 5}}, "u8[]").values, are({49}));
  // A bf16 sum is rounded once, at its end.
  EXPECT_THAT(apply("reduce_sum{axes=[0]}", {"bf16[512]"}, {Numbers(512, 1)}, "bf16[]", Rounding::kRounded).values,
              are({512}));
}

TEST(Interpreter, ArgmaxTakesTheFirst) {
  EXPECT_THAT(apply("argmax{axes=[1]}", {"f32[3, 3]"}, {{1, 3, 3, 5, 5, 1, 0, kNanValue, 9}}, "i32[3]").values,
              are({1, 0, 1}));
  EXPECT_THAT(apply("argmax{axes=[0]}", {"f32[2, 2]"}, {{1, 3, 2, 3}}, "i32[2]").values, are({1, 0}));
}

TEST(Interpreter, Cumsum) {
  EXPECT_THAT(apply("cumsum{axes=[1]}", {"f32[2, 3]"}, {{1, 2, 3, 4, 5, 6}}, "f32[2, 3]").values,
              are({1, 3, 6, 4, 9, 15}));
  EXPECT_THAT(apply("cumsum{axes=[0]}", {"f32[2, 3]"}, {{1, 2, 3, 4, 5, 6}}, "f32[2, 3]").values,
              are({1, 2, 3, 5, 7, 9}));
  EXPECT_THAT(apply("cumsum{axes=[0]}", {"u8[3]"}, {{200, 100, 5}}, "u8[3]").values, are({200, 44, 49}));
}

TEST(Interpreter, Movement) {
  const Numbers x = {1, 2, 3, 4, 5, 6};
  EXPECT_THAT(apply("reshape", {"f32[2, 3]"}, {x}, "f32[3, 2]").values, are(x));
  EXPECT_THAT(apply("permute{axes=[1, 0]}", {"f32[2, 3]"}, {x}, "f32[3, 2]").values, are({1, 4, 2, 5, 3, 6}));
  EXPECT_THAT(apply("permute{axes=[2, 0, 1]}", {"f32[1, 2, 3]"}, {x}, "f32[3, 1, 2]").values, are({1, 4, 2, 5, 3, 6}));
  EXPECT_THAT(apply("broadcast{axes=[1]}", {"f32[3]"}, {{1, 2, 3}}, "f32[2, 3]").values, are({1, 2, 3, 1, 2, 3}));
  EXPECT_THAT(apply("broadcast{axes=[0, 1]}", {"f32[2, 1]"}, {{1, 2}}, "f32[2, 3]").values, are({1, 1, 1, 2, 2, 2}));
  EXPECT_THAT(apply("broadcast", {"f32[]"}, {{7}}, "f32[2]").values, are({7, 7}));
  EXPECT_THAT(apply("slice{start=[0, 1], limit=[2, 3], strides=[1, 1]}", {"f32[2, 3]"}, {x}, "f32[2, 2]").values,
              are({2, 3, 5, 6}));
  EXPECT_THAT(apply("slice{start=[1], limit=[6], strides=[2]}", {"f32[6]"}, {x}, "f32[3]").values, are({2, 4, 6}));
  EXPECT_THAT(apply("pad{start=[1, 0], limit=[0, 1], value=-1}", {"f32[1, 2]"}, {{1, 2}}, "f32[2, 3]").values,
              are({-1, -1, -1, 1, 2, -1}));
  EXPECT_THAT(apply("concat{axes=[1]}", {"f32[2, 1]", "f32[2, 2]"}, {{1, 2}, {3, 4, 5, 6}}, "f32[2, 3]").values,
              are({1, 3, 4, 2, 5, 6}));
  EXPECT_THAT(apply("slice{start=[0], limit=[0], strides=[1]}", {"f32[6]"}, {x}, "f32[0]").values, are({}));
}

TEST(Interpreter, GatherClampsAndScatterIgnores) {
  const Numbers x = {1, 2, 3, 4, 5, 6};
  EXPECT_THAT(apply("gather{axes=[0]}", {"f32[3, 2]", "i32[4]"}, {x, {2, 0, -5, 9}}, "f32[4, 2]").values,
              are({5, 6, 1, 2, 1, 2, 5, 6}));
  EXPECT_THAT(apply("gather{axes=[1]}", {"f32[3, 2]", "i64[1, 2]"}, {x, {1, 0}}, "f32[3, 1, 2]").values,
              are({2, 1, 4, 3, 6, 5}));
  EXPECT_THAT(apply("gather{axes=[0]}", {"f32[3]", "i32[]"}, {{1, 2, 3}, {1}}, "f32[]").values, are({2}));
  EXPECT_THAT(apply("scatter_add{axes=[0]}", {"f32[3, 2]", "i32[4]", "f32[4, 2]"},
                    {x, {1, 1, -1, 3}, {10, 20, 100, 200, 7, 7, 7, 7}}, "f32[3, 2]")
                  .values,
              are({1, 2, 113, 224, 5, 6}));
  EXPECT_THAT(apply("scatter_add{axes=[0], replaces}", {"f32[3, 2]", "i32[4]", "f32[4, 2]"},
                    {x, {1, 1, -1, 3}, {10, 20, 100, 200, 7, 7, 7, 7}}, "f32[3, 2]")
                  .values,
              are({1, 2, 110, 220, 5, 6}));
  EXPECT_THAT(
      apply("scatter_add{axes=[1]}", {"u8[1, 2]", "i32[1]", "u8[1, 1]"}, {{250, 1}, {0}, {10}}, "u8[1, 2]").values,
      are({4, 1}));
}

TEST(Interpreter, TopkOrdersTiesByIndex) {
  const std::vector<HostTensor> result =
      run("%0 = input \"x\" : f32[2, 4]\n%1:2 = topk(%0) {count=3} : f32[2, 3], i32[2, 3]\nreturn %1, %1.1\n",
          {{1, 3, 3, 2, -1, kNanValue, -3, 0}});
  EXPECT_THAT(result[0].values, are({3, 3, 2, kNanValue, 0, -1}));
  EXPECT_THAT(result[1].values, are({1, 2, 3, 1, 3, 0}));
}

TEST(Interpreter, DotInAllTransposes) {
  const Numbers a = {1, 2, 3, 4, 5, 6}, at = {1, 4, 2, 5, 3, 6};    // [2, 3] and its transpose
  const Numbers b = {1, 0, 2, -1, 1, 3}, bt = {1, 2, 1, 0, -1, 3};  // [3, 2] and its transpose
  const Numbers c = {8, 7, 20, 13};
  EXPECT_THAT(apply("dot", {"f32[2, 3]", "f32[3, 2]"}, {a, b}, "f32[2, 2]").values, are(c));
  EXPECT_THAT(apply("dot{transpose_a}", {"f32[3, 2]", "f32[3, 2]"}, {at, b}, "f32[2, 2]").values, are(c));
  EXPECT_THAT(apply("dot{transpose_b}", {"f32[2, 3]", "f32[2, 3]"}, {a, bt}, "f32[2, 2]").values, are(c));
  EXPECT_THAT(apply("dot{transpose_a, transpose_b}", {"f32[3, 2]", "f32[2, 3]"}, {at, bt}, "f32[2, 2]").values, are(c));
  EXPECT_THAT(apply("dot", {"bf16[2, 1, 2]", "bf16[2, 2, 1]"}, {{1, 2, 3, 4}, {1, 1, 2, 2}}, "f32[2, 1, 1]").values,
              are({3, 14}));
}

TEST(Interpreter, BlocksOfAScaledDotHaveScales) {
  const Graph graph = parse_graph(R"(%0 = input "a" : f8e4m3[2, 256]
%1 = input "b" : f8e4m3[128, 256]
%2 = input "scales of a" : f32[2, 2]
%3 = input "scales of b" : f32[2, 1]
%4 = scaled_dot(%0, %1, %2, %3) {dtype=f32} : f32[2, 128]
return %4)");
  // Ones, and twos in the second line of a.
  std::vector<double> a(512, 1.0), b(size_t{128} * 256, 1.0);
  std::fill(a.begin() + 256, a.end(), 2.0);
  const std::vector<HostTensor> result =
      interpret(graph, {make_host_tensor(DType::kF8E4M3, {2, 256}, a), make_host_tensor(DType::kF8E4M3, {128, 256}, b),
                        make_host_tensor(DType::kF32, {2, 2}, {1, 10, 100, 1000}),
                        make_host_tensor(DType::kF32, {2, 1}, {1, 3})});
  EXPECT_EQ(result[0].values.front(), 128 * (1 * 1 + 100 * 3));
  EXPECT_EQ(result[0].values.back(), 2 * 128 * (10 * 1 + 1000 * 3));
}

// Against a plain loop over rows: of what offsets say, each row's group. Rows of no group are no numbers.
TEST(Interpreter, GroupedDotsMultiplyEachRowByItsGroupsMatrix) {
  constexpr int64_t kSlabs = 2, kRows = 7, kGroups = 4, kWidth = 3, kColumns = 5;
  const std::vector<std::vector<double>> offsets = {{0, 0, 2, 2, 6}, {0, 3, 3, 5, 7}};
  HostTensor a = random_host_tensor(DType::kF32, {kSlabs, kRows, kWidth}, 1);
  HostTensor g = random_host_tensor(DType::kF32, {kSlabs, kRows, kColumns}, 2);
  const HostTensor b = random_host_tensor(DType::kF32, {kGroups, kWidth, kColumns}, 3);
  HostTensor transposed = random_host_tensor(DType::kF32, {kGroups, kColumns, kWidth}, 4);
  std::vector<double> rows(kSlabs * kRows * kColumns), sums(kGroups * kWidth * kColumns);
  for (int64_t slab = 0; slab < kSlabs; ++slab)
    for (int64_t row = 0; row < kRows; ++row) {
      const std::vector<double>& line = offsets[static_cast<size_t>(slab)];
      int64_t group = 0;
      while (group < kGroups && static_cast<double>(row) >= line[static_cast<size_t>(group) + 1]) ++group;
      for (int64_t i = 0; i < kWidth; ++i)
        for (int64_t j = 0; j < kColumns; ++j) {
          const auto left = static_cast<size_t>((slab * kRows + row) * kWidth + i);
          const auto right = static_cast<size_t>((slab * kRows + row) * kColumns + j);
          if (group == kGroups) {
            a.values[left] = g.values[right] = std::numeric_limits<double>::quiet_NaN();
            continue;
          }
          const auto in_matrix = static_cast<size_t>((group * kWidth + i) * kColumns + j);
          rows[right] += a.values[left] * b.values[in_matrix];
          sums[in_matrix] += a.values[left] * g.values[right];
          transposed.values[static_cast<size_t>((group * kColumns + j) * kWidth + i)] = b.values[in_matrix];
        }
    }
  std::vector<double> flat;
  for (const std::vector<double>& line : offsets) flat.insert(flat.end(), line.begin(), line.end());
  const std::vector<HostTensor> result = interpret(parse_graph(R"(%0 = input "a" : f32[2, 7, 3]
%1 = input "b" : f32[4, 3, 5]
%2 = input "b transposed" : f32[4, 5, 3]
%3 = input "g" : f32[2, 7, 5]
%4 = input "offsets" : i32[2, 5]
%5 = grouped_dot(%0, %1, %4) : f32[2, 7, 5]
%6 = grouped_dot(%0, %2, %4) {transpose_b} : f32[2, 7, 5]
%7 = grouped_dot(%0, %3, %4) {transpose_a} : f32[4, 3, 5]
return %5, %6, %7)"),
                                                   {a, b, transposed, g, make_host_tensor(DType::kI32, {2, 5}, flat)});
  EXPECT_THAT(result[0].values, testing::Pointwise(testing::DoubleNear(1e-12), rows));
  EXPECT_THAT(result[1].values, testing::Pointwise(testing::DoubleNear(1e-12), rows));
  EXPECT_THAT(result[2].values, testing::Pointwise(testing::DoubleNear(1e-12), sums));
}

TEST(Interpreter, GroupedDotsTakeOffsetsThatRise) {
  const Graph graph = parse_graph(R"(%0 = input "a" : f32[1, 4, 1]
%1 = input "b" : f32[2, 1, 1]
%2 = input "offsets" : i32[1, 3]
%3 = grouped_dot(%0, %1, %2) : f32[1, 4, 1]
return %3)");
  for (const std::vector<double>& offsets : {std::vector<double>{0, 3, 2}, {1, 2, 3}, {0, 2, 5}}) {
    EXPECT_THROW(interpret(graph, {make_host_tensor(DType::kF32, {1, 4, 1}, {1, 1, 1, 1}),
                                   make_host_tensor(DType::kF32, {2, 1, 1}, {1, 1}),
                                   make_host_tensor(DType::kI32, {1, 3}, offsets)}),
                 Error);
  }
}

TEST(Interpreter, OutputsComeBeforeAssignments) {
  const std::vector<HostTensor> result =
      run("%0 = input \"w\" : f32[1]\n%1 = input \"g\" : f32[1]\n%2 = sub(%0, %1) : f32[1]\n%3 = neg(%1) : f32[1]\n"
          "assign %0 = %2\nreturn %3, %0\n",
          {{5}, {2}});
  ASSERT_EQ(result.size(), 3u);
  EXPECT_THAT(result[0].values, are({-2}));
  EXPECT_THAT(result[1].values, are({5}));
  EXPECT_THAT(result[2].values, are({3}));
}

TEST(Interpreter, SymbolicSizes) {
  const std::string text =
      "%0 = input \"x\" : f32[N, 2]\n%1 = slice(%0) {start=[1, 0], limit=[N, 2], strides=[1, 1]} : f32[N - 1, 2]\n"
      "%2 = reshape(%1) : f32[2*N - 2]\nreturn %2\n";
  EXPECT_THAT(run(text, {{1, 2, 3, 4, 5, 6}}, Rounding::kExact, {{Dim::symbol_id("N"), 3}})[0].values,
              are({3, 4, 5, 6}));
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.what();
  }
  return "no error";
}

TEST(Interpreter, ErrorsNameTheInput) {
  const Graph graph = parse_graph("%0 = input \"tokens\" : i32[N, 2]\nreturn %0\n");
  const SymbolBindings bindings = {{Dim::symbol_id("N"), 3}};
  EXPECT_EQ(error_of([&] { interpret(graph, {}, bindings); }), "the graph takes 1 inputs, was given 0");
  EXPECT_EQ(error_of([&] { interpret(graph, {fill_host_tensor(DType::kF32, {3, 2}, 0)}, bindings); }),
            "input 'tokens': expected i32[N, 2], was given f32[3, 2] with 6 values");
  EXPECT_EQ(error_of([&] { interpret(graph, {fill_host_tensor(DType::kI32, {4, 2}, 0)}, bindings); }),
            "input 'tokens': expected i32[N, 2] = [3, 2], was given i32[4, 2] with 8 values");
}

TEST(Interpreter, ErrorsOfSymbolicSizes) {
  const SymbolBindings none = {{Dim::symbol_id("N"), 0}};
  EXPECT_THAT(error_of([&] {
                run("%0 = input \"x\" : f32[N]\n%1 = slice(%0) {start=[1], limit=[N], strides=[1]} : f32[N - 1]\n"
                    "return %1\n",
                    {{}}, Rounding::kExact, none);
              }),
              HasSubstr("slice gives f32[N - 1], whose size N - 1 is -1"));
  EXPECT_THAT(error_of([&] {
                run("%0 = input \"x\" : f32[N]\n%1 = slice(%0) {start=[0], limit=[2], strides=[1]} : f32[2]\n"
                    "return %1\n",
                    {{}}, Rounding::kExact, none);
              }),
              HasSubstr("slice from 0 to 2 reaches outside axis 0 of f32[0]"));
  EXPECT_THAT(error_of([&] {
                run("%0 = input \"x\" : f32[N]\n%1 = input \"i\" : i32[1]\n%2 = gather(%0, %1) {axes=[0]} : f32[1]\n"
                    "return %2\n",
                    {{}, {0}}, Rounding::kExact, none);
              }),
              HasSubstr("gather reads from an empty axis of f32[0]"));
}

}  // namespace
}  // namespace causeway::graph
