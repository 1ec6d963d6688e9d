#include "bootstrap/record_command.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "bootstrap/base/sector.hpp"
#include "bootstrap/daemon_lock.hpp"
#include "bootstrap/documents.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/warm/file_places.hpp"
#include "bootstrap/warm/hot_list.hpp"
#include "bootstrap/warm/own_threads.hpp"
#include "bootstrap/warm/volume_file.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kMaxStatusFile = 16 * 1024 * 1024;

volatile sig_atomic_t interrupted = 0;

void end_recording(int) {
  interrupted = 1;
}

/// `file` is the volume's own list.
Ok keep(const RecordWish& wish, const warm::VolumeFile& file, warm::HotList list) {
  if (!wish.output.empty())
    return write_file_atomic(wish.output, warm::encode_hot_list(list), 0644);
  TRY_ASSIGN(const auto bytes, file.load(warm::kMostListBytes));
  if (const auto before = bytes ? warm::decode_hot_list(*bytes) : fail(ErrorKind::gone, "none")) {
    // Somebody wants these sessions to be quick: they weigh as much as all that came before.
    list.recordings = before->recordings;
    const std::string workload = list.workload;
    list = warm::merge_hot_lists(std::vector{*before, list});
    if (!workload.empty()) list.workload = workload;
  }
  return file.save(warm::encode_hot_list(list));
}

/// Seconds and nanoseconds by the clock of whoever had the volume mounted.
using Moment = std::pair<std::int64_t, std::uint32_t>;

Moment moment_of(const struct statx_timestamp& time) {
  return {time.tv_sec, time.tv_nsec};
}

/// When a bootstrap had the volume mounted first, which made the folder of ours; earlier where the
/// snapshot brought that along. nullopt where nobody can tell, as on a file system that keeps no
/// such times.
std::optional<Moment> first_lease(int root) {
  const UniqueFd folder = warm::open_plain(root, kVolumeState);
  struct statx facts {};
  if (!folder || ::statx(folder.get(), "", AT_EMPTY_PATH, STATX_BTIME, &facts) != 0 ||
      (facts.stx_mask & STATX_BTIME) == 0)
    return std::nullopt;
  return moment_of(facts.stx_btime);
}

/// A file that was written or renamed since may lie anywhere; a directory stays where it was made,
/// and grows at its end.
bool lies_where_it_lay(int root, const std::string& path, const Moment& then) {
  const UniqueFd file = warm::open_plain(root, path);
  struct statx facts {};
  if (!file ||
      ::statx(file.get(), "", AT_EMPTY_PATH, STATX_TYPE | STATX_CTIME | STATX_BTIME, &facts) != 0)
    return false;
  if (!S_ISDIR(facts.stx_mode)) return moment_of(facts.stx_ctime) < then;
  return (facts.stx_mask & STATX_BTIME) != 0 && moment_of(facts.stx_btime) < then;
}

/// RecordedVolume's told_file. Of what belongs to no file that was seen nobody can tell whose it
/// was before.
warm::HotList where_the_snapshot_has_it(warm::HotList list, const std::string& mount_point) {
  const UniqueFd root(::open(mount_point.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const auto then = root ? first_lease(root.get()) : std::nullopt;
  std::map<std::string, bool> known;
  std::erase_if(list.ranges, [&](const warm::HotRange& range) {
    if (!then || range.path.empty()) return true;
    const auto [file, is_new] = known.try_emplace(range.path, false);
    if (is_new) file->second = lies_where_it_lay(root.get(), range.path, *then);
    return !file->second;
  });
  return list;
}

/// Returns how the sentence about the recording goes on.
Result<std::string> tell(const RecordedVolume& volume, const warm::HotList& list) {
  if (list.ranges.empty())
    return std::string(
        "; none of them goes to the manager: no file of theirs is known to be as the snapshot has "
        "it");
  TRY(write_file_atomic(volume.told_file, warm::encode_hot_list(list), 0600));
  return "; " + std::to_string(list.ranges.size()) +
         " of them, of files that have not changed since the first lease, go to the manager where "
         "there is one";
}

/// Where the mounted file system begins on its disk; 0 where it has no partition.
std::uint64_t offset_of(dev_t number) {
  const std::string place =
      "/sys/dev/block/" + std::to_string(major(number)) + ":" + std::to_string(minor(number));
  const auto start = read_file(place + "/start", 64);
  return start ? std::strtoull(start->c_str(), nullptr, 10) * kSector : 0;
}

/// The daemon's threads: its warmer reads the same disk.
bool is_thread_of(pid_t process, pid_t thread) {
  const std::string place = "/proc/" + std::to_string(process) + "/task/" + std::to_string(thread);
  return process != 0 && ::access(place.c_str(), F_OK) == 0;
}

}  // namespace

std::function<bool()> told_to_end() {
  interrupted = 0;
  struct sigaction action {};
  action.sa_handler = end_recording;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    ::sigaction(number, nullptr, &before);
    // nohup's recording outlives its terminal.
    if (number != SIGHUP || before.sa_handler != SIG_IGN) ::sigaction(number, &action, nullptr);
  }
  return [] { return interrupted != 0; };
}

