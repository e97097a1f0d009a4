// When a run saves, and what happens when it cannot.
//
// A checkpoint is due every checkpoint.interval steps and checkpoint.interval_minutes after the last one, whichever
// comes first. A save that fails (a full disk) does not end the run, because ending it would lose for certain what
// training on may still save: the failure is said as an error, and the save is tried again a minute later and at the
// end of the run, whose own failure is the run's.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "causeway/base/error.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/checkpoint/run_lock.h"

namespace causeway::train {

class RunSaver {
 public:
  using Clock = std::chrono::steady_clock;  // a clock that is set does not move it

  // `run` and `lock` outlive the saver; the first rank has the lock, others null. `saved_step`: of the checkpoint that
  // the run came from, or 0.
  RunSaver(const RunParts& run, RunLock* lock, int64_t saved_step, Clock::time_point now = Clock::now());

  // "every 100 steps and every 15 minutes, the last 3 are kept".
  std::string describe_schedule() const;
  // By the first rank's clock.
  bool is_due(int64_t step, Clock::time_point now = Clock::now()) const;

  // Saves and returns the checkpoint's directory; when that fails, says so and returns nothing.
  std::optional<std::filesystem::path> save(const RunPosition& position, Clock::time_point now = Clock::now());
  // As save(), but throws what the save throws.
  std::filesystem::path save_or_throw(const RunPosition& position, Clock::time_point now = Clock::now());

  // The run is about to end by an error, the same one on every rank: saves what is not saved yet, deleting nothing
  // (what comes last may be worth less than what came before it), with little memory. Returns a sentence that says what
  // was saved, or why not.
  std::string save_what_can_be_saved(const RunPosition& position, bool state_is_whole) noexcept;

 private:
  bool is_due_here(int64_t step, Clock::time_point now) const;
  void renew_lock();

  const RunParts& run_;
  RunLock* lock_;
  int64_t saved_step_;
  std::filesystem::path saved_;  // the last checkpoint; empty when this process has made none
  Clock::time_point saved_time_;
  std::optional<Clock::time_point> failed_time_;
  std::optional<int64_t> unwritable_step_;  // whose save failed for want of disk, not of memory
};

}  // namespace causeway::train
