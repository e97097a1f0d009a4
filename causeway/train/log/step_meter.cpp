#include "causeway/train/log/step_meter.h"

#include <sys/resource.h>

namespace causeway::train {
namespace {

constexpr int64_t kStepsBetweenAsking = 100;

uint64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

void StepMeter::measure(Clock::time_point start, double seconds_after_last, StepReport& report) {
  const Clock::time_point now = Clock::now();
  // If it began before the last one was finished: the host, which may be late, sees the end of neither.
  report.seconds = start < last_finished_ ? seconds_after_last : std::chrono::duration<double>(now - start).count();
  last_finished_ = now;
  if (!device_.target().has_own_memory()) {
    report.memory_bytes = peak_resident_bytes();
    return;
  }
  report.memory_bytes = static_cast<uint64_t>(device_.peak_bytes());
  report.reserved_bytes = static_cast<uint64_t>(device_.peak_reserved_bytes());
  // The driver takes its time to answer.
  if (steps_++ % kStepsBetweenAsking == 2 || occupied_bytes_ == 0)
    occupied_bytes_ = static_cast<uint64_t>(device_.occupied_bytes());
  report.occupied_bytes = occupied_bytes_;
}

}  // namespace causeway::train
