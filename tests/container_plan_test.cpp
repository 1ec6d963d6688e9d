// How a volume is booted as a container, and what its init is told.
#include "bootstrap/container_plan.hpp"
#include "bootstrap/restart_limit.hpp"

#include <gmock/gmock.h>

namespace warmroot::bootstrap {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

TEST(Container, its_sshd_is_told_the_same_as_one_without_a_container) {
  const std::string unit = container_sshd_unit({4711, true, true, ".ssh/keys"});
  EXPECT_THAT(unit, HasSubstr("\nExecStart=/usr/sbin/sshd \"-D\" \"-e\" \"-p\" \"4711\" "));
  EXPECT_THAT(unit, HasSubstr("\"ListenAddress=[::1]:4711\""));
  EXPECT_THAT(unit, HasSubstr("\nKillMode=process\n"));
}

TEST(Container, what_systemd_would_expand_in_a_word_of_the_volume_s_is_kept) {
  const std::string unit = container_sshd_unit({1, false, false, ".ssh/%u /a$b\"c\\d"});
  EXPECT_THAT(unit, HasSubstr("\"AuthorizedKeysFile=.ssh/%%u /a$$b\\\"c\\\\d "
                              "/run/warmroot/launch_keys/%%u\"\n"));
}

TEST(Container, is_a_unit_of_its_own_where_the_base_s_init_is_systemd) {
  ContainerFacts facts{"/usr/bin/systemd-nspawn", "", {"/dev/nvidia0"}, "/run/x.service", ""};
  const auto alone = container_command(facts);
  EXPECT_EQ(alone.front(), "/usr/bin/systemd-nspawn");
  facts.systemd_run = "/usr/bin/systemd-run";
  const auto words = container_command(facts);
  EXPECT_EQ(words.front(), "/usr/bin/systemd-run");
  EXPECT_THAT(words, IsSupersetOf({"--scope", "--unit=warmroot-volume.scope", "Delegate=yes",
                                   "TasksMax=infinity", "Before=warmroot-bootstrap.scope"}));
  ASSERT_LT(alone.size(), words.size());
  EXPECT_TRUE(std::equal(alone.rbegin(), alone.rend(), words.rbegin()));
}

TEST(Container, leaves_the_volume_s_files_the_base_s_port_and_the_user_data_alone) {
  const auto words = container_command({"/n", "", {"/dev/nvidia0"}, "/run/x.service", ""});
  EXPECT_THAT(
      words,
      IsSupersetOf({"--resolv-conf=off", "--timezone=off", "--link-journal=no", "--settings=no",
                    "--bind=/dev/nvidia0", "systemd.mask=ssh.service", "systemd.mask=ssh.socket",
                    "systemd.mask=cloud-init.service", "cloud-init=disabled",
                    "systemd.firstboot=off", "systemd.wants=warmroot-sshd.service"}));
  EXPECT_THAT(words,
              Contains("--bind-ro=/run/x.service:/run/systemd/system/warmroot-sshd.service"));
  EXPECT_THAT(words, Contains("--bind-ro=/run/warmroot:/run/warmroot:norbind"));
}

TEST(Container, shares_accelerators_and_no_disks) {
  EXPECT_THAT(
      devices_to_share({"sda", "nvidia0", "nvidiactl", "nvme0n1", "dri", "fuse", "null",
                        "network_latency", "neuron0"}),
      ElementsAre("/dev/dri", "/dev/fuse", "/dev/neuron0", "/dev/nvidia0", "/dev/nvidiactl"));
}

TEST(Container, knows_sessions_from_what_init_runs) {
  EXPECT_TRUE(in_session(
      "0::/warmroot-volume.scope/payload/user.slice/user-1000.slice/session-3.scope\n", false));
  EXPECT_FALSE(in_session(
      "0::/warmroot-volume.scope/payload/user.slice/user-1000.slice/user@1000.service/init.scope\n",
      false));
  EXPECT_FALSE(in_session("0::/warmroot-volume.scope/payload/system.slice/cron.service\n", false));
  EXPECT_FALSE(in_session("", false));
  // Without logind they are where the sshd is.
  const char* beside = "0::/x/payload/system.slice/warmroot-sshd.service\n";
  EXPECT_TRUE(in_session(beside, false));
  EXPECT_FALSE(in_session(beside, true));
  // Of a base with both hierarchies.
  EXPECT_TRUE(
      in_session("4:memory:/\n1:name=systemd:/payload/user.slice/session-1.scope\n0::/\n", false));
}

TEST(Container, another_s_unit_of_the_same_name_is_not_its_sshd_s) {
  EXPECT_TRUE(
      in_sshd_unit("0::/warmroot-volume.scope/payload/system.slice/warmroot-sshd.service\n"));
  EXPECT_FALSE(
      in_sshd_unit("0::/payload/user.slice/user-1000.slice/user@1000.service/app.slice/"
                   "warmroot-sshd.service\n"));
  EXPECT_FALSE(in_sshd_unit("0::/payload/system.slice/warmroot-sshd.service/below\n"));
}

TEST(Container, has_the_base_s_resolv_conf_where_the_volume_s_leads_into_run) {
  EXPECT_THAT(container_command({"/n", "", {}, "/u", "/run/systemd/resolve/stub-resolv.conf"}),
              Contains("--bind-ro=/run/warmroot/resolv:/run/systemd/resolve/stub-resolv.conf"));
}

TEST(Container, a_resolv_conf_of_the_volume_s_takes_the_place_of_nothing_else) {
  for (const char* path :
       {"/run/systemd/resolve/stub-resolv.conf", "/run/NetworkManager/resolv.conf",
        "/run/warmroot-resolv", "/run/systemd/system/other.service"})
    EXPECT_TRUE(takes_resolv_conf(path)) << path;
  for (const char* path :
       {"", "/etc/resolv.conf", "/run", "/runner/resolv.conf", "/run/warmroot", "/run/warmroot/key",
        "/run/systemd", "/run/systemd/system", "/run/systemd/system/warmroot-sshd.service",
        "/run/systemd/system/warmroot-sshd.service/x", "/run/a:rbind", "/run/a\\"})
    EXPECT_FALSE(takes_resolv_conf(path)) << path;
}

TEST(Container, its_first_process_counts_as_one_inside) {
  EXPECT_EQ(innermost_pid("Name:\tsystemd\nNSpid:\t812\t1\nNSpgid:\t812\t1\n"), 1);
  EXPECT_EQ(innermost_pid("Name:\tbash\nNSpid:\t812\n"), 812);
  EXPECT_EQ(innermost_pid("Name:\tbash\n"), 0);
  EXPECT_EQ(innermost_pid(""), 0);
}

TEST(Restarts, a_container_that_reboots_for_ever_is_left_alone_and_later_not) {
  RestartLimit restarts;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(restarts.allow(1000 + i));
  EXPECT_FALSE(restarts.allow(2000));
  EXPECT_FALSE(restarts.allow(1000 + RestartLimit::kRestartWindowMs - 1));
  EXPECT_TRUE(restarts.allow(1000 + RestartLimit::kRestartWindowMs));
  EXPECT_FALSE(restarts.allow(1000 + RestartLimit::kRestartWindowMs)) << "four are in the window";
}

}  // namespace
}  // namespace warmroot::bootstrap
