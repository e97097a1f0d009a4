// A checkpoint that a thread writes while the run goes on.
//
// Every rank's thread writes and flushes the rank's own files; then that of the first rank makes the checkpoint exist.
// Threads say nothing to other ranks: ranks agree on what is done where they meet anyway, between two steps, so that
// what they exchange keeps its one order. A process that is killed leaves what a save leaves that was killed halfway,
// which the next save removes.
#pragma once

#include <functional>
#include <future>
#include <optional>
#include <stop_token>
#include <string>

#include "causeway/base/error.h"
#include "causeway/train/checkpoint/checkpoint.h"
#include "causeway/train/ranks.h"

namespace causeway::train {

class BackgroundSave {
 public:
  // What the writer reads outlives this and does not change meanwhile; so do `ranks`, which are the writer's.
  BackgroundSave(const Ranks& ranks, CheckpointWriter writer);
  // Gives up what is not done, and waits until the thread has noticed.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  // What follows is called by every rank, in the same order with its other exchanges.

  void start();
  enum class State { kUnderWay, kCommitted, kFailed };
  // Goes on with what can be done by now.
  State poll() { return advance(false); }
  // Returns when it is committed or has failed.
  State wait() { return advance(true); }

  // After kFailed: that of the lowest rank, the same on all.
  const std::optional<Error>& failure() const { return failure_; }
  const CheckpointWriter& writer() const { return writer_; }

 private:
  // What a rank's thread does; the next begins when all ranks have done the one before.
  enum class Part { kPrepare, kWrite, kComplete };
  void begin(Part part);
  void work(Part part);
  State advance(bool wait);
  State fail();
  bool is_done() const;

  const Ranks& ranks_;
  const CheckpointWriter writer_;
  Part part_ = Part::kPrepare;
  std::future<void> task_;
  std::stop_source stop_;
  std::optional<Error> error_;          // of this rank's part, when its task has ended
  CheckpointManifest manifest_;         // of this rank's files
  std::vector<std::string> manifests_;  // of all ranks', on the first one
  std::optional<Error> failure_;
};

}  // namespace causeway::train
