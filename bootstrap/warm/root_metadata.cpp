#include "bootstrap/warm/root_metadata.hpp"

#include "bootstrap/warm/needed_search.hpp"

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
  TRY_ASSIGN(auto end, read_superblock());
  if (end != ReadPump::End::finished || summary_.descriptors.length == 0 || is_read_) return end;
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

}  // namespace warmroot::warm
