#include "causeway/graph/sharding.h"

#include <gtest/gtest.h>

#include "causeway/base/error.h"
#include "causeway/graph/interpreter.h"
#include "causeway/graph/parser.h"
#include "causeway/graph/printer.h"
#include "tests/fixtures/op_literal.h"

namespace causeway::graph {
namespace {

Mesh mesh_of_tp_and_fsdp() { return {{{"tp", 2, 1, false}, {"fsdp", 3, 2, true}}}; }

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return std::string(error.what()) + " " + error.hint();
  }
  return "nothing was thrown";
}

TEST(Sharding, TextIsReadBack) {
  for (const std::string text : {"", "tp+fsdp,-", "-,tp", "|tp", "fsdp,-|tp"})
    EXPECT_EQ(Sharding::parse(text).text(), text);
  EXPECT_TRUE(Sharding::parse("-,-").replicated());
  EXPECT_THROW(Sharding::parse("tp+,-"), Error);
}

TEST(Sharding, GroupsAreOfRanksThatDifferAlongTheirAxes) {
  const Mesh mesh = mesh_of_tp_and_fsdp();
  EXPECT_EQ(mesh.ranks(), 6);
  EXPECT_EQ(mesh.group(3, {mesh.axis("tp")}), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(mesh.group(3, {mesh.axis("fsdp")}), (std::vector<int64_t>{1, 3, 5}));
  // The first axis changes slowest.
  EXPECT_EQ(mesh.group(3, group_axes(mesh, "tp+fsdp")), (std::vector<int64_t>{0, 2, 4, 1, 3, 5}));
}

TEST(Sharding, PartsOfALaterAxisAreNeighbours) {
  const Mesh mesh = mesh_of_tp_and_fsdp();
  const Sharding sharding = Sharding::parse("tp+fsdp,-");
  EXPECT_EQ(shape_text(local_shape({12, 5}, sharding, mesh)), "[2, 5]");
  // Rank 5 is the second of tp and the third of fsdp.
  EXPECT_EQ(shard_start({12, 5}, sharding, mesh, 5), (std::vector<int64_t>{10, 0}));
  EXPECT_EQ(shard_start({12, 5}, sharding, mesh, 2), (std::vector<int64_t>{2, 0}));
}

TEST(Sharding, WhatDoesNotFitIsNamed) {
  const Mesh mesh = mesh_of_tp_and_fsdp();
  const auto message = [&](const char* text, const Shape& shape) {
    return message_of([&] { check_sharding(Sharding::parse(text), shape, mesh, "'weight'"); });
  };
  EXPECT_NE(message("tp+fsdp,-", {13, 4}).find("dimension 0 of 13 is not divisible by 6 ranks"), std::string::npos);
  EXPECT_NE(message("tp+fsdp,-", {13, 4}).find("12 and 18"), std::string::npos);
  EXPECT_NE(message("fsdp+tp,-", {12, 4}).find("'tp' comes before 'fsdp'"), std::string::npos);
  EXPECT_NE(message("tp,tp", {12, 4}).find("'tp' is named twice"), std::string::npos);
  EXPECT_NE(message("fsdq,-", {12, 4}).find("Did you mean 'fsdp'?"), std::string::npos);
  EXPECT_NE(message("tp", {12, 4}).find("it has 2 dimensions"), std::string::npos);
  EXPECT_NO_THROW(check_sharding(Sharding::parse("tp+fsdp,-"), {12, 4}, mesh, "'weight'"));
}

TEST(Sharding, PartsMakeUpTheWhole) {
  const Mesh mesh = mesh_of_tp_and_fsdp();
  const HostTensor whole = random_host_tensor(DType::kF32, {12, 4}, 1);
  for (const char* text : {"tp+fsdp,-", "fsdp,tp", "-,tp", ""}) {
    const Sharding sharding = Sharding::parse(text);
    std::vector<HostTensor> parts;
    for (int64_t rank = 0; rank < mesh.ranks(); ++rank) parts.push_back(shard_of(whole, sharding, mesh, rank));
    EXPECT_EQ(assemble(parts, sharding, mesh).values, whole.values) << text;
  }
}

TEST(Sharding, CollectivesOfEveryRank) {
  const Mesh mesh = mesh_of_tp_and_fsdp();
  Graph graph;
  const Value x = graph.add_input("x", {DType::kF32, {3, 2}});
  const auto add = [&](Op op, const char* group, int64_t count) {
    Attributes attributes;
    attributes.group = group;
    attributes.count = count;
    graph.outputs.push_back(graph.add(op, {x}, attributes));
  };
  add("all_reduce"_op, "tp", 2);
  add("all_gather"_op, "fsdp", 3);
  add("reduce_scatter"_op, "fsdp", 3);
  add("all_to_all"_op, "fsdp", 3);
  EXPECT_EQ(shape_text(graph.shape(graph.outputs[1])), "[3, 3, 2]");
  std::vector<std::vector<HostTensor>> inputs;
  for (int rank = 0; rank < 6; ++rank) {
    std::vector<double> values;
    for (int i = 0; i < 6; ++i) values.push_back(rank * 10 + i);
    inputs.push_back({make_host_tensor(DType::kF32, {3, 2}, values)});
  }
  const std::vector<std::vector<HostTensor>> results = interpret_ranks(graph, mesh, inputs);
  // Rank 3 is the second of tp (with rank 2) and the second of fsdp (with ranks 1 and 5).
  EXPECT_EQ(results[3][0].values, (std::vector<double>{50, 52, 54, 56, 58, 60}));
  EXPECT_EQ(results[3][1].values,
            (std::vector<double>{10, 11, 12, 13, 14, 15, 30, 31, 32, 33, 34, 35, 50, 51, 52, 53, 54, 55}));
  EXPECT_EQ(results[3][2].values, (std::vector<double>{96, 99}));
  EXPECT_EQ(results[3][3].values, (std::vector<double>{12, 13, 32, 33, 52, 53}));
}

TEST(Sharding, ATextOfAGraphCarriesIt) {
  Graph graph;
  const Value x = graph.add_input("x", {DType::kF32, {4, 2}}, Sharding::parse("tp,-"));
  Attributes attributes;
  attributes.sharding = Sharding::parse("-,tp");
  Attributes gather;
  gather.group = "tp";
  gather.count = 2;
  graph.outputs = {graph.add("constrain_sharding"_op, {x}, attributes), graph.add("all_gather"_op, {x}, gather)};
  const std::string text = print_graph(graph);
  EXPECT_NE(text.find("sharding=\"tp,-\""), std::string::npos) << text;
  EXPECT_TRUE(structurally_equal(parse_graph(text), graph)) << text;
}

}  // namespace
}  // namespace causeway::graph
