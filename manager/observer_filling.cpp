#include "manager/observer_filling.hpp"

#include <algorithm>
#include <set>
#include <span>

#include "manager/aws/paging.hpp"

namespace warmroot::manager {

namespace {

constexpr std::size_t kIdsPerCall = 100;
constexpr int kRestorePage = 200;

bool is_completed(const aws::VolumeStatus& status) {
  return status.initialization_state == "completed";
}

/// Copies keep their source busy until they are read, whoever uses them.
bool is_waited_for(const aws::Volume& volume, Instant now) {
  using enum aws::VolumeState;
  if (volume.state != available && volume.state != in_use) return false;
  if (now - volume.create_time.value_or(now) >= kFillingEnds)
    return volume.tags.contains(core::kTagRole);  // a golden one is waited for as long as it takes
  return volume.attachments.empty() || !volume.source_volume_id.empty();
}

bool has_deadline(const core::PoolSpec& pool) {
  return pool.stock.ready_within > Milliseconds{0};
}

}  // namespace

void FillingObserver::ask_statuses(const core::Desired& desired, core::Observed& observed,
                                   Instant now) {
  std::set<std::string> pools;
  for (const auto& pool : desired.pools)
    if (has_deadline(pool)) pools.insert(pool.name);
  std::vector<std::string> ids;
  for (const auto& [id, volume] : observed.volumes) {
    const auto pool = volume.tags.find(core::kTagPool);
    if (pool == volume.tags.end() || !pools.contains(pool->second)) continue;
    const auto known = statuses_.find(id);
    if (known != statuses_.end() && is_completed(known->second)) continue;
    if (is_waited_for(volume, now)) ids.push_back(id);
  }
  std::erase_if(statuses_,
                [&](const auto& each) { return !observed.volumes.contains(each.first); });
  statuses_until_ = now + kFillingEvery;
  for (std::size_t first = 0; first < ids.size(); first += kIdsPerCall) {
    std::vector<aws::VolumeStatus> found;
    const auto some = std::span(ids).subspan(first, std::min(kIdsPerCall, ids.size() - first));
    const auto asked = aws::collect_present(ec2_, &aws::Ec2::describe_volume_status, some, found);
    for (const auto& status : found) statuses_[status.volume_id] = status;
    if (asked) continue;
    observed.notes.push_back("how far volumes are read could not be asked: " +
                             asked.error().message());
    if (asked.error().kind == ErrorKind::unauthorised) statuses_until_ = now + kFillingRefusedFor;
    return;
  }
}

void FillingObserver::ask_restores(core::Observed& observed, Instant now) {
  aws::DescribeRequest request;
  request.filters = {{"state", {"enabled"}}};
  request.max_results = kRestorePage;
  auto found = aws::collect_all(ec2_, &aws::Ec2::describe_fast_snapshot_restores, request);
  restores_until_ = now + kFillingRefusedFor;
  if (found)
    restores_ = std::move(*found);
  else
    observed.notes.push_back("fast snapshot restores could not be listed: " +
                             found.error().message());
}

void FillingObserver::look(const core::Desired& desired, core::Observed& observed, Instant now) {
  if (std::none_of(desired.pools.begin(), desired.pools.end(), has_deadline)) return;
  if (now >= statuses_until_) ask_statuses(desired, observed, now);
  if (now >= restores_until_) ask_restores(observed, now);
  observed.volume_statuses = statuses_;
  observed.fast_restores = restores_;
}

}  // namespace warmroot::manager
