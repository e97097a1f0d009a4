// What runs leave behind for whoever looks into them, on ranks that are threads: metrics of all ranks, traces, and bits
// that have changed on one of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "causeway/base/file.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/observation/replica_check.h"
#include "causeway/train/trainer.h"
#include "tests/fixtures/temporary_directory.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class ObservedRun : public testing::Test {
 protected:
  ObservedRun() {
    std::string text;
    for (uint32_t i = 0, x = 1; i < 6000; ++i, x = x * 1664525 + 1013904223)
      text.push_back(static_cast<char>('a' + (x >> 24) % 20));
    std::ofstream(directory_ / "text.bin", std::ios::binary) << text;
  }

  Recipe recipe(const std::vector<std::string>& overrides) const {
    std::vector<std::string> all = {"run_directory=" + (directory_ / "run").string(),
                                    "data.path=" + (directory_ / "text.bin").string()};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return parse_recipe(R"(
model: {family: llama, vocabulary_size: 256, layers: 2, width: 16, heads: 4, kv_heads: 2, ffn_width: 32, max_sequence_length: 16}
data: {token_bytes: 1, sequence_length: 16}
train: {batch_size: 8, steps: 4, precision: f32}
optimizer: {learning_rate: 1e-2, epsilon: 1e-4}
checkpoint: {interval_minutes: 0}
log: {tensorboard: false}
)",
                        "recipe", all);
  }

  static constexpr auto kQuiet = [](const Recipe& recipe) {
    return train_in_context(recipe, {.resume = {}, .quiet = true, .watch_signals = false});
  };

  json trace() const { return json::parse(read_text_file(directory_ / "run/trace.json")); }

  TemporaryDirectory directory_;
};

TEST_F(ObservedRun, MetricsHaveTheTimesOfAllRanks) {
  const Recipe four = recipe({"mesh.fsdp=2", "mesh.dp=2", "log.each_rank=true", "log.interval=2"});
  on_ranks(four.mesh, [&] { kQuiet(four); });
  std::ifstream file(directory_ / "run/metrics.jsonl");
  int records = 0;
  for (std::string line; std::getline(file, line);) {
    const json record = json::parse(line);
    if (!record.contains("loss")) continue;
    ++records;
    const json& ranks = record.at("ranks");
    EXPECT_EQ(ranks["count"], 4);
    for (const char* key : {"step_seconds", "data_wait_seconds", "compute_seconds", "exposed_communication_seconds"}) {
      ASSERT_TRUE(ranks.contains(key)) << line;
      EXPECT_EQ(ranks["each"][key].size(), 4u);
      EXPECT_LE(ranks[key]["min"], ranks[key]["median"]);
      EXPECT_LE(ranks[key]["median"], ranks[key]["max"]);
      EXPECT_EQ(ranks["each"][key].at(ranks[key]["max_rank"].get<size_t>()), ranks[key]["max"]);
    }
    for (size_t rank = 0; rank < 4; ++rank) {
      const auto of = [&](const char* key) { return ranks["each"][key][rank].get<double>(); };
      EXPECT_GT(of("compute_seconds"), 0);
      EXPECT_GT(of("exposed_communication_seconds"), 0);
      EXPECT_LE(of("compute_seconds") + of("exposed_communication_seconds"), of("step_seconds"));
    }
  }
  EXPECT_EQ(records, 3);
}

TEST_F(ObservedRun, OneRankHasNoOthersToBeComparedWith) {
  const Recipe one = recipe({"train.steps=2"});
  on_ranks(one.mesh, [&] { kQuiet(one); });
  EXPECT_EQ(read_text_file(directory_ / "run/metrics.jsonl").find("\"ranks\""), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "run/trace.json"));
}

