// A ledger in a directory of its own, and short plans to record in it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "manager/aws/ec2_codec.hpp"
#include "manager/ledger.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::manager {

inline const Instant kNow{std::chrono::hours{24 * 20'000}};
inline const LedgerPins kPins{"research", "us-east-1"};

class LedgerFixture : public ::testing::Test {
 protected:
  /// Opened anew at each call, as after a restart.
  Ledger open() {
    auto ledger = Ledger::open(path_, kPins, kNow);
    EXPECT_TRUE(ledger.has_value()) << ledger.error().message();
    return std::move(*ledger);
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_.path() + "/ledger.sqlite";
};

/// Plans, and what became of their calls.
class LedgerTest : public LedgerFixture {
 protected:
  static std::vector<aws::EncodedCall> encoded(const core::Plan& plan) {
    std::vector<aws::EncodedCall> calls;
    for (const auto& action : plan.actions) calls.push_back(aws::encode(action.mutation));
    return calls;
  }

  static core::Plan attach_plan() {
    core::Plan plan;
    plan.records.push_back(core::RecordLease{
        {"p", "p-0", "vol-1", "i-1", "/dev/sdf", core::LeaseState::attaching, kNow}, "test"});
    plan.actions.push_back(
        {aws::AttachVolume{"vol-1", "i-1", "/dev/sdf"}, "p", {"p-0"}, "test", ""});
    return plan;
  }

  static core::Plan create_plan() {
    core::Plan plan;
    aws::CreateVolume call;
    call.availability_zone = "z-a";
    call.snapshot_id = "snap-1";
    call.client_token = "token-1";
    plan.actions.push_back({call, "p", {"p-0"}, "test", "z-a"});
    return plan;
  }

  static core::Plan fleet_plan() {
    aws::CreateFleet fleet;
    fleet.client_token = "token-f";
    fleet.target_capacity = 2;
    core::Plan plan;
    plan.actions.push_back({fleet, "p", {"p-0", "p-1"}, "test", ""});
    return plan;
  }

  core::Intent record_one(Ledger& ledger, const core::Plan& plan) {
    auto intents = ledger.record(plan, encoded(plan), kNow);
    EXPECT_TRUE(intents.has_value()) << intents.error().message();
    EXPECT_EQ(intents->size(), 1U);
    return intents->front();
  }

  static void settle(Ledger& ledger, const core::Intent& intent,
                     const Result<aws::MutationAnswer>& answer) {
    Settlement settlement{intent, judge(intent, answer), {}};
    if (answer) settlement.answer = *answer;
    const auto done = ledger.settle({settlement}, kNow);
    ASSERT_TRUE(done.has_value()) << done.error().message();
  }

  static Result<aws::MutationAnswer> refusal(const std::string& code, ErrorKind kind) {
    return fail(Error{kind, "refused", code, "req-1"});
  }
};

}  // namespace warmroot::manager
