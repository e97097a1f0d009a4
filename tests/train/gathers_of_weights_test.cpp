// What a step gathers of its weights, by axis: how often, in which type, and whether the backward pass does so again;
// and how many sums over ranks it makes beside those of gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "causeway/program/context.h"
#include "causeway/train/step/training_step.h"
#include "tests/fixtures/op_literal.h"

namespace causeway::train {
namespace {

constexpr int64_t kLayers = 2, kWidth = 32, kFfn = 64, kVocabulary = 48;
// Of a layer's seven matrices (queries, keys, values, the attention's output; gate, up and down), and of the output
// layer.
constexpr int64_t kOfLayers = kLayers * 7, kElementsOfLayers = kLayers * (4 * kWidth * kWidth + 3 * kWidth * kFfn);
constexpr int64_t kProducts = kOfLayers + 1, kElementsOfGemms = kElementsOfLayers + kVocabulary * kWidth;

Recipe gathers_recipe(const std::vector<std::string>& overrides) {
  return parse_recipe(R"(name: gathers
model: {family: llama, vocabulary_size: 48, layers: 2, width: 32, heads: 4, ffn_width: 64, max_sequence_length: 16}
data: {path: data, sequence_length: 16}
train: {batch_size: 8, precision: bf16}
)",
                      "recipe", overrides);
}

struct Gathers {
  int64_t number = 0;
  int64_t bytes = 0;  // that a rank has afterwards
  bool operator==(const Gathers&) const = default;
};

// Of the step's programs as they are compiled, over a group of ranks; without those of tokens, which go as bits.
class GathersOfStep {
 public:
  explicit GathersOfStep(const std::vector<std::string>& overrides) {
    const Recipe recipe = gathers_recipe(overrides);
    const ContextScope scope(Context::open("cpu", {.mesh = make_mesh(recipe.mesh)}));
    const auto model = LanguageModel::create(recipe.model, std::nullopt);
    const TrainingStep step(*model, recipe);
    for (const Graph& graph : step.trace())
      programs_.push_back(Context::current()->run_passes(graph, pipeline_options(recipe)));
  }

  Gathers count(const std::string& group, DType dtype, bool backward, size_t program = 0) const {
    Gathers sum;
    const Graph& graph = programs_.at(program);
    for (const Node& node : graph.nodes()) {
      if (node.op != "all_gather"_op || node.attributes.group != group || node.outputs[0].dtype != dtype ||
          node.backward != backward || graph.node(node.inputs[0]).op == "bitcast"_op)
        continue;
      ++sum.number;
      sum.bytes += element_count(node.outputs[0].shape).constant() * static_cast<int64_t>(size_bytes(dtype));
    }
    return sum;
  }

  // Of single numbers: of the loss, and of the gradients' squares.
  std::map<std::string, int64_t> sums_of_numbers() const {
    std::map<std::string, int64_t> sums;
    for (const Graph& graph : programs_)
      for (const Node& node : graph.nodes())
        if (node.op == "all_reduce"_op && node.outputs[0].shape.empty()) ++sums[node.attributes.group];
    return sums;
  }

  int64_t all(size_t program = 0) const {
    return std::ranges::count(programs_.at(program).nodes(), "all_gather"_op, &Node::op);
  }

 private:
  std::vector<Graph> programs_;
};

const Gathers kNone;
const Gathers kOfGemms{kProducts, kElementsOfGemms * 2};
// The output layer's gradients are computed beside its loss, with what was gathered for that.
const Gathers kOfGemmsAgain{kOfLayers, kElementsOfLayers * 2};
// It is smaller than what it is looked up for. Norms are whole.
const Gathers kOfEmbedding = {1, 4 * kVocabulary* kWidth};

TEST(GathersOfWeights, OverDpAreOfBf16AndKept) {
  for (const char* recompute : {"none", "selective", "block"}) {
    SCOPED_TRACE(recompute);
    const GathersOfStep step({"mesh.dp=2", std::string("train.recompute=") + recompute});
    EXPECT_EQ(step.count("dp", DType::kBF16, false), kOfGemms);
    EXPECT_EQ(step.count("dp", DType::kBF16, true), kNone);
    EXPECT_EQ(step.count("dp", DType::kF32, false), kOfEmbedding);
    EXPECT_EQ(step.count("dp", DType::kF32, true), kNone);
  }
}

TEST(GathersOfWeights, OverFsdpAreMadeAgain) {
  const GathersOfStep step({"mesh.fsdp=2"});
  EXPECT_EQ(step.count("fsdp", DType::kBF16, false), kOfGemms);
  EXPECT_EQ(step.count("fsdp", DType::kBF16, true), kOfGemmsAgain);
}

// Over dp a half, and over fsdp the whole of it.
TEST(GathersOfWeights, OverBothAreMadeAgainOverBoth) {
  const GathersOfStep step({"mesh.fsdp=2", "mesh.dp=2"});
  EXPECT_EQ(step.count("dp", DType::kBF16, false), (Gathers{kProducts, kElementsOfGemms}));
  EXPECT_EQ(step.count("fsdp", DType::kBF16, false), kOfGemms);
  EXPECT_EQ(step.count("dp", DType::kBF16, true), (Gathers{kOfLayers, kElementsOfLayers}));
  EXPECT_EQ(step.count("fsdp", DType::kBF16, true), kOfGemmsAgain);
}

TEST(GathersOfWeights, OfMicroBatchesAreMadeInEach) {
  const GathersOfStep step({"mesh.dp=2", "train.micro_batch_size=4"});
  EXPECT_EQ(step.count("dp", DType::kBF16, false), kOfGemms);
  EXPECT_EQ(step.count("dp", DType::kBF16, true), kNone);
  // What applies the gradients leaves the new weights where they are.
  EXPECT_EQ(step.all(1), 0);
}

// However many weights there are: those that the same axes cut are added up on each rank first.
TEST(SumsOverRanks, OfSquaresAreOneForAllWeightsThatLieAlike) {
  using Sums = std::map<std::string, int64_t>;
  // The loss, and the squares.
  EXPECT_EQ(GathersOfStep({"mesh.fsdp=2"}).sums_of_numbers(), (Sums{{"fsdp", 2}}));
  EXPECT_EQ(GathersOfStep({"mesh.dp=2"}).sums_of_numbers(), (Sums{{"dp", 2}}));
  const Sums of_tp = GathersOfStep({"mesh.tp=2"}).sums_of_numbers();
  EXPECT_LE(of_tp.at("tp"), 2);
  int64_t of_both = 0;
  for (const auto& [group, number] : GathersOfStep({"mesh.fsdp=2", "mesh.tp=2"}).sums_of_numbers()) of_both += number;
  EXPECT_LE(of_both, 4);
}

}  // namespace
}  // namespace causeway::train
