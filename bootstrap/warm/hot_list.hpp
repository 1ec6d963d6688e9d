// A hot list: which byte ranges of a volume sessions read, in first-use order, so that the next
// cold volume is read in that order before anybody asks for it. Beside each range stands the file
// that it belongs to: a volume of another lineage has the same files in other places. Lists come
// from volumes and from the network, so they are parsed as untrusted. Pure; recorder makes them,
// the warmer reads by them, the manager carries them from node to node.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/wanted_file.hpp"

namespace warmroot::warm {

/// What was read of one file in one grid block, from the first byte to the last: where it lies on
/// the device, and in the file.
struct HotRange {
  ByteRange device;                ///< on the whole device, inside one grid block
  std::string path;                ///< absolute, inside the root; empty: no file's, or not known
  std::uint64_t file_offset = 0;   ///< of the first byte, where there is a path
  std::uint32_t per_mille = 1000;  ///< share of recordings in which it was read

  bool operator==(const HotRange&) const = default;
};

struct HotList {
  std::string lineage;   ///< snapshot that the volume was made from; empty: not known
  std::string workload;  ///< what the operator calls such sessions
  std::uint64_t device_bytes = 0;
  std::uint32_t recordings = 1;  ///< that were merged into it, kMostRecordings at most
  std::vector<HotRange> ranges;  ///< in first-use order; one for each block and file

  bool operator==(const HotList&) const = default;
};

/// What a list may hold at most; a longer one is cut where it is made, and refused where it comes
/// in.
inline constexpr std::size_t kMostRanges = 16'384;
inline constexpr std::size_t kMostListBytes = 2 * 1024 * 1024;
/// Recordings beyond these weigh no more: what is not read any more leaves the list with time.
inline constexpr std::uint32_t kMostRecordings = 16;
/// Between two lists that were asked for on one volume, as a manager takes them: it writes each.
inline constexpr std::chrono::milliseconds kAskedPause{10'000};

/// Grows `range` to hold what `other` holds. Requires both in one block and of one file.
void unite(HotRange& range, const HotRange& other);

/// Lines of text: a header with version, grid, lineage, workload and size, a line for each range,
/// a checksum. Ranges from the first on that kMostRanges or kMostListBytes have no room for are
/// left out.
std::string encode_hot_list(const HotList& list);

/// Errors, one sentence each: broken when it is cut short, damaged, longer than kMostListBytes or
/// names a range beyond its device; misconfigured when version or grid are others.
Result<HotList> decode_hot_list(std::string_view text);

/// One list of several: of each range the weighted share of recordings that read it, those that at
/// least half of them read before the others, each in the order of first use. Ranges that hardly
/// anybody reads are left out, and the list ends at kMostRanges. Lineage and workload are the
/// first's, the size is the largest: volumes of one lineage differ in what lies behind the end.
/// `beside` are more words of volumes that have a recording among the lists: each adds what no list
/// holds to the recording of its volume, behind what as many have read, so that it makes no share
/// less. One alone pushes nothing out; what half of the recordings' volumes say comes before what
/// fewer have read, also where the list is full. Requires lists of one lineage.
HotList merge_hot_lists(std::span<const HotList> lists, std::span<const HotList> beside = {});

/// The blocks of the list in its order, once each; what lies beyond the device is left out.
std::vector<Block> hot_blocks(const HotList& list, Block device_blocks);

/// The files of the list in its order, for a volume of another lineage: there the places mean
/// nothing, and what has no name is left out.
std::vector<WantedFile> hot_files(const HotList& list);

}  // namespace warmroot::warm
