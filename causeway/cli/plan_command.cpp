#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "causeway/base/byte_size.h"
#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/bench/report/cost_table.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/json_output.h"
#include "causeway/cli/progress_report.h"
#include "causeway/cli/recipe_argument.h"
#include "causeway/device/open_device.h"
#include "causeway/model/experts.h"
#include "causeway/plan/machines.h"
#include "causeway/plan/plan_search.h"
#include "causeway/plan/step_plan.h"
#include "causeway/train/log/progress_line.h"
#include "causeway/train/step/memory_choice.h"
#include "causeway/train/step/recomputation.h"
#include "causeway/train/step/uncut_weights.h"

namespace causeway::cli {
namespace {

struct PlanCommandOptions {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string hardware = "h100";
  std::string costs;
  bool search = false;
  int64_t devices = 0;
  int64_t show = 5;
  bool json = false;
};

// "dp 2, fsdp 4", or "one device".
std::string mesh_text(const Recipe::MeshSizes& mesh) {
  std::string text;
  for (const auto& [name, size] : mesh.axes()) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, size);
  return text.empty() ? "one device" : text;
}

std::string mesh_overrides(const Recipe::MeshSizes& mesh) {
  std::string text;
  for (const auto& [name, size] : mesh.axes()) text += fmt::format("mesh.{}={} ", name, size);
  return text;
}

std::string bytes_text(double bytes) { return format_bytes(static_cast<int64_t>(bytes)); }

class PlanPrinter {
 public:
  PlanPrinter(const Machine& machine, const bench::CostTable& costs)
      : machine_(machine), costs_(costs), cost_(costs.find(machine.product)) {}

  std::optional<double> dollars(const StepPlan& plan) const {
    if (cost_ == nullptr) return std::nullopt;
    return dollars_per_billion_tokens(plan, cost_->dollars_per_hour);
  }

  void print(const StepPlan& plan) const {
    const Recipe& recipe = plan.recipe;
    output("{} on {} of {}: {}\nbatch of {} sequences of {} tokens, {} micro-batch{} of {}, recompute {}\n",
           recipe.name, recipe.mesh.ranks(), machine_.product, mesh_text(recipe.mesh), recipe.train.batch_size,
           recipe.data.sequence_length, recipe.micro_batches(), recipe.micro_batches() == 1 ? "" : "es",
           recipe.train.micro_batch_size, train::recomputation_text(train::recomputation_of(recipe), recipe));
    if (const std::string moved = train::offload_text(choice_of(recipe)); !moved.empty()) output("{}\n", moved);
    if (recipe.mesh.pp > 1)
      output("{} stages, schedule {}: a stage waits for about {:.0f} % of the step\n", recipe.mesh.pp,
             recipe.train.pipeline_schedule, 100 * plan.bubble);
    print_memory(plan);
    print_collectives(plan);
    print_time(plan);
  }

  nlohmann::ordered_json json(const StepPlan& plan) const {
    const Recipe& recipe = plan.recipe;
    const Recipe::MeshSizes& mesh = recipe.mesh;
    nlohmann::ordered_json json = {{"mesh", nlohmann::ordered_json::object()},
                                   {"micro_batch_size", recipe.train.micro_batch_size},
                                   {"micro_batches", recipe.micro_batches()},
                                   {"recompute", train::recompute_choice_name(recipe.train.recompute)},
                                   {"recompute_layers", recipe.train.recompute_layers},
                                   {"pipeline_schedule", nullptr},
                                   {"pipeline_bubble", plan.bubble},
                                   {"hardware", machine_.name},
                                   {"weight_bytes", plan.memory.weights},
                                   {"gradient_bytes", plan.memory.gradients},
                                   {"optimizer_bytes", plan.memory.optimizer},
                                   {"activation_bytes", plan.memory.activations},
                                   {"batch_bytes", plan.memory.batch},
                                   {"sampling_cache_bytes", plan.memory.sampling_cache},
                                   {"reference_bytes", plan.memory.reference},
                                   {"total_bytes", plan.memory.total()},
                                   {"offloads_optimizer", choice_of(recipe).offloads_optimizer},
                                   {"offloads_activations", choice_of(recipe).offloads_activations},
                                   {"host_optimizer_bytes", plan.memory.host_optimizer},
                                   {"host_activation_bytes", plan.memory.host_activations},
                                   {"host_link_bytes", plan.host_bytes},
                                   {"host_copy_seconds", plan.time.host_seconds},
                                   {"memory_is_exact", plan.memory.exact},
                                   {"fits", plan.fits(machine_)},
                                   {"checkpoint_bytes", plan.memory.checkpoint},
                                   {"step_seconds", plan.time.seconds},
                                   {"kernel_seconds", plan.time.compute_seconds},
                                   {"collective_seconds", plan.time.collective_seconds},
                                   {"tokens_per_second", plan.tokens_per_second()},
                                   {"flops", plan.flops.total()},
                                   {"flops_utilization", plan.flops_utilization},
                                   {"dollars_per_billion_tokens", nullptr},
                                   {"collectives", nlohmann::ordered_json::array()},
                                   {"uncut", nlohmann::ordered_json::array()}};
    for (const auto& [axis, name] : named_values(MeshAxisId())) json["mesh"][std::string(name)] = mesh.size(axis);
    if (mesh.pp > 1) json["pipeline_schedule"] = name_of(recipe.train.pipeline_schedule);
    if (const auto price = dollars(plan)) json["dollars_per_billion_tokens"] = *price;
    for (const CollectiveTotal& one : plan.collectives)
      json["collectives"].push_back({{"kind", work_kind_name(one.kind)},
                                     {"group", one.group},
                                     {"ranks", one.ranks},
                                     {"number", one.number},
                                     {"bytes", one.bytes},
                                     {"seconds", one.seconds}});
    for (const train::UncutWeights& uncut : train::uncut_weights(recipe))
      json["uncut"].push_back({{"axis", uncut.axis}, {"bytes", uncut.bytes}, {"tensors", uncut.tensors}});
    return json;
  }

