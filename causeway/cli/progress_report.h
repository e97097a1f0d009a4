// How far a command is: one line on standard error, rewritten in place on a terminal, a line now and then elsewhere.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "causeway/base/console.h"
#include "causeway/base/printable.h"
#include "causeway/namespaces.h"

namespace causeway::cli {

class ProgressReport {
 public:
  ProgressReport() = default;
  ProgressReport(const ProgressReport&) = delete;
  ProgressReport& operator=(const ProgressReport&) = delete;
  // Takes the line away.
  ~ProgressReport() {
    if (is_shown_) fmt::print(stderr, "\r\033[K");
  }

  // Shows what `line`, called with the seconds since the report was made, gives, if the last one is old enough.
  template <class Line>
  void show(Line line) {
    const Clock::time_point now = Clock::now();
    if (now - last_ < (is_terminal_ ? kTerminalInterval : kLogInterval)) return;
    last_ = now;
    const std::string text = line(std::chrono::duration<double>(now - start_).count());
    if (is_terminal_) {
      fmt::print(stderr, "\r\033[K{}", printable(text));
      std::fflush(stderr);
    } else {
      notice("{}\n", text);
    }
    is_shown_ = is_terminal_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::duration kTerminalInterval = std::chrono::milliseconds(250);
  static constexpr Clock::duration kLogInterval = std::chrono::seconds(30);

  const bool is_terminal_ = ::isatty(STDERR_FILENO) != 0;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
  bool is_shown_ = false;
};

}  // namespace causeway::cli
