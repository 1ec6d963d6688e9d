// The bootstraps of a simulated fleet: what happens on each instance between its boot and its end,
// as far as the manager and the volumes can tell. Holds the truth about who has what mounted, and
// checks that no session opens on a volume that was not checked since it last ended uncleanly.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/device.hpp"
#include "manager/core/node_report.hpp"
#include "tests/fleet_sim/draw.hpp"
#include "tests/sim/region.hpp"

namespace warmroot::fleet {

class World;

enum class GuestStep {
  booting,
  searching,
  asking,  ///< it has seen a disk, and waits until it may take it
  checking,
  mounting,
  serving,
  rebooting,  ///< init was asked for a reboot: it unmounts
  parting,    ///< it has unmounted, and says so once more
  down,       ///< between two boots
  draining,
  released,
  failed
};

/// How a machine starts anew.
struct Boot {
  std::optional<Milliseconds> lasts;  ///< until its bootstrap begins again; absent: it never does
  bool unreachable = false;           ///< EC2's check of the instance fails meanwhile
  bool keeps_key = true;              ///< the next bootstrap finds the key; not after a reset
  bool in_time = true;                ///< of a reboot: the volume is unmounted before it
  bool orderly = false;               ///< init was asked for it; else it is a reset
  Milliseconds disks_late{0};  ///< its kernel finds its disks so long after its bootstrap began
  // Of a reboot behind a release:
  std::optional<Milliseconds> rests;  ///< it runs on for so long; absent: for its last reports
  bool drain_heard = true;            ///< what it says until it has released its volume gets out
  bool release_heard = true;          ///< and that it has
};

/// What a guest has given back, and has not been given again.
struct GivenBack {
  std::string volume_id;      ///< empty: it named none
  unsigned generation = 0;    ///< of the attachment; 0: it had none
  bool wanted_again = false;  ///< people have run `up` since
};

struct Guest {
  std::string id;
  GuestStep step = GuestStep::booting;
  std::string volume_id;           ///< the disk it found; empty: none
  unsigned generation = 0;         ///< of that disk's attachment
  std::optional<Instant> seen_at;  ///< since when one is in sight, whichever; absent: none is
  Milliseconds check_lasts{0};     ///< of that disk's file system
  bool taken = false;              ///< it is the one: it has been chosen
  bool by_word = false;            ///< and the manager had named it
  unsigned checked = 0;            ///< the attachment for which the file system was checked
  bool mounted = false;
  bool had_mounted = false;  ///< in this boot
  Instant mounted_at{};
  bool session = false;
  Instant due{};  ///< when `step` ends
  Instant report_due{};
  std::uint64_t sequence = 0;  ///< of its reports
  std::string key;             ///< that it received at its hello; empty: none
  bool mute = false;           ///< it has no key that counts, and is given no other
  std::string identity;        ///< what its metadata service signed; empty: not asked yet
  bool fails = false;          ///< its bootstrap always fails
  bool hangs = false;          ///< its sessions hold the volume for minutes when it should go
  bool over = false;           ///< powered off: never looked at again
  std::optional<Instant> notice_seen;
  NodeStage stage = NodeStage::hello;
  std::string reason;  ///< of a release, where it is not the usual one
  Boot boot{};         ///< that it is about to go through, or goes through
  bool asked = false;  ///< somebody wants the volume of a machine that is about to reboot
  Instant down_since{};
  std::optional<Instant> said_rebooting;  ///< the last time, if nothing else was heard since
  std::optional<GivenBack> gave_back;     ///< as nobody can forget it; until it has a session
  bool up_again = false;                  ///< people wanted it served again, whatever came since
  std::optional<GivenBack> taken_back;    ///< what it took again for that
  std::string given_away;                 ///< what a file of the base's disk says; empty: nothing
  bootstrap::GivenAway held_from;         ///< what this boot makes of that file
  bool held_back = false;                 ///< by that file: its disk is there
  std::string served;                     ///< what another one says that it serves; likewise
  bootstrap::ServedBefore served_before;  ///< what this boot makes of that
  Instant up_since{};                     ///< when the bootstrap of this boot began
  Instant disks_from{};                   ///< and when it sees the disks that were there before it
  std::string word;      ///< the volume that the manager named last in this boot; empty: none
  bool refused = false;  ///< its last answer says that there is no volume for it
  Instant refused_at{};  ///< when a look last found that
  bool waits = false;    ///< disks are there, and only an answer of the manager's lets it take one
};

class Guests {
 public:
  Guests(World& world, std::uint64_t seed) : world_(world), draw_(seed) {}

  /// The next time at which any guest does something.
  Instant next() const;
  /// Everything that is due by now.
  void step();

