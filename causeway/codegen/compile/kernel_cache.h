// Compiled kernels, kept in memory and on disk.
//
// A key covers the source, every embedded kernel header, the compiler's version and flags, and the target; so an entry
// is right or absent and never needs invalidating. Entries on disk (kernel_cache_files.h) are read only where nobody
// but the user can have written them, checked by their hash, and rebuilt when damaged. Several processes may share the
// directory. One that cannot be used or written is no error: kernels are compiled in every run, and a warning says so
// and why.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "causeway/codegen/compile/kernel_cache_files.h"
#include "causeway/device/target.h"

namespace causeway::codegen {

// The bytes that compile_module() returned. Shared, immutable.
using KernelImage = std::shared_ptr<const std::string>;

struct KernelCacheStatistics {
  int64_t memory_hits = 0;
  int64_t disk_hits = 0;
  int64_t misses = 0;
  double compile_seconds = 0;  // summed over threads
};

class KernelCache {
 public:
  // Where open_user_cache(kUserCacheName) puts it. The directory is opened, and made, when the first kernel is asked
  // for.
  KernelCache() = default;
  // This directory, held to the same rule; an empty path means memory alone. `limit_bytes` in place of what is kept
  // beside the entries (KernelCacheFiles::limit()).
  explicit KernelCache(std::filesystem::path directory, std::optional<int64_t> limit_bytes = {});

  static constexpr char kUserCacheName[] = "kernels";

  // Throws as compile_module() does. Thread-safe.
  KernelImage get_or_compile(const std::string& source, const Target& target);

  // What is to be done with an image as soon as it is there, by the position of its source; on any thread.
  using ImageReady = std::function<void(size_t position, const KernelImage& image)>;

  // Images in the order of `sources`. Misses are compiled on up to `thread_count` threads (0: as many as there are
  // processors); equal sources are compiled once, and `ready` is called for the first of them. Throws what a
  // failing source throws, or `ready` for it: of those compiled the first, then of those found. Thread-safe.
  std::vector<KernelImage> get_or_compile_all(std::span<const std::string> sources, const Target& target,
                                              int thread_count = 0, const ImageReady& ready = {});

  KernelCacheStatistics statistics() const;

  // The name of the entry's file: 32 hexadecimal digits and ".kernel".
  static std::string entry_name(const std::string& source, const Target& target);

 private:
  KernelImage find(const std::string& name);
  KernelImage keep(const std::string& name, std::string image, double compile_seconds);
  // Null: memory alone.
  const KernelCacheFiles* files();
  void open_files();
  void write_entry(const std::string& name, const std::string& image);
  void keep_to_limit();

  std::optional<std::filesystem::path> directory_;  // none: the user's cache
  std::optional<int64_t> limit_bytes_;
  std::once_flag opened_;
  std::optional<KernelCacheFiles> files_;
  mutable std::mutex mutex_;
  std::map<std::string, KernelImage> images_;
  KernelCacheStatistics statistics_;
  bool writable_ = true;
  int64_t written_ = 0;  // bytes, since the size was looked at
  bool size_looked_at_ = false;
};

}  // namespace causeway::codegen