// How often instructions that are no waits stand in the programs of a step, by name and queue.
std::map<std::string, int> instructions_of_a_step(TrainingStep& step, int64_t micro_batches) {
  std::map<std::string, int> counts;
  const std::vector<InstructionLabel> labels = step.main_step().prepare(step.main_arguments()).instruction_labels();
  for (const InstructionLabel& label : labels)
    if (label.kind != InstructionLabel::Kind::kWait)
      counts[fmt::format("{}{} {}", label.name, label.group.empty() ? "" : " over " + label.group, label.queue + 1)] +=
          static_cast<int>(micro_batches);
  return counts;
}

TEST_F(ObservedRun, ATraceHasEveryInstructionOfEveryRankOnce) {
  const Recipe traced = recipe({"mesh.fsdp=2", "mesh.dp=2", "log.trace_from=2", "log.trace_steps=2"});
  std::map<std::string, int> expected;
  on_ranks(traced.mesh, [&] {
    if (Context::current()->rank() == 0) {
      const auto model = LanguageModel::create(traced.model, 1);
      TrainingStep step(*model, traced);
      expected = instructions_of_a_step(step, 1);
    }
  });
  on_ranks(traced.mesh, [&] { kQuiet(traced); });
  std::map<std::tuple<int, int64_t>, std::map<std::string, int>> found;  // by rank and step
  std::map<std::pair<int, int>, double> ends;                            // by rank and queue
  // Who has which collective: by group, first of its ranks and number.
  std::map<std::tuple<std::string, int, int>, std::set<int>> collectives;
  std::map<int, std::set<std::string>> phases;
  const json whole = trace();
  for (const json& event : whole.at("traceEvents")) {
    if (event["ph"] != "X") continue;
    const int rank = event["pid"], thread = event["tid"];
    const double start = event["ts"], length = event["dur"];
    EXPECT_GE(length, 0);
    EXPECT_GE(start, (ends[{rank, thread}])) << event;
    ends[{rank, thread}] = start + length - 1e-6;  // what the sum of two decimals may be off
    if (event["cat"] == "host") {
      phases[rank].insert(event["name"]);
      continue;
    }
    const json& arguments = event["args"];
    ++found[{rank, arguments["step"]}][fmt::format("{} {}", event["name"].get<std::string>(), thread)];
    if (event["cat"] != "collective") continue;
    EXPECT_GT(arguments["bytes"], 0);
    EXPECT_THAT(arguments["ranks"], testing::Contains(rank));
    const bool is_new =
        collectives[{arguments["group"], arguments["ranks"][0], arguments["number"]}].insert(rank).second;
    EXPECT_TRUE(is_new) << event;
  }
  ASSERT_EQ(found.size(), 8u);
  for (const auto& [of, instructions] : found) EXPECT_EQ(instructions, expected) << std::get<0>(of);
  EXPECT_FALSE(collectives.empty());
  for (const auto& [key, ranks] : collectives)
    EXPECT_EQ(ranks.size(), std::get<0>(key).find('+') == std::string::npos ? 2u : 4u) << std::get<0>(key);
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_THAT(phases[rank], testing::IsSupersetOf({"data", "step", "after the step"}));
  for (const auto& entry : std::filesystem::directory_iterator(directory_ / "run"))
    EXPECT_NE(entry.path().extension(), ".part");
}

TEST_F(ObservedRun, TracingChangesNoBitAndWorksOnOneRankToo) {
  const Recipe plain = recipe({"mesh.dp=2"});
  double expected = 0;
  on_ranks(plain.mesh, [&] {
    const TrainResult result = kQuiet(plain);
    if (result.rank == 0) expected = result.last_loss;
  });
  std::filesystem::remove_all(directory_ / "run");
  const Recipe traced = recipe({"mesh.dp=2", "log.trace_from=1", "log.trace_steps=4"});
  on_ranks(traced.mesh, [&] { EXPECT_EQ(kQuiet(traced).last_loss, expected); });
  std::filesystem::remove_all(directory_ / "run");
  const Recipe one = recipe({"log.trace_from=4", "log.trace_steps=9", "train.micro_batch_size=2"});
  on_ranks(one.mesh, [&] { kQuiet(one); });
  std::set<int> runs;
  const json whole = trace();
  for (const json& event : whole.at("traceEvents"))
    if (event.value("cat", "") == "kernel") runs.insert(event["args"]["run"].get<int>());
  EXPECT_EQ(runs, (std::set<int>{0, 1, 2, 3, 4}));  // four micro-batches, and the update
}

