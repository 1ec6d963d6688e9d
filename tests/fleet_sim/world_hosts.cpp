// Managers of a world: their processes, clocks, deaths and ticks, and what reaches them.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "manager/aws/ec2_codec.hpp"
#include "tests/fleet_sim/listing_watch.hpp"
#include "tests/fleet_sim/memo_ec2.hpp"
#include "tests/fleet_sim/planted.hpp"
#include "tests/fleet_sim/world.hpp"

namespace warmroot::fleet {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A round trip to EC2.
constexpr milliseconds kLeastLatency{10};
constexpr milliseconds kMostLatency{150};
/// The daemon's patience with its ledger.
constexpr seconds kLedgerPatience{5};
/// A frozen plan is read by somebody after so long.
constexpr seconds kOperatorComes{90};
/// An intent of an earlier process was planned at most so long before it was recorded, on a world
/// of which parts were read before that (manager/observer.hpp).
constexpr seconds kPlanAge{66};

}  // namespace

// ---- processes ----

ProcessSetup World::setup_of(Host& host) {
  ProcessSetup setup;
  host.told = desired;
  setup.options.desired = planted_desired(options.planted, desired);
  setup.options.observer = observer;
  setup.options.budget_share = share;
  setup.options.now = [this, &host] { return time_of(host); };
  setup.options.reports = [this, &host] {
    if (host.freeze_after_look > Milliseconds{0}) {
      say("frozen after the look");
      freeze(std::exchange(host.freeze_after_look, Milliseconds{0}));
    }
    auto reports = host.door ? planted_reports(options.planted, host.door->board.snapshot())
                             : std::map<std::string, core::NodeReport>{};
    host.stages_told.clear();
    for (const auto& [id, report] : reports) host.stages_told.emplace(id, report.stage);
    return reports;
  };
  if (host.number == 0 && events.on)
    setup.options.heard = [this, &host] { return host.inbox->heard(time_of(host)); };
  setup.options.user_data = [](const core::PoolSpec&) { return Result<std::string>("#!/bin/sh"); };
  setup.ledger_path = host.ledger_path;
  setup.door = &door;
  setup.sleep = [this](Milliseconds wait) { pass_time(wait); };
  setup.random = [this] { return draw.unit(); };
  setup.hooks.before_post = [this, &host] {
    host.sent = region.now();
    pass_time(draw.span(kLeastLatency, kMostLatency));
  };
  setup.hooks.before_look = [this, &host](const std::string& body) { before_look(host, body); };
  setup.hooks.before_call = [this, &host](const aws::Form& form, const std::string& body) {
    before_call(host, form, body);
  };
  setup.hooks.after_call = [this, &host](const aws::Form& form, const Result<HttpReply>& reply) {
    after_call(host, form, reply);
  };
  setup.hooks.effect = [this, &host](const char* what) { effect(host, what); };
  setup.disguise = [this, &host](aws::Ec2& client) -> std::unique_ptr<aws::Ec2> {
    auto memo = std::make_unique<MemoEc2>(
        client, *host.process.transport,
        [this](const std::string& body) { return shown_version(body); },
        [this, &host](const std::string& body) {
          pass_time(draw.span(kLeastLatency, kMostLatency));
          before_look(host, body);
          effect(host, kBeforeRead);
        },
        [this] { return region.now(); }, host.shown);
    auto watch = std::make_unique<ListingWatch>(
        std::move(memo), [&host](const Error& error) { host.unread = error.context; });
    return planted_ec2(options.planted, std::move(watch));
  };
  plant(options.planted, *this, host, setup);
  return setup;
}

void World::start(Host& host) {
  host.clock_at_start = host.clock;
  host.last_look = host.look_started = Instant{};
  host.started = region.now();
  host.stages_told.clear();
  host.ledger_is_new = true;
  host.inbox = std::make_unique<manager::EventInbox>();
  host.polled = Instant{};
  const auto started = host.process.start(setup_of(host));
  if (!started) {
    invariants.violated(0, "the manager does not start: " + started.error().message());
    return;
  }
  if (host.number == 0) {
    open_door(host);
    invariants.left_unmounted.clear();  // of another ledger, perhaps
  }
  say("manager " + std::to_string(host.number) + " starts");
  host.next_tick = region.now();
  host.frozen_since.reset();
  host.resumed = false;
  spending_.restarted(host.number);
}

