#include "causeway/base/stable_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "causeway/base/error.h"

namespace causeway {
namespace {

// A dataset may have more shards than a shell lets a process open by default; up to the hard limit more may be had.
bool raise_limit_of_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return false;
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

int open_for_reading(const std::filesystem::path& path) {
  while (true) {
    // Without O_NONBLOCK a pipe would be waited for before its kind can be looked at.
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor >= 0) return descriptor;
    if (errno == EINTR) continue;
    if (errno == EMFILE && raise_limit_of_open_files()) continue;
    const int code = errno;
    throw Error(
        code == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo, fmt::format("cannot open: {}", std::strerror(code)),
        path.string(),
        code == EMFILE ? "Raise the limit of open files (ulimit -n) above the dataset's number of shards." : "");
  }
}

}  // namespace

StableFile::StableFile(const std::filesystem::path& path) : path_(path), descriptor_(open_for_reading(path)) {
  struct stat status{};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    const std::string what =
        known ? "not a regular file" : fmt::format("cannot read the size of the file: {}", std::strerror(errno));
    ::close(std::exchange(descriptor_, -1));
    throw Error(ErrorKind::kIo, what, path.string());
  }
  size_ = static_cast<uint64_t>(status.st_size);
  modified_ = status.st_mtim;
}

StableFile::StableFile(StableFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      modified_(other.modified_) {}

StableFile& StableFile::operator=(StableFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(modified_, other.modified_);
  return *this;
}

StableFile::~StableFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void StableFile::read_at(uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) continue;
      throw Error(ErrorKind::kIo, fmt::format("cannot read: {}", std::strerror(errno)), path_.string());
    }
    if (count == 0) break;
    offset += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  // After reading, so that what was read is of the file as it was opened.
  require_unchanged();
  CAUSEWAY_CHECK(bytes.empty(), "{} bytes beyond the end of {}", bytes.size(), path_.string());
}

void StableFile::require_unchanged() const {
  struct stat status{};
  if (::fstat(descriptor_, &status) != 0)
    throw Error(ErrorKind::kIo, fmt::format("cannot read the size of the file: {}", std::strerror(errno)),
                path_.string());
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size == size_ && status.st_mtim.tv_sec == modified_.tv_sec && status.st_mtim.tv_nsec == modified_.tv_nsec) return;
  throw Error(ErrorKind::kCorrupt,
              size < size_ ? fmt::format("the file was cut short while it was being read: it had {} bytes and has {}",
                                         size_, size)
                           : "the file was changed while it was being read",
              path_.string(), "Put the file back as it was. Data that a run reads must not change until the run ends.");
}

}  // namespace causeway