// Flips the lowest bit of what a rank holds.
void flip_a_bit(Tensor tensor) {
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.local_bytes()));
  tensor.read_bytes(bytes);
  bytes[0] ^= std::byte{1};
  tensor.write_bytes(bytes);
}

// What all ranks say after `damage` has been done on them.
std::vector<std::string> comparison(const Recipe& recipe,
                                    const std::function<void(int rank, LanguageModel&, TrainingStep&)>& damage) {
  std::mutex mutex;
  std::vector<std::string> messages;
  on_ranks(recipe.mesh, [&] {
    const Ranks ranks(*Context::current());
    const auto model = LanguageModel::create(recipe.model, 1);
    TrainingStep step(*model, recipe);
    damage(ranks.rank(), *model, step);
    try {
      compare_replicas(ranks, *model, step, 12);
    } catch (const ReplicasDiffer& error) {
      const std::lock_guard lock(mutex);
      messages.emplace_back(error.message());
    }
  });
  return messages;
}

Tensor parameter(const LanguageModel& model, const std::string& name) {
  for (const Parameter& one : model.parameters())
    if (one.name == name) return one.tensor;
  ADD_FAILURE() << name;
  return {};
}

TEST_F(ObservedRun, AFlippedBitIsFoundAndNamed) {
  const auto nothing = [](int, LanguageModel&, TrainingStep&) {};
  for (const std::vector<std::string>& mesh :
       std::vector<std::vector<std::string>>{{"mesh.dp=2", "mesh.tp=2"}, {"mesh.fsdp=2", "mesh.cp=2"}, {"mesh.fsdp=4"}})
    EXPECT_THAT(comparison(recipe(mesh), nothing), testing::IsEmpty());
  // Whole on all four ranks.
  EXPECT_EQ(comparison(recipe({"mesh.cp=2", "mesh.tp=2"}),
                       [](int rank, LanguageModel& model, TrainingStep&) {
                         if (rank == 2) flip_a_bit(parameter(model, "model.norm.weight"));
                       }),
            std::vector<std::string>(4,
                                     "after step 12 ranks that hold the same tensors do not hold the same values: "
                                     "model.norm.weight (whole) on rank 2 differs from that on ranks 0, 1 and 3"));
  // Cut along tp, whole along cp, which does not divide it: rank 3 holds what ranks 1 and 5 do.
  EXPECT_EQ(comparison(recipe({"mesh.cp=3", "mesh.tp=2", "data.sequence_length=12"}),
                       [](int rank, LanguageModel& model, TrainingStep&) {
                         if (rank == 3) flip_a_bit(parameter(model, "model.layers.1.mlp.down_proj.weight"));
                       }),
            std::vector<std::string>(6,
                                     "after step 12 ranks that hold the same tensors do not hold the same values: "
                                     "model.layers.1.mlp.down_proj.weight (tp 1) on rank 3 differs from that on ranks "
                                     "1 and 5"));
  // A moment, and another tensor.
  const std::vector<std::string> two =
      comparison(recipe({"mesh.cp=2"}), [](int rank, LanguageModel& model, TrainingStep& step) {
        if (rank == 1) flip_a_bit(parameter(model, "model.norm.weight"));
        for (const TrainingStep::StateTensor& state : step.optimizer_state())
          if (rank == 1 && state.name == "moment2.model.layers.0.input_layernorm.weight") flip_a_bit(state.tensor);
      });
  ASSERT_EQ(two.size(), 2u);
  EXPECT_THAT(two[0], HasSubstr("; others that differ: 1"));
}

