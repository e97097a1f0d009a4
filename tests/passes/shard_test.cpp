// The graph of one rank, on every rank, against the graph of whole values on one: interpreted in f64.
#include "causeway/passes/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "causeway/base/error.h"
#include "causeway/graph/interpreter.h"
#include "causeway/graph/parser.h"
#include "causeway/graph/printer.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/canonicalize.h"
#include "causeway/passes/eliminate_common_subexpressions.h"
#include "causeway/passes/expand_linear_cross_entropy.h"
#include "tests/fixtures/op_literal.h"
#include "tests/random_graph/random_graph.h"

namespace causeway::passes {
namespace {

HostTensor coordinates_of(const Mesh& mesh, int64_t rank) {
  std::vector<double> values;
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis)
    values.push_back(static_cast<double>(mesh.coordinate(rank, axis)));
  return make_host_tensor(DType::kI32, {static_cast<int64_t>(values.size())}, values);
}

// The graph with its inputs lying as said, and the mesh's coordinates as its last input.
Graph with_shardings(const Graph& graph, const std::vector<Sharding>& shardings, const Mesh& mesh) {
  Graph result;
  std::vector<std::vector<Value>> mapped(graph.nodes().size());
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Value input = graph.inputs()[i];
    mapped[static_cast<size_t>(input.node)] = {
        result.add_input(graph.node(input).attributes.name, graph.type(input), shardings[i])};
  }
  result.add_input(kMeshCoordinates, {DType::kI32, {Dim(static_cast<int64_t>(mesh.axes.size()))}});
  const auto map = [&](Value value) {
    return mapped[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)];
  };
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (graph.nodes()[i].op == "input"_op) continue;
    std::vector<Value> inputs;
    for (const Value input : graph.nodes()[i].inputs) inputs.push_back(map(input));
    mapped[i] = copy_node(result, graph.nodes()[i], inputs);
  }
  for (const Value output : graph.outputs) result.outputs.push_back(map(output));
  for (const Assignment& assignment : graph.assignments)
    result.assignments.push_back({map(assignment.target), map(assignment.value)});
  return result;
}

// The first element that differs by more than such a part of the largest, or nothing. The same infinities and NaNs are
// equal.
std::string differing_element(const HostTensor& actual, const HostTensor& expected, double tolerance) {
  if (actual.type_text() != expected.type_text())
    return fmt::format("{} instead of {}", actual.type_text(), expected.type_text());
  double largest = 0;
  for (const double value : expected.values)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const double a = actual.values[i], b = expected.values[i];
    if (a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance * largest) continue;
    return fmt::format("element {} is {} instead of {}", i, a, b);
  }
  return "";
}

void expect_same_values(const Graph& graph, const std::vector<HostTensor>& inputs,
                        const std::vector<Sharding>& shardings, const Mesh& mesh, const std::string& what,
                        bool whole_sums) {
  const Graph whole = with_shardings(graph, shardings, mesh);
  const std::vector<HostTensor> reference = interpret(graph, inputs);
  const Graph local = shard(whole, mesh, whole_sums);
  local.verify("shard");
  // Roundings in f64, where ranks add up parts of sums.
  const double tolerance = whole_sums ? 0 : 1e-10;
  std::vector<std::vector<HostTensor>> parts;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    parts.emplace_back();
    for (size_t i = 0; i < inputs.size(); ++i) parts.back().push_back(shard_of(inputs[i], shardings[i], mesh, rank));
    parts.back().push_back(coordinates_of(mesh, rank));
  }
  const std::vector<std::vector<HostTensor>> results = interpret_ranks(local, mesh, parts);
  for (size_t o = 0; o < reference.size(); ++o) {
    Sharding sharding;
    if (o >= graph.outputs.size()) {
      const Value target = graph.assignments[o - graph.outputs.size()].target;
      const auto at = std::find(graph.inputs().begin(), graph.inputs().end(), target) - graph.inputs().begin();
      sharding = shardings[static_cast<size_t>(at)];
    }
    for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
      const HostTensor expected = shard_of(reference[o], sharding, mesh, rank);
      ASSERT_EQ(differing_element(results[static_cast<size_t>(rank)][o], expected, tolerance), "")
          << what << ", rank " << rank << ", result " << o << "\n"
          << print_graph(whole) << "\n"
          << print_graph(local);
    }
  }
}

