#include "bootstrap/warm/mount_reads.hpp"

#include <algorithm>

#include "bootstrap/base/sector.hpp"
#include "bootstrap/warm/fs_layout.hpp"
#include "bootstrap/warm/xfs_super.hpp"

namespace warmroot::warm {
namespace {

/// Superblock, descriptors with room to grow, the first bitmaps and inodes: mke2fs puts them here,
/// and at most 4 MiB are kept for descriptors.
constexpr std::uint64_t kHeadBytes = 5 * 1024 * 1024;
constexpr std::uint64_t kRootInode = 2;
constexpr std::uint64_t kIBlockAt = 0x28;
constexpr std::uint64_t kIBlockBytes = 60;
constexpr std::uint64_t kDirectBlocks = 13;  // twelve, and the indirect one
constexpr std::uint32_t kIncompatMmp = 0x100;
/// More of a root directory is seldom read by a mount and its first lookups.
constexpr std::uint64_t kMostOfOneInode = 1024 * 1024;

constexpr std::uint64_t kLogSamples = 16;
/// Behind the head xfs looks for holes of what was in flight: 8 buffers of 256 KiB.
constexpr std::uint64_t kLogBeforeHead = 2 * 1024 * 1024;
constexpr std::uint64_t kLogSector = 512;
constexpr std::uint32_t kLogHeaderMagic = 0xFEEDBABE;

/// Every sector of the log begins with its cycle, a record's header with a magic number before it.
std::uint64_t cycle_of(std::string_view sector) {
  if (sector.size() < 8) return 0;
  const std::uint64_t first = big(sector, 0, 4);
  return first == kLogHeaderMagic ? big(sector, 4, 4) : first;
}

constexpr std::uint64_t kMostPartitions = 128;

/// ZFS keeps two labels of 256 KiB at each end, a backup superblock of UFS or ext lies further in,
/// and Promise's RAID has one this far before the end.
constexpr std::uint64_t kProbedEnds = 512 * 1024;
constexpr std::uint64_t kProbedWithin[] = {1024 * 1024, 2048 * 1024, 4096 * 1024};
constexpr std::uint64_t kProbedBeforeEnd = 3087 * kSector;
constexpr std::uint64_t kProbedBytes = 4096;

void add_partition(std::vector<ByteRange>& found, std::uint64_t first, std::uint64_t sectors,
                   std::uint64_t device_bytes) {
  if (first == 0 || sectors == 0 || first >= device_bytes / kSector ||
      sectors > device_bytes / kSector - first || found.size() == kMostPartitions)
    return;
  found.push_back({first * kSector, sectors * kSector});
}

}  // namespace

std::vector<ByteRange> probed_places(ByteRange place) {
  // ZFS counts from the last whole label on.
  const std::uint64_t at_end = kProbedEnds + place.length % (kProbedEnds / 2);
  if (place.length <= kProbedEnds + at_end) return {place};
  const std::uint64_t end = place.offset + place.length;
  std::vector<ByteRange> places = {{place.offset, kProbedEnds}, {end - at_end, at_end}};
  for (const std::uint64_t within : kProbedWithin)
    if (within + kProbedBytes <= place.length)
      places.push_back({place.offset + within, kProbedBytes});
  if (place.length > kProbedBeforeEnd) places.push_back({end - kProbedBeforeEnd, kProbedBytes});
  return places;
}

/// Source: UEFI specification, 5.2 (MBR) and 5.3 (GPT).
std::vector<ByteRange> partitions_of(std::string_view first_bytes, std::uint64_t device_bytes) {
  constexpr std::size_t kMbrEntriesAt = 446;
  std::vector<ByteRange> found;
  if (first_bytes.size() < 2 * kSector || little(first_bytes, 510, 2) != 0xAA55)
    return {{0, device_bytes}};
  if (first_bytes.substr(kSector).starts_with("EFI PART")) {
    const std::uint64_t entries = little(first_bytes, kSector + 72, 8);
    const std::uint64_t count = std::min(little(first_bytes, kSector + 80, 4), kMostPartitions);
    const std::uint64_t entry_bytes = little(first_bytes, kSector + 84, 4);
    for (std::uint64_t i = 0; i < count && entries < first_bytes.size() / kSector; ++i) {
      const std::uint64_t at = entries * kSector + i * entry_bytes;
      if (entry_bytes < 128 || entry_bytes > 4096 || at + 48 > first_bytes.size()) break;
      const std::uint64_t first = little(first_bytes, at + 32, 8);
      const std::uint64_t last = little(first_bytes, at + 40, 8);
      if (last >= first && last < UINT64_MAX)
        add_partition(found, first, last - first + 1, device_bytes);
    }
  } else {
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t at = kMbrEntriesAt + 16 * i;
      add_partition(found, little(first_bytes, at + 8, 4), little(first_bytes, at + 12, 4),
                    device_bytes);
    }
  }
  if (found.empty()) found.push_back({0, device_bytes});
  return found;
}

