// Persistent worker threads that share the tasks of one job at a time. Tasks are handed out by an atomic counter in
// increasing order; the calling thread takes part. A job starts within a microsecond or two while the workers are still
// spinning from the job before.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace causeway {

// The processors this process may run on (its affinity mask), at least 1.
int available_processors();

class ThreadPool {
 public:
  // `thread_count` includes the caller of run(); 0 means available_processors().
  explicit ThreadPool(int thread_count = 0);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int thread_count() const { return static_cast<int>(threads_.size()) + 1; }
  // Not while a job runs. 0 means available_processors().
  void set_thread_count(int thread_count);

  // Calls body(task, worker) for every task in [0, task_count), with worker in [0, thread_count()); no two calls with
  // one worker number overlap. Returns when all have ended. When a call throws, tasks not yet begun are dropped and
  // the first exception is thrown here. Jobs from several threads run one after the other. A job started from within a
  // task runs on the calling thread alone, under that task's worker number.
  template <typename Body>
  void run(int64_t task_count, Body&& body) {
    using BodyType = std::remove_reference_t<Body>;
    run_job(
        task_count, [](void* context, int64_t task, int worker) { (*static_cast<BodyType*>(context))(task, worker); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  using Function = void (*)(void* context, int64_t task, int worker);

  void run_job(int64_t task_count, Function function, void* context);
  void run_tasks(int worker);
  void work(int worker);
  void start(int thread_count);
  void stop();

  std::vector<std::thread> threads_;
  std::mutex job_mutex_;

  // The job. Valid while epoch_ is odd, and while active_ is above zero.
  Function function_ = nullptr;
  void* context_ = nullptr;
  int64_t task_count_ = 0;
  std::mutex failure_mutex_;
  std::exception_ptr failure_;

  alignas(64) std::atomic<int64_t> next_task_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};  // odd while a job is open to workers
  alignas(64) std::atomic<int> active_{0};      // workers that may be looking at the job
  alignas(64) std::atomic<bool> stopping_{false};
};

}  // namespace causeway
