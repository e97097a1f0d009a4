// What is watched while a run goes: where its ranks spend their time, which of them is slow, what some steps did in
// detail, and whether replicas are still equal. Every rank has one, and all make the same calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/train/log/run_log.h"
#include "causeway/train/observation/rank_times.h"
#include "causeway/train/observation/run_trace.h"
#include "causeway/train/observation/slow_rank.h"
#include "causeway/train/ranks.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {

class RunObserver {
 public:
  // All outlive it. `first_step`: steps completed before this process. It speaks on the first rank, unless `quiet`.
  RunObserver(const Ranks& ranks, const Recipe& recipe, const LanguageModel& model, TrainingStep& training,
              int64_t first_step, bool quiet);

  // What the run leaves behind for whoever looks into it, a line each.
  std::vector<std::string> describe() const;

  // Where this rank is: the step at work, counted from 1, and the phase.
  void enter(int64_t step, std::string_view phase);
  // Whether something is asked of this step or after it but its times: it stands alone then.
  bool looks_into(int64_t step) const;
  // Where the programs of this step are to say what they did; null where nobody asks.
  std::vector<TracedRun>* watch_step(int64_t step);
  // The step has been taken and measured. Where it is recorded, `report` gets the times of all ranks.
  void end_step(StepReport& report);
  // Throws ReplicasDiffer.
  void compare_replicas_when_due(int64_t step);
  // A trace that cannot be written is said, and ends nothing.
  void write_trace_when_due(int64_t step, bool goes_on);

 private:
  bool is_measured(int64_t step) const;
  bool compares_replicas(int64_t step) const;
  void warn_of_slow_rank(std::span<const RankTimes> times, int64_t step);

  const Ranks& ranks_;
  const Recipe& recipe_;
  const LanguageModel& model_;
  TrainingStep& training_;
  int64_t first_step_;
  bool speaks_;
  RunTrace trace_;
  std::vector<TracedRun> runs_;  // of the step at hand
  std::optional<WorkSeconds> work_;
  RankTimesSum sum_;
  SlowRankRule slow_rank_;
  std::vector<std::string> hosts_;  // by rank
};

}  // namespace causeway::train
