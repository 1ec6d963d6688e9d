#include "bootstrap/warm/presence.hpp"

#include <utility>

namespace warmroot::warm {

bool Presence::insert_read(Block block) {
  if (claimed_.contains(block)) return false;
  present_.insert(block);
  read_.insert(block);
  return true;
}

bool Presence::erase_read(Block block) {
  if (!read_.contains(block)) return false;
  if (!unlisted_.contains(block)) present_.erase(block);
  read_.erase(block);
  return true;
}

void Presence::leave_out(BlockSet unlisted) {
  unlisted_ = std::move(unlisted);
  present_.insert_all(unlisted_);
}

void Presence::claim(const BlockSet& by_map) {
  claimed_ = by_map.difference(read_).difference(unlisted_);
  present_.insert_all(by_map);
}

void Presence::disbelieve(std::span<const Block> samples) {
  present_ = read_;
  present_.insert_all(unlisted_);
  claimed_.clear();
  for (const Block block : samples) present_.insert(block);
}

void Presence::claim_all(const BlockSet& needed) {
  claimed_.insert_all(needed.difference(read_));
  present_.insert_all(needed);
}

}  // namespace warmroot::warm
