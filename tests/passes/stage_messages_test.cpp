// Messages between the stages of a pipeline in graphs: they stay, each by itself, in their order, and carry parts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/base/error.h"
#include "causeway/device/preferred_sizes.h"
#include "causeway/graph/interpreter.h"
#include "causeway/graph/parser.h"
#include "causeway/graph/printer.h"
#include "causeway/passes/pipeline.h"
#include "causeway/passes/shard.h"
#include "tests/fixtures/error_message.h"
#include "tests/fixtures/op_literal.h"

namespace causeway::passes {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two messages of the same values each way, and an unused GEMM.
constexpr char kStage[] = R"(%0 = input "mesh_coordinates" : i32[2]
%1 = receive {shape=[4, 6], dtype=f32, count=2, peer=1, name="first", group="pp"} : f32[4, 6]
%2 = mul(%1, %1) : f32[4, 6]
%3 = send(%2) {count=2, stream=1, peer=1, name="second", group="pp"} : i32[]
%4 = receive {shape=[4, 6], dtype=f32, count=2, peer=1, name="third", group="pp"} : f32[4, 6]
%5 = mul(%1, %1) : f32[4, 6]
%6 = send(%5) {count=2, stream=1, peer=1, name="fourth", group="pp"} : i32[]
%7 = dot(%4, %4) {transpose_b} : f32[4, 4]
%8 = add(%1, %4) : f32[4, 6]
return %8
)";

std::vector<std::string> messages_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes())
    if (op_info(node.op).kind == OpKind::kMessage) names.push_back(node.attributes.name);
  return names;
}

TEST(StageMessages, ArePrintedAndRead) {
  const Graph graph = parse_graph(kStage);
  EXPECT_TRUE(structurally_equal(parse_graph(print_graph(graph)), graph));
  EXPECT_THAT(print_graph(graph), HasSubstr("peer=1"));
  EXPECT_THAT(message_of([] {
                Graph wrong;
                Attributes attributes;
                attributes.group = "pp";
                attributes.count = 2;
                attributes.peer = 2;
                wrong.add("receive"_op, {}, attributes);
              }),
              HasSubstr("receive takes a group of ranks and one of them"));
}

TEST(StageMessages, StayInTheirOrderThroughAllPasses) {
  const Mesh mesh = {{{"dp", 2, 1, true}, {"pp", 2, 2, true, true}}};
  const Graph passed = run_pipeline(parse_graph(kStage), {}, preferred_sizes_of_processors(), mesh);
  EXPECT_THAT(messages_of(passed), ElementsAre("first", "second", "third", "fourth"));
  int products = 0, dots = 0;
  for (const Node& node : passed.nodes()) {
    products += node.op == "mul"_op ? 1 : 0;
    dots += node.op == "dot"_op ? 1 : 0;
  }
  // What two messages carry is computed once, and what nothing needs is not.
  EXPECT_EQ(products, 1);
  EXPECT_EQ(dots, 0);
}

TEST(StageMessages, CarryTheRanksParts) {
  const Mesh mesh = {{{"dp", 2, 1, true}, {"pp", 2, 2, true, true}}};
  Graph graph;
  graph.add_input(kMeshCoordinates, {DType::kI32, {2}});
  const Value w = graph.add_input("w", {DType::kF32, {4, 6}}, Sharding::parse("dp,-"));
  Attributes attributes;
  attributes.group = "pp";
  attributes.count = 2;
  attributes.peer = 1;
  attributes.sharding = Sharding::parse("-,dp");
  attributes.dtype = DType::kF32;
  attributes.shape = {4, 6};
  attributes.name = "in";
  const Value received = graph.add("receive"_op, {}, attributes);
  attributes.sharding = Sharding::parse("dp,-");
  attributes.name = "out";
  attributes.shape = {};
  graph.add("send"_op, {graph.add("add"_op, {received, w})}, attributes);
  const Graph part = shard(graph, mesh);
  for (const Node& node : part.nodes()) {
    if (node.op == "receive"_op) EXPECT_EQ(node.outputs[0].text(), "f32[4, 3]");
    if (node.op == "send"_op) EXPECT_EQ(part.type(node.inputs[0]).text(), "f32[2, 6]");
  }
  EXPECT_THAT(messages_of(part), ElementsAre("in", "out"));
}

TEST(StageMessages, AreNotInterpreted) {
  EXPECT_THAT(message_of([] {
                const Graph graph = parse_graph(kStage);
                interpret(graph, {make_host_tensor(DType::kI32, {2}, {0, 0})});
              }),
              HasSubstr("receive 'first': ranks that send to one another have graphs of their own"));
}

}  // namespace
}  // namespace causeway::passes
