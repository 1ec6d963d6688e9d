#include "manager/core/filling_facts.hpp"

#include <algorithm>
#include <cstdlib>

namespace warmroot::core {

namespace {

/// A copy goes on longer than estimated: asked again after this.
constexpr Milliseconds kCopyOverdue{30'000};
constexpr std::chrono::hours kCreditWindow{1};
constexpr int kGibPerCredit = 1'024;
constexpr int kMostCredits = 10;
constexpr int kSizeUnknownGib = 8;

Milliseconds age_of(const Draft& draft, const aws::Volume& volume) {
  return draft.now - volume.create_time.value_or(draft.now);
}

Milliseconds rate_time(const aws::Volume& volume) {
  return Milliseconds{std::int64_t{1'024'000} * volume.size_gib /
                      std::max(1, *volume.initialization_rate)};
}

/// The last refusal of a create was none that only asks for patience with the API.
bool was_refused(const Draft& draft, std::string_view action, const std::string& subject) {
  const auto failure = draft.ledger.failures.find(failure_key(action, subject));
  return failure != draft.ledger.failures.end() && !failure->second.throttled &&
         failure->second.code != "VolumeVanished";
}

const aws::Snapshot* source_of(const Draft& draft, const PoolDraft& pool) {
  const auto snapshot = draft.observed.snapshots.find(pool.source.snapshot_id);
  const bool known = snapshot != draft.observed.snapshots.end() && snapshot->second.found;
  return known ? &*snapshot->second.found : nullptr;
}

/// The size of the volume that the source was made of.
int source_gib_of(const Draft& draft, const PoolDraft& pool) {
  const auto* snapshot = source_of(draft, pool);
  if (snapshot && snapshot->volume_size_gib > 0) return snapshot->volume_size_gib;
  return pool.spec->volumes.size_gib > 0 ? pool.spec->volumes.size_gib : kSizeUnknownGib;
}

}  // namespace

bool is_filled(const Draft& draft, const std::string& volume_id) {
  const auto status = draft.observed.volume_statuses.find(volume_id);
  return status != draft.observed.volume_statuses.end() &&
         status->second.initialization_state == "completed";
}

int data_gib_of(const Draft& draft, const PoolDraft& pool) {
  const auto* snapshot = source_of(draft, pool);
  if (!snapshot || snapshot->full_bytes <= 0) return source_gib_of(draft, pool);
  constexpr std::int64_t kGib = std::int64_t{1} << 30;
  constexpr std::int64_t kMostGib = 1 << 20;  // beyond any volume of EBS
  return static_cast<int>(std::min((snapshot->full_bytes - 1) / kGib + 1, kMostGib));
}

FillingFacts::FillingFacts(const Draft& draft) {
  if (std::none_of(draft.pools.begin(), draft.pools.end(), [](const auto& pool) {
        return pool.spec->stock.ready_within > Milliseconds{0};
      }))
    return;
  for (const auto& [id, owned] : draft.ledger.volumes)
    if (!owned.seen && draft.now - owned.recorded < kVisibilityWindow) unseen_.insert(owned.pool);
  for (const auto& [id, volume] : draft.observed.volumes) {
    const auto age = age_of(draft, volume);
    if (age < kCreditWindow && !volume.snapshot_id.empty())
      ++made_lately_[{volume.snapshot_id, volume.availability_zone}];
    if (is_filled(draft, id)) continue;
    if (volume.initialization_rate && age < rate_time(volume))
      rate_used_mib_s_ += *volume.initialization_rate;
    if (volume.source_volume_id.empty()) continue;
    const auto left = kCopyPerGib * volume.size_gib - age;
    const bool said = draft.observed.volume_statuses.contains(id);
    if (left > Milliseconds{0} || said)
      copying_[volume.source_volume_id] = std::max(left, kCopyOverdue);
  }
}

std::string FillingFacts::golden_of(const Draft& draft, const PoolDraft& pool,
                                    const std::string& zone) {
  for (const auto& volume : pool.stock)
    if (volume.role == VolumeRole::golden && volume.fit && volume.zone == zone && volume.volume &&
        volume.volume->state == aws::VolumeState::available && is_filled(draft, volume.id))
      return volume.id;
  return {};
}

std::optional<Milliseconds> FillingFacts::copy_after(const std::string& golden) const {
  if (golden.empty()) return std::nullopt;
  if (const auto own = copying_.find(golden); own != copying_.end()) return own->second;
  if (static_cast<int>(copying_.size()) < kCopiesInRegion) return Milliseconds{0};
  const auto first =
      std::min_element(copying_.begin(), copying_.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return first->second;
}

FillFacts FillingFacts::of(Draft& draft, const PoolDraft& pool, const std::string& zone,
                           const std::string& subject, bool may_copy) const {
  FillFacts facts;
  facts.data_gib = data_gib_of(draft, pool);
  for (const auto& restore : draft.observed.fast_restores) {
    if (restore.snapshot_id != pool.source.snapshot_id || restore.availability_zone != zone ||
        restore.state != "enabled")
      continue;
    const int credits = std::clamp(kGibPerCredit / source_gib_of(draft, pool), 1, kMostCredits);
    const auto used = made_lately_.find({restore.snapshot_id, zone});
    facts.fast_restore = used == made_lately_.end() || used->second < credits;
  }
  if (!was_refused(draft, "CreateVolume", subject))
    facts.rate_left_mib_s = std::max(0, kRegionRateMibS - rate_used_mib_s_);
  if (may_copy && !draft.backing_off("CopyVolumes", subject)) {
    const auto golden = golden_of(draft, pool, zone);
    facts.copy_after = copy_after(golden);
    // One that was asked for and is not shown yet may be a copy of this very volume.
    if (facts.copy_after && (unseen_.contains(pool.spec->name) || draft.undecided(golden)))
      facts.copy_after = std::max(*facts.copy_after, kVisibilityWindow);
  }
  if (const auto& price = pool.spec->stock.copy_usd_gib; !price.empty())
    facts.copy_usd_gib = std::strtod(price.c_str(), nullptr);
  return facts;
}

void FillingFacts::spend(const Draft& draft, const PoolDraft& pool, const std::string& zone,
                         const Fill& fill) {
  if (fill.way == FillWay::rate) rate_used_mib_s_ += fill.rate_mib_s;
  if (fill.way == FillWay::copy)
    copying_[golden_of(draft, pool, zone)] = kCopyPerGib * source_gib_of(draft, pool);
  else
    ++made_lately_[{pool.source.snapshot_id, zone}];
}

}  // namespace warmroot::core
