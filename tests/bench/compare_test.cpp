#include "causeway/bench/results/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <span>

#include "causeway/base/error.h"

namespace causeway::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

// Standard deviations, as parts of the time.
struct Noise {
  double round = 0.005;    // of the rounds
  double sample = 0.01;    // of the samples in a round
  double run = 0;          // of a workload from one run to the next
  double outliers = 0.02;  // this part of the samples takes twice as long
};

constexpr int kWorkloads = 100;

// `slowdown`: what workload i takes longer.
BenchmarkRun simulated_run(
    unsigned seed, int rounds, int samples, const Noise& noise = {},
    const std::function<double(int)>& slowdown = [](int) { return 1.0; }) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, 1);
  std::uniform_real_distribution<double> uniform(0, 1);
  BenchmarkRun run;
  run.device = "NVIDIA H200";
  for (int i = 0; i < kWorkloads; ++i) {
    Measurement m;
    m.benchmark = "gemm";
    m.workload = fmt::format("shape {}", i);
    m.dtype = "bf16";
    m.provider = "Causeway";
    m.unit = "TFLOP/s";
    m.work = 1e12;
    const double time = 1e-4 * (1 + i) * slowdown(i) * (1 + noise.run * normal(random));
    for (int r = 0; r < rounds; ++r) {
      const double at_that_time = time * (1 + noise.round * normal(random));
      m.rounds.emplace_back();
      for (int s = 0; s < samples; ++s)
        m.rounds.back().push_back(at_that_time * (1 + noise.sample * normal(random)) *
                                  (uniform(random) < noise.outliers ? 2 : 1));
    }
    run.measurements.push_back(std::move(m));
  }
  return run;
}

int count(const std::vector<Change>& changes, Verdict verdict) {
  return static_cast<int>(
      std::count_if(changes.begin(), changes.end(), [&](const Change& c) { return c.verdict == verdict; }));
}

TEST(Compare, TwoRunsOfTheSameShowNoRegression) {
  for (const auto& [rounds, samples] : {std::pair{10, 10}, {5, 20}})
    for (unsigned repetition = 0; repetition < 20; ++repetition) {
      const std::vector<Change> changes =
          compare(simulated_run(2 * repetition, rounds, samples), simulated_run(2 * repetition + 1, rounds, samples));
      ASSERT_EQ(changes.size(), static_cast<size_t>(kWorkloads));
      EXPECT_EQ(count(changes, Verdict::kSame), kWorkloads) << format_changes(changes);
      EXPECT_EQ(worst_verdict(changes), Verdict::kSame);
    }
}

TEST(Compare, APlantedSlowdownOfThreePercentIsCaughtAndNothingElse) {
  for (unsigned repetition = 0; repetition < 20; ++repetition) {
    const int planted = static_cast<int>(repetition) * 5;
    const std::vector<Change> changes =
        compare(simulated_run(100 + repetition, 10, 10),
                simulated_run(200 + repetition, 10, 10, {}, [&](int i) { return i == planted ? 1.03 : 1.0; }));
    const Change& change = changes[static_cast<size_t>(planted)];
    EXPECT_EQ(change.verdict, Verdict::kSlower) << change.low << " to " << change.high;
    EXPECT_GT(change.low, 1 + CompareOptions().margin);
    EXPECT_GT(change.high, change.ratio);
    EXPECT_NEAR(change.ratio, 1.03, 0.01);
    EXPECT_EQ(count(changes, Verdict::kSame), kWorkloads - 1) << format_changes(changes);
    EXPECT_TRUE(is_regression(worst_verdict(changes)));
  }
}

TEST(Compare, FiveRoundsCatchThreePercentMostly) {
  int caught = 0;
  for (unsigned repetition = 0; repetition < 20; ++repetition)
    caught += compare(simulated_run(300 + repetition, 5, 20),
                      simulated_run(400 + repetition, 5, 20, {}, [](int i) { return i == 7 ? 1.03 : 1.0; }))[7]
                  .verdict == Verdict::kSlower;
  EXPECT_GE(caught, 14);
}

