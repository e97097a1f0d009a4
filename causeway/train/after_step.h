// What happens after each step of a run, in one order: it is measured and logged, what is due is saved, evaluated and
// sampled.
#pragma once

#include <cstdint>
#include <optional>

#include "causeway/train/checkpoint/run_saver.h"
#include "causeway/train/log/run_log.h"
#include "causeway/train/log/step_meter.h"
#include "causeway/train/model_review.h"
#include "causeway/train/observation/run_observer.h"
#include "causeway/train/steps_in_flight.h"
#include "causeway/train/trainer.h"
#include "causeway/train/training_run.h"

namespace causeway::train {

// Over a mesh every rank makes the same calls.
class AfterStep {
 public:
  // All outlive it. `position`: after the last step that was finished. `log` is null on ranks that write none. `result`
  // learns what a run comes to: its last loss, checkpoint and validation loss, and whether a signal ended it.
  AfterStep(const TrainingRun& run, const RunPosition& position, RunSaver& saver, RunObserver& observer, RunLog* log,
            ModelReview& review, TrainResult& result);

  // Throws ReplicasDiffer, and Error where the run's last checkpoint cannot be written; what fails otherwise is said
  // and ends nothing.
  void act(StepOutcome& step);
  // Whether a GPU is given the next step before this one is finished, so that it does not wait for the host meanwhile:
  // where nothing comes between the two but what is said of the first.
  bool lets_next_begin(const StepOutcome& step) const;

 private:
  void measure(StepOutcome& step);
  void observe(StepOutcome& step);
  void log_step(StepOutcome& step);
  void attend_save(StepOutcome& step);
  void note_interruption(StepOutcome& step);
  void compare_replicas(StepOutcome& step);
  void evaluate_when_due(StepOutcome& step);
  void sample_when_due(StepOutcome& step);
  void save_when_due(StepOutcome& step);
  void evaluate_at_the_end(StepOutcome& step);
  void write_trace(StepOutcome& step);

  std::optional<double> evaluate();
  void report_save();

  using Action = void (AfterStep::*)(StepOutcome&);
  static const Action kAfterStep[];

  const TrainingRun& run_;
  const RunPosition& position_;
  RunSaver& saver_;
  RunObserver& observer_;
  RunLog* const log_;
  ModelReview& review_;
  TrainResult& result_;
  StepMeter meter_;
  std::optional<int64_t> asked_for_save_;  // the step after which a signal did
};

}  // namespace causeway::train
