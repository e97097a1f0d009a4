// What of a training run goes into a checkpoint, and back.
#pragma once

#include <cstdint>
#include <filesystem>

#include "causeway/model/language_model.h"
#include "causeway/train/checkpoint.h"
#include "causeway/train/recipe.h"
#include "causeway/train/training_step.h"

namespace causeway {

struct RunPosition {
  int64_t step = 0;           // optimizer steps completed
  uint64_t data_cursor = 0;   // samples consumed
  int64_t skipped_steps = 0;  // steps whose loss or gradient was not finite
};

// Commits a checkpoint of the weights, the optimizer's state and the position; returns its directory.
std::filesystem::path save_run(const Recipe& recipe, const LanguageModel& model, const TrainingStep& step,
                               const RunPosition& position, const std::string& dataset_fingerprint,
                               const std::string& tokenizer_fingerprint);

// Restores all that save_run() saved. Throws Error when the checkpoint is of another model or another dataset, or
// damaged.
RunPosition restore_run(const CheckpointReader& checkpoint, LanguageModel& model, TrainingStep& step,
                        const std::string& dataset_fingerprint);

// Restores the weights alone, for generation and evaluation.
void restore_weights(const CheckpointReader& checkpoint, LanguageModel& model);

}  // namespace causeway