TEST(Compare, TheIntervalsHoldTogether) {
  int outside = 0;
  for (unsigned repetition = 0; repetition < 20; ++repetition)
    for (const Change& change : compare(simulated_run(500 + repetition, 5, 20), simulated_run(600 + repetition, 5, 20)))
      outside += change.low > 1 || change.high < 1;
  // Of 20 comparisons with 99 % confidence each, two with an interval beside the truth would be a chance of 2 %.
  EXPECT_LE(outside, 1);
}

TEST(Compare, RoundsCountAndNotSamples) {
  // Two rounds each, a thousand samples that agree within a round: two observations all the same.
  BenchmarkRun before = simulated_run(1, 2, 1000, {.round = 0.03, .sample = 0.001});
  BenchmarkRun after = simulated_run(2, 2, 1000, {.round = 0.03, .sample = 0.001});
  EXPECT_EQ(count(compare(before, after), Verdict::kSame), kWorkloads);
}

TEST(Compare, WhatAllWorkloadsDifferFromRunToRunIsNoRegression) {
  int wrongly = 0;
  int by_the_second_test = 0;
  for (unsigned repetition = 0; repetition < 20; ++repetition) {
    const std::vector<Change> changes = compare(simulated_run(700 + repetition, 10, 10, {.run = 0.006}),
                                                simulated_run(800 + repetition, 10, 10, {.run = 0.006}));
    wrongly += kWorkloads - count(changes, Verdict::kSame);
    for (const Change& change : changes) {
      by_the_second_test += !change.reason.empty();
      if (!change.reason.empty()) EXPECT_THAT(change.reason, HasSubstr("the other workloads differ by"));
    }
  }
  EXPECT_EQ(wrongly, 0);
  EXPECT_GT(by_the_second_test, 0);
}

// One workload jumps from run to run by 10 %, and nothing within a run tells.
TEST(Compare, EarlierRunsTellWhichWorkloadsJump) {
  std::mt19937 random(9);
  std::normal_distribution<double> normal(0, 1);
  std::vector<BenchmarkRun> runs;
  for (unsigned i = 0; i < 40; ++i) {
    const double jump = std::exp(0.1 * normal(random));
    runs.push_back(simulated_run(1000 + i, 10, 10, {}, [&](int workload) {
      return workload == 3 ? jump : workload == 50 && i >= 30 ? 1.03 : 1.0;
    }));
  }
  const auto compared = [&](size_t i, size_t earlier) {
    return compare(runs[i - 1], runs[i], {}, std::span(runs).subspan(i - earlier, earlier));
  };
  int false_alarms = 0, false_alarms_without = 0;
  for (size_t i = 25; i < 40; ++i) {
    const std::vector<Change> changes = compared(i, 25), without = compared(i, 0);
    EXPECT_EQ(changes[50].verdict, i == 30 ? Verdict::kSlower : Verdict::kSame) << i;
    false_alarms += changes[3].verdict != Verdict::kSame;
    false_alarms_without += without[3].verdict != Verdict::kSame;
  }
  EXPECT_EQ(false_alarms, 0);
  EXPECT_GT(false_alarms_without, 10);
  // Too few to tell.
  EXPECT_EQ(compared(25, 20)[3].ratio, compared(25, 0)[3].ratio);
  EXPECT_EQ(compared(25, 20)[3].high, compared(25, 0)[3].high);
  EXPECT_NE(compared(25, 21)[3].high, compared(25, 0)[3].high);
}

// One workload differs by 0.2 % from run to run, the others by 0.8 %: they must not hide what it shows.
TEST(Compare, WithEarlierRunsAWorkloadIsHeldAgainstItself) {
  std::mt19937 random(11);
  std::normal_distribution<double> normal(0, 1);
  const auto night = [&](unsigned i, double slowdown) {
    return simulated_run(2000 + i, 10, 10, {}, [&](int workload) {
      return std::exp((workload == 50 ? 0.002 : 0.008) * normal(random)) * (workload == 50 ? slowdown : 1);
    });
  };
  std::vector<BenchmarkRun> runs;
  for (unsigned i = 0; i < 32; ++i) runs.push_back(night(i, 1));
  int found = 0, found_without = 0, false_alarms = 0;
  for (unsigned i = 0; i < 20; ++i) {
    const BenchmarkRun slow = night(100 + i, 1.03);
    const std::vector<Change> changes = compare(runs.back(), slow, {}, runs);
    found += changes[50].verdict == Verdict::kSlower;
    if (changes[50].verdict == Verdict::kSlower) {
      EXPECT_GT(changes[50].low, 1);
      EXPECT_LT(changes[50].visible, 1.03);
    }
    false_alarms += count(changes, Verdict::kSlower) - (changes[50].verdict == Verdict::kSlower);
    found_without += compare(runs.back(), slow)[50].verdict == Verdict::kSlower;
  }
  EXPECT_GE(found, 15);
  EXPECT_LE(found_without, 5);
  EXPECT_LE(false_alarms, 1);
}

