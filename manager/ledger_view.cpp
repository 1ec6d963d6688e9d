// One query a table, so that what did not change is not read again; rows that are over stay in the
// file and out of the view.
#include "manager/ledger_view.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace warmroot::manager {

namespace {

core::IntentState intent_state_from(const std::string& text) {
  return text == "unknown" ? core::IntentState::unknown : core::IntentState::open;
}

Result<core::Lease> lease_from(const SqlCursor& row) {
  const auto state = core::lease_state_from(row.text(6));
  if (!state) return fail(ErrorKind::broken, "the ledger holds a lease in state " + row.text(6));
  return core::Lease{row.text(1),
                     row.text(2),
                     row.text(3),
                     row.text(4),
                     row.text(5),
                     *state,
                     instant_from_sql(row.number(7))};
}

Ok read_leases(Database& database, Viewed& viewed) {
  viewed.view.leases.clear();
  viewed.lease_rows.clear();
  return database.each(
      "SELECT id, pool, node, volume_id, instance_id, device, state, since_ms "
      "FROM leases WHERE state <> 'ended' ORDER BY id",
      [&](const SqlCursor& row) -> Ok {
        TRY_ASSIGN(auto lease, lease_from(row));
        viewed.view.leases.push_back(std::move(lease));
        viewed.lease_rows.push_back(row.number(0));
        return {};
      });
}

/// Takes the lease of a row that was written in, or out once it is over or gone.
void put_lease(Viewed& viewed, std::int64_t row, std::optional<core::Lease> lease) {
  auto& rows = viewed.lease_rows;
  auto& leases = viewed.view.leases;
  const auto at = std::lower_bound(rows.begin(), rows.end(), row);
  const auto place = leases.begin() + (at - rows.begin());
  const bool known = at != rows.end() && *at == row;
  const bool open = lease && lease->state != core::LeaseState::ended;
  if (known && open) {
    *place = std::move(*lease);
  } else if (known) {
    leases.erase(place);
    rows.erase(at);
  } else if (open) {
    leases.insert(place, std::move(*lease));
    rows.insert(at, row);
  }
}

/// Device names of one instance, as read_devices().
Ok read_devices_of(Database& database, const std::string& instance, core::LedgerView& view) {
  auto& names = view.used_devices[instance];
  names.clear();
  TRY(database.each(
      "SELECT l.device FROM leases l LEFT JOIN instances i ON i.instance_id = l.instance_id "
      "WHERE l.instance_id = ? AND l.device <> '' AND i.gone_ms IS NULL",
      [&](const SqlCursor& row) -> Ok {
        names.insert(row.text(0));
        return {};
      },
      {instance}));
  if (const auto refused = view.refused_devices.find(instance);
      refused != view.refused_devices.end())
    for (const auto& [name, at] : refused->second) names.insert(name);
  if (names.empty()) view.used_devices.erase(instance);
  return {};
}

/// Returns the instances whose leases were written; nothing when a row is gone, of which nobody can
/// tell whose it was.
Result<std::optional<std::set<std::string>>> read_written_leases(Database& database,
                                                                 const std::set<std::int64_t>& rows,
                                                                 Viewed& viewed) {
  std::set<std::string> instances;
  bool all_known = true;
  for (const auto id : rows) {
    std::optional<core::Lease> lease;
    TRY(
        database.each("SELECT id, pool, node, volume_id, instance_id, device, state, since_ms "
                      "FROM leases WHERE id = ?",
                      [&](const SqlCursor& row) -> Ok {
                        TRY_ASSIGN(lease, lease_from(row));
                        return {};
                      },
                      {id}));
    if (lease) instances.insert(lease->instance_id);
    all_known = all_known && lease;
    put_lease(viewed, id, std::move(lease));
  }
  if (!all_known) return std::nullopt;
  return instances;
}

Ok read_intents(Database& database, core::LedgerView& view) {
  view.intents.clear();
  return database.each(
      "SELECT id, action, body, pool, nodes, resources, zone, token, state, "
      "recorded_ms, attempts, tried_ms, error, silent_ms FROM intents "
      "WHERE state IN ('open', 'unknown') ORDER BY id",
      [&](const SqlCursor& row) -> Ok {
        core::Intent intent;
        intent.id = row.number(0);
        intent.call = {row.text(1), row.text(2)};
        intent.pool = row.text(3);
        intent.nodes = split_words(row.text(4));
        intent.resources = split_words(row.text(5));
        intent.zone = row.text(6);
        intent.token = row.text(7);
        intent.state = intent_state_from(row.text(8));
        intent.recorded = instant_from_sql(row.number(9));
        intent.attempts = static_cast<int>(row.number(10));
        intent.tried = instant_from_sql(row.number(11));
        intent.error = row.text(12);
        intent.silent = instant_from_sql(row.number(13));
        view.intents.push_back(std::move(intent));
        return {};
      });
}

/// Rows that come in the order of their keys go to the end.
template <typename T>
void put_last(std::map<std::string, T>& map, std::string key, T value) {
  map.insert_or_assign(map.end(), std::move(key), std::move(value));
}

std::optional<int> percent_at(const SqlCursor& row, int column) {
  const auto percent = static_cast<int>(row.number(column));
  return percent < 0 ? std::nullopt : std::optional(percent);
}

Ok read_volumes(Database& database, core::LedgerView& view) {
  view.volumes.clear();
  return database.each(
      "SELECT volume_id, pool, node, zone, recorded_ms, seen, ever_used, role, warmth "
      "FROM volumes WHERE gone_ms IS NULL",
      [&](const SqlCursor& row) -> Ok {
        view.volumes.insert_or_assign(
            row.text(0), core::OwnedVolume{
                             row.text(1), row.text(2), row.text(3), instant_from_sql(row.number(4)),
                             row.number(5) != 0, row.number(6) != 0,
                             core::volume_role_from(row.text(7)).value_or(core::VolumeRole::node),
                             percent_at(row, 8)});
        return {};
      });
}

Ok read_instances(Database& database, core::LedgerView& view) {
  view.instances.clear();
  return database.each(
      "SELECT instance_id, pool, zone, recorded_ms, fate, with_volume FROM instances WHERE gone_ms "
      "IS NULL",
      [&](const SqlCursor& row) -> Ok {
        view.instances.insert_or_assign(
            row.text(0),
            core::LaunchedInstance{row.text(1), row.text(2), instant_from_sql(row.number(3)),
                                   core::instance_fate_from(row.text(4)), row.number(5) != 0});
        return {};
      });
}

Ok read_departures(Database& database, core::LedgerView& view) {
  view.departures.clear();
  return database.each(
      "SELECT instance_id, released, since_ms, reclaim_ms, advised, volume_id, unclean "
      "FROM departures",
      [&](const SqlCursor& row) -> Ok {
        core::Departure departure{
            row.number(1) != 0, instant_from_sql(row.number(2)), {}, false, row.text(5)};
        if (row.number(3) != 0) departure.reclaim_at = instant_from_sql(row.number(3));
        departure.advised = row.number(4) != 0;
        departure.unclean = row.number(6) != 0;
        put_last(view.departures, row.text(0), std::move(departure));
        return {};
      });
}

Ok read_unclean(Database& database, core::LedgerView& view) {
  view.unclean.clear();
  return database.each(
      "SELECT volume_id, instance_id, since_ms, beyond_repair, tagged FROM unclean_volumes",
      [&](const SqlCursor& row) -> Ok {
        put_last(view.unclean, row.text(0),
                 core::UncleanVolume{row.text(1), instant_from_sql(row.number(2)), row.text(3),
                                     row.number(4) != 0});
        return {};
      });
}

/// Names given or refused, of instances that are not known to be gone.
Ok read_devices(Database& database, core::LedgerView& view) {
  view.used_devices.clear();
  TRY(
      database.each("SELECT l.instance_id, l.device FROM leases l LEFT JOIN instances i "
                    "ON i.instance_id = l.instance_id WHERE l.device <> '' AND i.gone_ms IS NULL",
                    [&](const SqlCursor& row) -> Ok {
                      view.used_devices[row.text(0)].insert(row.text(1));
                      return {};
                    }));
  view.refused_devices.clear();
  return database.each(
      "SELECT r.instance_id, r.device, r.time_ms FROM refused_devices r LEFT JOIN "
      "instances i ON i.instance_id = r.instance_id WHERE i.gone_ms IS NULL",
      [&](const SqlCursor& row) -> Ok {
        view.used_devices[row.text(0)].insert(row.text(1));
        view.refused_devices[row.text(0)][row.text(1)] = instant_from_sql(row.number(2));
        return {};
      });
}

Ok read_offers(Database& database, core::LedgerView& view) {
  view.refused_offers.clear();
  return database.each(
      "SELECT instance_type, zone, spot, since_ms, last_ms, count, code, "
      "sentence FROM refused_offers",
      [&](const SqlCursor& row) -> Ok {
        view.refused_offers[{row.text(0), row.text(1), row.number(2) != 0}] = {
            instant_from_sql(row.number(3)), instant_from_sql(row.number(4)),
            static_cast<int>(row.number(5)), row.text(6), row.text(7)};
        return {};
      });
}

Ok read_streaks(Database& database, core::LedgerView& view) {
  view.streaks.clear();
  return database.each("SELECT pool, failures, last_ms, reason FROM launch_streaks",
                       [&](const SqlCursor& row) -> Ok {
                         put_last(view.streaks, row.text(0),
                                  core::LaunchStreak{static_cast<int>(row.number(1)),
                                                     instant_from_sql(row.number(2)), row.text(3)});
                         return {};
                       });
}

Ok read_orders(Database& database, core::LedgerView& view) {
  view.orders.clear();
  return database.each(
      "SELECT id, kind, subject, pool, detail, asked_ms FROM orders "
      "WHERE state = 'open' ORDER BY id",
      [&](const SqlCursor& row) -> Ok {
        const auto kind = core::order_kind_from(row.text(1));
        if (!kind)
          return fail(ErrorKind::broken, "the ledger holds an order of kind " + row.text(1));
        view.orders.push_back({row.number(0), *kind, row.text(2), row.text(3), row.text(4),
                               instant_from_sql(row.number(5))});
        return {};
      });
}

Ok read_failures(Database& database, core::LedgerView& view) {
  view.failures.clear();
  return database.each(
      "SELECT key, count, last_ms, code, transient, sentence, throttled, token FROM failures",
      [&](const SqlCursor& row) -> Ok {
        put_last(view.failures, row.text(0),
                 core::Failure{static_cast<int>(row.number(1)), instant_from_sql(row.number(2)),
                               row.text(3), row.number(4) != 0, row.text(5), row.number(6) != 0,
                               row.text(7)});
        return {};
      });
}

Ok read_generations(Database& database, core::LedgerView& view) {
  view.generations.clear();
  return database.each("SELECT key, value FROM generations", [&](const SqlCursor& row) -> Ok {
    put_last(view.generations, row.text(0), static_cast<int>(row.number(1)));
    return {};
  });
}

Ok read_watches(Database& database, core::LedgerView& view) {
  view.watches.clear();
  return database.each("SELECT key, since_ms, looks FROM watches", [&](const SqlCursor& row) -> Ok {
    put_last(view.watches, row.text(0),
             core::Watch{instant_from_sql(row.number(1)), static_cast<int>(row.number(2))});
    return {};
  });
}

Ok read_paused(Database& database, core::LedgerView& view) {
  view.paused_pools.clear();
  return database.each("SELECT pool FROM paused_pools", [&](const SqlCursor& row) -> Ok {
    view.paused_pools.insert(row.text(0));
    return {};
  });
}

Ok read_begun(Database& database, core::LedgerView& view) {
  TRY_ASSIGN(const auto begun, database.query("SELECT max(CAST(value AS INTEGER)) FROM meta WHERE "
                                              "key IN ('created_ms', 'begun_ms')"));
  view.begun = instant_from_sql(begun.front().number(0));
  return {};
}

/// A part of the view, and the table that it is read from. Leases and device names are read apart.
struct Part {
  Ok (*read)(Database&, core::LedgerView&);
  const char* table;
};
constexpr Part kParts[] = {{read_intents, "intents"},         {read_volumes, "volumes"},
                           {read_instances, "instances"},     {read_departures, "departures"},
                           {read_offers, "refused_offers"},   {read_streaks, "launch_streaks"},
                           {read_orders, "orders"},           {read_failures, "failures"},
                           {read_generations, "generations"}, {read_watches, "watches"},
                           {read_paused, "paused_pools"},     {read_begun, "meta"},
                           {read_unclean, "unclean_volumes"}};

bool same_ids(const core::SharedMap<core::LaunchedInstance>& left,
              const core::SharedMap<core::LaunchedInstance>& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const auto& one, const auto& other) { return one.first == other.first; });
}

}  // namespace

