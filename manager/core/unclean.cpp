#include "manager/core/unclean.hpp"

#include <algorithm>

#include "manager/core/backoff.hpp"

namespace warmroot::core {

namespace {

constexpr std::size_t kMostTagValue = 256;

/// What every service of AWS takes in a tag's value; EC2 itself takes more. Source: EC2 user guide,
/// "Tag your Amazon EC2 resources", restrictions.
std::string tag_value(std::string_view text) {
  constexpr std::string_view kMarks = "+-=._:/@";
  std::string value;
  for (const char each : text) {
    const bool plain = (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') ||
                       (each >= '0' && each <= '9') || kMarks.find(each) != kMarks.npos;
    if (plain)
      value += each;
    else if (!value.empty() && value.back() != ' ')
      value += ' ';
  }
  value.resize(std::min(value.size(), kMostTagValue));
  if (value.ends_with(' ')) value.pop_back();
  return value;
}

bool is_in_use(Draft& draft, const std::string& id, const aws::Volume* shown) {
  return draft.holder_of(id) || (shown && attachment_of(*shown));
}

bool is_to_return(const Draft& draft, const std::string& id) {
  const auto& orders = draft.ledger.orders;
  return std::any_of(orders.begin(), orders.end(), [&](const Order& order) {
    return order.kind == OrderKind::return_volume && order.subject == id;
  });
}

/// An old copy of the ledger does not know that it was returned since: another instance has it and
/// says so. Source: invariant (8), seed 52000050938.
bool serves_again(const Draft& draft, const aws::Volume& volume, const UncleanVolume& unclean) {
  const auto* attachment = attachment_of(volume);
  if (!attachment || attachment->instance_id == unclean.instance_id) return false;
  const auto* report = draft.report_of(attachment->instance_id);
  return report && says_mounted(*report) && report->volume_id == volume.volume_id;
}

/// Set aside until its tag was seen and is gone again, or an order returns it: one look that does
/// not show the tag may be older than it.
void follow_tag(Draft& draft, const std::string& id, UncleanVolume unclean) {
  const auto* shown = draft.observed.volumes.get(id);
  const bool tagged = shown && has_tag(shown->tags, kTagQuarantined);
  if (tagged && !unclean.tagged) {
    unclean.tagged = true;
    draft.record(RecordUnclean{id, unclean});
  }
  if (shown && !tagged && serves_again(draft, *shown, unclean))
    return draft.record(RecordUncleanOver{id, "serves again"});
  const bool returns = unclean.tagged || is_to_return(draft, id);
  if (shown && !tagged && returns && !is_in_use(draft, id, shown) && !draft.undecided(id) &&
      draft.surely("returned/" + id))
    return draft.record(RecordUncleanOver{id, "is used again"});
  draft.beyond_repair.emplace(id, std::move(unclean));
}

bool says_beyond_repair(const NodeReport& report) {
  return report.stage == NodeStage::released && report.reason == kUncleanBeyondRepair &&
         !report.volume_id.empty();
}

const UncleanVolume* unclean_of(const Draft& draft, const PoolDraft& pool, const NodeDraft& node) {
  const auto found = draft.unclean.find(node.volume_id);
  const bool owed = pool.spec->volumes.snapshot_unclean && found != draft.unclean.end() &&
                    found->second.beyond_repair.empty();
  return owed ? &found->second : nullptr;
}

std::string left_by(const UncleanVolume& unclean) {
  return unclean.instance_id + " did not release it cleanly";
}

}  // namespace

void find_beyond_repair(Draft& draft) {
  for (const auto& [id, unclean] : draft.ledger.unclean)
    if (!unclean.beyond_repair.empty()) follow_tag(draft, id, unclean);
  for (const auto& [id, report] : draft.observed.reports) {
    if (!says_beyond_repair(report) || draft.beyond_repair.contains(report.volume_id)) continue;
    // Only its holder has looked: anybody else's word is late, or about somebody else's volume.
    const auto* lease = draft.lease_of(report.volume_id, id);
    if (!lease || !holds_volume(lease->state)) continue;
    const UncleanVolume unclean{id, draft.now,
                                report.message.empty() ? "it said no more" : report.message, false};
    draft.beyond_repair.emplace(report.volume_id, unclean);
    draft.record(RecordUnclean{report.volume_id, unclean});
  }
}

void set_aside(Draft& draft, const aws::Volume& volume, const std::string& pool,
               const std::string& node) {
  const auto& id = volume.volume_id;
  const auto& unclean = draft.beyond_repair.at(id);
  draft.note(NoteKind::quarantined, pool, node,
             "volume " + id + " is quarantined and " + node + " gets another one: " +
                 unclean.instance_id + " could not repair its file system (" +
                 unclean.beyond_repair + "); take a snapshot for the data on it, repair it where " +
                 "nothing mounts it, then `warmroot volume return " + id + "`",
             false);
  if (unclean.tagged || has_tag(volume.tags, kTagQuarantined) || is_to_return(draft, id) ||
      draft.undecided(id) || draft.backing_off("CreateTags", id))
    return;
  const auto why = "beyond repair on " + unclean.instance_id + ": " + unclean.beyond_repair;
  draft.act(aws::CreateTags{{id}, {{kTagQuarantined, tag_value(why)}}}, pool, {},
            unclean.instance_id + " could not repair the file system of " + id);
}

bool awaits_setting_aside(const Draft& draft, const NodeReport& report, const aws::Volume& volume) {
  return says_beyond_repair(report) && report.volume_id == volume.volume_id &&
         !draft.is_set_aside(volume);
}

void end_lease(Draft& draft, const Lease& lease, bool clean, const std::string& why) {
  Lease ended = lease;  // a copy: `lease` may live in the draft
  const bool attached = ended.state != LeaseState::attaching;
  ended.state = LeaseState::ended;
  draft.set_lease(ended, why);
  const auto* pool = draft.find_pool(ended.pool);
  if (!attached || !pool || !pool->spec->volumes.snapshot_unclean ||
      draft.beyond_repair.contains(ended.volume_id))
    return;
  if (!clean) {
    auto& unclean = draft.unclean[ended.volume_id];  // this plan's attach sees it already
    unclean = {ended.instance_id, draft.now, "", false};
    draft.record(RecordUnclean{ended.volume_id, unclean});
  } else if (draft.unclean.erase(ended.volume_id) > 0) {
    draft.record(RecordUncleanOver{ended.volume_id, ""});
  }
}

/// CreateSnapshot takes no client token (EC2's API reference), so that an attempt without a clear
/// answer is asked for again: a second snapshot of the same state costs next to nothing, as it
/// holds no block that the first does not, and waiting until a listing shows the first would keep
/// the node waiting for longer than EC2 lets two follow each other (15 s).
bool awaits_snapshot(Draft& draft, const PoolDraft& pool, const NodeDraft& node) {
  const auto* unclean = unclean_of(draft, pool, node);
  if (!unclean) return false;
  const Instant due = draft.hold("snapshot/" + node.volume_id).since + kSnapshotPatience;
  if (draft.now >= due) return false;
  draft.wake_at(due);
  if (draft.backing_off("CreateSnapshot", node.name)) return true;
  const auto& id = node.volume_id;
  const auto& actions = draft.plan.actions;
  if (std::any_of(actions.begin(), actions.end(), [&](const Action& action) {
        const auto* asked = std::get_if<aws::CreateSnapshot>(&action.mutation);
        return asked && asked->volume_id == id;
      }))
    return true;  // for another instance that could have the volume
  draft.act(aws::CreateSnapshot{id,
                                "warmroot: " + id + " before its replay, " + left_by(*unclean),
                                {{kTagDeployment, draft.desired.deployment},
                                 {kTagPool, pool.spec->name},
                                 {kTagNode, node.name},
                                 {kTagUnclean, left_by(*unclean)},
                                 {"Name", "warmroot " + node.name + " unclean"}}},
            pool.spec->name, {node.name},
            left_by(*unclean) + ", and replay and repair will write to " + id);
  return true;
}

void forget_unclean(Draft& draft, const PoolDraft& pool, const NodeDraft& node) {
  const auto* unclean = unclean_of(draft, pool, node);
  if (!unclean) return;
  const auto failure = draft.ledger.failures.find(failure_key("CreateSnapshot", node.name));
  const std::string why =
      failure == draft.ledger.failures.end() ? "" : ": " + failure->second.sentence;
  draft.note(NoteKind::no_snapshot, pool.spec->name, node.name,
             "no snapshot of " + node.volume_id + " could be made within a minute, although " +
                 left_by(*unclean) + "; it is attached all the same" + why,
             false);
  draft.record(RecordUncleanOver{node.volume_id, "is attached without a snapshot" + why});
}

}  // namespace warmroot::core
