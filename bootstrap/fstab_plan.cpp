#include "bootstrap/fstab_plan.hpp"

#include <algorithm>
#include <cctype>
#include <optional>

#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/base/octal_escapes.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/mount_plan.hpp"
#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kMostEntries = 64;
constexpr std::size_t kMaxPoint = 255;
constexpr std::size_t kShownBytes = 80;  // of a stranger's text in a sentence

/// Where sessions have something of the base's or of their own.
constexpr std::string_view kSessionPlaces[] = {"proc", "sys", "dev", "run"};
constexpr std::string_view kPseudoTypes[] = {"proc",       "sysfs",    "tmpfs",     "devpts",
                                             "devtmpfs",   "cgroup",   "cgroup2",   "debugfs",
                                             "securityfs", "efivarfs", "hugetlbfs", "mqueue"};
constexpr std::string_view kNetworkTypes[] = {"nfs",  "nfs4",   "cifs",      "smb3", "9p",
                                              "ceph", "lustre", "glusterfs", "efs",  "beegfs"};
/// What is taken over as it stands; all else that an fstab says is for another machine's boot.
constexpr std::string_view kFlags[] = {"noatime", "nodiratime", "lazytime", "nosuid",
                                       "noexec",  "sync",       "dirsync"};
constexpr std::string_view kBtrfsValues[] = {"subvol", "subvolid", "compress", "compress-force"};
constexpr std::string_view kVfatValues[] = {"umask", "fmask", "dmask", "uid", "gid"};
/// With these, systemd mounts it on demand, or goes on without it; read-only, nothing is written
/// below it.
constexpr std::string_view kMayBeMissing[] = {"nofail", "x-systemd.automount", "ro"};
/// As the kernel says of a file system that it does not mount; EIO is btrfs' word for it, too.
constexpr std::string_view kUnsound[] = {"EUCLEAN", "EBADMSG", "EIO"};

template <typename Range>
bool is_one_of(std::string_view text, const Range& known) {
  return std::find(std::begin(known), std::end(known), text) != std::end(known);
}

std::vector<std::string> parts_of(std::string_view text, std::string_view separators) {
  std::vector<std::string> parts;
  for (std::size_t at = text.find_first_not_of(separators); at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(separators, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = text.find_first_not_of(separators, end);
  }
  return parts;
}

std::string shown(std::string_view text) {
  return without_controls(std::string(text.substr(0, kShownBytes)));
}

bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

/// "UUID=x" and "/dev/disk/by-uuid/x" alike as name and value; nullopt for all other names.
struct Tag {
  std::string name, value;
};
std::optional<Tag> tag_of(const std::string& what) {
  constexpr std::string_view kNames[] = {"UUID", "LABEL", "PARTUUID", "PARTLABEL"};
  constexpr std::string_view kFolder = "/dev/disk/by-";
  std::string name, value;
  if (what.starts_with(kFolder)) {
    const std::size_t slash = what.find('/', kFolder.size());
    if (slash == std::string::npos) return std::nullopt;
    name = what.substr(kFolder.size(), slash - kFolder.size());
    for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    value = what.substr(slash + 1);
  } else if (const std::size_t equals = what.find('='); equals != std::string::npos) {
    name = what.substr(0, equals);
    value = what.substr(equals + 1);
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
      value = value.substr(1, value.size() - 2);
  }
  if (value.empty() || !is_one_of(name, kNames)) return std::nullopt;
  return Tag{name, value};
}

bool carries(const PartitionFacts& partition, const Tag& tag) {
  if (tag.name == "LABEL") return partition.label == tag.value;
  if (tag.name == "PARTLABEL") return partition.part_label == tag.value;
  const std::string& own = tag.name == "UUID" ? partition.uuid : partition.part_uuid;
  return !own.empty() && same_ignoring_case(own, tag.value);
}

Result<PartitionFacts> partition_of(const std::string& what,
                                    std::span<const PartitionFacts> partitions) {
  const auto tag = tag_of(what);
  if (!tag && what.starts_with("/dev/"))
    return fail(ErrorKind::refused,
                "it is named as another machine called it, UUID= would be understood");
  if (!tag) return fail(ErrorKind::refused, "this is no file system on a disk");
  std::optional<PartitionFacts> found;
  for (const auto& partition : partitions) {
    if (!carries(partition, *tag)) continue;
    if (found) return fail(ErrorKind::refused, "more than one partition of this disk is called so");
    found = partition;
  }
  if (!found) return fail(ErrorKind::refused, "it is no partition of this disk");
  if (!is_mountable(found->content) && found->content != "vfat")
    return fail(ErrorKind::refused,
                "a partition that holds " +
                    (found->content.empty() ? "nothing known" : found->content) +
                    " cannot be mounted");
  return *found;
}

/// "home/data" of "/home//data/".
Result<std::string> target_of(const std::string& point) {
  if (point.empty() || point.front() != '/' || point.size() > kMaxPoint ||
      without_controls(point) != point)
    return fail(ErrorKind::refused, "the mount point is no plain path");
  const auto parts = parts_of(point, "/");
  if (parts.empty()) return fail(ErrorKind::refused, "it is the root itself");
  std::string target;
  for (const auto& part : parts) {
    if (part == "." || part == "..")
      return fail(ErrorKind::refused, "the mount point is no plain path");
    target += (target.empty() ? "" : "/") + part;
  }
  if (is_one_of(parts.front(), kSessionPlaces))
    return fail(ErrorKind::refused, "sessions have their own there");
  const std::string kept = std::string(kVolumeState) + "/";
  if (kept.starts_with(target + "/") || (target + "/").starts_with(kept))
    return fail(ErrorKind::refused,
                "what the bootstrap keeps of the node lies below, in the root's file system");
  return target;
}

bool is_plain_value(std::string_view value) {
  return !value.empty() && value.find_first_not_of(
                               "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@_./"
                               ":+-") == std::string_view::npos;
}

/// What of a line's options counts for a file system of this type.
Result<std::string> options_of(const FstabEntry& entry, const std::string& content) {
  const auto given = parts_of(entry.options, ",");
  std::string options = root_mount_options(content, !is_one_of("ro", given));
  for (const auto& option : given) {
    const std::size_t equals = option.find('=');
    const std::string key = option.substr(0, equals);
    const bool has_value = equals != std::string::npos;
    const bool known = has_value ? (content == "btrfs" && is_one_of(key, kBtrfsValues)) ||
                                       (content == "vfat" && is_one_of(key, kVfatValues))
                                 : is_one_of(option, kFlags);
    if (!known) continue;
    if (has_value && !is_plain_value(std::string_view(option).substr(equals + 1)))
      return fail(ErrorKind::refused, "its option " + key + " has a value that is not understood");
    options += "," + option;
  }
  return options;
}

Result<FstabMount> judge(const FstabEntry& entry, std::span<const PartitionFacts> partitions,
                         const PartitionFacts& root) {
  const auto given = parts_of(entry.options, ",");
  if (is_one_of(entry.type, kNetworkTypes) || is_one_of("_netdev", given) ||
      entry.type.starts_with("fuse"))
    return fail(ErrorKind::refused,
                "file systems of the network are not mounted, mount it in a "
                "hook or in a session");
  if (is_one_of("noauto", given)) return fail(ErrorKind::refused, "it says noauto");
  if (is_one_of("bind", given) || is_one_of("rbind", given) || is_one_of("loop", given))
    return fail(ErrorKind::refused, "only partitions and subvolumes are mounted");
  FstabMount mount;
  TRY_ASSIGN(mount.target, target_of(entry.point));
  TRY_ASSIGN(mount.partition, partition_of(entry.what, partitions));
  TRY_ASSIGN(mount.options, options_of(entry, mount.partition.content));
  const bool of_root = mount.partition.offset_bytes == root.offset_bytes;
  if (of_root && mount.options.find(",subvol") == std::string::npos)
    return fail(ErrorKind::refused, "it is the root itself");
  mount.required = std::none_of(given.begin(), given.end(), [](const std::string& option) {
    return is_one_of(option, kMayBeMissing);
  });
  return mount;
}

bool is_of_the_machine(const FstabEntry& entry) {
  return entry.type == "swap" || is_one_of(entry.type, kPseudoTypes) || entry.point == "/boot" ||
         entry.point.starts_with("/boot/");
}

}  // namespace

