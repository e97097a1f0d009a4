// Time of work on a device, as docs/benchmarking.md describes it: contenders warm up until the clocks are steady, then
// take turns, a round each; before every sample the last-level cache is filled with something else, outside the time;
// samples are taken by the device's own clock.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "causeway/bench/clock_probe.h"
#include "causeway/device/device.h"

namespace causeway::bench {

struct TimingOptions {
  int samples = 100;  // of each contender
  int rounds = 10;
  double warm_up_seconds = 0.3;  // of each contender
  // Most time, warm-up aside: with less than `samples` would take, each round has fewer, one at least; no more rounds
  // are begun when it is over. Every contender has a whole round at least. 0: no limit.
  double limit_seconds = 0;
  // Written between samples; 0: nothing is done to the cache.
  size_t flush_bytes = 0;
  // Reads the clock before and after each round, where there is one.
  ClockProbe* clock = nullptr;
};

// What a contender's rounds took.
struct TimedRounds {
  std::vector<std::vector<double>> seconds;  // by round, sample
  std::vector<double> clock_mhz;             // by round; fewer where the probe could not read it, empty without one
};

// Puts one execution of the work into the device's queue.
using TimedWork = std::function<void()>;

// Where several processes time the same work together: what is decided by time must be decided alike in all.
struct TimingTogether {
  // What all processes have in place of their own value; called as often in each.
  std::function<double(double)> agreed;
  // Lets all begin a sample, or a batch of the warm-up, at one time, outside of a sample's time.
  std::function<void()> line_up;
};

// By contender. `after_round` is called with the contender's number after each round, when the
// device has finished it.
std::vector<TimedRounds> time_alternately(Device& device, std::span<const TimedWork> contenders,
                                          const TimingOptions& options,
                                          const std::function<void(size_t)>& after_round = {},
                                          const TimingTogether& together = {});

// Bytes that displace everything in a last-level cache of this size: four times as many, 256 MiB at least
// (triton.testing.do_bench writes 256 MiB).
size_t flush_bytes_for(int64_t cache_bytes);

}  // namespace causeway::bench
