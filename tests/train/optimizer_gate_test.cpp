// What the kernels of optimizers come to on a GPU that is not here: of every optimizer and form of what it keeps, the
// step of a layer of GPT-2 124M compiled for Hopper. Nothing spills, and nothing is found in the code.
#include <gtest/gtest.h>

#include "causeway/codegen/compile/kernel_cache.h"
#include "causeway/codegen/compile/kernel_resources.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/program/context.h"
#include "causeway/program/kernel_library.h"
#include "causeway/program/program_resources.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {
namespace {

// Kernels that several of them have are compiled once.
TEST(OptimizerGate, NoKernelSpills) {
  const Target target = gpu_target("sm_90a");
  const auto cache = std::make_shared<KernelCache>("");
  for (const std::vector<std::string>& kind :
       std::vector<std::vector<std::string>>{{"optimizer.moments=bf16"},
                                             {"optimizer.moments=8bit"},
                                             {"optimizer.name=adafactor"},
                                             {"optimizer.name=schedule_free_adamw"},
                                             {"optimizer.name=schedule_free_adamw", "optimizer.moments=8bit"}}) {
    SCOPED_TRACE(testing::PrintToString(kind));
    std::vector<std::string> overrides = {"model.layers=1", "train.batch_size=4", "train.micro_batch_size=4",
                                          "train.recompute=selective", "schedule.kind=constant"};
    overrides.insert(overrides.end(), kind.begin(), kind.end());
    const Recipe recipe = load_recipe(CAUSEWAY_SOURCE_DIR "/recipes/gpt2_124m.yaml", overrides);
    const auto context =
        std::make_shared<Context>(std::make_shared<OfflineDevice>(target), ContextOptions{.cache = cache});
    const ContextScope scope(context);
    const std::unique_ptr<LanguageModel> model = LanguageModel::create(recipe.model, std::nullopt);
    TrainingStep step(*model, recipe);
    Program& program = step.main_step().prepare(step.main_arguments());
    for (const FunctionResources& function : program_resources(program, context->library())) {
      const std::string& source = program.sources()[function.source];
      if (function.code)
        for (const CodeFinding& finding : function.code->findings)
          ADD_FAILURE() << function.function << " " << finding_text(finding, target) << "\n" << source;
      if (!function.resources) continue;
      EXPECT_EQ(function.resources->spill_bytes, 0) << function.kind << "\n" << source;
      EXPECT_TRUE(function.resources->notes.empty()) << function.resources->notes.front() << "\n" << source;
    }
  }
  if (find_ptxas().empty()) GTEST_SKIP() << "What ptxas makes of the kernels is not tested. " << how_to_get_ptxas();
}

}  // namespace
}  // namespace causeway::train
