// See the header.
#include "tests/fleet_sim/ledger_shelf.hpp"

#include <sqlite3.h>

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

std::string LedgerShelf::new_name() {
  static std::atomic<unsigned> last{0};
  const std::string name = "file:/ledger-" + std::to_string(++last) + "?vfs=memdb";
  kept_.emplace(name, open(name));
  return name;
}

void LedgerShelf::throw_away(const std::string& name) {
  kept_.erase(name);
  kept_.emplace(name, open(name));
}

Ok LedgerShelf::copy(const std::string& from, const std::string& to) {
  return kept_.at(from).run("VACUUM INTO '" + to + "'");
}

}  // namespace warmroot::fleet
