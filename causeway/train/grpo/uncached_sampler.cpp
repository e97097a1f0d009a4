#include "causeway/train/grpo/uncached_sampler.h"

#include <algorithm>
#include <cmath>

#include "causeway/base/error.h"
#include "causeway/program/context.h"
#include "causeway/tensor/ops.h"
#include "causeway/train/step/batch_tensor.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {
namespace {

// The logits of each row at a position, of [rows, length, vocabulary]: all else that is added to them is 0. Taken from
// the logits and not from the hidden states before them: a reduction between the last layer and the head would have
// mixed precision keep that layer's sums in f32, which training rounds.
Tensor logits_at(const Tensor& logits, const Tensor& positions) {
  const Tensor place = index_tensor(DType::kI32, {logits.size(1)}, 0);
  const Tensor is_there = eq(unsqueeze(place, 0), unsqueeze(positions, 1));
  return sum(where(broadcast_to(unsqueeze(is_there, 2), logits.shape()), logits, 0.0), {1});
}

}  // namespace

UncachedSampler::UncachedSampler(const LanguageModel& model, const Recipe& recipe)
    : recipe_(recipe),
      step_(
          [&model, &recipe](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
            ForwardInputs inputs;
            inputs.tokens = arguments[0];
            Tensor logits = model.sampling_logits(model.hidden_states(inputs), recipe.grpo.temperature);
            // As the loss rounds them.
            if (pipeline_options(recipe).narrow_logits) logits = cast(cast(logits, DType::kBF16), DType::kF32);
            return {logits_at(logits, arguments[1])};
          },
          step_options(recipe)) {}

std::vector<float> UncachedSampler::next_logits(std::span<const std::vector<int32_t>> rows) {
  const ContextScope scope(step_.context());
  const int64_t count = recipe_.train.micro_batch_size, length = recipe_.data.sequence_length;
  if (arguments_.empty()) arguments_ = {make_batch_tensor(count, length), make_row_tensor(count, DType::kI32)};
  const RowRange own = own_rows(arguments_[0]);
  const auto width = static_cast<size_t>(length);
  std::vector<int32_t> tokens(static_cast<size_t>(own.count) * width), last(static_cast<size_t>(own.count));
  for (size_t i = 0; i < last.size(); ++i) {
    const std::vector<int32_t>& row = rows[static_cast<size_t>(own.first) + i];
    CAUSEWAY_CHECK(!row.empty() && row.size() <= width);
    std::ranges::copy(row, tokens.begin() + static_cast<ptrdiff_t>(i * width));
    last[i] = static_cast<int32_t>(row.size()) - 1;
  }
  write_own_rows(arguments_[0], std::span<const int32_t>(tokens), {});
  arguments_[1].write_bytes(std::as_bytes(std::span(last)));
  const Tensor& logits = step_.run(arguments_).front();
  std::vector<float> values(static_cast<size_t>(logits.local_bytes()) / sizeof(float));
  logits.read_bytes(std::as_writable_bytes(std::span(values)));
  return values;
}

std::vector<std::vector<int32_t>> UncachedSampler::generate(std::span<const std::vector<int32_t>> prompts,
                                                            const SamplingOptions& options, const Watch& watch,
                                                            uint64_t first_place) {
  const auto side_by_side = static_cast<size_t>(recipe_.train.micro_batch_size);
  CAUSEWAY_CHECK(prompts.size() % side_by_side == 0);
  std::vector<std::vector<int32_t>> results;
  for (size_t first = 0; first < prompts.size(); first += side_by_side) {
    const std::span some = prompts.subspan(first, side_by_side);
    std::vector<std::vector<int32_t>> rows(some.begin(), some.end());
    std::vector<bool> has_ended(rows.size());
    for (int64_t drawn = 0; drawn < options.tokens && !std::ranges::all_of(has_ended, std::identity()); ++drawn) {
      // Rows that have ended may be longer than a row has room for.
      std::vector<std::vector<int32_t>> shown = rows;
      for (size_t i = 0; i < shown.size(); ++i)
        if (has_ended[i]) shown[i] = some[i];
      const std::vector<float> logits = next_logits(shown);
      const size_t width = logits.size() / rows.size();
      for (size_t i = 0; i < rows.size(); ++i) {
        if (has_ended[i]) continue;
        const std::span<const float> own = std::span(logits).subspan(i * width, width);
        if (!std::ranges::all_of(own, [](float logit) { return std::isfinite(logit); }))
          throw Error(ErrorKind::kCorrupt, fmt::format("the model's logits are not finite at token {}", drawn + 1),
                      "grpo", "Go on from a checkpoint from before the training diverged, at a lower learning rate.");
        const auto known = options.vocabulary_size > 0
                               ? std::min(own.size(), static_cast<size_t>(options.vocabulary_size))
                               : own.size();
        const double uniform = uniform_of_token(options.seed, first_place + first + i, static_cast<uint64_t>(drawn));
        const int32_t token = draw_token(own.first(known), rows[i], options, uniform);
        if (watch) watch(first + i, token, own);
        rows[i].push_back(token);
        has_ended[i] = options.stops_at(token);
      }
    }
    for (size_t i = 0; i < rows.size(); ++i)
      results.emplace_back(rows[i].begin() + static_cast<ptrdiff_t>(some[i].size()), rows[i].end());
  }
  return results;
}

}  // namespace causeway::train
