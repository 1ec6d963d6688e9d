// The metadata of the root's file system, read off the disk in parallel before the kernel reads it
// one piece after the other: where the file system ends, what of it every path walk needs, what was
// never used. Called by the warmer; fs_layout does the arithmetic.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/warm/block_device.hpp"
#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/fs_layout.hpp"
#include "bootstrap/warm/list_reader.hpp"
#include "bootstrap/warm/xfs_free_trees.hpp"

namespace warmroot::warm {

class RootMetadata {
 public:
  /// Told what could not be read; the warmer does without. On the caller's thread.
  using OnNote = std::function<void(std::string)>;

  /// The file system is in `partition` of the device. Requires it inside.
  RootMetadata(ListReader& reader, const BlockDevice& device, std::string filesystem,
               ByteRange partition, OnNote on_note)
      : reader_(reader),
        device_(device),
        filesystem_(std::move(filesystem)),
        partition_(partition),
        on_note_(std::move(on_note)) {}

  /// Says where the file system ends and where its own metadata is. Nothing is read twice, nor of a
  /// file system that cannot say what is free.
  Result<ReadPump::End> read_superblock();

  /// What GETFSMAP would read one after the other, read in parallel: superblock, and of ext group
  /// descriptors and bitmaps, of xfs the groups' headers and free-space trees. Leaves the ranges
  /// that plan_reads wants first and last. The last of them may still be in flight. A second call
  /// does nothing.
  Result<ReadPump::End> read();

  /// The file system's own size; 0 while it is not known.
  std::uint64_t filesystem_bytes() const { return summary_.size_bytes; }
  /// On the device, in reading order, as far as it is known.
  const std::vector<ByteRange>& ranges() const { return ranges_; }
  /// On the device: inode tables that hold nothing.
  const std::vector<ByteRange>& unused_tables() const { return unused_tables_; }
  /// Absent blocks of the inode tables, to be read while the file system is asked what is free; the
  /// second time there are none.
  std::vector<Block> take_tables() { return std::exchange(tables_, {}); }

 private:
  Result<ReadPump::End> read_ext();
  Result<ReadPump::End> read_free_trees();
  Result<ReadPump::End> hand_over(std::span<const ByteRange> nodes, XfsFreeTrees& trees);
  Result<std::optional<std::string>> read_content(ByteRange range, ReadPump::End& end);
  ByteRange on_device(ByteRange in_partition) const;
  std::vector<ByteRange> on_device(std::vector<ByteRange> in_partition) const;

  ListReader& reader_;
  const BlockDevice& device_;
  std::string filesystem_;
  ByteRange partition_;
  OnNote on_note_;
  bool is_read_ = false;    // or asked for
  std::string superblock_;  // its first bytes, once they were read
  FsSummary summary_;
  std::vector<ByteRange> ranges_;
  std::vector<ByteRange> unused_tables_;
  std::vector<Block> tables_;
};

}  // namespace warmroot::warm
