#include "bootstrap/volume_grow.hpp"

#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <optional>

#include "bootstrap/base/sector.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/base/units.hpp"
#include "bootstrap/in_root.hpp"
#include "bootstrap/partition.hpp"
#include "bootstrap/partition_grow.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/warm/xfs_geometry.hpp"

namespace warmroot::bootstrap {
namespace {

/// fs/ext4/ext4.h; not in the kernel's exported headers.
constexpr unsigned long kExt4Resize = _IOW('f', 16, std::uint64_t);

/// fs/xfs/libxfs/xfs_fs.h, the first version, which every kernel knows.
struct XfsGrow {
  std::uint64_t newblocks;
  std::uint32_t imaxpct;
};
constexpr unsigned long kXfsGrow = _IOW('X', 110, XfsGrow);

std::string mib(std::uint64_t bytes) {
  return std::to_string(bytes / kMiB) + " MiB";
}

// the partition

Ok write_synced(int disk, const TableWrite& write) {
  std::size_t done = 0;
  while (done < write.bytes.size()) {
    const ssize_t put = ::pwrite(disk, write.bytes.data() + done, write.bytes.size() - done,
                                 static_cast<off_t>(write.offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return fail_errno("writing the partition table");
    done += static_cast<std::size_t>(put);
  }
  if (::fdatasync(disk) != 0) return fail_errno("writing the partition table");
  return {};
}

Result<std::uint64_t> size_of_device(const UniqueFd& device, const std::string& node) {
  std::uint64_t bytes = 0;
  if (!device || ::ioctl(device.get(), BLKGETSIZE64, &bytes) != 0)
    return fail_errno("opening " + node);
  return bytes;
}

/// The partition with the size that it has now.
Result<PartitionFacts> grow_partition(const Assignment& assignment, const StopRequest& stop) {
  const UniqueFd disk(::open(assignment.disk_node.c_str(), O_RDWR | O_CLOEXEC));
  TRY_ASSIGN(const std::uint64_t disk_bytes, size_of_device(disk, assignment.disk_node));
  int sector = 0;
  if (::ioctl(disk.get(), BLKSSZGET, &sector) != 0) return fail_errno("the size of a sector");
  if (static_cast<std::uint64_t>(sector) != kSector)
    return fail(ErrorKind::refused,
                "sectors of " + std::to_string(sector) + " bytes are left alone");
  std::string start(kGrowthLooksAtBytes, '\0');
  if (::pread(disk.get(), start.data(), start.size(), 0) != static_cast<ssize_t>(start.size()))
    return fail_errno("reading the partition table");
  PartitionFacts partition = assignment.partition;
  TRY_ASSIGN(const auto growth, plan_growth(start, disk_bytes, partition));
  if (growth) {
    TRY(stop.check());
    for (const TableWrite& write : growth->writes) TRY(write_synced(disk.get(), write));
    partition.size_bytes = growth->size_bytes;
  }
  // Also where one that was killed has written the table and told nobody.
  const UniqueFd known(::open(assignment.partition_node.c_str(), O_RDONLY | O_CLOEXEC));
  TRY_ASSIGN(const std::uint64_t known_bytes, size_of_device(known, assignment.partition_node));
  if (known_bytes < partition.size_bytes) TRY(resize_partition(disk.get(), partition));
  return partition;
}

// the file system

Ok grow_ext(const UniqueFd& root, std::uint64_t bytes) {
  struct statfs facts {};
  if (::fstatfs(root.get(), &facts) != 0) return fail_errno("asking the file system");
  std::uint64_t blocks = bytes / static_cast<std::uint64_t>(facts.f_bsize);
  if (::ioctl(root.get(), kExt4Resize, &blocks) != 0) return fail_errno("growing the file system");
  return {};
}

Ok grow_xfs(const UniqueFd& root, std::uint64_t bytes) {
  warm::XfsGeometry geometry{};
  if (::ioctl(root.get(), warm::kXfsGeometry, &geometry) != 0)
    return fail_errno("asking the file system");
  XfsGrow grow{bytes / geometry.blocksize, geometry.imaxpct};
  if (grow.newblocks <= geometry.datablocks) return {};
  if (::ioctl(root.get(), kXfsGrow, &grow) != 0) return fail_errno("growing the file system");
  return {};
}

/// The one device of a volume's btrfs has not always the number 1.
Ok grow_btrfs(const UniqueFd& root) {
  btrfs_ioctl_fs_info_args facts{};
  if (::ioctl(root.get(), BTRFS_IOC_FS_INFO, &facts) != 0)
    return fail_errno("asking the file system");
  if (facts.num_devices != 1)
    return fail(ErrorKind::refused, "a btrfs of several devices is left alone");
  btrfs_ioctl_vol_args order{};
  std::snprintf(order.name, sizeof order.name, "%llu:max",
                static_cast<unsigned long long>(facts.max_id));
  if (::ioctl(root.get(), BTRFS_IOC_RESIZE, &order) != 0)
    return fail_errno("growing the file system");
  return {};
}

Result<std::uint64_t> size_of(const UniqueFd& root) {
  struct statfs facts {};
  if (::fstatfs(root.get(), &facts) != 0) return fail_errno("asking the file system");
  return facts.f_blocks * static_cast<std::uint64_t>(facts.f_bsize);
}

/// What it holds, before and afterwards.
Result<std::string> grow_filesystem(const std::string& content, std::uint64_t bytes) {
  TRY_ASSIGN(const RootDirectory volume, RootDirectory::open(kVolumePoint));
  TRY_ASSIGN(const UniqueFd root, volume.open_inside(".", O_RDONLY | O_DIRECTORY));
  TRY_ASSIGN(const std::uint64_t before, size_of(root));
  TRY(content == "xfs"     ? grow_xfs(root, bytes)
      : content == "btrfs" ? grow_btrfs(root)
                           : grow_ext(root, bytes));
  TRY_ASSIGN(const std::uint64_t after, size_of(root));
  if (before == after) return "the file system fills " + mib(bytes) + " already";
  return "the file system has " + mib(after) + " instead of " + mib(before);
}

}  // namespace

Result<std::string> grow_root(const Assignment& assignment, const StopRequest& stop) {
  TRY(stop.check());
  PartitionFacts partition = assignment.partition;
  if (partition.number != 0) {
    auto grown = grow_partition(assignment, stop);
    if (!grown) return fail(std::move(grown).error().within(describe(partition)));
    partition = *grown;
  }
  TRY(stop.check());
  return grow_filesystem(partition.content, partition.size_bytes);
}

}  // namespace warmroot::bootstrap
