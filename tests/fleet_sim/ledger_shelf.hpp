// Where the ledgers of a world lie: SQLite's own files in memory, which each connection of this
// program opens by name, or files in a directory. A simulated process dies between two statements,
// and what it had not committed is undone; loss of power, against which a disk and its write-ahead
// log protect, is not simulated. ledger_file_test and ledger_disk_test have that.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "manager/sqlite.hpp"

namespace warmroot::fleet {

class LedgerShelf {
 public:
  /// In `directory`, which exists; in memory where it is empty.
  explicit LedgerShelf(std::string directory) : directory_(std::move(directory)) {}
  ~LedgerShelf();
  LedgerShelf(const LedgerShelf&) = delete;
  LedgerShelf& operator=(const LedgerShelf&) = delete;

  /// A new name for Database::open. What is kept under it stays until it is thrown away.
  std::string new_name();
  /// What it held is gone, and it is empty. Requires: no other connection has it open.
  void throw_away(const std::string& name);
  /// Copies what `from` holds into `to`, which must be empty.
  Ok copy(const std::string& from, const std::string& to);

 private:
  void keep(const std::string& name);
  void remove_files(const std::string& name) const;

  const std::string directory_;
  /// By name. A file in memory lives while somebody has it open; one on a disk is opened by whoever
  /// needs it.
  std::map<std::string, std::optional<manager::Database>> kept_;
};

}  // namespace warmroot::fleet
