// How a partition is made to reach the end of a disk that has become larger than its table says:
// what has to be written, and in which order, so that a cut at any moment leaves a table that is
// read. Pure, and the table is not trusted; volume_grow performs it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/partition.hpp"

namespace warmroot::bootstrap {

/// How much of the disk's beginning the plan looks at: no table of 128 entries needs more.
inline constexpr std::size_t kGrowthLooksAtBytes = 64 * 1024;

struct TableWrite {
  std::uint64_t offset = 0;
  std::string bytes;
};

struct Growth {
  std::uint64_t size_bytes = 0;    ///< the partition's
  std::vector<TableWrite> writes;  ///< each has to be on the disk before the next is begun
};

/// `start` is the disk's beginning, `partition` what libblkid read of it. nullopt: less than 1 MiB
/// would be gained. Errors: refused, one sentence, when something lies behind the partition, it is
/// a logical one, or the table is not as expected.
Result<std::optional<Growth>> plan_growth(std::string_view start, std::uint64_t disk_bytes,
                                          const PartitionFacts& partition);

}  // namespace warmroot::bootstrap
