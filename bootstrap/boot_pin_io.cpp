#include "bootstrap/boot_pin_io.hpp"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>

#include "bootstrap/boot_pin.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/mount_table.hpp"
#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {
namespace {

/// grub.cfg comes to some 10 KiB, with a dozen kernels to 50.
constexpr std::size_t kMaxFile = 1 << 20;
constexpr std::size_t kMaxBootRecord = 16 << 20;
constexpr char kFstab[] = "/etc/fstab";
constexpr char kEntries[] = "/boot/loader/entries";
constexpr char kEfi[] = "/boot/efi";

class Base {
 public:
  explicit Base(const std::string& base) : base_(base) {
    mounts_ =
        parse_mount_table(read_file(base_ + "/proc/self/mountinfo", kMaxMountinfo).value_or(""));
    for (const auto& name : list_directory(base_ + "/dev/disk/by-id"))
      if (auto target = last_of(link_of("/dev/disk/by-id/" + name)); !target.empty())
        links_.push_back({name, std::move(target)});
  }

  /// Empty where there is no such file.
  Result<std::string> read(const std::string& path, std::size_t limit = kMaxFile) const {
    if (::access((base_ + path).c_str(), F_OK) != 0) return std::string();
    return read_file(base_ + path, limit);
  }

  /// What may be pinned.
  std::vector<std::string> files() const {
    std::vector<std::string> files = {"/boot/grub/grub.cfg", "/boot/grub2/grub.cfg", kFstab};
    for (const auto& name : list_directory(base_ + kEntries))
      if (name.ends_with(".conf")) files.push_back(std::string(kEntries) + "/" + name);
    return files;
  }

  /// "259:1" of what is seen there; empty where nothing is mounted.
  std::string mounted_at(const std::string& point) const {
    std::string device;
    for (const auto& mount : mounts_)
      if (mount.point == point) device = mount.device;
    return device;
  }

  std::string lasting_name_of(const std::string& device) const {
    return lasting_name(last_of(link_of("/sys/dev/block/" + device)), links_);
  }

  /// Of a device that is a whole disk 0, as in PartitionFacts.
  int partition_of(const std::string& device) const {
    return std::atoi(read_attribute(base_ + "/sys/dev/block/" + device + "/partition").c_str());
  }

  /// GRUB's first file is on the EFI system partition: read where that is there, else feared.
  bool strays_by_efi(std::span<const PartitionFacts> volume) const {
    if (::access((base_ + "/sys/firmware/efi").c_str(), F_OK) != 0) return false;
    const std::string device = mounted_at(kEfi);
    if (device.empty() || device.starts_with("0:")) return true;  // automount would mount either
    const std::string vendors = std::string(kEfi) + "/EFI";
    const auto names = list_directory(base_ + vendors);
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return strays(read(vendors + "/" + name + "/grub.cfg").value_or(""), volume);
    });
  }

  bool has_directory_of(const std::string& path) const {
    return ::access((base_ + path.substr(0, path.rfind('/'))).c_str(), F_OK) == 0;
  }

  /// By its serial number, or else by its name, which Xen keeps as long as it is attached.
  bool has_disk(const BootRecord& record) const {
    if (record.serial.empty())
      return ::access((base_ + "/sys/block/" + record.disk).c_str(), F_OK) == 0;
    const auto disks = list_directory(base_ + "/sys/block");
    return std::any_of(disks.begin(), disks.end(),
                       [&](const auto& disk) { return serial_of(disk) == record.serial; });
  }

  std::string serial_of(const std::string& disk) const {
    return read_attribute(base_ + "/sys/block/" + disk + "/device/serial");
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

  Result<BootRecord> recorded() const {
    TRY_ASSIGN(const std::string text, read(kBootRecord, kMaxBootRecord));
    if (text.empty()) return BootRecord();
    auto record = parse_boot_record(text);
    if (!record) return fail(ErrorKind::broken, std::string(kBootRecord) + " is no record");
    return *std::move(record);
  }

  /// One without files is no record any more.
  Ok record(const BootRecord& record) const {
    const std::string path = base_ + kBootRecord;
    if (record.files.empty()) {
      if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno("removing " + path);
      return sync_directory_of(path);
    }
    TRY(make_directory(base_ + kBaseState, 0700));
    TRY(write_file_atomic(path, to_json(record), 0600));
    return sync_directory_of(path);
  }

  /// GRUB reads ext4 without its journal: what is only there, it would not see after a reset. Where
  /// the kernel cannot (before 5.14, or another file system), its own writing back does it within
  /// half a minute.
  void write_journal_back() const {
    constexpr unsigned long kExt4Checkpoint = _IOW('f', 43, std::uint32_t);
    std::uint32_t flags = 0;
    if (!base_.empty()) return;
    if (const UniqueFd boot(::open("/boot", O_RDONLY | O_CLOEXEC)); boot)
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
  std::vector<MountRow> mounts_;
  std::vector<DiskLink> links_;
};

class Pinning {
 public:
  Pinning(const Base& base, std::span<const PartitionFacts> volume)
      : base_(base),
        volume_(volume),
        root_(base.mounted_at("/")),
        own_(base.lasting_name_of(root_)) {}

  PinnedText pinned(const std::string& file, const std::string& text) const {
    if (file == kFstab)
      return pin_fstab(text, [this](const std::string& point, const std::string& what) {
        const std::string device = base_.mounted_at(point);
        const bool twin = !device.empty() && names_one_of(what, same_number(device));
        return twin ? base_.lasting_name_of(device) : std::string();
      });
    return (file.starts_with(kEntries) ? pin_boot_entry : pin_grub)(text, same_number(root_), own_);
  }

  std::string why_open(const std::string& name) const {
    if (own_.empty()) return "its own disk has no name that lasts";
    if (name == kOptionsElsewhere) return "its boot loader has the root in grubenv";
    return "a kernel is started without an initramfs, which knows no other names";
  }

 private:
  /// Two disks of one AMI bear the same name on partitions of the same number.
  std::vector<PartitionFacts> same_number(const std::string& device) const {
    std::vector<PartitionFacts> same;
    const int number = base_.partition_of(device);
    for (const auto& each : volume_)
      if (each.number == number) same.push_back(each);
    return same;
  }

  const Base& base_;
  const std::span<const PartitionFacts> volume_;
  const std::string root_, own_;
};

/// What stays as it is for this error is open.
void leave_open(BootPin& pin, const std::string& name, const std::string& why) {
  if (name.empty() || !pin.open.empty()) return;
  pin.open = name;
  pin.why = why;
}

/// Each file that names what both bear is recorded as it is, and as it will be.
std::vector<std::string> plan_files(const Base& base, const Pinning& pinning,
                                    const std::string& booted, BootRecord& record, BootPin& pin) {
  std::vector<std::string> changed;
  for (const auto& file : base.files()) {
    const auto text = base.read(file);
    if (!text) {
      leave_open(pin, booted, text.error().message());
      continue;
    }
    auto [after, pinned, open] = pinning.pinned(file, *text);
    leave_open(pin, open == kOptionsElsewhere ? booted : open, pinning.why_open(open));
    if (pinned.empty()) continue;
    record.name = pinned;
    record.files[file] = {*text, std::move(after)};
    changed.push_back(file);
  }
  return changed;
}

}  // namespace

