// Small loops that are alike share launches: how many there are, what they give against the reference interpreter, and
// what keeps loops apart. On emulated GPUs, or on the device that the environment variable CAUSEWAY_TEST_DEVICE names.
#include "causeway/program/horizontal_fusion.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/graph/interpreter.h"
#include "causeway/graph/parser.h"
#include "causeway/program/fusion.h"
#include "tests/comparison/bounds.h"
#include "tests/comparison/comparison.h"
#include "tests/device/device_under_test.h"
#include "tests/program/program_runner.h"
#include "tests/random_graph/random_graph.h"

namespace causeway::program {
namespace {

// Writes the text of a graph, line by line.
class GraphText {
 public:
  std::string input(const std::string& type) { return add(fmt::format("input \"x{}\" : {}", next_, type)); }
  std::string add(const std::string& node) {
    text_ += fmt::format("%{} = {}\n", next_, node);
    return fmt::format("%{}", next_++);
  }
  void assign(const std::string& target, const std::string& value) {
    end_ += fmt::format("assign {} = {}\n", target, value);
  }
  Graph graph(const std::vector<std::string>& outputs) const {
    return parse_graph(text_ + end_ + fmt::format("return {}\n", fmt::join(outputs, ", ")));
  }

 private:
  std::string text_, end_;
  int next_ = 0;
};

int loops_in(const KernelRequest& request) { return static_cast<int>(1 + request.alike.size()); }

// How many loops each launch does.
std::vector<int> loops(const Graph& graph) {
  std::vector<int> counts;
  for (const KernelRequest& request : fuse(graph, gpu_target("sm_90a")).kernels)
    if (request.kind == KernelKind::kLoop) counts.push_back(loops_in(request));
  return counts;
}

class HorizontalFusion : public testing::TestWithParam<std::string> {
 protected:
  // Runs it twice, the second time on what the first one left in the inputs.
  const LoweredProgram& expect_reference(const Graph& graph) {
    program_ = std::make_unique<Program>(graph, runner_.device(), runner_.library(), runner_.arena());
    std::vector<HostTensor> inputs;
    for (const Value input : graph.inputs())
      inputs.push_back(
          random_host_tensor(graph.dtype(input), evaluate(graph.shape(input), {}), inputs.size() + 1, -1, 1));
    for (int run = 0; run < 2; ++run) {
      const std::vector<HostTensor> expected = interpret(graph, inputs, {}, Rounding::kRounded);
      const std::vector<HostTensor> actual = runner_.run(*program_, inputs);
      EXPECT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < actual.size(); ++i) {
        const Comparison comparison = compare(actual[i], expected[i], bounds::of_graph(graph, {}));
        EXPECT_TRUE(comparison.equal) << "result " << i << " of run " << run << ": " << comparison.text;
      }
      for (size_t a = 0; a < graph.assignments.size(); ++a)
        for (size_t i = 0; i < graph.inputs().size(); ++i)
          if (graph.inputs()[i] == graph.assignments[a].target) inputs[i] = actual[graph.outputs.size() + a];
    }
    return program_->lowered();
  }

  template <class Work>
  static int count(const LoweredProgram& program) {
    return static_cast<int>(
        std::count_if(program.instructions.begin(), program.instructions.end(),
                      [](const Instruction& instruction) { return std::holds_alternative<Work>(instruction.work); }));
  }

