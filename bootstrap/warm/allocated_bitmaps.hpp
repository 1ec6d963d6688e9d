// The bitmaps in which sessions found room on an ext4. Who allocates waits for the group's
// bitmap, but on a recorded volume it is in memory by then, most times: our own GETFSMAP or the
// kernel's look-ahead read it, and the trace of reads has nothing of it. On the next volume, where
// the hot list is read before all that, it is cold. Called by the recorder.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/block_trace.hpp"
#include "bootstrap/warm/ext_super.hpp"

namespace warmroot::warm {

class AllocatedBitmaps {
 public:
  /// Of the file system that begins at this byte of the disk with this node, which is opened for
  /// each read. Nothing where that is no ext, or its descriptors are spread over the disk.
  static std::optional<AllocatedBitmaps> of_disk(const std::string& node, std::uint64_t offset);

  /// The group of what was allocated, if nothing was told of that yet.
  std::optional<std::uint64_t> new_group(const TracedAllocation& allocation) const;
  /// The group's bitmap, in the file system, by a read of its descriptor; empty where it was never
  /// written, or cannot be told. Nothing is new of the group afterwards.
  ByteRange bitmap_of(TracedAllocation::What what, std::uint64_t group);

 private:
  AllocatedBitmaps(std::string node, std::uint64_t offset, const ExtSuper& ext)
      : node_(std::move(node)), offset_(offset), ext_(ext) {}

  std::string node_;
  std::uint64_t offset_;
  ExtSuper ext_;
  std::set<std::pair<TracedAllocation::What, std::uint64_t>> known_;  // with the group
};

}  // namespace warmroot::warm
