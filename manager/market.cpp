// One call for all types of all pools where EC2 takes lists. Placement scores are a question a
// pool: a few a look, and what EC2 says to one pool's keeps no other's back.
#include "manager/market.hpp"

#include <algorithm>
#include <set>

#include "manager/aws/ec2_codec.hpp"
#include "manager/aws/paging.hpp"
#include "manager/core/offers.hpp"

namespace warmroot::manager {

namespace {

constexpr int kPageOfPrices = 1000;

/// Types that the spec has left out count on under max_price_hour while instances of them run.
void add_running(const core::Desired& desired, const core::SharedMap<aws::Instance>& instances,
                 std::vector<std::string>& types) {
  std::set<std::string_view> limited;
  for (const auto& pool : desired.pools)
    if (pool.launch && !pool.launch->max_price_hour.empty()) limited.insert(pool.name);
  if (limited.empty()) return;
  for (const auto& [id, instance] : instances) {
    const bool paid = instance.state == aws::InstanceState::pending ||
                      instance.state == aws::InstanceState::running;
    const bool last = !types.empty() && types.back() == instance.instance_type;
    const auto pool = instance.tags.find(core::kTagPool);
    if (paid && !last && pool != instance.tags.end() && limited.contains(pool->second))
      types.push_back(instance.instance_type);
  }
}

std::vector<std::string> types_of(const core::Desired& desired,
                                  const core::SharedMap<aws::Instance>& instances) {
  std::vector<std::string> types;
  for (const auto& pool : desired.pools)
    if (pool.launch)
      types.insert(types.end(), pool.launch->instance_types.begin(),
                   pool.launch->instance_types.end());
  add_running(desired, instances, types);
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
  const auto types = types_of(desired, {});
  if (types.empty() || !types_.empty()) return {};
  aws::DescribeRequest offerings;
  offerings.filters = {{"instance-type", types}};
  return {aws::encode(price_request(types, now)),
          aws::encode(aws::Describe::instance_type_offerings, offerings)};
}

void MarketWatch::settle(Asking& asking, const char* action, const Error* error,
                         Milliseconds good_for, Instant now) {
  asking.forbidden.clear();
  asking.error.clear();
  asking.until = now + good_for;
  if (!error) return;
  asking.until = now + kMarketRetry;
  if (error->kind == ErrorKind::retry_later || error->kind == ErrorKind::unknown_outcome) return;
  // A missing permission, an endpoint that does not know the call, a value that EC2 does not take:
  // none of them passes soon.
  if (error->kind == ErrorKind::unauthorised)
    asking.forbidden = action;
  else
    asking.error = error->message();
  asking.until = now + kForbiddenFor;
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

std::vector<MarketWatch::ScoreQuestion> MarketWatch::questions_for_scores(
    const core::Desired& desired, const core::LedgerView& ledger, Instant now) {
  std::vector<ScoreQuestion> questions;
  std::map<std::string, std::size_t> places;
  postponed_ = false;
  const auto choosing = choosing_zones(desired, ledger);
  std::set<std::string_view> names;
  for (const auto* pool : choosing) names.insert(pool->name);
  std::erase_if(unscored_, [&](const auto& each) { return !names.contains(each.first); });
  for (const auto* pool : choosing) {
    if (now < scored_until_[pool->name]) continue;
    aws::GetSpotPlacementScores request;
    request.instance_types = pool->launch->instance_types;
    request.target_capacity = pool->running;
    request.region = core::region_of_zone(pool->zones.front());
    auto body = aws::encode(request);
    const auto known = scores_known_.find(body);
    if (known != scores_known_.end() && now < known->second.until) {
      take_scores(pool->name, known->second);
      continue;
    }
    const bool repeats = known != scores_known_.end() && known->second.answered &&
                         now < *known->second.answered + kScoresRepeatable;
    if (now < new_questions_from_ && !repeats) {
      unscored_[pool->name] = limit_;
      continue;
    }
    const auto [place, is_new] = places.try_emplace(body, questions.size());
    if (!is_new) {
      questions[place->second].pools.push_back(pool->name);
    } else if (questions.size() < kScoresAtOnce) {
      questions.push_back({std::move(request), std::move(body), {pool->name}});
    } else {
      places.erase(place);
      postponed_ = true;
    }
  }
  return questions;
}

void MarketWatch::take_scores(const std::string& pool, const Scores& scores) {
  scored_until_[pool] = scores.until;
  if (scores.error.empty()) {
    market_.scores[pool] = scores.found;
    unscored_.erase(pool);
  } else {
    market_.scores.erase(pool);
    unscored_[pool] = scores.error;
  }
}

bool MarketWatch::ask_score(const ScoreQuestion& question,
                            const std::map<std::string, aws::AvailabilityZone>& zones,
                            Instant now) {
  const auto answer = ec2_.get_spot_placement_scores(question.request);
  const auto kind = answer ? ErrorKind::refused : answer.error().kind;
  if (!answer && kind != ErrorKind::refused && kind != ErrorKind::misconfigured &&
      kind != ErrorKind::gone) {
    settle(scores_, "ec2:GetSpotPlacementScores", &answer.error(), kScoresRound, now);
    if (scores_.silent()) unscored_.clear();  // one note says it for all
    return false;
  }
  auto& scores = scores_known_[question.body];
  scores.found.clear();
  scores.error.clear();
  if (answer) {
    scores.until = now + kScoresFor;
    scores.answered = now;
    for (const auto& score : *answer)
      for (const auto& [name, zone] : zones)
        if (zone.zone_id == score.zone_id) scores.found[name] = score.score;
  } else {
    scores.error = answer.error().message();
    scores.until = now + kForbiddenFor;
    if (aws::bare_code(answer.error().code).starts_with("MaxConfigLimitExceeded")) {
      limit_ = scores.error;
      scores.until = new_questions_from_ = now + kScoresFor;
    }
  }
  for (const auto& pool : question.pools) take_scores(pool, scores);
  return true;
}

void MarketWatch::ask_scores(const core::Desired& desired, const core::LedgerView& ledger,
                             const std::map<std::string, aws::AvailabilityZone>& zones,
                             Instant now) {
  if (zones.empty()) postponed_ = false;
  if (!due(scores_, now) || zones.empty()) return;
  const auto questions = questions_for_scores(desired, ledger, now);
  if (questions.empty()) return;
  settle(scores_, "", nullptr, kScoresRound, now);
  std::vector<std::string> bodies;
  for (const auto& question : questions) bodies.push_back(question.body);
  ec2_.expect(bodies);
  for (const auto& question : questions)
    if (!ask_score(question, zones, now)) {
      postponed_ = false;  // to hurry does not help
      return;
    }
  std::erase_if(scores_known_,
                [&](const auto& known) { return now >= known.second.until + kScoresRepeatable; });
}

void MarketWatch::hurry() {
  if (postponed_) scores_.until = {};
}

void MarketWatch::ask_templates(const core::Desired& desired, const core::LedgerView& ledger,
                                Instant now) {
  const bool soon = waits_for_template(ledger) && !templates_.silent() &&
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
  else if (templates_.silent())
    found_templates_.reset();
}

void MarketWatch::note_silent(core::Observed& observed) const {
  std::string actions;
  std::string errors;
  for (const auto* asking : {&prices_, &offerings_, &scores_, &templates_}) {
    if (!asking->forbidden.empty()) actions += (actions.empty() ? "" : ", ") + asking->forbidden;
    if (!asking->error.empty()) errors += "; " + asking->error;
  }
  if (actions.empty() && errors.empty()) return;
  observed.notes.push_back("launches do without what " +
                           (actions.empty() ? "cannot be read" + errors
                                            : "may not be read: allow " + actions +
                                                  " to have them choose by it" + errors));
}

void MarketWatch::note_unscored(core::Observed& observed) const {
  if (unscored_.empty()) return;
  const auto& [pool, why] = *unscored_.begin();
  const std::size_t others = unscored_.size() - 1;
  observed.notes.push_back("zones of " + pool +
                           (others == 0 ? ""
                                        : " and " + std::to_string(others) +
                                              (others == 1 ? " other pool" : " other pools")) +
                           " are chosen without placement scores: " + why);
}

void MarketWatch::ask(const core::Desired& desired, const core::LedgerView& ledger,
                      const std::map<std::string, aws::AvailabilityZone>& zones,
                      const core::SharedMap<aws::Instance>& instances, Instant now) {
  auto types = types_of(desired, instances);
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
  note_silent(observed);
  note_unscored(observed);
}

}  // namespace warmroot::manager
