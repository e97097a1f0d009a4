#include "causeway/train/observation/run_observer.h"

#include <fmt/format.h>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/base/host_name.h"
#include "causeway/base/log.h"
#include "causeway/program/context.h"
#include "causeway/train/observation/flight_file.h"
#include "causeway/train/observation/replica_check.h"

namespace causeway::train {

RunObserver::RunObserver(const Ranks& ranks, const Recipe& recipe, const LanguageModel& model, TrainingStep& training,
                         int64_t first_step, bool quiet)
    : ranks_(ranks),
      recipe_(recipe),
      model_(model),
      training_(training),
      first_step_(first_step),
      speaks_(ranks.is_first() && !quiet),
      trace_(ranks, training.context().mesh(), training.context().device().name(), recipe.run_directory,
             recipe.log.trace_from, recipe.log.trace_steps),
      hosts_(ranks.gather(host_name())) {}

std::vector<std::string> RunObserver::describe() const {
  std::vector<std::string> lines;
  const std::filesystem::path directory = recipe_.run_directory;
  if (ranks_.count() > 1) {
    const std::string checked = recipe_.train.check_replicas == 0
                                    ? "not compared"
                                    : fmt::format("compared every {} steps", recipe_.train.check_replicas);
    lines.push_back(fmt::format("ranks: their times are in {}, replicas are {}; after a failure each leaves {}",
                                (directory / "metrics.jsonl").string(), checked,
                                (directory / "flight_rank_N.json").string()));
  }
  if (recipe_.log.trace_from > 0)
    lines.push_back(fmt::format("trace: of {} steps from step {} on, in {}", recipe_.log.trace_steps,
                                recipe_.log.trace_from, (directory / "trace.json").string()));
  return lines;
}

void RunObserver::enter(int64_t step, std::string_view phase) {
  ranks_.enter(step, phase);
  trace_.enter(step, phase);
}

// A measured step is not replayed: where steps are, a few measured ones are enough.
bool RunObserver::is_measured(int64_t step) const {
  if (ranks_.count() == 1) return false;
  if (!training_.context().device().target().runs_asynchronously()) return true;
  constexpr int64_t kEarly = 4;  // after compiling, recording and a replay
  const int64_t interval = recipe_.log.measure_interval;
  return interval > 0 && (step % interval == 0 || step == first_step_ + kEarly);
}

bool RunObserver::looks_into(int64_t step) const {
  return trace_.is_of(step) || is_measured(step) || compares_replicas(step);
}

std::vector<TracedRun>* RunObserver::watch_step(int64_t step) {
  runs_.clear();
  work_.reset();
  return trace_.is_of(step) || is_measured(step) ? &runs_ : nullptr;
}

void RunObserver::end_step(StepReport& report) {
  trace_.add(report.step, runs_);
  if (ranks_.count() == 1) return;
  // Not known before memory is shared.
  if (speaks_ && report.step == first_step_ + 1)
    notice("ranks: exchange by {}\n", training_.context().communicators()->name());
  if (!runs_.empty()) {
    work_.emplace();
    for (const TracedRun& run : runs_) *work_ += work_seconds(run.program->lowered(), run.times);
  }
  sum_.add(report.seconds, report.data_wait_seconds, work_);
  if (!is_recorded(recipe_, report.step, first_step_)) return;
  RankTimes own = sum_.take();
  own.memory_bytes = report.memory_bytes;
  const std::vector<RankTimes> times = gather_rank_times(ranks_, own);
  if (!ranks_.is_first()) return;
  report.ranks = rank_times_json(times, recipe_.log.each_rank);
  warn_of_slow_rank(times, report.step);
}

void RunObserver::warn_of_slow_rank(std::span<const RankTimes> times, int64_t step) {
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (const std::optional<SlowRank> slow = slow_rank_.heed(times, now))
    log_warning("step {}: {}, on host {}", step, slow->text(), hosts_[static_cast<size_t>(slow->rank)]);
}

bool RunObserver::compares_replicas(int64_t step) const {
  return ranks_.count() > 1 && recipe_.train.check_replicas > 0 && step % recipe_.train.check_replicas == 0;
}

void RunObserver::compare_replicas_when_due(int64_t step) {
  if (!compares_replicas(step)) return;
  enter(step, "comparison of replicas");
  compare_replicas(ranks_, model_, training_, step);
}

void RunObserver::write_trace_when_due(int64_t step, bool goes_on) {
  if (!trace_.is_due(step, goes_on)) return;
  try {
    const std::filesystem::path path = trace_.write();
    if (speaks_) notice("trace: {}; https://ui.perfetto.dev shows it\n", path.string());
  } catch (const CollectiveError&) {
    throw;
  } catch (const Error& error) {
    if (ranks_.is_first()) log_warning("the trace was not written: {}\n  Training goes on without.", error.what());
  }
}

}  // namespace causeway::train
