// The Newton-Schulz iterations of a training step: how many FLOPs they are, and that ranks share them.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "causeway/graph/op.h"
#include "causeway/optimizer/orthogonal_update.h"
#include "causeway/passes/count_flops.h"
#include "causeway/train/step/training_step.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

Recipe muon_recipe(const std::vector<std::string>& overrides) {
  std::vector<std::string> all = {"optimizer.name=muon"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return parse_recipe(R"(name: muon
model: {family: llama, vocabulary_size: 64, layers: 4, width: 32, heads: 4, kv_heads: 2, ffn_width: 64, max_sequence_length: 16}
data: {path: data, sequence_length: 16}
train: {batch_size: 4, precision: f32}
)",
                      "recipe", all);
}

// x x^T and its square on the shorter side m, and the product with x, in each of five iterations.
double flops_of_iterations(const std::vector<Parameter>& parameters) {
  double flops = 0;
  for (const Parameter& parameter : parameters) {
    if (!is_hidden_matrix(parameter)) continue;
    const auto a = static_cast<double>(parameter.tensor.shape()[0].constant());
    const auto b = static_cast<double>(parameter.tensor.shape()[1].constant());
    const double m = std::min(a, b), n = std::max(a, b);
    flops += 5 * (2 * 2 * m * m * n + 2 * m * m * m);
  }
  return flops;
}

TEST(MuonTraining, FlopsOfTheOptimizerAreCountedBesideTheModels) {
  const ContextScope scope(Context::open("cpu"));
  for (const std::string rows : {"4", "2"}) {
    const Recipe muon = muon_recipe({"train.micro_batch_size=" + rows}),
                 adamw = muon_recipe({"train.micro_batch_size=" + rows, "optimizer.name=adamw"});
    const auto model = LanguageModel::create(muon.model, 1);
    const FlopCount of_muon = TrainingStep(*model, muon).cost().flops,
                    of_adamw = TrainingStep(*model, adamw).cost().flops;
    EXPECT_EQ(of_muon.total(), of_adamw.total());
    EXPECT_EQ(of_adamw.optimizer, 0);
    EXPECT_EQ(of_muon.optimizer, flops_of_iterations(model->parameters()));
  }
}

// Four layers have as many matrices of each shape as there are ranks, or twice as many: each makes its share.
TEST(MuonTraining, RanksShareTheIterations) {
  for (const std::vector<std::string>& mesh :
       {std::vector<std::string>{"mesh.fsdp=2"}, {"mesh.tp=2"}, {"mesh.fsdp=2", "mesh.tp=2"}, {"mesh.dp=4"}}) {
    const Recipe recipe = muon_recipe(mesh);
    std::mutex mutex;
    on_ranks(recipe.mesh, [&] {
      const auto model = LanguageModel::create(recipe.model, own_part(recipe), 1);
      TrainingStep step(*model, recipe);
      const Graph of_rank = Context::current()->run_passes(step.trace().front(), pipeline_options(recipe));
      const double own = count_flops(of_rank).optimizer;
      const double all = flops_of_iterations(model->parameters());
      const std::lock_guard lock(mutex);
      EXPECT_EQ(own, all / static_cast<double>(recipe.mesh.ranks())) << mesh.front();
    });
  }
}

// What is 8-bit with fp8 is the model's: the iterations have bf16.
TEST(MuonTraining, IterationsAreNotInEightBits) {
  const ContextScope scope(Context::open("emulator:sm_90a"));
  const Recipe recipe = muon_recipe({"train.precision=fp8", "model.width=64", "model.ffn_width=128", "model.layers=1",
                                     "data.sequence_length=16", "train.batch_size=8"});
  const auto model = LanguageModel::create(recipe.model, 1);
  TrainingStep step(*model, recipe);
  const Graph graph = Context::current()->run_passes(step.trace().front(), pipeline_options(recipe));
  size_t narrow = 0, of_optimizer = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::kDot) continue;
    const DType type = graph.dtype(node.inputs[0]);
    if (node.scope.starts_with("optimizer")) {
      ++of_optimizer;
      EXPECT_EQ(type, DType::kBF16);
    }
    narrow += type == DType::kF8E4M3 || type == DType::kF8E5M2;
  }
  EXPECT_EQ(of_optimizer, 7 * 3 * 5u);
  EXPECT_GT(narrow, 5u);
}

}  // namespace
}  // namespace causeway::train
