// Rules about volumes that launches make themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/core/adopting.hpp"
#include "tests/planner_world.hpp"

namespace warmroot::core {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using State = aws::InstanceState;
using std::chrono::seconds;

/// Nodes without volumes, launches that may make them, and attaches for one of them at once.
World bare_world(int nodes) {
  World world(nodes, nodes);
  world.pool().launch->volume_with_launch = true;
  world.pool().launch->instance_types = {"g5.xlarge"};
  world.limits.calls["AttachVolume"] = 1;
  return world;
}

aws::Instance& carrier(World& world, const std::string& id, State state = State::running) {
  auto& made = world.instance(id, state);
  made.tags[kTagLaunchVolume] = kLaunchDevice;
  return made;
}

/// As EC2 shows what the launch of `instance_id` made.
aws::Volume& launched_volume(World& world, const std::string& id, const std::string& instance_id,
                             const std::string& device = kLaunchDevice) {
  auto& made = world.stranger(id);
  made.tags.erase(kTagNode);
  made.tags[kTagRole] = kRoleLaunch;
  if (instance_id.empty()) return made;
  made.state = aws::VolumeState::in_use;
  made.attachments = {{id, instance_id, device, aws::AttachmentState::attached, kNow, false}};
  world.observed.instances.at(instance_id)
      .block_devices.push_back({device, id, aws::AttachmentState::attached, false});
  return made;
}

TEST(Adopt, launches_make_the_volumes_where_attaches_would_queue) {
  auto world = bare_world(2);
  const auto plan = world.plan();
  EXPECT_THAT(World::calls_of(plan), ElementsAre("RunInstances 2 x g5.xlarge in z-a"));
  const auto* call = only<aws::RunInstances>(plan);
  ASSERT_EQ(call->block_devices.size(), 1U);
  const auto& device = call->block_devices.front();
  EXPECT_EQ(device.device_name, kLaunchDevice);
  EXPECT_EQ(device.snapshot_id, "snap-ami-volume");
  EXPECT_FALSE(device.delete_on_termination);
  EXPECT_EQ(call->volume_tags.at(kTagRole), kRoleLaunch);
  EXPECT_EQ(call->volume_tags.at(kTagLineage), "snap-ami-volume");
  EXPECT_EQ(call->instance_tags.at(kTagLaunchVolume), kLaunchDevice);
}

TEST(Adopt, a_throttled_create_may_have_made_what_no_launch_makes_beside_it) {
  for (const auto* action : {"CreateVolume", "CopyVolumes"}) {
    auto world = bare_world(3);
    for (const auto* node : {"p-0", "p-1", "p-2"})
      world.ledger.failures[failure_key(action, node)] = {1, kNow, "Throttling", true, "s", true};
    EXPECT_THAT(world.calls(), IsEmpty()) << action;
    world.now += kVisibilityWindow;
    EXPECT_THAT(world.calls(), ElementsAre("RunInstances 3 x g5.xlarge in z-a")) << action;
  }
}

TEST(Adopt, up_to_the_attach_bucket_volumes_are_made_apart) {
  auto world = bare_world(2);
  world.limits.calls["AttachVolume"] = 2;
  EXPECT_THAT(world.calls(), ElementsAre("CreateVolume from snap-ami-volume in z-a",
                                         "CreateVolume from snap-ami-volume in z-a"));
  world = bare_world(2);
  world.pool().launch->volume_with_launch = false;
  EXPECT_THAT(world.calls(), Not(Contains(HasSubstr("RunInstances"))));
}

TEST(Adopt, a_launch_in_one_zone_carries_for_nodes_that_would_be_put_in_another) {
  World world(4, 4, {"z-a", "z-b"});
  world.pool().launch->volume_with_launch = true;
  world.pool().launch->instance_types = {"g5.xlarge"};
  world.limits.calls["AttachVolume"] = 1;
  for (const auto* id : {"i-0", "i-1", "i-2", "i-3"})
    world.ledger.instances[id] = {"p", "z-b", kNow - seconds{2}, InstanceFate::fresh, true};
  EXPECT_THAT(world.calls(), Not(Contains(HasSubstr("CreateVolume"))));
}

/// A launch of p-0 and p-1 with volumes that has no answer yet.
Intent open_launch() {
  Intent intent;
  intent.call = {"RunInstances", "Action=RunInstances&BlockDeviceMapping.1.DeviceName=x"};
  intent.pool = "p";
  intent.nodes = {"p-0", "p-1"};
  intent.zone = "z-a";
  intent.token = client_token({"test", "RunInstances", "p", "x", 0, "z-a"});
  return intent;
}

TEST(Adopt, an_open_launch_with_volumes_asks_for_nothing_else) {
  auto world = bare_world(2);
  world.ledger.intents.push_back(open_launch());
  EXPECT_THAT(world.calls(), IsEmpty());
}

/// Seed 41500000129: all were ended as needed by no node, and their volumes stayed behind.
TEST(Adopt, what_a_launch_made_waits_for_its_late_answer) {
  for (const bool shows_volumes : {false, true}) {
    auto world = bare_world(2);
    const Intent intent = open_launch();
    world.ledger.intents.push_back(intent);
    for (const auto* id : {"0", "1"}) {
      carrier(world, std::string("i-") + id).client_token = intent.token;
      if (shows_volumes)
        launched_volume(world, std::string("vol-") + id, std::string("i-") + id);
      else  // a server that is behind in disks alone
        world.observed.instances.at(std::string("i-") + id)
            .block_devices.push_back(
                {"/dev/xvda", "vol-base", aws::AttachmentState::attached, true});
    }
    EXPECT_THAT(world.calls(), IsEmpty()) << shows_volumes;
    world.ledger.intents.clear();
    if (shows_volumes)
      EXPECT_THAT(world.calls(), ElementsAre("CreateTags vol-0", "CreateTags vol-1"));
  }
}

TEST(Adopt, an_accepted_launch_that_is_not_shown_yet_makes_no_second_volume) {
  auto world = bare_world(2);
  for (const auto* id : {"i-0", "i-1"})
    world.ledger.instances[id] = {"p", "z-a", kNow - Milliseconds{500}, InstanceFate::fresh, true};
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(Adopt, an_instance_that_a_look_leaves_out_still_carries_the_volume_that_is_shown_on_it) {
  auto world = bare_world(1);
  carrier(world, "i-0");
  launched_volume(world, "vol-1", "i-0");
  world.observed.instances.erase("i-0");
  ASSERT_FALSE(world.ledger.instances.at("i-0").with_volume);
  EXPECT_THAT(world.calls(), ElementsAre("CreateTags vol-1"));
}

TEST(Adopt, a_plain_launch_that_is_not_shown_yet_is_not_taken_for_one_with_a_volume) {
  auto world = bare_world(2);  // p-1's volume is not made yet
  world.limits.calls["CreateVolume"] = 0;
  world.limits.calls["AttachVolume"] = 5;
  world.volume("vol-0");
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g5.xlarge in z-a"));
  world.ledger.instances["i-0"] = {"p", "z-a", kNow - Milliseconds{500}};
  EXPECT_THAT(world.calls(), IsEmpty()) << "it is p-0's";
}

TEST(Adopt, a_pending_instance_whose_disk_is_not_shown_yet_makes_no_second_volume) {
  auto world = bare_world(1);
  world.limits.calls["AttachVolume"] = 0;
  carrier(world, "i-0", State::pending);
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(Adopt, each_volume_becomes_one_nodes_by_its_tag) {
  auto world = bare_world(2);
  for (const auto* id : {"0", "1"}) {
    carrier(world, std::string("i-") + id);
    launched_volume(world, std::string("vol-") + id, std::string("i-") + id);
  }
  const auto plan = world.plan();
  EXPECT_THAT(World::calls_of(plan), ElementsAre("CreateTags vol-0", "CreateTags vol-1"));
  const auto* first = std::get_if<aws::CreateTags>(&plan.actions.front().mutation);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->tags.at(kTagNode), "p-0");
  EXPECT_EQ(first->tags.at(kTagRole), "node");
}

TEST(Adopt, what_was_named_is_remembered_while_its_tag_is_on_its_way) {
  auto world = bare_world(2);
  carrier(world, "i-b");
  launched_volume(world, "vol-b", "i-b");
  std::string node;
  for (const auto& each : world.plan().records)
    if (const auto* volume = std::get_if<RecordVolume>(&each);
        volume && volume->volume_id == "vol-b")
      node = volume->volume.node;
  EXPECT_EQ(node, "p-0");
}

TEST(Adopt, a_second_look_after_a_crash_gives_the_rest_their_own) {
  auto world = bare_world(2);
  for (const auto* id : {"0", "1"}) {
    carrier(world, std::string("i-") + id);
    launched_volume(world, std::string("vol-") + id, std::string("i-") + id);
  }
  auto& adopted = world.observed.volumes.at("vol-0").tags;
  adopted[kTagNode] = "p-0";
  adopted[kTagRole] = "node";
  world.ledger = LedgerView{};  // lost with the process
  world.ledger.begun = kNow - seconds{60};
  for (const auto* id : {"i-0", "i-1"})
    world.observed.instances.at(id).client_token =
        client_token({"test", "RunInstances", "p", "x", 0, "z-a"});
  EXPECT_THAT(world.calls(), IsEmpty()) << "p-1's own may not be shown yet";
  world.ledger.watches["looked around"] = {kNow, 1};
  const auto plan = world.plan();
  EXPECT_THAT(World::calls_of(plan), ElementsAre("CreateTags vol-1"));
  EXPECT_EQ(std::get<aws::CreateTags>(plan.actions.front().mutation).tags.at(kTagNode), "p-1");
  EXPECT_EQ(plan.nodes.front().instance_id, "i-0") << "its attachment is a lease";
}

/// Nodes p-0 to p-5, each of whose launches has made a volume.
World crowd() {
  auto world = bare_world(6);
  for (int i = 0; i < 6; ++i) {
    carrier(world, "i-" + std::to_string(i));
    launched_volume(world, "vol-" + std::to_string(i), "i-" + std::to_string(i));
  }
  return world;
}

/// As the world is once the claim of `plan` is recorded and shown.
void show_claimed(World& world, const Plan& plan) {
  for (const auto& record : plan.records)
    if (const auto* volume = std::get_if<RecordVolume>(&record))
      world.ledger.volumes[volume->volume_id] = volume->volume;
  for (int i = 0; i < 6; ++i)
    world.observed.volumes.at("vol-" + std::to_string(i)).tags[kTagRole] = "node";
}

TEST(Claim, many_volumes_are_claimed_by_one_call_and_the_ledger_knows_whose_each_is) {
  const auto world = crowd();
  const auto plan = world.plan();
  const auto* call = only<aws::CreateTags>(plan);
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->resource_ids.size(), 6U);
  EXPECT_EQ(call->tags, (aws::Tags{{kTagRole, "node"}})) << "names differ, and follow";
  std::map<std::string, std::string> nodes;
  for (const auto& record : plan.records)
    if (const auto* volume = std::get_if<RecordVolume>(&record)) {
      nodes[volume->volume.node] = volume->volume_id;
      EXPECT_TRUE(volume->volume.ever_used) << "its instance may use it from now on";
    }
  EXPECT_EQ(nodes.size(), 6U) << "one each";
}

TEST(Claim, a_claimed_volume_is_leased_at_once_and_named_later) {
  auto world = crowd();
  show_claimed(world, world.plan());
  world.limits.calls["CreateTags"] = 2;
  const auto plan = world.plan();
  for (const auto& node : plan.nodes) EXPECT_TRUE(node.lease.has_value()) << node.node;
  ASSERT_EQ(plan.actions.size(), 2U) << "as many names as there are tokens";
  EXPECT_EQ(std::get<aws::CreateTags>(plan.actions.front().mutation).tags.at(kTagNode), "p-0");
  EXPECT_FALSE(plan.stable) << "the other names wait";
}

TEST(Claim, a_claim_that_is_not_shown_yet_is_repeated_for_the_same_nodes) {
  auto world = crowd();
  const auto first = world.plan();
  show_claimed(world, first);
  std::swap(world.ledger.volumes["vol-0"].node, world.ledger.volumes["vol-5"].node);
  for (int i = 0; i < 6; ++i)
    world.observed.volumes.at("vol-" + std::to_string(i)).tags[kTagRole] = kRoleLaunch;
  for (const auto& record : world.plan().records)
    if (const auto* volume = std::get_if<RecordVolume>(&record)) {
      EXPECT_EQ(volume->volume.node, world.ledger.volumes.at(volume->volume_id).node);
    }
}

TEST(Claim, after_a_refused_claim_each_volume_is_named_alone) {
  auto world = crowd();
  for (int i = 0; i < 6; ++i)
    world.ledger.failures["CreateTags/p-" + std::to_string(i)] = {1, kNow - seconds{60}, "Gone",
                                                                  false, ""};
  EXPECT_EQ(world.plan().actions.size(), 6U);
}

/// As after a claim that was recorded and that EC2 refused, or never heard.
World unheard_claim() {
  auto world = crowd();
  show_claimed(world, world.plan());
  for (int i = 0; i < 6; ++i)
    world.observed.volumes.at("vol-" + std::to_string(i)).tags[kTagRole] = kRoleLaunch;
  return world;
}

TEST(Claim, nobody_ends_instances_whose_claim_was_refused_while_their_names_wait) {
  auto world = unheard_claim();
  for (int i = 0; i < 6; ++i) {
    world.ledger.failures["CreateTags/p-" + std::to_string(i)] = {5, kNow - seconds{1}, "Gone",
                                                                  false, ""};
    world.ledger.watches["misled/i-" + std::to_string(i)] = {kNow - seconds{20}, 9};
  }
  EXPECT_THAT(world.calls(), Not(Contains(HasSubstr("TerminateInstances"))));
}

TEST(Claim, a_claim_that_nobody_heard_is_the_nodes_own_when_its_instance_is_gone) {
  auto world = unheard_claim();
  auto& volume = world.observed.volumes.at("vol-2");
  volume.attachments.clear();
  volume.state = aws::VolumeState::available;
  world.observed.instances.erase("i-2");
  const auto node = world.ledger.volumes.at("vol-2").node;
  const auto plan = world.plan();
  EXPECT_THAT(all<aws::CreateVolume>(plan), IsEmpty());
  bool named = false;
  for (const auto* call : all<aws::CreateTags>(plan))
    if (call->resource_ids == std::vector<std::string>{"vol-2"}) {
      named = true;
      EXPECT_EQ(call->tags.at(kTagNode), node);
      EXPECT_EQ(call->tags.at(kTagRole), "node");
    }
  EXPECT_TRUE(named);
}

TEST(Claim, with_the_ledger_lost_an_instance_that_may_serve_is_not_ended_for_want_of_a_node) {
  auto world = bare_world(1);
  world.volume("vol-own");
  carrier(world, "i-0");
  launched_volume(world, "vol-0", "i-0").tags[kTagRole] = "node";
  world.ledger.watches["misled/i-0"] = {kNow - seconds{20}, 9};
  EXPECT_THAT(world.calls(), Not(Contains(HasSubstr("TerminateInstances"))));
}

TEST(Claim, an_instance_that_would_take_a_volume_of_no_node_along_is_ended_once_it_cannot) {
  World world;
  world.volume("vol-own");
  world.instance("i-0");
  world.attach("vol-own", "i-0");
  world.instance("i-1");
  auto& volume = world.stranger("vol-1");
  world.attach("vol-1", "i-1");
  world.ledger.leases.pop_back();
  volume.tags.erase(kTagPool);
  volume.attachments.front().delete_on_termination = true;
  world.ledger.watches["misled/i-1"] = {kNow - seconds{20}, 9};
  EXPECT_THAT(world.calls(), ElementsAre("ModifyInstanceAttribute /dev/sdf of i-1 outlives it"));
  volume.attachments.front().delete_on_termination = false;
  EXPECT_THAT(world.calls(), ElementsAre("TerminateInstances i-1"));
}

TEST(Claim, a_base_root_that_carries_our_tags_ends_with_its_instance) {
  World world;
  world.volume("vol-own");
  world.instance("i-0");
  world.attach("vol-own", "i-0");
  world.instance("i-1");
  auto& root = world.stranger("vol-root");
  root.tags.erase(kTagNode);
  root.tags[kTagRole] = kRoleLaunch;
  root.state = aws::VolumeState::in_use;
  root.attachments = {{"vol-root", "i-1", "/dev/xvda", aws::AttachmentState::attached, kNow, true}};
  EXPECT_THAT(world.calls(), ElementsAre("TerminateInstances i-1"));
}

TEST(Claim, with_the_ledger_lost_its_attachment_finds_a_claimed_volume_a_node_again) {
  auto world = crowd();
  show_claimed(world, world.plan());
  world.ledger.volumes.clear();
  const auto plan = world.plan();
  const auto* call = only<aws::CreateTags>(plan);
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->resource_ids.size(), 6U);
}

