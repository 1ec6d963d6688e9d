// Looks at what is about to change, each thing in its time, and at strangers that somebody named.
#include <algorithm>

#include "manager/aws/paging.hpp"
#include "manager/observer.hpp"
#include "manager/observer_requests.hpp"

namespace warmroot::manager {

namespace {

/// What the listings of a sweep would show.
bool is_listed(const aws::Instance& instance, const core::Desired& desired) {
  const auto value_of = [&](const char* key) {
    const auto found = instance.tags.find(key);
    return found == instance.tags.end() ? std::string() : found->second;
  };
  if (value_of(core::kTagDeployment) == desired.deployment) return true;
  return std::any_of(desired.pools.begin(), desired.pools.end(), [&](const auto& pool) {
    return !pool.launch && pool.name == value_of(core::kTagPool);
  });
}

/// The ids in the watches of what EC2 does not show as it should.
std::vector<std::string> doubted_ids(const std::string& watch) {
  std::vector<std::string> ids;
  if (watch.starts_with("gone/")) ids = {watch.substr(5)};
  if (watch.starts_with("named/")) ids = {watch.substr(6)};
  if (watch.starts_with("unattached/")) ids = {watch.substr(11, watch.find('/', 11) - 11)};
  return ids;
}

}  // namespace

// ---- looks by id ----

Milliseconds Observer::attaching_patience() const {
  return std::clamp(milliseconds_for(things(), kAttachingPatiencePerThingMs), kAttachingEvery,
                    kAttachingPatienceMost);
}

Milliseconds Observer::patience_for(const std::string& id) const {
  const bool attaching = is_volume(id) && !wait_for_volume(world_, id);
  if (told_.contains(id))
    return attaching ? std::max(kAttachingTold, attaching_patience()) : Milliseconds{0};
  if (options_.told || (events_live_ && !is_volume(id)))
    return attaching ? std::max(kAttachingEveryTold, attaching_patience()) : kMovingEveryTold;
  return std::max(attaching ? attaching_patience() : kMovingEvery,
                  milliseconds_for(moving_.size(), kPatiencePerMovingMs));
}

void Observer::add_due(const std::string& id, Instant at, Look& look) const {
  auto& due = is_volume(id) && !wait_for_volume(world_, id) ? look.due_at_leisure : look.due;
  if (!due || at < *due) due = at;
}

/// What changes by itself, what leases wait for, what is recorded and not shown; each in its time.
Observer::Due Observer::what_is_due(const core::LedgerView& ledger, Instant now, Look& look) {
  std::map<std::string, Instant> asked;  // what may be asked for, and since when it is
  const auto add = [&](const std::string& id, Instant since) {
    const auto before = looked_.find(id);
    asked.insert_or_assign(id, before == looked_.end() ? since : std::max(since, before->second));
  };
  for (const auto& id : moving_) add(id, Instant{});
  for (const auto& lease : ledger.leases) {
    if (lease.state == core::LeaseState::attaching) add(lease.volume_id, lease.since);
    if (lease.state == core::LeaseState::leaving) add(lease.volume_id, Instant{});
    if (!world_.instances.contains(lease.instance_id)) add(lease.instance_id, Instant{});
  }
  for (const auto& [id, owned] : ledger.volumes)
    if (!world_.volumes.contains(id)) add(id, Instant{});
  for (const auto& [id, launched] : ledger.instances)
    if (!world_.instances.contains(id)) add(id, Instant{});
  for (const auto& order : ledger.orders)
    if (!world_.volumes.contains(order.subject) && !world_.instances.contains(order.subject))
      add(order.subject, Instant{});
  // Nobody asked for them by themselves, and a node waits for each.
  std::erase_if(carried_, [&](const auto& entry) {
    return world_.volumes.contains(entry.first) || !world_.instances.contains(entry.second);
  });
  for (const auto& [id, instance] : carried_) add(id, Instant{});
  for (const auto& id : told_)
    if (world_.volumes.contains(id) || world_.instances.contains(id)) add(id, Instant{});
  // What is about to be given up must have been looked at each time that counts.
  std::set<std::string> doubted;
  for (const auto& [key, watch] : ledger.watches)
    for (auto& id : doubted_ids(key)) doubted.insert(std::move(id));
  for (const auto& id : doubted) asked.insert_or_assign(id, Instant{});

  Due due;
  bool any[] = {false, false};
  for (const auto& [id, since] : asked)
    any[is_volume(id)] = any[is_volume(id)] || now >= since + patience_for(id);
  for (const auto& [id, since] : asked) {
    // With a call to be made anyway, what would be due soon comes along.
    const auto patience = patience_for(id);
    if (any[is_volume(id)] && now >= since + patience / 2)
      (is_volume(id) ? due.volumes : due.instances).push_back(id);
    else
      add_due(id, since + patience, look);
  }
  for (const auto& [id, since] : asked) strangers_.forget(id);
  std::erase_if(told_, [&](const auto& id) { return !asked.contains(id); });
  std::erase_if(looked_, [&](const auto& entry) { return !asked.contains(entry.first); });
  return due;
}

Ok Observer::ask_by_id(const std::vector<std::string>& ids, bool volumes, Instant now) {
  for (std::size_t first = 0; first < ids.size(); first += aws::kMaxFilterValues) {
    const auto some = slice(ids, first, aws::kMaxFilterValues);
    const auto request = id_request(volumes, some, options_.page_size);
    std::set<std::string> absent(some.begin(), some.end());
    if (volumes) {
      TRY_ASSIGN(auto found, aws::collect_all(ec2_, &aws::Ec2::describe_volumes, request));
      for (auto& volume : found) {
        absent.erase(volume.volume_id);
        put(std::move(volume));
      }
    } else {
      TRY_ASSIGN(auto found, aws::collect_all(ec2_, &aws::Ec2::describe_instances, request));
      for (auto& instance : found) {
        absent.erase(instance.instance_id);
        put(std::move(instance));
      }
    }
    for (const auto& id : absent) drop(id);
    for (const auto& id : some) {
      looked_.insert_or_assign(id, now);
      told_.erase(id);
    }
  }
  return {};
}

void Observer::add_ids(const Due& due, int page_size, std::vector<std::string>& bodies) {
  for (const bool volumes : {true, false}) {
    const auto& ids = volumes ? due.volumes : due.instances;
    for (std::size_t first = 0; first < ids.size() && bodies.size() < kTogether;
         first += aws::kMaxFilterValues)
      bodies.push_back(
          aws::encode(volumes ? aws::Describe::volumes : aws::Describe::instances,
                      id_request(volumes, slice(ids, first, aws::kMaxFilterValues), page_size)));
  }
}

Ok Observer::look_by_id(const Due& due, Instant now, Look& look) {
  TRY(ask_by_id(due.volumes, true, now));
  TRY(ask_by_id(due.instances, false, now));
  for (const auto* ids : {&due.volumes, &due.instances})
    for (const auto& id : *ids)
      if (moving_.contains(id)) add_due(id, now + patience_for(id), look);
  return {};
}

/// Those of whom EC2 does not answer wait on: nobody else's view depends on them.
void Observer::ask_about_strangers(const core::Desired& desired,
                                   const std::vector<std::string>& ids, Instant now, Look& look) {
  if (ids.empty()) return;
  auto found = aws::collect_all(ec2_, &aws::Ec2::describe_instances,
                                strangers_request(ids, options_.page_size));
  if (!found) {
    strangers_.put_off(now);
    look.observed.notes.push_back("instances that events named could not be looked at: " +
                                  found.error().message());
    return;
  }
  strangers_.answered(ids, now);
  for (auto& instance : *found)
    if (is_listed(instance, desired) && instance.state != aws::InstanceState::terminated)
      put(std::move(instance));
}

}  // namespace warmroot::manager
