// Runs that sample their own data: a small model that learns to write a letter, exact resuming, the bits of sampling
// and training, programs that fail, references, meshes and validation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>

#include "causeway/data/prepare.h"
#include "causeway/formats/tokenizer/json_tokenizer.h"
#include "causeway/tensor/ops.h"
#include "causeway/train/grpo/completion_sampler.h"
#include "causeway/train/grpo/rollout_source.h"
#include "causeway/train/hugging_face/export_checkpoint.h"
#include "causeway/train/initial_weights.h"
#include "causeway/train/step/training_step.h"
#include "causeway/train/trainer.h"
#include "causeway/train/training_data.h"
#include "tests/fixtures/data_test_support.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

class GrpoRun : public testing::Test {
 protected:
  GrpoRun() { prepare("prompts", 8); }

  // Of bytes: "0:", "1:" and so on, whose answer is the letter a.
  void prepare(const std::string& name, int count) {
    std::string lines;
    for (int i = 0; i < count; ++i) lines += fmt::format("{{\"prompt\": \"{}:\", \"answer\": \"a\"}}\n", i);
    PrepareOptions options;
    options.inputs = {directory_.write(name + ".jsonl", lines)};
    options.validation_inputs = {
        directory_.write(name + "_held_out.jsonl", "{\"prompt\": \"x:\", \"answer\": \"a\"}\n")};
    options.output = directory_ / name;
    options.chat.emplace();
    options.chat->prompts = true;
    prepare_dataset(options, ByteTokenizer());
  }

  Recipe recipe(std::vector<std::string> overrides = {}) const {
    const std::string text = fmt::format(R"(name: letters
run_directory: "{}"
model: {{family: llama, layers: 1, width: 32, heads: 2, ffn_width: 64, max_sequence_length: 32, initializer_range: 0.1}}
data: {{path: "{}", sequence_length: 16}}
grpo: {{reward: regex, reward_pattern: "a", num_generations: 8, max_completion_length: 8}}
optimizer: {{learning_rate: 1e-2, weight_decay: 0}}
schedule: {{kind: constant, warmup_steps: 0}}
train: {{batch_size: 64, micro_batch_size: 16, steps: 6, precision: f32, seed: 3}}
checkpoint: {{interval: 3, interval_minutes: 0}}
log: {{tensorboard: false}}
)",
                                         (directory_ / "run").string(), (directory_ / "prompts").string());
    return parse_recipe(text, "recipe", overrides);
  }

  std::vector<nlohmann::json> metrics(const std::string& key = "loss") const {
    std::istringstream lines(read_text_file(directory_ / "run" / "metrics.jsonl"));
    std::vector<nlohmann::json> records;
    for (std::string line; std::getline(lines, line);)
      if (nlohmann::json record = nlohmann::json::parse(line); record.contains(key))
        records.push_back(std::move(record));
    return records;
  }

  static TrainResult run(const Recipe& recipe, ResumeChoice resume = {}) {
    return train(recipe, {.resume = std::move(resume), .quiet = true, .watch_signals = false});
  }
  std::string checkpoint(int step) const {
    return (directory_ / "run" / "checkpoints" / fmt::format("step-{:08}", step)).string();
  }
  static void expect_same(const std::vector<nlohmann::json>& one, const std::vector<nlohmann::json>& other,
                          size_t first = 0) {
    ASSERT_EQ(one.size(), other.size());
    for (size_t i = first; i < one.size(); ++i)
      for (const char* key : {"loss", "grad_norm", "reward", "reward_std", "entropy", "completion_length", "truncated",
                              "zero_std_groups", "clip_ratio", "sampling_difference", "tokens"})
        EXPECT_EQ(one[i][key], other[i][key]) << "step " << i + 1 << " " << key;
  }

  TemporaryDirectory directory_;
};

TEST_F(GrpoRun, LearnsToWriteALetter) {
  const TrainResult result = run(recipe({"train.steps=40"}));
  EXPECT_EQ(result.step, 40);
  const std::vector<nlohmann::json> records = metrics();
  ASSERT_EQ(records.size(), 40u);
  const auto mean_reward = [&](size_t first, size_t count) {
    double sum = 0;
    for (size_t i = first; i < first + count; ++i) sum += records[i]["reward"].get<double>();
    return sum / static_cast<double>(count);
  };
  EXPECT_LT(mean_reward(0, 3), 0.2);
  EXPECT_GT(mean_reward(35, 5), 0.9);
  for (const nlohmann::json& record : records) {
    EXPECT_EQ(record["truncated"], 1);  // bytes have no end
    EXPECT_EQ(record["completion_length"], 8);
    EXPECT_EQ(record["clip_ratio"], 0);
    EXPECT_LT(record["sampling_difference"].get<double>(), 1e-5);
    EXPECT_GE(record["zero_std_groups"].get<double>(), 0);
  }
  EXPECT_NEAR(records[0]["entropy"].get<double>(), std::log(256), 0.5);
  EXPECT_LT(records[39]["entropy"].get<double>(), records[0]["entropy"].get<double>() - 1);
  // The likeliest tokens of a prompt that was held out.
  const std::vector<nlohmann::json> held_out = metrics("validation_reward");
  ASSERT_EQ(held_out.size(), 1u);
  EXPECT_EQ(held_out[0]["validation_reward"], 1);
  EXPECT_EQ(held_out[0]["validation_completions"], 1);
  EXPECT_FALSE(result.validation_loss.has_value());
}

