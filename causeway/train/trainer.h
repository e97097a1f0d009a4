// A training run, from a recipe to the last checkpoint.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "causeway/train/checkpoint/resume_choice.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {

struct TrainOptions {
  ResumeChoice resume;
  bool quiet = false;  // no progress line and no sample on standard error
};

struct TrainResult {
  int64_t step = 0;                       // steps completed, over all resumed parts
  double last_loss = 0;                   // of the last step
  std::optional<double> validation_loss;  // nats per token
  std::filesystem::path checkpoint;       // the last one committed
  bool interrupted = false;               // a signal ended the run early
  int64_t skipped_steps = 0;
};

// Trains until train.steps, or until a signal asks to stop, and commits a checkpoint either way. Writes to the run
// directory, which it owns meanwhile (RunLock): recipe.yaml (resolved), metrics.jsonl, TensorBoard events, checkpoints.
// Logs, samples and evaluations that fail are said once and end nothing.
// Throws Error for bad recipes, data and checkpoints, for a run directory that another run owns, for a loss that is not
// finite under the policy "stop", for data that changed under the run, and when memory runs out or the last checkpoint
// cannot be written. What could be saved then has been, and the error says so.
TrainResult train(const Recipe& recipe, const TrainOptions& options);

}  // namespace causeway::train
