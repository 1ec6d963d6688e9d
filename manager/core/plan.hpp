// What to do, as plain data: calls with their reasons, records for the ledger, notes for the
// operator, and the rows that the lists show. The planner makes it, the reconciler carries it out.
// What it says of calls and how enums are called is in model.cpp.
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
#include "manager/core/observed.hpp"
#include "manager/core/remembered.hpp"

namespace warmroot::core {

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
struct RecordWarmth {
  std::string volume_id;
  int percent = 0;
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
struct RecordDeparture {  ///< without a volume it leaves what is known of one
  std::string instance_id;
  Departure departure;
};
struct RecordDepartureOver {  ///< an instance that was to serve no more serves again
  std::string instance_id;
};
struct RecordFate {
  std::string instance_id;
  std::string pool;
  InstanceFate fate = InstanceFate::proved;
  std::string why;
  /// What EC2 turned out not to have, after it had accepted the launch: no fault of the pool's.
  std::optional<Offer> unavailable{};
  std::string code{};  ///< of that offer's refusal; empty: a later one counts already
};
struct RecordOfferMet {  ///< an instance of it runs: EC2 has it
  Offer offer;
};
struct RecordUnclean {  ///< replaces what was known of the volume
  std::string volume_id;
  UncleanVolume unclean;
};
struct RecordUncleanOver {
  std::string volume_id;
  std::string why;  ///< for the history, after the volume's name; empty: nothing to say
};
/// An order is over, one way or the other.
struct RecordOrderSettled {
  std::int64_t id = 0;
  bool met = false;
  std::string answer;  ///< one sentence for the operator
};
/// Any of these.
using Record =
    std::variant<RecordLease, RecordVolume, RecordVolumeGone, RecordInstance, RecordInstanceGone,
                 RecordDeparture, RecordFate, RecordOrderSettled, RecordDepartureOver,
                 RecordUnclean, RecordUncleanOver, RecordWarmth, RecordOfferMet>;

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
  attached_elsewhere,     ///< to an instance that does not serve it
  still_mounted,          ///< a detach waits for the guest
  quarantined,
  volume_error,
  nobody_launched,  ///< a pool without launch has no free instance
  names_used_up,    ///< every device name was used on an instance
  not_ours_to_end,  ///< an instance should end and others launched it
  refused_call,
  bootstrap_failed,
  undecided_call,
  no_capacity,         ///< no offer of a zone may be bought now
  launch_limit,        ///< max_instances or max_price_hour
  breaker_open,        ///< launches keep coming to nothing
  rollout,             ///< nodes move to volumes of the pool's new source, and what that means
  stock_outdated,      ///< spares or golden volumes of an older source
  encryption_differs,  ///< volumes from before the spec asked for their encryption
  stock_waits,         ///< stock cannot be filled up now, and why
  fleets_forbidden,
  zone_moved,      ///< a node left its volume behind, or may return to it
  extra_instance,  ///< others launched more than the pool has nodes
  no_snapshot,     ///< of a volume that ended uncleanly
};
inline constexpr NoteKind kLastNoteKind = NoteKind::no_snapshot;
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
  std::optional<int> warmth = std::nullopt;  ///< percent; warmth_of()
};

struct Plan {
  std::vector<Action> actions;
  std::vector<Record> records;
  std::set<std::string>
      watches;  ///< what holds at this look; the ledger counts looks and forgets the rest
  std::map<std::string, std::string> drains;  ///< instances asked to drain, with the reason
  /// Instances that get no volume now, with what their people should know: others launched them
  /// and no node needs them, or they have begun to give theirs back.
  std::map<std::string, std::string> without_node;
  std::vector<std::int64_t> orders;  ///< ids of those that it reckons with
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
  /// The manager has just begun: nothing is made before several looks agree on what there is.
  bool looking_around = false;
};

/// What one plan may spend. Defaults are those of a manager that is alone.
struct Limits {
  /// Calls of each action name that may be sent now; an action without an entry is not limited.
  std::map<std::string, int, std::less<>> calls;
  /// Only orders are carried out, with the healing they need; the spec's wishes wait.
  bool orders_only = false;
};

}  // namespace warmroot::core
