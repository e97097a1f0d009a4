// When a run saves, how, and what happens when it cannot.
//
// A checkpoint is due every checkpoint.interval steps and checkpoint.interval_minutes after the last one, whichever
// comes first. With checkpoint.asynchronous it is written while training goes on, from a copy of the state in the
// host's memory; the next save waits until it is done. What a signal or an error asks for at the end of a run is
// written from the device, after that.
//
// A save that fails (a full disk) does not end the run, because ending it would lose for certain what training on may
// still save: the failure is said as an error, and the save is tried again a minute later and at the end of the run,
// whose own failure is the run's.
#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "causeway/base/error.h"
#include "causeway/train/checkpoint/background_save.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/checkpoint/run_lock.h"
#include "causeway/train/checkpoint/state_snapshot.h"
#include "causeway/train/ranks.h"

namespace causeway::train {

// A checkpoint that was committed.
struct SavedCheckpoint {
  int64_t step = 0;
  std::filesystem::path directory;
  double pause_seconds = 0;  // for which training stood still, on this rank
  double seconds = 0;        // from when it was due until its commit was known
};

// Over a mesh every rank makes the same calls.
class RunSaver {
 public:
  using Clock = std::chrono::steady_clock;  // a clock that is set does not move it

  // `run` and `lock` outlive the saver; the first rank has the lock, others null. `saved_step`: of the checkpoint that
  // the run came from, or 0. Saves are synchronous until choose_method().
  RunSaver(const RunParts& run, RunLock* lock, int64_t saved_step, Clock::time_point now = Clock::now());
  // Gives up a save that is under way.
  ~RunSaver() = default;
  RunSaver(const RunSaver&) = delete;
  RunSaver& operator=(const RunSaver&) = delete;

  // Takes to asynchronous saves where the recipe asks for them and every rank's machine has memory for the copies
  // beside what the step takes; where it has not, the first rank says so. Compiles the step.
  void choose_method();
  // Of host memory for this rank's copy, which is taken at the first save, or on a GPU beside the steps before it; 0
  // where saves are synchronous.
  int64_t copy_bytes() const { return snapshot_ == nullptr ? 0 : snapshot_->bytes(); }

  // "every 100 steps and every 15 minutes; the last 3 kept; written while training goes on, from a copy of 1.2 GiB in
  // the host's memory".
  std::string describe_schedule() const;
  // By the first rank's clock.
  bool is_due(int64_t step, Clock::time_point now = Clock::now()) const;

  // Whether the state is being copied, beside the next step or a few.
  bool is_copying() const { return pending_ && !pending_->save; }

  // Saves, or begins to; when that fails, says so and returns false.
  bool save(const RunPosition& position, Clock::time_point now = Clock::now());
  // Saves, and returns the checkpoint's directory when it is committed, or throws what the save throws.
  std::filesystem::path save_or_throw(const RunPosition& position, Clock::time_point now = Clock::now());
  // After every step, before save(): goes on with what save() began, and prepares the first one.
  void attend(int64_t step, Clock::time_point now = Clock::now());
  // Waits until the state is copied, where that has begun: the device's memory that it takes is wanted.
  void finish_copy();
  // Every checkpoint that is committed, once, in their order; nothing where there is none left.
  std::optional<SavedCheckpoint> take_committed();

  // The run is about to end by an error, the same one on every rank: saves what is not saved yet, deleting nothing
  // (what comes last may be worth less than what came before it), with little memory. Returns a sentence that says what
  // was saved, or why not.
  std::string save_what_can_be_saved(const RunPosition& position, bool state_is_whole) noexcept;

 private:
  // A save that training goes on beside.
  struct Pending {
    RunPosition position;
    Clock::time_point due;      // by the clock that the schedule goes by
    Clock::time_point started;  // by the real one
    double pause_seconds;
    std::unique_ptr<BackgroundSave> save;  // null until the state is copied
  };

  bool is_due_here(int64_t step, Clock::time_point now) const;
  bool is_due_soon(int64_t step, Clock::time_point now) const;
  void renew_lock();
  CheckpointOptions options() const;
  // False where the memory for the copy is not to be had, which it has said; saves are synchronous from then on.
  bool begin_copy(const RunPosition& position, Clock::time_point now);
  bool is_copied_everywhere() const;
  void begin_writing();
  void settle(BackgroundSave::State state, Clock::time_point now, bool at_the_end);
  // Until nothing is pending. `at_the_end`: another save follows at once.
  void finish_pending(Clock::time_point now, bool at_the_end);
  void commit_now(const RunPosition& position, const CheckpointOptions& options, Clock::time_point now);
  void say_failed(const std::string& what, Clock::time_point now, bool at_the_end);

  const RunParts& run_;
  const Ranks ranks_;
  RunLock* lock_;
  int64_t saved_step_;
  std::filesystem::path saved_;  // the last checkpoint; empty when this process has made none
  Clock::time_point saved_time_;
  std::optional<Clock::time_point> failed_time_;
  std::optional<int64_t> unwritable_step_;  // whose save failed for want of disk, not of memory
  std::deque<SavedCheckpoint> committed_;
  std::unique_ptr<StateSnapshot> snapshot_;  // null: saves are synchronous
  std::optional<Pending> pending_;
};

}  // namespace causeway::train
