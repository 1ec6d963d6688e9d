// What `warmroot ssh` runs and `warmroot ssh-config` prints, as the stock ssh understands it.
#include "manager/ssh_config.hpp"

#include <gmock/gmock.h>

#include "bootstrap/files.hpp"
#include "tests/must_run.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::manager {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const SshTarget kTarget{"imagenet-0", "10.0.0.5", "admin", 2222};

TEST(SshArguments, carry_the_node_s_name_for_the_host_key_and_the_command_behind_a_mark) {
  EXPECT_THAT(ssh_arguments(kTarget, {}), ElementsAre("ssh", "-o", "HostKeyAlias=imagenet-0", "-o",
                                                      "CheckHostIP=no", "-l", "admin", "10.0.0.5"));
  EXPECT_THAT(ssh_arguments({"n-0", "10.0.0.5", "", 0}, {"-l", "x; y"}),
              ElementsAre("ssh", "-o", "HostKeyAlias=n-0", "-o", "CheckHostIP=no", "10.0.0.5", "--",
                          "-l", "x; y"));
}

struct Hostile {
  SshTarget target;
  const char* why;
};
class HostileTargets : public testing::TestWithParam<Hostile> {};

TEST_P(HostileTargets, are_refused) {
  EXPECT_FALSE(check_ssh_target(GetParam().target)) << GetParam().why;
}

INSTANTIATE_TEST_SUITE_P(
    Table, HostileTargets,
    testing::Values(Hostile{{"-oProxyCommand=x", "10.0.0.5", "", 0}, "a name that is an option"},
                    Hostile{{"a b", "10.0.0.5", "", 0}, "two patterns"},
                    Hostile{{"a\n  ProxyCommand x", "10.0.0.5", "", 0}, "a line of its own"},
                    Hostile{{"*", "10.0.0.5", "", 0}, "every host"},
                    Hostile{{"", "10.0.0.5", "", 0}, "no name"},
                    Hostile{{"n-0", "10.0.0.5 x", "", 0}, "more than an address"},
                    Hostile{{"n-0", "-oProxyCommand=x", "", 0}, "an address that is an option"},
                    Hostile{{"n-0", "", "", 0}, "no address"},
                    Hostile{{"n-0", "10.0.0.5", "-x", 0}, "a user that is an option"},
                    Hostile{{"n-0", "10.0.0.5", "a$(x)", 0}, "a user for a shell"}));

TEST(SshConfig, is_what_ssh_reads) {
  const std::string program = bootstrap::first_executable({"/usr/bin/ssh"});
  if (program.empty()) {
    if (must_run()) FAIL() << "cannot run: no ssh";
    GTEST_SKIP() << "SKIPPED, not tested: no ssh";
  }
  ASSERT_TRUE(check_ssh_target(kTarget));
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/config";
  const SshTarget other{"other-1", "2001:db8::7", "", 0};
  ASSERT_TRUE(bootstrap::write_in_place(file, ssh_host_blocks(kTarget) + ssh_host_blocks(other)));
  const auto understood = [&](const std::string& host) {
    const auto done =
        bootstrap::run_program({program, "-F", file, "-G", host}, std::chrono::milliseconds(20000));
    return done ? "\n" + done->output : done.error().message();
  };
  const std::string node = understood("imagenet-0");
  for (const char* line : {"hostname 10.0.0.5", "hostkeyalias imagenet-0", "user admin", "port 22"})
    EXPECT_THAT(node, HasSubstr("\n" + std::string(line) + "\n"));
  const std::string rescue = understood("imagenet-0-rescue");
  for (const char* line : {"hostname 10.0.0.5", "hostkeyalias imagenet-0", "port 2222"})
    EXPECT_THAT(rescue, HasSubstr("\n" + std::string(line) + "\n"));
  EXPECT_THAT(understood("other-1"), HasSubstr("\nhostname 2001:db8::7\n"));
  EXPECT_THAT(understood("other-1-rescue"), HasSubstr("\nhostname other-1-rescue\n"));
}

}  // namespace
}  // namespace warmroot::manager
