// Where the bootstrap keeps things on the base system. Nearly all of it below /run, so that a
// fresh boot starts clean; the one file in /etc only includes what is there.
#pragma once

namespace warmroot::bootstrap {

inline constexpr char kRunDirectory[] = "/run/warmroot";
/// ChrootDirectory of every session: a symbolic link, root-owned in a root-owned directory, to "/"
/// (sessions land on the base), to kVolumePoint or to kNowhere. Replacing it by rename is the whole
/// switch.
inline constexpr char kSessionRoot[] = "/run/warmroot/root";
/// Never there. Sessions that are led to it are refused by sshd, behind the banner.
inline constexpr char kNowhere[] = "/run/warmroot/nowhere";
/// Root's alone: a user of the base's system must not walk to the volume's set-user-ID programs.
inline constexpr char kVolumeParent[] = "/run/warmroot/private";
/// Where the volume's root file system is mounted. Made by make_volume_point.
inline constexpr char kVolumePoint[] = "/run/warmroot/private/volume";
inline constexpr char kStatusFile[] = "/run/warmroot/status.json";
/// The same for Prometheus: the node exporter's textfile collector may be pointed here.
inline constexpr char kMetricsFile[] = "/run/warmroot/warmroot.prom";
/// What vm.dirty_bytes and vm.dirty_ratio were before the bound on dirty memory.
inline constexpr char kVmBefore[] = "/run/warmroot/vm-before";
/// The hooks of the volume that is mounted have been run: they are not run again.
inline constexpr char kHooksRun[] = "/run/warmroot/hooks-run";
/// Where the boothook has put this program for people, also for those in a session.
inline constexpr char kProgram[] = "/run/warmroot/bin/warmroot-bootstrap";
inline constexpr char kLogFile[] = "/run/warmroot/bootstrap.log";
/// Root-only: facts of the volume that is mounted, for the process that takes it over when this one
/// is killed.
inline constexpr char kHeldRecord[] = "/run/warmroot/held.json";
/// Root-only: init was about to end this boot. Who begins next is of another one, also where /run
/// is still the same, as behind a soft-reboot.
inline constexpr char kBootEnds[] = "/run/warmroot/boot-ends";
inline constexpr char kPidFile[] = "/run/warmroot/bootstrap.pid";
/// Root-only: locked by the daemon for as long as it lives.
inline constexpr char kLockFile[] = "/run/warmroot/bootstrap.lock";
/// Root-only: locked by the process that begins the daemon anew, for as long as it lives.
inline constexpr char kSupervisorLock[] = "/run/warmroot/supervisor.lock";
/// Root-only: the key of this instance's reports.
inline constexpr char kKeyFile[] = "/run/warmroot/key";
/// Authorized keys of accounts that came with the volume, one file a user.
inline constexpr char kUserKeysDirectory[] = "/run/warmroot/keys";
/// The launch key for the volume's people, one file a user, where the volume's own sshd lets them
/// in.
inline constexpr char kLaunchKeys[] = "/run/warmroot/launch_keys";
/// Root-only, and only while a login by it is tried.
inline constexpr char kTrialKey[] = "/run/warmroot/trial_key";
/// Root-only: what the volume's own sshd says.
inline constexpr char kOwnSshdLog[] = "/run/warmroot/volume-sshd.log";
inline constexpr char kSecondSshdLog[] = "/run/warmroot/second-sshd.log";
/// The unit of the volume's sshd where the volume is booted as a container.
inline constexpr char kContainerSshdUnit[] = "/run/warmroot/container-sshd.service";
/// Root-only: the lines added to the base's account files, for taking them away again. Not below
/// /run, because the lines stay over a reboot too.
inline constexpr char kBaseState[] = "/var/lib/warmroot";
/// Root-only: the names that boot loader and fstab had before boot_pin.
inline constexpr char kBootRecord[] = "/var/lib/warmroot/boot-names";
inline constexpr char kAccountRecord[] = "/var/lib/warmroot/accounts";
/// Root-only, and only from an orderly reboot to the next start of the bootstrap: what kKeyFile is
/// to hold then, behind whose it is.
inline constexpr char kRebootKey[] = "/var/lib/warmroot/reboot-key";
/// Root-only, and only until that volume is detached, or given again: which one was given away,
/// behind whose boot it was.
inline constexpr char kGivenAway[] = "/var/lib/warmroot/given-away";
/// Root-only, from when a volume serves sessions until it is given back: which one it is, behind
/// whose boot it is.
inline constexpr char kServedVolume[] = "/var/lib/warmroot/served";
/// Where sshd's HostKey lines lead: a link to the base's keys or to kNodeKeys.
inline constexpr char kHostKeys[] = "/run/warmroot/host_keys";
/// Root-only: the node's host keys while its volume is mounted.
inline constexpr char kNodeKeys[] = "/run/warmroot/node_keys";
/// sshd shows it before every login while sessions land on the base or nowhere; absent otherwise.
inline constexpr char kBannerFile[] = "/run/warmroot/banner";
/// One of the files that pam_motd shows at a login with a terminal.
inline constexpr char kMessageOfTheDay[] = "/run/motd.d/warmroot";
/// Root-only, behind it a volume's id: what `record` was asked for on that volume, until the daemon
/// has taken it for the manager.
inline constexpr char kAskedLists[] = "/run/warmroot/asked-list.";
/// The same of the list that is on its way, until the manager has answered: a daemon that takes
/// over sends it again.
inline constexpr char kAskedListsOut[] = "/run/warmroot/asked-list-out.";
/// Copy of the base's resolv.conf that is bound into the volume, refreshed in place.
inline constexpr char kResolvConf[] = "/run/warmroot/resolv";
/// The listening sockets of an sshd that ran before kSshdConfig was written.
inline constexpr char kLateSshd[] = "/run/warmroot/sshd-before";
inline constexpr char kSshdConfig[] = "/run/warmroot/sshd.conf";
inline constexpr char kEarlierSshdDropIn[] = "/etc/ssh/sshd_config.d/50-warmroot.conf";
/// Before all others: of each option sshd takes the first.
inline constexpr char kSshdDropIn[] = "/etc/ssh/sshd_config.d/00-0-warmroot.conf";

/// Inside the volume, relative to its root.
inline constexpr char kVolumeState[] = "var/lib/warmroot";
inline constexpr char kVolumeMarker[] = "var/lib/warmroot/state";
/// Root-only: what was proved in the lease that has the volume, or had it last (login_proof.hpp).
inline constexpr char kVolumeProof[] = "var/lib/warmroot/proof";
/// Root-only: the private host keys of the node.
inline constexpr char kVolumeHostKeys[] = "var/lib/warmroot/host_keys";
inline constexpr char kVolumeMap[] = "var/lib/warmroot/warm.map";
inline constexpr char kVolumeHotList[] = "var/lib/warmroot/hot.list";
/// The id of the volume that had leases here, whether others have its recording, and the UUID of
/// the file system of which its hot list tells the places.
inline constexpr char kVolumeHotListOf[] = "var/lib/warmroot/hot.list.volume";
/// The base's /run as seen in the volume: the socket of a docker that runs there is in it.
inline constexpr char kBaseRunInVolume[] = "run/base-run";
/// The base's /tmp as seen in the volume: sshd makes agent sockets there.
inline constexpr char kBaseTmpInVolume[] = "run/base-tmp";

}  // namespace warmroot::bootstrap