// With terms of sums on several ranks, and without.
void expect_same_values(const Graph& graph, const std::vector<HostTensor>& inputs,
                        const std::vector<Sharding>& shardings, const Mesh& mesh, const std::string& what) {
  for (const bool whole_sums : {false, true}) {
    expect_same_values(graph, inputs, shardings, mesh, what, whole_sums);
    if (testing::Test::HasFatalFailure()) return;
  }
}

Mesh one_axis(int64_t ranks, bool gathers_weights = true) { return {{{"a", ranks, 1, gathers_weights}}}; }
Mesh two_axes(int64_t a, int64_t b) { return {{{"a", a, 1, false}, {"b", b, a, true}}}; }

// Every way of cutting one dimension of a shape, and not cutting it.
std::vector<Sharding> shardings_of(const TensorType& type, int64_t ranks) {
  std::vector<Sharding> result(1);
  if (type.dtype == DType::kI64) return result;  // the seed of random bits
  for (size_t d = 0; d < type.shape.size(); ++d) {
    if (type.shape[d].constant() % ranks != 0) continue;
    result.emplace_back();
    result.back().dims.resize(type.shape.size());
    result.back().dims[d] = {"a"};
  }
  return result;
}

struct PrimitiveText {
  std::string name;
  std::string text;
};

