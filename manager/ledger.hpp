// The manager's memory, one SQLite file: leases, intents with their exact bytes, refused device
// names, back-off, history. The reconciler writes it, commands read it and pause pools through it.
// It can be deleted: what matters is read again from EC2. schema.sql says what each table is for.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "manager/aws/ec2.hpp"
#include "manager/core/model.hpp"
#include "manager/outcome.hpp"
#include "manager/sqlite.hpp"

namespace warmroot::manager {

struct Viewed;

/// What a ledger belongs to for ever.
struct LedgerPins {
  std::string deployment;
  std::string region;
};

struct HistoryEntry {
  Instant time{};
  std::string pool;
  std::string node;
  std::string event;
};

enum class OrderState { open, met, refused };
struct OrderStanding {
  OrderState state = OrderState::open;
  std::string answer;  ///< one sentence, once it is settled
};

/// A recorded call and what EC2 answered.
struct Settlement {
  core::Intent intent;
  Outcome outcome;
  aws::MutationAnswer answer;  ///< of accepted calls, and of a fleet that launched nothing
};

/// Code of an Error of record(): the plan reckons with an order that is open no more.
inline constexpr const char* kOrderTakenBack = "OrderTakenBack";

/// One connection, which LedgerKeys shares, and one thread; several may be open on one file.
/// Errors: as Database's.
class Ledger {
 public:
  /// Opens or creates the ledger. Errors: misconfigured when it belongs to another deployment or
  /// Region or to a newer version of warmroot.
  static Result<Ledger> open(const std::string& path, const LedgerPins& pins, Instant now);

  /// Forgets what was settled or last heard of long ago. At each opening, and now and then.
  Ok prune(Instant now);

  /// Binds the ledger to the account for ever. Errors: misconfigured when it belongs to another.
  Ok pin_account(const std::string& account);
  /// The account that it belongs to; empty: not known yet.
  Result<std::string> account();

  /// Once, before the first tick of a process: forgets what held at each look of another one, which
  /// may have ended in between, and takes back times of a clock that was ahead, which would make
  /// everything wait until they are reached.
  Ok begin_anew(Instant now);

  /// What matters of it now. Read again only after a change.
  Result<core::LedgerView> view();
  /// The same without a copy; it stays as it is while it is held.
  Result<std::shared_ptr<const core::LedgerView>> shared_view();

  /// Writes the plan's records and watches, and its actions as open intents, in one transaction.
  /// `calls` are the plan's actions, encoded, in the same order. Returns the intents.
  Result<std::vector<core::Intent>> record(const core::Plan& plan,
                                           const std::vector<aws::EncodedCall>& calls, Instant now);

  /// Writes what became of calls, with everything that follows from it, in one transaction.
  Ok settle(const std::vector<Settlement>& settlements, Instant now);

  /// `running` of the pool counts as 0 until it is resumed, which also closes its breaker of
  /// failing launches. False: it was so already.
  Result<bool> pause(const std::string& pool, Instant now);
  Result<bool> resume(const std::string& pool, Instant now);

  /// Places an order and returns its id; that of the open one when the same was ordered before.
  Result<std::int64_t> place_order(const core::Order& order);
  /// How it stands. Errors: gone when there is no such order (any more).
  Result<OrderStanding> order(std::int64_t id);
  /// Takes an open order back: nobody waits for it any more, and no later call is made for it.
  /// True when EC2 or the node was asked already.
  Result<bool> withdraw_order(std::int64_t id, Instant now);

  /// The latest entries, newest first.
  Result<std::vector<HistoryEntry>> history(int at_most);
  Ok add_history(const HistoryEntry& entry);

  /// Called just before and just after each commit, with what is written. Tests stop the world
  /// there.
  std::function<void(const char* what)> on_write;

 private:
  friend class LedgerKeys;
  explicit Ledger(Database database);

  Ok read_what_changed();
  Ok write_records(const core::Plan& plan, Instant now);
  Ok write_record(const core::Record& record, Instant now);
  Ok write_lease(const core::RecordLease& record, Instant now);
  Ok write_volume(const core::RecordVolume& record);
  Ok write_volume_gone(const core::RecordVolumeGone& record, Instant now);
  Ok check_orders(const core::Plan& plan);
  Ok write_fate(const core::RecordFate& record, Instant now);
  Ok write_unclean(const core::RecordUnclean& record, Instant now);
  Ok settle_order(const core::RecordOrderSettled& record, Instant now);
  Ok write_watches(const core::Plan& plan, Instant now);
  Result<int> tried_before(const std::string& token, Instant now);
  Result<core::Intent> write_intent(const core::Action& action, const aws::EncodedCall& call,
                                    Instant now);
  Ok settle_one(const Settlement& settlement, Instant now);
  Ok settle_accepted(const Settlement& settlement, Instant now);
  Ok settle_refused(const Settlement& settlement, Instant now);
  Ok write_launched(const core::Intent& intent, const std::vector<aws::Instance>& instances,
                    Instant now);
  Ok remember_refused(const OfferRefusal& refusal, Instant now);
  Ok forget_refused(const core::RecordOfferMet& met);
  Ok take_as_available(const Settlement& settlement, Instant now);
  Ok count_full_instance(const core::Intent& intent, const Outcome& outcome, Instant now);
  Ok take_leaving_back(const core::Intent& intent, Instant now);
  Result<bool> burns_on(const core::Intent& intent, const Outcome& outcome);
  Ok count_failure(const std::string& key, const Outcome& outcome, const std::string& token,
                   Instant now);
  Ok forget_failures(const core::Intent& intent, Instant now);
  Ok commit(Transaction& transaction, const char* what);

  Database database_;
  /// As of `viewed_version_`.
  std::shared_ptr<Viewed> viewed_;
  std::pair<std::int64_t, std::int64_t> viewed_version_{-1, -1};
};

}  // namespace warmroot::manager
