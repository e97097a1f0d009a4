// Completions that the model has sampled for a batch, and what a run keeps of them: what its steps are given.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "causeway/data/batch_loader.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/step/batch_tensor.h"

namespace causeway::train {

struct Completion {
  std::vector<int32_t> prompt, tokens;  // with the one that ends it
  bool is_truncated = false;            // it had no end before it had as many tokens as there may be
  double reward = 0;
  float advantage = 0;
  // log p of each token: as it was drawn; as training computes it by the same weights; by the weights that the run
  // began with. The latter two are empty where the loss reads none.
  std::vector<float> sampled = {}, older = {}, reference = {};
};

struct Rollout {
  uint64_t first_sample = 0;                            // the data cursor before it
  std::vector<Completion> completions;                  // of the batch of all ranks, in the order of its rows
  std::vector<std::pair<std::string, double>> figures;  // for metrics
};

// Where sampling is, between two steps.
struct RolloutState {
  std::vector<int32_t> end_tokens;         // any of which ends a completion
  std::shared_ptr<const Rollout> rollout;  // that the next step goes on with; null: it begins with a new one
  int64_t steps = 0;                       // that were taken on it
};

// The file of a checkpoint that holds it, as JSON, and back: the same numbers to the bit. Throws Error(kCorrupt) naming
// `where`.
constexpr char kRolloutFile[] = "grpo.json";
std::string print_rollout_state(const RolloutState& state);
RolloutState parse_rollout_state(std::string_view text, const std::string& where);

// What the rows of a rank are given of a rollout, micro-batch after micro-batch: a row is a prompt and its completion,
// and targets are the completion's tokens, but of one that is truncated where the recipe leaves these out. `numbers` as
// GrpoObjective::numbers() lists them.
struct RolloutBatch {
  data::Batch batch;
  std::vector<std::vector<float>> numbers;
};
RolloutBatch batch_of_rollout(const Rollout& rollout, const Recipe& recipe, const RowRange& own);

// The inputs and targets of a row of the recipe's sequence length.
void write_row(const Completion& completion, bool has_targets, std::span<int32_t> inputs, std::span<int32_t> targets);

}  // namespace causeway::train
