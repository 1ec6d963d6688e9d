// See the header. What takes two statements holds the connection meanwhile.
#include "manager/ledger_keys.hpp"

namespace warmroot::manager {

Result<bool> LedgerKeys::add_key(const std::string& instance_id, const Secret& key_hex) {
  const auto lock = database_.lock();
  TRY(database_.run("INSERT OR IGNORE INTO keys (instance_id, key_hex, heard_ms) VALUES (?, ?, ?)",
                    {instance_id, key_hex.reveal(), now_ms()}));
  return database_.changes() > 0;
}

Ok LedgerKeys::replace_key(const std::string& instance_id, const Secret& key_hex) {
  const auto lock = database_.lock();
  return database_.run(
      "INSERT OR REPLACE INTO keys (instance_id, key_hex, heard_ms) VALUES (?, ?, ?)",
      {instance_id, key_hex.reveal(), now_ms()});
}

Result<bool> LedgerKeys::replace_unused_key(const std::string& instance_id, const Secret& key_hex) {
  const auto lock = database_.lock();
  TRY(
      database_.run("UPDATE keys SET key_hex = ?2, heard_ms = ?3 "
                    "WHERE instance_id = ?1 AND last_sequence = ''",
                    {instance_id, key_hex.reveal(), now_ms()}));
  return database_.changes() > 0;
}

Result<std::optional<Secret>> LedgerKeys::key_of(const std::string& instance_id) {
  const auto lock = database_.lock();
  TRY_ASSIGN(const auto rows,
             database_.query("SELECT key_hex FROM keys WHERE instance_id = ?", {instance_id}));
  if (rows.empty()) return std::nullopt;
  return Secret(rows.front().text(0));
}

Result<Turn> LedgerKeys::advance(const std::string& instance_id, std::uint64_t sequence) {
  const auto lock = database_.lock();
  // Decimal numbers without leading zeros: the longer is the greater.
  TRY(
      database_.run("UPDATE keys SET last_sequence = ?2, heard_ms = ?3 WHERE instance_id = ?1 AND "
                    "(length(last_sequence), last_sequence) < (length(?2), ?2)",
                    {instance_id, std::to_string(sequence), now_ms()}));
  if (database_.changes() > 0) return Turn::fresh;
  TRY_ASSIGN(
      const auto rows,
      database_.query("SELECT last_sequence FROM keys WHERE instance_id = ?", {instance_id}));
  const bool replayed = !rows.empty() && rows.front().text(0) == std::to_string(sequence);
  return replayed ? Turn::replayed : Turn::late;
}

Ok LedgerKeys::keep_departure(const core::NodeReport& report) {
  const bool released = report.stage == NodeStage::released;
  if (!released && report.stage != NodeStage::draining) return {};
  // Both or none, or a restart in between would have the volume detached and not set aside.
  TRY_ASSIGN(auto transaction, Transaction::begin(database_));
  if (released && report.reason == kUncleanBeyondRepair)
    TRY(
        database_.run("INSERT INTO unclean_volumes SELECT ?2, ?1, ?3, ?4, 0 WHERE EXISTS (SELECT 1 "
                      "FROM leases WHERE instance_id = ?1 AND volume_id = ?2 AND state IN "
                      "('attaching', 'checking', 'active', 'leaving')) ON CONFLICT (volume_id) DO "
                      "UPDATE SET instance_id = ?1, since_ms = ?3, beyond_repair = ?4, tagged = 0 "
                      "WHERE beyond_repair = ''",
                      {report.instance_id, report.volume_id,
                       report.received.time_since_epoch().count(), report.message}));
  // A report of a volume that the instance has no lease of any more says nothing about its present
  // one. A report without a volume, of a boot that has seen none, takes nothing back.
  TRY(database_.run(
      "INSERT INTO departures (instance_id, released, since_ms, volume_id, unclean) "
      "SELECT ?1, ?2, ?3, ?4, ?5 WHERE ?4 = '' OR NOT EXISTS (SELECT 1 FROM leases WHERE "
      "instance_id = ?1 AND volume_id <> ?4 AND state IN ('attaching', 'checking', 'active', "
      "'leaving')) "
      "ON CONFLICT (instance_id) DO UPDATE SET "
      "released = max(released AND ?4 IN ('', volume_id), ?2), "
      "volume_id = iif(?4 = '', volume_id, ?4), since_ms = iif(advised, ?3, since_ms), "
      "advised = 0, unclean = iif(?2, ?5, unclean AND ?4 IN ('', volume_id))",
      {report.instance_id, std::int64_t{released}, report.received.time_since_epoch().count(),
       report.volume_id, std::int64_t{released && ends_unclean(report.reason)}}));
  return transaction.commit();
}

}  // namespace warmroot::manager
