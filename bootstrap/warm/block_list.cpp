#include "bootstrap/warm/block_list.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "bootstrap/warm/checksum.hpp"
#include "bootstrap/warm/little_endian.hpp"

namespace warmroot::warm {
namespace {

constexpr std::string_view kMagic = "WARMBLK\n";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 128;
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kGridAt = 12;
constexpr std::size_t kVolumeBytesAt = 16;
constexpr std::size_t kSnapshotAt = 24;
constexpr std::size_t kSnapshotBytes = 64;  // "snap-" and 17 digits, with room
constexpr std::size_t kRunsAt = 88;
constexpr std::size_t kChecksumAt = 120;
/// ext's superblock lies so far into its partition, xfs's before it.
constexpr std::uint64_t kSuperblockAt = 1024;

tl::unexpected<Error> broken(std::string_view what) {
  return fail(ErrorKind::broken, "the block list " + std::string(what));
}

tl::unexpected<Error> unfit(const std::string& what) {
  return fail(ErrorKind::misconfigured, "the block list " + what);
}

/// Seven bits a byte, the lowest first; all but the last have the eighth bit.
void append_number(std::string& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  bytes += static_cast<char>(value);
}

/// Takes a number off the front; nullopt where there is none, or a longer form of a shorter one.
std::optional<std::uint64_t> take_number(std::string_view& bytes) {
  constexpr std::size_t kMost = 5;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < std::min(kMost, bytes.size()); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    value |= std::uint64_t{byte & 0x7fU} << (7 * i);
    if ((byte & 0x80U) != 0) continue;
    if (byte == 0 && i > 0) return std::nullopt;
    bytes.remove_prefix(i + 1);
    return value;
  }
  return std::nullopt;
}

/// Over everything but the checksum itself.
std::uint64_t list_checksum(std::string_view bytes) {
  return checksum(bytes.substr(kHeaderBytes), checksum(bytes.substr(0, kChecksumAt)));
}

Ok take_runs(std::string_view bytes, std::uint64_t count, BlockSet& blocks) {
  std::uint64_t at = 0;
  for (std::uint64_t run = 0; run < count; ++run) {
    const auto left_out = take_number(bytes);
    const auto length = left_out ? take_number(bytes) : std::nullopt;
    if (!length) return broken("is cut short");
    if (*length == 0 || (run > 0 && *left_out == 0)) return broken("has runs that are none");
    at += *left_out;
    if (*length > blocks.size() || at > blocks.size() - *length)
      return broken("names a block beyond its volume");
    blocks.insert_range({at * kGridBytes, *length * kGridBytes});
    at += *length;
  }
  if (!bytes.empty()) return broken("has more than it says");
  return {};
}

}  // namespace

bool is_snapshot_id(std::string_view text) {
  constexpr std::string_view kPrefix = "snap-";
  constexpr std::string_view kPlain = "0123456789abcdefghijklmnopqrstuvwxyz";
  return text.starts_with(kPrefix) && text.size() > kPrefix.size() &&
         text.size() <= kSnapshotBytes &&
         text.substr(kPrefix.size()).find_first_not_of(kPlain) == std::string_view::npos;
}

Result<std::string> encode_block_list(const BlockList& list) {
  CHECK(list.volume_bytes <= kMostVolumeBytes && is_snapshot_id(list.snapshot_id));
  CHECK(list.blocks.size() == grid_blocks(list.volume_bytes));
  std::string bytes(kHeaderBytes, '\0');
  std::uint64_t runs = 0;
  Block done = 0;  // everything before it is in the bytes
  for (Block block = 0; block < list.blocks.size(); ++block) {
    if (!list.blocks.contains(block)) continue;
    const Block first = block;
    while (block < list.blocks.size() && list.blocks.contains(block)) ++block;
    append_number(bytes, first - done);
    append_number(bytes, block - first);
    done = block;
    ++runs;
    if (bytes.size() > kMostBlockListBytes)
      return fail(ErrorKind::refused,
                  "the block list of " + list.snapshot_id + " has too many gaps to be handed on");
  }
  bytes.replace(0, kMagic.size(), kMagic);
  put_little(bytes, kVersionAt, kVersion, 4);
  put_little(bytes, kGridAt, kGridBytes, 4);
  put_little(bytes, kVolumeBytesAt, list.volume_bytes, 8);
  bytes.replace(kSnapshotAt, list.snapshot_id.size(), list.snapshot_id);
  put_little(bytes, kRunsAt, runs, 8);
  put_little(bytes, kChecksumAt, list_checksum(bytes), 8);
  return bytes;
}

Result<BlockList> decode_block_list(std::string_view bytes) {
  if (bytes.size() > kMostBlockListBytes) return broken("is too long");
  if (bytes.size() < kHeaderBytes || bytes.substr(0, kMagic.size()) != kMagic)
    return broken("is no block list");
  if (const auto version = little(bytes, kVersionAt, 4); version != kVersion)
    return unfit("has version " + std::to_string(version) + ", not " + std::to_string(kVersion));
  if (little(bytes, kGridAt, 4) != kGridBytes) return unfit("has another block size");
  if (list_checksum(bytes) != little(bytes, kChecksumAt, 8))
    return broken("is damaged: its checksum is wrong");
  BlockList list;
  list.snapshot_id = bytes.substr(kSnapshotAt, kSnapshotBytes);
  list.snapshot_id.resize(std::strlen(list.snapshot_id.c_str()));
  if (!is_snapshot_id(list.snapshot_id)) return broken("names no snapshot");
  list.volume_bytes = little(bytes, kVolumeBytesAt, 8);
  if (list.volume_bytes == 0 || list.volume_bytes > kMostVolumeBytes)
    return broken("is of no volume's size");
  list.blocks = BlockSet(grid_blocks(list.volume_bytes));
  TRY(take_runs(bytes.substr(kHeaderBytes), little(bytes, kRunsAt, 8), list.blocks));
  return list;
}

Result<BlockSet> blocks_on_device(const BlockList& list, std::string_view snapshot_id,
                                  std::uint64_t device_bytes, std::uint64_t root_offset) {
  if (list.snapshot_id != snapshot_id)
    return unfit("is of " + list.snapshot_id + ", and the volume of " + std::string(snapshot_id));
  if (list.volume_bytes > device_bytes)
    return unfit("is of a volume of " + std::to_string(list.volume_bytes) +
                 " bytes, and the device has " + std::to_string(device_bytes));
  BlockSet blocks(grid_blocks(device_bytes));
  auto words = list.blocks.words();
  words.resize(blocks.words().size());
  blocks.assign_words(std::move(words));
  const std::uint64_t vital = (root_offset + kSuperblockAt) / kGridBytes;
  if (vital >= blocks.size() || !blocks.contains(static_cast<Block>(vital)))
    return unfit("does not hold where the root begins, so it cannot be the volume's");
  return blocks;
}

}  // namespace warmroot::warm
