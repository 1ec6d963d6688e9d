// Reading the ledger: rows into the core's words. Used by ledger.cpp alone.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "manager/core/model.hpp"
#include "manager/sqlite.hpp"

namespace warmroot::manager {

/// Reads again what `view` holds of these tables.
Ok read_again(Database& database, const std::set<std::string>& tables, core::LedgerView& view);
Result<core::LedgerView> read_view(Database& database);

std::int64_t to_sql(Instant instant);
Instant instant_from_sql(std::int64_t milliseconds);
std::string join_words(const std::vector<std::string>& words);
std::vector<std::string> split_words(const std::string& text);

}  // namespace warmroot::manager
