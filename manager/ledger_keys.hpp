// The report server's keys, kept in the ledger's file, so that a replayed report stays a replay
// after a restart. A connection of its own, because the server's threads use it beside the
// reconciler.
#pragma once

#include <mutex>

#include "manager/reports_board.hpp"
#include "manager/sqlite.hpp"

namespace warmroot::manager {

class LedgerKeys : public KeyStore {
 public:
  /// `path` is that of a Ledger which was opened before.
  static Result<std::unique_ptr<LedgerKeys>> open(const std::string& path);

  Result<bool> add_key(const std::string& instance_id, const Secret& key_hex) override;
  Result<std::optional<Secret>> key_of(const std::string& instance_id) override;
  Result<bool> advance(const std::string& instance_id, std::uint64_t sequence) override;
  Ok keep_departure(const core::NodeReport& report) override;

 private:
  explicit LedgerKeys(Database database) : database_(std::move(database)) {}

  std::mutex mutex_;
  Database database_;
};

}  // namespace warmroot::manager
