#include "causeway/passes/expand_linear_cross_entropy.h"

#include <gtest/gtest.h>

#include "causeway/passes/builder.h"
#include "tests/fixtures/op_literal.h"
#include "tests/passes/same_values.h"

namespace causeway::passes {
namespace {

struct Loss {
  Graph graph;
  std::vector<HostTensor> inputs;
};

// `tokens` may be a symbol; its value is then given apart.
Loss make_loss(const Dim& tokens, int64_t count, int64_t vocabulary, const std::vector<int32_t>& outputs,
               DType x_type = DType::kF32, double softcap = 0, double z_loss = 0) {
  Loss loss;
  const auto input = [&](const char* name, DType dtype, Shape shape, const std::vector<int64_t>& sizes, double low,
                         double high) {
    loss.inputs.push_back(random_host_tensor(dtype, sizes, loss.inputs.size() + 1, low, high));
    return loss.graph.add_input(name, {dtype, std::move(shape)});
  };
  const Value x = input("x", x_type, {tokens, 5}, {count, 5}, -2, 2);
  const Value weight = input("weight", DType::kF32, {vocabulary, 5}, {vocabulary, 5}, -2, 2);
  const Value targets = input("targets", DType::kI64, {tokens}, {count}, -2, static_cast<double>(vocabulary));
  const Value token_weights = input("token_weights", DType::kF32, {tokens}, {count}, 0, 1);
  Attributes attributes;
  attributes.value = softcap;
  attributes.z_loss = z_loss;
  const Value first = loss.graph.add("linear_cross_entropy"_op, {x, weight, targets, token_weights}, attributes);
  for (const int32_t output : outputs) loss.graph.outputs.push_back({first.node, output});
  return loss;
}

// Rows of each chunk, from the forward dots in order.
std::vector<int64_t> chunk_rows(const Graph& graph) {
  std::vector<int64_t> rows;
  for (const Node& node : graph.nodes())
    if (node.op == "dot"_op && node.attributes.transpose_b) rows.push_back(node.outputs[0].shape[0].constant());
  return rows;
}

TEST(ExpandLinearCrossEntropy, GivesTheSameLossAndGradients) {
  for (const DType x_type : {DType::kF32, DType::kBF16}) {
    const Loss loss = make_loss(200, 200, 9, {0, 1, 2, 3}, x_type);
    for (const bool narrow : {false, true}) {
      for (const int64_t budget : {int64_t{1} << 26, int64_t{9 * 4 * 70}, int64_t{9 * 4 * 7}, int64_t{1}}) {
        const Graph graph = expand_linear_cross_entropy(loss.graph, {.logits_bytes = budget, .narrow_logits = narrow});
        graph.verify("expand");
        expect_same_values(loss.graph, graph, loss.inputs, {}, bounds::kInterpreted);
      }
    }
  }
}

// The cap bends most of these logits, and padded classes are not among them.
TEST(ExpandLinearCrossEntropy, CapsLogits) {
  const Loss loss = make_loss(70, 70, 9, {0, 1, 2}, DType::kF32, 1.5);
  const Loss uncapped = make_loss(70, 70, 9, {0, 1, 2});
  EXPECT_NE(interpret(loss.graph, loss.inputs)[0].values, interpret(uncapped.graph, uncapped.inputs)[0].values);
  for (const int64_t multiple : {1, 8})
    for (const int64_t budget : {int64_t{1} << 26, int64_t{9 * 4 * 7}}) {
      const Graph graph =
          expand_linear_cross_entropy(loss.graph, {.logits_bytes = budget, .vocabulary_multiple = multiple});
      graph.verify("expand");
      expect_same_values(loss.graph, graph, loss.inputs, {}, bounds::kInterpreted);
    }
}

// Large enough to bend every gradient, with and without a cap, and padded classes are none of Z's.
TEST(ExpandLinearCrossEntropy, HasAZLoss) {
  for (const double cap : {0.0, 1.5})
    for (const std::vector<int32_t>& outputs : std::vector<std::vector<int32_t>>{{0, 1, 2, 3, 4}, {4}, {1}, {2, 4}}) {
      const Loss loss = make_loss(70, 70, 9, outputs, DType::kF32, cap, 0.3);
      for (const int64_t multiple : {1, 8})
        for (const int64_t budget : {int64_t{1} << 26, int64_t{9 * 4 * 7}}) {
          const Graph graph =
              expand_linear_cross_entropy(loss.graph, {.logits_bytes = budget, .vocabulary_multiple = multiple});
          graph.verify("expand");
          expect_same_values(loss.graph, graph, loss.inputs, {}, bounds::kInterpreted);
        }
    }
  const Loss with = make_loss(70, 70, 9, {0, 1}, DType::kF32, 0, 0.3), without = make_loss(70, 70, 9, {0, 1});
  const std::vector<HostTensor> a = interpret(with.graph, with.inputs), b = interpret(without.graph, without.inputs);
  EXPECT_EQ(a[0].values, b[0].values);
  EXPECT_NE(a[1].values, b[1].values);
}

// The logits are gone through as often as without it: no sum or maximum over the vocabulary is added.
TEST(ExpandLinearCrossEntropy, AZLossCostsNoLoopOverLogits) {
  const auto reductions = [](const Loss& loss) {
    const Graph graph = expand_linear_cross_entropy(loss.graph, {});
    return std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
      return (node.op == "reduce_sum"_op || node.op == "reduce_max"_op || node.op == "dot"_op) &&
             graph.shape(node.inputs[0]).size() == 2;
    });
  };
  EXPECT_EQ(reductions(make_loss(20, 20, 9, {0, 1, 2, 4}, DType::kF32, 0, 0.3)),
            reductions(make_loss(20, 20, 9, {0, 1, 2})));
}

