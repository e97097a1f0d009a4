#include "causeway/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/base/printable.h"

namespace causeway {
namespace {

std::atomic<LogLevel> current_level{LogLevel::kInfo};

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto created = std::make_shared<spdlog::logger>("causeway", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    created->set_pattern("%H:%M:%S %l: %v");
    created->set_level(spdlog::level::trace);
    created->flush_on(spdlog::level::trace);
    return created;
  }();
  return *instance;
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

}  // namespace

void set_log_level(LogLevel level) { current_level.store(level, std::memory_order_relaxed); }

LogLevel log_level() { return current_level.load(std::memory_order_relaxed); }

LogLevel parse_log_level(std::string_view name) {
  static const std::vector<std::string> names = {"debug", "info", "warning", "error", "off"};
  for (size_t index = 0; index < names.size(); ++index) {
    if (names[index] == name) return static_cast<LogLevel>(index);
  }
  const std::string nearest = nearest_name(name, names);
  throw Error(ErrorKind::kInvalidArgument, fmt::format("unknown log level \"{}\"", name), "",
              nearest.empty() ? "Use debug, info, warning, error or off." : fmt::format("Did you mean {}?", nearest));
}

void write_log(LogLevel level, std::string_view message) {
  if (level < log_level()) return;
  const std::string safe = printable(message, Whitespace::kLinesAndTabs);
  wipe_lines();
  logger().log(spdlog_level(level), spdlog::string_view_t(safe.data(), safe.size()));
}

}  // namespace causeway