Ok read_again(Database& database, const Written& written, Viewed& viewed) {
  const auto instances = viewed.view.instances;
  for (const auto& part : kParts)
    if (written.tables.contains(part.table)) TRY(part.read(database, viewed.view));
  std::optional<std::set<std::string>> changed{std::in_place};
  if (written.tables.contains("leases")) {
    TRY_ASSIGN(changed, read_written_leases(database, written.lease_rows, viewed));
  }
  // Names depend on leases, on refusals, and on who is gone.
  if (!changed || written.tables.contains("refused_devices") ||
      !same_ids(instances, viewed.view.instances))
    return read_devices(database, viewed.view);
  for (const auto& instance : *changed) TRY(read_devices_of(database, instance, viewed.view));
  return {};
}

Result<Viewed> read_view(Database& database) {
  Viewed viewed;
  for (const auto& part : kParts) TRY(part.read(database, viewed.view));
  TRY(read_leases(database, viewed));
  TRY(read_devices(database, viewed.view));
  return viewed;
}

std::int64_t to_sql(Instant instant) {
  return instant.time_since_epoch().count();
}

Instant instant_from_sql(std::int64_t milliseconds) {
  return Instant{Milliseconds{milliseconds}};
}

std::vector<std::string> split_words(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t from = 0; from < text.size();) {
    const auto to = std::min(text.find(' ', from), text.size());
    if (to > from) words.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return words;
}

}  // namespace warmroot::manager
