#include "bootstrap/volume_fstab.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>
#include <set>
#include <utility>

#include "bootstrap/filesystem_check.hpp"
#include "bootstrap/fstab_plan.hpp"
#include "bootstrap/in_root.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/root_mount.hpp"

namespace warmroot::bootstrap {
namespace {

class FstabWork {
 public:
  FstabWork(const std::string& disk_name, int disk_fd, Assignment& assignment,
            const StopRequest& stop)
      : disk_name_(disk_name), disk_fd_(disk_fd), assignment_(assignment), stop_(stop) {}

  /// What was done with each line, for the timeline. Errors: of what fails the volume.
  Result<std::string> run(std::string_view fstab) {
    const FstabPlan plan = plan_fstab(fstab, assignment_.partitions, assignment_.partition);
    for (const FstabMount& mount : plan.mounts) TRY(honour(mount));
    for (const FstabLeft& left : plan.left) leave(left);
    return said_.empty() ? "it asks for nothing but the root" : said_;
  }

 private:
  void say(const std::string& text) { said_ += (said_.empty() ? "" : "; ") + text; }
  void leave(const FstabLeft& left) {
    say(left.text);
    assignment_.fstab.push_back({"of the volume's fstab, " + left.text, left.for_people});
  }

  Ok honour(const FstabMount& mount) {
    TRY(stop_.check());
    const auto node = ensure_node("/sys", disk_name_, disk_fd_, mount.partition);
    if (!node) return go_on_without(mount, FstabStep::mount, node.error());
    const auto found = check(mount, *node);
    if (!found) return go_on_without(mount, FstabStep::check, found.error());
    const Ok mounted = mount_inside_root(mount, *node);
    if (!mounted) return go_on_without(mount, FstabStep::mount, mounted.error());
    TRY(stop_.check());
    say(name_of(mount) + " is mounted, " + *found);
    return {};
  }

  Ok go_on_without(const FstabMount& mount, FstabStep failed, const Error& error) {
    TRY(stop_.check());
    const std::string name = name_of(mount);
    if (fails_volume(mount, failed, error))
      return fail(Error(error).within(name + ", which the volume's fstab does not call nofail"));
    leave({name + " is not mounted: " + error.message(), true});
    return {};
  }

  static std::string name_of(const FstabMount& mount) {
    return "/" + mount.target + " (" + describe(mount.partition) + ")";
  }

  bool is_of_root(const PartitionFacts& partition) const {
    return partition.offset_bytes == assignment_.partition.offset_bytes;
  }
  bool is_served_already(const PartitionFacts& partition) const {
    return is_of_root(partition) || mounted_.contains(partition.offset_bytes);
  }

  /// How its file system was found.
  Result<std::string> check(const FstabMount& mount, const std::string& node) const {
    if (is_of_root(mount.partition)) return "a subvolume of the root's";
    if (is_served_already(mount.partition)) return "as at its other place";
    return check_filesystem(mount.partition, node, disk_fd_, stop_);
  }

  Ok mount_inside_root(const FstabMount& mount, const std::string& node) {
    const PartitionFacts& partition = mount.partition;
    const bool already = is_served_already(partition);
    {
      TRY_ASSIGN(const RootDirectory root, RootDirectory::open(kVolumePoint));
      TRY_ASSIGN(const UniqueFd target, root.open_inside(mount.target, O_PATH | O_DIRECTORY));
      TRY(check_below(root, target));
      const std::string point = "/proc/self/fd/" + std::to_string(target.get());
      // What is mounted already: another way to it is not a twin of it.
      TRY(already ? mount_device(node, point, partition.content, mount.options)
                  : mount_root_filesystem(node, disk_fd_, partition.offset_bytes, point,
                                          partition.content, mount.options));
    }
    assignment_.also_mounted.push_back(mount.target);
    if (already) return {};
    mounted_.insert(partition.offset_bytes);
    struct stat facts {};
    if (::stat(node.c_str(), &facts) == 0) assignment_.other_devices.push_back(facts.st_rdev);
    return {};
  }

  /// A link can make any place of a volume's path the root itself; what is mounted there would be
  /// served in its place, unproved.
  static Ok check_below(const RootDirectory& root, const UniqueFd& target) {
    struct stat top {};
    struct stat place {};
    if (::fstat(root.fd(), &top) != 0 || ::fstat(target.get(), &place) != 0)
      return fail_errno("looking at the mount point");
    if (top.st_dev == place.st_dev && top.st_ino == place.st_ino)
      return fail(ErrorKind::refused, "its place leads to the root itself");
    return {};
  }

  const std::string& disk_name_;
  const int disk_fd_;
  Assignment& assignment_;
  const StopRequest& stop_;
  std::set<std::uint64_t> mounted_;  ///< where partitions begin that earlier lines have mounted
  std::string said_;
};

}  // namespace

Ok mount_volume_fstab(const std::string& disk_name, int disk_fd, Assignment& assignment,
                      StatusBook& book, const StopRequest& stop) {
  assignment.also_mounted.clear();
  assignment.other_devices.clear();
  assignment.fstab.clear();
  std::string fstab;
  {
    TRY_ASSIGN(const RootDirectory root, RootDirectory::open(kVolumePoint));
    fstab = root.read("etc/fstab", kMaxFstab).value_or("");
  }
  if (parse_fstab(fstab).empty()) return {};
  FstabWork work(disk_name, disk_fd, assignment, stop);
  TRY(book.timed("the volume's fstab", [&] { return work.run(fstab); }));
  return {};
}

}  // namespace warmroot::bootstrap
