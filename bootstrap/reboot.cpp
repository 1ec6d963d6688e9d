#include "bootstrap/reboot.hpp"

#include <unistd.h>

#include <chrono>
#include <sstream>

#include "bootstrap/base/log.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/own_unit.hpp"
#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {
namespace {

/// Of the 90 s that systemd gives us.
constexpr std::chrono::milliseconds kJobsLimit{5000};
constexpr std::size_t kMaxRebootKey = 4096, kMaxVolume = 4096;

/// What the file begins with.
std::string owner_lines(const KeyOwner& owner) {
  return owner.instance_id + "\n" + owner.deployment + "\n" + owner.manager_url + "\n";
}

Ok keep_over_reboot(const char* path, const KeyOwner& owner, const std::string& text) {
  TRY(make_directory(kBaseState, 0700));
  TRY(write_file_atomic(path, owner_lines(owner) + text, 0600));
  return sync_directory_of(path);
}

Ok keep_volume(const char* path, const KeyOwner& owner, const EarlierVolume& volume) {
  return keep_over_reboot(path, owner, volume.volume_id + "\n" + volume.disk_name + "\n");
}

/// Forgets one that is another owner's, or that nobody of ours has written.
EarlierVolume kept_volume(const char* path, const KeyOwner& owner) {
  const auto kept = read_file(path, kMaxVolume);
  if (!kept && kept.error().kind == ErrorKind::gone) return {};
  const std::string whose = owner_lines(owner);
  if (!kept || !kept->starts_with(whose)) {
    ::unlink(path);
    return {};
  }
  std::istringstream lines(kept->substr(whose.size()));
  EarlierVolume volume;
  std::getline(lines, volume.volume_id);
  std::getline(lines, volume.disk_name);
  return volume;
}

}  // namespace

KeyOwner owner_of(const LaunchFacts& launch, const Ticket& ticket) {
  return {launch.instance_id, ticket.deployment, ticket.manager_url};
}

MachinePlan plan_of_init() {
  const std::string systemctl = systemctl_program();
  if (systemctl.empty()) return MachinePlan::shuts_down;
  const auto jobs = run_program({systemctl, "list-jobs", "--no-legend", "--plain"}, kJobsLimit);
  if (jobs && jobs->exit_status == 0) return plan_by_jobs(jobs->output);
  log_event(LogLevel::warning, "nobody says whether this machine reboots",
            {{"why", jobs ? jobs->output : jobs.error().message()}});
  return MachinePlan::shuts_down;
}

void note_end_of_boot() {
  if (const Ok noted = write_file_atomic(kBootEnds, "", 0600); !noted)
    log_event(LogLevel::warning, "a soft-reboot would look like this very boot",
              {{"why", noted.error().message()}});
}

bool take_end_of_boot() {
  return ::unlink(kBootEnds) == 0;
}

Ok keep_key_over_reboot(const KeyOwner& owner, const std::string& key_file) {
  return keep_over_reboot(kRebootKey, owner, key_file);
}

void take_key_after_reboot(const KeyOwner& owner) {
  const auto kept = read_file(kRebootKey, kMaxRebootKey);
  if (!kept && kept.error().kind == ErrorKind::gone) return;
  forget_key_over_reboot();
  const std::string whose = owner_lines(owner);
  const bool is_ours = kept && kept->starts_with(whose);
  const Ok taken = is_ours ? write_file_atomic(kKeyFile, kept->substr(whose.size()), 0600)
                   : kept  ? Ok{fail(ErrorKind::refused, "it is not this instance's")}
                           : Ok{fail(kept.error())};
  log_event(taken ? LogLevel::notice : LogLevel::warning, "the key of the boot before",
            {{"taken", taken ? "yes" : "no"}, {"why", taken ? "" : taken.error().message()}});
}

void forget_key_over_reboot() {
  ::unlink(kRebootKey);
}

Ok keep_given_away(const KeyOwner& owner, const EarlierVolume& volume) {
  return keep_volume(kGivenAway, owner, volume);
}

EarlierVolume given_away_before(const KeyOwner& owner) {
  return kept_volume(kGivenAway, owner);
}

void forget_given_away() {
  ::unlink(kGivenAway);
}

Ok keep_served(const KeyOwner& owner, const EarlierVolume& volume) {
  return keep_volume(kServedVolume, owner, volume);
}

EarlierVolume served_before(const KeyOwner& owner, const EarlierVolume& given_away) {
  const EarlierVolume volume = kept_volume(kServedVolume, owner);
  if (volume.is_none()) return {};
  if (can_be_known(volume) && !may_be_same(volume, given_away)) return volume;
  forget_served();
  return {};
}

void forget_served() {
  ::unlink(kServedVolume);
}

}  // namespace warmroot::bootstrap
