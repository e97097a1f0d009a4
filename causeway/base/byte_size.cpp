#include "causeway/base/byte_size.h"

#include <charconv>
#include <string_view>
#include <utility>

#include "causeway/base/error.h"

namespace causeway {

int64_t parse_byte_size(const std::string& text, const std::string& where) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, number);
  std::string_view unit(stop, static_cast<size_t>(end - stop));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  int64_t scale = 0;
  if (unit.empty() || unit == "B") scale = 1;
  for (const auto& [letter, shift] : {std::pair('K', 10), {'M', 20}, {'G', 30}, {'T', 40}})
    if (!unit.empty() && unit[0] == letter && (unit.size() == 1 || unit.substr(1) == "iB" || unit.substr(1) == "B"))
      scale = int64_t{1} << shift;
  constexpr int64_t kMost = int64_t{1} << 50;
  if (problem != std::errc() || scale == 0 || number <= 0 || number > kMost / scale)
    throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is not a size", text), where,
                "Give bytes, or a number with K, M or G (of 1024), for example 16M or 8G.");
  return number * scale;
}

}  // namespace causeway
