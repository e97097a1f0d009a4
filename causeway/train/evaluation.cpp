#include "causeway/train/evaluation.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "causeway/base/error.h"
#include "causeway/data/batch_loader.h"
#include "causeway/data/sample_order.h"
#include "causeway/program/context.h"
#include "causeway/tensor/ops.h"
#include "causeway/train/ranks.h"
#include "causeway/train/step/batch_tensor.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {

Evaluator::Evaluator(const LanguageModel& model, const Recipe& recipe, const TokenDataset& dataset)
    : recipe_(recipe),
      dataset_(dataset),
      document_mask_(recipe.data.masks_documents()),
      has_weights_(dataset.has_target_weights()),
      rows_(recipe.train.micro_batch_size),
      vocabulary_size_(model.config().vocabulary_size),
      loss_sum_(
          [&model, this](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
            ForwardInputs inputs;
            inputs.tokens = arguments[0];
            inputs.order = batch_order(recipe_);
            if (document_mask_) inputs.documents = arguments[2];
            inputs.positions_restart = recipe_.data.packs_documents();
            const Tensor weights = cast(ge(arguments[1], 0.0), DType::kF32);
            return {model.loss(inputs, arguments[1], has_weights_ ? weights * arguments.back() : weights)};
          },
          step_options(recipe)) {
  if (!recipe.data.packs_documents() || !dataset.has_targets()) return;
  for (size_t i = 0; i < dataset.sources().size(); ++i) packings_.emplace_back(dataset, i, recipe.data.sequence_length);
}

std::vector<uint64_t> evaluated_sequences(const SourceShares& shares, const std::vector<uint64_t>& there,
                                          uint64_t most) {
  const auto fits = [&](uint64_t sequences) {
    const std::vector<uint64_t> counts = shares.counts(sequences);
    return std::ranges::equal(counts, there, std::ranges::less_equal());
  };
  uint64_t least = 0;
  while (least < most) {
    const uint64_t middle = least + (most - least + 1) / 2;
    if (fits(middle)) {
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  return shares.counts(least);
}

EvaluationResult Evaluator::run() {
  const ContextScope scope(loss_sum_.context());
  std::vector<double> weights;
  for (const DataSource& source : recipe_.data.sources()) weights.push_back(source.weight);
  // The dataset may be another than the recipe's.
  if (weights.size() != dataset_.sources().size()) weights.assign(dataset_.sources().size(), 1);
  const std::vector<uint64_t> sequences =
      evaluated_sequences(SourceShares(weights), sequences_there(),
                          static_cast<uint64_t>(std::max<int64_t>(1, recipe_.evaluation.sequences)));
  EvaluationResult result;
  double sum = 0, weight = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (sequences[i] == 0) continue;
    result.sources.push_back(run_source(i, sequences[i]));
    EvaluationResult::OfSource& of_source = result.sources.back();
    sum += of_source.loss;
    weight += of_source.weight;
    result.targets += of_source.targets;
    of_source.loss /= of_source.weight;
    if (of_source.targets == 0) result.sources.pop_back();
  }
  // A loss of 0 would be the best that there is.
  if (result.targets == 0)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("none of the {} validation sequences has a target",
                            std::accumulate(sequences.begin(), sequences.end(), uint64_t{0})),
                dataset_.path().string(),
                "Raise evaluation.sequences, or set data.packing=documents, which leaves out what has no target.");
  result.loss = sum / weight;
  return result;
}

std::vector<uint64_t> Evaluator::sequences_there() const {
  std::vector<uint64_t> there;
  for (const DocumentPacking& packing : packings_) there.push_back(packing.sample_count());
  if (!packings_.empty()) return there;
  for (const TokenDataset::Source& source : dataset_.sources())
    there.push_back(SequentialOrder(source.token_count, recipe_.data.sequence_length).sample_count());
  return there;
}

// The loss is the sum over all targets.
EvaluationResult::OfSource Evaluator::run_source(size_t number, uint64_t sequences) {
  const TokenDataset::Source& source = dataset_.sources()[number];
  // Of so many windows; rows beyond the last one hold no targets.
  const auto length = static_cast<uint64_t>(recipe_.data.sequence_length);
  const SequentialOrder order(std::min(source.token_count, sequences * length + 1), recipe_.data.sequence_length,
                              source.offset);
  BatchOptions options;
  options.sequence_length = recipe_.data.sequence_length;
  options.global_batch_size = rows_;
  options.vocabulary_size = vocabulary_size_;
  options.document_numbers = document_mask_;
  options.ignore_targets_across_documents = document_mask_;
  options.read_ahead = 1;
  // Written anew for each batch: what was launched for one serves the next.
  std::vector<Tensor> arguments(document_mask_ ? 3 : 2);
  for (Tensor& argument : arguments) argument = make_batch_tensor(rows_, recipe_.data.sequence_length);
  if (has_weights_) arguments.push_back(make_batch_tensor(rows_, recipe_.data.sequence_length, DType::kF32));
  const SequenceOrder positions = batch_order(recipe_);
  const RowRange own = own_rows(arguments[0]);
  options.first_row = own.first;
  options.rows = own.count;
  const Ranks ranks(*loss_sum_.context());
  std::optional<BatchLoader> opened;
  ranks.together([&] {
    if (packings_.empty()) {
      opened.emplace(dataset_, order, options);
    } else {
      opened.emplace(dataset_, packings_[number], sequences, options);
    }
  });
  BatchLoader& loader = *opened;
  EvaluationResult::OfSource result{source.path.string()};
  const uint64_t samples = packings_.empty() ? order.sample_count() : sequences;
  for (int64_t done = 0; done < static_cast<int64_t>(samples); done += rows_) {
    const Batch* next = nullptr;
    ranks.together([&] { next = &loader.next(); });
    const Batch& batch = *next;
    write_own_rows(arguments[0], batch.inputs, positions);
    write_own_rows(arguments[1], batch.targets, positions);
    if (document_mask_) write_own_rows(arguments[2], batch.documents, positions);
    if (has_weights_) write_own_rows(arguments.back(), batch.target_weights, positions);
    result.loss += loss_sum_.run(arguments).front().item();
    result.targets += batch.global_valid_targets;
    result.weight += batch.global_target_weight;
  }
  return result;
}

}  // namespace causeway::train