// Sizes that 2 and 3 divide. Integer inputs named "index" are indices below 12.
const PrimitiveText kPrimitives[] = {
    {"elementwise", R"(%0 = input "x" : f32[6, 12]
%1 = input "y" : f32[6, 12]
%2 = mul(%0, %1) : f32[6, 12]
%3 = lt(%2, %0) : bool[6, 12]
%4 = select(%3, %1, %2) : f32[6, 12]
return %4)"},
    {"sources", R"(%0 = input "x" : f32[6, 12]
%1 = iota {axes=[0]} : f32[6, 12]
%2 = iota {axes=[1]} : i32[6, 12]
%3 = cast(%2) : f32[6, 12]
%4 = constant 0.5 : f32[6, 12]
%5 = add(%0, %1) : f32[6, 12]
%6 = mul(%5, %3) : f32[6, 12]
%7 = add(%6, %4) : f32[6, 12]
return %7)"},
    {"random_bits", R"(%0 = input "x" : i32[6, 12]
%1 = input "index" : i64[2]
%2 = random_bits(%1) {stream=3} : i32[6, 12]
%3 = xor(%0, %2) : i32[6, 12]
return %3)"},
    {"reduce_sum", R"(%0 = input "x" : f32[6, 4, 12]
%1 = reduce_sum(%0) {axes=[0, 2]} : f32[4]
%2 = reduce_sum(%0) {axes=[1]} : f32[6, 12]
return %1, %2)"},
    {"sum of squares of a product", R"(%0 = input "x" : f32[6, 12]
%1 = input "y" : f32[12, 18]
%2 = dot(%0, %1) : f32[6, 18]
%3 = mul(%2, %2) : f32[6, 18]
%4 = reduce_sum(%3) {axes=[0, 1]} : f32[]
%5 = sqrt(%4) : f32[]
return %5, %2)"},
    {"reduce_max", R"(%0 = input "x" : f32[6, 4, 12]
%1 = reduce_max(%0) {axes=[0, 2]} : f32[4]
%2 = reduce_max(%0) {axes=[1]} : f32[6, 12]
return %1, %2)"},
    {"along an axis", R"(%0 = input "x" : f32[6, 12]
%1 = argmax(%0) {axes=[1]} : i32[6]
%2 = cumsum(%0) {axes=[0]} : f32[6, 12]
%3:2 = topk(%0) {count=6} : f32[6, 6], i32[6, 6]
return %1, %2, %3, %3.1)"},
    {"movement", R"(%0 = input "x" : f32[6, 12]
%1 = permute(%0) {axes=[1, 0]} : f32[12, 6]
%2 = reshape(%1) : f32[3, 4, 6]
%3 = slice(%2) {start=[0, 1, 0], limit=[3, 3, 6], strides=[1, 1, 1]} : f32[3, 2, 6]
%4 = pad(%3) {start=[0, 1, 0], limit=[0, 3, 0], value=2} : f32[3, 6, 6]
%5 = concat(%4, %4) {axes=[0]} : f32[6, 6, 6]
%6 = reshape(%0) : f32[72]
%7 = broadcast(%6) {axes=[1]} : f32[6, 72]
return %5, %7)"},
    {"merged and split", R"(%0 = input "x" : f32[4, 6, 12]
%1 = input "y" : f32[12, 6]
%2 = reshape(%0) : f32[24, 12]
%3 = dot(%2, %1) : f32[24, 6]
%4 = reshape(%3) : f32[4, 6, 6]
%5 = mul(%4, %4) : f32[4, 6, 6]
return %5)"},
    {"gather", R"(%0 = input "x" : f32[12, 6]
%1 = input "index" : i32[6, 4]
%2 = gather(%0, %1) {axes=[0]} : f32[6, 4, 6]
%3 = mul(%2, %2) : f32[6, 4, 6]
return %3)"},
    {"gather of a later axis", R"(%0 = input "x" : f32[6, 12, 4]
%1 = input "index" : i32[6]
%2 = gather(%0, %1) {axes=[1]} : f32[6, 6, 4]
return %2)"},
    {"scatter_add", R"(%0 = input "x" : f32[12, 6]
%1 = input "index" : i32[6, 4]
%2 = input "y" : f32[6, 4, 6]
%3 = constant 0 : f32[12, 6]
%4 = scatter_add(%3, %1, %2) {axes=[0]} : f32[12, 6]
%5 = scatter_add(%0, %1, %2) {axes=[0]} : f32[12, 6]
%6 = mul(%4, %5) : f32[12, 6]
return %6)"},
    {"scatter_add that replaces", R"(%0 = input "x" : f32[12, 6]
%1 = input "index" : i32[6]
%2 = input "y" : f32[6, 6]
%3 = scatter_add(%0, %1, %2) {axes=[0], replaces} : f32[12, 6]
%4 = mul(%3, %0) : f32[12, 6]
return %3, %4)"},
    {"dot in batches", R"(%0 = input "x" : f32[6, 6, 12]
%1 = input "y" : f32[6, 18, 12]
%2 = dot(%0, %1) {transpose_b} : f32[6, 6, 18]
return %2)"},
    {"dot transposed", R"(%0 = input "x" : f32[12, 6]
%1 = input "y" : f32[12, 18]
%2 = dot(%0, %1) {transpose_a} : f32[6, 18]
return %2)"},
    {"scaled_dot", R"(%0 = input "x" : f8e4m3[6, 768]
%1 = input "y" : f8e4m3[12, 768]
%2 = input "scales of x" : f32[6, 6]
%3 = input "scales of y" : f32[6, 12]
%4 = scaled_dot(%0, %1, %2, %3) {dtype=f32} : f32[6, 12]
return %4)"},
    {"scaled_dot of blocks of lines", R"(%0 = input "x" : f8e4m3[6, 128]
%1 = input "y" : f8e4m3[768, 128]
%2 = input "scales of x" : f32[1, 6]
%3 = input "scales of y" : f32[1, 6]
%4 = scaled_dot(%0, %1, %2, %3) {dtype=f32} : f32[6, 768]
return %4)"},
    {"grouped_dot", R"(%0 = input "x" : f32[6, 72, 6]
%1 = input "y" : f32[6, 12, 6]
%2 = input "index" : i32[6, 6]
%3 = cumsum(%2) {axes=[1]} : i32[6, 6]
%4 = pad(%3) {start=[0, 1], limit=[0, 0]} : i32[6, 7]
%5 = grouped_dot(%0, %1, %4) {transpose_b} : f32[6, 72, 12]
%6 = grouped_dot(%0, %5, %4) {transpose_a} : f32[6, 6, 12]
%7 = mul(%6, %6) : f32[6, 6, 12]
return %5, %7)"},
    {"grouped_dot of matrices as they lie", R"(%0 = input "x" : f32[6, 72, 6]
%1 = input "y" : f32[6, 6, 12]
%2 = input "index" : i32[6, 6]
%3 = cumsum(%2) {axes=[1]} : i32[6, 6]
%4 = pad(%3) {start=[0, 1], limit=[0, 0]} : i32[6, 7]
%5 = grouped_dot(%0, %1, %4) : f32[6, 72, 12]
%6 = mul(%5, %5) : f32[6, 72, 12]
return %6)"},
    {"linear_cross_entropy", R"(%0 = input "x" : f32[6, 4]
%1 = input "y" : f32[12, 4]
%2 = input "index" : i32[6]
%3 = input "z" : f32[6]
%4:4 = linear_cross_entropy(%0, %1, %2, %3) : f32[], f32[6, 4], f32[12, 4], f32[6]
%5 = mul(%4.2, %4.2) : f32[12, 4]
%6 = mul(%4.3, %4.3) : f32[6]
return %4, %4.1, %5, %6)"},
    {"linear_cross_entropy with a z-loss", R"(%0 = input "x" : f32[6, 4]
%1 = input "y" : f32[12, 4]
%2 = input "index" : i32[6]
%3 = input "z" : f32[6]
%4:5 = linear_cross_entropy(%0, %1, %2, %3) {z_loss=0.25} : f32[], f32[6, 4], f32[12, 4], f32[6], f32[]
%5 = mul(%4.2, %4.2) : f32[12, 4]
%6 = mul(%4.4, %4.4) : f32[]
return %4, %4.1, %5, %6)"},
    {"attention", R"(%0 = input "q" : f32[6, 6, 6, 2]
%1 = input "k" : f32[6, 4, 6, 2]
%2 = input "v" : f32[6, 4, 6, 2]
%3 = input "documents" : f32[6, 6]
%4:2 = attention(%0, %1, %2, %3) {scale=0.5, block_q=2, block_k=2, score={
  %0 = input "b" : i32[]
  %1 = input "h" : i32[]
  %2 = input "i" : i32[]
  %3 = input "j" : i32[]
  %4 = input "s" : f32[]
  %5 = input "c" : f32[6, 6]
  %6 = gather(%5, %0) {axes=[0]} : f32[6]
  %7 = gather(%6, %2) {axes=[0]} : f32[]
  %8 = cast(%1) : f32[]
  %9 = mul(%7, %8) : f32[]
  %10 = add(%4, %9) : f32[]
  return %10
}, mask={
  %0 = input "b" : i32[]
  %1 = input "h" : i32[]
  %2 = input "i" : i32[]
  %3 = input "j" : i32[]
  %4 = input "c" : f32[6, 6]
  %5 = le(%3, %2) : bool[]
  return %5
}} : f32[6, 6, 6, 2], f32[6, 6, 6]
return %4, %4.1)"},
    {"attention without functions, with GQA", R"(%0 = input "q" : f32[2, 6, 12, 2]
%1 = input "k" : f32[2, 4, 6, 2]
%2 = input "v" : f32[2, 4, 6, 2]
%3:2 = attention(%0, %1, %2) {scale=0.5, block_q=64, block_k=64} : f32[2, 6, 12, 2], f32[2, 12, 6]
return %3, %3.1)"},
    {"attention_gradient", R"(%0 = input "q" : f32[6, 6, 6, 2]
%1 = input "k" : f32[6, 4, 6, 2]
%2 = input "v" : f32[6, 4, 6, 2]
%3 = input "dout" : f32[6, 6, 6, 2]
%4 = input "lse" : f32[6, 6, 6]
%5 = input "delta" : f32[6, 6, 6]
%6:3 = attention_gradient(%0, %1, %2, %3, %4, %5) {scale=0.5, block_q=2, block_k=2, mask={
  %0 = input "b" : i32[]
  %1 = input "h" : i32[]
  %2 = input "i" : i32[]
  %3 = input "j" : i32[]
  %4 = le(%3, %2) : bool[]
  return %4
}} : f32[6, 6, 6, 2], f32[6, 4, 6, 2], f32[6, 4, 6, 2]
return %6, %6.1, %6.2)"},
};

