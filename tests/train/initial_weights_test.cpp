// Runs that begin with the weights of a Hugging Face directory, on ranks that are threads.
#include "causeway/train/initial_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <map>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/formats/safetensors.h"
#include "causeway/train/checkpoint/checkpoint.h"
#include "causeway/train/ranks.h"
#include "causeway/train/trainer.h"
#include "tests/fixtures/temporary_directory.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

using ::testing::HasSubstr;

std::filesystem::path initial_weights_fixture(const std::string& name) {
  return std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/parity" / name;
}

using Tensors = std::map<std::string, std::vector<float>>;

Tensors tensors_of(const SafetensorsModel& model) {
  Tensors tensors;
  for (const std::string& name : model.names()) {
    std::vector<float>& values = tensors[name];
    const size_t count = model.data(name).size() / size_bytes(model.dtype(name));
    for (size_t i = 0; i < count; ++i)
      values.push_back(static_cast<float>(read_element(model.dtype(name), model.data(name).data(), i)));
  }
  return tensors;
}

class InitialWeights : public testing::Test {
 protected:
  InitialWeights() {
    std::string ids;  // below the fixtures' vocabularies
    for (uint32_t i = 0, x = 1; i < 6000; ++i, x = x * 1664525 + 1013904223)
      ids.push_back(static_cast<char>((x >> 24) % 64));
    std::ofstream(directory_ / "ids.bin", std::ios::binary) << ids;
  }

  // A copy of a fixture with its weights in this type, in files of at most so many bytes; `change` may add tensors or
  // leave some out.
  std::filesystem::path stored_as(const std::string& name, DType dtype, uint64_t max_file_bytes,
                                  const std::function<void(Tensors&)>& change = {}) {
    const std::filesystem::path path = directory_ / fmt::format("model{}", copies_++);
    const SafetensorsModel original(initial_weights_fixture(name));
    Tensors tensors = tensors_of(original);
    if (change) change(tensors);
    std::vector<NamedTensorSpec> specs;
    for (const auto& [tensor, values] : tensors)
      specs.push_back({tensor, dtype,
                       original.contains(tensor) ? original.entry(tensor).shape
                                                 : std::vector<int64_t>{static_cast<int64_t>(values.size())}});
    SafetensorsModelWriter writer(path, specs, max_file_bytes);
    for (const auto& [tensor, values] : tensors) {
      std::vector<std::byte> bytes(values.size() * size_bytes(dtype));
      for (size_t i = 0; i < values.size(); ++i) write_element(dtype, bytes.data(), i, values[i]);
      writer.write(tensor, 0, bytes);
    }
    writer.finish();
    std::filesystem::copy_file(initial_weights_fixture(name) / "config.json", path / "config.json");
    return path;
  }

  Recipe recipe(const std::string& name, const std::filesystem::path& from,
                const std::vector<std::string>& overrides = {}) const {
    std::vector<std::string> all = {"name=" + name, "run_directory=" + (directory_ / name).string(),
                                    "data.path=" + (directory_ / "ids.bin").string(), "model.from=" + from.string()};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return parse_recipe(R"(
data: {token_bytes: 1, sequence_length: 16}
train: {batch_size: 8, steps: 1, precision: f32}
optimizer: {learning_rate: 1e-30, weight_decay: 0}
checkpoint: {interval_minutes: 0}
log: {tensorboard: false}
)",
                        "recipe", all);
  }

  static TrainResult run(const Recipe& recipe, const ResumeChoice& resume = {}) {
    TrainResult first;
    on_ranks(recipe.mesh, [&] {
      const TrainResult result = train_in_context(recipe, {.resume = resume, .quiet = true, .watch_signals = false});
      if (result.rank == 0) first = result;
    });
    return first;
  }

  static std::string error_of(const Recipe& recipe) {
    try {
      run(recipe);
    } catch (const Error& error) {
      return error.where() + ": " + error.message() + " | " + error.hint();
    }
    return "no error";
  }

  // The learning rate is too small to change a weight: the checkpoint has those of the directory, bit for bit.
  static void expect_weights(const std::filesystem::path& checkpoint, const std::filesystem::path& from) {
    const CheckpointReader reader(checkpoint);
    for (const auto& [name, values] : tensors_of(SafetensorsModel(from))) {
      std::vector<float> trained(values.size());
      reader.read(name, std::as_writable_bytes(std::span(trained)));
      EXPECT_EQ(std::memcmp(trained.data(), values.data(), 4 * values.size()), 0) << name;
    }
  }

  TemporaryDirectory directory_;
  int copies_ = 0;
};

// Machines with other files under one name: half of each would be trained.
TEST_F(InitialWeights, RanksThatFindOtherOnesAreNamed) {
  const std::filesystem::path one = stored_as("llama", DType::kF32, 1 << 30), other = directory_ / "other";
  std::filesystem::copy(one, other);
  {
    std::fstream file(other / "model.safetensors", std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-1, std::ios::end);
    file.put(1);
  }
  const Recipe recipes[] = {recipe("apart", one, {"mesh.fsdp=2"}), recipe("apart", other, {"mesh.fsdp=2"})};
  std::atomic<int> refused = 0;
  on_ranks(recipes[0].mesh, [&] {
    const Ranks ranks(*Context::current());
    const auto model = LanguageModel::create(recipes[0].model, std::nullopt);
    try {
      load_initial_weights(ranks, recipes[ranks.rank()], *model);
    } catch (const ErrorOfAllRanks& error) {
      EXPECT_THAT(error.message(), HasSubstr("rank 1 has other weights in "));
      EXPECT_THAT(error.message(), HasSubstr(" than rank 0: "));
      ++refused;
    }
  });
  EXPECT_EQ(refused, 2);
}

