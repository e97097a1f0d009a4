#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "causeway/base/byte_size.h"
#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/cli/checkpoint_argument.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/json_output.h"
#include "causeway/train/checkpoint/checkpoint.h"

namespace causeway::cli {
namespace {

constexpr int kMostListings = 100;

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

void print_checkpoint(const CheckpointReader& checkpoint, bool as_json, bool tensors) {
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

void inspect_checkpoint(const std::string& path, bool as_json, bool tensors) {
  std::optional<CheckpointReader> opened;
  read_checkpoint(path, [&](const std::filesystem::path& checkpoint) { opened.emplace(checkpoint); });
  print_checkpoint(*opened, as_json, tensors);
}

// Nothing where the run that it belongs to deleted it meanwhile.
std::optional<std::vector<CheckpointProblem>> problems_of(const std::filesystem::path& checkpoint) {
  const DirectoryIdentity directory(checkpoint);
  std::vector<CheckpointProblem> problems = verify_checkpoint(checkpoint);
  if (!problems.empty() && !directory.is_in_place()) return {};
  return problems;
}

struct Verified {
  std::filesystem::path directory;
  std::optional<std::vector<CheckpointProblem>> problems;  // none: it was pruned meanwhile
  bool is_read() const { return problems.has_value(); }
};

// The checkpoint at the path, or all of a run. Where a run prunes them all meanwhile, those that it has by then.
std::vector<Verified> verify_all(const std::filesystem::path& path) {
  if (std::filesystem::exists(path / kManifestName)) return {{path, problems_of(path)}};
  std::vector<Verified> verified;
  for (int tries = 0; tries < kMostListings; ++tries) {
    if (tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    verified.clear();
    for (const CheckpointEntry& entry : list_checkpoints(path))
      verified.push_back({entry.directory, problems_of(entry.directory)});
    if (std::ranges::any_of(verified, &Verified::is_read)) return verified;
    if (verified.empty()) break;
  }
  if (verified.empty()) throw no_checkpoint_in(path);
  return verified;
}

void verify(const std::string& path, bool as_json) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  const std::vector<Verified> all = verify_all(path);
  for (const auto& [directory, problems] : all) {
    nlohmann::ordered_json entry = {{"directory", directory.string()},
                                    {"intact", nullptr},
                                    {"pruned", !problems},
                                    {"problems", nlohmann::json::array()}};
    if (problems) entry["intact"] = problems->empty();
    if (problems)
      for (const CheckpointProblem& problem : *problems) entry["problems"].push_back(problem.describe());
    json.push_back(entry);
    if (problems && !problems->empty()) command_status = 1;
    if (as_json) continue;
    output("{}: {}\n", directory.string(),
           !problems           ? "pruned meanwhile by the run it belonged to"
           : problems->empty() ? "intact"
                               : "damaged");
    if (problems)
      for (const CheckpointProblem& problem : *problems) output("  {}\n", problem.describe());
  }
  if (as_json) output_json(json);
  // Nobody knows whether what was asked for is whole.
  if (std::ranges::none_of(all, &Verified::is_read)) command_status = 1;
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
  inspect_command->callback([=] { inspect_checkpoint(*path, *as_json, *tensors); });

  CLI::App* verify_command =
      checkpoint->add_subcommand("verify", "Check every byte; exits with 1 when something is damaged");
  verify_command->add_option("path", *path, "A checkpoint, or a run directory (all of its checkpoints)")->required();
  verify_command->add_flag("--json", *as_json, "Print as JSON");
  verify_command->footer("Example: causeway checkpoint verify runs/shakespeare");
  verify_command->callback([=] { verify(*path, *as_json); });
}

}  // namespace causeway::cli
