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
  bool quiet = false;         // no progress line and no sample on standard error
  bool watch_signals = true;  // at most one run of a process does
  std::string version = {};   // of the program; ranks of different ones are refused
};

struct TrainResult {
  int64_t step = 0;                       // steps completed, over all resumed parts
  double last_loss = 0;                   // of the last step
  std::optional<double> validation_loss;  // nats per token; of preference pairs, per pair
  std::filesystem::path checkpoint;       // the last one committed, or that the run went on from; empty: none
  bool interrupted = false;               // a signal ended the run early
  int64_t skipped_steps = 0;
  int64_t total_steps = 0;  // of the whole run: train.steps, or what train.epochs comes to
  int rank = 0;             // of this process; all ranks have the same result
};

// Trains until train.steps, or until a signal asks to stop, and commits a checkpoint either way, but where the signal
// comes before the first step. Writes to the run directory, which it owns meanwhile (RunLock): recipe.yaml (resolved),
// metrics.jsonl, TensorBoard events, checkpoints. Logs, samples and evaluations that fail are said once and end
// nothing. Throws Error for bad recipes, data and checkpoints, for a run directory that another run owns, for a loss
// that is not finite under the policy "stop", for data that changed under the run, and when memory runs out or the last
// checkpoint cannot be written. What could be saved then has been, and the error says so.
//
// Where the recipe has a mesh, this process is one of as many as the mesh has ranks, which MPI started. The first rank
// prints, logs and owns the run directory; an error of all is thrown there, and on other ranks SaidElsewhere.
// Ranks that differ in program version, recipe or compiled program are such an error, before the first step. When a
// rank fails on its own, is killed or hangs, all processes end within ten seconds with one message
// (communicator/control_plane.h).
TrainResult train(const Recipe& recipe, const TrainOptions& options);

// One rank's part of that, in the thread's current context, whose mesh is the recipe's. Every rank throws what all do.
TrainResult train_in_context(const Recipe& recipe, const TrainOptions& options);

}  // namespace causeway::train
