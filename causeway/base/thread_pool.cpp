#include "causeway/base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace causeway {
namespace {

// Long enough to bridge the gap between two launches of one program, short enough not to matter to anybody else.
constexpr std::chrono::microseconds kSpinTime{40};

// The pool whose task this thread is in, and its worker number there.
thread_local const ThreadPool* current_pool = nullptr;
thread_local int current_worker = 0;

void pause() { __builtin_ia32_pause(); }

// Spins until `done` holds; gives the processor away now and then, for machines with fewer processors than threads.
template <typename Condition>
void spin_until(Condition done) {
  for (int count = 0; !done(); ++count) {
    pause();
    if (count % 256 == 255) std::this_thread::yield();
  }
}

}  // namespace

int available_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

ThreadPool::ThreadPool(int thread_count) { start(thread_count); }

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::set_thread_count(int thread_count) {
  const std::lock_guard lock(job_mutex_);
  stop();
  start(thread_count);
}

void ThreadPool::start(int thread_count) {
  if (thread_count <= 0) thread_count = available_processors();
  stopping_.store(false);
  for (int worker = 1; worker < thread_count; ++worker) threads_.emplace_back([this, worker] { work(worker); });
}

void ThreadPool::stop() {
  stopping_.store(true);
  epoch_.fetch_add(2);
  epoch_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void ThreadPool::run_job(int64_t task_count, Function function, void* context) {
  if (task_count <= 0) return;
  if (current_pool == this) {
    for (int64_t task = 0; task < task_count; ++task) function(context, task, current_worker);
    return;
  }
  const std::lock_guard lock(job_mutex_);
  const ThreadPool* const outer_pool = current_pool;
  const int outer_worker = current_worker;
  current_pool = this;
  current_worker = 0;

  function_ = function;
  context_ = context;
  task_count_ = task_count;
  failure_ = nullptr;
  next_task_.store(0, std::memory_order_relaxed);
  const bool shared = task_count > 1 && !threads_.empty();
  if (shared) {
    epoch_.fetch_add(1);
    epoch_.notify_all();
  }
  run_tasks(0);
  if (shared) {
    // Closes the job, then waits for those inside. A worker counts itself in before it looks at the epoch (work()), so
    // it is either seen here or sees the job closed; both orders need sequential consistency, the default.
    epoch_.fetch_add(1);
    spin_until([this] { return active_.load() == 0; });
  }
  current_pool = outer_pool;
  current_worker = outer_worker;
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::run_tasks(int worker) {
  const int64_t task_count = task_count_;
  while (true) {
    const int64_t task = next_task_.fetch_add(1, std::memory_order_relaxed);
    if (task >= task_count) return;
    try {
      function_(context_, task, worker);
    } catch (...) {
      next_task_.store(task_count, std::memory_order_relaxed);
      const std::lock_guard lock(failure_mutex_);
      if (failure_ == nullptr) failure_ = std::current_exception();
    }
  }
}

void ThreadPool::work(int worker) {
  current_pool = this;
  current_worker = worker;
  uint32_t seen = 0;
  while (true) {
    active_.fetch_add(1);
    const uint32_t epoch = epoch_.load();
    if ((epoch & 1u) != 0 && epoch != seen) run_tasks(worker);
    active_.fetch_sub(1);
    seen = epoch;
    // After the epoch, which stop() changes last: so either the flag is seen here or the changed epoch below.
    if (stopping_.load()) return;

    const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
    bool changed = false;
    while (!changed && std::chrono::steady_clock::now() < deadline) {
      for (int count = 0; count < 32 && !changed; ++count) {
        pause();
        changed = epoch_.load(std::memory_order_relaxed) != seen;
      }
    }
    if (!changed) epoch_.wait(seen);
  }
}

}  // namespace causeway