  ProgramRunner runner_{open_device_under_test(GetParam())};
  std::unique_ptr<Program> program_;
};

INSTANTIATE_TEST_SUITE_P(Devices, HorizontalFusion,
                         testing::ValuesIn(devices_under_test({"emulator:sm_80", "emulator:sm_90a", "emulator:gfx90a",
                                                               "emulator:gfx942"})),
                         named_by_device);

// An optimizer's: parameters and moments are written over the old ones. Lengths of less than a vector, of no whole
// vectors, of no whole blocks, and of whole blocks; more tensors than the arguments of one launch point to.
TEST_P(HorizontalFusion, UpdatesOfManyTensors) {
  GraphText text;
  const std::string scale = text.input("f32[]");
  const std::vector<std::pair<int, int>> lengths = {{2, 3}, {3, 4}, {1000, 90}, {1021, 5}, {1600, 7}, {2048, 6}};
  for (const auto& [length, tensors] : lengths) {
    const std::string type = fmt::format("f32[{}]", length);
    for (int i = 0; i < tensors; ++i) {
      const std::string weight = text.input(type), gradient = text.input(type), moment = text.input(type);
      const std::string scales = text.add(fmt::format("broadcast({}) : {}", scale, type));
      const std::string scaled = text.add(fmt::format("mul({}, {}) : {}", gradient, scales, type));
      const std::string new_moment = text.add(fmt::format("add({}, {}) : {}", moment, scaled, type));
      const std::string new_weight = text.add(fmt::format("sub({}, {}) : {}", weight, new_moment, type));
      text.assign(weight, new_weight);
      text.assign(moment, new_moment);
    }
  }
  const Graph graph = text.graph({});
  EXPECT_THAT(loops(graph), testing::ElementsAre(3, 4, 45, 45, 5, 7, 6));
  const LoweredProgram& program = expect_reference(graph);
  EXPECT_EQ(count<Launch>(program), 7);
  EXPECT_EQ(count<Copy>(program), 0);
  EXPECT_EQ(program.arena_bytes, 0);
}

// Of short tensors, by a block each, and of long ones, whose parts a second launch adds up.
TEST_P(HorizontalFusion, SumsOfManyTensors) {
  GraphText text;
  std::vector<std::string> sums;
  for (const auto& [length, tensors] : {std::pair{5, 3}, {1000, 40}, {1600, 3}, {300000, 3}}) {
    for (int i = 0; i < tensors; ++i) {
      const std::string x = text.input(fmt::format("f32[{}]", length));
      const std::string square = text.add(fmt::format("mul({0}, {0}) : f32[{1}]", x, length));
      sums.push_back(text.add(fmt::format("reduce_sum({}) {{axes=[0]}} : f32[]", square)));
    }
  }
  const Graph graph = text.graph(sums);
  EXPECT_THAT(loops(graph), testing::ElementsAre(3, 40, 3, 3));
  const LoweredProgram& program = expect_reference(graph);
  EXPECT_EQ(std::get<Launch>(program.instructions.back().work).phases.size(), 2u);
}

// Reports and times are of launches, and say what they do.
TEST_P(HorizontalFusion, IsReported) {
  GraphText text;
  std::vector<std::string> results;
  std::vector<HostTensor> inputs;
  for (int i = 0; i < 3; ++i) results.push_back(text.add(fmt::format("neg({}) : f32[40]", text.input("f32[40]"))));
  const LoweredProgram& program = expect_reference(text.graph(results));
  const std::vector<KernelReport> reports = program_->kernel_reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].kind, "loop");
  EXPECT_THAT(reports[0].members, testing::EndsWith("neg f32[40]; 2 more like these"));
  EXPECT_EQ(reports[0].phases[0].tasks({}), 3);
  EXPECT_EQ(count<Launch>(program), 1);
}

// What one loop writes over another one's operand would be read by blocks that run beside it.
TEST_P(HorizontalFusion, ASharedOperandIsNotOverwritten) {
  GraphText text;
  const std::string weight = text.input("f32[24, 24]");
  const std::string shared = text.add(fmt::format("dot({0}, {0}) : f32[24, 24]", weight));
  std::vector<std::string> operands, results;
  // As many as make three kernels of loops that share what they read; too costly for the GEMM's epilogue.
  for (int i = 0; i < 36; ++i) {
    const std::string factor = text.add(fmt::format("tanh({}) : f32[24, 24]", text.input("f32[24, 24]")));
    operands.push_back(text.add(fmt::format("mul({}, {}) : f32[24, 24]", factor, shared)));
  }
  for (const std::string& operand : operands)
    results.push_back(text.add(fmt::format("dot({}, {}) : f32[24, 24]", operand, weight)));
  const Graph graph = text.graph(results);
  EXPECT_THAT(loops(graph), testing::ElementsAre(3));
  expect_reference(graph);
}

// A loop that needs another one's result comes after it.
TEST(HorizontalFusionOrder, LoopsThatDependOnEachOtherStayApart) {
  GraphText text;
  const std::string weight = text.input("f32[48, 48]");
  std::string x = text.input("f32[48, 48]");
  for (int i = 0; i < 3; ++i) {
    const std::string activation = text.add(fmt::format("tanh({}) : f32[48, 48]", x));
    x = text.add(fmt::format("dot({}, {}) : f32[48, 48]", activation, weight));
  }
  EXPECT_THAT(loops(text.graph({x})), testing::ElementsAre(1, 1, 1));
}

