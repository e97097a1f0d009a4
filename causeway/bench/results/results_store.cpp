#include "causeway/bench/results/results_store.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

#include "causeway/base/error.h"
#include "causeway/base/json_document.h"
#include "causeway/base/private_directory.h"

namespace causeway::bench {
namespace {

using Json = nlohmann::json;

// "CwBm": tells a results store from any other SQLite file.
constexpr int64_t kApplicationId = 0x4377426d;
constexpr size_t kRunsNamed = 20;

static_assert(std::endian::native == std::endian::little, "samples are stored little endian");

constexpr const char* kLayout = R"(
CREATE TABLE runs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  started TEXT NOT NULL, command TEXT NOT NULL, program_commit TEXT NOT NULL,
  device TEXT NOT NULL, architecture TEXT NOT NULL, device_count INTEGER NOT NULL,
  environment TEXT NOT NULL);
CREATE TABLE telemetry (
  id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs(id), moment TEXT NOT NULL,
  graphics_clock_mhz REAL, memory_clock_mhz REAL, power_watts REAL, temperature_celsius REAL,
  throttle_reasons TEXT NOT NULL);
CREATE TABLE measurements (
  id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs(id),
  benchmark TEXT NOT NULL, chart TEXT NOT NULL, workload TEXT NOT NULL, size REAL NOT NULL, dtype TEXT NOT NULL,
  provider TEXT NOT NULL, work REAL NOT NULL, unit TEXT NOT NULL, statistic TEXT NOT NULL,
  peak REAL, peak_source TEXT NOT NULL, correct INTEGER NOT NULL, correctness TEXT NOT NULL,
  distrust TEXT NOT NULL, details TEXT NOT NULL,
  samples INTEGER NOT NULL, median REAL NOT NULL, mean REAL NOT NULL, minimum REAL NOT NULL,
  p5 REAL NOT NULL, p95 REAL NOT NULL);
CREATE TABLE rounds (
  measurement INTEGER NOT NULL REFERENCES measurements(id), number INTEGER NOT NULL, seconds BLOB NOT NULL,
  clock_mhz REAL, PRIMARY KEY (measurement, number)) WITHOUT ROWID;
CREATE INDEX telemetry_of_run ON telemetry(run);
CREATE INDEX measurements_of_run ON measurements(run);
)";

constexpr const char* kMeasurementColumns =
    "run, benchmark, chart, workload, size, dtype, provider, work, unit, statistic, peak, peak_source, correct, "
    "correctness, distrust, details, samples, median, mean, minimum, p5, p95";

// From the version before: what a layout has that the one before had not.
constexpr const char* kUpgrades[] = {
    "ALTER TABLE rounds ADD COLUMN clock_mhz REAL;",  // 1 to 2
};
static_assert(std::size(kUpgrades) == kResultsStoreVersion - 1);

// The path in the usual place; empty where there is none.
std::filesystem::path usual_path() {
  const auto below = [](const char* variable, const char* path) {
    const char* value = std::getenv(variable);
    return value != nullptr && *value == '/' ? std::filesystem::path(value) / path : std::filesystem::path();
  };
  const std::filesystem::path data = below("XDG_DATA_HOME", "causeway/benchmarks.sqlite");
  return data.empty() ? below("HOME", ".local/share/causeway/benchmarks.sqlite") : data;
}

[[noreturn]] void refuse(const Error& error) {
  throw UntrustedPathError("the store of benchmark results is not used: " + error.message(), error.where(),
                           error.hint() + " Or give a file with --store.");
}

// With what SQLite keeps beside it.
void check_files(const PrivateDirectory& directory, const std::filesystem::path& path) {
  for (const char* ending : {"", "-wal", "-shm", "-journal"}) directory.check_file(path.filename().string() + ending);
}

// The path, with its folders there.
std::filesystem::path with_folders(const std::filesystem::path& path) {
  if (path == usual_path()) {
    try {
      const PrivateDirectory directory = PrivateDirectory::create(path.parent_path());
      check_files(directory, path);
      directory.create_file(path.filename().string());
    } catch (const UntrustedPathError& error) {
      refuse(error);
    }
    return path;
  }
  if (!path.has_parent_path()) return path;
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error)
    throw Error(ErrorKind::kIo, "the folder of the store of benchmark results cannot be made: " + error.message(),
                path.parent_path(), "Give a file elsewhere with --store.");
  return path;
}

