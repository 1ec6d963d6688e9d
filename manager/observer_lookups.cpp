// What a look asks besides the listings: sources of pools, zones, status checks. A failure is a
// note.
#include "manager/observer.hpp"

#include <algorithm>

#include "manager/aws/paging.hpp"
#include "manager/core/draft.hpp"
#include "manager/core/pool_source.hpp"

namespace warmroot::manager {

namespace {

/// DescribeInstanceStatus takes 100 ids.
constexpr std::size_t kStatusIds = 100;
constexpr std::string_view kWatchGone = "gone/";
/// From here on absence may count in the same look, however long that takes.
constexpr Milliseconds kAlmostGone = core::kGoneAfter - Milliseconds{10'000};
/// A source that was shown so long ago still says in whose account a thing was absent: it had been
/// absent for some time then.
constexpr Milliseconds kSourceProves{30'000};

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

void Observer::heed_refusal(std::string_view code) {
  if (code.starts_with("InvalidLaunchTemplate")) market_.doubt_templates();
  if (code == "InvalidSnapshot.NotFound" || code == "InvalidAMIID.NotFound")
    doubt_sources(Instant::max());
}

void Observer::doubt_what_absence_rests_on(const core::LedgerView& ledger, Instant now) {
  for (auto watch = ledger.watches.lower_bound(std::string(kWatchGone));
       watch != ledger.watches.end() && watch->first.starts_with(kWatchGone); ++watch)
    if (now - watch->second.since >= kAlmostGone) return doubt_sources(now - kSourceProves);
}

void Observer::doubt_sources(Instant looked_up_before) {
  const auto doubt = [&](auto& cache) {
    for (auto& [id, cached] : cache) {
      if (!cached.lookup.found || cached.until - kFoundFor >= looked_up_before) continue;
      cached.until = {};
      sources_doubted_ = true;
    }
  };
  doubt(images_);
  doubt(snapshots_);
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
  if (now < statuses_until_) return;
  world_.statuses.clear();
  statuses_until_ = now + kStatusEvery;
  std::vector<std::string> ids;
  for (const auto& lease : ledger.leases) {
    const auto seen = world_.instances.find(lease.instance_id);
    if (seen != world_.instances.end() && seen->second.state == aws::InstanceState::running)
      ids.push_back(lease.instance_id);
  }
  std::vector<aws::InstanceStatus> found;
  const auto asked =
      ids.size() <= kStatusByIdUpTo ? statuses_by_id(ids, found) : impaired_statuses(found);
  for (const auto& status : found)
    if (world_.instances.contains(status.instance_id))
      world_.statuses.insert_or_assign(status.instance_id, status);
  if (!asked)
    observed.notes.push_back("status checks could not be read: " + asked.error().message());
}

Ok Observer::statuses_by_id(std::span<const std::string> ids,
                            std::vector<aws::InstanceStatus>& found) {
  for (; !ids.empty(); ids = ids.subspan(std::min(kStatusIds, ids.size())))
    TRY(aws::collect_present(ec2_, &aws::Ec2::describe_instance_status,
                             ids.first(std::min(kStatusIds, ids.size())), found));
  return {};
}

Ok Observer::impaired_statuses(std::vector<aws::InstanceStatus>& found) {
  for (const char* check : {"system-status.status", "instance-status.status"}) {
    aws::DescribeRequest request;
    request.filters = {{check, {"impaired"}}};
    request.max_results = options_.page_size;
    TRY_ASSIGN(auto some, aws::collect_all(ec2_, &aws::Ec2::describe_instance_status, request));
    found.insert(found.end(), some.begin(), some.end());
  }
  return {};
}

}  // namespace warmroot::manager
