// Keeps the base from coming up on the volume where both bear the same names, as two disks of one
// AMI do: in what its boot loader and its fstab say, names of content (UUID, LABEL) become names of
// the base's own disk, which no other can bear, until the volume is given back. Pure; boot_pin_io
// looks and writes.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/partition.hpp"

namespace warmroot::bootstrap {

/// True for "UUID=..." (PARTUUID, LABEL, PARTLABEL, or the same below /dev/disk) where one of the
/// partitions bears that name. Source: the kernel's name_to_dev_t, and what initramfs-tools, dracut
/// and fstab(5) take besides.
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
/// disk, or Xen's names, which EC2 gives. Empty where it has none.
std::string lasting_name(const std::string& device, std::span<const DiskLink> links);

/// One name taken for another.
struct Renaming {
  std::string from;  ///< "UUID=0e1f-aa"
  std::string to;    ///< "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0a1b-part1"
};

/// The names of roots in GRUB's grub.cfg or a file of the Boot Loader Specification, each once.
std::vector<std::string> roots_in_loader(std::string_view text);
/// Only an initramfs finds what stands in /dev/disk/by-id.
bool loader_has_initrd(std::string_view text);
std::string renamed_in_loader(std::string_view text, const Renaming& renaming);
/// In the first field of the lines that are no comments; the rest stays as it is.
std::string renamed_in_fstab(std::string_view text, const Renaming& renaming);

/// How the base stands to the names that it shares with the volume.
struct BootPin {
  std::string pinned;  ///< "UUID=...": what it booted by, or would have, and does not any more
  std::string open;    ///< the same where it still does: it may come up on the volume
  std::string why;     ///< it does
};

/// What was taken for what, by file, until it is put back.
using BootNames = std::map<std::string, std::vector<Renaming>>;
std::string to_record(const BootNames& names);
/// Lines that are none are left out.
BootNames parse_boot_record(std::string_view text);
/// The later word on a name counts.
void set_renaming(BootNames& names, const std::string& file, const Renaming& renaming);

}  // namespace warmroot::bootstrap
