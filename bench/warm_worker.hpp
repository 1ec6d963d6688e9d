// What warm_bench runs as a process of its own, so that CPU time and memory are the contender's:
// our warmer, which is the production library's, and the plain reader of oracle and touch.
#pragma once

#include <span>
#include <string>

#include "bootstrap/base/result.hpp"

namespace warmroot::bench {

/// `--warm DISK ROOT FILE_SYSTEM PARTITION_OFFSET PARTITION_BYTES LIST_FILE LINEAGE`: as the
/// bootstrap does it, the early reads from now on and the warmer from SIGUSR1 on, which says that
/// the root is mounted; ends when all is present or by SIGTERM. A line of JSON for each progress.
/// An empty LIST_FILE is none; a list of another lineage is used by its files' names. Requires
/// SIGUSR1 blocked.
Ok run_warmer(std::span<const std::string> words);

/// `--touch DISK DEPTH OFFSETS_FILE`: 4 KiB at each offset, in order, so many in flight.
Ok run_touch(std::span<const std::string> words);

}  // namespace warmroot::bench