bool is_empty(const SqliteDatabase& database) {
  return database.query_integer("PRAGMA user_version") == 0 &&
         database.query_integer("SELECT count(*) FROM sqlite_master") == 0;
}

void create_layout(const SqliteDatabase& database) {
  SqliteTransaction transaction(database, SqliteAccess::kWrite);
  // Another program may have been faster.
  if (is_empty(database)) {
    database.execute(kLayout);
    database.execute(
        fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {};", kApplicationId, kResultsStoreVersion));
  }
  transaction.commit();
}

// A view or a virtual table of the name would be a program of whoever wrote the file, which need not end.
void check_tables(const SqliteDatabase& database) {
  const auto refuse_table = [&](const char* table, const std::string& what) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("the store of benchmark results is not one that causeway wrote: {} {}", table, what),
                database.path(), "Give another file with --store, or move this one away.");
  };
  SqliteStatement kind = database.prepare("SELECT type, rootpage FROM sqlite_master WHERE name = ? COLLATE NOCASE");
  SqliteStatement computed = database.prepare("SELECT count(*) FROM pragma_table_xinfo(?) WHERE hidden <> 0");
  for (const char* table : {"runs", "telemetry", "measurements", "rounds"}) {
    if (!kind.bind(std::string_view(table)).step()) refuse_table(table, "is missing");
    if (const std::string type = kind.text(0); type != "table")
      refuse_table(table, fmt::format("is {} {}", type == "index" ? "an" : "a", type));
    if (kind.integer(1) == 0) refuse_table(table, "is a virtual table");
    if (computed.bind(std::string_view(table)).step() && computed.integer(0) != 0)
      refuse_table(table, "has computed columns");
    computed.bind();  // starts over: what is not at its end holds a lock
    kind.bind();
  }
}

void check_layout(const SqliteDatabase& database) {
  if (database.query_integer("PRAGMA application_id") != kApplicationId)
    throw Error(ErrorKind::kCorrupt, "the file is some other program's database, not a store of benchmark results",
                database.path(), "Give another file with --store.");
  const int64_t version = database.query_integer("PRAGMA user_version");
  if (version < 1)
    throw Error(ErrorKind::kCorrupt,
                fmt::format("the store of benchmark results is damaged: its layout is version {}", version),
                database.path(), "Give another file with --store, or move this one away.");
  if (version > kResultsStoreVersion)
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the store of benchmark results was written by a newer version of causeway: its layout is "
                            "version {}, and this program knows {}",
                            version, kResultsStoreVersion),
                database.path(), "Update causeway, or use another store with --store FILE.");
  check_tables(database);
}

// Of a store that an older program wrote.
void upgrade_layout(const SqliteDatabase& database) {
  if (database.query_integer("PRAGMA user_version") == kResultsStoreVersion) return;
  SqliteTransaction transaction(database, SqliteAccess::kWrite);
  // Another program may have been faster, and newer.
  check_layout(database);
  for (int64_t version = database.query_integer("PRAGMA user_version"); version < kResultsStoreVersion; ++version) {
    database.execute(kUpgrades[version - 1]);
    database.execute(fmt::format("PRAGMA user_version = {}", version + 1));
  }
  transaction.commit();
}

std::string json_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

template <typename Value>
Value json_value(const SqliteStatement& row, int column, const SqliteDatabase& database) {
  const std::string text = row.text(column);
  try {
    return parse_json(text, {}).get<Value>();
  } catch (const std::exception&) {
    throw Error(ErrorKind::kCorrupt, "the store of benchmark results is damaged: a list in it cannot be read",
                database.path(), "Give another file with --store, or move this one away.");
  }
}

