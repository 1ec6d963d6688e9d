// What the ledger makes of EC2's answers to the calls that it recorded.
#include "manager/ledger.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/aws/ec2_codec.hpp"
#include "tests/ledger_fixture.hpp"

namespace warmroot::manager {
namespace {

using core::IntentState;
using core::LeaseState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(LedgerTest, an_accepted_create_becomes_a_volume_and_uses_its_token_up) {
  auto ledger = open();
  const auto intent = record_one(ledger, create_plan());
  aws::Volume volume;
  volume.volume_id = "vol-9";
  settle(ledger, intent, aws::MutationAnswer(volume));
  const auto view = *ledger.view();
  EXPECT_THAT(view.intents, IsEmpty());
  ASSERT_TRUE(view.volumes.contains("vol-9"));
  EXPECT_EQ(view.volumes.at("vol-9").node, "p-0");
  EXPECT_EQ(view.volumes.at("vol-9").zone, "z-a");
  EXPECT_FALSE(view.volumes.at("vol-9").seen);
  EXPECT_EQ(view.generations.at(core::generation_key("CreateVolume", "p-0")), 1);
}

TEST_F(LedgerTest, a_throttled_create_of_a_stock_is_remembered_beside_the_accepted_one) {
  core::Plan plan = create_plan();
  plan.actions.front().nodes = {"p/spare/z-a"};
  plan.actions.push_back(plan.actions.front());
  std::get<aws::CreateVolume>(plan.actions.back().mutation).client_token = "token-2";
  auto ledger = open();
  const auto intents = ledger.record(plan, encoded(plan), kNow);
  ASSERT_TRUE(intents.has_value()) << intents.error().message();
  settle(ledger, intents->front(), refusal("RequestLimitExceeded", ErrorKind::retry_later));
  aws::Volume volume;
  volume.volume_id = "vol-9";
  settle(ledger, intents->back(), aws::MutationAnswer(volume));
  const auto key = core::failure_key("CreateVolume", "p/spare/z-a");
  const auto remembered = [&] { return ledger.view()->failures.at(key); };
  ASSERT_TRUE(ledger.view()->failures.contains(key)) << "what it may have made shows later";
  EXPECT_EQ(remembered().token, "token-1");
  EXPECT_EQ(remembered().count, 1);
  // Nor does a third that is refused otherwise hide it.
  settle(ledger, intents->back(), refusal("InvalidParameterValue", ErrorKind::refused));
  EXPECT_TRUE(remembered().throttled);
  EXPECT_EQ(remembered().token, "token-1");
  settle(ledger, intents->front(), refusal("InvalidParameterValue", ErrorKind::refused));
  EXPECT_FALSE(remembered().throttled) << "EC2 has said that it made nothing";
}

TEST_F(LedgerTest, a_call_without_an_answer_stays_to_be_sent_again) {
  auto ledger = open();
  const auto intent = record_one(ledger, create_plan());
  settle(ledger, intent, refusal("", ErrorKind::unknown_outcome));
  const auto view = *ledger.view();
  ASSERT_THAT(view.intents, SizeIs(1));
  EXPECT_EQ(view.intents.front().state, IntentState::unknown);
  EXPECT_EQ(view.intents.front().attempts, 1);
  EXPECT_THAT(view.generations, IsEmpty()) << "the same token goes out again";
}

TEST_F(LedgerTest, a_refused_attach_ends_its_lease_and_counts_against_the_node) {
  auto ledger = open();
  const auto intent = record_one(ledger, attach_plan());
  settle(ledger, intent, refusal("AttachmentLimitExceeded", ErrorKind::refused));
  const auto view = *ledger.view();
  EXPECT_THAT(view.leases, IsEmpty());
  const auto& failure = view.failures.at(core::failure_key("AttachVolume", "p-0"));
  EXPECT_EQ(failure.count, 1);
  EXPECT_THAT(failure.sentence, HasSubstr("[request req-1]"));
}

TEST_F(LedgerTest, an_instance_whose_attach_was_throttled_is_kept_for_its_volume) {
  int throttles = 0;
  for (const auto& entry : aws::all_codes()) {
    if (entry.reaction != aws::Reaction::throttled) continue;
    ++throttles;
    path_ = directory_.path() + "/" + std::string(entry.code);
    auto ledger = open();
    settle(ledger, record_one(ledger, attach_plan()),
           refusal(std::string(entry.code).c_str(), ErrorKind::retry_later));
    ASSERT_THAT(ledger.view()->leases, SizeIs(1)) << entry.code;
    EXPECT_EQ(ledger.view()->leases.front().state, LeaseState::reserved) << entry.code;
    EXPECT_EQ(ledger.view()->leases.front().device, "");
    EXPECT_TRUE(ledger.view()->failures.at(core::failure_key("AttachVolume", "p-0")).throttled)
        << entry.code;
  }
  EXPECT_GE(throttles, 15);
}

TEST_F(LedgerTest, an_instance_that_takes_no_further_volume_is_remembered_as_such) {
  auto ledger = open();
  settle(ledger, record_one(ledger, attach_plan()),
         refusal("AttachmentLimitExceeded", ErrorKind::misconfigured));
  EXPECT_TRUE(ledger.view()->failures.contains(core::failure_key("AttachVolume", "i-1")));
  EXPECT_TRUE(ledger.view()->failures.contains(core::failure_key("AttachVolume", "p-0")));
}

TEST_F(LedgerTest,
       a_create_refused_while_a_silent_attempt_may_still_be_carried_out_is_not_decided) {
  using std::chrono::seconds;
  auto ledger = open();
  auto intent = record_one(ledger, create_plan());
  const auto answer = [&](const Result<aws::MutationAnswer>& of, Instant now) {
    ASSERT_TRUE(ledger.settle({{intent, judge_again(intent, of, now), {}}}, now));
    const auto view = ledger.view();
    if (!view->intents.empty()) intent = view->intents.front();
  };
  const auto refused = refusal("VolumeLimitExceeded", ErrorKind::refused);
  answer(refusal("", ErrorKind::unknown_outcome), kNow + seconds{20});
  answer(refused, kNow + seconds{25});
  answer(refused, kNow + seconds{49});
  ASSERT_THAT(ledger.view()->intents, SizeIs(1)) << "the planner makes no other one meanwhile";
  EXPECT_EQ(intent.silent, kNow + seconds{20});
  answer(refused, kNow + seconds{50});
  EXPECT_THAT(ledger.view()->intents, IsEmpty());
}

TEST_F(LedgerTest, an_attach_refused_while_a_silent_attempt_may_still_be_carried_out) {
  using std::chrono::seconds;
  struct Case {
    const char* code;
    bool open;
  };
  for (const auto& [code, open_still] :
       {Case{"IncorrectState", true}, Case{"RequestLimitExceeded", true},
        Case{"InvalidVolume.NotFound", false}, Case{"VolumeInUse", false},
        Case{"InvalidParameterValue", false}}) {
    path_ = directory_.path() + "/" + code;
    auto ledger = open();
    auto intent = record_one(ledger, attach_plan());
    const auto unheard = refusal("", ErrorKind::unknown_outcome);
    ASSERT_TRUE(ledger.settle({{intent, judge_again(intent, unheard, kNow), {}}}, kNow));
    intent = ledger.view()->intents.front();
    const auto refused = refusal(code, ErrorKind::refused);
    for (const auto& [wait, still] : {std::pair{seconds{29}, open_still}, {seconds{30}, false}}) {
      if (ledger.view()->intents.empty()) break;
      const Instant now = kNow + wait;
      ASSERT_TRUE(ledger.settle({{intent, judge_again(intent, refused, now), {}}}, now));
      EXPECT_EQ(ledger.view()->intents.size(), still ? 1U : 0U) << code << " " << wait.count();
    }
  }
}

TEST_F(LedgerTest, volume_in_use_leaves_the_lease_for_the_next_look) {
  auto ledger = open();
  const auto intent = record_one(ledger, attach_plan());
  settle(ledger, intent, refusal("VolumeInUse", ErrorKind::refused));
  EXPECT_THAT(ledger.view()->leases, SizeIs(1));
}

TEST_F(LedgerTest, a_refused_device_name_is_remembered) {
  auto ledger = open();
  const auto intent = record_one(ledger, attach_plan());
  settle(ledger, intent, refusal("InvalidParameterValue", ErrorKind::refused));
  EXPECT_THAT(ledger.view()->used_devices["i-1"], ElementsAre("/dev/sdf"));
}

TEST_F(LedgerTest, a_device_name_stays_used_when_the_same_instance_got_the_volume_under_another) {
  auto ledger = open();
  for (const auto* device : {"/dev/sdf", "/dev/sdg", "/dev/sdg"}) {
    core::Plan plan;
    plan.records.push_back(core::RecordLease{
        {"p", "p-0", "vol-1", "i-1", device, LeaseState::attaching, kNow}, "test"});
    ASSERT_TRUE(ledger.record(plan, {}, kNow));
  }
  EXPECT_THAT(ledger.view()->used_devices["i-1"], ElementsAre("/dev/sdf", "/dev/sdg"));
}

TEST_F(LedgerTest, a_volume_that_another_account_does_not_find_to_delete_is_not_gone) {
  auto ledger = open();
  core::Plan plan;
  plan.records.push_back(core::RecordVolume{"vol-1", {"p", "p-0", "z-a", kNow, true, true}});
  plan.actions.push_back({aws::DeleteVolume{"vol-1"}, "p", {}, "by order", ""});
  settle(ledger, record_one(ledger, plan), refusal("InvalidVolume.NotFound", ErrorKind::gone));
  EXPECT_TRUE(ledger.view()->volumes.contains("vol-1"));
  plan.records.clear();
  settle(ledger, record_one(ledger, plan), aws::MutationAnswer{});
  EXPECT_FALSE(ledger.view()->volumes.contains("vol-1"));
}

TEST_F(LedgerTest, a_delete_whose_answer_was_lost_is_done_when_the_volume_is_not_found) {
  auto ledger = open();
  core::Plan plan;
  plan.records.push_back(core::RecordVolume{"vol-1", {"p", "p-0", "z-a", kNow, true, true}});
  plan.actions.push_back({aws::DeleteVolume{"vol-1"}, "p", {}, "by order", ""});
  settle(ledger, record_one(ledger, plan), refusal("", ErrorKind::unknown_outcome));
  settle(ledger, ledger.view()->intents.front(),
         refusal("InvalidVolume.NotFound", ErrorKind::gone));
  EXPECT_FALSE(ledger.view()->volumes.contains("vol-1"));
}

TEST_F(LedgerTest, a_burnt_token_moves_to_the_next_generation) {
  auto ledger = open();
  settle(ledger, record_one(ledger, create_plan()),
         refusal("IdempotentParameterMismatch", ErrorKind::refused));
  EXPECT_EQ(ledger.view()->generations.at(core::generation_key("CreateVolume", "p-0")), 1);
}

TEST_F(LedgerTest, a_burnt_token_is_no_failure_until_64_were_burnt) {
  auto ledger = open();
  for (int burnt = 1; burnt <= 64; ++burnt) {
    EXPECT_THAT(ledger.view()->failures, IsEmpty()) << burnt;
    settle(ledger, record_one(ledger, create_plan()),
           refusal("IdempotentParameterMismatch", ErrorKind::refused));
  }
  EXPECT_THAT(ledger.view()->failures, SizeIs(1));
}

TEST_F(LedgerTest, a_fleet_records_what_it_launched_and_counts_errors_by_type_and_zone) {
  auto ledger = open();
  aws::FleetAnswer fleet;
  aws::Instance instance;
  instance.instance_id = "i-7";
  instance.instance_type = "g5.xlarge";
  instance.availability_zone = "z-b";
  fleet.instances = {instance};
  fleet.errors = {{"InsufficientInstanceCapacity", "none", "g5.2xlarge", "z-a", ""}};
  settle(ledger, record_one(ledger, fleet_plan()), aws::MutationAnswer(fleet));
  const auto view = *ledger.view();
  EXPECT_THAT(view.intents, IsEmpty());
  ASSERT_TRUE(view.instances.contains("i-7"));
  EXPECT_EQ(view.instances.at("i-7").zone, "z-b") << "the zone that EC2 chose";
  EXPECT_THAT(view.failures, IsEmpty());
  ASSERT_THAT(view.refused_offers, SizeIs(1));
  const auto& refusal = view.refused_offers.at({"g5.2xlarge", "z-a", true});
  EXPECT_EQ(refusal.code, "InsufficientInstanceCapacity");
  EXPECT_THAT(refusal.sentence, HasSubstr("g5.2xlarge in z-a: none."));
  EXPECT_EQ(view.generations.at(core::generation_key("CreateFleet", "p-1")), 1);
}

TEST_F(LedgerTest, a_fleet_that_launched_nothing_is_refused_with_the_code_that_needs_somebody) {
  auto ledger = open();
  aws::FleetAnswer fleet;
  fleet.errors = {{"InsufficientInstanceCapacity", "none", "g5.xlarge", "z-a", ""},
                  {"MaxSpotInstanceCountExceeded", "too many", "g5.2xlarge", "z-a", ""},
                  {"RequestLimitExceeded", "slow down", "g5.2xlarge", "z-b", ""}};
  settle(ledger, record_one(ledger, fleet_plan()), aws::MutationAnswer(fleet));
  const auto view = *ledger.view();
  EXPECT_THAT(view.instances, IsEmpty());
  const auto& failure = view.failures.at(core::failure_key("CreateFleet", "p-0"));
  EXPECT_EQ(failure.count, 1) << "counted, although the token is used up";
  EXPECT_EQ(failure.code, "MaxSpotInstanceCountExceeded");
  EXPECT_TRUE(failure.transient) << "another type may get capacity by waiting";
  EXPECT_TRUE(view.refused_offers.contains({"g5.xlarge", "z-a", true}));
  EXPECT_FALSE(view.refused_offers.contains({"g5.2xlarge", "z-b", true})) << "a throttle";
  EXPECT_EQ(view.generations.at(core::generation_key("CreateFleet", "p-0")), 1)
      << "the same token would get the same nothing again";
}

TEST_F(LedgerTest, a_fleet_of_throttles_alone_is_throttled_and_of_quotas_alone_does_not_pass) {
  core::Intent intent;
  intent.call = aws::encode(fleet_plan().actions.front().mutation);
  intent.token = "t";
  aws::FleetAnswer throttled;
  throttled.errors = {{"RequestLimitExceeded", "", "a", "z", ""}};
  EXPECT_TRUE(judge(intent, aws::MutationAnswer(throttled)).throttled);
  aws::FleetAnswer quota;
  quota.errors = {{"VcpuLimitExceeded", "", "a", "z", ""}, {"NewCode", "", "b", "z", ""}};
  const Outcome outcome = judge(intent, aws::MutationAnswer(quota));
  EXPECT_FALSE(outcome.forbidden);
  aws::FleetAnswer no_right;
  no_right.errors = {{"UnauthorizedOperation", "no", "a", "z", ""}};
  EXPECT_TRUE(judge(intent, aws::MutationAnswer(no_right)).forbidden) << "inside HTTP 200";
  EXPECT_EQ(outcome.state, IntentState::refused);
  EXPECT_FALSE(outcome.transient);
  EXPECT_FALSE(outcome.throttled);
  EXPECT_EQ(outcome.code, "VcpuLimitExceeded");
  EXPECT_THAT(judge(intent, aws::MutationAnswer(aws::FleetAnswer{})).sentence,
              HasSubstr("launched nothing and gave no reason"));
}

TEST_F(LedgerTest, a_refused_detach_or_termination_is_no_longer_leaving) {
  auto ledger = open();
  core::Plan leaving;
  leaving.records.push_back(core::RecordLease{
      {"p", "p-0", "vol-1", "i-1", "/dev/sdf", LeaseState::leaving, kNow}, "test"});
  core::Plan detach = leaving;
  detach.actions.push_back({aws::DetachVolume{"vol-1", "i-1", ""}, "p", {"p-0"}, "test", ""});
  core::Plan end = leaving;
  end.actions.push_back({aws::TerminateInstances{{"i-1"}}, "p", {}, "test", ""});
  for (const auto& plan : {detach, end}) {
    settle(ledger, record_one(ledger, plan),
           refusal("UnauthorizedOperation", ErrorKind::unauthorised));
    ASSERT_THAT(ledger.view()->leases, SizeIs(1));
    EXPECT_EQ(ledger.view()->leases.front().state, LeaseState::checking);
  }
}

TEST_F(LedgerTest, a_detach_of_what_is_detached_counts_as_done) {
  auto ledger = open();
  core::Plan plan;
  plan.actions.push_back({aws::DetachVolume{"vol-1", "i-1", ""}, "p", {"p-0"}, "test", ""});
  for (const auto* code :
       {"IncorrectState", "InvalidAttachment.NotFound", "InvalidVolume.NotFound"}) {
    const auto intent = record_one(ledger, plan);
    settle(ledger, intent, refusal(code, ErrorKind::gone));
    EXPECT_THAT(ledger.view()->intents, IsEmpty()) << code;
    EXPECT_THAT(ledger.view()->failures, IsEmpty()) << code;
  }
}

TEST_F(LedgerTest, the_volume_of_a_create_for_stock_is_recorded_with_its_role_and_without_a_node) {
  auto ledger = open();
  auto plan = create_plan();
  plan.actions.front().nodes = {to_string(core::StockSubject{"p", core::VolumeRole::spare, "z-a"})};
  const auto intents = ledger.record(plan, encoded(plan), kNow);
  ASSERT_TRUE(intents.has_value());
  aws::Volume volume;
  volume.volume_id = "vol-1";
  Settlement settlement{intents->front(), {}, volume};
  settlement.outcome.state = IntentState::accepted;
  ASSERT_TRUE(ledger.settle({settlement}, kNow).has_value());
  const auto owned = ledger.view()->volumes.at("vol-1");
  EXPECT_EQ(owned.role, core::VolumeRole::spare);
  EXPECT_EQ(owned.pool, "p");
  EXPECT_EQ(owned.node, "");
  EXPECT_EQ(owned.zone, "z-a");
  core::Plan gone;
  gone.records.push_back(core::RecordVolumeGone{"vol-1", "test"});
  ASSERT_TRUE(ledger.record(gone, {}, kNow).has_value());
  EXPECT_TRUE(ledger.view()->failures.contains("CreateVolume/p/spare/z-a"));
}

}  // namespace
}  // namespace warmroot::manager
