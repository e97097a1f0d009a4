#include "causeway/base/console.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/base/printable.h"

namespace causeway {
namespace {

// Why something was not written to standard output; 0 when everything was.
std::atomic<int> output_failure{0};

void remember_failure() {
  int none = 0;
  output_failure.compare_exchange_strong(none, errno != 0 ? errno : EIO);
}

struct Wipers {
  std::mutex mutex;
  std::vector<LineWiper*> all;
};

// Never destroyed: what ends last may still have something to say.
Wipers& wipers() {
  static Wipers* const instance = new Wipers;
  return *instance;
}

}  // namespace

LineWiper::LineWiper(std::function<void()> wipe) : wipe_(std::move(wipe)) {
  const std::lock_guard lock(wipers().mutex);
  wipers().all.push_back(this);
}

LineWiper::~LineWiper() {
  const std::lock_guard lock(wipers().mutex);
  std::erase(wipers().all, this);
}

void wipe_lines() noexcept {
  const std::lock_guard lock(wipers().mutex);
  for (const LineWiper* wiper : wipers().all) wiper->wipe_();
}

void prepare_standard_streams() {
  ::signal(SIGPIPE, SIG_IGN);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    // Takes the lowest free number, which is this one. Not open for what the stream is used for, so that the use fails.
    const int taken = ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (taken >= 0 && taken != descriptor) ::close(taken);
  }
}

void write_output(std::string_view text) { write_raw_output(printable(text, Whitespace::kLinesAndTabs)); }

void write_raw_output(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) < text.size()) remember_failure();
}

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) remember_failure();
  const int failure = output_failure.load();
  if (failure == 0) return;
  throw Error(ErrorKind::kIo, fmt::format("the output could not be written: {}", std::strerror(failure)),
              "standard output", failure == ENOSPC ? "The disk is full: free some space or send it elsewhere." : "");
}

void write_notice(std::string_view text) noexcept {
  try {
    const std::string safe = printable(text, Whitespace::kLinesAndTabs);
    wipe_lines();
    std::fwrite(safe.data(), 1, safe.size(), stderr);
    std::fflush(stderr);
  } catch (const std::exception&) {
    // There is no memory to say it with.
  }
}

}  // namespace causeway
