#include "bootstrap/preflight.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "bootstrap/base/words.hpp"

namespace warmroot::bootstrap {

namespace {

/// A login shell, an editor and a compiler want about as much.
constexpr std::uint64_t kLittleMemoryMib = 256;

/// Shared by EBS volumes, instance store and network interfaces on most Nitro types before the
/// seventh generation, and on those of the same age without a hypervisor.
constexpr unsigned kUsualSlots = 28, kBareMetalSlots = 31;
/// From the seventh generation on a type has a limit of its own, of volumes alone.
constexpr unsigned kFirstOfVolumesAlone = 7;

/// Of the families of the seventh generation that are documented by size here (m7i, c7i).
struct SizeLimit {
  std::string_view size;
  unsigned most;
};
constexpr SizeLimit kSizeLimits[] = {{"large", 32},      {"xlarge", 32},    {"2xlarge", 32},
                                     {"4xlarge", 32},    {"8xlarge", 32},   {"12xlarge", 32},
                                     {"16xlarge", 48},   {"24xlarge", 64},  {"48xlarge", 128},
                                     {"metal-24xl", 39}, {"metal-48xl", 79}};

/// A profile is found by its program's path below the root of the mount namespace. Source:
/// apparmor.d(5), "namespace_relative", the default. Not tried on a base with AppArmor.
void judge_apparmor(const PreflightFacts& facts, std::vector<Remark>& remarks) {
  if (!facts.apparmor_profiles) return;
  const std::string theirs = "AppArmor has the base's profiles, of which it enforces " +
                             std::to_string(*facts.apparmor_profiles);
  if (facts.own_mount_namespace && *facts.apparmor_profiles > 0)
    remarks.push_back({theirs + ": they bind programs of the same path here, too", false});
  else if (!facts.own_mount_namespace && facts.volume_has_apparmor)
    remarks.push_back({theirs + ", by path on the base: the volume's own profiles are not loaded, "
                                "and its programs run unconfined",
                       false});
}

void judge_slots(const PreflightFacts& facts, std::vector<Remark>& remarks) {
  const bool is_known = !facts.instance_type.empty();
  const auto limit = is_known ? slot_limit(facts.instance_type) : SlotLimit{kUsualSlots, false};
  if (!limit) return;
  const unsigned taken = limit->of_volumes_alone ? facts.volumes_taken : facts.slots_taken;
  if (taken < limit->most) return;
  const std::string what = limit->of_volumes_alone ? "EBS volumes" : "disks and network interfaces";
  const std::string whose =
      is_known ? "that " + facts.instance_type + " takes" : "that most instance types take";
  remarks.push_back({std::to_string(taken) + " " + what + " are attached, of the " +
                         std::to_string(limit->most) + " " + whose +
                         ": EC2 may refuse another volume",
                     false});
}

void judge_gpu(const PreflightFacts& facts, std::vector<Remark>& remarks) {
  if (facts.has_nvidia_gpu && facts.nvidia_driver.empty()) {
    remarks.push_back(
        {"this machine has an NVIDIA GPU, but its base system has loaded no driver: "
         "programs find no GPU until the base AMI has one",
         true});
    return;
  }
  const auto& versions = facts.cuda_drivers;
  if (facts.nvidia_driver.empty() || versions.empty() ||
      std::find(versions.begin(), versions.end(), facts.nvidia_driver) != versions.end())
    return;
  remarks.push_back({"the NVIDIA driver is the base's, " + facts.nvidia_driver +
                         ", and this system's libcuda is of " + joined(versions, " and ") +
                         ": CUDA refuses to start until both are of one version",
                     true});
}

/// A C library that looks by itself ends each program at its start ("kernel too old"), which the
/// login that is tried says, and nobody gets here. Others leave it to chance.
void judge_libc(const PreflightFacts& facts, std::vector<Remark>& remarks) {
  const auto kernel = kernel_version(facts.kernel_release);
  if (!kernel || !facts.libc_least_kernel || *kernel >= *facts.libc_least_kernel) return;
  const auto& [first, second, third] = *facts.libc_least_kernel;
  remarks.push_back({"this system's C library is made for Linux " + std::to_string(first) + "." +
                         std::to_string(second) + "." + std::to_string(third) +
                         " and newer, and the kernel is the base's, " + facts.kernel_release +
                         ": programs may fail until the base AMI has a newer one",
                     true});
}

}  // namespace

std::vector<Remark> preflight(const PreflightFacts& facts) {
  std::vector<Remark> remarks;
  if (!facts.boot.open.empty())
    remarks.push_back(
        {"this machine boots from " + facts.boot.open +
             ", the volume's disk bears the same name, and " + facts.boot.why +
             ": after a reset it may come up on the volume itself, with nobody to give that back. "
             "End the instance rather than reset it, or give the nodes a base AMI that is not the "
             "pool's source",
         true});
  if (!facts.boot.pinned.empty())
    remarks.push_back({"this machine and the volume's disk bear the same name, " +
                           facts.boot.pinned +
                           ": as long as that is attached, boot loader and fstab name this "
                           "machine's own disk instead, and an image made of it would not boot",
                       false});
  judge_libc(facts, remarks);
  judge_gpu(facts, remarks);
  if (facts.memory_mib > 0 && facts.memory_free_mib < kLittleMemoryMib)
    remarks.push_back({std::to_string(facts.memory_free_mib) + " MiB of " +
                           std::to_string(facts.memory_mib) + " MiB of memory are free",
                       true});
  if (facts.selinux_enforcing.value_or(false))
    remarks.push_back(
        {"SELinux is enforcing on the base, by the base's policy: what it refuses here "
         "stands in the base's audit log",
         true});
  judge_apparmor(facts, remarks);
  judge_slots(facts, remarks);
  if (!facts.kernel_release.empty() && !facts.volume_has_modules)
    remarks.push_back({"the kernel is the base's, " + facts.kernel_release +
                           ", for which the volume has no modules: load them on the base",
                       false});
  return remarks;
}

std::optional<SlotLimit> slot_limit(std::string_view instance_type) {
  const std::size_t dot = instance_type.find('.');
  if (dot == instance_type.npos) return std::nullopt;
  const std::string_view family = instance_type.substr(0, dot);
  const std::string_view size = instance_type.substr(dot + 1);
  // "c6gn": letters, a generation, letters; not "u-6tb1" or "u7i-12tb", which count otherwise.
  const std::size_t number = family.find_first_of("0123456789");
  if (number == 0 || number == family.npos || family.find('-') != family.npos ||
      family.starts_with("mac"))
    return std::nullopt;
  unsigned generation = 0;
  const auto read =
      std::from_chars(family.data() + number, family.data() + family.size(), generation);
  if (read.ec != std::errc()) return std::nullopt;
  if (generation < kFirstOfVolumesAlone)
    return SlotLimit{size.starts_with("metal") ? kBareMetalSlots : kUsualSlots, false};
  if (family != "m7i" && family != "c7i") return std::nullopt;
  for (const SizeLimit& each : kSizeLimits)
    if (each.size == size) return SlotLimit{each.most, true};
  return std::nullopt;
}

std::string message_of_the_day(const std::vector<Remark>& remarks) {
  std::string text;
  for (const auto& remark : remarks)
    if (remark.for_people) text += "warmroot: " + remark.text + "\n";
  return text;
}

std::optional<warm::KernelVersion> kernel_version(std::string_view release) {
  warm::KernelVersion version{};
  for (std::size_t part = 0; part < version.size(); ++part) {
    const auto read =
        std::from_chars(release.data(), release.data() + release.size(), version[part]);
    if (read.ec != std::errc() && part == 0) return std::nullopt;
    if (read.ec != std::errc()) break;
    release.remove_prefix(static_cast<std::size_t>(read.ptr - release.data()));
    if (!release.starts_with('.')) break;
    release.remove_prefix(1);
  }
  return version;
}

std::string cuda_driver_version(const std::string& file_name) {
  constexpr std::string_view kPrefix = "libcuda.so.";
  if (!file_name.starts_with(kPrefix)) return {};
  const std::string version = file_name.substr(kPrefix.size());
  const bool digits = std::all_of(version.begin(), version.end(),
                                  [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
  return digits && version.find('.') != std::string::npos ? version : std::string{};
}

}  // namespace warmroot::bootstrap
