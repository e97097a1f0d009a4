// Directories and files that only their user can have written: what is loaded or trusted unseen, as compiled kernels
// are, comes from nowhere else.
//
// The rule. Every directory from the root of the file system to the last belongs to this process's user (the effective
// one) or to root, and nobody else may write to it; above the last, a directory that others may write to is accepted if
// it is sticky, as /tmp is, where nobody can rename or remove what is not his. The last belongs to the user himself:
// root's is not enough. Symbolic links are followed where they belong to the user or root, and what they lead to is
// held to the same rule. So root refuses what lies in another user's home. Files belong to the user, are regular, and
// nobody else may write to them.
//
// What an access control list grants counts as the group's, since its mask stands there. A group that may write is
// nobody else where it is the user's own: it has his name, is his primary group and has no other member, and there is
// no list. Root has no such group.
//
// Directories are opened from the root down, each by the descriptor of the one above, and it is the open descriptor
// that is looked at, so that nothing can be exchanged between the look and the use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/base/error.h"

namespace causeway {

// Others could have written a directory or file: the message names it and says how.
class UntrustedPathError : public Error {
 public:
  UntrustedPathError(std::string what, std::string where, std::string hint)
      : Error(ErrorKind::kIo, std::move(what), std::move(where), std::move(hint)) {}
};

struct PrivateFile {
  std::string name;
  int64_t bytes = 0;
  int64_t modified = 0;  // nanoseconds since 1970
};

class PrivateDirectory {
 public:
  // Opens the directory, and makes what is missing of the path for the user alone (mode 0700). Access that others have
  // to the last is taken from them. Throws UntrustedPathError, and Error(kIo, kNotFound or kResource) when it cannot be
  // made or opened.
  static PrivateDirectory create(const std::filesystem::path& path);
  // One that is there; Error(kNotFound) otherwise.
  static PrivateDirectory open(const std::filesystem::path& path);

  PrivateDirectory(PrivateDirectory&& other) noexcept;
  PrivateDirectory& operator=(PrivateDirectory&& other) noexcept;
  PrivateDirectory(const PrivateDirectory&) = delete;
  PrivateDirectory& operator=(const PrivateDirectory&) = delete;
  ~PrivateDirectory();

  // As it was asked for.
  const std::filesystem::path& path() const { return path_; }

  // Names below are those of entries of this directory, without slashes.

  // The content; nothing where there is no such file. Throws UntrustedPathError, also for what is no regular file.
  std::optional<std::string> read_file(const std::string& name) const;
  // Whole or not at all, in place of one that is there, for the user alone (mode 0600). It is not flushed: what was
  // written just before a power failure may be damaged after it. Throws Error(kIo), kResource when the disk is full.
  void write_file(const std::string& name, std::string_view content) const;
  // An empty file for the user alone, where there is none of the name.
  void create_file(const std::string& name) const;
  // True where there is such a file. Throws UntrustedPathError as read_file() does. Opens no descriptor that could be
  // read: closing one would release the locks that this process has on the file.
  bool check_file(const std::string& name) const;
  // Its time of modification becomes now.
  void mark_used(const std::string& name) const;
  // False where there was none.
  bool remove_file(const std::string& name) const;
  // Regular files, in no order.
  std::vector<PrivateFile> files() const;
  // Throws UntrustedPathError where anything below, at any depth, could have been written by others.
  void check_everything_below() const;
  // Of all files below, at any depth.
  int64_t bytes_below() const;
  void remove_everything_below() const;
  // The size of the file system that it is on.
  int64_t file_system_bytes() const;

 private:
  PrivateDirectory(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace causeway
