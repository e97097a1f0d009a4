#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/json_output.h"
#include "causeway/train/checkpoint/checkpoint.h"
#include "causeway/train/log/progress_line.h"

namespace causeway::cli {
namespace {

// The checkpoints meant by a path: itself, or all of a run.
std::vector<std::filesystem::path> checkpoints_at(const std::filesystem::path& path) {
  if (std::filesystem::exists(path / kManifestName)) return {path};
  std::vector<std::filesystem::path> found;
  for (const CheckpointEntry& entry : list_checkpoints(path)) found.push_back(entry.directory);
  if (found.empty())
    throw Error(ErrorKind::kNotFound, "holds no checkpoint", path.string(),
                "Give a run directory (runs/NAME) or a checkpoint in it.");
  return found;
}

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

void inspect(const std::string& path, bool as_json, bool tensors) {
  const CheckpointReader checkpoint(checkpoints_at(path).back());
  const CheckpointState& state = checkpoint.state();
  uint64_t bytes = 0;
  for (const CheckpointFile& file : checkpoint.manifest().files) bytes += file.bytes;
  if (as_json) {
    nlohmann::ordered_json json = {{"directory", checkpoint.directory().string()},
                                   {"step", state.step},
                                   {"bytes", bytes},
                                   {"model", state.model},
                                   {"optimizer", state.optimizer},
                                   {"data", state.data},
                                   {"schedule", state.schedule}};
    for (const std::string& name : checkpoint.names()) {
      const CheckpointTensor& tensor = checkpoint.tensor(name);
      json["tensors"][name] = {{"dtype", dtype_name(tensor.dtype)}, {"shape", tensor.shape}};
    }
    output_json(json);
    return;
  }
  output("{}\nstep        {}\nsize        {} in {} files, {} tensors\nmodel       {}\noptimizer   {}\ndata        {}\n",
         checkpoint.directory().string(), state.step, format_bytes(bytes), checkpoint.manifest().files.size(),
         checkpoint.names().size(), state.model.dump(), state.optimizer, state.data.dump());
  if (!tensors) return;
  for (const std::string& name : checkpoint.names()) {
    const CheckpointTensor& tensor = checkpoint.tensor(name);
    output("  {:<6}{:<20}{}\n", dtype_name(tensor.dtype), shape_text(tensor.shape), name);
  }
}

void verify(const std::string& path, bool as_json) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const std::filesystem::path& directory : checkpoints_at(path)) {
    const std::vector<CheckpointProblem> problems = verify_checkpoint(directory);
    nlohmann::ordered_json entry = {
        {"directory", directory.string()}, {"intact", problems.empty()}, {"problems", nlohmann::json::array()}};
    for (const CheckpointProblem& problem : problems) entry["problems"].push_back(problem.describe());
    json.push_back(entry);
    if (!problems.empty()) command_status = 1;
    if (as_json) continue;
    output("{}: {}\n", directory.string(), problems.empty() ? "intact" : "damaged");
    for (const CheckpointProblem& problem : problems) output("  {}\n", problem.describe());
  }
  if (as_json) output_json(json);
}

}  // namespace

void add_checkpoint_command(CLI::App& program) {
  CLI::App* checkpoint = program.add_subcommand("checkpoint", "Inspect and verify checkpoints");
  checkpoint->require_subcommand(1);
  auto path = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  auto tensors = std::make_shared<bool>(false);

  CLI::App* inspect_command = checkpoint->add_subcommand("inspect", "Show what a checkpoint holds");
  inspect_command->add_option("path", *path, "A checkpoint, or a run directory (its newest)")->required();
  inspect_command->add_flag("--tensors", *tensors, "List every tensor");
  inspect_command->add_flag("--json", *as_json, "Print as JSON");
  inspect_command->footer("Example: causeway checkpoint inspect runs/shakespeare");
  inspect_command->callback([=] { inspect(*path, *as_json, *tensors); });

  CLI::App* verify_command =
      checkpoint->add_subcommand("verify", "Check every byte; exits with 1 when something is damaged");
  verify_command->add_option("path", *path, "A checkpoint, or a run directory (all of its checkpoints)")->required();
  verify_command->add_flag("--json", *as_json, "Print as JSON");
  verify_command->footer("Example: causeway checkpoint verify runs/shakespeare");
  verify_command->callback([=] { verify(*path, *as_json); });
}

}  // namespace causeway::cli