void MountReads::add(std::vector<ByteRange>& ranges, ByteRange in_fs) const {
  if (in_fs.length == 0 || in_fs.offset >= file_system_.length) return;
  const std::uint64_t left = file_system_.length - in_fs.offset;
  ranges.push_back(
      {file_system_.offset + in_fs.offset, std::min({in_fs.length, left, kMostMountTouch})});
}

MountRound MountReads::next(std::span<const std::string> contents) {
  switch (step_) {
    case Step::superblock: {
      if (file_system_.length < kSuperblockBytes) break;
      step_ = Step::parse;
      MountRound round;
      add(round.contents, {0, kSuperblockBytes});
      add(round.head, {0, kHeadBytes});
      return round;
    }
    case Step::parse:
      if (contents.empty()) break;
      return after_superblock(contents.front());
    case Step::inodes:
      if (contents.empty()) break;
      return inodes_of(contents.front());
    case Step::inode_blocks:
      return blocks_of(contents);
    case Step::xfs_log:
      return log_around_head(contents);
    case Step::done:
      break;
  }
  step_ = Step::done;
  return {};
}

MountRound MountReads::after_superblock(const std::string& first_bytes) {
  step_ = Step::done;
  if (first_bytes.size() < kSuperblockBytes) return {};
  if (first_bytes.starts_with("XFSB")) return after_xfs_superblock(first_bytes);
  ext_ = parse_ext(first_bytes);
  if (ext_.groups == 0) return {};
  const std::string_view super = std::string_view(first_bytes).substr(kExtSuperAt, kExtSuperBytes);
  MountRound round;
  const FsSummary summary = summarise_superblock(first_bytes);
  if (!summary.journal.empty()) {
    if (ext_.recover)
      for (const ByteRange& range : summary.journal) add(round.touches, range);
    else
      add(round.touches, {summary.journal.front().offset, 2 * ext_.block_bytes});
  }
  if ((little(super, 0x60, 4) & kIncompatMmp) != 0 && little(super, 0x168, 8) < ext_.blocks)
    add(round.touches, {little(super, 0x168, 8) * ext_.block_bytes, ext_.block_bytes});
  if (ext_.meta_bg || ext_.inodes_per_group == 0) return round;
  // Root, journal, user, group and project quotas, orphans: numbers of the superblock's fields.
  inodes_ = {kRootInode};
  for (const std::size_t field : {0xE0, 0x240, 0x244, 0x26C, 0x280}) {
    const std::uint64_t inode = little(super, field, 4);
    if (inode != 0 && (inode - 1) / ext_.inodes_per_group < ext_.groups) inodes_.push_back(inode);
  }
  add(round.contents, summary.descriptors);
  step_ = round.contents.empty() ? Step::done : Step::inodes;
  first_bytes_ = first_bytes;
  return round;
}

