#include "bootstrap/device_io.hpp"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/nvme_ioctl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include "bootstrap/files.hpp"
#include "bootstrap/mount_table.hpp"
#include "bootstrap/root_mount.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr unsigned char kNvmeIdentify = 0x06;
constexpr unsigned char kNvmeGetLogPage = 0x02;
constexpr std::size_t kIdentifyBytes = 4096;
constexpr std::size_t kSerialOffset = 4, kSerialBytes = 20;
constexpr std::size_t kVendorOffset = 3072, kVendorBytes = 32;
constexpr unsigned kAmazonVendor = 0x1d0f;
/// 70-ec2-nvme-devices.rules.
constexpr char kNoIoTimeout[] = "4294967295";
/// The node is made by devtmpfs just before the uevent; udev may still be setting its mode.
constexpr int kOpenAttempts = 100;
constexpr std::chrono::milliseconds kOpenPause{20};

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(std::string_view(" \t\n\0", 4));
  if (first == std::string_view::npos) return {};
  const std::size_t last = text.find_last_not_of(std::string_view(" \t\n\0", 4));
  return std::string(text.substr(first, last - first + 1));
}

/// SCSI disks tell their serial as vital product data page 0x80: four bytes of header, then text.
std::string scsi_serial(const std::string& directory) {
  const auto page = read_file(directory + "/device/vpd_pg80", 4096);
  return page && page->size() > 4 ? trimmed(std::string_view(*page).substr(4)) : std::string();
}

bool is_whole_disk(const std::string& directory, const std::string& name) {
  for (const char* prefix : {"loop", "ram", "zram", "dm-", "md", "sr", "fd"})
    if (name.rfind(prefix, 0) == 0) return false;
  return ::access((directory + "/partition").c_str(), F_OK) != 0 &&
         ::access((directory + "/size").c_str(), F_OK) == 0;
}

bool in_use(const std::string& directory, const std::string& name,
            const std::set<std::string>& mounted, const std::set<std::string>& members) {
  if (mounted.count(read_attribute(directory + "/dev")) != 0 || members.count(name) != 0)
    return true;
  if (!list_directory(directory + "/holders").empty()) return true;
  for (const auto& entry : list_directory(directory)) {
    if (entry.rfind(name, 0) != 0) continue;
    if (mounted.count(read_attribute(directory + "/" + entry + "/dev")) != 0 ||
        members.count(entry) != 0)
      return true;
    if (!list_directory(directory + "/" + entry + "/holders").empty()) return true;
  }
  return false;
}

DiskFacts read_disk(const std::string& directory, const std::string& name) {
  DiskFacts disk;
  disk.name = name;
  disk.model = trimmed(read_attribute(directory + "/device/model"));
  disk.serial = trimmed(read_attribute(directory + "/device/serial"));
  if (disk.serial.empty()) disk.serial = trimmed(read_attribute(directory + "/serial"));
  if (disk.serial.empty()) disk.serial = scsi_serial(directory);
  disk.size_bytes = std::strtoull(read_attribute(directory + "/size").c_str(), nullptr, 10) * 512;
  return disk;
}

bool are_different(const std::string& one, const std::string& other) {
  return !one.empty() && !other.empty() && one != other;
}

bool looks_gone(const std::string& sys_root, const DiskIdentity& disk) {
  const std::string blocks = sys_root + "/block";
  if (::access((blocks + "/" + disk.name).c_str(), F_OK) != 0)
    return errno == ENOENT && ::access(blocks.c_str(), R_OK) == 0;
  const DiskIdentity now = identify_disk(sys_root, disk.name);
  return are_different(now.number, disk.number) || are_different(now.sequence, disk.sequence);
}

}  // namespace

DiskIdentity identify_disk(const std::string& sys_root, const std::string& disk_name) {
  const std::string directory = sys_root + "/block/" + disk_name;
  return {disk_name, read_attribute(directory + "/dev"), read_attribute(directory + "/diskseq")};
}

bool disk_has_gone(const std::string& sys_root, const DiskIdentity& disk,
                   const std::function<bool()>& pause) {
  if (disk.name.empty()) return false;
  return looks_gone(sys_root, disk) && !pause() && looks_gone(sys_root, disk);
}

bool are_of_disk(const std::string& sys_root, const DiskIdentity& disk,
                 std::span<const dev_t> devices) {
  const DiskIdentity now = identify_disk(sys_root, disk.name);
  if (disk.sequence.empty() || now.sequence != disk.sequence || now.number != disk.number)
    return false;
  const std::string directory = sys_root + "/block/" + disk.name;
  std::set<std::string> numbers{now.number};
  for (const auto& entry : list_directory(directory))
    if (entry.starts_with(disk.name))
      numbers.insert(read_attribute(directory + "/" + entry + "/dev"));
  return std::all_of(devices.begin(), devices.end(), [&](dev_t device) {
    return major(device) == 0 || numbers.contains(device_number(device));
  });
}

std::vector<DiskFacts> scan_disks(const std::string& sys_root, const std::set<std::string>& mounted,
                                  const std::set<std::string>& present_at_start) {
  std::vector<DiskFacts> disks;
  const std::string blocks = sys_root + "/block";
  const std::set<std::string> members = btrfs_members(sys_root);
  for (const auto& name : list_directory(blocks)) {
    const std::string directory = blocks + "/" + name;
    if (!is_whole_disk(directory, name)) continue;
    DiskFacts disk = read_disk(directory, name);
    disk.holds_base = in_use(directory, name, mounted, members);
    disk.present_at_start = present_at_start.count(name) != 0;
    disks.push_back(std::move(disk));
  }
  std::sort(disks.begin(), disks.end(),
            [](const DiskFacts& a, const DiskFacts& b) { return a.name < b.name; });
  return disks;
}

