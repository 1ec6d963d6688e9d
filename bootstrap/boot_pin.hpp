// Keeps the base from coming up on the volume where both bear the same names, as two disks of one
// AMI do: as long as the volume is attached, names of content (UUID, LABEL) in GRUB's files and in
// fstab stand aside for names of the base's own disk. Never at the price of a base that does not
// boot: what would be found only with an initramfs is not named where there may be none. Pure;
// boot_pin_io looks and writes.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/partition.hpp"

namespace warmroot::bootstrap {

/// True for "UUID=..." (PARTUUID, LABEL, PARTLABEL, or the same below /dev/disk) where one of the
/// partitions bears that name. Source: fstab(5), and what initramfs-tools, dracut and, of the PART
/// ones, the kernel itself take as root=.
bool names_one_of(std::string_view name, std::span<const PartitionFacts> partitions);

/// The name by which a kernel command line has the root, where one of the partitions bears it too;
/// else empty.
std::string boot_twin(std::string_view command_line, std::span<const PartitionFacts> partitions);

/// What stands in /dev/disk/by-id.
struct DiskLink {
  std::string name;    ///< "nvme-Amazon_Elastic_Block_Store_vol0a1b-part1"
  std::string target;  ///< "nvme0n1p1"
};

/// A path that leads to this device ("nvme0n1p1") at the next boot too: by the serial number of its
/// disk, or on Xen by the name that EC2 has given the disk. Empty where it has none.
std::string lasting_name(const std::string& device, std::span<const DiskLink> links);

/// A file with names of the base's own disk in place of those that the volume bears too.
struct PinnedText {
  std::string text;
  std::string pinned;  ///< one name that was replaced; empty: none was
  std::string open;    ///< one that was not, and that the base may boot by
};

/// Of grub.cfg: roots of kernels that are started with an initramfs, or all where `own` needs none
/// to be found. An empty `own` replaces nothing.
PinnedText pin_grub(std::string_view text, std::span<const PartitionFacts> volume,
                    const std::string& own);
/// In place of a name where the entry leaves it to a variable of GRUB's, as RHEL 8's do.
inline constexpr char kOptionsElsewhere[] = "$kernelopts";
/// Of an entry of the Boot Loader Specification, likewise.
PinnedText pin_boot_entry(std::string_view text, std::span<const PartitionFacts> volume,
                          const std::string& own);
/// The own name of what is mounted at a point; empty: the line stays.
using OwnName = std::function<std::string(const std::string& point, const std::string& what)>;
PinnedText pin_fstab(std::string_view text, const OwnName& own_name);

/// True where the first of GRUB's files under UEFI, on the EFI system partition, looks for the next
/// one on any disk by a name that the volume bears.
bool strays(std::string_view efi_grub, std::span<const PartitionFacts> volume);

/// What was changed, until it is put back.
struct BootRecord {
  struct File {
    std::string before, after;
  };
  std::string disk, serial;  ///< of the volume: "nvme1n1", "vol0a1b" or empty
  std::string name;          ///< "UUID=...": one of those that both bear
  std::map<std::string, File> files;
};
std::string to_json(const BootRecord& record);
/// Absent where the text is none.
std::optional<BootRecord> parse_boot_record(std::string_view text);

/// How the base stands to the names that it shares with the volume.
struct BootPin {
  std::string pinned;  ///< "UUID=...": one that it does not go by as long as the volume is here
  std::string open;    ///< one that it may boot by, and so come up on the volume
  std::string why;     ///< it may
};

}  // namespace warmroot::bootstrap
