// See the header.
#include "tests/fleet_invariants.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "manager/core/offers.hpp"
#include "manager/core/token.hpp"

namespace warmroot {

namespace {

/// EC2's own definition of stuck, see core/draft.hpp.
constexpr Milliseconds kStuck{90'000};

/// What is too much is shown by the next look of an idle manager, and then told to end.
constexpr Milliseconds kSurplusEnds{90'000};

bool live(const sim::InstanceRecord& instance) {
  return instance.state == sim::GuestState::pending || instance.state == sim::GuestState::running;
}

std::string tag(const sim::Tags& tags, const char* key) {
  const auto found = tags.find(key);
  return found == tags.end() ? std::string() : found->second;
}

}  // namespace

void Invariants::violated(int invariant, const std::string& text) {
  violations.push_back("(" + std::to_string(invariant) + ") " + text);
}

namespace {

const core::PoolSpec* pool_named(const core::Desired& desired, const std::string& name) {
  for (const auto& pool : desired.pools)
    if (pool.name == name) return &pool;
  return nullptr;
}

}  // namespace

bool Invariants::is_pool_volume(const sim::VolumeRecord& volume) const {
  return !volume.root &&
         (volume.tags.contains("warmroot:node") || tag(volume.tags, "warmroot:role") == "node");
}

bool Invariants::flag_set_before(const std::string& volume_id, Instant when) const {
  const auto found = flagged.find(volume_id);
  return found == flagged.end() || found->second < when;
}

int Invariants::most_running(const core::PoolSpec& pool) const {
  const auto found = running.find(pool.name);
  return found == running.end() ? pool.running : std::max(pool.running, found->second);
}

void Invariants::check_call(const Sender& sender, const aws::Form& form, const std::string& body) {
  const std::string action(aws::form_value(form, "Action"));
  check_recorded(sender, action, body);
  for (const auto& [key, value] : form)
    if (foreign.contains(value)) violated(11, action + " names " + value + ", which is not ours");
  if (action == "DeleteVolume") {
    const std::string id(aws::form_value(form, "VolumeId"));
    const auto* volume = region_.volume(id);
    const bool attached = volume && volume->link && volume->link->attach_time < sender.knew(id);
    if (!ordered(sender, "delete", id) || attached)
      violated(3, "DeleteVolume of " + id + ", which nobody ordered or which is attached");
    removed.insert(id);
  }
  if (action == "AttachVolume") check_attach(sender, form);
  if (action == "CreateTags") check_set_aside(sender, form);
  if (action == "DetachVolume") check_detach(sender, form);
  if (action == "TerminateInstances") check_terminate(sender, form);
}

void Invariants::check_recorded(const Sender& sender, const std::string& action,
                                const std::string& body) {
  const auto rows = sender.spy->query(
      "SELECT id FROM intents WHERE state IN ('open', 'unknown') AND body = ?", {body});
  if (!rows || rows->empty()) violated(6, action + " was not recorded before it was sent");
}

bool Invariants::ordered(const Sender& sender, const std::string& kind,
                         const std::string& subject) const {
  const auto rows =
      sender.spy->query("SELECT id FROM orders WHERE kind = ? AND subject = ?", {kind, subject});
  return rows && !rows->empty();
}

void Invariants::check_attach(const Sender& sender, const aws::Form& form) {
  const std::string volume_id(aws::form_value(form, "VolumeId"));
  const std::string instance_id(aws::form_value(form, "InstanceId"));
  const auto* volume = region_.volume(volume_id);
  const auto* instance = region_.instance(instance_id);
  const auto text = volume_id + " to " + instance_id;
  const auto leases = sender.spy->query(
      "SELECT id FROM leases WHERE volume_id = ? AND instance_id <> ? AND state IN "
      "('attaching', 'checking', 'active', 'leaving')",
      {volume_id, instance_id});
  if (!leases || !leases->empty()) violated(1, "attach of leased " + text);
  // Its holder may have it from an attach whose answer was lost, which is asked for again.
  const bool held = volume && volume->link && volume->link->instance_id == instance_id;
  if (sender.hears_reports && beyond_repair.contains(volume_id) && !held)
    violated(9, "attach of " + text + ", whose file system is beyond repair");
  if (!volume || !instance) return;
  if (volume->link && volume->link->instance_id != instance_id &&
      volume->link->attach_time < sender.knew(volume_id))
    violated(1, "attach of attached " + text);
  if (volume->zone != instance->zone) violated(4, "across zones: " + text);
  for (const auto& [id, other] : region_.volumes())
    if (id != volume_id && other.link && other.link->instance_id == instance_id &&
        is_pool_volume(other) && other.link->attach_time < sender.knew(id))
      violated(2, "a second volume: " + text);
}

/// What its node has never mounted nobody can call damaged.
void Invariants::check_set_aside(const Sender& sender, const aws::Form& form) {
  const bool sets_aside = std::any_of(form.begin(), form.end(), [](const auto& pair) {
    return pair.first.starts_with("Tag.") && pair.second == "warmroot:quarantined";
  });
  if (!sets_aside) return;
  for (const auto& [key, id] : form) {
    if (!key.starts_with("ResourceId.") || !left_unmounted.contains(id)) continue;
    const auto* volume = region_.volume(id);
    const bool broken = !volume || volume->state == sim::DiskState::error;
    if (!broken && !beyond_repair.contains(id) && !unknowable.contains(id) &&
        !ordered(sender, "quarantine", id))
      violated(15, id + " is set aside, which was given back without having been mounted");
  }
}

void Invariants::check_unmounted(manager::Database& spy) {
  for (auto& [id, warmth] : left_unmounted) {
    const auto rows = spy.query("SELECT warmth FROM volumes WHERE volume_id = ?", {id});
    if (!rows || rows->empty()) continue;
    const std::int64_t now = rows->front().number(0);
    if (std::exchange(warmth, now) != now)
      violated(15, id + " is " + std::to_string(now) +
                       " % warm for the manager since it was given back without having been "
                       "mounted");
  }
}

void Invariants::check_detach(const Sender& sender, const aws::Form& form) {
  const std::string volume_id(aws::form_value(form, "VolumeId"));
  const std::string instance_id(aws::form_value(form, "InstanceId"));
  if (instance_id.empty()) violated(10, "detach without an instance");
  const auto* volume = region_.volume(volume_id);
  const auto* instance = region_.instance(instance_id);
  if (!volume || !volume->link || !instance) return;
  if (instance->state != sim::GuestState::running || instance->impaired) return;
  if (volume->link->instance_id != instance_id) return;
  // EC2 refuses one that names another attachment's device.
  const auto device = aws::form_value(form, "Device");
  if (!device.empty() && device != volume->link->device) return;
  if (volume->link->attach_time >= sender.knew(volume_id)) return;
  if (const auto done = attached_at.find(volume_id);
      done != attached_at.end() && done->second >= sender.knew(volume_id))
    return;
  const bool old = region_.now() - volume->link->attach_time >= kStuck;
  // People have just begun to undo a stuck attach, of which the guest never saw anything.
  if (old && volume->link->state == sim::LinkState::detaching &&
      (!attached_at.contains(volume_id) || attached_at.at(volume_id) < volume->link->attach_time))
    return;
  if (old && volume->link->state == sim::LinkState::attaching) {
    started_over_[volume_id] = volume->link->attach_time;
    return;
  }
  // A second manager may say the same a moment later, of an attach that is being undone already.
  const auto again = started_over_.find(volume_id);
  if (volume->link->state == sim::LinkState::detaching && again != started_over_.end() &&
      again->second == volume->link->attach_time)
    return;
  if (!gave_back(instance_id, volume_id) && !ordered(sender, "release", instance_id))
    violated(10, "detach of " + volume_id + " from running " + instance_id);
}

void Invariants::check_terminate(const Sender& sender, const aws::Form& form) {
  for (const auto& [key, id] : form) {
    if (!key.starts_with("InstanceId")) continue;
    asked_to_end_.insert(id);
    const auto* instance = region_.instance(id);
    if (!instance) continue;
    if (!launched_.contains(id) &&
        !core::is_own_launch(deployment_, instance->client_token, instance->tags))
      violated(11, "we did not launch " + id);
    for (const auto& [volume_id, volume] : region_.volumes())
      if (volume.link && volume.link->instance_id == id && is_pool_volume(volume) &&
          volume.link->delete_on_termination && volume.link->attach_time < sender.knew(volume_id) &&
          flag_set_before(volume_id, sender.knew(volume_id)))
        violated(12, volume_id + " would be deleted with " + id);
  }
}

void Invariants::check_state() {
  for (const auto& id : used)
    if (const auto* volume = region_.volume(id);
        (!volume || volume->state == sim::DiskState::deleting) && !removed.contains(id) &&
        !flagged.contains(id)) {
      violated(3, id + " is gone, which was used and which nobody deleted");
      removed.insert(id);
    }
  for (const auto& id : foreign)
    if (id.starts_with("vol-") && !region_.volume(id)) violated(11, id + " is gone, not ours");
  std::map<std::string, std::string> disks;
  for (const auto& [id, volume] : region_.volumes()) {
    if (!volume.link || !is_pool_volume(volume) || foreign.contains(id) || unknowable.contains(id))
      continue;
    const auto [other, first] = disks.emplace(volume.link->instance_id, id);
    if (!first && counts)  // two managers that do not know of each other: judged by their calls
      violated(2, other->second + " and " + id + " are attached to " + volume.link->instance_id);
    if (volume.link->delete_on_termination && !flagged.contains(id))
      violated(12, id + " would be deleted with " + volume.link->instance_id);
  }
}

void Invariants::check_leases(manager::Database& spy) {
  const auto open = spy.query(
      "SELECT volume_id, instance_id FROM leases "
      "WHERE state IN ('attaching', 'checking', 'active', 'leaving')");
  if (!open) return;
  std::set<std::string> held, holders;
  for (const auto& lease : *open) {
    const auto volume_id = lease.text(0), instance_id = lease.text(1);
    const bool one_volume = holders.insert(instance_id).second || !counts;
    if (held.insert(volume_id).second && one_volume) continue;
    violated(2, "two open leases: one of " + volume_id + " on " + instance_id);
    return;
  }
}

void Invariants::check_limits(const Sender& sender, const aws::Form& form,
                              const core::PoolSpec& pool) {
  auto count = aws::form_value(form, "MaxCount");
  if (count.empty())
    count = aws::form_value(form, "TargetCapacitySpecification.TotalTargetCapacity");
  const int asked = std::atoi(std::string(count).c_str());
  int shown = 0;
  double cost = 0;
  double cheapest = 1e9;
  for (const auto& type : pool.launch->instance_types)
    for (const auto& zone : pool.zones)
      cheapest = std::min(cheapest, region_.spot_price(type, zone) / 1e5);
  for (const auto& [id, instance] : region_.instances()) {
    if (!live(instance) || asked_to_end_.contains(id) || instance.interrupted_at ||
        tag(instance.tags, "warmroot:pool") != pool.name ||
        !core::is_own_launch(deployment_, instance.client_token, instance.tags) ||
        instance.launch_time >= sender.knew(id))
      continue;
    ++shown;
    cost += region_.spot_price(instance.type, instance.zone) / 1e5;
  }
  if (pool.launch->max_instances && shown + asked > *pool.launch->max_instances)
    violated(5, std::to_string(shown) + " instances of " + pool.name + " and " +
                    std::to_string(asked) + " more, of at most " +
                    std::to_string(*pool.launch->max_instances));
  const auto limit = core::parse_usd(pool.launch->max_price_hour);
  if (limit && cost + asked * cheapest > static_cast<double>(*limit) / 1e6 + 1e-9)
    violated(5, std::to_string(cost) + " USD an hour of " + pool.name + " and " +
                    std::to_string(asked) + " instances more, of at most " +
                    pool.launch->max_price_hour);
}

void Invariants::count_again() {
  if (std::exchange(counts, true)) return;
  std::set<std::string> seen;
  for (const auto& [id, volume] : region_.volumes())
    if (const auto node = tag(volume.tags, "warmroot:node");
        !node.empty() && !volume.tags.contains("warmroot:parked") && !seen.insert(node).second)
      doubled_nodes_.insert(node);
}

void Invariants::check_counts(const core::Desired& desired) {
  for (const auto& [id, instance] : region_.instances())
    if (!launched_.contains(id) &&
        core::is_own_launch(deployment_, instance.client_token, instance.tags))
      launched_.insert(id);
  for (const auto& [id, volume] : region_.volumes())
    if (tag(volume.tags, "warmroot:role") == "launch") from_launch_.insert(id);
  if (!counts) return;
  std::map<std::string, int> volumes;
  std::map<std::pair<std::string, std::string>, int> of_source;  // of a node, while it rolls
  std::map<std::string, int> stock;      // by what tells them apart: an old source's is kept
  std::map<std::string, int> by_launch;  // of no node yet, or left behind by an instance
  for (const auto& [id, volume] : region_.volumes()) {
    if (tag(volume.tags, "warmroot:deployment") != deployment_ ||
        volume.state == sim::DiskState::deleting || volume.state == sim::DiskState::error ||
        volume.tags.contains("warmroot:quarantined") || volume.tags.contains("warmroot:retired") ||
        volume.tags.contains("warmroot:parked") || copied.contains(id) || unknowable.contains(id) ||
        beyond_repair.contains(id))
      continue;
    const auto* pool = pool_named(desired, tag(volume.tags, "warmroot:pool"));
    if (is_pool_volume(volume) && volume.tags.contains("warmroot:node")) {
      // One more each; a pool that the spec names no more may have left some on their way.
      const bool rolls = !pool || pool->rollout.policy == core::RolloutSpec::Policy::replace;
      const auto& node = volume.tags.at("warmroot:node");
      const auto source = tag(volume.tags, "warmroot:lineage");
      if (rolls && ++of_source[{node, source}] == 2 && !doubled_nodes_.contains(node))
        violated(5, "2 volumes of " + source + " for " + node);
      if (++volumes[node] == (rolls ? 3 : 2) && !doubled_nodes_.contains(node))
        violated(5, std::to_string(volumes[node]) + " volumes for " + node);
    } else if (const auto of = tag(volume.tags, "warmroot:role");
               pool && (of == "launch" || of == "node" ||  // not claimed yet, or not named yet
                        (of == "spare" && from_launch_.contains(id)))) {
      if (!volume.root && ++by_launch[pool->name] == pool->nodes + 1)
        violated(5, std::to_string(by_launch[pool->name]) + " volumes made by launches of " +
                        pool->name);
    } else if (const auto role = tag(volume.tags, "warmroot:role"); !role.empty() && pool) {
      const auto kind = pool->name + " " + role + " in " + volume.zone + " of " +
                        tag(volume.tags, "warmroot:lineage") +
                        (volume.encrypted ? ", encrypted" : "");
      if (++stock[kind] == (role == "golden" ? 1 : pool->stock.spares) + 1)
        violated(5, std::to_string(stock[kind]) + " x " + kind);
    }
  }
  auto instances = count_instances(true);
  for (const auto& pool : desired.pools)
    if (pool.launch && instances[pool.name] > 2 * most_running(pool))
      violated(5, std::to_string(instances[pool.name]) + " instances for " +
                      std::to_string(most_running(pool)) + " nodes of " + pool.name);
}

bool Invariants::makes_way(const std::string& id, const sim::InstanceRecord& instance) const {
  return instance.impaired || instance.never_runs || leaves(id);
}

/// One that people protect from its end stays as long as they want, and so does one with a volume
/// that nobody can know any more, of which the manager tells them: a session may be in it. One that
/// EC2 has given notice ends within two minutes, and its successor too may get notice: the node
/// waits for neither.
std::map<std::string, int> Invariants::count_instances(bool all) const {
  std::set<std::string> kept;
  for (const auto& id : unknowable)
    if (const auto* volume = region_.volume(id); volume && volume->link)
      kept.insert(volume->link->instance_id);
  std::map<std::string, int> pools;
  for (const auto& [id, instance] : region_.instances())
    if (live(instance) && !kept.contains(id) && !unseen.contains(id) &&
        !instance.api_termination_disabled && !instance.interrupted_at &&
        !asked_to_end_.contains(id) &&
        core::is_own_launch(deployment_, instance.client_token, instance.tags) &&
        (all || !makes_way(id, instance)))
      ++pools[tag(instance.tags, "warmroot:pool")];
  return pools;
}

/// A node whose volume is lost may go on in another zone: what was launched for it in the first one
/// has to be shown before it can be ended.
void Invariants::check_instances(const core::Desired& desired, bool able) {
  if (!counts || !able) return surplus_since_.clear();
  auto staying = count_instances(false);
  for (const auto& pool : desired.pools) {
    if (!pool.launch || staying[pool.name] <= most_running(pool)) {
      surplus_since_.erase(pool.name);
      continue;
    }
    const auto since = surplus_since_.emplace(pool.name, region_.now()).first->second;
    if (region_.now() - since < kSurplusEnds) continue;
    violated(5, std::to_string(staying[pool.name]) +
                    " instances that make way for no other, for a minute and a half and " +
                    std::to_string(most_running(pool)) + " nodes of " + pool.name);
  }
}

}  // namespace warmroot
