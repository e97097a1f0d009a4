// A directory that is written beside the one it will replace, and takes its place when it is whole: whatever happens
// before, the old one stays as it is.
#pragma once

#include <filesystem>

#include "causeway/namespaces.h"

namespace causeway::data {

class DirectoryReplacement {
 public:
  // For the directory `target`, which need not exist. Works in ".NAME.preparing" beside it, which one process at a time
  // may do; what a process left there that was killed is cleaned up, and where it was killed between two renames, the
  // old directory is put back. Throws Error: kResource when another process is at it, naming it; kInvalidArgument for a
  // target that cannot be replaced by a rename (a file, a mount point); kIo.
  explicit DirectoryReplacement(const std::filesystem::path& target);
  DirectoryReplacement(const DirectoryReplacement&) = delete;
  DirectoryReplacement& operator=(const DirectoryReplacement&) = delete;
  // Removes what was written, unless it was committed.
  ~DirectoryReplacement();

  // Where the new directory is written. Empty at first.
  const std::filesystem::path& directory() const { return new_; }
  // For files that are needed while it is written, and no longer.
  const std::filesystem::path& work_directory() const { return work_; }

  // How the new directory takes the place of an old one: in one step, where the file system can, or in two renames.
  enum class Method { kExchange, kTwoRenames };
  // Makes the new directory the target and removes the old one. The files in it must be on the disk; the renames are,
  // when this returns.
  void commit(Method method = Method::kExchange);

 private:
  void lock();
  void recover();

  std::filesystem::path target_;
  std::filesystem::path work_;
  std::filesystem::path new_;
  std::filesystem::path old_;
  int lock_ = -1;
};

// Where a killed process left the directory `target` between two renames; empty when it did not. The next
// DirectoryReplacement puts it back.
std::filesystem::path interrupted_replacement(const std::filesystem::path& target);

}  // namespace causeway::data