Result<UeventSocket> UeventSocket::open() {
  UniqueFd fd(
      ::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT));
  if (!fd) return fail_errno("opening the kernel's uevent socket");
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = 1;  // the kernel's own events; udev sends to group 2
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail_errno("listening to the kernel's uevents");
  return UeventSocket(std::move(fd));
}

void UeventSocket::wait(std::chrono::milliseconds limit) const {
  const std::int64_t deadline = boottime_ms() + limit.count();
  while (true) {
    const std::int64_t left = deadline - boottime_ms();
    pollfd item{fd_.get(), POLLIN, 0};
    if (left <= 0 || ::poll(&item, 1, static_cast<int>(left)) <= 0) return;
    std::array<char, 8192> buffer;
    const ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) return;  // ENOBUFS: events were lost
    const auto event = parse_uevent({buffer.data(), static_cast<std::size_t>(got)});
    if (event && event->subsystem == "block" && event->action != "remove") return;
  }
}

namespace {

/// One page of what the controller tells about itself. A status of the controller's is `refused`.
Ok ask_controller(int fd, nvme_admin_cmd command, std::span<unsigned char> page,
                  const std::string& what) {
  command.addr = reinterpret_cast<std::uintptr_t>(page.data());
  command.data_len = static_cast<std::uint32_t>(page.size());
  const int status = ::ioctl(fd, NVME_IOCTL_ADMIN_CMD, &command);
  if (status < 0) return fail_errno(what);
  if (status > 0)
    return fail(ErrorKind::refused, what + ": the controller answers " + std::to_string(status));
  return {};
}

}  // namespace

Result<EbsStatistics> read_ebs_statistics(const std::string& disk_node) {
  const UniqueFd fd(::open(disk_node.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail_errno("opening " + disk_node);
  alignas(4096) std::array<unsigned char, kEbsStatisticsBytes> page{};
  nvme_admin_cmd command{};
  command.opcode = kNvmeGetLogPage;
  command.nsid = 1;
  command.cdw10 = kEbsStatisticsPage | (kEbsStatisticsBytes / 4 - 1) << 16;  // dwords, from 0
  TRY(ask_controller(fd.get(), command, page, "NVMe log page 0xD0"));
  if (const auto found =
          parse_ebs_statistics({reinterpret_cast<const char*>(page.data()), page.size()}))
    return *found;
  return fail(ErrorKind::refused, disk_node + " has no statistics of EBS");
}

Result<NvmeIdentity> identify_nvme(int fd) {
  alignas(4096) std::array<unsigned char, kIdentifyBytes> page{};
  nvme_admin_cmd command{};
  command.opcode = kNvmeIdentify;
  command.cdw10 = 1;  // identify controller
  TRY(ask_controller(fd, command, page, "NVMe identify controller"));
  const std::string_view bytes(reinterpret_cast<const char*>(page.data()), page.size());
  NvmeIdentity identity;
  identity.serial = trimmed(bytes.substr(kSerialOffset, kSerialBytes));
  if ((page[0] | page[1] << 8) == kAmazonVendor) {
    std::string name = trimmed(bytes.substr(kVendorOffset, kVendorBytes));
    name = name.substr(0, name.find('\0'));
    identity.mapped_name = name.rfind("/dev/", 0) == 0 ? name.substr(5) : name;
  }
  return identity;
}

std::vector<DiskFacts> named_disks(const std::string& sys_root,
                                   const std::set<std::string>& present_at_start) {
  const auto mountinfo = read_file("/proc/self/mountinfo", kMaxMountinfo);
  auto disks = scan_disks(sys_root, mounted_devices(mountinfo.value_or("")), present_at_start);
  for (auto& disk : disks) {
    if (disk.holds_base || disk.name.rfind("nvme", 0) != 0) continue;
    const UniqueFd fd(::open(("/dev/" + disk.name).c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) continue;
    if (const auto identity = identify_nvme(fd.get())) disk.mapped_name = identity->mapped_name;
  }
  return disks;
}

Result<UniqueFd> open_verified(const std::string& sys_root, const DiskFacts& disk) {
  const std::string node = "/dev/" + disk.name;
  UniqueFd fd;
  for (int attempt = 0; attempt < kOpenAttempts && !fd; ++attempt) {
    fd.reset(::open(node.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd && errno != ENOENT && errno != ENXIO && errno != EACCES) break;
    if (!fd) ::poll(nullptr, 0, static_cast<int>(kOpenPause.count()));
  }
  if (!fd) return fail_errno("opening " + node);
  std::string serial;
  if (disk.name.rfind("nvme", 0) == 0) {
    TRY_ASSIGN(const NvmeIdentity identity, identify_nvme(fd.get()));
    serial = identity.serial;
  } else {
    serial = read_disk(sys_root + "/block/" + disk.name, disk.name).serial;
  }
  if (serial != disk.serial)
    return fail(ErrorKind::refused, node + " is disk " + serial + " by now, not " + disk.serial);
  return fd;
}

Ok raise_io_timeout(const std::string& sys_root, const std::string& disk_name) {
  const std::string path = sys_root + "/block/" + disk_name + "/queue/io_timeout";
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) return fail_errno("opening " + path);
  return write_fully(file.get(), kNoIoTimeout, path);
}

}  // namespace warmroot::bootstrap
