#include "causeway/cli/launched_processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <thread>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/base/file_descriptor.h"
#include "causeway/base/system_files.h"
#include "causeway/communicator/launch_link.h"
#include "causeway/train/signals.h"

namespace causeway::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kOneRequest = std::chrono::milliseconds(250);
constexpr auto kFarewell = std::chrono::seconds(10);
constexpr auto kLook = std::chrono::milliseconds(20);
constexpr int kStopping[] = {SIGINT, SIGTERM, SIGHUP};

// How a launcher is told to end what it started. Open MPI's ends the ranks on SIGINT as on SIGTERM, which it is kept
// from seeing: schedulers send it to every process of a job. MPICH's passes both on and waits; killed, it takes its
// processes with it.
int ending_signal(MpiFamily family) {
  switch (family) {
    case MpiFamily::kOpenMpi:
      return SIGINT;
    case MpiFamily::kMpich:
      return SIGKILL;
    case MpiFamily::kEither:
      break;
  }
  return SIGTERM;
}

Pipe make_launch_pipe() {
  Pipe pipe = make_pipe();
  if (!pipe.read_end)
    throw Error(ErrorKind::kIo, fmt::format("cannot make a pipe: {}", std::strerror(errno)), "launch");
  return pipe;
}

// All processes below this one.
std::vector<pid_t> descendants() {
  std::multimap<pid_t, pid_t> children;
  if (DIR* directory = ::opendir("/proc")) {
    while (const dirent* entry = ::readdir(directory)) {
      const pid_t process = std::atoi(entry->d_name);
      if (process <= 0) continue;
      const std::string status = read_system_file(fmt::format("/proc/{}/status", process));
      if (const std::optional<std::string> parent = find_value(status, "PPid"))
        children.emplace(std::atoi(parent->c_str()), process);
    }
    ::closedir(directory);
  }
  std::vector<pid_t> found = {::getpid()};
  for (size_t i = 0; i < found.size(); ++i) {
    const auto [begin, end] = children.equal_range(found[i]);
    for (auto child = begin; child != end; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

class LaunchedProcesses {
 public:
  LaunchedProcesses(const MpiLauncher& launcher, const std::vector<std::string>& words, bool heed_signals)
      : launcher_(launcher), words_(words), carries_(heed_signals && launcher.family != MpiFamily::kEither) {
    ::sigemptyset(&heeded_);
    for (const int signal : kStopping) {
      struct sigaction action{};
      ::sigaction(signal, nullptr, &action);
      if (action.sa_handler != SIG_IGN) ::sigaddset(&heeded_, signal);
    }
    ::sigaddset(&heeded_, SIGUSR1);
    ::sigaddset(&heeded_, SIGCHLD);
    // Children of one that ignores it leave nothing to be waited for.
    ::signal(SIGCHLD, SIG_DFL);
    ::sigprocmask(SIG_BLOCK, &heeded_, &former_);
    // What loses its parent becomes this process's child.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
  LaunchedProcesses(const LaunchedProcesses&) = delete;
  LaunchedProcesses& operator=(const LaunchedProcesses&) = delete;
  ~LaunchedProcesses() { ::sigprocmask(SIG_SETMASK, &former_, nullptr); }

  int run() {
    start();
    if (carries_) {
      // Where nobody reads, signals are lost rather than waited for.
      ::fcntl(link_.write_end.get(), F_SETFL, O_NONBLOCK);
      pass_on(launch_link_greeting());
      // One that came before they were blocked.
      if (train::SignalWatch::take_early_save_request()) pass_on(launch_link_line(SIGUSR1));
    }
    while (!status_ && !is_stopped_at_once_) heed(wait_for_signal({}));
    const Clock::time_point end = Clock::now();
    while (!is_stopped_at_once_ && reap() && Clock::now() - end < kFarewell) heed(wait_for_signal(kLook));
    end_all();
    return is_stopped_at_once_ ? train::kStoppedAtOnceStatus : *status_;
  }

 private:
  void start() {
    Pipe failure = make_launch_pipe();
    flush_output();
    const pid_t self = ::getpid();
    process_ = ::fork();
    if (process_ < 0)
      throw Error(ErrorKind::kResource, fmt::format("cannot start a process: {}", std::strerror(errno)), "launch");
    if (process_ == 0) become_launcher(self, failure);
    failure.write_end = FileDescriptor();
    int code = 0;
    const bool failed = ::read(failure.read_end.get(), &code, sizeof code) == sizeof code;
    link_.read_end = FileDescriptor();
    if (!failed) return;
    ::waitpid(process_, nullptr, 0);
    throw Error(ErrorKind::kIo, fmt::format("cannot start it: {}", std::strerror(code)), words_.front(),
                "Start the processes by hand: mpirun -n 4 causeway train ...");
  }

  [[noreturn]] void become_launcher(pid_t parent, const Pipe& failure) const {
    std::vector<char*> arguments;
    for (const std::string& word : words_) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::setsid();
    sigset_t mask = former_;
    // It lets through what it starts itself.
    if (launcher_.family == MpiFamily::kOpenMpi) ::sigaddset(&mask, SIGTERM);
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
    ::prctl(PR_SET_PDEATHSIG, ending_signal(launcher_.family));
    if (::getppid() != parent) ::_exit(1);
    if (!carries_ || ::dup2(link_.read_end.get(), STDIN_FILENO) >= 0) ::execvp(arguments.front(), arguments.data());
    const int code = errno;
    [[maybe_unused]] const ssize_t written = ::write(failure.write_end.get(), &code, sizeof code);
    ::_exit(1);
  }

  // The next one; 0 after that time, where one is given.
  int wait_for_signal(std::optional<std::chrono::milliseconds> time) const {
    while (true) {
      const timespec most{0, time ? std::chrono::nanoseconds(*time).count() : 0};
      const int signal = time ? ::sigtimedwait(&heeded_, nullptr, &most) : ::sigwaitinfo(&heeded_, nullptr);
      if (signal > 0) return signal;
      if (errno != EINTR) return 0;
    }
  }

  void heed(int signal) {
    if (signal == 0) return;
    if (signal == SIGCHLD) {
      reap();
      return;
    }
    if (signal == SIGUSR1) {
      if (carries_) pass_on(launch_link_line(signal));
      return;
    }
    const Clock::time_point now = Clock::now();
    if (asked_ && now - *asked_ < kOneRequest) return;
    if (asked_) return stop_at_once();
    asked_ = now;
    if (carries_)
      pass_on(launch_link_line(signal));
    else if (!status_)
      ::kill(process_, launcher_.family == MpiFamily::kOpenMpi ? ending_signal(launcher_.family) : signal);
  }

  // What nobody reads any more need not be heard.
  void pass_on(const std::string& line) const {
    [[maybe_unused]] const ssize_t written = ::write(link_.write_end.get(), line.data(), line.size());
  }

  // Whether there are children left.
  bool reap() {
    while (true) {
      int state = 0;
      const pid_t process = ::waitpid(-1, &state, WNOHANG);
      if (process == 0) return true;
      if (process < 0) return errno == EINTR;
      if (process == process_) status_ = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    }
  }

  void stop_at_once() {
    is_stopped_at_once_ = true;
    end_all();
    if (carries_) notice("stopped at once; the newest checkpoint is as it was\n");
  }

  // A killed process may have started another one meanwhile, and one in the kernel takes its time to end.
  void end_all() {
    const Clock::time_point end = Clock::now() + kFarewell;
    while (reap() && Clock::now() < end) {
      for (const pid_t process : descendants()) ::kill(process, SIGKILL);
      std::this_thread::sleep_for(kLook);
    }
  }

  const MpiLauncher& launcher_;
  const std::vector<std::string>& words_;
  const bool carries_;
  sigset_t heeded_, former_;
  Pipe link_ = make_launch_pipe();
  pid_t process_ = 0;
  std::optional<int> status_;               // of the launcher, once it has ended
  std::optional<Clock::time_point> asked_;  // to stop, the first time
  bool is_stopped_at_once_ = false;
};

}  // namespace

int run_launched_processes(const MpiLauncher& launcher, const std::vector<std::string>& words, bool heed_signals) {
  return LaunchedProcesses(launcher, words, heed_signals).run();
}

}  // namespace causeway::cli
