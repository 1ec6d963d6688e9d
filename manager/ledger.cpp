// Writing the ledger. Each public function is one transaction, so that a crash leaves either all of
// it or nothing.
#include "manager/ledger.hpp"

#include <map>
#include <string_view>
#include <utility>

#include "bootstrap/base/words.hpp"
#include "manager/ledger_view.hpp"
#include "manager/schema_sql.hpp"

namespace warmroot::manager {

namespace {

/// PRAGMA user_version of schema.sql.
constexpr int kSchemaVersion = 17;
/// Rows that are over are kept for people to read, within bounds.
constexpr std::chrono::hours kKeepSettled{24 * 7};
constexpr std::int64_t kKeepHistory = 10'000;

std::string event_of(const core::RecordLease& record) {
  return "lease of " + record.lease.volume_id + " on " + record.lease.instance_id + ": " +
         std::string(core::to_string(record.lease.state)) + " (" + record.why + ")";
}

Ok create_schema(Database& database, const LedgerPins& pins, Instant now) {
  TRY_ASSIGN(auto transaction, Transaction::begin(database));
  TRY(database.run_script(kSchemaSql));
  TRY(database.run("INSERT INTO meta VALUES ('deployment', ?), ('region', ?), ('created_ms', ?)",
                   {pins.deployment, pins.region, std::to_string(to_sql(now))}));
  TRY(database.run("PRAGMA user_version = " + std::to_string(kSchemaVersion)));
  return transaction.commit();
}

/// The part of the schema that makes a table and its index.
std::string tables_from(const char* begin) {
  const std::string schema(kSchemaSql);
  const auto first = schema.find(begin);
  return schema.substr(first, schema.find("\n\n", first) - first);
}

/// Version 1 did not know departures, version 2 no volumes but nodes',
/// version 3 neither refused offers nor how launches fared, version 4 no orders,
/// version 5 no warnings of EC2's, version 6 not of which volume a departure speaks,
/// version 7 not when a key was last used, version 8 not when an attempt had no answer, version 9
/// no volumes that were left unclean, version 10 not how warm volumes are, version 11 only one code
/// of a throttle, version 12 had no index of tokens that were tried, version 13 not of which call a
/// refusal is, version 14 not which instances were launched with a volume, version 15 of no release
/// that it was no clean end, version 16 of none but of a disk that was gone.
Ok migrate(Database& database, std::int64_t from) {
  TRY_ASSIGN(auto transaction, Transaction::begin(database));
  if (from < 2)
    TRY(
        database.run("CREATE TABLE departures (instance_id TEXT PRIMARY KEY, released INTEGER NOT "
                     "NULL, since_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID"));
  if (from < 3)
    TRY(database.run("ALTER TABLE volumes ADD COLUMN role TEXT NOT NULL DEFAULT 'node'"));
  if (from < 4)
    TRY(
        database.run_script("CREATE TABLE refused_offers (instance_type TEXT NOT NULL, zone TEXT "
                            "NOT NULL, spot INTEGER NOT NULL, since_ms INTEGER NOT NULL, last_ms "
                            "INTEGER NOT NULL, count INTEGER NOT NULL, code TEXT NOT NULL, "
                            "sentence TEXT NOT NULL, PRIMARY KEY (instance_type, zone, spot)) "
                            "STRICT, WITHOUT ROWID;"
                            "CREATE TABLE launch_streaks (pool TEXT PRIMARY KEY, failures INTEGER "
                            "NOT NULL, last_ms INTEGER NOT NULL, reason TEXT NOT NULL) STRICT, "
                            "WITHOUT ROWID;"
                            "ALTER TABLE instances ADD COLUMN fate TEXT NOT NULL DEFAULT 'fresh' "
                            "CHECK (fate IN ('fresh', 'proved', 'failed'));"
                            "UPDATE instances SET fate = 'proved'"));
  if (from < 5) TRY(database.run_script(tables_from("CREATE TABLE orders")));
  if (from < 6)
    TRY(database.run_script(
        "ALTER TABLE departures ADD COLUMN reclaim_ms INTEGER;"
        "ALTER TABLE departures ADD COLUMN advised INTEGER NOT NULL DEFAULT 0"));
  if (from < 7)
    TRY(database.run("ALTER TABLE departures ADD COLUMN volume_id TEXT NOT NULL DEFAULT ''"));
  if (from < 8)
    TRY(database.run("ALTER TABLE keys ADD COLUMN heard_ms INTEGER NOT NULL DEFAULT 0"));
  if (from < 9)
    TRY(
        database.run_script("ALTER TABLE intents ADD COLUMN silent_ms INTEGER NOT NULL DEFAULT 0;"
                            "UPDATE intents SET silent_ms = max(recorded_ms, tried_ms)"));
  if (from < 10) TRY(database.run_script(tables_from("CREATE TABLE unclean_volumes")));
  if (from < 11)
    TRY(database.run("ALTER TABLE volumes ADD COLUMN warmth INTEGER NOT NULL DEFAULT -1"));
  if (from < 12)
    TRY(
        database.run_script("ALTER TABLE failures ADD COLUMN throttled INTEGER NOT NULL DEFAULT 0;"
                            "UPDATE failures SET throttled = code = 'RequestLimitExceeded'"));
  if (from < 13)
    TRY(
        database.run("CREATE INDEX IF NOT EXISTS intents_tried ON intents (token) WHERE state = "
                     "'refused' AND attempts > 0"));
  if (from < 14)
    TRY(database.run("ALTER TABLE failures ADD COLUMN token TEXT NOT NULL DEFAULT ''"));
  if (from < 15)
    TRY(database.run("ALTER TABLE instances ADD COLUMN with_volume INTEGER NOT NULL DEFAULT 0"));
  if (from < 16)
    TRY(database.run("ALTER TABLE departures ADD COLUMN disk_gone INTEGER NOT NULL DEFAULT 0"));
  if (from < 17) TRY(database.run("ALTER TABLE departures RENAME COLUMN disk_gone TO unclean"));
  TRY(database.run("PRAGMA user_version = " + std::to_string(kSchemaVersion)));
  return transaction.commit();
}

Result<std::string> pin_of(Database& database, const std::string& key) {
  TRY_ASSIGN(const auto rows,
             database.query("SELECT value FROM meta WHERE key = ?", {SqlValue(key)}));
  return rows.empty() ? std::string{} : rows.front().text(0);
}

Ok check_pin(Database& database, const std::string& key, const std::string& wanted) {
  TRY_ASSIGN(const std::string pinned, pin_of(database, key));
  if (pinned == wanted) return {};
  return fail(ErrorKind::misconfigured, "this state directory belongs to " + key + " " + pinned +
                                            ", not " + wanted + ": give another --state");
}

Ok forget_old(Database& database, Instant now) {
  const auto before = to_sql(now - kKeepSettled);
  TRY(database.run("DELETE FROM intents WHERE state IN ('accepted', 'refused') AND settled_ms < ?",
                   {before}));
  TRY(
      database.run("DELETE FROM leases WHERE state = 'ended' AND since_ms < ? AND instance_id "
                   "NOT IN (SELECT instance_id FROM instances WHERE gone_ms IS NULL)",
                   {before}));
  TRY(
      database.run("DELETE FROM unclean_volumes WHERE volume_id IN (SELECT volume_id FROM volumes "
                   "WHERE gone_ms IS NOT NULL)"));
  TRY(database.run("DELETE FROM orders WHERE state <> 'open' AND settled_ms < ?", {before}));
  TRY(database.run("DELETE FROM failures WHERE last_ms < ?", {before}));
  TRY(database.run("DELETE FROM refused_offers WHERE last_ms < ?", {before}));
  TRY(database.run("DELETE FROM volumes WHERE gone_ms < ?", {before}));
  TRY(
      database.run("DELETE FROM refused_devices WHERE time_ms < ? AND instance_id NOT IN (SELECT "
                   "instance_id FROM instances WHERE gone_ms IS NULL) AND instance_id NOT IN "
                   "(SELECT instance_id FROM leases WHERE state <> 'ended')",
                   {before}));
  // What leases and refusals say of one that is gone counts for nothing as long as that is known.
  TRY(
      database.run("DELETE FROM instances WHERE gone_ms < ? AND instance_id NOT IN (SELECT "
                   "instance_id FROM leases) AND instance_id NOT IN (SELECT instance_id FROM "
                   "refused_devices)",
                   {before}));
  // Of instances that others launched nobody records the end.
  TRY(
      database.run("DELETE FROM departures WHERE since_ms < ? AND instance_id NOT IN "
                   "(SELECT instance_id FROM instances WHERE gone_ms IS NULL) AND instance_id NOT "
                   "IN (SELECT instance_id FROM leases WHERE state <> 'ended')",
                   {before}));
  TRY(
      database.run("DELETE FROM keys WHERE heard_ms < ? AND instance_id NOT IN "
                   "(SELECT instance_id FROM instances WHERE gone_ms IS NULL) AND instance_id NOT "
                   "IN (SELECT instance_id FROM leases WHERE state <> 'ended')",
                   {before}));
  return database.run("DELETE FROM history WHERE id <= (SELECT max(id) FROM history) - ?",
                      {kKeepHistory});
}

/// A page that is damaged may be read first in the middle of a tick: rather now.
Ok check_pages(Database& database, const std::string& path) {
  const auto found = database.query("PRAGMA quick_check(1)");
  if (!found && found.error().kind != ErrorKind::broken) return fail(found.error());
  std::string text = !found           ? found.error().message()
                     : found->empty() ? "no answer"
                                      : found->front().text(0);
  if (text == "ok") return {};
  text.erase(0, text.rfind('\n') + 1);  // before it stands which database, and we have one
  return fail(ErrorKind::broken, "the ledger " + path + " is damaged: move it and its -wal file " +
                                     "away, it is rebuilt from what EC2 shows (" + text + ")");
}

}  // namespace

Ledger::Ledger(Database database)
    : database_(std::move(database)), viewed_(std::make_shared<Viewed>()) {
  database_.watch_rows("leases");
}

Result<Ledger> Ledger::open(const std::string& path, const LedgerPins& pins, Instant now) {
  TRY_ASSIGN(auto database, Database::open(path));
  TRY(check_pages(database, path));
  TRY_ASSIGN(const auto version, database.query("PRAGMA user_version"));
  const auto found = version.front().number(0);
  if (found > kSchemaVersion)
    return fail(ErrorKind::misconfigured,
                "ledger " + path + " was written by a newer warmroot (version " +
                    std::to_string(found) + "): use that one, or move the file away");
  if (found == 0) TRY(create_schema(database, pins, now));
  if (found > 0 && found < kSchemaVersion) TRY(migrate(database, found));
  TRY(check_pin(database, "deployment", pins.deployment));
  TRY(check_pin(database, "region", pins.region));
  TRY_ASSIGN(auto transaction, Transaction::begin(database));
  TRY(forget_old(database, now));
  TRY(transaction.commit());
  return Ledger(std::move(database));
}

Ok Ledger::prune(Instant now) {
  TRY_ASSIGN(auto transaction, Transaction::begin(database_));
  TRY(forget_old(database_, now));
  return commit(transaction, "what is forgotten");
}

Ok Ledger::pin_account(const std::string& account) {
  TRY(database_.run("INSERT OR IGNORE INTO meta VALUES ('account', ?)", {account}));
  return check_pin(database_, "account", account);
}

Result<std::string> Ledger::account() {
  return pin_of(database_, "account");
}

Ok Ledger::commit(Transaction& transaction, const char* what) {
  if (on_write) on_write(what);
  TRY(transaction.commit());
  if (on_write) on_write(what);
  return {};
}

Ok Ledger::begin_anew(Instant now) {
  TRY_ASSIGN(auto transaction, Transaction::begin(database_));
  TRY(database_.run("DELETE FROM watches"));
  TRY(
      database_.run("UPDATE meta SET value = ?2 WHERE key = 'created_ms' AND "
                    "CAST(value AS INTEGER) > ?1",
                    {to_sql(now), std::to_string(to_sql(now))}));
  TRY(database_.run("INSERT OR REPLACE INTO meta VALUES ('begun_ms', ?)",
                    {std::to_string(to_sql(now))}));
  for (const auto& [table, column] :
       std::initializer_list<std::pair<const char*, const char*>>{{"volumes", "recorded_ms"},
                                                                  {"instances", "recorded_ms"},
                                                                  {"departures", "since_ms"},
                                                                  {"unclean_volumes", "since_ms"},
                                                                  {"leases", "since_ms"},
                                                                  {"intents", "recorded_ms"},
                                                                  {"intents", "tried_ms"},
                                                                  {"intents", "silent_ms"},
                                                                  {"failures", "last_ms"},
                                                                  {"refused_offers", "since_ms"},
                                                                  {"refused_offers", "last_ms"},
                                                                  {"launch_streaks", "last_ms"},
                                                                  {"keys", "heard_ms"},
                                                                  {"orders", "asked_ms"}}) {
    const std::string name(column);
    TRY(database_.run(
        "UPDATE " + std::string(table) + " SET " + name + " = ?1 WHERE " + name + " > ?1",
        {to_sql(now)}));
  }
  TRY(database_.run("UPDATE departures SET reclaim_ms = ?1 WHERE reclaim_ms > ?1",
                    {to_sql(now + core::kSpotNotice)}));
  return commit(transaction, "a beginning");
}

Result<core::LedgerView> Ledger::view() {
  TRY_ASSIGN(const auto shared, shared_view());
  return *shared;
}

Result<std::shared_ptr<const core::LedgerView>> Ledger::shared_view() {
  TRY_ASSIGN(const auto version, database_.version());
  if (version != viewed_version_) TRY(read_what_changed());
  return std::shared_ptr<const core::LedgerView>(viewed_, &viewed_->view);
}

/// What others have written is not known by table: then everything is read.
Ok Ledger::read_what_changed() {
  const auto known = std::exchange(viewed_version_, {-1, -1});  // until all of it is read
  TRY_ASSIGN(auto reading, Transaction::begin_reading(database_));
  TRY_ASSIGN(const auto version, database_.version());  // of the moment that is read
  const Written written{database_.take_written(), database_.take_written_rows()};
  if (version.first == known.first) {
    if (viewed_.use_count() > 1) viewed_ = std::make_shared<Viewed>(*viewed_);
    TRY(read_again(database_, written, *viewed_));
  } else {
    TRY_ASSIGN(auto viewed, read_view(database_));
    viewed_ = std::make_shared<Viewed>(std::move(viewed));
  }
  TRY(reading.commit());
  viewed_version_ = version;
  return {};
}

// ---- a plan ----

Ok Ledger::write_lease(const core::RecordLease& record, Instant now) {
  const auto& lease = record.lease;
  // A name that was given once is not given again on that instance, whatever comes after it.
  TRY(
      database_.run("INSERT OR IGNORE INTO refused_devices SELECT instance_id, device, ?4 FROM "
                    "leases WHERE volume_id = ?1 AND instance_id = ?2 AND state <> 'ended' AND "
                    "device NOT IN ('', ?3)",
                    {lease.volume_id, lease.instance_id, lease.device, to_sql(now)}));
  TRY(
      database_.run("UPDATE leases SET state = ?, device = ?, since_ms = ? "
                    "WHERE volume_id = ? AND instance_id = ? AND state <> 'ended'",
                    {std::string(core::to_string(lease.state)), lease.device, to_sql(lease.since),
                     lease.volume_id, lease.instance_id}));
  if (database_.changes() == 0)
    TRY(
        database_.run("INSERT INTO leases (pool, node, volume_id, instance_id, device, state, "
                      "since_ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
                      {lease.pool, lease.node, lease.volume_id, lease.instance_id, lease.device,
                       std::string(core::to_string(lease.state)), to_sql(lease.since)}));
  if (lease.state != core::LeaseState::reserved && lease.state != core::LeaseState::ended)
    TRY(database_.run("UPDATE volumes SET ever_used = 1 WHERE volume_id = ? AND ever_used = 0",
                      {lease.volume_id}));
  return add_history({now, lease.pool, lease.node, event_of(record)});
}

Ok Ledger::write_volume(const core::RecordVolume& record) {
  const auto& volume = record.volume;
  return database_.run(
      "INSERT INTO volumes (volume_id, pool, node, zone, recorded_ms, seen, ever_used, role) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (volume_id) DO UPDATE SET pool = ?2, "
      "node = ?3, zone = ?4, seen = ?6, ever_used = max(ever_used, ?7), role = ?8, gone_ms = NULL",
      {record.volume_id, volume.pool, volume.node, volume.zone, to_sql(volume.recorded),
       std::int64_t{volume.seen}, std::int64_t{volume.ever_used},
       std::string(core::to_string(volume.role))});
}

Ok Ledger::write_volume_gone(const core::RecordVolumeGone& record, Instant now) {
  TRY_ASSIGN(const auto rows,
             database_.query("SELECT pool, node, ever_used, zone, role FROM volumes "
                             "WHERE volume_id = ? AND gone_ms IS NULL",
                             {record.volume_id}));
  if (rows.empty()) return {};
  TRY(database_.run("UPDATE volumes SET gone_ms = ? WHERE volume_id = ?",
                    {to_sql(now), record.volume_id}));
  TRY(database_.run("DELETE FROM unclean_volumes WHERE volume_id = ?", {record.volume_id}));
  const auto pool = rows.front().text(0);
  const auto role = core::volume_role_from(rows.front().text(4));
  const bool of_stock = role == core::VolumeRole::spare || role == core::VolumeRole::golden;
  const auto node = of_stock
                        ? core::to_string(core::StockSubject{pool, *role, rows.front().text(3)})
                        : rows.front().text(1);
  if (rows.front().number(2) == 0) {
    // Accepted and then gone without a session: a key that EC2 may not use ends like this, again
    // and again.
    Outcome vanished;
    vanished.code = "VolumeVanished";
    vanished.sentence = "CreateVolume for " + node + ": EC2 accepted it, but " + record.volume_id +
                        " vanished; check that its KMS key may be used, and who deletes volumes";
    TRY(count_failure(core::failure_key("CreateVolume", node), vanished, "", now));
  }
  return add_history({now, pool, node, "volume " + record.volume_id + " is gone: " + record.why});
}

Ok Ledger::write_unclean(const core::RecordUnclean& record, Instant now) {
  const auto& [instance_id, since, beyond_repair, tagged] = record.unclean;
  TRY(database_.run(
      "INSERT OR REPLACE INTO unclean_volumes VALUES (?, ?, ?, ?, ?)",
      {record.volume_id, instance_id, to_sql(since), beyond_repair, std::int64_t{tagged}}));
  // Of the others there is a second record once their tag shows.
  if (!tagged && !beyond_repair.empty()) return {};
  return add_history({now, "", "",
                      "volume " + record.volume_id + " was left unclean by " + instance_id +
                          (beyond_repair.empty() ? "" : ": " + beyond_repair)});
}

Ok Ledger::write_record(const core::Record& record, Instant now) {
  if (const auto* lease = std::get_if<core::RecordLease>(&record)) return write_lease(*lease, now);
  if (const auto* volume = std::get_if<core::RecordVolume>(&record)) return write_volume(*volume);
  if (const auto* warmth = std::get_if<core::RecordWarmth>(&record))
    return database_.run("UPDATE volumes SET warmth = ? WHERE volume_id = ?",
                         {std::int64_t{warmth->percent}, warmth->volume_id});
  if (const auto* gone = std::get_if<core::RecordVolumeGone>(&record))
    return write_volume_gone(*gone, now);
  if (const auto* instance = std::get_if<core::RecordInstance>(&record))
    return database_.run(
        "INSERT INTO instances (instance_id, pool, zone, recorded_ms, with_volume) VALUES (?, ?, "
        "?, ?, ?) "
        // Given up and shown again: another account's answers, or a server that was behind.
        "ON CONFLICT (instance_id) DO UPDATE SET gone_ms = NULL",
        {instance->instance_id, instance->instance.pool, instance->instance.zone,
         to_sql(instance->instance.recorded), std::int64_t{instance->instance.with_volume}});
  if (const auto* leaves = std::get_if<core::RecordDeparture>(&record))
    return database_.run(
        "INSERT INTO departures (instance_id, released, since_ms, reclaim_ms, advised, volume_id, "
        "unclean) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (instance_id) DO UPDATE SET "
        "released = max(released AND ?6 IN ('', volume_id), ?2), since_ms = ?3, reclaim_ms = "
        "coalesce(reclaim_ms, ?4), "
        "advised = min(advised, ?5), volume_id = iif(?6 = '', volume_id, ?6), "
        "unclean = iif(?2, ?7, unclean AND ?6 IN ('', volume_id))",
        {leaves->instance_id, std::int64_t{leaves->departure.released},
         to_sql(leaves->departure.since),
         leaves->departure.reclaim_at ? SqlValue(to_sql(*leaves->departure.reclaim_at))
                                      : SqlValue(),
         std::int64_t{leaves->departure.advised}, leaves->departure.volume_id,
         std::int64_t{leaves->departure.unclean}});
  if (const auto* fate = std::get_if<core::RecordFate>(&record)) return write_fate(*fate, now);
  if (const auto* met = std::get_if<core::RecordOfferMet>(&record)) return forget_refused(*met);
  if (const auto* order = std::get_if<core::RecordOrderSettled>(&record))
    return settle_order(*order, now);
  if (const auto* unclean = std::get_if<core::RecordUnclean>(&record))
    return write_unclean(*unclean, now);
  if (const auto* over = std::get_if<core::RecordUncleanOver>(&record)) {
    TRY(database_.run("DELETE FROM unclean_volumes WHERE volume_id = ?", {over->volume_id}));
    if (over->why.empty()) return {};
    return add_history({now, "", "", "volume " + over->volume_id + " " + over->why});
  }
  if (const auto* again = std::get_if<core::RecordDepartureOver>(&record))
    return database_.run("DELETE FROM departures WHERE instance_id = ?", {again->instance_id});
  const auto& gone = std::get<core::RecordInstanceGone>(record);
  TRY(database_.run("DELETE FROM departures WHERE instance_id = ?", {gone.instance_id}));
  return database_.run("UPDATE instances SET gone_ms = ? WHERE instance_id = ?",
                       {to_sql(now), gone.instance_id});
}

Ok Ledger::write_records(const core::Plan& plan, Instant now) {
  using Key = std::pair<std::string_view, std::string_view>;
  std::map<Key, bool> over;  // by volume and instance: the last record ends it
  for (const auto& record : plan.records)
    if (const auto* entry = std::get_if<core::RecordLease>(&record))
      over[{entry->lease.volume_id, entry->lease.instance_id}] =
          entry->lease.state == core::LeaseState::ended;
  // Ends first: a volume's next lease may be in the same plan, and the index allows one at a time.
  // What such a lease was before its end, in the same plan, would come after it and open it again.
  for (const bool ends : {true, false})
    for (const auto& record : plan.records) {
      const auto* entry = std::get_if<core::RecordLease>(&record);
      const bool is_end = entry && entry->lease.state == core::LeaseState::ended;
      if (is_end != ends) continue;
      if (entry && !is_end && over.at({entry->lease.volume_id, entry->lease.instance_id})) continue;
      TRY(write_record(record, now));
    }
  return {};
}

Ok Ledger::write_watches(const core::Plan& plan, Instant now) {
  TRY_ASSIGN(const auto known, database_.query("SELECT key FROM watches"));
  for (const auto& row : known)
    if (!plan.watches.contains(row.text(0)))
      TRY(database_.run("DELETE FROM watches WHERE key = ?", {row.text(0)}));
  for (const auto& key : plan.watches)
    TRY(
        database_.run("INSERT INTO watches VALUES (?, ?, 1) "
                      "ON CONFLICT (key) DO UPDATE SET looks = looks + 1",
                      {key, to_sql(now)}));
  return {};
}

Result<std::vector<core::Intent>> Ledger::record(const core::Plan& plan,
                                                 const std::vector<aws::EncodedCall>& calls,
                                                 Instant now) {
  CHECK(calls.size() == plan.actions.size());
  TRY_ASSIGN(auto transaction, Transaction::begin(database_));
  TRY(check_orders(plan));
  TRY(write_records(plan, now));
  TRY(write_watches(plan, now));
  std::vector<core::Intent> intents;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    TRY_ASSIGN(auto intent, write_intent(plan.actions[i], calls[i], now));
    intents.push_back(std::move(intent));
  }
  TRY(commit(transaction, "plan"));
  return intents;
}

