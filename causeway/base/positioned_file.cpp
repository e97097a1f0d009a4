#include "causeway/base/positioned_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/file_descriptor.h"

namespace causeway {
namespace {

[[noreturn]] void fail_to_access(const std::filesystem::path& path, const char* action, int code) {
  ErrorKind kind = ErrorKind::kIo;
  std::string hint;
  if (code == ENOENT) kind = ErrorKind::kNotFound;
  if (code == ENOSPC || code == EDQUOT) {
    kind = ErrorKind::kResource;
    hint = "The disk is full: free some space or choose another directory.";
  }
  if (code == EFBIG) {
    kind = ErrorKind::kResource;
    hint = "The file would pass the largest file size allowed here: see `ulimit -f` and the file system's limit.";
  }
  if (code == EACCES || code == EPERM || code == EROFS) hint = "Check the permissions of the file and its directory.";
  throw Error(kind, fmt::format("cannot {}: {}", action, std::strerror(code)), path.string(), hint);
}

}  // namespace

PositionedFile PositionedFile::create(const std::filesystem::path& path) {
  const int descriptor = open_despite_signals(path, O_RDWR | O_CREAT | O_TRUNC);
  if (descriptor < 0) fail_to_access(path, "create", errno);
  return PositionedFile(path, descriptor);
}

PositionedFile PositionedFile::create_unnamed(const std::filesystem::path& directory) {
  int descriptor = open_despite_signals(directory, O_TMPFILE | O_RDWR | O_EXCL);
  // Not every file system can: there the name goes at once. Kernels before 3.11 take it for the opening of a directory.
  if (descriptor < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    std::string name = (directory / "causeway-XXXXXX").string();
    descriptor = ::mkostemp(name.data(), O_CLOEXEC);
    if (descriptor >= 0) ::unlink(name.c_str());
  }
  if (descriptor < 0) fail_to_access(directory, "create a file in it", errno);
  return PositionedFile(directory, descriptor);
}

PositionedFile PositionedFile::open(const std::filesystem::path& path, Content content) {
  PositionedFile file(path, open_regular_file(path));
  if (content == Content::kMustStay) file.keep();
  return file;
}

PositionedFile::PositionedFile(PositionedFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      opened_(std::exchange(other.opened_, std::nullopt)) {}

PositionedFile& PositionedFile::operator=(PositionedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(opened_, other.opened_);
  return *this;
}

PositionedFile::~PositionedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

PositionedFile::State PositionedFile::state() const {
  struct stat status{};
  if (::fstat(descriptor_, &status) != 0) fail_to_access(path_, "read the size of", errno);
  return {static_cast<uint64_t>(status.st_size), status.st_mtim};
}

uint64_t PositionedFile::size() const { return opened_ ? opened_->size : state().size; }

void PositionedFile::require_unchanged() const {
  if (!opened_) return;
  const State now = state();
  if (now.size == opened_->size && now.modified.tv_sec == opened_->modified.tv_sec &&
      now.modified.tv_nsec == opened_->modified.tv_nsec)
    return;
  throw Error(ErrorKind::kCorrupt,
              now.size < opened_->size
                  ? fmt::format("the file was cut short while it was being read: it had {} bytes and has {}",
                                opened_->size, now.size)
                  : "the file was changed while it was being read",
              path_.string(), "Put the file back as it was. Data that a run reads must not change until the run ends.");
}

void PositionedFile::reserve(uint64_t bytes) {
  if (bytes > 0) {
    int result = 0;
    do {
      result = ::fallocate(descriptor_, 0, 0, static_cast<off_t>(bytes));
    } while (result != 0 && errno == EINTR);
    // Not every file system can claim space ahead; there the disk is found full when the data is written.
    if (result != 0 && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL) fail_to_access(path_, "write", errno);
  }
  if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) fail_to_access(path_, "write", errno);
}

void PositionedFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) continue;
      fail_to_access(path_, "write", errno);
    }
    offset += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void PositionedFile::read_at(uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) continue;
      fail_to_access(path_, "read", errno);
    }
    if (count == 0) {
      require_unchanged();
      throw Error(ErrorKind::kCorrupt, fmt::format("the file ends before byte {}", offset + bytes.size()),
                  path_.string());
    }
    offset += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  // After reading, so that what was read is of the file as it was opened.
  require_unchanged();
}

void PositionedFile::sync() {
  if (::fsync(descriptor_) != 0) fail_to_access(path_, "flush", errno);
}

}  // namespace causeway