// Put off, the first loop would read what has been replaced, so that a copy of the input would have to be kept.
TEST_P(HorizontalFusion, ALoopIsNotPutOffBeyondTheUpdateOfItsInput) {
  GraphText text;
  const std::string x = text.input("f32[48, 48]"), y = text.input("f32[48, 48]"), weight = text.input("f32[48, 48]");
  const std::string before = text.add(fmt::format("neg({}) : f32[48, 48]", x));
  const std::string gemm = text.add(fmt::format("dot({}, {}) : f32[48, 48]", y, weight));
  const std::string update = text.add(fmt::format("dot({}, {}) : f32[48, 48]", gemm, weight));
  const std::string after = text.add(fmt::format("neg({}) : f32[48, 48]", y));
  text.assign(x, update);
  const Graph graph = text.graph({before, after});
  EXPECT_THAT(loops(graph), testing::ElementsAre(1, 1));
  EXPECT_EQ(count<Copy>(expect_reference(graph)), 0);
}

// Sums of GEMMs that nothing else reads: their memory serves the next GEMM. Where they are kept anyway, the sums
// share a launch.
TEST(HorizontalFusionOrder, NothingLargeIsKeptForIt) {
  for (const bool kept : {false, true}) {
    GraphText text;
    std::vector<std::string> results, gemms;
    const std::string weight = text.input("f32[512, 512]");
    for (int i = 0; i < 4; ++i) {
      gemms.push_back(text.add(fmt::format("dot({}, {}) : f32[512, 512]", text.input("f32[512, 512]"), weight)));
      results.push_back(text.add(fmt::format("reduce_sum({}) {{axes=[0, 1]}} : f32[]", gemms.back())));
    }
    if (kept) results.insert(results.end(), gemms.begin(), gemms.end());
    EXPECT_THAT(loops(text.graph(results)),
                kept ? testing::ElementsAre(4) : testing::Matcher<std::vector<int>>(testing::ElementsAre(1, 1, 1, 1)));
  }
}

// Large results fill a GPU by themselves, and sizes that are not known yet have no blocks to share out.
TEST(HorizontalFusionOrder, LargeAndUnknownSizesKeepTheirLaunches) {
  for (const std::string type : {"f32[300, 300]", "f32[N]"}) {
    GraphText text;
    std::vector<std::string> results;
    for (int i = 0; i < 3; ++i) results.push_back(text.add(fmt::format("neg({}) : {}", text.input(type), type)));
    EXPECT_THAT(loops(text.graph(results)), testing::ElementsAre(1, 1, 1)) << type;
  }
}

// An optimizer's large tensors, written over the old ones: together where all gradients are there before, apart where
// the memory of one serves the next.
TEST_P(HorizontalFusion, LargeUpdatesInPlace) {
  for (const bool one_by_one : {false, true}) {
    GraphText text;
    const std::string type = "f32[264, 264]", factor = text.input(type);
    std::vector<std::string> weights, gradients;
    const auto update = [&](size_t i) {
      const std::string step = text.add(fmt::format("tanh({}) : {}", gradients[i], type));
      text.assign(weights[i], text.add(fmt::format("sub({}, {}) : {}", weights[i], step, type)));
    };
    for (size_t i = 0; i < 3; ++i) {
      weights.push_back(text.input(type));
      gradients.push_back(text.add(fmt::format("dot({}, {}) : {}", text.input(type), factor, type)));
      if (one_by_one) update(i);
    }
    for (size_t i = 0; !one_by_one && i < 3; ++i) update(i);
    const Graph graph = text.graph({});
    EXPECT_THAT(loops(graph), one_by_one ? testing::ElementsAre(1, 1, 1)
                                         : testing::Matcher<std::vector<int>>(testing::ElementsAre(3)));
    expect_reference(graph);
  }
}

// A processor takes the next task at once.
TEST(HorizontalFusionOrder, IsForGpus) {
  GraphText text;
  const std::string a = text.input("f32[40]"), b = text.input("f32[40]");
  const std::string c = text.add("neg(" + a + ") : f32[40]"), d = text.add("neg(" + b + ") : f32[40]");
  const Graph graph = text.graph({c, d});
  EXPECT_THAT(loops(graph), testing::ElementsAre(2));
  EXPECT_EQ(fuse(graph, Target()).kernels.size(), 2u);
}

}  // namespace
}  // namespace causeway::program
