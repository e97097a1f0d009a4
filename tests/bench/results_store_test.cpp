#include "causeway/bench/results/results_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include "causeway/base/error.h"

namespace causeway::bench {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class ResultsStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("causeway_store_{}_{}", getpid(),
                                                      testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path store() const { return folder_ / "deep" / "er" / "benchmarks.sqlite"; }

  fs::path folder_;
};

Measurement full_measurement() {
  Measurement m;
  m.benchmark = "copy";
  m.group = "BabelStream";
  m.workload = "triad 1 GiB; it's \"fine\"";
  m.size = 1073741824;
  m.dtype = "fp64";
  m.provider = "Causeway";
  m.work = 3.2e9;
  m.unit = "GB/s";
  m.statistic = Statistic::kMinimum;
  m.rounds = {{1e-3, 1.1e-3}, {0.1 + 0.2, 1e-300, 0}};
  m.clock_mhz = {1980, 1515.1};
  m.peak = 4800;
  m.peak_source = "data sheet";
  m.correct = false;
  m.check = "max |error| 3";
  m.distrust = {"The clock fell.", "So did the snow: \xe2\x9d\x84."};
  m.details = {{"inputs", "normal(0, 1)"}, {"memory", "3 GiB"}};
  return m;
}

BenchmarkRun full_run() {
  BenchmarkRun run;
  run.started = "2026-11-21T07:30:00Z";
  run.command = "causeway bench copy";
  run.commit = "1a0cf5a";
  run.device = "NVIDIA H200";
  run.architecture = "sm_90a";
  run.device_count = 2;
  run.environment = {{"driver", "570.1"}, {"processor", "Xeon"}};
  run.telemetry = {{"before", 1980, {}, 118.5, {}, {}}, {"during", {}, 3201, {}, 61, {"power cap", "heat"}}};
  run.measurements = {full_measurement()};
  return run;
}

void expect_same(const Measurement& a, const Measurement& b) {
  EXPECT_EQ(a.key(), b.key());
  EXPECT_EQ(a.group, b.group);
  EXPECT_EQ(a.size, b.size);
  EXPECT_EQ(a.work, b.work);
  EXPECT_EQ(a.unit, b.unit);
  EXPECT_EQ(a.statistic, b.statistic);
  EXPECT_EQ(a.peak, b.peak);
  EXPECT_EQ(a.peak_source, b.peak_source);
  EXPECT_EQ(a.correct, b.correct);
  EXPECT_EQ(a.check, b.check);
  EXPECT_EQ(a.distrust, b.distrust);
  EXPECT_EQ(a.details, b.details);
}

template <typename Function>
Error error_of_store(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorKind::kIo, "");
}

TEST_F(ResultsStoreTest, EverythingComesBack) {
  const BenchmarkRun run = full_run();
  int64_t id = 0;
  {
    ResultsStore results(store());
    id = results.begin_run(run);
    Measurement second = full_measurement();
    second.workload = "dot";
    second.peak.reset();
    second.correct = true;
    second.statistic = Statistic::kMedian;
    second.rounds.clear();
    second.clock_mhz.clear();
    results.add(id, second);
    results.add_telemetry(id, {"after", {}, {}, {}, 40, {}});
  }
  const BenchmarkRun loaded = ResultsStore(store()).load(id);
  EXPECT_EQ(loaded.id, id);
  EXPECT_EQ(loaded.started, run.started);
  EXPECT_EQ(loaded.command, run.command);
  EXPECT_EQ(loaded.commit, run.commit);
  EXPECT_EQ(loaded.device, run.device);
  EXPECT_EQ(loaded.architecture, run.architecture);
  EXPECT_EQ(loaded.device_count, 2);
  EXPECT_EQ(loaded.environment, run.environment);
  ASSERT_EQ(loaded.telemetry.size(), 3u);
  EXPECT_EQ(loaded.telemetry[0].graphics_clock_mhz, 1980);
  EXPECT_EQ(loaded.telemetry[0].memory_clock_mhz, std::nullopt);
  EXPECT_EQ(loaded.telemetry[0].power_watts, 118.5);
  EXPECT_EQ(loaded.telemetry[1].memory_clock_mhz, 3201);
  EXPECT_EQ(loaded.telemetry[1].throttle_reasons, run.telemetry[1].throttle_reasons);
  EXPECT_EQ(loaded.telemetry[2].moment, "after");
  EXPECT_EQ(loaded.telemetry[2].temperature_celsius, 40);
  ASSERT_EQ(loaded.measurements.size(), 2u);
  expect_same(loaded.measurements[0], run.measurements[0]);
  EXPECT_EQ(loaded.measurements[0].rounds, run.measurements[0].rounds);
  EXPECT_EQ(loaded.measurements[1].peak, std::nullopt);
  EXPECT_EQ(loaded.measurements[1].statistic, Statistic::kMedian);
  EXPECT_TRUE(loaded.measurements[1].correct);
  EXPECT_TRUE(loaded.measurements[1].rounds.empty());
}

