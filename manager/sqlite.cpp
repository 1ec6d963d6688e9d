// Statements are prepared once per text and kept with the connection.
#include "manager/sqlite.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <set>
#include <unordered_map>
#include <utility>

namespace warmroot::manager {

struct CloseConnection {
  void operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

namespace {

using Connection = std::unique_ptr<sqlite3, CloseConnection>;
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

/// Another process's transaction is a few milliseconds; longer means that it hangs.
constexpr int kBusyTimeoutMs = 5'000;

ErrorKind kind_of(int code) {
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return ErrorKind::retry_later;
    case SQLITE_FULL:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN:
      return ErrorKind::misconfigured;
    default:
      return ErrorKind::broken;
  }
}

std::string remedy(int code) {
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "another warmroot process holds the ledger; try again when it is done";
    case SQLITE_FULL:
      return "make room on the disk of the state directory";
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
      return "check that the state directory exists and may be written";
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return "the ledger file is damaged: move it away, it is rebuilt from what EC2 shows";
    default:
      return "if it stays, move the ledger file away: it is rebuilt from what EC2 shows";
  }
}

/// A disk without room for the index of the write-ahead log is an "I/O error" to SQLite.
int plain_code(sqlite3* connection, int code) {
  const bool no_room = connection && code == SQLITE_IOERR &&
                       sqlite3_extended_errcode(connection) == SQLITE_IOERR_SHMSIZE;
  return no_room ? SQLITE_FULL : code;
}

tl::unexpected<Error> sql_error(sqlite3* connection, int code, const std::string& doing) {
  code = plain_code(connection, code);
  const std::string text = connection ? sqlite3_errmsg(connection) : sqlite3_errstr(code);
  return fail(kind_of(code), doing + ": " + text + "; " + remedy(code),
              "SQLITE_" + std::to_string(code));
}

SqlValue column_of(sqlite3_stmt* statement, int column) {
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_NULL:
      return std::monostate{};
    case SQLITE_INTEGER:
      return static_cast<std::int64_t>(sqlite3_column_int64(statement, column));
    default:
      break;
  }
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, column));
  return std::string(bytes ? bytes : "",
                     static_cast<std::size_t>(sqlite3_column_bytes(statement, column)));
}

int bind_value(sqlite3_stmt* statement, int index, const SqlValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value))
    return sqlite3_bind_int64(statement, index, *number);
  if (const auto* text = std::get_if<std::string>(&value))
    return sqlite3_bind_text64(statement, index, text->data(), text->size(), SQLITE_TRANSIENT,
                               SQLITE_UTF8);
  return sqlite3_bind_null(statement, index);
}

}  // namespace

std::string SqlRow::text(std::size_t column) const {
  if (const auto* text = std::get_if<std::string>(&columns.at(column))) return *text;
  if (const auto* number = std::get_if<std::int64_t>(&columns.at(column)))
    return std::to_string(*number);
  return {};
}

std::int64_t SqlRow::number(std::size_t column) const {
  const auto* number = std::get_if<std::int64_t>(&columns.at(column));
  return number ? *number : 0;
}

namespace {

sqlite3_stmt* statement_of(void* statement) {
  return static_cast<sqlite3_stmt*>(statement);
}

}  // namespace

std::string SqlCursor::text(int column) const {
  const auto* bytes =
      reinterpret_cast<const char*>(sqlite3_column_text(statement_of(statement_), column));
  if (bytes == nullptr) return {};
  return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_of(statement_), column))};
}

std::int64_t SqlCursor::number(int column) const {
  return sqlite3_column_int64(statement_of(statement_), column);
}

struct Database::State {
  struct Prepared {
    Statement statement;
    std::set<std::string> writes;  ///< tables
  };
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  // Statements go before their connection.
  Connection connection;
  std::unordered_map<std::string, Prepared, TextHash, std::equal_to<>> statements;
  std::recursive_mutex mutex;
  std::set<std::string> compiled_writes;  ///< of what was compiled last
  std::set<std::string> written;
  std::string watched;  ///< the table whose rows are noted
  std::set<std::int64_t> written_rows;

  /// SQLite asks for each thing that a statement will do while it compiles it.
  static int allow(void* state, int doing, const char* table, const char*, const char*,
                   const char*) {
    if (table != nullptr &&
        (doing == SQLITE_INSERT || doing == SQLITE_UPDATE || doing == SQLITE_DELETE))
      static_cast<State*>(state)->compiled_writes.insert(table);
    return SQLITE_OK;
  }

  static void note_row(void* state, int, const char*, const char* table, sqlite3_int64 row) {
    auto& self = *static_cast<State*>(state);
    if (self.watched == table) self.written_rows.insert(row);
  }

  Ok bind(sqlite3_stmt* statement, const std::vector<SqlValue>& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (const int code = bind_value(statement, static_cast<int>(i) + 1, values[i]);
          code != SQLITE_OK)
        return sql_error(connection.get(), code, "ledger value");
    return {};
  }

  Result<Prepared*> prepare(std::string_view sql) {
    if (const auto found = statements.find(sql); found != statements.end()) return &found->second;
    compiled_writes.clear();
    sqlite3_stmt* made = nullptr;
    const int code = sqlite3_prepare_v2(connection.get(), sql.data(), static_cast<int>(sql.size()),
                                        &made, nullptr);
    if (code != SQLITE_OK)
      return sql_error(connection.get(), code, "ledger statement \"" + std::string(sql) + "\"");
    const auto entry =
        statements.emplace(std::string(sql), Prepared{Statement(made), std::move(compiled_writes)});
    compiled_writes.clear();
    return &entry.first->second;
  }
};