// Between two steps on the same completions, too.
TEST_F(GrpoRun, ResumesExactly) {
  for (const char* iterations : {"1", "2"}) {
    std::filesystem::remove_all(directory_ / "run");
    const Recipe of_run = recipe({fmt::format("grpo.num_iterations={}", iterations), "grpo.sampling_batch_size=32"});
    run(of_run);
    const std::vector<nlohmann::json> whole = metrics();
    ASSERT_EQ(whole.size(), 6u);
    EXPECT_EQ(whole[0]["reward"] == whole[1]["reward"], iterations[0] == '2');
    EXPECT_NE(whole[0]["loss"], whole[1]["loss"]);
    run(of_run, {ResumeMode::kFrom, checkpoint(3)});
    expect_same(metrics(), whole, 3);
  }
  // Other completions would be other samples.
  const Error error = caught([&] { run(recipe({"grpo.num_generations=4"}), {ResumeMode::kFrom, checkpoint(3)}); });
  EXPECT_TRUE(contains(error.message(), "grpo.num_generations is 8 in the checkpoint and 4")) << error.message();
}

// Whatever is sampled beside it, and by whatever means.
TEST_F(GrpoRun, SamplesFollowFromSeedAndPlace) {
  const Recipe of_run = recipe();
  const auto model = LanguageModel::create(of_run.model, 7);
  std::vector<std::vector<int32_t>> prompts(64, std::vector<int32_t>{48, 58});
  CompletionSampler sampler(*model, of_run, 256, {10});
  const std::vector<SampledTokens> all = sampler.sample(prompts, 128);
  Recipe by_halves = recipe({"grpo.sampling_batch_size=32"}), uncached = recipe({"train.mesh_independent=true"}),
         other = recipe({"train.seed=4"});
  const auto sampled = [&](const Recipe& by, size_t first, size_t count, uint64_t place) {
    CompletionSampler one(*model, by, 256, {10});
    return one.sample(std::span(prompts).subspan(first, count), place);
  };
  const std::vector<SampledTokens> half = sampled(by_halves, 32, 32, 160), plain = sampled(uncached, 0, 64, 128),
                                   of_other = sampled(other, 0, 64, 128);
  size_t differ = 0;
  for (size_t i = 0; i < 64; ++i) {
    if (i < 32) EXPECT_EQ(half[i].tokens, all[32 + i].tokens) << i;
    EXPECT_EQ(plain[i].tokens, all[i].tokens) << i;
    differ += of_other[i].tokens != all[i].tokens ? 1 : 0;
    EXPECT_EQ(all[i].is_truncated, all[i].tokens.back() != 10);
    for (size_t t = 0; t < all[i].tokens.size(); ++t)
      EXPECT_NEAR(plain[i].log_probabilities[t], all[i].log_probabilities[t], 1e-5);
  }
  EXPECT_GT(differ, 60u);
  for (const SampledTokens& one : sampler.sample(prompts, 0, true))
    EXPECT_EQ(one.tokens, sampler.sample(prompts, 9, true)[0].tokens);
}

