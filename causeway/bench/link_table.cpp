#include "causeway/bench/link_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "causeway/bench/statistics.h"

namespace causeway::bench {

std::vector<CollectiveCase> link_cases(int devices, DType dtype, int64_t bytes) {
  std::vector<CollectiveCase> cases;
  for (int first = 0; first < devices; ++first)
    for (int second = first + 1; second < devices; ++second)
      cases.push_back({CollectiveKind::kSendReceive, devices, bytes, dtype, false, std::pair(first, second)});
  return cases;
}

std::string format_link_table(std::span<const Measurement> measurements) {
  std::map<std::pair<int, int>, double> links;
  int ranks = 0;
  for (const Measurement& m : measurements) {
    const auto pair = m.details.find("pair");
    if (m.benchmark != "collectives" || pair == m.details.end()) continue;
    const size_t space = pair->second.find(' ');
    const int first = std::stoi(pair->second.substr(0, space)), second = std::stoi(pair->second.substr(space));
    links[std::minmax(first, second)] = m.rate(summarize(m).median);
    ranks = std::max({ranks, first + 1, second + 1});
  }
  if (links.empty()) return {};
  std::string text = "GB/s one way, both ways at once\n" + fmt::format("{:>5}", "rank");
  for (int column = 0; column < ranks; ++column) text += fmt::format("  {:>7}", column);
  for (int row = 0; row < ranks; ++row) {
    text += fmt::format("\n{:>5}", row);
    for (int column = 0; column < ranks; ++column) {
      const auto link = links.find(std::minmax(row, column));
      text += link == links.end() ? fmt::format("  {:>7}", "-") : fmt::format("  {:>7.2f}", link->second);
    }
  }
  const auto by_rate = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto slowest = std::min_element(links.begin(), links.end(), by_rate);
  std::vector<double> rates;
  for (const auto& [pair, rate] : links) rates.push_back(rate);
  std::nth_element(rates.begin(), rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2), rates.end());
  const double median = rates[rates.size() / 2];
  text += fmt::format("\nslowest: {:.2f} GB/s between {} and {}; median {:.2f} GB/s\n", slowest->second,
                      slowest->first.first, slowest->first.second, median);
  for (const auto& [pair, rate] : links)
    if (rate < median / 2)
      text +=
          fmt::format("less than half of the median: {:.2f} GB/s between {} and {}\n", rate, pair.first, pair.second);
  return text;
}

}  // namespace causeway::bench
