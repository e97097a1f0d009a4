// Where a rank is in its run: written by the thread that works, read by those that watch it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "causeway/communicator/flight_record.h"
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
  // Each step has a phase kStepPhase and, when it has ended, another one or the next step's.
  void enter(int64_t step, std::string_view phase) {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    // A step that runs while the host is at the next one's data is left and entered again: it ends when another phase
    // of its own follows, or the next step at once.
    if (phase == kStepPhase) begun_.try_emplace(step, now);
    const bool ends = phase == kStepPhase ? step > position_.step : step == position_.step;
    if (position_.phase == kStepPhase && ends) {
      // The first one compiles, connects and allocates.
      const auto begun = begun_.find(position_.step);
      if (steps_++ > 0 && begun != begun_.end()) longest_step_ = std::max(longest_step_, now - begun->second);
      begun_.erase(begun_.begin(), begun_.upper_bound(position_.step));
    }
    position_.step = step;
    position_.phase = phase;
    ++position_.marks;
  }
  // `group`: its axes, or what else tells it from others. `bytes`: of this rank's larger buffer.
  void begin_collective(std::string_view name, std::string_view group, int64_t bytes = 0) {
    const std::lock_guard lock(mutex_);
    position_.collective.assign(name).append(" over ").append(group);
    ++position_.collectives;
    ++position_.marks;
    flight_.begin({position_.collectives, position_.step, std::string(name), std::string(group), bytes});
  }
  // The last so many have ended, as far as this rank is concerned: said where they are done when the call returns.
  void end_collectives(size_t count = 1) {
    const std::lock_guard lock(mutex_);
    flight_.end_last(count);
  }
  // A recorded program with so many collectives begins to run again; the device does not say how far it has come.
  void begin_replay(int64_t collectives) {
    const std::lock_guard lock(mutex_);
    const std::string name = "replay of " + std::to_string(collectives) + " collectives";
    flight_.begin({position_.collectives, position_.step, name, "", 0});
    ++position_.marks;
  }
  // The last ones.
  FlightRecord flight() const {
    const std::lock_guard lock(mutex_);
    return flight_;
  }
  RankPosition position() const {
    const std::lock_guard lock(mutex_);
    return position_;
  }
  // How many steps have ended, and what one took at most from its begin to its end, but for the first.
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
  FlightRecord flight_;
  std::map<int64_t, std::chrono::steady_clock::time_point> begun_;  // of steps that have not ended
  int64_t steps_ = 0;
  std::chrono::steady_clock::duration longest_step_{};
};

}  // namespace causeway::communicator
