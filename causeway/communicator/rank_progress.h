// Where a rank is in its run: written by the thread that works, read by those that watch it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "causeway/namespaces.h"

namespace causeway::communicator {

// The phase in which a rank computes and waits for nothing but other ranks.
inline constexpr std::string_view kStepPhase = "step";

struct RankPosition {
  int64_t step = 0;             // at work, counted from 1; 0 before the first
  std::string phase = "start";  // "data", "step", "checkpoint", ...
  int64_t collectives = 0;      // begun so far; what a recorded program runs again is not counted again
  std::string collective;       // the last one begun, "all_gather over fsdp"; empty: none
  int64_t marks = 0;            // grows whenever any of it changes

  bool operator==(const RankPosition&) const = default;
};

class RankProgress {
 public:
  void enter(int64_t step, std::string_view phase) {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    // The first one compiles, connects and allocates.
    if (position_.phase == kStepPhase && steps_++ > 0) longest_step_ = std::max(longest_step_, now - entered_);
    entered_ = now;
    position_.step = step;
    position_.phase = phase;
    ++position_.marks;
  }
  // `group`: its axes, or what else tells it from others.
  void begin_collective(std::string_view name, std::string_view group) {
    const std::lock_guard lock(mutex_);
    position_.collective.assign(name).append(" over ").append(group);
    ++position_.collectives;
    ++position_.marks;
  }
  RankPosition position() const {
    const std::lock_guard lock(mutex_);
    return position_;
  }
  // How many times the phase kStepPhase was left, and what it took at most but for the first time.
  int64_t steps() const {
    const std::lock_guard lock(mutex_);
    return steps_;
  }
  std::chrono::steady_clock::duration longest_step() const {
    const std::lock_guard lock(mutex_);
    return longest_step_;
  }

 private:
  mutable std::mutex mutex_;
  RankPosition position_;
  std::chrono::steady_clock::time_point entered_;
  int64_t steps_ = 0;
  std::chrono::steady_clock::duration longest_step_{};
};

}  // namespace causeway::communicator
