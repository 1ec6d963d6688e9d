// The planner's working copy: the world as the rules have left it so far, and the plan as it grows.
// Each rule (census, healing, leasing, launching, retiring, stocking) reads what the one before
// projected here. Used only inside the core; planner.cpp makes one per plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "manager/core/id_index.hpp"
#include "manager/core/model.hpp"
#include "manager/core/pool_source.hpp"

namespace warmroot::core {

/// Absence counts after this long and this many complete looks.
inline constexpr Milliseconds kGoneAfter{60'000};
inline constexpr int kLooksUntilGone = 3;
/// For so long after it has begun a manager counts its looks. It waits for no more of them
/// afterwards: who looks around that seldom could wait for ever.
inline constexpr Milliseconds kLooksAroundFor{600'000};
/// "attaching" for longer is stuck. Source: EBS CSI driver.
inline constexpr Milliseconds kStuckAttachAfter{90'000};
/// An accepted attach or a running instance's attachment that EC2 does not show for this long is
/// over.
inline constexpr Milliseconds kUnattachedAfter{10'000};
/// A launch comes up within seconds; one that has not after so long never will, and its node waits.
inline constexpr Milliseconds kPendingPatience{150'000};
/// Status checks fail for minutes during a live migration; a dead host stays impaired.
inline constexpr Milliseconds kImpairedAfter{120'000};
/// A node whose last report is older than this is taken to be silent.
inline constexpr Milliseconds kReportFresh{90'000};
/// A bootstrap that runs has reported to a manager that has just begun by then. Source: it reports
/// every 5 s, and tries again after at most 10.
inline constexpr Milliseconds kHeardWithin{20'000};
/// No report arrives later than this after it was sent.
inline constexpr Milliseconds kReportDelay{60'000};
/// How long a draining node may take before its instance is ended: EC2's own notice is 120 s.
inline constexpr Milliseconds kDrainPatience{150'000};
/// The same of a node whose people or hooks have longer.
inline Milliseconds drain_patience(const PoolSpec& spec) {
  return kDrainPatience + extra_release_time(spec.session.release_wishes);
}
/// A machine that said that it reboots is back after so long, also one that takes minutes to boot.
inline constexpr Milliseconds kRebootPatience{900'000};

/// Why an instance is given up: the clause by which other rules know it.
inline constexpr const char* kGaveBack = "has given its volume back";
inline constexpr const char* kNeverCameUp = "never came up";
inline constexpr const char* kFailsStatusChecks = "fails EC2's status checks";
inline constexpr const char* kNeverCameBack = "never came back from its reboot";
inline constexpr const char* kMayBeInterrupted =
    "may be interrupted soon, as EC2 recommends to rebalance";

struct NodeDraft {
  std::string name;
  int index = 0;
  bool wanted = false;  ///< an instance should run for it
  bool beyond = false;  ///< index >= nodes: only its volume keeps it in sight
  std::string zone;
  std::string zone_reason;              ///< why it gets its volume there; empty: nothing to say
  std::string volume_id;                ///< empty: no volume exists or was made
  const aws::Volume* volume = nullptr;  ///< absent while EC2 does not show it
  bool asked = false;                   ///< a create is on its way
  bool covered = false;                 ///< an instance that is coming up will serve it
  /// Volumes that are this node's beside its own: what a rollout took from it or made for it.
  std::vector<const aws::Volume*> others;
  bool other_coming = false;  ///< one of those was made and is not shown yet
  bool wants_next = false;    ///< a volume of the new source is to be made for it
  bool moving = false;        ///< its own volume is given to nobody any more: a newer one is ready
};

/// A volume of no node: spare or golden.
struct StockDraft {
  std::string id;
  VolumeRole role = VolumeRole::spare;
  std::string zone;
  std::string lineage;                  ///< empty: not shown yet
  const aws::Volume* volume = nullptr;  ///< absent while EC2 does not show it
  bool fit = false;  ///< of the pool's present source, never leased, neither broken nor set aside
};

struct InstanceDraft {
  std::string id;
  std::string pool;
  std::string zone;
  const aws::Instance* seen = nullptr;  ///< absent: launched, not shown yet
  bool launched = false;                ///< by us, so that we may end it
  bool pending = false;
  bool running = false;
  bool stopped = false;
  bool carries = false;   ///< a volume that its launch made, for a node of its own
  std::string group;      ///< the Auto Scaling group that it belongs to, which ends it
  std::string departing;  ///< why it serves nobody any more; empty: it may serve
  bool ending = false;    ///< its end has been asked for in this plan
};

struct PoolDraft {
  const PoolSpec* spec = nullptr;
  PoolSource source;
  std::vector<NodeDraft> nodes;           ///< by index; those beyond follow
  std::size_t within = 0;                 ///< how many of them are not beyond
  std::vector<InstanceDraft*> instances;  ///< in Draft::instances; the terminated ones left out
  std::vector<StockDraft> stock;
  std::map<std::string, int> stock_asked;  ///< creates on their way, by StockSubject
  /// By zone: spares that were given to a node and do not show its tag yet.
  std::map<std::string, int> stock_leaving;
  bool rolling = false;  ///< a rollout has nodes left to move

  /// The node of that name, which may be beyond, or nullptr.
  const NodeDraft* find_node(const std::string& name) const;
  NodeDraft* find_node(const std::string& name);
};

class Draft {
 public:
  Draft(const Desired& desired, const Observed& observed, const LedgerView& ledger, Instant now,
        const Limits& limits);

  const Desired& desired;
  const Observed& observed;
  const LedgerView& ledger;
  const Instant now;

  std::vector<PoolDraft> pools;
  std::map<std::string, InstanceDraft> instances;  ///< grown by add_instance alone
  /// As projected, changed by set_lease alone; ended ones stay, and so do references.
  std::deque<Lease> leases;
  std::vector<const aws::Volume*> parked;       ///< left behind by nodes that changed their zone
  std::vector<const aws::Volume*> from_launch;  ///< made by launches, of no node yet
  /// As the ledger has them after this plan's records.
  std::map<std::string, LaunchStreak> streaks;
  std::map<Offer, RefusedOffer> refused_offers;  ///< the same
  std::map<std::string, UncleanVolume> unclean;
  std::set<std::string> replaced;  ///< instances that a rebalance hint gives up now
  /// Volumes with a file system that no node can repair, by their ids: as if they had the tag.
  std::map<std::string, UncleanVolume> beyond_repair;
  bool frozen = false;  ///< too much vanished: nothing may be called
  Plan plan;

  PoolDraft* find_pool(std::string_view name);
  /// The pool that a node of this name belongs to; nullptr when the spec names none such.
  PoolDraft* find_pool_of(std::string_view node);
  InstanceDraft* find_instance(std::string_view id);
  InstanceDraft& add_instance(InstanceDraft made);
  const NodeReport* report_of(const std::string& instance_id) const;
  /// The report, when it is recent enough to be waited for. A bootstrap that failed listens too:
  /// sessions may go on in its volume, and one that never had any gives it back at once.
  const NodeReport* fresh_report_of(const std::string& instance_id) const;

  /// The manager has begun too lately for its silence to mean that nothing runs there. Wakes when
  /// that is over.
  bool may_yet_report(const std::string& instance_id);

  /// The lease beyond `reserved` of a volume; at most one exists.
  Lease* holder_of(const std::string& volume_id);
  Lease* reservation_of(const std::string& volume_id);
  Lease* lease_on(const std::string& instance_id);
  Lease* lease_of(const std::string& volume_id, const std::string& instance_id);
  /// Opens the lease of (volume, instance) or moves it to its new state, and records it.
  void set_lease(const Lease& lease, const std::string& why);
  /// The same, and its time starts anew when it is in that state already.
  void enter_again(const Lease& lease, const std::string& why);

  /// True while a call of this action may go out; otherwise it is counted as one that waits for a
  /// token. Asked before a call is put together.
  bool afford(std::string_view action);
  /// Takes up to `wanted` tokens of a bucket of things; the rest is counted as waiting for them.
  int take(std::string_view things, int wanted);
  /// Adds the call when budget, frozen state and completeness allow it, and unless it was sent just
  /// now and EC2 may show it yet; otherwise returns false and adds nothing.
  bool act(aws::Mutation mutation, const std::string& pool, std::vector<std::string> nodes,
           std::string reason, std::string zone = {});
  /// Calls of this name that may still be added; absent: as many as one likes.
  std::optional<int> calls_left(std::string_view action) const;
  void note(NoteKind kind, const std::string& pool, const std::string& node, std::string text,
            bool blocking);
  void record(Record record);

  /// Says that `key` holds at this look, and answers since when and how often it has.
  Watch hold(const std::string& key);
  /// The same; true once it has held at several looks in a row over a visibility window: one look
  /// alone can be stale.
  bool surely(const std::string& key);
  /// True while an earlier refusal of `action` for `resource` asks for patience.
  bool backing_off(std::string_view action, const std::string& resource);
  /// An earlier call of `action` for `resource` was throttled, or a launch not sent again, and may
  /// have been carried out all the same: what it made shows within the visibility window. The call
  /// with this token may be sent meanwhile, EC2 answers it with what it made.
  bool may_be_done_already(std::string_view action, const std::string& resource,
                           const std::string& token = {});
  /// A call of `action` for `resource` had no clear answer and was withdrawn, so lately that EC2
  /// may carry it out yet (kCarriedOutWithin).
  bool may_come_late(std::string_view action, const std::string& resource);
  /// The disk that its instance booted from: a launch that makes volumes tags it like those, and it
  /// is to end with the instance.
  bool is_base_root(const aws::Attachment& attachment) const;
  /// EC2 would delete a volume of ours together with this instance.
  bool would_delete_volume(const std::string& instance_id);
  /// EC2 shows a node's volume on this instance, whatever the leases say.
  bool shows_volume_on(const std::string& instance_id);
  /// Quarantined by its tag, or to be.
  bool is_set_aside(const aws::Volume& volume) const;
  /// A recorded call without a definite answer names the volume or instance.
  bool undecided(const std::string& resource_id) const;
  /// The launch with this client token is such a call, and makes volumes. EC2 may show what it made
  /// before its answer is heard: the nodes that the call names get that with the answer.
  bool undecided_launch(std::string_view client_token) const;
  /// Instances of the pool that were asked for and are not decided yet: all, or in one zone those
  /// that any node may have.
  int launches_asked(const std::string& pool, const std::string& zone = {}) const;
  /// One of those in this zone names the node: another launch for it would be the same call.
  bool launch_asked_for(const std::string& node, const std::string& zone) const;
  /// A new ledger may follow one that was lost, and any one may be an old copy: until several
  /// complete looks in a row since the manager has begun, over a
  /// visibility window, have shown what there is, absence is not believed and nothing is made.
  bool looking_around() const { return plan.looking_around; }
  int generation(std::string_view action, const std::string& node) const;
  /// Times at which something that is waited for changes by itself, for next_look.
  void wake_at(Instant at);
  std::optional<Instant> earliest_wake;

 private:
  /// The leases of each volume or of each instance, oldest first, as a chain of places in `leases`;
  /// keys live there.
  struct LeaseIndex {
    struct Ends {
      std::uint32_t first;
      std::uint32_t last;
    };
    IdIndex<Ends> ends;
    std::vector<std::uint32_t> next;  ///< of each lease; itself: the chain ends
    void add(std::string_view id, std::size_t place);
  };
  void index_lease(std::size_t place);
  bool is_between_asks(const std::string& asked, const Action& action);
  bool heed_beginning();
  template <typename Fits>
  Lease* first_of(const LeaseIndex& index, const std::string& id, Fits fits);

  std::map<std::string, int, std::less<>> calls_left_;
  std::unordered_map<std::string_view, std::size_t> pools_by_name_;
  IdIndex<InstanceDraft*> instances_by_id_;
  LeaseIndex leases_by_volume_;
  LeaseIndex leases_by_instance_;
  /// By pool, and by pool and zone ("" for all).
  std::map<std::pair<std::string, std::string>, int> launches_asked_;
  std::set<std::pair<std::string_view, std::string_view>> launch_asked_for_;  ///< node and zone
  std::unordered_set<std::string_view> undecided_;           ///< resources that open intents name
  std::unordered_set<std::string_view> undecided_launches_;  ///< by token; those with volumes
  /// Instances with a node's volume, by EC2's word; made when it is first asked for.
  std::optional<std::unordered_set<std::string_view>> with_volume_;
  /// Instances that would take a volume of ours along; made when it is first asked for.
  std::optional<std::unordered_set<std::string_view>> take_volumes_;
};

/// True in a state in which the attachment holds the volume.
bool holds_volume(LeaseState state);

/// The attachment that a volume has, or nullptr.
const aws::Attachment* attachment_of(const aws::Volume& volume);

/// What the volume was made from: by its tag, or where people took that away by what EC2 says.
/// Empty: nobody says.
std::string lineage_of(const aws::Volume& volume);

/// The tag's value; empty where there is none.
const std::string& tag_of(const aws::Tags& tags, std::string_view key);
bool has_tag(const aws::Tags& tags, std::string_view key);

}  // namespace warmroot::core
