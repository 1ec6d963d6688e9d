// What is made of a refusal, of HTML, of nothing and of another action's answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ec2_answers.hpp"

using namespace warmroot;
using namespace warmroot::aws;
using testing::HasSubstr;

TEST(Ec2Errors, a_refusal_has_kind_code_request_id_message_and_remedy) {
  const auto error =
      error_of("DetachVolume", xml_reply(read_golden("error-IncorrectState.xml"), 400));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, ErrorKind::gone);
  EXPECT_EQ(error->code, "IncorrectState");
  EXPECT_EQ(error->request_id, "4a1b2c3d-0000-4000-8000-000000000001");
  EXPECT_THAT(error->context, HasSubstr("is in the 'available' state. The volume is not attached"));
}

TEST(Ec2Errors, codes_have_their_kinds) {
  struct Case {
    const char* action;
    const char* code;
    int status;
    ErrorKind kind;
  };
  for (const Case& test : std::vector<Case>{
           {"AttachVolume", "RequestLimitExceeded", 503, ErrorKind::retry_later},
           {"DescribeVolumes", "RequestLimitExceeded", 503, ErrorKind::retry_later},
           {"AttachVolume", "InternalError", 500, ErrorKind::unknown_outcome},
           {"DescribeVolumes", "InternalError", 500, ErrorKind::retry_later},
           {"AttachVolume", "Unavailable", 503, ErrorKind::unknown_outcome},
           {"AttachVolume", "IncorrectState", 400, ErrorKind::retry_later},
           {"DetachVolume", "IncorrectState", 400, ErrorKind::gone},
           {"DeleteVolume", "InvalidVolume.NotFound", 400, ErrorKind::gone},
           {"DeleteVolume", "Client.InvalidVolume.NotFound", 400, ErrorKind::gone},
           {"AttachVolume", "VolumeInUse", 400, ErrorKind::refused},
           {"AttachVolume", "InvalidParameterValue", 400, ErrorKind::refused},
           {"RunInstances", "InvalidParameterValue", 400, ErrorKind::misconfigured},
           {"RunInstances", "Server.InsufficientInstanceCapacity", 500, ErrorKind::retry_later},
           {"RunInstances", "MaxSpotInstanceCountExceeded", 400, ErrorKind::refused},
           {"RunInstances", "UnauthorizedOperation", 403, ErrorKind::unauthorised},
           {"RunInstances", "SomethingNew", 400, ErrorKind::refused},
           {"RunInstances", "SomethingNew", 500, ErrorKind::unknown_outcome},
           {"DescribeVolumes", "SomethingNew", 500, ErrorKind::retry_later},
       }) {
    const auto error = error_of(test.action, refusal(test.code, test.status));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind, test.kind) << test.action << " " << test.code;
  }
}

TEST(Ec2Errors, prefixes_are_stripped_and_every_remedy_is_a_sentence) {
  EXPECT_EQ(bare_code("Client.InvalidVolume.NotFound"), "InvalidVolume.NotFound");
  EXPECT_EQ(bare_code("Server.InternalError"), "InternalError");
  EXPECT_EQ(bare_code("InvalidVolume.NotFound"), "InvalidVolume.NotFound");
  EXPECT_EQ(reaction_for("Client.RequestLimitExceeded"), Reaction::throttled);
  EXPECT_EQ(reaction_for("NoSuchCode"), Reaction::unknown);
  EXPECT_EQ(remedy_for("NoSuchCode"), "");
  for (const char* code : {"RequestLimitExceeded", "AuthFailure", "VolumeLimitExceeded",
                           "InvalidSnapshot.NotFound", "UnauthorizedOperation", "InternalError"}) {
    ASSERT_FALSE(remedy_for(code).empty()) << code;
    EXPECT_EQ(remedy_for(code).back(), '.') << code;
  }
}

TEST(Ec2Errors, html_is_a_wrong_endpoint_unless_it_is_a_server_error) {
  for (const int status : {200, 301, 404, 405}) {
    const HttpReply html{status, {{"content-type", "text/html"}}, "<!DOCTYPE html><p>hello<br>"};
    for (const char* action : {"DescribeVolumes", "AttachVolume"}) {
      const auto error = error_of(action, html);
      ASSERT_TRUE(error);
      EXPECT_EQ(error->kind, ErrorKind::misconfigured) << status;
      EXPECT_EQ(error->code, kNotEc2);
      EXPECT_EQ(error->context,
                "the endpoint did not answer like EC2 (text/html): check --endpoint-url");
    }
  }
  const HttpReply bad_gateway{502, {{"content-type", "text/html"}}, "<html>502</html>"};
  EXPECT_EQ(error_of("DescribeVolumes", bad_gateway)->kind, ErrorKind::retry_later);
  EXPECT_EQ(error_of("AttachVolume", bad_gateway)->kind, ErrorKind::unknown_outcome);
}

TEST(Ec2Errors, status_429_without_a_code_is_a_throttle) {
  for (const char* body : {"", "<html>slow down</html>"}) {
    const auto error = error_of("AttachVolume", {429, {}, body});
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind, ErrorKind::retry_later);
    EXPECT_EQ(reaction_for(error->code, "AttachVolume"), Reaction::throttled);
    EXPECT_EQ(error->context,
              "refused with HTTP 429. " + std::string(remedy_for("RequestLimitExceeded")));
  }
}

TEST(Ec2Errors, an_empty_reply_is_transient_for_reads_and_unknown_for_mutations) {
  for (const int status : {200, 500, 503}) {
    const HttpReply empty{status, {}, ""};
    EXPECT_EQ(error_of("DescribeVolumes", empty)->kind, ErrorKind::retry_later) << status;
    EXPECT_EQ(error_of("CreateVolume", empty)->kind, ErrorKind::unknown_outcome) << status;
  }
}

TEST(Ec2Errors, another_actions_answer_is_broken_for_reads_and_unknown_for_mutations) {
  EXPECT_EQ(error_of("DescribeVolumes", answer("DescribeInstances"))->kind, ErrorKind::broken);
  EXPECT_EQ(error_of("AttachVolume", answer("DescribeInstances"))->kind,
            ErrorKind::unknown_outcome);
}

TEST(Ec2Errors, the_code_of_a_refusal_can_be_read_without_decoding) {
  EXPECT_EQ(code_of(refusal("Client.RequestExpired")), "RequestExpired");
  EXPECT_EQ(code_of(answer("DescribeVolumes")), "");
  EXPECT_EQ(code_of({400, {}, "<html>"}), "");
}
