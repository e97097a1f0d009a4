#include "causeway/plan/step_plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>

#include "causeway/base/error.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/device/open_device.h"
#include "causeway/plan/pipeline_plan.h"
#include "causeway/plan/program_work.h"
#include "causeway/program/context.h"
#include "causeway/train/log/progress_line.h"
#include "causeway/train/step/recomputation.h"
#include "causeway/train/step/training_step.h"

namespace causeway::plan {
namespace {

constexpr int64_t kFewLayers = 3;
// Of a micro-batch, in a search.
constexpr int64_t kMostRowsOfStage = 4;
// From the least recomputation to the most.
constexpr std::array<RecomputePolicy, 3> kRecomputePolicies = {RecomputePolicy::kNone, RecomputePolicy::kSelective,
                                                               RecomputePolicy::kBlock};

// A step of the recipe with that many layers.
struct TracedStep {
  std::vector<ProgramWork> programs;  // of a micro-batch, and of what follows the last where gradients are added up
  FlopCount flops;                    // of a micro-batch, of all ranks
  int64_t weights = 0, moments = 0, gradients = 0, batch = 0;  // bytes of a rank
  int64_t parameters = 0;

  int64_t activations() const {
    int64_t bytes = 0;
    for (const ProgramWork& program : programs) bytes = std::max(bytes, program.memory.arena_bytes);
    return bytes;
  }
};

TracedStep trace_step(Recipe recipe, const Machine& machine, int64_t layers) {
  CAUSEWAY_CHECK(recipe.mesh.pp == 1);
  recipe.model.layers = layers;
  const Mesh mesh = make_mesh(recipe.mesh);
  const auto device = std::make_shared<OfflineDevice>(parse_target(machine.target));
  const auto context = std::make_shared<Context>(device, ContextOptions{.mesh = mesh});
  const ContextScope scope(context);
  const std::unique_ptr<LanguageModel> model =
      LanguageModel::create(recipe.model, std::nullopt, train::weight_storage(recipe));
  const TrainingStep step(*model, recipe);
  TracedStep traced;
  for (const Parameter& parameter : model->parameters()) traced.weights += parameter.tensor.local_bytes();
  for (const auto& state : step.optimizer_state()) traced.moments += state.tensor.local_bytes();
  if (recipe.micro_batches() > 1) traced.gradients = traced.moments / 2;
  traced.parameters = parameter_count(recipe.model);
  for (const Graph& graph : step.trace()) {
    if (traced.programs.empty()) traced.flops = count_flops(graph);
    traced.programs.push_back(work_of_program(context->run_passes(graph, pipeline_options(recipe)), device->target(),
                                              mesh, machine.devices_per_node, recipe.train.mesh_independent));
  }
  const ProgramMemory& first = traced.programs.front().memory;
  traced.batch = first.input_bytes + first.task_counter_bytes + traced.programs.back().memory.output_bytes -
                 traced.weights - (traced.gradients > 0 ? traced.gradients : traced.moments);
  return traced;
}

// Figures of `few` layers and of one more, continued to all of them.
class Continuation {
 public:
  Continuation(const Recipe& recipe, const Machine& machine)
      : machine_(machine), micro_batches_(static_cast<double>(recipe.micro_batches())), devices_(recipe.mesh.ranks()) {
    // Those of which more is computed again than of others do not continue.
    const int64_t layers = recipe.model.layers,
                  few = recipe.train.recompute_layers > 0 ? layers : std::min(layers, kFewLayers);
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
    return count.scaled(micro_batches_);
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

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> list;
  for (int64_t divisor = 1; divisor <= number; ++divisor)
    if (number % divisor == 0) list.push_back(divisor);
  return list;
}

// Stages from two nodes on, whose rows are then cut by dp alone.
std::vector<Recipe::MeshSizes> candidate_meshes(const Recipe& recipe, const Machine& machine, int64_t devices) {
  constexpr int64_t kLongSequence = 16384;
  const ModelConfig& model = recipe.model;
  const bool several_nodes = devices > machine.devices_per_node;
  std::vector<Recipe::MeshSizes> meshes;
  for (const int64_t pp : divisors(devices)) {
    if (pp > 1 && (!several_nodes || pp * recipe.train.pipeline_chunks > model.layers)) continue;
    for (const int64_t tp : divisors(devices / pp)) {
      if (tp > machine.devices_per_node || model.heads % tp || model.kv_heads % tp || model.ffn_width % tp) continue;
      for (const int64_t cp : divisors(devices / pp / tp)) {
        if ((cp > 1 && recipe.data.sequence_length < kLongSequence) || recipe.data.sequence_length % (cp * tp))
          continue;
        const int64_t rest = devices / pp / tp / cp;
        for (const int64_t fsdp : divisors(rest)) {
          const int64_t dp = rest / fsdp;
          if (fsdp > 1 && (pp > 1 || (dp > 1 && !several_nodes))) continue;
          if (recipe.train.batch_size % (dp * fsdp * pp) == 0)
            meshes.push_back({.dp = dp, .fsdp = fsdp, .cp = cp, .tp = tp, .pp = pp});
        }
      }
    }
  }
  return meshes;
}

// Of the first rank of the mesh: weights and two moments. What does not fit by these alone need not be traced.
int64_t state_bytes(Recipe recipe, const Machine& machine, const Recipe::MeshSizes& sizes) {
  recipe.mesh = sizes;
  if (sizes.pp == 1) recipe.train.pipeline_chunks = 1;
  const Mesh mesh = make_mesh(sizes);
  const auto device = std::make_shared<OfflineDevice>(parse_target(machine.target));
  const auto context = std::make_shared<Context>(device, ContextOptions{.mesh = mesh});
  const ContextScope scope(context);
  int64_t bytes = 0;
  const std::unique_ptr<LanguageModel> model =
      LanguageModel::create(recipe.model, train::part_of_stage(recipe, 0), std::nullopt);
  for (const Parameter& parameter : model->parameters()) bytes += 3 * parameter.tensor.local_bytes();
  return bytes;
}

}  // namespace

StepWork trace_step_work(const Recipe& recipe, const Machine& machine) { return Continuation(recipe, machine).work(); }

StepPlan plan_step(const Recipe& recipe, const Machine& machine, bool exact_memory) {
  if (recipe.train.recompute == "auto") {
    const auto bytes_of = [&](const Recomputation& recomputation) {
      return plan_step(train::with_recomputation(recipe, recomputation), machine, exact_memory).memory.total();
    };
    const auto usable = static_cast<int64_t>(train::kMostOfMemory * machine.memory_bytes);
    return plan_step(train::with_recomputation(recipe, train::choose_recomputation(recipe, usable, bytes_of)), machine,
                     exact_memory);
  }
  if (recipe.mesh.pp > 1) return plan_pipelined_step(recipe, machine, exact_memory);
  const Continuation step(recipe, machine);
  StepPlan plan;
  plan.recipe = recipe;
  plan.memory.weights = step.whole([](const TracedStep& one) { return one.weights; });
  plan.memory.gradients = step.whole([](const TracedStep& one) { return one.gradients; });
  plan.memory.optimizer = step.whole([](const TracedStep& one) { return one.moments; });
  plan.memory.activations = step.whole([](const TracedStep& one) { return one.activations(); });
  plan.memory.batch = step.whole([](const TracedStep& one) { return one.batch; });
  plan.memory.exact = step.complete();
  if (exact_memory && !plan.memory.exact) {
    plan.memory.activations = trace_step(recipe, machine, recipe.model.layers).activations();
    plan.memory.exact = true;
  }
  // Weights and two moments, in f32.
  plan.memory.checkpoint = parameter_count(recipe.model) * 3 * static_cast<int64_t>(sizeof(float));
  plan.collectives = step.collectives();
  plan.time = predict(step.work(), machine);
  plan.tokens = static_cast<double>(recipe.train.batch_size * recipe.data.sequence_length);
  plan.flops = step.flops();
  double at_peak = 0;
  for (const auto& [operand, flops] : plan.flops.by_operand) at_peak += flops / machine.peak_flops.at(operand);
  plan.flops_utilization = at_peak / static_cast<double>(recipe.mesh.ranks()) / plan.time.seconds;
  return plan;
}

std::vector<StepPlan> search_plans(const Recipe& recipe, const Machine& machine, int64_t devices,
                                   const SearchObserver& progress) {
  const std::vector<Recipe::MeshSizes> meshes = candidate_meshes(recipe, machine, devices);
  if (meshes.empty())
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("no mesh of size {} divides {} heads, a feed-forward width of {}, sequences of {} tokens "
                            "and a batch of {}",
                            devices, recipe.model.heads, recipe.model.ffn_width, recipe.data.sequence_length,
                            recipe.train.batch_size),
                "-n", "Choose a number of devices that divides train.batch_size.");
  std::vector<StepPlan> plans;
  // The least that any needs; where none was traced, of weights and moments.
  struct Least {
    int64_t bytes = 0;
    Recipe::MeshSizes mesh;
  };
  std::optional<Least> least, least_state;
  const auto remember = [](std::optional<Least>& so_far, const Least& one) {
    if (!so_far || one.bytes < so_far->bytes) so_far = one;
  };
  for (const Recipe::MeshSizes& mesh : meshes) {
    if (progress != nullptr) progress(static_cast<size_t>(&mesh - meshes.data()), meshes.size());
    const int64_t state = state_bytes(recipe, machine, mesh);
    if (static_cast<double>(state) > machine.memory_bytes) {
      remember(least_state, {state, mesh});
      continue;
    }
    bool fits = true;
    const int64_t ranks_of_rows = mesh.dp * mesh.fsdp;
    // Every stage has a micro-batch to work on; few sequences each, so that the ends of the pipeline are short.
    const int64_t most_rows = mesh.pp > 1 ? kMostRowsOfStage : recipe.train.batch_size;
    size_t policy = 0;  // more rows need no less recomputation
    for (int64_t rows = 1; fits && rows <= most_rows && recipe.train.batch_size % (rows * ranks_of_rows * mesh.pp) == 0;
         rows *= 2) {
      fits = false;
      // The least recomputation that fits.
      for (; policy < kRecomputePolicies.size(); ++policy) {
        Recipe candidate = train::with_recomputation(recipe, {kRecomputePolicies[policy]});
        candidate.mesh = mesh;
        candidate.train.micro_batch_size = rows * ranks_of_rows;
        if (mesh.pp == 1) candidate.train.pipeline_schedule = Recipe().train.pipeline_schedule;
        if (mesh.pp == 1) candidate.train.pipeline_chunks = 1;
        StepPlan plan = plan_step(candidate, machine, false);
        remember(least, {plan.memory.total(), mesh});
        if (!plan.fits(machine)) continue;
        plans.push_back(std::move(plan));
        fits = true;
        break;
      }
    }
  }
  if (plans.empty()) {
    const Least& one = least ? *least : *least_state;
    throw Error(
        ErrorKind::kResource,
        fmt::format("no mesh of size {} has memory for the step: the least is {} a device{}, on dp {}, fsdp "
                    "{}, cp {}, tp {}, pp {}, and {} has {}",
                    devices, format_bytes(static_cast<uint64_t>(one.bytes)),
                    least ? "" : " for weights and moments alone", one.mesh.dp, one.mesh.fsdp, one.mesh.cp, one.mesh.tp,
                    one.mesh.pp, machine.product, format_bytes(static_cast<uint64_t>(machine.memory_bytes))),
        "-n", "Use more devices, or a shorter data.sequence_length.");
  }
  std::sort(plans.begin(), plans.end(),
            [](const StepPlan& a, const StepPlan& b) { return a.time.seconds < b.time.seconds; });
  return plans;
}

double dollars_per_billion_tokens(const StepPlan& plan, double dollars_per_hour) {
  constexpr double kSecondsPerHour = 3600, kTokens = 1e9;
  return kTokens / plan.tokens_per_second() / kSecondsPerHour * dollars_per_hour *
         static_cast<double>(plan.recipe.mesh.ranks());
}

}  // namespace causeway::plan
