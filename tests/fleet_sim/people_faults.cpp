// What people do: to volumes and instances behind the manager's back, to tags, to the spec. And
// what happens to the manager itself.

#include "manager/aws/form.hpp"
#include "tests/fleet_sim/catalogue.hpp"
#include "tests/fleet_sim/world.hpp"

namespace warmroot::fleet {

namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

bool linked(const sim::VolumeRecord& volume) {
  return volume.link.has_value();
}

bool person_detaches(World& world) {
  const auto* volume = world.some_volume(linked);
  if (!volume) return false;
  return world.region.detach_volume(volume->id, "", "", world.draw.percent(40)).has_value();
}

/// Somebody takes a free volume to a machine of his own, and gives it back some time later.
bool person_attaches_elsewhere(World& world) {
  const auto* volume = world.some_volume(available);
  if (!volume) {
    volume = world.some_volume(linked);
    if (!volume || !world.region.detach_volume(volume->id, "", "", true)) return false;
  }
  const std::string id = volume->id;
  sim::RunInstancesArgs args;
  args.image_id = "ami-02000000000000002";
  args.type = "m5.large";
  args.zone = volume->zone;
  const auto made = world.region.run_instances(args);
  if (!made) return false;
  const std::string theirs = made->front().id;
  world.invariants.foreign.insert(theirs);
  world.later(world.draw.span(seconds{6}, seconds{12}), [&world, id, theirs] {
    if (world.lifted) return;
    std::ignore = world.region.attach_volume(id, theirs, "/dev/sdf");
  });
  world.spell(world.draw.span(seconds{30}, minutes{4}),
              [&world, theirs] { std::ignore = world.region.terminate_instances({theirs}); });
  return true;
}

bool person_deletes_volume(World& world) {
  const auto* volume = world.some_volume(available);
  if (!volume) {
    // The node's instance ends, and before its successor is there the volume is deleted.
    const auto* instance = world.some_instance();
    if (!instance) return false;
    std::ignore = world.region.end_now(instance->id);
    volume = world.some_volume(available);
  }
  return volume && world.delete_by_hand(volume->id);
}

bool person_terminates(World& world) {
  const auto* instance = world.some_instance();
  return instance && world.region.terminate_instances({instance->id}).has_value();
}

bool ask(World& world, const aws::Form& form) {
  aws::Form full = form;
  full.emplace_back("Version", "2016-11-15");
  return world.front.answer(aws::encode_form(full)).status == 200;
}

bool person_flips_delete_flag(World& world) {
  const auto* volume = world.some_volume(linked);
  if (!volume) return false;
  // His answer may be lost too, and time passes until it comes.
  const std::string id = volume->id;
  auto& flagged = world.invariants.flagged[id];
  flagged = world.region.now();
  const bool done = ask(world, {{"Action", "ModifyInstanceAttribute"},
                                {"InstanceId", volume->link->instance_id},
                                {"BlockDeviceMapping.1.DeviceName", volume->link->device},
                                {"BlockDeviceMapping.1.Ebs.DeleteOnTermination", "true"}});
  flagged = world.region.now();
  return done;
}

void protect(World& world, const std::string& id, bool on) {
  ask(world, {{"Action", "ModifyInstanceAttribute"},
              {"InstanceId", id},
              {"DisableApiTermination.Value", on ? "true" : "false"}});
}

/// People try again when EC2 does not take it.
void unprotect(World& world, const std::string& id) {
  protect(world, id, false);
  const auto* instance = world.region.instance(id);
  if (instance && instance->api_termination_disabled)
    world.later(seconds{10}, [&world, id] { unprotect(world, id); });
}

/// And then the instance should go.
bool person_protects(World& world) {
  const auto* instance = world.some_instance();
  if (!instance) return false;
  const std::string id = instance->id;
  protect(world, id, true);
  if (!world.region.instance(id)->api_termination_disabled) return false;
  if (world.draw.percent(60)) std::ignore = world.region.impair(id);
  world.spell(world.draw.span(seconds{30}, minutes{5}), [&world, id] { unprotect(world, id); });
  return true;
}

/// The manager that runs, if one does, has it in its ledger.
bool is_known(World& world, const std::string& volume_id) {
  const auto& ledger = world.host().process.ledger;
  if (!ledger) return false;
  const auto view = ledger->view();
  return view && view->volumes.contains(volume_id);
}

bool person_removes_tags(World& world) {
  const std::vector<std::string> keys = {"warmroot:deployment", "warmroot:pool", "warmroot:node",
                                         "warmroot:lineage"};
  const bool of_volume = world.draw.percent(60);
  const auto* volume = of_volume ? world.some_volume() : nullptr;
  const auto* instance = of_volume ? nullptr : world.some_instance();
  if (!volume && !instance) return false;
  const std::string id = volume ? volume->id : instance->id;
  // Two people would put back what each of them saw, and the first not what the manager has written
  // since, as that the volume is parked.
  if (world.untagged.contains(id)) return false;
  sim::Tags before = volume ? volume->tags : instance->tags;
  erase_if(before, [](const auto& tag) { return tag.first.starts_with("aws:"); });
  if (world.draw.percent(30)) {
    world.say("people remove all tags of " + id);
    std::ignore = world.region.delete_tags({id}, {});
    if (before.contains("warmroot:quarantined")) world.invariants.beyond_repair.erase(id);
  } else {
    const auto& key = world.draw.pick(keys);
    world.say("people remove tag " + key + " of " + id);
    std::ignore = world.region.delete_tags({id}, {{key, std::nullopt}});
  }
  if (volume) {
    world.untagged.insert(id);
    if (!is_known(world, id)) world.invariants.unknowable.insert(id);
  } else {
    world.untagged_instances.insert(id);
  }
  // He is told, and puts them back.
  world.spell(world.draw.span(seconds{30}, minutes{5}), [&world, id, before] {
    world.untagged.erase(id);
    world.untagged_instances.erase(id);
    world.invariants.unseen.erase(id);  // whoever begins finds it again
    if (world.region.volume(id) || world.region.instance(id))
      std::ignore = world.region.create_tags({id}, before);
  });
  return true;
}

/// A copy of a volume with all of its tags, as backup tools make them.
bool person_copies_tags(World& world) {
  const auto* volume = world.some_volume();
  if (!volume) return false;
  sim::CreateVolumeArgs args;
  args.zone = world.draw.percent(70) ? volume->zone : world.some_zone();
  // Those who launch for a pool by hand go on doing it in one zone: a node whose volume is deleted
  // would be served from a copy elsewhere by nobody.
  const auto pool = volume->tags.find(core::kTagPool);
  if (pool != volume->tags.end() && pool->second == world.others_pool) args.zone = volume->zone;
  args.snapshot_id = volume->snapshot_id;
  args.type = "gp3";
  args.tags = volume->tags;
  const auto made = world.region.create_volume(args);
  if (!made) return false;
  world.invariants.copied.insert(made->id);
  return true;
}

/// "Launch more like this": a machine of somebody's own with all tags of one of ours. Its owner
/// ends it some time later.
bool person_copies_instance_tags(World& world) {
  const auto* instance = world.some_instance();
  if (!instance) return false;
  sim::RunInstancesArgs args;
  args.image_id = instance->image_id;
  args.type = instance->type;
  args.zone = instance->zone;
  args.instance_tags = instance->tags;
  erase_if(args.instance_tags, [](const auto& tag) { return tag.first.starts_with("aws:"); });
  const auto made = world.region.run_instances(args);
  if (!made) return false;
  const std::string theirs = made->front().id;
  world.say("people launch " + theirs + " with the tags of " + instance->id);
  world.spell(world.draw.span(minutes{1}, minutes{6}),
              [&world, theirs] { std::ignore = world.region.terminate_instances({theirs}); });
  return true;
}

/// Between an intent and its replay, too: some calls get no answer first.
bool spec_changes(World& world) {
  if (world.draw.percent(50)) {
    for (const char* action : {"CreateVolume", "RunInstances", "AttachVolume"}) {
      sim::Fault fault;
      fault.action = action;
      fault.kind =
          world.draw.percent(50) ? sim::FaultKind::lost_after : sim::FaultKind::lost_before;
      fault.count = world.draw.between(1, 3);
      world.front.inject(fault);
    }
  }
  core::PoolSpec pool = world.desired.pools[static_cast<std::size_t>(
      world.draw.below(static_cast<int>(world.desired.pools.size())))];
  if (world.draw.percent(40)) pool.nodes = std::max(1, pool.nodes + world.draw.between(-1, 1));
  pool.running = world.draw.between(0, pool.nodes);
  // Only its numbers: what others have changed in the spec by then stays.
  world.later(world.draw.span(Milliseconds{0}, seconds{4}), [&world, pool] {
    auto changed = world.desired;
    auto* present = find_spec(changed, pool.name);
    if (world.lifted || !present) return;
    present->nodes = pool.nodes;
    present->running = pool.running;
    world.set_desired(changed);
  });
  // In the end somebody wants something of every pool.
  world.on_lift([&world] {
    auto last = world.desired;
    for (auto& each : last.pools) each.running = std::max(1, each.running);
    world.set_desired(last);
  });
  return true;
}

bool operator_pauses(World& world) {
  Host& host = world.host();
  if (!host.process.running() || host.in_tick) return false;
  const std::string pool = world.draw.percent(50) ? "p" : "q";
  if (!host.process.ledger->pause(pool, world.region.now() + host.clock_at_start)) return false;
  world.spell(world.draw.span(seconds{20}, minutes{4}), [&world, pool] {
    Host& then = world.host();
    const auto resume = [&world, pool] {
      Host& now = world.host();
      if (now.process.running())
        std::ignore = now.process.ledger->resume(pool, world.region.now() + now.clock_at_start);
    };
    if (then.process.running() && !then.in_tick)
      resume();
    else
      world.later(seconds{130}, resume);
  });
  return true;
}

bool order_release(World& world) {
  const auto* instance = world.some_instance();
  if (!instance || !world.place_order(core::OrderKind::release, instance->id)) return false;
  world.warned.insert(instance->id);
  return true;
}

/// And some time later it is returned, or not.
bool order_quarantine(World& world) {
  const auto* volume = world.some_volume(available);
  if (!volume) {
    const auto* instance = world.some_instance();
    if (!instance) return false;
    std::ignore = world.region.end_now(instance->id);
    volume = world.some_volume(available);
  }
  if (!volume || !world.place_order(core::OrderKind::quarantine, volume->id)) return false;
  if (world.draw.percent(50))
    world.later(world.draw.span(seconds{5}, minutes{3}), [&world, id = volume->id] {
      if (!world.region.volume(id) || !world.place_order(core::OrderKind::return_volume, id))
        return;
      world.invariants.beyond_repair.erase(id);
      world.invariants.copied.insert(id);  // its node has another one by now
    });
  return true;
}

bool order_delete(World& world) {
  const auto* volume = world.some_volume(world.draw.percent(70) ? available : attached);
  return volume && world.place_order(core::OrderKind::delete_volume, volume->id);
}

// ---- us ----

/// A process does not follow a step (manager/clock.hpp), but the next one begins with it.
bool clock_step(World& world) {
  Host& host = world.some_host();
  const auto size = world.draw.percent(50) ? world.draw.span(seconds{1}, minutes{5})
                                           : world.draw.span(minutes{5}, hours{3});
  const bool back = world.draw.percent(50);
  world.say(std::string("the clock steps ") + (back ? "back " : "on ") +
            std::to_string(size.count() / 1000) + " s");
  host.clock += back ? -size : size;
  if (world.draw.percent(70)) world.kill(host, world.draw.span(milliseconds{100}, seconds{20}));
  return true;
}

bool frozen(World& world) {
  Host& host = world.some_host();
  const auto lasts =
      world.draw.percent(50) ? minutes{10} : world.draw.span(seconds{20}, minutes{10});
  (world.draw.percent(50) ? host.freeze_after_look : host.freeze_after_record) = lasts;
  if (const auto* instance = world.some_instance()) std::ignore = world.region.crash(instance->id);
  return true;
}

/// Dies after so many more statements.
bool killed(World& world) {
  Host& host = world.some_host();
  if (!host.process.running()) return false;
  const auto down = world.draw.percent(70) ? world.draw.span(milliseconds{100}, seconds{5})
                                           : world.draw.span(seconds{5}, minutes{4});
  host.die_in = world.draw.between(1, 40);
  host.after_death = [&world, &host, down] {
    world.later(down, [&world, &host] { world.start_again(host); });
  };
  if (const auto* instance = world.some_instance(); instance && world.draw.percent(60))
    std::ignore = world.region.crash(instance->id);
  return true;
}

bool ledger_deleted(World& world) {
  Host& host = world.host();
  if (!host.process.running()) return false;
  world.kill(host, world.draw.span(milliseconds{100}, seconds{20}),
             [&world, &host] { world.forget_ledger(host); });
  return true;
}

/// A backup is made now; later, somebody puts it back.
bool ledger_restored(World& world) {
  Host& host = world.host();
  if (!host.process.running()) return false;
  const std::string copy = world.ledgers.new_name();
  if (!world.ledgers.copy(host.ledger_path, copy)) return false;
  world.later(world.draw.span(seconds{10}, minutes{5}), [&world, &host, copy] {
    if (world.lifted || !host.process.running()) return;
    world.say("an old copy of the ledger is put back");
    world.kill(host, world.draw.span(milliseconds{100}, seconds{20}), [&world, &host, copy] {
      world.forget_ledger(host);
      CHECK(world.ledgers.copy(copy, host.ledger_path).has_value());
    });
  });
  return true;
}

bool two_managers(World& world) {
  world.start_second_manager();
  world.spell(world.draw.span(seconds{20}, minutes{4}), [&world] { world.stop_second_manager(); });
  return true;
}

bool neighbour(World& world) {
  world.front.set_neighbour(0.3);
  world.spell(world.draw.span(minutes{1}, minutes{6}), [&world] { world.front.set_neighbour(0); });
  for (int i = 0; i < 2; ++i)
    if (const auto* instance = world.some_instance())
      std::ignore = world.region.crash(instance->id);
  return true;
}

}  // namespace

