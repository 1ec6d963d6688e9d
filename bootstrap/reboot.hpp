// From one boot to the next: whether init is about to end this machine or to boot it anew, and what
// outlives that in files of the base's disk: over an orderly reboot the key of this instance's
// reports, and over any which volume was given away before, and which one was served. Used by the
// daemon, by bring_up, and by `up` and `down`.
#pragma once

#include <string>

#include "bootstrap/base/result.hpp"
#include "bootstrap/device.hpp"
#include "bootstrap/launch_facts.hpp"
#include "bootstrap/ticket.hpp"
#include "bootstrap/unit_plan.hpp"

namespace warmroot::bootstrap {

/// By systemd's jobs (plan_by_jobs). Asked for five seconds at most; shuts_down where it does not
/// answer, and where init is another.
MachinePlan plan_of_init();

/// Notes in /run that init is about to end this boot: a soft-reboot keeps that, and what was given
/// away before it would look like given away since.
void note_end_of_boot();
/// Whether that was noted; it is not any more then.
bool take_end_of_boot();

/// Whose a key is: another instance (one that was made from this one's image), and a manager that
/// has not given it, know nothing of it.
struct KeyOwner {
  std::string instance_id, deployment, manager_url;
};
KeyOwner owner_of(const LaunchFacts& launch, const Ticket& ticket);

/// Keeps what kKeyFile is to hold after the reboot; in place, over a power cut too, once it
/// returns.
Ok keep_key_over_reboot(const KeyOwner& owner, const std::string& key_file);
/// Makes kKeyFile of what the boot before has kept, where that is this owner's. Nothing is kept
/// afterwards, whosever it was. What hinders it is a line in the log: the manager is asked for a
/// new key then.
void take_key_after_reboot(const KeyOwner& owner);
void forget_key_over_reboot();

/// Keeps that this volume was given away: the next boot may find it attached still. In place, over
/// a power cut too, once it returns.
Ok keep_given_away(const KeyOwner& owner, const EarlierVolume& volume);
/// The volume that a boot before has given away; is_none() also where it is of another owner, which
/// is forgotten. One that an older program has kept has no disk_name.
EarlierVolume given_away_before(const KeyOwner& owner);
void forget_given_away();

/// Keeps that this volume is served: behind a reset nobody may say which one is this instance's. In
/// place, over a power cut too, once it returns.
Ok keep_served(const KeyOwner& owner, const EarlierVolume& volume);
/// The volume that a boot before has served last, and has not given back. is_none() also where it
/// is of another owner, where no disk can be known as it for certain, and where it may be
/// `given_away`: then it is forgotten.
EarlierVolume served_before(const KeyOwner& owner, const EarlierVolume& given_away = {});
void forget_served();

}  // namespace warmroot::bootstrap
