// One simulated run: a region, managers, guests and people under virtual time, all from one seed.
// The catalogue's faults strike here; the invariants are checked at each call and after each step.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "manager/events.hpp"
#include "tests/fleet_invariants.hpp"
#include "tests/fleet_process.hpp"
#include "tests/fleet_sim/coverage.hpp"
#include "tests/fleet_sim/draw.hpp"
#include "tests/fleet_sim/event_queue.hpp"
#include "tests/fleet_sim/guests.hpp"
#include "tests/fleet_sim/ledger_shelf.hpp"
#include "tests/fleet_sim/options.hpp"
#include "tests/fleet_sim/report_door.hpp"
#include "tests/fleet_sim/spending.hpp"
#include "tests/fleet_sim/trace.hpp"
#include "tests/sim/query.hpp"
#include "tests/sim/region.hpp"
#include "tests/sim/region_transport.hpp"

namespace warmroot::fleet {

inline const Instant kStart{std::chrono::hours{24 * 20'000}};
inline constexpr const char* kDeployment = "research";
inline constexpr const char* kVolumeAmi = "ami-01000000000000001";
inline constexpr const char* kNewerAmi = "ami-05000000000000005";
inline constexpr const char* kBaseAmi = "ami-02000000000000002";
inline constexpr const char* kNewerBaseAmi = "ami-06000000000000006";
inline constexpr const char* kZones[] = {"us-east-1a", "us-east-1b"};

/// The pool of that name, or nullptr.
core::PoolSpec* find_spec(core::Desired& desired, const std::string& name);

/// A manager's host: its clock, its ledger, what its process knows beyond the ledger.
struct Host {
  int number = 0;
  std::string ledger_path;
  ManagerProcess process;
  Milliseconds clock{0};  ///< ahead of the region
  Instant next_tick{};
  bool in_tick = false;
  int die_in = 0;  ///< dies at this effect from now; 0: does not
  std::function<void()> after_death;
  Milliseconds freeze_after_look{0};
  Milliseconds freeze_after_record{0};
  Milliseconds clock_at_start{0};  ///< a process's clock does not follow steps (manager/clock.hpp)
  Instant look_started{};
  Instant last_look{};                           ///< the look before; of this process
  std::uint64_t releases_seen = 0;               ///< that its door had heard of when the tick began
  std::map<std::string, NodeStage> stages_told;  ///< of instances, to its last plan
  Instant started{};                             ///< when its process began
  core::Desired told;                            ///< the spec that this process plans with
  Instant sent{};                                ///< when the present batch of calls left
  std::unique_ptr<ReportDoor> door;              ///< of a process that hears reports
  std::map<std::string, Instant> shown;          ///< when EC2 last showed a thing to this process
  manager::TickReport last;
  std::string unread;  ///< why a listing of this tick could not be read; empty: all could
  std::unique_ptr<manager::EventInbox> inbox;  ///< of a process that listens
  Instant polled{};                            ///< when the queue last answered it
  bool ledger_is_new = false;                  ///< nobody has looked at what the process began with
  bool new_desired = false;                    ///< the spec changed inside a tick
  std::uint64_t ticks = 0;
  bool resumed = false;  ///< the operator has looked for pools that are paused by mistake
  std::optional<Instant> frozen_since;  ///< since when the plan has said "frozen"
};

struct RunResult {
  std::uint64_t seed = 0;
  std::string violation;  ///< empty: none
  std::string fault;      ///< the last that struck before it
  std::uint64_t step = 0;
  std::uint64_t hash = 0;
  std::uint64_t ticks = 0;
  Milliseconds settled_in{0};
  std::vector<std::string> trace;
  Coverage coverage;
};

/// Attached to nothing and ready to be.
inline bool available(const sim::VolumeRecord& volume) {
  return !volume.link && volume.state == sim::DiskState::available;
}

/// An instance has it, and no attach or detach is under way.
inline bool attached(const sim::VolumeRecord& volume) {
  return volume.link && volume.link->state == sim::LinkState::attached;
}

class World {
 public:
  World(std::uint64_t seed, const Options& options);
  ~World();
  RunResult run();

  // ---- for the catalogue ----
  using Deed = std::function<void()>;
  void later(Milliseconds wait, Deed deed) {
    agenda_.emplace(region.now() + wait, std::move(deed));
  }
  /// What is undone when the faults stop, at the latest.
  void on_lift(Deed deed) { lifts_.push_back(std::move(deed)); }
  /// A spell of `lasts`: `end` is called at its end, or when the faults stop.
  void spell(Milliseconds lasts, Deed end);
  using Fits = std::function<bool(const sim::InstanceRecord&)>;
  const sim::InstanceRecord* some_instance(const Fits& fits = {}) {
    return some_instance(draw, fits);
  }
  const sim::InstanceRecord* some_instance(Draw& chance, const Fits& fits);
  const sim::VolumeRecord* some_volume(
      const std::function<bool(const sim::VolumeRecord&)>& fits = {});
  std::string some_zone();
  Host& host(int number = 0) { return *hosts_[static_cast<std::size_t>(number)]; }
  /// One whose process runs, or the first.
  Host& some_host();
  bool has_host(int number) const { return static_cast<std::size_t>(number) < hosts_.size(); }
  /// Kills the host's process, now or at its next statement; `then` happens before its restart.
  void kill(Host& host, Milliseconds down, Deed then = {});
  /// Unless it is the second one, and its time is over.
  void start_again(Host& host);
  /// It is gone, and what was in it.
  void forget_ledger(Host& host);
  void start_second_manager();
  void stop_second_manager();
  void set_desired(core::Desired changed);
  /// As an operator's command does. False: no manager runs, or it is in a tick.
  bool place_order(core::OrderKind kind, const std::string& subject, const std::string& pool = "",
                   const std::string& detail = "by hand");
  /// Somebody deletes it behind the manager's back.
  bool delete_by_hand(const std::string& volume_id);
  /// Lets time pass inside a tick: guests, people and EC2 go on.
  void pass_time(Milliseconds time);
  /// The same for long: another manager goes on, too.
  void freeze(Milliseconds time);
  void say(const std::string& text) { trace.add(region.now(), text); }
  /// How a report goes from a guest to the manager and back.
  struct Taken {
    bool taken = false;
    bool drain = false;
  };
  Taken deliver(Guest& guest, const core::NodeReport& report);
  /// A letter arrives, whoever sends it; 0: nobody listens.
  ReportDoor::Reply post(const Letter& letter);
  /// A hello for the instance arrives from `peer`.
  ReportDoor::Reply say_hello(const std::string& instance_id, const std::string& identity,
                              const std::string& peer);
  /// Of when the world is that EC2 last showed the host's process of a thing.
  Instant shown_at(const Host& host, const std::string& id) const;
  /// The first manager's ledger says that the instance has released this volume.
  bool counts_as_given_back(const std::string& instance_id, const std::string& volume_id) const;
  /// What the first manager's last plan was told of the instance lets it act on a release: that
  /// very word, or nothing, for so long that one which lives would have been heard.
  bool may_act_on_release(const std::string& instance_id) const;
  bool violated() const { return !invariants.violations.empty(); }

  const Options& options;
  Draw draw;
  /// Of the faults that are apart: a seed's others stay what they are until one of those strikes.
  Draw reboot_draw;
  Draw boot_draw;      ///< of those that came later, and are apart from these, too
  const double share;  ///< of EC2's buckets that each manager is told to take
  sim::NoHardware hardware;
  sim::Region region;
  sim::QueryFront front;
  sim::RegionTransport door;
  Trace trace;
  core::Desired desired;
  manager::ObserverOptions observer;  ///< the same for every process
  Invariants invariants;
  Guests guests;
  LedgerShelf ledgers;
  Coverage coverage;
  EventQueue events;
  Instant forged_at{};                ///< when somebody last wrote to the queue
  std::optional<Instant> begun_anew;  ///< when the operator last removed a frozen manager's ledger
  std::set<std::string> warned;       ///< instances that EC2, a forger or the operator said may go
  int reports_lost = 0;        ///< so many of the next reports, or their answers, do not arrive
  int reports_doubled = 0;     ///< so many arrive a second time, later
  int reports_late = 0;        ///< so many arrive out of order
  bool signed_hellos = false;  ///< the manager has the certificates of instances' identities
  std::string others_pool;     ///< the pool that other people launch for; empty: none
  int surplus = 0;  ///< so many more than its nodes, where an Auto Scaling group launches
  std::string last_fault;
  bool lifted = false;
  std::string never_offered;  ///< the type that EC2 has none of, also when the faults stop
  std::optional<Instant> base_changed_at;  ///< when instances were to be launched from another AMI
  std::set<std::string> untagged;          ///< volumes that lack tags which people took away
  std::set<std::string> untagged_instances;
  Instant settled_at{};
  bool two_managers = false;   ///< there are two, or were until the faults stopped
  bool second_wanted = false;  ///< the second one has not been stopped yet
  bool replicas = false;       ///< some servers are behind
  Milliseconds stale_by{0};    ///< answers show a world that is as old as this

 private:
  void make_spec();
  void draw_launch(core::PoolSpec& pool);
  void make_neighbours();
  void schedule_faults();
  void schedule_base_change();
  void start(Host& host);
  void bury(Host& host);
  ProcessSetup setup_of(Host& host);
  void effect(Host& host, const char* what);
  void before_look(Host& host, const std::string& body);
  void note_way(const std::string& action, const aws::Form& form);
  void before_call(Host& host, const aws::Form& form, const std::string& body);
  void after_call(Host& host, const aws::Form& form, const Result<HttpReply>& reply);
  void tick(Host& host);
  void digest(Host& host, manager::TickReport report);
  void open_door(Host& host);
  void publish_known(Host& host, const manager::TickReport& report);
  /// News on the board: the next tick is soon.
  void heed_wake(Host& host);
  void hear_of_damage(Host& host, const std::string& instance_id);
  void hear_of_unmounted(const Guest& guest);
  void check_refusal(const Guest& guest);
  void ask_for_key(Guest& guest);
  void end_mute_instances();
  Instant time_of(const Host& host) const;
  std::function<Instant(const std::string&)> known_by(Host& host, const std::string& body);
  void run_due();
  Instant next_event() const;
  void live_until(Instant end, const std::function<bool()>& reached = {});
  void check_step();
  void check_limits(Host& host, const aws::Form& form, const std::string& body);
  void keep_others_pool();
  void tell_desired(Host& host);
  void finish_rollouts();
  bool rolling() const;
  void act_as_operator();
  void act_on_notes(Host& host, const manager::TickReport& report);
  void lift();
  void settle();
  void trouble_template_end();
  Milliseconds bound() const;
  Milliseconds rollout_bound() const;
  std::string who_waits() const;
  void check_end();
  /// Which world the listing of this body would show now; 0: that cannot be told.
  std::uint64_t shown_version(const std::string& body) const;
  std::uint64_t too_young() const;
  void on_region_event(const std::string& text);

  std::vector<std::unique_ptr<Host>> hosts_;
  std::multimap<Instant, Deed> agenda_;
  std::vector<Deed> lifts_;
  Spending spending_;
  std::uint64_t seed_;
  Instant youngest_{};  ///< when something was last made
  std::map<std::string, int> released_others_;
  /// What the counts of the last check_step() followed from.
  struct Counted {
    std::uint64_t region = 0;
    std::uint64_t desired = 0;
    std::size_t copied = 0;
    std::size_t unknowable = 0;
    bool counts = false;
    bool operator==(const Counted&) const = default;
  };
  Counted counted_;
  std::uint64_t desired_version_ = 1;
};

}  // namespace warmroot::fleet
