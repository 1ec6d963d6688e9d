// Where xfs keeps what is free: the header of each allocation group and the tree by block number
// that it names, worked out from the device's own bytes, so that it can be read in parallel before
// FS_IOC_GETFSMAP walks it, one block after the other. Called by root_metadata, which does the
// reading. Pure; content is untrusted, offsets are relative to the file system's start. Source:
// xfs_agf and xfs_btree_block in the kernel's xfs_format.h; xfs_getfsmap in xfs_fsmap.c.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/xfs_super.hpp"

namespace warmroot::warm {

/// Reads that do not wait for each other.
struct FreeTreesRound {
  std::vector<ByteRange> nodes;    ///< wanted back, in this order
  std::vector<ByteRange> touches;  ///< wanted present, nothing more

  bool empty() const { return nodes.empty() && touches.empty(); }
};

class XfsFreeTrees {
 public:
  /// Bounds for a damaged or hostile volume: an honest one of 2 TiB in groups of 512 MiB, with 16
  /// million free extents, is within them.
  static constexpr std::uint64_t kMostGroups = 4096;
  static constexpr std::uint64_t kMostNodeBytes = 16 * 1024 * 1024;  ///< headers are not counted
  static constexpr std::uint64_t kMostLeaves = 65536;
  /// Of a header or node; the caller need not hold more than one.
  static constexpr std::uint64_t kLargestNode = 65536;

  /// Of the file system with these first 4 KiB; nothing beyond `place_bytes` is asked for.
  XfsFreeTrees(std::string_view first_bytes, std::uint64_t place_bytes);

  /// The next round: the groups' headers first, then the trees of all groups from their roots down,
  /// as far as take() was given the nodes of the round before. Empty when nothing is left.
  FreeTreesRound next();

  /// The next one of the present round's nodes; empty: it could not be read. Nothing of it is kept
  /// but the numbers that it leads to. One that makes no sense ends the look below it.
  void take(std::string_view node);

 private:
  struct Asked {
    std::uint64_t group = 0;
    std::uint64_t level = 0;  // of a node, above the leaves'; 0: it is the group's header
  };

  void ask_for_headers();
  void take_header(std::uint64_t group, std::string_view header);
  void take_node(const Asked& node, std::string_view bytes);
  void add(const Asked& block, std::uint64_t number);
  bool is_inside(ByteRange range) const {
    return range.offset <= end_ && range.length <= end_ - range.offset;
  }

  XfsSuper xfs_;
  std::uint64_t end_ = 0;
  bool begun_ = false;
  std::vector<Asked> asked_;  // as the present round's nodes
  std::size_t taken_ = 0;     // of them
  FreeTreesRound coming_;
  std::vector<Asked> coming_asked_;
  std::uint64_t node_bytes_left_ = kMostNodeBytes;
  std::uint64_t leaves_left_ = kMostLeaves;
};

}  // namespace warmroot::warm
