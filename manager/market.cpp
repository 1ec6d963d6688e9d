// One call for all types of all pools where EC2 takes lists.
#include "manager/market.hpp"

#include <algorithm>

#include "manager/aws/paging.hpp"
#include "manager/core/offers.hpp"

namespace warmroot::manager {

namespace {

constexpr int kPageOfPrices = 1000;

std::vector<std::string> types_of(const core::Desired& desired) {
  std::vector<std::string> types;
  for (const auto& pool : desired.pools)
    if (pool.launch)
      types.insert(types.end(), pool.launch->instance_types.begin(),
                   pool.launch->instance_types.end());
  std::sort(types.begin(), types.end());
  types.erase(std::unique(types.begin(), types.end()), types.end());
  return types;
}

/// A fleet chooses among types, and only a fleet needs a template.
bool may_use_fleets(const core::Desired& desired) {
  return std::any_of(desired.pools.begin(), desired.pools.end(), [](const auto& pool) {
    return pool.launch && pool.launch->instance_types.size() > 1;
  });
}

bool waits_for_template(const core::LedgerView& ledger) {
  const std::string prefix = core::kWatchTemplate;
  const auto first = ledger.watches.lower_bound(prefix);
  return first != ledger.watches.end() && first->first.starts_with(prefix);
}

/// Pools that will choose a zone for a volume: scores say where. One that has all of its own needs
/// none.
std::vector<const core::PoolSpec*> choosing_zones(const core::Desired& desired,
                                                  const core::LedgerView& ledger) {
  std::vector<const core::PoolSpec*> choosing;
  std::map<std::string_view, int> owned;
  for (const auto& pool : desired.pools) {
    if (!pool.launch || pool.zones.size() < 2 || pool.running == 0) continue;
    if (owned.empty())
      for (const auto& [id, volume] : ledger.volumes) ++owned[volume.pool];
    if (owned[pool.name] < pool.nodes) choosing.push_back(&pool);
  }
  return choosing;
}

aws::DescribeSpotPrices price_request(const std::vector<std::string>& types, Instant now) {
  aws::DescribeSpotPrices request;
  request.instance_types = types;
  request.start_time = now;
  request.max_results = kPageOfPrices;
  return request;
}

}  // namespace

std::vector<std::string> MarketWatch::first_questions(const core::Desired& desired,
                                                      Instant now) const {
  const auto types = types_of(desired);
  if (types.empty() || !types_.empty()) return {};
  aws::DescribeRequest offerings;
  offerings.filters = {{"instance-type", types}};
  return {aws::encode(price_request(types, now)),
          aws::encode(aws::Describe::instance_type_offerings, offerings)};
}

void MarketWatch::settle(Asking& asking, const char* action, const Error* error,
                         Milliseconds good_for, Instant now) {
  asking.forbidden.clear();
  asking.until = now + good_for;
  if (!error) return;
  // `broken`: the endpoint does not know the call, which is as lasting as a missing permission.
  const bool lasting = error->kind == ErrorKind::unauthorised || error->kind == ErrorKind::broken ||
                       error->kind == ErrorKind::misconfigured || error->kind == ErrorKind::refused;
  if (lasting) asking.forbidden = action;
  asking.until = now + (lasting ? kForbiddenFor : kMarketRetry);
}

void MarketWatch::ask_prices(const std::vector<std::string>& types, Instant now) {
  const auto prices =
      aws::collect_all(ec2_, &aws::Ec2::describe_spot_price_history, price_request(types, now));
  settle(prices_, "ec2:DescribeSpotPriceHistory", prices ? nullptr : &prices.error(), kPricesFor,
         now);
  if (!prices) return;
  std::map<std::pair<std::string, std::string>, Instant> newest;
  market_.spot_price.clear();
  for (const auto& price : *prices) {
    const auto amount = core::parse_usd(price.price_usd_hour);
    const Instant at = price.timestamp.value_or(Instant{});
    const auto [seen, is_new] =
        newest.try_emplace({price.instance_type, price.availability_zone}, at);
    if (!amount || (!is_new && at <= seen->second)) continue;
    seen->second = at;
    market_.spot_price[price.instance_type][price.availability_zone] = *amount;
  }
}

void MarketWatch::ask_offerings(const std::vector<std::string>& types, Instant now) {
  const auto offerings = aws::collect_matching<aws::InstanceTypeOffering>(
      ec2_, &aws::Ec2::describe_instance_type_offerings, "instance-type", types);
  settle(offerings_, "ec2:DescribeInstanceTypeOfferings", offerings ? nullptr : &offerings.error(),
         kOfferingsFor, now);
  if (!offerings) return;
  market_.offered.clear();
  for (const auto& type : types) market_.offered[type];
  for (const auto& offering : *offerings)
    market_.offered[offering.instance_type].insert(offering.availability_zone);
}

void MarketWatch::ask_scores(const core::Desired& desired, const core::LedgerView& ledger,
                             const std::map<std::string, aws::AvailabilityZone>& zones,
                             Instant now) {
  if (!due(scores_, now) || zones.empty()) return;
  for (const auto* choosing : choosing_zones(desired, ledger)) {
    const auto& pool = *choosing;
    if (now < scored_until_[pool.name]) continue;
    aws::GetSpotPlacementScores request;
    request.instance_types = pool.launch->instance_types;
    request.target_capacity = pool.running;
    request.region = core::region_of_zone(pool.zones.front());
    const auto scores = ec2_.get_spot_placement_scores(request);
    scored_until_[pool.name] = now + kScoresFor;
    if (!scores) {
      settle(scores_, "ec2:GetSpotPlacementScores", &scores.error(), kScoresFor, now);
      return;
    }
    scores_.forbidden.clear();
    auto& by_zone = market_.scores[pool.name];
    by_zone.clear();
    for (const auto& score : *scores)
      for (const auto& [name, zone] : zones)
        if (zone.zone_id == score.zone_id) by_zone[name] = score.score;
  }
}

void MarketWatch::ask_templates(const core::Desired& desired, const core::LedgerView& ledger,
                                Instant now) {
  const bool soon = waits_for_template(ledger) && templates_.forbidden.empty() &&
                    now + kTemplatesFor >= templates_.until + kTemplatesSoon;
  if (!due(templates_, now) && !soon) return;
  if (!may_use_fleets(desired) && (!found_templates_ || found_templates_->empty())) return;
  aws::DescribeRequest request;
  request.filters = {{std::string("tag:") + core::kTagDeployment, {desired.deployment}}};
  auto templates = aws::collect_all(ec2_, &aws::Ec2::describe_launch_templates, request);
  settle(templates_, "ec2:DescribeLaunchTemplates", templates ? nullptr : &templates.error(),
         kTemplatesFor, now);
  if (templates)
    found_templates_ = std::move(*templates);
  else if (!templates_.forbidden.empty())
    found_templates_.reset();
}

void MarketWatch::note_forbidden(core::Observed& observed) const {
  std::string actions;
  for (const auto* asking : {&prices_, &offerings_, &scores_, &templates_})
    if (!asking->forbidden.empty()) actions += (actions.empty() ? "" : ", ") + asking->forbidden;
  if (!actions.empty())
    observed.notes.push_back("launches do without what may not be read: allow " + actions +
                             " to have them choose by it");
}

void MarketWatch::ask(const core::Desired& desired, const core::LedgerView& ledger,
                      const std::map<std::string, aws::AvailabilityZone>& zones, Instant now) {
  auto types = types_of(desired);
  if (types != types_) {
    types_ = std::move(types);
    prices_.until = offerings_.until = Instant{};
  }
  if (!types_.empty()) {
    if (due(prices_, now)) ask_prices(types_, now);
    if (due(offerings_, now)) ask_offerings(types_, now);
    ask_scores(desired, ledger, zones, now);
  }
  ask_templates(desired, ledger, now);
}

void MarketWatch::add(core::Observed& observed) const {
  observed.market = market_;
  observed.templates = found_templates_;
  note_forbidden(observed);
}

}  // namespace warmroot::manager
