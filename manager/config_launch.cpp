#include "manager/config_launch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "manager/core/offers.hpp"

namespace warmroot::manager {
namespace {

/// A day: whoever waits longer for spot does not want on-demand.
constexpr int kMostAfterSeconds = 24 * 3600;
/// Each of a pool's 10,000 nodes and its successor.
constexpr int kMostInstances = 20000;

void read_prices(const toml::table& own, core::LaunchSpec& spec, std::vector<Mistake>& mistakes,
                 bool check_types) {
  TableReader prices("on_demand_prices", own, nullptr, mistakes);
  for (const auto& entry : own) {
    const std::string type(entry.first.str());
    const auto price = prices.decimal(type);
    if (!price) continue;
    spec.on_demand_prices[type] = *price;
    const auto& types = spec.instance_types;
    if (check_types && std::find(types.begin(), types.end(), type) == types.end())
      prices.mistake(type, fmt::format("{} is not one of instance_types ({}), add it there or take "
                                       "it out here",
                                       type, fmt::join(types, ", ")));
    else if (core::parse_usd(*price).value_or(0) == 0)
      prices.mistake(type, fmt::format("{} is no price, write USD an hour, e.g. 1.006", *price));
  }
}

void check_market(TableReader& table, const core::LaunchSpec& spec,
                  const std::vector<std::string>& zones) {
  if (table.has("on_demand_after_s") && !table.has("on_demand_fallback"))
    table.mistake("on_demand_after_s",
                  "nothing is bought on demand without on_demand_fallback = true, write that too "
                  "or remove it");
  if (table.has("rebalance_after_s") && !table.has("replace_on_rebalance"))
    table.mistake("rebalance_after_s",
                  "hints count for nothing without replace_on_rebalance = true, write that too or "
                  "remove it");
  if (spec.zone_fallback && zones.size() == 1 && !table.inherited("zone_fallback"))
    table.mistake("zone_fallback",
                  fmt::format("the pool's only zone is {}, name another in zones or remove it",
                              zones.front()));
  if (!spec.max_price_hour.empty() && core::parse_usd(spec.max_price_hour).value_or(0) == 0)
    table.mistake("max_price_hour", fmt::format("{} allows nothing, write USD an hour for the "
                                                "whole pool, or running = 0 to launch nothing",
                                                spec.max_price_hour));
  if (spec.max_price_hour.empty() || !spec.on_demand_fallback) return;
  for (const std::string& type : spec.instance_types)
    if (!spec.on_demand_prices.contains(type))
      table.mistake("max_price_hour",
                    fmt::format("EC2 tells no on-demand prices, so that of {} is not known and it "
                                "would never be bought, write on_demand_prices = {{ \"{}\" = "
                                "1.25 }}",
                                type, type));
}

/// A launch call that makes volumes is a RunInstances, of one type, and makes them cold.
bool loses_nothing(const core::LaunchSpec& spec, const core::PoolSpec& pool) {
  return spec.instance_types.size() == 1 && pool.stock.ready_within == Milliseconds{0};
}

}  // namespace

void read_market(TableReader& table, core::LaunchSpec& spec, std::vector<Mistake>& mistakes,
                 const core::PoolSpec* pool) {
  spec.zone_fallback = table.flag("zone_fallback").value_or(false);
  spec.on_demand_fallback = table.flag("on_demand_fallback").value_or(false);
  if (const auto after = table.whole("on_demand_after_s", 0, kMostAfterSeconds))
    spec.on_demand_after = std::chrono::seconds(*after);
  if (const toml::table* prices = table.table("on_demand_prices"))
    read_prices(*prices, spec, mistakes, pool != nullptr && !table.inherited("on_demand_prices"));
  spec.replace_on_rebalance = table.flag("replace_on_rebalance").value_or(false);
  if (const auto after = table.whole("rebalance_after_s", 0, kMostAfterSeconds))
    spec.rebalance_after = std::chrono::seconds(*after);
  spec.max_instances = table.whole("max_instances", 1, kMostInstances);
  spec.max_price_hour = table.decimal("max_price_hour").value_or("");
  spec.volume_with_launch =
      table.flag("volume_with_launch").value_or(pool && loses_nothing(spec, *pool));
  if (pool != nullptr) check_market(table, spec, pool->zones);
}

}  // namespace warmroot::manager
