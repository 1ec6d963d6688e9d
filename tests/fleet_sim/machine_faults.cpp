// What goes wrong with instances, volumes, zones, notices and reports.
#include "tests/fleet_sim/catalogue.hpp"
#include "tests/fleet_sim/world.hpp"

namespace warmroot::fleet {

namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// ---- machines ----

bool pending_forever(World& world) {
  world.region.knobs.pending_for_ever += world.draw.between(1, 2);
  return true;
}

bool launch_fails(World& world) {
  world.region.knobs.failing_launches += world.draw.between(1, 3);
  world.region.knobs.launch_failure =
      world.draw.percent(50) ? "Server.InternalError" : "Server.InsufficientInstanceCapacity";
  return true;
}

/// No capacity, or little, for one type or all, in one zone or all, for a while or to the end.
bool capacity(World& world, std::vector<std::string> types, std::vector<std::string> zones,
              int room, Milliseconds lasts) {
  for (const auto& type : types)
    for (const auto& zone : zones) world.region.knobs.capacity[{type, zone}] = room;
  world.spell(lasts, [&world] { world.region.knobs.capacity.clear(); });
  // Somebody has to want an instance for it to be felt.
  if (const auto* instance = world.some_instance()) std::ignore = world.region.crash(instance->id);
  return true;
}

bool no_capacity(World& world) {
  return capacity(world, {"*"}, {"us-east-1a", "us-east-1b"}, 0,
                  world.draw.span(seconds{20}, minutes{4}));
}
bool no_capacity_in_zone(World& world) {
  const auto lasts = world.draw.span(seconds{20}, minutes{4});
  return capacity(world, {"*"}, {world.some_zone()}, 0, lasts);
}
bool little_capacity(World& world) {
  const auto lasts = world.draw.span(seconds{20}, minutes{4});
  const int room = world.draw.between(1, 2);
  return capacity(world, {"*"}, {world.some_zone()}, room, lasts);
}
/// Of one type there will never be any, also after the other faults; or of all, to their end.
bool no_capacity_for_ever(World& world) {
  if (world.draw.percent(50))
    return capacity(world, {"*"}, {"us-east-1a", "us-east-1b"}, 0, minutes{1000});
  world.never_offered = world.draw.percent(50) ? "g5.xlarge" : "m5.large";
  return capacity(world, {world.never_offered}, {"us-east-1a", "us-east-1b"}, 0, minutes{1000});
}

const sim::InstanceRecord* running(World& world) {
  return world.some_instance([](const sim::InstanceRecord& instance) {
    return instance.state == sim::GuestState::running;
  });
}

bool impaired_host(World& world) {
  const auto* instance = running(world);
  return instance && world.region.impair(instance->id).has_value();
}

bool stopped_instance(World& world) {
  const auto* instance = running(world);
  return instance && world.region.stop(instance->id).has_value();
}

bool power_cut(World& world) {
  const auto* instance = world.some_instance();
  return instance && world.region.crash(instance->id).has_value();
}

/// Gone at one of the next calls, without any state in between.
bool gone_between_calls(World& world) {
  const auto* instance = world.some_instance();
  if (!instance) return false;
  world.later(world.draw.span(Milliseconds{0}, seconds{3}), [&world, id = instance->id] {
    if (world.draw.percent(50))
      std::ignore = world.region.end_now(id);
    else
      std::ignore = world.region.terminate_instances({id});
  });
  return true;
}

bool reclaimed_while_detaching(World& world) {
  world.region.knobs.reclaimed_while_detaching += 1;
  const auto* instance = running(world);
  Guest* guest = instance ? world.guests.find(instance->id) : nullptr;
  if (!guest) return false;
  world.guests.drain(*guest);
  return true;
}

bool bootstrap_fails(World& world) {
  world.guests.failing_bootstraps += world.draw.between(1, 3);
  if (const auto* instance = world.some_instance()) std::ignore = world.region.crash(instance->id);
  return true;
}

/// Every bootstrap of a spell, and people end those instances: nobody gets a session from them.
void end_failed(World& world, Instant until) {
  if (world.lifted || world.region.now() > until) return;
  for (const auto& id : world.guests.failed()) std::ignore = world.region.terminate_instances({id});
  world.later(seconds{30}, [&world, until] { end_failed(world, until); });
}

bool bootstrap_always_fails(World& world) {
  world.guests.all_fail = true;
  const auto lasts = world.draw.span(minutes{2}, minutes{9});
  world.spell(lasts, [&world] { world.guests.all_fail = false; });
  if (world.draw.percent(70)) end_failed(world, world.region.now() + lasts);
  if (const auto* instance = world.some_instance()) std::ignore = world.region.crash(instance->id);
  return true;
}

bool zone_impaired(World& world) {
  const auto zone = world.some_zone();
  if (!world.region.impair_zone(zone, true)) return false;
  world.spell(world.draw.span(seconds{20}, minutes{5}),
              [&world, zone] { std::ignore = world.region.impair_zone(zone, false); });
  return true;
}

// ---- volumes ----

/// Volumes are made only when one is missing: somebody deletes one, or the start is not over.
void want_a_volume(World& world) {
  const auto* volume =
      world.some_volume([](const sim::VolumeRecord& each) { return !each.link.has_value(); });
  if (volume) world.delete_by_hand(volume->id);
}

bool create_ends_in_error(World& world) {
  world.region.knobs.failing_creates += world.draw.between(1, 3);
  want_a_volume(world);
  return true;
}

bool create_vanishes(World& world) {
  world.region.knobs.vanishing_creates += world.draw.between(1, 3);
  want_a_volume(world);
  return true;
}

/// From now on volumes are made encrypted, and for a while their key may not be used.
bool kms_key_gone(World& world) {
  auto changed = world.desired;
  for (auto& pool : changed.pools) {
    pool.volumes.encrypted = true;
    pool.volumes.kms_key = "alias/research";
  }
  world.set_desired(changed);
  want_a_volume(world);
  world.later(world.draw.span(Milliseconds{0}, seconds{20}), [&world] {
    if (world.lifted) return;
    world.region.knobs.revoked_keys.insert("*");
    if (const auto* instance = world.some_instance())
      std::ignore = world.region.crash(instance->id);
    world.spell(world.draw.span(seconds{20}, minutes{4}),
                [&world] { world.region.knobs.revoked_keys.clear(); });
  });
  return true;
}

bool stuck_attaching(World& world) {
  world.region.knobs.stuck_attaches += world.draw.between(1, 2);
  if (const auto* instance = world.some_instance()) std::ignore = world.region.crash(instance->id);
  return true;
}

bool device_name_taken(World& world) {
  for (const char* name : {"sdf", "sdg"}) world.region.knobs.ami_devices.insert(name);
  world.spell(world.draw.span(minutes{1}, minutes{6}),
              [&world] { world.region.knobs.ami_devices.clear(); });
  if (const auto* instance = world.some_instance()) std::ignore = world.region.crash(instance->id);
  return true;
}

/// A person detaches and EC2 shows it free; the same name on the same instance then hangs.
bool device_name_sticks(World& world) {
  world.region.knobs.reused_device_sticks = true;
  world.spell(world.draw.span(minutes{2}, minutes{6}),
              [&world] { world.region.knobs.reused_device_sticks = false; });
  const auto* volume =
      world.some_volume([](const sim::VolumeRecord& each) { return each.link.has_value(); });
  return volume && world.region.detach_volume(volume->id, "", "", true).has_value();
}

/// A detach while it is mounted: it fires when the guest lets go, much later.
bool busy_detach(World& world) {
  const auto* volume =
      world.some_volume([](const sim::VolumeRecord& each) { return each.link.has_value(); });
  if (!volume) return false;
  world.guests.hanging += 1;
  return world.region.detach_volume(volume->id, volume->link->instance_id, "", false).has_value();
}

// ---- events ----

bool interrupt(World& world) {
  const auto* instance = world.some_instance();
  return instance && world.region.interrupt(instance->id).has_value();
}
/// EC2's hint that an instance is at risk; often no interruption follows.
bool rebalance_hint(World& world) {
  const auto* instance = world.some_instance([](const auto& each) { return each.spot(); });
  if (!instance || !world.region.recommend_rebalance(instance->id)) return false;
  world.warned.insert(instance->id);
  if (world.draw.percent(40))
    world.later(world.draw.span(seconds{1}, minutes{4}),
                [&world, id = instance->id] { std::ignore = world.region.interrupt(id); });
  return true;
}
bool notice_missing(World& world) {
  world.guests.notices_missing += 1;
  return interrupt(world);
}
bool notice_late(World& world) {
  world.guests.notices_late += 1;
  return interrupt(world);
}

/// The guest drains before EC2's notice, and again after it.
bool notice_doubled(World& world) {
  const auto* instance = running(world);
  Guest* guest = instance ? world.guests.find(instance->id) : nullptr;
  if (!guest) return false;
  world.guests.drain(*guest);
  world.later(world.draw.span(Milliseconds{0}, seconds{40}),
              [&world, id = guest->id] { std::ignore = world.region.interrupt(id); });
  return true;
}

bool notice_out_of_order(World& world) {
  world.reports_late += world.draw.between(1, 3);
  return interrupt(world);
}

bool storm(World& world) {
  const auto zone = world.some_zone();
  std::vector<std::string> ids;
  for (const auto& [id, instance] : world.region.instances())
    if (instance.zone == zone && !world.invariants.foreign.contains(id)) ids.push_back(id);
  for (const auto& id : ids) std::ignore = world.region.interrupt(id);
  return !ids.empty();
}

bool report_lost(World& world) {
  world.reports_lost += world.draw.between(1, 12);
  return interrupt(world);
}

bool report_doubled(World& world) {
  world.reports_doubled += world.draw.between(1, 6);
  return interrupt(world);
}

const sim::InstanceRecord* serving(World& world) {
  return world.some_instance([&](const sim::InstanceRecord& each) {
    const Guest* guest = world.guests.find(each.id);
    return guest && !guest->over && !guest->volume_id.empty();
  });
}

/// Somebody without the key says that a node has released its volume; or asks for a key in the
/// name of an instance that has one, without that instance's identity.
bool report_forged(World& world) {
  const auto* instance = serving(world);
  Guest* victim = instance ? world.guests.find(instance->id) : nullptr;
  if (!victim || victim->key.empty()) return false;
  Guest liar = *victim;
  liar.key.assign(victim->key.size(), 'k');
  liar.sequence += static_cast<std::uint64_t>(world.draw.between(0, 1000));
  core::NodeReport report;
  report.instance_id = victim->id;
  report.volume_id = victim->volume_id;
  report.stage = world.draw.percent(70) ? NodeStage::released : NodeStage::failed;
  auto letter = letter_of(liar, report);
  if (world.draw.percent(20)) letter.signature.clear();
  const auto answer = world.post(letter);
  if (answer.status == 200)
    world.invariants.violated(10, "a report that " + victim->id + " did not sign is taken");
  if (world.signed_hellos && world.say_hello(victim->id, "", "10.9.9.9").status == 200)
    world.invariants.violated(10, "a stranger gets the key of " + victim->id);
  return answer.status != 0;
}

/// An instance speaks of a volume that it had before: by a delayed report, or after its own end.
bool report_from_dead_lease(World& world) {
  const auto* instance = world.some_instance();
  const auto* volume = world.some_volume([&](const sim::VolumeRecord& each) {
    return !each.link || !instance || each.link->instance_id != instance->id;
  });
  Guest* guest = instance ? world.guests.find(instance->id) : nullptr;
  if (!guest || !volume || guest->key.empty()) return false;
  core::NodeReport report;
  report.instance_id = instance->id;
  report.volume_id = volume->id;
  const std::vector<NodeStage> stages = {NodeStage::released, NodeStage::released, NodeStage::ready,
                                         NodeStage::disk_seen};
  report.stage = world.draw.pick(stages);
  world.say("report of a dead lease: " + instance->id + " about " + volume->id);
  if (report.stage == NodeStage::released) world.warned.insert(instance->id);  // by its own word
  const auto letter = letter_of(*guest, report);
  if (world.draw.percent(60)) return world.post(letter).status != 0;
  std::ignore = world.region.end_now(instance->id);
  world.later(world.draw.span(milliseconds{100}, minutes{1}),
              [&world, letter] { std::ignore = world.post(letter); });
  return true;
}

/// The operator runs `warmroot-bootstrap down` on a node.
bool operator_downs(World& world) {
  const auto* instance = running(world);
  Guest* guest = instance ? world.guests.find(instance->id) : nullptr;
  if (!guest || guest->over) return false;
  world.guests.drain(*guest);
  return true;
}

/// An Auto Scaling group is told another number, or evens its zones out: it ends what it likes.
bool group_scales(World& world) {
  const auto* pool = find_spec(world.desired, world.others_pool);
  if (!pool || pool->auto_scaling_group.empty()) return false;
  world.surplus = world.draw.below(3);
  const auto* instance = world.some_instance([](const sim::InstanceRecord& each) {
    return each.tags.contains("aws:autoscaling:groupName");
  });
  return instance && world.region.end_now(instance->id).has_value();
}

}  // namespace