void insert_telemetry(const SqliteDatabase& database, int64_t run, const Telemetry& t) {
  database
      .prepare(
          "INSERT INTO telemetry (run, moment, graphics_clock_mhz, memory_clock_mhz, power_watts, "
          "temperature_celsius, throttle_reasons) VALUES (?, ?, ?, ?, ?, ?, ?)")
      .bind(run, t.moment, t.graphics_clock_mhz, t.memory_clock_mhz, t.power_watts, t.temperature_celsius,
            json_text(t.throttle_reasons))
      .run();
}

void check_samples(const Measurement& m) {
  CAUSEWAY_CHECK(std::isfinite(m.work) && std::isfinite(m.size), "{}: work {}, size {}", m.key(), m.work, m.size);
  CAUSEWAY_CHECK(m.clock_mhz.empty() || m.clock_mhz.size() == m.rounds.size(), "{} clocks for {} rounds of {}",
                 m.clock_mhz.size(), m.rounds.size(), m.key());
  for (const double mhz : m.clock_mhz)
    CAUSEWAY_CHECK(std::isfinite(mhz) && mhz > 0, "a clock of {} is {} MHz", m.key(), mhz);
  for (const std::vector<double>& round : m.rounds) {
    CAUSEWAY_CHECK(!round.empty(), "a round of {} is empty", m.key());
    for (const double seconds : round)
      CAUSEWAY_CHECK(std::isfinite(seconds) && seconds >= 0, "a sample of {} is {} s", m.key(), seconds);
  }
}

void insert_measurement(const SqliteDatabase& database, int64_t run, const Measurement& m) {
  check_samples(m);
  const Summary s = summarize(m);
  database
      .prepare(fmt::format(
          "INSERT INTO measurements ({}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
          kMeasurementColumns))
      .bind(run, m.benchmark, m.group, m.workload, m.size, m.dtype, m.provider, m.work, m.unit,
            std::string_view(m.statistic == Statistic::kMinimum ? "minimum" : "median"), m.peak, m.peak_source,
            static_cast<int64_t>(m.correct), m.check, json_text(m.distrust), json_text(m.details),
            static_cast<int64_t>(s.samples), s.median, s.mean, s.minimum, s.p5, s.p95)
      .run();
  const int64_t id = database.last_row_id();
  SqliteStatement insert =
      database.prepare("INSERT INTO rounds (measurement, number, seconds, clock_mhz) VALUES (?, ?, ?, ?)");
  for (size_t i = 0; i < m.rounds.size(); ++i) {
    const std::optional<double> clock = m.clock_mhz.empty() ? std::nullopt : std::optional(m.clock_mhz[i]);
    insert.bind(id, static_cast<int64_t>(i), m.rounds[i], clock).run();
  }
}

int64_t insert_run(const SqliteDatabase& database, const BenchmarkRun& run) {
  database
      .prepare(
          "INSERT INTO runs (started, command, program_commit, device, architecture, device_count, environment) "
          "VALUES (?, ?, ?, ?, ?, ?, ?)")
      .bind(run.started, run.command, run.commit, run.device, run.architecture, static_cast<int64_t>(run.device_count),
            json_text(run.environment))
      .run();
  const int64_t id = database.last_row_id();
  for (const Telemetry& telemetry : run.telemetry) insert_telemetry(database, id, telemetry);
  for (const Measurement& measurement : run.measurements) insert_measurement(database, id, measurement);
  return id;
}

BenchmarkRun read_run(const SqliteStatement& row, const SqliteDatabase& database) {
  BenchmarkRun run;
  run.id = row.integer(0);
  run.started = row.text(1);
  run.command = row.text(2);
  run.commit = row.text(3);
  run.device = row.text(4);
  run.architecture = row.text(5);
  run.device_count = static_cast<int>(row.integer(6));
  run.environment = json_value<std::map<std::string, std::string>>(row, 7, database);
  return run;
}

Telemetry read_telemetry(const SqliteStatement& row, const SqliteDatabase& database) {
  Telemetry t;
  t.moment = row.text(1);
  t.graphics_clock_mhz = row.optional_number(2);
  t.memory_clock_mhz = row.optional_number(3);
  t.power_watts = row.optional_number(4);
  t.temperature_celsius = row.optional_number(5);
  t.throttle_reasons = json_value<std::vector<std::string>>(row, 6, database);
  return t;
}

