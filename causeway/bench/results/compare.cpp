#include "causeway/bench/results/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "causeway/base/error.h"
#include "causeway/base/text_table.h"
#include "causeway/bench/results/inference.h"
#include "causeway/bench/statistics.h"

namespace causeway::bench {
namespace {

// A timer's resolution: rounds that agree better than to 0.01 % do so by chance.
constexpr double kLeastVariance = 1e-8;
// Workloads of one benchmark follow the clock alike; with fewer of them, all of the run's must do.
constexpr size_t kEnoughAlike = 10;
// A program changes with time, and with it how figures vary.
constexpr size_t kMostEarlierRuns = 40;
// From run to run, to know what a workload varies by.
constexpr size_t kFewestSteps = 20;

// Mean and variance over rounds.
struct LogRounds {
  double mean = 0;
  Variance variance;
  double rounds = 0;

  Variance mean_variance() const { return {variance.value / rounds, variance.degrees_of_freedom}; }
};

LogRounds log_rounds(const std::vector<double>& logs) {
  LogRounds result;
  result.rounds = static_cast<double>(logs.size());
  for (const double log : logs) result.mean += log / result.rounds;
  double squares = 0;
  for (const double log : logs) squares += (log - result.mean) * (log - result.mean);
  result.variance = {std::max(squares / (result.rounds - 1), kLeastVariance), result.rounds - 1};
  return result;
}

void moderate(std::vector<LogRounds>& all) {
  std::vector<Variance> variances;
  for (const LogRounds& one : all) variances.push_back(one.variance);
  variances = moderate_variances(variances);
  for (size_t i = 0; i < all.size(); ++i) all[i].variance = variances[i];
}

// Logarithms, by round: of the median of seconds, and of the clock where it is known.
struct Observed {
  std::vector<double> times, clocks;
};

Observed observe(const Measurement& measurement) {
  Observed observed;
  for (std::vector<double> round : measurement.rounds) {
    std::sort(round.begin(), round.end());
    observed.times.push_back(std::log(percentile(round, 0.5)));
  }
  for (const double mhz : measurement.clock_mhz) observed.clocks.push_back(std::log(mhz));
  return observed;
}

// As the times themselves.
std::vector<double> cycles_of(const Observed& run) {
  std::vector<double> logs = run.times;
  for (size_t i = 0; i < run.clocks.size(); ++i) logs[i] += run.clocks[i];
  return logs;
}

std::string rounds_reason(const Measurement& m, const char* when) {
  if (m.rounds.size() < 2)
    return fmt::format("{} {}: without a second one noise is unknown", m.rounds.empty() ? "no round" : "one round",
                       when);
  for (const std::vector<double>& round : m.rounds)
    for (const double seconds : round)
      if (!(seconds > 0)) return fmt::format("a sample of {} s {}", seconds, when);
  return "";
}

std::string untested_reason(const Measurement& before, const Measurement& after) {
  if (before.unit != after.unit) return fmt::format("in {} before, in {} after", before.unit, after.unit);
  if (before.work != after.work)
    return fmt::format("another amount of work: {:g} before, {:g} after", before.work, after.work);
  if (!before.correct) return after.correct ? "its result was wrong before" : "its result is wrong in both runs";
  const std::string reason = rounds_reason(before, "before");
  return reason.empty() ? rounds_reason(after, "after") : reason;
}

double median_figure(const Measurement& m) { return m.rounds.empty() ? 0 : m.rate(summarize(m).median); }

Change change_of(const Measurement& m) {
  Change change;
  change.key = m.key();
  change.benchmark = m.benchmark;
  change.group = m.group;
  change.workload = m.workload;
  change.dtype = m.dtype;
  change.provider = m.provider;
  change.unit = m.unit;
  return change;
}

// The difference of two means of logarithms, and what is known of its error.
struct LogDifference {
  double value = 0;
  Variance variance;
};

// Satterthwaite's degrees of freedom of the sum of two variances.
double degrees_of_sum(double sum, const Variance& one, const Variance& other) {
  const double of_one = one.value * one.value / one.degrees_of_freedom;
  const double of_other = other.value * other.value / other.degrees_of_freedom;
  return std::max(1.0, sum * sum / (of_one + of_other));
}

// Welch's.
LogDifference difference_of(const LogRounds& before, const LogRounds& after) {
  const Variance b = before.mean_variance(), a = after.mean_variance();
  return {after.mean - before.mean, {a.value + b.value, degrees_of_sum(a.value + b.value, a, b)}};
}

// Of a workload between two runs, in seconds and in cycles; the same twice where a clock is not known.
struct Difference {
  LogDifference time, cycles;  // with the variances that rounds tell
  bool clocked = false;
  std::optional<ExcessVariance> between_runs;  // what the workload varies by beyond rounds, where earlier runs tell