Database::Database(std::shared_ptr<State> state) : state_(std::move(state)) {}

std::unique_lock<std::recursive_mutex> Database::lock() {
  return std::unique_lock(state_->mutex);
}

Result<Database> Database::open(const std::string& path) {
  auto state = std::make_shared<State>();
  sqlite3* raw = nullptr;
  // One thread uses it at a time: SQLite need not lock for each call.
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  // It holds the keys of nodes and operators' user-data; SQLite makes its other files like it.
  if (const int made = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600); made >= 0)
    ::close(made);
  const int code = sqlite3_open_v2(path.c_str(), &raw, kFlags, nullptr);
  state->connection.reset(raw);
  if (code != SQLITE_OK) return sql_error(raw, code, "opening the ledger " + path);
  sqlite3_busy_timeout(raw, kBusyTimeoutMs);
  sqlite3_set_authorizer(raw, &State::allow, state.get());
  Database database(std::move(state));
  // An intent has to be on the disk before its call goes out: full, not the WAL's default of
  // normal.
  const auto set_up = database.run_script(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; "
      "PRAGMA foreign_keys = ON;");
  if (!set_up) return fail(Error(set_up.error()).within("opening the ledger " + path));
  return database;
}

Ok Database::run_script(const std::string& sql) {
  const std::lock_guard guard(state_->mutex);
  char* message = nullptr;
  state_->compiled_writes.clear();
  const int code = sqlite3_exec(state_->connection.get(), sql.c_str(), nullptr, nullptr, &message);
  sqlite3_free(message);
  state_->written.merge(state_->compiled_writes);
  if (code != SQLITE_OK) return sql_error(state_->connection.get(), code, "ledger");
  return {};
}

namespace {

struct Reset {
  sqlite3_stmt* statement;
  ~Reset() {
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
  }
};

}  // namespace

Result<std::vector<SqlRow>> Database::query(std::string_view sql, std::vector<SqlValue> values) {
  const std::lock_guard guard(state_->mutex);
  TRY_ASSIGN(const auto* prepared, state_->prepare(sql));
  sqlite3_stmt* statement = prepared->statement.get();
  const Reset reset{statement};
  const int before = sqlite3_total_changes(state_->connection.get());
  TRY(state_->bind(statement, values));
  std::vector<SqlRow> rows;
  for (;;) {
    const int code = sqlite3_step(statement);
    if (code == SQLITE_DONE) {
      // What a statement found nothing to change in is as it was.
      if (!prepared->writes.empty() && sqlite3_total_changes(state_->connection.get()) != before)
        state_->written.insert(prepared->writes.begin(), prepared->writes.end());
      return rows;
    }
    if (code != SQLITE_ROW) return sql_error(state_->connection.get(), code, "ledger");
    SqlRow row;
    row.columns.reserve(static_cast<std::size_t>(sqlite3_column_count(statement)));
    for (int column = 0; column < sqlite3_column_count(statement); ++column)
      row.columns.push_back(column_of(statement, column));
    rows.push_back(std::move(row));
  }
}

Ok Database::each(std::string_view sql, const std::function<Ok(const SqlCursor&)>& take,
                  std::vector<SqlValue> values) {
  const std::lock_guard guard(state_->mutex);
  TRY_ASSIGN(const auto* prepared, state_->prepare(sql));
  sqlite3_stmt* statement = prepared->statement.get();
  const Reset reset{statement};
  TRY(state_->bind(statement, values));
  for (;;) {
    const int code = sqlite3_step(statement);
    if (code == SQLITE_DONE) return {};
    if (code != SQLITE_ROW) return sql_error(state_->connection.get(), code, "ledger");
    TRY(take(SqlCursor(statement)));
  }
}

Ok Database::run(std::string_view sql, std::vector<SqlValue> values) {
  TRY(query(sql, std::move(values)));
  return {};
}

std::int64_t Database::last_id() const {
  return sqlite3_last_insert_rowid(state_->connection.get());
}

int Database::changes() const {
  return sqlite3_changes(state_->connection.get());
}

Result<std::pair<std::int64_t, std::int64_t>> Database::version() {
  const std::lock_guard guard(state_->mutex);
  TRY_ASSIGN(const auto others, query("PRAGMA data_version"));
  return std::pair{others.empty() ? std::int64_t{0} : others.front().number(0),
                   std::int64_t{sqlite3_total_changes(state_->connection.get())}};
}

std::set<std::string> Database::take_written() {
  return std::exchange(state_->written, {});
}

void Database::watch_rows(std::string table) {
  state_->watched = std::move(table);
  sqlite3_update_hook(state_->connection.get(), &State::note_row, state_.get());
}

std::set<std::int64_t> Database::take_written_rows() {
  return std::exchange(state_->written_rows, {});
}

Result<Transaction> Transaction::begin(Database& database) {
  auto lock = database.lock();
  TRY(database.run("BEGIN IMMEDIATE"));
  return Transaction(database, std::move(lock));
}

Result<Transaction> Transaction::begin_reading(Database& database) {
  auto lock = database.lock();
  TRY(database.run("BEGIN"));
  return Transaction(database, std::move(lock));
}

Transaction::Transaction(Transaction&& other) noexcept
    : lock_(std::move(other.lock_)), database_(std::exchange(other.database_, nullptr)) {}

Transaction::~Transaction() {
  // What failed is undone; that the undoing may fail too changes nothing for the caller.
  if (database_) static_cast<void>(database_->run("ROLLBACK"));
}

Ok Transaction::commit() {
  TRY(database_->run("COMMIT"));
  database_ = nullptr;
  lock_.unlock();
  return {};
}

}  // namespace warmroot::manager
