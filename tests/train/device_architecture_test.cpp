// A recipe's device_architecture: what the driver of a newer GPU is given, and what a run says of it.
#include <gtest/gtest.h>

#include "causeway/device/open_device.h"
#include "causeway/program/context.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/run_context.h"
#include "causeway/train/step/training_step.h"
#include "causeway/train/training_run.h"
#include "tests/device/gpu_stand_in_library.h"

namespace causeway::train {
namespace {

// Of a whole step of a model with attention, in bf16, on a driver that computes nothing and says that it is of an H200.
class DeviceArchitecture : public testing::Test {
 protected:
  // Which architectures the modules are of that a step loads.
  std::set<std::string> modules_of(const std::string& architecture) {
    driver_ = StandIn();
    driver_.computes_nothing = true;
    driver_.memory_total = size_t{1} << 28;
    const Recipe recipe = parse_recipe(
        "model: {family: llama, vocabulary_size: 64, layers: 1, width: 64, heads: 1, ffn_width: 64}\n"
        "data: {path: data, sequence_length: 64}\ntrain: {batch_size: 1, precision: bf16}\n",
        "tiny.yaml", {"device=cuda", "device_architecture=" + architecture});
    const auto device = open_device(recipe.device, {CAUSEWAY_CUDA_STAND_IN, {}}, recipe.device_architecture);
    comment_ = device_comment(recipe, *device);
    const auto context = std::make_shared<Context>(device);
    const ContextScope scope(context);
    const std::unique_ptr<LanguageModel> model = LanguageModel::create(recipe.model, 1);
    TrainingStep step(*model, recipe);
    const std::vector<int32_t> tokens(64, 1);
    step.run({tokens, tokens, {}, 64}, 0, 1e-4);
    return driver_.module_targets;
  }

  StandIn& driver_ = open_stand_in(CAUSEWAY_CUDA_STAND_IN);
  std::string comment_;
};

TEST_F(DeviceArchitecture, TheDriverIsGivenKernelsOfIt) {
  EXPECT_EQ(modules_of("sm_80"), std::set<std::string>{"sm_80"});
  EXPECT_EQ(comment_, "");  // the key says it
  EXPECT_EQ(modules_of(""), std::set<std::string>{"sm_90a"});
  EXPECT_EQ(comment_, "# device_architecture: kernels are compiled for sm_90a\n");
}

// Two GPUs of each vendor.
TEST_F(DeviceArchitecture, ProcessesShareTheGpusOfTheVendorThatHasIt) {
  driver_ = StandIn();
  const DeviceLibraries libraries = {CAUSEWAY_CUDA_STAND_IN, {CAUSEWAY_HIP_STAND_IN}};
  const auto device = [&](const std::string& name, const std::string& architecture) {
    return device_of_local_rank(name, 1, architecture, libraries);
  };
  EXPECT_EQ(device("auto", ""), "cuda:1");
  EXPECT_EQ(device("auto", "sm_80"), "cuda:1");
  EXPECT_EQ(device("auto", "gfx942"), "hip:1");
  EXPECT_EQ(device("cuda", "gfx942"), "cuda:1");  // whoever opens it says why not
  EXPECT_EQ(device("cpu", "sm_80"), "cpu");
}

}  // namespace
}  // namespace causeway::train