// ---- the operator's word, and words for people ----

Result<bool> Ledger::pause(const std::string& pool, Instant now) {
  TRY_ASSIGN(auto transaction, Transaction::begin(database_));
  TRY(database_.run("INSERT OR IGNORE INTO paused_pools VALUES (?, ?)", {pool, to_sql(now)}));
  const bool changed = database_.changes() > 0;
  if (changed) TRY(add_history({now, pool, "", "paused by the operator"}));
  TRY(commit(transaction, "a pause"));
  return changed;
}

Result<bool> Ledger::resume(const std::string& pool, Instant now) {
  TRY_ASSIGN(auto transaction, Transaction::begin(database_));
  TRY(database_.run("DELETE FROM paused_pools WHERE pool = ?", {pool}));
  const bool was_paused = database_.changes() > 0;
  TRY(database_.run("DELETE FROM launch_streaks WHERE pool = ?", {pool}));
  const bool changed = was_paused || database_.changes() > 0;
  if (changed) TRY(add_history({now, pool, "", "resumed by the operator"}));
  TRY(commit(transaction, "a resumption"));
  return changed;
}

Result<std::vector<HistoryEntry>> Ledger::history(int at_most) {
  TRY_ASSIGN(const auto rows, database_.query("SELECT time_ms, pool, node, event FROM history "
                                              "ORDER BY id DESC LIMIT ?",
                                              {std::int64_t{at_most}}));
  std::vector<HistoryEntry> entries;
  for (const auto& row : rows)
    entries.push_back({instant_from_sql(row.number(0)), row.text(1), row.text(2), row.text(3)});
  return entries;
}

Ok Ledger::add_history(const HistoryEntry& entry) {
  return database_.run("INSERT INTO history (time_ms, pool, node, event) VALUES (?, ?, ?, ?)",
                       {to_sql(entry.time), entry.pool, entry.node, entry.event});
}

}  // namespace warmroot::manager