const std::vector<FaultEntry>& people_faults() {
  static const std::vector<FaultEntry> faults = {
      {"person_detaches", "people", person_detaches},
      {"person_attaches_elsewhere", "people", person_attaches_elsewhere},
      {"person_deletes_volume", "people", person_deletes_volume},
      {"person_terminates", "people", person_terminates},
      {"person_flips_delete_flag", "people", person_flips_delete_flag},
      {"person_protects", "people", person_protects},
      {"person_removes_tags", "people", person_removes_tags},
      {"person_copies_tags", "people", person_copies_tags},
      {"person_copies_instance_tags", "people", person_copies_instance_tags},
      {"spec_changes", "people", spec_changes},
      {"operator_pauses", "people", operator_pauses},
      {"order_release", "people", order_release},
      {"order_quarantine", "people", order_quarantine},
      {"order_delete", "people", order_delete},
  };
  return faults;
}

const std::vector<FaultEntry>& own_faults() {
  static const std::vector<FaultEntry> faults = {
      {"clock_step", "us", clock_step},
      {"frozen", "us", frozen},
      {"killed", "us", killed},
      {"ledger_deleted", "us", ledger_deleted},
      {"ledger_restored", "us", ledger_restored},
      {"two_managers", "us", two_managers},
      {"neighbour", "us", neighbour},
  };
  return faults;
}

}  // namespace warmroot::fleet
