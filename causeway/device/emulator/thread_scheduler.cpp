#include "causeway/device/emulator/thread_scheduler.h"

#include <fmt/format.h>

#include <boost/context/detail/fcontext.hpp>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>

#include "causeway/device/emulator/emulated_launch.h"

namespace causeway::device {
namespace {

namespace context = boost::context::detail;

// In one of so many steps an asynchronous effect is applied, or waiting threads are looked at, though others could run.
constexpr uint64_t kEffectOdds = 8;
constexpr uint64_t kPollOdds = 16;
constexpr size_t kThreadsNamed = 8;  // groups of threads in the report of a deadlock

}  // namespace

std::string Collective::text() const {
  if (file == nullptr) return fmt::format("{}()", name);
  std::string_view path = file;
  const size_t own = path.find("causeway/");
  path = own == std::string_view::npos ? path.substr(path.rfind('/') + 1) : path.substr(own);
  return fmt::format("{}() at {}:{}", name, path, line);
}

void ThreadScheduler::prepare(int blocks, int threads_of_block, uint64_t seed, void (*body)(void*), void* argument) {
  body_ = body;
  argument_ = argument;
  random_state_ = seed;
  failure_ = nullptr;
  current_ = nullptr;
  ended_ = 0;
  waits_for_others_ = 0;
  const size_t count = static_cast<size_t>(threads_of_block) * static_cast<size_t>(blocks);
  stacks_.reserve(count);
  threads_.assign(count, Thread());
  runnable_.clear();
  polling_.clear();
  for (size_t i = 0; i < count; ++i) {
    Thread& thread = threads_[i];
    thread.number = static_cast<int>(i);
    thread.rank = thread.number / threads_of_block;
    thread.index = thread.number % threads_of_block;
    std::byte* top = stacks_.top(i);
    thread.context =
        context::make_fcontext(top, static_cast<size_t>(top - stacks_.bottom(i)), [](context::transfer_t from) {
          auto* self = static_cast<ThreadScheduler*>(from.data);
          self->scheduler_ = from.fctx;
          self->body_(self->argument_);
        });
    runnable_.push_back(thread.number);
  }
}

uint64_t ThreadScheduler::random(uint64_t bound) {
  random_state_ += 0x9e3779b97f4a7c15;
  return static_cast<uint64_t>((static_cast<unsigned __int128>(mix(random_state_)) * bound) >> 64);
}

bool ThreadScheduler::run(AsyncHost& host, DelayedEffects& effects) {
  // For what other clusters are to do.
  constexpr std::chrono::minutes kLongestWait(5);
  const auto latest = std::chrono::steady_clock::now() + kLongestWait;
  while (ended_ < threads_.size()) {
    if (!effects.empty() && random(kEffectOdds) == 0) {
      current_ = nullptr;
      effects.apply_one(host);
    }
    if (!polling_.empty() && random(kPollOdds) == 0) wake_ready();
    if (!runnable_.empty()) {
      run_one(host);
    } else if (!wake_ready()) {
      current_ = nullptr;
      if (!effects.empty()) {
        effects.apply_one(host);
      } else if (waits_for_others_ > 0 && std::chrono::steady_clock::now() < latest) {
        std::this_thread::yield();
        continue;
      } else {
        return false;
      }
    }
  }
  return true;
}

void ThreadScheduler::run_one(AsyncHost& host) {
  std::swap(runnable_[random(runnable_.size())], runnable_.back());
  const auto number = static_cast<size_t>(runnable_.back());
  runnable_.pop_back();
  current_ = &threads_[number];
  current_->context = context::jump_fcontext(current_->context, this).fctx;
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  if (stacks_.overflowed(number)) host.fail(fmt::format("used more than {} bytes of stack", FiberStacks::kBytes));
}

void ThreadScheduler::begin_meeting(const Collective& collective) {
  current_->state = State::kMeeting;
  current_->collective = collective;
}

void ThreadScheduler::end() {
  current_->state = State::kEnded;
  ++ended_;
  leave();
  std::abort();  // a thread that has ended is not run again
}

bool ThreadScheduler::is_on_stack(const void* address) const {
  const std::byte* bottom = stacks_.bottom(static_cast<size_t>(current_->number));
  return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(bottom) < FiberStacks::kBytes;
}

void ThreadScheduler::leave() { scheduler_ = context::jump_fcontext(scheduler_, nullptr).fctx; }

void ThreadScheduler::abandon(std::exception_ptr failure) {
  failure_ = std::move(failure);
  leave();
  std::abort();  // run() gave up
}

void ThreadScheduler::wake(int number) {
  threads_[static_cast<size_t>(number)].state = State::kRunnable;
  runnable_.push_back(number);
}

bool ThreadScheduler::wake_ready() {
  const size_t before = polling_.size();
  std::erase_if(polling_, [&](int number) {
    current_ = &threads_[static_cast<size_t>(number)];
    if (!(*current_->ready)()) return false;
    wake(number);
    return true;
  });
  return polling_.size() != before;
}

void ThreadScheduler::wait_until(const std::function<bool()>& ready, const std::function<std::string()>& what,
                                 bool by_others) {
  if (ready()) return;
  current_->state = State::kPolling;
  current_->ready = &ready;
  current_->what = &what;
  polling_.push_back(current_->number);
  if (by_others) ++waits_for_others_;
  leave();
  if (by_others) --waits_for_others_;
}

std::string ThreadScheduler::describe_wait(const Thread& thread) {
  if (thread.state == State::kMeeting) return "waits in " + thread.collective.text();
  if (thread.state == State::kPolling) {
    current_ = &threads_[static_cast<size_t>(thread.number)];
    return "waits in " + (*thread.what)();
  }
  return "has returned";
}

std::string ThreadScheduler::describe_waits(int64_t first_block) {
  std::string report;
  size_t groups = 0;
  for (size_t first = 0; first < threads_.size();) {
    const std::string wait = describe_wait(threads_[first]);
    size_t last = first;
    while (last + 1 < threads_.size() && threads_[last + 1].rank == threads_[first].rank &&
           describe_wait(threads_[last + 1]) == wait) {
      ++last;
    }
    if (++groups > kThreadsNamed) {
      report += " ...";
      break;
    }
    const std::string who = first == last ? fmt::format("thread {}", threads_[first].index)
                                          : fmt::format("threads {}-{}", threads_[first].index, threads_[last].index);
    report +=
        fmt::format("{} {} of block {}: each {}", groups > 1 ? ";" : "", who, first_block + threads_[first].rank, wait);
    first = last + 1;
  }
  return report;
}

}  // namespace causeway::device