TEST_F(InitialWeights, AreThoseOfTheDirectoryOnAnyMesh) {
  const std::filesystem::path sharded = stored_as("llama", DType::kBF16, 20'000);
  ASSERT_TRUE(std::filesystem::exists(sharded / "model.safetensors.index.json"));
  double loss = 0;
  for (const char* mesh : {"mesh.dp=1", "mesh.fsdp=2", "mesh.tp=2", "mesh.pp=2", "mesh.cp=2"}) {
    const TrainResult result = run(recipe(mesh, sharded, {mesh}));
    expect_weights(result.checkpoint, sharded);
    if (loss == 0) loss = result.last_loss;
    EXPECT_NEAR(result.last_loss, loss, 1e-4) << mesh;
  }
}

TEST_F(InitialWeights, OfEveryFamilyAndType) {
  for (const auto& [name, dtype] : {std::pair{"gemma2", DType::kBF16},
                                    {"gpt2", DType::kF16},
                                    {"llama_tied", DType::kF32},
                                    {"mistral", DType::kF16},
                                    {"mpt", DType::kF32},
                                    {"olmo2", DType::kF32},
                                    {"qwen2", DType::kBF16},
                                    {"qwen3", DType::kBF16}}) {
    const std::filesystem::path from = stored_as(name, dtype, uint64_t{1} << 30);
    expect_weights(run(recipe(name, from, {"mesh.fsdp=2"})).checkpoint, from);
  }
}

TEST_F(InitialWeights, NamesTheTensorThatDoesNotFitOnAnyMesh) {
  const std::filesystem::path more = stored_as("llama", DType::kF32, uint64_t{1} << 30, [](Tensors& all) {
    all["model.layers.0.self_attn.q_proj.bias"] = std::vector<float>(64, 1.0f);
  });
  const std::filesystem::path less =
      stored_as("llama", DType::kF32, uint64_t{1} << 30, [](Tensors& all) { all.erase("model.norm.weight"); });
  const std::filesystem::path apart = stored_as("llama_tied", DType::kF32, uint64_t{1} << 30, [](Tensors& all) {
    all["lm_head.weight"] = std::vector<float>(all["model.embed_tokens.weight"].size(), 0.5f);
  });
  for (const char* mesh : {"mesh.dp=1", "mesh.pp=2"}) {
    EXPECT_EQ(error_of(recipe("more", more, {mesh})),
              more.string() +
                  ": model.layers.0.self_attn.q_proj.bias: the llama model of config.json has no such tensor | Check "
                  "that config.json and the weights belong together.");
    EXPECT_THAT(error_of(recipe("less", less, {mesh})),
                HasSubstr(less.string() + ": model.norm.weight: is missing from the weights"));
    EXPECT_THAT(error_of(recipe("apart", apart, {mesh})), HasSubstr(apart.string() + ": lm_head.weight: "));
  }
}

// The stage behind it would send a gradient that nobody receives.
TEST_F(InitialWeights, AFirstStageThatTrainsNothingIsRefused) {
  const std::filesystem::path from = stored_as("llama", DType::kF32, uint64_t{1} << 30);
  const std::string layers = "{pattern: 'model.layers.*', frozen: true}",
                    all = "optimizer.groups=[{pattern: 'model.embed*', frozen: true}, " + layers + "]";
  EXPECT_EQ(run(recipe("whole", from, {all})).step, 1);
  EXPECT_EQ(run(recipe("stages", from, {"mesh.pp=2", "optimizer.groups=[" + layers + "]"})).step, 1);
  const std::string error = error_of(recipe("frozen", from, {"mesh.pp=2", all}));
  EXPECT_THAT(error, HasSubstr("mesh.pp: nothing is trained of what the first stage begins with"));
  EXPECT_THAT(error, HasSubstr("Set mesh.pp to 1, or train something of the first layers."));
}

TEST_F(InitialWeights, ARunThatGoesOnReadsItsCheckpoint) {
  const std::filesystem::path from = stored_as("llama", DType::kF32, uint64_t{1} << 30);
  const std::vector<std::string> learning = {"optimizer.learning_rate=1e-2", "checkpoint.interval=1",
                                             "checkpoint.keep=9", "schedule.kind=constant", "schedule.warmup_steps=0"};
  const auto until = [&](const char* steps) {
    std::vector<std::string> all = learning;
    all.emplace_back(steps);
    return all;
  };
  const double whole = run(recipe("whole", from, until("train.steps=4"))).last_loss;
  run(recipe("parts", from, until("train.steps=2")));
  // The weights are gone, then all of the directory.
  std::filesystem::remove(from / "model.safetensors");
  EXPECT_THAT(error_of(recipe("again", from)), HasSubstr("there is no model.safetensors"));
  EXPECT_EQ(run(recipe("parts", from, until("train.steps=3")), {ResumeMode::kAuto, ""}).step, 3);
  std::filesystem::remove_all(from);
  const Recipe saved = load_recipe(directory_ / "parts/recipe.yaml", {"model.from=", "train.steps=4"});
  EXPECT_EQ(run(saved, {ResumeMode::kAuto, ""}).last_loss, whole);
}

}  // namespace
}  // namespace causeway::train
