// Which of sshd's processes are logins under way, and which have a session behind them.
#include "bootstrap/login_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace warmroot::bootstrap {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Root = LoginProcess::Root;

/// sshd's own processes have the listener's session.
LoginProcess process(pid_t pid, pid_t parent, const char* command, bool is_roots, Root root,
                     pid_t session = 700) {
  return {pid, parent, session, command, is_roots, root, false};
}

std::set<pid_t> under_way(const std::vector<LoginProcess>& with) {
  std::vector<LoginProcess> all = {process(1, 0, "systemd", true, Root::base),
                                   process(700, 1, "sshd", true, Root::base)};
  all.insert(all.end(), with.begin(), with.end());
  return logins_under_way(all);
}

TEST(LoginsUnderWay, are_those_whom_nobody_has_let_in_yet) {
  EXPECT_THAT(under_way({process(800, 700, "sshd", true, Root::base)}), ElementsAre(800));
  EXPECT_THAT(under_way({process(800, 700, "sshd", true, Root::base),
                         process(801, 800, "sshd", false, Root::other)}),
              ElementsAre(800))
      << "in sshd's empty directory";
  EXPECT_THAT(under_way({process(800, 700, "sshd-session", true, Root::base),
                         process(801, 800, "sshd-auth", false, Root::other)}),
              ElementsAre(800))
      << "OpenSSH 9.8 and later";
}

/// A login by a key of the volume's, let in before the keys were taken away, found the link to "/"
/// when PAM was done: it was the base's user then.
TEST(LoginsUnderWay, are_those_who_were_let_in_and_have_no_root_yet) {
  EXPECT_THAT(under_way({process(800, 700, "sshd", true, Root::base),
                         process(801, 800, "sshd", true, Root::base)}),
              ElementsAre(800, 801));
}

TEST(LoginsUnderWay, are_no_sessions) {
  for (const Root root : {Root::base, Root::volume}) {
    EXPECT_THAT(under_way({process(800, 700, "sshd", true, Root::base),
                           process(801, 800, "sshd", false, root)}),
                IsEmpty())
        << "a person's, also one that runs nothing and forwards ports";
    EXPECT_THAT(under_way({process(800, 700, "sshd", true, Root::base),
                           process(801, 800, "bash", true, root, 801)}),
                IsEmpty())
        << "root's";
  }
}

/// Root's sessions were ended: from OpenSSH 9.8 on there is an sshd of root's more above the shell.
TEST(LoginsUnderWay, are_no_sessions_of_roots_with_any_sshd) {
  for (const Root root : {Root::base, Root::volume})
    EXPECT_THAT(under_way({process(800, 700, "sshd-session", true, Root::base),
                           process(801, 800, "sshd-session", true, Root::base),
                           process(802, 801, "bash", true, root, 802)}),
                IsEmpty());
  EXPECT_THAT(under_way({process(800, 700, "sshd-session", true, Root::base),
                         process(801, 800, "sshd-session", true, Root::volume)}),
              IsEmpty())
      << "without a shell";
  LoginProcess forwards = process(800, 700, "sshd", true, Root::base);
  forwards.is_old = true;
  EXPECT_THAT(under_way({forwards}), IsEmpty()) << "root's ssh -N with OpenSSH up to 9.7";
}

/// motd's scripts and an AuthorizedKeysCommand run before anybody has a root.
TEST(LoginsUnderWay, are_those_for_whom_pam_runs_something) {
  EXPECT_THAT(under_way({process(800, 700, "sshd", true, Root::base),
                         process(801, 800, "run-parts", true, Root::base)}),
              ElementsAre(800));
}

TEST(LoginsUnderWay, are_none_of_a_container_nor_of_another_program) {
  EXPECT_THAT(under_way({process(900, 1, "sshd", true, Root::other),
                         process(901, 900, "sshd", true, Root::other)}),
              IsEmpty());
  EXPECT_THAT(under_way({process(900, 1, "nginx", true, Root::base),
                         process(901, 900, "nginx", true, Root::base)}),
              IsEmpty());
  EXPECT_THAT(under_way({}), IsEmpty()) << "the listener itself";
  EXPECT_THAT(under_way({process(900, 1, "sshd_entry_test", true, Root::base),
                         process(901, 900, "sshd", true, Root::base)}),
              IsEmpty())
      << "a listener of somebody's with a name like sshd's";
}

}  // namespace
}  // namespace warmroot::bootstrap