// With mesh_independent log-probabilities of sampling and training are the same bits, and tokens were drawn from logits
// that are those of the finished sequences, bit for bit.
TEST_F(GrpoRun, SamplingAndTrainingHaveTheSameBits) {
  for (const char* precision : {"f32", "bf16"}) {
    for (const char* temperature : {"1", "0.7"}) {
      std::filesystem::remove_all(directory_ / "run");
      const Recipe of_run =
          recipe({"train.mesh_independent=true", fmt::format("train.precision={}", precision), "train.steps=4",
                  fmt::format("grpo.temperature={}", temperature), "grpo.num_iterations=2"});
      run(of_run);
      for (const nlohmann::json& record : metrics()) EXPECT_EQ(record["sampling_difference"], 0) << record;

      const auto model = LanguageModel::create(of_run.model, 5);
      std::vector<std::vector<int32_t>> prompts;
      for (int32_t i = 0; i < 64; ++i) prompts.push_back(std::vector<int32_t>(static_cast<size_t>(1 + i % 5), 40 + i));
      CompletionSampler sampler(*model, of_run, 256, {10});
      std::vector<std::vector<std::vector<float>>> drawn_by(prompts.size());
      sampler.watch([&](size_t prompt, int32_t, std::span<const float> logits) {
        drawn_by[prompt].emplace_back(logits.begin(), logits.end());
      });
      const std::vector<SampledTokens> sampled = sampler.sample(prompts, 0);
      Step whole(
          [&](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
            ForwardInputs inputs;
            inputs.tokens = arguments[0];
            Tensor logits = model->sampling_logits(model->hidden_states(inputs), of_run.grpo.temperature);
            if (pipeline_options(of_run).narrow_logits) logits = cast(cast(logits, DType::kBF16), DType::kF32);
            return {logits};
          },
          step_options(of_run));
      size_t compared = 0;
      for (size_t first = 0; first < prompts.size(); first += 16) {
        std::vector<int32_t> tokens(16 * 16);
        for (size_t i = 0; i < 16; ++i) {
          std::vector<int32_t> row = prompts[first + i];
          row.insert(row.end(), sampled[first + i].tokens.begin(), sampled[first + i].tokens.end());
          std::copy_n(row.begin(), std::min<size_t>(16, row.size()), tokens.begin() + static_cast<ptrdiff_t>(16 * i));
        }
        const Tensor logits =
            whole({Tensor::from_bytes(std::as_bytes(std::span(tokens)), {16, 16}, DType::kI32)}).front();
        std::vector<float> values(16 * 16 * 256);
        logits.read_bytes(std::as_writable_bytes(std::span(values)));
        for (size_t i = 0; i < 16; ++i)
          for (size_t t = 0; t < drawn_by[first + i].size(); ++t) {
            const auto at = values.begin() + static_cast<ptrdiff_t>((16 * i + prompts[first + i].size() - 1 + t) * 256);
            EXPECT_TRUE(std::equal(drawn_by[first + i][t].begin(), drawn_by[first + i][t].end(), at))
                << precision << " " << temperature << " row " << first + i << " token " << t;
            ++compared;
          }
      }
      EXPECT_GT(compared, 300u);
    }
  }
}

// Rewards and tokens over a mesh are those of one device.
TEST_F(GrpoRun, IsTheSameOnMeshes) {
  const auto with = [&](std::vector<std::string> overrides) {
    overrides.insert(overrides.end(), {"train.mesh_independent=true", "train.steps=3", "checkpoint.interval=0",
                                       "model.layers=2", "grpo.num_iterations=2"});
    return recipe(overrides);
  };
  run(with({}));
  const std::vector<nlohmann::json> one = metrics();
  ASSERT_EQ(one.size(), 3u);
  for (const std::vector<std::string>& mesh :
       std::vector<std::vector<std::string>>{{"mesh.dp=2"}, {"mesh.fsdp=2"}, {"mesh.tp=2"}}) {
    std::filesystem::remove_all(directory_ / "run");
    const Recipe cut = with(mesh);
    on_ranks(cut.mesh, [&] { train_in_context(cut, {.resume = {}, .quiet = true, .watch_signals = false}); });
    SCOPED_TRACE(mesh[0]);
    expect_same(metrics(), one);
  }
}

// Nothing is lost: what was trained is saved, and the run goes on once the program is right.
TEST_F(GrpoRun, EndsWithACheckpointWhereTheProgramFails) {
  const std::string good = "while read -r line; do case \"$line\" in *completion*a*) echo 1;; *) echo 0;; esac; done";
  const std::string flag = (directory_ / "broken").string();
  // After 150 completions, that is in the third step.
  const std::string failing = fmt::format(
      "n=0; while read -r line; do n=$((n+1)); if [ $n -gt 150 ] && [ -e {} ]; then exit 7; fi; "
      "case \"$line\" in *completion*:*a*) echo 1;; *) echo 0;; esac; done",
      flag);
  const auto with = [&](const std::string& program) {
    Recipe of_run =
        recipe({"grpo.reward=program", "grpo.reward_pattern=", "grpo.reward_program=x", "checkpoint.interval=0"});
    of_run.grpo.reward_program = program;
    return of_run;
  };
  run(with(failing));
  const std::vector<nlohmann::json> whole = metrics();
  ASSERT_EQ(whole.size(), 6u);
  std::filesystem::remove_all(directory_ / "run");
  directory_.write("broken", "");
  const Error error = caught([&] { run(with(failing)); });
  EXPECT_EQ(error.where(), "grpo.reward_program");
  EXPECT_TRUE(contains(error.message(), "ended with status 7")) << error.message();
  EXPECT_TRUE(contains(error.message(), "completion 7 of prompt")) << error.message();
  EXPECT_TRUE(contains(error.message(), "(step 3)")) << error.message();
  EXPECT_TRUE(contains(error.hint(), "step-00000002")) << error.hint();
  std::filesystem::remove(flag);
  run(with(failing), {ResumeMode::kAuto, ""});
  expect_same(metrics(), whole);
}

