#include "causeway/train/log/announcement.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "causeway/base/byte_size.h"
#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/log.h"
#include "causeway/model/experts.h"
#include "causeway/model/hugging_face.h"
#include "causeway/optimizer/optimizer.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/grpo/sampling_memory.h"
#include "causeway/train/log/progress_line.h"
#include "causeway/train/step/recomputation.h"
#include "causeway/train/step/uncut_weights.h"

namespace causeway::train {
namespace {

// Of this process, 0 when the system does not say.
int64_t resident_bytes() {
  try {
    const std::string text = read_text_file("/proc/self/statm");
    return std::stoll(text.substr(text.find(' ') + 1)) * ::sysconf(_SC_PAGESIZE);
  } catch (const std::exception&) {
    return 0;
  }
}

// How much of a piece of the process's memory is not there yet: large zeroed memory comes with its first use.
int64_t absent_bytes(const Tensor& tensor) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(tensor.buffer().data());
  const uintptr_t begin = (address + page - 1) / page * page, end = (address + tensor.buffer().bytes) / page * page;
  if (begin >= end) return 0;
  std::vector<unsigned char> present((end - begin) / page);
  if (::mincore(reinterpret_cast<void*>(begin), end - begin, present.data()) != 0) return 0;
  return static_cast<int64_t>(page) *
         std::count_if(present.begin(), present.end(), [](unsigned char bits) { return (bits & 1) == 0; });
}

int64_t absent_state_bytes(const TrainingStep& step) {
  int64_t bytes = 0;
  for (const TrainingStep::StateTensor& state : step.optimizer_state()) bytes += absent_bytes(state.tensor);
  return bytes;
}

// "in all" is what will be held. Where buffers are in the process's memory, that is what it holds by now, the compiler
// included, with the arena and the part of the optimizer's state that are not there yet; otherwise it is the device's
// memory, and the process's own is another matter.
std::string memory_text(const TrainingStep& step, const StepCost& cost) {
  const Device& device = step.context().device();
  const bool apart = device.target().has_own_memory();
  const int64_t in_all =
      apart ? cost.total_bytes() : resident_bytes() + cost.arena_bytes + cost.scratch_bytes + absent_state_bytes(step);
  std::string text =
      fmt::format("memory: {} weights, {} optimizer, {} activations and workspace; {} in all",
                  format_bytes(cost.parameter_bytes), format_bytes(cost.optimizer_bytes),
                  format_bytes(cost.arena_bytes + cost.scratch_bytes + cost.batch_bytes), format_bytes(in_all));
  text += apart ? fmt::format(" on the device, {} in its driver's units", format_bytes(cost.reserved_bytes))
                : " with the program itself";
  if (device.told_limit() > 0) text += fmt::format("; device_memory_limit is {}", exact_bytes(device.told_limit()));
  return text;
}

void announce_offload(const RunParts& run, const StepCost& cost) {
  const Recipe& recipe = run.recipe;
  if (!recipe.offload.is_used()) return;
  const Device& device = run.step.context().device();
  if (!device.target().has_own_memory())
    return notice("offload: nothing is moved, as the memory of {} is the host's\n", device.name());
  const MemoryChoice choice = run.step.memory_choice();
  std::vector<std::string> moved;
  if (choice.offloads_optimizer)
    moved.push_back(fmt::format("{} of the optimizer's state", format_bytes(cost.host_optimizer_bytes)));
  if (choice.offloads_activations)
    moved.push_back(fmt::format("{} of activations", format_bytes(cost.host_activation_bytes)));
  const bool is_auto = recipe.offload.optimizer == Offload::kAuto || recipe.offload.activations == Offload::kAuto;
  notice("offload: {}{}\n",
         moved.empty() ? "nothing is moved" : fmt::format("{} in the host's memory", fmt::join(moved, " and ")),
         is_auto ? ", chosen by auto" : "");
}

std::string axes_text(const Mesh& mesh) {
  std::string text;
  for (const MeshAxis& axis : mesh.axes)
    text += fmt::format("{}{} {}", text.empty() ? "" : " x ", axis.name, axis.size);
  return text;
}

void announce_checkpoints(const RunParts& run, const RunSaver& saver) {
  notice("checkpoints: {}; {} each, in {}\n", saver.describe_schedule(), format_bytes(checkpoint_bytes(run.recipe)),
         run.recipe.run_directory);
  std::error_code code;
  const std::filesystem::space_info space = std::filesystem::space(run.recipe.run_directory, code);
  if (!code && space.available < static_cast<uint64_t>(checkpoint_bytes(run.recipe)))
    notice("warning: its disk has only {} free\n", format_bytes(space.available));
}

void announce_changes(const RunParts& run, const Resumed& resumed) {
  notice("resuming from {} at step {}\n", resumed.checkpoint.string(), resumed.position.step);
  for (const RecipeDifference& difference : recipe_differences(resumed.recipe, with_absolute_base(run.recipe))) {
    if (difference.key == "name" || difference.key == "run_directory") continue;
    notice("changed since then: {} is {}, was {}\n", difference.key, difference.is, difference.was);
  }
}

void announce_model(const RunParts& run, const FlopsUtilization& utilization) {
  const StepCost cost = run.step.cost();
  const ParameterCounts parameters = parameter_counts(run.recipe.model);
  notice("{}: {} parameters{}, {} tokens of training text, {:.3g} GFLOP a step\n", run.recipe.name,
         format_count(static_cast<double>(parameters.all)),
         parameters.active == parameters.all
             ? ""
             : fmt::format(", {} of them active", format_count(static_cast<double>(parameters.active))),
         format_count(static_cast<double>(run.dataset.token_count())), cost.flops.total() / 1e9);
  if (const std::string adapters = describe_adapters(run.model); !adapters.empty())
    notice("adapters: {}; all else stays as it is in {}{}\n", adapters, run.recipe.model_from,
           expert_shape(run.recipe.model) ? ", the experts too, whose weights have no adapters yet" : "");
  const Device& device = run.step.context().device();
  notice("device: {} ({}){}\n", device.name(), device.target().text(),
         run.recipe.device == "auto" ? ", chosen by auto" : "");
  if (const Mesh& mesh = run.step.context().mesh(); !mesh.empty())
    notice("mesh: {} ranks ({}); memory is that of one\n", mesh.ranks(), axes_text(mesh));
  notice("{}\n", memory_text(run.step, cost));
  if (const std::string held = sampling_memory_text(sampling_memory(run.recipe, device.target())); !held.empty())
    notice("memory: sampling holds {} beside that\n", held);
  announce_offload(run, cost);
  if (!run.recipe.train.recompute && run.step.recomputation() != Recomputation{})
    notice("recomputation: {}, chosen by auto\n", recomputation_text(run.step.recomputation(), run.recipe));
  const double tokens_per_step = static_cast<double>(run.recipe.train.batch_size * run.recipe.data.sequence_length);
  for (const std::string& line : utilization.explanation(parameters, tokens_per_step)) notice("{}\n", line);
}

void announce_weights(const RunParts& run, const std::optional<Resumed>& resumed) {
  if (resumed) announce_changes(run, *resumed);
  if (resumed || run.recipe.model_from.empty()) return;
  notice("weights: those of {}\n", run.recipe.model_from);
  for (const std::string& note : notes_on(other_entries_of(run.recipe.model))) notice("note: {}\n", note);
}

void announce_uncut_weights(const RunParts& run) {
  for (const UncutWeights& uncut : uncut_weights(run.model.parameters(), run.step.context().mesh(), run.recipe))
    notice("memory: {}\n", uncut_weights_text(uncut));
}

void announce_data(const TrainingData& data, const Recipe& recipe) {
  for (const std::string& line : describe_sources(data, recipe)) notice("{}\n", line);
  if (const std::optional<std::string> warning = warning_of_documents(data)) log_warning("{}", *warning);
  for (const std::string& shard : data.dataset.left_out()) notice("data: left out {}\n", shard);
  for (const std::string& line : describe_pairs(data)) notice("{}\n", line);
  for (const std::string& line : describe_prompts(data, recipe)) notice("{}\n", line);
  for (const std::string& line : describe_packing(data, recipe)) notice("{}\n", line);
  for (const std::string& line : describe_targets(data)) notice("{}\n", line);
}

}  // namespace

void announce_run(const TrainingRun& run, const FlopsUtilization& utilization, const RunSaver& saver,
                  const RunObserver& observer) {
  announce_model(run.parts(), utilization);
  announce_checkpoints(run.parts(), saver);
  announce_weights(run.parts(), run.resumed());
  if (!run.tokenizer_note().empty()) notice("{}\n", run.tokenizer_note());
  announce_uncut_weights(run.parts());
  announce_data(run.data(), run.recipe());
  for (const std::string& line : observer.describe()) notice("{}\n", line);
}

}  // namespace causeway::train
