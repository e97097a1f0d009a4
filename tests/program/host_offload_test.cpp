// Programs whose inputs lie in the host's memory, and which keep values of the forward pass there: the same bits as
// without, in less memory of the device, on queues of their own.
#include "causeway/program/host_offload.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/base/error.h"
#include "causeway/device/open_device.h"
#include "causeway/graph/interpreter.h"
#include "causeway/graph/parser.h"
#include "causeway/graph/printer.h"
#include "causeway/program/lowering.h"
#include "causeway/program/program_memory.h"
#include "causeway/program/program_verifier.h"
#include "tests/comparison/bounds.h"
#include "tests/program/program_runner.h"
#include "tests/random_graph/random_graph.h"

namespace causeway::program {
namespace {

constexpr int kTensors = 24;
constexpr int64_t kElements = 160 * 512;  // above what horizontal fusion calls small

// An optimizer's: of each gradient the sum of squares, then a weight and its moment, which lies on the host.
std::string update_text(bool on_host) {
  std::string text;
  int next = 0;
  const std::string type = " : f32[160, 512]\n";
  for (int i = 0; i < kTensors; ++i) text += fmt::format("%{} = input \"weight{}\"{}", next++, i, type);
  for (int i = 0; i < kTensors; ++i)
    text += fmt::format("%{} = input \"moment{}\"{}{}", next++, i, on_host ? " {on_host}" : "", type);
  for (int i = 0; i < kTensors; ++i) text += fmt::format("%{} = input \"gradient{}\"{}", next++, i, type);
  const int decay = next++;
  text += fmt::format("%{} = constant 0.5{}", decay, type);
  std::string assigned;
  for (int i = 0; i < kTensors; ++i) {
    const int kept = next++, moment = next++, weight = next++;
    text += fmt::format("%{} = mul(%{}, %{}){}", kept, kTensors + i, decay, type);
    text += fmt::format("%{} = add(%{}, %{}){}", moment, kept, 2 * kTensors + i, type);
    text += fmt::format("%{} = sub(%{}, %{}){}", weight, i, moment, type);
    assigned += fmt::format("assign %{} = %{}\nassign %{} = %{}\n", i, weight, kTensors + i, moment);
  }
  return text + assigned + "return\n";
}

// A stack of layers and its gradient by hand: the backward pass reads what each layer was given, the last first.
std::string layers_text(int layers) {
  std::string text =
      "%0 = input \"x\" : f32[64, 128]\n%1 = input \"w\" : f32[128, 128]\n%2 = input \"g\" : f32[64, 128]\n";
  int next = 3;
  std::vector<int> stream = {0};
  for (int i = 0; i < layers; ++i) {
    text += fmt::format("%{} = dot(%{}, %1) : f32[64, 128]  # layers.{}\n", next, stream.back(), i);
    text += fmt::format("%{} = tanh(%{}) : f32[64, 128]  # layers.{}\n", next + 1, next, i);
    stream.push_back(next + 1);
    next += 2;
  }
  int gradient = 2, sum = -1;
  for (int i = layers; i-- > 0;) {
    const std::string tail = fmt::format("  # layers.{}\n", i);
    text += fmt::format("%{} = dot(%{}, %{}) {{transpose_a, backward}} : f32[128, 128]{}", next,
                        stream[static_cast<size_t>(i)], gradient, tail);
    text += fmt::format("%{} = dot(%{}, %1) {{transpose_b, backward}} : f32[64, 128]{}", next + 1, gradient, tail);
    text += fmt::format("%{} = mul(%{}, %{}) {{backward}} : f32[64, 128]{}", next + 2, next + 1,
                        stream[static_cast<size_t>(i)], tail);
    const int weight = next;
    gradient = next + 2;
    next += 3;
    if (sum >= 0) {
      text += fmt::format("%{} = add(%{}, %{}) {{backward}} : f32[128, 128]{}", next, sum, weight, tail);
      sum = next++;
    } else {
      sum = weight;
    }
  }
  return text + fmt::format("return %{}, %{}\n", sum, gradient);
}

class HostOffload : public testing::TestWithParam<std::string> {
 protected:
  struct Result {
    std::vector<HostTensor> values;
    LoweredProgram program;
  };

  Result run(const Graph& graph, const LoweringOptions& options, int runs = 2) {
    Program program(graph, runner_.device(), runner_.library(), runner_.arena(), options);
    std::vector<HostTensor> inputs;
    for (const Value input : graph.inputs())
      inputs.push_back(
          random_host_tensor(graph.dtype(input), evaluate(graph.shape(input), {}), inputs.size() + 1, -0.1, 0.1));
    Result result;
    for (int i = 0; i < runs; ++i) {
      result.values = runner_.run(program, inputs);
      for (size_t a = 0; a < graph.assignments.size(); ++a)
        for (size_t k = 0; k < graph.inputs().size(); ++k)
          if (graph.inputs()[k] == graph.assignments[a].target) inputs[k] = result.values[graph.outputs.size() + a];
    }
    result.program = program.lowered();
    return result;
  }
  LoweringOptions options(bool offloads_activations = false) {
    LoweringOptions lowering = default_lowering(runner_.device().target());
    lowering.offloads_activations = offloads_activations;
    return lowering;
  }
  static void expect_same_bits(const Result& one, const Result& other) {
    ASSERT_EQ(one.values.size(), other.values.size());
    for (size_t i = 0; i < one.values.size(); ++i)
      EXPECT_TRUE(one.values[i].values == other.values[i].values) << "result " << i;
  }
  bool has_queues() { return runner_.device().target().runs_asynchronously(); }

