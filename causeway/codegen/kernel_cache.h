// Compiled kernels, kept in memory and on disk.
//
// A key covers the source, every embedded kernel header, the compiler's version and flags, and the target; so an entry
// is right or absent and never needs invalidating. An entry on disk is one file, written whole or not at all, checked
// by its hash when read and rebuilt when damaged. Several processes may share the directory. A directory that cannot be
// written is no error: kernels are compiled in every run, and one warning says so.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "causeway/device/target.h"

namespace causeway {

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
  // An empty directory means memory alone. The directory is created when the first kernel is written.
  explicit KernelCache(std::filesystem::path directory = default_directory());

  // user_cache_directory()/kernels, or empty when this user has no such directory.
  static std::filesystem::path default_directory();

  // Throws as compile_module() does. Thread-safe.
  KernelImage get_or_compile(const std::string& source, const Target& target);

  // Images in the order of `sources`. Misses are compiled on up to `thread_count` threads (0: as many as there are
  // processors); equal sources are compiled once. Throws what the first failing source throws. Thread-safe.
  std::vector<KernelImage> get_or_compile_all(std::span<const std::string> sources, const Target& target,
                                              int thread_count = 0);

  KernelCacheStatistics statistics() const;

  // The name of the entry's file: 32 hexadecimal digits and ".kernel".
  static std::string entry_name(const std::string& source, const Target& target);

 private:
  KernelImage find(const std::string& name);
  KernelImage keep(const std::string& name, std::string image, double compile_seconds);
  KernelImage read_entry(const std::string& name) const;
  void write_entry(const std::string& name, const std::string& image);
  void disable_writing(const std::string& reason);

  const std::filesystem::path directory_;
  mutable std::mutex mutex_;
  std::map<std::string, KernelImage> images_;
  KernelCacheStatistics statistics_;
  bool writable_ = true;
};

}  // namespace causeway