/// A process dies with what it only remembered.
void World::bury(Host& host) {
  say("manager " + std::to_string(host.number) + " dies");
  host.process.stop();
  invariants.check_instances(desired, false);
  host.inbox.reset();
  host.new_desired = false;
  host.door.reset();
  host.shown.clear();
  host.die_in = 0;
  host.freeze_after_look = host.freeze_after_record = Milliseconds{0};
  if (auto then = std::exchange(host.after_death, {})) then();
}

void World::kill(Host& host, Milliseconds down, Deed then) {
  if (!host.process.running()) return;
  host.after_death = [this, &host, down, then = std::move(then)] {
    if (then) then();
    later(down, [this, &host] { start_again(host); });
  };
  if (host.in_tick)
    host.die_in = 1;
  else
    bury(host);
}

void World::start_again(Host& host) {
  const bool wanted = host.number == 0 || second_wanted;
  if (wanted && !host.process.running()) start(host);
}

void World::forget_ledger(Host& host) {
  ledgers.throw_away(host.ledger_path);
  auto& unknowable = invariants.unknowable;
  unknowable.insert(untagged.begin(), untagged.end());
  invariants.unseen.insert(untagged_instances.begin(), untagged_instances.end());
  if (host.number != 0) return;
  // Where its tag has not got through, EC2 shows it as its node's, which has been given another.
  unknowable.insert(invariants.beyond_repair.begin(), invariants.beyond_repair.end());
  invariants.beyond_repair.clear();
}

void World::start_second_manager() {
  two_managers = second_wanted = true;
  invariants.counts = false;
  if (!has_host(1)) {
    hosts_.push_back(std::make_unique<Host>());
    hosts_[1]->number = 1;
    hosts_[1]->ledger_path = ledgers.new_name();
  }
  if (!hosts_[1]->process.running()) start(*hosts_[1]);
}

void World::stop_second_manager() {
  second_wanted = false;
  if (!has_host(1) || !hosts_[1]->process.running()) return;
  hosts_[1]->after_death = {};
  if (hosts_[1]->in_tick)
    hosts_[1]->die_in = 1;
  else
    bury(*hosts_[1]);
}

void World::effect(Host& host, const char* what) {
  if (host.freeze_after_record > Milliseconds{0} && std::string_view(what) == "before a call") {
    say("frozen between plan and apply");
    freeze(std::exchange(host.freeze_after_record, Milliseconds{0}));
  }
  // Outside of a tick somebody's command writes, and not the process that is to die.
  if (host.in_tick && host.die_in > 0 && --host.die_in == 0) throw Crash{};
}

// ---- calls ----

Instant World::time_of(const Host& host) const {
  return region.now() + host.clock_at_start;
}

/// What the sender of a call knew of a thing: what EC2 last showed it, this tick or some seconds
/// before. A replay goes out before the tick's look. Stale answers show a world that is older
/// still.
std::function<Instant(const std::string&)> World::known_by(Host& host, const std::string& body) {
  const auto rows = host.process.spy->query(
      "SELECT recorded_ms FROM intents WHERE state IN ('open', 'unknown') AND body = ?", {body});
  std::optional<Instant> replayed;
  if (rows && !rows->empty())
    replayed = Instant{Milliseconds{rows->front().number(0)}} - host.clock_at_start;
  if (replayed && *replayed >= host.look_started) replayed.reset();
  return [this, &host, replayed](const std::string& id) {
    const Instant shown = shown_at(host, id);
    if (!replayed) return shown;
    return std::max(std::min(shown, host.last_look - stale_by), *replayed - kPlanAge - stale_by);
  };
}

Instant World::shown_at(const Host& host, const std::string& id) const {
  const auto found = host.shown.find(id);
  return (found == host.shown.end() ? Instant{} : found->second) - stale_by;
}

