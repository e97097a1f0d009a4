#include "causeway/codegen/compile/kernel_cache_files.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <vector>

#include "causeway/base/hash.h"
#include "causeway/base/log.h"

namespace causeway::codegen {
namespace {

// The head of an entry's file; the image follows. Little-endian, as every machine that x86 images run on. The hash
// finds damage, not malice: what keeps others from writing is the directory.
struct EntryHeader {
  char magic[8];
  uint64_t image_size;
  uint64_t image_hash_high;
  uint64_t image_hash_low;
};

constexpr char kMagic[8] = {'C', 'W', 'K', 'E', 'R', 'N', '0', '1'};
constexpr std::string_view kEnding = ".kernel";
constexpr const char* kLimitFile = "limit";
constexpr int64_t kDefaultLimit = int64_t{2} << 30;
constexpr int64_t kUnfinished = 3'600'000'000'000;  // ns

EntryHeader header_of(std::string_view image) {
  const Hash128 hash = hash_text(image);
  EntryHeader header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.image_size = image.size();
  header.image_hash_high = hash.high;
  header.image_hash_low = hash.low;
  return header;
}

bool is_entry(const PrivateFile& file) { return file.name.ends_with(kEnding); }

}  // namespace

std::optional<std::string> KernelCacheFiles::read(const std::string& name) const {
  std::optional<std::string> bytes;
  try {
    bytes = directory_.read_file(name);
  } catch (const UntrustedPathError& error) {
    log_warning("kernel cache: a kernel is compiled again: {}", error.what());
    return std::nullopt;
  }
  if (!bytes) return std::nullopt;
  EntryHeader header{};
  if (bytes->size() >= sizeof header) {
    std::memcpy(&header, bytes->data(), sizeof header);
    bytes->erase(0, sizeof header);
    const EntryHeader expected = header_of(*bytes);
    if (std::memcmp(&header, &expected, sizeof header) == 0) {
      directory_.mark_used(name);
      return bytes;
    }
  }
  log_debug("kernel cache: {} is damaged and will be rebuilt", (path() / name).string());
  return std::nullopt;
}

void KernelCacheFiles::write(const std::string& name, std::string_view image) const {
  const EntryHeader header = header_of(image);
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += image;
  directory_.write_file(name, bytes);
}

KernelCacheUsage KernelCacheFiles::usage() const {
  KernelCacheUsage usage;
  for (const PrivateFile& file : directory_.files()) {
    usage.kernels += is_entry(file) ? 1 : 0;
    usage.bytes += file.bytes;
  }
  return usage;
}

int64_t KernelCacheFiles::limit() const {
  int64_t limit = 0;
  if (const std::optional<std::string> text = directory_.read_file(kLimitFile)) {
    std::from_chars(text->data(), text->data() + text->size(), limit);
    if (limit > 0) return limit;
  }
  return std::min(kDefaultLimit, directory_.file_system_bytes() / 10);
}

void KernelCacheFiles::set_limit(int64_t bytes) const { directory_.write_file(kLimitFile, fmt::format("{}\n", bytes)); }

KernelCacheUsage KernelCacheFiles::prune(int64_t bytes) const {
  const int64_t now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::vector<PrivateFile> entries;
  int64_t held = 0;
  for (PrivateFile& file : directory_.files()) {
    if (is_entry(file)) {
      held += file.bytes;
      entries.push_back(std::move(file));
    } else if (file.name != kLimitFile && file.modified < now - kUnfinished) {
      directory_.remove_file(file.name);
    }
  }
  std::sort(entries.begin(), entries.end(), [](const PrivateFile& a, const PrivateFile& b) {
    return std::tie(a.modified, a.name) < std::tie(b.modified, b.name);
  });
  KernelCacheUsage removed;
  for (const PrivateFile& entry : entries) {
    if (held <= bytes) break;
    held -= entry.bytes;
    // Another program may have removed it: then it is gone all the same.
    if (!directory_.remove_file(entry.name)) continue;
    ++removed.kernels;
    removed.bytes += entry.bytes;
  }
  return removed;
}

}  // namespace causeway::codegen
