// What the simulated region keeps: volumes, instances, snapshots, images, subnets, zones and the
// knobs of its times and capacity. Plain data; region.hpp has the rules. Field meanings are EC2's
// (API version 2016-11-15).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/text_map.hpp"
#include "bootstrap/base/units.hpp"

namespace warmroot::sim {

using Tags = TextMap;

/// A refusal as EC2 words it.
struct ApiError {
  int status = 400;
  std::string code;
  std::string message;
};

template <typename T>
using Answer = tl::expected<T, ApiError>;

inline tl::unexpected<ApiError> refuse(std::string code, std::string message, int status = 400) {
  return tl::unexpected<ApiError>(ApiError{status, std::move(code), std::move(message)});
}

/// How long things stay in their waiting states. The defaults are EC2's usual ones.
struct RegionTimes {
  Milliseconds creating{1500};            ///< CreateVolume to available (CSI driver: median 1.5 s)
  Milliseconds pending{5000};             ///< RunInstances to running (daemonology: 4.9 s)
  Milliseconds attaching{2000};           ///< AttachVolume to attached (CSI driver: 1 to 4 s)
  Milliseconds detaching{2000};           ///< DetachVolume to gone, once unmounted (CSI: 1 to 4 s)
  Milliseconds shutting_down{15000};      ///< least time from terminate to terminated
  Milliseconds shutting_down_max{60000};  ///< a guest that does not end itself is cut off
  Milliseconds deleting{1000};            ///< DeleteVolume to gone
  Milliseconds terminated_visible{
      3600'000};                           ///< terminated instances stay listed (user guide: 1 h)
  Milliseconds notice{120'000};            ///< spot notice to reclaim (user guide: 2 minutes)
  Milliseconds visibility{0};              ///< new volumes and instances are not found for so long
  Milliseconds token_life{12 * 3600'000};  ///< CSI driver: tokens are forgotten after about 12 h
  Milliseconds snapshotting{60'000};       ///< CreateSnapshot to completed (assumption)
  /// A copy's initialisation, by GiB of its source: 6 h for the first TiB, EC2's "best effort"
  /// (EBS user guide). What small volumes take is unknown; the same rate is assumed.
  Milliseconds copying_per_gib{21'100};
  /// What a volume without a paid rate takes to be read from its snapshot, by GiB: "fluctuating" in
  /// the user guide; 30 MiB/s is assumed.
  Milliseconds lazy_per_gib{34'000};
  Milliseconds status_stale{300'000};  ///< DescribeVolumeStatus' progress is so old (user guide)
  Milliseconds fsr_enabling{60'000};   ///< enabling to optimizing (assumption)
  Milliseconds fsr_per_tib{3600'000};  ///< optimizing to enabled (EBS user guide: 60 min a TiB)
  Milliseconds snapshot_gap{15'000};   ///< between two snapshots of a volume (errors overview)
  Milliseconds busy_poll{250};         ///< how often a guest is asked whether it still holds a disk
  Milliseconds machine_poll{500};      ///< how often a running machine is asked whether it lives
  double jitter = 0;  ///< each waiting time is drawn from [1 - jitter, 1 + jitter] of its value
};

/// Who says no to an action. An explicit deny reads differently, and no further Allow helps.
enum class Denial { implicit, policy, organisation };

/// A key as KMS describes it.
struct KmsKeyRecord {
  std::string state = "Enabled";
  std::string usage = "ENCRYPT_DECRYPT";
  std::string spec = "SYMMETRIC_DEFAULT";
};

/// Behaviour that real regions show now and then, off by default.
struct RegionKnobs {
  int page_cap = 1000;                ///< most items a page ever holds
  bool empty_first_page = false;      ///< every paged listing starts with an empty page and a token
  bool empty_page_now = false;        ///< the listing under way gives an empty page and a token
  int stuck_attaches = 0;             ///< so many of the next attaches stay "attaching" for ever
  bool reused_device_sticks = false;  ///< an attach under a name used before on the instance sticks
  int attachment_limit = 27;          ///< non-root volumes an instance takes (shared Nitro limit)
  int volume_limit = 5000;  ///< volumes in the region, checked before tokens are looked up
  std::map<std::pair<std::string, std::string>, int>
      capacity;  ///< (instance type, zone) to instances; "*" is any; absent is unlimited
  std::map<std::pair<std::string, std::string>, int>
      spot_prices;  ///< (instance type, zone) to hundred-thousandths of a dollar; absent: the usual
  std::set<std::pair<std::string, std::string>>
      not_offered;  ///< (instance type, zone): beside the catalogue's own holes
  /// vCPUs by quota class ("standard", "g", "p", "p5" of spot); an absent class is unlimited.
  std::map<std::string, int> spot_vcpu_quota;
  std::map<std::string, int> on_demand_vcpu_quota;
  /// Quotas of the Region.
  int init_rate_quota = 5000;  ///< MiB/s of paid initialisation under way (EBS user guide)
  int copies_per_region = 5;   ///< copies under way (EBS user guide)
  int fsr_quota = 50;          ///< snapshots with fast restore (EBS user guide)
  /// The code that says the paid rate's quota is used up. Not documented; a name of EC2's kind.
  std::string init_rate_quota_code = "VolumeInitializationRateLimitExceeded";
  /// Whether only encrypted volumes can be copied, as when CopyVolumes came out; today's page takes
  /// any.
  bool copies_need_encryption = false;
  /// Whether placement scores are low for fewer than three types (API reference).
  bool few_types_score_low = true;
  /// Most instances that scores are given for, by the account's use of spot, and most new questions
  /// for scores in 24 hours (EC2 user guide, "Spot placement score", limitations, which gives
  /// neither number); 0: no limit.
  int placement_target_limit = 0;
  int placement_configurations = 0;
  int fleet_throttles = 0;  ///< so many pools of the next fleets fail with RequestLimitExceeded
                            ///< inside HTTP 200 (karpenter-provider-aws#7012)
  /// Whether a fleet's answer names an override's zone where the request gave a subnet alone. We
  /// assume that it repeats the override and nothing else.
  bool fleet_names_zones = false;
  /// Rights that the caller lacks ("ec2:RunInstances", "iam:PassRole"), also in a dry run.
  std::map<std::string, Denial> denied;
  /// Whether a listing by ids alone draws from the bucket of filtered ones. EC2 does not say; we
  /// assume that it does not, and the smaller bucket (50, refill 10) is drawn from.
  bool ids_count_as_filtered = false;
  /// What DeleteOnTermination is for data volumes of a launch that does not say. The API reference
  /// of TerminateInstances says true, the user guide false: we assume what hurts.
  bool launch_disks_die_with_instance = true;
  /// Whether spot instances take termination protection. The user guide says that it cannot be
  /// enabled, not what the API does; we assume that it takes it, which is what an operator's
  /// mistake would look like.
  bool spot_termination_protection = true;
  // Faults of launches. Counts are of the next ones, and fall as they happen.
  int pending_for_ever = 0;  ///< launches that never leave "pending"
  int failing_launches = 0;  ///< launches that go from pending to terminated
  std::string launch_failure = "Server.InternalError";  ///< their stateReason (BC, user guide)
  int reclaimed_while_detaching = 0;  ///< detaches whose spot instance is reclaimed half-way
  // Faults of volumes.
  int failing_creates = 0;  ///< creates that end in "error"
  int vanishing_creates =
      0;  ///< creates that leave nothing behind (kubernetes#62171: unusable key)
  /// KMS keys that may no longer be used; "*" is every key. A create under one vanishes, an attach
  /// is refused with CustomerKeyHasBeenRevoked.
  std::set<std::string> revoked_keys;
  /// What KMS knows of keys, by the name they are asked about with. Volumes take any key.
  std::map<std::string, KmsKeyRecord> kms_keys;
  /// Names ("sdf") that the AMI took although no mapping lists them (CSI driver's allocator).
  std::set<std::string> ami_devices;
};

struct Zone {
  std::string name;  ///< us-east-1a
  std::string id;    ///< use1-az1
  std::string state = "available";
};

struct SubnetRecord {
  std::string id;
  std::string vpc_id;
  std::string zone;
  std::string cidr;  ///< "10.0.16.0/20"
};

struct KeyPair {
  std::string name;
  std::string public_key;  ///< one line of authorized_keys
};

struct SnapshotRecord {
  std::string id;
  int size_gib = 8;
  std::optional<int> data_gib;  ///< what it really holds; absent: all of it
  std::string image_file;       ///< what its bytes are, for the volume server; may be empty
  std::string description;
  std::string owner_id = "111122223333";
  std::string volume_id = "vol-ffffffff";  ///< what EC2 shows for copies and imports
  Instant start_time;
  std::optional<Instant> completes_at;  ///< pending until then; absent: completed long ago
  bool failed = false;                  ///< ends in "error"
  bool encrypted = false;
  bool readable = true;  ///< false: behind a public AMI; CreateVolume and DescribeSnapshots deny it
  Tags tags;
};

/// A further device of an image: a volume, or with `virtual_name` an instance store disk, which
/// takes its name on the instance and shows in no mapping.
struct ImageDevice {
  std::string device;
  std::string snapshot_id;
  int size_gib = 0;
  std::optional<bool> delete_on_termination;
  std::string virtual_name;  ///< ephemeral0
};

struct ImageRecord {
  std::string id;
  std::string name;
  std::string architecture = "x86_64";
  std::string root_device = "/dev/xvda";
  std::string snapshot_id;
  std::string owner_id = "111122223333";
  Tags tags;
  std::vector<ImageDevice> extra;
  std::vector<std::string> product_codes;  ///< Marketplace
};

/// What the region is born with.
struct Catalog {
  std::string region = "us-east-1";
  std::string account_id = "111122223333";
  std::vector<Zone> zones;
  std::vector<SnapshotRecord> snapshots;
  std::vector<ImageRecord> images;
  std::vector<SubnetRecord> subnets;
  std::vector<KeyPair> key_pairs;
  std::vector<std::string> security_groups;
  std::vector<std::string> instance_profiles;
};

enum class DiskState { creating, available, in_use, deleting, error };
enum class LinkState { attaching, attached, detaching, busy };
enum class GuestState { pending, running, shutting_down, terminated, stopping, stopped };

std::string_view to_string(DiskState state);   ///< EC2's volume status
std::string_view to_string(LinkState state);   ///< EC2's attachment status
std::string_view to_string(GuestState state);  ///< EC2's instance-state-name
int state_code(GuestState state);              ///< EC2's instance-state-code

struct Link {
  std::string instance_id;
  std::string device;
  LinkState state = LinkState::attaching;
  Instant attach_time;
  bool delete_on_termination = false;
  bool plugged = false;     ///< the hardware has it
  unsigned generation = 0;  ///< tells this attachment from earlier ones of the same volume
};

/// Fast snapshot restore of one snapshot in one zone.
struct FastRestore {
  Instant enabled_at;                  ///< when it was asked for
  std::optional<Instant> disabled_at;  ///< when its end was asked for
  double credits = 0;                  ///< of volumes, at `counted`
  Instant counted;
};

struct VolumeRecord {
  std::string id;
  std::string snapshot_id;
  std::string zone;
  std::string type = "gp2";
  int size_gib = 0;
  std::optional<int> iops;
  std::optional<int> throughput;
  bool encrypted = false;
  std::string kms_key;
  bool multi_attach = false;
  DiskState state = DiskState::creating;
  Instant create_time;
  std::optional<Link> link;
  Tags tags;
  bool root = false;       ///< an instance's own root: no hardware volume stands behind it
  bool of_launch = false;  ///< made by a launch's mapping; its disk is made when the machine starts
  bool made = false;       ///< such a volume's disk exists
  std::string source_volume_id;  ///< a copy's; its snapshot id is empty
  std::string init_type;         ///< default | provisioned-rate | volume-copy; empty: born empty
  std::optional<int> init_rate;  ///< MiB/s, paid for
  Instant init_end;              ///< all blocks are there
  bool fast_restored = false;
  std::uint64_t number = 0;  ///< order of creation
  bool doomed = false;       ///< creating will end in "error" (or in nothing: `vanishes`)
  bool vanishes = false;
  bool impaired = false;  ///< its status check fails: I/O is off
};

struct InstanceRecord {
  std::string id;
  std::string reservation_id;
  std::string spot_request_id;  ///< empty: on demand
  std::string image_id;
  std::string type;
  std::string architecture;
  std::string zone;
  std::string subnet_id;
  std::string vpc_id;
  std::string private_ip;
  std::string mac;
  std::string key_name;
  std::string instance_profile;
  std::vector<std::string> security_groups;
  std::string user_data;  ///< raw bytes
  std::string client_token;
  std::string max_price;
  std::string root_device;
  std::string root_volume_id;
  bool metadata_tags = false;
  bool monitored = false;              ///< detailed monitoring
  bool terminate_on_shutdown = false;  ///< InstanceInitiatedShutdownBehavior
  bool ebs_optimized = false;
  int launch_index = 0;
  GuestState state = GuestState::pending;
  std::string reason_code;
  std::string reason_message;
  Instant launch_time;
  Instant start_time;                    ///< of the last start; what EC2 shows as launchTime
  std::optional<Instant> shutdown_time;  ///< when shutting-down began
  std::optional<Instant> terminated_time;
  std::optional<Instant> interrupted_at;              ///< when the spot notice was given
  std::optional<Instant> reclaim_at;                  ///< the time that the notice names
  std::optional<Instant> rebalance_at;                ///< when its replacement was recommended
  Instant shutdown_until;                             ///< earliest end of shutting-down
  std::map<std::string, std::string> launch_mapping;  ///< IMDS block-device-mapping, frozen
  std::set<std::string> used_devices;
  std::set<std::string> image_devices;  ///< taken by instance store disks, shown in no mapping
  std::set<std::string> disks;          ///< volumes attached now, the root included
  bool api_termination_disabled = false;
  bool api_stop_disabled = false;
  bool occupies = false;  ///< counts against capacity and quota
  std::uint16_t imds_port = 0;
  bool powered = false;        ///< power_on was called and power_off was not
  bool impaired = false;       ///< status checks fail
  bool unreachable = false;    ///< that of the instance fails alone: its system does not answer
  bool never_runs = false;     ///< a launch that stays pending
  std::string launch_failure;  ///< a launch that will fail: its stateReason's code
  Tags tags;
  std::uint64_t number = 0;

  bool spot() const { return !spot_request_id.empty(); }
};

/// What EC2, or an Auto Scaling group, tells EventBridge about an instance.
struct InstanceEvent {
  enum class Kind { interruption, rebalance, state_change, group_ends };
  Kind kind = Kind::state_change;
  std::string instance_id;
  std::string zone;
  GuestState state = GuestState::pending;
  Instant time;
  std::string group;  ///< of group_ends
};

}  // namespace warmroot::sim
