// The instance's own word (released), its death, or an attach that never reached the guest are the
// only reasons for a detach here; each is checked against this look, never against memory alone.
#include "manager/core/healing.hpp"

#include <algorithm>

#include "manager/core/unclean.hpp"

namespace warmroot::core {

namespace {

/// Whether EC2 shows DeleteOnTermination as it was set is looked at after so long.
constexpr Milliseconds kFlagAgain{5'000};

/// What was heard before the attach is of an earlier one: people had detached the volume, and the
/// instance, silent or rebooting since, was given it again. The lease may have changed since, by a
/// call that was refused: `attaching` is since when EC2 shows this very attach.
bool guest_saw_disk(const Draft& draft, const Lease& lease, const Watch& attaching) {
  const auto* report = draft.report_of(lease.instance_id);
  return report && report->received >= std::min(lease.since, attaching.since) &&
         report->volume_id == lease.volume_id && report->stage != NodeStage::hello &&
         report->stage != NodeStage::failed;
}

/// Seen on its way out, or over, although no pool lists it any more.
bool is_dying(const Draft& draft, const std::string& id) {
  const auto* seen = draft.observed.instances.get(id);
  return seen && (seen->state == aws::InstanceState::terminated ||
                  seen->state == aws::InstanceState::shutting_down);
}

/// The volume that the instance says it has mounted, where that is another one of ours and EC2
/// shows both on it: two managers, or people, have attached one each. A bootstrap takes no second
/// one.
const std::string* served_instead(const Draft& draft, const std::string& volume_id,
                                  const std::string& instance_id) {
  const auto* report = draft.report_of(instance_id);
  if (!report || !says_mounted(*report) || report->volume_id == volume_id) return nullptr;
  const auto* other = draft.observed.volumes.get(report->volume_id);
  const auto* shown = other ? attachment_of(*other) : nullptr;
  return shown && shown->instance_id == instance_id ? &report->volume_id : nullptr;
}

LeaseState state_from(Draft& draft, const std::string& volume_id,
                      const aws::Attachment& attachment) {
  using enum aws::AttachmentState;
  const auto* instance = draft.find_instance(attachment.instance_id);
  if (attachment.state == detaching || attachment.state == busy) return LeaseState::leaving;
  if (attachment.state == attaching) return LeaseState::attaching;
  if (instance ? !instance->departing.empty() : is_dying(draft, attachment.instance_id))
    return LeaseState::leaving;
  const auto* report = draft.report_of(attachment.instance_id);
  const bool active =
      report && says_mounted(*report) && !served_instead(draft, volume_id, attachment.instance_id);
  return active ? LeaseState::active : LeaseState::checking;
}

/// The instance says that it has unmounted the lease's volume: a disk that was taken away under it,
/// or that it had not mounted yet, is given back too, as it was left.
bool has_left_clean(const Draft& draft, const Lease& lease) {
  if (!has_released(draft, lease)) return false;
  if (const auto* report = draft.report_of(lease.instance_id)) return !ends_unclean(report->reason);
  return !draft.ledger.departures.at(lease.instance_id).unclean;
}

/// An attachment that EC2 shows is a lease, whoever made it.
void follow_attachment(Draft& draft, const PoolDraft& pool, const NodeDraft& node,
                       const aws::Attachment& attachment) {
  // Just after an attach, a lagging look may still show the attachment before it.
  if (const auto* holder = draft.holder_of(node.volume_id);
      holder && holder->instance_id != attachment.instance_id &&
      holder->state == LeaseState::attaching && draft.now - holder->since < kVisibilityWindow)
    return;
  // EC2 allows one attachment and shows whose it is: any other lease is over.
  if (const auto* holder = draft.holder_of(node.volume_id);
      holder && holder->instance_id != attachment.instance_id)
    end_lease(draft, *holder, has_left_clean(draft, *holder),
              "EC2 shows the volume on " + attachment.instance_id);
  Lease lease{pool.spec->name,   node.name,
              node.volume_id,    attachment.instance_id,
              attachment.device, state_from(draft, node.volume_id, attachment),
              draft.now};
  const auto* present = draft.lease_of(node.volume_id, attachment.instance_id);
  // A detach that was asked for is not seen at once, that of a stuck attach perhaps never: leaving
  // goes back only when EC2 shows it attached for long after.
  if (present && present->state == LeaseState::leaving &&
      (lease.state == LeaseState::attaching || draft.now - present->since < kUnattachedAfter))
    lease.state = LeaseState::leaving;
  draft.set_lease(lease, present ? "EC2 shows it" : "found attached");
  if (attachment.delete_on_termination)
    draft.note(NoteKind::deleted_with_instance, pool.spec->name, node.name,
               "volume " + node.volume_id + " would be deleted with " + attachment.instance_id +
                   ": DeleteOnTermination of " + attachment.device +
                   " is set to false; allow ec2:ModifyInstanceAttribute if it stays",
               false);
  if (!draft.find_instance(attachment.instance_id) && !is_dying(draft, attachment.instance_id))
    draft.note(NoteKind::attached_elsewhere, pool.spec->name, node.name,
               "volume " + node.volume_id + " is attached to " + attachment.instance_id +
                   ", which is no instance of this pool: detach it there to have it served here",
               true);
  // Nobody has said that it is not in use there, so that its detach is people's.
  if (const auto* served = served_instead(draft, node.volume_id, attachment.instance_id))
    draft.note(NoteKind::attached_elsewhere, pool.spec->name, node.name,
               "volume " + node.volume_id + " is attached to " + attachment.instance_id +
                   " beside " + *served + ", which is served there: detach " + node.volume_id +
                   " from it to have it served by another",
               true);
}

bool instance_is_over(Draft& draft, const std::string& id) {
  const auto* seen = draft.observed.instances.get(id);
  if (seen) return seen->state == aws::InstanceState::terminated;
  return draft.find_instance(id) == nullptr;
}

/// EC2 shows another volume of ours on its instance, which has one at most: the lease is of an old
/// copy of the ledger, or people exchanged the two.
bool has_made_way(Draft& draft, const Lease& lease) {
  return std::any_of(draft.leases.begin(), draft.leases.end(), [&](const Lease& other) {
    if (other.instance_id != lease.instance_id || other.volume_id == lease.volume_id ||
        !holds_volume(other.state))
      return false;
    const auto* volume = draft.observed.volumes.get(other.volume_id);
    const auto* shown = volume ? attachment_of(*volume) : nullptr;
    return shown && shown->instance_id == lease.instance_id;
  });
}

/// The lease says held, EC2 shows no such attachment. A single look can be stale, so a lease that
/// nobody asked to end needs several; AttachVolume would refuse the rest.
bool attachment_is_over(Draft& draft, const Lease& lease) {
  if (draft.undecided(lease.volume_id)) return false;
  if (lease.state == LeaseState::attaching && draft.now - lease.since < kVisibilityWindow)
    return false;
  const auto* volume = draft.observed.volumes.get(lease.volume_id);
  if (!volume) return instance_is_over(draft, lease.instance_id) || has_made_way(draft, lease);
  if (attachment_of(*volume)) return true;  // somebody else's: EC2 allows one
  if (volume->state != aws::VolumeState::available) return false;
  if (instance_is_over(draft, lease.instance_id) || lease.state == LeaseState::leaving) return true;
  if (has_made_way(draft, lease)) return true;
  const Watch unattached = draft.hold("unattached/" + lease.volume_id + "/" + lease.instance_id);
  draft.wake_at(unattached.since + kUnattachedAfter);
  return unattached.looks >= kLooksUntilGone && draft.now - unattached.since >= kUnattachedAfter;
}

void end_what_is_over(Draft& draft) {
  for (std::size_t place = 0, end = draft.leases.size(); place < end; ++place) {
    const Lease& lease = draft.leases[place];
    if (!holds_volume(lease.state)) continue;
    const auto* volume = draft.observed.volumes.get(lease.volume_id);
    if (volume)
      if (const auto* shown = attachment_of(*volume);
          shown && shown->instance_id == lease.instance_id)
        continue;
    if (attachment_is_over(draft, lease))
      end_lease(draft, lease, has_left_clean(draft, lease),
                "EC2 shows the volume off " + lease.instance_id);
  }
}

const NodeDraft* node_of(Draft& draft, const Lease& lease) {
  const auto* pool = draft.find_pool(lease.pool);
  return pool ? pool->find_node(lease.node) : nullptr;
}

void end_useless_reservations(Draft& draft) {
  for (std::size_t place = 0, end = draft.leases.size(); place < end; ++place) {
    const Lease& lease = draft.leases[place];
    if (lease.state != LeaseState::reserved) continue;
    const auto* instance = draft.find_instance(lease.instance_id);
    const auto* node = node_of(draft, lease);
    const auto* holder = draft.holder_of(lease.volume_id);
    const auto* serving = holder ? draft.find_instance(holder->instance_id) : nullptr;
    const bool served = serving && serving->departing.empty();
    const bool useful = instance && instance->departing.empty() && node && node->wanted &&
                        node->volume_id == lease.volume_id && !served &&
                        !draft.shows_volume_on(instance->id);  // another manager's, or a person's
    if (useful) continue;
    Lease ended = lease;
    ended.state = LeaseState::ended;
    draft.set_lease(ended, "the reservation serves nobody any more");
  }
}

void detach(Draft& draft, const Lease& lease, const std::string& reason) {
  if (draft.undecided(lease.volume_id)) return;
  if (draft.backing_off("DetachVolume", lease.node)) return;
  if (!draft.act(aws::DetachVolume{lease.volume_id, lease.instance_id, lease.device}, lease.pool,
                 {lease.node}, reason))
    return;
  Lease leaving = lease;
  leaving.state = LeaseState::leaving;
  draft.enter_again(leaving, reason);
}

/// EC2 would delete the volume with its instance. `node` is empty where it is no node's.
void keep_after_termination(Draft& draft, const std::string& pool, const std::string& node,
                            const std::string& volume_id, const aws::Attachment& attachment) {
  const std::string& of = node.empty() ? attachment.instance_id : node;
  if (draft.undecided(attachment.instance_id) || draft.backing_off("ModifyInstanceAttribute", of))
    return;
  draft.wake_at(draft.now + kFlagAgain);
  aws::ModifyInstanceAttribute call;
  call.instance_id = attachment.instance_id;
  call.device_name = attachment.device;
  call.delete_on_termination = false;
  std::vector<std::string> nodes;
  if (!node.empty()) nodes.push_back(node);
  draft.act(std::move(call), pool, std::move(nodes),
            "volume " + volume_id + " would be deleted with " + attachment.instance_id);
}

/// One of this very attach: whoever starts over takes another name, but for a second manager, which
/// may not know that the first was used; then EC2 tells another time.
std::string watch_of_attach(const Lease& lease, const aws::Attachment& attachment) {
  std::string key =
      "attaching/" + lease.volume_id + "/" + lease.instance_id + "/" + attachment.device;
  if (attachment.attach_time)
    key += "/" + std::to_string(attachment.attach_time->time_since_epoch().count());
  return key;
}

/// Since when a guest that saw the disk has not said so any more: a boot behind a reset begins with
/// a hello, and a manager that begins has heard nobody. nullopt: it never said so.
std::optional<Instant> unseen_since(Draft& draft, const std::string& attach) {
  const std::string seen = "seen/" + attach, unseen = "unseen/" + attach;
  const auto& known = draft.ledger.watches;
  if (!known.contains(seen) && !known.contains(unseen)) return std::nullopt;
  return draft.hold(unseen).since;
}

void heal_attachment(Draft& draft, const Lease& lease, const aws::Volume& volume) {
  const aws::Attachment& attachment = *attachment_of(volume);
  const auto* instance = draft.find_instance(lease.instance_id);
  if (attachment.state == aws::AttachmentState::attaching) {
    if (!instance) return;  // somebody else's to start over
    const std::string attach = watch_of_attach(lease, attachment);
    const Watch stuck = draft.hold(attach);
    if (guest_saw_disk(draft, lease, stuck)) {
      draft.hold("seen/" + attach);
      return;
    }
    const Instant since = unseen_since(draft, attach).value_or(stuck.since);
    const bool asked = lease.state == LeaseState::leaving;
    const Instant due = (asked ? std::max(since, lease.since) : since) + kStuckAttachAfter;
    if (draft.now < due) return draft.wake_at(due);
    return detach(draft, lease,
                  "attaching for more than 90 s, and the guest sees no disk; starting over");
  }
  // A detach that the guest holds up is an attachment still, and ends with the instance.
  const bool held_up = attachment.state == aws::AttachmentState::busy;
  if (attachment.delete_on_termination && instance &&
      (held_up || attachment.state == aws::AttachmentState::attached))
    keep_after_termination(draft, lease.pool, lease.node, lease.volume_id, attachment);
  if (held_up)
    draft.note(NoteKind::still_mounted, lease.pool, lease.node,
               "volume " + lease.volume_id + " is still mounted on " + lease.instance_id +
                   ", which holds its detach up: unmount it there or end the instance",
               false);
  if (attachment.state != aws::AttachmentState::attached || !instance) return;
  if (instance->stopped) return detach(draft, lease, "instance " + instance->id + " is stopped");
  // Whoever got it next would try in vain.
  const auto* report = draft.report_of(instance->id);
  if (report && awaits_setting_aside(draft, *report, volume)) return;
  // Without its word by what it said before a restart of ours: it may be up again since, and would
  // lose the volume under its sessions.
  if (instance->running && has_released(draft, lease) && !draft.may_yet_report(instance->id))
    detach(draft, lease, instance->id + " has unmounted and released the volume");
}

void quarantine_broken_volumes(Draft& draft) {
  for (const auto& [id, volume] : draft.observed.volumes) {
    if (volume.state != aws::VolumeState::error && !draft.is_set_aside(volume)) continue;
    const auto* record = draft.ledger.volumes.get(id);
    const auto pool = record ? record->pool : tag_of(volume.tags, kTagPool);
    const auto node = record ? record->node : tag_of(volume.tags, kTagNode);
    if (tag_of(volume.tags, kTagDeployment) != draft.desired.deployment || !draft.find_pool(pool))
      continue;
    if (draft.beyond_repair.contains(id)) {
      set_aside(draft, volume, pool, node);
      continue;
    }
    if (has_tag(volume.tags, kTagQuarantined)) {
      draft.note(NoteKind::quarantined, pool, node,
                 "volume " + id + " is quarantined (" + tag_of(volume.tags, kTagQuarantined) +
                     "); `warmroot volume return " + id + "` has it used again",
                 false);
      continue;
    }
    draft.note(NoteKind::volume_error, pool, node,
               "volume " + id + " is in state error: it is set aside and replaced by a new one",
               false);
    if (draft.undecided(id) || draft.backing_off("CreateTags", id)) continue;
    draft.act(aws::CreateTags{{id}, {{kTagQuarantined, "error"}}}, pool, {},
              "volume " + id + " is in state error");
  }
}

}  // namespace

bool has_released(const Draft& draft, const Lease& lease) {
  if (const auto* report = draft.report_of(lease.instance_id))
    return report->stage == NodeStage::released &&
           (report->volume_id.empty() || report->volume_id == lease.volume_id);
  const auto departure = draft.ledger.departures.find(lease.instance_id);
  if (departure == draft.ledger.departures.end() || !departure->second.released) return false;
  // An old copy of the ledger knows of a release, and not that the volume came again since.
  const auto* volume = draft.observed.volumes.get(lease.volume_id);
  const auto* shown = volume ? attachment_of(*volume) : nullptr;
  if (shown && shown->instance_id == lease.instance_id && shown->attach_time &&
      *shown->attach_time > departure->second.since + kReportDelay)
    return false;
  return departure->second.volume_id.empty() || departure->second.volume_id == lease.volume_id;
}

void keep_volumes_of(Draft& draft, const InstanceDraft& instance) {
  for (const auto& [id, volume] : draft.observed.volumes) {
    const auto* attachment = attachment_of(volume);
    if (!attachment || attachment->instance_id != instance.id ||
        !attachment->delete_on_termination || draft.is_base_root(*attachment) ||
        draft.holder_of(id))
      continue;
    if (attachment->state == aws::AttachmentState::attached ||
        attachment->state == aws::AttachmentState::busy)
      keep_after_termination(draft, instance.pool, "", id, *attachment);
  }
}

void settle_leases(Draft& draft) {
  for (const auto& pool : draft.pools)
    for (const auto& node : pool.nodes)
      if (node.volume)
        if (const auto* attachment = attachment_of(*node.volume))
          follow_attachment(draft, pool, node, *attachment);
  end_what_is_over(draft);
  end_useless_reservations(draft);
}

void heal(Draft& draft) {
  quarantine_broken_volumes(draft);
  for (std::size_t place = 0, end = draft.leases.size(); place < end; ++place) {
    const Lease& lease = draft.leases[place];
    if (!holds_volume(lease.state)) continue;
    const auto* volume = draft.observed.volumes.get(lease.volume_id);
    if (!volume) continue;
    const auto* attachment = attachment_of(*volume);
    if (attachment && attachment->instance_id == lease.instance_id)
      heal_attachment(draft, lease, *volume);
  }
}

}  // namespace warmroot::core
