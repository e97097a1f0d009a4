// What the units that imitate asynchronous hardware ask of the emulator's core, and the effects that they delay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::device {

// One cluster of thread blocks that are running, as seen from the thread (fiber) that runs now.
class AsyncHost {
 public:
  virtual ~AsyncHost() = default;

  virtual int cluster_size() const = 0;
  virtual int block_rank() const = 0;  // of the running thread's block, in the cluster
  virtual int thread() const = 0;      // in the block
  virtual std::span<std::byte> shared(int block_rank) = 0;
  // Uniform in 0..bound-1; the same seed gives the same schedule.
  virtual uint64_t random(uint64_t bound) = 0;
  // Lets others run until `ready` holds. `what` describes the wait in a report of a deadlock.
  virtual void wait_until(const std::function<bool()>& ready, const std::function<std::string()>& what) = 0;
  // Ends the launch with Error(kInvalidArgument) that says which thread of which block did what.
  [[noreturn]] virtual void fail(const std::string& what) = 0;
};

// What hardware has promised to do and may do at any moment. The core applies one now and then, in random order, and
// whenever no thread can run.
class DelayedEffects {
 public:
  void add(std::function<void()> effect) { effects_.push_back(std::move(effect)); }
  bool empty() const { return effects_.empty(); }
  // Applies a random one. An effect may add others.
  void apply_one(AsyncHost& host);
  void apply_all(AsyncHost& host);

 private:
  std::vector<std::function<void()>> effects_;
};

}  // namespace causeway::device
