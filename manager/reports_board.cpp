#include "manager/reports_board.hpp"

#include <utility>

namespace warmroot::manager {
namespace {

/// As the planner says it once it knows (core/retiring.cpp).
constexpr const char* kGaveBackSince =
    "this instance has given its volume back: sessions here stay on the base system";

}  // namespace

Result<bool> MemoryKeyStore::add_key(const std::string& instance_id, const Secret& key_hex) {
  const std::lock_guard lock(mutex_);
  return entries_.emplace(instance_id, Entry{key_hex, std::nullopt}).second;
}

Result<std::optional<Secret>> MemoryKeyStore::key_of(const std::string& instance_id) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(instance_id);
  if (found == entries_.end()) return std::optional<Secret>();
  return std::optional(found->second.key_hex);
}

Ok MemoryKeyStore::replace_key(const std::string& instance_id, const Secret& key_hex) {
  const std::lock_guard lock(mutex_);
  entries_[instance_id] = {key_hex, std::nullopt};
  return {};
}

Result<bool> MemoryKeyStore::replace_unused_key(const std::string& instance_id,
                                                const Secret& key_hex) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(instance_id);
  if (found == entries_.end() || found->second.last_sequence) return false;
  found->second.key_hex = key_hex;
  return true;
}

Result<Turn> MemoryKeyStore::advance(const std::string& instance_id, std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(instance_id);
  if (found == entries_.end()) return Turn::late;
  std::optional<std::uint64_t>& last = found->second.last_sequence;
  if (last && sequence <= *last) return sequence == *last ? Turn::replayed : Turn::late;
  last = sequence;
  return Turn::fresh;
}

void ReportBoard::set_known(std::string deployment, std::map<std::string, KnownInstance> instances,
                            std::uint64_t releases_seen) {
  const std::lock_guard lock(mutex_);
  deployment_ = std::move(deployment);
  has_looked_ = true;
  known_ = std::move(instances);
  holders_.clear();
  for (const auto& [id, instance] : known_)
    if (!instance.volume_id.empty()) holders_.emplace(instance.volume_id, id);
  std::erase_if(given_back_, [&](const auto& each) { return each.second.number <= releases_seen; });
  for (const auto& [id, given] : given_back_) withhold_volume(id, given);
}

std::uint64_t ReportBoard::releases_heard() const {
  const std::lock_guard lock(mutex_);
  return releases_heard_;
}

/// `volume_id` stays: the instance may still hand in what it has recorded of that volume.
void ReportBoard::withhold_volume(const std::string& instance_id, const GivenBack& given) {
  const auto found = known_.find(instance_id);
  if (found == known_.end() || !found->second.no_volume.empty()) return;
  if (given.volume_id.empty() || given.volume_id == found->second.volume_id)
    found->second.no_volume = kGaveBackSince;
}

std::optional<KnownInstance> ReportBoard::known(const std::string& deployment,
                                                const std::string& instance_id,
                                                const std::string& pool) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(instance_id);
  if (deployment != deployment_ || found == known_.end() || found->second.pool != pool)
    return std::nullopt;
  return found->second;
}

bool ReportBoard::has_looked() const {
  const std::lock_guard lock(mutex_);
  return has_looked_;
}

std::optional<KnownInstance> ReportBoard::known(const std::string& instance_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(instance_id);
  if (found == known_.end()) return std::nullopt;
  return found->second;
}

bool ReportBoard::held_by_another(const std::string& volume_id,
                                  const std::string& instance_id) const {
  const std::lock_guard lock(mutex_);
  const auto holder = holders_.find(volume_id);
  return holder != holders_.end() && holder->second != instance_id;
}

void ReportBoard::record(core::NodeReport report, bool has_new_key, std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[report.instance_id];
  if (!has_new_key && number < entry.number) return;
  entry.number = number;
  report.up_again =
      !has_new_key && !says_goes(report) && (entry.latest.up_again || says_goes(entry.latest));
  const bool first = entry.first_received.empty();
  const bool news =
      first || entry.latest.stage != report.stage || entry.latest.volume_id != report.volume_id;
  entry.first_received.emplace(report.stage, report.received);
  if (report.stage == NodeStage::released) {
    auto& given = given_back_[report.instance_id];
    given = {report.volume_id, ++releases_heard_};
    withhold_volume(report.instance_id, given);
  }
  entry.latest = std::move(report);
  if (!news) return;
  woken_ = true;
  changed_.notify_all();
}

std::map<std::string, core::NodeReport> ReportBoard::snapshot() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, core::NodeReport> reports;
  for (const auto& [instance_id, entry] : entries_) reports.emplace(instance_id, entry.latest);
  return reports;
}

std::map<std::string, ReportBoard::Entry> ReportBoard::entries() const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

void ReportBoard::forget_unknown(Instant before) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const auto& each) {
    return !known_.contains(each.first) && each.second.latest.received < before;
  });
}

bool ReportBoard::is_deployment(const std::string& deployment) const {
  const std::lock_guard lock(mutex_);
  return deployment == deployment_;
}

void ReportBoard::knock(const std::string& instance_id, std::chrono::steady_clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (knockers_.size() < kKnockersKept) knockers_.insert(instance_id);
  if (knocked_ && now - *knocked_ < kKnockPause) return;  // wait() sees to it later
  knocked_ = now;
  woken_ = true;
  changed_.notify_all();
}

std::vector<std::string> ReportBoard::take_knockers() {
  const std::lock_guard lock(mutex_);
  const std::set<std::string> taken = std::exchange(knockers_, {});
  return {taken.begin(), taken.end()};
}

void ReportBoard::wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

bool ReportBoard::wait(Milliseconds at_most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, at_most, [&] { return woken_; });
  const auto now = std::chrono::steady_clock::now();
  if (!woken_ && !knockers_.empty() && now - *knocked_ >= kKnockPause) {
    knocked_ = now;
    woken_ = true;
  }
  return std::exchange(woken_, false);
}

}  // namespace warmroot::manager
