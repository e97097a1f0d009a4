// What changed between two runs of the benchmark lab on one device, beyond noise.
//
// The test. Samples within a round share what happened to the device at that time, so the unit of observation is the
// round: y is the logarithm of a round's median of seconds (the median, since single samples stray far upwards). For
// each workload that both runs measured, the difference of the runs' means of y gets a confidence interval by Welch's
// t (two means, unequal variances, Satterthwaite's degrees of freedom). With 5 to 10 rounds a variance is poorly known
// and the quantile is large; so the variances of a run's workloads are moderated by each other first
// (moderate_variances()), which is where the power to see 3 % comes from. The interval is Bonferroni's: all intervals
// of a comparison hold together with the probability CompareOptions::confidence. (A bootstrap over rounds cannot serve:
// 5 rounds have too few different resamples for quantiles as far out as the correction needs.)
//
// Where the clock of each round is known, a difference of time that a difference of clock can explain is none. Under a
// power limit the clock depends on the device's temperature and on what ran before, and differs by several percent from
// run to run. How much of a workload's time follows the clock is not known; so what counts is the smaller of the
// differences of seconds and of cycles, and none where they point in different directions. So a change that is smaller
// than the difference of the clocks may not be seen: where the second run was at a higher clock, a slowdown, and always
// one that costs time by lowering the clock alone. format_changes() says how large a change would have been seen.
//
// Rounds cannot show what differs between one run and the next of the same program (placement in memory, a warmer room,
// a drift slower than a round). Earlier runs of the device can, where 21 or more have a workload: what it differed by
// from each to the next, beyond what their rounds explain (excess_variance_of_steps(), in seconds or in cycles,
// whichever vary less), is added to its variance, and how well that is known to its degrees of freedom. A few steps
// that were changes of the program make the test less sensitive, not wrong. The newest 40 such runs are looked at. Such
// a workload is slower if its interval lies above 1 and its ratio above 1 + margin, faster if they lie below 1 and 1 /
// (1 + margin).
//
// A workload with fewer earlier runs is tested otherwise. It is slower only if its whole interval lies above 1 +
// margin, and faster only if it lies below 1 / (1 + margin); and only if it stands out among the other workloads. These
// too tell of what differs from run to run, when there are 10 or more that did not change by the first test, of the
// same benchmark or, where it has fewer, of all: what their differences vary beyond what rounds explain
// (excess_variance(), in seconds or in cycles, whichever vary less) is added to the variance, and the interval made
// with that must not contain 1. A change of all workloads alike is not hidden by this.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "causeway/bench/result.h"

namespace causeway::bench {

// From harmless to bad.
enum class Verdict {
  kSame,  // no change beyond noise and margin was shown
  kFaster,
  kOnlyAfter,
  kOnlyBefore,
  kUntested,  // measured in both runs, but not so that they can be compared; Change::reason says why
  kSlower,
  kWrong,  // the result was right before and is wrong after
};

// "same", "faster", "new", "gone", "not tested", "slower", "wrong".
std::string verdict_name(Verdict verdict);

// Slower or wrong: what a nightly job must fail for.
bool is_regression(Verdict verdict);

struct CompareOptions {
  double confidence = 0.99;  // of all the intervals together
  double margin = 0.01;      // a change of the time by less is none
};

// One workload. Figures are the medians of all samples, in `unit`; 0 in the run that has none.
struct Change {
  std::string key;  // Measurement::key()
  std::string benchmark, group, workload, dtype, provider, unit;
  double before = 0, after = 0;
  // Seconds after over seconds before, by the means over rounds of the logarithms of their medians, less what the clock
  // can explain: 1.03 is 3 % slower, whatever the unit. With its interval, which is without bounds where the workload
  // was not tested.
  double ratio = 1, low = 0, high = std::numeric_limits<double>::infinity();
  // A ratio from which on a slowdown would have shown, whatever of it a difference of the two runs' clocks hides.
  double visible = std::numeric_limits<double>::infinity();
  Verdict verdict = Verdict::kSame;
  // Of kUntested and kWrong; of kSame where only the clock or only the second test, against the other workloads, spoke
  // against a change; where the clock explains a part of a change; empty otherwise.
  std::string reason;
};

// One change for each key of either run, in the order of `after`, then what only `before` has. A workload that a run
// measured twice counts by its last. Not tested: fewer than 2 rounds in either run, a sample of 0 s, another amount of
// work or unit, a wrong result in both or only before. `earlier`: runs before `after`, the oldest first; those of other
// devices do not count. Throws Error(kInvalidArgument) when the runs are of different devices or device counts. Other
// dtypes and providers are other keys.
std::vector<Change> compare(const BenchmarkRun& before, const BenchmarkRun& after, const CompareOptions& options = {},
                            std::span<const BenchmarkRun> earlier = {});

// The worst of all; kSame when there are none.
Verdict worst_verdict(const std::vector<Change>& changes);

// A table for people, the worst first, then how many workloads are the same, and how small a change could have been
// seen in half of them and in all. `show_same`: a line for each of those too; without it only for those with a reason.
// Ends with a newline.
std::string format_changes(const std::vector<Change>& changes, const CompareOptions& options = {},
                           bool show_same = false);

}  // namespace causeway::bench
