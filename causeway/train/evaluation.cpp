#include "causeway/train/evaluation.h"

#include <algorithm>
#include <optional>

#include "causeway/data/batch_loader.h"
#include "causeway/data/sample_order.h"
#include "causeway/program/context.h"
#include "causeway/tensor/ops.h"
#include "causeway/train/ranks.h"
#include "causeway/train/step/batch_tensor.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {
namespace {

StepOptions step_options(const Recipe& recipe) {
  StepOptions options;
  options.program.pipeline = pipeline_options(recipe);
  return options;
}

}  // namespace

Evaluator::Evaluator(const LanguageModel& model, const Recipe& recipe, const TokenDataset& dataset)
    : recipe_(recipe),
      dataset_(dataset),
      document_mask_(recipe.data.document_mask),
      rows_(recipe.train.micro_batch_size),
      vocabulary_size_(model.config().vocabulary_size),
      loss_sum_(
          [&model, this](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
            ForwardInputs inputs;
            inputs.tokens = arguments[0];
            if (document_mask_) inputs.documents = arguments[2];
            const Tensor weights = cast(ge(arguments[1], 0.0), DType::kF32);
            return {model.loss(inputs, arguments[1], weights)};
          },
          step_options(recipe)) {}

EvaluationResult Evaluator::run() {
  const ContextScope scope(loss_sum_.context());
  // Of so many windows; rows beyond the last one hold no targets.
  const auto length = static_cast<uint64_t>(recipe_.data.sequence_length);
  const auto most = static_cast<uint64_t>(std::max<int64_t>(1, recipe_.evaluation.sequences));
  const SequentialOrder order(std::min(dataset_.token_count(), most * length + 1), recipe_.data.sequence_length);
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
  const RowRange own = own_rows(arguments[0]);
  options.first_row = own.first;
  options.rows = own.count;
  const Ranks ranks(*loss_sum_.context());
  std::optional<BatchLoader> opened;
  ranks.together([&] { opened.emplace(dataset_, order, options); });
  BatchLoader& loader = *opened;
  const auto sequences = static_cast<int64_t>(order.sample_count());
  EvaluationResult result;
  double sum = 0;
  for (int64_t done = 0; done < sequences; done += rows_) {
    const Batch* next = nullptr;
    ranks.together([&] { next = &loader.next(); });
    const Batch& batch = *next;
    write_own_rows(arguments[0], batch.inputs);
    write_own_rows(arguments[1], batch.targets);
    if (document_mask_) write_own_rows(arguments[2], batch.documents);
    sum += loss_sum_.run(arguments).front().item();
    result.targets += batch.global_valid_targets;
  }
  result.loss = result.targets > 0 ? sum / static_cast<double>(result.targets) : 0;
  return result;
}

}  // namespace causeway::train
