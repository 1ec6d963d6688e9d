// Looks at the base's boot loader, fstab and mounts, and writes what boot_pin makes of them. The
// names come back when the volume is given back: an image of the base is to boot on another disk.
#pragma once

#include <span>
#include <string>

#include "bootstrap/base/result.hpp"
#include "bootstrap/boot_pin.hpp"

namespace warmroot::bootstrap {

/// `base` is what stands before /boot, /etc, /dev, /proc, /sys and /var: empty for the base itself.
/// GRUB is understood, also by the Boot Loader Specification; with others a name stays open. May be
/// done again. Errors: errno's; what was written up to then is recorded and will be undone.
Result<BootPin> pin_boot(const std::string& base, std::span<const PartitionFacts> partitions);

/// The names as they were; fine where nothing was pinned. Errors: errno's; it may be tried again.
Ok unpin_boot(const std::string& base);

}  // namespace warmroot::bootstrap
