// The one table of EC2's error codes: what each means for which call, what follows from it, and
// what a person can do. Read by find_code() alone; tests/reactions_test.cpp walks it. `source` is
// the section of the wire reference (ec2.md in the project's shared notes) that says so; "API" is
// the list of error codes in EC2's API reference.
#include <array>

#include "manager/aws/ec2_codec.hpp"

namespace warmroot::aws {
namespace {

using enum ErrorKind;
using R = Reaction;

constexpr std::string_view kSlower = "EC2 throttles this account; warmroot slows down and goes on.";
constexpr std::string_view kTrouble = "EC2 has trouble of its own; warmroot tries again.";
constexpr std::string_view kKeys =
    "Check the access key, its secret, the session token and --region.";
constexpr std::string_view kKeysOrForeign =
    "Check the access key, its secret, the session token and --region; of an AMI, snapshot or "
    "volume that the message names, that it is shared with this account.";
constexpr std::string_view kRenew = "Renew the temporary credentials.";
constexpr std::string_view kAccount = "Settle the account's state with AWS, or enable the Region.";
constexpr std::string_view kOurBug =
    "The endpoint and warmroot do not agree on the protocol; check "
    "--endpoint-url, else report this as a bug.";
constexpr std::string_view kValue = "Correct the value in the spec that the message names.";
constexpr std::string_view kMissing =
    "Correct the name in the spec; it must exist in this Region and account.";
constexpr std::string_view kMalformed = "The id in the spec is not well-formed; correct it.";
constexpr std::string_view kQuota = "Ask AWS for a higher quota, or free some of what it counts.";
constexpr std::string_view kElsewhere =
    "No capacity here now; another zone or instance type may have some.";
constexpr std::string_view kWaitState = "Wait until the state that the message names has changed.";
constexpr std::string_view kVolumeType =
    "Choose a volume type or encryption that this zone and instance type offer.";
constexpr std::string_view kNotOffered = "This zone does not offer the type; allow others.";
constexpr std::string_view kDetached = "The volume is not attached any more.";
constexpr std::string_view kNoVolume =
    "The volume is gone, or too new to be visible; an unusable KMS key also makes it vanish.";
constexpr std::string_view kKmsKey =
    "Let this role use the KMS key: CreateGrant, Decrypt, GenerateDataKeyWithoutPlaintext.";
constexpr std::string_view kTemplateGone =
    "The launch template is gone, or too new to be visible; it is made again.";
constexpr std::string_view kScores =
    "No new question for placement scores for up to a day; those asked before are answered.";
constexpr std::string_view kPageToken = "The page token expired; list again.";

/// An entry with an action goes before the general one of its code.
constexpr std::array kCodes = std::to_array<CodeEntry>({
    // Throttles: not executed.
    {"RequestLimitExceeded", "", retry_later, R::throttled, "3", kSlower},
    {"Throttling", "", retry_later, R::throttled, "3", kSlower},
    {"ThrottlingException", "", retry_later, R::throttled, "3", kSlower},
    {"ThrottledException", "", retry_later, R::throttled, "3", kSlower},
    {"EC2ThrottledException", "", retry_later, R::throttled, "3", kSlower},
    {"RequestThrottled", "", retry_later, R::throttled, "3", kSlower},
    {"RequestThrottledException", "", retry_later, R::throttled, "3", kSlower},
    {"TooManyRequestsException", "", retry_later, R::throttled, "3", kSlower},
    {"BandwidthLimitExceeded", "", retry_later, R::throttled, "3", kSlower},
    {"LimitExceededException", "", retry_later, R::throttled, "3", kSlower},
    {"SlowDown", "", retry_later, R::throttled, "3", kSlower},
    {"PriorRequestNotComplete", "", retry_later, R::throttled, "3", kSlower},
    {"TransactionInProgressException", "", retry_later, R::throttled, "3", kSlower},
    {"ProvisionedThroughputExceededException", "", retry_later, R::throttled, "3", kSlower},
    {"ConcurrentTagAccess", "", retry_later, R::throttled, "3", kSlower},
    // EC2's own trouble: a mutation may have been executed.
    {"InternalError", "", retry_later, R::transient, "3", kTrouble},
    {"InternalFailure", "", retry_later, R::transient, "3", kTrouble},
    {"ServerInternal", "", retry_later, R::transient, "3", kTrouble},
    {"ServiceUnavailable", "", retry_later, R::transient, "3", kTrouble},
    {"Unavailable", "", retry_later, R::transient, "3", kTrouble},
    {"RetryableError", "", retry_later, R::transient, "3", kTrouble},
    {"RequestTimeout", "", retry_later, R::transient, "3", kTrouble},
    {"RequestTimeoutException", "", retry_later, R::transient, "3", kTrouble},
    // Who asks.
    {"RequestExpired", "", unauthorised, R::credentials, "3",
     "Set this machine's clock (more than 15 minutes off), or renew the temporary credentials."},
    {"ExpiredToken", "", unauthorised, R::credentials, "3", kRenew},
    {"ExpiredTokenException", "", unauthorised, R::credentials, "3", kRenew},
    {"AuthFailure", "", unauthorised, R::credentials, "3", kKeysOrForeign},
    {"SignatureDoesNotMatch", "", unauthorised, R::permission, "3", kKeys},
    {"InvalidClientTokenId", "", unauthorised, R::permission, "3", kKeys},
    {"MissingAuthenticationToken", "", unauthorised, R::permission, "3", kKeys},
    {"IncompleteSignature", "", unauthorised, R::permission, "3", kKeys},
    {"InvalidSignature", "", unauthorised, R::permission, "3", kKeys},
    {"UnauthorizedOperation", "", unauthorised, R::permission, "3",
     "Allow this action in the IAM policy (templates/ has one); `aws sts "
     "decode-authorization-message` reads the encoded part."},
    {"AuthFailure.ServiceLinkedRoleCreationNotPermitted", "", unauthorised, R::account, "3",
     "Create AWSServiceRoleForEC2Spot once: `aws iam create-service-linked-role "
     "--aws-service-name spot.amazonaws.com`."},
    {"CustomerKeyHasBeenRevoked", "", unauthorised, R::account, "2.1", kKmsKey},
    {"InvalidKMSKey.InvalidState", "", unauthorised, R::account, "API", kKmsKey},
    {"OptInRequired", "", unauthorised, R::account, "3", kAccount},
    {"PendingVerification", "", unauthorised, R::account, "3", kAccount},
    {"Blocked", "", unauthorised, R::account, "3", kAccount},
    {"AccountDisabled", "", unauthorised, R::account, "3", kAccount},
    // The request.
    {"DryRunOperation", "", refused, R::done, "1.4", "It would have succeeded without DryRun."},
    {"MissingParameter", "", broken, R::request, "3", kOurBug},
    {"UnknownParameter", "", broken, R::request, "3", kOurBug},
    {"MalformedQueryString", "", broken, R::request, "3", kOurBug},
    {"InvalidQueryParameter", "", broken, R::request, "3", kOurBug},
    {"InvalidAction", "", broken, R::request, "3", kOurBug},
    {"NoSuchVersion", "", broken, R::request, "9", kOurBug},
    {"FilterLimitExceeded", "", broken, R::request, "3", kOurBug},
    {"InvalidParameterValue", "AttachVolume", refused, R::device, "2.2",
     "The device name is taken or not valid on this instance; another one has to be tried."},
    {"InvalidParameterValue", "", misconfigured, R::request, "3", kValue},
    {"InvalidParameter", "", misconfigured, R::request, "3", kValue},
    {"InvalidParameterCombination", "", misconfigured, R::request, "3", kValue},
    {"InvalidParameterDependency", "", misconfigured, R::request, "3", kValue},
    {"InvalidInput", "", misconfigured, R::request, "3", kValue},
    {"ValidationError", "", misconfigured, R::request, "3", kValue},
    {"InvalidUserData.Malformed", "", misconfigured, R::request, "3",
     "User data is limited to 16384 bytes; shorten the template."},
    {"IdempotentParameterMismatch", "", refused, R::new_token, "1.4",
     "This client token was used for other parameters; look by tag, then take a new token."},
    {"IdempotentInstanceTerminated", "", gone, R::new_token, "1.4",
     "The instance of this client token is gone; a new launch needs a new token."},
    {"InvalidMaxResults", "", refused, R::restart, "3", "List again with another page size."},
    {"InvalidNextToken", "", retry_later, R::restart, "3", kPageToken},
    {"InvalidPaginationToken", "", retry_later, R::restart, "3", kPageToken},
    // Instances.
    {"InvalidInstanceID.NotFound", "", gone, R::absent, "2.3",
     "The instance is gone, or too new to be visible everywhere."},
    {"InvalidInstanceID.Malformed", "", misconfigured, R::request, "3", kMalformed},
    {"InvalidInstanceAttributeValue", "", misconfigured, R::request, "API", kValue},
    {"IncorrectInstanceState", "DetachVolume", retry_later, R::wait, "2.2",
     "A volume with a Marketplace product code comes off a stopped or ended instance only."},
    {"IncorrectInstanceState", "AttachVolume", retry_later, R::wait, "2.2",
     "A volume with a Marketplace product code goes onto a stopped instance only."},
    {"IncorrectInstanceState", "", retry_later, R::wait, "3", kWaitState},
    {"OperationNotPermitted", "TerminateInstances", refused, R::account, "3",
     "Termination protection is on: lift it (`aws ec2 modify-instance-attribute "
     "--no-disable-api-termination`), or end the instance yourself; its volume stays with it."},
    {"OperationNotPermitted", "DetachVolume", refused, R::account, "2.2",
     "It is the root volume of an instance that is not stopped."},
    {"OperationNotPermitted", "", refused, R::account, "3",
     "Something protects it, for instance termination protection; lift that first."},
    // Volumes and attachments.
    {"InvalidVolume.NotFound", "DetachVolume", gone, R::done, "3", kNoVolume},
    {"InvalidVolume.NotFound", "DeleteVolume", gone, R::done, "3", kNoVolume},
    {"InvalidVolume.NotFound", "", gone, R::absent, "2.1", kNoVolume},
    {"InvalidVolumeID.Malformed", "", misconfigured, R::request, "3", kMalformed},
    {"InvalidVolume.ZoneMismatch", "", refused, R::request, "2.2",
     "Volume and instance must be in one zone; give the node a volume of its zone."},
    {"InvalidVolume.Duplicate", "", refused, R::request, "3", "Such a volume exists already."},
    {"InvalidAttachment.NotFound", "DetachVolume", gone, R::done, "2.2", kDetached},
    {"InvalidAttachment.NotFound", "", gone, R::absent, "3", "The volume is not attached there."},
    {"IncorrectState", "DetachVolume", gone, R::done, "2.2", kDetached},
    {"IncorrectState", "", retry_later, R::wait, "2.2", kWaitState},
    {"VolumeInUse", "AttachVolume", refused, R::look, "2.2",
     "The volume is attached already; look where before anything else."},
    {"VolumeInUse", "", refused, R::wait, "2.1", "Detach the volume first."},
    {"AttachmentLimitExceeded", "", misconfigured, R::change, "2.7",
     "This instance type takes no further volume; use a larger type, or an AMI with fewer."},
    {"EncryptedVolumesNotSupported", "", misconfigured, R::change, "3", kVolumeType},
    {"VolumeTypeNotAvailableInZone", "", misconfigured, R::change, "3", kVolumeType},
    {"UnknownVolumeType", "", misconfigured, R::change, "3", kVolumeType},
    {"InvalidZone.NotFound", "", misconfigured, R::request, "3", kMissing},
    {"InsufficientVolumeCapacity", "", retry_later, R::change, "3",
     "The zone cannot make this volume now; another zone or type may."},
    // Although the token's volume may exist: the next look finds it by its tag.
    {"VolumeLimitExceeded", "", refused, R::account, "1.4", kQuota},
    {"MaxIOPSLimitExceeded", "", refused, R::account, "3", kQuota},
    {"MaxThroughputLimitExceeded", "", refused, R::account, "3", kQuota},
    {"CopyVolumesLimitExceeded", "", retry_later, R::wait, "2.9",
     "Five copies at a time in a Region; the next starts when one is complete."},
    {"ConcurrentCopyVolumeLimitExceeded", "", retry_later, R::wait, "2.9",
     "One copy of a volume at a time; the next starts when this one is complete."},
    {"VolumeModificationSizeLimitExceeded", "", retry_later, R::wait, "3", kWaitState},
    {"VolumeModificationRateExceeded", "", retry_later, R::wait, "3", kWaitState},
    {"IncorrectModificationState", "", retry_later, R::wait, "3", kWaitState},
    {"InvalidVolumeModification.NotFound", "", gone, R::absent, "3",
     "The volume was never modified."},
    // Snapshots and images.
    {"InvalidSnapshot.NotFound", "", misconfigured, R::absent, "2.8",
     "The snapshot must be in this Region and readable by this account; those behind public AMIs "
     "are not: launch the AMI once, stop it and snapshot its root."},
    {"InvalidSnapshotID.Malformed", "", misconfigured, R::request, "3", kMalformed},
    {"InvalidSnapshot.InUse", "", refused, R::request, "3", "An AMI uses this snapshot."},
    {"SnapshotCreationPerVolumeRateExceeded", "", retry_later, R::wait, "3",
     "One snapshot of a volume in 15 s."},
    {"ConcurrentSnapshotLimitExceeded", "", retry_later, R::wait, "3", kWaitState},
    {"PendingSnapshotLimitExceeded", "", retry_later, R::wait, "3", kWaitState},
    {"ResourceLimitExceeded", "", retry_later, R::wait, "3", kWaitState},
    {"SnapshotLimitExceeded", "", refused, R::account, "3", kQuota},
    {"InvalidAMIID.NotFound", "", misconfigured, R::absent, "3", kMissing},
    {"InvalidAMIID.Malformed", "", misconfigured, R::request, "3", kMalformed},
    {"InvalidAMIID.Unavailable", "", misconfigured, R::request, "3", kMissing},
    {"InvalidBlockDeviceMapping", "", misconfigured, R::request, "2.8",
     "A root volume must be at least as large as its snapshot."},
    // Launching.
    {"InvalidSubnetID.NotFound", "", misconfigured, R::absent, "3", kMissing},
    {"InvalidGroup.NotFound", "", misconfigured, R::absent, "3", kMissing},
    {"InvalidSecurityGroupID.NotFound", "", misconfigured, R::absent, "API", kMissing},
    {"InvalidKeyPair.NotFound", "", misconfigured, R::absent, "3", kMissing},
    {"VPCIdNotSpecified", "", misconfigured, R::request, "API",
     "There is no default VPC: name `subnets` in the spec."},
    {"InvalidLaunchTemplateId.NotFound", "DeleteLaunchTemplate", gone, R::done, "3",
     "The launch template is gone."},
    {"InvalidLaunchTemplateId.NotFound", "", gone, R::absent, "3", kTemplateGone},
    {"InvalidLaunchTemplateId.VersionNotFound", "", gone, R::absent, "API", kTemplateGone},
    {"InvalidLaunchTemplateName.NotFoundException", "", gone, R::absent, "3", kTemplateGone},
    {"InvalidLaunchTemplateName.AlreadyExistsException", "", refused, R::look, "API",
     "A launch template of this name exists; look by tag before anything else."},
    {"InsufficientInstanceCapacity", "", retry_later, R::change, "3", kElsewhere},
    {"UnfulfillableCapacity", "", retry_later, R::change, "3", kElsewhere},
    {"InsufficientCapacity", "", retry_later, R::change, "3", kElsewhere},
    {"InsufficientHostCapacity", "", retry_later, R::change, "3", kElsewhere},
    {"ReservationCapacityExceeded", "", retry_later, R::change, "3", kElsewhere},
    {"InsufficientFreeAddressesInSubnet", "", retry_later, R::change, "3",
     "The subnet has no free address; another subnet may."},
    {"SpotMaxPriceTooLow", "", retry_later, R::change, "3",
     "The spot price is above max_price; raise it, or wait, or allow other types."},
    {"Unsupported", "", misconfigured, R::change, "3", kNotOffered},
    {"UnsupportedOperation", "", misconfigured, R::change, "3",
     "This zone or type does not offer it."},
    {"InvalidFleetConfiguration", "", misconfigured, R::change, "API", kNotOffered},
    {"MaxSpotInstanceCountExceeded", "", refused, R::account, "3", kQuota},
    {"VcpuLimitExceeded", "", refused, R::account, "3", kQuota},
    {"InstanceLimitExceeded", "", refused, R::account, "3", kQuota},
    {"MaxFleetCountExceeded", "", refused, R::account, "3", kQuota},
    {"ResourceCountExceeded", "", refused, R::account, "3", kQuota},
    // Of placement scores. The list of codes has the longer form, answers the shorter.
    {"MaxConfigLimitExceeded", "", refused, R::account, "API", kScores},
    {"MaxConfigLimitExceededException", "", refused, R::account, "API", kScores},
    // Tags.
    {"InvalidID", "", gone, R::absent, "API", "What was to be tagged is gone, or too new."},
    {"TagLimitExceeded", "", misconfigured, R::request, "3", "A resource holds 50 tags at most."},
    {"InvalidTagKey.Malformed", "", misconfigured, R::request, "3", kValue},
    {"TagPolicyViolation", "", misconfigured, R::request, "3", kValue},
});

}  // namespace

std::span<const CodeEntry> all_codes() {
  return kCodes;
}

const CodeEntry* find_code(std::string_view code, std::string_view action) {
  code = bare_code(code);
  for (const CodeEntry& entry : kCodes)
    if (entry.code == code && (entry.action.empty() || entry.action == action)) return &entry;
  return nullptr;
}

}  // namespace warmroot::aws
