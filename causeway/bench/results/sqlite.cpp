#include "causeway/bench/results/sqlite.h"

#include <sqlite3.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "causeway/base/error.h"

namespace causeway::bench {
namespace {

constexpr std::chrono::seconds kWait{60};
constexpr std::chrono::milliseconds kPause{10};

class BusyError : public Error {
 public:
  explicit BusyError(const std::filesystem::path& path)
      : Error(ErrorKind::kResource,
              fmt::format("another program has kept the store of benchmark results busy for {} s", kWait.count()), path,
              "Wait for it, or give another file with --store.") {}
};

constexpr int kStepsBetweenCounts = 1'000'000;
// A row takes tens of bytes at least, and some tens of steps. Pages that refer to each other in a ring take any number.
constexpr uint64_t kStepsOfAnyFile = 20'000'000, kStepsByByte = 16;

}  // namespace

struct SqliteDatabase::StepCount {
  std::filesystem::path path;
  uint64_t steps = 0;

  // Called by SQLite; what is not 0 ends the statement.
  static int count(void* self) {
    auto& counted = *static_cast<StepCount*>(self);
    counted.steps += kStepsBetweenCounts;
    if (counted.steps <= kStepsOfAnyFile) return 0;
    uint64_t bytes = 0;
    for (const char* ending : {"", "-wal"}) {
      std::error_code failure;
      const uintmax_t size = std::filesystem::file_size(counted.path.string() + ending, failure);
      if (!failure) bytes += size;
    }
    return counted.steps - kStepsOfAnyFile > bytes * kStepsByByte ? 1 : 0;
  }
};

SqliteDatabase::~SqliteDatabase() = default;

SqliteDatabase::SqliteDatabase(const std::filesystem::path& path)
    : path_(path), steps_(std::make_unique<StepCount>(StepCount{path})), handle_(nullptr, sqlite3_close) {
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  handle_.reset(handle);
  if (code != SQLITE_OK) fail(code);
  sqlite3_busy_timeout(handle, static_cast<int>(std::chrono::milliseconds(kWait).count()));
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_progress_handler(handle, kStepsBetweenCounts, StepCount::count, steps_.get());
}

void SqliteDatabase::fail(int code) const {
  const std::string reason = handle_ ? sqlite3_errmsg(handle_.get()) : sqlite3_errstr(code);
  const std::string another = "Give another file with --store, or move this one away.";
  switch (code & 0xff) {
    case SQLITE_NOTADB:
      throw Error(ErrorKind::kCorrupt, "the file is not a store of benchmark results", path_, another);
    case SQLITE_CORRUPT:
      throw Error(ErrorKind::kCorrupt, "the store of benchmark results is damaged: " + reason, path_, another);
    case SQLITE_INTERRUPT:
      throw Error(ErrorKind::kCorrupt,
                  "the store of benchmark results is damaged: to read it takes more steps than a file of its size can "
                  "need",
                  path_, another);
    case SQLITE_FULL:
      throw Error(ErrorKind::kResource, "no room is left for benchmark results", path_,
                  "Free some disk space, or give a file on another disk with --store.");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      throw BusyError(path_);
    default:
      throw Error(ErrorKind::kIo, "the store of benchmark results cannot be used: " + reason, path_,
                  "Check the rights of the file and its folder, or give another file with --store.");
  }
}

void SqliteDatabase::retry_while_busy(const std::function<void()>& action) const {
  const auto deadline = std::chrono::steady_clock::now() + kWait;
  while (true) {
    try {
      return action();
    } catch (const BusyError&) {
      if (std::chrono::steady_clock::now() >= deadline) throw;
    }
    std::this_thread::sleep_for(kPause);
  }
}

SqliteStatement SqliteDatabase::prepare(std::string_view sql) const {
  sqlite3_stmt* statement = nullptr;
  steps_->steps = 0;
  const int code = sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  if (code != SQLITE_OK) fail(code);
  return SqliteStatement(*this, statement);
}

void SqliteDatabase::execute(const std::string& sql) const {
  steps_->steps = 0;
  const int code = sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code);
}

int64_t SqliteDatabase::query_integer(std::string_view sql) const {
  SqliteStatement statement = prepare(sql);
  CAUSEWAY_CHECK(statement.step(), "{}", sql);
  return statement.integer(0);
}

int64_t SqliteDatabase::last_row_id() const { return sqlite3_last_insert_rowid(handle_.get()); }

SqliteStatement::SqliteStatement(const SqliteDatabase& database, sqlite3_stmt* statement)
    : database_(&database), statement_(statement, sqlite3_finalize) {}

bool SqliteStatement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code != SQLITE_ROW && code != SQLITE_DONE) database_->fail(code);
  return code == SQLITE_ROW;
}

void SqliteStatement::run() {
  while (step()) {
  }
  reset();
}

void SqliteStatement::reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

void SqliteStatement::bind_one(int index, int64_t value) { sqlite3_bind_int64(statement_.get(), index, value); }

void SqliteStatement::bind_one(int index, double value) { sqlite3_bind_double(statement_.get(), index, value); }

void SqliteStatement::bind_one(int index, const std::optional<double>& value) {
  if (value) bind_one(index, *value);
}

void SqliteStatement::bind_one(int index, std::string_view value) {
  sqlite3_bind_text64(statement_.get(), index, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}

void SqliteStatement::bind_one(int index, std::span<const double> values) {
  sqlite3_bind_blob64(statement_.get(), index, values.data(), values.size_bytes(), SQLITE_TRANSIENT);
}

int64_t SqliteStatement::integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }

double SqliteStatement::number(int column) const { return sqlite3_column_double(statement_.get(), column); }

std::optional<double> SqliteStatement::optional_number(int column) const {
  if (sqlite3_column_type(statement_.get(), column) == SQLITE_NULL) return std::nullopt;
  return number(column);
}

std::string SqliteStatement::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return text == nullptr ? std::string() : std::string(text, static_cast<size_t>(size));
}

std::vector<double> SqliteStatement::numbers(int column) const {
  const void* bytes = sqlite3_column_blob(statement_.get(), column);
  const auto size = static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column));
  if (size % sizeof(double) != 0)
    throw Error(ErrorKind::kCorrupt,
                fmt::format("the store of benchmark results is damaged: {} bytes are no whole number of samples", size),
                database_->path(), "Give another file with --store, or move this one away.");
  std::vector<double> values(size / sizeof(double));
  if (size > 0) std::memcpy(values.data(), bytes, size);
  return values;
}

SqliteTransaction::SqliteTransaction(const SqliteDatabase& database, SqliteAccess access) : database_(database) {
  database_.execute(access == SqliteAccess::kWrite ? "BEGIN IMMEDIATE" : "BEGIN");
}

SqliteTransaction::~SqliteTransaction() {
  if (committed_) return;
  try {
    database_.execute("ROLLBACK");
  } catch (const Error&) {
    // SQLite has rolled back by itself, as it does when the disk is full.
  }
}

void SqliteTransaction::commit() {
  database_.execute("COMMIT");
  committed_ = true;
}

}  // namespace causeway::bench
