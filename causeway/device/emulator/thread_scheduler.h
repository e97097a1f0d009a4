// The threads of one cluster as fibers, all on one thread of the host. A fiber runs until it has to wait for others;
// which of those that can go on is next is drawn from the seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "causeway/device/emulator/async_host.h"
#include "causeway/device/emulator/fiber_stacks.h"

namespace causeway::device {

// An operation that several threads take part in, as each of them calls it.
struct Collective {
  const char* name = "";
  const char* file = nullptr;
  int line = 0;
  int detail = 0;  // has to be the same for all

  bool operator==(const Collective&) const = default;
  // "wave_shuffle() at causeway/kernels/gpu/reduce.h:33"
  std::string text() const;
};

class ThreadScheduler {
 public:
  enum class State : uint8_t { kRunnable, kMeeting, kPolling, kEnded };

  struct Thread {
    void* context = nullptr;
    int rank = 0;    // of its block
    int index = 0;   // in its block
    int number = 0;  // in the cluster
    State state = State::kRunnable;
    Collective collective;                               // kMeeting
    const std::function<bool()>* ready = nullptr;        // kPolling
    const std::function<std::string()>* what = nullptr;  // kPolling
  };

  // For the threads of so many blocks, each of which calls body(argument) when it runs first.
  void prepare(int blocks, int threads_of_block, uint64_t seed, void (*body)(void*), void* argument);

  // Runs them until all have ended, and applies `effects` in between; false where no thread can go on. Throws what one
  // of them abandoned; the others do not run any more then.
  bool run(AsyncHost& host, DelayedEffects& effects);
  // After that: "threads 0-31 of block 4: each waits in ...". `first_block`: that of the cluster.
  std::string describe_waits(int64_t first_block);

  // Uniform in 0..bound-1.
  uint64_t random(uint64_t bound);
  // The thread that runs; null while the hardware's asynchronous work does.
  const Thread* current() const { return current_; }
  void run_none() { current_ = nullptr; }
  const std::vector<Thread>& threads() const { return threads_; }  // by number
  // Whether the address is of the running thread's own variables.
  bool is_on_stack(const void* address) const;

  // What follows is called by a thread, on its fiber.

  // Lets others run until `ready` holds. `by_others`: another cluster may bring that about.
  void wait_until(const std::function<bool()>& ready, const std::function<std::string()>& what, bool by_others = false);
  // It is in an operation until a thread wakes all that take part, itself included; leave() lets others run.
  void begin_meeting(const Collective& collective);
  void wake(int number);
  void leave();
  // It has returned from the kernel.
  [[noreturn]] void end();
  // Keeps the exception for run() to throw, and leaves the fiber for good.
  [[noreturn]] void abandon(std::exception_ptr failure);

 private:
  void run_one(AsyncHost& host);
  bool wake_ready();
  std::string describe_wait(const Thread& thread);

  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  uint64_t random_state_ = 0;
  FiberStacks stacks_;
  std::vector<Thread> threads_;
  std::vector<int> runnable_, polling_;
  int waits_for_others_ = 0;  // threads whose wait another cluster may end
  Thread* current_ = nullptr;
  void* scheduler_ = nullptr;
  size_t ended_ = 0;
  std::exception_ptr failure_;
};

}  // namespace causeway::device
