// Programs with collectives on ranks that are threads, against the reference interpreter of several ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "causeway/base/error.h"
#include "causeway/graph/interpreter.h"
#include "causeway/graph/parser.h"
#include "causeway/program/context.h"
#include "causeway/program/liveness.h"
#include "causeway/program/memory_plan.h"
#include "tests/communicator/mpi_launcher.h"
#include "tests/comparison/bounds.h"
#include "tests/fixtures/error_message.h"
#include "tests/program/collective_graphs.h"
#include "tests/program/rank_programs.h"
#include "tests/random_graph/random_graph.h"

namespace causeway::program {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr LoweringOptions kOneQueue{};

// Ranks of tp are neighbours.
Mesh two_by_two() { return {{{"tp", 2, 1, false}, {"fsdp", 2, 2, true}}}; }

std::vector<const Collectives*> collectives_in(const LoweredProgram& program) {
  std::vector<const Collectives*> found;
  for (const Instruction& instruction : program.instructions)
    if (const auto* collectives = std::get_if<Collectives>(&instruction.work)) found.push_back(collectives);
  return found;
}

// Each but waits once, in the order of its queue, none before the one before it has ended.
void expect_times_of_every_instruction(Program& program, const std::vector<InstructionTime>& times) {
  const std::vector<Instruction>& instructions = program.lowered().instructions;
  std::vector<int> expected, timed;
  for (size_t i = 0; i < instructions.size(); ++i)
    if (!std::holds_alternative<Wait>(instructions[i].work)) expected.push_back(static_cast<int>(i));
  std::map<DeviceQueue, double> ends;
  for (const InstructionTime& time : times) {
    timed.push_back(time.instruction);
    double& end = ends[instructions[static_cast<size_t>(time.instruction)].queue];
    EXPECT_GE(time.start, end) << time.instruction;
    EXPECT_GE(time.end, time.start) << time.instruction;
    end = time.end;
  }
  EXPECT_EQ(timed, expected);
  const std::vector<InstructionLabel> labels = program.instruction_labels();
  ASSERT_EQ(labels.size(), instructions.size());
  std::vector<std::string> collectives;
  for (const InstructionLabel& label : labels)
    if (label.kind == InstructionLabel::Kind::kCollective)
      collectives.push_back(fmt::format("{} over {}, {} bytes", label.name, label.group, label.bytes));
  EXPECT_THAT(collectives,
              testing::UnorderedElementsAre("all_reduce over dp, 840 bytes", "reduce_scatter over dp, 840 bytes",
                                            "all_gather over dp, 840 bytes", "all_to_all over dp, 420 bytes",
                                            "all_gather over dp, 840 bytes", "reduce_scatter over dp, 840 bytes"));
}

class RankPrograms : public testing::TestWithParam<std::string> {
 protected:
  // Three runs, as steps follow one another, on every rank; twice, for the same bits. Returns rank 0's program.
  LoweredProgram expect_reference(const std::string& text, const Mesh& mesh,
                                  const LoweringOptions& options = kOneQueue) {
    const Graph graph = parse_graph(text);
    const std::vector<std::vector<HostTensor>> inputs = random_inputs(graph, mesh.ranks());
    const auto first = run(graph, mesh, inputs, options), second = run(graph, mesh, inputs, options);
    auto expected_inputs = inputs;
    for (size_t step = 0; step < first.size(); ++step) {
      const std::vector<std::vector<HostTensor>> expected =
          interpret_ranks(graph, mesh, expected_inputs, Rounding::kRounded);
      for (size_t rank = 0; rank < expected.size(); ++rank) {
        for (size_t i = 0; i < expected[rank].size(); ++i) {
          const HostTensor& actual = first[step][rank][i];
          const Comparison comparison = compare(actual, expected[rank][i], bounds::of_graph(graph, {}));
          EXPECT_TRUE(comparison.equal) << "result " << i << " of rank " << rank << " in step " << step << ": "
                                        << comparison.text;
          EXPECT_EQ(actual.values, second[step][rank][i].values) << "not the same bits, rank " << rank;
        }
        // From what was computed, so that errors do not add up.
        carry_over(graph, first[step][rank], expected_inputs[rank]);
      }
    }
    return lowered_;
  }

