// Training with the optimizer's state or activations in the host's memory: the same bits as without, the memory that
// was planned, and what auto chooses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/model/adapter.h"
#include "causeway/train/checkpoint/state_snapshot.h"
#include "causeway/train/step/memory_choice.h"
#include "causeway/train/step/training_step.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

using ::testing::HasSubstr;

constexpr char kEmulator[] = "emulator:sm_90a";

Recipe offload_recipe(const std::vector<std::string>& overrides) {
  return parse_recipe(R"(name: offload
model: {family: llama, vocabulary_size: 48, layers: 2, width: 32, heads: 2, ffn_width: 64, max_sequence_length: 16}
data: {path: data, sequence_length: 16}
train: {batch_size: 4, precision: bf16, recompute: none}
)",
                      "recipe", overrides);
}

std::vector<std::string> with(std::vector<std::string> overrides, const std::vector<std::string>& more) {
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

std::vector<std::byte> bytes_of_tensor(const Tensor& tensor) {
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.local_bytes()));
  tensor.read_bytes(bytes);
  return bytes;
}

// Losses, norms, weights and state after three steps, by rank, and what the step takes.
struct TrainedWithOffload {
  std::vector<double> figures = {};
  std::vector<std::vector<std::byte>> tensors = {};
  StepCost cost = {};
  bool operator==(const TrainedWithOffload& other) const {
    return figures == other.figures && tensors == other.tensors;
  }
};

// In the current context.
TrainedWithOffload train_here(const Recipe& recipe) {
  const auto model = LanguageModel::create(recipe.model, ModelPart(recipe.model.layers), new_weights(recipe, 3));
  if (recipe.adapter.is_used()) initialize_adapters(*model, 7);
  TrainingStep step(*model, recipe);
  TrainedWithOffload trained{.cost = step.cost()};
  const auto rows = static_cast<size_t>(step.own_rows().count * recipe.micro_batches());
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < rows * static_cast<size_t>(recipe.data.sequence_length); ++i)
    tokens.push_back(static_cast<int32_t>(i * i % 47));
  const int64_t targets = recipe.train.batch_size * recipe.data.sequence_length;
  for (int64_t i = 0; i < 3; ++i) {
    const StepFigures figures = step.run({tokens, tokens, {}, targets}, i, 1e-2);
    EXPECT_TRUE(figures.finite);
    trained.figures.insert(trained.figures.end(), {figures.loss, figures.grad_norm});
  }
  // What initializes adapters takes memory of its own.
  if (Context::current()->mesh().empty() && !recipe.adapter.is_used())
    EXPECT_EQ(Context::current()->device().peak_bytes(), trained.cost.total_bytes());
  for (const Parameter& parameter : model->parameters()) trained.tensors.push_back(bytes_of_tensor(parameter.tensor));
  for (const TrainingStep::StateTensor& kept : step.optimizer_state())
    trained.tensors.push_back(bytes_of_tensor(kept.tensor));
  return trained;
}

std::vector<TrainedWithOffload> train(const Recipe& recipe, const std::string& device = kEmulator) {
  std::vector<TrainedWithOffload> ranks(static_cast<size_t>(recipe.mesh.ranks()));
  on_ranks(recipe.mesh, [&] { ranks[static_cast<size_t>(Context::current()->rank())] = train_here(recipe); }, device);
  return ranks;
}

// Whatever the optimizer keeps, in one program or two, on one rank or on each its share.
TEST(HostOffloadTraining, StateOnTheHostGivesTheSameBits) {
  for (const std::vector<std::string>& overrides :
       std::vector<std::vector<std::string>>{{},
                                             {"train.micro_batch_size=2"},
                                             {"optimizer.name=adamw", "optimizer.moments=8bit",
                                              "optimizer.moment_block=32", "optimizer.moment_rounding=stochastic"},
                                             {"optimizer.name=muon", "model.layers=1"},
                                             {"mesh.fsdp=2", "model.layers=1"}}) {
    SCOPED_TRACE(testing::PrintToString(overrides));
    const std::vector<TrainedWithOffload> here = train(offload_recipe(overrides)),
                                          there = train(offload_recipe(with(overrides, {"offload.optimizer=true"})));
    EXPECT_TRUE(here == there);
    for (size_t rank = 0; rank < here.size(); ++rank) {
      const StepCost &stays = here[rank].cost, &goes = there[rank].cost;
      EXPECT_EQ(stays.host_bytes(), 0);
      EXPECT_GT(goes.host_optimizer_bytes, 0);
      EXPECT_EQ(goes.host_optimizer_bytes + goes.optimizer_bytes, stays.optimizer_bytes);
      EXPECT_EQ(goes.parameter_bytes, stays.parameter_bytes);
      EXPECT_LT(goes.total_bytes(), stays.total_bytes());
    }
  }
}

