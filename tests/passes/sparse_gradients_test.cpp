#include "causeway/passes/sparse_gradients.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "causeway/graph/interpreter.h"
#include "causeway/graph/parser.h"
#include "causeway/graph/printer.h"
#include "tests/comparison/bounds.h"
#include "tests/comparison/comparison.h"
#include "tests/fixtures/op_literal.h"
#include "tests/random_graph/random_graph.h"

namespace causeway::passes {
namespace {

// A norm and an update of a table's gradient.
std::string table_update(const std::string& base, const std::string& rest) {
  return R"(%0 = input "table" : f32[40, 6]
%1 = input "tokens" : i32[3, 5]
%2 = input "dy" : f32[3, 5, 6]
)" + base +
         R"(%4 = scatter_add(%3, %1, %2) {axes=[0]} : f32[40, 6]
%5 = mul(%4, %4) : f32[40, 6]
%6 = reduce_sum(%5) {axes=[0, 1]} : f32[]
%7 = sub(%0, %4) : f32[40, 6]
assign %0 = %7
)" + rest;
}
const std::string kZeros = "%3 = constant 0 : f32[40, 6]\n";

int scatters_of(const Graph& graph, const Shape& shape) {
  int count = 0;
  for (const Node& node : graph.nodes()) count += node.op == "scatter_add"_op && node.outputs[0].shape == shape;
  return count;
}

TEST(SparseGradients, GiveTheSame) {
  const Graph dense = parse_graph(table_update(kZeros, "return %6\n"));
  const Graph sparse = sparse_gradients(dense, 15);
  sparse.verify("sparse_gradients");
  EXPECT_EQ(scatters_of(sparse, {Dim(40), Dim(6)}), 0) << print_graph(sparse);
  EXPECT_EQ(scatters_of(sparse, {Dim(16), Dim(6)}), 1) << print_graph(sparse);
  // All different; one row alone; some more than once, the first and the last row among them.
  for (const std::vector<double>& tokens :
       {std::vector<double>{7, 1, 2, 3, 4, 5, 6, 0, 8, 9, 10, 11, 39, 12, 13}, std::vector<double>(15, 21),
        std::vector<double>{0, 39, 0, 5, 5, 5, 17, 39, 2, 0, 17, 18, 19, 2, 39}}) {
    std::vector<HostTensor> inputs = {random_host_tensor(DType::kF32, {40, 6}, 1, -1, 1),
                                      random_host_tensor(DType::kI32, {3, 5}, 2, 0, 40),
                                      random_host_tensor(DType::kF32, {3, 5, 6}, 3, -1, 1)};
    inputs[1].values = tokens;
    const std::vector<HostTensor> expected = interpret(dense, inputs, {}, Rounding::kRounded);
    const std::vector<HostTensor> actual = interpret(sparse, inputs, {}, Rounding::kRounded);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) EXPECT_EQ(actual[i].values, expected[i].values) << i;
  }
}

TEST(SparseGradients, OnlyWhereRowsAreLookedUp) {
  const auto is_changed = [](const std::string& text, int64_t most_updates = 15) {
    const Graph graph = parse_graph(text);
    return print_graph(sparse_gradients(graph, most_updates)) != print_graph(graph);
  };
  EXPECT_TRUE(is_changed(table_update(kZeros, "return %6\n")));
  // Too many updates; something else than zeros below; a result; a sum or a GEMM of the whole.
  EXPECT_FALSE(is_changed(table_update(kZeros, "return %6\n"), 14));
  EXPECT_FALSE(is_changed(table_update("%3 = input \"sum\" : f32[40, 6]\n", "return %6\n")));
  EXPECT_FALSE(is_changed(table_update(kZeros, "return %6, %4\n")));
  EXPECT_FALSE(is_changed(table_update(kZeros, "%8 = reduce_sum(%4) {axes=[1]} : f32[40]\nreturn %6, %8\n")));
  EXPECT_FALSE(is_changed(table_update(kZeros, "%8 = dot(%4, %0) {transpose_b} : f32[40, 40]\nreturn %6, %8\n")));
  // Rows that are not more than twice as many.
  EXPECT_FALSE(is_changed(R"(%0 = input "tokens" : i32[15]
%1 = input "dy" : f32[15, 6]
%2 = constant 0 : f32[30, 6]
%3 = scatter_add(%2, %0, %1) {axes=[0]} : f32[30, 6]
%4 = neg(%3) : f32[30, 6]
return %4
)"));
}

}  // namespace
}  // namespace causeway::passes
