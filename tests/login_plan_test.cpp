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

std::set<pid_t> under_way(const std::vector<LoginProcess>& with) {
  std::vector<LoginProcess> all = {{1, 0, "systemd", true, Root::base},
                                   {700, 1, "sshd", true, Root::base}};
  all.insert(all.end(), with.begin(), with.end());
  return logins_under_way(all);
}

TEST(LoginsUnderWay, are_those_whom_nobody_has_let_in_yet) {
  EXPECT_THAT(under_way({{800, 700, "sshd", true, Root::base}}), ElementsAre(800));
  EXPECT_THAT(
      under_way({{800, 700, "sshd", true, Root::base}, {801, 800, "sshd", false, Root::other}}),
      ElementsAre(800))
      << "in sshd's empty directory";
  EXPECT_THAT(under_way({{800, 700, "sshd-session", true, Root::base},
                         {801, 800, "sshd-auth", false, Root::other}}),
              ElementsAre(800))
      << "OpenSSH 9.8 and later";
}

/// A login by a key of the volume's, let in before the keys were taken away, found the link to "/"
/// when PAM was done: it was the base's user then.
TEST(LoginsUnderWay, are_those_who_were_let_in_and_have_no_root_yet) {
  EXPECT_THAT(
      under_way({{800, 700, "sshd", true, Root::base}, {801, 800, "sshd", true, Root::base}}),
      ElementsAre(800, 801));
}

TEST(LoginsUnderWay, are_no_sessions) {
  for (const Root root : {Root::base, Root::volume}) {
    EXPECT_THAT(under_way({{800, 700, "sshd", true, Root::base}, {801, 800, "sshd", false, root}}),
                IsEmpty())
        << "a person's, also one that runs nothing and forwards ports";
    EXPECT_THAT(under_way({{800, 700, "sshd", true, Root::base}, {801, 800, "bash", true, root}}),
                IsEmpty())
        << "root's";
  }
}

TEST(LoginsUnderWay, are_none_of_a_container_nor_of_another_program) {
  EXPECT_THAT(
      under_way({{900, 1, "sshd", true, Root::other}, {901, 900, "sshd", true, Root::other}}),
      IsEmpty());
  EXPECT_THAT(
      under_way({{900, 1, "nginx", true, Root::base}, {901, 900, "nginx", true, Root::base}}),
      IsEmpty());
  EXPECT_THAT(under_way({}), IsEmpty()) << "the listener itself";
  EXPECT_THAT(under_way({{900, 1, "sshd_entry_test", true, Root::base},
                         {901, 900, "sshd", true, Root::base}}),
              IsEmpty())
      << "a listener of somebody's with a name like sshd's";
}

}  // namespace
}  // namespace warmroot::bootstrap
