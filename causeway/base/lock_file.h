// A file that one process at a time holds, by an advisory lock (flock), and whose text says who that is. The lock goes
// with the process, however it ends. Not every file system has locks.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace causeway {

class LockFile {
 public:
  // As flock(descriptor, LOCK_EX | LOCK_NB): 0, or the error's number. Another one stands in for it in tests.
  using Lock = std::function<int(int descriptor)>;
  static int lock_descriptor(int descriptor);

  enum class Outcome {
    kHeld,
    kHeldByAnother,
    kNoLocks,    // the file system has none, or refuses: the file is open, and problem() says why it is not locked
    kNotOpened,  // problem() says why
  };

  LockFile() = default;
  LockFile(LockFile&& other) noexcept;
  LockFile& operator=(LockFile&& other) noexcept;
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;
  // Gives the lock back and leaves the file.
  ~LockFile();

  // Makes the file where there is none, without following a link, and asks for the lock. What this held before is given
  // back first.
  Outcome acquire(const std::filesystem::path& path, const Lock& lock = lock_descriptor);
  // An error's number.
  int problem() const { return problem_; }
  bool is_open() const { return descriptor_ >= 0; }

  // Whether the file's name still leads to it: it may have been deleted or replaced.
  bool is_in_place() const;
  // What stands in it; at most a few KiB.
  std::string text() const;
  // Replaces the text. False where it could not be written (errno says why): the lock holds all the same.
  bool write(std::string_view text) const;

 private:
  void close();

  std::filesystem::path path_;
  int descriptor_ = -1;
  int problem_ = 0;
};

}  // namespace causeway