std::vector<HostTensor> inputs_of(const Graph& graph, uint64_t seed) {
  std::vector<HostTensor> inputs;
  for (const Value input : graph.inputs()) {
    const TensorType& type = graph.type(input);
    inputs.push_back(random_host_tensor(type.dtype, evaluate(type.shape, {}), seed++, is_float(type.dtype) ? -1 : 0,
                                        is_float(type.dtype) ? 1 : 12));
  }
  return inputs;
}

TEST(Shard, EveryPrimitiveWithItsInputsCutInEveryWay) {
  for (const PrimitiveText& primitive : kPrimitives) {
    const Graph graph = parse_graph(primitive.text);
    const std::vector<HostTensor> inputs = inputs_of(graph, 7);
    for (const int64_t ranks : {2, 3}) {
      std::vector<std::vector<Sharding>> combinations(1);
      for (const Value input : graph.inputs()) {
        std::vector<std::vector<Sharding>> more;
        for (const std::vector<Sharding>& begun : combinations)
          for (const Sharding& sharding : shardings_of(graph.type(input), ranks)) {
            more.push_back(begun);
            more.back().push_back(sharding);
          }
        combinations = std::move(more);
      }
      // All of few, and a regular sample of many.
      const size_t stride = std::max<size_t>(1, combinations.size() / 60);
      for (size_t c = 0; c < combinations.size(); c += stride)
        for (const bool gathers_weights : {false, true}) {
          expect_same_values(graph, inputs, combinations[c], one_axis(ranks, gathers_weights), primitive.name);
          if (HasFatalFailure()) return;
        }
    }
  }
}

