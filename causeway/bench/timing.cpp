#include "causeway/bench/timing.h"

#include <algorithm>
#include <chrono>
#include <optional>

namespace causeway::bench {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double agreed(double value, const TimingTogether& together) { return together.agreed ? together.agreed(value) : value; }

class CacheFlush {
 public:
  CacheFlush(Device& device, size_t bytes) : device_(device), memory_(device.allocate(bytes)) {}
  void run() { device_.fill_with_zeros(memory_.data(), memory_.bytes); }

 private:
  Device& device_;
  DeviceBuffer memory_;
};

// As it is timed, with the cache filled in between: under a power limit, clocks depend on the pauses too.
// Returns the seconds of one execution.
double warm_up(Device& device, const TimedWork& work, CacheFlush& flush, double seconds,
               const TimingTogether& together) {
  work();
  device.synchronize();
  const double start = now();
  int executions = 0;
  // In batches that grow, so that the device is never idle for long.
  for (int batch = 1; agreed(now() - start, together) < seconds; batch = std::min(64, 2 * batch)) {
    // A process for which the work is nothing would agree on ever more batches while the others are at the first.
    if (together.line_up) together.line_up();
    for (int i = 0; i < batch; ++i) {
      flush.run();
      work();
    }
    device.synchronize();
    executions += batch;
  }
  return executions == 0 ? 0 : (now() - start) / executions;
}

}  // namespace

std::vector<TimedRounds> time_alternately(Device& device, std::span<const TimedWork> contenders,
                                          const TimingOptions& options, const std::function<void(size_t)>& after_round,
                                          const TimingTogether& together) {
  CacheFlush flush(device, options.flush_bytes);
  double turn = 0;  // seconds of one execution of each
  for (const TimedWork& work : contenders) turn += warm_up(device, work, flush, options.warm_up_seconds, together);
  turn = agreed(turn, together);
  int wanted = options.samples;
  if (options.limit_seconds > 0 && turn * wanted > options.limit_seconds)
    wanted = std::min(wanted, std::max(options.rounds, static_cast<int>(options.limit_seconds / turn)));
  const double start = now();
  std::vector<TimedRounds> timed(contenders.size());
  for (int round = 0; round < options.rounds; ++round) {
    if (round > 0 && options.limit_seconds > 0 && agreed(now() - start, together) > options.limit_seconds) break;
    const int samples = wanted * (round + 1) / options.rounds - wanted * round / options.rounds;
    if (samples == 0) continue;
    for (size_t i = 0; i < contenders.size(); ++i) {
      // Another contender has run since: one execution that does not count.
      contenders[i]();
      if (options.clock != nullptr) options.clock->read();
      std::vector<std::shared_ptr<DeviceMoment>> marks;
      for (int sample = 0; sample < samples; ++sample) {
        flush.run();
        if (together.line_up) together.line_up();
        marks.push_back(device.mark());
        contenders[i]();
        marks.push_back(device.mark());
      }
      if (options.clock != nullptr) {
        options.clock->read();
        if (const std::optional<double> mhz = options.clock->mean_mhz()) timed[i].clock_mhz.push_back(*mhz);
      }
      device.synchronize();
      std::vector<double>& of_round = timed[i].seconds.emplace_back();
      for (size_t mark = 0; mark < marks.size(); mark += 2)
        of_round.push_back(device.seconds_between(*marks[mark], *marks[mark + 1]));
      if (after_round) after_round(i);
    }
  }
  return timed;
}

size_t flush_bytes_for(int64_t cache_bytes) {
  return static_cast<size_t>(std::max<int64_t>(4 * cache_bytes, int64_t{256} << 20));
}

}  // namespace causeway::bench
