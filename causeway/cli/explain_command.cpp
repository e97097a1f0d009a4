#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <utility>

#include "causeway/base/byte_size.h"
#include "causeway/base/console.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/explain_resources.h"
#include "causeway/cli/json_output.h"
#include "causeway/cli/program_report.h"
#include "causeway/cli/recipe_argument.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/device/open_device.h"
#include "causeway/generate/cached_forward.h"
#include "causeway/graph/printer.h"
#include "causeway/model/experts.h"
#include "causeway/passes/pipeline.h"
#include "causeway/passes/recompute.h"
#include "causeway/tensor/cast_tensors.h"
#include "causeway/train/log/progress_line.h"
#include "causeway/train/step/recomputation.h"
#include "causeway/train/step/trained_stages.h"
#include "causeway/train/step/training_step.h"

namespace causeway::cli {
namespace {

struct ExplainCommandOptions {
  std::string recipe;
  std::vector<std::string> overrides;
  bool graph = false;
  bool passes = false;
  ProgramDetail detail;
  bool resources = false;
  bool time = false;
  bool json = false;
  int64_t stage = 0;
  int64_t generate = 0;  // sequences; 0: a training step is explained
};

// Of each kernel over a few steps on random tokens.
std::vector<double> step_seconds(TrainingStep& step, const Recipe& recipe) {
  std::mt19937 random(1);
  std::vector<int32_t> tokens(static_cast<size_t>(recipe.train.batch_size * recipe.data.sequence_length));
  for (int32_t& token : tokens)
    token = static_cast<int32_t>(random() % static_cast<uint32_t>(recipe.model.vocabulary_size));
  const std::vector<int32_t> documents(recipe.data.masks_documents() ? tokens.size() : 0);
  std::vector<std::vector<float>> numbers;
  for (const NumbersOf of : step.objective().numbers())
    numbers.emplace_back(of == NumbersOf::kRows ? static_cast<size_t>(recipe.train.batch_size) : tokens.size());
  const auto targets = static_cast<int64_t>(tokens.size());
  const std::vector<float> weights(recipe.data.weighs_targets ? tokens.size() : 0, 1.0f);
  const TrainingBatch batch{.inputs = tokens,
                            .targets = tokens,
                            .documents = documents,
                            .valid_targets = targets,
                            .chosen_targets = targets / 2,
                            .numbers = {numbers.begin(), numbers.end()},
                            .target_weights = weights,
                            .target_weight = static_cast<double>(targets)};
  int64_t number = 0;
  return median_kernel_seconds([&] { return step.run_timed(batch, number++, 1e-4); });
}

// A device that compiles and plans and has no memory, so that a recipe of any size can be explained: an architecture in
// place of a device's number ("cuda:sm_90a"), or the likeness of a device that is here. It is the first rank's of the
// mesh's stage. `memory_limit` becomes what memory that has; 0 where nobody knows.
std::shared_ptr<Context> open_likeness(const std::string& specification, const std::string& architecture,
                                       const Mesh& mesh, int64_t stage, int64_t& memory_limit) {
  ContextOptions options{.mesh = mesh};
  if (mesh.stages() > 1) options.rank = static_cast<int>(stage * mesh.stage_axis()->stride);
  const size_t colon = specification.find(':');
  const bool here =
      colon == std::string::npos || specification.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  memory_limit = 0;
  if (!here) {
    const Target target = parse_target(specification);
    require_architecture(target, architecture, specification);
    return std::make_shared<Context>(std::make_shared<OfflineDevice>(target), options);
  }
  const std::shared_ptr<Device> device = open_device(specification, {}, architecture);
  memory_limit = device->memory_limit();
  return std::make_shared<Context>(std::make_shared<OfflineDevice>(device->target()), options);
}

// Those of one kind over one group together.
struct CollectiveTotal {
  int count = 0;
  int64_t sent_bytes = 0;
  int64_t received_bytes = 0;
};
std::map<std::string, CollectiveTotal> total_by_kind(Program& program) {
  std::map<std::string, CollectiveTotal> totals;
  for (const MessageReport& one : program.messages()) {
    CollectiveTotal& total = totals[fmt::format("{} stage {}", one.sends ? "send to" : "receive from", one.stage)];
    ++total.count;
    (one.sends ? total.sent_bytes : total.received_bytes) += one.bytes;
  }
  for (const CollectiveReport& one : program.collectives()) {
    CollectiveTotal& total = totals[fmt::format("{} over {}", collective_name(one.kind), one.group)];
    ++total.count;
    total.sent_bytes += one.sent_bytes;
    total.received_bytes += one.received_bytes;
  }
  return totals;
}

void print_collectives(const std::map<std::string, CollectiveTotal>& totals) {
  if (totals.empty()) return;
  output("\ncollectives of one rank\n  {:<32}{:>8}{:>18}{:>18}\n", "", "number", "bytes sent", "bytes received");
  for (const auto& [name, total] : totals)
    output("  {:<32}{:>8}{:>18}{:>18}\n", name, total.count, total.sent_bytes, total.received_bytes);
}

void print_memory(const StepCost& cost, const ProgramMemory& memory, int64_t memory_limit) {
  output(
      "\nmemory, to the byte\n  weights                 {:>16}\n  optimizer state         {:>16}\n"
      "  activations, workspace  {:>16}\n  batch and results       {:>16}\n  peak                    {:>16}  ({})\n",
      cost.parameter_bytes, cost.optimizer_bytes, cost.arena_bytes + cost.scratch_bytes, cost.batch_bytes,
      cost.total_bytes(), format_bytes(cost.total_bytes()));
  if (cost.host_bytes() > 0)
    output("  optimizer, on the host  {:>16}\n  activations, there      {:>16}\n", cost.host_optimizer_bytes,
           cost.host_activation_bytes);
  if (memory_limit > 0)
    output("  the device has          {:>16}  ({}): {}\n", memory_limit, format_bytes(memory_limit),
           cost.total_bytes() > memory_limit ? "the step does not fit" : "the step fits");
  output("  largest buffers\n");
  for (const ProgramMemory::Item& item : memory.largest) output("  {:>16}  {}\n", item.bytes, item.name);
}

// Of a step that consumes that many tokens.
void print_flops(const FlopCount& flops, double tokens) {
  output(
      "\nFLOPs per token: {}{:.6g} (forward {:.6g}, backward {:.6g}; 2 per multiply-add of GEMMs, attention\n"
      "counted with the density of its mask: {})\n",
      flops.at_most ? "at most " : "", flops.total() / tokens, flops.forward / tokens, flops.backward / tokens,
      density_text(flops));
  if (flops.optimizer > 0)
    output("The optimizer's GEMMs, which these leave out: {:.4g} times as many.\n", flops.optimizer / flops.total());
}

// What the step costs, as an object of figures; of its kernels only their number.
nlohmann::ordered_json figures_of(const Recipe& recipe, const StepCost& cost, int64_t memory_limit, Program& program,
                                  const std::vector<PassRecord>& passes) {
  const double tokens = static_cast<double>(recipe.train.batch_size * recipe.data.sequence_length);
  size_t launches = 0;
  for (const KernelReport& report : program.kernel_reports()) launches += report.source ? 1 : 0;
  nlohmann::ordered_json json = {{"parameters", parameter_count(recipe.model)},
                                 {"active_parameters", active_parameter_count(recipe.model)},
                                 {"parameter_bytes", cost.parameter_bytes},
                                 {"optimizer_bytes", cost.optimizer_bytes},
                                 {"arena_bytes", cost.arena_bytes},
                                 {"scratch_bytes", cost.scratch_bytes},
                                 {"batch_bytes", cost.batch_bytes},
                                 {"peak_bytes", cost.total_bytes()},
                                 {"host_optimizer_bytes", cost.host_optimizer_bytes},
                                 {"host_activation_bytes", cost.host_activation_bytes},
                                 {"device_memory_bytes", nullptr},
                                 {"flops_per_token", cost.flops.total() / tokens},
                                 {"forward_flops_per_token", cost.flops.forward / tokens},
                                 {"optimizer_flops_per_token", cost.flops.optimizer / tokens},
                                 {"attention_density", cost.flops.density()},
                                 {"attention_density_is_at_most", cost.flops.at_most},
                                 {"kernels", program.sources().size()},
                                 {"launches", launches},
                                 {"collectives", nlohmann::ordered_json::array()}};
  for (const auto& [name, total] : total_by_kind(program))
    json["collectives"].push_back({{"name", name},
                                   {"number", total.count},
                                   {"sent_bytes", total.sent_bytes},
                                   {"received_bytes", total.received_bytes}});
  if (memory_limit > 0) json["device_memory_bytes"] = memory_limit;
  for (const PassRecord& record : passes)
    json["passes"].push_back({{"name", record.name},
                              {"nodes_before", record.nodes_before},
                              {"nodes_after", record.nodes_after},
                              {"milliseconds", record.milliseconds}});
  for (const ProgramMemory::Item& item : program.memory().largest)
    json["largest_buffers"].push_back({{"name", item.name}, {"bytes", item.bytes}});
  return json;
}

// Of the stage whose program is explained.
void print_pipeline(const Recipe& recipe, int64_t stage) {
  if (recipe.mesh.pp == 1) return;
  output("pipeline: stage {} of {}, schedule {}, {} micro-batches; a stage waits for about {:.0f} % of a step\n", stage,
         recipe.mesh.pp, recipe.train.pipeline_schedule, recipe.micro_batches(), 100 * pipeline_bubble(recipe));
}

// What one more token of each sequence costs, half a longest sequence behind its beginning.
void explain_generation(const ExplainCommandOptions& options, const Recipe& recipe,
                        const std::shared_ptr<Context>& context) {
  NewWeights weights = new_weights(recipe, options.time ? std::optional<uint64_t>(1) : std::nullopt);
  weights.storage = WeightStorage::kElements;
  const std::unique_ptr<LanguageModel> model =
      LanguageModel::create(recipe.model, ModelPart(recipe.model.layers), weights);
  require_targets(*model);
  if (options.time) initialize_adapters(*model, 1);
  const int64_t length = std::max<int64_t>(recipe.model.max_sequence_length / 2, 1);
  CachedForward forward(*model, pipeline_options(recipe), options.generate, length, recipe.model.vocabulary_size,
                        std::make_shared<CastTensors>());
  const Program& program = forward.program(length);
  const int64_t parameters = parameter_count(recipe.model), active = active_parameter_count(recipe.model);
  output("parameters: {}{}\nKV cache: {}, of {} tokens of {} sequences{}\n",
         format_count(static_cast<double>(parameters)),
         active == parameters ? "" : fmt::format(", {} of them active", format_count(static_cast<double>(active))),
         format_bytes(forward.cache_bytes()), forward.capacity(), options.generate,
         forward.ring() > 0 ? fmt::format(", in layers with windows the last {}", forward.ring()) : "");
  print_program(program, context->device().target(), options.detail);
  if (options.resources) print_resources(program, context->library());
  if (options.time)
    print_kernel_times(
        kernel_times(program, context->device(), median_kernel_seconds([&] { return forward.kernel_seconds(length); }),
                     forward.sizes(length)),
        "one token");
}

void run_explain(const ExplainCommandOptions& options) {
  const Recipe recipe = load_recipe_argument(options.recipe, options.overrides);
  std::optional<uint64_t> seed;
  int64_t memory_limit = 0;
  std::shared_ptr<Context> context;
  if (options.time) {
    if (!make_mesh(recipe.mesh).empty())
      throw Error(ErrorKind::kUnsupported, "kernels are timed on one device, and the recipe has several ranks", "mesh",
                  "Leave out --time, or set the mesh's axes to 1.");
    context = Context::open(recipe.device, {}, recipe.device_architecture);
    context->device().limit_memory(recipe.device_memory_limit);
    memory_limit = context->device().memory_limit();
    seed = static_cast<uint64_t>(recipe.train.seed);
  } else {
    if (options.stage < 0 || options.stage >= recipe.mesh.pp)
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("there is no stage {}: the recipe has {}", options.stage, recipe.mesh.pp), "--stage",
                  "Stages count from 0; mesh.pp says how many there are.");
    context =
        open_likeness(recipe.device, recipe.device_architecture, make_mesh(recipe.mesh), options.stage, memory_limit);
    // The likeness holds no more than the device would.
    context->device().limit_memory(recipe.device_memory_limit);
    if (recipe.device_memory_limit > 0)
      memory_limit = memory_limit > 0 ? std::min(memory_limit, recipe.device_memory_limit) : recipe.device_memory_limit;
  }
  const ContextScope scope(context);
  if (options.time) require_memory_for_weights(context->device(), recipe);
  if (options.generate > 0 && !context->mesh().empty())
    throw Error(ErrorKind::kUnsupported, "text is generated on one device, and the recipe has several ranks", "mesh",
                "Leave out --generate, or set the mesh's axes to 1.");
  if (options.generate > 0) return explain_generation(options, recipe, context);
  require_trained_first_piece(recipe);
  const std::unique_ptr<LanguageModel> model =
      LanguageModel::create(recipe.model, own_part(recipe), new_weights(recipe, seed));
  require_targets(*model);
  if (seed) initialize_adapters(*model, *seed);
  TrainingStep step(*model, recipe);
  PipelineTrace trace;
  trace.with_text = options.passes;
  step.main_step().record_passes(&trace);
  step.fit_memory(memory_limit);
  if (step.memory_choice() != memory_choice_of(recipe, context->device().target())) {
    trace.records.clear();
    step.main_step().record_passes(&trace);
  }
  Program& program = step.main_step().prepare(step.main_arguments());
  step.main_step().record_passes(nullptr);
  const StepCost cost = step.cost();
  const ProgramMemory memory = program.memory();
  const double tokens = static_cast<double>(recipe.train.batch_size * recipe.data.sequence_length);
  const std::map<std::string, CollectiveTotal> exchanged = total_by_kind(program);

