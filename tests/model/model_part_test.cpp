// Which layers and parameters a stage of a pipeline holds.
#include "causeway/model/model_part.h"

#include <gtest/gtest.h>

#include <map>

#include "causeway/model/language_model.h"
#include "causeway/program/context.h"

namespace causeway::model {
namespace {

TEST(ModelPart, CutsLayersEvenlyLongerPiecesFirst) {
  const ModelPart part(7, 3, 1, 0);
  EXPECT_EQ(part.first_layer(0), 0);
  EXPECT_EQ(part.first_layer(1), 3);
  EXPECT_EQ(part.first_layer(2), 5);
  EXPECT_EQ(part.first_layer(3), 7);
  for (int64_t layers = 1; layers <= 9; ++layers)
    for (int64_t pieces = 1; pieces <= layers; ++pieces) {
      const ModelPart cut(layers, pieces, 1, 0);
      EXPECT_EQ(cut.first_layer(0), 0);
      EXPECT_EQ(cut.first_layer(pieces), layers);
      for (int64_t piece = 0; piece < pieces; ++piece) {
        const int64_t size = cut.first_layer(piece + 1) - cut.first_layer(piece);
        EXPECT_GE(size, layers / pieces);
        EXPECT_LE(size, (layers + pieces - 1) / pieces);
      }
    }
}

// Of Llama 3 8B the output layer is as 2.4 layers.
TEST(ModelPart, TheLastPieceIsShorterByTheOutputLayer) {
  const auto cut = [](int64_t layers, int64_t stages, int64_t chunks, double output) {
    const ModelPart part(layers, stages, chunks, 0, output);
    std::vector<int64_t> sizes;
    for (int64_t piece = 0; piece < part.pieces(); ++piece)
      sizes.push_back(part.first_layer(piece + 1) - part.first_layer(piece));
    return sizes;
  };
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(cut(4, 2, 1, 2.4), (Sizes{3, 1}));
  EXPECT_EQ(cut(32, 2, 1, 2.4), (Sizes{17, 15}));
  EXPECT_EQ(cut(32, 4, 1, 2.4), (Sizes{9, 9, 8, 6}));
  EXPECT_EQ(cut(32, 2, 2, 2.4), (Sizes{9, 9, 8, 6}));
  EXPECT_EQ(cut(8, 4, 1, 100), (Sizes{3, 2, 2, 1}));
  EXPECT_EQ(cut(8, 4, 1, 0.4), (Sizes{2, 2, 2, 2}));
  EXPECT_EQ(cut(8, 1, 1, 2.4), (Sizes{8}));
}

TEST(ModelPart, PiecesGoRoundTheStages) {
  const ModelPart first(8, 2, 2, 0), second(8, 2, 2, 1);
  EXPECT_EQ(first.held(), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(second.held(), (std::vector<int64_t>{1, 3}));
  EXPECT_TRUE(first.holds_embedding());
  EXPECT_FALSE(first.holds_head());
  EXPECT_TRUE(second.holds_head());
  EXPECT_FALSE(first.is_whole());
  EXPECT_TRUE(ModelPart(8).is_whole());
}

class Parts : public testing::TestWithParam<std::string> {};

TEST_P(Parts, TogetherHoldEveryParameterOnceWithItsValues) {
  const ContextScope scope(Context::open("cpu"));
  ModelConfig config;
  config.family = GetParam();
  config.vocabulary_size = 24;
  config.layers = 5;
  config.width = 16;
  config.heads = 2;
  config.max_sequence_length = 8;
  config = config.resolved();
  const auto whole = LanguageModel::create(config, 5);
  std::map<std::string, std::vector<double>> values;
  for (const Parameter& parameter : whole->parameters()) {
    values[parameter.name] = parameter.tensor.values();
    EXPECT_FALSE(parameter.is_shared || parameter.is_copy) << parameter.name;
  }
  for (const int64_t chunks : {1, 2}) {
    std::map<std::string, int> found;
    int copies = 0;
    for (int64_t stage = 0; stage < 2; ++stage) {
      const auto model = LanguageModel::create(config, ModelPart(config.layers, 2, chunks, stage), 5);
      for (const Parameter& parameter : model->parameters()) {
        EXPECT_EQ(parameter.tensor.values(), values.at(parameter.name)) << parameter.name;
        EXPECT_TRUE(model->part().holds_piece(parameter.piece)) << parameter.name;
        if (!parameter.is_copy) ++found[parameter.name];
        copies += parameter.is_copy;
        EXPECT_TRUE(parameter.is_shared || !parameter.is_copy);
      }
      EXPECT_EQ(model->output_weight().defined(), stage == 1);
    }
    for (const auto& [name, value] : values) EXPECT_EQ(found[name], 1) << name;
    EXPECT_EQ(found.size(), values.size());
    EXPECT_EQ(copies, config.tie_embeddings ? 1 : 0);
  }
}

INSTANTIATE_TEST_SUITE_P(, Parts,
                         testing::Values("gemma2", "gpt2", "llama", "mistral", "mixtral", "mpt", "olmo2", "olmoe",
                                         "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace causeway::model
