// EbsServer: EBS volumes as files. Every volume is one regular file `<mount_dir>/<volume_id>` of a
// FUSE file system that pays the first-touch law of volume_model.hpp, so that anything that can
// open a file (QEMU's NVMe disk, a loop device, fio) meets a lazily initialised volume. Called by
// the simulated region's hardware, by tests and by the benches.
//
//   EbsServer ebs({.mount_dir = run / "volumes", .backing_dir = run / "backing", .seed = 7});
//   TRY(ebs.start());
//   TRY(ebs.create_volume("vol-0a", "ami-root.img", 8 * kGiB));
//   // QEMU: -blockdev driver=file,node-name=f,cache.direct=on,aio=io_uring,filename=<path>
//   // loop: losetup --direct-io=on --show -f <path>, then at each attach set the queue's
//   //       max_sectors_kb to 256 and read_ahead_kb to 128, as EBS has them
//
// For benchmarks: a volume's latencies are a function of (seed, block) alone, so volumes made with
// the same seed from the same image meet every contender with the same law; VolumeOptions gives a
// volume its own profile and seed. A new volume costs neither time nor space: reads come from the
// snapshot image, which must not change while volumes of it exist, and writes go to an unlinked
// sparse overlay. touch_log() is the device's own record. Open files with O_DIRECT: the file system
// sets FOPEN_DIRECT_IO, but only an O_DIRECT opener submits without waiting. QEMU itself reads
// block 0 when it opens a file. The server asks for SCHED_RR, as a device has processors of its
// own; refused, it goes without.
//
// A write is in the overlay when it is acknowledged, so killing a guest loses nothing; power_cut()
// is what does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "tests/sim/volume_model.hpp"
#include "tests/sim/write_log.hpp"

namespace warmroot::sim {

struct EbsOptions {
  std::filesystem::path
      mount_dir;  ///< made if absent; a dead mount of a killed server there is detached
  std::filesystem::path
      backing_dir;  ///< made if absent; holds unlinked overlays, so nothing stays behind
  VolumeProfile profile = {};
  std::uint64_t seed = 1;  ///< of first-touch latencies and of power cuts
};

/// What a volume may have of its own instead of the server's.
struct VolumeOptions {
  std::optional<VolumeProfile> profile = {};
  std::optional<std::uint64_t> seed = {};
  bool log_requests = false;                 ///< for request_log(); some 60 bytes a request
  std::shared_ptr<WriteLog> write_log = {};  ///< gets every write with its bytes, and every flush
};

/// One request in the device's own log. Every open() of a volume's file is numbered, from 1 on, so
/// that two loop devices over one volume tell their requests apart.
struct DeviceRequest {
  enum class Kind : std::uint8_t { read, write, flush };
  SimTime at{};   ///< when it arrived
  SimTime due{};  ///< when it was to be answered
  ByteRange range;
  Kind kind = Kind::read;
  unsigned opener = 0;
  unsigned first_touches = 0;  ///< blocks that it was the first to want
  bool waited = false;         ///< a read of which a block was absent or under way
};

/// A volume's figures; all but first_touches_since_attach are sums since its creation.
struct EbsCounters {
  std::uint64_t first_touches_total = 0;
  std::uint64_t first_touches_since_attach = 0;
  std::uint64_t present_blocks =
      0;  ///< in hydration units; blocks never written before the snapshot count
  std::uint64_t costly_blocks = 0;  ///< blocks in the snapshot
  std::uint64_t total_blocks = 0;
  std::uint64_t fetched_bytes = 0;
  std::uint64_t reads = 0;  ///< requests, as FUSE delivers them (at most 1 MiB each)
  std::uint64_t writes = 0;
  std::uint64_t flushes = 0;
  std::uint64_t unflushed_bytes = 0;  ///< what a power cut could drop now, in 4 KiB pages
};

/// Thread-safe. The destructor stops.
class EbsServer {
 public:
  explicit EbsServer(EbsOptions options);
  ~EbsServer();
  EbsServer(const EbsServer&) = delete;
  EbsServer& operator=(const EbsServer&) = delete;

  /// Mounts and serves. Errors: refused where /dev/fuse cannot be opened or mounting is denied; a
  /// failed start leaves nothing behind. Needs root (or fusermount3).
  Ok start();
  /// Answers what waits, unmounts, ends the threads; idempotent. With files still open the mount is
  /// detached and the connection aborted: their next I/O fails, and the mount is gone from the tree
  /// all the same.
  void stop();

  /// `snapshot_image` may be empty: then nothing is absent. `size_bytes` is rounded up to 512 and
  /// at least the image's. Errors: misconfigured (id in use or not a file name, size below the
  /// image's), gone (no such image).
  Ok create_volume(const std::string& volume_id, const std::filesystem::path& snapshot_image,
                   std::uint64_t size_bytes, const VolumeOptions& own = {});
  /// Openers keep what they have; the name is gone at once. An unknown id is ignored, as in all
  /// calls below.
  void delete_volume(const std::string& volume_id);

  /// Zeros for an unknown id.
  EbsCounters counters(const std::string& volume_id) const;
  /// Resets first_touches_since_attach. What is present stays present: the state is the volume's.
  void mark_attached(const std::string& volume_id);
  /// Fast snapshot restore, or a volume that is warm already.
  void mark_all_present(const std::string& volume_id);
  /// Another law from now on.
  void set_profile(const std::string& volume_id, const VolumeProfile& profile);
  /// Each 4 KiB page written since the last flush returns with probability 1/2 to what it held
  /// then; the choice is a function of (seed, volume id, how many cuts before). Requires: nobody
  /// writes any more (QEMU is dead). Returns the pages returned. Bounded: past 256 MiB of unflushed
  /// pages the oldest count as flushed.
  std::uint64_t power_cut(const std::string& volume_id);
  /// First touches in order of request; times since the construction.
  std::vector<FirstTouch> touch_log(const std::string& volume_id) const;
  /// Requests in order of arrival, of a volume made with log_requests; same clock as touch_log().
  std::vector<DeviceRequest> request_log(const std::string& volume_id) const;
  /// Now, on the logs' clock.
  SimTime now() const;

  /// The file that QEMU or losetup opens.
  std::filesystem::path path(const std::string& volume_id) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace warmroot::sim
