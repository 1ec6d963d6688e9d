#include "bootstrap/mount_plan.hpp"

#include <gmock/gmock.h>

#include <algorithm>

namespace warmroot::bootstrap {
namespace {

MountFacts ordinary() {
  MountFacts facts;
  facts.base_has_run_user = true;
  facts.base_has_utmp = true;
  facts.sftp_server = "/usr/lib/openssh/sftp-server";
  return facts;
}

std::vector<std::string> targets(const std::vector<MountStep>& steps) {
  std::vector<std::string> names;
  for (const auto& step : steps) names.push_back(step.target);
  return names;
}

const MountStep* find(const std::vector<MountStep>& steps, const std::string& target) {
  const auto found = std::find_if(steps.begin(), steps.end(),
                                  [&](const MountStep& step) { return step.target == target; });
  return found == steps.end() ? nullptr : &*found;
}

TEST(MountPlan, an_ordinary_volume_gets_these_steps_in_this_order) {
  EXPECT_THAT(targets(plan_mounts(ordinary())),
              testing::ElementsAre("proc", "sys", "dev", "run", "run/lock", "run/sshd", "run/user",
                                   "run/utmp", "run/warmroot", "run/base-tmp", "run/base-run",
                                   "run/docker.sock", "etc/resolv.conf"));
}

TEST(MountPlan, every_step_that_mounts_says_how_it_is_undone) {
  for (const auto& step : plan_mounts(ordinary()))
    EXPECT_EQ(step.undo == MountUndo::none,
              step.kind == MountKind::directory || step.kind == MountKind::link)
        << step.name;
}

TEST(MountPlan, what_lies_in_a_mount_is_mounted_after_it) {
  const auto names = targets(plan_mounts(ordinary()));
  for (std::size_t inner = 0; inner < names.size(); ++inner)
    for (std::size_t outer = inner + 1; outer < names.size(); ++outer)
      EXPECT_NE(names[inner].rfind(names[outer] + "/", 0), 0u) << names[inner];
}

TEST(MountPlan, targets_are_relative_so_that_they_are_resolved_in_the_volume) {
  MountFacts facts = ordinary();
  facts.volume_has_sftp_server = false;
  for (const auto& step : plan_mounts(facts)) EXPECT_NE(step.target.front(), '/') << step.name;
}

TEST(MountPlan, a_missing_tmp_is_made_for_everybody_and_a_present_one_left_alone) {
  MountFacts facts = ordinary();
  EXPECT_EQ(find(plan_mounts(facts), "tmp"), nullptr);
  facts.volume_has_tmp = false;
  const auto steps = plan_mounts(facts);
  ASSERT_NE(find(steps, "tmp"), nullptr);
  EXPECT_EQ(find(steps, "tmp")->mode, 01777u);
}

TEST(MountPlan, the_base_s_sftp_server_is_bound_only_where_the_volume_has_none) {
  MountFacts facts = ordinary();
  EXPECT_EQ(find(plan_mounts(facts), "usr/lib/openssh/sftp-server"), nullptr);
  facts.volume_has_sftp_server = false;
  const auto steps = plan_mounts(facts);
  const MountStep* step = find(steps, "usr/lib/openssh/sftp-server");
  ASSERT_NE(step, nullptr);
  EXPECT_TRUE(step->target_is_file);
  EXPECT_FALSE(step->required);
}

TEST(MountPlan, trees_of_the_base_are_bound_whole_and_the_status_read_only) {
  const auto steps = plan_mounts(ordinary());
  EXPECT_EQ(find(steps, "dev")->kind, MountKind::bind_tree);
  EXPECT_EQ(find(steps, "sys")->kind, MountKind::bind_tree);
  EXPECT_TRUE(find(steps, "run/warmroot")->read_only);
}

TEST(MountPlan, a_base_without_resolv_conf_leaves_the_volume_s_in_place) {
  MountFacts facts = ordinary();
  facts.base_has_resolv_conf = false;
  EXPECT_EQ(find(plan_mounts(facts), "etc/resolv.conf"), nullptr);
}

TEST(MountPlan, xfs_is_mounted_although_the_base_root_has_the_same_uuid) {
  EXPECT_EQ(root_mount_options("xfs", false), "ro,nodev,nouuid");
  EXPECT_EQ(root_mount_options("xfs", true), "rw,relatime,nodev,nouuid");
  EXPECT_EQ(root_mount_options("ext4", true), "rw,relatime,nodev");
}

TEST(MountPlan, a_look_at_a_root_replays_nothing_whatever_the_type) {
  EXPECT_EQ(untouched_mount_options("ext4"), "ro,nodev,noload");
  EXPECT_EQ(untouched_mount_options("xfs"), "ro,nodev,nouuid,norecovery");
  EXPECT_EQ(untouched_mount_options("btrfs"), "ro,nodev,nodiscard,rescue=nologreplay");
}

TEST(MountPlan, btrfs_discards_nothing_on_the_volume) {
  EXPECT_EQ(root_mount_options("btrfs", true), "rw,relatime,nodev,nodiscard");
}

}  // namespace
}  // namespace warmroot::bootstrap