// With as few earlier runs as will do, and as much that rounds explain as what they do not.
TEST(Compare, FewEarlierRunsGiveNoFalseAlarms) {
  const Noise noise = {.run = 0.002};
  int false_alarms = 0;
  for (unsigned repetition = 0; repetition < 20; ++repetition) {
    std::vector<BenchmarkRun> runs;
    for (unsigned i = 0; i < 22; ++i) runs.push_back(simulated_run(4000 + 100 * repetition + i, 10, 10, noise));
    const std::span<const BenchmarkRun> all = runs;
    false_alarms += kWorkloads - count(compare(runs[20], runs[21], {}, all.first(21)), Verdict::kSame);
  }
  EXPECT_EQ(false_alarms, 0);
}

// What others' earlier runs tell of them must not be taken for calm: a new workload is tested by how all differ now.
TEST(Compare, ANewWorkloadAmongThoseWithEarlierRuns) {
  const Noise noise = {.run = 0.008};
  std::vector<BenchmarkRun> runs;
  for (unsigned i = 0; i < 36; ++i) {
    runs.push_back(simulated_run(7000 + i, 10, 10, noise));
    for (int fresh = 0; fresh < 10 && i < 24; ++fresh) runs.back().measurements.erase(runs.back().measurements.begin());
  }
  int false_alarms = 0;
  for (size_t i = 25; i < runs.size(); ++i)
    false_alarms += kWorkloads - count(compare(runs[i - 1], runs[i], {}, std::span(runs).first(i)), Verdict::kSame);
  EXPECT_LE(false_alarms, 1);
}

// A change that is shown, but is smaller than the margin, is none with earlier runs either.
TEST(Compare, TheMarginHoldsWithEarlierRunsToo) {
  const Noise quiet = {.round = 0.0005, .sample = 0.001};
  std::vector<BenchmarkRun> runs;
  for (unsigned i = 0; i < 21; ++i) runs.push_back(simulated_run(3000 + i, 10, 10, quiet));
  const BenchmarkRun after = simulated_run(3100, 10, 10, quiet, [](int i) {
    return i == 3 ? 1 / 1.008 : i == 4 ? 1.008 : i == 5 ? 1.013 : i == 6 ? 1 / 1.013 : 1.0;
  });
  const std::vector<Change> changes = compare(runs.back(), after, {}, runs);
  EXPECT_EQ(changes[3].verdict, Verdict::kSame);
  EXPECT_EQ(changes[4].verdict, Verdict::kSame);
  EXPECT_GT(changes[4].low, 1);
  EXPECT_EQ(changes[5].verdict, Verdict::kSlower);
  EXPECT_EQ(changes[6].verdict, Verdict::kFaster);
  EXPECT_EQ(count(changes, Verdict::kSame), kWorkloads - 2);
}

TEST(Compare, ASlowdownOfManyWorkloadsDoesNotHideItself) {
  const std::vector<Change> half =
      compare(simulated_run(1, 10, 10), simulated_run(2, 10, 10, {}, [](int i) { return i % 2 == 0 ? 1.05 : 1.0; }));
  EXPECT_EQ(count(half, Verdict::kSlower), kWorkloads / 2) << format_changes(half);
  const std::vector<Change> all =
      compare(simulated_run(3, 10, 10), simulated_run(4, 10, 10, {}, [](int) { return 1.05; }));
  EXPECT_EQ(count(all, Verdict::kSlower), kWorkloads) << format_changes(all);
}

