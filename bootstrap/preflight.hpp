// What will differ for people because kernel, drivers and security modules are the base's while
// programs and libraries are the volume's. Pure; preflight_io looks. bring_up asks once sessions
// are open: no login waits for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/boot_pin.hpp"
#include "bootstrap/warm/elf_needs.hpp"

namespace warmroot::bootstrap {

struct PreflightFacts {
  std::string kernel_release;                 ///< uname -r
  bool volume_has_modules = false;            ///< lib/modules/<release> in the volume
  std::optional<bool> selinux_enforcing;      ///< absent: the base has no SELinux
  std::optional<unsigned> apparmor_profiles;  ///< enforced; absent: the base has no AppArmor
  bool volume_has_apparmor = false;           ///< profiles of its own, in etc/apparmor.d
  bool own_mount_namespace = false;  ///< the session's root is a mount namespace's, not a chroot
  /// The oldest that the volume's C library is made for; absent: it does not say.
  std::optional<warm::KernelVersion> libc_least_kernel;
  bool has_nvidia_gpu = false;
  std::string instance_type;              ///< "m7i.large"; empty: not known
  unsigned volumes_taken = 0;             ///< by NVMe disks that are EBS volumes, the base's, too
  unsigned slots_taken = 0;               ///< by disks and network interfaces that EC2 attaches
  std::string nvidia_driver;              ///< version of the loaded module; empty: none is loaded
  std::vector<std::string> cuda_drivers;  ///< versions of libcuda in the volume
  std::uint64_t memory_mib = 0;           ///< MemTotal; 0: not known
  std::uint64_t memory_free_mib = 0;      ///< MemAvailable
  BootPin boot;                           ///< where base and volume bear the same names
};

struct Remark {
  std::string text;  ///< one sentence
  bool for_people;   ///< shown at login; the others are for the operator
};

/// What is worth knowing, the most important first; empty on a machine without surprises.
std::vector<Remark> preflight(const PreflightFacts& facts);

/// What a type of instances can have attached.
struct SlotLimit {
  unsigned most = 0;
  bool of_volumes_alone = false;  ///< else of volumes, instance store and network interfaces
};
/// nullopt where nothing is documented for the type. Source: EC2 user guide, "Amazon EBS volume
/// limits for Amazon EC2 instances".
std::optional<SlotLimit> slot_limit(std::string_view instance_type);

/// The text of the message of the day; empty when there is nothing to say to people.
std::string message_of_the_day(const std::vector<Remark>& remarks);

/// {6, 1, 0} of "6.1.0-18-cloud-amd64", a number that is not there being 0; nullopt where it begins
/// with none.
std::optional<warm::KernelVersion> kernel_version(std::string_view release);

/// "535.183.01" of "libcuda.so.535.183.01"; empty where the name is another's or only
/// "libcuda.so.1".
std::string cuda_driver_version(const std::string& file_name);

}  // namespace warmroot::bootstrap
