// The optimizer steps of a run, from the batch that one reads to the figures that it gives, and where the run is behind
// them. On a GPU a step may begin before the one before it is finished.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

#include "causeway/data/batch_loader.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/grpo/rollout_source.h"
#include "causeway/train/log/run_log.h"
#include "causeway/train/observation/run_observer.h"
#include "causeway/train/signals.h"
#include "causeway/train/step/training_step.h"
#include "causeway/train/training_run.h"

namespace causeway::train {

// A step that was begun, and when it is finished, as what happens after it sees it.
struct StepOutcome {
  StepReport report;
  std::chrono::steady_clock::time_point start;
  // Its batch is the loader's, or where the loader has gone on a copy.
  const Batch* loaded = nullptr;
  Batch copy;
  std::vector<std::vector<float>> numbers;       // of its rows, that the objective reads
  std::shared_ptr<const RolloutState> rollouts;  // where sampling is behind it
  uint64_t data_cursor = 0;                      // behind it
  double seconds_after_last = 0;
  // What is agreed on while it runs.
  SignalRequest request = SignalRequest::kNone;
  bool last = false;  // of the recipe's steps
  bool save_is_due = false;

  bool goes_on() const { return !last && request != SignalRequest::kStop; }
  TrainingBatch host_batch() const {
    const Batch& batch = loaded != nullptr ? *loaded : copy;
    return {batch.inputs,
            batch.targets,
            batch.documents,
            batch.global_valid_targets,
            batch.global_chosen_targets,
            {numbers.begin(), numbers.end()},
            batch.target_weights,
            batch.global_target_weight};
  }
  // Whether something that happens every `interval` steps (0: never) happens now, in a run that goes on.
  bool is_due(int64_t interval) const { return goes_on() && interval > 0 && report.step % interval == 0; }
};

// Over a mesh every rank makes the same calls.
class StepsInFlight {
 public:
  // Both outlive it.
  StepsInFlight(const TrainingRun& run, RunObserver& observer);

  // After the last step that was finished.
  const RunPosition& position() const { return position_; }
  bool empty() const { return begun_.empty(); }
  // The first of those that are begun and not finished.
  StepOutcome& front() { return begun_.front(); }

  // Before the first step. Throws as BatchLoader does.
  void open_data();
  // Reads the next batch, or samples it (RolloutSource), and begins its step. Throws Error where there can be none, and
  // has begun nothing then.
  void begin();
  // Waits for the first that was begun. A step that is not finite counts as skipped, or where the recipe says to stop
  // then throws Error that says where the first value that is not finite was made, and leaves the position before it.
  StepOutcome finish();
  // Before the run ends by an error: reads no more data and finishes what was begun, so that weights and position are
  // of one step. Where that fails, TrainingStep::state_is_whole() says so.
  void settle() noexcept;

 private:
  BatchOptions batch_options() const;
  void read_batch(StepOutcome& step);
  void sample_batch(StepOutcome& step);
  void move_behind(const StepOutcome& step);
  void handle_non_finite(const StepOutcome& step, const StepFigures& figures);

  const TrainingRun& run_;
  RunObserver& observer_;
  RunPosition position_;
  std::optional<BatchLoader> loader_;
  std::optional<RolloutSource> rollouts_;  // in place of it, of a run that samples its data
  std::deque<StepOutcome> begun_;          // the second one where a GPU runs ahead
};

}  // namespace causeway::train
