// What instances a pool may buy in a zone now, best first, and why not the others: prices, limits
// and what EC2 refused lately. Pure arithmetic over the spec, the market and the ledger; launching
// and placing ask it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "manager/core/model.hpp"

namespace warmroot::core {

/// A (type, zone) without capacity is left alone so long. Source: Karpenter's cache of unavailable
/// offerings.
inline constexpr Milliseconds kOfferRefusedFor{180'000};
/// One that the zone does not offer at all ("Unsupported") hardly appears by itself.
inline constexpr Milliseconds kOfferUnsupportedFor{3'600'000};
/// Code of a refusal that is ours and not EC2's: an instance stayed pending for too long. To find
/// that out takes kPendingPatience for each type, and a zone may have several.
inline constexpr const char* kStayedPending = "StayedPending";
inline constexpr Milliseconds kOfferPendingFor{1'200'000};

/// Refusals further apart than this are not in a row: nobody asked in between.
Milliseconds streak_gap(std::string_view code);

/// EC2's word for a quota of the whole Region that is full: no zone helps, another market may.
bool is_full_quota(std::string_view code);

/// "0.3512" as millionths of a dollar; nullopt when it is no decimal number of up to a million.
std::optional<MicroUsd> parse_usd(std::string_view text);
/// "0.3512", with as many digits as it needs and at least two.
std::string usd_text(MicroUsd amount);

struct PricedOffer {
  Offer offer;
  std::optional<MicroUsd> price;  ///< an hour; absent: nobody says
};

struct ZoneOffers {
  /// Usable now, the cheapest first; those without a price after the others, in the spec's order.
  std::vector<PricedOffer> spot;
  /// Usable now; empty unless the pool may fall back and spot has been dry for long enough.
  std::vector<PricedOffer> on_demand;
  std::optional<Instant> dry_since;  ///< EC2 has had no capacity for any spot offer since
  bool last_resort = false;          ///< what is usable was refused lately, like all the rest
  std::optional<Instant> retry;      ///< when what is not usable now may become so
  std::vector<std::string> reasons;  ///< why others are not usable, a clause each

  /// The offers that a launch takes now: spot, or else on-demand.
  const std::vector<PricedOffer>& usable() const { return spot.empty() ? on_demand : spot; }
};

/// Requires: the pool has a launch part.
ZoneOffers offers_in(const PoolSpec& pool, const std::string& zone, const Market& market,
                     const std::map<Offer, RefusedOffer>& refused, Instant now);

/// What an hour of it costs: spot by the price history, or at most max_price; on-demand by the
/// spec. Absent: nobody says.
std::optional<MicroUsd> price_of(const Offer& offer, const LaunchSpec& launch,
                                 const Market& market);

/// "us-east-1" of "us-east-1a" or "us-east-1-lax-1a".
std::string region_of_zone(std::string_view zone);

}  // namespace warmroot::core
