// What programs are lowered to: what overwrites what, which copies there are and on which queue, and that the values
// are the reference's whichever queue it is.
#include "causeway/program/lowering.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "causeway/device/open_device.h"
#include "causeway/graph/interpreter.h"
#include "causeway/graph/parser.h"
#include "tests/comparison/bounds.h"
#include "tests/program/program_runner.h"
#include "tests/random_graph/random_graph.h"

namespace causeway::program {
namespace {

constexpr LoweringOptions kEveryCopyAside{.schedule = {.copy_queue_from = 0}};
constexpr LoweringOptions kLoweredToOneQueue{};

class Lowering : public testing::TestWithParam<std::string> {
 protected:
  // Runs it several times, as a step does, each time on what the time before left in the inputs, and compares with the
  // reference interpreter.
  LoweredProgram expect_reference(const std::string& text, const LoweringOptions& options) {
    const Graph graph = parse_graph(text);
    Program program(graph, runner_.device(), runner_.library(), runner_.arena(), options);
    std::vector<HostTensor> inputs;
    for (const Value input : graph.inputs())
      inputs.push_back(
          random_host_tensor(graph.dtype(input), evaluate(graph.shape(input), {}), inputs.size() + 1, -1, 1));
    for (int run = 0; run < 3; ++run) {
      const std::vector<HostTensor> expected = interpret(graph, inputs, {}, Rounding::kRounded);
      const std::vector<HostTensor> actual = runner_.run(program, inputs);
      EXPECT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < actual.size(); ++i) {
        const Comparison comparison = compare(actual[i], expected[i], bounds::of_graph(graph, {}));
        EXPECT_TRUE(comparison.equal) << "result " << i << " of run " << run << ": " << comparison.text;
      }
      for (size_t a = 0; a < graph.assignments.size(); ++a)
        for (size_t i = 0; i < graph.inputs().size(); ++i)
          if (graph.inputs()[i] == graph.assignments[a].target) inputs[i] = actual[graph.outputs.size() + a];
    }
    return program.lowered();
  }

  static std::vector<const Copy*> copies(const LoweredProgram& program, DeviceQueue queue) {
    std::vector<const Copy*> found;
    for (const Instruction& instruction : program.instructions)
      if (const auto* copy = std::get_if<Copy>(&instruction.work); copy != nullptr && instruction.queue == queue)
        found.push_back(copy);
    return found;
  }

  ProgramRunner runner_{open_device(GetParam())};
};

INSTANTIATE_TEST_SUITE_P(Devices, Lowering, testing::Values("cpu", "emulator:sm_90a", "emulator:gfx942"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

// One value for several inputs, as sums of gradients are cleared: GEMMs go on while the first is overwritten.
const char* const kCleared = R"(%0 = input "first" : f32[64, 48]
%1 = input "second" : f32[64, 48]
%2 = input "w" : f32[48, 48]
%3 = constant 0.25 : f32[64, 48]
%4 = dot(%0, %2) : f32[64, 48]
%5 = dot(%4, %2) : f32[64, 48]
%6 = dot(%1, %2) : f32[64, 48]
%7 = dot(%6, %2) : f32[64, 48]
%8 = add(%5, %7) : f32[64, 48]
assign %0 = %3
assign %1 = %3
return %8
)";

TEST_P(Lowering, CopiesRunBesideKernels) {
  const LoweredProgram aside = expect_reference(kCleared, kEveryCopyAside);
  EXPECT_FALSE(copies(aside, kCopyQueue).empty());
  const LoweredProgram in_line = expect_reference(kCleared, kLoweredToOneQueue);
  EXPECT_EQ(copies(in_line, kComputeQueue).size(), 2u);
  EXPECT_TRUE(copies(in_line, kCopyQueue).empty());
  for (const Instruction& instruction : in_line.instructions)
    EXPECT_FALSE(std::holds_alternative<Wait>(instruction.work));
}

// Two inputs that change places: both old values are kept before either is overwritten.
TEST_P(Lowering, InputsChangePlaces) {
  for (const LoweringOptions& options : {kEveryCopyAside, kLoweredToOneQueue}) {
    const LoweredProgram program = expect_reference(R"(%0 = input "a" : f32[48, 48]
%1 = input "b" : f32[48, 48]
%2 = dot(%0, %1) : f32[48, 48]
%3 = dot(%2, %2) : f32[48, 48]
assign %0 = %1
assign %1 = %0
return %3
)",
                                                    options);
    EXPECT_EQ(copies(program, kComputeQueue).size() + copies(program, kCopyQueue).size(), 4u);
  }
}

TEST_P(Lowering, OutputsThatCoincideAndInputsThatAreOutputs) {
  for (const LoweringOptions& options : {kEveryCopyAside, kLoweredToOneQueue}) {
    const LoweredProgram program = expect_reference(R"(%0 = input "a" : f32[48, 48]
%1 = input "b" : f32[48, 48]
%2 = dot(%0, %1) : f32[48, 48]
%3 = dot(%2, %1) : f32[48, 48]
assign %0 = %2
return %2, %2, %0, %3
)",
                                                    options);
    EXPECT_EQ(copies(program, kComputeQueue).size() + copies(program, kCopyQueue).size(), 3u);
  }
}