TEST_F(ResultsStoreTest, SummariesComeWithoutSamples) {
  ResultsStore results(store());
  const int64_t id = results.begin_run(full_run());
  const std::vector<SummarizedRun> runs = results.load_summaries();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].run.id, id);
  EXPECT_EQ(runs[0].run.telemetry.size(), 2u);
  ASSERT_EQ(runs[0].run.measurements.size(), 1u);
  ASSERT_EQ(runs[0].summaries.size(), 1u);
  EXPECT_TRUE(runs[0].run.measurements[0].rounds.empty());
  expect_same(runs[0].run.measurements[0], full_measurement());
  const Summary expected = summarize(full_measurement());
  EXPECT_EQ(runs[0].summaries[0].samples, expected.samples);
  EXPECT_EQ(runs[0].summaries[0].median, expected.median);
  EXPECT_EQ(runs[0].summaries[0].mean, expected.mean);
  EXPECT_EQ(runs[0].summaries[0].minimum, expected.minimum);
  EXPECT_EQ(runs[0].summaries[0].p5, expected.p5);
  EXPECT_EQ(runs[0].summaries[0].p95, expected.p95);
}

TEST_F(ResultsStoreTest, RunsAreListedAndKeptApart) {
  ResultsStore results(store());
  EXPECT_TRUE(results.list().empty());
  const int64_t first = results.begin_run(full_run());
  BenchmarkRun other = full_run();
  other.device = "AMD Instinct MI300X";
  other.measurements.clear();
  const int64_t second = results.begin_run(other);
  results.add(first, full_measurement());
  results.add(second, full_measurement());
  const std::vector<StoredRun> runs = results.list();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].id, first);
  EXPECT_EQ(runs[0].measurements, 2);
  EXPECT_EQ(runs[0].started, "2026-11-21T07:30:00Z");
  EXPECT_EQ(runs[0].commit, "1a0cf5a");
  EXPECT_EQ(runs[0].command, "causeway bench copy");
  EXPECT_EQ(runs[0].device_count, 2);
  EXPECT_EQ(runs[1].id, second);
  EXPECT_EQ(runs[1].device, "AMD Instinct MI300X");
  EXPECT_EQ(runs[1].measurements, 1);
  EXPECT_EQ(results.load(second).measurements.size(), 1u);
  const std::vector<BenchmarkRun> all = results.load_all();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].measurements.size(), 2u);
  EXPECT_EQ(all[1].measurements[0].rounds, full_measurement().rounds);
}

TEST_F(ResultsStoreTest, AnUnknownRunNamesThoseThereAre) {
  ResultsStore results(store());
  EXPECT_THAT(error_of_store([&] { results.load(1); }).what(), HasSubstr("It holds no runs yet"));
  for (int i = 0; i < 3; ++i) results.begin_run(full_run());
  const Error error = error_of_store([&] { results.load(99); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("there is no run 99"), HasSubstr("Runs there are: 1, 2, 3."),
                                  HasSubstr("benchmarks.sqlite")));
  for (int i = 0; i < 30; ++i) results.begin_run(full_run());
  EXPECT_THAT(error_of_store([&] { results.load(99); }).what(), HasSubstr("Runs there are: 13 older ones, 14, 15"));
}

// What was added before a device, and the program with it, went away, is there.
TEST_F(ResultsStoreTest, AProgramThatDiesLosesNothingItAdded) {
  ResultsStore(store()).begin_run(full_run());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ResultsStore results(store());
    const int64_t id = results.begin_run(full_run());
    results.add(id, full_measurement());
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  const BenchmarkRun run = ResultsStore(store()).load(2);
  ASSERT_EQ(run.measurements.size(), 2u);
  EXPECT_EQ(run.measurements[1].rounds, full_measurement().rounds);
}