  // What no share of the time that follows the clock explains. If none of it does, seconds tell, if all of it, cycles
  // do; anything between lies between.
  LogDifference least() const {
    LogDifference result = std::abs(time.value) < std::abs(cycles.value) ? time : cycles;
    if ((time.value < 0) != (cycles.value < 0)) result.value = 0;
    return result;
  }

  // All that is known of the error of one of the two.
  Variance variance_of(const LogDifference& one) const {
    if (!between_runs) return one.variance;
    const double value = one.variance.value + between_runs->value;
    return {value, degrees_of_sum(value, one.variance, between_runs->of_steps)};
  }
};

// Of two runs with the same workloads. With `moderated`, variances are those that all workloads together tell.
std::vector<Difference> differences_of(const std::vector<Observed>& before, const std::vector<Observed>& after,
                                       bool moderated) {
  std::vector<LogRounds> old_times, new_times, old_cycles, new_cycles;
  std::vector<Difference> differences(before.size());
  for (size_t i = 0; i < before.size(); ++i) {
    const bool clocked = !before[i].clocks.empty() && !after[i].clocks.empty();
    differences[i].clocked = clocked;
    old_times.push_back(log_rounds(before[i].times));
    new_times.push_back(log_rounds(after[i].times));
    old_cycles.push_back(clocked ? log_rounds(cycles_of(before[i])) : old_times.back());
    new_cycles.push_back(clocked ? log_rounds(cycles_of(after[i])) : new_times.back());
  }
  if (moderated)
    for (std::vector<LogRounds>* all : {&old_times, &new_times, &old_cycles, &new_cycles}) moderate(*all);
  for (size_t i = 0; i < before.size(); ++i) {
    differences[i].time = difference_of(old_times[i], new_times[i]);
    differences[i].cycles = difference_of(old_cycles[i], new_cycles[i]);
  }
  return differences;
}

// Of one of the two quantities: how much each differs, and the variance of that as rounds tell it.
struct Series {
  std::vector<double> values, expected;

