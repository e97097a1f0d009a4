// Adapters against PEFT: logits, gradients and the losses of 50 steps, by the fixtures of tests/fixtures/adapters.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "causeway/device/offline/offline_device.h"
#include "causeway/model/hugging_face.h"
#include "causeway/model/peft_adapter.h"
#include "causeway/train/step/training_step.h"
#include "tests/fixtures/error_message.h"
#include "tests/model/model_test_support.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

using std::filesystem::path;

constexpr int64_t kAdapterSteps = 50, kAdapterRows = 2, kAdapterLength = 16;

path adapter_fixture(const std::string& name) { return path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/adapters" / name; }
path adapted_model(const std::string& name) {
  return path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/parity" / name.substr(0, name.find('_'));
}

HostTensor expected_of_adapter(const SafetensorsFile& file, const std::string& name) {
  return from_bytes(file.dtype(name), file.entry(name).shape, file.data(name).data());
}

// As tools/make_adapter_fixtures.py trains.
Recipe adapter_recipe(const std::string& name) {
  Recipe recipe;
  recipe.model = read_hugging_face_config(adapted_model(name));
  recipe.adapter = read_peft_config(adapter_fixture(name)).adapter;
  recipe.data.sequence_length = kAdapterLength;
  const SafetensorsFile file(adapter_fixture(name) / "expected.safetensors");
  recipe.optimizer = {.learning_rate = expected_of_adapter(file, "train.rate").values.front(),
                      .weight_decay = 0.1,
                      .gradient_clip = 1.0,
                      .own = {{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}}};
  recipe.train.batch_size = recipe.train.micro_batch_size = kAdapterRows;
  recipe.train.precision = Precision::kF32;
  return recipe;
}

std::unique_ptr<LanguageModel> model_with_adapter(const std::string& name, const Recipe& recipe) {
  auto model = LanguageModel::create(recipe.model, own_part(recipe), new_weights(recipe));
  load_parameters(*model, SafetensorsModel(adapted_model(name)));
  load_peft_weights(*model, adapter_fixture(name));
  return model;
}

struct AdapterBatch {
  std::vector<int32_t> tokens, targets;
};

// All rows of the step's batch, or this rank's.
AdapterBatch adapter_batch(int64_t step, int64_t vocabulary, const RowRange& rows) {
  AdapterBatch batch;
  for (int64_t row = rows.first; row < rows.first + rows.count; ++row)
    for (int64_t place = 0; place < kAdapterLength; ++place) {
      const auto token = [&](int64_t at) {
        return static_cast<int32_t>((step % 4 * 5 + row * 11 + at * at * 3) % vocabulary);
      };
      batch.tokens.push_back(token(place));
      batch.targets.push_back(token(place + 1));
    }
  return batch;
}

std::vector<double> adapter_losses(TrainingStep& step, const Recipe& recipe, int64_t steps) {
  std::vector<double> losses;
  for (int64_t i = 0; i < steps; ++i) {
    const AdapterBatch batch = adapter_batch(i, recipe.model.vocabulary_size, step.own_rows());
    const StepFigures figures =
        step.run({batch.tokens, batch.targets, {}, kAdapterRows * kAdapterLength}, i, recipe.optimizer.learning_rate);
    EXPECT_TRUE(figures.finite) << "step " << i;
    losses.push_back(figures.loss);
  }
  return losses;
}

class AdapterFixture : public testing::TestWithParam<const char*> {
 protected:
  SafetensorsFile file_{adapter_fixture(GetParam()) / "expected.safetensors"};
};

TEST_P(AdapterFixture, LogitsAndGradientsAreThoseOfPeft) {
  const Recipe recipe = adapter_recipe(GetParam());
  const auto model = model_with_adapter(GetParam(), recipe);
  const SafetensorsFile tokens(adapted_model(GetParam()) / "expected.safetensors");
  std::vector<Tensor> arguments;
  for (const char* name : {"input_ids", "labels"}) {
    HostTensor all = expected_of_adapter(tokens, name);
    all.values.resize(static_cast<size_t>(all.shape[1]));
    arguments.push_back(Tensor::from_values(all.values, {1, all.shape[1]}, DType::kI32));
  }
  std::vector<std::string> names;
  std::vector<Tensor> trained;
  for (const Parameter& parameter : model->parameters()) {
    EXPECT_EQ(parameter.is_trained, parameter.is_adapter) << parameter.name;
    if (!parameter.is_trained) continue;
    names.push_back(parameter.name);
    trained.push_back(parameter.tensor);
  }
  EXPECT_EQ(names.size(), file_.names().size() - 4);
  const auto function = [&](const std::vector<Tensor>& given) {
    const ForwardInputs inputs = {.tokens = given[0], .documents = {}, .dropout_key = {}};
    const Tensor counted = cast(given[1] >= 0, DType::kF32);
    const Tensor loss = model->loss(inputs, given[1], counted / sum(counted));
    std::vector<Tensor> results = {model->logits(inputs), loss};
    for (Tensor& gradient : gradients(loss, trained)) results.push_back(std::move(gradient));
    return results;
  };
  constexpr Bound kExact = {.rms = 2e-6, .row = 2e-5, .ulps = 1}, kRounded = {.rms = 4e-6, .row = 5e-5, .ulps = 1};
  const auto expect = [&](const std::vector<HostTensor>& results, const Bound& bound) {
    const auto one = [&](const std::string& name, const HostTensor& actual) {
      const Comparison comparison = compare(actual, expected_of_adapter(file_, name), bound);
      EXPECT_TRUE(comparison.equal) << name << ": " << comparison.text;
    };
    one("logits", results[0]);
    one("loss", results[1]);
    for (size_t i = 0; i < names.size(); ++i) one("grad." + names[i], results[2 + i]);
  };
  expect(model::run_on_interpreter(function, arguments), kExact);
  expect(model::run_on_cpu(function, arguments), kRounded);
}

TEST_P(AdapterFixture, FiftyStepsGiveTheLossesOfPeft) {
  const Recipe recipe = adapter_recipe(GetParam());
  const auto model = model_with_adapter(GetParam(), recipe);
  TrainingStep step(*model, recipe);
  const std::vector<double> losses = adapter_losses(step, recipe, kAdapterSteps);
  const HostTensor expected = expected_of_adapter(file_, "train.losses");
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected.values[i], 1e-4) << "step " << i;
  EXPECT_LT(losses.back(), losses.front() - 0.2);
}

