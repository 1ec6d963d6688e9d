#include "bootstrap/filesystem_check.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>

#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/unmount.hpp"

namespace warmroot::bootstrap {
namespace {

/// Preening replays the journal and reads metadata of a volume whose every block may cost 30 ms.
constexpr std::chrono::milliseconds kFsckLimit{std::chrono::minutes(10)};
/// fsck(8): errors were corrected.
constexpr int kFsckCorrected = 1;
/// fsck(8): errors were left uncorrected. From 8 on it could not do its work, whatever the disk
/// holds.
constexpr int kFsckUncorrected = 4, kFsckTrouble = 8;
/// As e2fsck names a disk that does not answer: it may be pulled out right now.
constexpr std::string_view kUnread[] = {"Input/output error", "short read", "short write"};
constexpr std::size_t kShownBytes = 300;

/// As e2fsck calls a file system that is newer than itself: nothing is said of its state.
bool is_too_old(const ProgramResult& e2fsck) {
  return e2fsck.exit_status >= kFsckTrouble &&
         e2fsck.output.find("unsupported feature") != std::string::npos;
}

bool found_damage(const ProgramResult& e2fsck) {
  return e2fsck.exit_status >= kFsckUncorrected && e2fsck.exit_status < kFsckTrouble &&
         std::none_of(std::begin(kUnread), std::end(kUnread), [&](std::string_view words) {
           return e2fsck.output.find(words) != std::string::npos;
         });
}

/// The e2fsck of a bootstrap that was killed is about to end.
void wait_until_free(const std::string& node, const StopRequest& stop) {
  constexpr int kLooks = 50;
  for (int look = 0; look < kLooks && !stop.reason(); ++look) {
    const auto free = check_device_free(node);
    if (free || free.error().code != "EBUSY") return;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

std::string beyond_replay(const PartitionFacts& partition, const ProgramResult& e2fsck) {
  return "the file system of " + describe(partition) +
         " was not left clean, and e2fsck -p cannot repair it by itself (it ended with " +
         std::to_string(e2fsck.exit_status) +
         "): take a snapshot, attach the volume where nothing mounts it, and run e2fsck -f; it "
         "said: " +
         without_controls(e2fsck.output.substr(0, kShownBytes));
}

}  // namespace

Result<std::string> check_filesystem(const PartitionFacts& partition, const std::string& node,
                                     int disk_fd, const StopRequest& stop) {
  if (partition.content == "vfat") return "as it was left";  // it keeps no log
  if (partition.content.rfind("ext", 0) != 0) return "its log is replayed by mounting";
  TRY_ASSIGN(const ExtState state, read_ext_state(disk_fd, partition.offset_bytes));
  if (state.cleanly_unmounted && !state.has_errors) return "clean";
  const std::string e2fsck = first_executable({"/sbin/e2fsck", "/usr/sbin/e2fsck"});
  if (e2fsck.empty() && state.has_errors)
    return fail(ErrorKind::misconfigured,
                "the file system has recorded errors, and the base has no e2fsck: install "
                "e2fsprogs there");
  if (e2fsck.empty()) return "not left clean; the base has no e2fsck, mounting replays the journal";
  wait_until_free(node, stop);
  TRY(stop.check());
  const Cancelled cancelled = [&stop] { return stop.reason().has_value(); };
  TRY_ASSIGN(const auto done, run_program({e2fsck, "-p", node}, kFsckLimit, cancelled));
  if (is_too_old(done) && !state.has_errors)
    return "not left clean; the base's e2fsck is too old for it, mounting replays the journal";
  if (done.exit_status > kFsckCorrected)
    return fail(ErrorKind::misconfigured, beyond_replay(partition, done),
                found_damage(done) ? std::string(kDamaged) : std::string());
  return "not left clean; e2fsck -p repaired it";
}

}  // namespace warmroot::bootstrap
