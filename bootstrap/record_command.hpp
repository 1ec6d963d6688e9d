// `warmroot-bootstrap record`: what a workload reads of the mounted volume, recorded by hand, for
// as long as somebody wants. The daemon records the first minutes of a lease by itself (recording);
// this is for a workload that begins later, or that deserves a name of its own. Called by main.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "bootstrap/base/result.hpp"
#include "bootstrap/warm/recorder.hpp"

namespace warmroot::bootstrap {

struct RecordWish {
  std::string workload;
  std::string output;  ///< a new file on the base; empty: the volume's own list, merged into it
  std::chrono::seconds limit{600};
};

/// The volume that is recorded.
struct RecordedVolume {
  std::string disk_node;
  std::string mount_point;
  std::uint64_t partition_offset = 0;
  warm::Recorder::IsOwn is_own;  ///< whose reads are no session's
  /// A new file for what other volumes of the lineage can use of a recording that is added to the
  /// volume's list: of files that nobody has changed since the first lease, which lie where the
  /// snapshot has them. Empty: nobody is told.
  std::string told_file = {};
};

/// Watches until `ended` says so or the limit has passed, and returns a sentence: how much was
/// read, by which source, where the list is, and how much of it others are told. Errors: refused
/// when nothing can be watched here or nothing was read; gone when the volume was unmounted
/// meanwhile and its list is to have it; the files'.
Result<std::string> record_volume(const RecordWish& wish, const RecordedVolume& volume,
                                  const std::function<bool()>& ended);

/// True once this process was told to end from now on: by Ctrl-C (SIGINT), by SIGTERM, or by
/// SIGHUP, which a release sends first and a terminal that goes. One that ignores SIGHUP, as by
/// nohup, goes on doing so.
std::function<bool()> told_to_end();

/// The same as record_volume on the running daemon's volume, until told_to_end; the daemon tells
/// the manager. Errors: gone when there is none.
Ok record(const RecordWish& wish);

}  // namespace warmroot::bootstrap
