// The seam between warmroot and EC2: plain structs for the calls we use and no others, and the
// interface that Ec2Client implements (over HTTP, or over the simulated region in one process).
// Field names and meanings are those of the EC2 API, version 2016-11-15; absent members of an
// answer are absent here.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/text_map.hpp"
#include "bootstrap/base/units.hpp"

namespace warmroot::aws {

using Tags = TextMap;

/// One Filter of a Describe call: names are AND-ed, values OR-ed, `*` and `?` are wildcards.
struct Filter {
  std::string name;
  std::vector<std::string> values;
};

enum class VolumeState { creating, available, in_use, deleting, deleted, error, unknown };
enum class AttachmentState { attaching, attached, detaching, detached, busy, unknown };
enum class InstanceState {
  pending,
  running,
  shutting_down,
  terminated,
  stopping,
  stopped,
  unknown
};

std::string_view to_string(VolumeState state);      ///< EC2's spelling, e.g. "in-use"
std::string_view to_string(AttachmentState state);  ///< EC2's spelling
std::string_view to_string(InstanceState state);    ///< EC2's spelling, e.g. "shutting-down"

struct Attachment {
  std::string volume_id;
  std::string instance_id;
  std::string device;
  AttachmentState state = AttachmentState::unknown;
  std::optional<Instant> attach_time;
  bool delete_on_termination = false;

  bool operator==(const Attachment&) const = default;
};

struct Volume {
  std::string volume_id;
  std::string snapshot_id;
  std::string availability_zone;
  std::string volume_type;
  int size_gib = 0;
  std::optional<int> iops;
  std::optional<int> throughput_mib_s;
  bool encrypted = false;
  std::string kms_key_id;                  ///< the key's ARN; empty of one that is not encrypted
  std::string source_volume_id;            ///< of a copy, whose snapshot_id is empty
  std::optional<int> initialization_rate;  ///< MiB/s, paid for
  VolumeState state = VolumeState::unknown;
  std::optional<Instant> create_time;
  std::vector<Attachment> attachments;
  Tags tags;

  bool operator==(const Volume&) const = default;
};

struct BlockDevice {
  std::string device_name;
  std::string volume_id;
  AttachmentState state = AttachmentState::unknown;
  bool delete_on_termination = false;

  bool operator==(const BlockDevice&) const = default;
};

struct Instance {
  std::string instance_id;
  std::string image_id;
  std::string instance_type;
  InstanceState state = InstanceState::unknown;
  std::string state_reason_code;  ///< e.g. Server.SpotInstanceTermination; empty while running
  std::string availability_zone;
  std::string subnet_id;
  std::string private_ip;
  std::string public_ip;
  std::string root_device_name;
  std::string client_token;
  bool spot = false;
  std::optional<Instant> launch_time;
  std::vector<BlockDevice> block_devices;
  Tags tags;

