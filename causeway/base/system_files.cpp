#include "causeway/base/system_files.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>

namespace causeway {

namespace fs = std::filesystem;

std::string read_system_file(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<std::string> read_first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<uint64_t> read_count(const fs::path& path) {
  const std::optional<std::string> line = read_first_line(path);
  uint64_t count = 0;
  if (!line || std::from_chars(line->data(), line->data() + line->size(), count).ec != std::errc()) return std::nullopt;
  return count;
}

std::optional<std::string> find_value(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const size_t end = line.find_first_not_of(" \t", key.size());
    if (end == std::string::npos || (end == key.size() && line[end] != ':')) continue;
    const size_t begin = line.find_first_not_of(" \t", line[end] == ':' ? end + 1 : end);
    if (begin == std::string::npos) return "";
    return line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
  }
  return std::nullopt;
}

std::vector<fs::path> entries_starting_with(const fs::path& directory, std::string_view beginning) {
  std::vector<fs::path> entries;
  std::error_code ignored;
  for (fs::directory_iterator it(directory, ignored), end; !ignored && it != end; it.increment(ignored))
    if (it->path().filename().string().starts_with(beginning)) entries.push_back(it->path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

}  // namespace causeway
