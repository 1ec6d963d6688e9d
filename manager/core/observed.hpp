// What EC2 showed and announced, as plain data: one look at everything that the rules go by, and
// the tags that say what is whose. The observer fills it, the planner reads it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bootstrap/base/units.hpp"
#include "manager/aws/ec2.hpp"
#include "manager/core/node_report.hpp"
#include "manager/core/shared_map.hpp"

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
  rebalance,  ///< an interruption may come; acted upon only where the spec asks for it
  /// A spot instance is reclaimed two minutes after the warning, or its Auto Scaling group ends it
  /// when its hook's time is over.
  interruption,
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
  bool complete = false;  ///< every listing that the rules rely on was read to its end
  Instant at{};           ///< when the look began
  Instant listed{};  ///< when the latest listing of everything, volumes and instances, was complete
  Instant listed_from{};           ///< when that listing began
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
  std::optional<Instant> hears_since;         ///< reports are heard; absent: nobody listens
  /// How far new volumes are read from their snapshots, of those that somebody waits for; and the
  /// snapshots that need no reading. Looked up only for pools with a deadline.
  std::map<std::string, aws::VolumeStatus> volume_statuses;
  std::vector<aws::FastSnapshotRestore> fast_restores;
  std::map<std::string, Warning> warnings;  ///< heard from EC2's events
  bool events_live = false;  ///< changes are told at once, so that looks may be rarer
};

}  // namespace warmroot::core
