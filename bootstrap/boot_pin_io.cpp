#include "bootstrap/boot_pin_io.hpp"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>

#include "bootstrap/boot_pin.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/fstab_plan.hpp"
#include "bootstrap/mount_table.hpp"
#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {
namespace {

/// GRUB's own come to some 10 KiB, with a dozen kernels to 50.
constexpr std::size_t kMaxLoader = 1 << 20;
constexpr std::size_t kMaxMountinfo = 1 << 20;
constexpr std::size_t kMaxCommandLine = 64 * 1024;
constexpr std::size_t kMaxRecord = 64 * 1024;
constexpr char kFstab[] = "/etc/fstab";

class Base {
 public:
  explicit Base(const std::string& base)
      : base_(base), mounts_(parse_mount_table(read("/proc/self/mountinfo", kMaxMountinfo))) {
    for (const auto& name : list_directory(base + "/dev/disk/by-id"))
      links_.push_back({name, last_of(link_of("/dev/disk/by-id/" + name))});
  }

  std::string read(const std::string& path, std::size_t limit) const {
    return read_file(base_ + path, limit).value_or("");
  }

  /// Those that are there, as paths below the base.
  std::vector<std::string> loaders() const {
    std::vector<std::string> files = {"/boot/grub/grub.cfg", "/boot/grub2/grub.cfg"};
    for (const auto& name : list_directory(base_ + "/boot/loader/entries"))
      if (name.ends_with(".conf")) files.push_back("/boot/loader/entries/" + name);
    std::erase_if(files,
                  [&](const auto& file) { return ::access((base_ + file).c_str(), R_OK) != 0; });
    return files;
  }

  /// Of the device that is mounted there; empty where there is none that lasts.
  std::string lasting_name_of(const std::string& point) const {
    for (const auto& mount : mounts_)
      if (mount.point == point)
        if (auto name = lasting_name(last_of(link_of("/sys/dev/block/" + mount.device)), links_);
            !name.empty())
          return name;
    return {};
  }

  /// Through the symbolic link that some have instead, and with the mode that it had.
  Ok replace(const std::string& path, const std::string& text) const {
    const std::unique_ptr<char, decltype(&::free)> real(::realpath((base_ + path).c_str(), nullptr),
                                                        &::free);
    struct stat facts {};
    if (!real || ::stat(real.get(), &facts) != 0) return fail_errno("reading " + path);
    TRY(write_file_atomic(real.get(), text, facts.st_mode & 07777));
    return sync_directory_of(real.get());
  }

  BootNames recorded() const { return parse_boot_record(read(kBootRecord, kMaxRecord)); }

  Ok record(const BootNames& names) const {
    TRY(make_directory(base_ + kBaseState, 0700));
    const std::string path = base_ + kBootRecord;
    TRY(write_file_atomic(path, to_record(names), 0600));
    return sync_directory_of(path);
  }

  Ok forget() const {
    const std::string path = base_ + kBootRecord;
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno("removing " + path);
    return sync_directory_of(path);
  }

  /// GRUB reads ext4 without its journal: what is only there, it would not see after a reset. Where
  /// the kernel cannot (before 5.15), the kernel's own writing back does it within half a minute.
  void write_journal_back() const {
    constexpr unsigned long kExt4Checkpoint = _IOW('f', 43, std::uint32_t);
    std::uint32_t flags = 0;
    if (const UniqueFd boot(::open((base_ + "/boot").c_str(), O_RDONLY | O_CLOEXEC)); boot)
      std::ignore = ::ioctl(boot.get(), kExt4Checkpoint, &flags);
  }

 private:
  std::string link_of(const std::string& path) const {
    char target[PATH_MAX];
    const auto size = ::readlink((base_ + path).c_str(), target, sizeof target);
    return size < 0 ? std::string() : std::string(target, static_cast<std::size_t>(size));
  }
  static std::string last_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

  const std::string base_;
  const std::vector<MountRow> mounts_;
  std::vector<DiskLink> links_;
};

/// Names that lead to two disks now, and what is to stand for them.
void plan_for_loaders(const Base& base, std::span<const PartitionFacts> twins, BootNames& names,
                      BootPin& pin) {
  const std::string own = base.lasting_name_of("/");
  for (const auto& file : base.loaders()) {
    const std::string text = base.read(file, kMaxLoader);
    for (const auto& root : roots_in_loader(text)) {
      if (!names_one_of(root, twins)) continue;
      const bool found = !own.starts_with("/dev/disk/") || loader_has_initrd(text);
      if (own.empty() || !found) {
        pin.open = root;
        pin.why = own.empty() ? "its own disk has no name that lasts"
                              : "without an initramfs it knows no other names";
        continue;
      }
      set_renaming(names, file, {root, own});
      pin.pinned = root;
    }
  }
}

void plan_for_fstab(const Base& base, std::span<const PartitionFacts> twins, BootNames& names) {
  for (const auto& entry : parse_fstab(base.read(kFstab, kMaxFstab)))
    if (const auto own = base.lasting_name_of(entry.point);
        !own.empty() && names_one_of(entry.what, twins))
      set_renaming(names, kFstab, {entry.what, own});
}

Ok rename_everywhere(const Base& base, const BootNames& names) {
  for (const auto& [file, renamings] : names) {
    const bool is_fstab = file == kFstab;
    const std::string before = base.read(file, is_fstab ? kMaxFstab : kMaxLoader);
    std::string after = before;
    for (const auto& each : renamings)
      after = is_fstab ? renamed_in_fstab(after, each) : renamed_in_loader(after, each);
    if (after != before) TRY(base.replace(file, after));
  }
  base.write_journal_back();
  return {};
}

}  // namespace

Result<BootPin> pin_boot(const std::string& base_directory,
                         std::span<const PartitionFacts> partitions) {
  const Base base(base_directory);
  BootPin pin;
  BootNames names;
  plan_for_loaders(base, partitions, names, pin);
  plan_for_fstab(base, partitions, names);
  BootNames recorded = base.recorded();
  if (!names.empty()) {
    for (const auto& [file, renamings] : names)
      for (const auto& each : renamings) set_renaming(recorded, file, each);
    TRY(base.record(recorded));
    TRY(rename_everywhere(base, names));
  }
  const auto booted = boot_twin(base.read("/proc/cmdline", kMaxCommandLine), partitions);
  if (booted.empty() || !pin.open.empty() || !pin.pinned.empty()) return pin;
  const bool was_pinned = to_record(recorded).find("\t" + booted + "\t") != std::string::npos;
  (was_pinned ? pin.pinned : pin.open) = booted;
  if (!was_pinned) pin.why = "no file of GRUB's that is read here says so";
  return pin;
}

Ok unpin_boot(const std::string& base_directory) {
  const Base base(base_directory);
  BootNames names = base.recorded();
  if (names.empty()) return {};
  for (auto& [file, renamings] : names)
    for (auto& [from, to] : renamings) std::swap(from, to);
  TRY(rename_everywhere(base, names));
  return base.forget();
}

}  // namespace warmroot::bootstrap
