#include "causeway/train/preference/preference_evaluation.h"

#include <algorithm>

#include "causeway/tensor/ops.h"
#include "causeway/train/step/preference_objective.h"

namespace causeway::train {
namespace {

struct PairSums {
  double loss = 0, chosen_loss = 0, preferred = 0;
  int64_t pairs = 0, chosen_targets = 0;

  void add(const PairSums& other) {
    loss += other.loss;
    chosen_loss += other.chosen_loss;
    preferred += other.preferred;
    pairs += other.pairs;
    chosen_targets += other.chosen_targets;
  }
  double mean_loss(PreferenceLoss kind) const {
    const double of_pairs = loss / static_cast<double>(std::max<int64_t>(1, pairs));
    if (kind != PreferenceLoss::kOrpo) return of_pairs;
    return of_pairs + chosen_loss / static_cast<double>(std::max<int64_t>(1, chosen_targets));
  }
};

}  // namespace

PreferenceEvaluator::PreferenceEvaluator(const LanguageModel& model, const Recipe& recipe, const TokenDataset& dataset,
                                         const ReferenceLogProbabilities* reference)
    : recipe_(recipe),
      dataset_(dataset),
      pass_(model, recipe, dataset, reference,
            [config = recipe.preference](const LanguageModel& policy, const MicroBatch& batch) -> std::vector<Tensor> {
              const PairTerms terms = pair_terms(policy, batch, config);
              return {sum(terms.loss), sum(terms.chosen_loss), sum(terms.is_preferred)};
            }) {
  CAUSEWAY_CHECK((reference != nullptr) == recipe.preference.has_reference());
  for (size_t i = 0; i < dataset.sources().size(); ++i)
    pairs_.emplace_back(dataset, i, recipe.data.sequence_length, recipe.preference.trains_reward_model());
}

EvaluationResult PreferenceEvaluator::run() {
  std::vector<double> weights;
  for (const DataSource& source : recipe_.data.sources()) weights.push_back(source.weight);
  // The dataset may be another than the recipe's.
  if (weights.size() != pairs_.size()) weights.assign(pairs_.size(), 1);
  std::vector<uint64_t> there;
  for (const DocumentPairs& pairs : pairs_) there.push_back(pairs.count());
  const std::vector<uint64_t> counts = evaluated_sequences(
      SourceShares(weights), there, static_cast<uint64_t>(std::max<int64_t>(1, recipe_.evaluation.sequences / 2)));
  EvaluationResult result;
  PairSums all;
  for (size_t i = 0; i < pairs_.size(); ++i) {
    if (counts[i] == 0) continue;
    PairSums of_source;
    pass_.run(pairs_[i], 2 * counts[i], [&](const Batch& batch, int64_t rows, const std::vector<Tensor>& results) {
      of_source.add({results[0].item(), results[1].item(), results[2].item(), rows / 2, batch.global_chosen_targets});
    });
    result.sources.push_back(
        {dataset_.sources()[i].path.string(), of_source.mean_loss(recipe_.preference.loss), of_source.chosen_targets});
    all.add(of_source);
  }
  result.loss = all.mean_loss(recipe_.preference.loss);
  result.pairs = all.pairs;
  result.accuracy = all.preferred / static_cast<double>(std::max<int64_t>(1, all.pairs));
  return result;
}

}  // namespace causeway::train
