// Where the time before the first step went: seconds of each phase of starting, in order. They are in the first record
// of metrics.jsonl.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::train {

class StartTimes {
 public:
  // Everything since the last call, or since this object was made, was that phase.
  void end_of(std::string phase) {
    const Clock::time_point now = Clock::now();
    phases_.emplace_back(std::move(phase), std::chrono::duration<double>(now - last_).count());
    last_ = now;
  }
  const std::vector<std::pair<std::string, double>>& phases() const { return phases_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
  std::vector<std::pair<std::string, double>> phases_;
};

}  // namespace causeway::train
