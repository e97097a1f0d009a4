// How many launches a training step takes on a GPU. Each takes microseconds, however little it does, and leaves a GPU
// half idle at its ends, so that an optimizer's must not grow with the number of layers.
#include <gtest/gtest.h>

#include "causeway/device/offline/offline_device.h"
#include "causeway/program/context.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {
namespace {

// Launches of the optimizer, which has 12 small tensors and 4 large ones a layer in GPT-2.
int64_t optimizer_launches(int64_t layers, const std::string& mesh) {
  const Recipe recipe = load_recipe(CAUSEWAY_SOURCE_DIR "/recipes/gpt2_124m.yaml",
                                    {"model.layers=" + std::to_string(layers), "train.batch_size=4",
                                     "train.micro_batch_size=4", "model.vocabulary_size=512", mesh});
  const ContextOptions options{.mesh = make_mesh(recipe.mesh)};
  const ContextScope scope(std::make_shared<Context>(std::make_shared<OfflineDevice>(gpu_target("sm_90a")), options));
  const std::unique_ptr<LanguageModel> model =
      LanguageModel::create(recipe.model, std::nullopt, weight_storage(recipe));
  TrainingStep step(*model, recipe);
  Program& program = step.main_step().prepare(step.main_arguments());
  const std::vector<KernelReport> reports = program.kernel_reports();
  int64_t launches = 0;
  for (const Instruction& instruction : program.lowered().instructions)
    if (const auto* launch = std::get_if<Launch>(&instruction.work);
        launch != nullptr && reports[launch->kernel].scope == "optimizer")
      launches += static_cast<int64_t>(launch->phases.size());
  return launches;
}

TEST(StepLaunches, TheOptimizerTakesAsManyWhateverTheLayers) {
  for (const std::string mesh : {"mesh.dp=1", "mesh.dp=2"}) {
    SCOPED_TRACE(mesh);
    const int64_t three = optimizer_launches(3, mesh), four = optimizer_launches(4, mesh);
    // The sums of what two ranks give each other of the gradients of one layer's large tensors.
    EXPECT_EQ(four - three, mesh == "mesh.dp=1" ? 0 : 4);
    EXPECT_LT(four, 60);
  }
}

}  // namespace
}  // namespace causeway::train
