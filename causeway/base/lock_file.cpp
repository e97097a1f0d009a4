#include "causeway/base/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace causeway {

int LockFile::lock_descriptor(int descriptor) {
  while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

LockFile::LockFile(LockFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      problem_(std::exchange(other.problem_, 0)) {}

LockFile& LockFile::operator=(LockFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(problem_, other.problem_);
  return *this;
}

LockFile::~LockFile() { close(); }

void LockFile::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

LockFile::Outcome LockFile::acquire(const std::filesystem::path& path, const Lock& lock) {
  close();
  path_ = path;
  do {
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) {
    problem_ = errno;
    return Outcome::kNotOpened;
  }
  problem_ = lock(descriptor_);
  return problem_ == 0 ? Outcome::kHeld : problem_ == EWOULDBLOCK ? Outcome::kHeldByAnother : Outcome::kNoLocks;
}

bool LockFile::is_in_place() const {
  struct stat held{}, named{};
  return ::fstat(descriptor_, &held) == 0 && ::lstat(path_.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
         held.st_ino == named.st_ino;
}

std::string LockFile::text() const {
  std::string text(4096, '\0');
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, ::pread(descriptor_, text.data(), text.size(), 0))));
  return text;
}

bool LockFile::write(std::string_view text) const {
  return ::ftruncate(descriptor_, 0) == 0 && ::pwrite(descriptor_, text.data(), text.size(), 0) >= 0;
}

}  // namespace causeway
