#include "causeway/passes/recompute.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "causeway/graph/parser.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/canonicalize.h"
#include "causeway/passes/eliminate_common_subexpressions.h"
#include "tests/fixtures/op_literal.h"
#include "tests/passes/same_values.h"
#include "tests/passes/small_model.h"

namespace causeway::passes {
namespace {

// The most bytes that live at once when nodes run in order, each result is stored, and is freed after its last use.
int64_t peak_bytes(const Graph& graph) {
  const std::vector<bool> needed = needed_nodes(graph);
  std::vector<size_t> last(graph.nodes().size());
  const auto use = [&](Value value, size_t at) { last[static_cast<size_t>(value.node)] = at; };
  for (size_t i = 0; i < last.size(); ++i)
    if (needed[i])
      for (const Value input : graph.nodes()[i].inputs) use(input, i);
  for (const Assignment& assignment : graph.assignments) use(assignment.value, last.size());
  std::vector<int64_t> change(last.size() + 2);
  for (size_t i = 0; i < last.size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (!needed[i] || node.op == "input"_op || node.op == "constant"_op) continue;
    int64_t bytes = 0;
    for (const TensorType& type : node.outputs)
      bytes += element_count(type.shape).constant() * static_cast<int64_t>(size_bytes(type.dtype));
    change[i] += bytes;
    change[std::max(last[i], i) + 1] -= bytes;
  }
  int64_t live = 0, peak = 0;
  for (const int64_t bytes : change) peak = std::max(peak, live += bytes);
  return peak;
}

Graph simplified(const Graph& graph) { return eliminate_common_subexpressions(canonicalize(graph)); }

TEST(Recompute, KeepsValuesAndLowersThePeak) {
  const SmallModel model = small_model(6, 8, 64);
  const Graph graph = simplified(model.graph);
  const int64_t none = peak_bytes(graph);
  const auto peak_of = [&](RecomputePolicy policy) {
    const Graph result = recompute(graph, {policy});
    result.verify("recompute");
    expect_same_values(graph, result, model.inputs, {}, {});
    return peak_bytes(result);
  };
  const int64_t selective = peak_of(RecomputePolicy::kSelective), block = peak_of(RecomputePolicy::kBlock);
  EXPECT_EQ(peak_of(RecomputePolicy::kNone), none);
  EXPECT_LT(static_cast<double>(selective), 0.6 * static_cast<double>(none));
  EXPECT_LT(static_cast<double>(block), 0.35 * static_cast<double>(none));
}

TEST(Recompute, SelectiveClonesNoTemplates) {
  const SmallModel model = small_model(3);
  const Graph graph = simplified(model.graph);
  const auto templates = [](const Graph& g) {
    int64_t count = 0;
    for (const Node& node : g.nodes())
      if (op_info(node.op).kind == OpKind::kTemplate) ++count;
    return count;
  };
  EXPECT_EQ(templates(recompute(graph, {RecomputePolicy::kSelective})), templates(graph));
  // Of a block's seven dots and attention, all but the last dot are needed again.
  EXPECT_EQ(templates(recompute(graph, {RecomputePolicy::kBlock})), templates(graph) + 3 * 7);
}

// What backward nodes read of the forward pass, and what is computed again for them.
std::pair<std::vector<std::string>, int> read_and_cloned(const Graph& graph, int forward_nodes) {
  std::vector<std::string> read;
  int cloned = -forward_nodes;
  for (const Node& node : graph.nodes()) {
    ++cloned;
    if (!node.backward) continue;
    for (const Value input : node.inputs) {
      const Node& from = graph.node(input);
      if (from.backward || op_info(from.op).kind == OpKind::kSource) continue;
      std::string text = fmt::format("{} {}", op_name(from.op), graph.type(input).text());
      if (std::find(read.begin(), read.end(), text) == read.end()) read.push_back(std::move(text));
    }
  }
  return {read, cloned};
}

TEST(Recompute, SelectiveKeepsWhatABiasWasAddedToNotTheGemmOfAsManyBytes) {
  const Graph graph = parse_graph(R"(%0 = input "x" : bf16[4, 8]
%1 = input "w" : bf16[8, 8]
%2 = input "b" : f32[8]
%3 = dot(%0, %1) : bf16[4, 8]
%4 = cast(%3) : f32[4, 8]
%6 = broadcast(%2) {axes=[1]} : f32[4, 8]
%7 = add(%4, %6) : f32[4, 8]
%8 = cast(%7) : bf16[4, 8]
%9 = slice(%8) {start=[0, 0], limit=[4, 4], strides=[1, 1]} : bf16[4, 4]
%10 = slice(%8) {start=[0, 4], limit=[4, 8], strides=[1, 1]} : bf16[4, 4]
%11 = dot(%9, %10) {transpose_b} : f32[4, 4]
%12 = dot(%11, %11) {backward} : f32[4, 4]
%13 = cast(%12) {backward} : bf16[4, 4]
%14 = dot(%13, %9) {backward} : bf16[4, 4]
%15 = dot(%13, %10) {backward} : bf16[4, 4]
return %14, %15
)");
  const auto [read, cloned] = read_and_cloned(recompute(graph, {RecomputePolicy::kSelective}), 15);
  EXPECT_EQ(read, (std::vector<std::string>{"dot f32[4, 4]", "cast bf16[4, 8]"}));
  EXPECT_EQ(cloned, 2);  // the two slices
}

TEST(Recompute, SelectiveKeepsAGemmThatHasFewerBytesThanWhatIsReadOfIt) {
  const Graph graph = parse_graph(R"(%0 = input "x" : bf16[4, 8]
%1 = input "w" : bf16[8, 8]
%2 = input "v" : bf16[8, 8]
%3 = dot(%0, %1) : bf16[4, 8]
%4 = cast(%3) : f32[4, 8]
%5 = tanh(%4) : f32[4, 8]
%6 = cast(%5) : bf16[4, 8]
%7 = dot(%6, %2) : f32[4, 8]
%8 = mul(%7, %4) {backward} : f32[4, 8]
%9 = mul(%8, %5) {backward} : f32[4, 8]
%10 = cast(%9) {backward} : bf16[4, 8]
%11 = dot(%6, %10) {transpose_a, backward} : f32[8, 8]
return %9, %11
)");
  const auto [read, cloned] = read_and_cloned(recompute(graph, {RecomputePolicy::kSelective}), 12);
  EXPECT_EQ(read, (std::vector<std::string>{"dot bf16[4, 8]", "dot f32[4, 8]"}));
  EXPECT_EQ(cloned, 3);  // cast, tanh and its cast
}

TEST(Recompute, SelectiveKeepsNoValueThatIsWrittenForThatAlone) {
  // Both GEMMs read what the backward pass subtracts the mean from again, of as many bytes.
  const Graph graph = parse_graph(R"(%0 = input "x" : bf16[2048, 1024]
%1 = input "w" : bf16[1024, 1024]
%2 = dot(%0, %1) : f32[2048, 1024]
%3 = reduce_sum(%2) {axes=[1]} : f32[2048]
%4 = constant 0.0009765625 : f32[]
%5 = broadcast(%4) {axes=[]} : f32[2048]
%6 = mul(%3, %5) : f32[2048]
%7 = reshape(%6) : f32[2048, 1]
%8 = broadcast(%7) {axes=[0, 1]} : f32[2048, 1024]
%9 = sub(%2, %8) : f32[2048, 1024]
%10 = cast(%9) : bf16[2048, 1024]
%11 = dot(%10, %1) : f32[2048, 1024]
%12 = dot(%2, %11) {transpose_a} : f32[1024, 1024]
%13 = mul(%11, %9) {backward} : f32[2048, 1024]
%14 = add(%13, %9) {backward} : f32[2048, 1024]
return %12, %14
)");
  const auto [read, cloned] = read_and_cloned(recompute(graph, {RecomputePolicy::kSelective}), 15);
  EXPECT_EQ(read, (std::vector<std::string>{"mul f32[2048]", "dot f32[2048, 1024]"}));
  EXPECT_EQ(cloned, 3);  // the mean's reshape and broadcast, and the difference
}

TEST(Recompute, TheFirstBlocksAreRecomputedWhereSoManyAreAskedFor) {
  const SmallModel model = small_model(6, 8, 64);
  const Graph graph = simplified(model.graph);
  int64_t last = peak_bytes(recompute(graph, {RecomputePolicy::kSelective}));
  for (const int64_t blocks : {2, 4, 6}) {
    SCOPED_TRACE(blocks);
    const Graph result = recompute(graph, {RecomputePolicy::kBlock, blocks});
    result.verify("recompute");
    expect_same_values(graph, result, model.inputs, {}, {});
    std::map<std::string_view, int> clones;  // by block, templates of the forward pass alone: attention
    for (const Node& node : result.nodes())
      if (node.backward && node.op == "attention"_op) ++clones[block_of_scope(node.scope)];
    std::vector<std::string_view> found;
    for (const auto& [block, count] : clones) found.push_back(block);
    std::vector<std::string> first;
    for (int64_t block = 0; block < blocks; ++block) first.push_back(fmt::format("layers.{}", block));
    EXPECT_TRUE(std::equal(found.begin(), found.end(), first.begin(), first.end()));
    const int64_t peak = peak_bytes(result);
    EXPECT_LT(peak, last);
    last = peak;
  }
}

// Of the others everything is kept: no attention is computed again, and no elementwise chain of a later block.
TEST(Recompute, TheFirstBlocksAreRecomputedSelectivelyWhereSoManyAreAskedFor) {
  const SmallModel model = small_model(6, 8, 64);
  const Graph graph = simplified(model.graph);
  int64_t last = peak_bytes(graph);
  for (const int64_t blocks : {2, 4, 6}) {
    SCOPED_TRACE(blocks);
    const Graph result = recompute(graph, {RecomputePolicy::kSelective, blocks});
    result.verify("recompute");
    expect_same_values(graph, result, model.inputs, {}, {});
    std::set<std::string_view> cloned;  // blocks with more backward nodes than before
    std::map<std::string_view, int> backward;
    for (const Node& node : graph.nodes()) backward[block_of_scope(node.scope)] -= node.backward;
    for (const Node& node : result.nodes()) backward[block_of_scope(node.scope)] += node.backward;
    for (const auto& [block, more] : backward)
      if (more > 0) cloned.insert(block);
    EXPECT_EQ(std::ssize(cloned), blocks);
    for (int64_t block = 0; block < blocks; ++block) EXPECT_TRUE(cloned.contains(fmt::format("layers.{}", block)));
    const int64_t peak = peak_bytes(result);
    EXPECT_LT(peak, last);
    last = peak;
  }
}

TEST(Recompute, BlocksAreRecomputedOneAtATime) {
  const SmallModel model = small_model(3);
  const Graph graph = recompute(simplified(model.graph), {RecomputePolicy::kBlock});
  // Backward attention work of layer 2 comes wholly before that of layer 1, clones included.
  std::vector<std::string_view> order;
  for (const Node& node : graph.nodes()) {
    if (!node.backward || op_info(node.op).kind != OpKind::kTemplate) continue;
    const std::string_view block = block_of_scope(node.scope);
    if (order.empty() || order.back() != block) order.push_back(block);
  }
  EXPECT_EQ(order, (std::vector<std::string_view>{"layers.2", "layers.1", "layers.0"}));
}

TEST(Recompute, KeepsValuesOfRandomGraphsWithGradients) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomGraph random = make_random_graph(seed, {.maximum_elements = 1000, .bf16 = false, .attention = seed % 2 == 0});
    Graph& graph = random.graph;
    std::vector<Value> outputs, ones, wrt;
    for (const Value value : graph.outputs) {
      if (!is_float(graph.dtype(value))) continue;
      outputs.push_back(value);
      ones.push_back(Builder(graph).constant_like(value, 1));
    }
    for (const Value value : graph.inputs())
      if (is_float(graph.dtype(value))) wrt.push_back(value);
    std::vector<Value> gradients;
    try {
      gradients = add_gradients(graph, outputs, ones, wrt);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnsupported) << error.what();
      continue;
    }
    graph.outputs.insert(graph.outputs.end(), gradients.begin(), gradients.end());
    graph.verify("gradients");
    for (const RecomputePolicy policy : {RecomputePolicy::kSelective, RecomputePolicy::kBlock}) {
      const Graph result = recompute(graph, {policy});
      result.verify("recompute");
      expect_same_values(graph, result, random.inputs, random.bindings, {});
    }
  }
}

TEST(Recompute, BlockOfScope) {
  EXPECT_EQ(block_of_scope("layers.3.mlp.up"), "layers.3");
  EXPECT_EQ(block_of_scope("model.layers.12"), "model.layers.12");
  EXPECT_EQ(block_of_scope("head.norm2"), "");
  EXPECT_EQ(block_of_scope(""), "");
  EXPECT_EQ(parse_recompute_policy("block"), RecomputePolicy::kBlock);
  EXPECT_EQ(parse_recompute_policy("full"), std::nullopt);
}

}  // namespace
}  // namespace causeway::passes