  bool operator==(const Instance&) const = default;
};

struct InstanceStatus {
  std::string instance_id;
  InstanceState state = InstanceState::unknown;
  std::string system_status;  ///< ok | impaired | insufficient-data | not-applicable | initializing
  std::string instance_status;  ///< the same words
};

struct Snapshot {
  std::string snapshot_id;
  std::string state;  ///< pending | completed | error | recoverable | recovering
  std::string owner_id;
  int volume_size_gib = 0;
  bool encrypted = false;
  Tags tags;
  std::int64_t full_bytes = 0;  ///< what it holds, which is what is read and paid for; 0: not told
};

struct ImageMapping {
  std::string device_name;
  std::string snapshot_id;
  int volume_size_gib = 0;
  bool delete_on_termination = false;  ///< what a launch that says nothing else does
};

struct Image {
  std::string image_id;
  std::string state;  ///< available, pending, ...
  std::string name;
  std::string architecture;  ///< x86_64 | arm64 | i386
  std::string root_device_name;
  std::string owner_id;
  std::vector<std::string> product_codes;  ///< Marketplace; such an AMI may not be copied
  std::vector<ImageMapping> mappings;
};

struct AvailabilityZone {
  std::string zone_name;
  std::string zone_id;
  std::string state;  ///< available | information | impaired | unavailable | constrained
};

struct Subnet {
  std::string subnet_id;
  std::string vpc_id;
  std::string availability_zone;
  int available_addresses = 0;
};

struct SpotPrice {
  std::string instance_type;
  std::string availability_zone;
  std::string price_usd_hour;  ///< decimal text as EC2 gives it
  std::optional<Instant> timestamp;
};

/// A type that a zone offers at all; says nothing about free capacity.
struct InstanceTypeOffering {
  std::string instance_type;
  std::string availability_zone;
};

struct InstanceType {
  std::string instance_type;
  std::vector<std::string> architectures;
  std::string hypervisor;  ///< nitro | xen; empty for metal
  int vcpus = 0;
  bool burstable = false;
  std::optional<int> max_attachments;  ///< volumes, the root among them; with some types also
                                       ///< network interfaces and local disks
};

/// 1 to 10: how likely a spot request for the capacity asked succeeds in the zone.
struct SpotPlacementScore {
  std::string zone_id;  ///< "use1-az1", not the zone's name
  int score = 0;
};

/// How far EC2 has read a new volume's blocks from its snapshot. Source: DescribeVolumeStatus, up
/// to five minutes old.
struct VolumeStatus {
  std::string volume_id;
  std::string status;                ///< ok | impaired | insufficient-data | warning
  std::string initialization_state;  ///< completed | initializing; empty: not said
  std::string initialization_type;   ///< default | provisioned-rate | volume-copy
  std::optional<int> initialization_percent;
};

struct FastSnapshotRestore {
  std::string snapshot_id;
  std::string availability_zone;
  std::string state;  ///< enabling | optimizing | enabled | disabling | disabled
};

struct LaunchTemplate {
  std::string launch_template_id;
  std::string name;
  Tags tags;
};

// ---- requests ----

/// A Describe request: by ids, or by filters and pages. EC2 refuses max_results together with ids.
struct DescribeRequest {
  std::vector<std::string> ids;
  std::vector<Filter> filters;
  int max_results = 0;  ///< 0: not sent
  std::string next_token;
  bool include_all_instances = false;  ///< DescribeInstanceStatus only
  /// DescribeSnapshots and DescribeImages only, e.g. "self". Without owners and ids they list
  /// public ones too.
  std::vector<std::string> owners;
};

/// Scores of single zones of one Region. With fewer than three types EC2 scores low.
struct GetSpotPlacementScores {
  std::vector<std::string> instance_types;
  int target_capacity = 1;  ///< instances
  std::string region;
};

struct DescribeSpotPrices {
  std::vector<std::string> instance_types;
  std::string availability_zone;
  Instant start_time;
  int max_results = 0;
  std::string next_token;
};

/// A volume that the launch itself makes and attaches. Of a device of the image, what is not said
/// stays as the image has it.
struct NewBlockDevice {
  std::string device_name;
  std::string snapshot_id;
  int size_gib = 0;                 ///< 0: the snapshot's size
  std::string volume_type = "gp3";  ///< empty: the image's
  std::optional<int> iops;
  std::optional<int> throughput_mib_s;
  std::optional<int> initialization_rate;  ///< MiB/s, 100 to 300; paid for
  bool encrypted = false;
  std::string kms_key;
  bool delete_on_termination = false;
};

struct RunInstances {
  std::string image_id;
  std::string instance_type;
  int min_count = 1;
  int max_count = 1;
  std::vector<NewBlockDevice> block_devices;
  std::string subnet_id;
  std::string availability_zone;  ///< sent only without a subnet
  std::vector<std::string> security_group_ids;
  std::string key_name;
  std::string instance_profile;  ///< name or ARN
  std::string user_data;         ///< raw bytes; the codec encodes base64
  std::string client_token;
  bool spot = true;
  bool stop_on_shutdown = false;  ///< a guest that powers off is kept, stopped; else it is ended
  std::string max_price;          ///< empty: capped at on-demand
  Tags instance_tags;
  Tags volume_tags;
};

struct CreateVolume {
  std::string availability_zone;
  std::string snapshot_id;
  int size_gib = 0;  ///< 0: the snapshot's size
  std::string volume_type = "gp3";
  std::optional<int> iops;
  std::optional<int> throughput_mib_s;
  std::optional<int> initialization_rate;  ///< MiB/s, 100 to 300; paid for
  bool encrypted = false;
  std::string kms_key;
  std::string client_token;
  Tags tags;
};

/// A copy of a volume in its own zone, readable at once without S3. One copy of a source at a time,
/// five in a Region.
struct CopyVolumes {
  std::string source_volume_id;
  int size_gib = 0;  ///< 0: the source's size
  std::string volume_type = "gp3";
  std::optional<int> iops;
  std::optional<int> throughput_mib_s;
  std::string client_token;
  Tags tags;
};

/// One (type, zone) that a fleet may use.
struct FleetOverride {
  std::string instance_type;
  std::string subnet_id;
  std::string availability_zone;  ///< sent beside the subnet too, so that errors name the zone
  std::string max_price;          ///< USD an hour; empty: capped at on-demand
};

/// CreateFleet of type instant: EC2 chooses among the overrides, answers at once, and keeps nothing
/// running.
struct CreateFleet {
  std::string launch_template_id;
  std::string launch_template_version;  ///< a number: never "$Latest", so that a replay is the same
  std::vector<FleetOverride> overrides;
  int target_capacity = 1;
  bool spot = true;
  std::string client_token;
  Tags fleet_tags;
  Tags instance_tags;
  Tags volume_tags;
};

/// A launch template with one version, kept by us. `launch` gives everything but count, zone, type,
/// price, token and tags.
struct CreateLaunchTemplate {
  std::string name;
  RunInstances launch;
  std::string client_token;
  Tags tags;
};

struct DeleteLaunchTemplate {
  std::string launch_template_id;
};

/// Exactly one of the optional members is set.
struct ModifyInstanceAttribute {
  std::string instance_id;
  std::string device_name;  ///< with delete_on_termination
  std::optional<bool> delete_on_termination;
  std::optional<bool> disable_api_termination;
};

struct CreateSnapshot {
  std::string volume_id;
  std::string description;
  Tags tags;
};

struct StopInstances {
  std::vector<std::string> instance_ids;
};

struct AttachVolume {
  std::string volume_id;
  std::string instance_id;
  std::string device;
};

/// Always with the instance, and with the device that was seen: a late call without them can hit a
/// new attachment, which never has the name of the one before.
struct DetachVolume {
  std::string volume_id;
  std::string instance_id;
  std::string device;  ///< empty: whichever it is
};

struct DeleteVolume {
  std::string volume_id;
};

struct TerminateInstances {
  std::vector<std::string> instance_ids;
};

struct CreateTags {
  std::vector<std::string> resource_ids;
  Tags tags;
};

struct DeleteTags {
  std::vector<std::string> resource_ids;
  std::vector<std::string> keys;
};

/// A request that changes something; one variant member is one EC2 call.
using Mutation = std::variant<RunInstances, CreateVolume, AttachVolume, DetachVolume, DeleteVolume,
                              TerminateInstances, CreateTags, DeleteTags, CreateFleet,
                              CreateLaunchTemplate, DeleteLaunchTemplate, ModifyInstanceAttribute,
                              CopyVolumes, CreateSnapshot, StopInstances>;

struct FleetError {
  std::string code;
  std::string message;
  std::string instance_type;  ///< of the override that it belongs to
  std::string availability_zone;
  std::string subnet_id;
};
/// What a fleet launched and what it could not; both at once is usual, and only errors still comes
/// as HTTP 200.
struct FleetAnswer {
  std::string fleet_id;
  std::vector<Instance> instances;  ///< id, type, zone and lifecycle only
  std::vector<FleetError> errors;
};

/// What a mutation answered with; monostate for calls that return only `true`.
using MutationAnswer = std::variant<std::monostate, std::vector<Instance>, Volume, Attachment,
                                    FleetAnswer, LaunchTemplate, Snapshot>;

/// A mutation as it goes over the wire, kept in the ledger so that a replay sends the same bytes
/// again.
struct EncodedCall {
  std::string action;  ///< "AttachVolume"
  std::string body;    ///< the form body, `Action=AttachVolume&Version=2016-11-15&...`
};

template <typename T>
struct Page {
  std::vector<T> items;
  std::string next_token;  ///< empty: last page. A page may be empty and still carry a token.
};

/// EC2 as we use it. One thread. Errors: kind by the table of ec2_codec, code and request id as EC2
/// gave them; unknown_outcome when a mutation may have been executed although no answer was
/// understood.
class Ec2 {
 public:
  virtual ~Ec2() = default;
  virtual Result<Page<Volume>> describe_volumes(const DescribeRequest& request) = 0;
  virtual Result<Page<Instance>> describe_instances(const DescribeRequest& request) = 0;
  virtual Result<Page<InstanceStatus>> describe_instance_status(const DescribeRequest& request) = 0;
  virtual Result<Page<Snapshot>> describe_snapshots(const DescribeRequest& request) = 0;
  virtual Result<Page<Image>> describe_images(const DescribeRequest& request) = 0;
  virtual Result<std::vector<AvailabilityZone>> describe_availability_zones() = 0;
  virtual Result<Page<Subnet>> describe_subnets(const DescribeRequest& request) = 0;
  virtual Result<Page<SpotPrice>> describe_spot_price_history(
      const DescribeSpotPrices& request) = 0;
  /// By zone: what a zone offers at all. Takes no ids.
  virtual Result<Page<InstanceTypeOffering>> describe_instance_type_offerings(
      const DescribeRequest& request) = 0;
  /// The ids are names of types.
  virtual Result<Page<InstanceType>> describe_instance_types(const DescribeRequest& request) = 0;
  virtual Result<Page<VolumeStatus>> describe_volume_status(const DescribeRequest& request) = 0;
  /// Takes no ids.
  virtual Result<Page<FastSnapshotRestore>> describe_fast_snapshot_restores(
      const DescribeRequest& request) = 0;
  virtual Result<Page<LaunchTemplate>> describe_launch_templates(
      const DescribeRequest& request) = 0;
  virtual Result<std::vector<SpotPlacementScore>> get_spot_placement_scores(
      const GetSpotPlacementScores& request) = 0;

  /// Asks EC2 whether it would carry the call out, and carries nothing out. Ok: it would. Errors:
  /// what EC2 would refuse it with; broken when the endpoint does not know dry runs. Sends as many
  /// requests as `allowance` at most, one or more, and takes from it what it sent: EC2 counts each
  /// like a call that is carried out.
  virtual Ok dry_run(const Mutation& mutation, int& allowance) = 0;
  Ok dry_run(const Mutation& mutation) {
    int unlimited = std::numeric_limits<int>::max();
    return dry_run(mutation, unlimited);
  }

  /// The caller is about to make these reads (their encoded bodies), one after the other: they may
  /// go out together now. Each answer serves one read, and none outlives the next send() or an
  /// empty list. Only a hint.
  virtual void expect(const std::vector<std::string>& /*bodies*/) {}

  /// Sends all calls together and returns their outcomes in the same order. Never sends one twice,
  /// never pauses: what EC2 throttled was not executed, and its turn comes with a later tick.
  virtual std::vector<Result<MutationAnswer>> send(std::span<const EncodedCall> calls) = 0;
};

}  // namespace warmroot::aws
