// Reads lists of blocks of one volume, each absent block once, however many lists name it. Called
// by the warmer, claim_trial and root_metadata; read_pump does the reading.
#pragma once

#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/presence.hpp"
#include "bootstrap/warm/read_pump.hpp"

namespace warmroot::warm {

class ListReader {
 public:
  /// The pump's owner passes its questions `wanted` and `given_up` on to is_wanted and give_up.
  ListReader(ReadPump& pump, const Presence& presence, std::stop_token stop)
      : pump_(pump), presence_(presence), stop_(std::move(stop)), asked_(presence.size()) {}

  /// With `enough`, what is slow of one list is still in flight while the next is read. Otherwise
  /// as ReadPump::read.
  Result<ReadPump::End> read(std::span<const Block> order, const ReadPump::Enough& enough = {});

  /// Those blocks of the ranges that are not present, in the ranges' order.
  std::vector<Block> absent_of(std::span<const ByteRange> ranges) const;
  bool is_present(ByteRange range) const { return presence_.present().contains_range(range); }
  /// Asked for, and not read yet.
  BlockSet under_way() const { return asked_.difference(presence_.read()); }
  /// Each is present or was given up, or no list has named it yet.
  bool have_ended(std::span<const Block> blocks) const;
  /// The same of whatever any list has named.
  bool have_all_ended() const { return asked_.difference(presence_.present()).count() == 0; }

  /// Lists and files name blocks more than once, and some of them have come in meanwhile. Where the
  /// answer is yes, the block counts as asked for.
  bool is_wanted(Block block);
  /// A later list may name it again.
  void give_up(Block block) { asked_.erase(block); }

 private:
  ReadPump& pump_;
  const Presence& presence_;
  std::stop_token stop_;
  BlockSet asked_;  // for the pump; what was given up leaves it again
};

}  // namespace warmroot::warm
