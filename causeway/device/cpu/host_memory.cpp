#include "causeway/device/cpu/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

#include "causeway/base/system_files.h"

namespace causeway::device {
namespace {

namespace fs = std::filesystem;

// The names under which the two versions keep the same figures.
struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* cache_key;  // in memory.stat: files' pages that are dropped first
};

constexpr GroupFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current", "inactive_file"};

std::optional<int64_t> figure(const std::string& text, const char* key) {
  const std::optional<std::string> value = find_value(text, key);
  int64_t number = 0;
  if (!value || std::from_chars(value->data(), value->data() + value->size(), number).ec != std::errc())
    return std::nullopt;
  return number;
}

void apply_group(const fs::path& directory, const GroupFiles& files, HostMemory& memory) {
  const std::optional<uint64_t> limit = read_count(directory / files.limit);  // none for "max"
  if (!limit || *limit >= static_cast<uint64_t>(memory.total_bytes)) return;
  memory.total_bytes = static_cast<int64_t>(*limit);
  memory.limited_by = directory.string();
}

void apply_group_use(const fs::path& directory, const GroupFiles& files, HostMemory& memory) {
  const std::optional<uint64_t> limit = read_count(directory / files.limit);
  const std::optional<uint64_t> usage = read_count(directory / files.usage);
  if (!limit || !usage || *limit > static_cast<uint64_t>(INT64_MAX)) return;
  const int64_t cache = figure(read_system_file(directory / "memory.stat"), files.cache_key).value_or(0);
  const int64_t left = static_cast<int64_t>(*limit) - static_cast<int64_t>(std::min(*usage, *limit)) + cache;
  memory.available_bytes = std::min({memory.available_bytes, left, static_cast<int64_t>(*limit)});
}

// The group itself and all above it, up to where groups are mounted.
void apply_groups(const fs::path& mount, const std::string& path, const GroupFiles& files, HostMemory& memory) {
  std::error_code ignored;
  // Within a container the path may be the host's, while what is mounted is the container's own group.
  fs::path directory = mount / fs::path(path).relative_path();
  if (!fs::is_directory(directory, ignored)) directory = mount;
  while (true) {
    apply_group(directory, files, memory);
    apply_group_use(directory, files, memory);
    if (directory == mount || !directory.has_relative_path() || directory.string().size() <= mount.string().size())
      return;
    directory = directory.parent_path();
  }
}

}  // namespace

HostMemory host_memory(const fs::path& root) {
  HostMemory memory;
  const std::string machine = read_system_file(root / "proc/meminfo");
  constexpr int64_t kKibibyte = 1024;
  memory.total_bytes = figure(machine, "MemTotal").value_or(0) * kKibibyte;
  memory.available_bytes = figure(machine, "MemAvailable").value_or(0) * kKibibyte;
  if (memory.total_bytes == 0) return memory;
  const fs::path groups = root / "sys/fs/cgroup";
  std::istringstream lines(read_system_file(root / "proc/self/cgroup"));
  // "4:memory:/path" of version 1, "0::/path" of version 2.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    std::error_code ignored;
    if (controllers == ",,")
      apply_groups(fs::is_directory(groups / "unified", ignored) ? groups / "unified" : groups, path, kVersion2,
                   memory);
    else if (controllers.find(",memory,") != std::string::npos)
      apply_groups(groups / "memory", path, kVersion1, memory);
  }
  memory.available_bytes = std::min(memory.available_bytes, memory.total_bytes);
  return memory;
}

int64_t resident_bytes() {
  std::istringstream figures(read_system_file("/proc/self/statm"));
  int64_t size = 0, resident = 0;
  figures >> size >> resident;
  return resident * ::sysconf(_SC_PAGE_SIZE);
}

}  // namespace causeway::device