  Guest* find(const std::string& instance_id);
  /// The guest begins to give its volume back, for whatever reason.
  void drain(Guest& guest);
  /// It serves, or is on its way there.
  static bool is_up(const Guest& guest);
  /// Init is asked for a reboot. Requires: is_up().
  void reboot(Guest& guest, const Boot& boot);
  /// It starts anew without a word. Requires: is_up().
  void reset(Guest& guest, const Boot& boot);
  /// It gives its volume back, unless it has done so, and its machine reboots behind that.
  /// Requires: is_up(), or it has released.
  void reboot_behind_release(Guest& guest, const Boot& boot);
  /// People want it served again, in the same boot. Requires: it has released.
  void up_again(Guest& guest);
  /// What an answer of the manager names, and whether it says that there is no volume for it.
  void hear_word(Guest& guest, const std::string& volume_id, bool refused);
  /// It never comes back from its boot.
  static bool is_lost(const Guest& guest);
  /// It finds what it gave away before, and waits for the manager's word.
  static bool is_held_back(const Guest& guest) { return !guest.over && guest.held_back; }
  /// Behind a release nobody hears it, and so it gets no word and no volume.
  static bool is_unheard_behind_release(const Guest& guest) {
    return !guest.over && guest.mute && !guest.mounted && guest.gave_back;
  }
  /// A disk is there, and the manager says that there is no volume for it.
  static bool is_refused(const Guest& guest) {
    return !guest.over && guest.refused && guest.step == GuestStep::asking;
  }
  /// Only an answer would let it take a disk yet, and it gets none.
  static bool waits_unheard(const Guest& guest) {
    return !guest.over && guest.mute && guest.waits &&
           (guest.step == GuestStep::searching || guest.step == GuestStep::asking);
  }
  /// True when the guest has not, or not any more, the volume in use.
  bool gave_back(const std::string& instance_id, const std::string& volume_id) const;
  /// Somebody's session is on this volume there.
  bool serves(const std::string& instance_id, const std::string& volume_id) const;
  /// Those whose bootstrap has failed for good and which run on.
  std::vector<std::string> failed() const;
  /// It gives its volume back, has done so, or will never serve: another one takes its place.
  bool leaves(const std::string& instance_id) const;
  /// How long the slowest guest that is giving its volume back still takes.
  Milliseconds longest_drain() const;
  /// How long the last machine that starts anew is still away, or waited for by the manager.
  Milliseconds longest_absence() const;
  /// Those that are lost, and that EC2 calls well.
  std::vector<std::string> missing() const;
  /// Some machine boots, or will, behind a release, is up again behind one, or is told that it gets
  /// no volume: it may serve no more, and be ended.
  bool boots_behind_release() const;

  // What the catalogue may set.
  int notices_missing = 0;          ///< so many of the next notices are not seen by their guest
  int notices_late = 0;             ///< so many are seen only seconds before the end
  int failing_bootstraps = 0;       ///< so many of the next guests fail always
  bool all_fail = false;            ///< every one that comes up
  int hanging = 0;                  ///< so many of the next drains take minutes
  int beyond_repair = 0;            ///< so many of the next unclean volumes cannot be repaired
  int leaving_unmounted = 0;        ///< so many of the next have to go before they have mounted
  bool skips_check = false;         ///< a bug planted in the guest
  bool forgets_given_away = false;  ///< another one
  bool keeps_record = false;        ///< and one more: of what it serves, behind its release
  /// Who loses a disk gives its volume back, as the bootstrap does; else it looks for another one.
  bool gives_lost_disk_up = false;

 private:
  void meet_new_instances();
  void step(Guest& guest, const sim::InstanceRecord& instance);
  void power_lost(Guest& guest, bool clean);
  /// It has nothing mounted any more; `clean`: because it has unmounted it.
  void tear(Guest& guest, bool clean);
  void unmount_for_reboot(Guest& guest);
  void go_down(Guest& guest);
  void come_back(Guest& guest);
  void begin(Guest& guest);
  /// What the boot before served, unless it gave that away.
  void recall_served(Guest& guest) const;
  /// Who knows of no reboot replaces it, or people have to end it.
  bool is_given_up(const Guest& guest) const;
  void search(Guest& guest);
  void lose_sight(Guest& guest);
  const sim::VolumeRecord* choose_disk(Guest& guest);
  bool may_see(const Guest& guest, const sim::VolumeRecord& volume) const;
  bool may_take(const Guest& guest) const;
  void take(Guest& guest);
  void check(Guest& guest);
  void open_session(Guest& guest);
  static void keep_served(Guest& guest);
  void finish_drain(Guest& guest);
  /// It says that its volume is free, and why where that is not the usual reason.
  void release(Guest& guest, std::string_view reason);
  unsigned attachment_given_back(const Guest& guest) const;
  void keep_from_next_boot(Guest& guest) const;
  /// Forgets what was given away once that counts for nothing any more.
  void heed_given_away(Guest& guest, const std::vector<bootstrap::DiskFacts>& disks,
                       const std::vector<std::string>& launched);
  void tell_held_back(Guest& guest, bool held_back);
  /// As soon as its disk is there, or while that is checked.
  void leave_unmounted(Guest& guest);
  void check_given_back(const Guest& guest);
  bool has_taken_back(const Guest& guest, const std::string& volume_id) const;
  void watch_notice(Guest& guest, const sim::InstanceRecord& instance);
  void watch_disk(Guest& guest);
  void report(Guest& guest);
  void enter(Guest& guest, GuestStep step, NodeStage stage, Milliseconds lasts);

  World& world_;
  Draw draw_;
  std::map<std::string, Guest> guests_;
  std::set<std::string> unclean_;  ///< volumes that ended without being unmounted
};

}  // namespace warmroot::fleet
