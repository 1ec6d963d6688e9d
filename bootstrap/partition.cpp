#include "bootstrap/partition.hpp"

#include <fcntl.h>
#include <linux/blkpg.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <blkid/blkid.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "bootstrap/base/sector.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/warm/mount_reads.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr char kNoSystem[] = "; the pool's source has to be an AMI or the snapshot of a root disk";
constexpr int kNodeAttempts = 100;
constexpr int kNodePauseMs = 20;
/// include/uapi of ext4: offsets in the superblock.
constexpr std::size_t kMagicOffset = 0x38, kStateOffset = 0x3a, kIncompatOffset = 0x60;
constexpr unsigned kExtMagic = 0xef53, kStateClean = 1, kStateErrors = 2, kIncompatRecover = 4;

struct ProbeDeleter {
  void operator()(blkid_probe probe) const { blkid_free_probe(probe); }
};
using Probe = std::unique_ptr<blkid_struct_probe, ProbeDeleter>;

/// The kernel reads no more ahead at one call, unless the device's read_ahead_kb says so.
constexpr std::uint64_t kReadAhead = 128 * 1024;

/// libblkid reads some 45 places of a partition, each when it has seen the one before: a
/// millisecond each on EBS. Asked for at once they are in the page cache when it comes.
void read_ahead(int fd, const warm::ByteRange& place) {
  for (const auto& probed : warm::probed_places(place))
    for (std::uint64_t done = 0; done < probed.length; done += kReadAhead)
      ::posix_fadvise(fd, static_cast<off_t>(probed.offset + done),
                      static_cast<off_t>(std::min(kReadAhead, probed.length - done)),
                      POSIX_FADV_WILLNEED);
}

/// What libblkid knows of what lies there; nothing when it does not know it or finds two answers.
void identify(int fd, PartitionFacts& partition) {
  const Probe probe(blkid_new_probe());
  if (!probe ||
      blkid_probe_set_device(probe.get(), fd, static_cast<blkid_loff_t>(partition.offset_bytes),
                             static_cast<blkid_loff_t>(partition.size_bytes)) != 0)
    return;
  blkid_probe_enable_superblocks(probe.get(), 1);
  blkid_probe_set_superblocks_flags(probe.get(),
                                    BLKID_SUBLKS_TYPE | BLKID_SUBLKS_UUID | BLKID_SUBLKS_LABEL);
  if (blkid_do_safeprobe(probe.get()) != 0) return;
  const auto value = [&](const char* name) {
    const char* text = nullptr;
    const int found = blkid_probe_lookup_value(probe.get(), name, &text, nullptr);
    return found == 0 && text != nullptr ? std::string(text) : std::string();
  };
  partition.content = value("TYPE");
  partition.uuid = value("UUID");
  partition.label = value("LABEL");
}

std::string partition_name(const std::string& disk_name, int number) {
  const bool digit = !disk_name.empty() && disk_name.back() >= '0' && disk_name.back() <= '9';
  return disk_name + (digit ? "p" : "") + std::to_string(number);
}

unsigned little16(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]) | static_cast<unsigned char>(bytes[at + 1]) << 8;
}

/// False, with errno: the kernel did not take it.
bool tell_kernel(int disk_fd, int operation, const PartitionFacts& partition) {
  blkpg_partition description{};
  description.start = static_cast<long long>(partition.offset_bytes);
  description.length = static_cast<long long>(partition.size_bytes);
  description.pno = partition.number;
  blkpg_ioctl_arg argument{};
  argument.op = operation;
  argument.datalen = sizeof description;
  argument.data = &description;
  return ::ioctl(disk_fd, BLKPG, &argument) == 0;
}

/// EBUSY: somebody else has told it.
Ok add_partition(int disk_fd, const PartitionFacts& partition) {
  if (!tell_kernel(disk_fd, BLKPG_ADD_PARTITION, partition) && errno != EBUSY)
    return fail_errno("adding partition " + std::to_string(partition.number) + " to the kernel");
  return {};
}

}  // namespace

std::string describe(const PartitionFacts& partition) {
  return (partition.number == 0 ? "the whole disk"
                                : "partition " + std::to_string(partition.number)) +
         " (" + (partition.content.empty() ? "unknown" : partition.content) + ", " +
         std::to_string(partition.size_bytes >> 20) + " MiB)";
}

Result<std::vector<PartitionFacts>> root_candidates(std::span<const PartitionFacts> partitions) {
  std::vector<PartitionFacts> candidates;
  std::string seen;
  for (const auto& partition : partitions) {
    if (is_mountable(partition.content)) candidates.push_back(partition);
    seen += (seen.empty() ? "" : ", ") + describe(partition);
  }
  const std::string remedy = root_remedy(partitions);
  if (candidates.empty())
    return fail(ErrorKind::refused, "the volume has no partition with a root file system (" +
                                        (seen.empty() ? "it is empty" : seen) + ")" +
                                        (remedy.empty() ? kNoSystem : remedy));
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const PartitionFacts& a, const PartitionFacts& b) { return a.size_bytes > b.size_bytes; });
  return candidates;
}

