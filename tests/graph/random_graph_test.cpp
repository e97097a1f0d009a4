#include "tests/random_graph/random_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "causeway/graph/interpreter.h"
#include "causeway/graph/printer.h"
#include "tests/comparison/bounds.h"
#include "tests/fixtures/op_literal.h"

namespace causeway::graph {
namespace {

RandomGraphOptions all_options(uint64_t seed) { return {.symbolic = seed % 2 == 1, .attention = seed % 3 == 0}; }

TEST(RandomGraph, IsAFunctionOfTheSeed) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const RandomGraph a = make_random_graph(seed, all_options(seed)), b = make_random_graph(seed, all_options(seed));
    EXPECT_EQ(print_graph(a.graph), print_graph(b.graph));
    ASSERT_EQ(a.inputs.size(), b.inputs.size());
    for (size_t i = 0; i < a.inputs.size(); ++i) EXPECT_EQ(a.inputs[i].values, b.inputs[i].values);
  }
  EXPECT_NE(print_graph(make_random_graph(1).graph), print_graph(make_random_graph(2).graph));
}

// The stated tolerance covers rounding every node, and leaves something to find: it is small beside the values.
TEST(RandomGraph, RoundedValuesStayWithinTheStatedTolerance) {
  int outputs = 0, tight = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const RandomGraph random = make_random_graph(seed, all_options(seed));
    ASSERT_EQ(random.tolerances.size(), random.graph.outputs.size() + random.graph.assignments.size());
    const std::vector<HostTensor> exact = interpret(random.graph, random.inputs, random.bindings);
    const std::vector<HostTensor> rounded = interpret(random.graph, random.inputs, random.bindings, Rounding::kRounded);
    for (size_t i = 0; i < exact.size(); ++i) {
      for (const double value : exact[i].values) ASSERT_LE(std::abs(value), 0x1p31) << "seed " << seed;
      const Comparison comparison = compare(rounded[i], exact[i], bounds::derived(random.tolerances[i]));
      ASSERT_TRUE(comparison.equal) << "seed " << seed << " output " << i << ": " << comparison.text << "\n"
                                    << print_graph(random.graph);
      ++outputs;
      if (random.tolerances[i] < 1e-3 * comparison.reference_rms) ++tight;
    }
  }
  EXPECT_GT(tight, outputs / 3);
}

TEST(RandomGraph, HoldsWhatTheOptionsPromise) {
  std::set<Op> seen;
  std::set<DType> dtypes;
  int symbolic = 0, several_consumers = 0, assignments = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const RandomGraph random = make_random_graph(seed, all_options(seed));
    EXPECT_GE(random.graph.nodes().size(), 5u);
    EXPECT_LE(random.graph.nodes().size(), 60u);
    EXPECT_FALSE(random.graph.outputs.empty());
    symbolic += random.bindings.empty() ? 0 : 1;
    assignments += static_cast<int>(random.graph.assignments.size());
    std::vector<int> uses(random.graph.nodes().size());
    for (const Node& node : random.graph.nodes()) {
      seen.insert(node.op);
      for (const TensorType& type : node.outputs) dtypes.insert(type.dtype);
      for (const Value input : node.inputs) ++uses[static_cast<size_t>(input.node)];
    }
    several_consumers += static_cast<int>(std::count_if(uses.begin(), uses.end(), [](int count) { return count > 1; }));
  }
  for (const OpInfo& info : all_ops()) {
    if (info.op == "scaled_dot"_op || info.op == "grouped_dot"_op || info.op == "linear_cross_entropy"_op ||
        info.op == "attention_gradient"_op || info.op == "attention_block_map"_op || info.op == "user_kernel"_op ||
        info.op == "constrain_sharding"_op || info.kind == OpKind::kCollective || info.kind == OpKind::kMessage)
      continue;
    EXPECT_TRUE(seen.contains(info.op)) << info.name;
  }
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI32, DType::kBool})
    EXPECT_TRUE(dtypes.contains(dtype)) << dtype_name(dtype);
  EXPECT_EQ(symbolic, 100);
  EXPECT_GT(several_consumers, 200);
  EXPECT_GT(assignments, 20);
}

TEST(RandomGraph, WithoutBf16ThereIsNone) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const RandomGraph random = make_random_graph(seed, {.bf16 = false});
    for (const Node& node : random.graph.nodes())
      for (const TensorType& type : node.outputs) EXPECT_NE(type.dtype, DType::kBF16);
  }
}

}  // namespace
}  // namespace causeway::graph
