#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "causeway/base/console.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/explain_resources.h"
#include "causeway/cli/json_output.h"
#include "causeway/cli/recipe_argument.h"
#include "causeway/codegen/compile/compiler.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/device/open_device.h"
#include "causeway/graph/printer.h"
#include "causeway/train/log/progress_line.h"
#include "causeway/train/step/training_step.h"

namespace causeway::cli {
namespace {

struct Options {
  std::string recipe;
  std::vector<std::string> overrides;
  bool graph = false;
  bool passes = false;
  bool program = false;
  bool kernels = false;
  bool assembly = false;
  bool resources = false;
  bool time = false;
  bool json = false;
  int64_t stage = 0;
};

// Median seconds of each kernel over a few steps on random tokens.
std::vector<double> kernel_seconds(TrainingStep& step, const Recipe& recipe) {
  constexpr int kSteps = 5;
  std::mt19937 random(1);
  std::vector<int32_t> tokens(static_cast<size_t>(recipe.train.batch_size * recipe.data.sequence_length));
  for (int32_t& token : tokens)
    token = static_cast<int32_t>(random() % static_cast<uint32_t>(recipe.model.vocabulary_size));
  const std::vector<int32_t> documents(recipe.data.masks_documents() ? tokens.size() : 0);
  const TrainingBatch batch{tokens, tokens, documents, static_cast<int64_t>(tokens.size())};
  std::vector<std::vector<double>> samples;
  for (int i = 0; i <= kSteps; ++i) {
    const std::vector<double> seconds = step.run_timed(batch, i, 1e-4);
    samples.resize(seconds.size());
    // The first run touches memory for the first time.
    for (size_t k = 0; k < seconds.size() && i > 0; ++k) samples[k].push_back(seconds[k]);
  }
  std::vector<double> medians;
  for (std::vector<double>& kernel : samples) {
    std::nth_element(kernel.begin(), kernel.begin() + kSteps / 2, kernel.end());
    medians.push_back(kernel[kSteps / 2]);
  }
  return medians;
}

// "kernel 12"; of a collective, which has no text, "exchange".
std::string name_of(const Program::KernelReport& report) {
  return report.source ? fmt::format("kernel {}", *report.source) : "exchange";
}

void print_times(const std::vector<Program::KernelReport>& reports, const std::vector<double>& seconds) {
  struct Total {
    double seconds = 0;
    int launches = 0;
    const Program::KernelReport* example = nullptr;
  };
  std::map<std::string, Total> by_source;
  double all = 0;
  for (size_t i = 0; i < reports.size(); ++i) {
    Total& total = by_source[name_of(reports[i])];
    total.seconds += seconds[i];
    total.launches += 1;
    total.example = &reports[i];
    all += seconds[i];
  }
  std::vector<std::pair<std::string, Total>> ordered(by_source.begin(), by_source.end());
  std::sort(ordered.begin(), ordered.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  output("\ntime of one step: {:.1f} ms in kernels (medians)\n", all * 1e3);
  for (const auto& [name, total] : ordered)
    output("  {:>5.1f} %  {:>9.2f} ms  {:>4} x {:<11}{:<20}{}\n", 100 * total.seconds / all, total.seconds * 1e3,
           total.launches, name, total.example->kind, total.example->members);
}

// A device that compiles and plans and has no memory, so that a recipe of any size can be explained: an architecture in
// place of a device's number ("cuda:sm_90a"), or the likeness of a device that is here. It is the first rank's of the
// mesh's stage. `memory_limit` becomes what memory that has; 0 where nobody knows.
std::shared_ptr<Context> open_likeness(const std::string& specification, const Mesh& mesh, int64_t stage,
                                       int64_t& memory_limit) {
  ContextOptions options{.mesh = mesh};
  if (mesh.stages() > 1) options.rank = static_cast<int>(stage * mesh.stage_axis()->stride);
  const size_t colon = specification.find(':');
  const bool here =
      colon == std::string::npos || specification.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  memory_limit = 0;
  if (!here) return std::make_shared<Context>(std::make_shared<OfflineDevice>(parse_target(specification)), options);
  const std::shared_ptr<Device> device = open_device(specification);
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
  for (const Program::MessageReport& one : program.messages()) {
    CollectiveTotal& total = totals[fmt::format("{} stage {}", one.sends ? "send to" : "receive from", one.stage)];
    ++total.count;
    (one.sends ? total.sent_bytes : total.received_bytes) += one.bytes;
  }
  for (const Program::CollectiveReport& one : program.collectives()) {
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
      cost.total_bytes(), format_bytes(static_cast<uint64_t>(cost.total_bytes())));
  if (memory_limit > 0)
    output("  the device has          {:>16}  ({}): {}\n", memory_limit,
           format_bytes(static_cast<uint64_t>(memory_limit)),
           cost.total_bytes() > memory_limit ? "the step does not fit" : "the step fits");
  output("  largest buffers\n");
  for (const ProgramMemory::Item& item : memory.largest) output("  {:>16}  {}\n", item.bytes, item.name);
}

// Of a step that consumes that many tokens.
void print_flops(const FlopCount& flops, double tokens) {
  output(
      "\nFLOPs per token: {}{:.6g} (forward {:.6g}, backward {:.6g}; 2 per multiply-add of matrix products, attention\n"
      "counted with the density of its mask: {})\n",
      flops.at_most ? "at most " : "", flops.total() / tokens, flops.forward / tokens, flops.backward / tokens,
      density_text(flops));
}

// What the step costs, as an object of figures; of its kernels only their number.
nlohmann::ordered_json figures_of(const Recipe& recipe, const StepCost& cost, int64_t memory_limit, Program& program,
                                  const std::vector<PassRecord>& passes) {
  const double tokens = static_cast<double>(recipe.train.batch_size * recipe.data.sequence_length);
  size_t launches = 0;
  for (const Program::KernelReport& report : program.kernel_reports()) launches += report.source ? 1 : 0;
  nlohmann::ordered_json json = {{"parameters", parameter_count(recipe.model)},
                                 {"parameter_bytes", cost.parameter_bytes},
                                 {"optimizer_bytes", cost.optimizer_bytes},
                                 {"arena_bytes", cost.arena_bytes},
                                 {"scratch_bytes", cost.scratch_bytes},
                                 {"batch_bytes", cost.batch_bytes},
                                 {"peak_bytes", cost.total_bytes()},
                                 {"device_memory_bytes", nullptr},
                                 {"flops_per_token", cost.flops.total() / tokens},
                                 {"forward_flops_per_token", cost.flops.forward / tokens},
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

void run(const Options& options) {
  const Recipe recipe = load_recipe_argument(options.recipe, options.overrides);
  std::optional<uint64_t> seed;
  int64_t memory_limit = 0;
  std::shared_ptr<Context> context;
  if (options.time) {
    if (!make_mesh(recipe.mesh).empty())
      throw Error(ErrorKind::kUnsupported, "kernels are timed on one device, and the recipe has several ranks", "mesh",
                  "Leave out --time, or set the mesh's axes to 1.");
    context = Context::open(recipe.device);
    memory_limit = context->device().memory_limit();
    require_memory_for_weights(context->device(), recipe);
    seed = static_cast<uint64_t>(recipe.train.seed);
  } else {
    if (options.stage < 0 || options.stage >= recipe.mesh.pp)
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("there is no stage {}: the recipe has {}", options.stage, recipe.mesh.pp), "--stage",
                  "Stages count from 0; mesh.pp says how many there are.");
    context = open_likeness(recipe.device, make_mesh(recipe.mesh), options.stage, memory_limit);
  }
  const ContextScope scope(context);
  const std::unique_ptr<LanguageModel> model = LanguageModel::create(recipe.model, own_part(recipe), seed);
  TrainingStep step(*model, recipe);
  PipelineTrace trace;
  trace.with_text = options.passes;
  step.main_step().record_passes(&trace);
  Program& program = step.main_step().prepare(step.main_arguments());
  step.main_step().record_passes(nullptr);
  const StepCost cost = step.cost();
  const ProgramMemory memory = program.memory();
  const double tokens = static_cast<double>(recipe.train.batch_size * recipe.data.sequence_length);
  const std::vector<Program::KernelReport> reports = program.kernel_reports();
  const std::map<std::string, CollectiveTotal> exchanged = total_by_kind(program);
  size_t launches = 0;
  for (const Program::KernelReport& report : reports) launches += report.source ? 1 : 0;

  if (options.json) {
    nlohmann::ordered_json json = figures_of(recipe, cost, memory_limit, program, trace.records);
    if (options.resources) add_resources(program, context->library(), json);
    output_json(json);
    return;
  }
  if (options.graph) output("graph as traced\n{}\n", print_graph(step.main_step().traced_graph(step.main_arguments())));
  print_pipeline(recipe, options.stage);
  output("parameters: {} ({})\n\npasses\n", parameter_count(recipe.model),
         format_count(static_cast<double>(parameter_count(recipe.model))));
  for (const PassRecord& record : trace.records) {
    output("  {:<32}{:>7} -> {:<7} nodes  {:>8.1f} ms{}\n", record.name, record.nodes_before, record.nodes_after,
           record.milliseconds, record.nodes_before == record.nodes_after ? "  (same number)" : "");
    if (options.passes) output("{}\n", record.text);
  }
  std::map<std::string, int> kinds;
  for (const Program::KernelReport& report : reports) ++kinds[report.kind];
  output("\nprogram: {} launches of {} distinct kernels\n", launches, program.sources().size());
  for (const auto& [kind, count] : kinds) output("  {:<24}{}\n", kind, count);
  if (options.program)
    for (size_t i = 0; i < reports.size(); ++i)
      output("  {:>4}  {:<11}{:<20}{:<32}{}\n", i, name_of(reports[i]), reports[i].kind, reports[i].scope,
             reports[i].members);
  if (options.kernels || options.assembly)
    for (size_t i = 0; i < program.sources().size(); ++i)
      output("\n--- kernel {} ---\n{}", i,
             options.assembly ? compile_to_assembly(program.sources()[i], context->device().target())
                              : program.sources()[i]);
  if (options.resources) print_resources(program, context->library());
  if (options.time) print_times(reports, kernel_seconds(step, recipe));
  print_collectives(exchanged);
  print_memory(cost, memory, memory_limit);
  print_flops(cost.flops, tokens);
}

}  // namespace

void add_explain_command(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("explain", "Show what a recipe becomes: graph, passes, program, kernels, memory, FLOPs");
  command
      ->add_option("recipe", options->recipe,
                   "The recipe: a YAML file, or the name of one that the program brings along")
      ->required();
  command->add_option("overrides", options->overrides, "Recipe keys to change, as key=value");
  command->add_flag("--graph", options->graph, "Print the traced graph");
  command->add_flag("--passes", options->passes, "Print the graph after every pass");
  command->add_flag("--program", options->program, "Print every launch");
  command->add_flag("--kernels", options->kernels, "Print the kernels' C++ text");
  command->add_flag("--assembly", options->assembly, "Print the kernels' assembly");
  command->add_flag("--resources", options->resources, "Print the registers and shared memory of a GPU's kernels");
  command->add_option("--stage", options->stage, "Of a recipe with mesh.pp, the stage that is shown, from 0")
      ->capture_default_str();
  command->add_flag("--time", options->time, "Run a few steps on random tokens and print each kernel's time");
  command->add_flag("--json", options->json, "Print the figures as JSON");
  command->footer(
      "Example: causeway explain recipes/shakespeare.yaml --kernels\n"
      "Hardware that is not here: causeway explain recipes/gpt2_124m.yaml device=cuda:sm_90a --resources");
  command->callback([options] { run(*options); });
}

}  // namespace causeway::cli
