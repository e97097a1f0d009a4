// Whether ranks that hold the same part of a weight or of optimizer state still hold the same bits: memory that flips a
// bit, a link that changes one, a kernel whose results differ from rank to rank leave no other trace until the loss
// goes wrong.
#pragma once

#include <cstdint>

#include "causeway/model/language_model.h"
#include "causeway/train/ranks.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {

// Thrown on every rank. The weights are not to be trusted, and not to be saved.
struct ReplicasDiffer : ErrorOfAllRanks {
  using ErrorOfAllRanks::ErrorOfAllRanks;
};

// Called by all ranks, after `step` steps. Each hashes (XXH3, 128 bits) what it holds of the tensors that some axis of
// the mesh does not cut; ranks first compare one hash for all tensors that lie alike, and single tensors only where
// those differ. Throws ReplicasDiffer, naming tensor, ranks and step. Nothing is compared where nothing is held twice.
void compare_replicas(const Ranks& ranks, const LanguageModel& model, const TrainingStep& training, int64_t step);

}  // namespace causeway::train
