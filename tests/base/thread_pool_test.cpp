#include "causeway/base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace causeway {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(ThreadCounts, ThreadPoolTest, testing::Values(1, 2, 3, 8));

TEST_P(ThreadPoolTest, RunsEveryTaskOnceInManyJobs) {
  ThreadPool pool(GetParam());
  ASSERT_EQ(pool.thread_count(), GetParam());
  for (int64_t task_count : {0, 1, 2, 7, 1000}) {
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::vector<int> counts(static_cast<size_t>(task_count));
      pool.run(task_count, [&](int64_t task, int worker) {
        ++counts[static_cast<size_t>(task)];
        ASSERT_GE(worker, 0);
        ASSERT_LT(worker, pool.thread_count());
      });
      for (const int count : counts) ASSERT_EQ(count, 1);
    }
  }
}

TEST_P(ThreadPoolTest, NoTwoTasksShareAWorkerNumberAtOnce) {
  ThreadPool pool(GetParam());
  std::vector<std::atomic<int>> inside(static_cast<size_t>(GetParam()));
  std::atomic<bool> overlapped{false};
  pool.run(200, [&](int64_t, int worker) {
    if (inside[static_cast<size_t>(worker)].fetch_add(1) != 0) overlapped = true;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    inside[static_cast<size_t>(worker)].fetch_sub(1);
  });
  EXPECT_FALSE(overlapped);
}

TEST_P(ThreadPoolTest, ThrowsTheTasksExceptionAndGoesOn) {
  ThreadPool pool(GetParam());
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::atomic<int> begun{0};
    try {
      pool.run(100000, [&](int64_t task, int) {
        ++begun;
        if (task == 3) throw std::runtime_error("task 3 failed");
      });
      FAIL() << "no exception";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "task 3 failed");
    }
    std::atomic<int64_t> sum{0};
    pool.run(10, [&](int64_t task, int) { sum += task; });
    EXPECT_EQ(sum, 45);
  }
}

TEST_P(ThreadPoolTest, NestedJobsRunInPlace) {
  ThreadPool pool(GetParam());
  std::atomic<int64_t> sum{0};
  pool.run(16, [&](int64_t, int outer_worker) {
    pool.run(16, [&](int64_t task, int worker) {
      EXPECT_EQ(worker, outer_worker);
      sum += task;
    });
  });
  EXPECT_EQ(sum, 16 * 120);
}

TEST(ThreadPool, CallersFromSeveralThreadsTakeTurns) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 200; ++repeat) pool.run(5, [&](int64_t task, int) { sum += task; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 200 * 10);
}

TEST(ThreadPool, WorkersAsleepWakeUp) {
  ThreadPool pool(2);
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    // Each of two tasks waits for the other: both threads must take part.
    std::atomic<int> arrived{0};
    pool.run(2, [&](int64_t, int) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
  }
}

TEST(ThreadPool, MayEndAtAnyMoment) {
  for (int repeat = 0; repeat < 500; ++repeat) {
    ThreadPool pool(3);
    if (repeat % 3 != 0) pool.run(repeat % 3, [](int64_t, int) {});
  }
}

TEST(ThreadPool, ThreadCountCanChange) {
  ThreadPool pool;
  EXPECT_EQ(pool.thread_count(), available_processors());
  for (int count : {4, 1, 2}) {
    pool.set_thread_count(count);
    EXPECT_EQ(pool.thread_count(), count);
    std::atomic<int64_t> sum{0};
    pool.run(100, [&](int64_t task, int) { sum += task; });
    EXPECT_EQ(sum, 4950);
  }
}

}  // namespace
}  // namespace causeway