BootPin pin_boot(const std::string& base_directory, const std::string& disk,
                 std::span<const PartitionFacts> partitions) {
  const Base base(base_directory);
  const Pinning pinning(base, partitions);
  BootPin pin;
  const std::string booted = boot_twin(base.read("/proc/cmdline").value_or(""), partitions);
  auto record = base.recorded();
  if (!record) {
    leave_open(pin, booted, record.error().message());
    return pin;
  }
  record->disk = disk;
  record->serial = base.serial_of(disk);
  const auto changed = plan_files(base, pinning, booted, *record, pin);
  Ok written;
  if (!changed.empty()) written = base.record(*record);
  for (const auto& file : changed)
    if (written) written = base.replace(file, record->files[file].after);
  if (!changed.empty()) base.write_journal_back();
  if (!written) leave_open(pin, record->name, written.error().message());
  if (written && !record->files.empty()) pin.pinned = record->name;
  if (pin.pinned.empty()) leave_open(pin, booted, "no file of GRUB's that is read here says so");
  if (!pin.pinned.empty() && base.strays_by_efi(partitions))
    leave_open(pin, pin.pinned, "by UEFI, GRUB looks for its own files by such a name");
  return pin;
}

bool is_boot_pinned_for_nothing(const std::string& base_directory) {
  const Base base(base_directory);
  const auto record = base.recorded();
  return record && !record->files.empty() && !base.has_disk(*record);
}

Ok unpin_boot(const std::string& base_directory) {
  const Base base(base_directory);
  TRY_ASSIGN(BootRecord record, base.recorded());
  if (record.files.empty() || base.has_disk(record)) return {};
  Ok done;
  for (auto file = record.files.begin(); file != record.files.end();) {
    const auto text = base.read(file->first);
    Ok put_back = text ? Ok() : Ok(fail(text.error()));
    if (text && text->empty() && !base.has_directory_of(file->first))
      put_back = fail(ErrorKind::gone, file->first + " is not mounted");
    else if (text && *text == file->second.after)
      put_back = base.replace(file->first, file->second.before);
    if (put_back) {
      file = record.files.erase(file);
    } else {
      done = std::move(put_back);
      ++file;
    }
  }
  base.write_journal_back();
  TRY(base.record(record));
  return done;
}

}  // namespace warmroot::bootstrap
