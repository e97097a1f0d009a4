#include "causeway/plan/pipeline_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "causeway/base/thread_pool.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/device/open_device.h"
#include "causeway/passes/eliminate_common_subexpressions.h"
#include "causeway/plan/program_work.h"
#include "causeway/program/context.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/recipe/parameter_groups.h"
#include "causeway/train/step/stage_schedule.h"
#include "causeway/train/step/training_step.h"

namespace causeway::plan {
namespace {

using train::StagePlace;

struct TracedStage {
  MemoryPlan memory;  // `exact` says nothing of the layers
  StepTime time;      // without waiting
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

TracedStage trace_stage(const Recipe& recipe, const Machine& machine, int64_t stage, const ModelPart& part,
                        const StagePlace& place) {
  const Mesh mesh = make_mesh(recipe.mesh);
  const auto device = std::make_shared<OfflineDevice>(parse_target(machine.target));
  ContextOptions options{.mesh = mesh};
  options.rank = static_cast<int>(stage * mesh.stage_axis()->stride);
  const auto context = std::make_shared<Context>(device, options);
  const ContextScope scope(context);
  const std::unique_ptr<LanguageModel> model = LanguageModel::create(recipe.model, part, train::new_weights(recipe));
  const TrainingStep step(*model, recipe, place);
  TracedStage traced;
  traced.memory.exact = true;
  for (const Parameter& parameter : model->parameters()) traced.memory.weights += parameter.tensor.local_bytes();
  traced.memory.optimizer = step.state_bytes();
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

// --- Sums of traced stages, each times a factor that may be negative.

void add(FlopCount& sum, const FlopCount& more, double times) {
  const FlopCount scaled = more.scaled(times);
  for (double FlopCount::* member : {&FlopCount::forward, &FlopCount::backward, &FlopCount::attended_pairs,
                                     &FlopCount::attention_pairs, &FlopCount::optimizer})
    sum.*member += scaled.*member;
  for (const auto& [operand, flops] : scaled.by_operand) sum.by_operand[operand] += flops;
  sum.at_most = sum.at_most || more.at_most;
  sum.sampled = sum.sampled || more.sampled;
}

void add(TracedStage& sum, const TracedStage& more, double times) {
  sum.memory.exact = sum.memory.exact && more.memory.exact;
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

int64_t layers_of(const Recipe& recipe, int64_t stage) {
  const ModelPart part = train::part_of_stage(recipe, stage);
  int64_t layers = 0;
  for (const int64_t piece : part.held()) layers += part.first_layer(piece + 1) - part.first_layer(piece);
  return layers;
}

// --- A stage of a long pipeline and of many micro-batches, continued from short ones.

// More micro-batches than are traced all in the end.
bool has_many_batches(const Recipe& recipe) { return recipe.micro_batches() > 48 && recipe.train.pipeline_chunks == 1; }

// How many stages come before and after it, and what it works through.
struct StageSize {
  StagePlace place;
  int64_t micro_batches = 1;

  bool operator<(const StageSize& other) const {
    const auto order = [](const StageSize& size) {
      return std::tuple(size.place.before, size.place.after, size.micro_batches);
    };
    return order(*this) < order(other);
  }
};

double slope(double first, double second, double steps) { return (second - first) / steps; }

// Whether the middle one of three, as far apart as one another, lies between the others: then further ones lie on the
// same line. Memory to the byte; seconds as far as they are rounded.
bool on_a_line(const TracedStage& first, const TracedStage& second, const TracedStage& third) {
  for (int64_t MemoryPlan::* bytes :
       {&MemoryPlan::weights, &MemoryPlan::optimizer, &MemoryPlan::activations, &MemoryPlan::batch})
    if (second.memory.*bytes - first.memory.*bytes != third.memory.*bytes - second.memory.*bytes) return false;
  constexpr double kRounding = 1e-9;
  for (double StepTime::* seconds : {&StepTime::seconds, &StepTime::compute_seconds, &StepTime::collective_seconds})
    if (std::abs(slope(first.time.*seconds, second.time.*seconds, 1) -
                 slope(second.time.*seconds, third.time.*seconds, 1)) > kRounding * third.time.*seconds)
      return false;
  return true;
}

class ContinuedStage {
 public:
  ContinuedStage(const Recipe& recipe, const Machine& machine, int64_t stage, const ModelPart& part)
      : recipe_(recipe),
        machine_(machine),
        stage_(stage),
        part_(part),
        whole_{{stage, recipe.mesh.pp - 1 - stage}, recipe.micro_batches()} {}

  // Everything that further stages and micro-batches add was the same twice before it is taken to be so from there on;
  // where it is not, more is traced, or its mean is taken.
  TracedStage run(bool whole) {
    if (whole) return at(whole_);
    if (has_many_batches()) {
      if (const std::optional<TracedStage> stage = continued_from(kFewest, kGroup)) return *stage;
      return about(kFurther);
    }
    for (int64_t few = kFewest; few <= kMostOfFew; few += few)
      for (const int64_t step : {int64_t{1}, kGroup}) {
        if (const std::optional<TracedStage> stage = continued_from(few, step)) return *stage;
        if (interleaves()) break;
      }
    return at(whole_);
  }

  // The same for an estimate, which takes less.
  TracedStage estimate(bool whole) { return !whole && has_many_batches() ? about(kFurtherOfEstimate) : run(whole); }

 private:
  // Sums of gradients are fused in groups, of up to so many micro-batches.
  static constexpr int64_t kGroup = 8, kFewest = 1, kMostOfFew = 32;
  // How well buffers fill the memory that they are packed into differs by so much of it from size to size.
  static constexpr double kPacking = 0.005;
  // Stages whose mean is what a further one adds.
  static constexpr int64_t kFurther = 8, kFurtherOfEstimate = 2;

  bool has_many_batches() const { return causeway::plan::has_many_batches(recipe_); }
  bool interleaves() const { return recipe_.train.pipeline_chunks > 1; }

  TracedStage at(const StageSize& size) {
    if (const auto known = traced_.find(size); known != traced_.end()) return known->second;
    Recipe recipe = recipe_;
    recipe.train.batch_size = size.micro_batches * recipe.train.micro_batch_size;
    return traced_.emplace(size, trace_stage(recipe, machine_, stage_, part_, size.place)).first->second;
  }

  // Memory as well as it can be told from sizes that are packed a little differently.
  TracedStage about(int64_t most_further) {
    StageSize small = whole_;
    small.place.before = std::min(whole_.place.before, kFewest);
    small.place.after = std::min(whole_.place.after, kFewest);
    const auto further = [&](int64_t StagePlace::* side) {
      return std::min(whole_.place.*side - small.place.*side, most_further);
    };
    const int64_t most = std::max(further(&StagePlace::before), further(&StagePlace::after));
    const int64_t stages = small.place.before + small.place.after + 1 + most;
    small.micro_batches = start(whole_.micro_batches, stages + kFewest, kGroup);
    StageSize next = small;
    next.micro_batches += kGroup;
    const TracedStage first = at(small);
    TracedStage of_batches = difference(first, at(next));
    // Once all stages are under way, further micro-batches take the place of others; where they do not, each time.
    int64_t& growth = of_batches.memory.activations;
    const auto is_packing = [&](int64_t bytes) {
      return static_cast<double>(bytes) < kPacking * static_cast<double>(first.memory.activations);
    };
    if (!is_packing(growth)) {
      StageSize last = next;
      last.micro_batches += kGroup;
      growth = std::min(growth, difference(at(next), at(last)).memory.activations);
    }
    if (is_packing(growth)) growth = 0;
    TracedStage sum = first;
    add(sum, of_batches, steps_between(small, whole_, kGroup));
    for (int64_t StagePlace::* side : {&StagePlace::before, &StagePlace::after}) {
      const int64_t number = further(side);
      if (number == 0) continue;
      StageSize longer = small;
      longer.place.*side += number;
      add(sum, difference(first, at(longer)),
          static_cast<double>(whole_.place.*side - small.place.*side) / static_cast<double>(number));
    }
    sum.memory.exact = false;
    return sum;
  }

  // A number of stages or micro-batches of at least `few` from which whole steps lead to all.
  static int64_t start(int64_t all, int64_t few, int64_t step) {
    return all <= few + 2 * step ? all : few + (all - few) % step;
  }

  // Micro-batches of an interleaved schedule come in groups of as many as there are stages.
  int64_t batches_for(const StagePlace& place, int64_t few, int64_t step) const {
    const int64_t stages = place.before + place.after + 1;
    if (interleaves()) return (2 + few) * stages;
    return start(whole_.micro_batches, stages + few, step);
  }

  std::optional<TracedStage> continued_from(int64_t few, int64_t step) {
    StageSize small = whole_;
    small.place.before = start(whole_.place.before, few, 1);
    small.place.after = start(whole_.place.after, few, 1);
    // Of the longest pipeline that is traced.
    StagePlace longest = small.place;
    if (small.place.before < whole_.place.before) longest.before += 2;
    if (small.place.after < whole_.place.after) longest.after += 2;
    small.micro_batches = batches_for(interleaves() ? small.place : longest, few, step);
    const int64_t batches_step = interleaves() ? small.place.before + small.place.after + 1 : step;
    const bool continues_batches = small.micro_batches + 2 * batches_step < whole_.micro_batches;
    // With fewer a stage never has as many under way as its place gives it.
    const int64_t stages = whole_.place.before + whole_.place.after + 1;
    if (whole_.micro_batches < (interleaves() ? 2 * stages : stages + few)) return at(whole_);
    if (!continues_batches) {
      if (longest == small.place || interleaves()) return at(whole_);
      small.micro_batches = whole_.micro_batches;
    }
    const TracedStage first = at(small);
    TracedStage sum = first;
    std::optional<TracedStage> of_batches;  // what a step of them adds
    if (continues_batches) {
      StageSize next = small, last = small;
      next.micro_batches += batches_step;
      last.micro_batches += 2 * batches_step;
      const TracedStage second = at(next), third = at(last);
      if (!on_a_line(first, second, third)) return std::nullopt;
      of_batches = difference(first, second);
      add(sum, *of_batches, steps_between(small, whole_, batches_step));
    }
    for (int64_t StagePlace::* side : {&StagePlace::before, &StagePlace::after}) {
      const int64_t further = whole_.place.*side - small.place.*side;
      if (further == 0) continue;
      const auto longer = [&](int64_t more) {
        StageSize size = small;
        size.place.*side += more;
        if (interleaves()) size.micro_batches = batches_for(size.place, few, step);
        TracedStage stage = at(size);
        if (of_batches) add(stage, *of_batches, steps_between(size, small, batches_step));
        return stage;
      };
      const TracedStage second = longer(1), third = longer(2);
      if (!on_a_line(first, second, third)) return std::nullopt;
      add(sum, difference(first, second), static_cast<double>(further));
    }
    return sum;
  }

  static TracedStage difference(const TracedStage& first, const TracedStage& second) {
    TracedStage sum = second;
    add(sum, first, -1);
    return sum;
  }
  static double steps_between(const StageSize& first, const StageSize& second, int64_t step) {
    return static_cast<double>(second.micro_batches - first.micro_batches) / static_cast<double>(step);
  }

  const Recipe& recipe_;
  const Machine& machine_;
  int64_t stage_;
  const ModelPart& part_;
  StageSize whole_;
  std::map<StageSize, TracedStage> traced_;
};

// --- Estimates

// A size that is traced as it is, or continued from two smaller ones: sizes and their factors.
std::vector<std::pair<int64_t, double>> continued(double size, int64_t small, int64_t more) {
  const auto whole = static_cast<int64_t>(size);
  if (size <= static_cast<double>(more) && static_cast<double>(whole) == size) return {{whole, 1}};
  const double along = (size - static_cast<double>(small)) / static_cast<double>(more - small);
  return {{small, 1 - along}, {more, along}};
}

TracedStage estimate_stage(const Recipe& recipe, const Machine& machine, int64_t stage, bool whole) {
  const int64_t stages = recipe.mesh.pp, chunks = recipe.train.pipeline_chunks;
  if (layers_differ(recipe))
    return ContinuedStage(recipe, machine, stage, train::part_of_stage(recipe, stage)).estimate(whole);
  TracedStage sum;
  sum.memory.exact = true;
  const double of_piece = static_cast<double>(layers_of(recipe, stage)) / static_cast<double>(chunks);
  // Of many micro-batches fewer layers, which take as long as more layers of a few.
  const int64_t few = has_many_batches(recipe) ? 1 : 2;
  for (const auto& [layers_of_piece, by_layers] : continued(of_piece, few, few + 1)) {
    Recipe small = recipe;
    small.model.layers = layers_of_piece * stages * chunks;
    const ModelPart equal(small.model.layers, stages, chunks, stage);
    add(sum, ContinuedStage(small, machine, stage, equal).estimate(whole), by_layers);
  }
  return sum;
}

}  // namespace

StageLook look_at_stages(const Recipe& recipe, const Machine& machine) {
  const int64_t stages = recipe.mesh.pp, chunks = recipe.train.pipeline_chunks;
  if (stages == 1 || layers_differ(recipe)) return {};
  const double layers = static_cast<double>(layers_of(recipe, 0)) / static_cast<double>(chunks);
  // Micro-batches of an interleaved schedule come in groups of as many as there are stages, all of which it has.
  const int64_t group = chunks > 1 ? stages : 1;
  if (recipe.micro_batches() < 2 * group) return {};
  const auto look = [&](int64_t layers_of_piece, int64_t after, int64_t groups) {
    Recipe small = recipe;
    small.model.layers = layers_of_piece * stages * chunks;
    small.train.batch_size = groups * group * recipe.train.micro_batch_size;
    const ModelPart part(small.model.layers, stages, chunks, 0);
    return trace_stage(small, machine, 0, part, {0, chunks > 1 ? stages - 1 : after});
  };
  const auto bytes = [](const TracedStage& stage) { return static_cast<double>(stage.memory.total()); };
  const double groups = static_cast<double>(recipe.micro_batches()) / static_cast<double>(group);
  const auto seconds = [&](const TracedStage& two, const TracedStage& three) {
    return two.time.seconds + (groups - 2) * (three.time.seconds - two.time.seconds);
  };
  const TracedStage one = look(1, 1, 2);
  StageLook about = {bytes(one), seconds(one, look(1, 1, 3))};
  if (layers >= 2) {
    const TracedStage two = look(2, 1, 2);
    about.bytes += (layers - 1) * (bytes(two) - bytes(one));
    about.seconds += (layers - 1) * (seconds(two, look(2, 1, 3)) - about.seconds);
  }
  // Each stage after it has it keep what it needs for the backward pass of one more micro-batch.
  if (stages > 2 && chunks == 1 && recipe.micro_batches() >= stages)
    about.bytes += layers * static_cast<double>(stages - 2) * (bytes(look(1, 2, 3)) - bytes(look(1, 1, 3)));
  about.seconds /= 1 - train::pipeline_bubble(recipe);
  return about;
}

StepPlan plan_pipelined_step(const Recipe& recipe, const Machine& machine, bool exact_memory, bool whole) {
  StepPlan plan;
  plan.recipe = recipe;
  plan.bubble = train::pipeline_bubble(recipe);
  const int64_t stages = recipe.mesh.pp;
  // Stages with as many layers are alike, but for the first, which has the embedding, and the last, which has the
  // output layer. Of those that are alike the first one keeps the most micro-batches. Where groups of parameters tell
  // layers apart, none are alike.
  const bool are_alike = !train::groups_tell_layers_apart(recipe);
  const auto end_of = [&](int64_t stage) -> int64_t {
    if (!are_alike) return stage;
    return stage == stages - 1 ? 2 : stage == 0 && exact_memory ? 1 : 0;
  };
  std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> alike;
  for (int64_t stage = 0; stage < stages; ++stage) alike[{end_of(stage), layers_of(recipe, stage)}].push_back(stage);
  std::vector<int64_t> first_of_alike;
  for (const auto& [kind, those] : alike) first_of_alike.push_back(those.front());
  std::vector<TracedStage> of_alike(first_of_alike.size());
  ThreadPool threads(std::min(available_processors(), static_cast<int>(of_alike.size())));
  threads.run(static_cast<int64_t>(of_alike.size()), [&](int64_t task, int) {
    const int64_t stage = first_of_alike[static_cast<size_t>(task)];
    of_alike[static_cast<size_t>(task)] =
        exact_memory ? ContinuedStage(recipe, machine, stage, train::part_of_stage(recipe, stage)).run(whole)
                     : estimate_stage(recipe, machine, stage, whole);
  });
  auto next = of_alike.begin();
  for (const auto& [kind, those] : alike) {
    const TracedStage& traced = *next++;
    add(plan.flops, traced.flops, static_cast<double>(those.size()));
    if (traced.memory.total() > plan.memory.total()) plan.memory = traced.memory;
    if (traced.time.seconds <= plan.time.seconds) continue;
    plan.time = traced.time;
    plan.collectives = traced.collectives;
  }
  plan.time.seconds *= straggle_factor(machine, recipe.mesh.ranks()) / (1 - plan.bubble);
  plan.memory.exact = exact_memory && std::ranges::all_of(of_alike, &MemoryPlan::exact, &TracedStage::memory);
  plan.memory.checkpoint = train::checkpoint_bytes(recipe);
  plan.tokens = static_cast<double>(recipe.train.batch_size * recipe.data.sequence_length);
  double at_peak = 0;
  for (const auto& [operand, flops] : plan.flops.by_operand) at_peak += flops / machine.peak_flops.at(operand);
  plan.flops_utilization = at_peak / static_cast<double>(recipe.mesh.ranks()) / plan.time.seconds;
  return plan;
}

}  // namespace causeway::plan
