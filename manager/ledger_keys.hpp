// The report server's keys, kept in the ledger's file, so that a replayed report stays a replay
// after a restart. The reconciler's own connection, so that a report, of which it has nothing to
// read, does not make it read the whole ledger again.
#pragma once

#include <functional>

#include "manager/ledger.hpp"
#include "manager/reports_board.hpp"
#include "manager/sqlite.hpp"

namespace warmroot::manager {

class LedgerKeys : public KeyStore {
 public:
  using Clock = std::function<Instant()>;
  /// Of the ledger's file, from any thread. `now` tells when a key was last used.
  LedgerKeys(const Ledger& ledger, Clock now) : database_(ledger.database_), now_(std::move(now)) {}

  Result<bool> add_key(const std::string& instance_id, const Secret& key_hex) override;
  Ok replace_key(const std::string& instance_id, const Secret& key_hex) override;
  Result<bool> replace_unused_key(const std::string& instance_id, const Secret& key_hex) override;
  Result<std::optional<Secret>> key_of(const std::string& instance_id) override;
  Result<Turn> advance(const std::string& instance_id, std::uint64_t sequence) override;
  Ok keep_departure(const core::NodeReport& report) override;

 private:
  std::int64_t now_ms() const { return now_().time_since_epoch().count(); }

  Database database_;
  Clock now_;
};

}  // namespace warmroot::manager
