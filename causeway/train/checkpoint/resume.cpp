#include "causeway/train/checkpoint/resume.h"

#include <algorithm>
#include <charconv>

#include "causeway/base/error.h"
#include "causeway/base/hash.h"
#include "causeway/base/log.h"
#include "causeway/train/ranks.h"

namespace causeway::train {
namespace {

namespace fs = std::filesystem;

std::optional<int64_t> parse_step(const std::string& text) {
  int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size() || step < 0) return std::nullopt;
  return step;
}

bool is_damage(ErrorKind kind) {
  return kind == ErrorKind::kCorrupt || kind == ErrorKind::kNotFound || kind == ErrorKind::kIo;
}

// Ranks whose directories are each a machine's own may hold checkpoints of one step and of two runs.
void require_same_checkpoint(const Ranks& ranks, const CheckpointReader& checkpoint) {
  if (ranks.count() == 1) return;
  ranks.require_equal(
      fmt::format("manifest {}", hash_text(format_manifest(checkpoint.manifest())).hex()),
      fmt::format("another checkpoint in {}", checkpoint.directory().string()),
      "Every rank must read the same files: put the run directory where all machines see it, and copy the "
      "checkpoint that is meant there.");
}

std::vector<CheckpointEntry> of_path(const fs::path& path) {
  if (fs::exists(path / kManifestName)) return {{CheckpointReader(path).state().step, path}};
  std::vector<CheckpointEntry> entries = list_checkpoints(path);
  if (entries.empty())
    throw Error(ErrorKind::kNotFound, "holds no checkpoint", path.string(),
                "Give a run directory (runs/NAME) or a checkpoint in it.");
  return {entries.back()};
}

}  // namespace

ResumeChoice parse_resume(const std::string& text) {
  if (text.empty()) return {};
  if (text == "auto") return {ResumeMode::kAuto, ""};
  std::error_code code;
  if (parse_step(text) || fs::exists(text, code)) return {ResumeMode::kFrom, text};
  throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is not a way to resume", text), "--resume",
              "Use --resume auto, --resume STEP (of a checkpoint of this run), or --resume PATH (of a checkpoint).");
}

std::vector<CheckpointEntry> resume_candidates(const fs::path& run_directory, const ResumeChoice& choice) {
  std::vector<CheckpointEntry> entries = list_checkpoints(run_directory);
  if (choice.mode == ResumeMode::kFresh) {
    if (entries.empty()) return {};
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("the run directory already holds a checkpoint of step {}", entries.back().step),
                run_directory.string(), "Continue it with --resume auto, or give another name or run_directory.");
  }
  std::ranges::reverse(entries);
  if (choice.mode == ResumeMode::kAuto) return entries;
  const std::optional<int64_t> step = parse_step(choice.from);
  if (!step) return of_path(choice.from);
  for (const CheckpointEntry& entry : entries)
    if (entry.step == *step) return {entry};
  std::vector<int64_t> steps;
  for (const CheckpointEntry& entry : entries) steps.push_back(entry.step);
  throw Error(ErrorKind::kNotFound, fmt::format("the run has no checkpoint of step {}", *step), run_directory.string(),
              steps.empty() ? "It has no checkpoint at all."
                            : fmt::format("It has checkpoints of the steps {}.", fmt::join(steps, ", ")));
}

std::vector<CheckpointEntry> resume_candidates_of_first(const Ranks& ranks, const fs::path& run_directory,
                                                        const ResumeChoice& choice) {
  std::vector<CheckpointEntry> candidates;
  ranks.on_first([&] { candidates = resume_candidates(run_directory, choice); });
  std::string text;  // a path holds any character but a null
  for (const CheckpointEntry& entry : candidates)
    text += fmt::format("{}{}{}{}", entry.step, '\0', entry.directory.string(), '\0');
  text = ranks.of_first(text);
  candidates.clear();
  for (size_t at = 0; at < text.size();) {
    const size_t step_end = text.find('\0', at), path_end = text.find('\0', step_end + 1);
    candidates.push_back(
        {std::stoll(text.substr(at, step_end - at)), text.substr(step_end + 1, path_end - step_end - 1)});
    at = path_end + 1;
  }
  return candidates;
}

std::optional<Resumed> resume_run(const std::vector<CheckpointEntry>& candidates, const RunParts& run) {
  std::optional<Error> first_damage;
  const Ranks ranks(run.step.context());
  for (const CheckpointEntry& entry : candidates) {
    try {
      std::optional<CheckpointReader> checkpoint;
      std::optional<Resumed> resumed;
      ranks.together([&] {
        checkpoint.emplace(entry.directory);
        require_step_of_its_name(*checkpoint, entry);
      });
      require_same_checkpoint(ranks, *checkpoint);
      ranks.together([&] {
        Recipe recipe = checkpoint_recipe(*checkpoint);
        resumed = Resumed{restore_run(*checkpoint, run), entry.directory, std::move(recipe)};
      });
      return resumed;
    } catch (const Error& error) {
      if (!is_damage(error.kind()) || candidates.size() == 1) throw;
      if (ranks.is_first())
        log_warning("{}: {}; it is passed over, and the run goes on from the checkpoint before it",
                    entry.directory.string(), error.message());
      if (!first_damage) first_damage = error;
    }
  }
  if (first_damage)
    throw Error(
        first_damage->kind(), first_damage->message(), first_damage->where(),
        "None of the run's checkpoints is whole: restore one from a copy, or start a new run with another name.");
  return std::nullopt;
}

}  // namespace causeway::train
