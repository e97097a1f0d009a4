// A stream of items that one thread makes, many work on at once, and the calling thread takes in the order they were
// made: the outcome does not depend on how many threads there are.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::data {

template <typename Item>
struct OrderedPipeline {
  size_t workers = 1;
  // Items made and not yet taken may weigh this much together; one item may always be on its way.
  size_t most_weight = 1;
  std::function<size_t(const Item&)> weight;
  // The next item, in a thread of its own; nothing at the end. A call that waits for something returns soon after
  // `stop` was requested.
  std::function<std::optional<Item>(std::stop_token stop)> make;
  // In any of `workers` threads.
  std::function<void(Item&)> work;
  // In the calling thread, in order.
  std::function<void(Item&)> take;
  // In the calling thread, a few times a second.
  std::function<void()> tick;

  // Returns after the last item was taken. An exception of any of the functions ends everything and is thrown here: of
  // make() and work() that of the first item in order, after all items before it were taken.
  void run();

 private:
  struct Entry {
    std::optional<Item> item;  // nothing: make() failed
    size_t weight = 0;
    bool is_worked_on = false;
    std::exception_ptr failure;
  };

  void make_all(const std::stop_token& stop);
  void work_all(const std::stop_token& stop);
  void take_all();

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::shared_ptr<Entry>> in_order_;
  std::deque<std::shared_ptr<Entry>> to_work_on_;
  size_t weight_ = 0;
  bool all_made_ = false;
};

template <typename Item>
void OrderedPipeline<Item>::run() {
  std::vector<std::jthread> threads;
  threads.emplace_back([this](const std::stop_token& stop) { make_all(stop); });
  for (size_t i = 0; i < workers; ++i) threads.emplace_back([this](const std::stop_token& stop) { work_all(stop); });
  // All are asked to stop before one of them is waited for.
  try {
    take_all();
  } catch (...) {
    for (std::jthread& thread : threads) thread.request_stop();
    throw;
  }
  for (std::jthread& thread : threads) thread.request_stop();
}

template <typename Item>
void OrderedPipeline<Item>::make_all(const std::stop_token& stop) {
  for (bool more = true; more;) {
    auto entry = std::make_shared<Entry>();
    try {
      entry->item = make(stop);
      more = entry->item.has_value();
      if (more) entry->weight = weight(*entry->item);
    } catch (...) {
      entry->failure = std::current_exception();
      entry->is_worked_on = true;
      more = false;
    }
    std::unique_lock lock(mutex_);
    all_made_ = !more;
    if (entry->item || entry->failure) {
      weight_ += entry->weight;
      in_order_.push_back(entry);
      if (!entry->is_worked_on) to_work_on_.push_back(entry);
    }
    changed_.notify_all();
    if (!changed_.wait(lock, stop, [this] { return weight_ < most_weight; })) return;
  }
}

template <typename Item>
void OrderedPipeline<Item>::work_all(const std::stop_token& stop) {
  while (true) {
    std::shared_ptr<Entry> entry;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [this] { return !to_work_on_.empty(); })) return;
      entry = std::move(to_work_on_.front());
      to_work_on_.pop_front();
    }
    std::exception_ptr failure;
    try {
      work(*entry->item);
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    entry->failure = failure;
    entry->is_worked_on = true;
    changed_.notify_all();
  }
}

template <typename Item>
void OrderedPipeline<Item>::take_all() {
  constexpr auto kTick = std::chrono::milliseconds(250);
  auto next_tick = std::chrono::steady_clock::now() + kTick;
  while (true) {
    std::shared_ptr<Entry> entry;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, next_tick,
                          [this] { return in_order_.empty() ? all_made_ : in_order_.front()->is_worked_on; });
      if (in_order_.empty() && all_made_) return;
      if (!in_order_.empty() && in_order_.front()->is_worked_on) {
        entry = std::move(in_order_.front());
        in_order_.pop_front();
      }
    }
    if (entry) {
      if (entry->failure) std::rethrow_exception(entry->failure);
      take(*entry->item);
      const std::lock_guard lock(mutex_);
      weight_ -= entry->weight;
      changed_.notify_all();
    }
    if (std::chrono::steady_clock::now() >= next_tick) {
      tick();
      next_tick = std::chrono::steady_clock::now() + kTick;
    }
  }
}

}  // namespace causeway::data