std::string root_remedy(std::span<const PartitionFacts> partitions) {
  const auto has = [&](std::string_view content) {
    return std::any_of(partitions.begin(), partitions.end(), [&](const PartitionFacts& partition) {
      return partition.content == content;
    });
  };
  if (has("crypto_LUKS"))
    return "; LUKS encryption is not supported, EBS encryption is: copy the system to a plain "
           "partition of an encrypted volume";
  if (has("LVM2_member")) return "; LVM is not supported: copy the system to a plain partition";
  if (has("linux_raid_member"))
    return "; software RAID is not supported: copy the system to one disk";
  return {};
}

std::string root_choice(const PartitionFacts& chosen, std::size_t candidates,
                        std::span<const std::string> refused) {
  std::string text = describe(chosen);
  if (!chosen.table.empty()) text += chosen.table == "dos" ? " of the MBR" : " of the GPT";
  if (candidates < 2) return text + ", the only Linux file system";
  text +=
      ", the largest of " + std::to_string(candidates) + " Linux file systems that holds a system";
  for (const auto& reason : refused) text += "; not " + reason;
  return text;
}

Result<std::vector<PartitionFacts>> read_partitions(int disk_fd) {
  const Probe probe(blkid_new_probe());
  if (!probe || blkid_probe_set_device(probe.get(), disk_fd, 0, 0) != 0)
    return fail_errno("probing the disk");
  const auto size = static_cast<std::uint64_t>(blkid_probe_get_size(probe.get()));
  std::vector<PartitionFacts> partitions;
  blkid_probe_enable_partitions(probe.get(), 1);
  blkid_partlist list = blkid_probe_get_partitions(probe.get());
  const int count = list != nullptr ? blkid_partlist_numof_partitions(list) : 0;
  const blkid_parttable table = list != nullptr ? blkid_partlist_get_table(list) : nullptr;
  const char* const kind = table != nullptr ? blkid_parttable_get_type(table) : nullptr;
  for (int i = 0; i < count; ++i) {
    const blkid_partition entry = blkid_partlist_get_partition(list, i);
    if (blkid_partition_is_extended(entry)) continue;
    PartitionFacts partition;
    partition.number = blkid_partition_get_partno(entry);
    partition.offset_bytes = static_cast<std::uint64_t>(blkid_partition_get_start(entry)) * kSector;
    partition.size_bytes = static_cast<std::uint64_t>(blkid_partition_get_size(entry)) * kSector;
    if (partition.size_bytes == 0 || partition.offset_bytes + partition.size_bytes > size) continue;
    const auto text = [](const char* value) { return std::string(value != nullptr ? value : ""); };
    partition.table = text(kind);
    partition.part_uuid = text(blkid_partition_get_uuid(entry));
    partition.part_label = text(blkid_partition_get_name(entry));
    partitions.push_back(std::move(partition));
  }
  if (partitions.empty()) partitions.push_back({0, 0, size, {}, {}});
  for (const auto& partition : partitions)
    read_ahead(disk_fd, {partition.offset_bytes, partition.size_bytes});
  for (auto& partition : partitions) identify(disk_fd, partition);
  return partitions;
}

Ok resize_partition(int disk_fd, const PartitionFacts& partition) {
  if (!tell_kernel(disk_fd, BLKPG_RESIZE_PARTITION, partition))
    return fail_errno("telling the kernel that " + describe(partition) + " has grown");
  return {};
}

Result<std::string> ensure_node(const std::string& sys_root, const std::string& disk_name,
                                int disk_fd, const PartitionFacts& partition) {
  if (partition.number == 0) return "/dev/" + disk_name;
  const std::string directory = sys_root + "/block/" + disk_name;
  const std::string start = std::to_string(partition.offset_bytes / kSector);
  std::string name;
  for (const auto& entry : list_directory(directory))
    if (entry.rfind(disk_name, 0) == 0 &&
        read_attribute(directory + "/" + entry + "/start") == start)
      name = entry;
  if (name.empty()) {
    TRY(add_partition(disk_fd, partition));
    name = partition_name(disk_name, partition.number);
  }
  const std::string node = "/dev/" + name;
  for (int attempt = 0; attempt < kNodeAttempts; ++attempt) {
    if (::access(node.c_str(), F_OK) == 0) return node;
    ::poll(nullptr, 0, kNodePauseMs);
  }
  return fail(ErrorKind::gone, "the device node " + node + " did not appear");
}

Result<ExtState> parse_ext_superblock(std::string_view superblock) {
  if (superblock.size() < 1024 || little16(superblock, kMagicOffset) != kExtMagic)
    return fail(ErrorKind::broken, "no ext superblock");
  ExtState state;
  const unsigned flags = little16(superblock, kStateOffset);
  state.needs_recovery = (little16(superblock, kIncompatOffset) & kIncompatRecover) != 0;
  state.has_errors = (flags & kStateErrors) != 0;
  state.cleanly_unmounted = (flags & kStateClean) != 0 && !state.needs_recovery;
  return state;
}

Result<ExtState> read_ext_state(int disk_fd, std::uint64_t offset_bytes) {
  char superblock[1024];
  const ssize_t got =
      ::pread(disk_fd, superblock, sizeof superblock, static_cast<off_t>(offset_bytes + 1024));
  if (got != sizeof superblock) return fail_errno("reading the superblock");
  return parse_ext_superblock({superblock, sizeof superblock});
}

}  // namespace warmroot::bootstrap
