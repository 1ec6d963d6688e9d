// Every answer of EC2 has its reaction: the table of ec2_codes.cpp against the rows of the wire
// reference, and what outcome.cpp makes of each entry for each call that can meet it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "manager/aws/ec2_codec.hpp"
#include "manager/outcome.hpp"

using namespace warmroot;
using namespace warmroot::aws;
using core::IntentState;
using manager::judge;
using manager::Outcome;
using testing::HasSubstr;
using testing::Not;
using R = Reaction;

namespace {

HttpReply refusal(std::string_view code, int status = 400, const std::string& message = "no.") {
  return {status,
          {{"content-type", "text/xml;charset=UTF-8"}},
          "<Response><Errors><Error><Code>" + std::string(code) + "</Code><Message>" + message +
              "</Message></Error></Errors><RequestID>req-1</RequestID></Response>"};
}

const std::vector<std::string> kMutations = {
    "RunInstances", "CreateVolume",         "AttachVolume",         "DetachVolume",
    "DeleteVolume", "TerminateInstances",   "CreateTags",           "DeleteTags",
    "CreateFleet",  "CreateLaunchTemplate", "DeleteLaunchTemplate", "ModifyInstanceAttribute",
    "CopyVolumes",  "CreateSnapshot",       "StopInstances"};

Outcome outcome_of(const std::string& action, std::string_view code, int status = 400) {
  core::Intent intent;
  intent.call = {action, "Action=" + action + "&Version=2016-11-15"};
  if (action.starts_with("Create") || action == "RunInstances" || action == "CopyVolumes")
    intent.token = "token";
  return judge(intent, decode_answer(action, refusal(code, status)));
}

/// What every entry of a reaction must become, whatever its code.
void expect_reaction(const CodeEntry& entry, const std::string& action) {
  const std::string what = action + " refused with " + std::string(entry.code);
  const Outcome outcome = outcome_of(action, entry.code);
  const R reaction = entry.reaction;
  const auto state = reaction == R::transient ? IntentState::unknown
                     : reaction == R::done    ? IntentState::accepted
                                              : IntentState::refused;
  EXPECT_EQ(outcome.state, state) << what;
  EXPECT_EQ(outcome.throttled, reaction == R::throttled) << what;
  EXPECT_EQ(outcome.keeps_lease, reaction == R::look) << what;
  EXPECT_EQ(outcome.refuses_device, reaction == R::device) << what;
  const bool another_instance = reaction == R::change || reaction == R::wait;
  EXPECT_EQ(outcome.refuses_instance, another_instance && action == "AttachVolume") << what;
  const bool has_token =
      action.starts_with("Create") || action == "RunInstances" || action == "CopyVolumes";
  EXPECT_EQ(outcome.burns_token, reaction == R::new_token && has_token) << what;
  EXPECT_EQ(outcome.token_was_used, outcome.burns_token) << what;
  EXPECT_EQ(outcome.code, entry.code) << what;
  EXPECT_THAT(outcome.sentence, HasSubstr(std::string(entry.remedy))) << what;
  EXPECT_THAT(outcome.sentence, HasSubstr("req-1")) << what;
  const std::set<R> need_somebody = {R::account, R::permission, R::credentials, R::request};
  if (need_somebody.contains(reaction)) {
    EXPECT_FALSE(outcome.transient) << what;
  }
  if (entry.kind == ErrorKind::misconfigured) {
    EXPECT_FALSE(outcome.transient) << what;
  }
  const std::set<R> pass = {R::throttled, R::look, R::wait, R::device, R::new_token};
  if (pass.contains(reaction)) {
    EXPECT_TRUE(outcome.transient) << what;
  }
}

struct Row {
  std::vector<std::string_view> codes;
  std::string_view action;  ///< empty: for a call that has no entry of its own
  R reaction;
};

/// The wire reference's list of codes, row by row. Not the table: the table is checked against it.
const std::vector<Row> kReference = {
    {{"RequestLimitExceeded"}, "", R::throttled},
    {{"Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled",
      "RequestThrottledException", "TooManyRequestsException", "BandwidthLimitExceeded",
      "LimitExceededException", "SlowDown", "PriorRequestNotComplete",
      "TransactionInProgressException", "ProvisionedThroughputExceededException",
      "EC2ThrottledException"},
     "",
     R::throttled},
    {{"InternalError", "InternalFailure", "ServerInternal", "ServiceUnavailable", "Unavailable",
      "RetryableError"},
     "",
     R::transient},
    {{"RequestTimeout", "RequestTimeoutException"}, "", R::transient},
    {{"RequestExpired", "AuthFailure"}, "", R::credentials},
    {{"SignatureDoesNotMatch", "InvalidClientTokenId", "MissingAuthenticationToken",
      "IncompleteSignature", "InvalidSignature"},
     "",
     R::permission},
    {{"ExpiredToken", "ExpiredTokenException"}, "", R::credentials},
    {{"UnauthorizedOperation"}, "", R::permission},
    {{"OptInRequired", "PendingVerification", "Blocked", "AccountDisabled"}, "", R::account},
    {{"DryRunOperation"}, "", R::done},
    {{"MissingParameter"}, "", R::request},
    {{"UnknownParameter", "InvalidParameter", "InvalidParameterCombination",
      "InvalidParameterValue", "InvalidInput", "MalformedQueryString", "InvalidAction",
      "InvalidQueryParameter"},
     "",
     R::request},
    {{"InvalidParameterValue"}, "AttachVolume", R::device},
    {{"IdempotentParameterMismatch"}, "CreateVolume", R::new_token},
    {{"IdempotentInstanceTerminated"}, "RunInstances", R::new_token},
    {{"InvalidInstanceID.NotFound"}, "", R::absent},
    {{"InvalidInstanceID.Malformed"}, "", R::request},
    {{"InvalidVolume.NotFound"}, "AttachVolume", R::absent},
    {{"InvalidVolume.NotFound"}, "DeleteVolume", R::done},
    {{"InvalidVolume.NotFound"}, "DetachVolume", R::done},
    {{"InvalidVolumeID.Malformed"}, "", R::request},
    {{"InvalidVolume.ZoneMismatch"}, "AttachVolume", R::request},
    {{"InvalidVolume.Duplicate"}, "CreateVolume", R::request},
    {{"InvalidAttachment.NotFound"}, "DetachVolume", R::done},
    {{"IncorrectState"}, "AttachVolume", R::wait},
    {{"IncorrectState"}, "DetachVolume", R::done},
    {{"IncorrectState"}, "CreateVolume", R::wait},
    {{"IncorrectInstanceState"}, "", R::wait},
    {{"VolumeInUse"}, "AttachVolume", R::look},
    {{"VolumeInUse"}, "DeleteVolume", R::wait},
    {{"AttachmentLimitExceeded"}, "AttachVolume", R::change},
    {{"CustomerKeyHasBeenRevoked"}, "", R::account},
    {{"EncryptedVolumesNotSupported", "VolumeTypeNotAvailableInZone", "UnknownVolumeType"},
     "CreateVolume",
     R::change},
    {{"InvalidZone.NotFound"}, "CreateVolume", R::request},
    {{"InsufficientVolumeCapacity"}, "CreateVolume", R::change},
    {{"VolumeLimitExceeded", "MaxIOPSLimitExceeded"}, "CreateVolume", R::account},
    {{"CopyVolumesLimitExceeded", "ConcurrentCopyVolumeLimitExceeded"}, "CopyVolumes", R::wait},
    {{"VolumeModificationSizeLimitExceeded", "VolumeModificationRateExceeded",
      "IncorrectModificationState"},
     "",
     R::wait},
    {{"InvalidVolumeModification.NotFound"}, "", R::absent},
    {{"InvalidSnapshot.NotFound"}, "CreateVolume", R::absent},
    {{"InvalidSnapshotID.Malformed", "InvalidSnapshot.InUse"}, "", R::request},
    {{"SnapshotCreationPerVolumeRateExceeded", "ConcurrentSnapshotLimitExceeded",
      "PendingSnapshotLimitExceeded", "ResourceLimitExceeded"},
     "CreateSnapshot",
     R::wait},
    {{"SnapshotLimitExceeded"}, "CreateSnapshot", R::account},
    {{"InvalidAMIID.NotFound"}, "RunInstances", R::absent},
    {{"InvalidAMIID.Malformed", "InvalidAMIID.Unavailable", "InvalidBlockDeviceMapping"},
     "RunInstances",
     R::request},
    {{"InvalidSubnetID.NotFound", "InvalidGroup.NotFound", "InvalidKeyPair.NotFound",
      "InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateId.NotFound"},
     "CreateFleet",
     R::absent},
    {{"InvalidUserData.Malformed"}, "RunInstances", R::request},
    {{"InsufficientInstanceCapacity", "UnfulfillableCapacity", "InsufficientCapacity",
      "InsufficientHostCapacity", "ReservationCapacityExceeded"},
     "CreateFleet",
     R::change},
    {{"MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "InstanceLimitExceeded",
      "MaxFleetCountExceeded", "ResourceCountExceeded"},
     "CreateFleet",
     R::account},
    {{"MaxConfigLimitExceeded", "MaxConfigLimitExceededException"}, "", R::account},
    {{"SpotMaxPriceTooLow", "Unsupported", "InsufficientFreeAddressesInSubnet"},
     "RunInstances",
     R::change},
    {{"AuthFailure.ServiceLinkedRoleCreationNotPermitted"}, "RunInstances", R::account},
    {{"OperationNotPermitted"}, "TerminateInstances", R::account},
    {{"OperationNotPermitted"}, "StopInstances", R::account},
    {{"ConcurrentTagAccess"}, "CreateTags", R::throttled},
    {{"ServerInternal"}, "CreateTags", R::transient},
    {{"TagLimitExceeded", "InvalidTagKey.Malformed", "TagPolicyViolation"},
     "CreateTags",
     R::request},
    {{"FilterLimitExceeded"}, "DescribeVolumes", R::request},
    {{"InvalidMaxResults", "InvalidNextToken", "InvalidPaginationToken"},
     "DescribeVolumes",
     R::restart},
    // The sets that other controllers keep: Karpenter's "no capacity", the CSI driver's "invalid".
    {{"InvalidParameterDependency", "ValidationError"}, "", R::request},
    {{"UnsupportedOperation"}, "", R::change},
};

}  // namespace