// Runs `action` in so many processes that begin together; the number of those that an error ended.
int failures_of(int programs, const std::function<void()>& action) {
  int start[2];
  EXPECT_EQ(pipe(start), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < programs; ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    close(start[1]);
    char none = 0;
    // The end of the pipe is the sign for all.
    int status = read(start[0], &none, 1) == 0 ? 0 : 2;
    try {
      action();
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
      status = 1;
    }
    _exit(status);
  }
  close(start[1]);
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    failed += status == 0 ? 0 : 1;
  }
  close(start[0]);
  return failed;
}

TEST_F(ResultsStoreTest, SeveralProgramsWriteAtOnce) {
  constexpr int kPrograms = 4;
  EXPECT_EQ(failures_of(kPrograms,
                        [&] {
                          ResultsStore results(store());
                          const int64_t id = results.begin_run(full_run());
                          for (int k = 0; k < 10; ++k) results.add(id, full_measurement());
                          results.add_telemetry(id, {"after", {}, {}, {}, 40, {}});
                        }),
            0);
  const std::vector<StoredRun> runs = ResultsStore(store()).list();
  ASSERT_EQ(runs.size(), static_cast<size_t>(kPrograms));
  for (const StoredRun& run : runs) EXPECT_EQ(run.measurements, 11);
}

// Making the file, its layout and its journal is where SQLite refuses locks at once instead of waiting.
TEST_F(ResultsStoreTest, SeveralProgramsMakeAStoreAtOnce) {
  constexpr int kPrograms = 8, kStores = 10;
  for (int i = 0; i < kStores; ++i) {
    const fs::path path = folder_ / fmt::format("{}.sqlite", i);
    EXPECT_EQ(failures_of(kPrograms, [&] { ResultsStore(path).begin_run(full_run()); }), 0);
    EXPECT_EQ(ResultsStore(path).list().size(), static_cast<size_t>(kPrograms));
  }
}

