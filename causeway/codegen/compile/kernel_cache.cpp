#include "causeway/codegen/compile/kernel_cache.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <set>

#include "causeway/base/error.h"
#include "causeway/base/hash.h"
#include "causeway/base/log.h"
#include "causeway/base/thread_pool.h"
#include "causeway/base/user_cache.h"
#include "causeway/codegen/compile/compiler.h"

namespace causeway::codegen {
namespace {

// Of the limit: after so much has been written, it is seen to again.
constexpr int64_t kPartWritten = 16;

// A program has several caches, of the same directory: one sentence is enough.
void warn_once(const std::string& sentence) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  if (said.insert(sentence).second) log_warning("{}", sentence);
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

KernelCache::KernelCache(std::filesystem::path directory, std::optional<int64_t> limit_bytes)
    : directory_(std::move(directory)), limit_bytes_(limit_bytes) {}

void KernelCache::open_files() {
  if (!directory_) {
    UserCache cache = open_user_cache(kUserCacheName);
    if (cache.directory) {
      if (!cache.problem.empty())
        warn_once(fmt::format("compiled kernels are kept in {}: {}", cache.directory->path().string(), cache.problem));
      files_.emplace(std::move(*cache.directory));
    } else {
      warn_once(
          fmt::format("compiled kernels are not kept, and the next run will compile them again: {}", cache.problem));
    }
  } else if (!directory_->empty()) {
    try {
      files_.emplace(PrivateDirectory::create(*directory_));
    } catch (const Error& error) {
      warn_once(
          fmt::format("compiled kernels are not kept, and the next run will compile them again: {}", error.what()));
    }
  }
}

const KernelCacheFiles* KernelCache::files() {
  std::call_once(opened_, [&] { open_files(); });
  return files_ ? &*files_ : nullptr;
}

std::string KernelCache::entry_name(const std::string& source, const Target& target) {
  return hash_text(compiler_fingerprint() + '\n' + target.text() + '\n' + source).hex() + ".kernel";
}

KernelImage KernelCache::get_or_compile(const std::string& source, const Target& target) {
  return get_or_compile_all({&source, 1}, target, 1)[0];
}

std::vector<KernelImage> KernelCache::get_or_compile_all(std::span<const std::string> sources, const Target& target,
                                                         int thread_count, const ImageReady& ready) {
  std::vector<KernelImage> images(sources.size());
  std::vector<std::string> names(sources.size());
  std::map<std::string, size_t> first_of;
  std::vector<size_t> work, found;
  for (size_t index = 0; index < sources.size(); ++index) {
    names[index] = entry_name(sources[index], target);
    if (!first_of.emplace(names[index], index).second) continue;
    images[index] = find(names[index]);
    (images[index] == nullptr ? work : found).push_back(index);
  }
  const bool compiles = !work.empty();
  // Compilations take longest, so they begin first.
  if (ready) work.insert(work.end(), found.begin(), found.end());
  if (!work.empty()) {
    if (thread_count <= 0) thread_count = available_processors();
    ThreadPool pool(std::min(thread_count, static_cast<int>(work.size())));
    std::vector<std::string> objects(work.size());
    std::vector<double> seconds(work.size());
    std::vector<std::exception_ptr> failures(work.size());
    const auto for_all = [&](const auto& action) {
      pool.run(static_cast<int64_t>(work.size()), [&](int64_t task, int) {
        const size_t place = static_cast<size_t>(task);
        if (failures[place] != nullptr) return;
        try {
          action(place, work[place]);
        } catch (...) {
          failures[place] = std::current_exception();
        }
      });
    };
    const auto finish = [&](size_t place, size_t index) {
      if (images[index] == nullptr) {
        const auto begin = std::chrono::steady_clock::now();
        std::string image = link_module(objects[place], target);
        images[index] = keep(names[index], std::move(image), seconds[place] + seconds_since(begin));
      }
      if (ready) ready(index, images[index]);
    };
    // A link waits for all compilations: without one, an image is there before others are compiled.
    const bool links = links_objects(target) && compiles;
    for_all([&](size_t place, size_t index) {
      if (images[index] == nullptr) {
        const auto begin = std::chrono::steady_clock::now();
        objects[place] = compile_object(sources[index], target);
        seconds[place] = seconds_since(begin);
      }
      if (!links) finish(place, index);
    });
    if (links) for_all(finish);
    if (compiles) keep_to_limit();
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
  const KernelCacheFiles* disk = files();
  if (disk == nullptr) return nullptr;
  std::optional<std::string> image;
  try {
    image = disk->read(name);
  } catch (const Error&) {
    return nullptr;  // unreadable: the kernel is compiled
  }
  if (!image) return nullptr;
  const std::lock_guard lock(mutex_);
  ++statistics_.disk_hits;
  return images_.emplace(name, std::make_shared<const std::string>(std::move(*image))).first->second;
}

KernelImage KernelCache::keep(const std::string& name, std::string image, double compile_seconds) {
  write_entry(name, image);
  const std::lock_guard lock(mutex_);
  ++statistics_.misses;
  statistics_.compile_seconds += compile_seconds;
  return images_.emplace(name, std::make_shared<const std::string>(std::move(image))).first->second;
}

void KernelCache::write_entry(const std::string& name, const std::string& image) {
  {
    const std::lock_guard lock(mutex_);
    if (!writable_) return;
  }
  const KernelCacheFiles* disk = files();
  if (disk == nullptr) return;
  try {
    disk->write(name, image);
    const std::lock_guard lock(mutex_);
    written_ += static_cast<int64_t>(image.size());
  } catch (const Error& error) {
    warn_once(fmt::format("compiled kernels are not kept, and the next run will compile them again: {}", error.what()));
    const std::lock_guard lock(mutex_);
    writable_ = false;
  }
}

void KernelCache::keep_to_limit() {
  const KernelCacheFiles* disk = files();
  if (disk == nullptr) return;
  try {
    const int64_t limit = limit_bytes_ ? *limit_bytes_ : disk->limit();
    {
      const std::lock_guard lock(mutex_);
      if (written_ == 0 || (size_looked_at_ && written_ < limit / kPartWritten)) return;
      written_ = 0;
      size_looked_at_ = true;
    }
    if (const KernelCacheUsage removed = disk->prune(limit); removed.kernels > 0)
      log_debug("kernel cache: {} kernels that were not used for longest are removed", removed.kernels);
  } catch (const Error& error) {
    warn_once(fmt::format("the kernel cache is not kept to its size: {}", error.what()));
  }
}

}  // namespace causeway::codegen
