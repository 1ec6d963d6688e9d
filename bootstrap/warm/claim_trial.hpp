// Whether what this run has not read is on the volume all the same: what the warm map claims is
// tried, and where there is no map, blocks are drawn of what nobody has read. Called by the warmer
// between its lists. The verdicts are warm_draws', the map's file is map_keeper's; what comes of a
// trial is told to presence.
#pragma once

#include <cstddef>
#include <functional>
#include <random>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/first_touches.hpp"
#include "bootstrap/warm/latency_histogram.hpp"
#include "bootstrap/warm/list_reader.hpp"
#include "bootstrap/warm/map_keeper.hpp"
#include "bootstrap/warm/needed_set.hpp"
#include "bootstrap/warm/presence.hpp"
#include "bootstrap/warm/read_engine.hpp"
#include "bootstrap/warm/read_pump.hpp"

namespace warmroot::warm {

class ClaimTrial {
 public:
  /// What a trial is made with, all of one run, which outlives it.
  struct Parts {
    const ReadEngine& engine;  ///< the pump's
    ReadPump& pump;
    ListReader& reader;
    Presence& presence;
    const NeededSet& needed;
    MapKeeper& map;
    const FirstTouches& first_touches;
    LatencyHistogram& warm_reads;  ///< of what the pump samples; emptied where that was cold
  };
  /// Told what came of a trial that was not to be expected. On the caller's thread.
  using OnNote = std::function<void(std::string)>;

  ClaimTrial(const Parts& parts, std::stop_token stop, OnNote on_note)
      : parts_(parts), stop_(std::move(stop)), on_note_(std::move(on_note)) {}

  /// How many blocks are sampled where that is to tell something of all.
  static constexpr std::size_t kSamples = 64;
  /// Fewer reads than this tell nothing.
  static constexpr std::size_t kFirstDrawn = 8;

  /// The map is there, or there is none: try_map would not wait for it. Requires that the map is
  /// being looked for, as try_map does.
  bool has_looked_for_map() const;
  /// Takes the map, once. A map may be older than a restored snapshot, or forged: a few dozen of
  /// its blocks are read again, and compared with reads that are certainly warm because they repeat
  /// others. Of a map that is not believed nothing is claimed. Errors: the engine's own.
  Ok try_map();

  /// A volume without a map may be warm all the same: a copy of one that is, or filled by EBS. Then
  /// all that was read so far came fast, and so does what is drawn now, and all that is needed
  /// counts as present. Else the draws count for nothing: the pump reads those blocks again, whole
  /// where a touch is not enough. No map is kept of a volume that was warm: a few absent blocks
  /// escape the draws, and the next lease draws others. Errors: the engine's own.
  Result<bool> is_warm_already();

  /// Different blocks of the set, drawn by trial: listing all of them would take megabytes on a
  /// large disk. A nearly empty set may give fewer. Of what is not needed, or not in the snapshot,
  /// there are none, as far as either is known.
  std::vector<Block> random_of(const BlockSet& set, std::size_t count);

 private:
  Parts parts_;
  std::stop_token stop_;
  OnNote on_note_;
  std::mt19937_64 random_{std::random_device{}()};
};

}  // namespace warmroot::warm
