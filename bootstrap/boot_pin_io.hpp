// Looks at the base's boot loader, fstab and mounts, and writes what boot_pin makes of them. The
// names come back once the volume is away: an image of the base is to boot on another disk.
#pragma once

#include <span>
#include <string>

#include "bootstrap/base/result.hpp"
#include "bootstrap/boot_pin.hpp"
#include "bootstrap/partition.hpp"

namespace warmroot::bootstrap {

/// `base` is what stands before /boot, /etc, /dev, /proc, /sys and /var: empty for the base itself.
/// `disk` is the volume's, "nvme1n1". GRUB is understood, also by the Boot Loader Specification;
/// with others a name stays open. What is pinned already stays so. Never fails as a whole: what
/// could not be written leaves its name open.
BootPin pin_boot(const std::string& base, const std::string& disk,
                 std::span<const PartitionFacts> partitions);

/// The files as they were, where the volume they were pinned for is not attached any more; those
/// that others have written since stay as they are. Errors: errno's; it may be tried again.
Ok unpin_boot(const std::string& base);
/// There is something for unpin_boot to put back.
bool is_boot_pinned_for_nothing(const std::string& base);

}  // namespace warmroot::bootstrap
