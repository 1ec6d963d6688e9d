// Which device name the next AttachVolume to an instance uses. On Nitro the name is only a label,
// but EC2 still refuses one that is taken, and one used before can leave the attach hanging until a
// reboot.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace warmroot::core {

/// The first name that is not in `used`: /dev/sdf to /dev/sdp, which AWS recommends, then
/// /dev/xvdba to /dev/xvdbz and /dev/xvdaa to /dev/xvdaz. /dev/sdX and /dev/xvdX count as one name:
/// on Xen they are one device and the second attach hangs. `used` may hold names with or without
/// /dev/. nullopt: all used up. Source: EC2 user guide "device naming"; names found usable by trial
/// are those of the EBS CSI driver.
std::optional<std::string> next_device_name(const std::set<std::string>& used);

/// "/dev/sdf", "sdf" and "/dev/xvdf" give "f": what two names of one device have in common.
std::string_view device_suffix(std::string_view name);

}  // namespace warmroot::core
