// Random graphs give on the CPU what the f64 reference gives, before and after the passes.
#include "tests/random_graph/random_graph.h"

#include <gtest/gtest.h>

#include "causeway/device/cpu/host_target.h"
#include "causeway/device/preferred_sizes.h"
#include "causeway/graph/interpreter.h"
#include "causeway/graph/printer.h"
#include "causeway/passes/pipeline.h"
#include "tests/comparison/bounds.h"
#include "tests/program/program_runner.h"

namespace causeway::program {
namespace {

void expect_reference_values(ProgramRunner& runner, const RandomGraph& random, const Graph& graph, uint64_t seed) {
  const std::vector<HostTensor> reference = interpret(random.graph, random.inputs, random.bindings);
  std::vector<HostTensor> actual;
  try {
    actual = runner.run(graph, random.inputs, random.bindings);
  } catch (const std::exception& error) {
    FAIL() << "seed " << seed << ": " << error.what() << "\n" << print_graph(graph);
  }
  ASSERT_EQ(actual.size(), reference.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const Comparison comparison = compare(actual[i], reference[i], bounds::derived(random.tolerances[i]));
    ASSERT_TRUE(comparison.equal) << "seed " << seed << ", result " << i << ": " << comparison.text << "\n"
                                  << print_graph(graph);
  }
}

class RandomGraphOnCpu : public testing::TestWithParam<uint64_t> {};

TEST_P(RandomGraphOnCpu, MatchesTheReference) {
  ProgramRunner runner(2);
  for (uint64_t seed = GetParam() * 15; seed < GetParam() * 15 + 15; ++seed) {
    RandomGraphOptions options;
    options.symbolic = seed % 3 == 2;
    options.attention = seed % 4 == 1;
    const RandomGraph random = make_random_graph(seed, options);
    expect_reference_values(runner, random, random.graph, seed);
    if (HasFatalFailure()) return;
    expect_reference_values(runner, random, run_pipeline(random.graph, {}, preferred_sizes_of_processors()), seed);
    if (HasFatalFailure()) return;
  }
}

// By the kernels of a processor without AVX-512.
TEST(RandomGraphOnCpuOfALowerLevel, MatchesTheReference) {
  if (!host_target().has_avx2()) GTEST_SKIP() << "this processor has no AVX2";
  ProgramRunner runner(std::make_shared<CpuDevice>(host_target_of_level("x86-64-v3"), 2));
  for (uint64_t seed = 200; seed < 230; ++seed) {
    RandomGraphOptions options;
    options.symbolic = seed % 3 == 2;
    options.attention = seed % 4 == 1;
    const RandomGraph random = make_random_graph(seed, options);
    expect_reference_values(runner, random, run_pipeline(random.graph, {}, preferred_sizes_of_processors()), seed);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphOnCpu, testing::Range<uint64_t>(0, 8));

}  // namespace
}  // namespace causeway::program
