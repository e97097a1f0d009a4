// Programs of two stages that differ, on ranks that are threads: messages in the order of the graph, in queues of their
// own on a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/graph/parser.h"
#include "causeway/program/context.h"
#include "tests/program/rank_programs.h"

namespace causeway::program {
namespace {

// Doubles what it is given, four times, sends it on and receives the square of each, which it adds up.
std::string first_stage() {
  std::string text = "%0 = input \"x\" : f32[3, 5]\n", sum = "%0";
  int at = 1;
  for (int i = 0; i < 4; ++i) {
    const std::string before = i == 0 ? "%0" : fmt::format("%{}", at - 2);
    text += fmt::format("%{} = add({}, {}) : f32[3, 5]\n", at, before, before);
    text +=
        fmt::format("%{} = send(%{}) {{count=2, peer=1, name=\"there {}\", group=\"pp\"}} : i32[]\n", at + 1, at, i);
    at += 2;
  }
  for (int i = 0; i < 4; ++i) {
    text += fmt::format(
        "%{} = receive {{shape=[3, 5], dtype=f32, count=2, stream=1, peer=1, name=\"back {}\", group=\"pp\"}} : f32[3, "
        "5]\n",
        at, i);
    text += fmt::format("%{} = add({}, %{}) : f32[3, 5]\n", at + 1, sum, at);
    sum = fmt::format("%{}", at + 1);
    at += 2;
  }
  return text + "return " + sum + "\n";
}

std::string second_stage() {
  std::string text = "%0 = input \"x\" : f32[3, 5]\n";
  int at = 1;
  for (int i = 0; i < 4; ++i) {
    text += fmt::format(
        "%{} = receive {{shape=[3, 5], dtype=f32, count=2, name=\"there {}\", group=\"pp\"}} : f32[3, 5]\n", at, i);
    text += fmt::format("%{0} = mul(%{1}, %{1}) : f32[3, 5]\n", at + 1, at);
    text += fmt::format("%{} = send(%{}) {{count=2, stream=1, name=\"back {}\", group=\"pp\"}} : i32[]\n", at + 2,
                        at + 1, i);
    at += 3;
  }
  return text + fmt::format("return %{}\n", at - 2);
}

class StagePrograms : public testing::TestWithParam<std::string> {};

TEST_P(StagePrograms, ExchangeWhatTheirGraphsSay) {
  const Mesh mesh = {{{"pp", 2, 1, true, true}}};
  const std::vector<std::shared_ptr<Device>> devices = devices_of_ranks(GetParam(), 2);
  run_thread_ranks(devices, [&](const std::shared_ptr<Communicator>& world) {
    MeshCommunicators communicators(world, mesh);
    const auto rank = static_cast<size_t>(communicators.rank());
    ProgramRunner runner(devices[rank]);
    const Graph graph = parse_graph(rank == 0 ? first_stage() : second_stage());
    Program program(graph, runner.device(), runner.library(), runner.arena(), default_lowering(devices[rank]->target()),
                    &communicators);
    const std::vector<HostTensor> inputs = {
        make_host_tensor(DType::kF32, {3, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})};
    for (int run = 0; run < 3; ++run) {
      const HostTensor result = runner.run(program, inputs).front();
      for (size_t i = 0; i < 15; ++i) {
        const double x = inputs[0].values[i];
        EXPECT_EQ(result.values[i], rank == 0 ? x + (4 + 16 + 64 + 256) * x * x : 256 * x * x) << rank << " " << i;
      }
    }
    const std::vector<MessageReport> messages = program.messages();
    ASSERT_EQ(messages.size(), 8u);
    EXPECT_EQ(messages[rank == 0 ? 0 : 1].sends, true);
    EXPECT_EQ(messages[0].name, "there 0");
    EXPECT_EQ(messages[0].bytes, 60);
    for (const Instruction& instruction : program.lowered().instructions)
      if (const auto* message = std::get_if<StageMessage>(&instruction.work)) {
        const bool has_queues = devices[rank]->target().is_gpu();
        const DeviceQueue own = message->sends ? send_queue(message->stream) : receive_queue(message->stream);
        EXPECT_EQ(instruction.queue, has_queues ? own : kComputeQueue) << describe(instruction);
      }
  });
}

INSTANTIATE_TEST_SUITE_P(, StagePrograms, testing::Values("cpu", "emulator:sm_90a", "emulator:gfx942"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

}  // namespace
}  // namespace causeway::program