 private:
  train::MemoryChoice choice_of(const Recipe& recipe) const {
    return train::memory_choice_of(recipe, parse_target(machine_.target));
  }

  void print_memory(const StepPlan& plan) const {
    const MemoryPlan& memory = plan.memory;
    output("\nmemory of a device, bytes\n");
    const auto line = [](std::string_view name, int64_t bytes, std::string_view note) {
      output("  {:<32}{:>18}  {}\n", name, bytes, note);
    };
    line("weights", memory.weights, "exact");
    line("gradients, summed up", memory.gradients,
         memory.gradients == 0 ? "of one program: among the activations" : "exact");
    line("optimizer", memory.optimizer, "exact");
    line("activations, workspaces", memory.activations,
         memory.exact              ? "exact"
         : plan.recipe.mesh.pp > 1 ? "estimated from a few stages and micro-batches"
                                   : "estimated from a few layers");
    line("batch and results", memory.batch, "exact");
    if (memory.sampling_cache > 0) line("KV cache of sampling", memory.sampling_cache, "of the longest prompts");
    if (memory.reference > 0) line("reference of grpo.beta", memory.reference, "exact");
    line("all", memory.total(),
         fmt::format(
             "{}; the device has {}: the step {}", bytes_text(static_cast<double>(memory.total())),
             plan.recipe.device_memory_limit > 0
                 ? fmt::format("{}, of which device_memory_limit lets a run take {}", bytes_text(machine_.memory_bytes),
                               bytes_text(usable_bytes(plan.recipe, machine_)))
                 : bytes_text(machine_.memory_bytes),
             plan.fits(machine_) ? "fits" : "does not fit"));
    if (memory.host_optimizer > 0) line("optimizer, in the host's memory", memory.host_optimizer, "exact");
    if (memory.host_activations > 0)
      line("activations, there", memory.host_activations, memory.exact ? "exact" : "estimated from a few layers");
    line("a checkpoint, of all ranks", memory.checkpoint, "exact, without its manifest");
  }

  static void print_collectives(const StepPlan& plan) {
    if (plan.collectives.empty()) return;
    output("\ncollectives of a step, of one rank\n  {:<32}{:>8}{:>10}{:>18}{:>12}\n", "", "ranks", "number",
           "bytes, whole", "predicted");
    for (const CollectiveTotal& one : plan.collectives)
      output("  {:<32}{:>8}{:>10}{:>18.0f}{:>9.1f} ms\n",
             fmt::format("{} over {}", work_kind_name(one.kind), one.group), one.ranks, one.number, one.bytes,
             one.seconds * 1e3);
  }

  void print_time(const StepPlan& plan) const {
    output("\npredicted (docs/planning.md: from what, and how far off)\n");
    output("  step                {:>14.4g} s, in kernels {:.4g} s, without one running {:.4g} s\n", plan.time.seconds,
           plan.time.compute_seconds, plan.time.exposed_seconds());
    if (plan.recipe.grpo.is_used()) output("  sampling and rewards           n/a: they come on top of the step\n");
    if (plan.host_bytes > 0)
      output("  host link           {:>14} from and to the host, {:.4g} s at {:.0f} GB/s each way, beside the rest\n",
             bytes_text(plan.host_bytes), plan.time.host_seconds, machine_.host_bytes_per_second / 1e9);
    output("  tokens/s            {:>14.0f}, {:.0f} of each device\n", plan.tokens_per_second(),
           plan.tokens_per_second() / static_cast<double>(plan.recipe.mesh.ranks()));
    output("  MFU                 {:>14.1f} %, of {:.4g} FLOPs a token\n", 100 * plan.flops_utilization,
           plan.flops.total() / plan.tokens);
    if (expert_shape(plan.recipe.model)) output("  experts             as if each had as many tokens as any other\n");
    if (const auto price = dollars(plan))
      output("  dollars for 1e9 tokens {:>11.2f}, at ${} for a device's hour ({}, {}: {})\n", *price,
             cost_->dollars_per_hour, cost_->source, cost_->date, cost_->basis);
    else
      output("  dollars for 1e9 tokens         n/a: {}\n", costs_.missing_sentence(machine_.product));
    output("  constants: {}\n", machine_.source);
  }

