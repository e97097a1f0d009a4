#include "causeway/passes/sums_of_gemms.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "causeway/graph/interpreter.h"
#include "causeway/graph/parser.h"
#include "causeway/graph/printer.h"
#include "causeway/passes/eliminate_dead_code.h"
#include "tests/fixtures/op_literal.h"

namespace causeway::passes {
namespace {

// Three GEMMs of bf16, each rounded, added up in f32; `rest` reads %12, the sum, and returns.
Graph three_gemms(const std::string& rest) {
  return parse_graph(R"(%0 = input "a" : bf16[4, 8]
%1 = input "b" : bf16[4, 8]
%2 = input "w" : bf16[8, 6]
%3 = dot(%0, %2) : bf16[4, 6]
%4 = cast(%3) : f32[4, 6]
%5 = dot(%1, %2) : bf16[4, 6]
%6 = cast(%5) : f32[4, 6]
%7 = add(%4, %6) : f32[4, 6]
%8 = reshape(%7) : f32[2, 2, 6]
%9 = dot(%0, %2) : bf16[4, 6]
%10 = cast(%9) : f32[4, 6]
%11 = reshape(%10) : f32[2, 2, 6]
%12 = add(%8, %11) : f32[2, 2, 6]
)" + rest);
}

int64_t count_of(const Graph& graph, Op op, DType dtype) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                       [&](const Node& node) { return node.op == op && node.outputs[0].dtype == dtype; });
}

TEST(SumsOfGemms, AreRoundedOnce) {
  const Graph graph = three_gemms("return %12\n");
  const Graph joined = eliminate_dead_code(sums_of_gemms(graph));
  joined.verify("sums_of_gemms");
  EXPECT_EQ(count_of(joined, "dot"_op, DType::kF32), 3) << print_graph(joined);
  EXPECT_EQ(count_of(joined, "dot"_op, DType::kBF16), 0);
  EXPECT_EQ(count_of(joined, "cast"_op, DType::kBF16), 1);
  EXPECT_EQ(count_of(joined, "add"_op, DType::kF32), 2);

  std::vector<HostTensor> inputs;
  for (const Value input : graph.inputs())
    inputs.push_back(random_host_tensor(DType::kBF16, evaluate(graph.shape(input), {}), inputs.size() + 1));
  const HostTensor rounded_thrice = interpret(graph, inputs, {}, Rounding::kRounded)[0],
                   rounded_once = interpret(joined, inputs, {}, Rounding::kRounded)[0];
  for (size_t i = 0; i < rounded_once.values.size(); ++i) {
    EXPECT_NEAR(rounded_once.values[i], rounded_thrice.values[i], 0.05);
    EXPECT_GT(std::abs(rounded_thrice.values[i]), 0);
  }
}

// A GEMM or a sum that something else reads too keeps its rounding.
TEST(SumsOfGemms, LeavesWhatIsReadElsewhere) {
  const Graph graph = three_gemms("%13 = neg(%10) : f32[4, 6]\nreturn %12, %13\n");
  const Graph joined = eliminate_dead_code(sums_of_gemms(graph));
  EXPECT_EQ(count_of(joined, "dot"_op, DType::kF32), 2) << print_graph(joined);
  EXPECT_EQ(count_of(joined, "dot"_op, DType::kBF16), 1);
  const Graph f32 = parse_graph(R"(%0 = input "a" : f32[4, 8]
%1 = input "w" : f32[8, 6]
%2 = dot(%0, %1) : f32[4, 6]
%3 = dot(%0, %1) : f32[4, 6]
%4 = add(%2, %3) : f32[4, 6]
return %4
)");
  EXPECT_EQ(print_graph(sums_of_gemms(f32)), print_graph(f32));
}

}  // namespace
}  // namespace causeway::passes