const std::vector<FaultEntry>& machine_faults() {
  static const std::vector<FaultEntry> faults = {
      {"pending_forever", "machines", pending_forever},
      {"launch_fails", "machines", launch_fails},
      {"no_capacity", "machines", no_capacity},
      {"no_capacity_in_zone", "machines", no_capacity_in_zone},
      {"little_capacity", "machines", little_capacity},
      {"no_capacity_for_ever", "machines", no_capacity_for_ever},
      {"impaired_host", "machines", impaired_host},
      {"stopped_instance", "machines", stopped_instance},
      {"power_cut", "machines", power_cut},
      {"gone_between_calls", "machines", gone_between_calls},
      {"reclaimed_while_detaching", "machines", reclaimed_while_detaching},
      {"bootstrap_fails", "machines", bootstrap_fails},
      {"bootstrap_always_fails", "machines", bootstrap_always_fails},
      {"zone_impaired", "machines", zone_impaired},
      {"create_ends_in_error", "volumes", create_ends_in_error},
      {"create_vanishes", "volumes", create_vanishes},
      {"kms_key_gone", "volumes", kms_key_gone},
      {"stuck_attaching", "volumes", stuck_attaching},
      {"device_name_taken", "volumes", device_name_taken},
      {"device_name_sticks", "volumes", device_name_sticks},
      {"busy_detach", "volumes", busy_detach},
      {"interrupt", "events", interrupt},
      {"rebalance_hint", "events", rebalance_hint},
      {"notice_missing", "events", notice_missing},
      {"notice_late", "events", notice_late},
      {"notice_doubled", "events", notice_doubled},
      {"notice_out_of_order", "events", notice_out_of_order},
      {"storm", "events", storm},
      {"report_lost", "events", report_lost},
      {"report_doubled", "events", report_doubled},
      {"report_forged", "events", report_forged},
      {"report_from_dead_lease", "events", report_from_dead_lease},
      {"operator_downs", "events", operator_downs},
      {"group_scales", "machines", group_scales, Needs::group},
  };
  return faults;
}

}  // namespace warmroot::fleet