Result<std::string> record_volume(const RecordWish& wish, const RecordedVolume& volume,
                                  const std::function<bool()>& ended) {
  warm::RecordRequest request;
  request.mount_point = volume.mount_point;
  request.partition_offset = volume.partition_offset;
  request.workload = wish.workload;
  const UniqueFd disk(::open(volume.disk_node.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!disk || ::fstat(disk.get(), &status) != 0 || !S_ISBLK(status.st_mode) ||
      ::ioctl(disk.get(), BLKGETSIZE64, &request.device_bytes) != 0)
    return fail_errno("recording " + volume.disk_node);
  request.disk = status.st_rdev;
  request.disk_node = volume.disk_node;
  // Recognised again by its device: once the root is gone, nothing is saved to what lies below.
  TRY_ASSIGN(auto file, warm::VolumeFile::at(volume.mount_point, kVolumeHotList, "the hot list"));
  file.write_beside_others();  // the daemon may keep its own list just then
  TRY_ASSIGN(auto recorder, warm::Recorder::start(request, volume.is_own));
  const auto end = std::chrono::steady_clock::now() + wish.limit;
  while (!ended() && std::chrono::steady_clock::now() < end) {
    ::poll(nullptr, 0, warm::kRecordPollMs);
    TRY(recorder.poll());
  }
  const warm::HotList list = recorder.list();
  const std::string source = recorder.source();
  if (list.ranges.empty())
    return fail(ErrorKind::refused, "nothing was read of the volume (watched: " + source + ")");
  // The folder that tells when is made by keep() where there was none.
  const bool is_told = wish.output.empty() && !volume.told_file.empty();
  const warm::HotList told =
      is_told ? where_the_snapshot_has_it(list, volume.mount_point) : warm::HotList();
  TRY(keep(wish, file, list));
  std::string tells;
  if (is_told) {
    TRY_ASSIGN(tells, tell(volume, told));
  }
  std::set<std::string> files;
  for (const warm::HotRange& range : list.ranges)
    if (!range.path.empty()) files.insert(range.path);
  return std::to_string(list.ranges.size()) + " ranges of " + std::to_string(files.size()) +
         " files, from " + source + ", kept in " +
         (wish.output.empty() ? "the volume's " + std::string(kVolumeHotList) : wish.output) +
         tells;
}

Ok record(const RecordWish& wish) {
  const pid_t daemon = running_daemon();
  const auto fields = status_fields(read_file(kStatusFile, kMaxStatusFile).value_or(""));
  struct stat root {};
  if (daemon == 0 || fields.device.empty() || mounts_at(kVolumePoint).empty() ||
      ::stat(kVolumePoint, &root) != 0)
    return fail(ErrorKind::gone, "no warmroot-bootstrap is running with a mounted volume");
  const auto ended = told_to_end();
  const RecordedVolume volume{fields.device, kVolumePoint, offset_of(root.st_dev),
                              [daemon, own = warm::OwnThreads()](pid_t thread) mutable {
                                return own.contains(thread) || is_thread_of(daemon, thread);
                              },
                              fields.volume_id.empty() ? "" : kAskedLists + fields.volume_id};
  std::printf("recording what is read of %s; ends with Ctrl-C, or after %lld s\n",
              fields.device.c_str(), static_cast<long long>(wish.limit.count()));
  std::fflush(stdout);
  TRY_ASSIGN(const std::string done, record_volume(wish, volume, ended));
  std::printf("%s\n", done.c_str());
  return {};
}

}  // namespace warmroot::bootstrap