// Columns: kMeasurementColumns, then the id.
Measurement read_measurement(const SqliteStatement& row, const SqliteDatabase& database) {
  Measurement m;
  m.benchmark = row.text(1);
  m.group = row.text(2);
  m.workload = row.text(3);
  m.size = row.number(4);
  m.dtype = row.text(5);
  m.provider = row.text(6);
  m.work = row.number(7);
  m.unit = row.text(8);
  m.statistic = row.text(9) == "minimum" ? Statistic::kMinimum : Statistic::kMedian;
  m.peak = row.optional_number(10);
  m.peak_source = row.text(11);
  m.correct = row.integer(12) != 0;
  m.check = row.text(13);
  m.distrust = json_value<std::vector<std::string>>(row, 14, database);
  m.details = json_value<std::map<std::string, std::string>>(row, 15, database);
  return m;
}

Summary read_summary(const SqliteStatement& row) {
  return {static_cast<size_t>(row.integer(16)),
          row.number(17),
          row.number(18),
          row.number(19),
          row.number(20),
          row.number(21)};
}

// What load(), load_all() and load_summaries() read: every run, or the one of this id. Within a transaction.
std::vector<SummarizedRun> read_runs(const SqliteDatabase& database, std::optional<int64_t> only, bool with_samples) {
  const auto prepare = [&](const std::string& what, const std::string& run_column, const std::string& order) {
    SqliteStatement statement =
        database.prepare(fmt::format("{} {} ORDER BY {}", what, only ? "WHERE " + run_column + " = ?" : "", order));
    if (only) statement.bind(*only);
    return statement;
  };
  std::vector<SummarizedRun> runs;
  std::map<int64_t, size_t> place;
  {
    SqliteStatement rows = prepare(
        "SELECT id, started, command, program_commit, device, architecture, device_count, environment FROM runs", "id",
        "id");
    while (rows.step()) {
      place[rows.integer(0)] = runs.size();
      runs.push_back({read_run(rows, database), {}});
    }
  }
  {
    SqliteStatement rows = prepare(
        "SELECT run, moment, graphics_clock_mhz, memory_clock_mhz, power_watts, temperature_celsius, throttle_reasons "
        "FROM telemetry",
        "run", "id");
    while (rows.step())
      if (const auto found = place.find(rows.integer(0)); found != place.end())
        runs[found->second].run.telemetry.push_back(read_telemetry(rows, database));
  }
  {
    SqliteStatement rows = prepare(fmt::format("SELECT {}, id FROM measurements", kMeasurementColumns), "run", "id");
    SqliteStatement rounds =
        database.prepare("SELECT seconds, clock_mhz FROM rounds WHERE measurement = ? ORDER BY number");
    while (rows.step()) {
      const auto found = place.find(rows.integer(0));
      if (found == place.end()) continue;
      SummarizedRun& run = runs[found->second];
      run.run.measurements.push_back(read_measurement(rows, database));
      run.summaries.push_back(read_summary(rows));
      if (!with_samples) continue;
      rounds.bind(rows.integer(22));
      Measurement& measurement = run.run.measurements.back();
      while (rounds.step()) {
        measurement.rounds.push_back(rounds.numbers(0));
        if (const std::optional<double> clock = rounds.optional_number(1)) measurement.clock_mhz.push_back(*clock);
      }
    }
  }
  return runs;
}

std::vector<SummarizedRun> read_at_one_moment(const SqliteDatabase& database, std::optional<int64_t> only,
                                              bool with_samples) {
  const SqliteTransaction transaction(database, SqliteAccess::kRead);
  return read_runs(database, only, with_samples);
}

}  // namespace

ResultsStore::ResultsStore(const std::filesystem::path& path) : database_(with_folders(path)) {
  // A commit is on disk when it returns. Where the file system cannot share memory for the write-ahead log, SQLite
  // keeps its older journal, which is as safe. Changing to the log needs the file for oneself, when others are opening
  // it too.
  database_.retry_while_busy([&] {
    if (is_empty(database_)) create_layout(database_);
    check_layout(database_);
    upgrade_layout(database_);
    database_.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;");
  });
}