TEST(HostOffloadTraining, ActivationsOnTheHostGiveTheSameBits) {
  for (const std::vector<std::string>& overrides : std::vector<std::vector<std::string>>{
           {"model.layers=3"}, {"model.layers=4", "train.recompute=block", "train.micro_batch_size=2"}}) {
    SCOPED_TRACE(testing::PrintToString(overrides));
    const bool recompute = std::ranges::count(overrides, "train.recompute=block") > 0;
    const TrainedWithOffload here = train(offload_recipe(overrides)).front();
    const TrainedWithOffload there =
        train(offload_recipe(with(overrides, {"offload.activations=true", "offload.optimizer=true"}))).front();
    EXPECT_TRUE(here == there);
    EXPECT_GT(there.cost.host_activation_bytes, 0);
    // Where blocks are computed again little is kept, and what loads come to takes as much.
    if (recompute) continue;
    EXPECT_LT(there.cost.total_bytes(), here.cost.total_bytes() - here.cost.optimizer_bytes / 4);
  }
}

// What decodes weights of few bits rewrites the program, whose inputs stay where they are.
TEST(HostOffloadTraining, StateOfAdaptersOfAQuantizedBaseGivesTheSameBits) {
  const std::vector<std::string> adapters = {"lora.rank=4", "lora.base=nf4", "model.layers=1"};
  const TrainedWithOffload here = train(offload_recipe(adapters)).front();
  const TrainedWithOffload there = train(offload_recipe(with(adapters, {"offload.optimizer=true"}))).front();
  EXPECT_TRUE(here == there);
  EXPECT_EQ(there.cost.host_optimizer_bytes, here.cost.optimizer_bytes);
  EXPECT_EQ(there.cost.optimizer_bytes, 0);
}

// A step that is left out, or that stops the run, brings the state and puts the same back.
TEST(HostOffloadTraining, AStepThatIsNotFiniteLeavesTheState) {
  for (const char* policy : {"skip", "stop"}) {
    SCOPED_TRACE(policy);
    const ContextScope scope(Context::open(kEmulator));
    const Recipe recipe =
        offload_recipe({"model.layers=1", "offload.optimizer=true", std::string("train.on_non_finite=") + policy});
    const auto model = LanguageModel::create(recipe.model, 3);
    TrainingStep step(*model, recipe);
    const std::vector<int32_t> tokens(4 * 16, 7);
    EXPECT_TRUE(step.run({tokens, tokens, {}, 4 * 16}, 0, 1e-2).finite);
    const auto state = [&] {
      std::vector<std::vector<std::byte>> bytes;
      for (const TrainingStep::StateTensor& kept : step.optimizer_state())
        bytes.push_back(bytes_of_tensor(kept.tensor));
      return bytes;
    };
    const std::vector<std::vector<std::byte>> before = state();
    Tensor weight = model->parameters().front().tensor;
    const std::vector<std::byte> trained = bytes_of_tensor(weight);
    weight.write_bytes(std::vector<std::byte>(trained.size(), std::byte{0xff}));  // NaN
    EXPECT_FALSE(step.run({tokens, tokens, {}, 4 * 16}, 1, 1e-2).finite);
    EXPECT_TRUE(state() == before);
    weight.write_bytes(trained);
    EXPECT_EQ(step.run({tokens, tokens, {}, 4 * 16}, 2, 1e-2).finite, std::string_view(policy) == "skip");
    EXPECT_EQ(state() == before, std::string_view(policy) == "stop");
  }
}

// The memory of a processor is the host's.
TEST(HostOffloadTraining, NothingIsMovedOnAProcessor) {
  const TrainedWithOffload here = train(offload_recipe({"model.layers=1"}), "cpu").front();
  const TrainedWithOffload there =
      train(offload_recipe({"model.layers=1", "offload.activations=true", "offload.optimizer=true"}), "cpu").front();
  EXPECT_TRUE(here == there);
  EXPECT_EQ(there.cost.host_bytes(), 0);
  EXPECT_EQ(there.cost.total_bytes(), here.cost.total_bytes());
}

