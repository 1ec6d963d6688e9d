// What the warmer reads of a volume that others have written, of the network, and of the kernel's trace: hot lists, block
// lists, superblocks and what a mount, or the question what is free, would read by them, partition tables, ELF files.
// None of it may make the warmer ask beyond the device.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/warm/block_list.hpp"
#include "bootstrap/warm/block_trace.hpp"
#include "bootstrap/warm/checksum.hpp"
#include "bootstrap/warm/elf_needs.hpp"
#include "bootstrap/warm/fs_layout.hpp"
#include "bootstrap/warm/hot_list.hpp"
#include "bootstrap/warm/little_endian.hpp"
#include "bootstrap/warm/mount_reads.hpp"
#include "bootstrap/warm/xfs_free_trees.hpp"

using namespace warmroot;

namespace {

constexpr std::uint64_t kDevice = std::uint64_t{64} << 20;

void check_inside(const std::vector<warm::ByteRange>& ranges, std::uint64_t end) {
  for (const auto& range : ranges) CHECK(range.length <= end && range.offset <= end - range.length);
}

/// The fuzzer finds no checksums: each text is tried with its own.
void hot_list(std::string_view text) {
  const auto list = warm::decode_hot_list(std::string(text) + "checksum " + std::to_string(warm::checksum(text)) + "\n");
  if (!list) return;
  CHECK(warm::decode_hot_list(warm::encode_hot_list(*list)));
  const warm::HotList twice = warm::merge_hot_lists(std::array{*list, *list});
  CHECK(warm::decode_hot_list(warm::encode_hot_list(twice)));
  for (const warm::Block block : warm::hot_blocks(*list, 16)) CHECK(block < 16);
}

/// The header is right but for the sizes, which are the input's, as are the runs.
void block_list(std::string_view text) {
  constexpr std::size_t kHeader = 128, kSizeAt = 16, kRunsAt = 88, kChecksumAt = 120;
  static const std::string header = *warm::encode_block_list({"snap-1", warm::kGridBytes, warm::BlockSet(1)});
  (void)warm::decode_block_list(text);
  if (text.size() < 4) return;
  std::string bytes = header + std::string(text.substr(4));
  warm::put_little(bytes, kSizeAt, (warm::little(text, 0, 2) + 1) * warm::kGridBytes - warm::little(text, 0, 1), 8);
  warm::put_little(bytes, kRunsAt, warm::little(text, 2, 2), 8);
  const std::string_view whole = bytes;
  warm::put_little(bytes, kChecksumAt, warm::checksum(whole.substr(kHeader), warm::checksum(whole.substr(0, kChecksumAt))), 8);
  const auto list = warm::decode_block_list(bytes);
  if (!list) return;
  CHECK(warm::encode_block_list(*list).value() == bytes);
  if (const auto blocks = warm::blocks_on_device(*list, "snap-1", kDevice, 0)) CHECK(blocks->size() == 128);
}

/// The device is the input, repeated.
std::string bytes_at(std::string_view text, warm::ByteRange range) {
  std::string bytes;
  for (std::uint64_t at = range.offset; bytes.size() < std::min<std::uint64_t>(range.length, 1 << 16); at = 0) {
    const auto from = text.substr(static_cast<std::size_t>(at % text.size()));
    bytes += from.substr(0, static_cast<std::size_t>(range.length) - bytes.size());
  }
  return bytes;
}

void mount_reads(std::string_view text) {
  const warm::ByteRange file_system{std::uint64_t{1} << 20, kDevice - (std::uint64_t{1} << 20)};
  warm::MountReads reads(file_system);
  std::vector<std::string> contents;
  for (int round = 0; round < 10; ++round) {
    const warm::MountRound next = reads.next(contents);
    if (next.empty()) return;
    check_inside(next.contents, kDevice);
    check_inside(next.touches, kDevice);
    check_inside(next.head, kDevice);
    check_inside(next.later, kDevice);
    contents.clear();
    for (const auto& range : next.contents)
      contents.push_back(bytes_at(text, {range.offset - file_system.offset, range.length}));
  }
  CHECK(!"a mount ends");
}

void layout(std::string_view text) {
  const std::string super(text.substr(0, warm::kSuperblockBytes));
  const warm::FsSummary summary = warm::summarise_superblock(super);
  const std::string_view rest = text.substr(std::min<std::size_t>(text.size(), warm::kSuperblockBytes));
  const warm::FsMetadata metadata = warm::ext_metadata(super, rest);
  if (summary.size_bytes == 0) return;
  for (const auto* ranges : {&metadata.bitmaps, &metadata.inode_tables, &metadata.unused_tables})
    check_inside(*ranges, summary.size_bytes);
}

void free_trees(std::string_view text) {
  const std::string super = bytes_at(text, {0, warm::kSuperblockBytes});
  warm::XfsFreeTrees trees(super, kDevice);
  std::uint64_t bytes = 0;
  for (int round = 0; round < 11; ++round) {
    const warm::FreeTreesRound next = trees.next();
    if (next.empty()) return;
    check_inside(next.nodes, kDevice);
    check_inside(next.touches, kDevice);
    CHECK(next.touches.size() <= warm::XfsFreeTrees::kMostLeaves);
    for (const auto& range : next.nodes) {
      CHECK(range.length <= warm::XfsFreeTrees::kLargestNode);
      bytes += range.length;
      trees.take(bytes_at(text, range));
    }
    CHECK(bytes <= 512 * warm::XfsFreeTrees::kMostGroups + warm::XfsFreeTrees::kMostNodeBytes);
  }
  CHECK(!"a tree ends");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 8) {
    case 0: hot_list(text); break;
    case 1: {
      std::string trace(text);
      (void)warm::parse_trace(trace);
      CHECK(trace.find('\n') == std::string::npos);
      break;
    }
    case 2: mount_reads(text); break;
    case 3: layout(text); break;
    case 7: free_trees(text); break;
    case 5: block_list(text); break;
    case 4: check_inside(warm::partitions_of(text, kDevice), kDevice); break;
    default: {
      const auto file = [&](warm::ByteRange range) { return bytes_at(text, range); };
      (void)warm::elf_needs(file);
      (void)warm::elf_least_kernel(file);
      break;
    }
  }
  return 0;
}
