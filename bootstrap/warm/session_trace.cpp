#include "bootstrap/warm/session_trace.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <utility>

namespace warmroot::warm {
namespace {

/// A whole disk with a number in sysfs; btrfs gives its mounts numbers of no device.
bool is_whole_disk(dev_t number) {
  const std::string place =
      "/sys/dev/block/" + std::to_string(major(number)) + ":" + std::to_string(minor(number));
  return ::access(place.c_str(), F_OK) == 0 && ::access((place + "/partition").c_str(), F_OK) != 0;
}

}  // namespace

std::optional<SessionTrace> SessionTrace::start(const std::string& device_path,
                                                const std::string& mount_point,
                                                std::uint64_t partition_offset, UniqueFd place,
                                                pid_t reader) {
  struct stat device {};
  struct stat root {};
  if (::stat(device_path.c_str(), &device) != 0 || ::stat(mount_point.c_str(), &root) != 0 ||
      !S_ISBLK(device.st_mode))
    return std::nullopt;
  const bool other = root.st_dev != device.st_rdev && is_whole_disk(root.st_dev);
  auto trace = BlockTrace::start(other ? root.st_dev : device.st_rdev, std::move(place), reader);
  if (!trace) return std::nullopt;
  return SessionTrace(std::move(*trace), other ? partition_offset : 0);
}

std::vector<ByteRange> SessionTrace::take() {
  std::vector<ByteRange> reads;
  const auto taken = trace_.take();
  if (!taken) return reads;
  for (const TracedEvent& event : *taken)
    if (const auto* read = std::get_if<TracedRead>(&event); read && !own_.contains(read->thread))
      reads.push_back({read->device.offset + offset_, read->device.length});
  return reads;
}

}  // namespace warmroot::warm
