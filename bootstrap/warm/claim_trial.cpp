#include "bootstrap/warm/claim_trial.hpp"

#include <algorithm>
#include <chrono>
#include <span>

#include "bootstrap/warm/warm_draws.hpp"

namespace warmroot::warm {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kReferenceReads = 8;
/// In a warm file system the map is found sooner; in a cold one no file has been found by then.
constexpr auto kWarmLook = milliseconds(20);

}  // namespace

std::vector<Block> ClaimTrial::random_of(const BlockSet& set, std::size_t count) {
  constexpr std::size_t kTrials = 200;  // a block
  const Presence& presence = parts_.presence;
  const NeededSet& needed = parts_.needed;
  std::vector<Block> blocks;
  if (set.size() == 0) return blocks;
  std::uniform_int_distribution<Block> any(0, set.size() - 1);
  for (std::size_t trial = 0; trial < kTrials * count && blocks.size() < count; ++trial) {
    const Block block = any(random_);
    const bool wanted = set.contains(block) && !presence.unlisted().contains(block) &&
                        (!needed.is_known() || needed.blocks().contains(block));
    if (wanted && std::find(blocks.begin(), blocks.end(), block) == blocks.end())
      blocks.push_back(block);
  }
  return blocks;
}

/// With reads in flight only the pump waits: it sees them end in time, and tells what they took.
bool ClaimTrial::has_looked_for_map() const {
  return parts_.map.has_looked(parts_.engine.in_flight() == 0 ? kWarmLook : milliseconds(0));
}

Ok ClaimTrial::try_map() {
  Presence& presence = parts_.presence;
  ReadPump& pump = parts_.pump;
  if (!has_looked_for_map()) {
    TRY_ASSIGN(const auto end,
               parts_.reader.read({}, [this] { return parts_.map.has_looked(milliseconds(0)); }));
    if (end != ReadPump::End::finished) return {};  // the next read ends so, too
  }
  // What is on its way arrives as read, also where the map turns out not to be believed.
  if (const auto by_map = parts_.map.take())
    presence.claim(by_map->difference(parts_.reader.under_way()));
  const std::vector<Block> blocks = random_of(presence.claimed(), kSamples);
  if (blocks.empty()) return {};
  TRY_ASSIGN(auto latencies, pump.sample(blocks, stop_));
  if (!stop_.stop_requested() && !have_answered(latencies)) {
    TRY_ASSIGN(latencies, pump.sample(blocks, stop_));
  }
  if (stop_.stop_requested()) return {};
  const auto arrived = [&] {
    std::vector<Block> there;
    for (std::size_t i = 0; i < blocks.size(); ++i)
      if (latencies[i]) there.push_back(blocks[i]);
    return there;
  };
  if (!have_answered(latencies)) {  // nothing speaks for the map, and nothing against it
    on_note_("the warm map cannot be tried: the volume answers too slowly");
    presence.disbelieve(arrived());
    return {};
  }
  const std::size_t again = std::min(blocks.size(), kReferenceReads);
  TRY_ASSIGN(const auto reference, pump.sample(std::span(blocks).first(again), stop_));
  const auto cold = cold_of_map(latencies, reference);
  if (!cold || stop_.stop_requested()) return {};
  on_note_("the warm map was not believed: " + std::to_string(*cold) + " of " +
           std::to_string(latencies.size()) + " sampled blocks were cold");
  presence.disbelieve(arrived());
  parts_.warm_reads = {};
  parts_.map.disbelieve();
  return {};
}

Result<bool> ClaimTrial::is_warm_already() {
  Presence& presence = parts_.presence;
  const NeededSet& needed = parts_.needed;
  if (parts_.map.exists() || !parts_.first_touches.may_be_warm()) return false;
  const std::vector<Block> blocks =
      random_of(needed.blocks().difference(presence.present()), 2 * kSamples);
  const std::vector<Block> certain =
      random_of(presence.read().intersection(needed.blocks()), kSamples);
  if (blocks.size() < kFirstDrawn || certain.empty()) return false;
  std::size_t drawn = 0;
  const auto draw = [&](std::size_t until) -> Result<std::vector<Draw>> {
    std::vector<Block> in_turn;
    for (; drawn < std::min(until, blocks.size()); ++drawn)
      in_turn.insert(in_turn.end(), {blocks[drawn], certain[drawn % certain.size()]});
    TRY_ASSIGN(const auto latencies, parts_.pump.sample(in_turn, stop_));
    return draws_of(latencies);
  };
  // A few first: of a cold volume whose metadata the mount has brought in, no more are drawn.
  TRY_ASSIGN(auto draws, draw(kFirstDrawn));
  if (judge_draws(draws) != Drawn::absent && blocks.size() > drawn) {
    TRY_ASSIGN(const auto more, draw(kSamples));
    draws.insert(draws.end(), more.begin(), more.end());
  }
  auto verdict = judge_draws(draws);
  if (verdict == Drawn::doubtful && blocks.size() > drawn) {
    TRY_ASSIGN(const auto others, draw(2 * kSamples));
    verdict = judge_draws(others);
  }
  if (verdict != Drawn::present) {
    parts_.warm_reads = {};
    return false;
  }
  on_note_("the volume was warm already, by " + std::to_string(drawn) + " blocks drawn");
  presence.claim_all(needed.blocks());
  parts_.map.give_up();
  return true;
}

}  // namespace warmroot::warm
