#include "causeway/bench/result.h"

#include <fmt/format.h>

#include <utility>

namespace causeway::bench {

double Measurement::rate(double seconds) const {
  if (unit == "s") return seconds;
  if (seconds <= 0) return 0;
  const double scale = unit == "TFLOP/s" ? 1e12 : unit == "GB/s" ? 1e9 : 1;
  return work / seconds / scale;
}

std::string workload_size(int64_t bytes) {
  for (const auto& [unit, shift] : {std::pair("GiB", 30), {"MiB", 20}, {"KiB", 10}})
    if (bytes >= int64_t{1} << shift && bytes % (int64_t{1} << shift) == 0)
      return fmt::format("{} {}", bytes >> shift, unit);
  return fmt::format("{} B", bytes);
}

}  // namespace causeway::bench
