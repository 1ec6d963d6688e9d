// Ec2Client over a scripted transport: what is sent again, what is not, and what the operator is
// told.
#include "manager/aws/ec2_client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "manager/aws/paging.hpp"

using namespace warmroot;
using namespace warmroot::aws;
using testing::HasSubstr;
using testing::StartsWith;

namespace {

/// Answers requests from a list, in order; keeps what was posted.
struct ScriptedTransport : Transport {
  std::deque<Result<HttpReply>> script;
  std::vector<std::vector<std::string>> posts;

  std::vector<Result<HttpReply>> post(std::span<const std::string> bodies) override {
    posts.emplace_back(bodies.begin(), bodies.end());
    std::vector<Result<HttpReply>> replies;
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      CHECK(!script.empty());
      replies.push_back(script.front());
      script.pop_front();
    }
    return replies;
  }
};

HttpReply xml(const std::string& body, int status = 200) {
  return {status, {{"content-type", "text/xml;charset=UTF-8"}}, body};
}

HttpReply refusal(const std::string& code, int status = 400) {
  return xml("<Response><Errors><Error><Code>" + code +
                 "</Code><Message>Said no.</Message></Error></Errors><RequestID>req-7</RequestID>"
                 "</Response>",
             status);
}

HttpReply volumes(const std::string& id, const std::string& next = "") {
  const std::string item = id.empty() ? "" : "<item><volumeId>" + id + "</volumeId></item>";
  return xml("<DescribeVolumesResponse><volumeSet>" + item + "</volumeSet><nextToken>" + next +
             "</nextToken></DescribeVolumesResponse>");
}

HttpReply done(const std::string& action) {
  return xml("<" + action + "Response><return>true</return></" + action + "Response>");
}

Result<HttpReply> lost(ErrorKind kind) {
  return fail(kind, "POST https://x/: Timeout was reached");
}

struct Ec2ClientTest : testing::Test {
  ScriptedTransport transport;
  std::vector<Milliseconds> sleeps;
  Ec2Client client{transport, [this](Milliseconds time) { sleeps.push_back(time); },
                   [] { return 0.5; }};
};

const EncodedCall kAttach = encode(AttachVolume{"vol-1", "i-2", "/dev/sdf"});
const EncodedCall kDelete = encode(DeleteVolume{"vol-3"});

}  // namespace

TEST(Backoff, jitter_is_full_and_the_delay_doubles_up_to_the_cap) {
  EXPECT_EQ(full_jitter(1, 0.0), Milliseconds(0));
  EXPECT_EQ(full_jitter(1, 0.5), Milliseconds(50));
  EXPECT_EQ(full_jitter(3, 0.5), Milliseconds(200));
  EXPECT_EQ(full_jitter(1000, 0.5), Milliseconds(10'000));
  EXPECT_LT(full_jitter(1000, 0.999999), kBackoffCap);
}

TEST_F(Ec2ClientTest, a_read_is_repeated_through_throttles_trouble_and_lost_answers) {
  transport.script = {refusal("RequestLimitExceeded", 503), refusal("InternalError", 500),
                      lost(ErrorKind::unknown_outcome), HttpReply{502, {}, ""}, volumes("vol-1")};
  const auto page = client.describe_volumes({});
  ASSERT_TRUE(page) << page.error().message();
  EXPECT_EQ(page->items.at(0).volume_id, "vol-1");
  EXPECT_EQ(sleeps, (std::vector{Milliseconds(50), Milliseconds(100), Milliseconds(200),
                                 Milliseconds(400)}));
}

TEST_F(Ec2ClientTest, a_read_gives_up_after_the_last_attempt_and_its_outcome_is_never_in_doubt) {
  for (int i = 0; i < kMaxLostAnswers; ++i)
    transport.script.push_back(lost(ErrorKind::unknown_outcome));
  const auto page = client.describe_volumes({});
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().kind, ErrorKind::retry_later);
  EXPECT_THAT(page.error().context, StartsWith("DescribeVolumes: POST https://x/"));
  EXPECT_THAT(page.error().context, HasSubstr("Tried 3 times"));
  EXPECT_TRUE(transport.script.empty());
  for (int i = 0; i < kMaxAttempts; ++i) transport.script.push_back(HttpReply{503, {}, ""});
  EXPECT_THAT(client.describe_volumes({}).error().context, HasSubstr("Tried 6 times"));
  EXPECT_TRUE(transport.script.empty());
}

TEST_F(Ec2ClientTest, expected_reads_go_out_together_and_each_answer_serves_one_read) {
  DescribeRequest one;
  one.ids = {"vol-1"};
  const std::string all = encode(Describe::volumes, {});
  const std::string some = encode(Describe::volumes, one);
  transport.script = {volumes("vol-2"), refusal("InternalError", 500)};
  client.expect({all, some});
  ASSERT_EQ(transport.posts.size(), 1u) << "both in one";
  EXPECT_EQ(client.describe_volumes({})->items.at(0).volume_id, "vol-2");
  EXPECT_EQ(transport.posts.size(), 1u);
  // One that failed is repeated as any other.
  transport.script = {volumes("vol-1")};
  EXPECT_EQ(client.describe_volumes(one)->items.at(0).volume_id, "vol-1");
  EXPECT_EQ(sleeps.size(), 1u);
  // The next read of the same asks again.
  transport.script = {volumes("vol-3")};
  EXPECT_EQ(client.describe_volumes({})->items.at(0).volume_id, "vol-3");
}

TEST_F(Ec2ClientTest, what_was_expected_is_forgotten_when_something_is_sent) {
  DescribeRequest one;
  one.ids = {"vol-1"};
  for (const bool by_sending : {true, false}) {
    transport.script = {volumes("vol-2"), volumes("vol-1")};
    client.expect({encode(Describe::volumes, {}), encode(Describe::volumes, one)});
    transport.script = {done("DeleteVolume")};
    if (by_sending)
      std::ignore = client.send({&kDelete, 1});
    else
      client.expect({});
    transport.script = {volumes("vol-4")};
    EXPECT_EQ(client.describe_volumes({})->items.at(0).volume_id, "vol-4");
  }
}

TEST_F(Ec2ClientTest, a_refused_read_is_not_repeated) {
  DescribeRequest request;
  request.ids = {"vol-1"};
  transport.script = {refusal("InvalidVolume.NotFound")};
  const auto page = client.describe_volumes(request);
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().kind, ErrorKind::gone);
  EXPECT_EQ(page.error().request_id, "req-7");
  EXPECT_THAT(page.error().message(),
              StartsWith("DescribeVolumes vol-1: Said no. The volume is gone"));
  EXPECT_EQ(transport.posts.size(), 1u);
}

