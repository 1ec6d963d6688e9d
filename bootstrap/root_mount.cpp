#include "bootstrap/root_mount.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bootstrap/base/log.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/filesystem_check.hpp"
#include "bootstrap/mount_exec.hpp"

namespace warmroot::bootstrap {
namespace {

/// include/uapi of btrfs: offsets in the superblock.
constexpr std::size_t kBtrfsUuidOffset = 0x20, kUuidBytes = 16, kBtrfsMagicOffset = 0x40;
constexpr std::string_view kBtrfsMagic = "_BHRfS_M";
/// A module and what it needs are read from the base's own disk, which may be cold as well.
constexpr std::chrono::milliseconds kModprobeLimit{std::chrono::seconds(60)};
/// The name that kernels before 5.9 know for rescue=nologreplay.
constexpr std::string_view kNoReplay = "rescue=nologreplay", kOldNoReplay = "nologreplay";

/// The kernel runs modprobe by itself, unless the base has switched that off.
Ok load_module(const std::string& filesystem) {
  const std::string modprobe = first_executable({"/sbin/modprobe", "/usr/sbin/modprobe"});
  if (modprobe.empty()) return fail(ErrorKind::misconfigured, "the base has no modprobe");
  TRY_ASSIGN(const auto done,
             run_program({modprobe, "-q", filesystem}, kModprobeLimit, [] { return false; }));
  log_event(LogLevel::notice, "modprobe",
            {{"module", filesystem}, {"status", std::to_string(done.exit_status)}});
  if (done.exit_status != 0)
    return fail(ErrorKind::gone, "modprobe ended with " + std::to_string(done.exit_status));
  return {};
}

Ok try_mount(const std::string& node, const std::string& point, const std::string& filesystem,
             std::string options) {
  Ok done = mount_device(node, point, filesystem, options);
  if (!done && done.error().code == "ENODEV" && load_module(filesystem))
    done = mount_device(node, point, filesystem, options);
  const std::size_t at = options.find(kNoReplay);
  if (!done && done.error().code == "EINVAL" && at != std::string::npos)
    done =
        mount_device(node, point, filesystem, options.replace(at, kNoReplay.size(), kOldNoReplay));
  return done;
}

}  // namespace

std::optional<std::string> btrfs_uuid(std::string_view superblock) {
  if (superblock.size() < kBtrfsMagicOffset + kBtrfsMagic.size() ||
      superblock.substr(kBtrfsMagicOffset, kBtrfsMagic.size()) != kBtrfsMagic)
    return std::nullopt;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < kUuidBytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(superblock[kBtrfsUuidOffset + i]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::set<std::string> btrfs_members(const std::string& sys_root) {
  std::set<std::string> members;
  const std::string mounted = sys_root + "/fs/btrfs";
  for (const auto& uuid : list_directory(mounted))
    for (const auto& name : list_directory(mounted + "/" + uuid + "/devices")) members.insert(name);
  return members;
}

Ok check_no_btrfs_twin(const std::string& sys_root, const std::string& uuid) {
  const std::string mounted = sys_root + "/fs/btrfs";
  // Since 6.7 a copy gets a UUID of its own for as long as it is mounted.
  if (::access((mounted + "/features/temp_fsid").c_str(), F_OK) == 0) return {};
  std::string names;
  for (const auto& name : list_directory(mounted + "/" + uuid + "/devices"))
    names += (names.empty() ? "" : ", ") + name;
  if (names.empty()) return {};
  return fail(ErrorKind::refused,
              "it is a btrfs of the same UUID as one that is mounted already (" + names +
                  "), and this kernel, older than 6.7, cannot tell them apart: use a base AMI with "
                  "another root, or a newer kernel");
}

Error explain_mount_failure(const std::string& filesystem, Error error) {
  if (error.code == "ENODEV") {
    error.kind = ErrorKind::refused;
    error.context += "; the base's kernel has no " + filesystem +
                     ": use a base AMI that has it, or install the kernel's modules there";
  } else if (error.code == "EINVAL") {
    error.kind = ErrorKind::refused;
    error.context +=
        "; the base's kernel may be older than the volume's file system: dmesg on the "
        "base says what it misses";
  } else if (error.code == "EEXIST" && filesystem == "btrfs") {
    error.kind = ErrorKind::refused;
    error.context +=
        "; a btrfs of the same UUID is mounted already: use a base AMI with another "
        "root, or a kernel from 6.7 on";
  } else if (error.code == kDamaged || error.code == "EBADMSG") {
    error.kind = ErrorKind::refused;
    error.code = kDamaged;  // a checksum that is wrong, where ext4 and xfs say so
    error.context +=
        "; its log or metadata is damaged: repair it on an instance that does not "
        "mount it (" +
        std::string(filesystem == "xfs"     ? "xfs_repair"
                    : filesystem == "btrfs" ? "btrfs check"
                                            : "e2fsck") +
        ")";
  }
  return error;
}

std::string subvolume_hint(const RootDirectory& top) {
  // As openSUSE and Ubuntu, Debian's installer, and Fedora name it.
  for (const std::string name : {"@", "@rootfs", "root"})
    for (const char* release : {"/etc/os-release", "/usr/lib/os-release"})
      if (top.open_inside(name + release, O_PATH))
        return "; its subvolume " + name +
               " does: make that the default one (btrfs subvolume set-default) before the snapshot "
               "is taken";
  return {};
}

Ok mount_root_filesystem(const std::string& node, int disk_fd, std::uint64_t offset_bytes,
                         const std::string& point, const std::string& filesystem,
                         const std::string& options) {
  if (filesystem == "btrfs") {
    char superblock[kBtrfsSuperblockBytes];
    const ssize_t got = ::pread(disk_fd, superblock, sizeof superblock,
                                static_cast<off_t>(offset_bytes + kBtrfsSuperblockOffset));
    const auto uuid = btrfs_uuid({superblock, static_cast<std::size_t>(got > 0 ? got : 0)});
    if (uuid)
      if (Ok alone = check_no_btrfs_twin("/sys", *uuid); !alone)
        return fail(std::move(alone).error().within(node));
  }
  Ok done = try_mount(node, point, filesystem, options);
  if (!done) return fail(explain_mount_failure(filesystem, std::move(done).error()));
  return {};
}

}  // namespace warmroot::bootstrap
