// The warm map's life during one run of the warmer: looked for once and saved now and then, on a
// thread beside the reads, and saved once more at the end. Called by the warmer, which tells what
// time it is, and by claim_trial, which judges what the map claims. The bytes are warm_map's, the
// file volume_file's, when it is time to save map_saves'.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>

#include "bootstrap/base/result.hpp"
#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/presence.hpp"
#include "bootstrap/warm/volume_file.hpp"
#include "bootstrap/warm/warm_map.hpp"

namespace warmroot::warm {

class MapKeeper {
 public:
  using SteadyClock = std::chrono::steady_clock;
  /// Told what is wrong with the map; the volume is warmed all the same. On the caller's thread.
  using OnNote = std::function<void(std::string)>;

  /// Of a run that begins at `start`.
  MapKeeper(SteadyClock::time_point start, OnNote on_note)
      : on_note_(std::move(on_note)), last_save_(start) {}

  /// Begins to look for the map: in a cold file system that takes some first touches, one after the
  /// other. `map_path` inside `mount_point`; either empty: no map is kept. Once; once more changes
  /// nothing.
  void look(const std::string& mount_point, const std::string& map_path, MapIdentity identity);
  /// The look has ended, within `time`.
  bool has_looked(std::chrono::milliseconds time) const;
  /// What the map claims; nothing where there is none that fits. Waits for the look's end; once,
  /// and before it nothing is ever saved.
  std::optional<BlockSet> take();

  /// The volume has a map, and it is believed.
  bool exists() const { return exists_; }
  /// What it claims was disproved: it is to be replaced.
  void disbelieve();

  /// Nothing is saved any more in this run; a map that is there stays as it is.
  void give_up() { file_.reset(); }

  /// One more block is present.
  void count_block() { ++unsaved_; }

  /// Begins to save where that is due and worth it; does not wait. No session has missed a block
  /// since `at_rest_since`; nothing: that is not known.
  void keep_up(SteadyClock::time_point now, std::optional<SteadyClock::time_point> at_rest_since,
               const Presence& presence);
  /// Saves what is worth it, and waits for it. False when there was nothing to wait for.
  bool save_now(const Presence& presence);

 private:
  struct Found {
    std::optional<VolumeFile> file;
    std::optional<std::string> bytes;
    std::string note;
  };

  /// Requires a file, and that none is being saved.
  void start_saving(const Presence& presence);
  void take_saved(bool wait);

  OnNote on_note_;
  std::future<Found> look_;
  bool has_begun_ = false;
  std::optional<VolumeFile> file_;
  MapIdentity identity_;
  std::future<Ok> saving_;
  std::uint64_t unsaved_ = 0;  // blocks
  bool exists_ = false;
  SteadyClock::time_point last_save_;  // when it was begun; at first the run
};

}  // namespace warmroot::warm
