#include "causeway/train/observation/slow_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace causeway::train {

std::string SlowRank::text() const {
  return fmt::format(
      "rank {} has been slower than the others for {:.0f} seconds: its own work takes {:.4g} s a step ({:.4g} s "
      "waiting "
      "for data, {:.4g} s kernels), that of the others {:.4g} s (median)",
      rank, seconds, own_work, times.data_wait, times.compute.value_or(0), others_own_work);
}

std::optional<SlowRank> SlowRankRule::heed(std::span<const RankTimes> times, double now) {
  std::vector<double> work;
  for (const RankTimes& one : times) {
    if (!one.own_work()) return std::nullopt;
    work.push_back(*one.own_work());
  }
  if (work.size() < 2) return std::nullopt;
  const auto slowest = std::ranges::max_element(work);
  const auto rank = static_cast<int>(slowest - work.begin());
  std::vector<double> others(work);
  others.erase(others.begin() + rank);
  std::ranges::sort(others);
  const size_t middle = others.size() / 2;
  const double median = others.size() % 2 == 1 ? others[middle] : (others[middle - 1] + others[middle]) / 2;
  if (*slowest <= kFactor * median) {
    row_ = {};
    return std::nullopt;
  }
  if (row_.rank != rank) row_ = {rank, 0, now, false};
  ++row_.records;
  if (row_.is_said || row_.records < kRecords || now - row_.begin < kSeconds) return std::nullopt;
  row_.is_said = true;
  return SlowRank{rank, now - row_.begin, *slowest, median, times[static_cast<size_t>(rank)]};
}

}  // namespace causeway::train