TEST(Claim, with_the_ledger_lost_a_claimed_volume_without_an_instance_is_nobodys_spare) {
  auto world = bare_world(1);
  launched_volume(world, "vol-0", "").tags[kTagRole] = "node";
  const auto plan = world.plan();
  for (const auto& action : plan.actions) EXPECT_THAT(resource_ids(action.mutation), IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr("vol-0 was a node's"));
}

TEST(Adopt, the_bases_own_root_is_nobodys) {
  auto world = bare_world(1);
  carrier(world, "i-0");
  launched_volume(world, "vol-root", "i-0", "/dev/xvda");
  launched_volume(world, "vol-0", "i-0");
  EXPECT_THAT(world.calls(), ElementsAre("CreateTags vol-0"));
  EXPECT_THAT(world.notes(), Not(HasSubstr("vol-root")));
}

/// Seed 36000055045: another volume was made at once for the node that lacked one.
TEST(Adopt, what_an_instance_left_behind_becomes_a_spare_that_a_node_without_volume_waits_for) {
  auto world = bare_world(1);
  auto& volume = launched_volume(world, "vol-0", "");
  const auto plan = world.plan();
  const auto* kept = only<aws::CreateTags>(plan);
  ASSERT_NE(kept, nullptr);
  EXPECT_THAT(kept->resource_ids, ElementsAre("vol-0"));
  EXPECT_EQ(kept->tags.at(kTagRole), "spare");
  EXPECT_THAT(World::calls_of(plan), Not(Contains(HasSubstr("CreateVolume"))));
  volume.tags[kTagRole] = "spare";
  const auto next = world.plan();
  const auto* given = only<aws::CreateTags>(next);
  ASSERT_NE(given, nullptr);
  EXPECT_THAT(given->resource_ids, ElementsAre("vol-0"));
  EXPECT_EQ(given->tags.at(kTagNode), "p-0");
}

TEST(Adopt, a_spare_that_cannot_be_made_of_what_is_left_behind_holds_no_node_up) {
  auto world = bare_world(1);
  launched_volume(world, "vol-0", "");
  world.ledger.failures["CreateTags/vol-0"] = {1, kNow, "TagPolicyViolation", true, "s"};
  EXPECT_THAT(world.calls(), Contains(HasSubstr("CreateVolume")));
}

TEST(Adopt, an_instance_never_gets_a_second_volume_beside_the_one_it_carries) {
  auto world = bare_world(2);
  world.limits.calls["AttachVolume"] = 5;
  world.volume("vol-own", 0);
  carrier(world, "i-0");
  launched_volume(world, "vol-1", "i-0");
  EXPECT_THAT(world.calls(), Contains("CreateTags vol-1"));
  EXPECT_THAT(world.calls(), Not(Contains(HasSubstr("AttachVolume"))));
}

}  // namespace
}  // namespace warmroot::core
