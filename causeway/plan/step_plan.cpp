#include "causeway/plan/step_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/device/open_device.h"
#include "causeway/optimizer/optimizer.h"
#include "causeway/plan/pipeline_plan.h"
#include "causeway/plan/program_work.h"
#include "causeway/program/context.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/grpo/sampling_memory.h"
#include "causeway/train/recipe/parameter_groups.h"
#include "causeway/train/step/memory_choice.h"
#include "causeway/train/step/recomputation.h"
#include "causeway/train/step/trained_stages.h"
#include "causeway/train/step/training_step.h"

namespace causeway::plan {
namespace {

constexpr int64_t kFewLayers = 3;

// A step of the recipe with that many layers.
struct TracedStep {
  std::vector<ProgramWork> programs;  // of a micro-batch, and of what follows the last where gradients are added up
  FlopCount flops;                    // of a micro-batch, the optimizer's of a step; of all ranks
  int64_t weights = 0, optimizer = 0, gradients = 0, batch = 0;  // bytes of a rank
  int64_t host_optimizer = 0;
  int64_t parameters = 0;

  int64_t activations() const {
    int64_t bytes = 0;
    for (const ProgramWork& program : programs) bytes = std::max(bytes, program.memory.arena_bytes);
    return bytes;
  }
  int64_t host_activations() const { return programs.front().memory.host_arena_bytes; }
};

TracedStep trace_step(Recipe recipe, const Machine& machine, int64_t layers) {
  CAUSEWAY_CHECK(recipe.mesh.pp == 1);
  recipe.model.layers = layers;
  const Mesh mesh = make_mesh(recipe.mesh);
  const auto device = std::make_shared<OfflineDevice>(parse_target(machine.target));
  const auto context = std::make_shared<Context>(device, ContextOptions{.mesh = mesh});
  const ContextScope scope(context);
  const std::unique_ptr<LanguageModel> model =
      LanguageModel::create(recipe.model, ModelPart(recipe.model.layers), train::new_weights(recipe));
  const TrainingStep step(*model, recipe);
  TracedStep traced;
  for (const Parameter& parameter : model->parameters()) traced.weights += parameter.tensor.local_bytes();
  traced.optimizer = step.state_bytes();
  traced.host_optimizer = step.host_state_bytes();
  traced.gradients = step.gradient_sum_bytes();
  traced.parameters = parameter_count(recipe.model);
  const std::vector<Graph> graphs = step.trace();
  traced.flops = count_flops(graphs.front());
  if (graphs.size() > 1) traced.flops.optimizer = count_flops(graphs.back()).optimizer;
  for (const Graph& graph : graphs) {
    traced.programs.push_back(work_of_program(context->run_passes(graph, pipeline_options(recipe)), device->target(),
                                              mesh, machine.devices_per_node, recipe.train.mesh_independent,
                                              step.memory_choice().offloads_activations));
  }
  const ProgramMemory& first = traced.programs.front().memory;
  traced.batch = first.input_bytes + first.task_counter_bytes + traced.programs.back().memory.output_bytes -
                 traced.weights - step.bytes_of_state_in_main();
  return traced;
}

// Figures of `few` layers and of one more, continued to all of them.
class Continuation {
 public:
  Continuation(const Recipe& recipe, const Machine& machine)
      : machine_(machine), micro_batches_(static_cast<double>(recipe.micro_batches())), devices_(recipe.mesh.ranks()) {
    // Those of which more is computed again than of others do not continue.
    const bool all = recipe.train.recompute_layers > 0 || layers_differ(recipe);
    const int64_t layers = recipe.model.layers, few = all ? layers : std::min(layers, kFewLayers);
    few_ = trace_step(recipe, machine, few);
    if (layers > few) more_ = trace_step(recipe, machine, few + 1);
    further_layers_ = layers - few;
  }

  template <class Figure>
  double real(Figure figure) const {
    const double few = static_cast<double>(figure(few_));
    return more_ ? few + static_cast<double>(further_layers_) * (static_cast<double>(figure(*more_)) - few) : few;
  }
  template <class Figure>
  int64_t whole(Figure figure) const {
    return more_ ? figure(few_) + further_layers_ * (figure(*more_) - figure(few_)) : figure(few_);
  }
  bool complete() const { return !more_; }

  StepWork work() const {
    StepWork step;
    step.micro_batch = layered(0);
    if (few_.programs.size() > 1) step.once = layered(1);
    step.micro_batches = micro_batches_;
    step.devices = devices_;
    return step;
  }

