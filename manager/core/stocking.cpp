// Counts what exists and what was asked for and is not visible yet; creates the rest. Deletes
// nothing, ever.
#include "manager/core/stocking.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "manager/core/backoff.hpp"
#include "manager/core/filling.hpp"
#include "manager/core/filling_facts.hpp"
#include "manager/core/stock_census.hpp"
#include "manager/core/token.hpp"
#include "manager/core/warmth.hpp"

namespace warmroot::core {

namespace {

/// Broken ones of one kind in a zone, beside those that are asked for, before no more are made.
constexpr int kMostBroken = 3;
/// Encrypted otherwise than is asked for; more than these EC2 makes anew and anew.
constexpr int kMostOfEarlierSpec = 20;

/// A volume to be made.
struct Want {
  std::string zone;
  std::string subject;        ///< a node, or a StockSubject as text
  std::string token_subject;  ///< tells creates of one subject in one plan apart
  std::string reason;
  aws::Tags tags;
  bool may_copy = true;
  bool at_once = false;  ///< somebody waits for it
};

class Stocker {
 public:
  explicit Stocker(Draft& draft) : draft_(draft), facts_(draft) {}

  /// True when the call is in the plan.
  bool make(PoolDraft& pool, const Want& want);

 private:
  Fill fill_for(const PoolDraft& pool, const Want& want);
  std::string token(std::string_view action, const PoolDraft& pool, const Want& want) const;
  aws::Tags tags_for(const PoolDraft& pool, const Want& want) const;
  bool create(const PoolDraft& pool, const Want& want, const Fill& fill, const std::string& reason);
  bool copy(const PoolDraft& pool, const Want& want, const std::string& reason);
  bool token_may_have_made_it(const Want& want);

