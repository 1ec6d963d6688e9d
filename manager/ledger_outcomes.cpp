// A call in the ledger, before it is sent and after its outcome: what it made, what refused, which
// token is used up.
#include "bootstrap/base/words.hpp"
#include "manager/ledger.hpp"

#include "manager/core/offers.hpp"
#include "manager/core/plan.hpp"
#include "manager/ledger_view.hpp"

namespace warmroot::manager {

namespace {

/// Tokens found used up in a row before the node is backed off once; each costs one call.
constexpr std::int64_t kBurntAtOnce = 64;
/// Longer than any wait between two plans of the same call.
constexpr std::chrono::minutes kTriesCountFor{10};

/// What the volume of an accepted create is for.
core::VolumeRole role_of(const core::Intent& intent) {
  const auto stock = core::stock_subject_from(intent.nodes.empty() ? "" : intent.nodes.front());
  return stock ? stock->role : core::VolumeRole::node;
}

std::string node_of(const core::Intent& intent) {
  return role_of(intent) == core::VolumeRole::node ? joined(intent.nodes) : "";
}

/// Of what refusals and used tokens of a call are counted: its nodes, or else what it names, or
/// else its pool.
std::vector<std::string> subjects_of(const core::Intent& intent) {
  if (intent.nodes.empty() && intent.resources.empty()) return {intent.pool};
  return intent.nodes.empty() ? intent.resources : intent.nodes;
}

std::vector<std::string> failure_keys(const core::Intent& intent) {
  std::vector<std::string> keys;
  for (const auto& subject : subjects_of(intent))
    keys.push_back(core::failure_key(intent.call.action, subject));
  return keys;
}

}  // namespace

/// How often a call with this token has lately had no clear answer: one that is planned anew with
/// it goes on waiting longer and longer between its replays.
Result<int> Ledger::tried_before(const std::string& token, Instant now) {
  if (token.empty()) return 0;
  TRY_ASSIGN(const auto rows,
             database_.query("SELECT coalesce(max(attempts), 0) FROM intents WHERE token = ? AND "
                             "state = 'refused' AND attempts > 0 AND settled_ms > ?",
                             {token, to_sql(now - kTriesCountFor)}));
  return static_cast<int>(rows.front().number(0));
}

Result<core::Intent> Ledger::write_intent(const core::Action& action, const aws::EncodedCall& call,
                                          Instant now) {
  core::Intent intent;
  intent.call = call;
  intent.pool = action.pool;
  intent.nodes = action.nodes;
  intent.resources = core::resource_ids(action.mutation);
  intent.zone = action.zone;
  intent.token = core::token_of(action.mutation);
  intent.recorded = intent.silent = now;
  TRY_ASSIGN(intent.attempts, tried_before(intent.token, now));
  TRY(database_.run(
      "INSERT INTO intents (action, body, pool, nodes, resources, zone, token, reason, "
      "state, recorded_ms, silent_ms, attempts) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'open', ?9, ?9, ?10)",
      {call.action, call.body, intent.pool, joined(intent.nodes), joined(intent.resources),
       intent.zone, intent.token, action.reason, to_sql(now), std::int64_t{intent.attempts}}));
  intent.id = database_.last_id();
  const std::string node = intent.nodes.size() == 1 ? intent.nodes.front() : "";
  TRY(add_history({now, intent.pool, node,
                   call.action + " " + core::resource_of(action.mutation) + ": " + action.reason}));
  return intent;
}

/// Of several creates of one stock that are answered together the throttled one stays remembered,
/// whatever the others came to: what it may have made is still waited for.
Ok Ledger::count_failure(const std::string& key, const Outcome& outcome, const std::string& token,
                         Instant now) {
  return database_.run(
      "INSERT INTO failures VALUES (?1, 1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (key) DO UPDATE SET "
      "count = count + 1, last_ms = ?2, code = ?3, transient = ?4, sentence = ?5, "
      "token = iif(throttled AND NOT ?6 AND token <> ?7 AND last_ms >= ?8, token, ?7), "
      "throttled = ?6 OR (throttled AND token <> ?7 AND last_ms >= ?8)",
      {key, to_sql(now), outcome.code, std::int64_t{outcome.transient}, outcome.sentence,
       std::int64_t{outcome.throttled}, token, to_sql(now - core::kVisibilityWindow)});
}

/// The same of an accepted one, which is no reason to wait longer than for the first throttle.
Ok Ledger::forget_failures(const core::Intent& intent, Instant now) {
  for (const auto& key : failure_keys(intent)) {
    if (!core::is_stock(role_of(intent))) {
      TRY(database_.run("DELETE FROM failures WHERE key = ?", {key}));
      continue;
    }
    TRY(
        database_.run("DELETE FROM failures WHERE key = ? AND NOT (throttled AND token <> ? AND "
                      "last_ms >= ?)",
                      {key, intent.token, to_sql(now - core::kVisibilityWindow)}));
    TRY(database_.run("UPDATE failures SET count = 1 WHERE key = ?", {key}));
  }
  return {};
}

Ok Ledger::settle_accepted(const Settlement& settlement, Instant now) {
  const auto& intent = settlement.intent;
  TRY(forget_failures(intent, now));
  if (intent.call.action == "AttachVolume" && intent.resources.size() == 2)
    TRY(database_.run("DELETE FROM failures WHERE key = ?",
                      {core::failure_key("AttachVolume", intent.resources[1])}));
  if (const auto* volume = std::get_if<aws::Volume>(&settlement.answer))
    TRY(database_.run(
        "INSERT OR IGNORE INTO volumes (volume_id, pool, node, zone, recorded_ms, role) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        {volume->volume_id, intent.pool, node_of(intent), intent.zone, to_sql(now),
         std::string(core::to_string(role_of(intent)))}));
  TRY(take_as_available(settlement, now));
  if (const auto* fleet = std::get_if<aws::FleetAnswer>(&settlement.answer))
    return write_launched(intent, fleet->instances, now);
  // By order: its absence surprises nobody. That it is not found may be said of another account,
  // unless the call was sent before.
  if (intent.call.action == "DeleteVolume" &&
      (settlement.outcome.code.empty() || intent.attempts > 0))
    return database_.run("UPDATE volumes SET gone_ms = ? WHERE volume_id = ?",
                         {to_sql(now), joined(intent.resources)});
  if (const auto* snapshot = std::get_if<aws::Snapshot>(&settlement.answer)) {
    TRY(database_.run("DELETE FROM unclean_volumes WHERE volume_id = ? AND beyond_repair = ''",
                      {joined(intent.resources)}));
    return add_history({now, intent.pool, joined(intent.nodes),
                        "snapshot " + snapshot->snapshot_id + " of " + joined(intent.resources) +
                            " as it was left"});
  }
  if (intent.call.action != "RunInstances") return {};
  if (const auto* instances = std::get_if<std::vector<aws::Instance>>(&settlement.answer))
    return write_launched(intent, *instances, now);
  return {};
}

