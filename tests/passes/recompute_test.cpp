#include "causeway/passes/recompute.h"

#include <gtest/gtest.h>

#include "causeway/graph/rewrite.h"
#include "causeway/passes/canonicalize.h"
#include "causeway/passes/eliminate_common_subexpressions.h"
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
    if (!needed[i] || node.op == Op::kInput || node.op == Op::kConstant) continue;
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
    const Graph result = recompute(graph, policy);
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
  EXPECT_EQ(templates(recompute(graph, RecomputePolicy::kSelective)), templates(graph));
  // Of a block's seven dots and attention, all but the last dot are needed again.
  EXPECT_EQ(templates(recompute(graph, RecomputePolicy::kBlock)), templates(graph) + 3 * 7);
}

TEST(Recompute, BlocksAreRecomputedOneAtATime) {
  const SmallModel model = small_model(3);
  const Graph graph = recompute(simplified(model.graph), RecomputePolicy::kBlock);
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
      const Graph result = recompute(graph, policy);
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
