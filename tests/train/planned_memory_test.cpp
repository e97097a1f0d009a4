// What a step is planned to take of its device is what the device has handed out, to the byte.
#include <gtest/gtest.h>

#include "causeway/base/error.h"
#include "causeway/device/cpu/cpu_device.h"
#include "causeway/train/step/training_step.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

Recipe planned_recipe(const std::vector<std::string>& overrides) {
  return parse_recipe(R"(name: planned
model: {family: llama, vocabulary_size: 48, layers: 1, width: 32, heads: 2, ffn_width: 64, max_sequence_length: 16}
data: {path: data, sequence_length: 16}
train: {batch_size: 4, precision: bf16}
)",
                      "recipe", overrides);
}

// In a context that nothing else was done in.
void expect_as_planned(const Recipe& recipe) {
  const Device& device = Context::current()->device();
  NewWeights weights = new_weights(recipe, 3);
  weights.storage = WeightStorage::kElements;
  const auto model = LanguageModel::create(recipe.model, ModelPart(recipe.model.layers), weights);
  TrainingStep step(*model, recipe);
  const StepCost cost = step.cost();
  const auto rows = static_cast<size_t>(step.own_rows().count * recipe.micro_batches());
  const std::vector<int32_t> tokens(rows * static_cast<size_t>(recipe.data.sequence_length), 5);
  const std::vector<int32_t> documents(recipe.data.masks_documents() ? tokens.size() : 0);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(
        step.run({tokens, tokens, documents, recipe.train.batch_size * recipe.data.sequence_length}, i, 1e-3).finite);
    EXPECT_EQ(device.bytes_in_use(), cost.total_bytes()) << "step " << i;
    EXPECT_EQ(device.peak_bytes(), cost.total_bytes()) << "step " << i;
  }
  EXPECT_EQ(cost.reserved_bytes > 0, device.target().is_gpu());
  // What train.recompute=auto goes by: on a GPU all but the batch rounded up.
  const int64_t planned = step.planned_bytes(step.recomputation());
  EXPECT_GE(planned, cost.total_bytes() - cost.scratch_bytes);
  EXPECT_LE(planned, std::max(cost.total_bytes() - cost.scratch_bytes, cost.reserved_bytes));
}

TEST(PlannedMemory, OfOneRank) {
  for (const char* device : {"cpu", "emulator:sm_90a"})
    for (const std::vector<std::string>& overrides : std::vector<std::vector<std::string>>{
             {},
             {"train.micro_batch_size=2"},
             {"optimizer.weights=bf16_stochastic", "train.z_loss=1e-4"},
             {"optimizer.weights=bf16_kahan", "optimizer.average_decay=0.9", "train.micro_batch_size=2"},
             {"data.packing=documents", "train.recompute=block"},
             {"model.layers=2", "train.recompute=block", "train.recompute_layers=1"},
             {"model.layers=2", "train.recompute=selective", "train.recompute_layers=1"}}) {
      const Recipe recipe = planned_recipe(overrides);
      const ContextScope scope(Context::open(device));
      expect_as_planned(recipe);
    }
}

TEST(PlannedMemory, OfEveryAxis) {
  for (const std::vector<std::string>& overrides :
       std::vector<std::vector<std::string>>{{"mesh.dp=2"},
                                             {"mesh.fsdp=2"},
                                             {"mesh.cp=2"},
                                             {"mesh.tp=2"},
                                             {"mesh.fsdp=2", "optimizer.weights=bf16_kahan"},
                                             {"mesh.fsdp=2", "mesh.tp=2", "train.micro_batch_size=2"}}) {
    const Recipe recipe = planned_recipe(overrides);
    on_ranks(recipe.mesh, [&] { expect_as_planned(recipe); });
  }
}

// Weights in bf16 are what GEMMs multiply and rows are looked up in: there is no copy of them in f32, nor in bf16 as
// f32 weights have one.
TEST(PlannedMemory, OfWeightsInBf16ThereIsNoCopy) {
  for (const char* device : {"cpu", "emulator:sm_90a"}) {
    const auto arena = [&](const std::string& weights, const std::string& tied) {
      const Recipe recipe = planned_recipe(
          {"model.vocabulary_size=2048", "model.tie_embeddings=" + tied, "optimizer.weights=" + weights});
      const ContextScope scope(Context::open(device));
      NewWeights of = new_weights(recipe, 3);
      of.storage = WeightStorage::kElements;
      const auto model = LanguageModel::create(recipe.model, ModelPart(recipe.model.layers), of);
      TrainingStep step(*model, recipe);
      return step.cost().arena_bytes;
    };
    for (const char* tied : {"true", "false"})
      EXPECT_LE(arena("bf16_stochastic", tied), arena("f32", tied)) << device << ", tied: " << tied;
  }
}

// A processor of that little memory.
class SmallDevice : public CpuDevice {
 public:
  explicit SmallDevice(int64_t limit) : CpuDevice(1), limit_(limit) {}
  int64_t memory_limit() const override { return limit_; }

 private:
  int64_t limit_;
};

// Whatever axis cuts weights, those of two ranks fit where half of them do.
TEST(PlannedMemory, ARankHoldsItsShareAlongEveryAxis) {
  for (const char* axis : {"mesh.dp=2", "mesh.fsdp=2", "mesh.cp=2", "mesh.tp=2", "mesh.pp=2"}) {
    SCOPED_TRACE(axis);
    const Recipe recipe = planned_recipe({axis, "model.layers=2", "train.micro_batch_size=2"});
    const int64_t weights = parameter_count(recipe.model) * static_cast<int64_t>(sizeof(float)), state = 4 * weights;
    EXPECT_NO_THROW(require_memory_for_weights(SmallDevice(state / 2 + 64), recipe));
    EXPECT_THROW(require_memory_for_weights(SmallDevice(state / 2 - 64), recipe), Error);
    const auto create = [&](int64_t limit) {
      ContextOptions options;
      options.mesh = make_mesh(recipe.mesh);
      const ContextScope scope(std::make_shared<Context>(std::make_shared<SmallDevice>(limit), options));
      LanguageModel::create(recipe.model, own_part(recipe), std::nullopt);
    };
    EXPECT_NO_THROW(create(weights / 2 + 64));
    EXPECT_THROW(create(weights / 2 - 64), Error);
  }
}

}  // namespace
}  // namespace causeway::train
