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
/// Documentation/ABI/testing/sysfs-class-bdi.
constexpr char kMaxBytes[] = "max_bytes", kStrict[] = "strict_limit", kMaxRatio[] = "max_ratio";

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

std::uint64_t number_in(const std::string& file) {
  return std::strtoull(read_attribute(file).c_str(), nullptr, 10);
}

std::string mib_text(std::uint64_t bytes) {
  return std::to_string(bytes / kMiB) + " MiB";
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
  const std::uint64_t limit = kernel_limit_bytes();
  if (limit != 0 && limit <= bytes)
    return "the kernel's own limit of " + mib_text(limit) + " is lower than " + mib_text(bytes);
  if (!exists(folder_ + "/" + kMaxBytes) || !exists(folder_ + "/" + kStrict))
    return set_percentage(bytes, limit);
  TRY(change(kMaxBytes, std::to_string(bytes)));
  TRY(change(kStrict, "1"));
  return "at most " + mib_text(bytes) + " dirty in memory";
}

Result<std::string> DirtyBound::set_percentage(std::uint64_t bytes, std::uint64_t limit) {
  if (limit == 0)
    return fail(ErrorKind::gone, "the kernel does not tell its limit of dirty memory");
  const std::uint64_t percent = std::max<std::uint64_t>(1, bytes * 100 / limit);
  TRY(change(kMaxRatio, std::to_string(percent)));
  return "about " + mib_text(limit * percent / 100) + " dirty in memory (" +
         std::to_string(percent) +
         " % of the kernel's limit; this kernel, older than 6.2, heeds it "
         "only while much is dirty altogether)";
}

void DirtyBound::keep() {
  const std::string file = folder_ + "/" + kMaxBytes;
  if (wanted_bytes_ == 0 || !exists(file)) return;
  const std::uint64_t now = number_in(file);
  const std::uint64_t off = now > wanted_bytes_ ? now - wanted_bytes_ : wanted_bytes_ - now;
  if (off > wanted_bytes_ / 10) std::ignore = set(wanted_bytes_);
}

Ok DirtyBound::remove() {
  wanted_bytes_ = 0;
  // The device may be gone, and its folder with it.
  if (folder_.empty() || !exists(folder_ + "/" + kMaxRatio)) return {};
  if (exists(folder_ + "/" + kStrict)) TRY(change(kStrict, "0"));
  return change(kMaxRatio, "100");
}

}  // namespace warmroot::bootstrap
