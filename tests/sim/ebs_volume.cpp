// A volume's requests on the server's clock. See the header.
#include "tests/sim/ebs_volume.hpp"

#include <utility>

namespace warmroot::sim {

EbsVolume::EbsVolume(std::string id, std::uint64_t inode, std::unique_ptr<EbsDisk> disk,
                     std::span<const ByteRange> snapshot_data, const VolumeProfile& profile,
                     std::uint64_t seed, EbsClock::time_point epoch)
    : id_(std::move(id)),
      inode_(inode),
      disk_(std::move(disk)),
      seed_(seed),
      epoch_(epoch),
      model_(profile, seed, disk_->size(), snapshot_data, EbsClock::now() - epoch) {}

EbsClock::time_point EbsVolume::note_locked(Completion completion) {
  touch_log_.insert(touch_log_.end(), completion.first_touches.begin(),
                    completion.first_touches.end());
  return epoch_ + completion.due;
}

EbsClock::time_point EbsVolume::begin_read(ByteRange range) {
  const std::lock_guard lock(
      mutex_);  // before the clock is read: the model's time may not run backwards
  ++reads_;
  return note_locked(model_.read(now(), range));
}

Result<EbsClock::time_point> EbsVolume::write(std::uint64_t offset, std::span<const char> bytes) {
  TRY(disk_->write(offset, bytes));
  const std::lock_guard lock(mutex_);
  ++writes_;
  return note_locked(model_.write(now(), {offset, bytes.size()}));
}

EbsClock::time_point EbsVolume::flush() {
  disk_->flush();
  const std::lock_guard lock(mutex_);
  ++flushes_;
  return epoch_ + model_.flush(now());
}

EbsCounters EbsVolume::counters() {
  const std::uint64_t unflushed = disk_->unflushed_bytes();
  const std::lock_guard lock(mutex_);
  const VolumeTotals totals = model_.totals(now());
  EbsCounters counters;
  counters.first_touches_total = totals.first_touches;
  counters.first_touches_since_attach = totals.first_touches - touches_before_attach_;
  counters.present_blocks = totals.present_blocks;
  counters.costly_blocks = totals.costly_blocks;
  counters.total_blocks = totals.blocks;
  counters.fetched_bytes = totals.fetched_bytes;
  counters.reads = reads_;
  counters.writes = writes_;
  counters.flushes = flushes_;
  counters.unflushed_bytes = unflushed;
  return counters;
}

std::vector<FirstTouch> EbsVolume::touch_log() const {
  const std::lock_guard lock(mutex_);
  return touch_log_;
}

void EbsVolume::mark_attached() {
  const std::lock_guard lock(mutex_);
  touches_before_attach_ = model_.totals(now()).first_touches;
}

void EbsVolume::mark_all_present() {
  const std::lock_guard lock(mutex_);
  model_.mark_all_present(now());
}

void EbsVolume::set_profile(const VolumeProfile& profile) {
  const std::lock_guard lock(mutex_);
  model_.set_profile(now(), profile);
}

Result<std::uint64_t> EbsVolume::power_cut() {
  std::uint64_t cut = 0;
  {
    const std::lock_guard lock(mutex_);
    cut = ++power_cuts_;
  }
  // FNV-1a, not std::hash: the same seed has to cut the same pages on every machine.
  std::uint64_t hash = 0xcbf29ce484222325ULL ^ seed_;
  for (const char c : id_ + '#' + std::to_string(cut))
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return disk_->power_cut(hash);
}

}  // namespace warmroot::sim
