// Which checkpoint a run goes on from.
#pragma once

#include <optional>
#include <string>

#include "causeway/train/checkpoint/resume_choice.h"
#include "causeway/train/checkpoint/run_checkpoint.h"

namespace causeway::train {

struct Resumed {
  RunPosition position;
  std::filesystem::path checkpoint;
  Recipe recipe;  // that the checkpoint was trained with
};

// Finds the checkpoint, without reading its tensors: the candidates, best first. Throws Error when the choice cannot be
// met: a fresh run in a used directory, a step that was not saved (naming those that were), a path without a
// checkpoint.
std::vector<CheckpointEntry> resume_candidates(const std::filesystem::path& run_directory, const ResumeChoice& choice);

// The same on every rank: what the first one finds.
std::vector<CheckpointEntry> resume_candidates_of_first(const Ranks& ranks, const std::filesystem::path& run_directory,
                                                        const ResumeChoice& choice);

// Restores the first candidate that is whole (on every rank what it is to hold); nothing when there are none. A damaged
// one is passed over with a warning that says what is damaged. Throws Error when all are damaged (never starting afresh
// over them), and for a checkpoint that is whole and does not fit the run.
std::optional<Resumed> resume_run(const std::vector<CheckpointEntry>& candidates, const RunParts& run);

}  // namespace causeway::train