  FlopCount flops() const {
    FlopCount count = few_.flops;
    for (double FlopCount::* member :
         {&FlopCount::forward, &FlopCount::backward, &FlopCount::attended_pairs, &FlopCount::attention_pairs})
      count.*member = real([&](const TracedStep& step) { return step.flops.*member; });
    count.share_out(by_operand());
    count = count.scaled(micro_batches_);
    count.optimizer = real([](const TracedStep& step) { return step.flops.optimizer; });
    return count;
  }

  double host_bytes() const {
    return real([&](const TracedStep& step) {
      double bytes = 0;
      for (size_t i = 0; i < step.programs.size(); ++i) bytes += runs(i) * total(step.programs[i].work).host_bytes;
      return bytes;
    });
  }

  std::vector<CollectiveTotal> collectives() const {
    std::map<std::pair<std::string, WorkKind>, CollectiveTotal> totals = totals_of(few_);
    if (more_)
      for (const auto& [key, more] : totals_of(*more_)) {
        CollectiveTotal& total = totals[key];
        const int64_t before = total.number;
        const double bytes = total.bytes, seconds = total.seconds, further = static_cast<double>(further_layers_);
        total = more;
        total.number = before + further_layers_ * (more.number - before);
        total.bytes = bytes + further * (more.bytes - bytes);
        total.seconds = seconds + further * (more.seconds - seconds);
      }
    std::vector<CollectiveTotal> list;
    for (const auto& [key, total] : totals) list.push_back(total);
    return list;
  }

 private:
  // How often a program runs in a step.
  double runs(size_t program) const { return program == 0 ? micro_batches_ : 1; }

  LayeredWork layered(size_t program) const {
    return {few_.programs[program].work, more_ ? more_->programs[program].work : std::vector<Work>(),
            static_cast<double>(further_layers_)};
  }

  std::map<std::pair<std::string, WorkKind>, CollectiveTotal> totals_of(const TracedStep& step) const {
    std::map<std::pair<std::string, WorkKind>, CollectiveTotal> totals;
    for (size_t i = 0; i < step.programs.size(); ++i)
      for (const Work& work : step.programs[i].work) {
        if (!is_collective(work.kind)) continue;
        CollectiveTotal& total = totals[{work.group, work.kind}];
        total.kind = work.kind;
        total.group = work.group;
        total.ranks = work.ranks;
        total.number += static_cast<int64_t>(runs(i));
        total.bytes += runs(i) * work.bytes;
        total.seconds += runs(i) * seconds(work, machine_);
      }
    return totals;
  }

  // Of what the passes left.
  std::map<std::string, double> by_operand() const {
    const auto of = [](const TracedStep& step) { return flops_by_operand(step.programs.front().work); };
    std::map<std::string, double> flops = of(few_);
    for (auto& [operand, sum] : flops)
      sum = real([&, name = operand](const TracedStep& step) { return of(step)[name]; });
    return flops;
  }