  Series(const std::vector<Difference>& differences, LogDifference Difference::* in) {
    for (const Difference& difference : differences) {
      values.push_back((difference.*in).value);
      expected.push_back((difference.*in).variance.value);
    }
  }
};

// What differences that should be none vary by beyond their rounds: in seconds or in cycles, whichever vary less, since
// the clock moves at least one of them.
double excess_of(const std::vector<Difference>& differences) {
  const Series times(differences, &Difference::time), cycles(differences, &Difference::cycles);
  return std::min(excess_variance(times.values, times.expected), excess_variance(cycles.values, cycles.expected));
}

// The same of a workload's steps from each earlier run to the next.
ExcessVariance excess_of_steps(const std::vector<Difference>& steps) {
  const Series times(steps, &Difference::time), cycles(steps, &Difference::cycles);
  const ExcessVariance of_times = excess_variance_of_steps(times.values, times.expected);
  const ExcessVariance of_cycles = excess_variance_of_steps(cycles.values, cycles.expected);
  return of_cycles.value < of_times.value ? of_cycles : of_times;
}

double interval_width(const Variance& variance, double tail) {
  return student_t_quantile(tail, variance.degrees_of_freedom) * std::sqrt(variance.value);
}

std::map<std::string, const Measurement*> by_key(const BenchmarkRun& run) {
  std::map<std::string, const Measurement*> result;
  for (const Measurement& measurement : run.measurements) result[measurement.key()] = &measurement;
  return result;
}

std::string devices_of(const BenchmarkRun& run) {
  return run.device_count == 1 ? run.device : fmt::format("{} {}", run.device_count, run.device);
}

// Tells what each workload differs by from run to run, as far as earlier runs of the device do.
void ask_earlier_runs(const std::vector<Change*>& changes, std::vector<Difference>& differences,
                      const BenchmarkRun& after, std::span<const BenchmarkRun> earlier) {
  struct Workload {
    bool clocked = false;
    std::vector<Observed> rounds;  // the newest first
  };
  std::map<std::string, Workload> workloads;
  for (size_t i = 0; i < changes.size(); ++i) workloads[changes[i]->key].clocked = differences[i].clocked;
  size_t filled = 0;
  for (size_t i = earlier.size(); i-- > 0 && filled < workloads.size();) {
    if (devices_of(earlier[i]) != devices_of(after)) continue;
    for (const auto& [key, measurement] : by_key(earlier[i])) {
      const auto wanted = workloads.find(key);
      if (wanted == workloads.end() || wanted->second.rounds.size() == kMostEarlierRuns) continue;
      if (!measurement->correct || !rounds_reason(*measurement, "").empty()) continue;
      // What varies is asked in the quantity that is compared.
      Workload& workload = wanted->second;
      if (workload.clocked && measurement->clock_mhz.empty()) continue;
      workload.rounds.push_back(observe(*measurement));
      if (!workload.clocked) workload.rounds.back().clocks.clear();
      filled += workload.rounds.size() == kMostEarlierRuns;
    }
  }
  for (size_t i = 0; i < changes.size(); ++i) {
    const std::vector<Observed>& rounds = workloads[changes[i]->key].rounds;
    std::vector<Difference> steps;
    for (size_t run = 1; run < rounds.size(); ++run)
      steps.push_back(differences_of({rounds[run]}, {rounds[run - 1]}, false).front());
    if (steps.size() >= kFewestSteps) differences[i].between_runs = excess_of_steps(steps);
  }
}

std::string percent(double ratio) { return fmt::format("{:+.1f} %", (ratio - 1) * 100); }

// Gives every tested change its interval and verdict.
void judge(const std::vector<Change*>& changes, const std::vector<Difference>& differences,
           const CompareOptions& options) {
  const double tail = (1 - options.confidence) / (2 * static_cast<double>(changes.size()));
  const double margin = std::log(1 + options.margin);
  // What a difference must exceed. Where it is not known what the workload varies by from run to run, the margin stands
  // for that.
  const auto limit_of = [&](const Difference& difference, const LogDifference& one) {
    const double width = interval_width(difference.variance_of(one), tail);
    return difference.between_runs ? std::max(margin, width) : margin + width;
  };
  std::vector<Difference> unchanged;
  std::map<std::string, std::vector<Difference>> unchanged_by_benchmark;
  for (size_t i = 0; i < changes.size(); ++i) {
    Change& change = *changes[i];
    const LogDifference least = differences[i].least();
    const double width = interval_width(differences[i].variance_of(least), tail);
    change.ratio = std::exp(least.value);
    change.low = std::exp(least.value - width);
    change.high = std::exp(least.value + width);
    const double limit = limit_of(differences[i], least);
    if (least.value > limit) {
      change.verdict = Verdict::kSlower;
    } else if (least.value < -limit) {
      change.verdict = Verdict::kFaster;
    } else {
      unchanged.push_back(differences[i]);
      unchanged_by_benchmark[change.benchmark].push_back(differences[i]);
    }
  }
  const double between_all = excess_of(unchanged);
  for (size_t i = 0; i < changes.size(); ++i) {
    Change& change = *changes[i];
    const LogDifference least = differences[i].least(), &time = differences[i].time;
    const bool was_same = change.verdict == Verdict::kSame;
    double limit = limit_of(differences[i], least);
    double between_others = 0;
    if (!differences[i].between_runs) {
      const std::vector<Difference>& alike = unchanged_by_benchmark[change.benchmark];
      between_others = alike.size() < kEnoughAlike ? between_all : excess_of(alike);
      Variance variance = least.variance;
      variance.value += between_others;
      limit = std::max(limit, interval_width(variance, tail));
    }
    change.visible = std::exp(limit + std::abs(time.value - differences[i].cycles.value));
    if (!was_same && std::abs(least.value) <= limit) {
      change.verdict = Verdict::kSame;
      change.reason =
          fmt::format("the other workloads differ by {:.1f} % between these runs too", 100 * std::sqrt(between_others));
    } else if (std::abs(time.value - least.value) > margin / 2 &&
               (!was_same || std::abs(time.value) > limit_of(differences[i], time))) {
      change.reason = fmt::format("{} in seconds, of which the clock can explain {}", percent(std::exp(time.value)),
                                  percent(std::exp(time.value - least.value)));
    }
  }
}

std::string figure(double value, const std::string& unit) {
  if (value == 0) return "-";
  return fmt::format("{:.4g} {}", value, unit);
}

std::vector<std::string> table_row(const Change& c) {
  const bool tested = std::isfinite(c.high);
  const std::string interval = tested ? fmt::format("{} to {}", percent(c.low), percent(c.high)) : "";
  const std::string remark = interval + (tested && !c.reason.empty() ? "; " : "") + c.reason;
  return {verdict_name(c.verdict),
          c.benchmark,
          c.group,
          c.workload,
          c.dtype,
          c.provider,
          figure(c.before, c.unit),
          figure(c.after, c.unit),
          tested ? percent(c.ratio) : "",
          remark};
}

}  // namespace

std::string verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSame:
      return "same";
    case Verdict::kFaster:
      return "faster";
    case Verdict::kOnlyAfter:
      return "new";
    case Verdict::kOnlyBefore:
      return "gone";
    case Verdict::kUntested:
      return "not tested";
    case Verdict::kSlower:
      return "slower";
    case Verdict::kWrong:
      return "wrong";
  }
  throw_check_failure("verdict is known", __FILE__, __LINE__, fmt::format("{}", static_cast<int>(verdict)));
}

