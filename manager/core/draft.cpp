// Bookkeeping of the draft: lookups, leases, and the one door through which calls enter a plan.
#include "manager/core/draft.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "manager/core/adopting.hpp"
#include "manager/core/backoff.hpp"
#include "manager/core/census.hpp"
#include "manager/core/unanswered.hpp"

namespace warmroot::core {

bool holds_volume(LeaseState state) {
  return state != LeaseState::reserved && state != LeaseState::ended;
}

const aws::Attachment* attachment_of(const aws::Volume& volume) {
  for (const auto& attachment : volume.attachments)
    if (attachment.state != aws::AttachmentState::detached) return &attachment;
  return nullptr;
}

namespace {

/// Resources have a handful of tags: looking at each is cheaper than a key made for the search.
const std::string* find_tag(const aws::Tags& tags, std::string_view key) {
  for (const auto& [name, value] : tags)
    if (name == key) return &value;
  return nullptr;
}

}  // namespace

std::string lineage_of(const aws::Volume& volume) {
  const auto& lineage = tag_of(volume.tags, kTagLineage);
  return lineage.empty() ? volume.snapshot_id : lineage;
}

const std::string& tag_of(const aws::Tags& tags, std::string_view key) {
  static const std::string kNone;
  const auto* value = find_tag(tags, key);
  return value ? *value : kNone;
}

bool has_tag(const aws::Tags& tags, std::string_view key) {
  return find_tag(tags, key) != nullptr;
}

const NodeDraft* PoolDraft::find_node(const std::string& name) const {
  const auto index = node_index(spec->name, name);
  if (!index) return nullptr;
  if (static_cast<std::size_t>(*index) < within) return &nodes[static_cast<std::size_t>(*index)];
  for (std::size_t place = within; place < nodes.size(); ++place)
    if (nodes[place].index == *index) return &nodes[place];
  return nullptr;
}

NodeDraft* PoolDraft::find_node(const std::string& name) {
  return const_cast<NodeDraft*>(std::as_const(*this).find_node(name));
}

Draft::Draft(const Desired& desired_, const Observed& observed_, const LedgerView& ledger_,
             Instant now_, const Limits& limits)
    : desired(desired_),
      observed(observed_),
      ledger(ledger_),
      now(now_),
      leases(ledger_.leases.begin(), ledger_.leases.end()),
      streaks(ledger_.streaks),
      refused_offers(ledger_.refused_offers),
      unclean(ledger_.unclean),
      calls_left_(limits.calls) {
  for (const auto& spec : desired.pools) {
    PoolDraft pool;
    pool.spec = &spec;
    pool.source = find_source(spec, observed);
    const int running = ledger.paused_pools.contains(spec.name) ? 0 : spec.running;
    pool.nodes.reserve(static_cast<std::size_t>(std::max(spec.nodes, 0)));
    for (int index = 0; index < spec.nodes; ++index) {
      NodeDraft node;
      node.name = node_name(spec.name, index);
      node.index = index;
      node.wanted = index < running;
      if (!spec.zones.empty())
        node.zone = spec.zones[static_cast<std::size_t>(index) % spec.zones.size()];
      pool.nodes.push_back(std::move(node));
    }
    pool.within = pool.nodes.size();
    pools_by_name_.emplace(spec.name, pools.size());
    pools.push_back(std::move(pool));
  }
  leases_by_volume_.ends.reserve(leases.size());
  leases_by_instance_.ends.reserve(leases.size());
  instances_by_id_.reserve(observed.instances.size());
  for (std::size_t place = 0; place < leases.size(); ++place) index_lease(place);
  for (const auto& intent : ledger.intents) {
    undecided_.insert(intent.resources.begin(), intent.resources.end());
    if (intent.call.action != "RunInstances" && intent.call.action != "CreateFleet") continue;
    const int asked = static_cast<int>(intent.nodes.size());
    launches_asked_[{intent.pool, ""}] += asked;
    // Those with volumes of their own are for the nodes that they name and for no other.
    if (launches_with_volumes(intent)) {
      undecided_launches_.insert(intent.token);
    } else if (!intent.zone.empty()) {
      launches_asked_[{intent.pool, intent.zone}] += asked;
      for (const auto& node : intent.nodes) launch_asked_for_.emplace(node, intent.zone);
    }
  }
  plan.looking_around = heed_beginning();
}

namespace {

/// While a listing of a large world goes on.
constexpr Milliseconds kLookAgain{1'000};

}  // namespace

bool Draft::heed_beginning() {
  static const std::string kLookedAround = "looked around";
  if (now >= ledger.begun + kLooksAroundFor) return false;
  const Instant due = ledger.begun + kVisibilityWindow;
  int looks = kLooksUntilGone;
  if (!ledger.watches.contains(kLookedAround))
    looks = observed.complete && shows_a_source(observed) ? hold("looks around").looks : 0;
  if (looks < kLooksUntilGone) {
    wake_at(now + kVisibilityWindow / kLooksUntilGone);
    return true;
  }
  hold(kLookedAround);
  if (observed.listed_from >= due) return false;
  wake_at(std::max(due, now + kLookAgain));
  return true;
}

bool Draft::launch_asked_for(const std::string& node, const std::string& zone) const {
  return launch_asked_for_.contains({node, zone});
}

int Draft::launches_asked(const std::string& pool, const std::string& zone) const {
  const auto found = launches_asked_.find({pool, zone});
  return found == launches_asked_.end() ? 0 : found->second;
}

PoolDraft* Draft::find_pool(std::string_view name) {
  const auto found = pools_by_name_.find(name);
  return found == pools_by_name_.end() ? nullptr : &pools[found->second];
}

PoolDraft* Draft::find_pool_of(std::string_view node) {
  auto* pool = find_pool(node.substr(0, node.rfind('-')));
  return pool && node_index(pool->spec->name, std::string(node)) ? pool : nullptr;
}

InstanceDraft* Draft::find_instance(std::string_view id) {
  const auto* found = instances_by_id_.find(id);
  return found ? *found : nullptr;
}

InstanceDraft& Draft::add_instance(InstanceDraft made) {
  const std::string id = made.id;
  const auto place = instances.emplace_hint(instances.end(), id, std::move(made));
  instances_by_id_.add(place->first, &place->second);
  return place->second;
}

const NodeReport* Draft::report_of(const std::string& instance_id) const {
  const auto found = observed.reports.find(instance_id);
  return found == observed.reports.end() ? nullptr : &found->second;
}

const NodeReport* Draft::fresh_report_of(const std::string& instance_id) const {
  const auto* report = report_of(instance_id);
  return report && now - report->received < kReportFresh ? report : nullptr;
}

bool Draft::may_yet_report(const std::string& instance_id) {
  if (!observed.hears_since || report_of(instance_id)) return false;
  const Instant due = *observed.hears_since + kHeardWithin;
  if (now >= due) return false;
  wake_at(due);
  return true;
}

void Draft::LeaseIndex::add(std::string_view id, std::size_t place) {
  const auto at = static_cast<std::uint32_t>(place);
  next.push_back(at);
  auto* chain = ends.find(id);
  if (!chain) return ends.add(id, {at, at});
  next[chain->last] = at;
  chain->last = at;
}

void Draft::index_lease(std::size_t place) {
  leases_by_volume_.add(leases[place].volume_id, place);
  leases_by_instance_.add(leases[place].instance_id, place);
}

template <typename Fits>
Lease* Draft::first_of(const LeaseIndex& index, const std::string& id, Fits fits) {
  const auto* found = index.ends.find(id);
  if (!found) return nullptr;
  for (auto place = found->first;; place = index.next[place]) {
    if (fits(leases[place])) return &leases[place];
    if (index.next[place] == place) return nullptr;
  }
}

Lease* Draft::holder_of(const std::string& volume_id) {
  return first_of(leases_by_volume_, volume_id,
                  [](const Lease& lease) { return holds_volume(lease.state); });
}

Lease* Draft::reservation_of(const std::string& volume_id) {
  return first_of(leases_by_volume_, volume_id,
                  [](const Lease& lease) { return lease.state == LeaseState::reserved; });
}

Lease* Draft::lease_on(const std::string& instance_id) {
  return first_of(leases_by_instance_, instance_id,
                  [](const Lease& lease) { return lease.state != LeaseState::ended; });
}

Lease* Draft::lease_of(const std::string& volume_id, const std::string& instance_id) {
  return first_of(leases_by_volume_, volume_id, [&](const Lease& lease) {
    return lease.instance_id == instance_id && lease.state != LeaseState::ended;
  });
}

void Draft::set_lease(const Lease& wanted, const std::string& why) {
  const Lease* present = lease_of(wanted.volume_id, wanted.instance_id);
  if (present && present->state == wanted.state && present->device == wanted.device) return;
  enter_again(wanted, why);
}

void Draft::enter_again(const Lease& wanted, const std::string& why) {
  Lease changed = wanted;  // a copy first: `wanted` may live in `leases`
  Lease* present = lease_of(changed.volume_id, changed.instance_id);
  changed.since = now;
  if (present) {  // its ids stay where they are: the index refers to them
    present->pool = changed.pool;
    present->node = changed.node;
    present->device = changed.device;
    present->state = changed.state;
    present->since = changed.since;
  } else {
    leases.push_back(changed);
    index_lease(leases.size() - 1);
  }
  record(RecordLease{changed, why});
}

bool Draft::afford(std::string_view action) {
  const auto left = calls_left_.find(action);
  if (left == calls_left_.end() || left->second > 0) return true;
  ++plan.short_of[std::string(action)];
  return false;
}

int Draft::take(std::string_view things, int wanted) {
  const auto left = calls_left_.find(things);
  if (left == calls_left_.end()) return wanted;
  const int taken = std::clamp(left->second, 0, wanted);
  left->second -= taken;
  if (taken < wanted) plan.short_of[std::string(things)] += wanted - taken;
  return taken;
}

namespace {

/// The watch of a call of which nothing tells whether it was carried out but what EC2 shows later.
/// Empty for one with a token; for AttachVolume, whose lease knows; and for TerminateInstances,
/// which takes others along.
std::string asked_key(const aws::Mutation& mutation) {
  if (!token_of(mutation).empty() || std::holds_alternative<aws::AttachVolume>(mutation) ||
      std::holds_alternative<aws::TerminateInstances>(mutation))
    return {};
  std::string key = "asked/" + std::string(action_name(mutation)) + "/" + resource_of(mutation);
  if (const auto* set = std::get_if<aws::CreateTags>(&mutation))
    for (const auto& [name, value] : set->tags) key += " " + name;
  if (const auto* removed = std::get_if<aws::DeleteTags>(&mutation))
    for (const auto& name : removed->keys) key += " " + name;
  return key;
}

}  // namespace

bool Draft::act(aws::Mutation mutation, const std::string& pool, std::vector<std::string> nodes,
                std::string reason, std::string zone) {
  if (!observed.complete || frozen) return false;
  Action action{std::move(mutation), pool, std::move(nodes), std::move(reason), std::move(zone)};
  const auto asked = asked_key(action.mutation);
  if (!asked.empty() && is_between_asks(asked, action)) return false;
  const auto name = action_name(action.mutation);
  if (!afford(name)) return false;
  if (const auto left = calls_left_.find(name); left != calls_left_.end()) --left->second;
  if (!asked.empty()) hold(asked);
  plan.actions.push_back(std::move(action));
  return true;
}

/// A call that EC2 has accepted is not seen at once, and one that it answered with "not found" may
/// never be: it is asked for again at the second look, the fourth, the eighth, ... True between
/// those. What was refused has a pause of its own.
bool Draft::is_between_asks(const std::string& asked, const Action& action) {
  if (!ledger.watches.contains(asked)) return false;
  const auto looks = static_cast<unsigned>(hold(asked).looks);
  const auto& subjects = action.nodes.empty() ? resource_ids(action.mutation) : action.nodes;
  const auto name = action_name(action.mutation);
  return !std::has_single_bit(looks) &&
         std::none_of(subjects.begin(), subjects.end(), [&](const auto& subject) {
           return ledger.failures.contains(failure_key(name, subject));
         });
}

std::optional<int> Draft::calls_left(std::string_view action) const {
  const auto left = calls_left_.find(action);
  return left == calls_left_.end() ? std::nullopt : std::optional(std::max(0, left->second));
}

void Draft::note(NoteKind kind, const std::string& pool, const std::string& node, std::string text,
                 bool blocking) {
  plan.notes.push_back({kind, pool, node, std::move(text), blocking});
}

void Draft::record(Record entry) {
  plan.records.push_back(std::move(entry));
}

Watch Draft::hold(const std::string& key) {
  plan.watches.insert(key);
  const auto found = ledger.watches.find(key);
  if (found == ledger.watches.end()) return {now, 1};
  return {found->second.since, found->second.looks + 1};
}

bool Draft::surely(const std::string& key) {
  const Watch holds = hold(key);
  wake_at(now + kVisibilityWindow);
  return holds.looks >= kLooksUntilGone && now - holds.since >= kVisibilityWindow;
}

bool Draft::backing_off(std::string_view action, const std::string& resource) {
  if (ledger.failures.empty()) return false;
  const auto key = failure_key(action, resource);
  const auto found = ledger.failures.find(key);
  if (found == ledger.failures.end()) return false;
  const Instant retry = retry_at(found->second, key);
  if (now >= retry) return false;
  wake_at(retry);
  return true;
}

bool Draft::may_be_done_already(std::string_view action, const std::string& resource,
                                const std::string& token) {
  if (ledger.failures.empty()) return false;
  const auto found = ledger.failures.find(failure_key(action, resource));
  if (found == ledger.failures.end()) return false;
  const Failure& failure = found->second;
  const bool launches = action == "RunInstances" || action == "CreateFleet";
  if (!failure.throttled && !(launches && failure.code == kWithdrawn)) return false;
  if (!token.empty() && failure.token == token) return false;
  const Instant due = failure.last + kVisibilityWindow;
  if (now >= due) return false;
  wake_at(due);
  return true;
}

bool Draft::may_come_late(std::string_view action, const std::string& resource) {
  const auto found = ledger.failures.find(failure_key(action, resource));
  if (found == ledger.failures.end() || found->second.code != kWithdrawn) return false;
  if (!may_yet_be_carried_out(found->second.last, now)) return false;
  wake_at(found->second.last + kCarriedOutWithin);
  return true;
}

bool Draft::is_base_root(const aws::Attachment& attachment) const {
  const auto* instance = observed.instances.get(attachment.instance_id);
  return instance && instance->root_device_name == attachment.device;
}

bool Draft::would_delete_volume(const std::string& instance_id) {
  if (!take_volumes_) {
    take_volumes_.emplace();
    for (const auto& [id, volume] : observed.volumes)
      if (const auto* attachment = attachment_of(volume);
          attachment && attachment->delete_on_termination && !is_base_root(*attachment))
        take_volumes_->insert(attachment->instance_id);
  }
  return take_volumes_->contains(instance_id);
}

bool Draft::shows_volume_on(const std::string& instance_id) {
  if (!with_volume_) {
    with_volume_.emplace();
    for (const auto& [id, volume] : observed.volumes)
      if (const auto* attachment = attachment_of(volume);
          attachment &&
          (has_tag(volume.tags, kTagNode) || ledger.volumes.contains(id) || is_unnamed(volume) ||
           (is_from_launch(volume) && attachment->device == kLaunchDevice)))
        with_volume_->insert(attachment->instance_id);
    // Either view may lag behind the other.
    for (const auto& [id, instance] : observed.instances)
      for (const auto& device : instance.block_devices)
        if (const auto* volume = observed.volumes.get(device.volume_id);
            volume && has_tag(volume->tags, kTagNode) &&
            device.device_name != instance.root_device_name &&
            device.state != aws::AttachmentState::detaching &&
            device.state != aws::AttachmentState::detached)
          with_volume_->insert(id);
  }
  return with_volume_->contains(instance_id);
}

bool Draft::is_set_aside(const aws::Volume& volume) const {
  return has_tag(volume.tags, kTagQuarantined) || beyond_repair.contains(volume.volume_id);
}

bool Draft::undecided(const std::string& resource_id) const {
  return undecided_.contains(resource_id);
}

bool Draft::undecided_launch(std::string_view client_token) const {
  return !client_token.empty() && undecided_launches_.contains(client_token);
}

int Draft::generation(std::string_view action, const std::string& node) const {
  const auto found = ledger.generations.find(generation_key(action, node));
  return found == ledger.generations.end() ? 0 : found->second;
}

void Draft::wake_at(Instant at) {
  if (at <= now) return;
  if (!earliest_wake || at < *earliest_wake) earliest_wake = at;
}

}  // namespace warmroot::core
