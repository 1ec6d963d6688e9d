// What operators wish: another source, tighter limits, a pool less, and what they order by hand.
#include "manager/core/device_names.hpp"
#include "manager/core/orphans.hpp"
#include "manager/pool_end.hpp"
#include "tests/fleet_sim/catalogue.hpp"
#include "tests/fleet_sim/world.hpp"
#include "tests/sim/event_bus.hpp"

namespace warmroot::fleet {

namespace {

using std::chrono::minutes;
using std::chrono::seconds;

void upset(World& world) {
  if (const auto* instance = world.some_instance()) std::ignore = world.region.crash(instance->id);
}

// ---- the spec ----

/// The pool's image is made anew; later perhaps somebody goes back to the old one.
bool newer_ami(World& world) {
  auto changed = world.desired;
  auto& pool = changed.pools[static_cast<std::size_t>(
      world.draw.below(static_cast<int>(changed.pools.size())))];
  pool.ami = pool.ami == kVolumeAmi ? kNewerAmi : kVolumeAmi;
  world.set_desired(changed);
  return true;
}

/// Less than what runs; in the end the limit is taken away.
bool limits_tighten(World& world) {
  const std::string name = "p";
  auto changed = world.desired;
  auto* pool = find_spec(changed, name);
  if (!pool || !pool->launch) return false;
  if (world.draw.percent(50))
    pool->launch->max_instances = world.draw.between(1, std::max(1, pool->running - 1));
  else
    pool->launch->max_price_hour = world.draw.percent(50) ? "0.05" : "0.6";
  world.set_desired(changed);
  world.spell(world.draw.span(seconds{30}, minutes{5}), [&world, name] {
    auto last = world.desired;
    if (auto* again = find_spec(last, name); again && again->launch) {
      again->launch->max_instances.reset();
      again->launch->max_price_hour.clear();
      world.set_desired(last);
    }
  });
  upset(world);
  return true;
}

/// What a command that looks by itself sees; no time passes meanwhile. Absent: EC2 did not answer.
std::optional<manager::TickReport> look_of_a_command(World& world) {
  const auto& process = world.host().process;
  auto options = process.setup().options;
  options.desired = world.desired;
  options.reports = {};
  options.heard = {};
  auto pass_time = std::exchange(world.front.pass_time, [](Milliseconds) {});
  aws::Ec2Client client(
      world.door, [](Milliseconds) {}, [] { return 0.5; });
  manager::Reconciler command(client, *process.ledger, std::move(options));
  auto report = command.look();
  world.front.pass_time = std::move(pass_time);
  if (!report || report->blind) return {};
  return std::move(*report);
}

/// `warmroot pool delete` of manager/cli_orders.cpp, beside a manager; people wait for one.
void delete_pool(World& world, const std::string& name, bool keep) {
  if (world.lifted || find_spec(world.desired, name)) return;
  Host& host = world.host();
  if (!host.process.running() || host.in_tick)
    return world.later(seconds{1}, [&world, name, keep] { delete_pool(world, name, keep); });
  const auto report = look_of_a_command(world);
  const auto view = host.process.ledger->view();
  if (!report || !view) return world.say("pool delete sees nothing");
  const auto [free_ones, leased] =
      manager::end_of_pool(name, report->observed, *view, report->plan);
  if (!leased.empty()) {
    world.coverage.add("order", "pool delete, refused");
    return world.say("pool delete is refused: " + leased.begin()->first + " is leased to " +
                     leased.begin()->second);
  }
  world.say("pool " + name + " is deleted" + (keep ? ", its volumes are kept" : ""));
  world.coverage.add("order", keep ? "pool delete, volumes kept" : "pool delete");
  std::ignore = host.process.ledger->resume(name, world.region.now() + host.clock_at_start);
  if (keep) return;
  for (const auto& id : free_ones) world.place_order(core::OrderKind::delete_volume, id, "", "yes");
}

/// A pool leaves the spec, after its instances or with them; some minutes later it is named again.
bool pool_removed(World& world) {
  const std::string name = "q";
  const auto* spec = find_spec(world.desired, name);
  if (!spec) return false;
  const core::PoolSpec before = *spec;
  const bool drained = world.draw.percent(60);
  const bool keep = world.draw.percent(40);
  if (drained) {
    auto changed = world.desired;
    find_spec(changed, name)->running = 0;
    world.set_desired(changed);
  }
  const auto goes = drained ? world.draw.span(minutes{1}, minutes{3}) : Milliseconds{0};
  world.later(goes, [&world, name] {
    if (world.lifted) return;
    auto changed = world.desired;
    std::erase_if(changed.pools, [&](const core::PoolSpec& pool) { return pool.name == name; });
    world.set_desired(changed);
  });
  world.later(goes + world.draw.span(seconds{5}, minutes{1}),
              [&world, name, keep] { delete_pool(world, name, keep); });
  world.spell(goes + world.draw.span(minutes{1}, minutes{4}), [&world, before] {
    auto changed = world.desired;
    auto* pool = find_spec(changed, before.name);
    if (!pool) {
      changed.pools.push_back(before);
      pool = &changed.pools.back();
    }
    pool->running = std::max(1, before.running);
    world.set_desired(changed);
  });
  return true;
}

// ---- by hand ----

/// People try again when EC2 does not take it: the instance may be protected.
void end_by_hand(World& world, const std::string& id) {
  const bool done = world.region.terminate_instances({id}).has_value();
  world.say("people end " + id + (done ? "" : ", which is refused"));
  const auto* instance = world.region.instance(id);
  if (instance &&
      (instance->state == sim::GuestState::pending || instance->state == sim::GuestState::running))
    world.later(seconds{10}, [&world, id] { end_by_hand(world, id); });
}

/// Somebody starts a machine of his own, a node loses its instance, and he orders its volume to
/// his machine.
bool order_attach(World& world) {
  const auto* volume = world.some_volume(attached);
  if (!volume || !volume->tags.contains(core::kTagPool)) return false;  // somebody took its tags
  sim::RunInstancesArgs args;
  args.image_id = kBaseAmi;
  args.type = "m5.large";
  args.zone = volume->zone;
  const auto made = world.region.run_instances(args);
  if (!made) return false;
  const std::string theirs = made->front().id;
  const std::string pool = volume->tags.at(core::kTagPool);
  world.later(world.draw.span(seconds{6}, seconds{15}), [&world, theirs, pool, id = volume->id] {
    if (world.lifted) return;
    const auto* wanted = world.region.volume(id);
    if (wanted && wanted->link) std::ignore = world.region.end_now(wanted->link->instance_id);
    world.place_order(core::OrderKind::attach, theirs, pool, "");
  });
  world.spell(world.draw.span(minutes{1}, minutes{6}),
              [&world, theirs] { end_by_hand(world, theirs); });
  return true;
}

/// What was without use at so many looks that the grace is over; `reap` in manager/cli_orders.cpp.
void reap_now(World& world, Milliseconds grace, bool yes) {
  Host& host = world.host();
  if (!host.process.running() || host.in_tick || host.last.blind) return;
  const auto view = host.process.ledger->view();
  if (!view) return;
  const Instant now = world.region.now() + host.clock_at_start;
  for (const auto& orphan : core::find_orphans(world.desired, *view, host.last.plan)) {
    if (!orphan.since || now - *orphan.since < grace || (orphan.maybe_used && !yes)) continue;
    const auto* volume = world.region.volume(orphan.volume_id);
    // Somebody may have attached it since EC2 last showed it; the delete itself looks once more.
    if (volume && volume->link &&
        volume->link->attach_time < world.shown_at(host, orphan.volume_id))
      world.invariants.violated(3, "reap takes " + orphan.volume_id + ", which is attached");
    for (const auto& row : host.last.plan.nodes)
      if (row.volume_id == orphan.volume_id && row.wanted)
        world.invariants.violated(
            3, "reap takes " + orphan.volume_id + ", which is " + row.node + "'s");
    world.coverage.add("order", "reap");
    world.place_order(core::OrderKind::delete_volume, orphan.volume_id, "", yes ? "yes" : "");
  }
}

/// Volumes lose their node, and the reaper comes by twice.
bool order_reap(World& world) {
  const auto* volume = world.some_volume();
  if (volume && world.draw.percent(50)) {
    sim::CreateVolumeArgs args;
    args.zone = volume->zone;
    args.snapshot_id = volume->snapshot_id;
    args.type = "gp3";
    args.tags = volume->tags;
    const auto made = world.region.create_volume(args);
    if (made) world.invariants.copied.insert(made->id);
  }
  const Milliseconds grace = world.draw.span(seconds{20}, minutes{2});
  const bool yes = world.draw.percent(70);
  for (const auto wait : {grace / 2, grace + minutes{1}})
    world.later(wait, [&world, grace, yes] {
      if (!world.lifted) reap_now(world, grace, yes);
    });
  return true;
}

/// People repair what was set aside, and return it; its node has another one by then.
void return_repaired(World& world) {
  const auto damaged = world.invariants.beyond_repair;  // a copy: those that are returned leave it
  for (const auto& id : damaged) {
    if (world.draw.percent(40) || !world.region.volume(id) ||
        !world.place_order(core::OrderKind::return_volume, id, "", ""))
      continue;
    world.coverage.add("order", "return of a repaired volume");
    world.invariants.beyond_repair.erase(id);
    world.invariants.copied.insert(id);
  }
}

/// An instance dies, and its successor finds that the volume cannot be repaired; of some no
/// snapshot can be made before.
bool volume_unclean(World& world) {
  world.guests.beyond_repair += world.draw.between(1, 2);
  if (world.draw.percent(30)) {
    sim::Fault fault{"CreateSnapshot", sim::FaultKind::refused};
    fault.count = sim::Fault::kAlways;
    fault.code = "SnapshotLimitExceeded";
    fault.until = world.region.now() + world.draw.span(minutes{1}, minutes{5});
    world.front.inject(fault);
  }
  world.later(world.draw.span(seconds{30}, minutes{6}), [&world] { return_repaired(world); });
  const auto* volume = world.some_volume(attached);
  return volume && world.region.crash(volume->link->instance_id).has_value();
}

/// EC2 has its own view of whether a volume is free.
bool delete_refused(World& world) {
  const auto* volume = world.some_volume(available);
  if (!volume) return false;
  sim::Fault fault{"DeleteVolume", sim::FaultKind::refused};
  fault.count = world.draw.between(1, 3);
  fault.code = world.draw.percent(50) ? "VolumeInUse" : "IncorrectState";
  world.front.inject(fault);
  return world.place_order(core::OrderKind::delete_volume, volume->id, "", "yes");
}

/// EC2 calls a request wrong that it takes a moment later: a deploy of theirs, or of ours.
bool refused_request(World& world) {
  const std::vector<std::string> codes = {"InvalidParameterCombination", "UnknownParameter",
                                          "InvalidParameterValue", "ValidationError"};
  const std::vector<std::string> actions = {"AttachVolume", "CreateVolume", "RunInstances",
                                            "CreateFleet",  "CreateTags",   "TerminateInstances"};
  sim::Fault fault{world.draw.pick(actions), sim::FaultKind::refused};
  fault.count = world.draw.between(1, 3);
  fault.code = world.draw.pick(codes);
  fault.until = world.region.now() + world.draw.span(seconds{20}, minutes{4});
  world.front.inject(fault);
  upset(world);
  return true;
}

/// An instance that has been through so many attaches that no device name is left; people end it,
/// as the note says.
bool device_names_used(World& world) {
  Host& host = world.host();
  if (!host.process.running() || host.in_tick) return false;
  const auto* volume = world.some_volume(attached);
  if (!volume) return false;
  const std::string instance = volume->link->instance_id;
  std::set<std::string> names;
  while (const auto name = core::next_device_name(names)) {
    names.insert(*name);
    const std::int64_t now = (world.region.now() + host.clock_at_start).time_since_epoch().count();
    std::ignore = host.process.spy->run(
        "INSERT OR IGNORE INTO refused_devices (instance_id, device, time_ms) VALUES (?, ?, ?)",
        {instance, *name, now});
  }
  world.warned.insert(instance);
  std::ignore = world.region.detach_volume(volume->id, "", "", true);
  world.spell(world.draw.span(seconds{30}, minutes{4}),
              [&world, instance] { end_by_hand(world, instance); });
  return true;
}

// ---- the queue of EC2's events ----

/// The queue works otherwise for a while, and somebody is warned meanwhile.
bool queue_spell(World& world, const std::function<void(EventQueue&)>& begin) {
  if (!world.events.on) return false;
  begin(world.events);
  world.spell(world.draw.span(seconds{30}, minutes{5}), [&world] {
    world.events.missing = world.events.doubled = 0;
    world.events.late = world.events.spread = Milliseconds{0};
    world.events.deaf = false;
  });
  const auto* instance = world.some_instance();
  return instance && world.region.interrupt(instance->id).has_value();
}

bool events_missing(World& world) {
  return queue_spell(world, [&](EventQueue& queue) { queue.missing = world.draw.unit(); });
}
bool events_late(World& world) {
  return queue_spell(world, [&](EventQueue& queue) {
    queue.late = world.draw.span(seconds{5}, world.draw.percent(20) ? minutes{15} : minutes{2});
  });
}
bool events_doubled(World& world) {
  return queue_spell(world, [&](EventQueue& queue) { queue.doubled = 1; });
}
bool events_out_of_order(World& world) {
  return queue_spell(
      world, [&](EventQueue& queue) { queue.spread = world.draw.span(seconds{5}, minutes{2}); });
}
bool queue_silent(World& world) {
  return queue_spell(world, [](EventQueue& queue) { queue.deaf = true; });
}

/// What anybody who may write to the queue can put there.
bool events_forged(World& world) {
  if (!world.events.on) return false;
  const auto* instance = world.some_instance();
  if (!instance || world.draw.percent(20)) {
    world.events.put(world.draw.percent(50) ? "{\"detail-type\": 7}" : "hello");
    return true;
  }
  world.warned.insert(instance->id);
  using Kind = sim::InstanceEvent::Kind;
  const std::vector<Kind> kinds = {Kind::interruption, Kind::rebalance, Kind::state_change};
  const Instant at = world.region.now() - world.draw.span(Milliseconds{0}, minutes{12});
  const auto id = "forged-" + std::to_string(world.draw.below(1'000'000));
  const auto kind = world.draw.pick(kinds);
  world.events.put(sim::envelope_of(
      world.region, {kind, instance->id, instance->zone, sim::GuestState::terminated, at, ""}, id));
  world.forged_at = world.region.now();
  return true;
}

}  // namespace

const std::vector<FaultEntry>& order_faults() {
  static const std::vector<FaultEntry> faults = {
      {"newer_ami", "people", newer_ami},
      {"limits_tighten", "people", limits_tighten},
      {"pool_removed", "people", pool_removed},
      {"order_attach", "people", order_attach},
      {"order_reap", "people", order_reap},
      {"delete_refused", "answers", delete_refused},
      {"refused_request", "answers", refused_request},
      {"device_names_used", "machines", device_names_used},
      {"volume_unclean", "volumes", volume_unclean},
      {"events_missing", "events", events_missing, Needs::events},
      {"events_late", "events", events_late, Needs::events},
      {"events_doubled", "events", events_doubled, Needs::events},
      {"events_out_of_order", "events", events_out_of_order, Needs::events},
      {"events_forged", "events", events_forged, Needs::events},
      {"queue_silent", "events", queue_silent, Needs::events},
  };
  return faults;
}

}  // namespace warmroot::fleet
