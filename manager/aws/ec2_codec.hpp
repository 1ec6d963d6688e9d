// EC2's Query protocol, version 2016-11-15: requests into form bodies, XML answers into the structs
// of ec2.hpp, refusals into errors with a kind and a remedy. Pure. Ec2Client uses it over a
// Transport; retries, paging and time are not here. ec2_encode.cpp, ec2_decode.cpp, ec2_errors.cpp,
// ec2_codes.cpp and ec2_words.cpp implement it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "bootstrap/base/http.hpp"
#include "bootstrap/base/result.hpp"
#include "manager/aws/ec2.hpp"

namespace warmroot::aws {

inline constexpr std::string_view kEc2Version = "2016-11-15";

// ---- requests ----

/// The calls that a DescribeRequest can become.
enum class Describe {
  volumes,
  instances,
  instance_status,
  snapshots,
  images,
  subnets,
  instance_type_offerings,
  instance_types,
  volume_status,
  fast_snapshot_restores,
  launch_templates
};

/// The body of one Describe call. An empty id list is not sent, which means "all": the wire cannot
/// say "none".
std::string encode(Describe what, const DescribeRequest& request);

std::string encode_describe_availability_zones();

/// Prices of Linux/UNIX.
std::string encode(const DescribeSpotPrices& request);

std::string encode(const GetSpotPlacementScores& request);

/// A mutation as it goes over the wire. The same mutation always gives the same bytes. Spot
/// launches are one-time and terminate when interrupted; every launch terminates on shutdown,
/// requires IMDSv2 with a hop limit of 1 and shows its tags in IMDS; CreateVolume always names its
/// type (EC2's default is gp2). A launch template carries the same guards; a fleet is instant, its
/// spot capacity goes where price and capacity are best.
EncodedCall encode(const Mutation& mutation);

/// The body of the same call with DryRun: EC2 says whether it would, and does not.
std::string encode_dry_run(const Mutation& mutation);

/// The call and what it is about, for people: "AttachVolume vol-1 to i-2".
std::string summary_of(std::string_view body);

/// True for calls that change nothing (Describe*, Get*).
bool is_read(std::string_view action);

// ---- answers ----
// All decoders take any HTTP reply. Errors: what refused() makes of a refusal; a reply that is no
// EC2 answer is misconfigured and has kNotEc2 for its code (HTML where XML belongs: whoever stands
// between may have let the call through all the same), retry_later for a read and unknown_outcome
// for a mutation whose answer is cut off, and broken for a read whose answer lacks what it must
// have. Unknown members are ignored.

/// In place of EC2's code.
inline constexpr std::string_view kNotEc2 = "NotEC2";

Result<Page<Volume>> decode_volumes(const HttpReply& reply);
Result<Page<Instance>> decode_instances(const HttpReply& reply);
Result<Page<InstanceStatus>> decode_instance_status(const HttpReply& reply);
Result<Page<Snapshot>> decode_snapshots(const HttpReply& reply);
Result<Page<Image>> decode_images(const HttpReply& reply);
Result<std::vector<AvailabilityZone>> decode_availability_zones(const HttpReply& reply);
Result<Page<Subnet>> decode_subnets(const HttpReply& reply);
Result<Page<SpotPrice>> decode_spot_prices(const HttpReply& reply);
Result<Page<InstanceTypeOffering>> decode_instance_type_offerings(const HttpReply& reply);
Result<Page<InstanceType>> decode_instance_types(const HttpReply& reply);
Result<Page<VolumeStatus>> decode_volume_status(const HttpReply& reply);
Result<Page<FastSnapshotRestore>> decode_fast_snapshot_restores(const HttpReply& reply);
Result<Page<LaunchTemplate>> decode_launch_templates(const HttpReply& reply);
Result<std::vector<SpotPlacementScore>> decode_spot_placement_scores(const HttpReply& reply);

/// The answer of the mutation with this action name: instances for RunInstances, TerminateInstances
/// and StopInstances (the latter two with id and state only), Volume for CreateVolume and
/// CopyVolumes, Attachment for AttachVolume and DetachVolume, FleetAnswer for CreateFleet (also one
/// without any instance), LaunchTemplate and Snapshot for their creation, else monostate.
Result<MutationAnswer> decode_answer(std::string_view action, const HttpReply& reply);

/// Ok when the reply says that the call would have succeeded. An answer to the call itself is
/// broken: the endpoint has carried it out.
Ok decode_dry_run(std::string_view action, const HttpReply& reply);

// ---- refusals ----

/// What to do about an error code, finer than ErrorKind. outcome.cpp makes it happen.
enum class Reaction {
  throttled,    ///< not executed; try again later and slower
  transient,    ///< EC2's trouble; may have been executed: send the same bytes again
  done,         ///< what the call wants holds already
  look,         ///< it may have happened: the next look tells, before anything else is tried
  wait,         ///< some state has to change first
  absent,       ///< the thing named is not there (or not visible yet): the next look tells
  device,       ///< remember that this device name is refused here, try another
  change,       ///< another zone, type or subnet may do; passes by itself unless misconfigured
  account,      ///< a quota or the account's state: somebody has to act
  permission,   ///< keys or IAM
  credentials,  ///< refresh the credentials or correct the clock, then once more
  request,      ///< the request itself is wrong
  new_token,    ///< look by tag for what the token made, then use a new token
  restart,      ///< begin the listing anew
  unknown       ///< a code that is not in the table: refused, tried again with patience
};

struct CodeEntry {
  std::string_view code;
  std::string_view action;  ///< empty: for every call
  ErrorKind kind;
  Reaction reaction;
  std::string_view source;
  std::string_view remedy;  ///< one or two short sentences
};

/// The whole table, ec2_codes.cpp.
std::span<const CodeEntry> all_codes();

/// The table's entry, also for codes with a `Client.` or `Server.` prefix; nullptr when unknown. An
/// entry for this very action goes before the general one (InvalidParameterValue of AttachVolume is
/// about the device name).
const CodeEntry* find_code(std::string_view code, std::string_view action = {});

/// One short sentence on what can be done; empty for an unknown code.
std::string_view remedy_for(std::string_view code, std::string_view action = {});

Reaction reaction_for(std::string_view code, std::string_view action = {});

/// The code without a `Client.` or `Server.` prefix (CloudTrail, state reasons and the console have
/// it).
std::string_view bare_code(std::string_view code);

/// The error code of a refusal, or empty when the reply is none. Cheap enough to look before
/// decoding.
std::string code_of(const HttpReply& reply);

/// The error that a reply other than a 200 with XML stands for; context is EC2's message and the
/// remedy.
Error refused(std::string_view action, const HttpReply& reply);

// ---- words ----

VolumeState volume_state(std::string_view word);
AttachmentState attachment_state(std::string_view word);
InstanceState instance_state(std::string_view word);

}  // namespace warmroot::aws
