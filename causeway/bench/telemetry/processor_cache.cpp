#include "causeway/bench/telemetry/processor_cache.h"

#include <set>
#include <string>

#include "causeway/base/system_files.h"

namespace causeway::bench {
namespace {

// "32768K" as the kernel writes it.
int64_t parse_cache_size(const std::string& text) {
  const int64_t number = std::atoll(text.c_str());
  return text.ends_with('M') ? number << 20 : text.ends_with('K') ? number << 10 : number;
}

}  // namespace

std::optional<int64_t> processor_cache_bytes(const std::filesystem::path& system) {
  std::set<std::string> seen;  // a cache, by the processors that share it
  int64_t bytes = 0;
  for (const auto& core : entries_starting_with(system / "devices" / "system" / "cpu", "cpu")) {
    int last_level = 0;
    std::string size, shared;
    for (const auto& cache : entries_starting_with(core / "cache", "index")) {
      const int level = static_cast<int>(read_count(cache / "level").value_or(0));
      if (level <= last_level) continue;
      last_level = level;
      size = read_first_line(cache / "size").value_or("");
      shared = read_first_line(cache / "shared_cpu_list").value_or("");
    }
    if (last_level > 0 && seen.insert(shared).second) bytes += parse_cache_size(size);
  }
  return bytes > 0 ? std::optional(bytes) : std::nullopt;
}

}  // namespace causeway::bench
