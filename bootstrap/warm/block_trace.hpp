// What a session reads of a disk, from the kernel's own trace of bios (tracefs, event
// block_bio_queue): exact, with metadata and read-ahead, and naming the thread that asked, so that
// the warmer's own reads can be told from the session's; and, where that is wanted, what it
// allocates of an ext4. parse_trace is pure; BlockTrace has the
// trace switched on while it lives, in an instance of its own that disturbs nobody else's. Called
// by the recorder and by demand following.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/warm/block_set.hpp"

namespace warmroot::warm {

struct TracedRead {
  unsigned major = 0;  ///< of the disk, or of the partition through which it was read
  unsigned minor = 0;
  ByteRange device;  ///< on the whole disk
  pid_t thread = 0;
  bool ahead = false;  ///< the kernel's read-ahead, nobody waits for all of it

  bool operator==(const TracedRead&) const = default;
};

/// An inode or blocks of an ext4 that a thread has just taken: for that it looked into the bitmap
/// of the group, which may have been in memory already.
struct TracedAllocation {
  enum class What { inode, blocks };
  What what = What::inode;
  std::uint64_t number = 0;  ///< the inode's, or the first block's
  pid_t thread = 0;

  bool operator==(const TracedAllocation&) const = default;
};

using TracedEvent = std::variant<TracedRead, TracedAllocation>;

/// Takes the complete lines off `text` and returns the reads and allocations among them; the last,
/// unfinished line stays. Writes, discards, flushes, allocations that failed and lines of other
/// events are left out.
std::vector<TracedEvent> parse_trace(std::string& text);

/// Appends to `text` what can be read without waiting, no more than `most` bytes. Errors:
/// read(2)'s.
Ok append_what_is_there(int descriptor, std::size_t most, std::string& text);

class BlockTrace {
 public:
  /// Reads of the disk with this number, and through any of its partitions, from now on, but not
  /// those of thread `except`: a warmer's would be more than all others; nor ext4lazyinit's. Mounts
  /// nothing: tracefs is opened as a detached mount where the machine has none. Errors: refused
  /// where the kernel has no tracefs or this event, or does not let us.
  static Result<BlockTrace> start(dev_t disk, pid_t except = 0) {
    return start(disk, open_place(), except);
  }
  /// The same in a `place` that was opened before.
  static Result<BlockTrace> start(dev_t disk, UniqueFd place, pid_t except);
  /// One that follows nothing yet, for whoever must not wait later: the kernel takes 10 to 20 ms to
  /// make it. Errors: refused where it has no tracefs, or does not let us.
  static Result<BlockTrace> make(UniqueFd place);
  /// As start() has it, from now on; once. Errors: where the kernel has no such event.
  Ok follow_reads(dev_t disk, pid_t except = 0);
  /// Where traces are made, or nothing: for threads that may not open it later.
  static UniqueFd open_place();

  BlockTrace(BlockTrace&&) = default;
  BlockTrace& operator=(BlockTrace&&) = delete;
  /// Switches the trace off and removes the instance.
  ~BlockTrace();

  /// From now on also what is allocated on the ext4 with this number, which is mounted. Errors:
  /// where the kernel does not tell.
  Ok follow_allocations(dev_t file_system);

  /// What came since the last call, in order; does not wait. Errors: the trace's. More than
  /// kTakenAtOnce stays for the next call: a session that reads faster than lines are taken must
  /// not keep who has other things to do.
  Result<std::vector<TracedEvent>> take();
  static constexpr std::size_t kTakenAtOnce = std::size_t{8} << 20;  ///< bytes of lines

  /// Becomes readable when there is something to take.
  int fd() const { return pipe_.get(); }

 private:
  BlockTrace() = default;
  Ok follow(const std::string& event, const std::string& filter);

  UniqueFd instances_;
  std::string name_;  // of our instance
  UniqueFd pipe_;
  std::string text_;
};

}  // namespace warmroot::warm
