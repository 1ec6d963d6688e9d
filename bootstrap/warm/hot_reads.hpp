// The blocks that sessions read first, by a list: read before all else, and counted until all of
// them are there. A list that somebody tells while the rest is being read is read from then on.
// Called by the warmer; list_reader and read_pump do the reading.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/depth_control.hpp"
#include "bootstrap/warm/list_reader.hpp"
#include "bootstrap/warm/presence.hpp"
#include "bootstrap/warm/read_pump.hpp"
#include "bootstrap/warm/session_wishes.hpp"
#include "bootstrap/warm/warm_progress.hpp"

namespace warmroot::warm {

class HotReads {
 public:
  using SteadyClock = std::chrono::steady_clock;
  /// The late list; nullopt: not yet; no blocks: there is none. Must not wait. May be empty.
  using Late = std::function<std::optional<std::vector<Block>>()>;

  /// What is read with, and where it is told; all of one run, which outlives this.
  struct Parts {
    DepthControl& control;
    ReadPump& pump;
    ListReader& reader;
    const Presence& presence;
    SessionWishes& wishes;
    WarmProgress& progress;  ///< hot_blocks, hot_present and hot_ms
  };

  /// Of a run that began at `start`.
  HotReads(const Parts& parts, SteadyClock::time_point start, Late late)
      : parts_(parts), start_(start), late_(std::move(late)), blocks_(parts.presence.size()) {}

  /// Before all else: sessions are waiting for these. What is `under_way` already comes last. Ends
  /// when all are asked for. Once.
  Result<ReadPump::End> read(std::vector<Block> list, std::span<const Block> under_way);
  /// Asks for the late list, and prefers it where it is there: what of the rest is left takes
  /// minutes, and sessions want this first. Not before the first has been asked for.
  void take_late();
  /// It has not answered.
  bool waits_for_late() const { return static_cast<bool>(late_); }
  /// Something of a list is still to be started.
  bool is_being_read();

  /// This block is present now.
  void came(Block block);
  /// Some blocks are not present after all.
  void went();
  /// Counts them; the last may be there by the map's or the snapshot's word, which no read's end
  /// tells.
  void count();

 private:
  bool are_there() const;
  void look();

  Parts parts_;
  SteadyClock::time_point start_;
  Late late_;  // until it has answered
  BlockSet blocks_;
  bool started_ = false;    // all of the list that was there at the start
  bool late_left_ = false;  // of the one that came later
};

}  // namespace warmroot::warm