// Adapters in bf16 go nearly the same way; the model is rounded to 8 bits where they are multiplied.
TEST_P(AdapterFixture, InBf16TheyGoTheSameWay) {
  Recipe recipe = adapter_recipe(GetParam());
  const std::vector<double> expected = expected_of_adapter(file_, "train.losses").values;
  for (const HeldWeights weights : {HeldWeights::kBf16Stochastic, HeldWeights::kBf16Kahan}) {
    recipe.optimizer.weights = weights;
    const ContextScope scope(Context::open("cpu"));
    const auto model = model_with_adapter(GetParam(), recipe);
    for (const Parameter& parameter : model->parameters())
      if (parameter.is_trained)
        EXPECT_EQ(parameter.tensor.dtype(), parameter.tensor.rank() < 2 ? DType::kF32 : DType::kBF16);
    TrainingStep step(*model, recipe);
    const std::vector<double> losses = adapter_losses(step, recipe, 20);
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 0.02 * expected[i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, AdapterFixture,
                         testing::Values("llama_lora", "llama_rslora", "llama_dora", "qwen2_lora", "gpt2_lora",
                                         "gpt2_dora"),
                         [](const auto& info) { return std::string(info.param); });

// Whatever axis cuts base and adapters.
TEST(AdapterTraining, RanksGiveTheLossesOfOne) {
  for (const char* name : {"llama_lora", "llama_dora"}) {
    Recipe recipe = adapter_recipe(name);
    std::vector<double> whole;
    {
      const auto model = model_with_adapter(name, recipe);
      TrainingStep step(*model, recipe);
      whole = adapter_losses(step, recipe, 6);
    }
    for (const MeshAxisId axis :
         {MeshAxisId::kFsdp, MeshAxisId::kTp, MeshAxisId::kDp, MeshAxisId::kCp, MeshAxisId::kPp}) {
      SCOPED_TRACE(fmt::format("{} over {}", name, axis));
      Recipe cut = recipe;
      cut.mesh.size(axis) = 2;
      on_ranks(cut.mesh, [&] {
        const auto model = model_with_adapter(name, cut);
        TrainingStep step(*model, cut);
        const std::vector<double> losses = adapter_losses(step, cut, 6);
        for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(losses[i], whole[i], 2e-5) << "step " << i;
      });
    }
  }
}

TEST(AdapterTraining, FirstValuesChangeNothingAndAreTheSameOnEveryMesh) {
  for (const char* name : {"llama_lora", "llama_dora"}) {
    const Recipe recipe = adapter_recipe(name);
    const auto model = LanguageModel::create(recipe.model, own_part(recipe), new_weights(recipe));
    load_parameters(*model, SafetensorsModel(adapted_model(name)));
    initialize_adapters(*model, 7);
    const auto plain = load_hugging_face_model(adapted_model(name));
    const ForwardInputs inputs = {
        .tokens = Tensor::from_values({3, 1, 4, 1, 5}, {1, 5}, DType::kI32), .documents = {}, .dropout_key = {}};
    const std::vector<double> with = model->logits(inputs).values(), without = plain->logits(inputs).values();
    for (size_t i = 0; i < with.size(); ++i) ASSERT_NEAR(with[i], without[i], 2e-5);
    std::map<std::string, std::vector<double>> whole;
    for (const Parameter& parameter : model->parameters()) {
      if (!parameter.is_adapter) continue;
      const std::vector<double> values = parameter.tensor.values();
      whole[parameter.name] = values;
      const double largest = std::abs(*std::ranges::max_element(values, {}, [](double v) { return std::abs(v); }));
      if (parameter.name.ends_with("lora_B.weight")) EXPECT_EQ(largest, 0);
      if (!parameter.name.ends_with("lora_A.weight")) continue;
      const double bound = 1 / std::sqrt(static_cast<double>(parameter.tensor.size(1).constant()));
      EXPECT_LE(largest, bound);
      EXPECT_GT(largest, 0.9 * bound);
      double squares = 0;
      for (const double value : values) squares += value * value;
      EXPECT_NEAR(squares / static_cast<double>(values.size()), bound * bound / 3, 0.15 * bound * bound / 3);
    }
    const auto &first = whole.begin()->second, &second = std::next(whole.begin(), 2)->second;
    EXPECT_NE(first, second);
    for (const MeshAxisId axis : {MeshAxisId::kFsdp, MeshAxisId::kTp}) {
      Recipe cut = recipe;
      cut.mesh.size(axis) = 2;
      on_ranks(cut.mesh, [&] {
        const auto part = LanguageModel::create(cut.model, own_part(cut), new_weights(cut));
        load_parameters(*part, SafetensorsModel(adapted_model(name)));
        initialize_adapters(*part, 7);
        for (const Parameter& parameter : part->parameters()) {
          if (!parameter.is_adapter) continue;
          std::vector<float> mine(static_cast<size_t>(parameter.tensor.local_bytes()) / sizeof(float));
          parameter.tensor.read_bytes(std::as_writable_bytes(std::span(mine)));
          const std::vector<int64_t> start = parameter.tensor.local_start(), sizes = parameter.tensor.local_shape();
          const int64_t columns = parameter.tensor.rank() == 2 ? parameter.tensor.size(1).constant() : 1;
          const int64_t wide = sizes.size() == 2 ? sizes[1] : 1, from = sizes.size() == 2 ? start[1] : 0;
          for (size_t i = 0; i < mine.size(); ++i) {
            const int64_t row = start[0] + static_cast<int64_t>(i) / wide,
                          column = from + static_cast<int64_t>(i) % wide;
            const double there = whole.at(parameter.name)[static_cast<size_t>(row * columns + column)];
            // Lengths of rows that ranks cut are sums in another order.
            if (parameter.tensor.rank() == 2)
              ASSERT_EQ(mine[i], there) << parameter.name;
            else
              ASSERT_NEAR(mine[i], there, 1e-6 * std::abs(there)) << parameter.name;
          }
        }
      });
    }
  }
}

TEST(AdapterTraining, DropoutIsOfWhatAdaptersAreGivenAlone) {
  Recipe recipe = adapter_recipe("llama_lora");
  const auto losses = [&](double dropout) {
    recipe.adapter.dropout = dropout;
    const auto model = model_with_adapter("llama_lora", recipe);
    TrainingStep step(*model, recipe);
    return adapter_losses(step, recipe, 2);
  };
  const std::vector<double> none = losses(0), some = losses(0.5), again = losses(0.5);
  EXPECT_EQ(some, again);
  EXPECT_NE(some[0], none[0]);
  // Without adapters' values nothing is dropped.
  const auto model = LanguageModel::create(recipe.model, own_part(recipe), new_weights(recipe));
  load_parameters(*model, SafetensorsModel(adapted_model("llama_lora")));
  initialize_adapters(*model, 1);
  TrainingStep step(*model, recipe);
  const double dropped = adapter_losses(step, recipe, 1).front();
  recipe.adapter.dropout = 0;
  const auto other = LanguageModel::create(recipe.model, own_part(recipe), new_weights(recipe));
  load_parameters(*other, SafetensorsModel(adapted_model("llama_lora")));
  initialize_adapters(*other, 1);
  TrainingStep plain(*other, recipe);
  EXPECT_EQ(adapter_losses(plain, recipe, 1).front(), dropped);
}

// Of the base nothing but its own bytes.
TEST(AdapterTraining, TakesGradientsAndStateOfAdaptersAlone) {
  Recipe recipe = adapter_recipe("llama_lora");
  recipe.train.precision = Precision::kBf16;
  recipe.train.batch_size = 4;
  const auto model = model_with_adapter("llama_lora", recipe);
  TrainingStep step(*model, recipe);
  int64_t base = 0, vectors = 0, adapters = 0;
  for (const Parameter& parameter : model->parameters()) {
    int64_t elements = 1;
    for (const int64_t size : evaluate(parameter.tensor.shape(), {})) elements *= size;
    (parameter.is_adapter ? adapters : parameter.tensor.rank() == 1 ? vectors : base) += elements;
  }
  // q [64, 64] and v [32, 64] with rank 4, in two layers.
  EXPECT_EQ(adapters, 2 * 4 * (64 + 64 + 64 + 32));
  EXPECT_EQ(base + vectors, parameter_count(recipe.model));
  EXPECT_EQ(step.cost().parameter_bytes, 2 * base + 4 * vectors + 4 * adapters);
  EXPECT_EQ(step.cost().optimizer_bytes, 3 * 4 * adapters) << "moments and sums over micro-batches";
}

// The shipped recipe of rank 16, without a device: 8.03 billion parameters in bf16, norms in f32, and of 41.9 million
// adapters' parameters all that training needs.
TEST(AdapterTraining, BytesOfLlama3Of8B) {
  const Recipe recipe = load_recipe(path(CAUSEWAY_SOURCE_DIR) / "recipes/lora_llama3_8b.yaml", {});
  const ContextScope scope(std::make_shared<Context>(std::make_shared<OfflineDevice>(Target()), ContextOptions()));
  const auto model = LanguageModel::create(recipe.model, own_part(recipe), new_weights(recipe));
  const TrainingStep step(*model, recipe);
  constexpr int64_t kAll = 8'030'261'248, kNorms = 65 * 4096, kAdapters = 41'943'040;
  int64_t weights = 0;
  for (const Parameter& parameter : model->parameters()) weights += parameter.tensor.local_bytes();
  EXPECT_EQ(weights, 2 * (kAll - kNorms) + 4 * kNorms + 4 * kAdapters);
  EXPECT_EQ(step.state_bytes(), 8 * kAdapters);
  EXPECT_EQ(step.gradient_sum_bytes(), 4 * kAdapters);
}

TEST(AdapterTraining, PatternsNameMatrices) {
  const auto adapted = [](const std::string& family, const std::string& targets) {
    Recipe recipe = adapter_recipe(family);
    recipe.adapter.targets = targets;
    const auto model = LanguageModel::create(recipe.model, own_part(recipe), new_weights(recipe));
    require_targets(*model);
    std::vector<std::string> names;
    for (const Matrix& matrix : model->matrices())
      if (matrix.has_adapter()) names.push_back(matrix.name);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(adapted("llama_lora", "all-linear").size(), 14u);
  EXPECT_EQ(adapted("llama_lora", "q_proj, mlp.up_proj"),
            (Names{"model.layers.0.self_attn.q_proj", "model.layers.0.mlp.up_proj", "model.layers.1.self_attn.q_proj",
                   "model.layers.1.mlp.up_proj"}));
  EXPECT_EQ(adapted("llama_lora", "*.1.mlp.*").size(), 3u);
  EXPECT_EQ(adapted("gpt2_lora", "c_proj").size(), 4u);
  EXPECT_EQ(adapted("gpt2_lora", "attn.c_proj").size(), 2u);
  const std::string message = message_of([&] { adapted("gpt2_lora", "c_attn,q_proj"); });
  EXPECT_NE(message.find("lora.targets"), std::string::npos) << message;
  EXPECT_NE(message.find("'q_proj' names no matrix in the layers of gpt2"), std::string::npos) << message;
  EXPECT_NE(message.find("c_attn, c_proj and c_fc"), std::string::npos) << message;
  EXPECT_NE(message_of([&] { adapted("llama_lora", "q_prj"); }).find("Did you mean q_proj?"), std::string::npos);
}

}  // namespace
}  // namespace causeway::train
