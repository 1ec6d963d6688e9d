// See the header.
#include "tests/fleet_sim/ledger_shelf.hpp"

#include <sqlite3.h>
#include <unistd.h>

#include <atomic>

namespace warmroot::fleet {

namespace {

/// Names of files may be URIs, which can name SQLite's files in memory. Set before SQLite starts.
const bool uris = sqlite3_config(SQLITE_CONFIG_URI, 1) == SQLITE_OK;

manager::Database open(const std::string& name) {
  CHECK(uris);
  auto opened = manager::Database::open(name);
  CHECK(opened.has_value());
  return std::move(*opened);
}

}  // namespace

LedgerShelf::~LedgerShelf() {
  for (const auto& [name, database] : kept_) remove_files(name);
}

std::string LedgerShelf::new_name() {
  static std::atomic<unsigned> last{0};
  const std::string number = std::to_string(++last);
  const std::string name = directory_.empty() ? "file:/ledger-" + number + "?vfs=memdb"
                                              : directory_ + "/ledger-" + number + ".db";
  keep(name);
  return name;
}

void LedgerShelf::throw_away(const std::string& name) {
  kept_.erase(name);
  remove_files(name);
  keep(name);
}

Ok LedgerShelf::copy(const std::string& from, const std::string& to) {
  auto source = directory_.empty() ? std::nullopt : std::optional(open(from));
  return (source ? *source : *kept_.at(from)).run("VACUUM INTO '" + to + "'");
}

void LedgerShelf::keep(const std::string& name) {
  kept_.emplace(name, directory_.empty() ? std::optional(open(name)) : std::nullopt);
}

void LedgerShelf::remove_files(const std::string& name) const {
  if (directory_.empty()) return;
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) ::unlink((name + suffix).c_str());
}

}  // namespace warmroot::fleet
