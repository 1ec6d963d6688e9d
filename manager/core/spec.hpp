// What the operator asks for, after the TOML has been read and checked (config.cpp) and before
// anything was looked up. Plain data; the planner's `Desired`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/base/release_wishes.hpp"
#include "bootstrap/base/units.hpp"

namespace warmroot::core {

struct VolumeSpec {
  std::string type = "gp3";
  int size_gib = 0;   ///< 0: the snapshot's size
  bool grow = false;  ///< the root's file system is made to fill a larger volume
  /// One whose last session ended without a release gets a snapshot before the next attach.
  bool snapshot_unclean = false;
  std::optional<int> iops;
  std::optional<int> throughput_mib_s;
  bool encrypted = false;
  std::string kms_key;
  std::map<std::string, std::string> tags;
};

/// How volumes that nobody waits for are kept ready.
struct StockSpec {
  int spares = 0;  ///< volumes a zone keeps beyond its nodes': for a broken one, a new node, a
                   ///< launch that had to change its zone
  /// A volume that nobody leases, warmed once, as the source of copies.
  bool golden = false;
  /// Spares and new nodes' volumes should be read in full after so long; the cheapest way that
  /// meets it is taken. Zero: there is no deadline and nothing is paid for.
  Milliseconds ready_within{0};
  std::string copy_usd_gib;  ///< what EC2 charges for a copied GiB; empty: not known
};

/// What happens when the pool's source snapshot changes.
struct RolloutSpec {
  enum class Policy {
    keep,     ///< nodes keep their volumes and the data on them
    replace,  ///< node by node a volume of the new source; the old one is kept, detached
  };
  Policy policy = Policy::keep;
  int max_unavailable = 1;  ///< nodes at a time that a rollout may interrupt
};

/// What the bootstrap does beside the sessions; it goes to the node with the user-data.
struct WarmSpec {
  bool enabled = true;  ///< read cold blocks ahead of use
  bool record = true;   ///< keep what the first sessions of a lease read, for the next cold volume
  int max_depth = 0;    ///< of the warmer's reads in flight; 0: 80
};

/// How sessions get into the volumes' system.
struct SessionSpec {
  std::string entry =
      "chroot";           ///< or "sshd": whose sshd lets people in, the base's or the volume's
  bool host_keys = true;  ///< a node's SSH host keys are kept on its volume
  int rescue_port = 0;    ///< where the base's sshd lets people onto the base; 0: nowhere
  std::string user;       ///< as whom `warmroot ssh` logs in; empty: ssh decides
  ReleaseWishes release_wishes{};  ///< for people and hooks when the volume is given back
};

struct LaunchSpec {
  std::string base_ami;
  std::vector<std::string> instance_types;
  std::map<std::string, std::string> subnets;  ///< zone name to subnet id
  std::vector<std::string> security_groups;
  std::string key_name;
  std::string instance_profile;
  std::string max_price;  ///< of spot, USD an hour as decimal text; empty: capped at on-demand
  /// USD an hour by type. EC2's API does not tell them: without, on-demand launches keep the order
  /// of spot prices, and max_price_hour allows none.
  std::map<std::string, std::string> on_demand_prices;
  std::map<std::string, std::string> tags;
  std::string user_data;       ///< the operator's own script, run after ours; text, not a path
  bool zone_fallback = false;  ///< a node may move to another zone, on a volume that is cold there
  bool on_demand_fallback = false;        ///< pay on-demand when spot has had no capacity
  Milliseconds on_demand_after{300'000};  ///< for so long, with on_demand_fallback
  bool replace_on_rebalance = false;      ///< act on EC2's rebalance hint
  /// A hint to an instance that is younger waits until it is so old: EC2 may give one from the
  /// first minute on, and a node whose type and zone are at risk would be moved again and again.
  /// Source of the default: an assumption; EC2 says nowhere how great the risk is.
  Milliseconds rebalance_after{1'800'000};
  std::optional<int> max_instances;  ///< running and coming, handovers included
  std::string max_price_hour;        ///< USD an hour for the whole pool; empty: no limit
  /// A node without a volume may get it from the launch call. Off by default: such a disk is there
  /// at launch, so the bootstrap takes it only once the manager has confirmed it.
  bool volume_with_launch = false;
};

struct PoolSpec {
  std::string name;
  std::string ami;  ///< exactly one of ami and snapshot is set
  std::string snapshot;
  std::vector<std::string> zones;
  int nodes = 0;    ///< volumes kept, one per node
  int running = 0;  ///< instances wanted now; the first `running` nodes run
  VolumeSpec volumes;
  StockSpec stock;
  RolloutSpec rollout;
  WarmSpec warm;
  SessionSpec session;
  /// The Auto Scaling group that launches, and decides how many run; only without `launch`.
  std::string auto_scaling_group;
  std::optional<LaunchSpec>
      launch;  ///< absent: serve instances tagged warmroot:pool=<name> that others launch
};

struct Desired {
  std::string deployment;  ///< separates two managers' worlds in one account
  std::vector<PoolSpec> pools;
};

}  // namespace warmroot::core