 private:
  // Results by step, rank and position.
  std::vector<std::vector<std::vector<HostTensor>>> run(const Graph& graph, const Mesh& mesh,
                                                        std::vector<std::vector<HostTensor>> inputs,
                                                        const LoweringOptions& options) {
    constexpr size_t kSteps = 3;
    std::vector<std::vector<std::vector<HostTensor>>> results(kSteps,
                                                              std::vector<std::vector<HostTensor>>(inputs.size()));
    run_programs(graph, mesh, GetParam(), options, [&](size_t rank, Program& program, ProgramRunner& runner) {
      for (auto& of_step : results) {
        of_step[rank] = runner.run(program, inputs[rank]);
        carry_over(graph, of_step[rank], inputs[rank]);
      }
      if (rank == 0) lowered_ = program.lowered();
    });
    return results;
  }

  LoweredProgram lowered_;
};

INSTANTIATE_TEST_SUITE_P(Devices, RankPrograms, testing::Values("cpu", "emulator:sm_90a", "emulator:gfx942"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

TEST_P(RankPrograms, EveryCollectiveBetweenKernels) {
  for (const int64_t ranks : {2, 3, 4}) {
    const LoweredProgram program = expect_reference(every_collective(ranks), one_axis(ranks));
    EXPECT_EQ(collectives_in(program).size(), 6u);
  }
}

// Groups of both axes, of each and of ranks that are no neighbours.
TEST_P(RankPrograms, GroupsOfAMesh) {
  expect_reference(R"(%0 = input "x" : f32[24]
%1 = all_gather(%0) {count=2, group="tp"} : f32[2, 24]
%2 = all_gather(%0) {count=2, group="fsdp"} : f32[2, 24]
%3 = add(%1, %2) : f32[2, 24]
%4 = all_gather(%3) {count=4, group="tp+fsdp"} : f32[4, 2, 24]
%5 = reduce_scatter(%4) {count=4, group="tp+fsdp"} : f32[2, 24]
%6 = all_to_all(%5) {count=2, group="fsdp"} : f32[2, 24]
return %1, %2, %4, %6
)",
                   two_by_two());
}

// A sum of gradients that replaces an input, as gradients of micro-batches do, needs no memory beside it.
TEST_P(RankPrograms, AnAllReduceMayOverwriteWhatItSends) {
  const LoweredProgram program = expect_reference(R"(%0 = input "sum" : f32[40, 24]
%1 = input "x" : f32[40, 24]
%2 = mul(%1, %1) : f32[40, 24]
%3 = add(%2, %0) : f32[40, 24]
%4 = all_reduce(%3) {count=2, group="dp"} : f32[40, 24]
%5 = constant 0.25 : f32[40, 24]
%6 = mul(%4, %5) : f32[40, 24]
assign %0 = %6
return
)",
                                                  one_axis(2));
  const Collectives::Part& part = collectives_in(program).at(0)->parts.at(0);
  EXPECT_EQ(part.from.buffer, part.to.buffer);
}

// An input that an all_reduce reads is overwritten only where it is assigned to.
TEST_P(RankPrograms, AnAllReduceOfAnInput) {
  const LoweredProgram kept = expect_reference(R"(%0 = input "x" : f32[40, 24]
%1 = all_reduce(%0) {count=3, group="dp"} : f32[40, 24]
%2 = add(%1, %0) : f32[40, 24]
return %2
)",
                                               one_axis(3));
  const Collectives::Part& part = collectives_in(kept).at(0)->parts.at(0);
  EXPECT_NE(part.from.buffer, part.to.buffer);
  const LoweredProgram assigned = expect_reference(R"(%0 = input "x" : f32[40, 24]
%1 = all_reduce(%0) {count=3, group="dp"} : f32[40, 24]
assign %0 = %1
return
)",
                                                   one_axis(3));
  EXPECT_EQ(assigned.instructions.size(), 1u);
  EXPECT_EQ(assigned.arena_bytes, 0);
}