Ok Ledger::write_launched(const core::Intent& intent, const std::vector<aws::Instance>& instances,
                          Instant now) {
  const bool with_volume = core::launches_with_volumes(intent);
  for (const auto& instance : instances) {
    // A fleet chooses the zone itself.
    const auto& zone = intent.zone.empty() ? instance.availability_zone : intent.zone;
    TRY(database_.run(
        "INSERT INTO instances (instance_id, pool, zone, recorded_ms, with_volume) VALUES (?1, ?2, "
        "?3, ?4, ?5) ON CONFLICT (instance_id) DO UPDATE SET with_volume = 1 WHERE ?5 AND NOT "
        "with_volume",
        {instance.instance_id, intent.pool, zone, to_sql(now), std::int64_t{with_volume}}));
  }
  return {};
}

/// Counted once for each instance, whatever later looks say of it.
Ok Ledger::write_fate(const core::RecordFate& record, Instant now) {
  TRY(database_.run("UPDATE instances SET fate = ? WHERE instance_id = ? AND fate = 'fresh'",
                    {std::string(core::to_string(record.fate)), record.instance_id}));
  if (database_.changes() == 0 || record.fate == core::InstanceFate::fresh) return {};
  if (record.fate == core::InstanceFate::proved)
    return database_.run("DELETE FROM launch_streaks WHERE pool = ?", {record.pool});
  if (record.unavailable) {
    if (!record.code.empty())
      TRY(remember_refused({*record.unavailable, record.code, record.why}, now));
    return add_history({now, record.pool, "", record.why});
  }
  TRY(
      database_.run("INSERT INTO launch_streaks VALUES (?1, 1, ?2, ?3) ON CONFLICT (pool) DO "
                    "UPDATE SET failures = failures + 1, last_ms = ?2, reason = ?3",
                    {record.pool, to_sql(now), record.why}));
  return add_history({now, record.pool, "",
                      "the launch of " + record.instance_id + " came to nothing: " + record.why});
}