// Gradients of keys that were gathered along positions go at once to who has the part: no GEMM runs on terms of all
// positions, and what is exchanged is as wide as the keys.
TEST(Shard, GradientsOfGatheredKeysAreAddedUpBeforeTheyAreMultiplied) {
  const Graph graph = parse_graph(R"(%0 = input "x" : f32[2, 12, 8]
%1 = input "w" : f32[2, 4, 8]
%2 = input "q" : f32[2, 12, 1, 4]
%3 = input "g" : f32[2, 12, 1, 4]
%4 = input "lse" : f32[2, 1, 12]
%5 = input "delta" : f32[2, 1, 12]
%6 = dot(%0, %1) {transpose_b} : f32[2, 12, 4]
%7 = reshape(%6) : f32[2, 12, 1, 4]
%8:3 = attention_gradient(%2, %7, %7, %3, %4, %5) {scale=0.5, block_q=2, block_k=2} : f32[2, 12, 1, 4], f32[2, 12, 1, 4], f32[2, 12, 1, 4]
%9 = reshape(%8.1) : f32[2, 12, 4]
%10 = dot(%9, %1) : f32[2, 12, 8]
return %10
)");
  const Mesh mesh = one_axis(3);
  std::vector<Sharding> shardings;
  for (const Value input : graph.inputs()) {
    Sharding sharding;
    sharding.dims.resize(graph.shape(input).size());
    // Of `w` nothing.
    const std::string& name = graph.node(input).attributes.name;
    if (name != "w") sharding.dims[name == "lse" || name == "delta" ? 2 : 1] = {"a"};
    shardings.push_back(sharding);
  }
  expect_same_values(graph, inputs_of(graph, 7), shardings, mesh, "gathered keys");
  const Graph local = shard(with_shardings(graph, shardings, mesh), mesh, false);
  std::vector<std::string> scattered, products;
  for (const Node& node : local.nodes()) {
    if (node.op == "reduce_scatter"_op) scattered.push_back(node.outputs[0].text());
    if (node.op == "dot"_op) products.push_back(node.outputs[0].text());
    EXPECT_NE(node.op, "all_reduce"_op);
  }
  EXPECT_THAT(scattered, testing::Contains("f32[2, 4, 1, 4]"));
  EXPECT_THAT(products, testing::ElementsAre("f32[2, 4, 4]", "f32[2, 4, 8]"));
}

// Dimension by dimension none, one or both axes, chosen by the seed.
Sharding random_sharding(const Shape& shape, const Mesh& mesh, uint64_t& state) {
  Sharding sharding;
  sharding.dims.resize(shape.size());
  for (const MeshAxis& axis : mesh.axes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const size_t d = (state >> 33) % (shape.size() + 1);
    if (d == shape.size()) continue;
    sharding.dims[d].push_back(axis.name);
    int64_t pieces = 1;
    for (const std::string& name : sharding.dims[d]) pieces *= mesh.axes[mesh.axis(name)].size;
    if (!shape[d].is_constant() || shape[d].constant() == 0 || shape[d].constant() % pieces != 0)
      sharding.dims[d].pop_back();
  }
  return sharding;
}