TEST_F(Ec2ClientTest, mutations_go_out_together_and_answers_keep_their_order) {
  transport.script = {refusal("VolumeInUse"), done("DeleteVolume")};
  const std::vector<EncodedCall> calls = {kAttach, kDelete};
  const auto results = client.send(calls);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_THAT(results[0].error().context, StartsWith("AttachVolume vol-1 to i-2: Said no."));
  EXPECT_TRUE(results[1]);
  EXPECT_EQ(transport.posts, (std::vector<std::vector<std::string>>{{kAttach.body, kDelete.body}}));
}

TEST_F(Ec2ClientTest, a_throttled_mutation_keeps_nobody_waiting_and_is_returned_as_retry_later) {
  transport.script = {refusal("RequestLimitExceeded", 503), done("DeleteVolume")};
  const std::vector<EncodedCall> calls = {kAttach, kDelete};
  const auto results = client.send(calls);
  EXPECT_EQ(results[0].error().code, "RequestLimitExceeded");
  EXPECT_EQ(results[0].error().kind, ErrorKind::retry_later);
  EXPECT_TRUE(results[1]);
  EXPECT_EQ(transport.posts.size(), 1u);
  EXPECT_TRUE(sleeps.empty());
}

TEST_F(Ec2ClientTest, a_mutation_that_may_have_happened_is_never_sent_again_here) {
  for (const Result<HttpReply>& reply : std::vector<Result<HttpReply>>{
           lost(ErrorKind::unknown_outcome), HttpReply{500, {}, ""}, refusal("InternalError", 500),
           refusal("Unavailable", 503), xml("<AttachVolumeResponse><volumeId>vo")}) {
    transport.posts.clear();
    transport.script = {reply};
    const auto results = client.send({&kAttach, 1});
    ASSERT_FALSE(results[0]);
    EXPECT_EQ(results[0].error().kind, ErrorKind::unknown_outcome) << results[0].error().message();
    EXPECT_EQ(transport.posts.size(), 1u);
  }
  EXPECT_TRUE(sleeps.empty());
}

TEST_F(Ec2ClientTest, a_mutation_that_never_left_is_returned_as_retry_later) {
  transport.script = {lost(ErrorKind::retry_later)};
  const auto results = client.send({&kAttach, 1});
  EXPECT_EQ(results[0].error().kind, ErrorKind::retry_later);
  EXPECT_EQ(results[0].error().code, "");
  EXPECT_THAT(results[0].error().context, HasSubstr("check the network and --endpoint-url"));
}

TEST_F(Ec2ClientTest, a_listing_is_followed_through_empty_pages_to_its_end) {
  transport.script = {volumes("vol-1", "a"), volumes("", "b"), volumes("vol-2")};
  const auto all = collect_all(client, &Ec2::describe_volumes, DescribeRequest{});
  ASSERT_TRUE(all) << all.error().message();
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ(all->at(1).volume_id, "vol-2");
  EXPECT_THAT(transport.posts[2][0], HasSubstr("NextToken=b"));
}

