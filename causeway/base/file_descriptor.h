// Open files, and pipes, that close themselves.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

namespace causeway {

constexpr int kMostLinks = 40;  // that a path is followed through, as many as the system follows

class FileDescriptor {
 public:
  // Takes over an open descriptor; -1: none.
  explicit FileDescriptor(int value = -1) : value_(value) {}
  FileDescriptor(FileDescriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (value_ >= 0) ::close(value_);
  }

  int get() const { return value_; }
  int release() { return std::exchange(value_, -1); }
  explicit operator bool() const { return value_ >= 0; }

 private:
  int value_;
};

struct Pipe {
  FileDescriptor read_end = FileDescriptor(), write_end = FileDescriptor();
};

// Closed in programs that are started. Without ends, and errno set, where the system has none.
inline Pipe make_pipe() {
  int ends[] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return Pipe();
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// Opens it, once more where a signal comes between, closed in programs that are started; a new file is readable by all.
// -1 with errno where that fails.
inline int open_despite_signals(const std::filesystem::path& path, int flags) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

}  // namespace causeway
