// A training run, from a recipe to the last checkpoint.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "causeway/train/recipe.h"

namespace causeway {

enum class ResumeMode {
  kFresh,  // a run directory that holds a checkpoint is an error
  kAuto,   // continue from the newest checkpoint when there is one
};

struct TrainOptions {
  ResumeMode resume = ResumeMode::kFresh;
  bool quiet = false;  // no progress line and no sample on standard output
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
// directory: recipe.yaml (resolved), metrics.jsonl, TensorBoard events, checkpoints.
// Throws Error for bad recipes, data and checkpoints, and for a loss that is not finite under the policy "stop".
TrainResult train(const Recipe& recipe, const TrainOptions& options);

}  // namespace causeway
