// Reading the ledger: rows into the core's words. Used by ledger.cpp alone.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "manager/core/model.hpp"
#include "manager/sqlite.hpp"

namespace warmroot::manager {

/// What was read, and the rows that its leases are from, in the same order.
struct Viewed {
  core::LedgerView view;
  std::vector<std::int64_t> lease_rows;
};

/// What has been written since something was read.
struct Written {
  std::set<std::string> tables;
  std::set<std::int64_t> lease_rows;
};

/// Reads again what was written. Of the leases, which are thousands while a tick changes dozens,
/// and of the device names that follow from them, only those rows are.
Ok read_again(Database& database, const Written& written, Viewed& viewed);
Result<Viewed> read_view(Database& database);

std::int64_t to_sql(Instant instant);
Instant instant_from_sql(std::int64_t milliseconds);
std::vector<std::string> split_words(const std::string& text);

}  // namespace warmroot::manager
