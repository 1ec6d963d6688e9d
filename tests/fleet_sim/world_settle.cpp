// The end of the faults, and what has to be true some time after it.
#include <algorithm>

#include "manager/core/draft.hpp"
#include "manager/core/templates.hpp"
#include "manager/core/token.hpp"
#include "tests/fleet_sim/world.hpp"

namespace warmroot::fleet {

namespace {

using std::chrono::minutes;
using std::chrono::seconds;

/// The design's allowance over the bound.
constexpr minutes kAllowance{2};
/// Nodes of one zone that start from nothing: create 1.5 s, pending 5 s, boot 20 s, attach 2 s,
/// check 20 s, each with the region's jitter of a half, and a look between each.
constexpr seconds kFromNothing{65};
/// A guest asked to drain lets go within this time, hanging sessions included.
constexpr seconds kDrain{60};
/// How long what is left over may take to end after everybody is served.
constexpr minutes kTidyUp{8};

}  // namespace

/// Nodes that move to a volume of a new source go through an end and a start each, in turn.
Milliseconds World::rollout_bound() const {
  Milliseconds bound{0};
  for (const auto& pool : desired.pools) {
    if (pool.rollout.policy != core::RolloutSpec::Policy::replace) continue;
    const auto* image = region.image(pool.ami);
    for (const auto& [id, volume] : region.volumes())
      if (volume.tags.contains(core::kTagNode) && volume.tags.contains(core::kTagPool) &&
          volume.tags.at(core::kTagPool) == pool.name && image &&
          !volume.tags.contains(core::kTagRetired) && volume.snapshot_id != image->snapshot_id)
        bound +=
            kFromNothing + kDrain + region.times().shutting_down_max + spending_.wait_for_one();
  }
  return bound;
}

bool World::rolling() const {
  const auto& notes = hosts_[0]->last.plan.notes;
  return std::any_of(notes.begin(), notes.end(),
                     [](const core::Note& note) { return note.kind == core::NoteKind::rollout; });
}

/// A rollout that is under way when the run ends has some node between two volumes at any moment.
void World::finish_rollouts() {
  const bool under_way = rolling() || !who_waits().empty();
  if (rollout_bound() == Milliseconds{0} || !under_way) return;
  live_until(region.now() + rollout_bound() + kAllowance,
             [this] { return !rolling() && who_waits().empty(); });
  // Volumes may wait for their time to be read in full; the nodes are not kept waiting for that.
  live_until(region.now() + kFromNothing + kDrain + region.times().shutting_down_max + kAllowance,
             [this] { return who_waits().empty(); });
}

/// What EC2 and the guests still need for what the faults have left behind; then a start from
/// nothing, whose calls wait for the manager's share of EC2's buckets. Named waits of the manager
/// (a stuck attach, a dead host) are EC2's own.
Milliseconds World::bound() const {
  Milliseconds bound = kFromNothing + spending_.wait_for(0, options.nodes, region.now());
  bool notice = false;
  bool stuck = false;
  bool dead = false;
  bool ending = false;
  bool lost = false;
  for (const auto& [id, instance] : region.instances()) {
    if (instance.state == sim::GuestState::terminated) continue;
    notice |= instance.interrupted_at.has_value();
    dead |= instance.impaired || instance.unreachable || instance.never_runs;
    ending |= instance.state == sim::GuestState::shutting_down || notice || dead;
  }
  for (const auto& [id, volume] : region.volumes())
    if (volume.link) stuck |= volume.link->state == sim::LinkState::attaching;
  for (const auto& node : hosts_[0]->last.plan.nodes)
    lost |= !node.volume_id.empty() && !region.volume(node.volume_id);
  // A warning that nobody meant makes the node drain as one that was.
  notice |= forged_at != Instant{} && region.now() - forged_at < minutes{12};
  if (stuck) bound += seconds{95};
  if (dead) bound += seconds{150};
  if (lost) bound += seconds{60};
  if (notice) bound += region.times().notice;
  // Sessions that hang are waited for; afterwards the instance may still have to end.
  const auto drain = guests.longest_drain();
  ending |= drain > Milliseconds{0} || !guests.failed().empty();
  bound += drain;
  // Machines that start anew are waited for, and ended where they do not come back.
  const auto absence = guests.longest_absence();
  ending |= absence > Milliseconds{0} || !guests.missing().empty();
  bound += absence;
  if (guests.boots_behind_release()) {
    ending = true;
    Milliseconds patience{0};
    for (const auto& pool : desired.pools)
      patience = std::max(patience, core::drain_patience(pool));
    bound += patience;
  }
  if (ending) bound += region.times().shutting_down_max;
  return bound + rollout_bound();
}

void World::lift() {
  lifted = true;
  say("the faults stop");
  front.faults().clear();
  auto deeds = std::move(lifts_);
  lifts_.clear();
  for (const auto& deed : deeds) deed();
  reports_lost = reports_doubled = reports_late = 0;
  guests.notices_missing = guests.notices_late = guests.failing_bootstraps = guests.hanging = 0;
  guests.beyond_repair = guests.leaving_unmounted = 0;
  guests.all_fail = false;
  region.knobs = {};
  if (!never_offered.empty())
    for (const char* zone : kZones) region.knobs.capacity[{never_offered, zone}] = 0;
  stop_second_manager();
  two_managers = false;
  Host& host = *hosts_[0];
  host.die_in = 0;
  host.resumed = false;
  host.freeze_after_look = host.freeze_after_record = Milliseconds{0};
  end_mute_instances();
  if (!host.process.running()) start(host);
}

/// The first wanted node without a session; empty when all are served.
std::string World::who_waits() const {
  const auto& rows = hosts_[0]->last.plan.nodes;
  for (const auto& pool : desired.pools)
    for (int index = 0; index < pool.running; ++index) {
      const auto name = core::node_name(pool.name, index);
      const auto row = std::find_if(rows.begin(), rows.end(),
                                    [&](const core::NodeRow& each) { return each.node == name; });
      if (row == rows.end()) return name + " is not in the plan";
      const auto* volume = region.volume(row->volume_id);
      // A detach that somebody asked for waits until the guest lets go: the session goes on.
      const bool busy = volume && volume->link && volume->link->state == sim::LinkState::busy &&
                        guests.serves(volume->link->instance_id, volume->id);
      if (!volume || !volume->link || (volume->link->state != sim::LinkState::attached && !busy))
        return name + " (" + row->volume_id + ", " + std::string(describe(row->condition).word) +
               ")";
      const auto* instance = region.instance(volume->link->instance_id);
      if (!instance || instance->state != sim::GuestState::running || !instance->powered ||
          instance->interrupted_at)
        return name + " on a dying instance";
      if (!guests.serves(instance->id, volume->id))
        return name + " has no session on " + instance->id;
    }
  return {};
}

/// A template's grace ends long after the other faults: its deletion has some of its own.
void World::trouble_template_end() {
  const std::vector<sim::FaultKind> kinds = {
      sim::FaultKind::lost_after, sim::FaultKind::lost_before, sim::FaultKind::throttled,
      sim::FaultKind::internal_after, sim::FaultKind::unauthorized};
  sim::Fault fault{"DeleteLaunchTemplate", draw.pick(kinds)};
  fault.count = 1;
  front.inject(fault);
}

void World::settle() {
  lift();
  const auto allowed = bound() + kAllowance;
  const Instant start = region.now();
  const Instant deadline = start + allowed;
  const auto served = [this] {
    act_as_operator();
    return who_waits().empty();
  };
  live_until(deadline, served);
  // A frozen manager waits for its operator, who reads the note and acts; then all begins anew, the
  // time for it as well (seed 34000008155).
  if (!violated() && begun_anew && *begun_anew > start && !who_waits().empty())
    live_until(*begun_anew + allowed, served);
  if (violated()) return;
  if (const auto waits = who_waits(); !waits.empty() && !two_managers) {
    invariants.violated(8, waits + " is not served " +
                               std::to_string((region.now() - start).count() / 1000) +
                               " s after the faults stopped");
    for (const auto& note : hosts_[0]->last.plan.notes) say("note " + note.text);
    return;
  }
  settled_at = region.now();
  live_until(region.now() + kTidyUp, [this] {
    act_as_operator();
    return false;
  });
  // A second manager is long gone, and what it left is put right, but for volumes.
  invariants.count_again();
  // What an earlier spec launched from is deleted after its grace, and no sooner.
  if (base_changed_at && draw.percent(50)) trouble_template_end();
  if (base_changed_at)
    live_until(*base_changed_at + core::kTemplateGrace + kAllowance,
               [this] { return coverage.has("action", "DeleteLaunchTemplate accepted"); });
  finish_rollouts();
  if (!violated()) check_end();
}

void World::check_end() {
  if (const auto waits = who_waits(); !waits.empty() && !two_managers)
    invariants.violated(8, waits + " was served and is not any more");
  std::set<std::string> serving;
  for (const auto& [id, volume] : region.volumes())
    if (volume.link && volume.tags.contains(core::kTagNode))
      serving.insert(volume.link->instance_id);
  std::map<std::string, int> instances;
  for (const auto& [id, instance] : region.instances())
    if ((instance.state == sim::GuestState::running ||
         instance.state == sim::GuestState::pending) &&
        (core::is_own_launch(kDeployment, instance.client_token, instance.tags) ||
         serving.contains(id)))  // of people, whose tags make it one of the pool's
      ++instances[instance.tags.contains("warmroot:pool") ? instance.tags.at("warmroot:pool") : ""];
  for (const auto& pool : desired.pools)
    if (pool.launch && instances[pool.name] != pool.running)
      invariants.violated(5, std::to_string(instances[pool.name]) + " instances of " + pool.name +
                                 " at the end, not " + std::to_string(pool.running));
  for (const auto& [id, volume] : region.volumes())
    if (volume.link && volume.tags.contains("warmroot:node") && volume.link->delete_on_termination)
      invariants.violated(12, id + " would be deleted with its instance, at the end");
}

}  // namespace warmroot::fleet