  const Machine& machine_;
  double micro_batches_;
  int64_t devices_;
  TracedStep few_;
  std::optional<TracedStep> more_;
  int64_t further_layers_ = 0;
};

}  // namespace

HeldBytes held_bytes(Recipe recipe, const Machine& machine) {
  if (recipe.mesh.pp == 1 && recipe.model.layers > 2 && !train::groups_tell_layers_apart(recipe)) {
    const int64_t layers = std::exchange(recipe.model.layers, 1);
    const HeldBytes one = held_bytes(recipe, machine);
    recipe.model.layers = 2;
    const HeldBytes two = held_bytes(recipe, machine);
    return {one.weights + (layers - 1) * (two.weights - one.weights),
            one.optimizer + (layers - 1) * (two.optimizer - one.optimizer)};
  }
  if (recipe.mesh.pp == 1) recipe.train.pipeline_chunks = 1;
  const auto device = std::make_shared<OfflineDevice>(parse_target(machine.target));
  const auto context = std::make_shared<Context>(device, ContextOptions{.mesh = make_mesh(recipe.mesh)});
  const ContextScope scope(context);
  HeldBytes held;
  const Optimizer& optimizer = find_optimizer(recipe.optimizer.name);
  const std::unique_ptr<LanguageModel> model =
      LanguageModel::create(recipe.model, train::part_of_stage(recipe, 0), train::new_weights(recipe));
  for (const Parameter& parameter : model->parameters()) {
    held.weights += parameter.tensor.local_bytes();
    if (parameter.is_trained) held.optimizer += optimizer.state_bytes(parameter, recipe.optimizer);
  }
  return held;
}

bool layers_differ(const Recipe& recipe) {
  const bool exchanges =
      static_cast<bool>(find_optimizer(recipe.optimizer.name).update_all) && recipe.mesh.ranks() > recipe.mesh.pp;
  return exchanges || train::groups_tell_layers_apart(recipe);
}

StepWork trace_step_work(const Recipe& recipe, const Machine& machine) { return Continuation(recipe, machine).work(); }

double usable_bytes(const Recipe& recipe, const Machine& machine) {
  const auto limit = static_cast<double>(recipe.device_memory_limit);
  return limit > 0 ? std::min(limit, machine.memory_bytes) : machine.memory_bytes;
}

StepPlan plan_step(const Recipe& recipe, const Machine& machine, bool exact_memory) {
  train::require_trained_first_piece(recipe);
  const Target target = parse_target(machine.target);
  if (train::has_memory_choice(recipe, target)) {
    const auto usable = static_cast<int64_t>(train::kMostOfMemory * usable_bytes(recipe, machine));
    std::vector<std::pair<train::MemoryChoice, StepPlan>> known;
    const auto need_of = [&](const train::MemoryChoice& choice) -> train::MemoryNeed {
      const Recipe one = train::with_memory_choice(recipe, choice);
      if (const StageLook look = look_at_stages(one, machine); !look.may_fit(static_cast<double>(usable)))
        return {std::llround(look.bytes), 0};
      const MemoryPlan& memory = known.emplace_back(choice, plan_step(one, machine, exact_memory)).second.memory;
      return {memory.total(), memory.host_activations};
    };
    const train::MemoryPrices prices = train::memory_prices(recipe, target, held_bytes(recipe, machine).optimizer);
    const train::MemoryChoice chosen = train::choose_memory(recipe, target, prices, usable, need_of);
    for (auto& [choice, plan] : known)
      if (choice == chosen) return std::move(plan);
    return plan_step(train::with_memory_choice(recipe, chosen), machine, exact_memory);
  }
  if (recipe.mesh.pp > 1) return plan_pipelined_step(recipe, machine, exact_memory);
  const Continuation step(recipe, machine);
  StepPlan plan;
  plan.recipe = recipe;
  plan.memory.weights = step.whole([](const TracedStep& one) { return one.weights; });
  plan.memory.gradients = step.whole([](const TracedStep& one) { return one.gradients; });
  plan.memory.optimizer = step.whole([](const TracedStep& one) { return one.optimizer; });
  plan.memory.activations = step.whole([](const TracedStep& one) { return one.activations(); });
  plan.memory.batch = step.whole([](const TracedStep& one) { return one.batch; });
  plan.memory.host_optimizer = step.whole([](const TracedStep& one) { return one.host_optimizer; });
  plan.memory.host_activations = step.whole([](const TracedStep& one) { return one.host_activations(); });
  plan.memory.exact = step.complete();
  if (exact_memory && !plan.memory.exact) {
    const TracedStep all = trace_step(recipe, machine, recipe.model.layers);
    plan.memory.activations = all.activations();
    plan.memory.host_activations = all.host_activations();
    plan.memory.exact = true;
  }
  const train::SamplingMemory sampling = train::sampling_memory(recipe, target);
  plan.memory.sampling_cache = sampling.cache;
  plan.memory.reference = sampling.reference;
  plan.memory.checkpoint = train::checkpoint_bytes(recipe);
  plan.collectives = step.collectives();
  plan.host_bytes = step.host_bytes();
  plan.time = predict(step.work(), machine);
  plan.tokens = static_cast<double>(recipe.train.batch_size * recipe.data.sequence_length);
  plan.flops = step.flops();
  double at_peak = 0;
  for (const auto& [operand, flops] : plan.flops.by_operand) at_peak += flops / machine.peak_flops.at(operand);
  plan.flops_utilization = at_peak / static_cast<double>(recipe.mesh.ranks()) / plan.time.seconds;
  return plan;
}

double dollars_per_billion_tokens(const StepPlan& plan, double dollars_per_hour) {
  constexpr double kSecondsPerHour = 3600, kTokens = 1e9;
  return kTokens / plan.tokens_per_second() / kSecondsPerHour * dollars_per_hour *
         static_cast<double>(plan.recipe.mesh.ranks());
}

}  // namespace causeway::plan
