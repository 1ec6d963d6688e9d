// What guests say to a world's first manager: hellos, signed reports, their losses and repeats; and
// what the manager's board knows to answer them from.
#include <algorithm>
#include <utility>

#include "bootstrap/report_sign.hpp"
#include "manager/core/draft.hpp"
#include "tests/fleet_sim/planted.hpp"
#include "tests/fleet_sim/world.hpp"
#include "tests/sim/instance_identity.hpp"

namespace warmroot::fleet {

namespace {

using std::chrono::seconds;

/// As the daemon has it.
constexpr std::chrono::hours kReportsKept{1};
constexpr int kTaken = 200;
constexpr int kUnauthorized = 401;
constexpr int kConflict = 409;
constexpr int kGone = 410;

/// The row gives the guest the volume that it has found.
bool is_assigned(const core::NodeRow& row, const Guest& guest) {
  using enum core::LeaseState;
  return row.instance_id == guest.id && row.volume_id == guest.volume_id && row.lease &&
         (*row.lease == attaching || *row.lease == checking || *row.lease == active);
}

/// One key for all worlds of the program; what it signs decides nothing but yes or no.
sim::IdentitySigner& signer() {
  static sim::IdentitySigner signer(1024);
  return signer;
}

const manager::IdentityCertificates& certificates() {
  static const auto parsed = manager::IdentityCertificates::parse(signer().certificate());
  CHECK(parsed.has_value());
  return *parsed;
}

/// What dynamic/instance-identity/rsa2048 answers, as far as the manager looks, on one line.
std::string identity_of(const sim::Region& region, const sim::InstanceRecord& instance) {
  const auto& catalog = region.catalog();
  auto text = signer().sign(R"({"instanceId":")" + instance.id + R"(","accountId":")" +
                            catalog.account_id + R"(","region":")" + catalog.region +
                            R"(","imageId":")" + instance.image_id + R"(","instanceType":")" +
                            instance.type + R"(","privateIp":")" + instance.private_ip + "\"}");
  std::erase(text, '\n');
  return text;
}

}  // namespace

void World::open_door(Host& host) {
  DoorSetup setup;
  setup.clock = [this, &host] { return time_of(host); };
  setup.steady = [this] { return region.now(); };
  if (signed_hellos) setup.rules.certificates = certificates();
  setup.rules.account_id = region.catalog().account_id;
  setup.rules.region = region.catalog().region;
  setup.believes_anybody = options.planted == kBelievesAnybody;
  host.door = std::make_unique<ReportDoor>(*host.process.ledger, std::move(setup));
}

/// As Daemon::publish_known.
void World::publish_known(Host& host, const manager::TickReport& report) {
  if (!host.door) return;
  std::map<std::string, manager::KnownInstance> known;
  for (const auto& [id, instance] : report.observed.instances) {
    if (instance.state == aws::InstanceState::terminated) continue;
    const auto pool = instance.tags.find(core::kTagPool);
    if (pool == instance.tags.end()) continue;
    auto& entry = known[id];
    entry.pool = pool->second;
    entry.drain = report.plan.drains.contains(id);
    if (const auto without = report.plan.without_node.find(id);
        without != report.plan.without_node.end())
      entry.no_volume = without->second;
    entry.image_id = instance.image_id;
    entry.instance_type = instance.instance_type;
    entry.private_ip = instance.private_ip;
  }
  for (const auto& row : report.plan.nodes)
    if (const auto found = known.find(row.instance_id);
        found != known.end() && row.lease && core::holds_volume(*row.lease))
      found->second.volume_id = row.volume_id;
  host.door->board.set_known(kDeployment, planted_known(options.planted, std::move(known)),
                             host.releases_seen);
  host.door->board.forget_unknown(report.started - kReportsKept);
}

void World::heed_wake(Host& host) {
  if (!host.door || !std::exchange(host.door->may_wake, false)) return;
  if (host.door->board.wait(Milliseconds{0}))
    host.next_tick =
        std::min(host.next_tick, region.now() + host.process.reconciler->shortest_pause());
}

