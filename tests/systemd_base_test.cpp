// The bootstrap on a base with systemd and cloud-init: as a unit of its own (which command makes it
// one, what is put before it), and what cloud-init says of itself.
#include "bootstrap/own_unit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bootstrap/cloud_init.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += word + "\n";
  return text;
}

TEST(OwnUnit, ends_before_a_shutdown_goes_on_and_after_nothing_that_waits_for_cloud_init) {
  const std::string command = joined(in_own_unit("/usr/bin/systemd-run", {"/bin/b", "up"}));
  EXPECT_THAT(command, HasSubstr("/usr/bin/systemd-run\n--scope\n"));
  EXPECT_THAT(command, HasSubstr("--unit=warmroot-bootstrap.scope\n"));
  EXPECT_THAT(command, HasSubstr("-p\nConflicts=shutdown.target\n-p\nBefore=shutdown.target\n"));
  EXPECT_THAT(command, HasSubstr("-p\nDefaultDependencies=no\n"));
  // Sessions of the volume's own sshd are in it: what they use up must not end it.
  EXPECT_THAT(command, HasSubstr("-p\nDelegate=yes\n-p\nTasksMax=infinity\n"));
  EXPECT_THAT(command, testing::EndsWith("\n/bin/b\nup\n"));
  // What cloud-init.service comes before would be waited for by it and wait for it.
  const std::size_t after = command.find("After=");
  const std::string units = command.substr(after, command.find('\n', after) - after);
  for (const char* later : {"sshd", "ssh.service", "systemd-user-sessions", "network-online",
                            "sysinit.target", "basic.target", "dbus"})
    EXPECT_THAT(units, testing::Not(HasSubstr(later)));
}

TEST(OwnUnit, comes_after_sessions_and_the_volume_s_mounts_so_that_it_ends_before_they_do) {
  std::vector<std::string> paths;
  for (const UnitFile& file : unit_order()) {
    paths.push_back(file.path);
    EXPECT_THAT(file.text, HasSubstr("\n[Unit]\nBefore=warmroot-bootstrap.scope\n"));
  }
  // systemd's names of kVolumePoint and, by their beginning, of what is mounted below it.
  EXPECT_THAT(paths, testing::UnorderedElementsAre(
                         "session-.scope.d/50-warmroot.conf",
                         "run-warmroot-private-volume.mount.d/50-warmroot.conf",
                         "run-warmroot-private-volume-.mount.d/50-warmroot.conf"));
}

TEST(OwnUnit, sshd_waits_for_the_volume_and_for_nothing_that_waits_for_sshd) {
  const std::string command = joined(before_sshd("/usr/bin/systemd-run", {"/bin/b", "wait"}));
  EXPECT_THAT(command, HasSubstr("\n--no-block\n"));  // cloud-init, too, comes before sshd
  EXPECT_THAT(command, HasSubstr("\n--service-type=oneshot\n"));
  EXPECT_THAT(command, HasSubstr("\n-p\nDefaultDependencies=no\n"));
  EXPECT_THAT(command, HasSubstr("\n-p\nBefore=ssh.service sshd.service shutdown.target\n"));
  EXPECT_THAT(command, testing::Not(HasSubstr("After=")));
  EXPECT_THAT(command, testing::Not(HasSubstr(".socket")));
  // A volume that did not come leaves no failed unit behind.
  EXPECT_THAT(command, HasSubstr("\n-p\nSuccessExitStatus=1\n"));
  EXPECT_THAT(command, testing::EndsWith("\n/bin/b\nwait\n"));
}

TEST(OwnUnit, a_machine_ends_or_reboots_where_init_has_a_job_to_start_a_target_that_does_it) {
  const std::string others =
      "2151 systemd-reboot.service       start waiting\n"
      "2166 session-3.scope              stop  running\n";
  for (const char* job : {"2150 reboot.target                start waiting\n",
                          "9 kexec.target start running\n", "  9  reboot.target  start  waiting"})
    EXPECT_EQ(plan_by_jobs(others + job + "7 shutdown.target start waiting\n"),
              MachinePlan::reboots)
        << job;
  for (const char* job :
       {"2150 poweroff.target start waiting\n", "2150 halt.target start waiting\n",
        "2150 exit.target start waiting\n", "7 shutdown.target start waiting\n"})
    EXPECT_EQ(plan_by_jobs(others + job), MachinePlan::shuts_down) << job;
  const std::string soft = "2150 soft-reboot.target start waiting\n";
  const std::string with_it = "7 shutdown.target start waiting\n";
  for (const auto& jobs : {soft, soft + with_it, with_it + soft})
    EXPECT_EQ(plan_by_jobs(others + jobs), MachinePlan::soft_reboots) << jobs;
  // Then a unit is stopped alone.
  for (const char* job :
       {"", "No jobs running.\n", "9 warmroot-bootstrap.scope stop running\n",
        "2150 reboot.target stop waiting\n", "7 shutdown.target stop waiting\n",
        "2150 reboot.target verify-active waiting\n", "2150 warmroot-reboot.target start waiting\n",
        "reboot.target start waiting\n", "2150 cloud-reboot.target.d start waiting\n",
        "2150 start reboot.target waiting\n"})
    EXPECT_EQ(plan_by_jobs(others + job), MachinePlan::stays) << job;
}

TEST(CloudInit, makes_its_users_until_the_stage_that_runs_boothooks_has_ended) {
  // As version 22.4 writes it.
  const auto status = [](const std::string& stage, const std::string& finished) {
    return R"({"v1": {"datasource": null, "init": {"errors": [], "finished": )" + finished +
           R"(, "start": 1764022712.5}, "init-local": {"errors": [], "finished": 17.5, )"
           R"("start": 17.4}, "stage": )" +
           stage + "}}";
  };
  EXPECT_TRUE(cloud_init_makes_users(status("\"init\"", "null")));
  EXPECT_FALSE(cloud_init_makes_users(status("\"init\"", "1764022790.25")));
  EXPECT_FALSE(cloud_init_makes_users(status("\"modules-config\"", "1764022790.25")));
  EXPECT_FALSE(cloud_init_makes_users(status("null", "1764022790.25")));
  for (const char* other :
       {"", "{", "[]", "{}", R"({"v1": 1})", R"({"v1": {"stage": "init"}})",
        R"({"v1": {"stage": "init", "init": 3}})", R"({"v1": {"stage": 7, "init": {}}})"})
    EXPECT_FALSE(cloud_init_makes_users(other)) << other;
}

}  // namespace
}  // namespace warmroot::bootstrap
