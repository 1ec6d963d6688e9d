// A snapshot's block list: which blocks of a volume made from it hold data, and so have to be
// fetched at their first touch; all others cost nothing. The manager asks EBS for it and serves it
// (manager/block_lists.hpp), the bootstrap reads it from the network, so it is parsed as untrusted.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "bootstrap/base/result.hpp"
#include "bootstrap/warm/block_set.hpp"

namespace warmroot::warm {

struct BlockList {
  std::string snapshot_id;
  std::uint64_t volume_bytes = 0;  ///< the snapshot's; a volume made from it may be larger
  BlockSet blocks;                 ///< of grid_blocks(volume_bytes)

  bool operator==(const BlockList&) const = default;
};

/// EBS's largest volume: 64 TiB.
inline constexpr std::uint64_t kMostVolumeBytes = std::uint64_t{64} << 40;
/// A run of blocks takes two to six bytes: 100 GiB in runs of ten are some 40 KiB, and the worst
/// case, every second block of 4 TiB, still fits.
inline constexpr std::size_t kMostBlockListBytes = 8 * 1024 * 1024;

/// "snap-" and what ids are made of: it may become a file's name.
bool is_snapshot_id(std::string_view text);

/// A 128 byte header (magic, version, block size, volume size, snapshot, count, checksum), then the
/// runs of blocks: how many are left out before it, how many it has, as variable-length numbers.
/// Requires blocks of grid_blocks(volume_bytes), a snapshot's id and no more than kMostVolumeBytes.
/// Errors: refused when it would be longer than kMostBlockListBytes.
Result<std::string> encode_block_list(const BlockList& list);

/// Errors, one sentence each: broken when it is cut short, damaged, too long or names a block
/// beyond its volume; misconfigured when version or block size are others.
Result<BlockList> decode_block_list(std::string_view bytes);

/// The list's blocks as a set over a whole device that was made from `snapshot_id` and whose root
/// begins at `root_offset`. Errors, one sentence each: misconfigured when the list is another
/// snapshot's, its volume is larger than the device, or it lacks the block in which the root
/// begins, which no snapshot of a root does.
Result<BlockSet> blocks_on_device(const BlockList& list, std::string_view snapshot_id,
                                  std::uint64_t device_bytes, std::uint64_t root_offset);

}  // namespace warmroot::warm
