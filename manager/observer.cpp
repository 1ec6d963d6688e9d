// Only the listings of volumes and instances decide whether a look is complete; everything else is
// optional and becomes a note when it fails.
#include "manager/observer.hpp"

#include <algorithm>

#include "manager/aws/paging.hpp"
#include "manager/core/pool_source.hpp"

namespace warmroot::manager {

namespace {

/// EC2 takes 200 values in a filter; fewer keep the body small.
constexpr std::size_t kIdsPerFilter = 100;
/// DescribeInstanceStatus takes 100 ids.
constexpr std::size_t kStatusIds = 100;

aws::Filter tag_filter(const char* key, std::vector<std::string> values) {
  return {std::string("tag:") + key, std::move(values)};
}

bool in_transition(const aws::Volume& volume) {
  using enum aws::VolumeState;
  if (volume.state == creating || volume.state == deleting || volume.state == unknown) return true;
  for (const auto& attachment : volume.attachments)
    if (attachment.state != aws::AttachmentState::attached) return true;
  return false;
}

bool in_transition(const aws::Instance& instance) {
  return instance.state != aws::InstanceState::running &&
         instance.state != aws::InstanceState::terminated;
}

bool tells_of_absence(const Error& error) {
  return error.kind != ErrorKind::retry_later && error.kind != ErrorKind::unknown_outcome &&
         error.kind != ErrorKind::unauthorised && error.kind != ErrorKind::broken;
}

template <typename T>
std::string id_of(const T& item) {
  if constexpr (std::is_same_v<T, aws::Image>)
    return item.image_id;
  else if constexpr (std::is_same_v<T, aws::Snapshot>)
    return item.snapshot_id;
  else
    return item.subnet_id;
}

}  // namespace

Ok Observer::add_volumes(const aws::Filter& filter, core::Observed& observed) {
  aws::DescribeRequest request;
  request.filters = {filter};
  request.max_results = options_.page_size;
  TRY_ASSIGN(auto volumes, aws::collect_all(ec2_, &aws::Ec2::describe_volumes, request));
  for (auto& volume : volumes) {
    const std::string id = volume.volume_id;
    observed.volumes.insert_or_assign(id, std::move(volume));
  }
  return {};
}

Ok Observer::add_instances(const aws::Filter& filter, core::Observed& observed) {
  aws::DescribeRequest request;
  request.filters = {filter};
  request.max_results = options_.page_size;
  TRY_ASSIGN(auto instances, aws::collect_all(ec2_, &aws::Ec2::describe_instances, request));
  for (auto& instance : instances) {
    const std::string id = instance.instance_id;
    observed.instances.insert_or_assign(id, std::move(instance));
  }
  return {};
}

Ok Observer::add_by_id(const std::vector<std::string>& volumes,
                       const std::vector<std::string>& instances, core::Observed& observed) {
  // As filters, not as ids: one id that is gone fails a whole list of ids, a filter just leaves it
  // out.
  const auto chunk = [](const std::vector<std::string>& ids, std::size_t first) {
    const auto last = std::min(ids.size(), first + kIdsPerFilter);
    return std::vector<std::string>(ids.begin() + static_cast<std::ptrdiff_t>(first),
                                    ids.begin() + static_cast<std::ptrdiff_t>(last));
  };
  for (std::size_t first = 0; first < volumes.size(); first += kIdsPerFilter)
    TRY(add_volumes({"volume-id", chunk(volumes, first)}, observed));
  for (std::size_t first = 0; first < instances.size(); first += kIdsPerFilter)
    TRY(add_instances({"instance-id", chunk(instances, first)}, observed));
  return {};
}

Ok Observer::list_everything(const core::Desired& desired, core::Observed& observed) {
  const auto ours = tag_filter(core::kTagDeployment, {desired.deployment});
  TRY(add_volumes(ours, observed));
  TRY(add_instances(ours, observed));
  std::vector<std::string> launched_by_others;
  for (const auto& pool : desired.pools)
    if (!pool.launch) launched_by_others.push_back(pool.name);
  if (!launched_by_others.empty())
    TRY(add_instances(tag_filter(core::kTagPool, launched_by_others), observed));
  return {};
}

/// What is recorded and was not listed: too new to be listed, retagged by somebody, or gone.
Ok Observer::find_recorded(const core::LedgerView& ledger, core::Observed& observed) {
  std::vector<std::string> volumes;
  std::vector<std::string> instances;
  for (const auto& [id, owned] : ledger.volumes)
    if (!observed.volumes.contains(id)) volumes.push_back(id);
  for (const auto& [id, launched] : ledger.instances)
    if (!observed.instances.contains(id)) instances.push_back(id);
  for (const auto& lease : ledger.leases)
    if (!observed.instances.contains(lease.instance_id) &&
        std::find(instances.begin(), instances.end(), lease.instance_id) == instances.end())
      instances.push_back(lease.instance_id);
  for (const auto& order : ledger.orders) {
    if (!order.subject.starts_with("i-")) {
      if (!observed.volumes.contains(order.subject)) volumes.push_back(order.subject);
    } else if (!observed.instances.contains(order.subject)) {
      instances.push_back(order.subject);
    }
  }
  return add_by_id(volumes, instances, observed);
}

Ok Observer::list_transitions(const core::LedgerView& ledger, const core::Heard& heard,
                              core::Observed& observed) {
  observed.volumes = last_full_->volumes;
  observed.instances = last_full_->instances;
  std::vector<std::string> volumes;
  std::vector<std::string> instances;
  for (const auto& [id, volume] : observed.volumes)
    if (in_transition(volume)) volumes.push_back(id);
  for (const auto& [id, instance] : observed.instances)
    if (in_transition(instance)) instances.push_back(id);
  for (const auto& lease : ledger.leases) {
    if (lease.state == core::LeaseState::active || lease.state == core::LeaseState::checking)
      continue;
    volumes.push_back(lease.volume_id);
    instances.push_back(lease.instance_id);
  }
  for (const auto& id : heard.changed) {
    const auto seen = observed.instances.find(id);
    if (seen == observed.instances.end()) continue;  // not ours, or find_recorded() asks for it
    instances.push_back(id);
    for (const auto& device : seen->second.block_devices)
      if (observed.volumes.contains(device.volume_id)) volumes.push_back(device.volume_id);
  }
  for (auto* ids : {&volumes, &instances}) {
    std::sort(ids->begin(), ids->end());
    ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
  }
  for (const auto& id : volumes) observed.volumes.erase(id);
  for (const auto& id : instances) observed.instances.erase(id);
  TRY(add_by_id(volumes, instances, observed));
  return find_recorded(ledger, observed);
}

template <typename T>
const core::Lookup<T>& Observer::look_up(
    std::map<std::string, Cached<T>>& cache, const std::string& id,
    Result<aws::Page<T>> (aws::Ec2::*describe)(const aws::DescribeRequest&), const char* missing,
    Instant now) {
  auto& entry = cache[id];
  if (now < entry.until) return entry.lookup;
  aws::DescribeRequest request;
  request.ids = {id};
  const auto items = aws::collect_all(ec2_, describe, request);
  entry.lookup = {};
  if (items)
    for (const auto& item : *items)
      if (id_of(item) == id) entry.lookup.found = item;
  if (entry.lookup.found) {
    entry.until = now + kFoundFor;
  } else if (items || tells_of_absence(items.error())) {
    entry.lookup.error = id + " " + missing;
    if (!items && !items.error().code.empty())
      entry.lookup.error += " (" + items.error().code + ")";
    entry.until = now + kNotFoundFor;
  } else {
    entry.lookup.error = items.error().message();
    entry.lookup.transient = true;
    entry.until = now + kTransientFor;
  }
  return entry.lookup;
}

void Observer::look_up_pools(const core::Desired& desired, core::Observed& observed, Instant now) {
  const auto image = [&](const std::string& id) {
    observed.images[id] = look_up(images_, id, &aws::Ec2::describe_images,
                                  "is no AMI that this account can see in this Region: correct "
                                  "the AMI, or have it shared",
                                  now);
  };
  for (const auto& pool : desired.pools) {
    std::string snapshot = pool.snapshot;
    if (!pool.ami.empty()) {
      image(pool.ami);
      const auto& found = observed.images[pool.ami].found;
      if (found) snapshot = core::root_snapshot_of(*found);
    }
    if (!snapshot.empty())
      observed.snapshots[snapshot] =
          look_up(snapshots_, snapshot, &aws::Ec2::describe_snapshots,
                  "is no snapshot that this account may read: have it shared, or launch the AMI "
                  "once, stop it and snapshot its root volume",
                  now);
    if (!pool.launch) continue;
    image(pool.launch->base_ami);
    for (const auto& [zone, subnet] : pool.launch->subnets)
      observed.subnets[subnet] =
          look_up(subnets_, subnet, &aws::Ec2::describe_subnets,
                  "is no subnet of this account and Region: correct `subnets`", now);
  }
}

void Observer::look_up_zones(core::Observed& observed, Instant now) {
  if (now >= zones_until_) {
    const auto zones = ec2_.describe_availability_zones();
    if (zones) {
      zones_.clear();
      for (const auto& zone : *zones) zones_[zone.zone_name] = zone;
    } else {
      observed.notes.push_back("zones could not be listed: " + zones.error().message());
    }
    zones_until_ = now + (zones ? kFoundFor : kNotFoundFor);
  }
  observed.zones = zones_;
}

void Observer::look_at_statuses(const core::LedgerView& ledger, core::Observed& observed,
                                Instant now) {
  if (now >= statuses_until_) {
    statuses_.clear();
    statuses_until_ = now + kStatusEvery;
    std::vector<std::string> ids;
    for (const auto& lease : ledger.leases) {
      const auto seen = observed.instances.find(lease.instance_id);
      if (seen != observed.instances.end() && seen->second.state == aws::InstanceState::running)
        ids.push_back(lease.instance_id);
    }
    for (std::size_t first = 0; first < ids.size(); first += kStatusIds) {
      std::vector<aws::InstanceStatus> found;
      const auto some = std::span(ids).subspan(first, std::min(kStatusIds, ids.size() - first));
      const auto asked =
          aws::collect_present(ec2_, &aws::Ec2::describe_instance_status, some, found);
      for (const auto& status : found) statuses_[status.instance_id] = status;
      if (!asked) {
        observed.notes.push_back("status checks could not be read: " + asked.error().message());
        break;
      }
    }
  }
  observed.statuses = statuses_;
}

Look Observer::look(const core::Desired& desired, const core::LedgerView& ledger, Instant now,
                    const core::Heard& heard) {
  Look look;
  auto& observed = look.observed;
  observed.at = now;
  const bool full =
      !last_full_ || now - last_full_->at >= (heard.live ? kFullLookWithEvents : kFullLookEvery) ||
      last_full_->volumes.size() + last_full_->instances.size() <= options_.small_world;
  auto listed =
      full ? list_everything(desired, observed) : list_transitions(ledger, heard, observed);
  if (listed && full) listed = find_recorded(ledger, observed);
  if (!listed) {
    look.blind = listed.error();
    observed.notes.push_back(listed.error().message());
    return look;  // the lookups would fail in the same way
  }
  observed.complete = true;
  if (full) {
    last_full_ = observed;
  } else {
    last_full_->volumes = observed.volumes;
    last_full_->instances = observed.instances;
  }
  look_up_pools(desired, observed, now);
  look_up_zones(observed, now);
  look_at_statuses(ledger, observed, now);
  filling_.look(desired, observed, now);
  return look;
}

}  // namespace warmroot::manager
