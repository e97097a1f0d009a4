// What the program writes to standard output and standard error. Texts from outside (names, files, stores that others
// wrote) may be among it: whatever a terminal would obey is written as an escape (base/printable.h), but for newlines
// and tabs.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <utility>

namespace causeway {

// To be called before anything is opened. A standard stream that the caller closed would otherwise be the number of the
// next file opened, and what is printed would end in it. A reader that goes away becomes an error of the write instead
// of the end of the program.
void prepare_standard_streams();

// Results, to standard output. What cannot be written there is lost and remembered: work goes on, for its results may
// be stored elsewhere, and flush_output() tells.
void write_output(std::string_view text);
// The same without escapes, for text that was asked for byte by byte.
void write_raw_output(std::string_view text);
// Throws Error(kIo) when not everything so far has been written.
void flush_output();

// What is said beside the results, to standard error. What cannot be written there is lost: nothing ends for it.
void write_notice(std::string_view text) noexcept;

// How to wipe a line that stands on the terminal for the moment, as a progress line does. While this lives, whatever is
// said by notice() and the log (base/log.h) is preceded by a call of it, on whichever thread, so that it begins a line.
class LineWiper {
 public:
  explicit LineWiper(std::function<void()> wipe);
  LineWiper(const LineWiper&) = delete;
  LineWiper& operator=(const LineWiper&) = delete;
  // No call is going on when this returns.
  ~LineWiper();

 private:
  friend void wipe_lines() noexcept;
  std::function<void()> wipe_;
};
// Before anything else is written to standard error.
void wipe_lines() noexcept;

template <class... Arguments>
void output(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write_output(fmt::format(format, std::forward<Arguments>(arguments)...));
}

template <class... Arguments>
void notice(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write_notice(fmt::format(format, std::forward<Arguments>(arguments)...));
}

}  // namespace causeway
