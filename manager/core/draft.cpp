// Bookkeeping of the draft: lookups, leases, and the one door through which calls enter a plan.
#include "manager/core/draft.hpp"

#include <algorithm>

#include "manager/core/backoff.hpp"

namespace warmroot::core {

bool holds_volume(LeaseState state) {
  return state != LeaseState::reserved && state != LeaseState::ended;
}

const aws::Attachment* attachment_of(const aws::Volume& volume) {
  for (const auto& attachment : volume.attachments)
    if (attachment.state != aws::AttachmentState::detached) return &attachment;
  return nullptr;
}

std::string tag_of(const aws::Tags& tags, const char* key) {
  const auto found = tags.find(key);
  return found == tags.end() ? std::string{} : found->second;
}

Draft::Draft(const Desired& desired_, const Observed& observed_, const LedgerView& ledger_,
             Instant now_, const Limits& limits)
    : desired(desired_),
      observed(observed_),
      ledger(ledger_),
      now(now_),
      leases(ledger_.leases),
      calls_left_(limits.calls) {
  for (const auto& spec : desired.pools) {
    PoolDraft pool;
    pool.spec = &spec;
    pool.source = find_source(spec, observed);
    const int running = ledger.paused_pools.contains(spec.name) ? 0 : spec.running;
    for (int index = 0; index < spec.nodes; ++index) {
      NodeDraft node;
      node.name = node_name(spec.name, index);
      node.index = index;
      node.wanted = index < running;
      if (!spec.zones.empty())
        node.zone = spec.zones[static_cast<std::size_t>(index) % spec.zones.size()];
      pool.nodes.push_back(std::move(node));
    }
    pools.push_back(std::move(pool));
  }
}

PoolDraft* Draft::find_pool(const std::string& name) {
  for (auto& pool : pools)
    if (pool.spec->name == name) return &pool;
  return nullptr;
}

InstanceDraft* Draft::find_instance(const std::string& id) {
  const auto found = instances.find(id);
  return found == instances.end() ? nullptr : &found->second;
}

const NodeReport* Draft::report_of(const std::string& instance_id) const {
  const auto found = observed.reports.find(instance_id);
  return found == observed.reports.end() ? nullptr : &found->second;
}

const NodeReport* Draft::fresh_report_of(const std::string& instance_id) const {
  const auto* report = report_of(instance_id);
  return report && now - report->received < kReportFresh ? report : nullptr;
}

Lease* Draft::holder_of(const std::string& volume_id) {
  for (auto& lease : leases)
    if (lease.volume_id == volume_id && holds_volume(lease.state)) return &lease;
  return nullptr;
}

Lease* Draft::reservation_of(const std::string& volume_id) {
  for (auto& lease : leases)
    if (lease.volume_id == volume_id && lease.state == LeaseState::reserved) return &lease;
  return nullptr;
}

Lease* Draft::lease_on(const std::string& instance_id) {
  for (auto& lease : leases)
    if (lease.instance_id == instance_id && lease.state != LeaseState::ended) return &lease;
  return nullptr;
}

Lease* Draft::lease_of(const std::string& volume_id, const std::string& instance_id) {
  for (auto& lease : leases)
    if (lease.volume_id == volume_id && lease.instance_id == instance_id &&
        lease.state != LeaseState::ended)
      return &lease;
  return nullptr;
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
  if (present)
    *present = changed;
  else
    leases.push_back(changed);
  record(RecordLease{changed, why});
}

bool Draft::act(aws::Mutation mutation, const std::string& pool, std::vector<std::string> nodes,
                std::string reason, std::string zone) {
  if (!observed.complete || frozen) return false;
  if (const auto left = calls_left_.find(action_name(mutation)); left != calls_left_.end()) {
    if (left->second <= 0) {
      short_of_budget = true;
      return false;
    }
    --left->second;
  }
  plan.actions.push_back(
      {std::move(mutation), pool, std::move(nodes), std::move(reason), std::move(zone)});
  return true;
}

void Draft::note(const std::string& pool, const std::string& node, std::string text,
                 bool blocking) {
  plan.notes.push_back({pool, node, std::move(text), blocking});
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

bool Draft::backing_off(std::string_view action, const std::string& resource) {
  const auto key = failure_key(action, resource);
  const auto found = ledger.failures.find(key);
  if (found == ledger.failures.end()) return false;
  const Instant retry = retry_at(found->second, key);
  if (now >= retry) return false;
  wake_at(retry);
  return true;
}

bool Draft::undecided(const std::string& resource_id) const {
  return std::any_of(ledger.intents.begin(), ledger.intents.end(), [&](const Intent& intent) {
    return std::find(intent.resources.begin(), intent.resources.end(), resource_id) !=
           intent.resources.end();
  });
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