TEST(Reactions, every_row_of_the_reference_is_in_the_table) {
  for (const Row& row : kReference)
    for (const std::string_view code : row.codes)
      EXPECT_EQ(static_cast<int>(reaction_for(code, row.action)), static_cast<int>(row.reaction))
          << code << " of " << (row.action.empty() ? "any call" : row.action);
}

TEST(Reactions, every_entry_becomes_what_its_reaction_says_for_every_call_that_can_meet_it) {
  for (const CodeEntry& entry : all_codes())
    for (const std::string& action : kMutations)
      if (find_code(entry.code, action) == &entry) expect_reaction(entry, action);
}

TEST(Reactions, the_table_has_no_entry_that_is_never_found_and_no_second_one) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const CodeEntry& entry : all_codes()) {
    EXPECT_TRUE(seen.insert({entry.code, entry.action}).second) << entry.code;
    EXPECT_EQ(find_code(entry.code, entry.action), &entry) << entry.code << " " << entry.action;
    EXPECT_EQ(bare_code(entry.code), entry.code);
    ASSERT_FALSE(entry.remedy.empty()) << entry.code;
    EXPECT_EQ(entry.remedy.back(), '.') << entry.code;
    EXPECT_FALSE(entry.source.empty()) << entry.code;
  }
}