// A checkpoint's copy is of the moment it was begun, wherever a tensor lies.
TEST(HostOffloadTraining, ASnapshotHoldsStateOfTheHost) {
  const ContextScope scope(Context::open(kEmulator));
  const Recipe recipe = offload_recipe({"model.layers=1", "offload.optimizer=true"});
  const auto model = LanguageModel::create(recipe.model, 3);
  TrainingStep step(*model, recipe);
  const std::vector<int32_t> tokens(4 * 16, 7);
  step.run({tokens, tokens, {}, 4 * 16}, 0, 1e-2);
  std::vector<Tensor> tensors;
  std::vector<std::vector<std::byte>> expected;
  for (const Parameter& parameter : model->parameters()) tensors.push_back(parameter.tensor);
  // The interleaved order of checkpoints.
  for (const TrainingStep::StateTensor& kept : step.optimizer_state())
    tensors.insert(tensors.begin() + static_cast<int64_t>(tensors.size() / 2), kept.tensor);
  EXPECT_TRUE(step.optimizer_state().front().tensor.lies_on_host());
  for (const Tensor& tensor : tensors)
    if (!tensor.lies_in_halves()) expected.push_back(bytes_of_tensor(tensor));
  StateSnapshot snapshot(Context::current(), tensors);
  snapshot.allocate();
  snapshot.begin();
  step.run({tokens, tokens, {}, 4 * 16}, 1, 1e-2);
  snapshot.finish();
  size_t next = 0;
  bool changed = false;
  for (const Tensor& tensor : tensors) {
    if (tensor.lies_in_halves()) continue;
    const std::span<const std::byte> copied = snapshot.of(tensor);
    EXPECT_TRUE(std::ranges::equal(copied, expected[next])) << next;
    changed = changed || bytes_of_tensor(tensor) != expected[next];
    ++next;
  }
  EXPECT_TRUE(changed);
}

// Values that a run goes on with are written to the host's memory, and moved there.
TEST(HostOffloadTraining, StateIsWrittenAndMoved) {
  const ContextScope scope(Context::open(kEmulator));
  const std::vector<float> values = {1, 2, 3, 4};
  Tensor there = Tensor::zeroed_on_host({4}, DType::kF32);
  EXPECT_EQ(there.values(), (std::vector<double>{0, 0, 0, 0}));
  there.write_bytes(std::as_bytes(std::span(values)));
  EXPECT_EQ(there.values(), (std::vector<double>{1, 2, 3, 4}));
  const int64_t before = Context::current()->device().bytes_in_use();
  Tensor moved = Tensor::from_values({5, 6}, {2});
  moved.move_to_host();
  EXPECT_TRUE(moved.lies_on_host());
  EXPECT_EQ(Context::current()->device().bytes_in_use(), before);
  EXPECT_EQ(moved.values(), (std::vector<double>{5, 6}));
}

TEST(HostOffloadTraining, ALimitIsObeyedAndEnforced) {
  const Recipe recipe = offload_recipe({"model.layers=4", "offload.optimizer=auto"});
  const auto fitted = [&](int64_t limit) {
    const ContextScope scope(Context::open(kEmulator));
    Device& device = Context::current()->device();
    device.limit_memory(limit);
    EXPECT_EQ(device.memory_limit(), limit);
    const auto model = LanguageModel::create(recipe.model, 3);
    TrainingStep step(*model, recipe);
    step.fit_memory(device.memory_limit());
    const MemoryChoice choice = step.memory_choice();
    EXPECT_EQ(step.planned_need(choice).device <= limit, step.cost().reserved_bytes <= limit);
    return std::pair(choice, step.cost());
  };
  const auto [all, cost] = fitted(int64_t{1} << 40);
  EXPECT_EQ(all, MemoryChoice{});
  // A quarter of the state less, of which a few batches stay.
  const int64_t needed = cost.total_bytes() - cost.optimizer_bytes / 4;
  const auto [some, less] = fitted(static_cast<int64_t>(static_cast<double>(needed) / kMostOfMemory));
  EXPECT_TRUE(some.offloads_optimizer);
  EXPECT_LE(less.total_bytes(), needed);

  for (const char* name : {"cpu", kEmulator}) {
    const ContextScope scope(Context::open(name));
    Device& device = Context::current()->device();
    device.limit_memory(1 << 20);
    const DeviceBuffer first = device.allocate(1 << 19);
    EXPECT_NO_THROW(device.allocate(1 << 19));
    try {
      device.allocate((1 << 19) + 1);
      ADD_FAILURE() << "allocated";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kResource);
      EXPECT_THAT(error.message(), HasSubstr("cannot allocate 524289 bytes"));
      EXPECT_THAT(error.message(), HasSubstr("device_memory_limit lets the run take 0.00 GiB"));
      EXPECT_THAT(error.hint(), HasSubstr("offload.optimizer=true"));
    }
    device.limit_memory(0);
    EXPECT_NO_THROW(device.allocate(1 << 20));
  }
}

