// Reads the needed blocks of a mounted root ahead of the sessions that will want them, and measures
// what that costs. `up` runs one Warmer on a thread of its own after mounting, and stops it before
// unmounting. What is needed is needed_set's, what is present presence's, the map map_keeper's,
// whether what it claims is true claim_trial's, the hot list hot_reads', the order of blocks
// warm_plan's, the number in flight depth_control's, the reads read_engine's; this file joins them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/depth_control.hpp"
#include "bootstrap/warm/wanted_file.hpp"
#include "bootstrap/warm/warm_progress.hpp"

namespace warmroot::warm {

/// A block that was read before the warmer began, and how long that took.
struct BlockRead {
  Block block = 0;
  std::chrono::microseconds latency{0};
};

struct WarmRequest {
  std::string
      device_path;  ///< the whole disk, e.g. /dev/nvme1n1; opened read-only, never exclusively
  std::uint64_t partition_offset_bytes = 0;  ///< where the root partition starts on it
  std::uint64_t partition_size_bytes = 0;    ///< 0: up to the end of the device
  std::string mount_point;  ///< the mounted root; empty: none, and everything is needed
  std::string
      filesystem;  ///< "ext2", "ext3", "ext4", "xfs" are asked what is free; others are read whole
  std::string map_path;  ///< inside mount_point, symlinks resolved inside it; empty: no map is kept
  std::string volume_id;   ///< a map of another volume is not believed
  unsigned max_depth = 0;  ///< operator's cap on reads in flight; 0: as depth_limits has it
  unsigned max_mib_s = 0;  ///< operator's cap on what is brought in, 512 KiB a block; 0: none
  std::vector<Block>
      hot{};  ///< read before all else, in this order; those beyond the device are not
  bool used_before = false;  ///< the map is looked at before the hot list is read
  std::vector<WantedFile>
      files{};  ///< read behind `hot` and before the rest; looked up in the mounted root
  /// More of them, behind these; with a hot list only when sessions turn out to want something
  /// else.
  WantedGuess guess{};
  std::vector<BlockRead> read_before{};  ///< counted as read by this run
  /// Asked for by them and not there yet: of the hot list, these are asked for last.
  std::vector<Block> under_way{};
  bool read_whole = false;              ///< they have seen that a touch does not bring its block in
  std::optional<DepthControl> depth{};  ///< of who read them: the search goes on from there
  /// The blocks that the volume's snapshot holds, as a set over a device of so many bytes: they are
  /// the needed ones, and no other is read. Asked at the start, and again when it matters;
  /// nullopt, or empty: the file system is asked.
  std::function<std::optional<BlockSet>(std::uint64_t device_bytes)> listed{};
  /// More of the hot list, from whoever answers only while the run goes on: read from then on,
  /// behind `hot` and what a session misses. Asked by run's thread some times a second
  /// until there is an answer, and once a second when all else is done; nullopt: not yet; no
  /// blocks: there is none. Must not wait. May be empty.
  std::function<std::optional<std::vector<Block>>()> late_hot{};
  /// Called by run's thread once all that the run needs is open: from then on it and the threads
  /// that it starts make no other calls than those of confine.hpp. May be empty.
  std::function<void()> set_up{};
};

class Warmer {
 public:
  /// Called from run's thread at most twice a second, and at the end: before the map is saved, and
  /// once more when it was, or when a late hot list is there.
  using OnProgress = std::function<void(const WarmProgress&)>;

  explicit Warmer(WarmRequest request) : request_(std::move(request)) {}

  /// Reads until every needed block is present or `stop` is requested, then waits for `late_hot` to
  /// answer, and holds nothing of the mount meanwhile; returns the last progress, with state done,
  /// stopped or failed. After a stop request no read is started, those in flight are given 150 ms,
  /// and the map is saved (fsync) and a lookup under way waited for before it returns: up to a
  /// stall's minute, in which on_progress has told the end. Never writes to the device; holds files
  /// of the mount only while saving the map, asking for the free list or looking files up by name.
  /// Errors: the device cannot be opened for direct reads, or it has no size. Once.
  Result<WarmProgress> run(std::stop_token stop, const OnProgress& on_progress);

 private:
  WarmRequest request_;
};

}  // namespace warmroot::warm