TEST(Shard, EveryPrimitiveOverTwoAxes) {
  uint64_t state = 1;
  for (const PrimitiveText& primitive : kPrimitives) {
    const Graph graph = parse_graph(primitive.text);
    const std::vector<HostTensor> inputs = inputs_of(graph, 7);
    for (int repeat = 0; repeat < 12; ++repeat) {
      const Mesh mesh = repeat % 2 == 0 ? two_axes(2, 3) : two_axes(3, 2);
      std::vector<Sharding> shardings;
      for (const Value input : graph.inputs())
        shardings.push_back(graph.dtype(input) == DType::kI64 ? Sharding()
                                                              : random_sharding(graph.shape(input), mesh, state));
      expect_same_values(graph, inputs, shardings, mesh, primitive.name);
      if (HasFatalFailure()) return;
    }
  }
}

// Values lie cut by their heads along the second axis, and the gradient's heads are cut by the first one: terms along
// the second are added up whole.
TEST(Shard, GradientsOfValuesThatAnotherAxisCutsAreAddedUp) {
  const auto* const primitive = std::ranges::find(kPrimitives, "attention_gradient", &PrimitiveText::name);
  ASSERT_NE(primitive, std::end(kPrimitives));
  const Graph graph = parse_graph(primitive->text);
  std::vector<Sharding> shardings;
  for (const char* text : {"-,-,a,-", "-,a,-,-", "-,-,b,a", "a,-,-,-", "-,b,-", "-,-,b"})
    shardings.push_back(Sharding::parse(text));
  expect_same_values(graph, inputs_of(graph, 7), shardings, two_axes(2, 3), primitive->name);
}

TEST(Shard, RandomGraphs) {
  uint64_t state = 3;
  int cut = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const RandomGraph random = make_random_graph(seed, {.maximum_elements = 2000, .bf16 = false, .attention = true});
    const Mesh mesh = seed % 3 == 0 ? two_axes(2, 2) : one_axis(seed % 3 == 1 ? 2 : 3);
    std::vector<Sharding> shardings;
    for (const Value input : random.graph.inputs()) {
      shardings.push_back(random.graph.dtype(input) == DType::kI64
                              ? Sharding()
                              : random_sharding(random.graph.shape(input), mesh, state));
      if (!shardings.back().replicated()) ++cut;
    }
    expect_same_values(random.graph, random.inputs, shardings, mesh, fmt::format("seed {}", seed));
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(cut, 60);
}

std::map<std::string, int> collectives_of(const Graph& graph) {
  std::map<std::string, int> count;
  for (const Node& node : graph.nodes())
    if (op_info(node.op).kind == OpKind::kCollective)
      ++count[fmt::format("{} {}", op_name(node.op), node.outputs[0].text())];
  return count;
}

using Count = std::map<std::string, int>;

// One linear layer with a loss, its gradient, its norm and a step of momentum: w takes w - m', m takes m'.
constexpr char kTraining[] = R"(%0 = input "w" {sharding="W"} : f32[8, 4]
%1 = input "m" {sharding="M"} : f32[8, 4]
%2 = input "x" {sharding="X"} : f32[12, 4]
%3 = input "mesh_coordinates" : i32[1]
%4 = dot(%2, %0) {transpose_b} : f32[12, 8]
%5 = mul(%4, %4) : f32[12, 8]
%6 = reduce_sum(%5) {axes=[0, 1]} : f32[]
%7 = dot(%4, %2) {transpose_a, backward} : f32[8, 4]
%8 = mul(%7, %7) : f32[8, 4]
%9 = reduce_sum(%8) {axes=[0, 1]} : f32[]
%10 = broadcast(%9) {axes=[]} : f32[8, 4]
%11 = div(%7, %10) : f32[8, 4]
%12 = add(%1, %11) : f32[8, 4]
%13 = sub(%0, %12) : f32[8, 4]
assign %0 = %13
assign %1 = %12
return %6, %9
)";

Graph training(const std::string& w, const std::string& m, const std::string& x, const Mesh& mesh) {
  std::string text = kTraining;
  for (const auto& [key, value] : {std::pair<std::string, std::string>{"\"W\"", w}, {"\"M\"", m}, {"\"X\"", x}})
    text.replace(text.find(key), 3, "\"" + value + "\"");
  const Graph graph = eliminate_common_subexpressions(canonicalize(shard(parse_graph(text), mesh)));
  return graph;
}

