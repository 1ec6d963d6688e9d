// Orders in the ledger: commands place them and read the answer, the reconciler's plans settle
// them.
#include "manager/ledger.hpp"
#include "manager/ledger_view.hpp"

namespace warmroot::manager {

Result<std::int64_t> Ledger::place_order(const core::Order& order) {
  const SqlValue kind(std::string(core::to_string(order.kind)));
  TRY_ASSIGN(auto transaction, Transaction::begin(database_));
  TRY(
      database_.run("INSERT OR IGNORE INTO orders (kind, subject, pool, detail, asked_ms) "
                    "VALUES (?, ?, ?, ?, ?)",
                    {kind, order.subject, order.pool, order.detail, to_sql(order.asked)}));
  TRY_ASSIGN(const auto rows,
             database_.query("SELECT id FROM orders WHERE kind = ? AND subject = ? AND state = "
                             "'open'",
                             {kind, SqlValue(order.subject)}));
  TRY(add_history({order.asked, order.pool, "",
                   "ordered: " + std::string(core::to_string(order.kind)) + " " + order.subject}));
  TRY(commit(transaction, "order"));
  return rows.front().number(0);
}

Result<OrderStanding> Ledger::order(std::int64_t id) {
  TRY_ASSIGN(const auto rows,
             database_.query("SELECT state, answer FROM orders WHERE id = ?", {SqlValue(id)}));
  if (rows.empty()) return fail(ErrorKind::gone, "the ledger does not know this order any more");
  const auto state = rows.front().text(0);
  return OrderStanding{state == "open"  ? OrderState::open
                       : state == "met" ? OrderState::met
                                        : OrderState::refused,
                       rows.front().text(1)};
}

Result<bool> Ledger::withdraw_order(std::int64_t id, Instant now) {
  TRY_ASSIGN(auto transaction, Transaction::begin(database_));
  TRY(
      database_.run("UPDATE orders SET state = 'refused', settled_ms = ?, answer = 'taken back' "
                    "WHERE id = ? AND state = 'open'",
                    {to_sql(now), id}));
  // A call without a clear answer may have been carried out, whatever was made of it since.
  TRY_ASSIGN(const auto asked,
             database_.query("SELECT 1 FROM orders o JOIN intents i ON i.recorded_ms >= o.asked_ms "
                             "AND (i.state <> 'refused' OR i.attempts > 0) AND "
                             "instr(i.resources, o.subject) > 0 WHERE o.id = ? LIMIT 1",
                             {id}));
  // A node that has heard that it is to give its volume back does so, and says it again.
  TRY(
      database_.run("DELETE FROM departures WHERE NOT released AND reclaim_ms IS NULL AND EXISTS "
                    "(SELECT 1 FROM orders o WHERE o.id = ? AND o.kind = 'release' AND o.subject = "
                    "instance_id AND since_ms >= o.asked_ms)",
                    {id}));
  const bool was_told = database_.changes() > 0;
  TRY(commit(transaction, "order"));
  return !asked.empty() || was_told;
}

/// Whoever has taken one back has been told that nothing comes of it.
Ok Ledger::check_orders(const core::Plan& plan) {
  for (const auto id : plan.orders) {
    TRY_ASSIGN(const auto rows,
               database_.query("SELECT 1 FROM orders WHERE id = ? AND state = 'open'", {id}));
    if (rows.empty())
      return fail(
          Error{ErrorKind::retry_later, "an order was taken back meanwhile", kOrderTakenBack, ""});
  }
  return {};
}

Ok Ledger::settle_order(const core::RecordOrderSettled& record, Instant now) {
  TRY(database_.run(
      "UPDATE orders SET state = ?, settled_ms = ?, answer = ? "
      "WHERE id = ? AND state = 'open'",
      {std::string(record.met ? "met" : "refused"), to_sql(now), record.answer, record.id}));
  return add_history({now, "", "", "order: " + record.answer});
}

}  // namespace warmroot::manager
