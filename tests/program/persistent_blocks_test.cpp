// How many blocks of a persistent kernel are launched: as many as the device has multiprocessors, less those that are
// to be left free, and the same bits whatever it is. On the emulator, or on the device that CAUSEWAY_TEST_DEVICE names.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>

#include "causeway/base/error.h"
#include "causeway/device/emulator/emulator_device.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/device/open_device.h"
#include "causeway/graph/parser.h"
#include "causeway/passes/gradient.h"
#include "causeway/program/context.h"
#include "tests/device/device_under_test.h"
#include "tests/program/program_runner.h"
#include "tests/random_graph/random_graph.h"

namespace causeway::program {
namespace {

// A GEMM, causal attention with what it gives as queries, and the gradients of both.
Graph gemm_and_attention() {
  Graph graph = parse_graph(R"(%0 = input "x" : bf16[256, 200]
%1 = input "w" : bf16[200, 256]
%2 = input "k" : bf16[1, 256, 2, 64]
%3 = input "v" : bf16[1, 256, 2, 64]
%4 = dot(%0, %1) : bf16[256, 256]
%5 = reshape(%4) : bf16[1, 256, 4, 64]
%6:2 = attention(%5, %2, %3) {
  scale=0.125, block_q=64, block_k=64,
  mask={
    %0 = input "b" : i32[]
    %1 = input "h" : i32[]
    %2 = input "i" : i32[]
    %3 = input "j" : i32[]
    %4 = le(%3, %2) : bool[]
    return %4
  }
} : bf16[1, 256, 4, 64], f32[1, 4, 256]
%7 = cast(%6) : f32[1, 256, 4, 64]
%8 = mul(%7, %7) : f32[1, 256, 4, 64]
%9 = reduce_sum(%8) {axes=[0, 1, 2, 3]} : f32[]
return %9, %6
)");
  const std::vector<Value> inputs = graph.inputs();
  for (const Value gradient : add_gradients(graph, graph.outputs.front(), inputs)) graph.outputs.push_back(gradient);
  return graph;
}

std::shared_ptr<Device> device() { return open_device_under_test(device_of_environment().value_or("emulator:sm_90a")); }

// The blocks of each launch of a persistent kernel.
std::vector<int64_t> persistent_launches(Program& program) {
  std::vector<int64_t> blocks;
  const std::vector<KernelReport> reports = program.kernel_reports();
  for (const Instruction& instruction : program.lowered().instructions)
    if (const auto* launch = std::get_if<Launch>(&instruction.work))
      for (size_t p = 0; p < launch->phases.size(); ++p)
        if (reports[launch->kernel].phases[p].persistent) blocks.push_back(launch->phases[p].tasks);
  return blocks;
}

TEST(PersistentBlocks, AnyNumberGivesTheSameBits) {
  const Graph graph = gemm_and_attention();
  ProgramRunner runner(device());
  if (!runner.device().target().is_gpu() || !runner.device().target().architecture().has_warpgroup_matrix)
    GTEST_SKIP() << runner.device().name() << " has no persistent kernels";
  std::vector<HostTensor> inputs, expected;
  for (const Value input : graph.inputs())
    inputs.push_back(
        random_host_tensor(graph.dtype(input), evaluate(graph.shape(input), {}), inputs.size() + 1, -1, 1));
  for (const int64_t blocks : {int64_t{INT64_MAX}, int64_t{3}}) {
    LoweringOptions options = default_lowering(runner.device().target());
    options.persistent_blocks = blocks;
    Program program(graph, runner.device(), runner.library(), runner.arena(), options);
    const std::vector<int64_t> launches = persistent_launches(program);
    // Three GEMMs, attention, its two gradients. Each has something to do for so few blocks.
    EXPECT_EQ(launches.size(), 6u);
    for (const int64_t launched : launches) {
      if (blocks == INT64_MAX) {
        EXPECT_GE(launched, 4);
      } else {
        EXPECT_EQ(launched, blocks);
      }
    }
    // More than once: a launch finds the tasks that the one before it found.
    for (int run = 0; run < 2; ++run) {
      const std::vector<HostTensor> results = runner.run(program, inputs);
      if (expected.empty()) expected = results;
      for (size_t i = 0; i < results.size(); ++i)
        for (size_t e = 0; e < results[i].values.size(); ++e)
          ASSERT_EQ(std::bit_cast<uint64_t>(results[i].values[e]), std::bit_cast<uint64_t>(expected[i].values[e]))
              << blocks << " blocks, run " << run << ", result " << i << ", element " << e;
    }
  }
}

// Of which block does what, too: the emulator deals tasks out by its seed.
TEST(PersistentBlocks, AnyOrderOfTasksGivesTheSameBits) {
  const Graph graph = gemm_and_attention();
  std::vector<HostTensor> inputs, expected;
  for (const Value input : graph.inputs())
    inputs.push_back(
        random_host_tensor(graph.dtype(input), evaluate(graph.shape(input), {}), inputs.size() + 1, -1, 1));
  for (const uint64_t seed : {1, 2, 3}) {
    ProgramRunner runner(make_emulator_device("sm_90a", {.seed = seed}));
    Program program(graph, runner.device(), runner.library(), runner.arena());
    const std::vector<HostTensor> results = runner.run(program, inputs);
    if (expected.empty()) expected = results;
    for (size_t i = 0; i < results.size(); ++i)
      for (size_t e = 0; e < results[i].values.size(); ++e)
        ASSERT_EQ(std::bit_cast<uint64_t>(results[i].values[e]), std::bit_cast<uint64_t>(expected[i].values[e]))
            << "seed " << seed << ", result " << i << ", element " << e;
  }
}

// One counter serves all kernels that take tasks; each of them is known to write it, so that no two run at once.
TEST(PersistentBlocks, ShareOneTaskCounter) {
  ProgramRunner runner(open_device("emulator:sm_90a"));
  Program program(gemm_and_attention(), runner.device(), runner.library(), runner.arena());
  const LoweredProgram& lowered = program.lowered();
  const auto is_counter = [&](int buffer) {
    return lowered.buffers[static_cast<size_t>(buffer)].place == ProgramBuffer::Place::kTaskCounter;
  };
  int counters = 0;
  for (size_t b = 0; b < lowered.buffers.size(); ++b) counters += is_counter(static_cast<int>(b));
  EXPECT_EQ(counters, 1);
  std::set<int> contents;
  for (const Instruction& instruction : lowered.instructions)
    for (const Access& access : instruction.accesses())
      if (is_counter(access.holding.buffer)) {
        EXPECT_TRUE(access.written);
        EXPECT_TRUE(contents.insert(access.holding.content).second);
      }
  EXPECT_EQ(contents.size(), 5u) << "three GEMMs, attention, and one kernel of two phases for its gradients";
}

// What a kernel that failed has left of them would be missing from the next one's.
TEST(PersistentBlocks, FindAllTasksAfterAFailure) {
  ProgramRunner runner(open_device("emulator:sm_90a"));
  Program program(parse_graph(R"(%0 = input "x" : bf16[256, 200]
%1 = input "w" : bf16[200, 256]
%2 = dot(%0, %1) : bf16[256, 256]
return %2
)"),
                  runner.device(), runner.library(), runner.arena());
  const uint32_t left = 7;
  uint32_t found = 1;
  runner.device().copy_to_device(runner.arena().task_counter(), &left, sizeof left);
  void* const no_memory[] = {nullptr, nullptr};
  EXPECT_THROW(program.run(no_memory, std::span(no_memory, 1)), Error);
  runner.device().copy_to_host(&found, runner.arena().task_counter(), sizeof found);
  EXPECT_EQ(found, 0u);
}

TEST(PersistentBlocks, LeaveMultiprocessorsFreeWhenToldTo) {
  const std::shared_ptr<Device> gpu = open_device("emulator:sm_90a");
  Context context(gpu);
  ASSERT_EQ(gpu->target().parallel_units, 4);
  const Graph graph = gemm_and_attention();
  const auto most = [&](int free_units) {
    const std::shared_ptr<Program> program = context.compile(graph, {.free_units = free_units});
    const std::vector<int64_t> launches = persistent_launches(*program);
    return *std::max_element(launches.begin(), launches.end());
  };
  EXPECT_EQ(most(0), 4);
  EXPECT_EQ(most(1), 3);
  EXPECT_EQ(most(3), 1);
  for (const int none_left : {-1, 4, 132}) {
    try {
      most(none_left);
      ADD_FAILURE() << none_left;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      EXPECT_NE(error.message().find("the device has 4"), std::string::npos) << error.what();
    }
  }
}

// What is compiled does not depend on it, so that one kernel serves every device of an architecture.
TEST(PersistentBlocks, AreNotInTheText) {
  const Graph graph = gemm_and_attention();
  Target large = gpu_target("sm_90a"), small = gpu_target("sm_90a"), emulated = gpu_target("sm_90a", true);
  large.parallel_units = 132;
  small.parallel_units = 78;
  const auto sources = [&](const Target& target) {
    const FusionResult fusion = fuse(graph, target);
    std::vector<std::string> texts;
    for (const KernelRequest& request : fusion.kernels)
      texts.push_back(generate_kernel(graph, fusion.materialized, request, target).source);
    return texts;
  };
  EXPECT_EQ(sources(large), sources(small));
  EXPECT_EQ(sources(large), sources(emulated));
}

}  // namespace
}  // namespace causeway::program