std::vector<FstabEntry> parse_fstab(std::string_view text) {
  std::vector<FstabEntry> entries;
  if (text.size() > kMaxFstab) return entries;
  for (const std::string& line : parts_of(text, "\n")) {
    const auto fields = parts_of(line, " \t\r");
    if (fields.size() < 3 || fields[0].front() == '#') continue;
    if (entries.size() == kMostEntries) break;
    entries.push_back({without_octal_escapes(fields[0]), without_octal_escapes(fields[1]),
                       without_octal_escapes(fields[2]),
                       fields.size() > 3 ? without_octal_escapes(fields[3]) : std::string()});
  }
  return entries;
}

bool fails_volume(const FstabMount& mount, FstabStep failed, const Error& error) {
  return mount.required && (failed == FstabStep::check || is_one_of(error.code, kUnsound));
}

FstabPlan plan_fstab(std::string_view text, std::span<const PartitionFacts> partitions,
                     const PartitionFacts& root) {
  FstabPlan plan;
  const auto leave = [&](const FstabEntry& entry, const std::string& why) {
    plan.left.push_back({shown(entry.type == "swap" ? "swap" : entry.point) + " (" +
                             shown(entry.what) + ") is not mounted: " + why,
                         !is_of_the_machine(entry)});
  };
  for (const FstabEntry& entry : parse_fstab(text)) {
    if (entry.point == "/") continue;
    if (entry.type == "swap") {
      leave(entry, "memory is the base's");
      continue;
    }
    if (is_one_of(entry.type, kPseudoTypes)) {
      leave(entry, "sessions have their own, or none");
      continue;
    }
    auto mount = judge(entry, partitions, root);
    if (!mount) {
      leave(entry, mount.error().context);
      continue;
    }
    const bool again = std::any_of(plan.mounts.begin(), plan.mounts.end(), [&](const auto& other) {
      return other.target == mount->target;
    });
    if (again)
      leave(entry, "another line has the same place");
    else
      plan.mounts.push_back(std::move(*mount));
  }
  const auto depth = [](const FstabMount& mount) {
    return std::count(mount.target.begin(), mount.target.end(), '/');
  };
  std::stable_sort(plan.mounts.begin(), plan.mounts.end(),
                   [&](const auto& a, const auto& b) { return depth(a) < depth(b); });
  return plan;
}

}  // namespace warmroot::bootstrap
