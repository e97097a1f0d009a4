#include "causeway/codegen/kernel_cache.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <system_error>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/hash.h"
#include "causeway/base/log.h"
#include "causeway/base/thread_pool.h"
#include "causeway/codegen/compiler.h"

namespace causeway {
namespace {

// The head of an entry's file; the image follows. Little-endian, as every machine that x86 images run on.
struct EntryHeader {
  char magic[8];
  uint64_t image_size;
  uint64_t image_hash_high;
  uint64_t image_hash_low;
};

constexpr char kMagic[8] = {'C', 'W', 'K', 'E', 'R', 'N', '0', '1'};

EntryHeader header_of(const std::string& image) {
  const Hash128 hash = hash_text(image);
  EntryHeader header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.image_size = image.size();
  header.image_hash_high = hash.high;
  header.image_hash_low = hash.low;
  return header;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

KernelCache::KernelCache(std::filesystem::path directory) : directory_(std::move(directory)) {
  writable_ = !directory_.empty();
}

std::filesystem::path KernelCache::default_directory() {
  try {
    return user_cache_directory() / "kernels";
  } catch (const Error& error) {
    log_debug("no kernel cache on disk: {}", error.what());
    return {};
  }
}

std::string KernelCache::entry_name(const std::string& source, const Target& target) {
  return hash_text(compiler_fingerprint() + '\n' + target.text() + '\n' + source).hex() + ".kernel";
}

KernelImage KernelCache::get_or_compile(const std::string& source, const Target& target) {
  return get_or_compile_all({&source, 1}, target, 1)[0];
}

std::vector<KernelImage> KernelCache::get_or_compile_all(std::span<const std::string> sources, const Target& target,
                                                         int thread_count) {
  std::vector<KernelImage> images(sources.size());
  std::vector<std::string> names(sources.size());
  std::map<std::string, size_t> first_of;
  std::vector<size_t> missing;
  for (size_t index = 0; index < sources.size(); ++index) {
    names[index] = entry_name(sources[index], target);
    if (!first_of.emplace(names[index], index).second) continue;
    images[index] = find(names[index]);
    if (images[index] == nullptr) missing.push_back(index);
  }
  if (!missing.empty()) {
    if (thread_count <= 0) thread_count = available_processors();
    ThreadPool pool(std::min(thread_count, static_cast<int>(missing.size())));
    std::vector<std::string> compiled(missing.size());
    std::vector<double> seconds(missing.size());
    std::vector<std::exception_ptr> failures(missing.size());
    const auto for_each_missing = [&](const auto& action) {
      pool.run(static_cast<int64_t>(missing.size()), [&](int64_t task, int) {
        const size_t place = static_cast<size_t>(task);
        if (failures[place] != nullptr) return;
        try {
          action(place);
        } catch (...) {
          failures[place] = std::current_exception();
        }
      });
    };
    for_each_missing([&](size_t place) {
      const auto begin = std::chrono::steady_clock::now();
      compiled[place] = compile_object(sources[missing[place]], target);
      seconds[place] = seconds_since(begin);
    });
    for_each_missing([&](size_t place) {
      const size_t index = missing[place];
      const auto begin = std::chrono::steady_clock::now();
      std::string image = link_module(compiled[place], target);
      images[index] = keep(names[index], std::move(image), seconds[place] + seconds_since(begin));
    });
    for (const std::exception_ptr& failure : failures) {
      if (failure != nullptr) std::rethrow_exception(failure);
    }
  }
  for (size_t index = 0; index < sources.size(); ++index) images[index] = images[first_of.at(names[index])];
  return images;
}

KernelCacheStatistics KernelCache::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

KernelImage KernelCache::find(const std::string& name) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = images_.find(name);
    if (found != images_.end()) {
      ++statistics_.memory_hits;
      return found->second;
    }
  }
  KernelImage image = read_entry(name);
  if (image == nullptr) return nullptr;
  const std::lock_guard lock(mutex_);
  ++statistics_.disk_hits;
  return images_.emplace(name, std::move(image)).first->second;
}

KernelImage KernelCache::keep(const std::string& name, std::string image, double compile_seconds) {
  write_entry(name, image);
  const std::lock_guard lock(mutex_);
  ++statistics_.misses;
  statistics_.compile_seconds += compile_seconds;
  return images_.emplace(name, std::make_shared<const std::string>(std::move(image))).first->second;
}

KernelImage KernelCache::read_entry(const std::string& name) const {
  if (directory_.empty()) return nullptr;
  std::string bytes;
  try {
    bytes = read_text_file(directory_ / name);
  } catch (const Error&) {
    return nullptr;  // absent or unreadable: the kernel is compiled
  }
  EntryHeader header{};
  if (bytes.size() >= sizeof header) {
    std::memcpy(&header, bytes.data(), sizeof header);
    bytes.erase(0, sizeof header);
    const EntryHeader expected = header_of(bytes);
    if (std::memcmp(&header, &expected, sizeof header) == 0) {
      return std::make_shared<const std::string>(std::move(bytes));
    }
  }
  log_debug("kernel cache: {} is damaged and will be rebuilt", (directory_ / name).string());
  return nullptr;
}

void KernelCache::write_entry(const std::string& name, const std::string& image) {
  {
    const std::lock_guard lock(mutex_);
    if (!writable_) return;
  }
  std::error_code code;
  std::filesystem::create_directories(directory_, code);
  if (code) return disable_writing(code.message());
  const EntryHeader header = header_of(image);
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += image;
  try {
    write_file_atomically(directory_ / name, bytes);
  } catch (const Error& error) {
    disable_writing(error.message());
  }
}

void KernelCache::disable_writing(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!writable_) return;
    writable_ = false;
  }
  log_warning("compiled kernels are not kept in {}: {}; the next run will compile them again", directory_.string(),
              reason);
}

}  // namespace causeway
