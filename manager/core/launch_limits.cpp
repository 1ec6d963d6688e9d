// Money is promised, not hoped: an unknown price under max_price_hour launches nothing.
#include "manager/core/launch_limits.hpp"

#include <algorithm>
#include <limits>

#include "manager/core/backoff.hpp"
#include "manager/core/departing.hpp"
#include "manager/core/launching.hpp"
#include "manager/core/token.hpp"

namespace warmroot::core {

namespace {

int instances_up(const PoolDraft& pool) {
  int count = 0;
  for (const auto* each : pool.instances) {
    const auto& instance = *each;
    if (instance.launched && !instance.ending && (instance.pending || instance.running)) ++count;
  }
  return count;
}

/// How many may be launched so that there are no more than two for each node: one that serves or is
/// about to end, and its successor. Ends are asked for behind launches in a plan, and may be
/// refused: what is of no use any more goes first. One whose end EC2 has refused, or that EC2
/// itself takes back, is waited for by nobody. Source: invariant (5), seed 40000017166.
int room_beside(Draft& draft, const PoolDraft& pool) {
  int left = -draft.launches_asked(pool.spec->name);
  for (const auto& node : pool.nodes) left += node.wanted ? 2 : 0;
  for (const auto* instance : pool.instances)
    if (instance->launched && !instance->ending && (instance->pending || instance->running) &&
        !draft.ledger.failures.contains(failure_key("TerminateInstances", instance->id)) &&
        !warning_of(draft, instance->id))
      --left;
  return std::max(0, left);
}

/// Of those that EC2 has not shown yet the offer is not known: as much as the dearest one.
std::optional<MicroUsd> dearest(const PoolSpec& pool, const Market& market) {
  MicroUsd most = 0;
  for (const auto& zone : pool.zones)
    for (const auto& type : pool.launch->instance_types)
      for (const bool spot : {true, false}) {
        if (!spot && !pool.launch->on_demand_fallback) continue;
        const auto price = price_of({type, zone, spot}, *pool.launch, market);
        if (!price) return std::nullopt;
        most = std::max(most, *price);
      }
  return most;
}

/// A launch whose worth is not known yet is the probe: no second one beside it.
bool probe_is_out(const Draft& draft, const PoolDraft& pool) {
  if (draft.launches_asked(pool.spec->name) > 0) return true;
  for (const auto* each : pool.instances) {
    const auto& instance = *each;
    const auto* record = draft.ledger.instances.get(instance.id);
    if (record && record->fate == InstanceFate::fresh && (instance.pending || instance.running) &&
        instance.departing.empty())
      return true;
  }
  return false;
}

}  // namespace

std::optional<Instant> breaker_probe_at(const std::string& pool,
                                        const std::map<std::string, LaunchStreak>& streaks) {
  const auto streak = streaks.find(pool);
  if (streak == streaks.end() || streak->second.failures < kBreakerOpensAfter) return std::nullopt;
  const int beyond = streak->second.failures - kBreakerOpensAfter + 1;
  const double jitter = hash_fraction({"breaker", pool, std::to_string(beyond)});
  return streak->second.last + backoff_delay(beyond, kBreakerBase, kBreakerCap, jitter);
}

namespace {

/// The cost of one pool while its instances are added up.
class Bill {
 public:
  Bill(const Draft& draft, const PoolSpec& pool) : draft_(draft), pool_(pool) {}

  void add(const InstanceDraft& instance) {
    if (!instance.launched || instance.ending || !(instance.pending || instance.running)) return;
    if (!instance.seen) {
      ++unseen_;
      return;
    }
    const auto& seen = *instance.seen;
    if (!last_ || last_->spot != seen.spot || last_->instance_type != seen.instance_type ||
        last_->availability_zone != seen.availability_zone) {
      last_ = &seen;
      last_price_ = price_of({seen.instance_type, seen.availability_zone, seen.spot}, *pool_.launch,
                             draft_.observed.market);
    }
    known_ = known_ && last_price_.has_value();
    if (last_price_) sum_ += *last_price_;
  }

  std::optional<MicroUsd> total() const {
    if (!known_) return std::nullopt;
    const int unseen = unseen_ + draft_.launches_asked(pool_.name);
    if (unseen == 0) return sum_;
    const auto most = dearest(pool_, draft_.observed.market);
    return most ? std::optional(sum_ + *most * unseen) : std::nullopt;
  }

