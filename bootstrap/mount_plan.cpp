#include "bootstrap/mount_plan.hpp"

#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {
namespace {

MountStep directory(std::string target, unsigned mode) {
  MountStep step;
  step.name = "make /" + target;
  step.target = std::move(target);
  step.mode = mode;
  return step;
}

MountStep link(std::string source, std::string target) {
  MountStep step;
  step.name = "link /" + target;
  step.kind = MountKind::link;
  step.source = std::move(source);
  step.target = std::move(target);
  step.required = false;
  return step;
}

MountStep new_filesystem(std::string type, std::string target, std::string options) {
  MountStep step;
  step.name = "mount /" + target;
  step.kind = MountKind::filesystem;
  step.source = "warmroot-" + type;
  step.target = std::move(target);
  step.filesystem = std::move(type);
  step.options = std::move(options);
  step.undo = MountUndo::unmount;
  return step;
}

MountStep bind(MountKind kind, std::string source, std::string target) {
  MountStep step;
  step.name = "bind /" + target;
  step.kind = kind;
  step.source = std::move(source);
  step.target = std::move(target);
  step.undo = kind == MountKind::bind_tree ? MountUndo::unmount_tree : MountUndo::unmount;
  return step;
}

MountStep bind_file(std::string source, std::string target) {
  MountStep step = bind(MountKind::bind, std::move(source), std::move(target));
  step.target_is_file = true;
  step.required = false;
  return step;
}

/// /run is a new tmpfs: the volume's own holds pid files and sockets of a machine that is gone (a
/// real one is empty at boot), and the base's would show base services as the volume's. What
/// sessions need of the base is bound in.
void plan_run(const MountFacts& facts, std::vector<MountStep>& steps) {
  steps.push_back(new_filesystem("tmpfs", "run", "mode=0755,nosuid,nodev"));
  steps.push_back(directory("run/lock", 01777));
  steps.push_back(directory("run/sshd", 0755));
  // XDG_RUNTIME_DIR of a session is made on the base by logind, often after we are done: follow it.
  if (facts.base_has_run_user) {
    steps.push_back(bind(MountKind::bind_tree, "/run/user", "run/user"));
    steps.back().required = false;
  }
  // who(1) and wall(1) read it.
  if (facts.base_has_utmp) steps.push_back(bind_file("/run/utmp", "run/utmp"));
  // `warmroot-bootstrap status` works in a session.
  steps.push_back(bind(MountKind::bind, kRunDirectory, "run/warmroot"));
  steps.back().read_only = true;
  steps.back().required = false;
  // sshd makes agent sockets in the base's /tmp before it enters the volume; agent_sockets links
  // them.
  steps.push_back(bind(MountKind::bind, "/tmp", kBaseTmpInVolume));
  steps.back().required = false;
  // A docker of the base may start, or start again, after us: a link follows it, a bound socket
  // would be the old one. The paths that it is told are the base's, where the volume's are below
  // kVolumePoint.
  steps.push_back(bind(MountKind::bind, "/run", kBaseRunInVolume));
  steps.back().read_only = true;
  steps.back().required = false;
  steps.push_back(link("base-run/docker.sock", "run/docker.sock"));
}

}  // namespace

std::string root_mount_options(const std::string& filesystem, bool writable) {
  // A device node in the volume must not open the base's disks to a session: /dev is the base's.
  std::string options = writable ? "rw,relatime,nodev" : "ro,nodev";
  // A volume made from the base's own AMI has the base root's UUID, and xfs refuses a second one.
  if (filesystem == "xfs") options += ",nouuid";
  // From 6.2 on btrfs discards by itself what a file system frees.
  if (filesystem == "btrfs") options += ",nodiscard";
  return options;
}

std::string untouched_mount_options(const std::string& filesystem) {
  std::string options = root_mount_options(filesystem, false);
  if (filesystem == "ext3" || filesystem == "ext4") options += ",noload";
  if (filesystem == "xfs") options += ",norecovery";
  if (filesystem == "btrfs") options += ",rescue=nologreplay";
  return options;
}

std::vector<MountStep> plan_mounts(const MountFacts& facts) {
  std::vector<MountStep> steps;
  steps.push_back(new_filesystem("proc", "proc", "nosuid,nodev,noexec"));
  steps.push_back(bind(MountKind::bind_tree, "/sys", "sys"));
  // With dev/pts, so that a session's terminal, opened on the base, is found inside; and with
  // dev/shm.
  steps.push_back(bind(MountKind::bind_tree, "/dev", "dev"));
  plan_run(facts, steps);
  if (!facts.volume_has_tmp) steps.push_back(directory("tmp", 01777));
  if (facts.base_has_resolv_conf) steps.push_back(bind_file(kResolvConf, "etc/resolv.conf"));
  // The base's Subsystem line names this path, and a second Subsystem line is an error for sshd.
  if (!facts.sftp_server.empty() && !facts.volume_has_sftp_server)
    steps.push_back(bind_file(facts.sftp_server, facts.sftp_server.substr(1)));
  return steps;
}

}  // namespace warmroot::bootstrap
