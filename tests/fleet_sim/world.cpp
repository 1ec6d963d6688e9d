// The making of a world, its loop and its people. Hosts are in world_hosts.cpp, the end of the
// faults and of the run in world_settle.cpp.
#include "tests/fleet_sim/world.hpp"

#include <algorithm>

#include "tests/fleet_sim/catalogue.hpp"
#include "tests/fleet_sim/planted.hpp"

namespace warmroot::fleet {

namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// How often those who launch for a pool of their own look after it.
constexpr seconds kOthersLook{10};
constexpr const char* kGroup = "workers";
/// The shares of seeds, in percent, in which faults that are apart strike beside the others.
constexpr int kWorldsWithReboots = 40;
constexpr int kWorldsWithBoots = 20;

sim::RegionTimes times_of(std::uint64_t seed) {
  Draw draw(seed ^ 0x7469'6d65'7321ULL);
  sim::RegionTimes times;
  times.jitter = 0.5;
  times.visibility = draw.percent(50) ? milliseconds{0} : draw.span(milliseconds{200}, seconds{4});
  return times;
}

/// Most operators leave it. With little of a bucket calls wait their turn, and first volumes come
/// with their launch where that is allowed.
double share_of(std::uint64_t seed) {
  Draw draw(seed ^ 0x7368'6172'6500ULL);
  return draw.percent(75) ? core::Budget::kDefaultShare
                          : draw.pick(std::vector<double>{0.02, 0.06, 1.0});
}

/// The built-in one, and the session root made anew.
sim::Catalog catalog() {
  auto catalog = sim::builtin_catalog("us-east-1", {kZones[0], kZones[1]});
  auto snapshot = catalog.snapshots.front();
  snapshot.id = "snap-05000000000000005";
  auto image = catalog.images.front();
  image.id = kNewerAmi;
  image.name = "session-root-newer";
  image.snapshot_id = snapshot.id;
  auto base = *std::find_if(catalog.images.begin(), catalog.images.end(),
                            [](const auto& each) { return each.id == kBaseAmi; });
  base.id = kNewerBaseAmi;
  base.name = "base-newer";
  catalog.images.push_back(base);
  catalog.snapshots.push_back(snapshot);
  catalog.images.push_back(image);
  return catalog;
}

core::PoolSpec pool_of(const std::string& name, int nodes, std::vector<std::string> zones) {
  core::PoolSpec pool;
  pool.name = name;
  pool.ami = kVolumeAmi;
  pool.zones = std::move(zones);
  pool.nodes = nodes;
  pool.running = nodes;
  pool.launch = core::LaunchSpec{};
  pool.launch->base_ami = kBaseAmi;
  pool.launch->instance_types = {"g5.xlarge", "m5.large"};
  return pool;
}

}  // namespace

core::PoolSpec* find_spec(core::Desired& desired, const std::string& name) {
  const auto found = std::find_if(desired.pools.begin(), desired.pools.end(),
                                  [&](const auto& pool) { return pool.name == name; });
  return found == desired.pools.end() ? nullptr : &*found;
}

