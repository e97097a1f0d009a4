// Runs of the benchmark lab as files: JSON, which holds everything and can be read back, and CSV for other programs.
//
// JSON: {"format": "causeway-benchmarks", "version": 1, "runs": [...]}, with the fields of BenchmarkRun, Telemetry and
// Measurement by their names ("statistic" is "median" or "minimum"). "peak" and the numbers of telemetry are left out
// where they are not known; every other field must be there. Fields that this version does not know are ignored.
// Figures survive the journey exactly. Ids belong to a store and are not written.
//
// CSV (RFC 4180, lines end with \n): a header, then one line per sample:
//   run             1, 2, ... in the order given
//   started, commit, device, device_count           of the run
//   benchmark, group, workload, size, dtype, provider, work, unit, correct (true or false)   of the measurement
//   round, sample   both from 1
//   seconds         the sample
//   figure          the sample in `unit`
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/bench/result.h"

namespace causeway::bench {

inline constexpr int kResultsFileVersion = 1;

std::string results_json(const std::vector<BenchmarkRun>& runs);
std::string results_csv(const std::vector<BenchmarkRun>& runs);

// `file`: what messages call it. Throws Error(kUnsupported) for a file from a newer version and Error(kCorrupt) for
// what is no results file or has a field missing or wrong: the message names it, as runs[0].measurements[3].unit.
std::vector<BenchmarkRun> parse_results(std::string_view json, const std::string& file);

// Writes the whole file or none. Throws Error(kIo or kNotFound) naming it.
void write_results_json(const std::vector<BenchmarkRun>& runs, const std::filesystem::path& path);
void write_results_csv(const std::vector<BenchmarkRun>& runs, const std::filesystem::path& path);

// As parse_results(); throws Error(kIo or kNotFound) when the file cannot be read.
std::vector<BenchmarkRun> read_results_file(const std::filesystem::path& path);

// The run that a user means: its number in the store, "latest" for the store's newest, or the path of a JSON file, of
// whose runs the one started last counts. Throws Error(kNotFound) for an unknown number, which names those there are,
// for a store without runs and for a file that does not exist. A store that does not exist is not created.
BenchmarkRun load_run_reference(const std::filesystem::path& store, const std::string& reference);

// The store's runs that were started before this one, the oldest first; none where there is no store.
std::vector<BenchmarkRun> load_earlier_runs(const std::filesystem::path& store, const BenchmarkRun& run);

}  // namespace causeway::bench
