#include "bootstrap/warm/root_metadata.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <utility>

#include "bootstrap/warm/needed_search.hpp"
#include "bootstrap/warm/own_threads.hpp"

namespace warmroot::warm {

ByteRange RootMetadata::on_device(ByteRange in_partition) const {
  return {partition_.offset + in_partition.offset, in_partition.length};
}

std::vector<ByteRange> RootMetadata::on_device(std::vector<ByteRange> in_partition) const {
  for (ByteRange& range : in_partition) range = on_device(range);
  return in_partition;
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
  if (!superblock_.empty() || !says_what_is_free(filesystem_) || first.length > partition_.length)
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

/// A round's nodes are waited for together, its touches not at all. What could not be read ends the
/// look there.
Result<ReadPump::End> RootMetadata::read_free_trees() {
  XfsFreeTrees trees(superblock_, partition_.length);
  for (FreeTreesRound round = trees.next(); !round.empty(); round = trees.next()) {
    const std::vector<ByteRange> nodes = on_device(std::move(round.nodes));
    const std::vector<ByteRange> leaves = on_device(std::move(round.touches));
    for (const auto* ranges : {&nodes, &leaves})
      ranges_.insert(ranges_.end(), ranges->begin(), ranges->end());
    const std::vector<Block> waited = reader_.absent_of(nodes);
    std::vector<Block> blocks = waited;
    const std::vector<Block> others = reader_.absent_of(leaves);
    blocks.insert(blocks.end(), others.begin(), others.end());
    TRY_ASSIGN(auto end, reader_.read(blocks, [&] { return reader_.have_ended(waited); }));
    if (end != ReadPump::End::finished) return end;
    TRY_ASSIGN(end, hand_over(nodes, trees));
    if (end != ReadPump::End::finished) return end;
  }
  is_read_ = true;
  return ReadPump::End::finished;
}

/// One after the other on a thread beside the pump: a volume may have thousands, and what is in
/// flight has to be seen to end, sessions yielded to and a late list taken meanwhile.
Result<ReadPump::End> RootMetadata::hand_over(std::span<const ByteRange> nodes,
                                              XfsFreeTrees& trees) {
  std::vector<bool> is_there;
  for (const ByteRange& node : nodes) is_there.push_back(reader_.is_present(node));
  std::atomic<bool> unwanted = false;
  // Where there is no thread to be had, the caller's is one of ours already.
  auto first_note = std::async(std::launch::async | std::launch::deferred, [&] {
    enlist_own_thread();
    std::string note;
    for (std::size_t i = 0; i < nodes.size() && !unwanted; ++i) {
      auto node = is_there[i] ? device_.read(nodes[i]) : std::string();
      if (!node && note.empty()) note = node.error().message();
      trees.take(node.value_or(std::string()));
    }
    return note;
  });
  first_note.wait_for(ReadEngine::kBatchTime);  // for a few groups; a turn of the pump takes longer
  auto end = reader_.read({}, [&] {
    return first_note.wait_for(std::chrono::milliseconds(0)) != std::future_status::timeout;
  });
  unwanted = !end || *end != ReadPump::End::finished;
  if (const std::string note = first_note.get(); !note.empty()) on_note_(note);
  return end;
}

}  // namespace warmroot::warm
