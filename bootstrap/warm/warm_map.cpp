#include "bootstrap/warm/warm_map.hpp"

#include <algorithm>
#include <cstring>

#include "bootstrap/warm/checksum.hpp"
#include "bootstrap/warm/little_endian.hpp"

namespace warmroot::warm {
namespace {

constexpr std::string_view kMagic = "WARMMAP\n";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 128;
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kGridAt = 12;
constexpr std::size_t kDeviceBytesAt = 16;
constexpr std::size_t kVolumeAt = 24;
constexpr std::size_t kVolumeBytes = 64;  // "vol-" and 17 digits, with room
constexpr std::size_t kChecksumAt = 120;

/// Over everything but the checksum itself.
std::uint64_t map_checksum(std::string_view bytes) {
  return checksum(bytes.substr(kHeaderBytes), checksum(bytes.substr(0, kChecksumAt)));
}

}  // namespace

std::uint64_t map_bytes(std::uint64_t device_bytes) {
  return kHeaderBytes + (std::uint64_t{grid_blocks(device_bytes)} + 63) / 64 * 8;
}

std::string encode_map(const MapIdentity& identity, const BlockSet& present) {
  CHECK(present.size() == grid_blocks(identity.device_bytes));
  std::string bytes(map_bytes(identity.device_bytes), '\0');
  bytes.replace(0, kMagic.size(), kMagic);
  put_little(bytes, kVersionAt, kVersion, 4);
  put_little(bytes, kGridAt, kGridBytes, 4);
  put_little(bytes, kDeviceBytesAt, identity.device_bytes, 8);
  const std::size_t length = std::min(identity.volume_id.size(), kVolumeBytes);
  bytes.replace(kVolumeAt, length, identity.volume_id, 0, length);
  std::size_t at = kHeaderBytes;
  for (const std::uint64_t word : present.words()) {
    put_little(bytes, at, word, 8);
    at += 8;
  }
  put_little(bytes, kChecksumAt, map_checksum(bytes), 8);
  return bytes;
}

Result<BlockSet> decode_map(std::string_view bytes, const MapIdentity& identity) {
  if (bytes.size() < kHeaderBytes || bytes.substr(0, kMagic.size()) != kMagic)
    return fail(ErrorKind::broken, "the warm map is no warm map");
  if (const auto version = little(bytes, kVersionAt, 4); version != kVersion)
    return fail(ErrorKind::misconfigured, "the warm map has version " + std::to_string(version) +
                                              ", not " + std::to_string(kVersion));
  if (little(bytes, kGridAt, 4) != kGridBytes)
    return fail(ErrorKind::misconfigured, "the warm map has another block size");
  if (map_checksum(bytes) != little(bytes, kChecksumAt, 8))
    return fail(ErrorKind::broken, "the warm map's checksum is wrong");
  std::string volume(bytes.substr(kVolumeAt, kVolumeBytes));
  volume.resize(std::strlen(volume.c_str()));
  if (volume != identity.volume_id)
    return fail(ErrorKind::misconfigured,
                "the warm map is of another volume, not of " + identity.volume_id);
  const std::uint64_t device_bytes = little(bytes, kDeviceBytesAt, 8);
  if (device_bytes == 0 || device_bytes > identity.device_bytes)
    return fail(ErrorKind::misconfigured, "the warm map is of a device of another size");
  if (bytes.size() != map_bytes(device_bytes))
    return fail(ErrorKind::broken, "the warm map is cut short");
  BlockSet before(grid_blocks(device_bytes));
  std::vector<std::uint64_t> words(before.words().size());
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = little(bytes, kHeaderBytes + 8 * i, 8);
  before.assign_words(std::move(words));
  BlockSet present(grid_blocks(identity.device_bytes));
  words = before.words();
  words.resize(present.words().size());
  present.assign_words(std::move(words));
  return present;
}

}  // namespace warmroot::warm