int64_t ResultsStore::begin_run(const BenchmarkRun& run) {
  SqliteTransaction transaction(database_, SqliteAccess::kWrite);
  const int64_t id = insert_run(database_, run);
  transaction.commit();
  return id;
}

ImportedRun ResultsStore::import_run(const BenchmarkRun& run) {
  SqliteTransaction transaction(database_, SqliteAccess::kWrite);
  std::vector<int64_t> alike;
  {
    SqliteStatement rows =
        database_.prepare("SELECT id FROM runs WHERE started = ? AND device = ? AND command = ? ORDER BY id");
    rows.bind(run.started, run.device, run.command);
    while (rows.step()) alike.push_back(rows.integer(0));
  }
  for (const int64_t id : alike) {
    BenchmarkRun stored = std::move(read_runs(database_, id, true).front().run);
    stored.id = run.id;
    if (stored == run) return {id, false};
  }
  const int64_t id = insert_run(database_, run);
  transaction.commit();
  return {id, true};
}

void ResultsStore::add(int64_t run, const Measurement& measurement) {
  SqliteTransaction transaction(database_, SqliteAccess::kWrite);
  insert_measurement(database_, run, measurement);
  transaction.commit();
}

void ResultsStore::add_telemetry(int64_t run, const Telemetry& telemetry) {
  SqliteTransaction transaction(database_, SqliteAccess::kWrite);
  insert_telemetry(database_, run, telemetry);
  transaction.commit();
}

std::vector<StoredRun> ResultsStore::list() const {
  SqliteStatement rows = database_.prepare(
      "SELECT id, started, command, program_commit, device, device_count, "
      "(SELECT count(*) FROM measurements WHERE run = runs.id) FROM runs ORDER BY id");
  std::vector<StoredRun> runs;
  while (rows.step())
    runs.push_back({rows.integer(0), rows.text(1), rows.text(2), rows.text(3), rows.text(4),
                    static_cast<int>(rows.integer(5)), rows.integer(6)});
  return runs;
}

BenchmarkRun ResultsStore::load(int64_t id) const {
  std::vector<SummarizedRun> runs = read_at_one_moment(database_, id, true);
  if (runs.empty())
    throw Error(ErrorKind::kNotFound, fmt::format("there is no run {} in the store of benchmark results", id), path(),
                known_runs(list()));
  return std::move(runs.front().run);
}

std::vector<BenchmarkRun> ResultsStore::load_all() const {
  std::vector<BenchmarkRun> runs;
  for (SummarizedRun& run : read_at_one_moment(database_, std::nullopt, true)) runs.push_back(std::move(run.run));
  return runs;
}

std::vector<SummarizedRun> ResultsStore::load_summaries() const {
  return read_at_one_moment(database_, std::nullopt, false);
}

std::filesystem::path default_store_path() {
  const std::filesystem::path path = usual_path();
  if (path.empty())
    throw Error(ErrorKind::kInvalidArgument, "there is no home folder to keep benchmark results in: HOME is not set",
                "", "Say where with --store FILE.");
  return path;
}

void check_default_store() {
  const std::filesystem::path path = default_store_path();
  try {
    check_files(PrivateDirectory::open(path.parent_path()), path);
  } catch (const UntrustedPathError& error) {
    refuse(error);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
  }
}

std::string known_runs(const std::vector<StoredRun>& runs) {
  if (runs.empty()) return "It holds no runs yet: causeway bench makes one.";
  std::vector<int64_t> ids;
  for (const StoredRun& run : runs) ids.push_back(run.id);
  const bool shortened = ids.size() > kRunsNamed;
  if (shortened) ids.erase(ids.begin(), ids.end() - kRunsNamed);
  return fmt::format("Runs there are: {}{}.", shortened ? fmt::format("{} older ones, ", runs.size() - kRunsNamed) : "",
                     fmt::join(ids, ", "));
}

}  // namespace causeway::bench
