// Runs with the optimizer's state in the host's memory, cut off and gone on with.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "causeway/train/trainer.h"
#include "tests/fixtures/temporary_directory.h"
#include "tests/train/checkpoint_state.h"

namespace causeway::train {
namespace {

// With the keys or without, from a checkpoint of the one or the other: the same bits as in one go.
TEST(HostOffloadRun, GoesOnWithTheKeysOrWithout) {
  const TemporaryDirectory directory;
  std::ofstream(directory / "text.bin", std::ios::binary) << std::string(3000, 'a') + std::string(3000, 'b');
  const auto run = [&](const std::string& name, const std::string& from, std::vector<std::string> overrides) {
    overrides.insert(overrides.begin(), {"name=" + name, "run_directory=" + (directory / name).string(),
                                         "data.path=" + (directory / "text.bin").string()});
    const Recipe recipe = parse_recipe(R"(
model: {family: llama, vocabulary_size: 256, layers: 1, width: 32, heads: 2, ffn_width: 64, max_sequence_length: 8}
data: {token_bytes: 1, sequence_length: 8}
train: {batch_size: 2, steps: 3, precision: bf16, recompute: none}
schedule: {kind: constant}
checkpoint: {interval: 1, interval_minutes: 0, keep: 9}
evaluation: {sequences: 2}
log: {tensorboard: false}
device: emulator:sm_90a
)",
                                       "recipe", overrides);
    ResumeChoice resume;
    if (!from.empty()) resume = {ResumeMode::kFrom, (directory / from / "checkpoints/step-00000001").string()};
    train(recipe, {.resume = resume, .quiet = true, .watch_signals = false});
  };
  const std::vector<std::string> moved = {"offload.optimizer=true", "offload.activations=true"};
  run("whole", "", {});
  run("begun", "", moved);
  run("moved_later", "whole", moved);
  run("brought_back", "begun", {});
  const auto state = [&](const std::string& name, int step) {
    return checkpoint_state(directory / name / fmt::format("checkpoints/step-{:08}", step));
  };
  for (const char* name : {"begun", "moved_later", "brought_back"})
    EXPECT_TRUE(state(name, 3) == state("whole", 3)) << name;
  EXPECT_TRUE(state("begun", 1) == state("whole", 1));
  EXPECT_FALSE(state("begun", 1) == state("begun", 3));
}

}  // namespace
}  // namespace causeway::train
