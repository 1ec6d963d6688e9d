// Records what sessions read first: joins the trace of the disk with the files that were opened
// into a hot list. Where the kernel has no trace, the pages that are in memory of each opened file
// stand in for it: `record` and the log of `up` say which was used, the list does not. Called by
// `record` and, for the first sessions of a lease, by `up`. make_hot_list is pure.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/warm/allocated_bitmaps.hpp"
#include "bootstrap/warm/block_trace.hpp"
#include "bootstrap/warm/file_places.hpp"
#include "bootstrap/warm/hot_list.hpp"

namespace warmroot::warm {

/// How often to poll a Recorder: the kernel's buffers hold seconds of a busy session.
inline constexpr int kRecordPollMs = 200;

/// What of the disk a recording is about.
struct RecordRequest {
  std::string mount_point;         ///< the mounted root; empty: watch_files tells later
  dev_t disk = 0;                  ///< traced
  std::uint64_t disk_offset = 0;   ///< of the traced disk's first byte on the volume; a loop device
                                   ///< may stand for a part of it
  std::uint64_t device_bytes = 0;  ///< the volume's size
  std::uint64_t partition_offset = 0;  ///< of the file system, on the volume
  std::string lineage;
  std::string workload;
  std::string disk_node = {};  ///< of the traced disk; empty: bitmaps are listed as far as read
  bool use_trace = true;       ///< false: as where the kernel has none
};

/// The list of reads in their order: one range for each file and grid block, from the first byte
/// read to the last. What lies beyond the device is left out; the list ends at kMostRanges.
HotList make_hot_list(std::span<const ByteRange> reads, const PlaceMap& places,
                      const RecordRequest& request);

class Recorder {
 public:
  /// Threads whose reads are not a session's.
  using IsOwn = std::function<bool(pid_t)>;

  /// Watches from now on, by the trace `made`, where there is one that follows nothing yet. Errors:
  /// refused when neither the trace nor, where the mount is known, the opened files can be watched
  /// here.
  static Result<Recorder> start(RecordRequest request, IsOwn is_own,
                                std::optional<BlockTrace> made = std::nullopt);

  /// The root is mounted now. Errors: fanotify's; the trace goes on alone.
  Ok watch_files(const std::string& mount_point, std::uint64_t partition_offset);

  /// Takes what has come; call it often enough that the kernel's buffers do not run over (each
  /// second). Errors: the trace's.
  Ok poll();

  /// The list of all that was taken, one recording. Directories above the files that sessions
  /// opened are in it whoever read them, on xfs the inodes of both, and on ext4 the bitmaps of what
  /// they allocated: where others came first, sessions found them in memory.
  HotList list();

  /// How often a shell of the volume's was opened by other processes than this one; nullopt where
  /// opened files are not watched.
  std::optional<std::uint64_t> shells_opened() const {
    return opened_ ? std::optional(opened_->shells()) : std::nullopt;
  }

  /// "trace and opened files", "trace", or "opened files and pages in memory"; empty: nothing can
  /// be watched here.
  std::string source() const;

 private:
  Recorder(RecordRequest request, IsOwn is_own)
      : request_(std::move(request)), is_own_(std::move(is_own)) {}
  struct Read {
    ByteRange range;  ///< on the volume
    bool own = false;
  };
  void keep(const TracedRead& read);
  void keep(const TracedAllocation& allocation);
  void read_pages_in_memory();
  bool is_of_session(const Read& read) const;
  void forget_own_reads();

  RecordRequest request_;
  IsOwn is_own_;
  std::optional<BlockTrace> trace_;
  std::optional<AllocatedBitmaps> bitmaps_;
  std::optional<OpenedFiles> opened_;
  PlaceMap places_;
  std::vector<Read> reads_;  // in order
  std::size_t own_reads_ = 0;
};

}  // namespace warmroot::warm