TEST(Shard, DataParallelismAddsUpGradientsOnce) {
  EXPECT_EQ(collectives_of(training("", "", "a,-", one_axis(2))),
            (Count{{"all_reduce f32[]", 1}, {"all_reduce f32[8, 4]", 1}}));
}

TEST(Shard, CutOptimizerStateScattersGradientsAndGathersWeights) {
  EXPECT_EQ(collectives_of(training("", "a,-", "a,-", one_axis(2))),
            (Count{{"all_reduce f32[]", 2}, {"reduce_scatter f32[4, 4]", 1}, {"all_gather f32[2, 4, 4]", 1}}));
}

TEST(Shard, CutWeightsAreGatheredAndTheirGradientsScattered) {
  EXPECT_EQ(collectives_of(training("a,-", "a,-", "a,-", one_axis(2))),
            (Count{{"all_reduce f32[]", 2}, {"reduce_scatter f32[4, 4]", 1}, {"all_gather f32[2, 4, 4]", 1}}));
}

TEST(Shard, TensorParallelismMovesNoWeights) {
  EXPECT_EQ(collectives_of(training("a,-", "a,-", "", one_axis(2, false))), (Count{{"all_reduce f32[]", 2}}));
}

TEST(Shard, HybridAddsUpPartsOfGradientsOverTheOtherAxis) {
  const Mesh mesh = two_axes(2, 3);
  std::string text = kTraining;
  const auto replace = [&](const std::string& key, const std::string& value) {
    text.replace(text.find(key), 3, value);
  };
  replace("\"W\"", "\"a,-\"");
  replace("\"M\"", "\"a,-\"");
  replace("\"X\"", "\"a+b,-\"");
  text.replace(text.find("i32[1]"), 6, "i32[2]");
  Mesh weights_gathered = mesh;
  weights_gathered.axes[0].gathers_weights = true;
  const Count count = collectives_of(shard(parse_graph(text), weights_gathered));
  EXPECT_EQ(count.at("reduce_scatter f32[4, 4]"), 1);
  EXPECT_EQ(count.at("all_reduce f32[4, 4]"), 1);
  EXPECT_EQ(count.at("all_gather f32[2, 4, 4]"), 1);
}

// Each rank's rows are permuted among themselves: nothing is exchanged. Where another axis cuts the same rows, whose
// order does not follow it, values are the same.
TEST(Shard, PermutationsOfSlabsStayOnTheirRanks) {
  const Graph graph = parse_graph(R"(%0 = input "x" : f32[8, 6]
%1 = input "index" : i32[2, 4]
%2 = input "y" : f32[2, 4, 6]
%3 = input "z" : i32[8]
%4 = gather(%0, %1) {axes=[0], permutes} : f32[2, 4, 6]
%5 = scatter_add(%3, %1, %1) {axes=[0], permutes} : i32[8]
assign %2 = %4
assign %3 = %5
return
)");
  std::vector<HostTensor> inputs = inputs_of(graph, 7);
  inputs[1] = make_host_tensor(DType::kI32, {2, 4}, {2, 0, 3, 1, 5, 4, 7, 6});
  const auto parse = [](const char* text) { return Sharding::parse(text); };
  const std::vector<Sharding> cut = {parse("a,-"), parse("a,-"), parse("a,-,-"), parse("a")};
  expect_same_values(graph, inputs, cut, one_axis(2), "rows");
  EXPECT_TRUE(collectives_of(shard(with_shardings(graph, cut, one_axis(2)), one_axis(2))).empty());
  const std::vector<Sharding> both = {parse("a+b,-"), parse("a,-"), parse("a,b,-"), parse("a")};
  expect_same_values(graph, inputs, both, two_axes(2, 2), "rows that two axes cut");
}

