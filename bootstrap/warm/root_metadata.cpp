#include "bootstrap/warm/root_metadata.hpp"

#include <utility>

#include "bootstrap/warm/needed_search.hpp"
#include "bootstrap/warm/xfs_free_trees.hpp"

namespace warmroot::warm {

ByteRange RootMetadata::on_device(ByteRange in_partition) const {
  return {offset_bytes_ + in_partition.offset, in_partition.length};
}

std::vector<ByteRange> RootMetadata::on_device(std::span<const ByteRange> in_partition) const {
  std::vector<ByteRange> ranges;
  for (const ByteRange& range : in_partition) ranges.push_back(on_device(range));
  return ranges;
}

/// Nothing where the range cannot be read, or `end` says that reading has ended.
Result<std::optional<std::string>> RootMetadata::read_content(ByteRange range, ReadPump::End& end) {
  const std::vector<Block> blocks = reader_.absent_of(std::span(&range, 1));
  TRY_ASSIGN(end, reader_.read(blocks, [&] { return reader_.have_ended(blocks); }));
  if (end != ReadPump::End::finished) return std::nullopt;
  auto content = device_.read(range);
  if (content) return std::optional(std::move(*content));
  on_note_(content.error().message());
  return std::nullopt;
}

Result<ReadPump::End> RootMetadata::read_superblock() {
  auto end = ReadPump::End::finished;
  const ByteRange first = on_device(ByteRange{0, kSuperblockBytes});
  if (!superblock_.empty() || !says_what_is_free(filesystem_) ||
      first.offset + first.length > device_.size_bytes())
    return end;
  TRY_ASSIGN(auto superblock, read_content(first, end));
  if (!superblock) return end;
  superblock_ = std::move(*superblock);
  summary_ = summarise_superblock(superblock_);
  ranges_.push_back(first);
  return end;
}

Result<ReadPump::End> RootMetadata::read() {
  TRY_ASSIGN(const auto end, read_superblock());
  if (end != ReadPump::End::finished || is_read_) return end;
  if (summary_.descriptors.length > 0) return read_ext();
  return summary_.size_bytes > 0 ? read_free_trees() : end;
}

Result<ReadPump::End> RootMetadata::read_ext() {
  auto end = ReadPump::End::finished;
  const ByteRange table = on_device(summary_.descriptors);
  TRY_ASSIGN(const auto descriptors, read_content(table, end));
  if (!descriptors) return end;
  const FsMetadata metadata = ext_metadata(superblock_, *descriptors);
  ranges_.push_back(table);
  for (const auto& ranges : {metadata.inode_tables, metadata.bitmaps, summary_.journal})
    for (const ByteRange& range : ranges) ranges_.push_back(on_device(range));
  is_read_ = true;
  unused_tables_ = on_device(metadata.unused_tables);
  tables_ = reader_.absent_of(on_device(metadata.inode_tables));
  return reader_.read(reader_.absent_of(on_device(metadata.bitmaps)), [] { return true; });
}

/// A round's contents are waited for together, its touches not at all. What could not be read ends
/// the look there.
Result<ReadPump::End> RootMetadata::read_free_trees() {
  XfsFreeTrees trees(superblock_, device_.size_bytes() - offset_bytes_);
  std::vector<std::string> contents;
  for (FreeTreesRound round = trees.next(contents); !round.empty(); round = trees.next(contents)) {
    const std::vector<ByteRange> nodes = on_device(round.contents);
    const std::vector<ByteRange> leaves = on_device(round.touches);
    for (const auto* ranges : {&nodes, &leaves})
      ranges_.insert(ranges_.end(), ranges->begin(), ranges->end());
    const std::vector<Block> waited = reader_.absent_of(nodes);
    std::vector<Block> blocks = waited;
    const std::vector<Block> others = reader_.absent_of(leaves);
    blocks.insert(blocks.end(), others.begin(), others.end());
    TRY_ASSIGN(auto end, reader_.read(blocks, [&] { return reader_.have_ended(waited); }));
    contents.clear();
    for (const ByteRange& node : nodes) {
      if (end != ReadPump::End::finished) return end;
      std::optional<std::string> content;
      if (reader_.absent_of(std::span(&node, 1)).empty()) {
        TRY_ASSIGN(content, read_content(node, end));
      }
      contents.push_back(std::move(content).value_or(std::string()));
    }
    if (end != ReadPump::End::finished) return end;
  }
  is_read_ = true;
  return ReadPump::End::finished;
}

}  // namespace warmroot::warm
