// SQLite as the ledger needs it: one connection, statements by text, transactions that roll back
// unless committed. sqlite.cpp is the only file that includes sqlite3.h. Knows nothing of what the
// ledger keeps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bootstrap/base/result.hpp"

namespace warmroot::manager {

/// A column's value. Times are milliseconds since 1970.
using SqlValue = std::variant<std::monostate, std::int64_t, std::string>;

struct SqlRow {
  std::vector<SqlValue> columns;

  /// The column as text; empty for NULL.
  std::string text(std::size_t column) const;
  /// The column as a number; 0 for NULL.
  std::int64_t number(std::size_t column) const;
};

/// The row on which a statement stands; gone with the next one.
class SqlCursor {
 public:
  explicit SqlCursor(void* statement) : statement_(statement) {}
  /// As SqlRow's.
  std::string text(int column) const;
  std::int64_t number(int column) const;

 private:
  void* statement_;
};

/// One connection. Its copies are the same connection, for other threads: what consists of several
/// calls holds lock() meanwhile, and a transaction does so by itself. Errors: retry_later when
/// another process holds the lock for longer than the busy timeout, misconfigured for a file that
/// cannot be written or is full, broken for one that is damaged.
class Database {
 public:
  /// Opens or creates the file with a write-ahead log; ":memory:" is kept in memory.
  static Result<Database> open(const std::string& path);

  /// Nobody else uses the connection while it is held.
  std::unique_lock<std::recursive_mutex> lock();
  /// Runs statements separated by semicolons, without values.
  Ok run_script(const std::string& sql);
  /// Runs one statement and returns its rows.
  Result<std::vector<SqlRow>> query(std::string_view sql, std::vector<SqlValue> values = {});
  /// Reads many rows, of which none is kept. What `take` fails with ends it.
  Ok each(std::string_view sql, const std::function<Ok(const SqlCursor&)>& take,
          std::vector<SqlValue> values = {});
  /// Runs one statement whose rows do not matter.
  Ok run(std::string_view sql, std::vector<SqlValue> values = {});
  std::int64_t last_id() const;
  /// Rows that the last statement changed.
  int changes() const;
  /// Another value after every change of what is in the file, by this connection or another one.
  Result<std::pair<std::int64_t, std::int64_t>> version();
  /// The tables that this connection's statements may have written since the last call.
  std::set<std::string> take_written();
  /// From now on remembers which rows of the table, one with row ids, its statements write.
  void watch_rows(std::string table);
  /// Those since the last call.
  std::set<std::int64_t> take_written_rows();

 private:
  struct State;
  explicit Database(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

/// Rolls back when it goes out of scope without commit().
class Transaction {
 public:
  static Result<Transaction> begin(Database& database);
  /// All that is read in it is of one moment, whoever else writes.
  static Result<Transaction> begin_reading(Database& database);
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  Ok commit();

 private:
  Transaction(Database& database, std::unique_lock<std::recursive_mutex> lock)
      : lock_(std::move(lock)), database_(&database) {}
  std::unique_lock<std::recursive_mutex> lock_;
  Database* database_;
};

}  // namespace warmroot::manager
