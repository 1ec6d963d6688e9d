// Where xfs keeps what is free: the header of each allocation group and the tree by block number
// that it names, worked out from the device's own bytes, so that it can be read in parallel before
// FS_IOC_GETFSMAP walks it, one block after the other. Called by root_metadata, which does the
// reading. Pure; content is untrusted, offsets are relative to the file system's start. Source:
// xfs_agf and xfs_btree_block in the kernel's xfs_format.h; xfs_getfsmap in xfs_fsmap.c.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/xfs_super.hpp"

namespace warmroot::warm {

/// Reads that do not wait for each other.
struct FreeTreesRound {
  std::vector<ByteRange> contents;  ///< wanted back, in this order
  std::vector<ByteRange> touches;   ///< wanted present, nothing more

  bool empty() const { return contents.empty() && touches.empty(); }
};

class XfsFreeTrees {
 public:
  /// Bounds for a damaged or hostile volume: an honest one of 2 TiB in groups of 512 MiB, with 16
  /// million free extents, is within them.
  static constexpr std::uint64_t kMostGroups = 4096;
  static constexpr std::uint64_t kMostNodes = 4096;
  static constexpr std::uint64_t kMostLeaves = 65536;

  /// Of the file system with these first 4 KiB; nothing beyond `place_bytes` is asked for.
  XfsFreeTrees(std::string_view first_bytes, std::uint64_t place_bytes);

  /// The next round; `contents` are those of the round before, empty where they could not be read:
  /// the groups' headers first, then the trees of all groups from their roots down. A number that
  /// makes no sense ends the look below it. Empty when nothing is left.
  FreeTreesRound next(std::span<const std::string> contents);

 private:
  struct Asked {
    std::uint64_t group = 0;
    std::uint64_t level = 0;  // of a node, above the leaves'; 0: it is the group's header
  };

  void ask_for_headers(FreeTreesRound& round);
  void take_header(std::uint64_t group, std::string_view header, FreeTreesRound& round);
  void take_node(const Asked& node, std::string_view bytes, FreeTreesRound& round);
  void add(FreeTreesRound& round, const Asked& block, std::uint64_t number);
  bool is_inside(ByteRange range) const {
    return range.offset <= end_ && range.length <= end_ - range.offset;
  }

  XfsSuper xfs_;
  std::uint64_t end_ = 0;
  bool begun_ = false;
  std::vector<Asked> asked_;  // as the present round's contents
  std::uint64_t nodes_left_ = kMostNodes;
  std::uint64_t leaves_left_ = kMostLeaves;
};

}  // namespace warmroot::warm
