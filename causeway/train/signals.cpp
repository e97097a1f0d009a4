#include "causeway/train/signals.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <iterator>
#include <string_view>

#include "causeway/base/error.h"

namespace causeway::train {
namespace {

std::atomic<bool> watching{false};
// What the handler writes must be lock-free to be safe in a signal handler.
std::atomic<int> stop_signal_seen{0};
std::atomic<int> interrupts{0};
std::atomic<bool> save_requested{false};
std::atomic<bool> speaking{true};
std::atomic<bool> stepping{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

// write() is safe in a handler; what becomes of the line is not worth the run.
void say(std::string_view line) {
  const int code = errno;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  errno = code;
}

extern "C" void causeway_handle_signal(int signal) {
  if (signal == SIGUSR1) {
    save_requested.store(true);
    return;
  }
  if (signal == SIGINT && interrupts.fetch_add(1) > 0) {
    say("\nstopped at once; the newest checkpoint is as it was\n");
    ::_exit(kStoppedAtOnceStatus);
  }
  if (stop_signal_seen.exchange(signal) != 0 || !speaking.load()) return;
  say(signal == SIGINT ? "\ninterrupted" : signal == SIGTERM ? "\nSIGTERM" : "\nSIGHUP");
  say(stepping.load() ? ": finishing this step, then saving and stopping" : ": stopping before the first step");
  say(signal == SIGINT ? "; Ctrl-C again stops at once, without saving\n" : "\n");
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  CAUSEWAY_CHECK(::sigaction(signal, &action, nullptr) == 0, "signal {}, errno {}", signal, errno);
}

void forget_requests() {
  stepping.store(false);
  stop_signal_seen.store(0);
  interrupts.store(0);
  save_requested.store(false);
}

}  // namespace

SignalWatch::SignalWatch(bool speaks) {
  CAUSEWAY_CHECK(!watching.exchange(true), "signals are watched already");
  speaking.store(speaks);
  for (size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], nullptr, &former_[i]);
  take_hold();
}

void SignalWatch::take_hold() {
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    const bool is_ignored = kSignals[i] == SIGPIPE || kSignals[i] == SIGXFSZ;
    const bool asks_to_stop = kSignals[i] == SIGINT || kSignals[i] == SIGTERM || kSignals[i] == SIGHUP;
    if (asks_to_stop && former_[i].sa_handler == SIG_IGN) continue;
    handle(kSignals[i], is_ignored ? SIG_IGN : causeway_handle_signal);
  }
}

SignalWatch::~SignalWatch() {
  for (size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &former_[i], nullptr);
  forget_requests();
  watching.store(false);
}

void SignalWatch::remember_save_requests() { handle(SIGUSR1, causeway_handle_signal); }

bool SignalWatch::take_early_save_request() { return save_requested.exchange(false); }

void SignalWatch::begin_steps() { stepping.store(true); }

SignalRequest SignalWatch::poll() {
  if (stop_signal_seen.load() != 0) return SignalRequest::kStop;
  return save_requested.exchange(false) ? SignalRequest::kSave : SignalRequest::kNone;
}

int SignalWatch::stop_signal() const { return stop_signal_seen.load(); }

}  // namespace causeway::train
