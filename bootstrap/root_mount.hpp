// Mounts a volume's root file system, whatever its type: loads the kernel's module where the base
// has not, keeps btrfs from taking the volume for another of the same UUID, and says in words what
// the kernel says in errno. Called by volume_root.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "bootstrap/base/result.hpp"
#include "bootstrap/in_root.hpp"

namespace warmroot::bootstrap {

/// Where btrfs keeps its first superblock, and how much of it is looked at.
inline constexpr std::uint64_t kBtrfsSuperblockOffset = 65536;
inline constexpr std::size_t kBtrfsSuperblockBytes = 4096;

/// The file system's UUID as sysfs writes it; nullopt when it is no btrfs superblock.
std::optional<std::string> btrfs_uuid(std::string_view superblock);

/// Names of the disks and partitions that mounted btrfs file systems consist of. mountinfo does not
/// tell: a btrfs has a device number of its own there.
std::set<std::string> btrfs_members(const std::string& sys_root);

/// Errors: refused when a btrfs of this UUID is mounted already and the kernel (before 6.7) would
/// take the volume for another path to that one.
Ok check_no_btrfs_twin(const std::string& sys_root, const std::string& uuid);

/// What a failed mount means for people: the error's text with the cause and a remedy, where they
/// are known. One that another partition may not share is refused.
Error explain_mount_failure(const std::string& filesystem, Error error);

/// The sentence to add when a btrfs without a root at its top has one in a subvolume; else empty.
std::string subvolume_hint(const RootDirectory& top);

/// Mounts the volume's root at `point`. `disk_fd` is the whole disk, `offset_bytes` where the
/// partition begins. Errors: refused with a sentence, or what the kernel said.
Ok mount_root_filesystem(const std::string& node, int disk_fd, std::uint64_t offset_bytes,
                         const std::string& point, const std::string& filesystem,
                         const std::string& options);

}  // namespace warmroot::bootstrap