World::World(std::uint64_t seed, const Options& options_)
    : options(options_),
      draw(seed),
      reboot_draw(seed ^ 0x7265'626f'6f74'7300ULL),
      boot_draw(seed ^ 0x626f'6f74'7321'0000ULL),
      share(share_of(seed)),
      region(catalog(), times_of(seed), hardware, kStart, seed),
      front(region),
      door(front),
      trace(kStart, options.trace_lines),
      invariants(region, kDeployment),
      guests(*this, seed ^ 0x6775'6573'7473ULL),
      ledgers(options_.ledgers),
      events(*this, seed ^ 0x6576'656e'7473ULL),
      spending_(share),
      seed_(seed) {
  region.on_event = [this](const std::string& text) { on_region_event(text); };
  front.pass_time = [this](Milliseconds time) { pass_time(time); };
  front.set_throttle_scale(1);
  front.faults().seed(seed);
  invariants.gave_back = [this](const std::string& instance, const std::string& volume) {
    return guests.gave_back(instance, volume);
  };
  invariants.leaves = [this](const std::string& id) {
    return guests.leaves(id) || warned.contains(id);
  };
  guests.skips_check = options.planted == kUncheckedMount;
  guests.forgets_given_away = options.planted == kForgetsGivenAway;
  guests.keeps_record = options.planted == kKeepsRecord;
  make_spec();
  make_neighbours();
}

World::~World() {
  hosts_.clear();
}

/// What the pool allows beyond the usual; the same for the whole run.
void World::draw_launch(core::PoolSpec& pool) {
  auto& launch = *pool.launch;
  launch.zone_fallback = draw.percent(25);
  launch.on_demand_fallback = draw.percent(20);
  launch.on_demand_after = seconds{draw.between(20, 120)};
  launch.volume_with_launch = draw.percent(35);
  launch.replace_on_rebalance = draw.percent(30);
  launch.rebalance_after = seconds{draw.between(0, 240)};
  if (!draw.percent(30)) return;
  pool.rollout.policy = core::RolloutSpec::Policy::replace;
  pool.rollout.max_unavailable = draw.between(1, 2);
}

void World::make_spec() {
  desired.deployment = kDeployment;
  const int of_q = std::max(1, options.nodes / 3);
  const int of_p = std::max(1, options.nodes - of_q);
  desired.pools.push_back(pool_of("p", of_p, {kZones[0], kZones[1]}));
  desired.pools.push_back(pool_of("q", of_q, {kZones[1]}));
  if (draw.percent(30)) desired.pools[0].running = std::max(1, of_p - 1);
  if (draw.percent(30)) {
    auto& stock = desired.pools[0].stock;
    stock.spares = 1;
    stock.golden = draw.percent(40);
    if (draw.percent(50)) stock.ready_within = minutes{draw.between(1, 30)};
    if (stock.golden) stock.copy_usd_gib = "0.0001";
  }
  for (auto& pool : desired.pools) draw_launch(pool);
  const auto chosen = chosen_faults(options.faults);
  const Needs needs = chosen.size() == 1 ? chosen.front()->needs : Needs::nothing;
  events.on = draw.percent(40) || needs == Needs::events;
  signed_hellos = draw.percent(20);
  if (draw.percent(30)) {  // as a world of thousands is looked at
    observer.small_world = static_cast<std::size_t>(draw.below(12));
    observer.page_size = draw.percent(50) ? 5 : manager::kPageSize;
  }
  if (draw.percent(20) || needs == Needs::group) {
    others_pool = "q";
    desired.pools[1].launch.reset();
    if (draw.percent(50) || needs == Needs::group) {
      desired.pools[1].auto_scaling_group = kGroup;
      surplus = draw.percent(40) ? draw.between(1, 2) : 0;
    }
  }
  for (auto& pool : desired.pools) {
    invariants.running[pool.name] = pool.running;
    pool.volumes.snapshot_unclean = draw.percent(30);
  }
}

/// A deployment that is not ours, with pools of the same names: no call may ever name its things.
void World::make_neighbours() {
  sim::RunInstancesArgs args;
  args.image_id = kBaseAmi;
  args.type = "g5.xlarge";
  args.zone = kZones[0];
  args.instance_tags = {{"warmroot:deployment", "another"}, {"warmroot:pool", "p"}};
  if (const auto made = region.run_instances(args)) invariants.foreign.insert(made->front().id);
  sim::CreateVolumeArgs disk;
  disk.zone = kZones[0];
  disk.snapshot_id = "snap-01000000000000001";
  disk.type = "gp3";
  disk.tags = {{"warmroot:deployment", "another"},
               {"warmroot:pool", "p"},
               {"warmroot:node", "p-0"},
               {"warmroot:lineage", disk.snapshot_id}};
  if (const auto made = region.create_volume(disk)) invariants.foreign.insert(made->id);
}

void World::on_region_event(const std::string& text) {
  trace.add(region.now(), text);
  if (text.starts_with("create ") || text.starts_with("launch ")) youngest_ = region.now();
  constexpr std::string_view kAttached = "attached volume=";
  if (text.starts_with(kAttached)) {
    const auto from = kAttached.size();
    invariants.attached_at[text.substr(from, text.find(' ', from) - from)] = region.now();
  }
  constexpr std::string_view kAttaching = "attaching volume=";
  if (!text.starts_with(kAttaching)) return;
  const auto from = kAttaching.size();
  invariants.used.insert(text.substr(from, text.find(' ', from) - from));
}

// ---- the loop ----

Instant World::next_event() const {
  Instant next = std::min(guests.next(), events.next());
  if (!agenda_.empty()) next = std::min(next, agenda_.begin()->first);
  return next;
}

void World::run_due() {
  while (!agenda_.empty() && agenda_.begin()->first <= region.now()) {
    auto entry = agenda_.extract(agenda_.begin());
    entry.mapped()();
    region.changed();
  }
  guests.step();
  if (!hosts_.empty()) events.step(*hosts_[0]);
}

/// How many things are there that no listing shows yet.
std::uint64_t World::too_young() const {
  if (region.now() >= youngest_ + region.times().visibility) return 0;
  std::uint64_t young = 0;
  for (const auto& [id, volume] : region.volumes()) young += !region.visible(volume.create_time);
  for (const auto& [id, guest] : region.instances()) young += !region.visible(guest.launch_time);
  return young;
}

std::uint64_t World::shown_version(const std::string& body) const {
  constexpr std::uint64_t kMostYoung = 1'000;
  const std::string action(action_in(body));
  if (replicas || front.faults().may_hit(action, body, region.now())) return 0;
  return region.revision() * kMostYoung + std::min(too_young(), kMostYoung - 1);
}

void World::pass_time(Milliseconds time) {
  const Instant end = region.now() + time;
  while (true) {
    const Instant next = std::max(region.now(), next_event());
    if (next > end) break;
    region.advance(next);
    run_due();
  }
  region.advance(end);
  guests.step();
}

void World::freeze(Milliseconds time) {
  const Instant end = region.now() + time;
  const auto goes_on = [](const Host& host) { return host.process.running() && !host.in_tick; };
  while (region.now() < end && !violated()) {
    Instant next = end;
    for (const auto& each : hosts_)
      if (goes_on(*each)) next = std::min(next, std::max(each->next_tick, region.now()));
    pass_time(next - region.now());
    for (std::size_t i = 0; i < hosts_.size(); ++i)
      if (goes_on(*hosts_[i]) && hosts_[i]->next_tick <= region.now()) tick(*hosts_[i]);
  }
}

void World::live_until(Instant end, const std::function<bool()>& reached) {
  while (region.now() < end && !violated()) {
    Instant next = std::min(end, next_event());
    for (const auto& each : hosts_)
      if (each->process.running()) next = std::min(next, each->next_tick);
    // New instances come up without an event of ours: never further than a second.
    next = std::min(next, region.now() + seconds{1});
    region.advance(std::max(region.now(), next));
    run_due();
    for (std::size_t i = 0; i < hosts_.size(); ++i)
      if (hosts_[i]->process.running() && hosts_[i]->next_tick <= region.now()) tick(*hosts_[i]);
    check_step();
    if (reached && reached()) return;
  }
}

/// Nothing is counted again before something has changed that the counts depend on.
void World::check_step() {
  const Counted now{region.revision(), desired_version_, invariants.copied.size(),
                    invariants.unknowable.size(), invariants.counts};
  if (now == counted_) return;
  counted_ = now;
  invariants.check_state();
  invariants.check_counts(desired);
}

void World::spell(Milliseconds lasts, Deed end) {
  const auto once = std::make_shared<bool>(false);
  const Deed deed = [once, end = std::move(end)] {
    if (!std::exchange(*once, true)) end();
  };
  later(lasts, deed);
  on_lift(deed);
}

// ---- choosing ----

const sim::InstanceRecord* World::some_instance(Draw& chance, const Fits& fits) {
  std::vector<const sim::InstanceRecord*> found;
  for (const auto& [id, instance] : region.instances()) {
    const bool live =
        instance.state == sim::GuestState::pending || instance.state == sim::GuestState::running;
    if (live && !invariants.foreign.contains(id) && instance.tags.contains("warmroot:pool") &&
        (!fits || fits(instance)))
      found.push_back(&instance);
  }
  return found.empty() ? nullptr : chance.pick(found);
}

const sim::VolumeRecord* World::some_volume(
    const std::function<bool(const sim::VolumeRecord&)>& fits) {
  std::vector<const sim::VolumeRecord*> found;
  for (const auto& [id, volume] : region.volumes())
    if (!volume.root && volume.tags.contains("warmroot:node") && !invariants.foreign.contains(id) &&
        volume.state != sim::DiskState::deleting && (!fits || fits(volume)))
      found.push_back(&volume);
  return found.empty() ? nullptr : draw.pick(found);
}

Host& World::some_host() {
  const bool second = has_host(1) && host(1).process.running() && draw.percent(50);
  return host(second ? 1 : 0);
}

std::string World::some_zone() {
  return kZones[draw.below(2)];
}

// ---- people ----

void World::set_desired(core::Desired changed) {
  desired = std::move(changed);
  ++desired_version_;
  for (const auto& pool : desired.pools)
    invariants.running[pool.name] = std::max(invariants.running[pool.name], pool.running);
  for (const auto& each : hosts_) tell_desired(*each);
}

/// The daemon reads its spec again between two ticks.
void World::tell_desired(Host& host) {
  host.new_desired = host.in_tick;
  if (host.in_tick || !host.process.running()) return;
  host.told = desired;
  host.process.reconciler->set_desired(planted_desired(options.planted, desired));
}

bool World::place_order(core::OrderKind kind, const std::string& subject, const std::string& pool,
                        const std::string& detail) {
  const Host& host = *hosts_[0];
  if (!host.process.running() || host.in_tick) return false;
  say("ordered: " + std::string(core::to_string(kind)) + " " + subject);
  return host.process.ledger->place_order({0, kind, subject, pool, detail, time_of(host)})
      .has_value();
}

bool World::delete_by_hand(const std::string& volume_id) {
  if (!region.delete_volume(volume_id)) return false;
  invariants.removed.insert(volume_id);
  return true;
}

/// Those who launch for a pool without launch, by hand or by an Auto Scaling group: as many as
/// should run, and an end for those that have given their volume back.
void World::keep_others_pool() {
  later(kOthersLook, [this] { keep_others_pool(); });
  const auto* found = find_spec(desired, others_pool);
  if (!found) return;
  const core::PoolSpec& pool = *found;
  const bool group = !pool.auto_scaling_group.empty();
  int live = 0;
  std::vector<std::string> useless;
  for (const auto& [id, instance] : region.instances()) {
    if (instance.state != sim::GuestState::pending && instance.state != sim::GuestState::running)
      continue;
    const auto tag = instance.tags.find("warmroot:pool");
    if (tag == instance.tags.end() || tag->second != others_pool) continue;
    const Guest* guest = guests.find(id);
    const bool left =
        guest && (guest->step == GuestStep::released || guest->step == GuestStep::failed ||
                  Guests::is_held_back(*guest) || Guests::is_unheard_behind_release(*guest) ||
                  Guests::is_refused(*guest) || Guests::waits_unheard(*guest));
    // A group acts on either of EC2's checks; people let a machine take its time to boot.
    const bool sick = instance.impaired || instance.never_runs || (group && instance.unreachable) ||
                      (guest && Guests::is_lost(*guest));
    if ((left || sick) && ++released_others_[id] > 6)
      useless.push_back(id);
    else
      ++live;
  }
  for (const auto& id : useless) std::ignore = region.terminate_instances({id});
  if (live >= pool.running + (group ? surplus : 0)) return;
  sim::RunInstancesArgs args;
  args.image_id = kBaseAmi;
  args.type = never_offered == "m5.large" ? "g5.xlarge" : "m5.large";
  args.zone = pool.zones[0];
  args.spot = true;
  args.instance_tags = {{"warmroot:pool", others_pool}};
  if (draw.percent(50)) args.instance_tags["warmroot:deployment"] = kDeployment;
  if (group) {
    if (region.launch_in_group(kGroup, args)) coverage.add("group", "launched");
    return;
  }
  std::ignore = region.run_instances(args);
}

// ---- a run ----

void World::schedule_faults() {
  std::vector<const FaultEntry*> usual, apart, further;
  for (const auto* fault : chosen_faults(options.faults))
    (fault->further ? further : fault->apart ? apart : usual).push_back(fault);
  const auto schedule = [this](Draw& chance, const std::vector<const FaultEntry*>& faults,
                               int times) {
    for (int i = 0; i < times; ++i) {
      const FaultEntry* fault = chance.pick(faults);
      later(chance.span(Milliseconds{0}, minutes{options.minutes}), [this, fault] {
        if (lifted) return;
        say(std::string("FAULT ") + fault->name);
        last_fault = fault->name;
        if (fault->strike(*this)) coverage.add("fault", fault->name);
      });
    }
  };
  if (!usual.empty())
    schedule(draw, usual, usual.size() == 1 ? draw.between(2, 8) : draw.between(3, 16));
  const auto strike_apart = [&](Draw& chance, const std::vector<const FaultEntry*>& faults,
                                int percent) {
    if (faults.empty() || (!usual.empty() && !chance.percent(percent))) return;
    guests.gives_lost_disk_up = true;
    schedule(chance, faults, usual.empty() ? chance.between(2, 8) : chance.between(1, 3));
  };
  strike_apart(reboot_draw, apart, kWorldsWithReboots);
  strike_apart(boot_draw, further, kWorldsWithBoots);
}

/// In some runs instances are launched from a newer base early on, so that the template of the
/// earlier one is out of use for its whole grace.
void World::schedule_base_change() {
  if (!draw.percent(12)) return;
  later(draw.span(seconds{30}, minutes{2}), [this] {
    if (lifted) return;
    auto changed = desired;
    for (auto& pool : changed.pools)
      if (pool.launch) pool.launch->base_ami = kNewerBaseAmi;
    set_desired(changed);
    base_changed_at = region.now();
    say("the base AMI is a newer one");
    if (const auto* instance = some_instance()) std::ignore = region.crash(instance->id);
  });
}

RunResult World::run() {
  hosts_.push_back(std::make_unique<Host>());
  hosts_[0]->ledger_path = ledgers.new_name();
  if (!others_pool.empty()) keep_others_pool();
  schedule_faults();
  schedule_base_change();
  start(*hosts_[0]);
  live_until(kStart + minutes{options.minutes});
  RunResult result;
  if (!violated()) settle();
  result.settled_in = region.now() - (kStart + minutes{options.minutes});
  result.seed = seed_;
  if (violated()) result.violation = invariants.violations.front();
  result.fault = last_fault;
  result.step = trace.steps();
  result.hash = trace.hash();
  for (const auto& each : hosts_) result.ticks += each->ticks;
  result.trace = trace.lines();
  for (const auto& [kind, count] : front.faults().hits())
    coverage.add("hit", kind, static_cast<std::uint64_t>(count));
  result.coverage = std::move(coverage);
  return result;
}

}  // namespace warmroot::fleet
