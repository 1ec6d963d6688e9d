// The metadata service over HTTP, played by a server on loopback that expires tokens.
#include <gmock/gmock.h>
#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <string>

#include "bootstrap/imds.hpp"
#include "tests/loopback_server.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Metadata : public testing::Test {
 protected:
  void SetUp() override {
    server_.http.Put(
        "/latest/api/token", [this](const httplib::Request& request, httplib::Response& reply) {
          ++tokens_;
          reply.status = request.has_header("X-aws-ec2-metadata-token-ttl-seconds") ? 200 : 400;
          reply.set_content("token-" + std::to_string(tokens_), "text/plain");
        });
    server_.http.Get("/latest/.*",
                     [this](const httplib::Request& request, httplib::Response& reply) {
                       if (request.get_header_value("X-aws-ec2-metadata-token") !=
                           "token-" + std::to_string(valid_)) {
                         reply.status = 401;
                         return;
                       }
                       const auto found = answers_.find(request.path.substr(8));
                       if (found == answers_.end())
                         reply.status = 404;
                       else
                         reply.set_content(found->second, "text/plain");
                     });
    server_.start();
  }
  std::atomic<int> tokens_ = 0, valid_ = 1;
  std::map<std::string, std::string> answers_{
      {"meta-data/instance-id", "i-1"},
      {"meta-data/placement/availability-zone", "us-east-1a"},
      {"meta-data/block-device-mapping/", "ami\nebs1\nroot"},
      {"meta-data/block-device-mapping/ami", "xvda"},
      {"meta-data/block-device-mapping/ebs1", "/dev/sdb"},
      {"meta-data/block-device-mapping/root", "/dev/xvda"},
      {"meta-data/public-keys/0/openssh-key", "ssh-ed25519 AAAA key\n"}};
  Server server_;
};

TEST_F(Metadata, launch_facts_come_whole_with_one_token) {
  const auto facts = Imds(server_.url()).launch_facts();
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->instance_id, "i-1");
  EXPECT_EQ(facts->zone, "us-east-1a");
  EXPECT_THAT(facts->device_names, ElementsAre("xvda", "sdb", "xvda"));
  EXPECT_EQ(facts->public_key, "ssh-ed25519 AAAA key");
  EXPECT_EQ(tokens_, 1);
}

TEST_F(Metadata, what_cannot_be_true_of_a_launch_is_not_believed) {
  answers_["meta-data/block-device-mapping/"] = "ami\n../../user-data\nroot\n";
  answers_["meta-data/block-device-mapping/root"] = "/dev/xvda\033[2J";
  answers_["meta-data/public-keys/0/openssh-key"] = "ssh-ed25519 AAAA \033]0;key\007\nmore";
  Imds imds(server_.url());  // another one would have another token, and be refused for that
  const auto facts = imds.launch_facts();
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_THAT(facts->device_names, ElementsAre("xvda"));
  EXPECT_EQ(facts->public_key, "");
  for (const char* id : {"i-1\n", "i-1 ", "../i-1", "i-\033[2J"}) {
    answers_["meta-data/instance-id"] = id;
    const auto refused = imds.launch_facts();
    ASSERT_FALSE(refused) << id;
    EXPECT_THAT(refused.error().message(), HasSubstr("instance-id is none")) << id;
  }
}

TEST_F(Metadata, an_instance_type_that_can_be_none_is_not_believed) {
  Imds imds(server_.url());
  EXPECT_EQ(imds.instance_type(), "") << "it is not told";
  answers_["meta-data/instance-type"] = "u7i-12tb.224xlarge";
  EXPECT_EQ(imds.instance_type(), "u7i-12tb.224xlarge");
  for (const char* none : {"", "m5.large\n", "m5.large\033[2J", "../../user-data", "m5 large"}) {
    answers_["meta-data/instance-type"] = none;
    EXPECT_EQ(imds.instance_type(), "") << none;
  }
}

TEST_F(Metadata, an_expired_token_is_renewed_once) {
  Imds imds(server_.url());
  ASSERT_TRUE(imds.find("meta-data/instance-id"));
  valid_ = 2;
  const auto again = imds.find("meta-data/instance-id");
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, "i-1");
  valid_ = 99;
  const auto refused = imds.find("meta-data/instance-id");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("401"));
}

TEST_F(Metadata, the_signed_identity_is_absent_or_bounded) {
  Imds imds(server_.url());
  EXPECT_EQ(*imds.identity_signature(), std::nullopt);
  answers_["dynamic/instance-identity/rsa2048"] = "MIAG\nAQID";
  EXPECT_EQ(*imds.identity_signature(), "MIAG\nAQID");
  answers_["dynamic/instance-identity/rsa2048"] = std::string(kMaxSignatureBytes + 1, 'A');
  EXPECT_EQ(*imds.identity_signature(), std::nullopt);
}

TEST_F(Metadata, what_is_not_there_is_absent_and_a_missing_key_no_error) {
  Imds imds(server_.url());
  const auto notice = imds.find("meta-data/spot/instance-action");
  ASSERT_TRUE(notice);
  EXPECT_EQ(*notice, std::nullopt);
  answers_.erase("meta-data/public-keys/0/openssh-key");
  EXPECT_TRUE(imds.launch_facts());
  answers_.erase("meta-data/instance-id");
  EXPECT_FALSE(imds.launch_facts());
}

/// The bootstrap gave up after 240 attempts, and the instance had no volume for good.
TEST(MetadataSilence, a_service_that_answers_after_hours_is_asked_still_and_people_are_told_once) {
  std::chrono::milliseconds waited{0}, longest{0}, told_at{-1};
  int silences = 0;
  bool stopped = false;
  const auto facts_after = [&](std::chrono::milliseconds silent) {
    return ask_until_answered(
        [&]() -> Result<LaunchFacts> {
          if (waited < silent) return fail(ErrorKind::retry_later, "nobody answers");
          return LaunchFacts{"i-1", "us-east-1a", {}, ""};
        },
        [&](std::chrono::milliseconds pause) {
          waited += pause;
          longest = std::max(longest, pause);
          return stopped;
        },
        [&](const Error& why) {
          EXPECT_EQ(why.message(), "nobody answers");
          told_at = waited;
          ++silences;
        });
  };
  ASSERT_TRUE(facts_after(std::chrono::minutes(3)));
  EXPECT_EQ(silences, 0);
  EXPECT_EQ(longest, std::chrono::seconds(1));
  waited = {};
  const auto facts = facts_after(std::chrono::hours(5));
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->instance_id, "i-1");
  EXPECT_EQ(silences, 1);
  EXPECT_EQ(told_at, std::chrono::seconds(239));
  EXPECT_EQ(longest, std::chrono::seconds(30));
  waited = {};
  stopped = true;
  EXPECT_FALSE(facts_after(std::chrono::hours(5)));
  EXPECT_EQ(waited, std::chrono::seconds(1)) << "a stop is heard at once";
}

}  // namespace
}  // namespace warmroot::bootstrap
