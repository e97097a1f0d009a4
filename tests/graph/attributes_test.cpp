#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "causeway/graph/graph.h"
#include "causeway/graph/parser.h"
#include "causeway/graph/printer.h"
#include "causeway/graph/user_kernel.h"
#include "tests/fixtures/op_literal.h"

namespace causeway::graph {
namespace {

// Gives a field another value than a new structure's.
void change(std::vector<int64_t>& value) { value = {3, -1}; }
void change(Shape& value) { value = {Dim::symbol("attributes_test_N"), 5}; }
void change(double& value) { value = -0.0; }
void change(DType& value) { value = DType::kU8; }
void change(bool& value) { value = !value; }
void change(int& value) { value += 64; }
void change(int64_t& value) { value -= 9; }
void change(Dim& value) { value = Dim::symbol("attributes_test_N"); }
void change(std::string& value) { value = "a \"name\""; }
void change(Sharding& value) { value.partial = {"tp"}; }
void change(std::vector<TensorType>& value) { value = {{DType::kF32, {2}}}; }
void change(std::shared_ptr<const Graph>& value) {
  value = std::make_shared<Graph>(parse_graph("%0 = constant 2 : f32[]\nreturn %0\n"));
}
void change(std::shared_ptr<const AttentionSpec>& value) { value = std::make_shared<AttentionSpec>(); }
void change(std::shared_ptr<const UserKernelSpec>& value) { value = std::make_shared<UserKernelSpec>(); }

// A node whose op reads none of its attributes, and whose types imply none.
Graph graph_with(const Attributes& attributes) {
  Graph graph;
  const Value x = graph.add_input("x", {DType::kF32, {}});
  graph.outputs = {graph.add("neg"_op, {x}, attributes)};
  return graph;
}

void expect_distinct(const Attributes& a, const Attributes& b, std::string_view field) {
  EXPECT_FALSE(a == b) << field;
  EXPECT_NE(hash_value(a), hash_value(b)) << field;
  EXPECT_NE(print_graph(graph_with(a)), print_graph(graph_with(b))) << field;
}

void expect_read_back(const Attributes& attributes, std::string_view field) {
  const Graph graph = graph_with(attributes), back = parse_graph(print_graph(graph));
  EXPECT_TRUE(structurally_equal(graph, back)) << field << "\n" << print_graph(graph);
  EXPECT_EQ(hash_value(attributes), hash_value(back.node(back.outputs[0]).attributes)) << field;
}

TEST(Attributes, EveryFieldCountsInEqualityHashAndText) {
  for_each_field<Attributes>([](const auto& field) {
    Attributes changed;
    change(changed.*field.member);
    expect_distinct(Attributes(), changed, field.name);
    EXPECT_TRUE(changed == Attributes(changed)) << field.name;
    if (changed.user_kernel == nullptr) expect_read_back(changed, field.name);  // kernels are not read from text
  });
}

TEST(Attributes, EveryFieldOfAttentionCounts) {
  const auto with = [](const AttentionSpec& spec) {
    Attributes attributes;
    attributes.attention = std::make_shared<AttentionSpec>(spec);
    return attributes;
  };
  for_each_field<AttentionSpec>([&](const auto& field) {
    AttentionSpec changed;
    change(changed.*field.member);
    expect_distinct(with({}), with(changed), field.name);
    EXPECT_TRUE(with(changed) == with(changed)) << field.name;
    expect_read_back(with(changed), field.name);
  });
}

TEST(Attributes, EveryFieldOfAUserKernelCountsButItsGradient) {
  const auto with = [](const UserKernelSpec& spec) {
    Attributes attributes;
    attributes.user_kernel = std::make_shared<UserKernelSpec>(spec);
    return attributes;
  };
  for_each_field<UserKernelSpec>([&](const auto& field) {
    UserKernelSpec changed;
    if constexpr (requires { change(changed.*field.member); }) {
      change(changed.*field.member);
      EXPECT_FALSE(with({}) == with(changed)) << field.name;
      EXPECT_NE(hash_value(with({})), hash_value(with(changed))) << field.name;
      EXPECT_FALSE(same_computation({}, changed)) << field.name;
    } else {
      changed.gradient = [](Graph&, const Node&, const std::vector<Value>&, const std::vector<Value>&) {
        return std::vector<Value>();
      };
      EXPECT_TRUE(with({}) == with(changed)) << field.name;
      EXPECT_EQ(hash_value(with({})), hash_value(with(changed))) << field.name;
    }
  });
}

TEST(Attributes, NumbersCompareByTheirBits) {
  Attributes zero, negative_zero, nan, other_nan;
  negative_zero.value = -0.0;
  nan.value = std::numeric_limits<double>::quiet_NaN();
  other_nan.value = std::copysign(nan.value, -1.0);
  EXPECT_FALSE(zero == negative_zero);
  EXPECT_TRUE(nan == other_nan);
  EXPECT_EQ(hash_value(nan), hash_value(other_nan));
}

// A program is shared by what the text of its graph says: padding with -0 is not padding with 0.
TEST(Attributes, TextKeepsTheSignOfZero) {
  Graph graph;
  const Value x = graph.add_input("x", {DType::kF32, {2}});
  Attributes attributes;
  attributes.start = {1};
  attributes.limit = {0};
  attributes.value = -0.0;
  graph.outputs = {graph.add("pad"_op, {x}, attributes)};
  const std::string text = print_graph(graph);
  EXPECT_NE(text.find("value=-0"), std::string::npos) << text;
  EXPECT_TRUE(std::signbit(parse_graph(text).node(graph.outputs[0]).attributes.value));
}

}  // namespace
}  // namespace causeway::graph
