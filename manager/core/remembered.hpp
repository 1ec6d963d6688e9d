// What we remember, as plain data: leases, recorded calls, what we made, who leaves, and what was
// ordered by hand. The ledger keeps it, the planner reads it as a LedgerView. No behaviour here but
// names for enums, which model.cpp has.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/base/units.hpp"
#include "manager/aws/ec2.hpp"
#include "manager/core/observed.hpp"
#include "manager/core/shared_map.hpp"

namespace warmroot::core {

/// Accepted creates may be invisible this long; whoever begins waits it out before it creates.
/// Source: seconds in field reports (about 3 s); EC2 documents no bound, so deterministic tokens
/// stand behind it.
inline constexpr Milliseconds kVisibilityWindow{5'000};

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
  Instant silent{};   ///< when one was last sent that nothing at all was heard of
  std::string error;  ///< of refused and unknown: the sentence shown to the operator
};

/// A launch that makes volumes, too.
inline bool launches_with_volumes(const Intent& intent) {
  return intent.call.action == "RunInstances" &&
         intent.call.body.find("BlockDeviceMapping.1.") != std::string::npos;
}

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
  /// Percent of its needed blocks that it holds, as a node said last.
  std::optional<int> warmth = std::nullopt;
};

/// What became of a launch: counted once, for the pool's breaker or for its offer.
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
  bool with_volume = false;  ///< its launch made a volume for it
};

/// An instance that has begun to give its volume back, by its own word or EC2's warning. It gets
/// none again, also after a restart in which reports and warnings are lost, unless it comes back
/// (departing.hpp).
struct Departure {
  bool released = false;  ///< it said that it has unmounted the volume
  Instant since{};        ///< when it was first heard
  /// When EC2 takes it away, by its warning.
  std::optional<Instant> reclaim_at{};
  bool advised = false;     ///< only EC2's rebalance hint said so
  std::string volume_id{};  ///< the volume that it spoke of last; empty: it has named none
  bool unclean = false;     ///< by its reason that release was no clean end (ends_unclean)
};

/// A volume that was not given back as it should be.
struct UncleanVolume {
  std::string instance_id;  ///< that had it
  Instant since{};
  /// What the instance said when it could not repair the file system; empty: its lease ended
  /// without a clean release, and nobody has looked since.
  std::string beyond_repair;
  bool tagged = false;  ///< EC2 has shown it quarantined since
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
  /// EC2 asked for patience; what was asked for may have been done all the same.
  bool throttled = false;
  std::string token{};  ///< of the call, if it had one
};

/// An offer that EC2 did not have lately; an instance of it that runs clears this.
struct RefusedOffer {
  Instant since{};  ///< the first refusal of those in a row
  Instant last{};
  int count = 0;
  std::string code;  ///< empty: EC2 has accepted a launch of it since, and nothing runs yet
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
  /// When a manager began with it last, or it was made; creates wait one visibility window from
  /// here. It may be an old copy that people have put back, or follow one that is lost.
  Instant begun{};
  std::vector<Lease> leases;                     ///< none of them ended
  std::vector<Intent> intents;                   ///< open and unknown ones
  SharedMap<OwnedVolume> volumes;                ///< by volume id
  SharedMap<LaunchedInstance> instances;         ///< by instance id
  std::map<std::string, Departure> departures;   ///< by instance id
  std::map<std::string, UncleanVolume> unclean;  ///< by volume id
  std::map<std::string, std::set<std::string>>
      used_devices;  ///< by instance: ever given or refused
  std::map<std::string, std::map<std::string, Instant>>
      refused_devices;                      ///< by instance: names, and when EC2 refused them
  std::map<std::string, Failure> failures;  ///< by failure_key
  std::map<std::string, int> generations;   ///< by generation_key
  std::map<std::string, Watch> watches;
  std::set<std::string> paused_pools;
  std::map<Offer, RefusedOffer> refused_offers;
  std::map<std::string, LaunchStreak> streaks;  ///< by pool
  std::vector<Order> orders;                    ///< oldest first
};

}  // namespace warmroot::core
