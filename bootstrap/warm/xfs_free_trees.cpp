#include "bootstrap/warm/xfs_free_trees.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace warmroot::warm {
namespace {

constexpr std::uint64_t kMostLevels = 9;
/// Of a group's header all that is looked at, however large the sectors are.
constexpr std::uint64_t kGroupHeaderBytes = 512;
/// A direct read of less brings as much.
constexpr std::uint64_t kSmallestRead = 4096;
/// A node's level and number of records come behind its magic, the keys behind all of its header,
/// the pointers behind the room for all keys.
constexpr std::size_t kLevelAt = 4;
constexpr std::size_t kRecordsAt = 6;
constexpr std::size_t kKeyBytes = 8;
constexpr std::size_t kPointerBytes = 4;

/// Of a node with checksums, and of one of before them; 0 of neither.
std::size_t node_header_bytes(std::string_view node) {
  if (node.starts_with("AB3B")) return 56;
  return node.starts_with("ABTB") ? 16 : 0;
}

}  // namespace

XfsFreeTrees::XfsFreeTrees(std::string_view first_bytes, std::uint64_t place_bytes)
    : xfs_(parse_xfs(first_bytes)), end_(std::min(xfs_.size_bytes, place_bytes)) {
  if (!std::has_single_bit(xfs_.sector_bytes) || xfs_.sector_bytes < 512) xfs_.groups = 0;
}

FreeTreesRound XfsFreeTrees::next() {
  if (!std::exchange(begun_, true)) ask_for_headers();
  asked_ = std::exchange(coming_asked_, {});
  taken_ = 0;
  return std::exchange(coming_, {});
}

void XfsFreeTrees::take(std::string_view node) {
  if (taken_ == asked_.size()) return;
  const Asked& asked = asked_[taken_++];
  if (asked.level == 0)
    take_header(asked.group, node);
  else
    take_node(asked, node);
}

/// Each is its group's second sector.
void XfsFreeTrees::ask_for_headers() {
  for (std::uint64_t group = 0; group < std::min(xfs_.groups, kMostGroups); ++group) {
    const ByteRange header{xfs_.byte_in(group, 0) + xfs_.sector_bytes, kGroupHeaderBytes};
    if (!is_inside(header)) break;
    coming_.nodes.push_back(header);
    coming_asked_.push_back({group, 0});
  }
}

void XfsFreeTrees::take_header(std::uint64_t group, std::string_view header) {
  constexpr std::size_t kNumberAt = 8;
  constexpr std::size_t kRootAt = 16;
  constexpr std::size_t kLevelsAt = 28;
  if (header.size() < kGroupHeaderBytes || !header.starts_with("XAGF") ||
      big(header, kNumberAt, 4) != group)
    return;
  const std::uint64_t levels = big(header, kLevelsAt, 4);
  if (levels == 0 || levels > kMostLevels) return;
  add({group, levels - 1}, big(header, kRootAt, 4));
}

void XfsFreeTrees::take_node(const Asked& node, std::string_view bytes) {
  const std::size_t header = node_header_bytes(bytes);
  if (header == 0 || bytes.size() != xfs_.block_bytes) return;
  const std::size_t room = (bytes.size() - header) / (kKeyBytes + kPointerBytes);
  const std::size_t records = big(bytes, kRecordsAt, 2);
  if (big(bytes, kLevelAt, 2) != node.level || records > room) return;
  for (std::size_t i = 0; i < records; ++i)
    add({node.group, node.level - 1},
        big(bytes, header + room * kKeyBytes + i * kPointerBytes, kPointerBytes));
}

/// Of a leaf nothing is wanted but that it is there.
void XfsFreeTrees::add(const Asked& block, std::uint64_t number) {
  const ByteRange range{xfs_.byte_in(block.group, number), xfs_.block_bytes};
  const bool is_leaf = block.level == 0;
  const std::uint64_t cost = is_leaf ? 1 : std::max(range.length, kSmallestRead);
  std::uint64_t& left = is_leaf ? leaves_left_ : node_bytes_left_;
  if (!is_inside(range) || left < cost) return;
  left -= cost;
  if (is_leaf) {
    coming_.touches.push_back(range);
  } else {
    coming_.nodes.push_back(range);
    coming_asked_.push_back(block);
  }
}

}  // namespace warmroot::warm