TEST(Shard, ALossOverACutVocabularyMovesOneNumberForEachToken) {
  const Mesh mesh = one_axis(2, false);
  const Graph graph = parse_graph(R"(%0 = input "x" : f32[6, 4]
%1 = input "y" : f32[12, 4]
%2 = input "index" : i32[6]
%3 = input "z" : f32[6]
%4:4 = linear_cross_entropy(%0, %1, %2, %3) : f32[], f32[6, 4], f32[12, 4], f32[6]
assign %1 = %4.2
return %4, %4.1
)");
  // A z-loss is of the same numbers.
  const Graph with_z_loss = parse_graph(R"(%0 = input "x" : f32[6, 4]
%1 = input "y" : f32[12, 4]
%2 = input "index" : i32[6]
%3 = input "z" : f32[6]
%4:5 = linear_cross_entropy(%0, %1, %2, %3) {z_loss=0.25} : f32[], f32[6, 4], f32[12, 4], f32[6], f32[]
assign %1 = %4.2
return %4, %4.1, %4.4
)");
  const Graph expanded = expand_linear_cross_entropy(graph, {.logits_bytes = INT64_MAX});
  const std::vector<Sharding> shardings = {{}, Sharding::parse("a,-"), {}, {}};
  expect_same_values(expanded, inputs_of(graph, 7), shardings, mesh, "loss");
  EXPECT_EQ(collectives_of(
                eliminate_common_subexpressions(canonicalize(shard(with_shardings(expanded, shardings, mesh), mesh)))),
            (Count{{"all_gather f32[2, 6]", 1}, {"all_reduce f32[6]", 2}, {"all_reduce f32[6, 4]", 1}}));
  const Graph z_expanded = expand_linear_cross_entropy(with_z_loss, {.logits_bytes = INT64_MAX});
  expect_same_values(z_expanded, inputs_of(with_z_loss, 7), shardings, mesh, "loss and z-loss");
  EXPECT_EQ(collectives_of(eliminate_common_subexpressions(
                canonicalize(shard(with_shardings(z_expanded, shardings, mesh), mesh)))),
            (Count{{"all_gather f32[2, 6]", 1}, {"all_reduce f32[6]", 2}, {"all_reduce f32[6, 4]", 1}}));
}

// What was terms when it was computed is not computed again, as terms, where a part of the sum is asked for.
TEST(Shard, PartsOfASumAreOfWhatWasAddedUp) {
  const Graph graph = parse_graph(R"(%0 = input "x" : f32[4, 8]
%1 = input "y" : f32[8, 6]
%2 = input "z" : f32[4, 6]
%3 = dot(%0, %1) : f32[4, 6]
%4 = neg(%3) : f32[4, 6]
%5 = mul(%4, %4) : f32[4, 6]
%6 = add(%4, %2) : f32[4, 6]
%7 = mul(%6, %6) : f32[4, 6]
return %5, %7
)");
  expect_same_values(graph, inputs_of(graph, 7),
                     {Sharding::parse("-,a"), Sharding::parse("a,-"), Sharding::parse("b,-")}, two_axes(2, 2), "sum");
}

// Sequence parallelism: between blocks ranks have parts of the sequence, in a block all of it.
TEST(Shard, SumsAreScatteredWhereTheyAreConstrainedToLie) {
  const Graph graph = canonicalize(parse_graph(R"(%0 = input "x" {sharding="-,a,-"} : i32[2, 4, 6]
%1 = input "up" {sharding="a,-"} : f32[8, 6]
%2 = input "down" {sharding="-,a"} : f32[6, 8]
%3 = input "mesh_coordinates" : i32[1]
%4 = cast(%0) : f32[2, 4, 6]
%5 = reshape(%4) : f32[8, 6]
%6 = dot(%5, %1) {transpose_b} : f32[8, 8]
%7 = tanh(%6) : f32[8, 8]
%8 = dot(%7, %2) {transpose_b} : f32[8, 6]
%9 = reshape(%8) : f32[2, 4, 6]
%10 = add(%4, %9) : f32[2, 4, 6]
%11 = constrain_sharding(%10) {sharding="-,a,-"} : f32[2, 4, 6]
%12 = reduce_sum(%11) {axes=[0, 1, 2]} : f32[]
return %12
)"));
  EXPECT_EQ(collectives_of(shard(graph, one_axis(2, false))),
            (Count{{"all_gather f32[2, 4, 6]", 1}, {"reduce_scatter f32[2, 2, 6]", 1}, {"all_reduce f32[]", 1}}));
}

TEST(Shard, WhatDoesNotDivideIsNamed) {
  try {
    training("a,-", "a,-", "-,a", one_axis(3));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'w' of [8, 4] cannot lie over the mesh as 'a,-'"), std::string::npos)
        << error.what();
    EXPECT_EQ(error.hint(), "The nearest sizes that are: 6 and 9.");
  }
}

}  // namespace
}  // namespace causeway::passes
