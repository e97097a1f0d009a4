#include "causeway/plan/step_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "causeway/base/error.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/model/experts.h"
#include "causeway/optimizer/optimizer.h"
#include "causeway/plan/machines.h"
#include "causeway/plan/plan_search.h"
#include "causeway/plan/transformer_work.h"
#include "causeway/program/context.h"

namespace causeway::plan {
namespace {

std::string recipe_yaml(int layers) {
  return "name: small\nmodel: {family: llama, vocabulary_size: 512, layers: " + std::to_string(layers) +
         ", width: 256, heads: 4, kv_heads: 4, ffn_width: 512, max_sequence_length: 512}\n"
         "data: {sequence_length: 512}\ntrain: {batch_size: 8, micro_batch_size: 8}\n";
}

Recipe recipe(int layers, const std::vector<std::string>& overrides = {}) {
  return parse_recipe(recipe_yaml(layers), "small.yaml", overrides);
}

const Machine& h200() { return find_machine("h200"); }

// Of a Llama of those sizes: embedding and output layer, per layer four square matrices, three of the feed-forward
// layer and two norms, and the last norm.
constexpr int64_t parameters(int64_t layers) {
  return 2 * 512 * 256 + layers * (4 * 256 * 256 + 3 * 256 * 512 + 2 * 256) + 256;
}

TEST(StepPlan, WeightsOptimizerAndCheckpointAreCountedByHand) {
  const StepPlan plan = plan_step(recipe(4), h200(), true);
  EXPECT_EQ(plan.memory.weights, 4 * parameters(4));
  EXPECT_EQ(plan.memory.optimizer, 8 * parameters(4));
  EXPECT_EQ(plan.memory.gradients, 0);
  EXPECT_EQ(plan.memory.checkpoint, 12 * parameters(4));
  EXPECT_TRUE(plan.memory.exact);
  EXPECT_GT(plan.memory.activations, 0);
  EXPECT_GT(plan.memory.batch, 0);
  EXPECT_EQ(plan.memory.total(),
            plan.memory.weights + plan.memory.optimizer + plan.memory.activations + plan.memory.batch);
  EXPECT_TRUE(plan.collectives.empty());
  EXPECT_EQ(plan.tokens, 8 * 512);
}

// What the optimizer keeps of all parameters.
int64_t state_of_whole_model(const Recipe& recipe) {
  const auto device = std::make_shared<OfflineDevice>(Target());
  const ContextScope scope(std::make_shared<Context>(device));
  int64_t bytes = 0;
  const auto model = LanguageModel::create(recipe.model, std::nullopt);
  for (const Parameter& parameter : model->parameters())
    for (const OptimizerState& kept : find_optimizer(recipe.optimizer.name).state_of(parameter, recipe.optimizer))
      bytes += element_count(kept.shape(parameter)).constant() * static_cast<int64_t>(size_bytes(kept.dtype));
  return bytes;
}

// Whatever the optimizer keeps, with stages and without.
TEST(StepPlan, EveryOptimizersStateIsCounted) {
  for (const std::string& kind : optimizer_names()) {
    const Recipe one = recipe(4, {"optimizer.name=" + kind});
    const int64_t state = state_of_whole_model(one);
    const StepPlan plan = plan_step(one, h200(), false);
    EXPECT_EQ(plan.memory.optimizer, state) << kind;
    EXPECT_EQ(plan.memory.checkpoint, 4 * parameters(4) + state) << kind;
    const StepPlan staged =
        plan_step(recipe(4, {"optimizer.name=" + kind, "mesh.pp=2", "train.micro_batch_size=2"}), h200(), false);
    EXPECT_EQ(staged.memory.checkpoint, 4 * parameters(4) + state) << kind;
    if (find_optimizer(kind).least_state_bytes(1, one.optimizer) > 0)
      EXPECT_NEAR(static_cast<double>(staged.memory.optimizer) * 4 * parameters(4),
                  static_cast<double>(staged.memory.weights) * static_cast<double>(state),
                  1e-4 * static_cast<double>(staged.memory.weights) * static_cast<double>(state))
          << kind;
  }
}

// Of Muon over ranks, which exchange layers: numbers of all layers, not of a few continued.
TEST(StepPlan, LayersThatDifferAreTracedAll) {
  const StepPlan muon = plan_step(recipe(6, {"optimizer.name=muon", "mesh.fsdp=4"}), h200(), false);
  EXPECT_TRUE(muon.memory.exact);
  for (const CollectiveTotal& total : muon.collectives) {
    EXPECT_GT(total.number, 0) << total.group;
    EXPECT_GT(total.bytes, 0) << total.group;
  }
  // A layer that a cut-down model does not have, frozen: it has no state.
  const StepPlan frozen =
      plan_step(recipe(6, {"optimizer.groups=[{pattern: 'model.layers.5.*', frozen: true}]"}), h200(), false);
  EXPECT_EQ(frozen.memory.optimizer, 8 * parameters(5));
}

Recipe experts_recipe(const std::vector<std::string>& overrides) {
  std::vector<std::string> all = {"model.family=qwen3_moe", "model.experts=4", "model.experts_per_token=2",
                                  "model.expert_ffn_width=128"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return recipe(6, all);
}

// A few dense layers tell nothing of those with experts behind them, nor every second layer of the next.
TEST(StepPlan, LayersWithAndWithoutExpertsAreTracedAll) {
  for (const char* layers : {"model.first_dense_layers=4", "model.sparse_step=2"}) {
    const Recipe one = experts_recipe({layers});
    EXPECT_TRUE(layers_differ(one)) << layers;
    const StepPlan plan = plan_step(one, h200(), false);
    EXPECT_TRUE(plan.memory.exact) << layers;
    EXPECT_EQ(plan.memory.weights, 4 * parameter_count(one.model)) << layers;
    EXPECT_EQ(held_bytes(one, h200()).weights, 4 * parameter_count(one.model)) << layers;
    EXPECT_EQ(held_bytes(one, h200()).optimizer, 8 * parameter_count(one.model)) << layers;
  }
  EXPECT_FALSE(layers_differ(experts_recipe({})));
}

// Memory is of all experts, FLOPs of those that a token goes through: 6 for each active weight that multiplies, and
// attention.
TEST(StepPlan, FlopsAreOfActiveParametersAndMemoryOfAll) {
  const Recipe two = experts_recipe({}), all = experts_recipe({"model.experts_per_token=4"});
  const StepPlan plan = plan_step(two, h200(), false), full = plan_step(all, h200(), false);
  EXPECT_EQ(plan.memory.weights, 4 * parameter_count(two.model));
  EXPECT_EQ(plan.memory.weights, full.memory.weights);
  EXPECT_EQ(plan.memory.optimizer, 8 * parameter_count(two.model));
  EXPECT_LT(plan.memory.activations, full.memory.activations);
  const auto idle = static_cast<double>(active_parameter_count(all.model) - active_parameter_count(two.model));
  EXPECT_EQ(idle, 6.0 * 2 * 3 * 256 * 128);
  EXPECT_NEAR(full.flops.total() - plan.flops.total(), 6 * idle * plan.tokens, 1e-9 * full.flops.total());
  EXPECT_LT(plan.time.seconds, full.time.seconds);
}

// As causeway train would refuse them.
TEST(StepPlan, SearchLeavesOutMeshesThatExpertsDoNotGoTogetherWith) {
  const auto found = [](const std::vector<std::string>& overrides) {
    std::vector<std::string> all = {"train.batch_size=16"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    std::set<int64_t> stages, widths;
    for (const StepPlan& plan : search_plans(experts_recipe(all), h200(), 16)) {
      stages.insert(plan.recipe.mesh.pp);
      widths.insert(plan.recipe.mesh.tp);
    }
    return std::pair(stages, widths);
  };
  EXPECT_EQ(found({"moe.balance_loss=0.01"}).first, (std::set<int64_t>{1}));
  // Experts of a width that four ranks do not divide.
  EXPECT_FALSE(found({"moe.balance_loss=0.01", "model.expert_ffn_width=126"}).second.contains(4));
}

// Weights beside an average are read where gradients are taken, and are state, not batch.
TEST(StepPlan, StateAtTheGradientPointIsCountedOnce) {
  const std::vector<std::string> batches = {"train.micro_batch_size=4"};
  const StepPlan plain = plan_step(recipe(2, batches), h200(), false);
  const StepPlan free =
      plan_step(recipe(2, {"train.micro_batch_size=4", "optimizer.name=schedule_free_adamw"}), h200(), false);
  EXPECT_LE(std::abs(free.memory.batch - plain.memory.batch), 4096);
}

TEST(StepPlan, IterationsOfMuonAreOncePerStep) {
  const auto flops = [](const std::string& rows) {
    return plan_step(recipe(5, {"optimizer.name=muon", "train.micro_batch_size=" + rows}), h200(), false)
        .flops.optimizer;
  };
  EXPECT_GT(flops("8"), 0);
  EXPECT_DOUBLE_EQ(flops("4"), flops("8"));
}

TEST(StepPlan, GradientsAreSummedUpOverMicroBatches) {
  const StepPlan one = plan_step(recipe(2), h200(), true);
  const StepPlan four = plan_step(recipe(2, {"train.micro_batch_size=2"}), h200(), true);
  EXPECT_EQ(four.memory.gradients, 4 * parameters(2));
  EXPECT_LT(four.memory.activations, one.memory.activations);
  EXPECT_DOUBLE_EQ(four.flops.total(), one.flops.total());
  EXPECT_EQ(four.tokens, one.tokens);
}

// 6 FLOPs for each weight of a GEMM and token, and 14 for each attended pair and element of a head.
TEST(StepPlan, FlopsAreThoseOfTheModel) {
  const StepPlan plan = plan_step(recipe(6), h200(), false);
  const double weights = 512 * 256 + 6.0 * (4 * 256 * 256 + 3 * 256 * 512);
  const double pairs = 6.0 * 8 * 4 * 512 * 513 / 2;
  EXPECT_DOUBLE_EQ(plan.flops.total(), 6 * weights * 8 * 512 + 14 * pairs * 64);
  EXPECT_NEAR(plan.flops_utilization, plan.flops.total() / 989.5e12 / plan.time.seconds, 1e-9);
  EXPECT_NEAR(plan.tokens_per_second(), 8 * 512 / plan.time.seconds, 1e-6);
}

// A model of eight layers costs what tracing all eight says.
TEST(StepPlan, LayersBeyondAFewCostWhatTheLastOneDoes) {
  for (const std::vector<std::string>& mesh :
       std::vector<std::vector<std::string>>{{}, {"mesh.fsdp=2"}, {"mesh.tp=2"}, {"train.recompute=block"}}) {
    const Recipe deep = recipe(8, mesh);
    const StepPlan estimated = plan_step(deep, h200(), false), exact = plan_step(deep, h200(), true);
    EXPECT_FALSE(estimated.memory.exact);
    EXPECT_EQ(estimated.memory.weights, exact.memory.weights);
    const double activations = static_cast<double>(exact.memory.activations);
    EXPECT_NEAR(static_cast<double>(estimated.memory.activations), activations, 0.05 * activations)
        << testing::PrintToString(mesh);
  }
}

// With train.recompute=auto, of a machine with so much memory; the plan's recipe says what was chosen.
TEST(StepPlan, AutoComputesAsMuchAgainAsTheMachineAsksFor) {
  const Recipe deep = recipe(8);
  const auto planned = [&](const std::vector<std::string>& overrides) {
    return plan_step(recipe(8, overrides), h200(), true).memory.total();
  };
  const int64_t none = planned({"train.recompute=none"}), selective = planned({"train.recompute=selective"}),
                block = planned({"train.recompute=block"});
  ASSERT_LT(selective, none);
  ASSERT_LT(block, selective);
  Machine machine = h200();
  const auto chosen = [&](int64_t bytes) {
    machine.memory_bytes = static_cast<double>(bytes) / 0.97 + 1;
    const StepPlan plan = plan_step(deep, machine, true);
    EXPECT_LE(plan.memory.total(), bytes);
    return std::pair(plan.recipe.train.recompute, plan.recipe.train.recompute_layers);
  };
  EXPECT_EQ(chosen(none), std::pair(std::optional(RecomputePolicy::kNone), int64_t{0}));
  EXPECT_EQ(chosen(selective), std::pair(std::optional(RecomputePolicy::kSelective), int64_t{0}));
  const auto [policy, layers] = chosen((selective + block) / 2);
  EXPECT_EQ(policy, RecomputePolicy::kBlock);
  EXPECT_GT(layers, 2);
  EXPECT_LT(layers, 7);
  EXPECT_EQ(chosen(block), std::pair(std::optional(RecomputePolicy::kBlock), int64_t{0}));
}

// What lies on the host is not on the device, and what goes there and comes back takes the link's time.
TEST(StepPlan, StateAndActivationsOnTheHostAreCountedThere) {
  const StepPlan here = plan_step(recipe(8, {"train.recompute=block"}), h200(), true);
  const StepPlan state = plan_step(recipe(8, {"train.recompute=block", "offload.optimizer=true"}), h200(), true);
  EXPECT_EQ(here.memory.host_optimizer, 0);
  EXPECT_EQ(here.host_bytes, 0);
  EXPECT_EQ(state.memory.optimizer, 0);
  EXPECT_EQ(state.memory.host_optimizer, here.memory.optimizer);
  EXPECT_EQ(state.memory.weights, here.memory.weights);
  EXPECT_LT(state.memory.total(), here.memory.total());
  EXPECT_DOUBLE_EQ(state.host_bytes, 2.0 * static_cast<double>(here.memory.optimizer));
  EXPECT_GE(state.time.host_seconds, state.host_bytes / h200().host_bytes_per_second);
  EXPECT_GT(state.time.seconds, here.time.seconds);
  const StepPlan both = plan_step(
      recipe(8, {"train.recompute=block", "offload.optimizer=true", "offload.activations=true"}), h200(), true);
  EXPECT_GT(both.memory.host_activations, 0);
  EXPECT_LT(both.memory.total(), state.memory.total());
  EXPECT_GT(both.host_bytes, state.host_bytes);
  EXPECT_EQ(both.flops.total(), here.flops.total());
}

// Keys and values of 16 completions of two layers and 4 x 64 elements, in bf16, in 512 slots; and the model once more,
// in the types that it is multiplied in. Adapters are their own reference but for themselves, and a mesh samples
// without a cache.
TEST(StepPlan, SamplingIsCountedBesideTheStep) {
  const std::vector<std::string> plain = {"train.batch_size=16", "train.recompute=none"};
  std::vector<std::string> samples = plain;
  samples.insert(samples.end(),
                 {"grpo.reward=regex", "grpo.reward_pattern=a", "grpo.num_generations=8", "schedule.kind=constant"});
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = samples;
    all.insert(all.end(), more.begin(), more.end());
    return plan_step(recipe(2, all), h200(), true).memory;
  };
  const int64_t cache = int64_t{16} * 512 * 2 * 2 * 4 * 64 * 2;
  EXPECT_EQ(plan_step(recipe(2, plain), h200(), true).memory.sampling_cache, 0);
  const MemoryPlan all = with({});
  EXPECT_EQ(all.sampling_cache, cache);
  EXPECT_EQ(all.reference, 0);
  EXPECT_EQ(all.total(), all.weights + all.optimizer + all.gradients + all.activations + all.batch + cache);
  EXPECT_EQ(with({"grpo.sampling_batch_size=4"}).sampling_cache, cache / 4);
  EXPECT_EQ(with({"mesh.fsdp=2"}).sampling_cache, 0);
  const MemoryPlan compared = with({"grpo.beta=0.1"});
  EXPECT_GE(compared.reference, 2 * parameters(2));
  EXPECT_LT(compared.reference, 4 * parameters(2));
  EXPECT_EQ(with({"grpo.beta=0.1", "train.precision=f32"}).reference, 4 * parameters(2));
  EXPECT_EQ(with({"grpo.beta=0.1", "lora.rank=4"}).reference, 0);
}

// A rank's share of the state, and two programs where gradients are summed up.
TEST(StepPlan, EachRankKeepsItsShareOnTheHost) {
  const std::vector<std::string> halved = {"mesh.fsdp=2", "train.micro_batch_size=4"};
  std::vector<std::string> moved = halved;
  moved.emplace_back("offload.optimizer=true");
  const StepPlan here = plan_step(recipe(4, halved), h200(), true), half = plan_step(recipe(4, moved), h200(), true);
  EXPECT_EQ(half.memory.host_optimizer, here.memory.optimizer);
  EXPECT_EQ(half.memory.optimizer, 0);
  EXPECT_DOUBLE_EQ(half.host_bytes, 2.0 * static_cast<double>(here.memory.optimizer));
}

TEST(StepPlan, ALimitOfTheRunsIsTheDevices) {
  const StepPlan free = plan_step(recipe(8), h200(), true);
  EXPECT_TRUE(free.fits(h200()));
  const int64_t limit = free.memory.total() - 1;
  const auto limited = [&](const std::vector<std::string>& more) {
    std::vector<std::string> overrides = {fmt::format("device_memory_limit={}", limit)};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return plan_step(recipe(8, overrides), h200(), true);
  };
  EXPECT_FALSE(limited({"train.recompute=none"}).fits(h200()));
  const StepPlan again = limited({});
  EXPECT_TRUE(again.fits(h200()));
  EXPECT_NE(again.recipe.train.recompute, std::optional(RecomputePolicy::kNone));
  const StepPlan moved = limited({"train.recompute=none", "offload.optimizer=auto"});
  EXPECT_TRUE(moved.fits(h200()));
  EXPECT_EQ(moved.recipe.offload.optimizer, train::Offload::kTrue);
  EXPECT_EQ(
      plan_step(recipe(8, {"offload.optimizer=auto", "offload.activations=auto"}), h200(), true).memory.host_optimizer,
      0);
}

std::map<std::string, double> bytes_by_collective(const StepPlan& plan) {
  std::map<std::string, double> bytes;
  for (const CollectiveTotal& one : plan.collectives) {
    EXPECT_EQ(one.ranks, 2);
    bytes[std::string(work_kind_name(one.kind)) + " over " + one.group] += one.bytes;
  }
  return bytes;
}

// What the description by sizes says of the same model. Its step is one micro-batch and what is done once.
std::vector<Work> described(const TransformerRun& run, int64_t layers) {
  TransformerShape shape;
  shape.layers = layers;
  shape.width = 256;
  shape.heads = shape.kv_heads = 4;
  shape.head_dim = 64;
  shape.ffn_width = 512;
  shape.gated = true;
  shape.vocabulary = 512;
  shape.sequence = 512;
  return micro_batch_work(shape, run, layers, true, 8);
}

double collective_bytes(const std::vector<Work>& work, WorkKind kind) {
  double bytes = 0;
  for (const Work& one : work)
    if (one.kind == kind) bytes += one.bytes;
  return bytes;
}

// The causal half of the description has no diagonal.
constexpr double kDiagonal = 2e-3;
constexpr double kNorms = (2 * 4 + 1) * 256, kEmbedding = 512 * 256;

// What the description leaves out is the embedding, norms, and that the output layer too is gathered again for the
// backward pass.
TEST(StepPlan, AgreesWithTheDescriptionOfCutWeights) {
  const StepPlan plan = plan_step(recipe(4, {"mesh.fsdp=2"}), h200(), false);
  TransformerRun run;
  run.fsdp = 2;
  run.micro_batch = 4;
  const std::vector<Work> work = described(run, 4);
  EXPECT_NEAR(2 * total(work).flops, plan.flops.total(), kDiagonal * plan.flops.total());
  std::map<std::string, double> bytes = bytes_by_collective(plan);
  EXPECT_EQ(bytes["all_gather over fsdp"], collective_bytes(work, WorkKind::kAllGather) + 4 * kEmbedding);
  // Gradients of matrices are exchanged in bf16, where the description adds them up in f32.
  EXPECT_EQ(2 * bytes["all_to_all over fsdp"], collective_bytes(work, WorkKind::kReduceScatter));
  EXPECT_EQ(bytes["reduce_scatter over fsdp"], 4 * kEmbedding);
  EXPECT_EQ(bytes["all_reduce over fsdp"], 4 * (kNorms + 2));  // gradients, the loss and their norm
}

// The description multiplies by queries, keys and values together, and by both of the feed-forward layer's matrices
// together. The program's GEMMs are apart, and what they send back is added up before ranks exchange it.
TEST(StepPlan, AgreesWithTheDescriptionOfTensorParallelism) {
  const StepPlan plan = plan_step(recipe(4, {"mesh.tp=2"}), h200(), false);
  TransformerRun run;
  run.tp = 2;
  run.sequence_parallel = true;
  run.micro_batch = 8;
  const std::vector<Work> work = described(run, 4);
  EXPECT_NEAR(2 * total(work).flops, plan.flops.total(), kDiagonal * plan.flops.total());
  std::map<std::string, double> bytes = bytes_by_collective(plan);
  const double gathered = collective_bytes(work, WorkKind::kAllGather);
  EXPECT_NEAR(bytes["all_gather over tp"], gathered, 2e-3 * gathered);
  const double added_up = collective_bytes(work, WorkKind::kReduceScatter);
  // The embedding's sum, and in the first layer the two that the embedding's gradient takes, are in f32.
  EXPECT_GE(bytes["reduce_scatter over tp"], added_up);
  EXPECT_LE(bytes["reduce_scatter over tp"], added_up + 3 * 8 * 512 * 256 * 4);
}

// Ranks that share a sequence share its attended pairs, balanced or not; where bits do not depend on the mesh, sums
// over queries (10 of 14) are each rank's own.
TEST(StepPlan, RanksOfASequenceEachAttendToTheirShare) {
  const auto attention = [&](const std::vector<std::string>& overrides) {
    double flops = 0;
    for (const Work& work : trace_step_work(recipe(1, overrides), h200()).micro_batch.few)
      if (work.kind == WorkKind::kAttention) flops += work.flops;
    return flops;
  };
  const double alone = attention({});
  EXPECT_EQ(alone, (4 + 10) * 64.0 * 8 * 4 * 512 * 513 / 2);
  EXPECT_EQ(attention({"mesh.cp=2"}), alone / 2);
  EXPECT_EQ(attention({"mesh.cp=4"}), alone / 4);
  EXPECT_EQ(attention({"mesh.cp=2", "train.mesh_independent=true"}), alone * 12 / 14);
}

TEST(StepPlan, CollectivesOfMicroBatchesAddUp) {
  const StepPlan one = plan_step(recipe(4, {"mesh.fsdp=2", "train.gradients=f32"}), h200(), false);
  const StepPlan two = plan_step(recipe(4, {"mesh.fsdp=2", "train.batch_size=16"}), h200(), false);
  const double once = bytes_by_collective(one)["reduce_scatter over fsdp"];
  const double twice = bytes_by_collective(two)["reduce_scatter over fsdp"];
  // The embedding's gradient may lie otherwise where it is added up.
  EXPECT_LE(twice, 2 * once);
  EXPECT_GE(twice, 2 * (once - 4 * kEmbedding));
}

TEST(StepPlan, SearchWeighsMeshesAgainstEachOther) {
  const std::vector<StepPlan> plans = search_plans(recipe(2), h200(), 2);
  std::set<std::string> meshes;
  for (const StepPlan& plan : plans) {
    EXPECT_EQ(plan.recipe.mesh.ranks(), 2);
    EXPECT_TRUE(plan.fits(h200()));
    EXPECT_GE(plan.time.seconds, plans.front().time.seconds);
    meshes.insert(make_mesh(plan.recipe.mesh).text());
  }
  EXPECT_EQ(meshes.size(), 3u);
  Machine small = h200();
  small.memory_bytes = 1e6;
  try {
    search_plans(recipe(2), small, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResource);
    EXPECT_NE(error.message().find("no mesh of size 2 has memory"), std::string::npos) << error.message();
  }
}

TEST(StepPlan, StagesAreContinuedFromFewLayersAndMicroBatches) {
  for (const char* schedule : {"1f1b", "zero_bubble"}) {
    SCOPED_TRACE(schedule);
    const Recipe staged = recipe(8, {"mesh.pp=2", "mesh.dp=2", "train.micro_batch_size=2", "train.batch_size=16",
                                     std::string("train.pipeline_schedule=") + schedule});
    const StepPlan exact = plan_step(staged, h200(), true), estimate = plan_step(staged, h200(), false);
    EXPECT_TRUE(exact.memory.exact);
    EXPECT_FALSE(estimate.memory.exact);
    EXPECT_EQ(estimate.memory.weights, exact.memory.weights);
    EXPECT_EQ(estimate.memory.optimizer, exact.memory.optimizer);
    EXPECT_EQ(estimate.memory.batch, exact.memory.batch);
    const auto near = [](double one, double other) { return std::abs(one / other - 1); };
    EXPECT_LT(near(static_cast<double>(estimate.memory.activations), static_cast<double>(exact.memory.activations)),
              schedule == std::string("1f1b") ? 0.01 : 0.15);
    EXPECT_LT(near(estimate.time.seconds, exact.time.seconds), 0.03);
    EXPECT_LT(near(estimate.flops.total(), exact.flops.total()), 1e-9);
    ASSERT_EQ(estimate.collectives.size(), exact.collectives.size());
    for (size_t i = 0; i < exact.collectives.size(); ++i)
      EXPECT_LT(near(estimate.collectives[i].bytes, exact.collectives[i].bytes), 0.03);
  }
}

// Stages of 5, 5, 4 and 2 layers; the output layer is as 1.9 of them.
TEST(StepPlan, FlopsOfUnequalStagesAreThoseOfTheModel) {
  const std::vector<std::string> sizes = {"model.vocabulary_size=6144", "train.micro_batch_size=2"};
  std::vector<std::string> staged = sizes;
  staged.emplace_back("mesh.pp=4");
  const StepPlan one = plan_step(recipe(16, sizes), h200(), false);
  const double tokens = one.tokens;
  for (const bool exact : {true, false}) {
    const StepPlan plan = plan_step(recipe(16, staged), h200(), exact);
    EXPECT_NEAR(plan.flops.total() / one.flops.total(), 1, 1e-9) << exact;
    ASSERT_EQ(plan.flops.by_operand.size(), 1u);
    EXPECT_NEAR(plan.flops.by_operand.at("bf16"), plan.flops.total(), 1e-9 * plan.flops.total());
    const double seconds = plan.flops.total() / (4 * h200().peak_flops.at("bf16") * plan.flops_utilization);
    EXPECT_NEAR(seconds, plan.time.seconds, 1e-9 * seconds);
    EXPECT_EQ(plan.tokens, tokens);
  }
}

// Of two devices fsdp cuts whole rows of a tied embedding, and tp the rows of a projection in their middle.
TEST(StepPlan, SearchLeavesOutMeshesThatCutBlocksOfMoments) {
  const auto plans = [](const std::vector<std::string>& more) {
    std::vector<std::string> overrides = {"optimizer.moments=8bit"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return search_plans(recipe(2, overrides), h200(), 2);
  };
  const auto has_tp = [](const StepPlan& plan) { return plan.recipe.mesh.tp > 1; };
  const std::vector<StepPlan> tied = plans({"model.tie_embeddings=true"});
  EXPECT_FALSE(tied.empty());
  EXPECT_TRUE(std::ranges::none_of(tied, has_tp));
  EXPECT_TRUE(std::ranges::any_of(plans({"model.tie_embeddings=true", "optimizer.moment_block=128"}), has_tp));
  try {
    plans({});
    ADD_FAILURE() << "no mesh keeps the blocks whole";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("of the optimizer is kept by blocks of 256"), std::string::npos) << error.message();
  }
}

TEST(StepPlan, SearchTriesStagesFromTwoNodesOn) {
  const std::vector<StepPlan> plans = search_plans(recipe(4, {"train.batch_size=16"}), h200(), 16);
  std::set<int64_t> stages;
  for (const StepPlan& plan : plans) {
    EXPECT_EQ(plan.recipe.mesh.ranks(), 16);
    EXPECT_GE(plan.recipe.micro_batches(), plan.recipe.mesh.pp);
    stages.insert(plan.recipe.mesh.pp);
  }
  EXPECT_EQ(stages, (std::set<int64_t>{1, 2, 4}));
}

TEST(StepPlan, ParameterCountsOfDescriptionsAreTheModels) {
  TransformerShape shape{.layers = 4, .width = 256, .heads = 4, .kv_heads = 4, .head_dim = 64, .ffn_width = 512};
  shape.gated = true;
  shape.vocabulary = 512;
  EXPECT_EQ(shape.parameters() + kEmbedding + kNorms, parameters(4));
}

TEST(StepPlan, DollarsFollowFromTokensAndDevices) {
  StepPlan plan;
  plan.recipe.mesh.fsdp = 8;
  plan.tokens = 1e6;
  plan.time.seconds = 2;
  // 1e9 tokens take 2,000 seconds of eight devices.
  EXPECT_NEAR(dollars_per_billion_tokens(plan, 1.80), 8.0, 1e-9);
}

}  // namespace
}  // namespace causeway::plan