TEST_F(Ec2ClientTest, missing_credentials_are_said_once_and_not_retried) {
  transport.script = {fail(ErrorKind::unauthorised, "no AWS credentials")};
  const auto page = client.describe_volumes({});
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().kind, ErrorKind::unauthorised);
  EXPECT_EQ(page.error().context, "DescribeVolumes: no AWS credentials");
}

TEST_F(Ec2ClientTest, many_filter_values_are_asked_for_in_portions_and_none_asks_nothing) {
  std::vector<std::string> ids;
  for (int i = 0; i < 201; ++i) ids.push_back("vol-" + std::to_string(i));
  transport.script = {volumes("vol-1"), volumes("vol-200")};
  const auto all = collect_matching(client, &Ec2::describe_volumes, "volume-id", ids);
  ASSERT_TRUE(all) << all.error().message();
  EXPECT_EQ(all->size(), 2u);
  ASSERT_EQ(transport.posts.size(), 2u);
  EXPECT_THAT(transport.posts[0][0], HasSubstr("Filter.1.Value.200=vol-199"));
  EXPECT_THAT(transport.posts[1][0], testing::EndsWith("Filter.1.Value.1=vol-200"));
  EXPECT_TRUE(collect_matching(client, &Ec2::describe_volumes, "volume-id", {})->empty());
  EXPECT_EQ(transport.posts.size(), 2u);
}

TEST_F(Ec2ClientTest, an_expired_token_restarts_a_listing_once) {
  transport.script = {volumes("vol-1", "a"), refusal("InvalidNextToken"), volumes("vol-1", "a"),
                      volumes("vol-2")};
  const auto all = collect_all(client, &Ec2::describe_volumes, DescribeRequest{});
  ASSERT_TRUE(all) << all.error().message();
  EXPECT_EQ(all->size(), 2u) << "what the first try had listed must not be there twice";
  transport.script = {volumes("vol-1", "a"), refusal("InvalidNextToken"), volumes("vol-1", "a"),
                      refusal("InvalidNextToken")};
  EXPECT_FALSE(collect_all(client, &Ec2::describe_volumes, DescribeRequest{}));
}

TEST_F(Ec2ClientTest, a_dry_run_is_repeated_like_a_read_and_never_in_doubt) {
  transport.script = {refusal("RequestLimitExceeded", 503), lost(ErrorKind::unknown_outcome),
                      refusal("DryRunOperation", 412)};
  int allowance = 4;
  EXPECT_TRUE(client.dry_run(DeleteVolume{"vol-1"}, allowance));
  EXPECT_EQ(allowance, 1) << "three were sent";
  EXPECT_THAT(transport.posts.back().front(), HasSubstr("&DryRun=true"));
  transport.script = {refusal("UnauthorizedOperation", 403)};
  const auto denied = client.dry_run(DeleteVolume{"vol-1"});
  ASSERT_FALSE(denied);
  EXPECT_THAT(denied.error().context, StartsWith("dry run of DeleteVolume vol-1: Said no."));
  transport.script = {lost(ErrorKind::unknown_outcome), lost(ErrorKind::unknown_outcome),
                      lost(ErrorKind::unknown_outcome)};
  EXPECT_EQ(client.dry_run(DeleteVolume{"vol-1"}).error().kind, ErrorKind::retry_later);
}

TEST_F(Ec2ClientTest, a_dry_run_is_repeated_no_more_often_than_it_may_be) {
  transport.script = {refusal("RequestLimitExceeded", 503), refusal("RequestLimitExceeded", 503),
                      refusal("DryRunOperation", 412)};
  int allowance = 2;
  EXPECT_EQ(client.dry_run(DeleteVolume{"vol-1"}, allowance).error().kind, ErrorKind::retry_later);
  EXPECT_EQ(allowance, 0);
  EXPECT_EQ(transport.posts.size(), 2U);
}

TEST_F(Ec2ClientTest, one_id_that_is_gone_is_found_by_halves_and_left_out) {
  const auto statuses = [](std::vector<std::string> ids) {
    std::string items;
    for (const auto& id : ids) items += "<item><instanceId>" + id + "</instanceId></item>";
    return xml("<DescribeInstanceStatusResponse><instanceStatusSet>" + items +
               "</instanceStatusSet></DescribeInstanceStatusResponse>");
  };
  const std::vector<std::string> ids = {"i-1", "i-2", "i-3", "i-gone"};
  transport.script = {refusal("InvalidInstanceID.NotFound"), statuses({"i-1", "i-2"}),
                      refusal("InvalidInstanceID.NotFound"), statuses({"i-3"}),
                      refusal("InvalidInstanceID.NotFound")};
  std::vector<InstanceStatus> found;
  ASSERT_TRUE(collect_present(client, &Ec2::describe_instance_status, ids, found));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found.back().instance_id, "i-3");
  transport.script = {refusal("UnauthorizedOperation", 403)};
  EXPECT_FALSE(collect_present(client, &Ec2::describe_instance_status, ids, found));
}
