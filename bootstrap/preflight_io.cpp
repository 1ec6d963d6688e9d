#include "bootstrap/preflight_io.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "bootstrap/files.hpp"
#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {

namespace {

constexpr std::size_t kMaxMeminfo = 64 * 1024;
constexpr std::size_t kMaxProfiles = 1024 * 1024;
/// A library directory of a large system holds some thousand files; the volume is not trusted.
constexpr int kMostEntries = 50'000;
constexpr std::size_t kMostVersions = 4;

/// "MemTotal:       16302344 kB", in MiB; 0 where there is no such line.
std::uint64_t meminfo_mib(const std::string& text, const std::string& name) {
  const auto line = text.find(name + ":");
  if (line == std::string::npos || (line != 0 && text[line - 1] != '\n')) return 0;
  const auto digits = text.find_first_of("0123456789\n", line);
  if (digits == std::string::npos) return 0;
  std::uint64_t kib = 0;
  std::from_chars(text.data() + digits, text.data() + text.size(), kib);
  return kib / 1024;
}

void look_at_pci(const std::string& sys_root, PreflightFacts& facts) {
  constexpr std::string_view kNvme = "0x0108", kNetwork = "0x0200", kDisplay = "0x03";
  const std::string devices = sys_root + "/bus/pci/devices";
  for (const auto& name : list_directory(devices)) {
    const std::string device = devices + "/" + name;
    const std::string kind = read_attribute(device + "/class");
    if (kind.starts_with(kNvme) || kind.starts_with(kNetwork)) ++facts.slots_taken;
    if (kind.starts_with(kDisplay) && read_attribute(device + "/vendor") == "0x10de")
      facts.has_nvidia_gpu = true;
  }
}

unsigned volumes_taken(const std::string& sys_root) {
  constexpr std::string_view kEbs = "Amazon Elastic Block Store";
  const std::string controllers = sys_root + "/class/nvme/";
  unsigned count = 0;
  for (const auto& name : list_directory(controllers))
    count += read_attribute(controllers + name + "/model").starts_with(kEbs) ? 1 : 0;
  return count;
}

/// Lines like "/usr/bin/man (enforce)".
std::optional<unsigned> enforced_profiles(const std::string& sys_root) {
  if (read_attribute(sys_root + "/module/apparmor/parameters/enabled") != "Y") return std::nullopt;
  const std::string text =
      read_file(sys_root + "/kernel/security/apparmor/profiles", kMaxProfiles).value_or("");
  constexpr std::string_view kEnforced = " (enforce)\n";
  unsigned count = 0;
  for (std::size_t at = 0; (at = text.find(kEnforced, at)) != std::string::npos; ++at) ++count;
  return count;
}

/// Where distributions have their C library.
std::optional<warm::KernelVersion> libc_least_kernel(const RootDirectory& root) {
  for (const char* path : {"lib/x86_64-linux-gnu/libc.so.6", "lib/aarch64-linux-gnu/libc.so.6",
                           "lib64/libc.so.6", "usr/lib/libc.so.6"}) {
    const auto file = root.open_file(path);
    if (!file) continue;
    const int fd = file->get();
    return warm::elf_least_kernel([fd](warm::ByteRange range) {
      std::string bytes(range.length, '\0');
      const auto at = static_cast<off_t>(range.offset);
      const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), at);
      bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
      return bytes;
    });
  }
  return std::nullopt;
}

void add_cuda_drivers(const RootDirectory& root, const std::string& directory,
                      std::vector<std::string>& versions) {
  auto fd = root.open_inside(directory, O_RDONLY | O_DIRECTORY);
  if (!fd) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(fd->get()), ::closedir);
  if (!entries) return;
  fd->release();
  for (int left = kMostEntries; left > 0; --left) {
    const dirent* entry = ::readdir(entries.get());
    if (!entry || versions.size() >= kMostVersions) return;
    const auto version = cuda_driver_version(entry->d_name);
    if (!version.empty() && std::find(versions.begin(), versions.end(), version) == versions.end())
      versions.push_back(version);
  }
}

}  // namespace

PreflightFacts preflight_facts(const std::string& sys_root, const std::string& proc_root,
                               const RootDirectory& root) {
  PreflightFacts facts;
  utsname kernel{};
  if (::uname(&kernel) == 0) facts.kernel_release = kernel.release;
  facts.volume_has_modules = root.is_directory("lib/modules/" + facts.kernel_release);
  facts.libc_least_kernel = libc_least_kernel(root);
  if (const auto enforcing = read_attribute(sys_root + "/fs/selinux/enforce"); !enforcing.empty())
    facts.selinux_enforcing = enforcing == "1";
  facts.apparmor_profiles = enforced_profiles(sys_root);
  facts.volume_has_apparmor = root.is_directory("etc/apparmor.d");
  look_at_pci(sys_root, facts);
  facts.volumes_taken = volumes_taken(sys_root);
  facts.nvidia_driver = read_attribute(sys_root + "/module/nvidia/version");
  if (!facts.nvidia_driver.empty())
    for (const char* directory : {"usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu",
                                  "usr/lib64", "usr/lib/x86_64-linux-gnu/nvidia/current"})
      add_cuda_drivers(root, directory, facts.cuda_drivers);
  const auto meminfo = read_file(proc_root + "/meminfo", kMaxMeminfo).value_or("");
  facts.memory_mib = meminfo_mib(meminfo, "MemTotal");
  facts.memory_free_mib = meminfo_mib(meminfo, "MemAvailable");
  return facts;
}

Ok show_message_of_the_day(const std::vector<Remark>& remarks) {
  const auto text = message_of_the_day(remarks);
  if (text.empty()) {
    if (::unlink(kMessageOfTheDay) == 0 || errno == ENOENT) return {};
    return fail_errno("removing the message of the day");
  }
  const std::string file = kMessageOfTheDay;
  TRY(make_directory(file.substr(0, file.rfind('/')), 0755));
  return write_file_atomic(file, text, 0644);
}

Ok show_message_in_volume(const RootDirectory& root, const std::vector<Remark>& remarks) {
  const auto text = message_of_the_day(remarks);
  if (text.empty()) return {};
  TRY(root.make_directories("run/motd.d", 0755));
  return root.write("run/motd.d/warmroot", text, 0644);
}

}  // namespace warmroot::bootstrap
