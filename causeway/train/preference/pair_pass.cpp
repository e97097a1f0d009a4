#include "causeway/train/preference/pair_pass.h"

#include <algorithm>
#include <optional>

#include "causeway/program/context.h"
#include "causeway/train/ranks.h"
#include "causeway/train/step/batch_tensor.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {

PairPass::PairPass(const LanguageModel& model, const Recipe& recipe, const TokenDataset& dataset,
                   const ReferenceLogProbabilities* reference, Trace trace)
    : recipe_(recipe),
      dataset_(dataset),
      reference_(reference),
      step_(
          [&model, &recipe, trace = std::move(trace)](const std::vector<Tensor>& arguments) {
            MicroBatch batch;
            batch.inputs.tokens = arguments[0];
            batch.inputs.order = batch_order(recipe);
            batch.targets = arguments[1];
            if (arguments.size() > 2) batch.numbers = {arguments[2]};
            return trace(model, batch);
          },
          step_options(recipe)) {}

void PairPass::run(const DocumentPairs& pairs, uint64_t samples,
                   const std::function<void(const Batch&, int64_t, const std::vector<Tensor>&)>& visit) {
  const ContextScope scope(step_.context());
  const int64_t rows = recipe_.train.micro_batch_size, length = recipe_.data.sequence_length;
  // Written anew for each batch: what was launched for one serves the next.
  std::vector<Tensor> arguments = {make_batch_tensor(rows, length), make_batch_tensor(rows, length)};
  if (reference_ != nullptr) arguments.push_back(make_row_tensor(rows));
  const SequenceOrder positions = batch_order(recipe_);
  const RowRange own = own_rows(arguments[0]);
  BatchOptions options;
  options.sequence_length = length;
  options.global_batch_size = rows;
  options.vocabulary_size = recipe_.model.vocabulary_size;
  options.read_ahead = 1;
  options.first_row = own.first;
  options.rows = own.count;
  options.all_are_inputs = recipe_.preference.trains_reward_model();
  const Ranks ranks(*step_.context());
  std::optional<BatchLoader> loader;
  ranks.together([&] { loader.emplace(dataset_, pairs, samples, options); });
  for (uint64_t done = 0; done < samples; done += static_cast<uint64_t>(rows)) {
    const Batch* batch = nullptr;
    ranks.together([&] { batch = &loader->next(); });
    write_own_rows(arguments[0], batch->inputs, positions);
    write_own_rows(arguments[1], batch->targets, positions);
    if (reference_ != nullptr) {
      const std::vector<float> of_rows = reference_->of_rows(*batch);
      arguments[2].write_bytes(std::as_bytes(std::span(of_rows)));
    }
    visit(*batch, static_cast<int64_t>(std::min<uint64_t>(static_cast<uint64_t>(rows), samples - done)),
          step_.run(arguments));
  }
}

}  // namespace causeway::train
