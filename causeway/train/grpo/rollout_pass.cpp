#include "causeway/train/grpo/rollout_pass.h"

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/program/context.h"
#include "causeway/tensor/ops.h"
#include "causeway/train/step/batch_tensor.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {

RolloutPass::RolloutPass(const LanguageModel& model, const LanguageModel* reference, const Recipe& recipe)
    : recipe_(recipe),
      policy_(make_step(model, false)),
      reference_(make_step(reference != nullptr ? *reference : model, reference == nullptr)) {}

Step RolloutPass::make_step(const LanguageModel& model, bool without_adapters) const {
  return Step(
      [&model, without_adapters,
       temperature = recipe_.grpo.temperature](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
        ForwardInputs inputs;
        inputs.tokens = arguments[0];
        inputs.without_adapters = without_adapters;
        return {-model.token_losses(inputs, arguments[1], temperature)};
      },
      step_options(recipe_));
}

void RolloutPass::run(std::span<Completion> completions, bool computes_older) {
  if (computes_older) run_one(policy_, completions, &Completion::older);
  if (recipe_.grpo.has_reference()) run_one(reference_, completions, &Completion::reference);
}

void RolloutPass::run_one(Step& step, std::span<Completion> completions, std::vector<float> Completion::* of) {
  const ContextScope scope(step.context());
  const int64_t rows = recipe_.train.micro_batch_size, length = recipe_.data.sequence_length;
  CAUSEWAY_CHECK(completions.size() % static_cast<size_t>(rows) == 0);
  if (arguments_.empty()) arguments_ = {make_batch_tensor(rows, length), make_batch_tensor(rows, length)};
  const RowRange own = own_rows(arguments_[0]);
  const auto width = static_cast<size_t>(length), own_count = static_cast<size_t>(own.count);
  std::vector<int32_t> inputs(own_count * width), targets(own_count * width);
  std::vector<float> values(static_cast<size_t>(rows) * width);
  for (size_t first = 0; first < completions.size(); first += static_cast<size_t>(rows)) {
    const std::span<Completion> some = completions.subspan(first, static_cast<size_t>(rows));
    for (size_t row = 0; row < own_count; ++row)
      write_row(some[static_cast<size_t>(own.first) + row], true, std::span(inputs).subspan(row * width, width),
                std::span(targets).subspan(row * width, width));
    write_own_rows(arguments_[0], std::span<const int32_t>(inputs), {});
    write_own_rows(arguments_[1], std::span<const int32_t>(targets), {});
    step.run(arguments_).front().read_bytes(std::as_writable_bytes(std::span(values)));
    for (size_t row = 0; row < some.size(); ++row) {
      const auto begin = values.begin() + static_cast<ptrdiff_t>(row * width + some[row].prompt.size()) - 1;
      (some[row].*of).assign(begin, begin + static_cast<ptrdiff_t>(some[row].tokens.size()));
    }
  }
}

}  // namespace causeway::train