Ok Ledger::remember_refused(const OfferRefusal& refusal, Instant now) {
  return database_.run(
      "INSERT INTO refused_offers VALUES (?1, ?2, ?3, ?4, ?4, 1, ?5, ?6) "
      "ON CONFLICT (instance_type, zone, spot) DO UPDATE SET since_ms = CASE WHEN ?4 - last_ms > "
      "?7 THEN ?4 ELSE since_ms END, count = CASE WHEN ?4 - last_ms > ?7 THEN 1 ELSE count + 1 "
      "END, last_ms = ?4, code = ?5, sentence = ?6",
      {refusal.offer.instance_type, refusal.offer.zone, std::int64_t{refusal.offer.spot},
       to_sql(now), refusal.code, refusal.sentence,
       std::int64_t{core::streak_gap(refusal.code).count()}});
}

Ok Ledger::forget_refused(const core::RecordOfferMet& met) {
  return database_.run(
      "DELETE FROM refused_offers WHERE instance_type = ? AND zone = ? AND spot = ?",
      {met.offer.instance_type, met.offer.zone, std::int64_t{met.offer.spot}});
}

/// EC2 has it again, unless what it has just accepted comes to nothing.
Ok Ledger::take_as_available(const Settlement& settlement, Instant now) {
  const auto gap_of = [](const char* code) { return std::int64_t{core::streak_gap(code).count()}; };
  for (const auto& offer : offers_met(settlement.intent, settlement.answer)) {
    TRY(database_.run(
        "DELETE FROM refused_offers WHERE instance_type = ? AND zone = ? AND spot = ? AND "
        "? - last_ms > CASE WHEN code = ? THEN ? ELSE ? END",
        {offer.instance_type, offer.zone, std::int64_t{offer.spot}, to_sql(now),
         std::string(core::kStayedPending), gap_of(core::kStayedPending), gap_of("")}));
    TRY(
        database_.run("UPDATE refused_offers SET code = '' WHERE instance_type = ? AND zone = ? "
                      "AND spot = ?",
                      {offer.instance_type, offer.zone, std::int64_t{offer.spot}}));
  }
  return {};
}

/// Also against the instance itself, which is passed over for another one.
Ok Ledger::count_full_instance(const core::Intent& intent, const Outcome& outcome, Instant now) {
  if (intent.resources.size() != 2) return {};
  return count_failure(core::failure_key(intent.call.action, intent.resources[1]), outcome, "",
                       now);
}

/// A lost ledger forgot which tokens are used up: the next one is tried at once, without a
/// back-off, but for every kBurntAtOnce-th, so that an EC2 that never takes one is not asked for
/// ever.
Result<bool> Ledger::burns_on(const core::Intent& intent, const Outcome& outcome) {
  if (!outcome.token_was_used) return false;
  for (const auto& subject : subjects_of(intent)) {
    TRY_ASSIGN(const auto rows,
               database_.query("SELECT value FROM generations WHERE key = ?",
                               {SqlValue(core::generation_key(intent.call.action, subject))}));
    if (!rows.empty() && rows.front().number(0) % kBurntAtOnce == 0) return false;
  }
  return true;
}

/// What did not begin to leave is where it was; the next look says more than checking.
Ok Ledger::take_leaving_back(const core::Intent& intent, Instant now) {
  for (const auto& id : intent.resources)
    if (id.starts_with("i-"))
      TRY(
          database_.run("UPDATE leases SET state = 'checking', since_ms = ? WHERE instance_id = ? "
                        "AND state = 'leaving'",
                        {to_sql(now), id}));
  return {};
}

