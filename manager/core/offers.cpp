// Neutral where nothing is known: without prices the spec's order holds, without offerings every
// type counts as offered.
#include "manager/core/offers.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>

#include "manager/core/backoff.hpp"
#include "manager/core/token.hpp"

namespace warmroot::core {

namespace {

constexpr MicroUsd kMicro = 1'000'000;
constexpr int kMicroDigits = 6;

std::optional<MicroUsd> text_price(const std::map<std::string, std::string>& prices,
                                   const std::string& type) {
  const auto found = prices.find(type);
  return found == prices.end() ? std::nullopt : parse_usd(found->second);
}

std::optional<MicroUsd> history_price(const Market& market, const Offer& offer) {
  const auto zones = market.spot_price.find(offer.instance_type);
  if (zones == market.spot_price.end()) return std::nullopt;
  const auto price = zones->second.find(offer.zone);
  return price == zones->second.end() ? std::nullopt : std::optional(price->second);
}

bool is_offered(const Market& market, const Offer& offer) {
  const auto zones = market.offered.find(offer.instance_type);
  return zones == market.offered.end() || zones->second.contains(offer.zone);
}

Milliseconds refused_for(std::string_view code) {
  if (code == "Unsupported") return kOfferUnsupportedFor;
  return code == kStayedPending ? kOfferPendingFor : kOfferRefusedFor;
}

Instant refused_until(const RefusedOffer& refusal) {
  return refusal.last + refused_for(refusal.code);
}

/// Where every offer is refused, the wait begins short and grows: nothing else could be bought.
Instant last_resort_at(const Offer& offer, const RefusedOffer& refusal) {
  if (refusal.code == "Unsupported") return refused_until(refusal);
  const double jitter =
      hash_fraction({offer.instance_type, offer.zone, std::to_string(refusal.count)});
  return refusal.last + backoff_delay(refusal.count, kBackoffBase, kBackoffCap, jitter);
}

/// For on-demand without prices the spot prices are the best guess at which type is the cheaper.
MicroUsd rank_of(const PricedOffer& priced, const Market& market) {
  if (priced.price) return *priced.price;
  constexpr MicroUsd kUnknown = std::numeric_limits<MicroUsd>::max();
  return priced.offer.spot ? kUnknown : history_price(market, priced.offer).value_or(kUnknown);
}

void cheapest_first(std::vector<PricedOffer>& offers, const Market& market) {
  std::stable_sort(offers.begin(), offers.end(),
                   [&](const PricedOffer& left, const PricedOffer& right) {
                     return rank_of(left, market) < rank_of(right, market);
                   });
}

void consider_retry(ZoneOffers& offers, Instant at) {
  if (!offers.retry || at < *offers.retry) offers.retry = at;
}

/// The refusal that keeps an offer from being asked for now, or nullptr.
const RefusedOffer* refusal_of(const Offer& offer, const std::map<Offer, RefusedOffer>& refused) {
  const auto found = refused.find(offer);
  return found == refused.end() || found->second.code.empty() ? nullptr : &found->second;
}

std::string code_clause(const Offer& offer, const RefusedOffer& refusal) {
  return offer.instance_type + (offer.spot ? "" : " on-demand") + ": " + refusal.code;
}

struct Refused {
  PricedOffer priced;
  const RefusedOffer* refusal;
};

/// Nothing but refused offers is left: those whose time has come may be tried all the same.
void add_last_resort(const std::vector<Refused>& refused, Instant now, ZoneOffers& offers,
                     std::vector<PricedOffer>& list) {
  for (const auto& [priced, refusal] : refused) {
    const Instant at = last_resort_at(priced.offer, *refusal);
    if (now < at) {
      consider_retry(offers, at);
      continue;
    }
    offers.last_resort = true;
    list.push_back(priced);
  }
}

/// A quota of the Region is full in every zone, and a price above ours is a wish, not a shortage.
bool tells_of_a_shortage(const RefusedOffer& refusal) {
  return !is_full_quota(refusal.code) && refusal.code != "SpotMaxPriceTooLow";
}

/// Adds the offers of one market that may be asked for now. True: the zone has no capacity for any
/// that it offers; one that costs too much or meets a quota has not shown that; `since` is when the
/// last of them began to be.
bool add_usable(const PoolSpec& pool, const std::string& zone, bool spot, const Market& market,
                const std::map<Offer, RefusedOffer>& known, Instant now, ZoneOffers& offers,
                Instant& since) {
  const auto limit = spot ? parse_usd(pool.launch->max_price) : std::nullopt;
  auto& list = spot ? offers.spot : offers.on_demand;
  std::vector<Refused> refused;
  bool shortage = true;
  Instant of_capacity{}, of_types{};
  for (const auto& type : pool.launch->instance_types) {
    const PricedOffer priced{{type, zone, spot},
                             price_of({type, zone, spot}, *pool.launch, market)};
    if (!is_offered(market, priced.offer)) {
      if (spot) offers.reasons.push_back(type + ": not offered in " + zone);
      continue;
    }
    if (limit && priced.price && *priced.price > *limit) {
      offers.reasons.push_back(type + ": costs " + usd_text(*priced.price) +
                               " USD an hour, above max_price");
      shortage = false;
      continue;
    }
    const auto* refusal = refusal_of(priced.offer, known);
    if (!refusal || now >= refused_until(*refusal)) {
      list.push_back(priced);
      continue;
    }
    offers.reasons.push_back(code_clause(priced.offer, *refusal));
    refused.push_back({priced, refusal});
    shortage = shortage && tells_of_a_shortage(*refusal);
    auto& latest = refusal->code == "Unsupported" ? of_types : of_capacity;
    latest = std::max(latest, refusal->since);
  }
  since = std::max(since, of_capacity == Instant{} ? of_types : of_capacity);
  const bool all_refused = !refused.empty() && list.empty();
  if (all_refused) add_last_resort(refused, now, offers, list);
  cheapest_first(list, market);
  return all_refused && shortage;
}

}  // namespace

Milliseconds streak_gap(std::string_view code) {
  // A type that the zone does not have is asked for each hour, and begins anew each time.
  return code == kStayedPending ? 2 * kOfferPendingFor : 2 * kOfferRefusedFor;
}

bool is_full_quota(std::string_view code) {
  return code == "MaxSpotInstanceCountExceeded" || code == "VcpuLimitExceeded";
}

std::optional<MicroUsd> parse_usd(std::string_view text) {
  constexpr MicroUsd kMost = 1'000'000;
  MicroUsd whole = 0;
  const char* end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, whole);
  const bool no_whole = error != std::errc{};
  if (no_whole) at = text.data();
  if (whole < 0 || whole > kMost) return std::nullopt;
  MicroUsd amount = whole * kMicro;
  if (at == end) return no_whole ? std::nullopt : std::optional(amount);
  if (*at++ != '.' || (no_whole && at == end)) return std::nullopt;
  MicroUsd unit = kMicro;
  for (; at != end; ++at) {
    if (*at < '0' || *at > '9') return std::nullopt;
    unit /= 10;  // digits beyond the sixth count nothing
    amount += (*at - '0') * unit;
  }
  return amount;
}