  static int count(const LoweredProgram& program, DeviceQueue queue) {
    return static_cast<int>(std::ranges::count_if(program.instructions, [&](const Instruction& one) {
      return one.queue == queue && std::holds_alternative<Copy>(one.work);
    }));
  }

  ProgramRunner runner_{open_device(GetParam())};
};

INSTANTIATE_TEST_SUITE_P(Devices, HostOffload, testing::Values("cpu", "emulator:sm_90a", "emulator:gfx942"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

TEST(HostInputs, ArePrintedAndRead) {
  const Graph graph = parse_graph(update_text(true));
  EXPECT_TRUE(graph.node(graph.inputs()[kTensors]).attributes.on_host);
  EXPECT_FALSE(graph.node(graph.inputs()[0]).attributes.on_host);
  EXPECT_EQ(print_graph(parse_graph(print_graph(graph))), print_graph(graph));
}

TEST_P(HostOffload, StateOnTheHostIsUpdatedToTheSameBits) {
  const Result there = run(parse_graph(update_text(true)), options());
  expect_same_bits(run(parse_graph(update_text(false)), options()), there);
  constexpr int64_t kState = kTensors * kElements * static_cast<int64_t>(sizeof(float));
  const ProgramMemory memory = count_memory(there.program);
  EXPECT_EQ(memory.host_input_bytes, kState);
  EXPECT_EQ(memory.input_bytes, 2 * kState);
  const DeviceQueue loads = has_queues() ? kLoadQueue : kComputeQueue;
  EXPECT_EQ(count(there.program, loads), has_queues() ? kTensors : 2 * kTensors);
  if (has_queues()) {
    EXPECT_EQ(count(there.program, kStoreQueue), kTensors);
    // A batch comes, one is used and two may still go, each of a sixteenth and the rest of a tensor.
    EXPECT_LE(memory.arena_bytes, kState / 2);
    EXPECT_GE(memory.arena_bytes, 2 * kState / kTensors);
  } else {
    EXPECT_EQ(memory.arena_bytes, kState / kTensors);
  }
}

// One that is replaced and not read, and one that is given back and not replaced.
TEST_P(HostOffload, InputsOnTheHostAreReplacedAndReturned) {
  const std::string text = R"(%0 = input "x" : f32[8, 64]
%1 = input "replaced" {HOST} : f32[8, 64]
%2 = input "returned" {HOST} : f32[8, 64]
%3 = input "swapped" {HOST} : f32[8, 64]
%4 = input "with" {HOST} : f32[8, 64]
%5 = input "unused" {HOST} : f32[8, 64]
%6 = exp2(%0) : f32[8, 64]
%7 = add(%6, %3) : f32[8, 64]
assign %1 = %6
assign %3 = %4
assign %4 = %3
return %2, %7
)";
  const auto with = [&](const std::string& host) {
    std::string result = text;
    for (size_t at = result.find(" {HOST}"); at != std::string::npos; at = result.find(" {HOST}"))
      result.replace(at, 7, host);
    return parse_graph(result);
  };
  expect_same_bits(run(with(""), options(), 3), run(with(" {on_host}"), options(), 3));
}

TEST_P(HostOffload, ActivationsGoAndComeBackTheSameBits) {
  constexpr int kLayers = 24;
  const Graph graph = parse_graph(layers_text(kLayers));
  const Result here = run(graph, options()), there = run(graph, options(true));
  expect_same_bits(here, there);
  const ProgramMemory all = count_memory(here.program), less = count_memory(there.program);
  EXPECT_EQ(all.host_arena_bytes, 0);
  constexpr int64_t kOne = 64 * 128 * static_cast<int64_t>(sizeof(float));
  // Of most layers; the last ones are read again too soon.
  EXPECT_GE(less.host_arena_bytes, kOne * kLayers / 2);
  EXPECT_LT(less.host_arena_bytes, kOne * (kLayers - 1));
  EXPECT_EQ(less.host_arena_bytes % kOne, 0);
  EXPECT_LE(less.arena_bytes, all.arena_bytes - less.host_arena_bytes / 4);
  if (has_queues()) {
    EXPECT_EQ(count(there.program, kLoadQueue), less.host_arena_bytes / kOne);
    EXPECT_EQ(count(there.program, kStoreQueue), less.host_arena_bytes / kOne);
  }
}

// What lacks a wait is found before it runs.
TEST_P(HostOffload, AProgramWithoutOneOfItsWaitsIsRefused) {
  if (!has_queues()) GTEST_SKIP() << "one queue";
  const LoweredProgram sound = run(parse_graph(layers_text(24)), options(true), 1).program;
  EXPECT_THAT(find_faults(sound), testing::IsEmpty());
  int refused = 0;
  for (size_t i = 0; i < sound.instructions.size(); ++i) {
    if (!std::holds_alternative<Wait>(sound.instructions[i].work)) continue;
    LoweredProgram broken = sound;
    broken.instructions.erase(broken.instructions.begin() + static_cast<int64_t>(i));
    refused += find_faults(broken).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 20);
  LoweredProgram broken = sound;
  for (ProgramBuffer& buffer : broken.buffers)
    if (buffer.place == ProgramBuffer::Place::kHostArena) buffer.at = 0;
  EXPECT_THAT(find_faults(broken), testing::Contains(testing::HasSubstr("share memory")));
  for (ProgramBuffer& buffer : broken.buffers) buffer.on_host = true;
  EXPECT_THAT(find_faults(broken), testing::Contains(testing::HasSubstr("reaches into the host's memory")));
}

}  // namespace
}  // namespace causeway::program
