// The device under test and one run on it: a fresh volume served by FUSE, the root's partition on
// one loop device, the contender on another of the same file, a session in a chroot of the mounted
// root, and the device's log of all that. Called by warm_bench.
//
// Nothing of a volume is in any page cache before its run: volume, loops and mount are new each
// time, and FUSE serves with direct I/O. The server reads the image through the host's page cache,
// which is left alone: the emulated volume's latencies must not contain the host's disk.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/warm_contenders.hpp"
#include "bench/warm_image.hpp"
#include "bench/warm_metrics.hpp"
#include "bench/warm_process.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/warm/hot_list.hpp"
#include "tests/sim/ebs.hpp"
#include "tests/sim/ebs_probe.hpp"

namespace warmroot::bench {

struct RunSpec {
  Contender contender;
  sim::VolumeProfile profile;
  std::uint64_t seed = 1;
  std::string session{};                       ///< script for `bash -l`; empty: no session
  std::vector<std::uint64_t> blocks{};         ///< what an oracle reads
  std::string list_file{};                     ///< hot list of ours
  std::vector<std::uint64_t> held_blocks{};    ///< of 512 KiB, in the snapshot, for ours; or empty
  bool record = false;                         ///< what the session reads first
  std::vector<std::uint64_t> reader_blocks{};  ///< an unrelated reader's, one after the other
  std::optional<sim::VolumeProfile> change_to{};  ///< the volume's law from change_after on
  std::chrono::milliseconds change_after{0};
  std::chrono::seconds limit{60};  ///< of the contender from the start; sessions have their own
};

struct RunResult {
  RunLog log;
  std::optional<Usage> contender;                 ///< nothing where no command ran
  bool contender_ended = false;                   ///< by itself, in the limit
  std::optional<std::uint64_t> page_cache_bytes;  ///< of the contender's device, at the log's end
  std::string contender_output;
  std::optional<warm::HotList> recorded;
  std::vector<double> reader_cold_ms;  ///< latencies of its cold reads
};

class Rig {
 public:
  /// Serves from below `directory`, which is made. `stop` is asked in every wait. Errors: no FUSE,
  /// no loop devices, no such image.
  static Result<std::unique_ptr<Rig>> start(const std::filesystem::path& directory,
                                            const Image& image, const std::atomic<bool>& stop);
  ~Rig();

  /// Errors: a session that fails or takes more than ten minutes; a stop request; a contender
  /// that cannot run.
  Result<RunResult> run(const RunSpec& spec);

  /// Brings the image's data into the host's page cache, so that no run pays for the host's disk.
  Ok read_image() const;

  /// The FUSE file at queue depths 1 to 128 against the replayed model, without tails. A depth that
  /// is more than `tolerance` off gets two more tries on fresh volumes.
  Result<std::vector<sim::SelfCheckPoint>> self_check(sim::VolumeProfile profile,
                                                      std::uint64_t seed, double tolerance);

 private:
  Rig(std::filesystem::path directory, Image image, const std::atomic<bool>& stop);
  class Session;
  Ok stopped() const;
  std::filesystem::path directory_;
  Image image_;
  const std::atomic<bool>& stop_;
  sim::EbsServer ebs_;
  unsigned runs_ = 0;
};

}  // namespace warmroot::bench
