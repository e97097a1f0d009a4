// Lines for the person at the terminal that a run must survive not being able to write: the terminal may be gone, or
// standard error a file on a full disk.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

namespace causeway {

// Writes the text to standard error as it is.
inline void print_notice(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t count = ::write(STDERR_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text.remove_prefix(static_cast<size_t>(count));
  }
}

template <typename... Args>
void notice(fmt::format_string<Args...> format, Args&&... args) {
  print_notice(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace causeway