TEST(Compare, FasterIsFoundAndAChangeWithinTheMarginIsNone) {
  const Noise quiet = {.round = 0.0005, .sample = 0.001};
  const std::vector<Change> changes =
      compare(simulated_run(1, 10, 10, quiet), simulated_run(2, 10, 10, quiet, [](int i) {
                return i == 3 ? 1 / 1.04 : i == 4 ? 1.008 : 1.0;
              }));
  EXPECT_EQ(changes[3].verdict, Verdict::kFaster);
  EXPECT_LT(changes[3].high, 1 / 1.01);
  EXPECT_GT(changes[3].after, changes[3].before);
  EXPECT_EQ(changes[4].verdict, Verdict::kSame);
  EXPECT_GT(changes[4].low, 1);
  EXPECT_FALSE(is_regression(worst_verdict(changes)));
}

TEST(Compare, SecondsAreSlowerWhenThereAreMore) {
  BenchmarkRun before = simulated_run(1, 10, 10), after = simulated_run(2, 10, 10, {}, [](int) { return 1.1; });
  for (BenchmarkRun* run : {&before, &after})
    for (Measurement& m : run->measurements) m.unit = "s", m.work = 0;
  const std::vector<Change> changes = compare(before, after);
  EXPECT_EQ(changes[0].verdict, Verdict::kSlower);
  EXPECT_GT(changes[0].after, changes[0].before);
}

TEST(Compare, WhatOnlyOneRunHasIsNamed) {
  BenchmarkRun before = simulated_run(1, 10, 10), after = simulated_run(2, 10, 10);
  before.measurements.resize(3);
  after.measurements.resize(3);
  after.measurements[1].dtype = "fp8";
  after.measurements[2].provider = "cuBLASLt 12.8";
  const std::vector<Change> changes = compare(before, after);
  ASSERT_EQ(changes.size(), 5u);
  EXPECT_EQ(changes[0].verdict, Verdict::kSame);
  EXPECT_EQ(changes[1].verdict, Verdict::kOnlyAfter);
  EXPECT_EQ(changes[1].before, 0);
  EXPECT_EQ(changes[2].verdict, Verdict::kOnlyAfter);
  EXPECT_EQ(changes[3].key, "gemm||shape 1|bf16|Causeway");
  EXPECT_EQ(changes[3].verdict, Verdict::kOnlyBefore);
  EXPECT_EQ(changes[4].verdict, Verdict::kOnlyBefore);
  EXPECT_EQ(worst_verdict(changes), Verdict::kOnlyBefore);
  EXPECT_TRUE(compare({}, {}).empty());
  EXPECT_EQ(worst_verdict({}), Verdict::kSame);
}

// Two models may be trained on as many tokens.
TEST(Compare, AWorkloadIsOfItsGroup) {
  BenchmarkRun before = simulated_run(1, 10, 10), after = simulated_run(2, 10, 10);
  for (BenchmarkRun* run : {&before, &after}) {
    run->measurements.resize(2);
    run->measurements[0].group = "GPT-2 124M";
    run->measurements[1].group = "GPT 1.5B";
    for (Measurement& m : run->measurements) m.workload = "16 x 1024 tokens";
  }
  const std::vector<Change> changes = compare(before, after);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(count(changes, Verdict::kSame), 2);
  EXPECT_THAT(format_changes(changes, {}, true), testing::HasSubstr("GPT 1.5B    16 x 1024 tokens"));
}

// A device under a power limit: its clock differs from run to run and wanders from round to round, and times follow it,
// each workload's more or less.
BenchmarkRun power_limited_run(
    unsigned seed, double clock_of_run, const std::function<double(int)>& slowdown = [](int) { return 1.0; },
    double run_noise = 0) {
  BenchmarkRun run = simulated_run(seed, 10, 10, {.round = 0.002, .run = run_noise}, slowdown);
  std::mt19937 random(seed + 10000);
  std::normal_distribution<double> normal(0, 1);
  for (size_t i = 0; i < run.measurements.size(); ++i) {
    Measurement& m = run.measurements[i];
    const double exponent = i % 4 == 0 ? 0 : i % 4 == 1 ? 0.6 : 1;
    if (exponent < 1) m.benchmark = exponent == 0 ? "copy" : "attention";
    double wander = 0;
    for (std::vector<double>& round : m.rounds) {
      wander += 0.003 * normal(random);
      const double clock = clock_of_run * (1 + wander);
      m.clock_mhz.push_back(1500 * clock);
      for (double& seconds : round) seconds *= std::pow(clock, -exponent);
    }
  }
  return run;
}

