// Messages for the person at the terminal, on standard error, one line each: "14:03:21 warning: text". Thread-safe.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace causeway {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// Messages below this level are dropped. Starts at kInfo.
void set_log_level(LogLevel level);
LogLevel log_level();

// Throws Error(kInvalidArgument) unless `name` is debug, info, warning, error or off.
LogLevel parse_log_level(std::string_view name);

void write_log(LogLevel level, std::string_view message);

template <typename... Args>
void log_at(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (level >= log_level()) write_log(level, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kDebug, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kInfo, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kWarning, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kError, format, std::forward<Args>(args)...);
}

}  // namespace causeway
