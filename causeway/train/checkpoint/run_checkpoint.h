// What of a training run goes into a checkpoint, and back.
//
// Beside the tensors a checkpoint holds config.json (Hugging Face's) and the tokenizer's files, so that it is all that
// is needed to use the model: the directory may be moved or copied, and the dataset may be gone. Of a run that trains
// adapters it holds them alone, and the identity of their base.
//
// Over a mesh every rank makes the same calls, writes what it holds and reads what it is to hold, whatever mesh the
// checkpoint was saved on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "causeway/data/token_dataset.h"
#include "causeway/model/language_model.h"
#include "causeway/train/checkpoint/checkpoint.h"
#include "causeway/train/checkpoint/state_snapshot.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {

class ReferenceLogProbabilities;
struct RolloutState;

struct RunPosition {
  int64_t step = 0;           // optimizer steps completed
  uint64_t data_cursor = 0;   // samples consumed
  int64_t tokens = 0;         // in them; padding is none
  int64_t skipped_steps = 0;  // steps whose loss or gradient was not finite
  // Of a run with grpo.reward, where sampling is; null before its first step.
  std::shared_ptr<const RolloutState> rollouts = {};
};

// What a run is made of. All outlive it.
struct RunParts {
  const Recipe& recipe;
  const TokenDataset& dataset;
  const Tokenizer* tokenizer = nullptr;  // of the dataset, when it carries one
  LanguageModel& model;
  TrainingStep& step;
  // Of validation pairs, where the run's loss compares with a reference; null otherwise.
  const ReferenceLogProbabilities* validation_reference = nullptr;
  std::string base = {};  // of a run that trains adapters, the identity of their base (base_identity())
  // Of a run whose loss compares with a reference, the identity of the weights that it began with
  // (identity_of_weights()).
  std::string reference_weights = {};
};

// The tensors of which this rank writes its part, in the order in which a step updates them.
std::vector<Tensor> tensors_to_write(const RunParts& run);

// A checkpoint of the run as it stands, or with the weights and the optimizer's state as a snapshot of
// tensors_to_write() holds them. What is given outlives the writer.
CheckpointWriter checkpoint_of_run(const RunParts& run, const RunPosition& position, const CheckpointOptions& options,
                                   const Ranks& ranks, const StateSnapshot* snapshot = nullptr);

// Commits a checkpoint of the weights, the optimizer's state and the position; returns its directory. The caller owns
// the run (RunLock).
std::filesystem::path save_run(const RunParts& run, const RunPosition& position, const CheckpointOptions& options);

// Of the tensors of a checkpoint: weights and what the optimizer keeps, of the whole model.
int64_t checkpoint_bytes(const Recipe& recipe);

// Whether every value of the weights and of the optimizer's state is a finite number.
bool run_state_is_finite(const RunParts& run);

// Restores all that save_run() saved. Throws Error when the checkpoint is of another model, another dataset or another
// order of samples, or damaged; weights and state may then be partly overwritten.
RunPosition restore_run(const CheckpointReader& checkpoint, const RunParts& run);

// The recipe as checkpoints hold it: where adapters are trained, model.from as an absolute path, since a checkpoint
// without its base is of no use, and it is read from anywhere.
Recipe with_absolute_base(const Recipe& recipe);

// The recipe that a checkpoint was trained with.
Recipe checkpoint_recipe(const CheckpointReader& checkpoint);

// The model of a checkpoint with its weights, in the current context: of a run that trained adapters its base, which
// model.from names and the checkpoint does not hold, with the adapters. Throws Error as load_base_weights() does.
// Its matrices lie in `type`; nothing: as in training.
std::unique_ptr<LanguageModel> load_checkpoint_model(const CheckpointReader& checkpoint,
                                                     std::optional<DType> type = {});

// The identity of the base that the checkpoint's adapters belong to; empty where it has none.
std::string checkpoint_base(const CheckpointReader& checkpoint);

// The identity of the weights that the checkpoint's run compares with (RunParts::reference_weights); empty where its
// loss has no reference.
std::string checkpoint_reference(const CheckpointReader& checkpoint);

// Restores the weights alone, for generation and evaluation.
void restore_weights(const CheckpointReader& checkpoint, LanguageModel& model);

// The tokenizer that the model was trained with, from the checkpoint itself. Throws Error(kNotFound) when the dataset
// carried none.
std::unique_ptr<Tokenizer> checkpoint_tokenizer(const CheckpointReader& checkpoint);

}  // namespace causeway::train
