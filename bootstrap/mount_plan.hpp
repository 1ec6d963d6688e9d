// What gets mounted in the volume, in which order, and how each step is undone. Pure: facts and
// ticket in, steps out; mount_exec performs them. What the steps are for is said where each one is
// made.
#pragma once

#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"

namespace warmroot::bootstrap {

enum class MountKind {
  directory,   ///< only makes sure that the directory exists
  link,        ///< only makes the symbolic link to `source`, in a directory of ours
  filesystem,  ///< a new file system of type `filesystem`
  bind,        ///< the one directory or file `source` of the base, without what is mounted in it,
               ///< now or later
  bind_tree,   ///< `source` with everything mounted below it, following the base's later mounts and
               ///< unmounts
};

enum class MountUndo { none, unmount, unmount_tree };

struct MountStep {
  std::string name;  ///< for the timeline
  MountKind kind = MountKind::directory;
  std::string source;      ///< absolute path on the base, or a name for new file systems
  std::string target;      ///< relative to the volume's root; links are resolved inside
  std::string filesystem;  ///< for kind filesystem
  std::string options;     ///< as in fstab
  bool target_is_file = false;
  bool read_only = false;
  bool required = true;  ///< a failure of an optional step is noted and leaves sessions possible
  unsigned mode = 0755;  ///< of the target directory when it has to be made
  MountUndo undo = MountUndo::none;
};

struct MountFacts {
  bool base_has_run_user = false;  ///< /run/user, where logind puts people's runtime directories
  bool base_has_utmp = false;      ///< /run/utmp
  bool base_has_resolv_conf = true;
  bool volume_has_tmp = true;
  std::string sftp_server;  ///< absolute path from `sshd -T`; empty: none, or internal-sftp
  bool volume_has_sftp_server = true;
};

/// Options for mounting a root file system of this type read-only (`writable` false) or for use.
std::string root_mount_options(const std::string& filesystem, bool writable);
/// Options for a look at a root that writes nothing to the disk, not even the journal's replay.
std::string untouched_mount_options(const std::string& filesystem);

/// The steps that make a mounted root file system fit for sessions. Every step's undo runs in
/// reverse order.
std::vector<MountStep> plan_mounts(const MountFacts& facts);

}  // namespace warmroot::bootstrap