bool is_regression(Verdict verdict) { return verdict >= Verdict::kSlower; }

std::vector<Change> compare(const BenchmarkRun& before, const BenchmarkRun& after, const CompareOptions& options,
                            std::span<const BenchmarkRun> earlier) {
  if (devices_of(before) != devices_of(after))
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("runs on different devices cannot be compared for changes: {} and {}", devices_of(before),
                            devices_of(after)),
                "", "Compare two runs of one device; causeway bench report draws device against device.");
  const std::map<std::string, const Measurement*> old_ones = by_key(before);
  const std::map<std::string, const Measurement*> new_ones = by_key(after);
  std::vector<Change> changes;
  std::vector<size_t> tested;
  std::vector<Observed> tested_before, tested_after;
  for (const Measurement& m : after.measurements) {
    if (new_ones.at(m.key()) != &m) continue;
    Change change = change_of(m);
    change.after = median_figure(m);
    const auto old_one = old_ones.find(m.key());
    if (old_one == old_ones.end()) {
      change.verdict = Verdict::kOnlyAfter;
    } else {
      const Measurement& old = *old_one->second;
      change.before = median_figure(old);
      if (old.correct && !m.correct) {
        change.verdict = Verdict::kWrong;
        change.reason = m.check.empty() ? "its result is wrong" : m.check;
      } else if (change.reason = untested_reason(old, m); !change.reason.empty()) {
        change.verdict = Verdict::kUntested;
      } else {
        tested.push_back(changes.size());
        tested_before.push_back(observe(old));
        tested_after.push_back(observe(m));
      }
    }
    changes.push_back(std::move(change));
  }
  std::vector<Change*> to_judge;
  for (const size_t i : tested) to_judge.push_back(&changes[i]);
  std::vector<Difference> differences = differences_of(tested_before, tested_after, true);
  ask_earlier_runs(to_judge, differences, after, earlier);
  judge(to_judge, differences, options);
  for (const Measurement& m : before.measurements) {
    if (old_ones.at(m.key()) != &m || new_ones.contains(m.key())) continue;
    changes.push_back(change_of(m));
    changes.back().before = median_figure(m);
    changes.back().verdict = Verdict::kOnlyBefore;
  }
  return changes;
}

Verdict worst_verdict(const std::vector<Change>& changes) {
  Verdict worst = Verdict::kSame;
  for (const Change& change : changes) worst = std::max(worst, change.verdict);
  return worst;
}

std::string format_changes(const std::vector<Change>& changes, const CompareOptions& options, bool show_same) {
  std::vector<const Change*> sorted;
  std::vector<double> visible;
  for (const Change& change : changes) {
    if (change.verdict == Verdict::kSame) visible.push_back((change.visible - 1) * 100);
    if (show_same || change.verdict != Verdict::kSame || !change.reason.empty()) sorted.push_back(&change);
  }
  std::sort(sorted.begin(), sorted.end(), [](const Change* a, const Change* b) {
    if (a->verdict != b->verdict) return a->verdict > b->verdict;
    if (a->ratio != b->ratio) return a->verdict == Verdict::kFaster ? a->ratio < b->ratio : a->ratio > b->ratio;
    return a->key < b->key;
  });
  std::string text;
  if (!sorted.empty()) {
    std::vector<std::vector<std::string>> rows = {{"", "benchmark", "group", "workload", "dtype", "provider",
                                                   "median before", "median after", "time",
                                                   fmt::format("{:g} % interval", options.confidence * 100)}};
    for (const Change* change : sorted) rows.push_back(table_row(*change));
    text = format_table(rows) + "\n";
  }
  if (!visible.empty()) {
    std::sort(visible.begin(), visible.end());
    text += fmt::format(
        "{} of {} workloads show no change; one of {:.1f} % would have shown in half of them, one of {:.1f} % in "
        "all.\n",
        visible.size(), changes.size(), percentile(visible, 0.5), visible.back());
  }
  if (changes.empty()) text += "Neither run has a measurement.\n";
  return text;
}

}  // namespace causeway::bench
