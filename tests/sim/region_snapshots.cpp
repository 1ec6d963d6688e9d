// Where a volume's blocks come from in the simulated region: snapshots, fast snapshot restore,
// copies of volumes, and how far the blocks have come as DescribeVolumeStatus says.
#include <algorithm>
#include <cmath>

#include "tests/sim/region.hpp"
#include "tests/sim/region_rules.hpp"

namespace warmroot::sim {

namespace {

constexpr int kMibPerGib = 1024;

int data_gib(const SnapshotRecord* source, int otherwise) {
  return source == nullptr ? otherwise : source->data_gib.value_or(source->size_gib);
}

}  // namespace

// ---- initialisation ----

void Region::begin_initialising(VolumeRecord& made, const CreateVolumeArgs& args) {
  made.init_end = now_;
  if (!args.source_volume_id.empty()) {
    made.source_volume_id = args.source_volume_id;
    made.init_type = "volume-copy";
    made.init_end =
        now_ + drawn(times_.copying_per_gib) * volumes_.at(args.source_volume_id).size_gib;
  } else if (!args.snapshot_id.empty()) {
    const int gib = data_gib(snapshot(args.snapshot_id), made.size_gib);
    made.init_rate = args.initialization_rate;
    made.init_type = args.initialization_rate ? "provisioned-rate" : "default";
    // Given both, the paid rate wins over a fast restore (API reference).
    made.fast_restored =
        !args.initialization_rate && take_fast_restore_credit(args.snapshot_id, args.zone);
    if (args.initialization_rate)
      made.init_end = now_ + Milliseconds(1000LL * gib * kMibPerGib / *args.initialization_rate);
    else if (!made.fast_restored)
      made.init_end = now_ + drawn(times_.lazy_per_gib) * gib;
  }
  std::erase_if(initialising_, [&](const std::string& id) {
    const auto found = volumes_.find(id);
    return found == volumes_.end() || found->second.init_end <= now_;
  });
  if (made.init_type == "volume-copy" || made.init_type == "provisioned-rate")
    initialising_.insert(made.id);
}

int Region::shown_progress(const VolumeRecord& disk) const {
  const auto age = now_ - disk.create_time;
  const auto stale = std::max(times_.status_stale, Milliseconds(1));
  const Milliseconds shown_age = stale * (age / stale);
  const Milliseconds all = disk.init_end - disk.create_time;
  if (shown_age >= all) return 100;
  return static_cast<int>(100 * shown_age.count() / all.count());
}

Answer<void> Region::check_rate_quota(int rate) const {
  int used = 0;
  for (const auto& id : initialising_) {
    const auto found = volumes_.find(id);
    if (found != volumes_.end() && found->second.init_rate && found->second.init_end > now_)
      used += *found->second.init_rate;
  }
  if (used + rate <= knobs.init_rate_quota) return {};
  return refuse(knobs.init_rate_quota_code,
                "You have exceeded your quota of " + std::to_string(knobs.init_rate_quota) +
                    " MiB/s for the cumulative volume initialization rate in this Region.");
}

// ---- copies ----

Answer<void> Region::check_copy(const VolumeRecord& source) const {
  if (source.state != DiskState::available && source.state != DiskState::in_use)
    return refuse("IncorrectState", source.id + " is not 'available' or 'in-use'.");
  // Which code it has is unknown (ec2.md, open points).
  if (source.init_type == "volume-copy" && source.init_end > now_)
    return refuse("IncorrectState", "Volume '" + source.id + "' is still being initialized.");
  if (knobs.copies_need_encryption && !source.encrypted)
    return refuse("UnsupportedOperation", "Volume '" + source.id + "' is not encrypted.");
  int under_way = 0;
  for (const auto& id : initialising_) {
    const auto found = volumes_.find(id);
    if (found == volumes_.end() || found->second.init_type != "volume-copy" ||
        found->second.init_end <= now_)
      continue;
    ++under_way;
    if (found->second.source_volume_id == source.id)
      return refuse("ConcurrentCopyVolumeLimitExceeded",
                    "A copy of volume '" + source.id + "' is in progress already.");
  }
  if (under_way >= knobs.copies_per_region)
    return refuse("CopyVolumesLimitExceeded", "You have reached the limit of " +
                                                  std::to_string(knobs.copies_per_region) +
                                                  " volume copies in progress in this Region.");
  return {};
}

Answer<VolumeRecord> Region::copy_volume(CreateVolumeArgs args) {
  if (static_cast<int>(volumes_.size()) >= knobs.volume_limit)
    return refuse("VolumeLimitExceeded",
                  "You have exceeded your maximum gp2 storage limit for this region.");
  // A token of its own kind: CreateVolume's may read the same.
  if (!args.client_token.empty()) args.client_token = "copy/" + args.client_token;
  const auto before = volume_of_token(args.client_token, args.fingerprint);
  if (!before) return tl::unexpected(before.error());
  if (*before) return **before;
  const VolumeRecord* source = volume(args.source_volume_id);
  if (source == nullptr) return volume_not_found({args.source_volume_id});
  if (auto checked = check_copy(*source); !checked) return tl::unexpected(checked.error());
  if (!args.size_gib) args.size_gib = source->size_gib;
  if (*args.size_gib < source->size_gib)
    return refuse("InvalidParameterValue", "The size of the copy must be at least " +
                                               std::to_string(source->size_gib) + " GiB.");
  args.zone = source->zone;
  args.snapshot_id.clear();
  args.encrypted = source->encrypted;
  args.kms_key = source->kms_key;
  if (auto checked = check_create(args, nullptr); !checked) return tl::unexpected(checked.error());
  return keep_new_volume(new_volume(args), args);
}

// ---- snapshots ----

std::string Region::snapshot_state(const SnapshotRecord& record) const {
  if (record.failed) return "error";
  return record.completes_at && now_ < *record.completes_at ? "pending" : "completed";
}

int Region::snapshot_percent(const SnapshotRecord& record) const {
  if (!record.completes_at || now_ >= *record.completes_at) return 100;
  const auto all = *record.completes_at - record.start_time;
  return static_cast<int>(100 * (now_ - record.start_time).count() /
                          std::max<std::int64_t>(1, all.count()));
}

Answer<SnapshotRecord> Region::create_snapshot(const std::string& volume_id,
                                               const std::string& description, const Tags& tags) {
  const auto found = volumes_.find(volume_id);
  if (found == volumes_.end() || found->second.state == DiskState::deleting)
    return volume_not_found({volume_id});
  const VolumeRecord& disk = found->second;
  if (disk.state != DiskState::available && disk.state != DiskState::in_use)
    return refuse("IncorrectState", "Volume '" + volume_id + "' is in the '" +
                                        std::string(to_string(disk.state)) + "' state.");
  if (auto checked = check_tags(tags); !checked) return tl::unexpected(checked.error());
  int pending = 0;
  for (const auto& other : catalog_.snapshots) {
    if (other.volume_id != volume_id) continue;
    if (now_ < other.start_time + times_.snapshot_gap)
      return refuse("SnapshotCreationPerVolumeRateExceeded",
                    "The maximum per volume CreateSnapshot request rate has been exceeded. Use an "
                    "increasing or variable sleep interval between requests.");
    if (snapshot_state(other) == "pending") ++pending;
  }
  const int most = disk.type == "st1" || disk.type == "sc1" ? 1 : 5;
  if (pending >= most)
    return refuse("ConcurrentSnapshotLimitExceeded",
                  "You have exceeded the maximum number of concurrent snapshots of a volume.");
  SnapshotRecord made;
  made.id = new_id("snap-");
  made.size_gib = disk.size_gib;
  made.description = description;
  made.owner_id = catalog_.account_id;
  made.volume_id = volume_id;
  made.start_time = now_;
  made.completes_at = now_ + drawn(times_.snapshotting);
  made.encrypted = disk.encrypted;
  made.tags = tags;
  if (auto kept = hardware_.create_snapshot(made.id, volume_id); !kept) {
    note("error snapshot=" + made.id + " reason=" + kept.error().message());
    made.failed = true;
  }
  note("create snapshot=" + made.id + " volume=" + volume_id);
  catalog_.snapshots.push_back(made);
  return made;
}

Answer<void> Region::delete_snapshot(const std::string& snapshot_id) {
  const auto found =
      std::find_if(catalog_.snapshots.begin(), catalog_.snapshots.end(),
                   [&](const SnapshotRecord& record) { return record.id == snapshot_id; });
  if (found == catalog_.snapshots.end() || !found->readable) return snapshot_not_found(snapshot_id);
  if (found->owner_id != catalog_.account_id)
    return refuse("AuthFailure", "You do not own snapshot '" + snapshot_id + "'", 403);
  for (const auto& image : catalog_.images)
    if (image.snapshot_id == snapshot_id)
      return refuse("InvalidSnapshot.InUse",
                    "The snapshot " + snapshot_id + " is currently in use by " + image.id);
  note("delete snapshot=" + snapshot_id);
  catalog_.snapshots.erase(found);
  std::erase_if(fast_restores_,
                [&](const auto& entry) { return entry.first.first == snapshot_id; });
  return {};
}

// ---- fast snapshot restore ----

const std::map<std::pair<std::string, std::string>, FastRestore>& Region::fast_restores() const {
  static const std::map<std::pair<std::string, std::string>, FastRestore> kNone;
  return shown_catalog_ != nullptr ? kNone : fast_restores_;
}

std::string Region::fast_restore_state(const std::pair<std::string, std::string>& place) const {
  const FastRestore& one = fast_restores_.at(place);
  if (one.disabled_at)
    return now_ < *one.disabled_at + times_.fsr_enabling ? "disabling" : "disabled";
  if (now_ < one.enabled_at + times_.fsr_enabling) return "enabling";
  const SnapshotRecord* source = snapshot(place.first);
  const Milliseconds optimizing =
      times_.fsr_per_tib * (source == nullptr ? 0 : source->size_gib) / kMibPerGib;
  return now_ < one.enabled_at + times_.fsr_enabling + optimizing ? "optimizing" : "enabled";
}

Answer<void> Region::enable_fast_restore(const std::string& snapshot_id, const std::string& where) {
  const SnapshotRecord* source = snapshot(snapshot_id);
  if (source == nullptr || !source->readable) return snapshot_not_found(snapshot_id);
  if (zone(where) == nullptr)
    return refuse("InvalidParameterValue", "Invalid availability zone: [" + where + "]");
  const std::pair place(snapshot_id, where);
  const auto known = fast_restores_.find(place);
  if (known != fast_restores_.end() && !known->second.disabled_at) return {};
  std::set<std::string> used = {snapshot_id};
  for (const auto& [other, one] : fast_restores_)
    if (!one.disabled_at) used.insert(other.first);
  if (static_cast<int>(used.size()) > knobs.fsr_quota)
    return refuse("FastSnapshotRestoreLimitExceeded",
                  "You have exceeded your quota of fast snapshot restores in this Region.");
  fast_restores_[place] = FastRestore{now_, std::nullopt, 0, now_};
  note("fast restore snapshot=" + snapshot_id + " zone=" + where);
  return {};
}

Answer<void> Region::disable_fast_restore(const std::string& snapshot_id,
                                          const std::string& where) {
  const auto known = fast_restores_.find({snapshot_id, where});
  if (known == fast_restores_.end() || known->second.disabled_at)
    return refuse("InvalidParameterValue", "Fast snapshot restore is not enabled for '" +
                                               snapshot_id + "' in '" + where + "'");
  known->second.disabled_at = now_;
  return {};
}

bool Region::take_fast_restore_credit(const std::string& snapshot_id, const std::string& where) {
  const auto known = fast_restores_.find({snapshot_id, where});
  if (known == fast_restores_.end()) return false;
  FastRestore& one = known->second;
  if (fast_restore_state(known->first) != "enabled") {
    one.counted = now_;  // the bucket starts empty
    return false;
  }
  // Bucket and refill of the EBS user guide: a small snapshot gives up to ten volumes an hour.
  constexpr double kMostCredits = 10, kMsPerHour = 3600'000;
  const double per_hour = std::min(kMostCredits, 1024.0 / snapshot(snapshot_id)->size_gib);
  const double bucket =
      std::clamp(std::floor(1024.0 / snapshot(snapshot_id)->size_gib), 1.0, kMostCredits);
  const auto passed = static_cast<double>((now_ - one.counted).count());
  one.credits = std::min(bucket, one.credits + per_hour * passed / kMsPerHour);
  one.counted = now_;
  if (one.credits < 1) return false;
  one.credits -= 1;
  return true;
}

}  // namespace warmroot::sim
