#include "causeway/passes/early_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/graph/parser.h"
#include "causeway/graph/printer.h"
#include "tests/fixtures/op_literal.h"
#include "tests/passes/same_values.h"

namespace causeway::passes {
namespace {

std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes())
    if (!is_input(node.op)) names.emplace_back(op_name(node.op));
  return names;
}

std::vector<HostTensor> inputs_of(const Graph& graph) {
  std::vector<HostTensor> inputs;
  for (const Value input : graph.inputs())
    inputs.push_back(random_host_tensor(graph.dtype(input), evaluate(graph.shape(input), {}), inputs.size() + 1));
  return inputs;
}

// Each behind what it adds, whichever side of the sum that is on.
TEST(EarlySums, ComeBehindWhatTheyAdd) {
  const Graph graph = parse_graph(R"(%0 = input "x" : f32[4, 4]
%1 = input "first" : f32[4, 4]
%2 = input "second" {on_host} : f32[4, 4]
%3 = dot(%0, %0) : f32[4, 4]  # layers.1
%4 = exp2(%0) : f32[4, 4]
%5 = dot(%4, %0) {transpose_a, backward} : f32[4, 4]  # layers.0
%6 = log2(%4) : f32[4, 4]
%7 = add(%1, %3) : f32[4, 4]
%8 = add(%5, %2) : f32[4, 4]
assign %1 = %7
assign %2 = %8
return %6
)");
  const Graph early = early_sums(graph);
  early.verify("early_sums");
  EXPECT_THAT(ops_of(early), testing::ElementsAre("dot", "add", "exp2", "dot", "add", "log2")) << print_graph(early);
  EXPECT_TRUE(early.node(early.inputs()[2]).attributes.on_host);
  EXPECT_EQ(early.nodes()[3].scope, "layers.1");
  EXPECT_TRUE(early.nodes()[6].backward);
  expect_same_values(graph, early, inputs_of(graph), {}, bounds::sum(0));
}

// A sum that is read itself, or whose old value is, is where it was; so is what is no sum, or of an input alone.
TEST(EarlySums, OthersStay) {
  const Graph graph = parse_graph(R"(%0 = input "x" : f32[4]
%1 = input "returned" : f32[4]
%2 = input "read" : f32[4]
%3 = input "product" : f32[4]
%4 = input "of input" : f32[4]
%5 = exp2(%0) : f32[4]
%6 = log2(%5) : f32[4]
%7 = mul(%6, %2) : f32[4]
%8 = add(%1, %5) : f32[4]
%9 = add(%2, %5) : f32[4]
%10 = mul(%3, %5) : f32[4]
%11 = add(%4, %0) : f32[4]
assign %1 = %8
assign %2 = %9
assign %3 = %10
assign %4 = %11
return %7, %8
)");
  EXPECT_EQ(print_graph(early_sums(graph)), print_graph(graph));
}

// What ranks have added up comes when it comes: nothing waits for it before the end.
TEST(EarlySums, WhatOtherRanksSendIsAddedAtTheEnd) {
  const Graph graph = parse_graph(R"(%0 = input "x" : f32[4, 4]
%1 = input "sum" : f32[4, 4]
%2 = input "own" : f32[4, 4]
%3 = dot(%0, %0) : f32[4, 4]
%4 = all_reduce(%3) {group="dp", count=2} : f32[4, 4]
%5 = permute(%4) {axes=[1, 0]} : f32[4, 4]
%6 = exp2(%0) : f32[4, 4]
%7 = add(%1, %5) : f32[4, 4]
%8 = add(%2, %3) : f32[4, 4]
assign %1 = %7
assign %2 = %8
return %6
)");
  EXPECT_THAT(ops_of(early_sums(graph)), testing::ElementsAre("dot", "add", "all_reduce", "permute", "exp2", "add"));
}

TEST(EarlySums, KeepRandomGraphs) { expect_same_values_on_random_graphs(early_sums, 20); }

}  // namespace
}  // namespace causeway::passes
