// Overlay, undo log and power cut of a simulated volume's bytes. See the header.
#include "tests/sim/ebs_disk.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>
#include <string>
#include <string_view>

#include "bootstrap/base/sector.hpp"

namespace warmroot::sim {
namespace {

bool holds(std::span<const char> bytes, std::size_t at, std::string_view text) {
  return bytes.size() >= at + text.size() && std::equal(text.begin(), text.end(), &bytes[at]);
}

/// A record of xfs's log begins in one of the sectors: magic, cycle, version. It need not be the
/// first: QEMU widens what does not begin on a page.
bool holds_log_record(std::span<const char> bytes) {
  using namespace std::string_view_literals;
  constexpr std::size_t kVersion = 8;
  for (std::size_t at = 0; at < bytes.size(); at += kSector)
    if (holds(bytes, at, "\xfe\xed\xba\xbe") && holds(bytes, at + kVersion, "\0\0\0"sv))
      return true;
  return false;
}

/// Whether the guest sent this write with FUA ("on the medium before you answer"). QEMU 7.2's NVMe
/// accepts the bit and drops it, and a journal whose commit block can be lost is one that no real
/// disk has. So those writes are known by what they are, each alone: ext4's commit block and the
/// superblock of its journal (jbd2's header: magic, then block type), a record of xfs's log, and
/// the first superblock of btrfs (which says at 0x30 where it lies).
bool is_forced(std::uint64_t offset, std::span<const char> bytes) {
  using namespace std::string_view_literals;
  constexpr std::size_t kBtrfsPlace = 0x30, kBtrfsMagic = 0x40;
  if (holds_log_record(bytes)) return true;
  if (offset % kDiskPage != 0 || bytes.size() != kDiskPage) return false;
  if (holds(bytes, kBtrfsMagic, "_BHRfS_M") && holds(bytes, kBtrfsPlace, "\0\0\1\0\0\0\0\0"sv))
    return true;
  constexpr char kCommit = 2, kSuperblockV1 = 3, kSuperblockV2 = 4;
  constexpr std::size_t kTypeAt = 7;
  if (!holds(bytes, 0, "\xc0\x3b\x39\x98\0\0\0"sv)) return false;
  const char type = bytes[kTypeAt];
  return type == kCommit || type == kSuperblockV1 || type == kSuperblockV2;
}

/// Reads all of `into`; what lies past the file's end reads as zeros.
Ok read_file_at(int fd, std::uint64_t offset, std::span<char> into) {
  while (!into.empty()) {
    const ssize_t got =
        fd < 0 ? 0 : ::pread(fd, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("reading a volume's backing file");
    if (got == 0) {
      std::ranges::fill(into, '\0');
      return {};
    }
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

Ok write_file_at(int fd, std::uint64_t offset, std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail_errno("writing a volume's overlay");
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
  return {};
}

/// A new file without a name: it goes when the process goes, however it ends.
Result<UniqueFd> make_overlay(const std::filesystem::path& backing_dir, std::uint64_t size_bytes) {
  std::string name = (backing_dir / "overlay-XXXXXX").string();
  UniqueFd fd(::mkostemp(name.data(), O_CLOEXEC));
  if (!fd) return fail_errno("making an overlay in " + backing_dir.string());
  ::unlink(name.c_str());
  if (::ftruncate(fd.get(), static_cast<off_t>(size_bytes)) != 0)
    return fail_errno("sizing an overlay in " + backing_dir.string());
  return fd;
}

Result<std::vector<ByteRange>> data_of(int image) {
  std::vector<ByteRange> ranges;
  struct stat status {};
  if (::fstat(image, &status) != 0) return fail_errno("fstat of a snapshot image");
  off_t at = 0;
  while (at < status.st_size) {
    const off_t data = ::lseek(image, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;  // nothing but a hole up to the end
    if (data < 0) return fail_errno("looking for data in a snapshot image");
    const off_t hole = ::lseek(image, data, SEEK_HOLE);
    if (hole < 0) return fail_errno("looking for holes in a snapshot image");
    ranges.push_back({static_cast<std::uint64_t>(data), static_cast<std::uint64_t>(hole - data)});
    at = hole;
  }
  return ranges;
}

}  // namespace

EbsDisk::EbsDisk(UniqueFd snapshot, UniqueFd overlay, std::uint64_t size)
    : snapshot_(std::move(snapshot)),
      overlay_(std::move(overlay)),
      size_(size),
      in_overlay_((size + kDiskPage - 1) / kDiskPage, false) {}

Result<std::unique_ptr<EbsDisk>> EbsDisk::open(const std::filesystem::path& snapshot_image,
                                               const std::filesystem::path& backing_dir,
                                               std::uint64_t size_bytes) {
  UniqueFd snapshot;
  if (!snapshot_image.empty()) {
    snapshot.reset(::open(snapshot_image.c_str(), O_RDONLY | O_CLOEXEC));
    if (!snapshot) return fail_errno("opening the snapshot image " + snapshot_image.string());
    struct stat status {};
    if (::fstat(snapshot.get(), &status) != 0 || !S_ISREG(status.st_mode))
      return fail(ErrorKind::misconfigured, snapshot_image.string() + " is not a regular file");
    if (static_cast<std::uint64_t>(status.st_size) > size_bytes)
      return fail(ErrorKind::misconfigured, "a volume of " + std::to_string(size_bytes) +
                                                " bytes cannot hold the snapshot image " +
                                                snapshot_image.string());
  }
  TRY_ASSIGN(UniqueFd overlay, make_overlay(backing_dir, size_bytes));
  return std::unique_ptr<EbsDisk>(new EbsDisk(std::move(snapshot), std::move(overlay), size_bytes));
}

Result<std::vector<ByteRange>> data_of_image(const std::filesystem::path& image) {
  const UniqueFd file(::open(image.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return fail_errno("opening the snapshot image " + image.string());
  return data_of(file.get());
}

Result<std::vector<ByteRange>> EbsDisk::snapshot_data() const {
  return snapshot_ ? data_of(snapshot_.get()) : std::vector<ByteRange>{};
}

Ok EbsDisk::read(std::uint64_t offset, std::span<char> into) const {
  CHECK(offset + into.size() <= size_);
  // Only the page table is read under the lock. A page that moves to the overlay meanwhile is a
  // write that runs at the same time as this read, and either content is right.
  struct Run {
    bool overlay;
    std::uint64_t length;
  };
  std::vector<Run> runs;
  {
    const std::lock_guard lock(mutex_);
    for (std::uint64_t at = offset; at < offset + into.size();) {
      const std::uint64_t end = std::min((at / kDiskPage + 1) * kDiskPage, offset + into.size());
      const bool overlay = in_overlay_[at / kDiskPage];
      if (runs.empty() || runs.back().overlay != overlay) runs.push_back({overlay, 0});
      runs.back().length += end - at;
      at = end;
    }
  }
  for (const Run& run : runs) {
    const int fd = run.overlay ? overlay_.get() : snapshot_.get();
    TRY(read_file_at(fd, offset, into.first(run.length)));
    into = into.subspan(run.length);
    offset += run.length;
  }
  return {};
}

Ok EbsDisk::read_page_locked(std::uint64_t page, std::span<char> into) const {
  const int fd = in_overlay_[page] ? overlay_.get() : snapshot_.get();
  return read_file_at(fd, page * kDiskPage, into);
}

Ok EbsDisk::remember_locked(std::uint64_t page) {
  if (undo_.contains(page)) return {};
  std::vector<char> old;
  if (in_overlay_[page]) {
    old.resize(kDiskPage);
    TRY(read_page_locked(page, old));
  }
  undo_.emplace(page, std::move(old));
  undo_order_.push_back(page);
  if (undo_order_.size() * kDiskPage > kMaxUnflushedBytes) {
    undo_.erase(undo_order_.front());
    undo_order_.pop_front();
  }
  return {};
}

Ok EbsDisk::write_page_locked(std::uint64_t page, std::uint64_t within,
                              std::span<const char> bytes) {
  TRY(remember_locked(page));
  if (in_overlay_[page] || bytes.size() == kDiskPage) {
    TRY(write_file_at(overlay_.get(), page * kDiskPage + within, bytes));
  } else {
    std::array<char, kDiskPage> whole{};
    TRY(read_page_locked(page, whole));
    std::ranges::copy(bytes, whole.begin() + static_cast<std::ptrdiff_t>(within));
    TRY(write_file_at(overlay_.get(), page * kDiskPage, whole));
  }
  in_overlay_[page] = true;
  return {};
}

Ok EbsDisk::write(std::uint64_t offset, std::span<const char> bytes) {
  CHECK(offset + bytes.size() <= size_);
  const std::lock_guard lock(mutex_);
  const bool forced = is_forced(offset, bytes);
  const std::uint64_t first_page = offset / kDiskPage;
  const std::uint64_t end_page = (offset + bytes.size() + kDiskPage - 1) / kDiskPage;
  while (!bytes.empty()) {
    const std::uint64_t page = offset / kDiskPage;
    const std::uint64_t within = offset % kDiskPage;
    const std::uint64_t whole_pages = within == 0 ? bytes.size() / kDiskPage : 0;
    if (whole_pages == 0) {
      const std::size_t part = std::min<std::uint64_t>(kDiskPage - within, bytes.size());
      TRY(write_page_locked(page, within, bytes.first(part)));
      bytes = bytes.subspan(part);
      offset += part;
      continue;
    }
    for (std::uint64_t i = 0; i < whole_pages; ++i) TRY(remember_locked(page + i));
    TRY(write_file_at(overlay_.get(), offset, bytes.first(whole_pages * kDiskPage)));
    std::fill_n(in_overlay_.begin() + static_cast<std::ptrdiff_t>(page),
                static_cast<std::ptrdiff_t>(whole_pages), true);
    bytes = bytes.subspan(whole_pages * kDiskPage);
    offset += whole_pages * kDiskPage;
  }
  for (std::uint64_t page = first_page; forced && page < end_page; ++page)
    if (undo_.erase(page) != 0) std::erase(undo_order_, page);
  return {};
}

void EbsDisk::flush() {
  const std::lock_guard lock(mutex_);
  undo_.clear();
  undo_order_.clear();
}

std::uint64_t EbsDisk::unflushed_bytes() const {
  const std::lock_guard lock(mutex_);
  return undo_order_.size() * kDiskPage;
}

Result<std::uint64_t> EbsDisk::power_cut(std::uint64_t seed) {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> pages(undo_order_.begin(), undo_order_.end());
  std::ranges::sort(
      pages);  // the choice depends on what was written, not on the order of its arrival
  std::mt19937_64 random(seed);
  std::uint64_t reverted = 0;
  for (const std::uint64_t page : pages) {
    if ((random() & 1) == 0) continue;
    const std::vector<char>& old = undo_.at(page);
    if (old.empty())
      in_overlay_[page] = false;
    else
      TRY(write_file_at(overlay_.get(), page * kDiskPage, old));
    ++reverted;
  }
  undo_.clear();
  undo_order_.clear();
  return reverted;
}

}  // namespace warmroot::sim