// A rank's end of groups, one of whose links changes a bit of what the rank receives, once.
class DamagedEnd : public Communicator {
 public:
  DamagedEnd(std::shared_ptr<Communicator> whole, std::shared_ptr<int> sums_left)
      : Communicator({whole->shared_device(whole->first_local())}, whole->first_local(), whole->size()),
        whole_(std::move(whole)),
        sums_left_(std::move(sums_left)) {}
  std::string name() const override { return whole_->name(); }
  void abandon(std::string_view reason) override { whole_->abandon(reason); }

 private:
  void do_run(const Collective& collective, std::span<const void* const> from, std::span<void* const> to,
              DeviceQueue queue) override {
    whole_->run(collective, from, to, queue);
    // Of the exponent of an f32, so that nothing rounds it away, where it was zero either.
    if (collective.kind == CollectiveKind::kAllReduce && --*sums_left_ == 0) static_cast<char*>(to[0])[3] ^= 0x20;
  }
  void do_send_receive(std::span<const Transfer> transfers, DeviceQueue queue) override {
    whole_->send_receive(transfers, queue);
  }
  std::unique_ptr<Communicator> do_split(std::optional<int> color, int key) override {
    std::unique_ptr<Communicator> group = whole_->split(color, key);
    if (group == nullptr) return nullptr;
    return std::make_unique<DamagedEnd>(std::move(group), sums_left_);
  }
  std::vector<std::string> do_gather(const std::string& bytes) override { return whole_->gather(bytes); }

  std::shared_ptr<Communicator> whole_;
  std::shared_ptr<int> sums_left_;
};

TEST_F(ObservedRun, ADamagedLinkEndsTheRunAndWhatWasCommittedStays) {
  // Each rank of cp adds up its own copy of the gradients; the first sum of step 3 is damaged on rank 1.
  const Recipe run = recipe({"mesh.cp=2", "train.steps=9", "checkpoint.interval=2", "train.check_replicas=1",
                             "checkpoint.asynchronous=false"});
  int sums = 0;
  on_ranks(run.mesh, [&] {
    const auto model = LanguageModel::create(run.model, 1);
    TrainingStep step(*model, run);
    if (Context::current()->rank() != 0) return;
    for (const CollectiveReport& one : step.main_step().prepare(step.main_arguments()).collectives())
      sums += one.kind == CollectiveKind::kAllReduce;
  });
  ASSERT_GT(sums, 0);
  const Mesh mesh = make_mesh(run.mesh);
  std::vector<std::shared_ptr<Device>> devices = {open_device("cpu"), open_device("cpu")};
  std::mutex mutex;
  std::vector<std::string> messages;
  run_thread_ranks(devices, [&](std::shared_ptr<Communicator> world) {
    ContextOptions options;
    options.mesh = mesh;
    options.rank = world->first_local();
    const std::shared_ptr<Device> device = devices[static_cast<size_t>(options.rank)];
    if (options.rank == 1) world = std::make_shared<DamagedEnd>(std::move(world), std::make_shared<int>(2 * sums + 1));
    options.communicators = std::make_shared<MeshCommunicators>(std::move(world), mesh);
    const ContextScope scope(std::make_shared<Context>(device, options));
    try {
      kQuiet(run);
    } catch (const ReplicasDiffer& error) {
      const std::lock_guard lock(mutex);
      messages.emplace_back(error.what());
    }
  });
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_THAT(messages[0], AllOf(HasSubstr("after step 3 ranks that hold the same tensors"),
                                 HasSubstr(" on rank 1 differs from that on rank 0"),
                                 HasSubstr("Nothing was saved since the last checkpoint")));
  std::vector<std::string> checkpoints;
  for (const auto& entry : std::filesystem::directory_iterator(directory_ / "run/checkpoints"))
    checkpoints.push_back(entry.path().filename());
  EXPECT_THAT(checkpoints, testing::ElementsAre("step-00000002"));
  EXPECT_TRUE(verify_checkpoint(directory_ / "run/checkpoints/step-00000002").empty());
}

}  // namespace
}  // namespace causeway::train