TEST_F(GrpoRun, NeedsRecordsThatTheRewardReads) {
  PrepareOptions options;
  options.inputs = {directory_.write("bare.jsonl", "{\"prompt\": \"0:\", \"answer\": \"a\"}\n{\"prompt\": \"1:\"}\n")};
  options.output = directory_ / "bare";
  options.chat.emplace();
  options.chat->prompts = true;
  prepare_dataset(options, ByteTokenizer());
  const Recipe of_run =
      recipe({fmt::format("data.path={}", options.output.string()), "grpo.reward=exact_match", "grpo.reward_pattern="});
  const Error error = caught([&] { run(of_run); });
  EXPECT_EQ(error.where(), fmt::format("prompt 2 of {}", options.output.string()));
  const Error others = caught([&] {
    open_training_data(recipe(
        {"grpo.reward=none", "grpo.reward_pattern=", "grpo.num_generations=8", "grpo.max_completion_length=256"}));
  });
  EXPECT_EQ(others.where(), "grpo.reward");
}

// The reference is the model that the run begins with: held beside it, or itself without its adapters.
TEST_F(GrpoRun, StaysNearItsReference) {
  run(recipe({"train.steps=2", "checkpoint.interval=1"}));
  ExportOptions options;
  options.checkpoint = checkpoint(2);
  options.output = directory_ / "base";
  export_checkpoint(options);
  const auto from_base = [&](std::vector<std::string> overrides) {
    std::filesystem::remove_all(directory_ / "run");
    overrides.insert(overrides.end(), {fmt::format("model.from={}", options.output.string()), "model.family=llama"});
    const std::string text = fmt::format(R"(name: letters
run_directory: "{}"
data: {{path: "{}", sequence_length: 16}}
grpo: {{reward: regex, reward_pattern: "a", num_generations: 8, max_completion_length: 8, beta: 0.1}}
optimizer: {{learning_rate: 1e-2, weight_decay: 0}}
schedule: {{kind: constant, warmup_steps: 0}}
train: {{batch_size: 64, micro_batch_size: 16, steps: 6, precision: f32, seed: 3}}
checkpoint: {{interval: 3, interval_minutes: 0}}
log: {{tensorboard: false}}
)",
                                         (directory_ / "run").string(), (directory_ / "prompts").string());
    return parse_recipe(text, "recipe", overrides);
  };
  for (const std::vector<std::string>& kind :
       std::vector<std::vector<std::string>>{{}, {"lora.rank=4", "lora.alpha=8"}, {"train.mesh_independent=true"}}) {
    const Recipe of_run = from_base(kind);
    run(of_run);
    const std::vector<nlohmann::json> whole = metrics();
    ASSERT_EQ(whole.size(), 6u);
    EXPECT_LT(std::abs(whole[0]["kl"].get<double>()), 1e-9);
    EXPECT_GT(whole[5]["kl"].get<double>(), 1e-5);
    run(of_run, {ResumeMode::kFrom, checkpoint(3)});
    expect_same(metrics(), whole, 3);
  }
  // Of other weights the divergence would be from something else.
  const std::filesystem::path weights = options.output / "model.safetensors";
  std::string bytes = read_text_file(weights);
  bytes[bytes.size() - 2] = static_cast<char>(bytes[bytes.size() - 2] ^ 0x40);
  const Recipe of_run = from_base({});
  run(of_run);
  write_file_atomically(weights, bytes);
  const Error error = caught([&] { run(of_run, {ResumeMode::kFrom, checkpoint(3)}); });
  EXPECT_EQ(error.where(), "model.from");
  EXPECT_TRUE(contains(error.message(), "grpo.beta=0.1 compares the model with the weights that the run began with"))
      << error.message();
  const Error none =
      caught([&] { run(recipe({"grpo.beta=0.1", fmt::format("run_directory={}", (directory_ / "x").string())})); });
  EXPECT_EQ(none.where(), "model.from");
}

}  // namespace
}  // namespace causeway::train