  const Machine& machine_;
  const bench::CostTable& costs_;
  const bench::DeviceCost* cost_;
};

void print_search(const std::vector<StepPlan>& plans, const PlanPrinter& printer, const PlanCommandOptions& options) {
  output("fastest of {} plans that fit on {} devices\n\n  {:<28}{:>12}{:>11}{:>12}{:>12}{:>8}{:>12}\n", plans.size(),
         options.devices, "mesh", "micro-batch", "recompute", "a device", "tokens/s", "MFU", "$/1e9");
  const size_t shown = std::min(plans.size(), static_cast<size_t>(options.show));
  for (size_t i = 0; i < shown; ++i) {
    const StepPlan& plan = plans[i];
    const auto price = printer.dollars(plan);
    output("  {:<28}{:>12}{:>11}{:>12}{:>12.0f}{:>6.1f} %{:>12}\n", mesh_text(plan.recipe.mesh),
           plan.recipe.train.micro_batch_size, train::recompute_choice_name(plan.recipe.train.recompute),
           bytes_text(static_cast<double>(plan.memory.total())), plan.tokens_per_second(), 100 * plan.flops_utilization,
           price ? fmt::format("{:.2f}", *price) : "n/a");
  }
  const Recipe& best = plans.front().recipe;
  output("\n  {}train.micro_batch_size={} train.recompute={}{}{}\n\n", mesh_overrides(best.mesh),
         best.train.micro_batch_size, train::recompute_choice_name(best.train.recompute),
         best.offload.optimizer == train::Offload::kFalse ? "" : " offload.optimizer=true",
         best.offload.activations == train::Offload::kFalse ? "" : " offload.activations=true");
  printer.print(plans.front());
}

std::vector<StepPlan> searched(const Recipe& recipe, const Machine& machine, int64_t devices) {
  ProgressReport progress;
  return search_plans(recipe, machine, devices, [&](size_t tried, size_t meshes) {
    progress.show([&](double seconds) {
      return fmt::format("{} of {} meshes tried, {}", tried, meshes, train::format_duration(seconds));
    });
  });
}

void run_plan(const PlanCommandOptions& options) {
  const Machine& machine = find_machine(options.hardware);
  const Recipe recipe = load_recipe_argument(options.recipe, options.overrides);
  const bench::CostTable costs =
      options.costs.empty() ? bench::shipped_cost_table() : bench::read_cost_table(options.costs);
  const PlanPrinter printer(machine, costs);
  if (!options.search) {
    if (options.devices > 0 && options.devices != recipe.mesh.ranks())
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("{} devices, and the mesh has {}", options.devices, recipe.mesh.ranks()), "-n",
                  "Give mesh sizes whose product it is, or --search for them.");
    const StepPlan plan = plan_step(recipe, machine, true);
    if (options.json) return output_json(printer.json(plan));
    printer.print(plan);
    for (const train::UncutWeights& uncut : train::uncut_weights(plan.recipe))
      output("\n{}\n", train::uncut_weights_text(uncut));
    return;
  }
  if (options.devices < 1)
    throw Error(ErrorKind::kInvalidArgument, "--search is for a number of devices", "-n", "Add -n 8.");
  std::vector<StepPlan> plans = searched(recipe, machine, options.devices);
  if (!options.json) return print_search(plans, printer, options);
  nlohmann::ordered_json json = {{"plans", nlohmann::ordered_json::array()}};
  plans.resize(std::min(plans.size(), static_cast<size_t>(options.show)));
  for (const StepPlan& plan : plans) json["plans"].push_back(printer.json(plan));
  output_json(json);
}

}  // namespace

void add_plan_command(CLI::App& program) {
  auto options = std::make_shared<PlanCommandOptions>();
  CLI::App* command = program.add_subcommand(
      "plan", "What a recipe's step needs and takes on hardware that is not here: memory, collectives, time, dollars");
  command
      ->add_option("recipe", options->recipe,
                   "The recipe: a YAML file, or the name of one that the program brings along")
      ->required();
  command->add_option("overrides", options->overrides, "Recipe keys to change, as key=value");
  std::vector<std::string> names;
  for (const Machine& machine : shipped_machines()) names.push_back(machine.name);
  command->add_option("--hardware", options->hardware, fmt::format("One of {}", fmt::join(names, ", ")))
      ->capture_default_str();
  command->add_flag("--search", options->search, "Find the fastest mesh, micro-batch and recomputation that fit");
  command->add_option("-n", options->devices, "How many devices")->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command->add_option("--show", options->show, "How many plans of a search to list")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}))
      ->capture_default_str();
  command->add_option("--costs", options->costs, "A cost table in place of the shipped one");
  command->add_flag("--json", options->json, "Print the figures as JSON");
  command->footer(
      "Example: causeway plan llama3_8b mesh.fsdp=8 train.micro_batch_size=8 --hardware h100\n"
      "The best of eight devices: causeway plan llama3_8b --search -n 8");
  command->callback([options] { run_plan(*options); });
}

}  // namespace causeway::cli
