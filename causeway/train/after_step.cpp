#include "causeway/train/after_step.h"

#include "causeway/base/console.h"

namespace causeway::train {

// In this order. What is to happen besides is one more entry.
const AfterStep::Action AfterStep::kAfterStep[] = {
    &AfterStep::measure,           &AfterStep::observe,
    &AfterStep::log_step,          &AfterStep::attend_save,
    &AfterStep::note_interruption, &AfterStep::compare_replicas,
    &AfterStep::evaluate_when_due, &AfterStep::sample_when_due,
    &AfterStep::save_when_due,     &AfterStep::evaluate_at_the_end,
    &AfterStep::write_trace,
};

AfterStep::AfterStep(const TrainingRun& run, const RunPosition& position, RunSaver& saver, RunObserver& observer,
                     RunLog* log, ModelReview& review, TrainResult& result)
    : run_(run),
      position_(position),
      saver_(saver),
      observer_(observer),
      log_(log),
      review_(review),
      result_(result),
      meter_(run.step().context().device()) {}

void AfterStep::act(StepOutcome& step) {
  for (const Action action : kAfterStep) (this->*action)(step);
}

bool AfterStep::lets_next_begin(const StepOutcome& step) const {
  const bool is_first = step.report.step == run_.first_position().step + 1;
  // What is sampled for the next step is sampled by the weights behind this one.
  const bool samples = run_.recipe().grpo.is_used();
  return run_.step().may_run_ahead() && !is_first && !samples && step.goes_on() && !step.save_is_due &&
         !saver_.is_copying() && !step.is_due(run_.recipe().evaluation.interval) &&
         !step.is_due(run_.recipe().sampling.interval) && !observer_.looks_into(step.report.step) &&
         !observer_.looks_into(step.report.step + 1);
}

void AfterStep::measure(StepOutcome& step) {
  result_.last_loss = step.report.loss;
  meter_.measure(step.start, step.seconds_after_last, step.report);
  const TrainingData& data = run_.data();
  step.report.epoch = static_cast<double>(position_.data_cursor) / static_cast<double>(data.order.samples_per_epoch());
  step.report.source_epochs = source_epochs(data, position_.data_cursor);
}

void AfterStep::observe(StepOutcome& step) { observer_.end_step(step.report); }

void AfterStep::log_step(StepOutcome& step) {
  if (log_ != nullptr) log_->step(step.report);
}

void AfterStep::attend_save(StepOutcome& step) {
  saver_.attend(step.report.step);
  report_save();
}

void AfterStep::note_interruption(StepOutcome& step) {
  result_.interrupted = step.request == SignalRequest::kStop && !step.last;
}

// Before they are saved.
void AfterStep::compare_replicas(StepOutcome& step) { observer_.compare_replicas_when_due(step.report.step); }

void AfterStep::evaluate_when_due(StepOutcome& step) {
  if (!step.is_due(run_.recipe().evaluation.interval)) return;
  saver_.finish_copy();
  evaluate();
}

void AfterStep::sample_when_due(StepOutcome& step) {
  if (!step.is_due(run_.recipe().sampling.interval)) return;
  saver_.finish_copy();
  if (!review_.samples()) return;
  observer_.enter(position_.step, "sample");
  review_.print_sample(position_);
}

void AfterStep::save_when_due(StepOutcome& step) {
  if (!step.goes_on()) {
    observer_.enter(position_.step, "checkpoint");
    saver_.save_or_throw(position_);
  } else {
    if (!step.save_is_due) return;
    if (step.request == SignalRequest::kSave) asked_for_save_ = position_.step;
    observer_.enter(position_.step, "checkpoint");
    saver_.save(position_);
  }
  report_save();
}

void AfterStep::evaluate_at_the_end(StepOutcome& step) {
  if (!step.last) return;
  if (log_ != nullptr) log_->finish_progress();
  result_.validation_loss = evaluate();
}

void AfterStep::write_trace(StepOutcome& step) { observer_.write_trace_when_due(step.report.step, step.goes_on()); }

std::optional<double> AfterStep::evaluate() {
  if (!review_.evaluates()) return std::nullopt;
  observer_.enter(position_.step, "evaluation");
  return review_.evaluate(position_);
}

// What was committed meanwhile.
void AfterStep::report_save() {
  while (const std::optional<SavedCheckpoint> saved = saver_.take_committed()) {
    result_.checkpoint = saved->directory;
    if (log_ != nullptr) log_->checkpoint(position_.step, *saved);
    if (!asked_for_save_ || saved->step < *asked_for_save_) continue;
    asked_for_save_.reset();
    if (run_.speaks())
      notice("saved {}; training stood still for {:.3f} s\n", saved->directory.string(), saved->pause_seconds);
  }
}

}  // namespace causeway::train
