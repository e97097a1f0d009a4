#include "causeway/train/grpo/reward_program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "causeway/base/error.h"
#include "causeway/base/printable.h"

namespace causeway::train {
namespace {

// A line of its output, and how much of one a message shows.
constexpr size_t kMostLineBytes = size_t{1} << 16, kShownBytes = 400;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string shown(const std::string& text) {
  if (text.size() <= kShownBytes) return printable(text);
  size_t end = kShownBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return printable(text.substr(0, end)) + "...";
}

// What went wrong with one completion; judge() says with which.
struct ProgramFault {
  std::string what;
};

// A program whose input is closed must not end this one.
class WithoutBrokenPipeSignal {
 public:
  WithoutBrokenPipeSignal() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  WithoutBrokenPipeSignal(const WithoutBrokenPipeSignal&) = delete;
  WithoutBrokenPipeSignal& operator=(const WithoutBrokenPipeSignal&) = delete;
  ~WithoutBrokenPipeSignal() {
    constexpr timespec kAtOnce{};
    if (::sigismember(&before_, SIGPIPE) == 0)
      while (::sigtimedwait(&pipe_, nullptr, &kAtOnce) < 0 && errno == EINTR) {
      }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_{}, before_{};
};

// Until something can be done with the descriptor. False at the deadline.
bool wait_until_ready(int descriptor, int16_t events, double deadline) {
  while (true) {
    const double left = deadline - steady_seconds();
    if (left <= 0) return false;
    pollfd one{descriptor, events, 0};
    const int ready = ::poll(&one, 1, static_cast<int>(std::min(std::ceil(left * 1000), 1e6)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw ProgramFault{fmt::format("cannot be waited for: {}", std::strerror(errno))};
  }
}

std::string describe_status(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was ended by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("ended with status {}", WEXITSTATUS(status));
}

double number_of(const std::string& line) {
  const std::string text = without_blanks_around(line);
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size())
    throw ProgramFault{fmt::format("wrote \"{}\", which is no number", shown(line))};
  if (!std::isfinite(number)) throw ProgramFault{fmt::format("wrote \"{}\", which is no finite number", shown(line))};
  return number;
}

}  // namespace

RewardProgram::~RewardProgram() { end(); }

double RewardProgram::judge(const JudgedCompletion& completion) {
  nlohmann::ordered_json json = completion.record;
  json["completion"] = completion.text;
  const std::string line = json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  try {
    if (process_ < 0) start();
    const double deadline = steady_seconds() + seconds_;
    if (!unread_.empty()) throw ProgramFault{fmt::format("wrote \"{}\" before it was asked", shown(unread_))};
    write_line(line, deadline);
    const double number = number_of(read_line(deadline));
    if (!unread_.empty()) throw ProgramFault{fmt::format("wrote \"{}\" behind its number", shown(unread_))};
    return number;
  } catch (const ProgramFault& fault) {
    end();
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("the program \"{}\" {} when it was given {}: {}", printable(command_), fault.what,
                            completion.name, shown(line.substr(0, line.size() - 1))),
                "grpo.reward_program",
                "It reads a line of JSON for each completion and answers each with a line that holds one number.");
  }
}

void RewardProgram::start() {
  Pipe to_program = make_pipe(), from_program = make_pipe();
  if (!to_program.read_end || !from_program.read_end)
    throw ProgramFault{fmt::format("cannot be started: {}", std::strerror(errno))};
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&actions, to_program.read_end.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, from_program.write_end.get(), STDOUT_FILENO);
  // A group of its own: with it all that the command starts is ended, and Ctrl-C is for the run, which ends it. Signals
  // that the run ignores are no concern of it.
  sigset_t none, usual;
  ::sigemptyset(&none);
  ::sigemptyset(&usual);
  for (const int signal : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGXFSZ}) ::sigaddset(&usual, signal);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &usual);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string shell = "sh", option = "-c", command = command_;
  char* const arguments[] = {shell.data(), option.data(), command.data(), nullptr};
  pid_t process = -1;
  const int failure = ::posix_spawn(&process, "/bin/sh", &actions, &attributes, arguments, environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) throw ProgramFault{fmt::format("cannot be started: {}", std::strerror(failure))};
  process_ = process;
  input_ = std::move(to_program.write_end);
  output_ = std::move(from_program.read_end);
  ::fcntl(input_.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  unread_.clear();
}

void RewardProgram::end() noexcept {
  if (process_ < 0) return;
  input_ = FileDescriptor();
  output_ = FileDescriptor();
  constexpr int kTries = 100;
  int status = 0;
  bool has_ended = false;
  for (int i = 0; i < kTries && !has_ended; ++i) {
    has_ended = ::waitpid(process_, &status, WNOHANG) == process_;
    if (!has_ended) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ::kill(-process_, SIGKILL);  // what it has started as well
  while (!has_ended && ::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  unread_.clear();
}

void RewardProgram::write_line(const std::string& line, Deadline deadline) {
  const WithoutBrokenPipeSignal guard;
  for (size_t written = 0; written < line.size();) {
    if (!wait_until_ready(input_.get(), POLLOUT, deadline))
      throw ProgramFault{fmt::format("read nothing within {} s", seconds_)};
    const ssize_t count = ::write(input_.get(), line.data() + written, line.size() - written);
    if (count >= 0) {
      written += static_cast<size_t>(count);
    } else if (errno == EPIPE) {
      throw ProgramFault{how_it_ended()};
    } else if (errno != EAGAIN && errno != EINTR) {
      throw ProgramFault{fmt::format("cannot be written to: {}", std::strerror(errno))};
    }
  }
}

std::string RewardProgram::read_line(Deadline deadline) {
  while (true) {
    if (const size_t end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    if (unread_.size() > kMostLineBytes)
      throw ProgramFault{fmt::format("wrote a line of more than {} bytes", kMostLineBytes)};
    if (!wait_until_ready(output_.get(), POLLIN, deadline))
      throw ProgramFault{fmt::format("wrote no number within {} s (grpo.reward_timeout)", seconds_)};
    char bytes[4096];
    const ssize_t count = ::read(output_.get(), bytes, sizeof bytes);
    if (count > 0) {
      unread_.append(bytes, static_cast<size_t>(count));
    } else if (count == 0) {
      throw ProgramFault{how_it_ended()};
    } else if (errno != EAGAIN && errno != EINTR) {
      throw ProgramFault{fmt::format("cannot be read from: {}", std::strerror(errno))};
    }
  }
}

std::string RewardProgram::how_it_ended() {
  constexpr int kTries = 50;
  int status = 0;
  for (int i = 0; i < kTries; ++i) {
    if (::waitpid(process_, &status, WNOHANG) == process_) {
      ::kill(-process_, SIGKILL);
      process_ = -1;
      return describe_status(status);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return "closed its input or its output";
}

}  // namespace causeway::train
