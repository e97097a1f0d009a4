#include "causeway/plan/pipeline_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "causeway/device/offline/offline_device.h"
#include "causeway/device/open_device.h"
#include "causeway/passes/eliminate_common_subexpressions.h"
#include "causeway/plan/program_work.h"
#include "causeway/program/context.h"
#include "causeway/train/step/training_step.h"

namespace causeway::plan {
namespace {

struct TracedStage {
  MemoryPlan memory;
  StepTime time;  // without waiting
  FlopCount flops;
  std::vector<CollectiveTotal> collectives;
};

std::vector<CollectiveTotal> totals_of(const std::vector<Work>& list, const Machine& machine) {
  std::map<std::pair<std::string, WorkKind>, CollectiveTotal> totals;
  for (const Work& work : list) {
    if (!is_collective(work.kind)) continue;
    CollectiveTotal& total = totals[{work.group, work.kind}];
    total.kind = work.kind;
    total.group = work.group;
    total.ranks = work.ranks;
    ++total.number;
    total.bytes += work.bytes;
    total.seconds += seconds(work, machine);
  }
  std::vector<CollectiveTotal> result;
  for (const auto& [key, total] : totals) result.push_back(total);
  return result;
}

TracedStage trace_stage(const Recipe& recipe, const Machine& machine, int64_t stage, const ModelPart& part) {
  const Mesh mesh = make_mesh(recipe.mesh);
  const auto device = std::make_shared<OfflineDevice>(parse_target(machine.target));
  ContextOptions options{.mesh = mesh};
  options.rank = static_cast<int>(stage * mesh.stage_axis()->stride);
  const auto context = std::make_shared<Context>(device, options);
  const ContextScope scope(context);
  const std::unique_ptr<LanguageModel> model =
      LanguageModel::create(recipe.model, part, std::nullopt, train::weight_storage(recipe));
  const TrainingStep step(*model, recipe);
  TracedStage traced;
  for (const Parameter& parameter : model->parameters()) traced.memory.weights += parameter.tensor.local_bytes();
  for (const auto& state : step.optimizer_state()) traced.memory.optimizer += state.tensor.local_bytes();
  const Graph graph = step.trace().front();
  traced.flops = count_flops(eliminate_common_subexpressions(graph));
  const ProgramWork program =
      work_of_program(context->run_passes(graph, train::pipeline_options(recipe)), device->target(), mesh,
                      machine.devices_per_node, recipe.train.mesh_independent);
  traced.flops.share_out(flops_by_operand(program.work));
  traced.memory.activations = program.memory.arena_bytes;
  traced.memory.batch = program.memory.input_bytes + program.memory.task_counter_bytes + program.memory.output_bytes -
                        traced.memory.weights - traced.memory.optimizer;
  traced.time = run_queues(program.work, machine);
  traced.collectives = totals_of(program.work, machine);
  return traced;
}

// --- Estimates: sums of traced stages, each times a factor that may be negative.

void add(FlopCount& sum, const FlopCount& more, double times) {
  const FlopCount scaled = more.scaled(times);
  for (double FlopCount::* member :
       {&FlopCount::forward, &FlopCount::backward, &FlopCount::attended_pairs, &FlopCount::attention_pairs})
    sum.*member += scaled.*member;
  for (const auto& [operand, flops] : scaled.by_operand) sum.by_operand[operand] += flops;
  sum.at_most = sum.at_most || more.at_most;
  sum.sampled = sum.sampled || more.sampled;
}

void add(TracedStage& sum, const TracedStage& more, double times) {
  for (int64_t MemoryPlan::* bytes :
       {&MemoryPlan::weights, &MemoryPlan::optimizer, &MemoryPlan::activations, &MemoryPlan::batch})
    sum.memory.*bytes += std::llround(static_cast<double>(more.memory.*bytes) * times);
  for (double StepTime::* seconds : {&StepTime::seconds, &StepTime::compute_seconds, &StepTime::collective_seconds})
    sum.time.*seconds += more.time.*seconds * times;
  add(sum.flops, more.flops, times);
  for (const CollectiveTotal& one : more.collectives) {
    auto total = std::find_if(sum.collectives.begin(), sum.collectives.end(), [&](const CollectiveTotal& other) {
      return other.group == one.group && other.kind == one.kind;
    });
    if (total == sum.collectives.end()) {
      total = sum.collectives.insert(total, one);
      total->number = 0;
      total->bytes = total->seconds = 0;
    }
    total->number += std::llround(static_cast<double>(one.number) * times);
    total->bytes += one.bytes * times;
    total->seconds += one.seconds * times;
  }
}

// A size that is traced as it is, or continued from two smaller ones: sizes and their factors.
std::vector<std::pair<int64_t, double>> continued(double size, int64_t small, int64_t more) {
  const auto whole = static_cast<int64_t>(size);
  if (size <= static_cast<double>(more) && static_cast<double>(whole) == size) return {{whole, 1}};
  const double along = (size - static_cast<double>(small)) / static_cast<double>(more - small);
  return {{small, 1 - along}, {more, along}};
}

int64_t layers_of(const Recipe& recipe, int64_t stage) {
  const ModelPart part = train::part_of_stage(recipe, stage);
  int64_t layers = 0;
  for (const int64_t piece : part.held()) layers += part.first_layer(piece + 1) - part.first_layer(piece);
  return layers;
}

TracedStage estimate_stage(const Recipe& recipe, const Machine& machine, int64_t stage) {
  const int64_t stages = recipe.mesh.pp, chunks = recipe.train.pipeline_chunks;
  // From then on what a stage holds for micro-batches under way grows no more.
  const int64_t few = chunks > 1 ? 2 * stages : stages + 2, more = chunks > 1 ? 3 * stages : stages + 3;
  TracedStage sum;
  const double of_piece = static_cast<double>(layers_of(recipe, stage)) / static_cast<double>(chunks);
  for (const auto& [layers_of_piece, by_layers] : continued(of_piece, 2, 3))
    for (const auto& [batches, by_batches] : continued(static_cast<double>(recipe.micro_batches()), few, more)) {
      Recipe small = recipe;
      small.model.layers = layers_of_piece * stages * chunks;
      small.train.batch_size = batches * recipe.train.micro_batch_size;
      const ModelPart equal(small.model.layers, stages, chunks, stage);
      add(sum, trace_stage(small, machine, stage, equal), by_layers * by_batches);
    }
  return sum;
}

}  // namespace

StepPlan plan_pipelined_step(const Recipe& recipe, const Machine& machine, bool exact_memory) {
  StepPlan plan;
  plan.recipe = recipe;
  plan.bubble = train::pipeline_bubble(recipe);
  const int64_t stages = recipe.mesh.pp;
  // Stages with as many layers are alike, but for the first, which has the embedding, and the last, which has the
  // output layer. Of those that are alike the first one keeps the most micro-batches.
  const auto end_of = [&](int64_t stage) { return stage == stages - 1 ? 2 : stage == 0 && exact_memory ? 1 : 0; };
  std::map<std::pair<int, int64_t>, std::vector<int64_t>> alike;
  for (int64_t stage = 0; stage < stages; ++stage) alike[{end_of(stage), layers_of(recipe, stage)}].push_back(stage);
  for (const auto& [kind, those] : alike) {
    const int64_t stage = those.front();
    const TracedStage traced = exact_memory ? trace_stage(recipe, machine, stage, train::part_of_stage(recipe, stage))
                                            : estimate_stage(recipe, machine, stage);
    add(plan.flops, traced.flops, static_cast<double>(those.size()));
    if (traced.memory.total() > plan.memory.total()) plan.memory = traced.memory;
    if (traced.time.seconds <= plan.time.seconds) continue;
    plan.time = traced.time;
    plan.collectives = traced.collectives;
  }
  plan.time.seconds *= straggle_factor(machine, recipe.mesh.ranks()) / (1 - plan.bubble);
  plan.memory.exact = exact_memory;
  // Weights and two moments, in f32.
  plan.memory.checkpoint = parameter_count(recipe.model) * 3 * static_cast<int64_t>(sizeof(float));
  plan.tokens = static_cast<double>(recipe.train.batch_size * recipe.data.sequence_length);
  double at_peak = 0;
  for (const auto& [operand, flops] : plan.flops.by_operand) at_peak += flops / machine.peak_flops.at(operand);
  plan.flops_utilization = at_peak / static_cast<double>(recipe.mesh.ranks()) / plan.time.seconds;
  return plan;
}

}  // namespace causeway::plan
