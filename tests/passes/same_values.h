// A pass keeps the values of a graph.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "causeway/base/error.h"
#include "causeway/graph/interpreter.h"
#include "causeway/graph/printer.h"
#include "tests/comparison/bounds.h"
#include "tests/random_graph/random_graph.h"

namespace causeway::passes {

inline void expect_same_values(const Graph& before, const Graph& after, const std::vector<HostTensor>& inputs,
                               const SymbolBindings& bindings, const Bound& bound) {
  const std::vector<HostTensor> expected = interpret(before, inputs, bindings);
  const std::vector<HostTensor> actual = interpret(after, inputs, bindings);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const Comparison comparison = compare(actual[i], expected[i], bound);
    EXPECT_TRUE(comparison.equal) << "result " << i << ": " << comparison.text;
  }
}

// Runs the pass on random graphs of every kind the generator has.
inline void expect_same_values_on_random_graphs(const std::function<Graph(const Graph&)>& pass, uint64_t count = 60) {
  for (uint64_t seed = 0; seed < count; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomGraphOptions options;
    options.maximum_elements = 2000;
    options.symbolic = seed % 3 == 0;
    options.attention = seed % 4 == 0;
    const RandomGraph random = make_random_graph(seed, options);
    const Graph after = pass(random.graph);
    after.verify("pass");
    const std::vector<HostTensor> expected = interpret(random.graph, random.inputs, random.bindings);
    const std::vector<HostTensor> actual = interpret(after, random.inputs, random.bindings);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const Comparison comparison = compare(actual[i], expected[i], bounds::derived(random.tolerances[i] * 1.01));
      EXPECT_TRUE(comparison.equal) << "result " << i << ": " << comparison.text << "\n" << print_graph(random.graph);
    }
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace causeway::passes
