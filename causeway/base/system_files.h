// The kernel's small text files under /sys and /proc. Nothing here throws: what cannot be read is absent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace causeway {

// All of the file; empty when it cannot be read.
std::string read_system_file(const std::filesystem::path& path);
std::optional<std::string> read_first_line(const std::filesystem::path& path);
// A file that holds one whole number.
std::optional<uint64_t> read_count(const std::filesystem::path& path);
// What stands behind `key` and its colon (or blank) in the first line that has it: "model name" of /proc/cpuinfo,
// "MemTotal" of /proc/meminfo, "throttled_usec" of cpu.stat.
std::optional<std::string> find_value(const std::string& text, std::string_view key);
// The directory's entries of that beginning, sorted.
std::vector<std::filesystem::path> entries_starting_with(const std::filesystem::path& directory,
                                                         std::string_view beginning);

}  // namespace causeway