TEST(Reactions, the_prefixes_of_console_and_trail_change_nothing) {
  for (const CodeEntry& entry : all_codes())
    for (const char* prefix : {"Client.", "Server."})
      EXPECT_EQ(find_code(prefix + std::string(entry.code), entry.action), &entry) << entry.code;
}

TEST(Reactions, codes_match_and_texts_do_not) {
  const auto of_message = [](const std::string& message) {
    core::Intent intent;
    intent.call = {"AttachVolume", "Action=AttachVolume"};
    return judge(intent,
                 decode_answer("AttachVolume", refusal("InvalidParameterValue", 400, message)));
  };
  for (const char* message :
       {"Invalid value '/dev/sdf' for unixDevice. Attachment point /dev/sdf is already in use",
        "Value (/dev/sdk1) for parameter device is invalid. /dev/sdk1 is not a valid EBS device "
        "name.",
        "Dieser Name ist vergeben", ""})
    EXPECT_TRUE(of_message(message).refuses_device) << message;
  EXPECT_FALSE(outcome_of("RunInstances", "InvalidParameterValue").refuses_device);
}

TEST(Reactions, a_code_nobody_knows_is_refused_and_waits_for_somebody_unless_it_is_a_5xx) {
  for (const std::string& action : kMutations) {
    const Outcome refused = outcome_of(action, "NeverHeardOfThis");
    EXPECT_EQ(refused.state, IntentState::refused) << action;
    EXPECT_FALSE(refused.transient) << action;
    EXPECT_FALSE(refused.burns_token) << action;
    EXPECT_EQ(outcome_of(action, "NeverHeardOfThis", 500).state, IntentState::unknown) << action;
  }
}

TEST(Reactions, a_known_refusal_is_one_even_when_the_status_is_5xx) {
  for (const char* code : {"InsufficientInstanceCapacity", "InsufficientVolumeCapacity"})
    EXPECT_EQ(outcome_of("RunInstances", code, 500).state, IntentState::refused) << code;
}

TEST(Reactions, what_the_spec_names_wrongly_waits_for_the_operator_and_what_we_saw_does_not) {
  EXPECT_FALSE(outcome_of("CreateVolume", "InvalidSnapshot.NotFound").transient);
  EXPECT_FALSE(outcome_of("RunInstances", "InvalidSubnetID.NotFound").transient);
  EXPECT_FALSE(outcome_of("RunInstances", "Unsupported").transient);
  EXPECT_FALSE(outcome_of("AttachVolume", "AttachmentLimitExceeded").transient);
  EXPECT_TRUE(outcome_of("AttachVolume", "InvalidVolume.NotFound").transient);
  EXPECT_TRUE(outcome_of("TerminateInstances", "InvalidInstanceID.NotFound").transient);
  EXPECT_TRUE(outcome_of("CreateFleet", "InvalidLaunchTemplateId.NotFound").transient);
  EXPECT_TRUE(outcome_of("RunInstances", "InsufficientInstanceCapacity", 500).transient);
}
