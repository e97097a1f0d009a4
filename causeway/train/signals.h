// Signals asked of a training run, as requests to poll between steps:
//   SIGINT, SIGTERM, SIGHUP  save and stop (a second SIGINT exits at once, with status 130)
//   SIGUSR1                  save and go on
// The first that asks to stop is answered at once with a line on standard error, however long the step takes; a run
// that has not begun its first step stops before it. Of SIGINT, SIGTERM and SIGHUP those that the process was started
// to ignore (nohup, a shell's background job) stay ignored. SIGPIPE and SIGXFSZ are ignored meanwhile, so that a closed
// pipe or a file-size limit is an error of the write and not the end of the run.
#pragma once

#include <csignal>

#include "causeway/namespaces.h"

namespace causeway::train {

// Of a process that a second signal stopped at once: 128 + SIGINT, as shells report it.
inline constexpr int kStoppedAtOnceStatus = 130;

enum class SignalRequest { kNone, kSave, kStop };

// Installs the handlers, and puts the former ones back when destroyed. At most one may exist at a time.
class SignalWatch {
 public:
  // `speaks`: whether the line is written; one of several ranks does.
  explicit SignalWatch(bool speaks = true);
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  ~SignalWatch();

  // From here on SIGUSR1 does not end the process: the first watch that there is finds it. To be called by main(),
  // before anything else.
  static void remember_save_requests();
  // Whether one has been remembered since the last call.
  static bool take_early_save_request();

  // Installs the handlers once more: after libraries were opened that bring their own, as UCX does below MPI, which
  // would take SIGHUP for itself.
  void take_hold();
  // From here on there are steps to be finished.
  void begin_steps();
  // kStop once asked for, for good; otherwise kSave once for the SIGUSR1s since the last poll. From any thread.
  SignalRequest poll();
  // The signal that asked to stop (SIGINT, SIGTERM or SIGHUP), or 0.
  int stop_signal() const;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGPIPE, SIGXFSZ};
  struct sigaction former_[6] = {};
};

}  // namespace causeway::train