ReportDoor::Reply World::say_hello(const std::string& instance_id, const std::string& identity,
                                   const std::string& peer) {
  Host& host = *hosts_[0];
  if (!host.door) return {0};
  const auto* instance = region.instance(instance_id);
  const auto pool = instance ? instance->tags.find(core::kTagPool) : sim::Tags::const_iterator{};
  const std::string name =
      instance && pool != instance->tags.end() ? pool->second : std::string("p");
  auto reply = host.door->hello(R"({"version":1,"instance_id":")" + instance_id +
                                    R"(","deployment":")" + kDeployment + R"(","pool":")" + name +
                                    R"(","identity":")" + identity + "\"}",
                                peer);
  coverage.add("hello", std::to_string(reply.status));
  if (reply.status != kTaken)
    say("hello of " + instance_id + " is refused: " + std::to_string(reply.status));
  if (!host.in_tick) heed_wake(host);
  return reply;
}

ReportDoor::Reply World::post(const Letter& letter) {
  Host& host = *hosts_[0];
  if (!host.door) return {0};
  auto reply = host.door->report(letter);
  coverage.add("report", std::to_string(reply.status));
  if (reply.status != kTaken)
    say("report of " + letter.instance_id + " is refused: " + std::to_string(reply.status));
  if (reply.status == kTaken && letter.body.find(kUncleanBeyondRepair) != std::string::npos)
    hear_of_damage(host, letter.instance_id);
  if (!host.in_tick) heed_wake(host);
  return reply;
}

/// From the moment that the manager has said that it heard it, nobody may be given the volume; one
/// whose ledger was lost may not know that the instance has it.
void World::hear_of_damage(Host& host, const std::string& instance_id) {
  const auto rows = host.process.spy->query(
      "SELECT volume_id FROM unclean_volumes WHERE instance_id = ? AND beyond_repair <> '' AND "
      "tagged = 0 AND volume_id NOT IN (SELECT subject FROM orders WHERE kind = 'return' AND "
      "state = 'open')",
      {instance_id});
  if (!rows) return;
  for (const auto& row : *rows)
    if (invariants.beyond_repair.insert(row.text(0)).second)
      coverage.add("report", "beyond repair");
  if (options.planted == kForgetsDamage)
    std::ignore =
        host.process.spy->run("DELETE FROM unclean_volumes WHERE beyond_repair <> ''", {});
}

bool World::counts_as_given_back(const std::string& instance_id,
                                 const std::string& volume_id) const {
  const Host& host = *hosts_[0];
  if (!host.process.running() || untagged_instances.contains(instance_id)) return false;
  const auto rows = host.process.spy->query(
      "SELECT instance_id FROM departures WHERE instance_id = ? AND volume_id = ? AND released = 1",
      {instance_id, volume_id});
  return rows && !rows->empty();
}

bool World::may_act_on_release(const std::string& instance_id) const {
  const Host& host = *hosts_[0];
  const auto said = host.stages_told.find(instance_id);
  if (said != host.stages_told.end()) return said->second == NodeStage::released;
  return region.now() - host.started >= core::kHeardWithin;
}

/// Until somebody mounts the volume nothing more becomes of it. A tick that is under way may still
/// write down what was said before.
void World::hear_of_unmounted(const Guest& guest) {
  const Host& host = *hosts_[0];
  const auto* volume = region.volume(guest.volume_id);
  if (host.in_tick || !volume || !volume->link || volume->link->instance_id != guest.id ||
      volume->link->generation != guest.generation)
    return;
  const auto rows =
      host.process.spy->query("SELECT warmth FROM volumes WHERE volume_id = ?", {guest.volume_id});
  if (!rows || rows->empty()) return;
  if (invariants.left_unmounted.emplace(guest.volume_id, rows->front().number(0)).second)
    coverage.add("report", "never mounted");
}

