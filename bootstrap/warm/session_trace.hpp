// The live trace of what sessions read of the disk under a mounted root, without our own reads; for
// session_wishes' demand following. Where the kernel has no trace, nothing is followed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/block_trace.hpp"
#include "bootstrap/warm/own_threads.hpp"

namespace warmroot::warm {

class SessionTrace {
 public:
  /// Nothing where the disk cannot be traced. Without thread `reader`'s own reads. The root may be
  /// mounted through another block device that begins at the partition, as a loop device does.
  /// `place` is BlockTrace::open_place's.
  static std::optional<SessionTrace> start(const std::string& device_path,
                                           const std::string& mount_point,
                                           std::uint64_t partition_offset, UniqueFd place,
                                           pid_t reader);

  /// Reads since the last call, on the whole disk, in order; does not wait.
  std::vector<ByteRange> take();

 private:
  SessionTrace(BlockTrace trace, std::uint64_t offset)
      : trace_(std::move(trace)), offset_(offset) {}

  BlockTrace trace_;
  std::uint64_t offset_;
  OwnThreads own_;
};

}  // namespace warmroot::warm