void World::before_call(Host& host, const aws::Form& form, const std::string& body) {
  const std::string action(aws::form_value(form, "Action"));
  say("m" + std::to_string(host.number) + " sends " + aws::summary_of(body));
  invariants.check_call({host.process.spy.get(), known_by(host, body), host.door != nullptr}, form,
                        body);
  if (action == "RunInstances" || action == "CreateFleet") check_limits(host, form, body);
  // A replay leaves before the tick's first listing.
  if (!host.unread.empty())
    invariants.violated(
        13, action + " is planned on a look that could not be read to its end: " + host.unread);
  note_way(action, form);
  const auto count = std::string(aws::form_value(form, "MaxCount"));
  const auto wrong =
      spending_.spend(host.number, action, body, std::atoi(count.c_str()), host.sent);
  if (!wrong.empty() && !two_managers) invariants.violated(7, wrong);
}

void World::note_way(const std::string& action, const aws::Form& form) {
  if (action == "RunInstances" &&
      !aws::form_value(form, "BlockDeviceMapping.1.Ebs.SnapshotId").empty())
    coverage.add("way", kVolumesWithLaunch);
  if (action == "CreateTags" && !aws::form_value(form, "ResourceId.2").empty())
    coverage.add("way", kClaimOfSeveral);
}

/// EC2 counts each question whether a call would be allowed, too. How many pages a listing has, and
/// how many of them are empty, is EC2's to say.
void World::before_look(Host& host, const std::string& body) {
  if (body.find("NextToken=") != body.npos) return;
  const std::string action(action_in(body));
  const bool tries = body.find("DryRun=true") != body.npos;
  const auto wrong = tries ? spending_.ask(host.number, action, host.sent)
                           : spending_.look(host.number, action, region.now());
  if (!wrong.empty() && !(tries && two_managers)) invariants.violated(7, wrong);
}

/// A replay asks for what was allowed when it was recorded.
void World::check_limits(Host& host, const aws::Form& form, const std::string& body) {
  const auto rows = host.process.spy->query(
      "SELECT pool, recorded_ms FROM intents WHERE state IN ('open', 'unknown') AND body = ?",
      {body});
  if (!rows || rows->empty()) return;
  const Instant recorded{Milliseconds{rows->front().number(1)}};
  const auto* pool = find_spec(host.told, rows->front().text(0));
  if (!pool || !pool->launch || recorded - host.clock_at_start < host.look_started) return;
  invariants.check_limits({host.process.spy.get(), known_by(host, body)}, form, *pool);
}

void World::after_call(Host&, const aws::Form& form, const Result<HttpReply>& reply) {
  const std::string action(aws::form_value(form, "Action"));
  say("  " + action + ": " +
      (!reply                 ? "no answer"
       : reply->status == 200 ? "ok"
                              : std::to_string(reply->status) + " " + aws::code_of(*reply)));
  check_step();
}

// ---- ticks ----

void World::tick(Host& host) {
  host.in_tick = true;
  // What a look that failed half way did show is planned with by nobody.
  if (!host.last.blind) host.last_look = host.look_started;
  host.look_started = region.now();
  host.unread.clear();
  ++host.ticks;
  bool wrote = true;
  try {
    if (host.door) {
      host.process.reconciler->look_at(host.door->board.take_knockers());
      host.releases_seen = host.door->board.releases_heard();
    }
    auto report = host.process.reconciler->tick();
    if (report) {
      wrote = !report->calls.empty() || !report->plan.records.empty();
      digest(host, std::move(*report));
    } else {
      say("tick failed: " + report.error().message());
      if (report.error().kind != ErrorKind::retry_later)
        invariants.violated(0, "tick failed: " + report.error().message());
      host.next_tick = region.now() + kLedgerPatience;
    }
  } catch (const Crash&) {
    host.in_tick = false;
    bury(host);
    return;
  }
  host.in_tick = false;
  if (host.door) invariants.check_unmounted(*host.process.spy);
  // Leases are as they were where nothing was written; a process starts on any copy of a ledger.
  if (wrote || std::exchange(host.ledger_is_new, false)) invariants.check_leases(*host.process.spy);
  if (host.new_desired) tell_desired(host);
  planted_after_tick(options.planted, *this, host);
  if (host.die_in == 1 && host.after_death) bury(host);
}