/// Nobody takes the volume from it, and nobody ends it: it would be kept waiting for ever. A tick
/// that is under way may be about to say otherwise, and a look that failed tells of no plan.
void World::check_refusal(const Guest& guest) {
  const Host& host = *hosts_[0];
  const auto* volume = region.volume(guest.volume_id);
  if (host.in_tick || host.last.blind || !Guests::is_refused(guest) || !volume ||
      !attached(*volume) || volume->link->instance_id != guest.id)
    return;
  const auto& rows = host.last.plan.nodes;
  if (std::none_of(rows.begin(), rows.end(),
                   [&](const core::NodeRow& row) { return is_assigned(row, guest); }))
    return;
  const auto leaving = host.process.spy->query(
      "SELECT instance_id FROM departures WHERE instance_id = ? AND advised = 0", {guest.id});
  if (leaving && leaving->empty())
    invariants.violated(16, guest.id + " is told that it gets no volume, and " + guest.volume_id +
                                ", which the manager has given to it, is there");
}

/// The pool that it names is its ticket's, which nobody changes.
void World::ask_for_key(Guest& guest) {
  const auto* instance = region.instance(guest.id);
  if (!instance) return;
  if (signed_hellos && guest.identity.empty()) guest.identity = identity_of(region, *instance);
  const auto reply = say_hello(guest.id, guest.identity, instance->private_ip);
  guest.mute = reply.status == kConflict;
  if (reply.status != kTaken) return;
  if (reports_lost > 0) {  // the answer
    --reports_lost;
    return;
  }
  const auto key = bootstrap::parse_key(reply.key_hex);
  CHECK(key.has_value());
  guest.key = *key;
  guests.hear_word(guest, reply.volume_id, reply.no_volume);
}

/// Without certificates a key that was used is not replaced: when an old copy of the ledger has
/// another than the instance, nobody hears it any more. Who told it to drain sees that no successor
/// comes, and ends it. So does who waits for sessions on one that waits for a word.
void World::end_mute_instances() {
  for (const auto& [id, instance] : region.instances()) {
    const Guest* guest = guests.find(id);
    if (!guest || !guest->mute || instance.state != sim::GuestState::running) continue;
    const bool waits = Guests::waits_unheard(*guest);
    if (guest->step != GuestStep::released && !Guests::is_held_back(*guest) &&
        !Guests::is_unheard_behind_release(*guest) && !waits)
      continue;
    say("people end " + id + ", which " +
        (waits ? "waits for the manager's word" : "has released its volume") +
        " and which nobody hears");
    coverage.add("mute", "ended by people");
    std::ignore = region.terminate_instances({id});
  }
}

World::Taken World::deliver(Guest& guest, const core::NodeReport& report) {
  if (guest.key.empty()) ask_for_key(guest);
  if (guest.key.empty()) return {};
  const auto letter = letter_of(guest, report);
  const bool lost = reports_lost > 0;
  reports_lost -= lost;
  if (lost && letter.sequence % 2 == 0) return {};
  if (reports_late > 0) {
    --reports_late;
    later(draw.span(seconds{1}, seconds{30}), [this, letter] { std::ignore = post(letter); });
    return {};
  }
  const auto reply = post(letter);
  if (reply.status == 0) return {};
  if (reply.status == kUnauthorized) ask_for_key(guest);
  if (reply.status == kTaken)
    say("report " + guest.id + " stage " + std::string(to_string(report.stage)));
  if (reply.status == kTaken && reports_doubled > 0) {
    --reports_doubled;
    if (post(letter).status == kTaken)
      invariants.violated(10, "a report of " + guest.id + " is taken twice");
    later(draw.span(seconds{1}, seconds{30}), [this, letter] { std::ignore = post(letter); });
  }
  if (reply.status == kTaken && report.reason == kNeverMounted) hear_of_unmounted(guest);
  if (lost) return {};  // its answer
  const bool gone = reply.status == kGone;
  if (reply.status != kTaken && !gone) return {};
  guests.hear_word(guest, reply.volume_id, reply.no_volume);
  check_refusal(guest);
  const bool said = gone && report.stage == NodeStage::released;
  return {!gone || said, reply.drain};
}

}  // namespace warmroot::fleet