  Draft& draft_;
  FillingFacts facts_;
  /// By pool and zone: without a deadline all get their blocks in the same way.
  std::map<std::pair<std::string, std::string>, Fill> undated_;
};

Fill Stocker::fill_for(const PoolDraft& pool, const Want& want) {
  const auto within = pool.spec->stock.ready_within;
  if (within <= Milliseconds{0}) {
    auto [known, is_new] = undated_.try_emplace({pool.spec->name, want.zone});
    if (is_new)
      known->second = choose_fill(facts_.of(draft_, pool, want.zone, want.subject, false), within);
    return known->second;
  }
  const Watch missing = draft_.hold("filling/" + want.subject);
  const auto left = std::max(Milliseconds{1}, within - (draft_.now - missing.since));
  auto facts = facts_.of(draft_, pool, want.zone, want.subject, want.may_copy);
  // A cold session now is better than a warm one in some minutes.
  if (want.at_once && facts.copy_after > kAvailableAfter) facts.copy_after.reset();
  return choose_fill(facts, left);
}

std::string Stocker::token(std::string_view action, const PoolDraft& pool, const Want& want) const {
  return client_token({draft_.desired.deployment, action, pool.spec->name, want.token_subject,
                       draft_.generation(action, want.subject), want.zone});
}

aws::Tags Stocker::tags_for(const PoolDraft& pool, const Want& want) const {
  aws::Tags tags = pool.spec->volumes.tags;
  tags[kTagDeployment] = draft_.desired.deployment;
  tags[kTagPool] = pool.spec->name;
  tags[kTagLineage] = pool.source.snapshot_id;
  for (const auto& [key, value] : want.tags)
    if (key == "Name")
      tags.try_emplace(key, value);
    else
      tags[key] = value;
  return tags;
}

bool Stocker::create(const PoolDraft& pool, const Want& want, const Fill& fill,
                     const std::string& reason) {
  if (draft_.backing_off("CreateVolume", want.subject)) return false;
  const auto& spec = pool.spec->volumes;
  aws::CreateVolume call;
  call.availability_zone = want.zone;
  call.snapshot_id = pool.source.snapshot_id;
  call.size_gib = spec.size_gib;
  call.volume_type = spec.type;
  call.iops = spec.iops;
  call.throughput_mib_s = spec.throughput_mib_s;
  if (fill.way == FillWay::rate) call.initialization_rate = fill.rate_mib_s;
  call.encrypted = spec.encrypted;
  call.kms_key = spec.kms_key;
  call.tags = tags_for(pool, want);
  call.client_token = token("CreateVolume", pool, want);
  return draft_.act(std::move(call), pool.spec->name, {want.subject}, reason, want.zone);
}

bool Stocker::copy(const PoolDraft& pool, const Want& want, const std::string& reason) {
  const auto& spec = pool.spec->volumes;
  aws::CopyVolumes call;
  call.source_volume_id = FillingFacts::golden_of(draft_, pool, want.zone);
  call.size_gib = spec.size_gib;
  call.volume_type = spec.type;
  call.iops = spec.iops;
  call.throughput_mib_s = spec.throughput_mib_s;
  call.tags = tags_for(pool, want);
  call.client_token = token("CopyVolumes", pool, want);
  return draft_.act(std::move(call), pool.spec->name, {want.subject}, reason, want.zone);
}

/// A token that one who begins finds used may be one of a ledger that is lost: what it made for the
/// subject may not be shown yet, and under the next token a second one would be made beside it.
bool Stocker::token_may_have_made_it(const Want& want) {
  const auto& ledger = draft_.ledger;
  if (draft_.now >= ledger.begun + kLooksAroundFor) return false;
  if (draft_.generation("CreateVolume", want.subject) == 0 &&
      draft_.generation("CopyVolumes", want.subject) == 0)
    return false;
  const bool knows_one =
      std::any_of(ledger.volumes.begin(), ledger.volumes.end(),
                  [&](const auto& of) { return of.second.node == want.subject; });
  return !knows_one && !draft_.surely("token used/" + want.subject);
}

bool Stocker::make(PoolDraft& pool, const Want& want) {
  if (token_may_have_made_it(want)) {
    draft_.plan.looking_around = true;  // several looks more are to agree
    return false;
  }
  const Fill fill = fill_for(pool, want);
  if (fill.start_in > Milliseconds{0}) {
    draft_.wake_at(draft_.now + fill.start_in);
    draft_.note(NoteKind::stock_waits, pool.spec->name, "",
                want.reason + " and is made " + fill.why + "; that may begin in about " +
                    duration_text(fill.start_in) + ", one copy of a volume goes on at a time",
                false);
    return false;
  }
  // The token covers only what is asked for again in the same way: by the same call, in the same
  // zone, and of stock in the same slot.
  const bool copies = fill.way == FillWay::copy;
  const char* action = copies ? "CopyVolumes" : "CreateVolume";
  if (draft_.may_be_done_already(action, want.subject, token(action, pool, want)) ||
      draft_.may_be_done_already(copies ? "CreateVolume" : "CopyVolumes", want.subject) ||
      draft_.may_be_done_already("RunInstances", want.subject))
    return false;
  const std::string reason = fill.why.empty() ? want.reason : want.reason + "; " + fill.why;
  const bool made = copies ? copy(pool, want, reason) : create(pool, want, fill, reason);
  if (made) facts_.spend(draft_, pool, want.zone, fill);
  return made;
}

/// How many volumes of each node EC2 made that came out broken.
using BrokenByNode = std::map<std::string, int>;

BrokenByNode broken_volumes(const Draft& draft) {
  BrokenByNode found;
  for (const auto& [id, volume] : draft.observed.volumes) {
    if (volume.state == aws::VolumeState::error &&
        tag_of(volume.tags, kTagDeployment) == draft.desired.deployment)
      ++found[tag_of(volume.tags, kTagNode)];
  }
  return found;
}

/// The first broken one is replaced at once. Where they all break, the cause is not the volume. The
/// wait begins when the last of them was seen: EC2's clock, which tells when it was made, is not
/// ours.
bool waits_after_broken(Draft& draft, const PoolDraft& pool, const NodeDraft& node,
                        const BrokenByNode& broken) {
  constexpr Milliseconds kFirst{2'000};
  constexpr Milliseconds kLongest{60'000};
  constexpr int kHopeless = 10;
  constexpr Milliseconds kWhenHopeless{600'000};
  const auto found = broken.find(node.name);
  if (found == broken.end() || found->second < 2) return false;
  const int count = found->second;
  const Milliseconds wait = count > kHopeless
                                ? kWhenHopeless
                                : std::min(kLongest, kFirst * (1 << std::min(count - 2, 8)));
  const Watch seen = draft.hold("broken/" + node.name + "/" + std::to_string(count));
  const Instant due = seen.since + wait;
  if (draft.now >= due) return false;
  draft.wake_at(due);
  draft.note(NoteKind::volume_error, pool.spec->name, node.name,
             std::to_string(count) + " volumes of " + node.name +
                 " came out in state error, the next is made at " + to_iso8601(due).substr(11, 8) +
                 " UTC: check the KMS key and the snapshot, and delete them",
             true);
  return true;
}

void make_for_nodes(Draft& draft, PoolDraft& pool, Stocker& stocker, const BrokenByNode& broken) {
  for (auto& node : pool.nodes) {
    if (node.beyond || node.asked) continue;
    const bool next = node.wants_next;
    if (!node.volume_id.empty() && !next) continue;
    if (waits_after_broken(draft, pool, node, broken)) continue;
    const Want want{
        node.zone,
        node.name,
        next ? node.name + "@" + pool.source.snapshot_id : node.name,
        next ? node.name + " moves to " + pool.source.snapshot_id
             : node.name + " has no volume" +
                   (node.zone_reason.empty() ? "" : "; " + node.zone + ": " + node.zone_reason),
        {{kTagNode, node.name}, {"Name", "warmroot " + node.name}},
        true,
        node.wanted && !next};
    node.asked = stocker.make(pool, want);
  }
}

/// Volumes of the subject that are there or coming.
int count_stock(const PoolDraft& pool, const StockSubject& subject) {
  const auto asked = pool.stock_asked.find(to_string(subject));
  int count = asked == pool.stock_asked.end() ? 0 : asked->second;
  // Until its tag shows, a spare that was given away is one to everybody but us.
  const auto leaving = pool.stock_leaving.find(subject.zone);
  if (subject.role == VolumeRole::spare && leaving != pool.stock_leaving.end())
    count += leaving->second;
  for (const auto& volume : pool.stock)
    if (volume.fit && volume.role == subject.role && volume.zone == subject.zone) ++count;
  return count;
}

/// Those of an earlier spec are no more than were wanted then. A copy whose tags were taken away is
/// of no known source.
int count_broken(const PoolDraft& pool, const StockSubject& subject) {
  const auto count = [&](auto is) {
    return static_cast<int>(
        std::count_if(pool.stock.begin(), pool.stock.end(), [&](const StockDraft& of) {
          return of.volume && of.role == subject.role && of.zone == subject.zone &&
                 (of.lineage == pool.source.snapshot_id || of.lineage.empty()) && is(*of.volume);
        }));
  };
  const int unlike = count([&](const aws::Volume& volume) {
    return !is_encrypted_as_asked(pool.spec->volumes, volume);
  });
  return count([](const aws::Volume& volume) {
           return volume.state == aws::VolumeState::error ||
                  has_tag(volume.tags, kTagQuarantined) || lineage_of(volume).empty();
         }) +
         std::max(0, unlike - kMostOfEarlierSpec);
}

int wanted_of(const PoolDraft& pool, VolumeRole role) {
  return role == VolumeRole::golden ? pool.spec->stock.golden : pool.spec->stock.spares;
}

void make_stock(Draft& draft, PoolDraft& pool, Stocker& stocker, VolumeRole role,
                const std::string& zone) {
  const StockSubject subject{pool.spec->name, role, zone};
  const int wanted = wanted_of(pool, role);
  const int present = count_stock(pool, subject);
  if (present >= wanted) return;
  if (count_broken(pool, subject) >= kMostBroken) {
    draft.note(NoteKind::stock_waits, pool.spec->name, "",
               std::to_string(kMostBroken) + " " + std::string(to_string(role)) + " volumes in " +
                   zone + " are broken, set aside, not encrypted as asked or without their " +
                   kTagLineage +
                   " tags, so no more are made: see `volume list`, delete them or put their tags "
                   "right",
               true);
    return;
  }
  const auto name = std::string(to_string(role));
  for (int slot = 0; slot < wanted - present; ++slot) {
    const Want want{zone,
                    to_string(subject),
                    to_string(subject) + ":" + std::to_string(slot),
                    role == VolumeRole::golden ? "the golden volume of " + zone + " is missing"
                                               : "a spare of " + zone + " is missing",
                    {{kTagRole, name}, {"Name", "warmroot " + pool.spec->name + " " + name}},
                    role == VolumeRole::spare};
    if (!stocker.make(pool, want)) return;
    ++pool.stock_asked[to_string(subject)];
  }
}

void note_outdated(Draft& draft, const PoolDraft& pool) {
  std::string ids;
  for (const auto& volume : pool.stock)
    if (volume.volume && !pool.source.snapshot_id.empty() && !volume.lineage.empty() &&
        volume.lineage != pool.source.snapshot_id)
      ids += (ids.empty() ? "" : ", ") + volume.id;
  if (!ids.empty())
    draft.note(NoteKind::stock_outdated, pool.spec->name, "",
               "stock of an older source is not used any more: delete " + ids +
                   " when the old source does not come back",
               false);
}

/// Nodes keep their volumes and what is on them; of the others encrypted ones are made.
void note_encryption(Draft& draft, const PoolDraft& pool) {
  std::string ids;
  const auto add = [&](const aws::Volume* volume) {
    if (volume && !is_encrypted_as_asked(pool.spec->volumes, *volume))
      ids += (ids.empty() ? "" : ", ") + volume->volume_id;
  };
  for (const auto& node : pool.nodes) add(node.volume);
  for (const auto& volume : pool.stock) add(volume.volume);
  if (!ids.empty())
    draft.note(NoteKind::encryption_differs, pool.spec->name, "",
               "the spec asks for encrypted volumes, and these are not or by another key: " + ids +
                   ". EC2 encrypts no volume that exists: nodes keep theirs, spares and golden "
                   "ones are not used any more; delete those that may go",
               false);
}

bool fits_a_node(Draft& draft, const StockDraft& spare, const std::string& zone) {
  return spare.role == VolumeRole::spare && spare.fit && spare.volume && spare.zone == zone &&
         !draft.undecided(spare.id);
}

/// Before all others one that can be attached; of these the warmest, then the oldest.
auto rank_of(const Draft& draft, const StockDraft& spare) {
  return std::make_tuple(spare.volume->state != aws::VolumeState::available,
                         -warmth_of(draft, spare.id).value_or(0),
                         spare.volume->create_time.value_or(Instant::max()), spare.id);
}

bool tag_as_nodes(Draft& draft, const PoolDraft& pool, const NodeDraft& node,
                  const std::string& volume_id, std::string reason) {
  if (draft.undecided(volume_id) || draft.backing_off("CreateTags", node.name)) return false;
  aws::Tags tags{{kTagNode, node.name}, {kTagRole, std::string(to_string(VolumeRole::node))}};
  if (!pool.spec->volumes.tags.contains("Name")) tags["Name"] = "warmroot " + node.name;
  return draft.act(aws::CreateTags{{volume_id}, std::move(tags)}, pool.spec->name, {node.name},
                   std::move(reason));
}

}  // namespace

bool awaits_its_tag(const aws::Volume& volume) {
  const auto role = volume_role_from(tag_of(volume.tags, kTagRole));
  return role && is_stock(*role) && !has_tag(volume.tags, kTagNode);
}

std::vector<std::string> spares_in(Draft& draft, const PoolDraft& pool, const std::string& zone) {
  std::vector<const StockDraft*> fit;
  for (const auto& spare : pool.stock)
    if (fits_a_node(draft, spare, zone)) fit.push_back(&spare);
  std::sort(fit.begin(), fit.end(), [&](const auto* left, const auto* right) {
    return rank_of(draft, *left) < rank_of(draft, *right);
  });
  std::vector<std::string> ids;
  for (const auto* spare : fit) ids.push_back(spare->id);
  return ids;
}

const aws::Volume* take_spare(Draft& draft, PoolDraft& pool, const NodeDraft& node,
                              const std::string& why) {
  if (draft.looking_around() || draft.may_be_done_already("CreateVolume", node.name) ||
      draft.may_be_done_already("CopyVolumes", node.name) ||
      draft.may_be_done_already("RunInstances", node.name))
    return nullptr;
  StockDraft* best = nullptr;
  for (auto& spare : pool.stock)
    if (fits_a_node(draft, spare, node.zone) &&
        (!best || rank_of(draft, spare) < rank_of(draft, *best)))
      best = &spare;
  if (!best || !tag_as_nodes(draft, pool, node, best->id, why + "; spare " + best->id + " is its"))
    return nullptr;
  OwnedVolume owned{pool.spec->name, node.name, best->zone, draft.now, true, false};
  if (const auto* known = draft.ledger.volumes.get(best->id); known)
    owned.recorded = known->recorded;
  draft.record(RecordVolume{best->id, owned});
  best->fit = false;
  best->role = VolumeRole::node;
  ++pool.stock_leaving[best->zone];
  return best->volume;
}

namespace {

/// The ledger gave it to the node, and the call that says so has not got through.
void repeat_tag(Draft& draft, PoolDraft& pool, const NodeDraft& node, const aws::Volume& volume) {
  if (!awaits_its_tag(volume)) return;
  ++pool.stock_leaving[volume.availability_zone];
  tag_as_nodes(draft, pool, node, volume.volume_id,
               "the ledger gave it to " + node.name + ", its tags do not say so yet");
}

}  // namespace

void take_spares(Draft& draft) {
  for (auto& pool : draft.pools) {
    for (auto& node : pool.nodes) {
      if (node.volume) repeat_tag(draft, pool, node, *node.volume);
      for (const auto* other : node.others) repeat_tag(draft, pool, node, *other);
    }
    if (pool.stock.empty()) continue;
    for (auto& node : pool.nodes) {
      if (node.beyond || node.asked || !node.volume_id.empty()) continue;
      const auto* spare = take_spare(draft, pool, node, node.name + " has no usable volume");
      if (!spare) continue;
      node.volume_id = spare->volume_id;
      node.volume = spare;
    }
  }
}

bool stock_settled(const PoolDraft& pool, const StockSubject& subject) {
  return count_stock(pool, subject) >= wanted_of(pool, subject.role);
}

bool stock_settled(const PoolDraft& pool) {
  return std::all_of(pool.spec->zones.begin(), pool.spec->zones.end(), [&](const auto& zone) {
    return stock_settled(pool, {pool.spec->name, VolumeRole::spare, zone}) &&
           stock_settled(pool, {pool.spec->name, VolumeRole::golden, zone});
  });
}

void stock(Draft& draft) {
  for (const auto& pool : draft.pools) {
    note_outdated(draft, pool);
    note_encryption(draft, pool);
  }
  if (draft.looking_around()) return;
  Stocker stocker(draft);
  const auto broken = broken_volumes(draft);
  for (auto& pool : draft.pools) {
    if (!pool.source.problems.empty()) continue;
    make_for_nodes(draft, pool, stocker, broken);
    for (const auto& zone : pool.spec->zones) {
      make_stock(draft, pool, stocker, VolumeRole::golden, zone);
      make_stock(draft, pool, stocker, VolumeRole::spare, zone);
    }
  }
}

}  // namespace warmroot::core
