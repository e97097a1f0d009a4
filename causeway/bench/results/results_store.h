// The results store: every run of the benchmark lab with all its samples, in one SQLite file. A measurement is on disk
// when add() returns, so that a device that disappears in the middle of a run takes nothing with it. Several programs
// may use a store at once.
//
// Tables: runs, telemetry, measurements (with the summary of their samples), rounds (the samples of one round:
// binary64, little endian, in seconds; since version 2 the clock too). PRAGMA user_version holds the version of this
// layout, kResultsStoreVersion. A store with a lower one is brought up to it, one with a higher one is refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "causeway/bench/result.h"
#include "causeway/bench/results/sqlite.h"
#include "causeway/bench/statistics.h"

namespace causeway::bench {

inline constexpr int64_t kResultsStoreVersion = 2;

// One line of a list of runs.
struct StoredRun {
  int64_t id = 0;
  std::string started, command, commit, device;
  int device_count = 1;
  int64_t measurements = 0;
};

struct ImportedRun {
  int64_t id = 0;
  bool is_new = false;
};

// A run whose measurements have no rounds, and the summaries of the samples left out, one for each measurement.
struct SummarizedRun {
  BenchmarkRun run;
  std::vector<Summary> summaries;
};

// Every function throws Error, naming the file: kIo when it cannot be read or written, kResource when the disk is full
// or another program keeps it busy, kCorrupt when it is damaged.
class ResultsStore {
 public:
  // Opens the file; creates it and its folders where they do not exist, for the user alone where it is the usual place
  // (check_default_store()). Throws Error(kUnsupported) for a store that a
  // newer program wrote and Error(kCorrupt) for a file that is no results store.
  explicit ResultsStore(const std::filesystem::path& path);

  // A new run with the telemetry and measurements that `run` has already, all or nothing. Ids grow and are never used
  // twice; run.id is ignored.
  int64_t begin_run(const BenchmarkRun& run);
  // A run that was measured elsewhere, unless the same is there, to the last sample: then that one's id.
  ImportedRun import_run(const BenchmarkRun& run);
  // `run` is an id from begin_run(). Samples must be finite and 0 or more, and no round empty.
  void add(int64_t run, const Measurement& measurement);
  void add_telemetry(int64_t run, const Telemetry& telemetry);

  // By id, the oldest first.
  std::vector<StoredRun> list() const;
  // Throws Error(kNotFound), which names the ids there are.
  BenchmarkRun load(int64_t id) const;
  std::vector<BenchmarkRun> load_all() const;
  // As load_all(), reading no samples.
  std::vector<SummarizedRun> load_summaries() const;

  const std::filesystem::path& path() const { return database_.path(); }

 private:
  SqliteDatabase database_;
};

// $XDG_DATA_HOME/causeway/benchmarks.sqlite, or ~/.local/share/causeway/benchmarks.sqlite.
std::filesystem::path default_store_path();

// Nobody but the user may have written the usual store: it is read without having been asked for by name. Throws
// UntrustedPathError (private_directory.h) where others could have, file by file up to the root; Error(kIo) where it
// cannot be looked at. Nothing there is nothing wrong.
void check_default_store();

// A sentence for messages: "Runs there are: 1, 2, 3.", the newest 20 at most.
std::string known_runs(const std::vector<StoredRun>& runs);

}  // namespace causeway::bench