TEST(ExpandLinearCrossEntropy, ChunksFitTheBudget) {
  const Loss loss = make_loss(200, 200, 9, {0, 1, 2});
  const auto rows = [&](int64_t budget) { return chunk_rows(expand_linear_cross_entropy(loss.graph, {budget})); };
  EXPECT_EQ(rows(1 << 26), (std::vector<int64_t>{200}));
  EXPECT_EQ(rows(9 * 4 * 70), (std::vector<int64_t>{64, 64, 64, 8}));
  EXPECT_EQ(rows(9 * 4 * 50), (std::vector<int64_t>{50, 50, 50, 50}));
}

TEST(ExpandLinearCrossEntropy, ChunksOfFewTokensMayTakeMore) {
  const Loss loss = make_loss(200, 200, 9, {0, 1, 2});
  const auto rows = [&](int64_t most_rows, int64_t enough) {
    return chunk_rows(expand_linear_cross_entropy(
        loss.graph, {.logits_bytes = 9 * 4 * 70, .most_logits_bytes = 9 * 4 * most_rows, .logits_rows = enough}));
  };
  EXPECT_EQ(rows(300, 128), (std::vector<int64_t>{128, 72}));
  EXPECT_EQ(rows(80, 128), (std::vector<int64_t>{64, 64, 64, 8}));
  EXPECT_EQ(rows(300, 32), (std::vector<int64_t>{64, 64, 64, 8}));
}

TEST(ExpandLinearCrossEntropy, FinishesAChunkBeforeTheNext) {
  const Loss loss = make_loss(200, 200, 9, {0, 1, 2});
  const Graph graph = expand_linear_cross_entropy(loss.graph, {9 * 4 * 64});
  // Everything that reads a chunk's logits or something as large stands before the next chunk's logits.
  std::vector<size_t> starts;
  for (size_t i = 0; i < graph.nodes().size(); ++i)
    if (graph.nodes()[i].op == "dot"_op && graph.nodes()[i].attributes.transpose_b) starts.push_back(i);
  ASSERT_EQ(starts.size(), 4u);
  const auto chunk_of = [&](size_t index) {
    return std::upper_bound(starts.begin(), starts.end(), index) - starts.begin();
  };
  for (size_t i = starts[0]; i < graph.nodes().size(); ++i)
    for (const Value input : graph.nodes()[i].inputs)
      if (graph.shape(input).size() == 2 && graph.shape(input)[1] == Dim(9))
        EXPECT_EQ(chunk_of(static_cast<size_t>(input.node)), chunk_of(i)) << i;
}

TEST(ExpandLinearCrossEntropy, ComputesWhatIsUsedOnly) {
  const auto dots = [](const std::vector<int32_t>& outputs) {
    const Loss loss = make_loss(20, 20, 9, outputs);
    const Graph graph = expand_linear_cross_entropy(loss.graph, {});
    expect_same_values(loss.graph, graph, loss.inputs, {}, bounds::kInterpreted);
    return std::count_if(graph.nodes().begin(), graph.nodes().end(), [](const Node& n) { return n.op == "dot"_op; });
  };
  EXPECT_EQ(dots({0}), 1);
  EXPECT_EQ(dots({0, 1}), 2);
  EXPECT_EQ(dots({2}), 2);
  EXPECT_EQ(dots({0, 1, 2}), 3);
  EXPECT_EQ(dots({3}), 1);
  EXPECT_EQ(dots({0, 3}), 1);
  EXPECT_EQ(dots({1, 3}), 2);
}

TEST(ExpandLinearCrossEntropy, SymbolicTokensMakeOneChunk) {
  const Loss loss = make_loss(Dim::symbol("N"), 33, 7, {0, 1, 2, 3});
  const Graph graph = expand_linear_cross_entropy(loss.graph, {1});
  graph.verify("expand");
  expect_same_values(loss.graph, graph, loss.inputs, {{Dim::symbol_id("N"), 33}}, bounds::kInterpreted);
}

}  // namespace
}  // namespace causeway::passes
