// SQLite as the results store uses it: a database, its statements and transactions, with errors as causeway::Error that
// name the database's file and say what to do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

struct sqlite3;
struct sqlite3_stmt;

namespace causeway::bench {

class SqliteDatabase;

// One prepared statement. Parameters are numbered by the order of bind()'s arguments; columns count from 0. Texts are
// copied. It must not outlive its database.
class SqliteStatement {
 public:
  // Replaces all parameters and starts the statement over.
  template <typename... Values>
  SqliteStatement& bind(const Values&... values) {
    reset();
    int index = 0;
    (bind_one(++index, values), ...);
    return *this;
  }

  // True with the next row at hand, false at the end.
  bool step();

  // For statements without rows.
  void run();

  int64_t integer(int column) const;
  double number(int column) const;
  std::optional<double> optional_number(int column) const;
  std::string text(int column) const;
  // A blob of binary64 in the machine's order. Throws Error(kCorrupt) when its length is not a multiple of 8.
  std::vector<double> numbers(int column) const;

 private:
  friend class SqliteDatabase;
  SqliteStatement(const SqliteDatabase& database, sqlite3_stmt* statement);

  void reset();
  void bind_one(int index, int64_t value);
  void bind_one(int index, double value);
  void bind_one(int index, const std::optional<double>& value);
  void bind_one(int index, std::string_view value);
  void bind_one(int index, std::span<const double> values);
  void bind_one(int index, const std::string& value) { bind_one(index, std::string_view(value)); }
  void bind_one(int index, const std::vector<double>& values) { bind_one(index, std::span(values)); }

  const SqliteDatabase* database_;
  std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement_;
};

class SqliteDatabase {
 public:
  // Opens the file, or creates it. Statements wait up to a minute for other programs that use it. A file's own
  // functions, triggers and views are not used, whoever wrote it, and a statement that takes more steps than a file of
  // its size can need is ended with Error(kCorrupt).
  explicit SqliteDatabase(const std::filesystem::path& path);
  ~SqliteDatabase();

  SqliteStatement prepare(std::string_view sql) const;
  // One or more statements without parameters whose rows are of no interest.
  void execute(const std::string& sql) const;
  // The first column of the first row.
  int64_t query_integer(std::string_view sql) const;
  int64_t last_row_id() const;

  // Calls `action`, again and again for up to a minute while SQLite says at once that another program is in the way. It
  // does so, instead of waiting, where a lock that is held has to become a stronger one, as when the journal's mode
  // changes: two that wait for each other would wait for ever. `action` must hold no lock when it throws.
  void retry_while_busy(const std::function<void()>& action) const;

  const std::filesystem::path& path() const { return path_; }
  // `code`: an SQLite result code.
  [[noreturn]] void fail(int code) const;

 private:
  // How many of SQLite's steps the statement prepared last, and those with it, have taken.
  struct StepCount;

  std::filesystem::path path_;
  std::unique_ptr<StepCount> steps_;  // outlives the connection, which calls it
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> handle_;
};

enum class SqliteAccess { kRead, kWrite };

// Changes that happen all together when commit() returns, or not at all when it is never called; reads that all see
// the database at one moment.
class SqliteTransaction {
 public:
  SqliteTransaction(const SqliteDatabase& database, SqliteAccess access);
  SqliteTransaction(const SqliteTransaction&) = delete;
  SqliteTransaction& operator=(const SqliteTransaction&) = delete;
  ~SqliteTransaction();
  void commit();

 private:
  const SqliteDatabase& database_;
  bool committed_ = false;
};

}  // namespace causeway::bench
