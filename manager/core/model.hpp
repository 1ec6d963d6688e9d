// The words of the manager's core as plain data: what EC2 showed (Observed), what we remember
// (LedgerView), and what to do about it (Plan). The reconciler fills the first two and carries out
// the third; the rules of planner.hpp stand between them. No behaviour here but names for enums.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bootstrap/base/units.hpp"
#include "manager/aws/ec2.hpp"
#include "manager/core/node_report.hpp"
#include "manager/core/shared_map.hpp"
#include "manager/core/spec.hpp"

namespace warmroot::core {

// Tags on volumes and instances. EC2 refuses '/' in keys of instances whose tags IMDS serves.
inline constexpr const char* kTagDeployment = "warmroot:deployment";
inline constexpr const char* kTagPool = "warmroot:pool";
inline constexpr const char* kTagNode = "warmroot:node";
inline constexpr const char* kTagLineage = "warmroot:lineage";
inline constexpr const char* kTagQuarantined = "warmroot:quarantined";
/// Of a volume that belongs to no node: to_string(VolumeRole). A node's tag beside it counts more.
inline constexpr const char* kTagRole = "warmroot:role";
/// Names the node from which a rollout took the volume; it is kept and not used again.
inline constexpr const char* kTagRetired = "warmroot:retired";
/// Names the zone that the volume's node moved to for want of capacity here; the volume is kept and
/// the node returns to it when it has to move again, or when the tag is removed.
inline constexpr const char* kTagParked = "warmroot:parked";

// ---- what EC2 showed ----

/// The answer to "what is X?": found, or one sentence that says why not. `transient`: asking again
/// may help.
template <typename T>
struct Lookup {
  std::optional<T> found;
  std::string error;
  bool transient = false;
};

/// One way to buy an instance.
struct Offer {
  std::string instance_type;
  std::string zone;
  bool spot = true;
  friend auto operator<=>(const Offer&, const Offer&) = default;
};

/// Millionths of a dollar: sums are exact and the same on every machine.
using MicroUsd = std::int64_t;

/// Prices and capacity as far as the account may read them. What is absent weighs nothing.
struct Market {
  std::map<std::string, std::map<std::string, MicroUsd>> spot_price;  ///< an hour, by type and zone
  std::map<std::string, std::set<std::string>>
      offered;  ///< zones by type; a type that is not a key was not asked about
  /// Spot placement scores, 1 to 10, by pool and zone.
  std::map<std::string, std::map<std::string, int>> scores;
};

/// What EC2 announces about an instance. The greater one counts.
enum class WarningKind {
  rebalance,     ///< an interruption may come; acted upon only where the spec asks for it
  interruption,  ///< a spot instance is reclaimed two minutes after the warning
};
struct Warning {
  WarningKind kind = WarningKind::interruption;
  Instant at{};  ///< when EC2 said it
};
/// Spot notice to reclaim. Source: EC2 user guide, spot interruptions.
inline constexpr Milliseconds kSpotNotice{120'000};

/// What an event queue has told since the last tick. Best effort: missing, late, doubled.
struct Heard {
  std::map<std::string, Warning> warnings;  ///< by instance id
  std::set<std::string> changed;            ///< instances worth a look
  bool live = false;                        ///< somebody listens and hears
};

/// Watches of launch templates that were asked for and are not listed yet begin so.
inline constexpr const char* kWatchTemplate = "template/";

/// One look at EC2. Maps are keyed by resource id (zones by name, user_data by pool).
struct Observed {
  bool complete = false;           ///< every listing that the rules rely on was read to its end
  Instant at{};                    ///< when the look began
  std::vector<std::string> notes;  ///< optional calls that failed, and why the view is incomplete
  SharedMap<aws::Volume> volumes;  ///< those tagged with our deployment
  SharedMap<aws::Instance> instances;  ///< those of our deployment or of a pool without launch
  /// Of leased instances; of many, only those that fail a check.
  SharedMap<aws::InstanceStatus> statuses;
  std::map<std::string, Lookup<aws::Image>> images;
  std::map<std::string, Lookup<aws::Snapshot>> snapshots;
  std::map<std::string, aws::AvailabilityZone> zones;  ///< empty: could not be asked
  std::map<std::string, Lookup<aws::Subnet>> subnets;
  std::map<std::string, Lookup<std::string>> user_data;  ///< rendered by the reconciler's owner
  Market market;
  /// Launch templates tagged with our deployment; absent: they could not be listed, or no pool has
  /// a use for them.
  std::optional<std::vector<aws::LaunchTemplate>> templates;
  std::map<std::string, Lookup<std::string>>
      launch_checks;                          ///< by pool: would EC2 launch it? found: it would
  std::map<std::string, NodeReport> reports;  ///< latest of each instance
  /// How far new volumes are read from their snapshots, of those that somebody waits for; and the
  /// snapshots that need no reading. Looked up only for pools with a deadline.
  std::map<std::string, aws::VolumeStatus> volume_statuses;
  std::vector<aws::FastSnapshotRestore> fast_restores;
  std::map<std::string, Warning> warnings;  ///< heard from EC2's events
  bool events_live = false;  ///< changes are told at once, so that looks may be rarer
};

// ---- what we remember ----

/// An instance's right to a volume. `reserved` waits for the volume to become free; `attaching` to
/// `leaving` exclude any other such lease of the volume.
enum class LeaseState { reserved, attaching, checking, active, leaving, ended };
std::string_view to_string(LeaseState state);
std::optional<LeaseState> lease_state_from(std::string_view text);

struct Lease {
  std::string pool;
  std::string node;
  std::string volume_id;
  std::string instance_id;
  std::string device;  ///< empty while reserved
  LeaseState state = LeaseState::reserved;
  Instant since{};  ///< when `state` was entered
};

/// What became of a recorded call. `open`: recorded, perhaps sent; a crash leaves it so. `unknown`:
/// sent, no answer understood. Both are sent again, byte for byte, before anything else.
enum class IntentState { open, unknown, accepted, refused };
std::string_view to_string(IntentState state);

struct Intent {
  std::int64_t id = 0;
  aws::EncodedCall call;
  std::string pool;
  std::vector<std::string> nodes;
  std::vector<std::string> resources;  ///< ids that the call names: the volume before the instance
  std::string zone;                    ///< of creates
  std::string token;                   ///< of creates
  IntentState state = IntentState::open;
  Instant recorded{};
  int attempts = 0;   ///< answers that were none
  Instant tried{};    ///< when the last of them came
  std::string error;  ///< of refused and unknown: the sentence shown to the operator
};

/// What a volume is for. A spare that became a node's volume is never a spare again.
enum class VolumeRole {
  node,     ///< one node's own
  spare,    ///< of no node, never leased: the next node without a volume takes it
  golden,   ///< never leased and never taken: the source of copies
  retired,  ///< was a node's until a rollout gave it another; kept for the operator
};
std::string_view to_string(VolumeRole role);
std::optional<VolumeRole> volume_role_from(std::string_view text);
/// Of no node.
inline bool is_stock(VolumeRole role) {
  return role == VolumeRole::spare || role == VolumeRole::golden;
}

/// A volume we made or adopted and have not seen the end of.
struct OwnedVolume {
  std::string pool;
  std::string node;  ///< empty: of spares and golden volumes
  std::string zone;
  Instant recorded{};
  bool seen = false;       ///< EC2 has shown it at least once
  bool ever_used = false;  ///< had a lease once: never deleted without the operator's word
  VolumeRole role = VolumeRole::node;
};

/// What became of a launch: counted once, for the pool's breaker.
enum class InstanceFate {
  fresh,   ///< too early to say
  proved,  ///< it served a session's volume
  failed,  ///< it ended, or its bootstrap failed, before it ever did
};
std::string_view to_string(InstanceFate fate);
InstanceFate instance_fate_from(std::string_view text);

/// An instance we launched and have not seen the end of.
struct LaunchedInstance {
  std::string pool;
  std::string zone;
  Instant recorded{};
  InstanceFate fate = InstanceFate::fresh;
};

/// An instance that has begun to give its volume back, by its own word or EC2's warning. It never
/// gets one again, also after a restart in which reports and warnings are lost.
struct Departure {
  bool released = false;  ///< it said that it has unmounted the volume
  Instant since{};        ///< when it was first heard
  /// When EC2 takes it away, by its warning.
  std::optional<Instant> reclaim_at{};
  bool advised = false;     ///< only EC2's rebalance hint said so
  std::string volume_id{};  ///< the volume that it spoke of; empty: it did not say
};

/// What an operator orders by hand, beside the spec.
enum class OrderKind {
  attach,         ///< give the instance a volume of the pool
  release,        ///< take the volume from the instance, which serves no more
  quarantine,     ///< set the volume aside
  return_volume,  ///< undo quarantine
  delete_volume,  ///< delete the volume and the data on it
};
std::string_view to_string(OrderKind kind);
std::optional<OrderKind> order_kind_from(std::string_view text);

/// An order that is neither met nor refused yet.
struct Order {
  std::int64_t id = 0;
  OrderKind kind = OrderKind::attach;
  std::string subject;  ///< the instance of attach and release, else the volume
  std::string pool;     ///< of attach
  std::string detail;   ///< why it is quarantined; of a delete: not empty when data may be lost
  Instant asked{};
};

/// Consecutive refusals of one kind of call for one node; a success clears it.
struct Failure {
  int count = 0;
  Instant last{};
  std::string code;
  bool transient = false;  ///< passes by itself: throttles, server errors, missing capacity
  std::string sentence;    ///< call, resource, EC2's code, request id and what to do
};

/// An offer that EC2 did not have when it was asked last; an instance of it clears this.
struct RefusedOffer {
  Instant since{};  ///< the first refusal of those in a row
  Instant last{};
  int count = 0;
  std::string code;
  std::string sentence;
};

/// Launches of a pool that failed in a row; one that proves itself, or the operator, clears it.
struct LaunchStreak {
  int failures = 0;
  Instant last{};
  std::string reason;  ///< of the last one
};

/// Something that has held at each look since `since`.
struct Watch {
  Instant since{};
  int looks = 0;
};

/// The ledger as the rules see it: what is open, not what is over.
struct LedgerView {
  Instant created{};  ///< of the ledger itself; creates wait one visibility window from here
  std::vector<Lease> leases;                          ///< none of them ended
  std::vector<Intent> intents;                        ///< open and unknown ones
  std::map<std::string, OwnedVolume> volumes;         ///< by volume id
  std::map<std::string, LaunchedInstance> instances;  ///< by instance id
  std::map<std::string, Departure> departures;        ///< by instance id
  std::map<std::string, std::set<std::string>>
      used_devices;                         ///< by instance: ever given or refused
  std::map<std::string, Failure> failures;  ///< by failure_key
  std::map<std::string, int> generations;   ///< by generation_key
  std::map<std::string, Watch> watches;
  std::set<std::string> paused_pools;
  std::map<Offer, RefusedOffer> refused_offers;
  std::map<std::string, LaunchStreak> streaks;  ///< by pool
  std::vector<Order> orders;                    ///< oldest first
};

// ---- what to do ----

/// One EC2 call with the reason for it.
struct Action {
  aws::Mutation mutation;
  std::string pool;
  std::vector<std::string> nodes;  ///< those it is for; empty for strangers
  std::string reason;              ///< one sentence without its full stop
  std::string zone;                ///< of creates
};

/// EC2's name of the call, "AttachVolume".
std::string_view action_name(const aws::Mutation& mutation);
/// What the call is about, for lists: "vol-1 to i-1", "3 x g5.xlarge in us-east-1a".
std::string resource_of(const aws::Mutation& mutation);
/// Ids of existing things that the call names: the volume before the instance.
std::vector<std::string> resource_ids(const aws::Mutation& mutation);
/// The client token of a create; empty for other calls.
std::string token_of(const aws::Mutation& mutation);

// Things the ledger records without a call of EC2. Written before the actions of the same plan.
struct RecordLease {
  Lease lease;  ///< the new state of the lease of (volume, instance)
  std::string why;
};
struct RecordVolume {  ///< a volume seen: adopted when it had no record
  std::string volume_id;
  OwnedVolume volume;
};
struct RecordVolumeGone {
  std::string volume_id;
  std::string why;
};
struct RecordInstance {  ///< an instance whose token shows that we launched it, found without a
                         ///< record
  std::string instance_id;
  LaunchedInstance instance;
};
struct RecordInstanceGone {
  std::string instance_id;
};
struct RecordDeparture {
  std::string instance_id;
  Departure departure;
};
struct RecordDepartureOver {  ///< an instance that others launched serves again
  std::string instance_id;
};
struct RecordFate {
  std::string instance_id;
  std::string pool;
  InstanceFate fate = InstanceFate::proved;
  std::string why;
};
/// An order is over, one way or the other.
struct RecordOrderSettled {
  std::int64_t id = 0;
  bool met = false;
  std::string answer;  ///< one sentence for the operator
};
using Record =
    std::variant<RecordLease, RecordVolume, RecordVolumeGone, RecordInstance, RecordInstanceGone,
                 RecordDeparture, RecordFate, RecordOrderSettled, RecordDepartureOver>;

/// What a note is about: stable names, for those who count or filter notes (their texts drift).
enum class NoteKind {
  look_failed,           ///< a listing or an optional lookup failed
  source_problem,        ///< the pool's AMI, snapshot, zones or subnets do not fit
  frozen,                ///< too much vanished at once
  volume_claimed_twice,  ///< two volumes say that they are one node's
  volume_beyond,         ///< of a node that the spec does not count any more
  lineage_changed,       ///< the node keeps a volume of an older source
  stranger,              ///< our deployment's tag on what is not ours
  volume_gone,
  volume_not_shown,
  pool_unnamed,           ///< instances of a pool that the spec does not name
  deleted_with_instance,  ///< DeleteOnTermination of an attached volume is true
  attached_elsewhere,     ///< to no instance of the pool
  still_mounted,          ///< a detach waits for the guest
  quarantined,
  volume_error,
  nobody_launched,  ///< a pool without launch has no free instance
  names_used_up,    ///< every device name was used on an instance
  not_ours_to_end,  ///< an instance should end and others launched it
  refused_call,
  bootstrap_failed,
  undecided_call,
  no_capacity,     ///< no offer of a zone may be bought now
  launch_limit,    ///< max_instances or max_price_hour
  breaker_open,    ///< launches keep coming to nothing
  rollout,         ///< nodes move to volumes of the pool's new source, and what that means
  stock_outdated,  ///< spares or golden volumes of an older source
  stock_waits,     ///< stock cannot be filled up now, and why
  fleets_forbidden,
  zone_moved,      ///< a node left its volume behind, or may return to it
  extra_instance,  ///< others launched more than the pool has nodes
};
inline constexpr NoteKind kLastNoteKind = NoteKind::extra_instance;
std::string_view to_string(NoteKind kind);

/// What the operator should know. `blocking`: a wish cannot be met until something changes.
struct Note {
  NoteKind kind = NoteKind::look_failed;
  std::string pool;
  std::string node;  ///< empty: of the whole pool (or of everything, with an empty pool)
  std::string text;  ///< one sentence that names the remedy where there is one
  bool blocking = false;
  bool passes = false;  ///< a blocking one that needs nobody: what it names is tried again
};
/// A blocking note that only the operator can do something about.
bool needs_operator(const Note& note);

/// Where a node stands; the word and sentence shown come from describe().
enum class NodeCondition {
  asleep,
  no_volume,
  creating,
  no_instance,
  launching,
  waiting,
  attaching,
  checking,
  active,
  handover,
  leaving,
  blocked
};
/// Where a volume stands.
enum class VolumeCondition {
  creating,
  free,
  attaching,
  in_use,
  detaching,
  busy,
  error,
  quarantined,
  missing,
  ready,
  retired,
  parked,
  unclaimed
};

inline constexpr NodeCondition kLastNodeCondition = NodeCondition::blocked;
inline constexpr VolumeCondition kLastVolumeCondition = VolumeCondition::unclaimed;

/// How a condition is called and what it means: the only place where operators' words for states
/// are kept.
struct Words {
  std::string_view word;
  std::string_view meaning;
};
Words describe(NodeCondition condition);
Words describe(VolumeCondition condition);

/// A row of `warmroot node list` and of /status.
struct NodeRow {
  std::string pool;
  std::string node;
  bool wanted = false;  ///< an instance should run for it now
  std::string zone;
  std::string volume_id;            ///< empty: none yet
  std::optional<LeaseState> lease;  ///< of the instance named; absent: none
  std::string instance_id;          ///< empty: none
  std::string successor_id;         ///< the instance that waits for the volume during a handover
  NodeCondition condition = NodeCondition::asleep;
};

/// A row of `warmroot volume list`.
struct VolumeRow {
  std::string volume_id;
  std::string pool;
  std::string node;
  std::string zone;
  std::string instance_id;
  std::string device;
  int size_gib = 0;
  VolumeCondition condition = VolumeCondition::free;
  VolumeRole role = VolumeRole::node;
};

struct Plan {
  std::vector<Action> actions;
  std::vector<Record> records;
  std::set<std::string>
      watches;  ///< what holds at this look; the ledger counts looks and forgets the rest
  std::map<std::string, std::string> drains;  ///< instances asked to drain, with the reason
  /// Instances that no node needs now, launched by others, with what their people should know.
  std::map<std::string, std::string> without_node;
  std::vector<Note> notes;
  std::vector<NodeRow> nodes;      ///< as they stand once the actions are asked for
  std::vector<NodeRow> nodes_now;  ///< as they stand before any of the actions
  std::vector<VolumeRow> volumes;
  /// Calls that were cut for want of tokens, by action name.
  std::map<std::string, int, std::less<>> short_of;
  std::optional<Instant> wake;  ///< when something that is waited for changes by itself
  /// What each pool's instances cost an hour now; a pool that is no key: a price is not known.
  std::map<std::string, MicroUsd> cost_hour;
  Milliseconds next_look{0};
  /// Every node that should run has its lease attached, nothing is in a transitional state, nothing
  /// is to be done and no outcome is awaited.
  bool stable = false;
};

/// What one plan may spend. Defaults are those of a manager that is alone.
struct Limits {
  /// Calls of each action name that may be sent now; an action without an entry is not limited.
  std::map<std::string, int, std::less<>> calls;
  /// Only orders are carried out, with the healing they need; the spec's wishes wait.
  bool orders_only = false;
};

/// "imagenet-3".
std::string node_name(std::string_view pool, int index);

/// What a create of stock is for, where other calls name nodes: "p/spare/us-east-1a". Never a
/// node's name, which has no slash.
struct StockSubject {
  std::string pool;
  VolumeRole role = VolumeRole::spare;
  std::string zone;
};
std::string to_string(const StockSubject& subject);
std::optional<StockSubject> stock_subject_from(std::string_view text);

/// Keys of LedgerView::failures and LedgerView::generations: action name and node (or other
/// resource).
std::string failure_key(std::string_view action, std::string_view resource);
std::string generation_key(std::string_view action, std::string_view node);

}  // namespace warmroot::core
