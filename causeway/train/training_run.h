// A training run made ready to take steps: its ranks, data and tokenizer, its directory, and its model with the
// optimizer's state, new or from a checkpoint.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "causeway/train/checkpoint/resume.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/checkpoint/run_lock.h"
#include "causeway/train/log/start_times.h"
#include "causeway/train/preference/reference_log_probabilities.h"
#include "causeway/train/ranks.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/recipe/schedule.h"
#include "causeway/train/trainer.h"
#include "causeway/train/training_data.h"

namespace causeway::train {

class TrainingRun {
 public:
  // In the thread's current context, whose mesh is the recipe's; over a mesh by every rank, and every rank throws what
  // one of them does. Throws Error: where ranks differ in version, recipe or data, where the run directory is another
  // run's or not shared, where the weights do not fit the device, and what opening the data, the model and the
  // checkpoint throws. The first rank owns the run directory from here on, and has written recipe.yaml (resolved)
  // there. `start` learns how long data, weights and checkpoint took.
  TrainingRun(const Recipe& recipe, const TrainOptions& options, StartTimes& start);
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  // Chooses what is computed again and compiles the step; before the first one. Throws Error where a step needs more
  // memory than the device has, naming the largest activations (kResource), and where ranks of one stage have compiled
  // different programs.
  void compile();

  const Ranks& ranks() const { return ranks_; }
  // Whether this rank says what the run does.
  bool speaks() const { return speaks_; }
  const Recipe& recipe() const { return recipe_; }  // with the steps that its epochs are
  const Schedule& schedule() const { return *schedule_; }
  const TrainingData& data() const { return *data_; }
  // That the data may not be of the tokenizer of the model that the run begins with; empty where there is nothing to
  // say.
  const std::string& tokenizer_note() const { return tokenizer_note_; }
  RunLock* lock() { return lock_ ? &*lock_ : nullptr; }  // null on ranks but the first
  LanguageModel& model() const { return *model_; }
  TrainingStep& step() const { return *step_; }
  const RunParts& parts() const { return *parts_; }
  // What preference pairs are compared with; null where the recipe's loss has no reference.
  const RunReference* reference() const { return reference_ ? &*reference_ : nullptr; }
  // The model with the weights that the run began with, where completions are compared with it and the model has no
  // adapters to be left out; null otherwise.
  const LanguageModel* reference_model() const { return reference_model_.get(); }
  // The checkpoint that the run goes on from; nothing where it is new.
  const std::optional<Resumed>& resumed() const { return resumed_; }
  // Where its first step begins.
  RunPosition first_position() const { return resumed_ ? resumed_->position : RunPosition(); }

 private:
  void open_data();
  void load_tokenizer();
  void own_directory();
  void make_model(const std::vector<CheckpointEntry>& candidates);
  void compute_reference(const std::string& of_recipe_and_data);
  // Gives the identity of its weights.
  std::string load_reference_model(const std::string& began_with);

  const Ranks ranks_;
  Recipe recipe_;
  const bool speaks_;
  std::optional<TrainingData> data_;
  std::optional<Schedule> schedule_;
  std::string tokenizer_note_;
  std::unique_ptr<Tokenizer> tokenizer_;  // null where the data names none or it cannot be read
  std::optional<RunLock> lock_;
  std::unique_ptr<LanguageModel> model_;
  std::optional<RunReference> reference_;
  std::unique_ptr<LanguageModel> reference_model_;
  std::unique_ptr<TrainingStep> step_;
  std::optional<RunParts> parts_;
  std::optional<Resumed> resumed_;
};

// A comment for a saved recipe: the device that "auto" chose, and what architecture a GPU's kernels are compiled for
// where the recipe does not say. Not the key's value, so that the recipe still runs elsewhere.
std::string device_comment(const Recipe& recipe, const Device& device);

}  // namespace causeway::train