// Small sums that go together and are made in place are one call of the library. What does not end where the next one
// may begin, and what is not in place, stays by itself.
TEST_P(RankPrograms, SumsThatGoTogetherLieSideBySide) {
  const LoweringOptions together{.schedule = {.collective_bucket_bytes = int64_t{1} << 20}};
  const LoweredProgram program = expect_reference(R"(%0 = input "x" : f32[8, 16]
%1 = input "y" : f32[10]
%2 = mul(%0, %0) : f32[8, 16]
%3 = reduce_sum(%2) {axes=[0]} : f32[16]
%4 = sin(%1) : f32[10]
%5 = exp2(%0) : f32[8, 16]
%6 = cos(%0) : f32[8, 16]
%7 = all_reduce(%3) {count=2, group="dp"} : f32[16]
%8 = all_reduce(%4) {count=2, group="dp"} : f32[10]
%9 = all_reduce(%5) {count=2, group="dp"} : f32[8, 16]
%10 = all_reduce(%6) {count=2, group="dp"} : f32[8, 16]
%11 = all_reduce(%0) {count=2, group="dp"} : f32[8, 16]
%12 = add(%9, %10) : f32[8, 16]
%13 = broadcast(%7) {axes=[1]} : f32[8, 16]
%14 = mul(%12, %13) : f32[8, 16]
%15 = mul(%14, %11) : f32[8, 16]
%16 = mul(%8, %8) : f32[10]
return %15, %16
)",
                                                  one_axis(2), together);
  std::map<int64_t, int64_t> bytes_at;  // of sums in place, by offset
  for (const Collectives* collectives : collectives_in(program))
    for (const Collectives::Part& part : collectives->parts)
      if (part.from.buffer == part.to.buffer) {
        const ProgramBuffer& buffer = program.buffers[static_cast<size_t>(part.to.buffer)];
        bytes_at[buffer.at] = buffer.bytes;
      }
  ASSERT_EQ(bytes_at.size(), 4u);
  int64_t beside_the_next = 0;
  for (const auto& [at, bytes] : bytes_at)
    beside_the_next += bytes % kArenaAlignment == 0 && bytes_at.contains(at + bytes);
  EXPECT_GE(beside_the_next, 2) << "the sums of 64, 512 and 512 bytes do not follow one another";
}

// What is sent lies in one piece: reshapes cost nothing, other movement is stored before.
TEST_P(RankPrograms, SendsWhatLiesInOnePiece) {
  const LoweredProgram reshaped = expect_reference(R"(%0 = input "x" : f32[6, 16]
%1 = reshape(%0) {shape=[2, 3, 16]} : f32[2, 3, 16]
%2 = reduce_scatter(%1) {count=2, group="dp"} : f32[3, 16]
return %2
)",
                                                   one_axis(2));
  EXPECT_EQ(reshaped.instructions.size(), 1u);
  const LoweredProgram moved = expect_reference(R"(%0 = input "x" : f32[6, 16]
%1 = permute(%0) {axes=[1, 0]} : f32[16, 6]
%2 = reshape(%1) {shape=[2, 8, 6]} : f32[2, 8, 6]
%3 = all_to_all(%2) {count=2, group="dp"} : f32[2, 8, 6]
%4 = permute(%3) {axes=[1, 0, 2]} : f32[8, 2, 6]
return %4
)",
                                                one_axis(2));
  EXPECT_EQ(moved.instructions.size(), 3u);
}

