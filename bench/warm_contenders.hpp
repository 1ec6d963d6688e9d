// Who warms the volume in a benchmark run: the commands of what people use today with their
// documented flags, ours, and the two that nobody can be (floor and oracle). Pure. Called by
// warm_bench.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/warm_process.hpp"
#include "bootstrap/base/result.hpp"

namespace warmroot::bench {

enum class Method { none, local, oracle, dd, fio, touch, cat, ours };

/// Where ours has its hot list from.
enum class ListFrom { nobody, this_workload, other_workload, older_image };

struct Contender {
  std::string name;
  Method method = Method::none;
  ListFrom list = ListFrom::nobody;
  /// Reads in flight of oracle, touch and each job of fio; readers of cat; slices that dd reads
  /// past the page cache, 0: as documented. Ours: 0, its own.
  unsigned depth = 0;
  std::string block_size{};  ///< of fio
  unsigned stride_kib = 0;   ///< of fio: from one block that it reads to the next; 0: it reads all
  unsigned jobs = 1;         ///< of fio: each has its share of the device
  bool volume_is_warm = false;
  bool plain_mount = false;     ///< by mount(8), which looks for itself what is there
  bool without_ring = false;    ///< ours: where io_uring is refused
  bool has_block_list = false;  ///< ours: what the snapshot holds (ListSnapshotBlocks)
  std::string what;             ///< for the table's legend
};

/// All that there are, in the table's order.
const std::vector<Contender>& all_contenders();

/// "none,local,..." or "all"; `NAME@DEPTH` is a dd, fio, touch, cat or oracle with another depth
/// than the documented one. Errors: misconfigured for a name that there is not.
Result<std::vector<Contender>> parse_contenders(std::string_view list);

/// What a run puts where.
struct Places {
  std::string self{};  ///< this program
  std::string disk{};  ///< the contender's device, the whole disk
  std::uint64_t disk_bytes = 0;
  std::string root{};         ///< where the root is mounted
  std::string file_system{};  ///< its type
  std::uint64_t partition_offset = 0;
  std::uint64_t partition_bytes = 0;
  std::string blocks_file{};  ///< offsets that oracle and touch read
  std::string list_file{};    ///< hot list of ours; empty: none
  std::string held_file{};    ///< 512 KiB blocks that the snapshot holds; empty: not known
  std::string lineage{};      ///< of the volume; lists of another are used by their files' names
  std::string output{};       ///< of the command
};

/// Nothing for those that run none.
std::optional<Command> command_of(const Contender& contender, const Places& places);

/// Whether it needs the mounted root to start.
bool starts_after_mount(const Contender& contender);

}  // namespace warmroot::bench
