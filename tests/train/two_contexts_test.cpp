// Two models trained at the same time in one process, each in a context and a thread of its own.
#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <thread>

#include "causeway/program/context.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {
namespace {

constexpr int kContextSteps = 3;
constexpr int64_t kRows = 2, kLength = 8;

struct TrainedInContext {
  std::vector<double> losses;
  std::vector<std::vector<std::byte>> weights;
  bool operator==(const TrainedInContext&) const = default;
};

// `before_step` is called before each step: where threads meet, so that their steps overlap.
TrainedInContext train_on(const std::string& device, const std::string& model_text,
                          const std::function<void()>& before_step) {
  const ContextScope scope(Context::open(device));
  const Recipe recipe = parse_recipe("name: small\nmodel: " + model_text +
                                         "\ndata: {path: data, sequence_length: 8}\n"
                                         "train: {batch_size: 2, precision: bf16}\n",
                                     "recipe", {});
  const std::unique_ptr<LanguageModel> model = LanguageModel::create(recipe.model, 7);
  TrainingStep step(*model, recipe);
  step.prepare();
  std::vector<int32_t> inputs(kRows * kLength), targets(inputs.size());
  TrainedInContext result;
  for (int i = 0; i < kContextSteps; ++i) {
    for (size_t k = 0; k < inputs.size(); ++k) {
      inputs[k] = static_cast<int32_t>((7 * k + static_cast<size_t>(i)) % 50);
      targets[k] = static_cast<int32_t>((7 * k + 7 + static_cast<size_t>(i)) % 50);
    }
    before_step();
    result.losses.push_back(step.run({inputs, targets, {}, static_cast<int64_t>(targets.size())}, i, 1e-2).loss);
  }
  for (const Parameter& parameter : model->parameters()) {
    std::vector<std::byte> bytes(parameter.tensor.buffer().bytes);
    parameter.tensor.read_bytes(bytes);
    result.weights.push_back(std::move(bytes));
  }
  return result;
}

TEST(TwoContexts, TwoThreadsTrainTwoModelsAsEachAloneDoes) {
  const std::string llama =
      "{family: llama, vocabulary_size: 50, layers: 1, width: 16, heads: 2, ffn_width: 24, max_sequence_length: 8}";
  const std::string gpt2 =
      "{family: gpt2, vocabulary_size: 50, layers: 1, width: 16, heads: 1, ffn_width: 32, max_sequence_length: 8}";
  const TrainedInContext llama_alone = train_on("emulator:sm_90a", llama, [] {});
  const TrainedInContext gpt2_alone = train_on("emulator:gfx942", gpt2, [] {});
  EXPECT_LT(llama_alone.losses.back(), llama_alone.losses.front());
  EXPECT_LT(gpt2_alone.losses.back(), gpt2_alone.losses.front());

  TrainedInContext llama_beside, gpt2_beside;
  std::barrier meet(2);
  const auto run = [&](TrainedInContext& result, const std::string& device, const std::string& model) {
    int met = 0;
    try {
      result = train_on(device, model, [&] {
        ++met;
        meet.arrive_and_wait();
      });
    } catch (const std::exception& error) {
      ADD_FAILURE() << device << ": " << error.what();
      if (met < kContextSteps) meet.arrive_and_drop();  // the other thread does not wait for this one
    }
  };
  std::thread first(run, std::ref(llama_beside), "emulator:sm_90a", llama);
  std::thread second(run, std::ref(gpt2_beside), "emulator:gfx942", gpt2);
  first.join();
  second.join();
  EXPECT_TRUE(llama_beside == llama_alone);
  EXPECT_TRUE(gpt2_beside == gpt2_alone);
}

// The same on two contexts of one kind: they share nothing that one could spoil for the other.
TEST(TwoContexts, TwoThreadsOnProcessors) {
  const std::string model =
      "{family: llama, vocabulary_size: 50, layers: 1, width: 16, heads: 2, ffn_width: 24, max_sequence_length: 8}";
  const TrainedInContext alone = train_on("cpu", model, [] {});
  TrainedInContext first_result, second_result;
  std::thread first([&] { first_result = train_on("cpu", model, [] {}); });
  std::thread second([&] { second_result = train_on("cpu", model, [] {}); });
  first.join();
  second.join();
  EXPECT_TRUE(first_result == alone);
  EXPECT_TRUE(second_result == alone);
}

}  // namespace
}  // namespace causeway::train