TEST_P(RankPrograms, CountsTimesAndNamesItsCollectives) {
  const Graph graph = parse_graph(every_collective(2));
  const auto inputs = random_inputs(graph, 2);
  std::vector<Hash128> hashes(2);
  run_programs(graph, one_axis(2), GetParam(), kOneQueue, [&](size_t rank, Program& program, ProgramRunner& runner) {
    hashes[rank] = program.hash();
    const std::vector<CollectiveReport> reports = program.collectives();
    ASSERT_EQ(reports.size(), 6u);
    EXPECT_EQ(reports[1].kind, CollectiveKind::kReduceScatter);
    EXPECT_EQ(reports[1].group, "dp");
    EXPECT_EQ(reports[1].ranks, 2);
    EXPECT_EQ(reports[1].sent_bytes, 2 * 3 * 35 * 4);
    EXPECT_EQ(reports[1].received_bytes, 3 * 35 * 4);
    EXPECT_EQ(reports[3].dtype, DType::kBF16);
    size_t named = 0;
    for (const KernelReport& report : program.kernel_reports())
      named += report.kind == "all_gather over dp" && !report.source.has_value();
    EXPECT_EQ(named, 2u);

    std::vector<DeviceBuffer> buffers;
    std::vector<void*> in, out;
    for (const HostTensor& input : inputs[rank]) {
      const std::vector<std::byte> bytes = to_bytes(input);
      buffers.push_back(runner.device().allocate(bytes.size()));
      runner.device().copy_to_device(buffers.back().data(), bytes.data(), bytes.size());
      in.push_back(buffers.back().data());
    }
    for (const Value output : graph.outputs) {
      buffers.push_back(runner.device().allocate(static_cast<size_t>(byte_count(graph.type(output), {}))));
      out.push_back(buffers.back().data());
    }
    const std::vector<double> seconds = program.run_timed(in, out);
    EXPECT_EQ(seconds.size(), program.kernel_reports().size());
    EXPECT_TRUE(std::all_of(seconds.begin(), seconds.end(), [](double one) { return one > 0; }));
    expect_times_of_every_instruction(program, program.run_traced(in, out));
    EXPECT_FALSE(program.run_and_find_non_finite(in, out).has_value());
    // Recorded, and replayed where the device can.
    for (int run = 0; run < 3; ++run) program.run_recorded(in, out);
    // What one rank sends, all receive.
    if (rank == 1) {
      const float infinity = INFINITY;
      runner.device().copy_to_device(in[0], &infinity, sizeof infinity);
    }
    const std::optional<NonFiniteValue> found = program.run_and_find_non_finite(in, out);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->op, rank == 1 ? "mul" : "all_reduce");
  });
  EXPECT_EQ(hashes[0], hashes[1]);
  ProgramRunner runner(open_device(GetParam()));
  Program other(parse_graph(every_collective(3)), runner.device(), runner.library(), runner.arena());
  EXPECT_NE(other.hash(), hashes[0]);
}

TEST(RankProgramsTest, SaysWhyCollectivesCannotRun) {
  const Graph graph = parse_graph(every_collective(2));
  ProgramRunner alone;
  EXPECT_THAT(message_of([&] { alone.run(graph, random_inputs(graph, 1)[0]); }),
              AllOf(HasSubstr("the program exchanges data over 'dp', and its context has no communicators"),
                    HasSubstr("communicators of its mesh")));
  EXPECT_THAT(message_of([&] {
                run_programs(graph, one_axis(3), "cpu", kOneQueue,
                             [&](size_t, Program& program, ProgramRunner& runner) {
                               runner.run(program, random_inputs(graph, 1)[0]);
                             });
              }),
              HasSubstr("the program was made for 2 ranks along 'dp', and there are 3"));
}

// Between processes, on processors and emulators; the same bits in every launch.
class LaunchedPrograms : public testing::TestWithParam<const char*> {};

