// Which blocks of the volume are present, and on whose word: this run's own reads, an earlier run's
// map, or the list of what the snapshot holds. Kept by the warmer, saved by map_keeper. Pure.
#pragma once

#include <span>

#include "bootstrap/warm/block_set.hpp"

namespace warmroot::warm {

class Presence {
 public:
  Presence() = default;
  explicit Presence(Block blocks)
      : present_(blocks), read_(blocks), claimed_(blocks), unlisted_(blocks) {}

  Block size() const { return present_.size(); }
  /// Requires block < size().
  bool contains(Block block) const { return present_.contains(block); }

  const BlockSet& present() const { return present_; }
  /// By this run.
  const BlockSet& read() const { return read_; }
  /// By the map or by draws, and not disproved.
  const BlockSet& claimed() const { return claimed_; }
  /// Not in the snapshot, so that they cost nothing; none while there is no list.
  const BlockSet& unlisted() const { return unlisted_; }
  /// For the map: what is present, without what costs nothing anyway.
  BlockSet worth_keeping() const { return present_.difference(unlisted_); }

  /// This run has read the block. False, and nothing changes, where it is claimed.
  bool insert_read(Block block);
  /// This run's read did not bring the block in after all; it stays present where it costs nothing.
  /// False, and nothing changes, where this run has not read it.
  bool erase_read(Block block);

  /// What the snapshot does not hold counts as present: nobody has to wait for it. Requires sets of
  /// one size, as all below.
  void leave_out(BlockSet unlisted);
  /// The map calls these present.
  void claim(const BlockSet& by_map);
  /// The map was wrong: nothing is claimed any more. The samples that showed it are present by now.
  void disbelieve(std::span<const Block> samples);
  /// By draws, the volume is warm: whatever of these was not read by this run is claimed.
  void claim_all(const BlockSet& needed);

 private:
  BlockSet present_;
  BlockSet read_;
  BlockSet claimed_;
  BlockSet unlisted_;
};

}  // namespace warmroot::warm