TEST(Compare, WhatTheClockExplainsIsNoChange) {
  int by_seconds = 0;
  for (unsigned repetition = 0; repetition < 20; ++repetition) {
    const double clock = repetition % 2 == 0 ? 0.95 : 1.06;
    const BenchmarkRun before = power_limited_run(900 + repetition, 1);
    BenchmarkRun after = power_limited_run(950 + repetition, clock);
    const std::vector<Change> changes = compare(before, after);
    EXPECT_EQ(count(changes, Verdict::kSame), kWorkloads) << format_changes(changes);
    EXPECT_THAT(changes[2].reason, HasSubstr("% in seconds, of which the clock can explain "));
    EXPECT_EQ(changes[0].reason, "");
    // Seconds alone do not tell: the clock of one run is not known.
    for (Measurement& m : after.measurements) m.clock_mhz.clear();
    by_seconds += kWorkloads - count(compare(before, after), Verdict::kSame);
  }
  EXPECT_GT(by_seconds, 200);
}

TEST(Compare, AChangeIsSeenWhateverTheClock) {
  for (const double clock : {0.97, 1.0, 1.03}) {
    const auto planted = [](int i) { return i == 42 ? 1.04 : i == 43 ? 0.92 : 1.0; };
    const std::vector<Change> changes =
        compare(power_limited_run(971, 1, [](int) { return 1.0; }), power_limited_run(972, clock, planted));
    // At a higher clock the time shows a part of the slowdown alone, at a lower one of the speedup.
    EXPECT_EQ(changes[42].verdict == Verdict::kSlower, clock <= 1) << changes[42].low;
    EXPECT_EQ(changes[43].verdict, Verdict::kFaster) << changes[43].high;
    EXPECT_EQ(count(changes, Verdict::kSlower) + count(changes, Verdict::kFaster), clock <= 1 ? 2 : 1)
        << format_changes(changes);
  }
}

// What differs between runs beside the clock is not forgotten over it.
TEST(Compare, WhatAllWorkloadsDifferFromRunToRunIsNoRegressionWithClocksEither) {
  int wrongly = 0;
  for (unsigned repetition = 0; repetition < 20; ++repetition) {
    const double clock = 1 + 0.02 * (static_cast<int>(repetition % 5) - 2);
    const std::vector<Change> changes =
        compare(power_limited_run(
                    1000 + repetition, 1, [](int) { return 1.0; }, 0.004),
                power_limited_run(1050 + repetition, clock, [](int) { return 1.0; }, 0.004));
    wrongly += kWorkloads - count(changes, Verdict::kSame);
  }
  EXPECT_LE(wrongly, 1);
}

// Earlier runs tell what varies in seconds where seconds are compared, and in cycles where cycles are.
TEST(Compare, EarlierRunsWithAndWithoutClocksAreNotMixed) {
  const auto forget_clocks = [](BenchmarkRun run) {
    for (Measurement& m : run.measurements) m.clock_mhz.clear();
    return run;
  };
  std::vector<BenchmarkRun> clocked, unclocked;
  for (unsigned i = 0; i < 25; ++i) {
    clocked.push_back(power_limited_run(1100 + i, i % 2 == 0 ? 0.97 : 1.03));
    unclocked.push_back(forget_clocks(clocked.back()));
  }
  const BenchmarkRun warm = power_limited_run(1150, 1.03), cold = power_limited_run(1151, 0.97);
  EXPECT_EQ(count(compare(forget_clocks(warm), cold, {}, clocked), Verdict::kSlower), 0);
  EXPECT_EQ(count(compare(forget_clocks(warm), cold, {}, unclocked), Verdict::kSlower), 0);
  const BenchmarkRun slow = power_limited_run(1152, 1, [](int i) { return i == 7 ? 1.04 : 1.0; });
  for (const std::vector<BenchmarkRun>& earlier : {clocked, unclocked}) {
    const std::vector<Change> changes = compare(power_limited_run(1153, 1), slow, {}, earlier);
    EXPECT_EQ(changes[7].verdict, Verdict::kSlower) << changes[7].low;
    EXPECT_EQ(count(changes, Verdict::kSlower), 1) << format_changes(changes);
  }
}

