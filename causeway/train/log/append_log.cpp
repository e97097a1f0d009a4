#include "causeway/train/log/append_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "causeway/base/enclosed_path.h"
#include "causeway/base/error.h"
#include "causeway/base/log.h"

namespace causeway::train {

void warn_in_log(const std::string& message) { log_warning("{}", message); }

AppendLog::AppendLog(const std::filesystem::path& directory, const std::filesystem::path& below, WarningSink warn)
    : path_(directory / below), warn_(std::move(warn)) {
  try {
    std::error_code failure;
    if (!directory.empty()) std::filesystem::create_directories(directory, failure);
    if (below.has_parent_path()) create_enclosed_directories(directory, below.parent_path());
    // Not blocking: a FIFO without a reader would hold training up.
    descriptor_ = open_enclosed(directory, below, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK);
  } catch (const Error& error) {
    disable(error.message());
  }
}

AppendLog::~AppendLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AppendLog::append(std::span<const std::byte> record) noexcept {
  if (!enabled()) return;
  const off_t before = ::lseek(descriptor_, 0, SEEK_END);
  while (!record.empty()) {
    const ssize_t count = ::write(descriptor_, record.data(), record.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      const int code = errno;
      if (before >= 0 && ::ftruncate(descriptor_, before) != 0) errno = code;
      return disable(std::strerror(code));
    }
    record = record.subspan(static_cast<size_t>(count));
  }
}

void AppendLog::cut(size_t bytes) noexcept {
  if (enabled() && ::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) disable(std::strerror(errno));
}

void AppendLog::disable(const std::string& reason) noexcept {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
  // The warning is the caller's code: whatever it throws is not worth a training run.
  try {
    if (warn_) warn_("cannot write " + path_.string() + ": " + reason + "; training goes on without this log");
  } catch (...) {
  }
  warn_ = nullptr;
}

}  // namespace causeway::train
