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
#include <set>

#include "bootstrap/base/sector.hpp"
#include "bootstrap/daemon_lock.hpp"
#include "bootstrap/documents.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/warm/hot_list.hpp"
#include "bootstrap/warm/own_threads.hpp"
#include "bootstrap/warm/volume_file.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kMaxStatusFile = 16 * 1024 * 1024;

volatile sig_atomic_t interrupted = 0;

Ok keep(const RecordWish& wish, const RecordedVolume& volume, warm::HotList list) {
  if (!wish.output.empty())
    return write_file_atomic(wish.output, warm::encode_hot_list(list), 0644);
  TRY_ASSIGN(const auto file,
             warm::VolumeFile::at(volume.mount_point, kVolumeHotList, "the hot list"));
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
  TRY(keep(wish, volume, list));
  std::set<std::string> files;
  for (const warm::HotRange& range : list.ranges)
    if (!range.path.empty()) files.insert(range.path);
  return std::to_string(list.ranges.size()) + " ranges of " + std::to_string(files.size()) +
         " files, from " + source + ", kept in " +
         (wish.output.empty() ? "the volume's " + std::string(kVolumeHotList) : wish.output);
}

Ok record(const RecordWish& wish) {
  const pid_t daemon = running_daemon();
  const auto fields = status_fields(read_file(kStatusFile, kMaxStatusFile).value_or(""));
  struct stat root {};
  if (daemon == 0 || fields.device.empty() || mounts_at(kVolumePoint).empty() ||
      ::stat(kVolumePoint, &root) != 0)
    return fail(ErrorKind::gone, "no warmroot-bootstrap is running with a mounted volume");
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  const RecordedVolume volume{fields.device, kVolumePoint, offset_of(root.st_dev),
                              [daemon, own = warm::OwnThreads()](pid_t thread) mutable {
                                return own.contains(thread) || is_thread_of(daemon, thread);
                              }};
  std::printf("recording what is read of %s; ends with Ctrl-C, or after %lld s\n",
              fields.device.c_str(), static_cast<long long>(wish.limit.count()));
  std::fflush(stdout);
  TRY_ASSIGN(const std::string done, record_volume(wish, volume, [] { return interrupted != 0; }));
  std::printf("%s\n", done.c_str());
  return {};
}

}  // namespace warmroot::bootstrap
