// Refusals: the one table of error codes (source: ec2.md section 3), and how a reply that is no
// answer becomes an Error. Messages of EC2 are shown to people and never matched: their wording
// drifts.
#include <algorithm>
#include <array>

#include "manager/aws/ec2_codec.hpp"
#include "manager/aws/ec2_xml.hpp"

namespace warmroot::aws {
namespace {

using enum ErrorKind;
using R = Reaction;

/// Longer messages are cut: UnauthorizedOperation carries an encoded blob of some kilobytes.
constexpr std::size_t kMaxMessageBytes = 1200;

constexpr std::string_view kSlower = "EC2 throttles this account; warmroot slows down and goes on.";
constexpr std::string_view kTrouble = "EC2 has trouble of its own; warmroot tries again.";
constexpr std::string_view kKeys =
    "Check the access key, its secret, the session token and --region.";
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

constexpr std::array kCodes = std::to_array<CodeEntry>({
    // Throttles: not executed.
    {"RequestLimitExceeded", "", retry_later, R::throttled, kSlower},
    {"Throttling", "", retry_later, R::throttled, kSlower},
    {"ThrottlingException", "", retry_later, R::throttled, kSlower},
    {"ThrottledException", "", retry_later, R::throttled, kSlower},
    {"EC2ThrottledException", "", retry_later, R::throttled, kSlower},
    {"RequestThrottled", "", retry_later, R::throttled, kSlower},
    {"RequestThrottledException", "", retry_later, R::throttled, kSlower},
    {"TooManyRequestsException", "", retry_later, R::throttled, kSlower},
    {"BandwidthLimitExceeded", "", retry_later, R::throttled, kSlower},
    {"LimitExceededException", "", retry_later, R::throttled, kSlower},
    {"SlowDown", "", retry_later, R::throttled, kSlower},
    {"PriorRequestNotComplete", "", retry_later, R::throttled, kSlower},
    {"TransactionInProgressException", "", retry_later, R::throttled, kSlower},
    {"ProvisionedThroughputExceededException", "", retry_later, R::throttled, kSlower},
    {"ConcurrentTagAccess", "", retry_later, R::throttled, kSlower},
    // EC2's own trouble: a mutation may have been executed.
    {"InternalError", "", retry_later, R::transient, kTrouble},
    {"InternalFailure", "", retry_later, R::transient, kTrouble},
    {"ServerInternal", "", retry_later, R::transient, kTrouble},
    {"ServiceUnavailable", "", retry_later, R::transient, kTrouble},
    {"Unavailable", "", retry_later, R::transient, kTrouble},
    {"RetryableError", "", retry_later, R::transient, kTrouble},
    {"RequestTimeout", "", retry_later, R::transient, kTrouble},
    {"RequestTimeoutException", "", retry_later, R::transient, kTrouble},
    // Who asks.
    {"RequestExpired", "", unauthorised, R::credentials,
     "Set this machine's clock (more than 15 minutes off), or renew the temporary credentials."},
    {"ExpiredToken", "", unauthorised, R::credentials, kRenew},
    {"ExpiredTokenException", "", unauthorised, R::credentials, kRenew},
    {"AuthFailure", "", unauthorised, R::credentials, kKeys},
    {"SignatureDoesNotMatch", "", unauthorised, R::permission, kKeys},
    {"InvalidClientTokenId", "", unauthorised, R::permission, kKeys},
    {"MissingAuthenticationToken", "", unauthorised, R::permission, kKeys},
    {"IncompleteSignature", "", unauthorised, R::permission, kKeys},
    {"InvalidSignature", "", unauthorised, R::permission, kKeys},
    {"UnauthorizedOperation", "", unauthorised, R::permission,
     "Allow this action in the IAM policy (templates/ has one); `aws sts "
     "decode-authorization-message` reads the encoded part."},
    {"AuthFailure.ServiceLinkedRoleCreationNotPermitted", "", unauthorised, R::account,
     "Create AWSServiceRoleForEC2Spot once: `aws iam create-service-linked-role "
     "--aws-service-name spot.amazonaws.com`."},
    {"CustomerKeyHasBeenRevoked", "", unauthorised, R::account,
     "Let this role use the KMS key: CreateGrant, Decrypt, GenerateDataKeyWithoutPlaintext."},
    {"OptInRequired", "", unauthorised, R::account, kAccount},
    {"PendingVerification", "", unauthorised, R::account, kAccount},
    {"Blocked", "", unauthorised, R::account, kAccount},
    {"AccountDisabled", "", unauthorised, R::account, kAccount},
    // The request.
    {"DryRunOperation", "", refused, R::request, "It would have succeeded without DryRun."},
    {"MissingParameter", "", broken, R::request, kOurBug},
    {"UnknownParameter", "", broken, R::request, kOurBug},
    {"MalformedQueryString", "", broken, R::request, kOurBug},
    {"InvalidQueryParameter", "", broken, R::request, kOurBug},
    {"InvalidAction", "", broken, R::request, kOurBug},
    {"NoSuchVersion", "", broken, R::request, kOurBug},
    {"FilterLimitExceeded", "", broken, R::request, kOurBug},
    {"InvalidParameterValue", "AttachVolume", refused, R::change,
     "The device name is taken or not valid on this instance; another one has to be tried."},
    {"InvalidParameterValue", "", misconfigured, R::request, kValue},
    {"InvalidParameter", "", misconfigured, R::request, kValue},
    {"InvalidParameterCombination", "", misconfigured, R::request, kValue},
    {"InvalidParameterDependency", "", misconfigured, R::request, kValue},
    {"InvalidInput", "", misconfigured, R::request, kValue},
    {"ValidationError", "", misconfigured, R::request, kValue},
    {"InvalidUserData.Malformed", "", misconfigured, R::request,
     "User data is limited to 16384 bytes; shorten the template."},
    {"IdempotentParameterMismatch", "", refused, R::new_token,
     "This client token was used for other parameters; look by tag, then take a new token."},
    {"IdempotentInstanceTerminated", "", gone, R::new_token,
     "The instance of this client token is gone; a new launch needs a new token."},
    {"InvalidMaxResults", "", refused, R::restart, "List again with another page size."},
    {"InvalidNextToken", "", retry_later, R::restart, "The page token expired; list again."},
    {"InvalidPaginationToken", "", retry_later, R::restart, "The page token expired; list again."},
    // Instances, volumes, attachments.
    {"InvalidInstanceID.NotFound", "", gone, R::absent,
     "The instance is gone, or too new to be visible everywhere."},
    {"InvalidInstanceID.Malformed", "", misconfigured, R::request, kMalformed},
    {"IncorrectInstanceState", "", retry_later, R::wait, kWaitState},
    {"InvalidVolume.NotFound", "", gone, R::absent,
     "The volume is gone, or too new to be visible; an unusable KMS key also makes it vanish."},
    {"InvalidVolumeID.Malformed", "", misconfigured, R::request, kMalformed},
    {"InvalidVolume.ZoneMismatch", "", refused, R::request,
     "Volume and instance must be in one zone; give the node a volume of its zone."},
    {"InvalidVolume.Duplicate", "", refused, R::request, "Such a volume exists already."},
    {"InvalidAttachment.NotFound", "", gone, R::absent, "The volume is not attached there."},
    {"IncorrectState", "DetachVolume", gone, R::absent, "The volume is not attached any more."},
    {"IncorrectState", "", retry_later, R::wait, kWaitState},
    {"VolumeInUse", "DeleteVolume", refused, R::wait, "Detach the volume first."},
    {"VolumeInUse", "", refused, R::change,
     "The volume is attached already; look where before anything else."},
    {"AttachmentLimitExceeded", "", refused, R::change,
     "This instance type takes no further volume; detach another or use a larger type."},
    {"EncryptedVolumesNotSupported", "", misconfigured, R::change, kVolumeType},
    {"VolumeTypeNotAvailableInZone", "", misconfigured, R::change, kVolumeType},
    {"UnknownVolumeType", "", misconfigured, R::change, kVolumeType},
    {"InvalidZone.NotFound", "", misconfigured, R::request, kMissing},
    {"InsufficientVolumeCapacity", "", retry_later, R::change,
     "The zone cannot make this volume now; another zone or type may."},
    {"VolumeLimitExceeded", "", refused, R::account, kQuota},
    {"MaxIOPSLimitExceeded", "", refused, R::account, kQuota},
    {"MaxThroughputLimitExceeded", "", refused, R::account, kQuota},
    {"CopyVolumesLimitExceeded", "", retry_later, R::wait, kWaitState},
    {"ConcurrentCopyVolumeLimitExceeded", "", retry_later, R::wait, kWaitState},
    {"VolumeModificationSizeLimitExceeded", "", retry_later, R::wait, kWaitState},
    {"VolumeModificationRateExceeded", "", retry_later, R::wait, kWaitState},
    {"IncorrectModificationState", "", retry_later, R::wait, kWaitState},
    {"InvalidVolumeModification.NotFound", "", gone, R::absent, "The volume was never modified."},
    // Snapshots and images.
    {"InvalidSnapshot.NotFound", "", misconfigured, R::absent,
     "The snapshot must be in this Region and readable by this account; those behind public AMIs "
     "are "
     "not: launch the AMI once, stop it and snapshot its root."},
    {"InvalidSnapshotID.Malformed", "", misconfigured, R::request, kMalformed},
    {"InvalidSnapshot.InUse", "", refused, R::request, "An AMI uses this snapshot."},
    {"SnapshotCreationPerVolumeRateExceeded", "", retry_later, R::wait, kWaitState},
    {"ConcurrentSnapshotLimitExceeded", "", retry_later, R::wait, kWaitState},
    {"PendingSnapshotLimitExceeded", "", retry_later, R::wait, kWaitState},
    {"ResourceLimitExceeded", "", retry_later, R::wait, kWaitState},
    {"SnapshotLimitExceeded", "", refused, R::account, kQuota},
    {"InvalidAMIID.NotFound", "", misconfigured, R::absent, kMissing},
    {"InvalidAMIID.Malformed", "", misconfigured, R::request, kMalformed},
    {"InvalidAMIID.Unavailable", "", misconfigured, R::request, kMissing},
    {"InvalidBlockDeviceMapping", "", misconfigured, R::request,
     "A root volume must be at least as large as its snapshot."},
    // Launching.
    {"InvalidSubnetID.NotFound", "", misconfigured, R::absent, kMissing},
    {"InvalidGroup.NotFound", "", misconfigured, R::absent, kMissing},
    {"InvalidKeyPair.NotFound", "", misconfigured, R::absent, kMissing},
    {"InvalidLaunchTemplateName.NotFoundException", "", misconfigured, R::absent, kMissing},
    {"InvalidLaunchTemplateId.NotFound", "", misconfigured, R::absent, kMissing},
    {"InsufficientInstanceCapacity", "", retry_later, R::change, kElsewhere},
    {"UnfulfillableCapacity", "", retry_later, R::change, kElsewhere},
    {"InsufficientCapacity", "", retry_later, R::change, kElsewhere},
    {"InsufficientHostCapacity", "", retry_later, R::change, kElsewhere},
    {"ReservationCapacityExceeded", "", retry_later, R::change, kElsewhere},
    {"InsufficientFreeAddressesInSubnet", "", retry_later, R::change,
     "The subnet has no free address; another subnet may."},
    {"SpotMaxPriceTooLow", "", retry_later, R::change,
     "The spot price is above max_price; raise it, or wait, or allow other types."},
    {"Unsupported", "", refused, R::change, "This zone does not offer the type; allow others."},
    {"UnsupportedOperation", "", refused, R::change, "This zone or type does not offer it."},
    {"MaxSpotInstanceCountExceeded", "", refused, R::account, kQuota},
    {"VcpuLimitExceeded", "", refused, R::account, kQuota},
    {"InstanceLimitExceeded", "", refused, R::account, kQuota},
    {"MaxFleetCountExceeded", "", refused, R::account, kQuota},
    {"ResourceCountExceeded", "", refused, R::account, kQuota},
    {"OperationNotPermitted", "", refused, R::account,
     "Something protects it, for instance termination protection; lift that first."},
    // Tags.
    {"TagLimitExceeded", "", misconfigured, R::request, "A resource holds 50 tags at most."},
    {"InvalidTagKey.Malformed", "", misconfigured, R::request, kValue},
    {"TagPolicyViolation", "", misconfigured, R::request, kValue},
});

bool contains_no_case(std::string_view text, std::string_view lower_word) {
  const auto same = [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  };
  return std::search(text.begin(), text.end(), lower_word.begin(), lower_word.end(), same) !=
         text.end();
}

std::string header(const HttpReply& reply, const std::string& name) {
  const auto found = reply.headers.find(name);
  return found == reply.headers.end() ? std::string{} : found->second;
}

bool is_html(const HttpReply& reply) {
  constexpr std::size_t kLook = 256;
  const std::string_view start = std::string_view(reply.body).substr(0, kLook);
  return contains_no_case(header(reply, "content-type"), "text/html") ||
         contains_no_case(start, "<html") || contains_no_case(start, "<!doctype html");
}

/// The <Error> of `<Response><Errors><Error>` (EC2) or `<ErrorResponse><Error>` (its neighbours).
const xml::Element* error_element(const tinyxml2::XMLDocument& document) {
  const xml::Element* root = document.RootElement();
  if (root == nullptr) return nullptr;
  if (const auto* error = xml::child(xml::child(root, "Errors"), "Error")) return error;
  return std::string_view(root->Name()) == "ErrorResponse" ? xml::child(root, "Error") : nullptr;
}

std::string sentence(std::string text) {
  if (text.size() > kMaxMessageBytes) text = text.substr(0, kMaxMessageBytes) + "...";
  if (!text.empty() && text.back() != '.') text += '.';
  return text;
}

Error from_code(std::string_view action, int status, std::string code, const std::string& message) {
  const ErrorKind lost = is_read(action) ? retry_later : unknown_outcome;
  Error error{refused, sentence(message), std::move(code), {}};
  if (error.context.empty()) error.context = "refused with HTTP " + std::to_string(status) + ".";
  const CodeEntry* entry = find_code(error.code, action);
  if (entry == nullptr) {
    if (status >= 500) error.kind = lost;
    return error;
  }
  error.kind = entry->reaction == Reaction::transient ? lost : entry->kind;
  error.context += " " + std::string(entry->remedy);
  return error;
}

/// A reply without an EC2 error inside.
Error from_status(std::string_view action, const HttpReply& reply, bool well_formed) {
  const ErrorKind lost = is_read(action) ? retry_later : unknown_outcome;
  const std::string status = "HTTP " + std::to_string(reply.status);
  constexpr int kTooManyRequests = 429;
  if (reply.status >= 500)
    return {lost, status + " without an EC2 error. " + std::string(kTrouble), {}, {}};
  if (reply.status == kTooManyRequests) return {retry_later, std::string(kSlower), {}, {}};
  const bool success = reply.status >= 200 && reply.status < 300;
  const bool like_xml = !reply.body.empty() && reply.body.front() == '<' && !is_html(reply);
  if (like_xml && !well_formed) return {lost, "the answer was cut off.", {}, {}};
  if (success && reply.body.empty()) return {lost, "the answer was empty.", {}, {}};
  if (!success || !like_xml) {
    const std::string type = header(reply, "content-type");
    return {misconfigured,
            "the endpoint did not answer like EC2 (" + (type.empty() ? status : type) +
                "): check --endpoint-url",
            {},
            {}};
  }
  return {is_read(action) ? broken : unknown_outcome,
          "the answer is not a " + std::string(action) + "Response.",
          {},
          {}};
}

}  // namespace

std::string_view bare_code(std::string_view code) {
  for (const std::string_view prefix : {"Client.", "Server."})
    if (code.starts_with(prefix)) return code.substr(prefix.size());
  return code;
}

const CodeEntry* find_code(std::string_view code, std::string_view action) {
  code = bare_code(code);
  for (const CodeEntry& entry : kCodes)
    if (entry.code == code && (entry.action.empty() || entry.action == action)) return &entry;
  return nullptr;
}

std::string_view remedy_for(std::string_view code, std::string_view action) {
  const CodeEntry* entry = find_code(code, action);
  return entry == nullptr ? std::string_view{} : entry->remedy;
}

Reaction reaction_for(std::string_view code, std::string_view action) {
  const CodeEntry* entry = find_code(code, action);
  return entry == nullptr ? Reaction::unknown : entry->reaction;
}

std::string code_of(const HttpReply& reply) {
  constexpr int kFirstRefusal = 300;
  if (reply.status < kFirstRefusal) return {};
  tinyxml2::XMLDocument document;
  if (document.Parse(reply.body.data(), reply.body.size()) != tinyxml2::XML_SUCCESS) return {};
  return std::string(bare_code(xml::text(error_element(document), "Code")));
}

Error refused(std::string_view action, const HttpReply& reply) {
  tinyxml2::XMLDocument document;
  const bool well_formed =
      document.Parse(reply.body.data(), reply.body.size()) == tinyxml2::XML_SUCCESS &&
      document.RootElement() != nullptr;  // cut off behind <?xml ...?> parses
  const xml::Element* element = well_formed ? error_element(document) : nullptr;
  std::string code(bare_code(xml::text(element, "Code")));
  Error error = code.empty() ? from_status(action, reply, well_formed)
                             : from_code(action, reply.status, std::move(code),
                                         xml::text(element, "Message"));
  if (well_formed) error.request_id = xml::text(document.RootElement(), "RequestID");
  if (well_formed && error.request_id.empty())
    error.request_id = xml::text(document.RootElement(), "RequestId");
  if (error.request_id.empty()) error.request_id = header(reply, "x-amzn-requestid");
  return error;
}

}  // namespace warmroot::aws