 private:
  const Draft& draft_;
  const PoolSpec& pool_;
  const aws::Instance* last_ = nullptr;  ///< most instances are like the one before
  std::optional<MicroUsd> last_price_;
  bool known_ = true;
  int unseen_ = 0;
  MicroUsd sum_ = 0;
};

}  // namespace

std::optional<MicroUsd> hourly_cost(const Draft& draft, const PoolDraft& pool) {
  if (!pool.spec->launch) return std::nullopt;
  Bill bill(draft, *pool.spec);
  for (const auto* instance : pool.instances) bill.add(*instance);
  return bill.total();
}

void tell_costs(Draft& draft) {
  std::map<std::string_view, Bill> bills;
  for (const auto& pool : draft.pools)
    if (pool.spec->launch) bills.emplace(pool.spec->name, Bill(draft, *pool.spec));
  for (const auto& [id, instance] : draft.instances)
    if (const auto bill = bills.find(instance.pool); bill != bills.end())
      bill->second.add(instance);
  for (const auto& [name, bill] : bills)
    if (const auto total = bill.total()) draft.plan.cost_hour[std::string(name)] = *total;
}

LaunchRoom::LaunchRoom(Draft& draft, const PoolDraft& pool) : draft_(draft), pool_(pool) {
  if (!pool.spec->launch) return;
  const auto& launch = *pool.spec->launch;
  const auto& name = pool.spec->name;
  if (launch.max_instances) {
    const int up = instances_up(pool) + draft.launches_asked(name);
    count_left_ = std::max(0, *launch.max_instances - up);
    count_reason_ = "max_instances = " + std::to_string(*launch.max_instances) + " is reached, " +
                    std::to_string(up) + " run or come: raise it, or lower running";
  }
  if (const int beside = room_beside(draft, pool); !count_left_ || beside < *count_left_) {
    count_left_ = beside;
    count_reason_.clear();  // a matter of moments
  }
  limit_ = parse_usd(launch.max_price_hour);
  if (limit_) cost_ = hourly_cost(draft, pool);
  const auto probe = breaker_probe_at(name, draft.streaks);
  if (!probe) return;
  const auto& streak = draft.streaks.at(name);
  const bool out = probe_is_out(draft, pool);
  const bool waits = draft.now < *probe;
  if (waits) draft.wake_at(*probe);
  count_left_ = std::min(count_left_.value_or(1), waits || out ? 0 : 1);
  count_kind_ = NoteKind::breaker_open;
  count_reason_ = std::to_string(streak.failures) +
                  " launches in a row came to nothing, the last: " + streak.reason + "; " +
                  (waits ? "none is made before " + time_of_day(*probe) + ", then one is tried"
                         : "one is tried before there are more") +
                  ": look into the base AMI and user-data, then `warmroot pool resume " + name +
                  "` tries at once";
}

int LaunchRoom::most_by_price(int wanted, const std::optional<MicroUsd>& price) {
  if (!limit_) return wanted;
  if (!cost_ || !price) {
    kind_ = NoteKind::launch_limit;
    shortage_ = "max_price_hour is set, but the price of " +
                std::string(cost_ ? "what would be launched" : "what runs") +
                " is not known, so nothing is launched: allow ec2:DescribeSpotPriceHistory, set "
                "max_price, and on_demand_prices for on-demand";
    return 0;
  }
  const MicroUsd left = std::max<MicroUsd>(0, *limit_ - *cost_);
  const MicroUsd most = *price == 0 ? wanted : left / *price;
  if (most < wanted) {
    kind_ = NoteKind::launch_limit;
    shortage_ = "max_price_hour = " + usd_text(*limit_) + " USD allows no more instances at " +
                usd_text(*price) + " USD, " + usd_text(*cost_) +
                " are spent: raise it, or lower running";
  }
  return static_cast<int>(std::min<MicroUsd>(wanted, most));
}

int LaunchRoom::take(int wanted, const std::optional<MicroUsd>& price) {
  int count = wanted;
  if (count_left_ && *count_left_ < count) {
    count = *count_left_;
    shortage_ = count_reason_;
    kind_ = count_kind_;
  }
  count = std::min(count, most_by_price(count, price));
  if (count_left_) *count_left_ -= count;
  if (cost_ && price) *cost_ += *price * count;
  return count;
}

void LaunchRoom::note_shortage() {
  if (!shortage_.empty()) draft_.note(kind_, pool_.spec->name, "", shortage_, true);
}

}  // namespace warmroot::core