  if (options.json) {
    nlohmann::ordered_json json = figures_of(recipe, cost, memory_limit, program, trace.records);
    json["recompute"] = recompute_policy_name(step.recomputation().policy);
    json["recompute_layers"] = step.recomputation().blocks;
    json["offloads_optimizer"] = step.memory_choice().offloads_optimizer;
    json["offloads_activations"] = step.memory_choice().offloads_activations;
    if (options.resources) add_resources(program, context->library(), json);
    if (options.time)
      json["time"] = kernel_times_json(kernel_times(program, context->device(), step_seconds(step, recipe)));
    output_json(json);
    return;
  }
  if (options.graph) output("graph as traced\n{}\n", print_graph(step.main_step().traced_graph(step.main_arguments())));
  print_pipeline(recipe, options.stage);
  output("parameters: {} ({})\n", parameter_count(recipe.model),
         format_count(static_cast<double>(parameter_count(recipe.model))));
  if (const int64_t active = active_parameter_count(recipe.model); active != parameter_count(recipe.model))
    output("active parameters: {} ({}): those that a token meets\n", active, format_count(static_cast<double>(active)));
  if (const std::string adapters = describe_adapters(*model); !adapters.empty()) output("adapters: {}\n", adapters);
  output("recomputation: {}{}\n", recomputation_text(step.recomputation(), recipe),
         !recipe.train.recompute ? ", chosen by auto" : "");
  if (const std::string moved = offload_text(step.memory_choice()); !moved.empty()) output("offload: {}\n", moved);
  output("\npasses\n");
  for (const PassRecord& record : trace.records) {
    output("  {:<32}{:>7} -> {:<7} nodes  {:>8.1f} ms{}\n", record.name, record.nodes_before, record.nodes_after,
           record.milliseconds, record.nodes_before == record.nodes_after ? "  (same number)" : "");
    if (options.passes) output("{}\n", record.text);
  }
  print_program(program, context->device().target(), options.detail);
  if (options.resources) print_resources(program, context->library());
  if (options.time)
    print_kernel_times(kernel_times(program, context->device(), step_seconds(step, recipe)), "one step");
  print_collectives(exchanged);
  print_memory(cost, memory, memory_limit);
  print_flops(cost.flops, tokens);
}

}  // namespace

