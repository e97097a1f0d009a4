#include "causeway/base/byte_size.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "causeway/base/error.h"

namespace causeway {
namespace {

constexpr std::array kByteUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
constexpr size_t kGibibyte = 3;

}  // namespace

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

std::string format_bytes(int64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < kByteUnits.size(); ++unit) value /= 1024;
  const int decimals = value == std::floor(value) || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, kByteUnits[unit]);
}

std::string format_gib(int64_t bytes, int decimals) {
  return fmt::format("{:.{}f} {}", std::ldexp(static_cast<double>(bytes), -10 * static_cast<int>(kGibibyte)), decimals,
                     kByteUnits[kGibibyte]);
}

std::string exact_bytes(int64_t bytes) {
  size_t unit = 0;
  for (; bytes != 0 && bytes % 1024 == 0 && unit < kGibibyte; ++unit) bytes /= 1024;
  return fmt::format("{} {}", bytes, kByteUnits[unit]);
}

}  // namespace causeway
