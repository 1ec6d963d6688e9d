// The bytes of a simulated EBS volume: an immutable snapshot image below, an unlinked sparse
// overlay above, and an undo log of what was not flushed yet. Called by EbsVolume; knows nothing of
// time or FUSE.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/base/units.hpp"
#include "tests/sim/volume_model.hpp"

namespace warmroot::sim {

/// Granularity of overlay and undo log: what ext4 and xfs expect to be written as one.
inline constexpr std::uint64_t kDiskPage = 4 * kKiB;
/// Bound of the undo log. ext4 commits every 5 s, so 256 MiB is two seconds at gp3's bandwidth.
inline constexpr std::uint64_t kMaxUnflushedBytes = 256 * kMiB;

/// The ranges that an image file has data for, by SEEK_DATA (all of it where the file system cannot
/// tell): what a snapshot of it holds. Errors: the file's.
Result<std::vector<ByteRange>> data_of_image(const std::filesystem::path& image);

/// Thread-safe. Reads and writes must lie inside the disk.
class EbsDisk {
 public:
  /// `snapshot_image` may be empty. Errors: gone, refused, or misconfigured where the image is
  /// larger than the disk.
  static Result<std::unique_ptr<EbsDisk>> open(const std::filesystem::path& snapshot_image,
                                               const std::filesystem::path& backing_dir,
                                               std::uint64_t size_bytes);

  Ok read(std::uint64_t offset, std::span<char> into) const;
  /// A journal's commit block counts as flushed at once: guests send it with FUA.
  Ok write(std::uint64_t offset, std::span<const char> bytes);
  void flush();
  std::uint64_t unflushed_bytes() const;
  /// Gives each unflushed page back what the last flush left in it, with probability 1/2 by `seed`;
  /// then nothing is unflushed. Returns how many.
  Result<std::uint64_t> power_cut(std::uint64_t seed);

  std::uint64_t size() const { return size_; }
  /// As data_of_image(), of the snapshot image.
  Result<std::vector<ByteRange>> snapshot_data() const;

 private:
  EbsDisk(UniqueFd snapshot, UniqueFd overlay, std::uint64_t size);
  Ok read_page_locked(std::uint64_t page, std::span<char> into) const;
  Ok remember_locked(std::uint64_t page);
  Ok write_page_locked(std::uint64_t page, std::uint64_t within, std::span<const char> bytes);

  UniqueFd snapshot_;  // none for an empty volume
  UniqueFd overlay_;
  std::uint64_t size_;

  mutable std::mutex mutex_;
  std::vector<bool> in_overlay_;  // per page
  // Old contents by page; empty means that the page was the snapshot's. Order: the oldest first.
  std::unordered_map<std::uint64_t, std::vector<char>> undo_;
  std::deque<std::uint64_t> undo_order_;
};

}  // namespace warmroot::sim