void add_explain_command(CLI::App& program) {
  auto options = std::make_shared<ExplainCommandOptions>();
  CLI::App* command =
      program.add_subcommand("explain", "Show what a recipe becomes: graph, passes, program, kernels, memory, FLOPs");
  command
      ->add_option("recipe", options->recipe,
                   "The recipe: a YAML file, or the name of one that the program brings along")
      ->required();
  command->add_option("overrides", options->overrides, "Recipe keys to change, as key=value");
  CLI::Option* const graph = command->add_flag("--graph", options->graph, "Print the traced graph");
  CLI::Option* const passes = command->add_flag("--passes", options->passes, "Print the graph after every pass");
  command->add_flag("--program", options->detail.program, "Print every launch");
  command->add_flag("--kernels", options->detail.kernels, "Print the kernels' C++ text");
  command->add_flag("--assembly", options->detail.assembly, "Print the kernels' assembly");
  command->add_flag("--resources", options->resources, "Print the registers and shared memory of a GPU's kernels");
  command->add_option("--stage", options->stage, "Of a recipe with mesh.pp, the stage that is shown, from 0")
      ->capture_default_str();
  command->add_flag("--time", options->time, "Run a few steps on random tokens and print each kernel's time");
  CLI::Option* const json = command->add_flag("--json", options->json, "Print the figures as JSON");
  command
      ->add_option("--generate", options->generate,
                   "In place of a training step: a token of each of so many sequences, as `causeway generate` does")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->excludes(graph, passes, json);
  command->footer(
      "Example: causeway explain recipes/shakespeare.yaml --kernels\n"
      "Hardware that is not here: causeway explain recipes/gpt2_124m.yaml device=cuda:sm_90a --resources");
  command->callback([options] { run_explain(*options); });
}

}  // namespace causeway::cli