TEST_P(Lowering, AnUpdateOverwritesItsInput) {
  const LoweredProgram program = expect_reference(R"(%0 = input "w" : f32[1000]
%1 = input "g" : f32[1000]
%2 = mul(%1, %1) : f32[1000]
%3 = sub(%0, %2) : f32[1000]
assign %0 = %3
return
)",
                                                  kLoweredToOneQueue);
  EXPECT_EQ(program.instructions.size(), 1u);
  EXPECT_EQ(program.arena_bytes, 0);
}

// The input is read at its own position and, by way of the same value, at another one.
TEST_P(Lowering, AnUpdateThatReadsElsewhereTooDoesNot) {
  const LoweredProgram program = expect_reference(R"(%0 = input "w" : f32[40, 40]
%1 = mul(%0, %0) : f32[40, 40]
%2 = permute(%1) {axes=[1, 0]} : f32[40, 40]
%3 = add(%1, %2) : f32[40, 40]
assign %0 = %3
return
)",
                                                  kLoweredToOneQueue);
  // One kernel computes all of it on a processor.
  if (GetParam() == "cpu") EXPECT_EQ(program.instructions.size(), 2u);
  EXPECT_FALSE(copies(program, kComputeQueue).empty());
}

// The last pass over a row reads it and stores the result in its place, on a GPU from registers or shared memory too.
TEST_P(Lowering, ALoopOverRowsOverwritesWhatItsLastPassReads) {
  for (const int columns : {96, 10000, 20003}) {
    const std::string whole = fmt::format("f32[5, {}]\n", columns);
    const LoweredProgram program = expect_reference(
        "%0 = input \"x\" : " + whole + "%1 = reduce_max(%0) {axes=[1]} : f32[5]\n" +
            "%2 = broadcast(%1) {axes=[0]} : " + whole + "%3 = sub(%0, %2) : " + whole + "%4 = mul(%3, %3) : " + whole +
            "%5 = reduce_sum(%4) {axes=[1]} : f32[5]\n" + fmt::format("%6 = constant {} : f32[5]\n", 1.0 / columns) +
            "%7 = mul(%5, %6) : f32[5]\n%8 = rsqrt(%7) : f32[5]\n" + "%9 = broadcast(%8) {axes=[0]} : " + whole +
            "%10 = mul(%3, %9) : " + whole + "assign %0 = %10\nreturn %8\n",
        kLoweredToOneQueue);
    EXPECT_EQ(program.instructions.size(), 1u) << columns;
    EXPECT_EQ(program.arena_bytes, 0) << columns;
  }
}

// y is stored by the pass before the last, which reads x once more.
TEST_P(Lowering, ALoopOverRowsKeepsWhatALaterPassReads) {
  const LoweredProgram program = expect_reference(R"(%0 = input "x" : f32[7, 3000]
%1 = reduce_sum(%0) {axes=[1]} : f32[7]
%2 = broadcast(%1) {axes=[0]} : f32[7, 3000]
%3 = mul(%0, %2) : f32[7, 3000]
%4 = reduce_max(%3) {axes=[1]} : f32[7]
%5 = broadcast(%4) {axes=[0]} : f32[7, 3000]
%6 = sub(%0, %5) : f32[7, 3000]
assign %0 = %3
return %6
)",
                                                  kLoweredToOneQueue);
  EXPECT_GE(program.instructions.size(), 2u);
  EXPECT_FALSE(copies(program, kComputeQueue).empty());
}

// Whatever is updated, returned twice or returned as it came: the same bits.
TEST_P(Lowering, RandomGraphsGiveTheSameOnOneQueueAndOnTwo) {
  int with_copies_aside = 0;
  for (uint64_t seed = 100; seed < 124; ++seed) {
    const RandomGraph random = make_random_graph(seed, {});
    std::vector<std::vector<HostTensor>> results;
    for (const LoweringOptions& options : {kLoweredToOneQueue, kEveryCopyAside}) {
      Program program(random.graph, runner_.device(), runner_.library(), runner_.arena(), options);
      results.push_back(runner_.run(program, random.inputs, random.bindings));
      with_copies_aside += !copies(program.lowered(random.bindings), kCopyQueue).empty();
    }
    for (size_t i = 0; i < results[0].size(); ++i)
      for (size_t e = 0; e < results[0][i].values.size(); ++e)
        ASSERT_EQ(std::bit_cast<uint64_t>(results[0][i].values[e]), std::bit_cast<uint64_t>(results[1][i].values[e]))
            << "seed " << seed << ", result " << i << ", element " << e;
  }
  EXPECT_GT(with_copies_aside, 0);
}

// Memory of another queue's copy is free again only where the compute queue has waited for it.
TEST_P(Lowering, PlansAreAsSmallOnOneQueue) {
  const int64_t aside = expect_reference(kCleared, kEveryCopyAside).arena_bytes;
  EXPECT_LE(expect_reference(kCleared, kLoweredToOneQueue).arena_bytes, aside);
}

}  // namespace
}  // namespace causeway::program
