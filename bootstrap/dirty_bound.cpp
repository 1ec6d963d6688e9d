#include "bootstrap/dirty_bound.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "bootstrap/base/units.hpp"
#include "bootstrap/files.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kMaxVmstat = 256 * 1024;
constexpr std::size_t kMaxBefore = 256;
/// Documentation/admin-guide/sysctl/vm.rst.
constexpr char kVmBytes[] = "/dirty_bytes", kVmRatio[] = "/dirty_ratio";
/// Documentation/ABI/testing/sysfs-class-bdi.
constexpr char kMaxBytes[] = "max_bytes", kStrict[] = "strict_limit", kMaxRatio[] = "max_ratio";
constexpr char kLowerLimit[] = "the kernel's own limit of ";

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

std::uint64_t number_in(const std::string& file) {
  return std::strtoull(read_attribute(file).c_str(), nullptr, 10);
}

std::string mib_text(std::uint64_t bytes) {
  return std::to_string(bytes / kMiB) + " MiB";
}

std::string words_of_all_disks(std::uint64_t bytes) {
  return "at most " + mib_text(bytes) +
         " dirty in memory, with what other disks have (vm.dirty_bytes: this kernel is older than "
         "6.2)";
}

/// A btrfs of the disk has its backing device below its UUID.
std::string btrfs_folder(const std::string& sys, const std::string& disk) {
  const std::string mounted = sys + "/fs/btrfs/";
  for (const auto& uuid : list_directory(mounted))
    for (const auto& member : list_directory(mounted + uuid + "/devices"))
      if (member == disk || exists(sys + "/block/" + disk + "/" + member))
        return mounted + uuid + "/bdi";
  return {};
}

}  // namespace

Result<DirtyBound> DirtyBound::find(const std::string& disk, const std::string& filesystem,
                                    KernelFiles files) {
  DirtyBound bound;
  const std::string number = read_attribute(files.sys + "/block/" + disk + "/dev");
  bound.folder_ =
      filesystem == "btrfs" ? btrfs_folder(files.sys, disk) : files.sys + "/class/bdi/" + number;
  if (number.empty() || !exists(bound.folder_ + "/" + kMaxRatio))
    return fail(ErrorKind::gone, "the kernel shows no backing device of " + disk);
  bound.files_ = std::move(files);
  return bound;
}

std::uint64_t DirtyBound::kernel_limit_bytes() const {
  constexpr std::string_view kKey = "nr_dirty_threshold ";
  const std::string text = read_file(files_.vmstat, kMaxVmstat).value_or("");
  const std::size_t at = text.find(kKey);
  if (at == std::string::npos) return 0;
  return std::strtoull(text.c_str() + at + kKey.size(), nullptr, 10) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

Ok DirtyBound::change(const char* attribute, const std::string& value) const {
  return write_in_place(folder_ + "/" + attribute, value);
}

Result<std::string> DirtyBound::set(std::uint64_t bytes) {
  wanted_bytes_ = bytes;
  auto done = apply(bytes);
  if (done) said_ = *done;
  return done;
}

Result<std::string> DirtyBound::apply(std::uint64_t bytes) const {
  // By a process that is gone, and so the kernel's limit is no lower one.
  if (is_ours_of_all_disks(bytes)) return words_of_all_disks(bytes);
  const std::uint64_t limit = kernel_limit_bytes();
  if (limit != 0 && limit <= bytes)
    return kLowerLimit + mib_text(limit) + " is lower than " + mib_text(bytes);
  if (!has_strict_bytes()) return set_of_all_disks(bytes);
  TRY(change(kMaxBytes, std::to_string(bytes)));
  TRY(change(kStrict, "1"));
  return "at most " + mib_text(bytes) + " dirty in memory";
}

bool DirtyBound::has_strict_bytes() const {
  return exists(folder_ + "/" + kMaxBytes) && exists(folder_ + "/" + kStrict);
}

bool DirtyBound::is_ours_of_all_disks(std::uint64_t bytes) const {
  return !has_strict_bytes() && exists(files_.before) && number_in(files_.vm + kVmBytes) == bytes;
}

/// What was there before is written down first: whoever takes the bound back may be another
/// process.
Result<std::string> DirtyBound::set_of_all_disks(std::uint64_t bytes) const {
  const std::string before =
      read_attribute(files_.vm + kVmBytes) + " " + read_attribute(files_.vm + kVmRatio) + "\n";
  const bool is_first = !exists(files_.before);
  if (is_first) TRY(write_file_atomic(files_.before, before, 0600));
  const Ok written = write_in_place(files_.vm + kVmBytes, std::to_string(bytes));
  // Else what was not set would be taken for another's setting, and not be tried again.
  if (!written && is_first) ::unlink(files_.before.c_str());
  TRY(written);
  return words_of_all_disks(bytes);
}

/// Each of the two replaces the other.
Ok DirtyBound::restore_of_all_disks() const {
  const auto before = read_file(files_.before, kMaxBefore);
  if (!before) return {};
  char* end = nullptr;
  const std::uint64_t bytes = std::strtoull(before->c_str(), &end, 10);
  const std::uint64_t ratio = std::strtoull(end, nullptr, 10);
  TRY(bytes != 0 ? write_in_place(files_.vm + kVmBytes, std::to_string(bytes))
                 : write_in_place(files_.vm + kVmRatio, std::to_string(ratio)));
  if (::unlink(files_.before.c_str()) != 0) return fail_errno("removing " + files_.before);
  return {};
}

std::optional<std::string> DirtyBound::keep() {
  if (wanted_bytes_ == 0) return std::nullopt;
  const std::string said = said_;
  if (has_strict_bytes()) {
    const std::uint64_t now = number_in(folder_ + "/" + kMaxBytes);
    const std::uint64_t off = now > wanted_bytes_ ? now - wanted_bytes_ : wanted_bytes_ - now;
    if (off > wanted_bytes_ / 10) std::ignore = set(wanted_bytes_);
  } else if (!exists(files_.before)) {
    std::ignore = set(wanted_bytes_);
  } else if (!is_ours_of_all_disks(wanted_bytes_)) {
    said_ = "as somebody else has set vm.dirty_bytes or vm.dirty_ratio since, and not at most " +
            mib_text(wanted_bytes_);
  } else {
    said_ = words_of_all_disks(wanted_bytes_);
  }
  // That limit moves all the time.
  const bool still_lower = said.starts_with(kLowerLimit) && said_.starts_with(kLowerLimit);
  return said_ == said || still_lower ? std::nullopt : std::optional(said_);
}

Ok DirtyBound::remove() {
  wanted_bytes_ = 0;
  said_.clear();
  TRY(restore_of_all_disks());
  // The device may be gone, and its folder with it.
  if (folder_.empty() || !exists(folder_ + "/" + kMaxRatio)) return {};
  if (exists(folder_ + "/" + kStrict)) TRY(change(kStrict, "0"));
  return change(kMaxRatio, "100");
}

}  // namespace warmroot::bootstrap
