// The kernel cache on disk: one file for each compiled kernel, in a private directory (private_directory.h), kept below
// a size by removing those that were used least recently. Several programs may read, write and remove at once: an entry
// is there whole, or not. Another program that has read an entry is not touched by its removal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "causeway/base/private_directory.h"
#include "causeway/namespaces.h"

namespace causeway::codegen {

struct KernelCacheUsage {
  int64_t kernels = 0;
  int64_t bytes = 0;
};

class KernelCacheFiles {
 public:
  explicit KernelCacheFiles(PrivateDirectory directory) : directory_(std::move(directory)) {}

  const std::filesystem::path& path() const { return directory_.path(); }

  // The image of an entry, which counts as used now; nothing where there is none, where it is damaged, and where others
  // could have written it. Throws Error when it cannot be read.
  std::optional<std::string> read(const std::string& name) const;
  // Throws Error when it cannot be written.
  void write(const std::string& name, std::string_view image) const;
  // One that is not there is gone already.
  void remove(const std::string& name) const { directory_.remove_file(name); }

  KernelCacheUsage usage() const;
  // In bytes. Unless set_limit() said otherwise, the program's own, or a tenth of a small file system.
  int64_t limit() const;
  // Keeps the limit beside the entries, for every program that uses them.
  void set_limit(int64_t bytes) const;
  // Removes entries, those not used for longest first, until they hold no more than `bytes`, and what programs that
  // were killed left unfinished more than an hour ago. Returns what was removed.
  KernelCacheUsage prune(int64_t bytes) const;

 private:
  PrivateDirectory directory_;
};

}  // namespace causeway::codegen
