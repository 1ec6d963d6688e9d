// The report server's keys, kept in the ledger's file, so that a replayed report stays a replay
// after a restart. A connection of its own, because the server's threads use it beside the
// reconciler.
#pragma once

#include <functional>
#include <mutex>

#include "manager/reports_board.hpp"
#include "manager/sqlite.hpp"

namespace warmroot::manager {

class LedgerKeys : public KeyStore {
 public:
  using Clock = std::function<Instant()>;
  /// `path` is that of a Ledger which was opened before. `now` tells when a key was last used.
  static Result<std::unique_ptr<LedgerKeys>> open(const std::string& path, Clock now);

  Result<bool> add_key(const std::string& instance_id, const Secret& key_hex) override;
  Ok replace_key(const std::string& instance_id, const Secret& key_hex) override;
  Result<bool> replace_unused_key(const std::string& instance_id, const Secret& key_hex) override;
  Result<std::optional<Secret>> key_of(const std::string& instance_id) override;
  Result<Turn> advance(const std::string& instance_id, std::uint64_t sequence) override;
  Ok keep_departure(const core::NodeReport& report) override;

 private:
  LedgerKeys(Database database, Clock now) : database_(std::move(database)), now_(std::move(now)) {}
  std::int64_t now_ms() const { return now_().time_since_epoch().count(); }

  std::mutex mutex_;
  Database database_;
  Clock now_;
};

}  // namespace warmroot::manager
