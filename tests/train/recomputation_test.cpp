// What train.recompute=auto chooses.
#include "causeway/train/step/recomputation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/train/step/training_step.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

Recipe fitted_recipe(const std::vector<std::string>& overrides) {
  return parse_recipe(R"(name: fitted
model: {family: llama, vocabulary_size: 48, layers: 40, width: 32, heads: 2, ffn_width: 64, max_sequence_length: 16}
data: {path: data, sequence_length: 16}
train: {batch_size: 40, precision: bf16}
)",
                      "recipe", overrides);
}

const Recomputation kNothing, kChains{RecomputePolicy::kSelective}, kAll{RecomputePolicy::kBlock};

// Of a model whose layers take 100 bytes each, 60 where chains and 10 where all is computed again, beside 1,000.
struct Chooser {
  std::vector<Recomputation> asked;
  double first_layers_save = 50;

  Recomputation choose(int64_t limit, const std::vector<std::string>& overrides = {}) {
    asked.clear();
    return choose_recomputation(fitted_recipe(overrides), limit, [&](const Recomputation& recomputation) -> int64_t {
      asked.push_back(recomputation);
      if (recomputation == kNothing) return 5000;
      if (recomputation == kChains) return 3400;
      if (recomputation == kAll) return 1400;
      return 3400 - static_cast<int64_t>(first_layers_save * static_cast<double>(recomputation.blocks));
    });
  }
};

TEST(Recomputation, AutoComputesAsLittleAgainAsFits) {
  Chooser chooser;
  EXPECT_EQ(chooser.choose(5000), kNothing);
  EXPECT_EQ(chooser.asked.size(), 1u);
  EXPECT_EQ(chooser.choose(4999), kChains);
  EXPECT_EQ(chooser.choose(3400), kChains);
  EXPECT_EQ(chooser.choose(3399), (Recomputation{RecomputePolicy::kBlock, 1}));
  EXPECT_EQ(chooser.choose(2401), (Recomputation{RecomputePolicy::kBlock, 20}));
  EXPECT_EQ(chooser.choose(1451), (Recomputation{RecomputePolicy::kBlock, 39}));
  EXPECT_EQ(chooser.choose(1400), kAll);
  EXPECT_EQ(chooser.choose(100), kAll);
}

TEST(Recomputation, AutoTakesMoreLayersWhereTheFirstSaveLess) {
  Chooser chooser;
  chooser.first_layers_save = 40;
  EXPECT_EQ(chooser.choose(2401), (Recomputation{RecomputePolicy::kBlock, 26}));
  EXPECT_LE(chooser.asked.size(), 8u);
  EXPECT_EQ(chooser.choose(1451), kAll);
}

TEST(Recomputation, AutoDividesNoStages) {
  Chooser chooser;
  EXPECT_EQ(chooser.choose(3399, {"mesh.pp=2", "train.micro_batch_size=20"}), kAll);
  EXPECT_EQ(chooser.choose(3400, {"mesh.pp=2", "train.micro_batch_size=20"}), kChains);
}

TEST(Recomputation, RecipesSayIt) {
  const Recipe recipe = fitted_recipe({});
  EXPECT_EQ(recipe.train.recompute, std::nullopt);
  EXPECT_EQ(recomputation_of(recipe), kNothing);
  for (const Recomputation& one : {kNothing, kChains, kAll, Recomputation{RecomputePolicy::kBlock, 7},
                                   Recomputation{RecomputePolicy::kSelective, 7}})
    EXPECT_EQ(recomputation_of(with_recomputation(recipe, one)), one);
  EXPECT_EQ(recomputation_text(kChains, recipe), "selective");
  EXPECT_EQ(recomputation_text({RecomputePolicy::kBlock, 7}, recipe),
            "block of the first 7 of 40 layers, selective of the others");
  EXPECT_EQ(recomputation_text({RecomputePolicy::kSelective, 7}, recipe), "selective of the first 7 of 40 layers");
}

TEST(Recomputation, AStepFitsTheLimitThatItIsGiven) {
  const Recipe recipe = fitted_recipe({"model.layers=4", "train.batch_size=8"});
  const ContextScope scope(Context::open("cpu"));
  const auto model = LanguageModel::create(recipe.model, 3);
  const std::vector<int32_t> tokens(8 * 16, 5);
  const TrainingBatch batch{tokens, tokens, {}, 8 * 16};
  std::vector<double> losses;
  std::vector<int64_t> bytes;
  TrainingStep unlimited(*model, recipe);
  const int64_t chains = unlimited.planned_bytes(kChains), all = unlimited.planned_bytes(kAll);
  ASSERT_LT(chains, unlimited.planned_bytes(kNothing));
  ASSERT_LT(all, chains);
  for (const int64_t limit : {int64_t{0}, chains, (chains + all) / 2, all}) {
    SCOPED_TRACE(limit);
    const auto fresh = LanguageModel::create(recipe.model, 3);
    TrainingStep step(*fresh, recipe);
    if (limit > 0) step.fit_memory(static_cast<int64_t>(static_cast<double>(limit) / kMostOfMemory) + 1);
    const StepCost cost = step.cost();
    bytes.push_back(cost.total_bytes() - cost.scratch_bytes);
    if (limit > 0) EXPECT_LE(bytes.back(), limit);
    for (int64_t i = 0; i < 2; ++i) losses.push_back(step.run(batch, i, 1e-2).loss);
    EXPECT_EQ(losses.back(), losses[1]);
  }
  EXPECT_THAT(bytes,
              testing::ElementsAre(testing::_, testing::Lt(bytes[0]), testing::Lt(bytes[1]), testing::Le(bytes[2])));
}

// The rank with least to spare decides.
TEST(Recomputation, RanksComputeTheSameAgain) {
  const Recipe recipe = fitted_recipe({"model.layers=2", "train.batch_size=4"});
  const ContextScope scope(Context::open("cpu"));
  const auto model = LanguageModel::create(recipe.model, 3);
  TrainingStep step(*model, recipe);
  step.fit_memory(int64_t{1} << 40, [](const TrainingStep::Bytes& bytes) { return bytes() + (int64_t{1} << 40); });
  EXPECT_EQ(step.recomputation(), kAll);
  TrainingStep told(*model, fitted_recipe({"model.layers=2", "train.batch_size=4", "train.recompute=none"}));
  EXPECT_EQ(told.recomputation(), kNothing);
}

}  // namespace
}  // namespace causeway::train
