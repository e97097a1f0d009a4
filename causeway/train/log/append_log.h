// A file that records are appended to while training runs. A disk that fails must not stop training: the first failure
// gives one warning and disables the log for good. Nothing here throws.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "causeway/namespaces.h"

namespace causeway::train {

using WarningSink = std::function<void(const std::string&)>;

// Writes the warning to the program's log.
void warn_in_log(const std::string& message);

class AppendLog {
 public:
  // A log that is disabled from the start.
  AppendLog() = default;
  // Opens directory/below for appending, creating it and its directories when absent. A link out of `directory` is not
  // followed (base/enclosed_path.h).
  AppendLog(const std::filesystem::path& directory, const std::filesystem::path& below, WarningSink warn);
  AppendLog(const AppendLog&) = delete;
  AppendLog& operator=(const AppendLog&) = delete;
  ~AppendLog();

  bool enabled() const { return descriptor_ >= 0; }
  const std::filesystem::path& path() const { return path_; }
  // Hands the whole record to the operating system before returning. A record that does not fit is taken back.
  void append(std::span<const std::byte> record) noexcept;
  // Keeps the first `bytes` of the file.
  void cut(size_t bytes) noexcept;
  // Gives `reason` as the one warning and stops logging.
  void disable(const std::string& reason) noexcept;

 private:
  std::filesystem::path path_;
  WarningSink warn_;
  int descriptor_ = -1;
};

}  // namespace causeway::train
