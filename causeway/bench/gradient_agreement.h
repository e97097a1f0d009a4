// Whether a training step over a mesh adds up what all ranks' rows give: an exchange that was left out makes a step
// faster, and no loss on random tokens shows it.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "causeway/train/ranks.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/step/training_step.h"

namespace causeway::bench {

// The rows of one group of ranks, of random tokens.
struct RandomRows {
  std::vector<int32_t> inputs, targets;
  void draw(std::mt19937& random, int64_t vocabulary_size);
  TrainingBatch batch(int64_t groups) const;
};
// As many as this rank works on.
RandomRows own_random_rows(const TrainingStep& step, const Recipe& recipe);

// Root mean squares over elements of all ranks, as shares of that of the step's gradient.
struct GradientAgreement {
  int64_t elements = 0;   // that were compared: 0 where all ranks have the same rows
  double difference = 0;  // from the mean of the gradients that each group's rows give alone
  double alone = 0;       // of what the own group's rows give alone, as they would stand where nothing is exchanged
  bool holds() const { return elements == 0 || (difference <= alone / 4 && alone > 0); }
  // "gradients are those of all ranks' rows: 0.18 % off, those of a rank's own rows 94.2 % (70000 elements)"
  std::string text() const;
};

// Called by all ranks, with the number of the next step, which it moves on; weights do not change. Each group's rows
// are given to all groups once, and then every group has its own: gradients are linear in them. The optimizer is
// AdamW: a gradient is what a step of learning rate 0 adds to the first moment; of each parameter some thousand
// elements of the rank's part are read. Takes as many steps as there are groups, and one.
GradientAgreement compare_gradients(TrainingStep& training, const Recipe& recipe, const train::Ranks& ranks,
                                    int64_t& step);

}  // namespace causeway::bench
