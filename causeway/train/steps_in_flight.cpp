#include "causeway/train/steps_in_flight.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "causeway/base/console.h"
#include "causeway/base/error.h"

namespace causeway::train {

StepsInFlight::StepsInFlight(const TrainingRun& run, RunObserver& observer)
    : run_(run), observer_(observer), position_(run.first_position()) {}

BatchOptions StepsInFlight::batch_options() const {
  const Recipe& recipe = run_.recipe();
  const RowRange rows = run_.step().own_rows();
  BatchOptions options;
  options.sequence_length = recipe.data.sequence_length;
  options.global_batch_size = recipe.train.batch_size;
  options.micro_batches = recipe.micro_batches();
  options.first_row = rows.first;
  options.rows = rows.count;
  options.vocabulary_size = recipe.model.vocabulary_size;
  options.document_numbers = recipe.data.masks_documents();
  options.ignore_targets_across_documents = recipe.data.masks_documents();
  options.first_sample = position_.data_cursor;
  options.all_are_inputs = recipe.preference.trains_reward_model();
  return options;
}

void StepsInFlight::open_data() {
  if (run_.recipe().grpo.is_used()) {
    run_.ranks().together(
        [&] { rollouts_.emplace(run_.parts(), run_.data(), run_.reference_model(), run_.ranks(), position_); });
    rollouts_->require_records();
    return;
  }
  run_.ranks().together([&] { loader_.emplace(run_.data().dataset, run_.data().order, batch_options()); });
}

void StepsInFlight::begin() {
  const int64_t number = position_.step + static_cast<int64_t>(begun_.size()) + 1;
  for (StepOutcome& before : begun_)
    if (before.loaded != nullptr) before.copy = *std::exchange(before.loaded, nullptr);
  StepOutcome step;
  observer_.enter(number, "data");
  step.start = std::chrono::steady_clock::now();
  step.report.step = number;
  step.report.learning_rate = run_.recipe().optimizer.learning_rate * run_.schedule().factor(number - 1);
  rollouts_ ? sample_batch(step) : read_batch(step);
  step.last = number == run_.recipe().train.steps;
  observer_.enter(number, kStepPhase);
  run_.step().begin(step.host_batch(), number - 1, step.report.learning_rate, observer_.watch_step(number));
  begun_.push_back(std::move(step));
}

void StepsInFlight::read_batch(StepOutcome& step) {
  const double waited_before = loader_->data_wait_seconds();
  run_.ranks().together([&] { step.loaded = &loader_->next(); });
  step.report.step_tokens = step.loaded->global_tokens;
  step.report.data_wait_seconds = loader_->data_wait_seconds() - waited_before;
  step.data_cursor = loader_->cursor();
  if (run_.reference() != nullptr) step.numbers = {run_.reference()->training.of_rows(*step.loaded)};
}

// Sampling is what the step waits for.
void StepsInFlight::sample_batch(StepOutcome& step) {
  RolloutSource::Next next = rollouts_->next(step.report.step);
  step.copy = std::move(next.batch.batch);
  step.numbers = std::move(next.batch.numbers);
  step.report.step_tokens = step.copy.global_tokens;
  step.report.data_wait_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - step.start).count();
  step.report.figures = std::move(next.figures);
  step.rollouts = std::move(next.state);
  step.data_cursor = next.cursor;
}

StepOutcome StepsInFlight::finish() {
  if (begun_.size() > 1) observer_.enter(begun_.front().report.step, kStepPhase);
  const StepFigures figures = run_.step().finish();
  StepOutcome step = std::move(begun_.front());
  begun_.pop_front();
  observer_.enter(step.report.step, "after the step");
  if (!figures.finite) {
    handle_non_finite(step, figures);
    ++position_.skipped_steps;
  }
  move_behind(step);
  step.report.loss = figures.loss;
  step.report.grad_norm = figures.grad_norm;
  const std::vector<std::string> names = run_.step().objective().figure_names();
  for (size_t i = 0; i < names.size(); ++i) step.report.figures.emplace_back(names[i], figures.figures[i]);
  step.seconds_after_last = figures.seconds_after_last;
  step.report.skipped_steps = position_.skipped_steps;
  step.report.tokens = position_.tokens;
  return step;
}

void StepsInFlight::move_behind(const StepOutcome& step) {
  position_.step = step.report.step;
  position_.data_cursor = step.data_cursor;
  position_.rollouts = step.rollouts;
  position_.tokens += step.report.step_tokens;
}

void StepsInFlight::handle_non_finite(const StepOutcome& step, const StepFigures& figures) {
  const Ranks& ranks = run_.ranks();
  const std::optional<NonFiniteValue> found =
      run_.step().find_non_finite(step.host_batch(), position_.step, step.report.learning_rate);
  std::string what = fmt::format("step {}: the loss is {} and the gradient norm {}", position_.step + 1, figures.loss,
                                 figures.grad_norm);
  std::string here;
  if (found)
    here = fmt::format("; the first value that is not finite is made by {} of {}{}", found->op, found->type,
                       found->scope.empty() ? "" : " in " + found->scope);
  const std::vector<std::string> of_ranks = ranks.gather(here);
  const auto first = std::ranges::find_if(of_ranks, [](const std::string& text) { return !text.empty(); });
  if (first != of_ranks.end()) what += *first;
  if (first != of_ranks.end() && ranks.count() > 1) what += fmt::format(", on rank {}", first - of_ranks.begin());
  if (run_.recipe().train.on_non_finite == FaultPolicy::kSkip) {
    if (ranks.is_first()) notice("{}; the step was skipped\n", what);
    return;
  }
  ranks.together([&] {
    throw Error(ErrorKind::kInvalidArgument, what, run_.recipe().name,
                "The weights are as before the step. Lower the learning rate, or set train.on_non_finite=skip to "
                "leave such steps out.");
  });
}

void StepsInFlight::settle() noexcept {
  loader_.reset();
  try {
    while (!begun_.empty()) {
      const bool changed = run_.step().finish().finite;
      const StepOutcome step = std::move(begun_.front());
      begun_.pop_front();
      if (changed) move_behind(step);
    }
  } catch (const std::exception&) {
    // The state is not whole then.
  }
}

}  // namespace causeway::train
