// Queues and events of the simulated region in one process: SQS's JSON protocol and what
// EventBridge puts into a queue.
#include <nlohmann/json.hpp>

#include "tests/region_fixture.hpp"
#include "tests/sim/event_bus.hpp"

using namespace warmroot;
using namespace warmroot::sim;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

class RegionSqsTest : public RegionTest {
 protected:
  RegionSqsTest() { bus.set_queue("events"); }

  SqsReply ask(const std::string& action, json members) {
    if (!members.contains("QueueUrl") && !members.contains("QueueName")) members["QueueUrl"] = url;
    return sqs.answer("AmazonSQS." + action, members.dump());
  }
  json receive(int most = 10, int visibility = 30) {
    const auto reply =
        ask("ReceiveMessage", {{"MaxNumberOfMessages", most}, {"VisibilityTimeout", visibility}});
    EXPECT_EQ(reply.status, 200) << reply.body;
    return json::parse(reply.body).value("Messages", json::array());
  }
  /// The "detail-type state" of each message, in order, all deleted.
  std::vector<std::string> drain() {
    std::vector<std::string> out;
    for (auto messages = receive(); !messages.empty(); messages = receive())
      for (const auto& message : messages) {
        const auto event = json::parse(message["Body"].get<std::string>());
        out.push_back(event["detail-type"].get<std::string>() + " " +
                      event["detail"].value("state", ""));
        EXPECT_EQ(ask("DeleteMessage", {{"ReceiptHandle", message["ReceiptHandle"]}}).status, 200);
      }
    return out;
  }

  Sqs sqs{region, "https://sqs.us-east-1.amazonaws.com"};
  EventBus bus{region, sqs};
  std::string url = sqs.create_queue("events");
};

TEST_F(RegionSqsTest, a_message_is_hidden_while_in_flight_and_gone_once_deleted) {
  EXPECT_EQ(url, "https://sqs.us-east-1.amazonaws.com/111122223333/events");
  sqs.send("events", "hello");
  const auto first = receive();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0]["Body"], "hello");
  EXPECT_EQ(first[0]["MD5OfBody"], "5d41402abc4b2a76b9719d911017c592");
  EXPECT_TRUE(receive().empty());
  region.advance_by(30s);
  const auto second = receive();
  ASSERT_EQ(second.size(), 1U) << "not deleted in time: it comes again";
  EXPECT_NE(second[0]["ReceiptHandle"], first[0]["ReceiptHandle"]);
  EXPECT_EQ(second[0]["Attributes"]["ApproximateReceiveCount"], "2");
  EXPECT_EQ(ask("DeleteMessage", {{"ReceiptHandle", first[0]["ReceiptHandle"]}}).status, 200);
  EXPECT_EQ(sqs.size("events"), 1U) << "only the newest receipt counts";
  EXPECT_EQ(ask("DeleteMessage", {{"ReceiptHandle", second[0]["ReceiptHandle"]}}).status, 200);
  EXPECT_EQ(sqs.size("events"), 0U);
}

TEST_F(RegionSqsTest, an_empty_receive_has_no_messages_at_all) {
  const auto reply = ask("ReceiveMessage", {{"WaitTimeSeconds", 20}});
  EXPECT_EQ(reply.body, "{}");
  EXPECT_TRUE(reply.empty_receive);
  EXPECT_EQ(reply.wait, 20s);
}

TEST_F(RegionSqsTest, ten_messages_at_most_and_deleted_together) {
  for (int at = 0; at < 12; ++at) sqs.send("events", std::to_string(at));
  const auto messages = receive();
  ASSERT_EQ(messages.size(), 10U);
  json entries = json::array();
  for (const auto& message : messages)
    entries.push_back(
        {{"Id", std::to_string(entries.size())}, {"ReceiptHandle", message["ReceiptHandle"]}});
  entries[9]["ReceiptHandle"] = "";
  const auto reply = json::parse(ask("DeleteMessageBatch", {{"Entries", entries}}).body);
  EXPECT_EQ(reply["Successful"].size(), 9U);
  EXPECT_EQ(reply["Failed"][0]["Code"], "ReceiptHandleIsInvalid");
  EXPECT_EQ(sqs.size("events"), 3U);
}

