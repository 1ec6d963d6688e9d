// The hot list of this lease. What the volume brings along is read for the warmer; what the first
// sessions read is recorded, merged into it, kept on the volume for its next lease and, once, told
// to others. A thread of its own; only the unmount waits for it. Called by warming.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/warm/hot_list.hpp"
#include "bootstrap/warm/recorder.hpp"
#include "bootstrap/warm/volume_file.hpp"

namespace warmroot::bootstrap {

class Recording {
 public:
  /// Gets a sentence about what was kept, and where something cannot be; sessions never depend on
  /// it. Called from any thread.
  using Note = std::function<void(const std::string&)>;
  /// Told once whether others have it now, from any thread.
  using Taken = std::function<void(bool)>;
  /// Gets what the first lease of a volume recorded, as text: so far, some times soon after the
  /// first session has begun, and whole when it ends. A later lease reads where files have moved to
  /// since, which is nowhere on another volume. Until the whole has been taken, the next lease
  /// tells what it records.
  using Recorded = std::function<void(std::string, bool so_far, Taken)>;
  Recording(Note note, Recorded recorded)
      : note_(std::move(note)), recorded_(std::move(recorded)) {}
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() = default;

  /// Before there is a disk: what would keep the mount waiting behind start(). Optional; what fails
  /// is told by start(). Without that, finish() takes it back.
  void prepare();
  /// Before the mount, so that what it reads is in the list: reads of this disk count from now on,
  /// but for those of our own threads beside the caller's, as far as these still live when the
  /// trace is read: early reads that end before that are taken for a session's. The second of two
  /// calls does nothing.
  void start(const std::string& disk_node);
  /// The root is mounted: files can be told, and the list that it brings along is there.
  /// Requires the volume's id, or none where nobody knows it, and its file system's UUID, or none
  /// where it has none: a list that was written to another volume and another file system was
  /// copied here as a file, as into an image that was made anew, and only its files mean anything.
  void mounted(const std::string& mount_point, std::uint64_t partition_offset,
               const std::string& volume_id, const std::string& filesystem_uuid);
  /// Sessions may begin, and we run nothing of the volume's any more: from the first session on,
  /// ten minutes are recorded. Of a lease in which nobody started a shell of the volume's nothing
  /// is kept, and nobody is taught.
  void logins_tried() { open_ = true; }
  /// The snapshot that a volume was made from: the lineage of what is recorded of that volume. Any
  /// thread.
  void made_from(const std::string& volume_id, const std::string& snapshot_id);
  /// Neither the volume nor the manager has told what sessions read first.
  bool knows_nothing() const { return lists().empty(); }
  /// The manager has told it.
  bool was_told() const;
  /// The volume itself says that it had a lease before, and not that of which it is a copy.
  bool was_used() const;
  /// A list of the volume's lineage, from elsewhere; of one that names another lineage than
  /// made_from does, only its files are used, as of take_elsewhere's. Errors: decode_hot_list's.
  Ok take(std::string_view list);
  /// A list of another lineage: only its files mean anything, and it is merged into nothing.
  /// Errors: decode_hot_list's.
  Ok take_elsewhere(std::string_view list);
  /// The lineage that a list from elsewhere names, where that is not the volume's.
  std::optional<std::string> foreign_lineage() const;
  /// What a list of another lineage says sessions read first, in its order: take_elsewhere's, else
  /// take's, else that which was copied onto the volume.
  std::vector<warm::WantedFile> files_elsewhere() const;
  /// The blocks that sessions of this lineage read first, in that order, of a device of this size:
  /// those of the volume's own sessions before those of others, and these before what a snapshot
  /// brought along.
  std::vector<warm::Block> hot_blocks(std::uint64_t device_bytes) const;
  /// Ranges of all lists that lie beyond a device of this size, which hot_blocks leaves out.
  std::size_t ranges_beyond(std::uint64_t device_bytes) const;
  /// Ends the recording and keeps it on the volume; nothing of the mount is held afterwards. False
  /// when the volume has not taken it in time; then it may be called again.
  bool finish(std::chrono::milliseconds limit);

 private:
  std::vector<warm::HotList> lists() const;
  bool is_foreign_locked() const;
  std::string encoded(warm::HotList list) const;
  void run(const std::stop_token& stop);
  bool somebody_came();
  void save(const std::stop_token& stop);
  void read_owner(const std::string& mount_point);
  std::string filesystem_line() const;
  Ok write_owner(bool has_taught);

  Note note_;
  Recorded recorded_;
  warm::RecordRequest request_;
  std::optional<warm::BlockTrace> made_trace_;  // prepare()'s, until start() takes it
  std::optional<warm::Recorder> recorder_;      // the thread's, once that runs
  std::optional<warm::VolumeFile> file_, owner_;
  std::string volume_id_, filesystem_uuid_;
  std::string owner_text_;  ///< as it lies on the volume
  mutable std::mutex mutex_;
  std::string lineage_, lineage_of_;  // a snapshot, and the volume that was made from it
  bool was_used_ = false;
  bool is_copied_ = false;   ///< the volume's list, as a file, from another file system
  bool has_taught_ = false;  // others know what was recorded
  std::optional<warm::HotList> own_, told_;  // the volume's, and the manager's
  std::vector<warm::WantedFile> elsewhere_;
  std::atomic<bool> open_ = false;
  bool saw_open_ = false;                       // the thread's
  std::optional<std::uint64_t> shells_before_;  // sessions could begin
  std::future<void> ended_;
  std::jthread thread_;
};

}  // namespace warmroot::bootstrap
