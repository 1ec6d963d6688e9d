// The bootstraps of a simulated fleet: what happens on each instance between its boot and its end,
// as far as the manager and the volumes can tell. Holds the truth about who has what mounted, and
// checks that no session opens on a volume that was not checked since it last ended uncleanly.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "manager/core/node_report.hpp"
#include "tests/fleet_sim/draw.hpp"
#include "tests/sim/region.hpp"

namespace warmroot::fleet {

class World;

enum class GuestStep {
  booting,
  searching,
  checking,
  mounting,
  serving,
  draining,
  released,
  failed
};

struct Guest {
  std::string id;
  GuestStep step = GuestStep::booting;
  std::string volume_id;    ///< the disk it found; empty: none
  unsigned generation = 0;  ///< of that disk's attachment
  unsigned checked = 0;     ///< the attachment for which the file system was checked
  bool mounted = false;
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

  // What the catalogue may set.
  int notices_missing = 0;     ///< so many of the next notices are not seen by their guest
  int notices_late = 0;        ///< so many are seen only seconds before the end
  int failing_bootstraps = 0;  ///< so many of the next guests fail always
  bool all_fail = false;       ///< every one that comes up
  int hanging = 0;             ///< so many of the next drains take minutes
  int beyond_repair = 0;       ///< so many of the next unclean volumes cannot be repaired
  bool skips_check = false;    ///< a bug planted in the guest

 private:
  void meet_new_instances();
  void step(Guest& guest, const sim::InstanceRecord& instance);
  void power_lost(Guest& guest, bool clean);
  void search(Guest& guest);
  void check(Guest& guest);
  void open_session(Guest& guest);
  void finish_drain(Guest& guest);
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
