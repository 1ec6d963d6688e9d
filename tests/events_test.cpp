// EC2's events on their way to the planner: SQS's bodies, EventBridge's envelopes, the inbox that
// keeps a message until its effect is recorded, and what warnings mean in a plan.
#include "manager/events.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "manager/aws/sqs.hpp"
#include "manager/event_envelope.hpp"
#include "tests/planner_world.hpp"

namespace warmroot {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

// ---- SQS ----

constexpr const char* kQueue = "https://sqs.us-east-1.amazonaws.com/111122223333/q";

HttpReply reply_of(std::string body, int status = 200) {
  HttpReply reply;
  reply.status = status;
  reply.body = std::move(body);
  return reply;
}

TEST(Sqs, calls_are_written_as_the_model_has_them) {
  const auto receive = aws::encode_receive(kQueue, seconds{20}, seconds{60});
  EXPECT_EQ(receive.target, "AmazonSQS.ReceiveMessage");
  EXPECT_EQ(json::parse(receive.body), json::parse(R"({"QueueUrl":
    "https://sqs.us-east-1.amazonaws.com/111122223333/q", "MaxNumberOfMessages": 10,
    "WaitTimeSeconds": 20, "VisibilityTimeout": 60})"));
  const std::vector<std::string> receipts = {"r1", "r2"};
  const auto remove = aws::encode_delete(kQueue, receipts);
  EXPECT_EQ(remove.target, "AmazonSQS.DeleteMessageBatch");
  EXPECT_EQ(json::parse(remove.body)["Entries"],
            json::parse(R"([{"Id":"0","ReceiptHandle":"r1"},{"Id":"1","ReceiptHandle":"r2"}])"));
}

TEST(Sqs, an_answer_without_messages_is_an_empty_one) {
  for (const char* body : {"{}", "", R"({"Messages": []})", R"({"Messages": null})"})
    EXPECT_THAT(*aws::decode_receive(reply_of(body)), IsEmpty()) << body;
  const auto some = aws::decode_receive(reply_of(
      R"({"Messages":[{"MessageId":"m","ReceiptHandle":"r","MD5OfBody":"x","Body":"b"}]})"));
  ASSERT_EQ(some->size(), 1U);
  EXPECT_EQ(some->front().receipt, "r");
  EXPECT_EQ(some->front().body, "b");
}

TEST(Sqs, what_is_no_answer_is_an_error_and_never_a_crash) {
  for (const char* body : {"<html>", "[", "[]", "7", R"({"Messages": 7})", R"({"Messages": [7]})",
                           R"({"Messages": [{"Body": "b"}]})", R"({"Messages": {"a": 1}})"})
    EXPECT_EQ(aws::decode_receive(reply_of(body)).error().kind, ErrorKind::broken) << body;
}

TEST(Sqs, what_a_batch_did_not_delete_is_told) {
  const auto left = aws::decode_delete(
      reply_of(R"({"Successful":[{"Id":"0"},{"Id":"x"},7],"Failed":[{"Id":"1"}]})"), 3);
  EXPECT_THAT(*left, ElementsAre(1, 2));
}

TEST(Sqs, errors_have_their_kind) {
  const struct {
    int status;
    const char* code;
    ErrorKind kind;
  } cases[] = {{400, "com.amazonaws.sqs#QueueDoesNotExist", ErrorKind::misconfigured},
               {400, "AWS.SimpleQueueService.NonExistentQueue", ErrorKind::misconfigured},
               {403, "AccessDeniedException", ErrorKind::unauthorised},
               {400, "com.amazonaws.sqs#RequestThrottled", ErrorKind::retry_later},
               {403, "OverLimit", ErrorKind::retry_later},
               {500, "InternalFailure", ErrorKind::retry_later},
               {503, "", ErrorKind::retry_later},
               {400, "KmsDisabled:http://x", ErrorKind::misconfigured},
               {400, "InvalidParameterValue", ErrorKind::refused}};
  for (const auto& one : cases) {
    const json body = {{"__type", one.code}, {"message", "no"}};
    EXPECT_EQ(aws::decode_receive(reply_of(body.dump(), one.status)).error().kind, one.kind)
        << one.code;
  }
  auto by_header = reply_of("", 400);
  by_header.headers["x-amzn-query-error"] = "AWS.SimpleQueueService.NonExistentQueue;Sender";
  EXPECT_EQ(aws::sqs_code_of(by_header), "QueueDoesNotExist");
}

TEST(Sqs, a_queues_url_says_where_to_ask_and_for_which_region_to_sign) {
  const struct {
    const char* url;
    const char* endpoint;
    const char* region;
  } cases[] = {
      {kQueue, "https://sqs.us-east-1.amazonaws.com/", "us-east-1"},
      {"https://sqs.cn-north-1.amazonaws.com.cn/111122223333/q.fifo",
       "https://sqs.cn-north-1.amazonaws.com.cn/", "cn-north-1"},
      {"https://eu-west-1.queue.amazonaws.com/111122223333/q",
       "https://eu-west-1.queue.amazonaws.com/", "eu-west-1"},
      {"https://queue.amazonaws.com/111122223333/q", "https://queue.amazonaws.com/", "us-east-1"},
      {"https://vpce-1-a.sqs.eu-west-1.vpce.amazonaws.com/111122223333/q",
       "https://vpce-1-a.sqs.eu-west-1.vpce.amazonaws.com/", "eu-west-1"},
      {"https://sqs.corp.internal/111122223333/q", "https://sqs.corp.internal/", "here"},
      {"http://127.0.0.1:8080/111122223333/q", "http://127.0.0.1:8080/", "here"}};
  for (const auto& one : cases) {
    const auto address = aws::parse_queue_url(one.url, "here");
    ASSERT_TRUE(address) << one.url;
    EXPECT_EQ(address->endpoint.url(), one.endpoint);
    EXPECT_EQ(address->region, one.region);
    EXPECT_EQ(address->url, one.url);
  }
  for (const char* bad :
       {"", "q", "https://sqs.us-east-1.amazonaws.com", "ftp://h/1/q",
        "https://sqs.us-east-1.amazonaws.com/q", "https://h/1/q?x=1", "https://h/1/",
        "https://h//q", "https://h/1/q/r", "arn:aws:sqs:us-east-1:111122223333:q"})
    EXPECT_FALSE(aws::parse_queue_url(bad, "here")) << bad;
}

// ---- envelopes ----

json envelope(const std::string& type, const std::string& instance, const std::string& id = "e-1") {
  return {{"version", "0"},
          {"id", id},
          {"detail-type", type},
          {"source", "aws.ec2"},
          {"account", "111122223333"},
          {"time", "2026-01-02T03:04:05Z"},
          {"region", "us-east-1"},
          {"resources", {"arn:aws:ec2:us-east-1a::instance/" + instance}},
          {"detail", {{"instance-id", instance}, {"state", "running"}}}};
}
constexpr const char* kInterruption = "EC2 Spot Instance Interruption Warning";
constexpr const char* kRebalance = "EC2 Instance Rebalance Recommendation";
constexpr const char* kStateChange = "EC2 Instance State-change Notification";

TEST(Envelope, kinds_are_told_by_detail_type_and_source) {
  using manager::EventKind;
  const std::pair<const char*, EventKind> cases[] = {{kInterruption, EventKind::interruption},
                                                     {kRebalance, EventKind::rebalance},
                                                     {kStateChange, EventKind::state_change},
                                                     {"EBS Volume Notification", EventKind::other}};
  for (const auto& [type, kind] : cases) {
    const auto event = manager::parse_envelope(envelope(type, "i-0a").dump());
    ASSERT_TRUE(event) << type;
    EXPECT_EQ(event->kind, kind) << type;
    EXPECT_EQ(event->id, "e-1");
    if (kind == EventKind::other) continue;
    EXPECT_EQ(event->instance_id, "i-0a");
    EXPECT_EQ(event->time, *parse_iso8601("2026-01-02T03:04:05Z"));
  }
  auto foreign = envelope(kInterruption, "i-0a");
  foreign["source"] = "com.somebody";
  EXPECT_EQ(manager::parse_envelope(foreign.dump())->kind, EventKind::other);
}

/// As in Auto Scaling's user guide.
json lifecycle(const std::string& transition, const std::string& instance) {
  return {{"version", "0"},
          {"id", "12345678-1234-1234-1234-123456789012"},
          {"detail-type", "EC2 Instance-" + transition + " Lifecycle Action"},
          {"source", "aws.autoscaling"},
          {"account", "123456789012"},
          {"time", "2026-01-02T03:04:05Z"},
          {"region", "us-west-2"},
          {"resources", {"auto-scaling-group-arn"}},
          {"detail",
           {{"LifecycleActionToken", "87654321-4321-4321-4321-210987654321"},
            {"AutoScalingGroupName", "my-asg"},
            {"LifecycleHookName", "my-lifecycle-hook"},
            {"EC2InstanceId", instance},
            {"LifecycleTransition", "autoscaling:EC2_INSTANCE_TERMINATING"},
            {"NotificationMetadata", "additional-info"},
            {"Origin", "AutoScalingGroup"},
            {"Destination", "EC2"}}}};
}

TEST(Envelope, of_a_group_that_ends_an_instance_counts_and_of_one_that_launches_does_not) {
  using manager::EventKind;
  const auto ends = manager::parse_envelope(lifecycle("terminate", "i-0a").dump());
  ASSERT_TRUE(ends);
  EXPECT_EQ(ends->kind, EventKind::group_ends);
  EXPECT_EQ(ends->instance_id, "i-0a");
  EXPECT_EQ(ends->time, *parse_iso8601("2026-01-02T03:04:05Z"));
  const auto launches = manager::parse_envelope(lifecycle("launch", "i-0a").dump());
  ASSERT_TRUE(launches);
  EXPECT_EQ(launches->kind, EventKind::other);
  EXPECT_FALSE(manager::parse_envelope(lifecycle("terminate", "i-0a; rm").dump()));
  auto forged = lifecycle("terminate", "i-0a");
  forged["source"] = "aws.ec2";
  EXPECT_EQ(manager::parse_envelope(forged.dump())->kind, EventKind::other);
  auto other = envelope(kInterruption, "i-0a");
  other["source"] = "aws.autoscaling";
  EXPECT_EQ(manager::parse_envelope(other.dump())->kind, EventKind::other);
}

TEST(Envelope, one_that_sns_wrapped_is_unwrapped) {
  const json wrapped = {{"Type", "Notification"},
                        {"Message", envelope(kInterruption, "i-0a").dump()}};
  EXPECT_EQ(manager::parse_envelope(wrapped.dump())->instance_id, "i-0a");
}

TEST(Envelope, what_is_none_is_refused_and_never_a_crash) {
  auto no_detail = envelope(kInterruption, "i-0a");
  no_detail.erase("detail");
  auto no_time = envelope(kInterruption, "i-0a");
  no_time["time"] = 7;
  const std::string bad[] = {"",
                             "hello",
                             "[]",
                             "{}",
                             "null",
                             std::string(100'000, '['),
                             R"({"detail-type": 7})",
                             R"({"Type": "Notification", "Message": "x"})",
                             no_detail.dump(),
                             no_time.dump(),
                             envelope(kInterruption, "i-0a; rm").dump(),
                             envelope(kInterruption, "").dump(),
                             std::string(2 << 20, ' ')};
  for (const auto& text : bad) EXPECT_FALSE(manager::parse_envelope(text)) << text.substr(0, 80);
}

// ---- the inbox ----

manager::CloudEvent event(manager::EventKind kind, const std::string& instance,
                          const std::string& id) {
  return {kind, id, instance, "running", core::kNow};
}

TEST(EventInbox, a_message_is_given_up_only_after_the_tick_that_heard_it) {
  using manager::EventKind;
  manager::EventInbox inbox;
  EXPECT_TRUE(inbox.take(event(EventKind::interruption, "i-1", "a"), "r1", true, core::kNow));
  EXPECT_THAT(inbox.settle(), IsEmpty()) << "no tick has heard it";
  auto heard = inbox.heard(core::kNow);
  EXPECT_TRUE(heard.warnings.contains("i-1"));
  EXPECT_TRUE(heard.live);
  // It comes while the tick runs: the next one hears it.
  inbox.take(event(EventKind::state_change, "i-2", "b"), "r2", true, core::kNow);
  EXPECT_THAT(inbox.settle(), ElementsAre("r1"));
  heard = inbox.heard(core::kNow);
  EXPECT_THAT(heard.changed, UnorderedElementsAre("i-2"));
  EXPECT_THAT(heard.warnings, IsEmpty());
  // A blind tick settles nothing.
  heard = inbox.heard(core::kNow);
  EXPECT_THAT(heard.changed, UnorderedElementsAre("i-2"));
  EXPECT_THAT(inbox.settle(), ElementsAre("r2"));
}

TEST(EventInbox, another_queue_is_not_asked_to_delete_what_the_old_one_sent) {
  manager::EventInbox inbox;
  inbox.take(event(manager::EventKind::interruption, "i-1", "a"), "old", true, core::kNow);
  inbox.forget_receipts();
  inbox.take(event(manager::EventKind::interruption, "i-2", "b"), "new", true, core::kNow);
  EXPECT_TRUE(inbox.heard(core::kNow).warnings.contains("i-1")) << "what was heard stays";
  EXPECT_THAT(inbox.settle(), ElementsAre("new"));
}

TEST(EventInbox, a_double_is_deleted_and_wakes_nobody) {
  using manager::EventKind;
  manager::EventInbox inbox;
  EXPECT_TRUE(inbox.take(event(EventKind::interruption, "i-1", "a"), "r1", true, core::kNow));
  EXPECT_FALSE(inbox.take(event(EventKind::interruption, "i-1", "a"), "r2", true, core::kNow));
  EXPECT_FALSE(inbox.take(event(EventKind::interruption, "i-9", "b"), "r3", false, core::kNow))
      << "somebody else's instance";
  EXPECT_EQ(inbox.heard(core::kNow).warnings.size(), 2U);
  EXPECT_THAT(inbox.settle(), ElementsAre("r1", "r2", "r3"));
  EXPECT_EQ(inbox.counters().at("doubled"), 1);
}

TEST(EventInbox, an_interruption_counts_more_than_a_hint_in_any_order) {
  using manager::EventKind;
  for (const bool hint_first : {true, false}) {
    manager::EventInbox inbox;
    const auto first = hint_first ? EventKind::rebalance : EventKind::interruption;
    const auto second = hint_first ? EventKind::interruption : EventKind::rebalance;
    inbox.take(event(first, "i-1", "a"), "r1", true, core::kNow);
    inbox.take(event(second, "i-1", "b"), "r2", true, core::kNow);
    EXPECT_EQ(inbox.heard(core::kNow).warnings.at("i-1").kind, core::WarningKind::interruption);
  }
}

TEST(EventInbox, a_group_that_ends_an_instance_is_a_warning_as_serious_as_an_interruption) {
  using manager::EventKind;
  manager::EventInbox inbox;
  EXPECT_TRUE(inbox.take(event(EventKind::group_ends, "i-1", "a"), "r1", true, core::kNow));
  const auto heard = inbox.heard(core::kNow);
  EXPECT_EQ(heard.warnings.at("i-1").kind, core::WarningKind::interruption);
  EXPECT_THAT(heard.changed, UnorderedElementsAre("i-1"));
  EXPECT_EQ(inbox.counters().at("group_ends"), 1);
  EXPECT_THAT(inbox.heard(core::kNow + seconds{600}).warnings, IsEmpty()) << "it came to nothing";
}

TEST(EventInbox, events_are_live_only_while_somebody_hears) {
  manager::EventInbox inbox;
  EXPECT_FALSE(inbox.heard(core::kNow).live);
  inbox.listened(core::kNow);
  EXPECT_TRUE(inbox.heard(core::kNow + seconds{59}).live);
  EXPECT_FALSE(inbox.heard(core::kNow + seconds{61}).live);
}

// ---- what warnings mean ----

core::World served() {
  core::World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  return world;
}

const core::RecordDeparture* departure_in(const core::Plan& plan) {
  for (const auto& record : plan.records)
    if (const auto* found = std::get_if<core::RecordDeparture>(&record)) return found;
  return nullptr;
}

TEST(Warning, an_interruption_launches_the_successor_at_once_and_detaches_nothing) {
  auto world = served();
  world.observed.warnings["i-0"] = {core::WarningKind::interruption, core::kNow - seconds{3}};
  const auto plan = world.plan();
  EXPECT_THAT(core::World::calls_of(plan), ElementsAre(HasSubstr("RunInstances")));
  const auto* left = departure_in(plan);
  ASSERT_NE(left, nullptr);
  EXPECT_FALSE(left->departure.released) << "a warning is no release";
  EXPECT_EQ(left->departure.reclaim_at, core::kNow + seconds{117});
  // The tick is recorded, the process dies, and the warning is not told again.
  world.observed.warnings.clear();
  world.ledger.departures["i-0"] = left->departure;
  EXPECT_THAT(world.calls(), ElementsAre(HasSubstr("RunInstances")));
  EXPECT_EQ(departure_in(world.plan()), nullptr) << "it is recorded already";
}

TEST(Warning, a_node_that_reports_is_asked_to_drain) {
  auto world = served();
  world.report("i-0", "vol-0", NodeStage::ready);
  world.observed.warnings["i-0"] = {core::WarningKind::interruption, core::kNow};
  EXPECT_TRUE(world.plan().drains.contains("i-0"));
}

TEST(Warning, an_instance_that_ec2_does_not_end_is_ended_by_us) {
  auto world = served();
  world.instance("i-1");
  world.ledger.leases.push_back(
      {"p", "p-0", "vol-0", "i-1", "", core::LeaseState::reserved, core::kNow - seconds{100}});
  world.ledger.departures["i-0"] = {false, core::kNow - seconds{140}, core::kNow - seconds{20},
                                    false};
  EXPECT_THAT(world.calls(), IsEmpty()) << "EC2 may still do it";
  world.ledger.departures["i-0"].since -= seconds{10};
  world.ledger.departures["i-0"].reclaim_at = core::kNow - seconds{30};
  EXPECT_THAT(world.calls(), ElementsAre("TerminateInstances i-0"));
}

TEST(Warning, a_hint_is_left_alone_unless_the_spec_asks_for_it) {
  auto world = served();
  world.observed.warnings["i-0"] = {core::WarningKind::rebalance, core::kNow};
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_EQ(departure_in(world.plan()), nullptr);
  world.pool().launch->replace_on_rebalance = true;
  world.pool().launch->rebalance_after = Milliseconds{0};
  world.report("i-0", "vol-0", NodeStage::ready);
  const auto plan = world.plan();
  EXPECT_THAT(core::World::calls_of(plan), ElementsAre(HasSubstr("RunInstances")));
  ASSERT_NE(departure_in(plan), nullptr);
  EXPECT_TRUE(departure_in(plan)->departure.advised);
}

TEST(Warning, after_a_hint_the_node_serves_until_its_successor_runs) {
  auto world = served();
  world.pool().launch->replace_on_rebalance = true;
  world.pool().launch->rebalance_after = Milliseconds{0};
  world.report("i-0", "vol-0", NodeStage::ready);
  world.ledger.departures["i-0"] = {false, core::kNow - seconds{3600}, {}, true};
  world.instance("i-1", aws::InstanceState::pending);
  EXPECT_THAT(world.plan().drains, IsEmpty());
  EXPECT_THAT(world.calls(), IsEmpty());
  world.instance("i-1");
  world.ledger.leases.push_back(
      {"p", "p-0", "vol-0", "i-1", "", core::LeaseState::reserved, core::kNow - seconds{1}});
  EXPECT_TRUE(world.plan().drains.contains("i-0"));
  EXPECT_THAT(world.calls(), IsEmpty()) << "it is asked first";
}

TEST(Warning, a_hint_that_stands_for_many_looks_drains_nobody_who_leaves_for_another_reason) {
  auto world = served();
  world.report("i-0", "vol-0", NodeStage::ready);
  world.observed.statuses["i-0"].system_status = "impaired";
  world.hold_for(std::chrono::minutes{30});
  world.observed.warnings["i-0"] = {core::WarningKind::rebalance, core::kNow};
  EXPECT_THAT(world.plan().drains, IsEmpty());
  world.observed.warnings["i-0"].kind = core::WarningKind::interruption;
  EXPECT_THAT(world.plan().drains, Not(IsEmpty())) << "else this says nothing";
}

TEST(Warning, a_hint_that_is_repeated_is_recorded_once_also_of_an_instance_of_others) {
  auto world = served();
  world.pool().launch->replace_on_rebalance = true;
  auto& seen = world.instance("i-9");
  seen.client_token = "somebody's";
  world.report("i-9", "", NodeStage::hello);
  world.observed.warnings["i-9"] = {core::WarningKind::rebalance, core::kNow};
  const auto first = world.plan();
  const auto* left = departure_in(first);
  ASSERT_NE(left, nullptr);
  world.ledger.departures["i-9"] = left->departure;
  world.ledger.departures["i-9"].since -= seconds{60};  // its hello is newer
  for (const auto& record : world.plan().records) {
    EXPECT_FALSE(std::holds_alternative<core::RecordDepartureOver>(record));
    EXPECT_FALSE(std::holds_alternative<core::RecordDeparture>(record));
  }
}

TEST(Warning, an_interruption_after_a_hint_is_serious) {
  auto world = served();
  world.ledger.departures["i-0"] = {false, core::kNow - seconds{3600}, {}, true};
  world.observed.warnings["i-0"] = {core::WarningKind::interruption, core::kNow};
  const auto plan = world.plan();
  const auto* left = departure_in(plan);
  ASSERT_NE(left, nullptr);
  EXPECT_FALSE(left->departure.advised);
  EXPECT_EQ(left->departure.since, core::kNow);
  EXPECT_THAT(core::World::calls_of(plan), Not(testing::Contains(HasSubstr("Terminate"))));
}

TEST(Warning, of_an_instance_that_is_not_ours_means_nothing) {
  auto world = served();
  world.observed.warnings["i-9"] = {core::WarningKind::interruption, core::kNow};
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_EQ(departure_in(world.plan()), nullptr);
}

}  // namespace
}  // namespace warmroot