void World::digest(Host& host, manager::TickReport report) {
  coverage.add(report);
  if (report.recorded && host.inbox) events.remove(host.inbox->settle());
  if (!report.blind) {
    publish_known(host, report);
    if (lifted) act_on_notes(host, report);
  }
  bool frozen = false;
  for (const auto& note : report.plan.notes) frozen |= note.kind == core::NoteKind::frozen;
  const bool refused = std::any_of(report.calls.begin(), report.calls.end(), [](const auto& call) {
    return call.outcome.state != core::IntentState::accepted;
  });
  invariants.check_instances(desired, !report.blind && !frozen && !refused && !replicas);
  if (!frozen)
    host.frozen_since.reset();
  else if (!host.frozen_since)
    host.frozen_since = region.now();
  if (report.plan.notes.size() != host.last.plan.notes.size())
    for (const auto& note : report.plan.notes)
      say("note " + std::string(core::to_string(note.kind)) + " " + note.text);
  host.next_tick = region.now() + report.plan.next_look;
  heed_wake(host);
  report.observed = {};  // while it is held, each change of the observer's world copies the world
  host.last = std::move(report);
}

// ---- the operator ----

/// What a blocking note asks for, once what it complains of is put right. An old copy of the ledger
/// may have pools paused that were resumed since.
void World::act_on_notes(Host& host, const manager::TickReport& report) {
  if (!std::exchange(host.resumed, true)) {
    const auto paused = host.process.spy->query("SELECT pool FROM paused_pools");
    CHECK(paused.has_value());
    for (const auto& row : *paused)
      std::ignore = host.process.ledger->resume(row.text(0), time_of(host));
  }
  for (const auto& note : report.plan.notes)
    if (note.kind == core::NoteKind::breaker_open) {
      say("the operator resumes " + note.pool + ", as the note says");
      std::ignore = host.process.ledger->resume(note.pool, time_of(host));
    }
}

/// The operator does what a frozen plan's note says, once he is sure that nothing else is wrong.
namespace {

/// The instance that the note asks people to end; empty: none.
std::string to_be_ended(const core::Note& note) {
  constexpr std::string_view kTheirs = "we did not launch ";
  if (note.kind == core::NoteKind::stranger && note.text.starts_with("i-"))
    return note.text.substr(0, note.text.find(' '));
  const auto at = note.text.find(kTheirs);
  if (note.kind != core::NoteKind::not_ours_to_end || at == std::string::npos) return {};
  const auto id = note.text.substr(at + kTheirs.size());
  const auto end = id.find(": end it");
  return end == std::string::npos ? std::string() : id.substr(0, end);
}

/// The volume that the note asks people to detach from where another is served; empty: none.
std::string to_be_detached(const core::Note& note) {
  constexpr std::string_view kVolume = "volume ";
  if (note.kind != core::NoteKind::attached_elsewhere ||
      note.text.find(" beside ") == std::string::npos)
    return {};
  return note.text.substr(kVolume.size(), note.text.find(' ', kVolume.size()) - kVolume.size());
}

}  // namespace

void World::act_as_operator() {
  Host& host = *hosts_[0];
  end_mute_instances();
  for (const auto& id : guests.missing()) {
    say("people end " + id + ", which does not come back");
    (void)region.terminate_instances({id});
  }
  for (const auto& id : guests.failed()) {
    say("people end " + id + ", whose bootstrap failed");
    (void)region.terminate_instances({id});
  }
  // Whoever took a volume's tags away ends the instance that has it, as the note asks, and whoever
  // launched one ends it when it serves no more.
  for (const auto& note : host.last.plan.notes) {
    const auto id = to_be_ended(note);
    if (id.empty()) continue;
    const auto* instance = region.instance(id);
    if (!instance || instance->state != sim::GuestState::running) continue;
    say("people end " + id + ", as the note says");
    (void)region.terminate_instances({id});
  }
  for (const auto& note : host.last.plan.notes) {
    const auto id = to_be_detached(note);
    const auto* volume = id.empty() ? nullptr : region.volume(id);
    if (!volume || !volume->link || volume->link->state != sim::LinkState::attached) continue;
    say("people detach " + id + ", as the note says");
    std::ignore = region.detach_volume(id, volume->link->instance_id, "", false);
  }
  if (!host.process.running() || !host.frozen_since) return;
  if (region.now() - *host.frozen_since < kOperatorComes) return;
  say("the operator removes the ledger, as the note says");
  begun_anew = region.now();
  kill(host, seconds{1}, [this, &host] { forget_ledger(host); });
}

}  // namespace warmroot::fleet