TEST_P(LaunchedPrograms, EqualTheReference) {
  const std::optional<MpiLauncher> launcher = communicator::find_launcher(GetParam());
  if (!launcher) GTEST_SKIP() << GetParam() << " is not installed: its launcher was not found.";
  for (const std::string device : {"cpu", "emulator:sm_90a"}) {
    for (const int ranks : {2, 3}) {
      const MpiOutcome first = launcher->run(ranks, CAUSEWAY_MPI_PROGRAM " " + device);
      EXPECT_EQ(first.status, 0) << first.output;
      EXPECT_THAT(first.output, HasSubstr(fmt::format("{} ranks on {}: 3 results, wrong [], bits ", ranks, device)));
      EXPECT_EQ(launcher->run(ranks, CAUSEWAY_MPI_PROGRAM " " + device).output, first.output);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Installed, LaunchedPrograms, testing::Values("Open MPI", "MPICH"),
                         [](const auto& one) { return std::string(one.param) == "MPICH" ? "Mpich" : "OpenMpi"; });

// The pass, fusion, kernels and collectives together: cut weights and batches, through contexts.
TEST_P(RankPrograms, AShardedStepIsTheWholeStep) {
  const std::string text = R"(%0 = input "mesh_coordinates" : i32[2]
%1 = input "x" {sharding="fsdp,-"} : f32[8, 24]
%2 = input "w1" {sharding="fsdp,tp"} : f32[24, 32]
%3 = input "w2" {sharding="tp,fsdp"} : f32[32, 24]
%4 = dot(%1, %2) : f32[8, 32]
%5 = tanh(%4) : f32[8, 32]
%6 = dot(%5, %3) : f32[8, 24]
%7 = sub(%6, %1) : f32[8, 24]
%8 = mul(%7, %7) : f32[8, 24]
%9 = reduce_sum(%8) {axes=[0, 1]} : f32[]
%10 = dot(%5, %7) {transpose_a} : f32[32, 24]
%11 = constant 0.01 : f32[32, 24]
%12 = mul(%10, %11) : f32[32, 24]
%13 = sub(%3, %12) : f32[32, 24]
assign %3 = %13
return %9
)";
  const Mesh mesh = two_by_two();
  const Graph graph = parse_graph(text);
  std::vector<HostTensor> whole;
  for (const Value input : graph.inputs())
    whole.push_back(random_host_tensor(graph.dtype(input), evaluate(graph.shape(input), {}), whole.size() + 1, -1, 1));
  whole[0].values = {0, 0};
  const std::vector<HostTensor> expected = interpret(graph, whole, {}, Rounding::kRounded);
  const std::vector<std::shared_ptr<Device>> devices = devices_of_ranks(GetParam(), mesh.ranks());
  run_thread_ranks(devices, [&](const std::shared_ptr<Communicator>& world) {
    const int rank = world->first_local();
    const auto context = std::make_shared<Context>(
        devices[static_cast<size_t>(rank)],
        ContextOptions{.mesh = mesh, .rank = rank, .communicators = std::make_shared<MeshCommunicators>(world, mesh)});
    const std::shared_ptr<Program> program = context->compile(graph, {});
    EXPECT_FALSE(program->collectives().empty());
    ProgramRunner runner(devices[static_cast<size_t>(rank)]);
    std::vector<HostTensor> parts;
    for (size_t i = 0; i < whole.size(); ++i)
      parts.push_back(shard_of(whole[i], graph.node(graph.inputs()[i]).attributes.sharding, mesh, rank));
    parts[0].values = {static_cast<double>(mesh.coordinate(rank, 0)), static_cast<double>(mesh.coordinate(rank, 1))};
    const std::vector<HostTensor> results = runner.run(*program, parts);
    const HostTensor loss = expected[0], weight = shard_of(expected[1], Sharding::parse("tp,fsdp"), mesh, rank);
    const Comparison of_loss = compare(results[0], loss, bounds::of_graph(graph, {}));
    EXPECT_TRUE(of_loss.equal) << of_loss.text;
    const Comparison of_weight = compare(results[1], weight, bounds::of_graph(graph, {}));
    EXPECT_TRUE(of_weight.equal) << of_weight.text;
  });
}

}  // namespace
}  // namespace causeway::program
