// What the whole manager does with answers of EC2 that need more than trying again: the traps of
// the table of reactions, on the simulated region.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/aws/ec2_codec.hpp"
#include "tests/fleet_harness.hpp"

namespace warmroot {
namespace {

using sim::Fault;
using sim::FaultKind;
using std::chrono::minutes;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Fault refusal(std::string action, std::string code, int count = 1, int after = 0) {
  Fault fault{std::move(action), FaultKind::refused, count, after};
  fault.code = std::move(code);
  fault.message = "Refused by the test.";
  return fault;
}

TEST(ReactionsFleet,
     a_volume_that_exists_although_the_quota_is_said_to_be_full_is_found_by_its_tag) {
  Fleet fleet(pool_spec("p", 1, 0));
  fleet.front.inject({"CreateVolume", FaultKind::lost_after, 1, 0});
  fleet.front.inject(refusal("CreateVolume", "VolumeLimitExceeded", 50));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  EXPECT_THAT(fleet.pool_volumes(), SizeIs(1));
  EXPECT_EQ(fleet.calls_of("CreateVolume"), 1);
  EXPECT_THAT(fleet.note_text(), Not(HasSubstr("VolumeLimitExceeded")))
      << "what it stood in the way of is there";
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(ReactionsFleet, a_burnt_token_gives_one_volume_and_no_wait) {
  Fleet fleet(pool_spec("p", 1, 0));
  fleet.front.inject(refusal("CreateVolume", "IdempotentParameterMismatch", 3));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable(minutes{1})) << fleet.note_text();
  EXPECT_THAT(fleet.pool_volumes(), SizeIs(1));
}

TEST(ReactionsFleet, refused_device_names_are_not_tried_again_on_the_same_instance) {
  Fleet fleet(pool_spec("p", 1, 1));
  fleet.front.inject(refusal("AttachVolume", "InvalidParameterValue", 4));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  std::set<std::string> names;
  int tries = 0;
  for (const auto& call : fleet.front.calls())
    if (call.action == "AttachVolume") {
      ++tries;
      names.insert(std::string(aws::form_value(aws::parse_form(call.body), "Device")));
    }
  EXPECT_EQ(tries, 5);
  EXPECT_THAT(names, SizeIs(5));
}

TEST(ReactionsFleet, one_protected_instance_does_not_keep_the_others_running) {
  Fleet fleet(pool_spec("p", 6, 6));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  const std::string kept = fleet.live_instances().front()->id;
  Fault protect = refusal("TerminateInstances", "OperationNotPermitted", Fault::kAlways);
  protect.containing = kept;
  fleet.front.inject(protect);
  fleet.desired.pools.front().running = 0;
  fleet.people_interfere = true;  // more run than the new spec wants
  fleet.start();
  fleet.until([&] { return fleet.live_instances().size() == 1; });
  ASSERT_THAT(fleet.live_instances(), SizeIs(1));
  EXPECT_EQ(fleet.live_instances().front()->id, kept);
  EXPECT_THAT(fleet.note_text(), HasSubstr("Termination protection is on: lift it"));
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(ReactionsFleet, an_attach_refused_because_it_happened_is_kept) {
  Fleet fleet(pool_spec("p", 1, 1));
  fleet.front.inject({"AttachVolume", FaultKind::lost_after, 1, 0});
  fleet.start();
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  EXPECT_EQ(fleet.calls_of("AttachVolume"), 1);
  EXPECT_EQ(fleet.calls_of("DetachVolume"), 0);
  EXPECT_THAT(fleet.violations, IsEmpty());
}

/// A call of a fleet with one node that can meet the code: what is said of a launch, a volume or a
/// tag is said to the calls that name one.
std::string call_that_meets(const aws::CodeEntry& entry, std::size_t turn) {
  if (!entry.action.empty()) return std::string(entry.action);
  const auto says = [&](std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(), [&](const char* word) {
      return entry.code.find(word) != std::string_view::npos;
    });
  };
  if (says({"Tag", "InvalidID"})) return "CreateTags";
  if (says({"Snapshot", "Volume", "IOPS", "KMS", "CustomerKey", "Modification"}))
    return "CreateVolume";
  if (says({"Attachment"})) return "AttachVolume";
  if (says({"AMI", "Subnet", "Group", "KeyPair", "VPC", "Launch", "Instance", "Capacity", "Spot",
            "Fleet", "Vcpu", "UserData", "ServiceLinkedRole", "BlockDevice", "Host"}))
    return "RunInstances";
  const char* any[] = {"CreateVolume", "RunInstances", "AttachVolume"};
  return any[turn % std::size(any)];
}

/// Every entry of the table that such a fleet can meet, met twice: the fleet comes right once EC2
/// stops refusing, and never does anything forbidden on the way.
TEST(ReactionsFleet, comes_right_after_every_code_of_the_table) {
  // Calls of fleets that are more than a node with its instance: the next test has four of them,
  // reactions_test the entries of all.
  const std::set<std::string_view> of_other_fleets = {
      "CopyVolumes",  "CreateSnapshot",       "DeleteVolume",
      "DetachVolume", "DeleteLaunchTemplate", "StopInstances",
      "CreateFleet",  "TerminateInstances",   "CreateTags"};
  std::size_t turn = 0;
  std::size_t met = 0;
  for (const aws::CodeEntry& entry : aws::all_codes()) {
    if (entry.reaction == aws::Reaction::done || entry.reaction == aws::Reaction::restart) continue;
    const std::string action = call_that_meets(entry, turn++);
    if (of_other_fleets.contains(action)) continue;
    Fleet fleet(pool_spec("p", 1, 1));
    fleet.front.inject(refusal(action, std::string(entry.code), 2));
    fleet.start();
    EXPECT_TRUE(fleet.until_stable(minutes{30}))
        << entry.code << " of " << action << ": " << fleet.note_text();
    EXPECT_THAT(fleet.pool_volumes(), SizeIs(1)) << entry.code << " of " << action;
    EXPECT_THAT(fleet.violations, IsEmpty()) << entry.code << " of " << action;
    EXPECT_GE(std::count_if(fleet.front.calls().begin(), fleet.front.calls().end(),
                            [&](const auto& call) { return call.code == entry.code; }),
              1)
        << entry.code << " of " << action << " was never met";
    ++met;
  }
  EXPECT_GE(met, 90U);
}

/// A stable fleet, and what makes it send the call.
struct LaterCall {
  const char* action;
  core::PoolSpec (*pool)();
  void (*provoke)(Fleet&);
  std::size_t volumes;  ///< of nodes, once it has come right
};

const LaterCall kLaterCalls[] = {
    {"CreateTags",
     [] {
       auto pool = pool_spec("p", 1, 0);
       pool.stock.spares = 1;
       return pool;
     },
     [](Fleet& fleet) { ++fleet.desired.pools.front().nodes; }, 2},
    {"TerminateInstances", [] { return pool_spec("p", 1, 1); },
     [](Fleet& fleet) { fleet.desired.pools.front().running = 0; }, 1},
    {"CreateFleet",
     [] {
       auto pool = pool_spec("p", 1, 0);
       pool.launch->instance_types.push_back("m5.large");
       return pool;
     },
     [](Fleet& fleet) { fleet.desired.pools.front().running = 1; }, 1},
    {"DetachVolume", [] { return pool_spec("p", 1, 1); },
     [](Fleet& fleet) {
       const auto* volume = fleet.volume_of("p-0");
       fleet.report(volume->link->instance_id, volume->id, NodeStage::released);
     },
     1},
};

/// What is said to every call, and to this one.
TEST(ReactionsFleet, comes_right_after_every_code_of_tags_ends_fleets_and_detaches) {
  std::size_t met = 0;
  for (const LaterCall& later : kLaterCalls)
    for (const aws::CodeEntry& entry : aws::all_codes()) {
      if (!entry.action.empty() && entry.action != later.action) continue;
      if (entry.reaction == aws::Reaction::done || entry.reaction == aws::Reaction::restart)
        continue;
      SCOPED_TRACE(std::string(entry.code) + " of " + later.action);
      Fleet fleet(later.pool());
      fleet.start();
      ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
      fleet.front.inject(refusal(later.action, std::string(entry.code), 2));
      fleet.people_interfere = true;  // more may run than the new spec wants
      later.provoke(fleet);
      fleet.start();
      const auto& pool = fleet.desired.pools.front();
      const auto reached = [&] {
        return fleet.last.plan.stable &&
               fleet.live_instances().size() == static_cast<std::size_t>(pool.running) &&
               fleet.pool_volumes().size() == later.volumes;
      };
      EXPECT_TRUE(fleet.until(reached, minutes{30})) << fleet.note_text();
      EXPECT_THAT(fleet.violations, IsEmpty());
      EXPECT_TRUE(std::any_of(fleet.front.calls().begin(), fleet.front.calls().end(),
                              [&](const auto& call) { return call.code == entry.code; }))
          << "was never met";
      ++met;
    }
  EXPECT_GE(met, 200U);
}

}  // namespace
}  // namespace warmroot
