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

EbsClock::time_point EbsVolume::note_locked(const Completion& completion, DeviceRequest request) {
  touch_log_.insert(touch_log_.end(), completion.first_touches.begin(),
                    completion.first_touches.end());
  if (logging_) {
    request.due = completion.due;
    request.first_touches = static_cast<unsigned>(completion.first_touches.size());
    request_log_.push_back(request);
  }
  return epoch_ + completion.due;
}

void EbsVolume::log_requests() {
  const std::lock_guard lock(mutex_);
  logging_ = true;
}

void EbsVolume::log_writes(std::shared_ptr<WriteLog> log) {
  const std::lock_guard lock(mutex_);
  write_log_ = std::move(log);
}

unsigned EbsVolume::next_opener() {
  const std::lock_guard lock(mutex_);
  return ++openers_;
}

EbsClock::time_point EbsVolume::begin_read(ByteRange range, unsigned opener) {
  const std::lock_guard lock(
      mutex_);  // before the clock is read: the model's time may not run backwards
  ++reads_;
  const SimTime at = now();
  const bool waited = logging_ && !model_.is_present(at, range);
  return note_locked(model_.read(at, range),
                     {.at = at, .range = range, .opener = opener, .waited = waited});
}

Result<EbsClock::time_point> EbsVolume::write(std::uint64_t offset, std::span<const char> bytes,
                                              unsigned opener) {
  TRY(disk_->write(offset, bytes));
  const std::lock_guard lock(mutex_);
  ++writes_;
  const SimTime at = now();
  const ByteRange range{offset, bytes.size()};
  const Completion completion = model_.write(at, range);
  if (write_log_)
    write_log_->append({at, completion.due, offset, std::vector<char>(bytes.begin(), bytes.end())});
  return note_locked(
      completion, {.at = at, .range = range, .kind = DeviceRequest::Kind::write, .opener = opener});
}

EbsClock::time_point EbsVolume::flush(unsigned opener) {
  disk_->flush();
  const std::lock_guard lock(mutex_);
  ++flushes_;
  const SimTime at = now();
  const SimTime due = model_.flush(at);
  if (write_log_) write_log_->append({at, due, 0, {}});
  return note_locked({.due = due, .first_touches = {}},
                     {.at = at, .range = {}, .kind = DeviceRequest::Kind::flush, .opener = opener});
}

std::vector<DeviceRequest> EbsVolume::request_log() const {
  const std::lock_guard lock(mutex_);
  return request_log_;
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