TEST_F(RegionSqsTest, a_message_can_be_hidden_for_longer_or_shown_at_once) {
  sqs.send("events", "x");
  auto handle = receive()[0]["ReceiptHandle"];
  EXPECT_EQ(ask("ChangeMessageVisibility", {{"ReceiptHandle", handle}, {"VisibilityTimeout", 100}})
                .status,
            200);
  region.advance_by(99s);
  EXPECT_TRUE(receive().empty());
  region.advance_by(1s);
  handle = receive()[0]["ReceiptHandle"];
  EXPECT_EQ(
      ask("ChangeMessageVisibility", {{"ReceiptHandle", handle}, {"VisibilityTimeout", 0}}).status,
      200);
  EXPECT_EQ(receive().size(), 1U);
}

TEST_F(RegionSqsTest, refusals_are_sqs_errors) {
  const auto missing = ask("ReceiveMessage", {{"QueueUrl", url + "x"}});
  EXPECT_EQ(missing.status, 400);
  EXPECT_EQ(json::parse(missing.body)["__type"], "com.amazonaws.sqs#QueueDoesNotExist");
  EXPECT_EQ(ask("ReceiveMessage", {{"MaxNumberOfMessages", 11}}).code, "InvalidParameterValue");
  EXPECT_EQ(ask("ReceiveMessage", {{"WaitTimeSeconds", 21}}).code, "InvalidParameterValue");
  EXPECT_EQ(ask("Dance", {{"QueueUrl", url}}).code, "UnsupportedOperation");
  EXPECT_EQ(sqs.answer("AmazonSQS.ReceiveMessage", "[").code, "SerializationException");
  EXPECT_EQ(json::parse(ask("GetQueueUrl", {{"QueueName", "events"}}).body)["QueueUrl"], url);
  sqs.send("events", "x");
  EXPECT_THAT(ask("GetQueueAttributes", {{"AttributeNames", {"All"}}}).body,
              HasSubstr("\"ApproximateNumberOfMessages\":\"1\""));
}

TEST_F(RegionSqsTest, an_instances_life_and_its_warning_come_as_envelopes) {
  const auto guest = spot_instance();
  region.advance_by(10s);
  EXPECT_THAT(drain(), ElementsAre("EC2 Instance State-change Notification pending",
                                   "EC2 Instance State-change Notification running"));
  ASSERT_TRUE(region.recommend_rebalance(guest).has_value());
  ASSERT_TRUE(region.interrupt(guest).has_value());
  const auto messages = receive(10, 0);
  ASSERT_EQ(messages.size(), 2U);
  const auto event = json::parse(messages[1]["Body"].get<std::string>());
  EXPECT_EQ(event["source"], "aws.ec2");
  EXPECT_EQ(event["detail-type"], "EC2 Spot Instance Interruption Warning");
  EXPECT_EQ(event["detail"], json({{"instance-id", guest}, {"instance-action", "terminate"}}));
  EXPECT_EQ(event["time"], "2026-01-02T03:04:15Z");
  EXPECT_EQ(event["resources"][0], "arn:aws:ec2:us-east-1a::instance/" + guest);
  drain();
  region.advance_by(10min);
  EXPECT_THAT(drain(), ElementsAre("EC2 Instance State-change Notification shutting-down",
                                   "EC2 Instance State-change Notification terminated"));
}

TEST_F(RegionSqsTest, events_are_missing_late_doubled_and_out_of_order) {
  bus.knobs.missing = 1;
  instance();
  EXPECT_TRUE(drain().empty());
  EXPECT_EQ(bus.dropped, 1);
  bus.knobs = {};
  bus.knobs.doubled = 1;
  bus.knobs.late = 30s;
  const auto guest = instance();
  EXPECT_TRUE(drain().empty());
  region.advance_by(29s);
  EXPECT_TRUE(drain().empty());
  region.advance_by(10s);
  EXPECT_EQ(drain().size(), 6U) << "two states of one and the running of the other, each twice";
  bus.knobs = {};
  bus.knobs.spread = 60s;
  std::vector<std::string> order;
  for (int at = 0; at < 20; ++at) {
    const auto one = instance();
    region.advance_by(6s);
    ASSERT_TRUE(region.end_now(one).has_value());
  }
  region.advance_by(2min);
  order = drain();
  EXPECT_EQ(order.size(), 80U);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.begin() + 4) && order[0] == order[4] &&
               order[1] == order[5]);
}

}  // namespace
