// Where the ledgers of a world lie: SQLite's own files in memory, which each connection of this
// program opens by name. A simulated process dies between two statements, and what it had not
// committed is undone as it would be on a disk; loss of power, against which a disk and its
// write-ahead log protect, is not simulated. ledger_file_test and ledger_disk_test have files.
#pragma once

#include <map>
#include <string>

#include "manager/sqlite.hpp"

namespace warmroot::fleet {

class LedgerShelf {
 public:
  /// A new name for Database::open. What is kept under it stays until it is thrown away.
  std::string new_name();
  /// What it held is gone, and it is empty. Requires: no other connection has it open.
  void throw_away(const std::string& name);
  /// Copies what `from` holds into `to`, which must be empty.
  Ok copy(const std::string& from, const std::string& to);

 private:
  std::map<std::string, manager::Database> kept_;  ///< such a file lives while somebody has it open
};

}  // namespace warmroot::fleet