Ok Ledger::settle_refused(const Settlement& settlement, Instant now) {
  const auto& intent = settlement.intent;
  const auto& outcome = settlement.outcome;
  TRY_ASSIGN(const bool again_at_once, burns_on(intent, outcome));
  // What EC2 did not have is remembered of the offer: another one may be tried at once.
  if (outcome.forbidden && intent.call.action == "CreateFleet")
    TRY(count_failure(core::failure_key(intent.call.action, intent.pool), outcome, "", now));
  else if (!again_at_once && !outcome.only_offers)
    for (const auto& key : failure_keys(intent))
      TRY(count_failure(key, outcome, intent.token, now));
  if (outcome.refuses_instance) TRY(count_full_instance(intent, outcome, now));
  const std::string node = intent.nodes.size() == 1 ? intent.nodes.front() : "";
  TRY(add_history({now, intent.pool, node, "refused: " + outcome.sentence}));
  if (intent.call.action == "DetachVolume" || intent.call.action == "TerminateInstances")
    return take_leaving_back(intent, now);
  if (intent.call.action != "AttachVolume" || intent.resources.size() != 2) return {};
  const auto& volume_id = intent.resources[0];
  const auto& instance_id = intent.resources[1];
  // One whose attach was throttled may have the name in use all the same.
  if (outcome.refuses_device || outcome.throttled)
    TRY(
        database_.run("INSERT OR IGNORE INTO refused_devices SELECT instance_id, device, ?3 FROM "
                      "leases WHERE volume_id = ?1 AND instance_id = ?2 AND device <> ''",
                      {volume_id, instance_id, to_sql(now)}));
  if (outcome.keeps_lease) return {};
  // A throttled call may have been carried out all the same: the instance is kept for this volume.
  if (outcome.throttled)
    return database_.run(
        "UPDATE leases SET state = 'reserved', device = '', since_ms = ?3 WHERE volume_id = ?1 "
        "AND instance_id = ?2 AND state = 'attaching'",
        {volume_id, instance_id, to_sql(now)});
  return database_.run(
      "UPDATE leases SET state = 'ended', since_ms = ?3 WHERE volume_id = ?1 AND "
      "instance_id = ?2 AND state = 'attaching'",
      {volume_id, instance_id, to_sql(now)});
}

Ok Ledger::settle_one(const Settlement& settlement, Instant now) {
  const auto& intent = settlement.intent;
  const auto& outcome = settlement.outcome;
  const bool decided = outcome.state != core::IntentState::unknown;
  TRY(database_.run(
      "UPDATE intents SET state = ?, settled_ms = ?, error = ?, "
      "attempts = attempts + ?, tried_ms = ?, silent_ms = iif(?, ?5, silent_ms) WHERE id = ?",
      {std::string(core::to_string(outcome.state)), decided ? SqlValue(to_sql(now)) : SqlValue(),
       outcome.sentence, std::int64_t{decided ? 0 : 1}, to_sql(now),
       std::int64_t{!decided && !outcome.awaits_silent}, intent.id}));
  if (outcome.burns_token)
    for (const auto& subject : subjects_of(intent))
      TRY(
          database_.run("INSERT INTO generations VALUES (?, 1) "
                        "ON CONFLICT (key) DO UPDATE SET value = value + 1",
                        {core::generation_key(intent.call.action, subject)}));
  for (const auto& refusal : outcome.refused_offers) TRY(remember_refused(refusal, now));
  if (outcome.state == core::IntentState::accepted) return settle_accepted(settlement, now);
  if (outcome.state == core::IntentState::refused) return settle_refused(settlement, now);
  return {};
}

Ok Ledger::settle(const std::vector<Settlement>& settlements, Instant now) {
  TRY_ASSIGN(auto transaction, Transaction::begin(database_));
  for (const auto& settlement : settlements) TRY(settle_one(settlement, now));
  return commit(transaction, "outcomes");
}

}  // namespace warmroot::manager