TEST(Compare, OtherDevicesAreRefused) {
  BenchmarkRun before = simulated_run(1, 5, 5), after = before;
  after.device = "AMD Instinct MI300X";
  after.device_count = 8;
  try {
    compare(before, after);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("different devices cannot be compared"));
    EXPECT_THAT(error.what(), HasSubstr("NVIDIA H200 and 8 AMD Instinct MI300X"));
    EXPECT_THAT(error.what(), HasSubstr("causeway bench report"));
  }
  after.device = before.device;
  EXPECT_THROW(compare(before, after), Error);
}

TEST(Compare, WhatCannotBeComparedSaysWhy) {
  BenchmarkRun before = simulated_run(1, 5, 5);
  before.measurements.resize(8);
  BenchmarkRun after = before;
  after.measurements[0].rounds.resize(1);
  before.measurements[1].rounds.clear();
  after.measurements[2].work *= 2;
  after.measurements[3].unit = "GB/s";
  before.measurements[4].correct = false;
  after.measurements[5].rounds[2][1] = 0;
  after.measurements[6].correct = false;
  after.measurements[6].check = "max |error| 0.4 of 0.02 allowed";
  const std::vector<Change> changes = compare(before, after);
  EXPECT_EQ(changes[0].reason, "one round after: without a second one noise is unknown");
  EXPECT_EQ(changes[1].reason, "no round before: without a second one noise is unknown");
  EXPECT_EQ(changes[2].reason, "another amount of work: 1e+12 before, 2e+12 after");
  EXPECT_EQ(changes[3].reason, "in TFLOP/s before, in GB/s after");
  EXPECT_EQ(changes[4].reason, "its result was wrong before");
  EXPECT_EQ(changes[5].reason, "a sample of 0 s after");
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(changes[i].verdict, Verdict::kUntested) << i;
  EXPECT_EQ(changes[6].verdict, Verdict::kWrong);
  EXPECT_EQ(changes[6].reason, "max |error| 0.4 of 0.02 allowed");
  // Identical samples: no noise at all, and no change.
  EXPECT_EQ(changes[7].verdict, Verdict::kSame);
  EXPECT_DOUBLE_EQ(changes[7].ratio, 1);
  EXPECT_TRUE(is_regression(worst_verdict(changes)));
}

TEST(Compare, TheTableShowsTheWorstFirst) {
  BenchmarkRun before = simulated_run(1, 10, 10);
  BenchmarkRun after = simulated_run(2, 10, 10, {}, [](int i) {
    return i == 8 ? 1.06 : i == 9 ? 1.2 : i == 2 ? 0.9 : 1;
  });
  after.measurements[5].correct = false;
  after.measurements[5].check = "max |error| 0.4";
  const std::vector<Change> changes = compare(before, after);
  const std::string table = format_changes(changes);
  SCOPED_TRACE(table);
  EXPECT_THAT(table, HasSubstr("99 % interval"));
  EXPECT_THAT(table, HasSubstr("TFLOP/s"));
  EXPECT_LT(table.find("wrong "), table.find("shape 9 "));
  EXPECT_LT(table.find("shape 9 "), table.find("shape 8 "));
  EXPECT_LT(table.find("shape 8 "), table.find("shape 2 "));
  EXPECT_THAT(table, HasSubstr("max |error| 0.4"));
  EXPECT_THAT(table, HasSubstr("96 of 100 workloads show no change; one of "));
  EXPECT_THAT(table, Not(HasSubstr("shape 50 ")));
  EXPECT_THAT(format_changes(changes, {}, true), HasSubstr("shape 50 "));
  EXPECT_EQ(table.back(), '\n');
  EXPECT_EQ(format_changes({}), "Neither run has a measurement.\n");
}

}  // namespace
}  // namespace causeway::bench