std::string usd_text(MicroUsd amount) {
  std::string digits = std::to_string(amount % kMicro);
  digits.insert(0, static_cast<std::size_t>(kMicroDigits) - digits.size(), '0');
  while (digits.size() > 2 && digits.back() == '0') digits.pop_back();
  return std::to_string(amount / kMicro) + "." + digits;
}

std::string region_of_zone(std::string_view zone) {
  const auto number = zone.find_first_of("0123456789");
  if (number == std::string_view::npos) return std::string(zone);
  return std::string(zone.substr(0, zone.find_first_not_of("0123456789", number)));
}

std::optional<MicroUsd> price_of(const Offer& offer, const LaunchSpec& launch,
                                 const Market& market) {
  if (!offer.spot) return text_price(launch.on_demand_prices, offer.instance_type);
  if (const auto price = history_price(market, offer)) return price;
  return parse_usd(launch.max_price);
}

ZoneOffers offers_in(const PoolSpec& pool, const std::string& zone, const Market& market,
                     const std::map<Offer, RefusedOffer>& refused, Instant now) {
  ZoneOffers offers;
  Instant since{};
  const bool dry = add_usable(pool, zone, true, market, refused, now, offers, since);
  if (!dry) return offers;
  offers.dry_since = since;
  if (!pool.launch->on_demand_fallback) return offers;
  const Instant due = since + pool.launch->on_demand_after;
  if (now < due) {
    consider_retry(offers, due);
    return offers;
  }
  Instant unused{};
  add_usable(pool, zone, false, market, refused, now, offers, unused);
  return offers;
}

}  // namespace warmroot::core
