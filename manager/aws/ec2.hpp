// The seam between warmroot and EC2: plain structs for the calls we use and no others, and the
// interface that Ec2Client implements (over HTTP, or over the simulated region in one process).
// Field names and meanings are those of the EC2 API, version 2016-11-15; absent members of an
// answer are absent here.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/units.hpp"

namespace warmroot::aws {

using Tags = std::map<std::string, std::string>;

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
  VolumeState state = VolumeState::unknown;
  std::optional<Instant> create_time;
  std::vector<Attachment> attachments;
  Tags tags;
};

struct BlockDevice {
  std::string device_name;
  std::string volume_id;
  AttachmentState state = AttachmentState::unknown;
  bool delete_on_termination = false;
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
};

struct ImageMapping {
  std::string device_name;
  std::string snapshot_id;
  int volume_size_gib = 0;
};

struct Image {
  std::string image_id;
  std::string state;  ///< available, pending, ...
  std::string name;
  std::string architecture;  ///< x86_64 | arm64 | i386
  std::string root_device_name;
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

struct DescribeSpotPrices {
  std::vector<std::string> instance_types;
  std::string availability_zone;
  Instant start_time;
  int max_results = 0;
  std::string next_token;
};

struct RunInstances {
  std::string image_id;
  std::string instance_type;
  int min_count = 1;
  int max_count = 1;
  std::string subnet_id;
  std::string availability_zone;  ///< sent only without a subnet
  std::vector<std::string> security_group_ids;
  std::string key_name;
  std::string instance_profile;  ///< name or ARN
  std::string user_data;         ///< raw bytes; the codec encodes base64
  std::string client_token;
  bool spot = true;
  std::string max_price;  ///< empty: capped at on-demand
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
  bool encrypted = false;
  std::string kms_key;
  std::string client_token;
  Tags tags;
};

struct AttachVolume {
  std::string volume_id;
  std::string instance_id;
  std::string device;
};

/// Always with the instance: a late retry without it can hit a new attachment.
struct DetachVolume {
  std::string volume_id;
  std::string instance_id;
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
                              TerminateInstances, CreateTags, DeleteTags>;

/// What a mutation answered with; monostate for calls that return only `true`.
using MutationAnswer = std::variant<std::monostate, std::vector<Instance>, Volume, Attachment>;

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

  /// Sends all calls together and returns their outcomes in the same order. A call is sent again
  /// only when EC2 throttled it, which means that it was not executed. Never waits for a state.
  virtual std::vector<Result<MutationAnswer>> send(std::span<const EncodedCall> calls) = 0;
};

}  // namespace warmroot::aws
