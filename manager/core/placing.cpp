// A sieve: each criterion keeps the zones that are best by it, and a fact that nobody knows keeps
// them all. What is left is shared out by the node's number, so that a look without facts gives
// what the spec's order gives.
#include "manager/core/placing.hpp"

#include <algorithm>

#include "manager/core/filling_facts.hpp"
#include "manager/core/launching.hpp"
#include "manager/core/leasing.hpp"
#include "manager/core/offers.hpp"

namespace warmroot::core {

namespace {

struct ZoneFacts {
  std::string zone;
  bool works = true;  ///< EC2 calls it available
  bool buys = true;   ///< some instance type may be asked for
  int spares = 0;     ///< volumes of the pool that nobody has
  int filled = 0;     ///< of these the ones that are read in full
  int free_here = 0;  ///< of a pool without launch: instances that wait for a volume
  std::optional<MicroUsd> price;
  std::optional<int> score;
};

/// Of a pool's present lineage, never leased.
struct FreeSpares {
  int all = 0;
  int filled = 0;
};
using Spares = std::map<std::pair<std::string, std::string>, FreeSpares>;  // by pool and zone

void count(FreeSpares& spares, bool filled) {
  ++spares.all;
  if (filled) ++spares.filled;
}

Spares free_spares(Draft& draft) {
  Spares spares;
  for (const auto& [id, volume] : draft.observed.volumes) {
    if (tag_of(volume.tags, kTagRole) != to_string(VolumeRole::spare) ||
        volume.state != aws::VolumeState::available || attachment_of(volume) ||
        has_tag(volume.tags, kTagQuarantined))
      continue;
    const auto* pool = draft.find_pool(tag_of(volume.tags, kTagPool));
    if (pool && tag_of(volume.tags, kTagLineage) == pool->source.snapshot_id)
      count(spares[{pool->spec->name, volume.availability_zone}], is_filled(draft, id));
  }
  return spares;
}

std::vector<ZoneFacts> facts_of(Draft& draft, const PoolDraft& pool, const Spares& spares) {
  std::vector<ZoneFacts> all;
  const auto& market = draft.observed.market;
  const auto scores = market.scores.find(pool.spec->name);
  for (const auto& zone : pool.spec->zones) {
    ZoneFacts facts;
    facts.zone = zone;
    if (const auto seen = draft.observed.zones.find(zone); seen != draft.observed.zones.end())
      facts.works = seen->second.state.empty() || seen->second.state == "available" ||
                    seen->second.state == "information";
    if (pool.spec->launch) {
      const auto offers = offers_in(*pool.spec, zone, market, draft.refused_offers, draft.now);
      facts.buys = !offers.usable().empty() && !offers.last_resort;
      if (facts.buys) facts.price = offers.usable().front().price;
    } else {
      for (const auto* instance : pool.instances)
        if (instance->zone == zone && unassigned(draft, *instance)) ++facts.free_here;
      facts.free_here -= nodes_without_instance(draft, pool, zone);
    }
    if (scores != market.scores.end())
      if (const auto score = scores->second.find(zone); score != scores->second.end())
        facts.score = score->second;
    if (const auto free = spares.find({pool.spec->name, zone}); free != spares.end()) {
      facts.spares = free->second.all;
      facts.filled = free->second.filled;
    }
    all.push_back(std::move(facts));
  }
  return all;
}

using Zones = std::vector<ZoneFacts*>;

/// Keeps those that `good` holds for, unless it holds for none or all. True: it made a difference.
template <typename Predicate>
bool sift(Zones& zones, Predicate good) {
  Zones kept;
  std::copy_if(zones.begin(), zones.end(), std::back_inserter(kept), good);
  if (kept.empty() || kept.size() == zones.size()) return false;
  zones = std::move(kept);
  return true;
}

/// The best zones, and in a clause what made them so (empty: nothing did).
std::string sieve(Zones& zones) {
  std::string why;
  sift(zones, [](const ZoneFacts* facts) { return facts->works; });
  if (sift(zones, [](const ZoneFacts* facts) { return facts->buys; }))
    why = "the other zones have no capacity";
  if (sift(zones, [](const ZoneFacts* facts) { return facts->free_here > 0; }))
    why = "an instance there waits for a volume";
  if (sift(zones, [](const ZoneFacts* facts) { return facts->spares > 0; }))
    why = "a spare is free there";
  if (sift(zones, [](const ZoneFacts* facts) { return facts->filled > 0; }))
    why = "a warm spare is free there";
  std::optional<MicroUsd> cheapest;
  for (const auto* facts : zones)
    if (facts->price && (!cheapest || *facts->price < *cheapest)) cheapest = facts->price;
  if (cheapest && sift(zones, [&](const ZoneFacts* facts) {
        return !facts->price || *facts->price * 100 <= *cheapest * (100 + kPriceTolerancePercent);
      }))
    why = "the cheapest, " + usd_text(*cheapest) + " USD an hour";
  int best = 0;
  for (const auto* facts : zones) best = std::max(best, facts->score.value_or(0));
  if (sift(zones, [&](const ZoneFacts* facts) {
        return !facts->score || *facts->score + kScoreTolerance >= best;
      }))
    why = "placement score " + std::to_string(best);
  return why;
}

void place_node(NodeDraft& node, std::vector<ZoneFacts>& all) {
  Zones zones;
  for (auto& facts : all) zones.push_back(&facts);
  node.zone_reason = sieve(zones);
  auto* chosen = zones[static_cast<std::size_t>(node.index) % zones.size()];
  for (auto* facts : zones)
    if (facts->zone == node.zone) chosen = facts;
  node.zone = chosen->zone;
  // The warmest goes first.
  if (chosen->filled > 0) --chosen->filled;
  if (chosen->spares > 0) --chosen->spares;
  if (chosen->free_here > 0) --chosen->free_here;
}

}  // namespace

std::vector<std::string> zones_for(Draft& draft, const PoolDraft& pool,
                                   const std::vector<const NodeDraft*>& nodes) {
  std::vector<std::string> zones;
  if (nodes.empty()) return zones;
  auto facts = facts_of(draft, pool, free_spares(draft));
  for (const auto* node : nodes) {
    NodeDraft moved = *node;
    place_node(moved, facts);
    zones.push_back(std::move(moved.zone));
  }
  return zones;
}

void place(Draft& draft) {
  std::optional<Spares> spares;
  for (auto& pool : draft.pools) {
    if (pool.spec->zones.size() < 2) continue;
    std::vector<ZoneFacts> facts;
    for (auto& node : pool.nodes) {
      if (node.beyond || !node.volume_id.empty() || node.asked) continue;
      if (!spares) spares = free_spares(draft);
      if (facts.empty()) facts = facts_of(draft, pool, *spares);
      place_node(node, facts);
    }
  }
}

}  // namespace warmroot::core
