// The report page: one HTML file with everything in it (style, script, data), which needs no server and no network.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "causeway/bench/report/cost_table.h"
#include "causeway/bench/report/published_results.h"
#include "causeway/bench/result.h"

namespace causeway::bench {

// A workload that `bench compare` found slower, at the commit where it became so.
struct RegressionMark {
  std::string key;     // Measurement::key()
  std::string commit;  // BenchmarkRun::commit
  double ratio = 1;    // seconds at that commit over seconds before it, as Change::ratio: 1.04 is 4 % slower
  std::string device;  // BenchmarkRun::device; empty: every device measured at that commit
};

// The page for these runs, in any order. A device's newest measurement of a workload is what charts show; all of them
// make its history. The page holds summaries (median, mean, minimum, 5th and 95th percentile), not samples: 10,000
// measurements weigh under 1 MB. Checks and details are kept for the newest measurements, as far as 100 kB of text go.
// Every text is escaped, whatever it holds. The same input gives the same bytes. Details that the page reads:
// "devices", how many of the run's devices a training measurement used (absent: all), by which tokens/s are divided;
// "J per token", drawn beside it.
std::string report_html(const std::vector<BenchmarkRun>& runs, const CostTable& costs,
                        const std::vector<PublishedResult>& published, const std::vector<RegressionMark>& regressions);

// Writes that page to `path`. Throws Error(kIo or kNotFound) naming it.
void write_report(const std::vector<BenchmarkRun>& runs, const CostTable& costs,
                  const std::vector<PublishedResult>& published, const std::vector<RegressionMark>& regressions,
                  const std::filesystem::path& path);

}  // namespace causeway::bench