// A store without the write-ahead log, and a program that writes to it: the change to the log finds the lock taken when
// it holds a weaker one already, and SQLite refuses it at once.
TEST_F(ResultsStoreTest, OpeningWaitsForAWriter) {
  ResultsStore(store()).begin_run(full_run());
  const SqliteDatabase writer(store());
  writer.execute("PRAGMA journal_mode = DELETE");
  writer.execute("BEGIN IMMEDIATE");
  std::atomic<bool> done = false;
  std::thread opening([&] {
    EXPECT_NO_THROW(ResultsStore(store()).begin_run(full_run()));
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(done);
  writer.execute("ROLLBACK");
  opening.join();
  EXPECT_EQ(ResultsStore(store()).list().size(), 2u);
}

TEST_F(ResultsStoreTest, TheSameRunIsImportedOnce) {
  ResultsStore results(store());
  const BenchmarkRun run = full_run();
  const ImportedRun first = results.import_run(run), again = results.import_run(run);
  EXPECT_TRUE(first.is_new);
  EXPECT_FALSE(again.is_new);
  EXPECT_EQ(again.id, first.id);
  EXPECT_EQ(results.list().size(), 1u);
  // As exported, with its id.
  EXPECT_FALSE(results.import_run(results.load(first.id)).is_new);
  BenchmarkRun other = run;
  other.measurements[0].rounds[0][0] *= 1.5;
  EXPECT_TRUE(results.import_run(other).is_new);
  EXPECT_EQ(results.list().size(), 2u);
  // Programs that import one file at a time.
  EXPECT_EQ(failures_of(4, [&] { ResultsStore(folder_ / "other.sqlite").import_run(run); }), 0);
  EXPECT_EQ(ResultsStore(folder_ / "other.sqlite").list().size(), 1u);
}

// Version 1 had no clocks.
TEST_F(ResultsStoreTest, AStoreFromAnOlderProgramIsBroughtUpToDate) {
  {
    ResultsStore results(store());
    results.begin_run(full_run());
  }
  {
    const SqliteDatabase database(store());
    database.execute("ALTER TABLE rounds DROP COLUMN clock_mhz; PRAGMA user_version = 1;");
  }
  Measurement unclocked = full_measurement();
  unclocked.clock_mhz.clear();
  for (int opened = 0; opened < 2; ++opened) {
    const ResultsStore results(store());
    const BenchmarkRun run = results.load(1);
    ASSERT_EQ(run.measurements.size(), 1u);
    EXPECT_EQ(run.measurements[0].rounds, unclocked.rounds);
    EXPECT_TRUE(run.measurements[0].clock_mhz.empty());
  }
  ResultsStore(store()).add(1, full_measurement());
  EXPECT_EQ(ResultsStore(store()).load(1).measurements.at(1).clock_mhz, full_measurement().clock_mhz);
}

TEST_F(ResultsStoreTest, AStoreFromANewerProgramIsRefused) {
  {
    ResultsStore results(store());
  }
  SqliteDatabase(store()).execute("PRAGMA user_version = 7");
  const Error error = error_of_store([&] { ResultsStore results(store()); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("written by a newer version of causeway"), HasSubstr("is version 7"),
                    HasSubstr("this program knows 2"), HasSubstr("Update causeway, or use another store with --store"),
                    HasSubstr("benchmarks.sqlite")));
}

TEST_F(ResultsStoreTest, FilesThatAreNoStoreAreRefusedAndLeftAlone) {
  fs::create_directories(folder_);
  const fs::path text = folder_ / "notes.txt";
  std::ofstream(text) << std::string(4096, 'x');
  const Error no_database = error_of_store([&] { ResultsStore results(text); });
  EXPECT_EQ(no_database.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(no_database.what(), AllOf(HasSubstr("is not a store of benchmark results"), HasSubstr("notes.txt")));
  EXPECT_EQ(fs::file_size(text), 4096u);

  const fs::path foreign = folder_ / "mail.sqlite";
  SqliteDatabase(foreign).execute("CREATE TABLE mails (body TEXT)");
  const Error other_program = error_of_store([&] { ResultsStore results(foreign); });
  EXPECT_EQ(other_program.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(other_program.what(), HasSubstr("some other program's database"));
  EXPECT_EQ(SqliteDatabase(foreign).query_integer("SELECT count(*) FROM sqlite_master"), 1);

  EXPECT_EQ(error_of_store([&] { ResultsStore results(folder_); }).kind(), ErrorKind::kIo);
  const Error no_folder = error_of_store([&] { ResultsStore results(text / "store.sqlite"); });
  EXPECT_EQ(no_folder.kind(), ErrorKind::kIo);
  EXPECT_THAT(no_folder.what(), HasSubstr("the folder of the store of benchmark results cannot be made"));
}

// Each would run what the file's writer wrote, the first for ever.
TEST_F(ResultsStoreTest, AStoreWhoseTablesAreNoneIsRefused) {
  const std::pair<const char*, const char*> stores[] = {
      {"CREATE VIEW runs AS WITH RECURSIVE endless(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM endless) SELECT i AS "
       "id, "
       "'' AS started, '' AS command, '' AS program_commit, '' AS device, 1 AS device_count FROM endless",
       "runs is a view"},
      {"CREATE VIRTUAL TABLE runs USING fts5(id, started)", "runs is a virtual table"},
      {"CREATE TABLE runs (id INTEGER PRIMARY KEY, started TEXT AS (hex(zeroblob(400000000))))",
       "runs has computed columns"},
      {"CREATE INDEX runs ON old(started)", "runs is an index"},
      {"SELECT 1", "runs is missing"}};
  for (const auto& [sql, message] : stores) {
    fs::remove_all(folder_);
    {
      ResultsStore results(store());
    }
    const SqliteDatabase database(store());
    database.execute("ALTER TABLE runs RENAME TO old");
    try {
      database.execute(sql);
    } catch (const Error&) {
      continue;  // not every SQLite has that kind of virtual table
    }
    const Error error = error_of_store([&] { ResultsStore(store()).list(); });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

TEST_F(ResultsStoreTest, AStatementThatDoesNotEndIsEnded) {
  fs::create_directories(folder_);
  const SqliteDatabase database(folder_ / "any.sqlite");
  const char* endless = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT count(*) FROM c";
  EXPECT_THAT(error_of_store([&] { database.query_integer(endless); }).what(),
              HasSubstr("more steps than a file of its size"));
  EXPECT_EQ(database.query_integer("SELECT 7"), 7);
}

TEST_F(ResultsStoreTest, DamageIsFound) {
  ResultsStore results(store());
  results.begin_run(full_run());
  const SqliteDatabase database(store());
  database.execute("UPDATE rounds SET seconds = x'010203'");
  const Error samples = error_of_store([&] { results.load(1); });
  EXPECT_EQ(samples.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(samples.what(), HasSubstr("3 bytes are no whole number of samples"));
  database.execute("UPDATE measurements SET details = '{'");
  EXPECT_THAT(error_of_store([&] { results.load_summaries(); }).what(), HasSubstr("a list in it cannot be read"));
}

TEST_F(ResultsStoreTest, SamplesThatAreNoneAreRefusedWhole) {
  ResultsStore results(store());
  const int64_t id = results.begin_run(full_run());
  Measurement m = full_measurement();
  m.rounds = {{1, 2}, {}};
  EXPECT_THROW(results.add(id, m), InternalError);
  m.rounds = {{1, NAN}};
  EXPECT_THROW(results.add(id, m), InternalError);
  EXPECT_EQ(results.load(id).measurements.size(), 1u);
  EXPECT_THROW(results.add(id + 1, full_measurement()), Error);
}

TEST_F(ResultsStoreTest, TenThousandMeasurementsLoad) {
  ResultsStore results(store());
  BenchmarkRun run = full_run();
  run.measurements[0].rounds.assign(10, std::vector<double>(10, 1e-3));
  run.measurements[0].clock_mhz.assign(10, 1500);
  run.measurements.resize(100, run.measurements[0]);
  for (int i = 0; i < 100; ++i) results.begin_run(run);
  EXPECT_EQ(results.load_summaries().size(), 100u);
  EXPECT_EQ(results.load_all().back().measurements.size(), 100u);
}

class Environment {
 public:
  Environment() {
    for (const char* name : {"HOME", "XDG_DATA_HOME"}) {
      if (const char* value = std::getenv(name)) kept_[name] = value;
      unsetenv(name);
    }
  }
  ~Environment() {
    for (const char* name : {"HOME", "XDG_DATA_HOME"}) {
      unsetenv(name);
      if (kept_.contains(name)) setenv(name, kept_[name].c_str(), 1);
    }
  }

 private:
  std::map<std::string, std::string> kept_;
};

TEST_F(ResultsStoreTest, TheUsualPlaceFollowsTheEnvironment) {
  const Environment environment;
  setenv("XDG_DATA_HOME", "/data", 1);
  EXPECT_EQ(default_store_path(), "/data/causeway/benchmarks.sqlite");
  setenv("HOME", "/home/ada", 1);
  setenv("XDG_DATA_HOME", "data", 1);  // relative: none, by the specification
  EXPECT_EQ(default_store_path(), "/home/ada/.local/share/causeway/benchmarks.sqlite");
  unsetenv("HOME");
  EXPECT_THAT(error_of_store([] { default_store_path(); }).what(), HasSubstr("--store FILE"));
}

// It is read without having been named: nobody else may have put it there.
TEST_F(ResultsStoreTest, TheUsualStoreIsTheUsersOwn) {
  const Environment environment;
  setenv("XDG_DATA_HOME", folder_.c_str(), 1);
  const fs::path path = default_store_path();
  check_default_store();
  EXPECT_FALSE(fs::exists(folder_));
  ResultsStore(path).begin_run(full_run());
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0600));
  EXPECT_EQ(fs::status(path.parent_path()).permissions(), fs::perms(0700));
  check_default_store();

  const auto expect_refused = [&](const std::string& what) {
    for (const Error& error :
         {error_of_store([] { check_default_store(); }), error_of_store([&] { ResultsStore results(path); })}) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("the store of benchmark results is not used"), HasSubstr(what),
                                      HasSubstr("give a file with --store")));
    }
  };
  fs::permissions(path, fs::perms(0666));
  expect_refused("benchmarks.sqlite may be written to by everybody");
  fs::permissions(path, fs::perms(0600));
  // What SQLite would play back into the store.
  std::ofstream(path.string() + "-journal") << "planted";
  fs::permissions(path.string() + "-journal", fs::perms(0666));
  expect_refused("benchmarks.sqlite-journal may be written to by everybody");
  fs::remove(path.string() + "-journal");
  fs::permissions(folder_, fs::perms(0777));
  expect_refused("may be written to by everybody (mode 0777)");
  // A store that was asked for by name is the user's decision.
  EXPECT_NO_THROW(ResultsStore(folder_ / "named.sqlite"));
}

}  // namespace
}  // namespace causeway::bench
