// The real reconciler, ledger, client and codec on the simulated region in one process, under
// virtual time, with the design's invariants checked at every call. Tests of the reconciler stand
// on it; fleet-wide simulation can.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "manager/aws/ec2_client.hpp"
#include "manager/aws/form.hpp"
#include "manager/core/token.hpp"
#include "manager/reconciler.hpp"
#include "tests/sim/query.hpp"
#include "tests/sim/region.hpp"
#include "tests/sim/region_transport.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot {

inline const Instant kFleetStart{std::chrono::hours{24 * 20'000}};
inline constexpr const char* kDeployment = "research";
inline constexpr const char* kVolumeAmi = "ami-01000000000000001";
inline constexpr const char* kBaseAmi = "ami-02000000000000002";

/// Thrown where a test lets the manager's process die.
struct Crash {};

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

class Fleet;

/// Checks each call against the design's invariants before the region sees it, and dies on command.
class WatchedTransport : public aws::Transport {
 public:
  explicit WatchedTransport(Fleet& fleet) : fleet_(fleet) {}
  std::vector<Result<HttpReply>> post(std::span<const std::string> bodies) override;

 private:
  void check(const std::string& body);
  void check_attach(const aws::Form& form);
  void check_detach(const aws::Form& form);
  void check_terminate(const aws::Form& form);
  void check_counts();
  Fleet& fleet_;
};

class Fleet {
 public:
  explicit Fleet(core::Desired desired_, sim::RegionTimes times = {})
      : desired(std::move(desired_)),
        region(sim::builtin_catalog("us-east-1", {"us-east-1a", "us-east-1b"}), times, hardware,
               kFleetStart),
        front(region),
        door(front) {}
  explicit Fleet(core::PoolSpec pool) : Fleet(core::Desired{kDeployment, {std::move(pool)}}) {}

  // ---- the manager's process ----

  /// Starts a manager on what is left of its ledger.
  void start() {
    stop();
    auto opened = manager::Ledger::open(ledger_path(), {kDeployment, "us-east-1"}, region.now());
    CHECK(opened.has_value());
    ledger = std::make_unique<manager::Ledger>(std::move(*opened));
    ledger->on_write = [this](const char*) { effect(); };
    auto spy_opened = manager::Database::open(ledger_path());
    CHECK(spy_opened.has_value());
    spy = std::make_unique<manager::Database>(std::move(*spy_opened));
    transport = std::make_unique<WatchedTransport>(*this);
    client = std::make_unique<aws::Ec2Client>(
        *transport, [this](Milliseconds wait) { region.advance_by(wait); }, [] { return 0.5; });
    manager::ReconcilerOptions options;
    options.desired = desired;
    options.now = [this] { return region.now(); };
    options.reports = [this] {
      region.advance_by(std::exchange(frozen_after_look, Milliseconds{0}));
      return reports;
    };
    options.observer = observer;
    reconciler = std::make_unique<manager::Reconciler>(*client, *ledger, std::move(options));
  }
  void stop() {
    reconciler.reset();
    client.reset();
    transport.reset();
    ledger.reset();
    spy.reset();
  }
  void lose_ledger() {
    stop();
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(ledger_path() + suffix);
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

  // ---- what the region holds ----

  std::vector<const sim::VolumeRecord*> pool_volumes() const {
    std::vector<const sim::VolumeRecord*> found;
    for (const auto& [id, volume] : region.volumes())
      if (volume.tags.contains("warmroot:node") && volume.state != sim::DiskState::deleting)
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
  void report(const std::string& instance, const std::string& volume, core::NodeStage stage) {
    reports[instance] = {instance, volume, stage, "", region.now(), ""};
    if (stage == core::NodeStage::released) released.insert(instance);
  }

  std::string ledger_path() const { return directory.path() + "/ledger.sqlite"; }

  core::Desired desired;
  manager::ObserverOptions observer;
  sim::NoHardware hardware;
  sim::Region region;
  sim::QueryFront front;
  sim::RegionTransport door;
  TemporaryDirectory directory;
  std::unique_ptr<manager::Ledger> ledger;
  std::unique_ptr<manager::Database> spy;  ///< reads what is committed
  std::unique_ptr<WatchedTransport> transport;
  std::unique_ptr<aws::Ec2Client> client;
  std::unique_ptr<manager::Reconciler> reconciler;
  std::map<std::string, core::NodeReport> reports;
  std::set<std::string> released;  ///< instances that ever said so
  manager::TickReport last;
  std::function<void()> on_tick;
  std::vector<std::string> violations;
  int effects = 0;
  Milliseconds frozen_after_look{0};  ///< the process stands still once, after it has looked
  int die_at = 0;                     ///< 0: never
  bool people_interfere =
      false;  ///< then counts of instances and volumes are not the manager's alone
};

inline std::vector<Result<HttpReply>> WatchedTransport::post(std::span<const std::string> bodies) {
  bool mutating = false;
  for (const auto& body : bodies) {
    const auto form = aws::parse_form(body);
    if (aws::is_read(aws::form_value(form, "Action"))) continue;
    mutating = true;
    check(body);
  }
  if (!mutating) return fleet_.door.post(bodies);
  fleet_.effect();
  // One by one, so that a crash can also fall between two calls that go out together.
  std::vector<Result<HttpReply>> replies;
  for (const auto& body : bodies) {
    auto reply = fleet_.door.post({&body, 1});
    replies.push_back(std::move(reply.front()));
    check_counts();
    fleet_.effect();
  }
  return replies;
}

inline void WatchedTransport::check(const std::string& body) {
  const auto form = aws::parse_form(body);
  const std::string action(aws::form_value(form, "Action"));
  const auto rows = fleet_.spy->query(
      "SELECT id FROM intents WHERE body = ? AND state IN ('open', 'unknown')", {body});
  if (!rows || rows->empty())
    fleet_.violations.push_back("(6) " + action + " was not recorded before it was sent");
  if (action == "DeleteVolume") fleet_.violations.push_back("(3) DeleteVolume");
  if (action == "AttachVolume") check_attach(form);
  if (action == "DetachVolume") check_detach(form);
  if (action == "TerminateInstances") check_terminate(form);
}

inline void WatchedTransport::check_attach(const aws::Form& form) {
  const std::string volume_id(aws::form_value(form, "VolumeId"));
  const std::string instance_id(aws::form_value(form, "InstanceId"));
  const auto* volume = fleet_.region.volume(volume_id);
  const auto* instance = fleet_.region.instance(instance_id);
  if (!volume || !instance) return;
  const auto text = volume_id + " to " + instance_id;
  // A replay of an attach that took effect finds its own attachment; any other is a second one.
  if (volume->link && volume->link->instance_id != instance_id)
    fleet_.violations.push_back("(1) attach of attached " + text);
  const auto leases = fleet_.spy->query(
      "SELECT id FROM leases WHERE volume_id = ? AND instance_id <> ? AND state IN "
      "('attaching', 'checking', 'active', 'leaving')",
      {volume_id, instance_id});
  if (!leases || !leases->empty()) fleet_.violations.push_back("(1) attach of leased " + text);
  if (volume->zone != instance->zone) fleet_.violations.push_back("(4) across zones: " + text);
  for (const auto* other : fleet_.pool_volumes())
    if (other->id != volume_id && other->link && other->link->instance_id == instance_id)
      fleet_.violations.push_back("(2) a second volume: " + text);
}

inline void WatchedTransport::check_detach(const aws::Form& form) {
  const std::string volume_id(aws::form_value(form, "VolumeId"));
  const std::string instance_id(aws::form_value(form, "InstanceId"));
  if (instance_id.empty()) fleet_.violations.push_back("(10) detach without an instance");
  const auto* volume = fleet_.region.volume(volume_id);
  const auto* instance = fleet_.region.instance(instance_id);
  if (!volume || !volume->link || !instance) return;
  if (instance->state != sim::GuestState::running) return;
  const auto report = fleet_.reports.find(instance_id);
  const bool released = report != fleet_.reports.end()
                            ? report->second.stage == core::NodeStage::released
                            : fleet_.released.contains(instance_id);
  const bool stuck = volume->link->state == sim::LinkState::attaching &&
                     fleet_.region.now() - volume->link->attach_time >= std::chrono::seconds{90};
  if (!released && !stuck)
    fleet_.violations.push_back("(10) detach of " + volume_id + " from running " + instance_id);
}

inline void WatchedTransport::check_terminate(const aws::Form& form) {
  for (const auto& [key, id] : form) {
    if (!key.starts_with("InstanceId")) continue;
    const auto* instance = fleet_.region.instance(id);
    if (!instance) continue;
    if (!core::is_own_token(kDeployment, instance->client_token))
      fleet_.violations.push_back("(11) we did not launch " + id);
    for (const auto* volume : fleet_.pool_volumes())
      if (volume->link && volume->link->instance_id == id && volume->link->delete_on_termination)
        fleet_.violations.push_back("(12) " + volume->id + " would be deleted with " + id);
  }
}

/// (5): no more volumes than nodes, no more running instances than wanted and one per handover.
inline void WatchedTransport::check_counts() {
  if (fleet_.people_interfere) return;
  std::size_t nodes = 0;
  std::size_t instances = 0;
  for (const auto& pool : fleet_.desired.pools) {
    nodes += static_cast<std::size_t>(pool.nodes);
    if (pool.launch) instances += 2 * static_cast<std::size_t>(pool.running);
  }
  if (fleet_.pool_volumes().size() > nodes)
    fleet_.violations.push_back("(5) " + std::to_string(fleet_.pool_volumes().size()) +
                                " volumes for " + std::to_string(nodes) + " nodes");
  std::size_t ours = 0;
  for (const auto* instance : fleet_.live_instances())
    if (core::is_own_token(kDeployment, instance->client_token)) ++ours;
  if (ours > instances) fleet_.violations.push_back("(5) too many instances");
}

}  // namespace warmroot
