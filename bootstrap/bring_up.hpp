// From "no disk" to "sessions land in the volume": find, check, mount, prepare, probe, switch; of a
// volume that the last lease left clean, and in which the same login worked quickly then
// (login_proof.hpp), switch before probe, and back while the probe takes long. Each step is timed
// into the status book. What is done is remembered in the Assignment, which release undoes.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bootstrap/assignment.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/device.hpp"
#include "bootstrap/entry.hpp"
#include "bootstrap/imds.hpp"
#include "bootstrap/status.hpp"
#include "bootstrap/stop_request.hpp"
#include "bootstrap/ticket.hpp"

namespace warmroot::bootstrap {

/// For a login behind the switch: people come in meanwhile, to whatever it is stuck in. What
/// kProbeLimit has time for, the blocks' way from S3, is behind a volume on which it has worked;
/// left are a machine that just boots, at worst an emulated processor, and a disk that stalls.
inline constexpr std::chrono::milliseconds kLateLogin{std::chrono::seconds(10)};

/// What bring_up was told.
struct BringUpInput {
  LaunchFacts launch;
  std::set<std::string> disks_at_start;
  EntryKind entry = EntryKind::chroot;
  std::vector<std::uint16_t> base_ports{22};  ///< where the base's sshd lets people in
  std::string sftp_server;
  bool node_host_keys = false;  ///< an sshd can show the volume's
  SecondSshd second_sshd;       ///< for where the one that runs does not do what is needed
  bool grow = false;            ///< the root's file system is made to fill the disk
  bool sshd_is_late = false;    ///< sshd ran before it could read our configuration
  unsigned rescue_port = 0;     ///< that sshd's configuration opens; 0: none
  std::string pool;
  unsigned write_mib_s = kDefaultWriteMibS;             ///< what the volume writes
  std::chrono::milliseconds login_limit = kProbeLimit;  ///< of the one login that has to work
  std::chrono::milliseconds late_login = kLateLogin;    ///< behind the switch
  /// How long the only candidate waits for the manager's word; 0 where there is no manager to ask.
  std::chrono::milliseconds confirmation_limit{0};
  /// The volume that the manager says it attached, as soon as it is known.
  std::function<std::optional<std::string>()> confirmed_volume;
  /// The machine's; may take a while, and is asked behind the switch. May be empty.
  std::function<std::string()> instance_type;
  /// For GivenAway; forget_given_away is called once that is over.
  EarlierVolume given_away;
  /// For ServedBefore, likewise with forget_served.
  EarlierVolume served;
  /// Why the manager gives none for now, in words for people: no disk is taken as long as it is
  /// there. One from before Stage::disk_seen says nothing of that disk. May be empty.
  std::function<std::optional<std::string>()> no_volume;
  std::function<void(Stage, const std::string& message)> enter_stage;
  /// A disk ("/dev/nvme1n1") is likely to be the one; it may turn out to be another. May be empty.
  std::function<void(const std::string& disk_node)> disk_likely;
  /// Called when new sessions land on the base although Stage::ready was entered: the login that is
  /// tried behind it is late, and goes on. `why` is for people. May be empty.
  std::function<void(const std::string& why)> login_is_late;
  /// Called once behind Stage::ready: a login has worked, and new sessions land in the volume, also
  /// where one was late. From then on others may lead them elsewhere, before it nobody. May be
  /// empty.
  std::function<void()> login_worked;
  /// Called before sessions are led back to the base although Stage::ready was entered: the login
  /// that was tried behind it has failed. Nobody else may lead them anywhere from then on. May be
  /// empty.
  std::function<void()> leads_back;
  /// Called before a bring-up that failed unmounts again. May be empty.
  std::function<void()> let_go;
};

/// Ends with sessions in the volume, or with an error and everything undone but what `assignment`
/// still says; is_damage (filesystem_check.hpp) is true of it where people have to repair the
/// volume's file system. Returns early with retry_later when a stop is requested before sessions
/// are open, and with success when it comes later. They are when Stage::ready is entered; what
/// follows is said about them and takes up to 20 s. Where they were switched over first, a login is
/// tried right behind that, and one that fails is such an error, too: new sessions land on the base
/// at once, behind a banner with the reason, and whoever is in the volume is ended. One that has
/// neither worked nor failed after kLateLogin only leads new sessions to the base, behind a banner,
/// until it has; it has kProbeLimit in all, like one before the switch.
Ok bring_up(const BringUpInput& input, Assignment& assignment, StatusBook& book, StopRequest& stop);

/// Like bring_up, for a volume that was taken over: sessions get in by the entry that served it,
/// and by another one only where that fails. Whoever is in it stays, and so does the mount where
/// this fails. New sessions go on landing in it then if the session link leads them there and a
/// login has worked in this lease; else on the base, until it is called again with success. What
/// follows Stage::ready is as bring_up's, and changes nothing where that was done already.
Ok resume(const BringUpInput& input, Assignment& assignment, StatusBook& book, StopRequest& stop);

}  // namespace warmroot::bootstrap
