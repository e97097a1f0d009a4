// The type rule of every op: what it gives, and what it says when it is given something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "causeway/base/error.h"
#include "causeway/graph/graph.h"
#include "causeway/graph/op.h"
#include "causeway/graph/parser.h"
#include "causeway/graph/printer.h"

namespace causeway::graph {
namespace {

using testing::HasSubstr;

// The message for one node with inputs of the given types, as the text form; "" when it fits.
std::string problem(const std::string& node, const std::vector<std::string>& types, const std::string& result) {
  std::string text, arguments;
  for (size_t i = 0; i < types.size(); ++i) {
    text += fmt::format("%{} = input \"x{}\" : {}\n", i, i, types[i]);
    arguments += fmt::format("{}%{}", i == 0 ? "" : ", ", i);
  }
  const size_t brace = node.find('{');
  text += fmt::format("%{} = {}({}) {} : {}\nreturn\n", types.size(), node.substr(0, brace), arguments,
                      brace == std::string::npos ? "" : node.substr(brace), result);
  try {
    parse_graph(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.message();
  }
  return "";
}

struct Case {
  std::string node;
  std::vector<std::string> types;
  std::string result;
  std::string message;  // empty: it fits
};

class TypeRule : public testing::TestWithParam<Case> {};

TEST_P(TypeRule, Holds) {
  const Case& rule = GetParam();
  EXPECT_EQ(problem(rule.node, rule.types, rule.result), rule.message);
}

const std::string kFloats = "f32[2, 3]", kInts = "i32[2, 3]", kBools = "bool[2, 3]";

INSTANTIATE_TEST_SUITE_P(
    Elementwise, TypeRule,
    testing::Values(
        Case{"neg", {kFloats}, kFloats, ""}, Case{"neg", {kInts}, kInts, ""},
        Case{"neg", {kBools}, kBools, "neg takes numbers; it was given (bool[2, 3])"},
        Case{"abs", {kBools}, kBools, "abs takes numbers; it was given (bool[2, 3])"},
        Case{"exp2", {kInts}, kInts, "exp2 takes floats; it was given (i32[2, 3])"},
        Case{"floor", {"u8[]"}, "u8[]", "floor takes floats; it was given (u8[])"},
        Case{"tanh", {kFloats, kFloats}, kFloats, "tanh takes 1 inputs; it was given (f32[2, 3], f32[2, 3])"},
        Case{"add", {kFloats, kFloats}, kFloats, ""},
        Case{"add",
             {kFloats, "f32[3]"},
             kFloats,
             "add takes inputs of one type and shape; it was given (f32[2, 3], f32[3])"},
        Case{"add",
             {kFloats, "bf16[2, 3]"},
             kFloats,
             "add takes inputs of one type and shape; it was given (f32[2, 3], bf16[2, 3])"},
        Case{"add",
             {"f32[T]", "f32[S]"},
             "f32[T]",
             "add takes inputs of one type and shape; it was given (f32[T], f32[S])"},
        Case{"max", {kBools, kBools}, kBools, "max takes numbers; it was given (bool[2, 3], bool[2, 3])"},
        Case{"pow", {kInts, kInts}, kInts, "pow takes floats; it was given (i32[2, 3], i32[2, 3])"},
        Case{"shl", {kFloats, kFloats}, kFloats, "shl takes integers; it was given (f32[2, 3], f32[2, 3])"},
        Case{"shr", {kBools, kBools}, kBools, "shr takes integers; it was given (bool[2, 3], bool[2, 3])"},
        Case{"and", {kBools, kBools}, kBools, ""},
        Case{"xor", {kFloats, kFloats}, kFloats, "xor takes integers or bools; it was given (f32[2, 3], f32[2, 3])"},
        Case{"lt", {kFloats, kFloats}, kBools, ""},
        Case{"lt", {kBools, kBools}, kBools, "lt takes numbers; it was given (bool[2, 3], bool[2, 3])"},
        Case{"eq", {kBools, kBools}, kBools, ""}, Case{"select", {kBools, kInts, kInts}, kInts, ""},
        Case{"select",
             {kInts, kInts, kInts},
             kInts,
             "select takes a bool condition first; it was given (i32[2, 3], i32[2, 3], i32[2, 3])"},
        Case{"select",
             {"bool[]", kInts, kInts},
             kInts,
             "select takes a condition and two values of one type and shape; it was given (bool[], i32[2, 3], i32[2, "
             "3])"},
        Case{"fma", {kInts, kInts, kInts}, kInts, "fma takes floats; it was given (i32[2, 3], i32[2, 3], i32[2, 3])"},
        Case{"cast", {kBools}, "f8e4m3[2, 3]", ""}, Case{"bitcast", {kFloats}, kInts, ""},
        Case{"bitcast",
             {kFloats},
             "bf16[2, 3]",
             "bitcast to bf16 takes elements of the same size; it was given (f32[2, 3])"},
        Case{
            "bitcast", {"u8[2]"}, "bool[2]", "bitcast to bool takes elements of the same size; it was given (u8[2])"}));

INSTANTIATE_TEST_SUITE_P(
    Sources, TypeRule,
    testing::Values(Case{"constant 1",
                         {},
                         "f32[B, -1]",
                         "constant takes sizes that are not negative, unlike [B, -1]; it was given ()"},
                    Case{"iota{axes=[1]}", {}, "i32[2, B]", ""},
                    Case{"iota{axes=[2]}", {}, kInts, "iota takes one axis of its shape; it was given ()"},
                    Case{"iota{axes=[0]}", {}, kBools, "iota takes a number type; it was given ()"},
                    Case{"random_bits{stream=1}", {"i64[2]"}, "i32[5]", ""},
                    Case{"random_bits",
                         {"i32[2]"},
                         "i32[5]",
                         "random_bits takes an i64[2] of seed and step; it was given (i32[2])"}));

INSTANTIATE_TEST_SUITE_P(
    Reductions, TypeRule,
    testing::Values(
        Case{"reduce_sum{axes=[0, 2]}", {"bf16[2, 3, 4]"}, "bf16[3]", ""},
        Case{"reduce_sum{axes=[1, 0]}",
             {kFloats},
             "f32[]",
             "reduce_sum takes ascending axes of its input; it was given (f32[2, 3])"},
        Case{"reduce_sum{axes=[1, 1]}",
             {kFloats},
             "f32[2]",
             "reduce_sum takes ascending axes of its input; it was given (f32[2, 3])"},
        Case{
            "reduce_max", {kFloats}, kFloats, "reduce_max takes ascending axes of its input; it was given (f32[2, 3])"},
        Case{"reduce_max{axes=[2]}",
             {kFloats},
             kFloats,
             "reduce_max takes ascending axes of its input; it was given (f32[2, 3])"},
        Case{"reduce_max{axes=[-1]}",
             {kFloats},
             "f32[2]",
             "reduce_max takes ascending axes of its input; it was given (f32[2, 3])"},
        Case{"reduce_sum{axes=[0]}", {kBools}, "bool[3]", "reduce_sum takes numbers; it was given (bool[2, 3])"},
        Case{"argmax{axes=[0]}", {kFloats}, "i32[3]", ""},
        Case{"argmax{axes=[0, 1]}",
             {kFloats},
             "i32[]",
             "argmax takes one axis of its first input; it was given (f32[2, 3])"},
        Case{"cumsum{axes=[1]}", {kInts}, kInts, ""},
        Case{"cumsum", {kInts}, kInts, "cumsum takes one axis of its first input; it was given (i32[2, 3])"},
        Case{"cumsum{axes=[0]}", {kBools}, kBools, "cumsum takes numbers; it was given (bool[2, 3])"}));

INSTANTIATE_TEST_SUITE_P(
    Movement, TypeRule,
    testing::Values(
        Case{"reshape", {"f32[B, T, 4]"}, "f32[B*T, 2, 2]", ""},
        Case{"reshape", {kFloats}, "f32[5]", "reshape to [5] keeps the number of elements; it was given (f32[2, 3])"},
        Case{"reshape",
             {"f32[B, T]"},
             "f32[B*B]",
             "reshape to [B*B] keeps the number of elements; it was given (f32[B, T])"},
        Case{"reshape",
             {"f32[4]"},
             "f32[-2, -2]",
             "reshape takes sizes that are not negative, unlike [-2, -2]; it was given (f32[4])"},
        Case{"permute{axes=[1, 0]}", {"f32[B, 3]"}, "f32[3, B]", ""},
        Case{"permute{axes=[1, 1]}",
             {kFloats},
             kFloats,
             "permute takes a permutation of its axes; it was given (f32[2, 3])"},
        Case{"permute{axes=[0]}",
             {kFloats},
             kFloats,
             "permute takes a permutation of its axes; it was given (f32[2, 3])"},
        Case{"permute{axes=[0, 2]}",
             {kFloats},
             kFloats,
             "permute takes a permutation of its axes; it was given (f32[2, 3])"},
        Case{"broadcast{axes=[0, 2]}", {"f32[B, 1]"}, "f32[B, 5, 7]", ""},
        Case{"broadcast{axes=[0]}",
             {kFloats},
             kFloats,
             "broadcast takes one output axis for each input axis; it was given (f32[2, 3])"},
        Case{"broadcast{axes=[1, 0]}",
             {kFloats},
             "f32[3, 2]",
             "broadcast takes ascending output axes; it was given (f32[2, 3])"},
        Case{"broadcast{axes=[0, 5]}",
             {kFloats},
             kFloats,
             "broadcast takes ascending output axes; it was given (f32[2, 3])"},
        Case{"broadcast{axes=[0, 1]}",
             {kFloats},
             "f32[4, 3]",
             "broadcast to [4, 3] takes sizes that are equal or 1; it was given (f32[2, 3])"},
        Case{"slice{start=[0, 1], limit=[2, T], strides=[2, 1]}", {"f32[2, T]"}, "f32[1, T - 1]", ""},
        Case{"slice{start=[0], limit=[2], strides=[1]}",
             {kFloats},
             kFloats,
             "slice takes a start, limit and stride for each axis; it was given (f32[2, 3])"},
        Case{"slice{start=[0], limit=[2], strides=[0]}",
             {"f32[2]"},
             "f32[2]",
             "slice takes strides of at least 1; it was given (f32[2])"},
        Case{"slice{start=[0], limit=[3], strides=[1]}",
             {"f32[2]"},
             "f32[3]",
             "slice from 0 to 3 on axis 0 lies within the input; it was given (f32[2])"},
        Case{"slice{start=[2], limit=[1], strides=[1]}",
             {"f32[2]"},
             "f32[0]",
             "slice from 2 to 1 on axis 0 lies within the input; it was given (f32[2])"},
        Case{"slice{start=[-1], limit=[1], strides=[1]}",
             {"f32[2]"},
             "f32[2]",
             "slice from -1 to 1 on axis 0 lies within the input; it was given (f32[2])"},
        Case{"slice{start=[0], limit=[T], strides=[2]}",
             {"f32[T]"},
             "f32[T]",
             "slice takes stride 1 on a symbolic axis; it was given (f32[T])"},
        Case{"pad{start=[1, 0], limit=[0, 2]}", {"f32[T, 3]"}, "f32[T + 1, 5]", ""},
        Case{"pad{start=[1], limit=[0]}",
             {kFloats},
             kFloats,
             "pad takes padding before and after each axis; it was given (f32[2, 3])"},
        Case{"pad{start=[-1], limit=[0]}",
             {"f32[2]"},
             "f32[1]",
             "pad takes sizes that are not negative, unlike [-1]; it was given (f32[2])"},
        Case{"concat{axes=[1]}", {"f32[2, T]", kFloats, kFloats}, "f32[2, T + 6]", ""},
        Case{"concat{axes=[0]}", {}, kFloats, "concat takes at least one input; it was given ()"},
        Case{"concat{axes=[2]}",
             {kFloats, kFloats},
             kFloats,
             "concat takes one axis of its first input; it was given (f32[2, 3], f32[2, 3])"},
        Case{"concat{axes=[0]}",
             {kFloats, kInts},
             kFloats,
             "concat takes inputs of one type and rank; it was given (f32[2, 3], i32[2, 3])"},
        Case{"concat{axes=[0]}",
             {kFloats, "f32[2, 4]"},
             kFloats,
             "concat takes inputs that differ along its axis only; it was given (f32[2, 3], f32[2, 4])"}));

INSTANTIATE_TEST_SUITE_P(
    Indexing, TypeRule,
    testing::Values(
        Case{"gather{axes=[1]}", {"f32[2, 3, 4]", "i64[B, T]"}, "f32[2, B, T, 4]", ""},
        Case{"gather{axes=[0]}",
             {kFloats, "f32[2]"},
             kFloats,
             "gather takes i32 or i64 indices; it was given (f32[2, 3], f32[2])"},
        Case{"gather{axes=[0]}",
             {"f32[]", "i32[2]"},
             "f32[2]",
             "gather takes one axis of its first input; it was given (f32[], i32[2])"},
        Case{"scatter_add{axes=[0]}", {kFloats, "i32[5]", "f32[5, 3]"}, kFloats, ""},
        Case{"scatter_add{axes=[0]}",
             {kFloats, "i32[5]", "f32[5, 2]"},
             kFloats,
             "scatter_add takes updates shaped as gather would give; it was given (f32[2, 3], i32[5], f32[5, 2])"},
        Case{"scatter_add{axes=[0]}",
             {kBools, "i32[5]", "bool[5, 3]"},
             kBools,
             "scatter_add takes numbers; it was given (bool[2, 3], i32[5], bool[5, 3])"},
        Case{"topk{count=2}", {kFloats}, "f32[2, 2]", "the type here is f32[2, 2], i32[2, 2], not f32[2, 2]"}));

INSTANTIATE_TEST_SUITE_P(
    Dot, TypeRule,
    testing::Values(
        Case{"dot", {"bf16[B, 2, 3]", "bf16[B, 3, 5]"}, "f32[B, 2, 5]", ""},
        Case{"dot{transpose_a, transpose_b}", {"f32[T, 2]", "f32[5, T]"}, "f32[2, 5]", ""},
        Case{"dot",
             {"f32[3]", "f32[3]"},
             "f32[]",
             "dot takes two inputs of one rank, at least 2; it was given (f32[3], f32[3])"},
        Case{"dot",
             {kFloats, "f32[1, 3, 2]"},
             "f32[2, 2]",
             "dot takes two inputs of one rank, at least 2; it was given (f32[2, 3], f32[1, 3, 2])"},
        Case{"dot",
             {kFloats, "bf16[3, 2]"},
             "f32[2, 2]",
             "dot takes floats of one type, or of the two 8-bit types; it was given (f32[2, 3], bf16[3, 2])"},
        Case{"dot",
             {kInts, "i32[3, 2]"},
             "i32[2, 2]",
             "dot takes floats of one type, or of the two 8-bit types; it was given (i32[2, 3], i32[3, 2])"},
        Case{"dot", {kFloats, "f32[3, 2]"}, "i32[2, 2]", "dot gives floats; it was given (f32[2, 3], f32[3, 2])"},
        Case{"dot",
             {kFloats, kFloats},
             "f32[2, 3]",
             "dot contracts dimensions of one size (3 and 2); it was given (f32[2, 3], f32[2, 3])"},
        Case{"dot",
             {"f32[2, 2, 3]", "f32[4, 3, 5]"},
             "f32[2, 2, 5]",
             "dot takes equal batch dimensions; it was given (f32[2, 2, 3], f32[4, 3, 5])"},
        Case{"grouped_dot", {"bf16[P, R, 3]", "bf16[4, 3, 5]", "i32[P, 5]"}, "f32[P, R, 5]", ""},
        Case{"grouped_dot{transpose_b}", {"f32[1, R, 3]", "f32[4, 5, 3]", "i32[1, 5]"}, "f32[1, R, 5]", ""},
        Case{"grouped_dot{transpose_a, dtype=bf16}",
             {"bf16[P, R, 3]", "bf16[P, R, 5]", "i32[P, 5]"},
             "bf16[4, 3, 5]",
             ""},
        Case{
            "grouped_dot",
            {kFloats, "f32[4, 3, 5]", "i32[1, 5]"},
            "f32[1, 2, 5]",
            "grouped_dot takes rows [P, R, K] and matrices [E, K, N], or two tensors of rows; it was given (f32[2, 3], "
            "f32[4, 3, 5], i32[1, 5])"},
        Case{"grouped_dot",
             {"f32[1, 2, 3]", "bf16[4, 3, 5]", "i32[1, 5]"},
             "f32[1, 2, 5]",
             "grouped_dot takes floats of one type that is wider than 8 bits; it was given (f32[1, 2, 3], bf16[4, 3, "
             "5], i32[1, 5])"},
        Case{"grouped_dot",
             {"f8e4m3[1, 2, 3]", "f8e4m3[4, 3, 5]", "i32[1, 5]"},
             "f32[1, 2, 5]",
             "grouped_dot takes floats of one type that is wider than 8 bits; it was given (f8e4m3[1, 2, 3], f8e4m3[4, "
             "3, 5], i32[1, 5])"},
        Case{"grouped_dot",
             {"f32[1, 2, 3]", "f32[4, 3, 5]", "i64[1, 5]"},
             "f32[1, 2, 5]",
             "grouped_dot takes i32 offsets [P, E + 1]; it was given (f32[1, 2, 3], f32[4, 3, 5], i64[1, 5])"},
        Case{"grouped_dot",
             {"f32[2, 2, 3]", "f32[4, 3, 5]", "i32[1, 5]"},
             "f32[2, 2, 5]",
             "grouped_dot takes offsets of each of its 2 slabs, not of 1; it was given (f32[2, 2, 3], f32[4, 3, 5], "
             "i32[1, 5])"},
        Case{
            "grouped_dot",
            {"f32[1, 2, 3]", "f32[4, 3, 5]", "i32[1, 4]"},
            "f32[1, 2, 5]",
            "grouped_dot takes a matrix for each of the 3 groups that offsets has, not 4 of them; it was given (f32[1, "
            "2, 3], f32[4, 3, 5], i32[1, 4])"},
        Case{"grouped_dot",
             {"f32[1, 2, 3]", "f32[E, 3, 5]", "i32[1, E]"},
             "f32[1, 2, 5]",
             "grouped_dot takes a constant number of groups, at least 1: offsets [P, E + 1], not [P, E]; it was given "
             "(f32[1, 2, 3], f32[E, 3, 5], i32[1, E])"},
        Case{"grouped_dot{transpose_b}",
             {"f32[1, 2, 3]", "f32[4, 3, 5]", "i32[1, 5]"},
             "f32[1, 2, 3]",
             "grouped_dot contracts dimensions of one size (3 and 5); it was given (f32[1, 2, 3], f32[4, 3, 5], i32[1, "
             "5])"},
        Case{
            "grouped_dot{transpose_a}",
            {"f32[1, 2, 3]", "f32[1, 4, 5]", "i32[1, 5]"},
            "f32[4, 3, 5]",
            "grouped_dot takes two tensors of as many slabs and rows; it was given (f32[1, 2, 3], f32[1, 4, 5], i32[1, "
            "5])"},
        Case{"grouped_dot{transpose_a, transpose_b}",
             {"f32[1, 2, 3]", "f32[1, 2, 5]", "i32[1, 5]"},
             "f32[4, 3, 5]",
             "grouped_dot takes two tensors of rows as they lie: without transpose_b; it was given (f32[1, 2, 3], "
             "f32[1, 2, 5], i32[1, 5])"},
        Case{"scaled_dot{dtype=bf16}",
             {"f8e4m3[6, 256]", "f8e5m2[384, 256]", "f32[2, 6]", "f32[2, 3]"},
             "bf16[6, 384]",
             ""},
        Case{"scaled_dot",
             {"f8e4m3[6, 256]", "f8e4m3[5, 256]", "f32[2, 6]", "f32[2, 4]"},
             "f32[6, 5]",
             "scaled_dot takes f32 scales of each 128 of k and of each line, or 128 lines; it was given (f8e4m3[6, "
             "256], "
             "f8e4m3[5, 256], f32[2, 6], f32[2, 4])"},
        Case{
            "scaled_dot",
            {"f8e4m3[6, 200]", "f8e4m3[5, 200]", "f32[1, 6]", "f32[1, 5]"},
            "f32[6, 5]",
            "scaled_dot contracts a multiple of 128, not 200; it was given (f8e4m3[6, 200], f8e4m3[5, 200], f32[1, 6], "
            "f32[1, 5])"},
        Case{"scaled_dot",
             {"bf16[6, 128]", "bf16[5, 128]", "f32[1, 6]", "f32[1, 5]"},
             "f32[6, 5]",
             "scaled_dot takes two matrices of 8-bit floats; it was given (bf16[6, 128], bf16[5, 128], f32[1, 6], "
             "f32[1, "
             "5])"}));

TEST(TypeInference, Topk) {
  Attributes attributes;
  attributes.count = 2;
  const std::vector<TensorType> types = infer_types(Op::kTopk, {{DType::kF32, {3, 5}}}, attributes);
  EXPECT_EQ(types, (std::vector<TensorType>{{DType::kF32, {3, 2}}, {DType::kI32, {3, 2}}}));
  const auto message = [&](const TensorType& type, int64_t count) -> std::string {
    attributes.count = count;
    try {
      infer_types(Op::kTopk, {type}, attributes);
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  EXPECT_EQ(message({DType::kF32, {5}}, 6),
            "topk takes a count (here 6) of at most the last axis; it was given (f32[5])");
  EXPECT_EQ(message({DType::kF32, {5}}, 0), "topk takes a count and numbers; it was given (f32[5])");
  EXPECT_EQ(message({DType::kF32, {}}, 1), "topk takes a count and numbers; it was given (f32[])");
  EXPECT_EQ(message({DType::kBool, {5}}, 1), "topk takes a count and numbers; it was given (bool[5])");
}

TEST(TypeInference, LinearCrossEntropy) {
  const TensorType x{DType::kBF16, {6, 4}}, w{DType::kBF16, {9, 4}}, t{DType::kI32, {6}}, m{DType::kF32, {6}};
  const auto message = [](const std::vector<TensorType>& types) -> std::string {
    try {
      infer_types(Op::kLinearCrossEntropy, types, {});
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  EXPECT_EQ(infer_types(Op::kLinearCrossEntropy, {x, w, t, m}, {}),
            (std::vector<TensorType>{{DType::kF32, {}}, x, {DType::kF32, {9, 4}}, {DType::kF32, {6}}}));
  EXPECT_THAT(message({x, {DType::kBF16, {4, 9}}, t, m}), HasSubstr("takes x [N, C] and weight [V, C] of floats"));
  EXPECT_THAT(message({x, w, {DType::kF32, {6}}, m}), HasSubstr("takes i32 or i64 targets [N]"));
  EXPECT_THAT(message({x, w, {DType::kI32, {5}}, m}), HasSubstr("takes i32 or i64 targets [N]"));
  EXPECT_THAT(message({x, w, t, {DType::kBF16, {6}}}), HasSubstr("takes f32 token weights [N]"));
  Attributes capped;
  for (const double cap : {-1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    capped.value = cap;
    EXPECT_THROW(infer_types(Op::kLinearCrossEntropy, {x, w, t, m}, capped), Error) << cap;
  }
  Attributes with_z_loss;
  with_z_loss.z_loss = 1e-4;
  EXPECT_EQ(infer_types(Op::kLinearCrossEntropy, {x, w, t, m}, with_z_loss).back(), (TensorType{DType::kF32, {}}));
  EXPECT_EQ(infer_types(Op::kLinearCrossEntropy, {x, w, t, m}, with_z_loss).size(), 5u);
  for (const double coefficient : {-1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    with_z_loss.z_loss = coefficient;
    EXPECT_THROW(infer_types(Op::kLinearCrossEntropy, {x, w, t, m}, with_z_loss), Error) << coefficient;
  }
}

class AttentionRule : public testing::Test {
 protected:
  AttentionRule() {
    for (const char* name : {"b", "h", "i", "j"}) mask_.add_input(name, {DType::kI32, {}});
    const std::vector<Value> inputs = mask_.inputs();
    mask_.outputs = {mask_.add(Op::kLe, {inputs[3], inputs[2]})};
    spec_.mask = std::make_shared<Graph>(mask_);
  }
  std::string message(Op op, const std::vector<TensorType>& types, const Shape& shape = {}) {
    Attributes attributes;
    attributes.attention = std::make_shared<AttentionSpec>(spec_);
    attributes.shape = shape;
    try {
      result_ = infer_types(op, types, attributes);
    } catch (const Error& error) {
      return error.message().substr(0, error.message().find(';'));
    }
    return "";
  }

  const Dim b_ = Dim::symbol("B"), t_ = Dim::symbol("T", 64);
  const TensorType q_{DType::kBF16, {b_, t_, 8, 16}}, k_{DType::kBF16, {b_, t_, 2, 16}},
      statistics_{DType::kF32, {b_, 8, t_}};
  Graph mask_;
  AttentionSpec spec_;
  std::vector<TensorType> result_;
};

TEST_F(AttentionRule, Forward) {
  EXPECT_EQ(message(Op::kAttention, {q_, k_, k_}), "");
  EXPECT_EQ(result_, (std::vector<TensorType>{q_, statistics_}));
  EXPECT_EQ(message(Op::kAttention, {q_, k_}), "attention takes at least 3 inputs");
  EXPECT_EQ(message(Op::kAttention, {q_, k_, q_}),
            "attention takes keys and values of one type, batch size, length and head count");
  // Values of another width, which is that of the output.
  TensorType values = k_, output = q_;
  values.shape[3] = output.shape[3] = Dim(24);
  EXPECT_EQ(message(Op::kAttention, {q_, k_, values}), "");
  EXPECT_EQ(result_, (std::vector<TensorType>{output, statistics_}));
  const TensorType odd{DType::kBF16, {b_, t_, 3, 16}};
  EXPECT_EQ(message(Op::kAttention, {q_, odd, odd}),
            "attention takes a number of query heads (8) that the number of key heads (3) divides");
  const TensorType none{DType::kBF16, {b_, t_, 0, 16}};
  EXPECT_THAT(message(Op::kAttention, {q_, none, none}), HasSubstr("the number of key heads (0) divides"));
  const TensorType wide{DType::kBF16, {b_, t_, 2, 32}};
  EXPECT_EQ(message(Op::kAttention, {q_, wide, wide}),
            "attention takes queries and keys of one batch size and head dimension");
  const TensorType f32{DType::kF32, k_.shape};
  EXPECT_EQ(message(Op::kAttention, {q_, f32, f32}), "attention takes queries and keys of one type");
  EXPECT_EQ(message(Op::kAttention, {q_, k_, k_, {DType::kF32, {8}}}),
            "attention takes a mask function of its positions and captured tensors");
  spec_.has_block_map = true;
  EXPECT_EQ(message(Op::kAttention, {q_, k_, k_, {DType::kU8, {1, 1, 4, 4}}}), "");
  EXPECT_EQ(message(Op::kAttention, {q_, k_, k_, {DType::kI32, {1, 1, 4, 4}}}),
            "attention takes a u8 block map of rank 4");
  spec_.block_q = 0;
  EXPECT_EQ(message(Op::kAttention, {q_, k_, k_, {DType::kU8, {1, 1, 4, 4}}}), "attention takes blocks of at least 1");
}

TEST_F(AttentionRule, FunctionsMustBeOfScalars) {
  mask_.outputs = {mask_.inputs()[0]};
  spec_.mask = std::make_shared<Graph>(mask_);
  EXPECT_EQ(message(Op::kAttention, {q_, k_, k_}), "attention takes a mask function that gives a scalar bool");
  Graph score;
  for (const char* name : {"b", "h", "i", "j", "s"}) score.add_input(name, {DType::kI32, {}});
  score.outputs = {score.inputs()[4]};
  spec_.mask = nullptr;
  spec_.score = std::make_shared<Graph>(score);
  EXPECT_EQ(message(Op::kAttention, {q_, k_, k_}),
            "attention takes a score function of i32[] positions and an f32[] score");
}

TEST_F(AttentionRule, Gradient) {
  EXPECT_EQ(message(Op::kAttentionGradient, {q_, k_, k_, q_, statistics_, statistics_}), "");
  EXPECT_EQ(result_, (std::vector<TensorType>{q_, k_, k_}));
  TensorType values = k_, output = q_;
  values.shape[3] = output.shape[3] = Dim(24);
  EXPECT_EQ(message(Op::kAttentionGradient, {q_, k_, values, output, statistics_, statistics_}), "");
  EXPECT_EQ(result_, (std::vector<TensorType>{q_, k_, values}));
  EXPECT_EQ(message(Op::kAttentionGradient, {q_, k_, k_, k_, statistics_, statistics_}),
            "attention_gradient takes dout shaped as the output, and lse and delta as f32 [B, H, T]");
  Graph score;
  for (const char* name : {"b", "h", "i", "j"}) score.add_input(name, {DType::kI32, {}});
  score.outputs = {score.add_input("s", {DType::kF32, {}})};
  spec_.score = std::make_shared<Graph>(score);
  EXPECT_EQ(message(Op::kAttentionGradient, {q_, k_, k_, q_, statistics_, statistics_}),
            "attention_gradient takes a score with its gradient");
}

TEST_F(AttentionRule, BlockMap) {
  EXPECT_EQ(message(Op::kAttentionBlockMap, {}, {b_, 8, t_, t_}), "");
  EXPECT_EQ(result_[0].text(), "u8[1, 1, T/64, T/64]");
  EXPECT_EQ(message(Op::kAttentionBlockMap, {}, {b_, 8, 100, t_}), "");
  EXPECT_EQ(result_[0].text(), "u8[1, 1, 2, T/64]");
  EXPECT_EQ(message(Op::kAttentionBlockMap, {}, {b_, 8, Dim::symbol("S"), t_}),
            "attention_block_map takes a symbolic length (S) that its block size 64 divides");
  EXPECT_EQ(message(Op::kAttentionBlockMap, {}, {b_, 8}),
            "attention_block_map takes a mask and {batch, heads, queries, keys}");
  spec_.mask = nullptr;
  EXPECT_EQ(message(Op::kAttentionBlockMap, {}, {b_, 8, t_, t_}),
            "attention_block_map takes a mask and {batch, heads, queries, keys}");
}

TEST(Graph, VerifyAcceptsWhatAddBuilt) {
  const Graph graph = parse_graph("%0 = input \"x\" : f32[2]\n%1 = neg(%0) : f32[2]\nassign %0 = %1\nreturn %1\n");
  graph.verify("test");
  EXPECT_EQ(print_node(graph, 1), "%1 = neg(%0) : f32[2]");
}

std::string verify_error(const Graph& graph) {
  try {
    graph.verify("after fusion");
  } catch (const InternalError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Graph, VerifyNamesTheStageAndTheNode) {
  Graph graph = parse_graph("%0 = input \"x\" : f32[2]\n%1 = neg(%0) : f32[2]\nreturn %1\n");
  graph.outputs = {Value{7, 0}};
  EXPECT_THAT(verify_error(graph), HasSubstr("after fusion: an output refers to node 7"));
  graph.outputs = {Value{1, 1}};
  EXPECT_THAT(verify_error(graph), HasSubstr("after fusion: an output refers to output 1 of node 1"));
  graph.outputs = {};
  graph.assignments = {{Value{1, 0}, Value{0, 0}}};
  EXPECT_THAT(verify_error(graph), HasSubstr("after fusion: assignment to node 1"));
  graph.assignments = {{Value{0, 0}, graph.add_input("y", {DType::kI32, {}})}};
  EXPECT_THAT(verify_error(graph), HasSubstr("after fusion: assignment of i32[] to 'x' of type f32[2]"));
  EXPECT_THROW(graph.add(Op::kNeg, {Value{9, 0}}), InternalError);
}

TEST(Graph, OpTableIsConsistent) {
  std::set<std::string_view> names;
  for (const OpInfo& info : all_ops()) {
    EXPECT_EQ(&op_info(info.op), &info);
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
  }
  EXPECT_TRUE(is_elementwise(Op::kCast));
  EXPECT_TRUE(is_elementwise(Op::kSelect));
  EXPECT_FALSE(is_elementwise(Op::kReshape));
  EXPECT_FALSE(is_elementwise(Op::kConstant));
}

TEST(Graph, StructuralEqualitySeesEverythingButScopes) {
  const std::string base =
      "%0 = input \"x\" : f32[2]\n%1 = constant 0.5 : f32[2]\n%2 = mul(%0, %1) : f32[2]\nreturn %2\n";
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = base;
    text.replace(text.find(from), from.size(), to);
    return parse_graph(text);
  };
  const Graph graph = parse_graph(base);
  EXPECT_TRUE(structurally_equal(graph, with("f32[2]\n%2", "f32[2]  # here\n%2")));
  EXPECT_FALSE(structurally_equal(graph, with("0.5", "0.25")));
  EXPECT_FALSE(structurally_equal(graph, with("mul", "add")));
  EXPECT_FALSE(structurally_equal(graph, with("(%0, %1)", "(%1, %0)")));
  EXPECT_FALSE(structurally_equal(graph, with("\"x\"", "\"y\"")));
  EXPECT_FALSE(structurally_equal(graph, with("return %2", "return %2, %2")));
  EXPECT_FALSE(structurally_equal(graph, with("return %2", "assign %0 = %2\nreturn %2")));
}

}  // namespace
}  // namespace causeway::graph
