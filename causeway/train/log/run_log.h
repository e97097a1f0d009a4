// What a run tells while it goes: metrics.jsonl, TensorBoard's events, the progress line. No failure to write any of it
// ends a run (AppendLog).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "causeway/train/checkpoint/run_saver.h"
#include "causeway/train/evaluation.h"
#include "causeway/train/log/metrics_log.h"
#include "causeway/train/log/progress_line.h"
#include "causeway/train/log/start_times.h"
#include "causeway/train/log/tensorboard_log.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/step/flops_utilization.h"

namespace causeway::train {

// One optimizer step, as it went.
struct StepReport {
  int64_t step = 0;  // completed, this one included
  double loss = 0;   // nats per target
  double grad_norm = 0;
  double learning_rate = 0;
  double seconds = 0;
  double data_wait_seconds = 0;  // of them
  int64_t step_tokens = 0;       // without padding
  int64_t tokens = 0;            // consumed by the run, this step included
  double epoch = 0;              // passes over the training data, this step included
  // The same of each source, by its path; empty where there is one.
  std::vector<std::pair<std::string, double>> source_epochs;
  int64_t skipped_steps = 0;                            // of the run
  std::vector<std::pair<std::string, double>> figures;  // of the objective, by their names
  uint64_t memory_bytes = 0;                            // in use at most
  // Of a GPU, 0 elsewhere: what its driver gave of its memory at most, and what is taken of it by now, by whomever.
  uint64_t reserved_bytes = 0, occupied_bytes = 0;
  nlohmann::ordered_json ranks;  // rank_times_json(); null where there is nothing to say
};

// Whether a step gets a record: every log.interval-th, and the first and the last one of a run that had taken
// `first_step` steps before.
bool is_recorded(const Recipe& recipe, int64_t step, int64_t first_step);

class RunLog {
 public:
  // Recipe and utilization outlive the log. `resumed_step`: steps completed before. `device` as metrics name it.
  RunLog(const Recipe& recipe, const std::filesystem::path& directory, std::string device,
         FlopsUtilization& utilization, int64_t resumed_step, bool quiet);

  // First: what MFU is counted by, the memory that a step was planned to take, and where the time went until now.
  void basis(int64_t step, ParameterCounts parameters, const StepCost& cost, const StartTimes& start,
             const std::string& target);

  // Every step; a record is written every log.interval steps, and after the first and the last step.
  void step(const StepReport& report);
  void evaluation(int64_t step, int64_t tokens, const EvaluationResult& result);
  // After `step` steps, one was committed.
  void checkpoint(int64_t step, const SavedCheckpoint& saved);
  // To TensorBoard alone.
  void sample(int64_t step, std::string_view text);

  // Leaves the progress line as it stands.
  void finish_progress();

 private:
  using Clock = std::chrono::steady_clock;
  void write_record(const StepReport& report);
  void show_progress(const StepReport& report);
  double elapsed_seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  const Recipe& recipe_;
  std::string device_;
  FlopsUtilization& utilization_;
  int64_t first_step_;  // steps completed before this process
  MetricsLog metrics_;
  std::optional<TensorboardLog> tensorboard_;
  std::optional<ProgressLine> progress_;
  Clock::time_point start_ = Clock::now();
  // Since the last record.
  struct Interval {
    int64_t steps = 0;
    double loss_sum = 0, seconds = 0, data_wait_seconds = 0;
    int64_t tokens = 0;
  } interval_;
  double busy_seconds_ = 0;  // of all steps but the first, which also compiles
  int64_t busy_tokens_ = 0;  // in them
  double data_wait_seconds_ = 0;
};

}  // namespace causeway::train