MountRound MountReads::inodes_of(const std::string& descriptors) {
  step_ = Step::inode_blocks;
  MountRound round;
  for (const std::uint64_t inode : inodes_) {
    const std::uint64_t group = (inode - 1) / ext_.inodes_per_group;
    if ((group + 1) * ext_.descriptor_bytes > descriptors.size()) continue;
    const auto descriptor = std::string_view(descriptors).substr(group * ext_.descriptor_bytes);
    const std::uint64_t table =
        little(descriptor, 0x08, 4) | (ext_.wide ? little(descriptor, 0x28, 4) << 32 : 0);
    if (table >= ext_.blocks) continue;
    const std::uint64_t within =
        (inode - 1) % ext_.inodes_per_group * std::max<std::uint64_t>(ext_.inode_bytes, 128);
    add(round.contents, {table * ext_.block_bytes + within, kIBlockAt + kIBlockBytes});
  }
  // Every lookup needs the tables, and who asks what is free the bitmaps.
  const FsMetadata metadata = ext_metadata(first_bytes_, descriptors);
  std::uint64_t left = kMostLater;
  for (const auto& ranges : {metadata.inode_tables, metadata.bitmaps})
    for (const ByteRange& range : ranges) {
      if (left == 0) return round;
      add(round.later, range);
      left -= std::min({left, range.length, kMostMountTouch});
    }
  return round;
}

MountRound MountReads::blocks_of(std::span<const std::string> inodes) {
  step_ = Step::done;
  MountRound round;
  for (const std::string& inode : inodes) {
    if (inode.size() < kIBlockAt + kIBlockBytes) continue;
    const std::string_view i_block = std::string_view(inode).substr(kIBlockAt, kIBlockBytes);
    auto ranges = ext_extents(i_block, ext_);
    if (little(i_block, 0, 2) != kExtentMagic)
      for (std::uint64_t i = 0; i < kDirectBlocks; ++i)
        append_range(ranges, {little(i_block, 4 * i, 4) * ext_.block_bytes, ext_.block_bytes},
                     little(i_block, 4 * i, 4) == 0 ? 0 : ext_.end_bytes());
    std::uint64_t left = kMostOfOneInode;
    for (const ByteRange& range : ranges) {
      add(round.touches, {range.offset, std::min(range.length, left)});
      left -= std::min(range.length, left);
    }
  }
  return round;
}

MountRound MountReads::after_xfs_superblock(std::string_view super) {
  const XfsSuper xfs = parse_xfs(super);
  MountRound round;
  for (std::uint64_t group = 0; group < std::min(xfs.groups, kMostAgs); ++group)
    add(round.touches, {xfs.byte_in(group, 0), kSuperblockBytes});
  if (xfs.groups == 0) return round;
  const std::uint64_t root = xfs.byte_of(xfs.root_inode >> xfs.inodes_per_block_log);
  add(round.touches, {root, 1});
  const std::uint64_t log = xfs.byte_of(xfs.log_start);
  if (xfs.log_start == 0 || log >= file_system_.length) return round;
  log_ = {log, std::min({xfs.log_blocks * xfs.block_bytes, file_system_.length - log,
                         std::uint64_t{2} << 30})};
  const std::uint64_t step = log_.length / kLogSamples / kLogSector * kLogSector;
  for (std::uint64_t i = 0; step > 0 && i < kLogSamples; ++i) {
    log_samples_.push_back({log_.offset + i * step, kLogSector});
    add(round.contents, log_samples_.back());
  }
  add(round.touches, {log_.offset + log_.length - kLogSector, kLogSector});
  step_ = round.contents.size() == log_samples_.size() ? Step::xfs_log : Step::done;
  return round;
}

/// The head is where the cycle falls: between the last sample of the first one's cycle and the
/// next.
MountRound MountReads::log_around_head(std::span<const std::string> samples) {
  step_ = Step::done;
  if (samples.size() != log_samples_.size() || samples.empty()) return {};
  std::size_t last = 0;
  while (last + 1 < samples.size() && cycle_of(samples[last + 1]) == cycle_of(samples[0])) ++last;
  const std::uint64_t end =
      last + 1 < samples.size() ? log_samples_[last + 1].offset : log_.offset + log_.length;
  const std::uint64_t start = std::max(
      log_.offset, log_samples_[last].offset - std::min(log_samples_[last].offset, kLogBeforeHead));
  MountRound round;
  add(round.touches, {start, end - start});
  return round;
}

}  // namespace warmroot::warm
