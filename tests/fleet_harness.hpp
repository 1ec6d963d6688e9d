// The real reconciler, ledger, client and codec on the simulated region in one process, under
// virtual time, with the design's invariants checked at every call. Tests of the reconciler stand
// on it; fleet-wide simulation can.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/fleet_invariants.hpp"
#include "tests/fleet_process.hpp"
#include "tests/sim/query.hpp"
#include "tests/sim/region.hpp"
#include "tests/sim/region_transport.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot {

inline const Instant kFleetStart{std::chrono::hours{24 * 20'000}};
inline constexpr const char* kDeployment = "research";
inline constexpr const char* kVolumeAmi = "ami-01000000000000001";
inline constexpr const char* kBaseAmi = "ami-02000000000000002";

inline core::PoolSpec pool_spec(const std::string& name, int nodes, int running,
                                std::vector<std::string> zones = {"us-east-1a"}) {
  core::PoolSpec pool;
  pool.name = name;
  pool.ami = kVolumeAmi;
  pool.zones = std::move(zones);
  pool.nodes = nodes;
  pool.running = running;
  pool.launch = core::LaunchSpec{};
  pool.launch->base_ami = kBaseAmi;
  pool.launch->instance_types = {"g5.xlarge"};
  return pool;
}

class Fleet : public ManagerProcess {
 public:
  explicit Fleet(core::Desired desired_, sim::RegionTimes times = {})
      : desired(std::move(desired_)),
        region(sim::builtin_catalog("us-east-1", {"us-east-1a", "us-east-1b"}), times, hardware,
               kFleetStart),
        front(region),
        door(front),
        invariants(region, desired.deployment) {
    invariants.gave_back = [this](const std::string& instance, const std::string&) {
      const auto latest = reports.find(instance);
      return latest != reports.end() ? latest->second.stage == NodeStage::released
                                     : released.contains(instance);
    };
  }
  explicit Fleet(core::PoolSpec pool) : Fleet(core::Desired{kDeployment, {std::move(pool)}}) {}

  // ---- the manager's process ----

  /// Starts a manager on what is left of its ledger. Nodes repeat their last word, so it knows
  /// `reports` at once; fleet_sim is where words get lost.
  void start() {
    stop();
    ProcessSetup made;
    made.options.desired = desired;
    made.options.now = [this] { return region.now(); };
    made.options.reports = [this] {
      region.advance_by(std::exchange(frozen_after_look, Milliseconds{0}));
      if (before_reports) before_reports();
      return reports;
    };
    made.options.heard = heard;
    made.options.observer = observer;
    made.options.budget_share = budget_share;
    made.ledger_path = ledger_path();
    made.door = &door;
    made.sleep = [this](Milliseconds wait) { region.advance_by(wait); };
    made.hooks.effect = [this](const char* what) {
      if (std::string_view(what) != kBeforeRead) effect();
    };
    made.hooks.before_call = [this](const aws::Form& form, const std::string& body) {
      invariants.check_call({spy.get()}, form, body);
    };
    made.hooks.after_call = [this](const aws::Form&, const Result<HttpReply>&) {
      invariants.counts = !people_interfere;
      invariants.check_counts(desired);
    };
    CHECK(ManagerProcess::start(std::move(made)).has_value());
  }
  void lose_ledger() {
    stop();
    remove_ledger(ledger_path());
  }

  manager::TickReport tick() {
    auto report = reconciler->tick();
    if (!report) violations.push_back("tick failed: " + report.error().message());
    CHECK(report.has_value());
    last = *report;
    return last;
  }

  /// Ticks and lets time pass until the plan is stable; false after `limit` of virtual time.
  bool until_stable(Milliseconds limit = std::chrono::minutes{10}) {
    return until([this] { return last.plan.stable; }, limit);
  }
  bool until(const std::function<bool()>& reached, Milliseconds limit = std::chrono::minutes{10}) {
    const Instant end = region.now() + limit;
    while (region.now() < end) {
      if (on_tick) on_tick();
      tick();
      if (reached()) return true;
      region.advance_by(last.plan.next_look);
    }
    return false;
  }

  /// One more thing done that a crash could follow; dies when it is the one chosen.
  void effect() {
    if (++effects == die_at) throw Crash{};
  }

  /// For a pool that launches none itself.
  bool launch_by_people(const std::string& pool) {
    sim::RunInstancesArgs args;
    args.image_id = kBaseAmi;
    args.type = "g5.xlarge";
    args.zone = "us-east-1a";
    args.instance_tags = {{"warmroot:pool", pool}};
    return region.run_instances(args).has_value();
  }

  // ---- what the region holds ----

  std::vector<const sim::VolumeRecord*> pool_volumes() const {
    std::vector<const sim::VolumeRecord*> found;
    for (const auto& [id, volume] : region.volumes())
      if (volume.tags.contains("warmroot:node") && !volume.tags.contains("warmroot:retired") &&
          volume.state != sim::DiskState::deleting)
        found.push_back(&volume);
    return found;
  }
  /// Spares and golden volumes.
  std::vector<const sim::VolumeRecord*> stock_volumes() const {
    std::vector<const sim::VolumeRecord*> found;
    for (const auto& [id, volume] : region.volumes())
      if (volume.tags.contains("warmroot:role") && !volume.tags.contains("warmroot:node") &&
          volume.state != sim::DiskState::deleting && !volume.tags.contains("warmroot:quarantined"))
        found.push_back(&volume);
    return found;
  }
  std::vector<const sim::InstanceRecord*> live_instances() const {
    std::vector<const sim::InstanceRecord*> found;
    for (const auto& [id, instance] : region.instances())
      if (instance.state == sim::GuestState::pending || instance.state == sim::GuestState::running)
        found.push_back(&instance);
    return found;
  }
  const sim::VolumeRecord* volume_of(const std::string& node) const {
    for (const auto* volume : pool_volumes())
      if (volume->tags.at("warmroot:node") == node) return volume;
    return nullptr;
  }
  std::string instance_of(const std::string& node) const {
    const auto* volume = volume_of(node);
    return volume && volume->link ? volume->link->instance_id : "";
  }
  int calls_of(const std::string& action) const {
    int count = 0;
    for (const auto& call : front.calls())
      if (call.action == action && call.effective) ++count;
    return count;
  }
  std::string note_text() const {
    std::string text;
    for (const auto& note : last.plan.notes) text += note.text + "\n";
    return text;
  }
  void report(const std::string& instance, const std::string& volume, NodeStage stage) {
    reports[instance] = {instance, volume, stage, "", region.now(), "", ""};
    if (stage == NodeStage::released) released.insert(instance);
  }

  std::string ledger_path() const { return directory.path() + "/ledger.sqlite"; }

  core::Desired desired;
  double budget_share = core::Budget::kDefaultShare;
  manager::ObserverOptions observer;
  sim::NoHardware hardware;
  sim::Region region;
  sim::QueryFront front;
  sim::RegionTransport door;
  TemporaryDirectory directory;
  Invariants invariants;
  std::function<core::Heard()> heard;  ///< of the next process; absent: nobody listens
  std::map<std::string, core::NodeReport> reports;
  std::set<std::string> released;  ///< instances that ever said so
  manager::TickReport last;
  std::function<void()> on_tick;
  std::vector<std::string>& violations = invariants.violations;
  int effects = 0;
  std::function<void()> before_reports;
  Milliseconds frozen_after_look{0};  ///< the process stands still once, after it has looked
  int die_at = 0;                     ///< 0: never
  bool people_interfere =
      false;  ///< then counts of instances and volumes are not the manager's alone
};

/// Calls of the action that EC2 has heard, dry runs and refused ones too.
inline int calls_seen(const Fleet& fleet, const std::string& action) {
  int count = 0;
  for (const auto& call : fleet.front.calls()) count += call.action == action;
  return count;
}

}  // namespace warmroot