// Of a step that takes 1,000 bytes of the device with its state and 700 without, 400 of activations, of which chains
// are 100 and layers 300.
class MemoryChooser : public testing::Test {
 protected:
  MemoryChoice choose(int64_t limit, const std::vector<std::string>& overrides, double forward_bytes = 1000) {
    asked_.clear();
    const Recipe recipe = offload_recipe(with({"train.recompute=auto"}, overrides));
    return choose_memory(recipe, gpu_target("sm_90a"), {forward_bytes, 300}, limit, [&](const MemoryChoice& choice) {
      asked_.push_back(choice);
      MemoryNeed need{.device = 600 + (choice.offloads_optimizer ? 0 : 300), .host_activations = 0};
      int64_t activations = choice.recompute.policy == RecomputePolicy::kNone        ? 400
                            : choice.recompute.policy == RecomputePolicy::kSelective ? 300
                                                                                     : 100;
      if (choice.recompute.blocks == 1) activations = 200;
      if (choice.offloads_activations) need.host_activations = activations;
      need.device += choice.offloads_activations ? activations / 5 : activations;
      return need;
    });
  }
  std::vector<MemoryChoice> asked_;
};

TEST_F(MemoryChooser, TakesWhatAddsLeastToAStep) {
  const std::vector<std::string> both = {"offload.optimizer=auto", "offload.activations=auto"};
  const Recomputation chains{RecomputePolicy::kSelective}, layers{RecomputePolicy::kBlock};
  EXPECT_EQ(choose(1300, both), MemoryChoice{});
  EXPECT_EQ(asked_.size(), 1u);
  // Chains cost 50, copies beside the forward pass a fiftieth of what they move.
  EXPECT_EQ(choose(1200, both), (MemoryChoice{{}, false, true}));
  EXPECT_EQ(choose(1200, {"offload.optimizer=auto"}), (MemoryChoice{chains, false, false}));
  // A slow device's link is no match for it: the state costs 300, layers 1,000.
  EXPECT_EQ(choose(1000, {"offload.optimizer=auto"}), (MemoryChoice{{}, true, false}));
  // Where the forward pass takes no time, nothing hides what moves: 400 out and 400 in.
  EXPECT_EQ(choose(1200, both, 10), (MemoryChoice{chains, false, false}));
  EXPECT_EQ(choose(1000, both, 10), (MemoryChoice{layers, false, false}));
  // What is stated is not weighed.
  EXPECT_EQ(choose(1300, {"offload.optimizer=true"}), (MemoryChoice{{}, true, false}));
  EXPECT_EQ(choose(1300, {"train.recompute=block", "offload.activations=auto"}), (MemoryChoice{layers, false, false}));
  // Nothing fits: what takes least.
  EXPECT_EQ(choose(100, both), (MemoryChoice{layers, true, true}));
  EXPECT_LE(asked_.size(), 24u);
}

TEST(HostOffloadRecipe, KeysAreReadPrintedAndRefused) {
  const Recipe recipe = offload_recipe({"device_memory_limit=16GiB", "offload.optimizer=auto"});
  EXPECT_EQ(recipe.device_memory_limit, int64_t{16} << 30);
  EXPECT_EQ(recipe.offload.optimizer, Offload::kAuto);
  EXPECT_EQ(recipe.offload.activations, Offload::kFalse);
  EXPECT_EQ(parse_recipe(recipe_text(recipe), "again", {}).device_memory_limit, recipe.device_memory_limit);
  EXPECT_EQ(offload_recipe({"device_memory_limit=0"}).device_memory_limit, 0);
  const auto expect_refused = [](const std::vector<std::string>& overrides, const char* key, const char* what) {
    try {
      offload_recipe(overrides);
      ADD_FAILURE() << key;
    } catch (const Error& error) {
      EXPECT_THAT(error.where(), HasSubstr(key));
      EXPECT_THAT(error.message(), HasSubstr(what));
    }
  };
  expect_refused({"device_memory_limit=much"}, "device_memory_limit", "'much' is not a size");
  expect_refused({"offload.optimizer=maybe"}, "offload.optimizer", "'maybe'");
  expect_refused({"offload.optimizer=true", "mesh.pp=2", "train.micro_batch_size=2"}, "offload.optimizer", "stages");
  expect_refused({"offload.activations=auto", "mesh.pp=2", "train.micro_batch_size=2"}, "offload.activations",
                 "stages");
  expect_refused({"offload.optimizer=true", "optimizer.name=schedule_free_adamw"}, "offload.optimizer",
                 "schedule_free_adamw");
  expect_refused({"offload.optimizer=auto", "optimizer.average_decay=0.9"}, "offload.optimizer",
                 "optimizer.average_decay");
}

}  // namespace
}  // namespace causeway::train
