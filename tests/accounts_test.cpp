#include "bootstrap/accounts.hpp"

#include <gmock/gmock.h>

#include <chrono>

#include "bootstrap/account_remarks.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const AccountFiles kBase{
    "root:x:0:0:root:/root:/bin/bash\nadmin:x:1000:1000:Debian:/home/admin:/bin/bash\n",
    "root:x:0:\nadmin:x:1000:\n", "root:*:19000:0:99999:7:::\nadmin:!:19000:0:99999:7:::\n"};

AccountFiles volume(const std::string& passwd, const std::string& group = "",
                    const std::string& shadow = "") {
  return {passwd, group, shadow};
}

TEST(Accounts, a_person_of_the_volume_gets_a_base_entry_with_the_volume_s_ids) {
  const auto edit = merge_accounts(
      kBase, volume("ada:x:2001:2002:Ada:/home/ada:/bin/zsh\n", "ada:x:2002:\nlab:x:3000:ada\n",
                    "ada:$6$salt$hash:19500:0:99999:7:::\n"));
  EXPECT_THAT(edit.passwd_added, ElementsAre("ada:x:2001:2002:Ada:/home/ada:/bin/zsh"));
  EXPECT_THAT(edit.group_added, ElementsAre("ada:x:2002:", "lab:x:3000:ada"));
  EXPECT_THAT(edit.shadow_added, ElementsAre("ada:$6$salt$hash:19000:0:99999:7:::"));
  EXPECT_THAT(edit.files.passwd, HasSubstr(kBase.passwd));
  ASSERT_EQ(edit.session_users.size(), 1u);
  EXPECT_THAT(groups_of(edit.session_users[0], edit.files.group), ElementsAre(2002u, 3000u));
}

struct NotImported {
  const char* why;
  const char* line;
};
class NotImportedLines : public testing::TestWithParam<NotImported> {};

TEST_P(NotImportedLines, never_reach_the_base) {
  const auto edit = merge_accounts(kBase, volume(std::string(GetParam().line) + "\n"));
  EXPECT_FALSE(edit.changed()) << GetParam().why;
  EXPECT_EQ(edit.files.passwd, kBase.passwd);
}

INSTANTIATE_TEST_SUITE_P(
    Table, NotImportedLines,
    testing::Values(NotImported{"uid 0 under another name", "toor:x:0:1000::/root:/bin/sh"},
                    NotImported{"gid 0", "eve:x:2000:0::/home/eve:/bin/sh"},
                    NotImported{"a system account", "postgres:x:999:999::/var/lib/pg:/bin/sh"},
                    NotImported{"nobody", "nobody:x:65534:65534::/nonexistent:/bin/sh"},
                    NotImported{"a name that is an option", "-x:x:2000:2000::/home/x:/bin/sh"},
                    NotImported{"a name that is a path", "../eve:x:2000:2000::/home/x:/bin/sh"},
                    NotImported{"a NIS entry", "+::::::"},
                    NotImported{"too few fields", "eve:x:2000:2000:/home/eve:/bin/sh"},
                    NotImported{"an id that overflows to 0", "eve:x:4294967296:2000::/h:/bin/sh"},
                    NotImported{"a negative id", "eve:x:-1:2000::/h:/bin/sh"},
                    NotImported{"a relative home", "eve:x:2000:2000::home:/bin/sh"},
                    NotImported{"a home with dots", "eve:x:2000:2000::/home/../root:/bin/sh"},
                    NotImported{"a home in the mounted volume",
                                "eve:x:2000:2000::/run/warmroot/private/volume/home/eve:/bin/sh"},
                    NotImported{"anybody's home", "eve:x:2000:2000::/tmp:/bin/sh"},
                    NotImported{"such a home behind two slashes",
                                "eve:x:2000:2000:://run/warmroot/private/volume/home/eve:/bin/sh"},
                    NotImported{"such a home behind a dot", "eve:x:2000:2000::/./tmp:/bin/sh"},
                    NotImported{"such a home at the end", "eve:x:2000:2000::/tmp/.:/bin/sh"},
                    NotImported{"a home above itself", "eve:x:2000:2000::/srv/..:/bin/sh"},
                    NotImported{"a home above /var/lock", "eve:x:2000:2000::/var/lock/..:/bin/sh"},
                    NotImported{"a home in /var/lock", "eve:x:2000:2000::/var/lock/eve:/bin/sh"},
                    NotImported{"a carriage return", "eve:x:2000:2000::/home/eve:/bin/sh\r"},
                    NotImported{"whom the base knows", "admin:x:1000:1000::/home/admin:/bin/sh"}));

TEST(Accounts, one_whose_account_has_expired_on_the_volume_does_not_get_in_by_the_base) {
  const AccountEdit edit = merge_accounts(
      {"root:x:0:0::/root:/bin/sh\n", "root:x:0:\n", "root:*:19000:0:99999:7:::\n"},
      {"ada:x:2001:2001::/home/ada:/bin/sh\nbob:x:2002:2001::/home/bob:/bin/sh\n", "ada:x:2001:\n",
       "ada:$6$salt$hash:18000:0:90:7:30:1:\nbob:!:18000:0:99999:7::many:\n"});
  EXPECT_THAT(edit.shadow_added,
              ElementsAre("ada:$6$salt$hash:19000:0:99999:7::1:", "bob:!:19000:0:99999:7:::"));
}

TEST(Accounts, a_line_of_a_hundred_megabytes_is_passed_over) {
  const std::string huge =
      "eve:x:2000:2000:" + std::string(100'000'000, 'a') + ":/home/eve:/bin/sh\n";
  const auto edit = merge_accounts(kBase, volume(huge + "ada:x:2001:2001::/home/ada:/bin/sh\n"));
  EXPECT_THAT(edit.passwd_added, ElementsAre("ada:x:2001:2001::/home/ada:/bin/sh"));
}

struct Known {
  const char* why;
  const char* base;    ///< passwd of the base beside root
  const char* volume;  ///< passwd of the volume
  const char* after;   ///< what the base's becomes; empty: it stays
  const char* note;
};
class KnownPeople : public testing::TestWithParam<Known> {};

/// zsh is on the base alone, fish on the volume alone, the others on both.
const Shells kShells{{"/bin/zsh"}, {"/bin/bash", "/bin/sh", "/bin/ksh"}};

TEST_P(KnownPeople, keep_their_ids_and_get_a_shell_that_is_there_and_the_base_s_entry_comes_back) {
  AccountFiles base = kBase;
  base.passwd = "root:x:0:0:root:/root:/bin/bash\n" + std::string(GetParam().base) + "\n";
  base.group += "docker:x:1900:\nwarmroot-base:x:1901:ops\n";
  const auto edit = merge_accounts(base, volume(std::string(GetParam().volume) + "\n"), kShells);
  const std::string after = *GetParam().after == '\0' ? GetParam().base : GetParam().after;
  EXPECT_EQ(edit.files.passwd, "root:x:0:0:root:/root:/bin/bash\n" + after + "\n")
      << GetParam().why;
  std::string notes;
  for (const auto& note : edit.notes) notes += note + "\n";
  EXPECT_THAT(notes, HasSubstr(GetParam().note));
  EXPECT_EQ(revert_accounts(edit.files, parse_record(record_of(edit))).passwd, base.passwd);
  const auto again =
      merge_accounts(edit.files, volume(std::string(GetParam().volume) + "\n"), kShells);
  EXPECT_EQ(again.files.passwd, edit.files.passwd) << "merged into its own result";
}

INSTANTIATE_TEST_SUITE_P(
    Table, KnownPeople,
    testing::Values(
        Known{"another uid", "ada:x:1000:1000:Ada:/home/ada:/bin/bash",
              "ada:x:2001:2002::/srv/ada:/bin/sh", "",
              "uid 1000 on the base and 2001 on the volume; sessions use the base's"},
        Known{"another uid, which is somebody's on the base",
              "ada:x:1000:1000::/home/ada:/bin/bash\nbob:x:2001:2001::/home/bob:/bin/sh",
              "ada:x:2001:2001::/home/ada:/bin/bash", "", "sessions use the base's"},
        Known{"another uid, with a group that is worth something",
              "ada:x:1000:1000::/home/ada:/bin/bash", "ada:x:2001:1900::/home/ada:/bin/bash", "",
              "sessions use the base's"},
        Known{"root on the volume, a person here", "toor:x:1000:1000::/home/toor:/bin/bash",
              "toor:x:0:0::/root:/bin/bash", "", ""},
        Known{"a person on the volume, a system account here", "www:x:33:33::/var/www:/bin/bash",
              "www:x:1033:1033::/home/www:/bin/bash", "", "sessions use the base's"},
        Known{"an operator of the base", "ops:x:1000:1000::/home/ops:/bin/zsh",
              "ops:x:2001:2001::/home/ops:/bin/bash", "", "sessions use the base's"},
        Known{"a shell that the volume lacks", "ada:x:1000:1000::/home/ada:/bin/zsh",
              "ada:x:1000:1000::/home/ada:/bin/ksh", "ada:x:1000:1000::/home/ada:/bin/ksh",
              "the shell /bin/zsh, which the volume lacks; sessions use /bin/ksh"},
        Known{"such a shell, and one on the volume that the base lacks",
              "ada:x:1000:1000::/home/ada:/bin/zsh", "ada:x:1000:1000::/home/ada:/bin/fish",
              "ada:x:1000:1000::/home/ada:/bin/bash", "sessions use /bin/bash"},
        Known{"a password that is locked in passwd itself", "ada:*:1000:1000::/home/ada:/bin/zsh",
              "ada:x:1000:1000::/home/ada:/bin/sh", "ada:*:1000:1000::/home/ada:/bin/sh",
              "sessions use /bin/sh"},
        Known{"such a shell of somebody whom the volume does not know",
              "ada:x:1000:1000::/home/ada:/bin/zsh", "eve:x:2001:2001::/home/eve:/bin/nologin",
              "ada:x:1000:1000::/home/ada:/bin/bash\neve:x:2001:2001::/home/eve:/bin/nologin",
              "sessions use /bin/bash"},
        Known{"both differences", "ada:x:1000:1000::/home/ada:/bin/zsh",
              "ada:x:2001:2001::/home/a:/bin/sh", "ada:x:1000:1000::/home/ada:/bin/sh",
              "sessions use /bin/sh"},
        Known{"a system account's shell", "git:x:998:998::/srv/git:/bin/zsh", "", "", ""}));

TEST(Accounts, root_gets_in_where_the_volume_lacks_root_s_shell) {
  AccountFiles base = kBase;
  base.passwd = "root:x:0:0:root:/root:/bin/zsh\n";
  const auto edit = merge_accounts(base, volume("root:x:0:0:root:/root:/bin/sh\n"), kShells);
  EXPECT_EQ(edit.files.passwd, "root:x:0:0:root:/root:/bin/sh\n");
}

TEST(Accounts, who_has_another_uid_on_the_volume_gets_none_of_its_keys) {
  const auto edit = merge_accounts(kBase, volume("admin:x:1001:1001::/home/a:/bin/bash\n"));
  EXPECT_THAT(edit.session_users, IsEmpty());
  EXPECT_FALSE(edit.changed());
}

TEST(Accounts, an_entry_that_somebody_changed_meanwhile_is_left_to_them) {
  AccountFiles base = kBase;
  base.passwd = "admin:x:1000:1000::/home/admin:/bin/zsh\n";
  const auto edit = merge_accounts(base, volume("root:x:0:0:root:/root:/bin/sh\n"), kShells);
  ASSERT_TRUE(edit.changed());
  AccountFiles present = edit.files;
  present.passwd = "admin:x:1000:1000::/home/admin:/bin/sh\n";
  EXPECT_EQ(revert_accounts(present, edit).passwd, present.passwd);
}

TEST(Accounts, an_entry_of_which_somebody_changed_something_else_meanwhile_gets_its_shell_back) {
  AccountFiles base = kBase;
  base.passwd = "admin:x:1000:1000::/home/admin:/bin/zsh\nadmin2:x:1001:1001::/:/bin/sh\n";
  const auto edit = merge_accounts(base, volume("root:x:0:0:root:/root:/bin/sh\n"), kShells);
  ASSERT_EQ(edit.passwd_changed.size(), 1u);
  AccountFiles present = edit.files;
  const std::string given = parse_passwd(present.passwd)[0].shell;
  ASSERT_NE(given, "/bin/zsh");
  present.passwd =
      "admin:x:1000:1000:Ada:/home/admin:" + given + "\nadmin2:x:1001:1001::/:/bin/sh\n";
  EXPECT_EQ(revert_accounts(present, edit).passwd,
            "admin:x:1000:1000:Ada:/home/admin:/bin/zsh\nadmin2:x:1001:1001::/:/bin/sh\n");
}

TEST(Accounts, a_name_that_the_base_trusts_in_a_group_is_not_given_to_a_volume_s_person) {
  AccountFiles base = kBase;
  base.group += "warmroot-base:x:1901:dave\n";
  const auto edit = merge_accounts(base, volume("dave:x:2001:2001::/home/dave:/bin/sh\n"));
  EXPECT_FALSE(edit.changed());
  EXPECT_THAT(edit.notes, ElementsAre(HasSubstr("dave of the volume is in a group of the base")));
}

TEST(Accounts, merging_into_its_own_result_changes_nothing) {
  const auto from = volume("ada:x:2001:2002::/home/ada:/bin/sh\n", "ada:x:2002:\n");
  const auto once = merge_accounts(kBase, from);
  ASSERT_TRUE(once.changed());
  const auto twice = merge_accounts(once.files, from);
  EXPECT_FALSE(twice.changed());
  EXPECT_EQ(twice.files.passwd, once.files.passwd);
  EXPECT_EQ(twice.files.shadow, once.files.shadow);
}

TEST(Accounts, reverting_takes_out_what_was_added_and_keeps_what_others_added_since) {
  const auto edit =
      merge_accounts(kBase, volume("ada:x:2001:2001::/home/ada:/bin/sh\n", "ada:x:2001:\n"));
  AccountFiles present = edit.files;
  present.passwd += "new:x:1001:1001::/home/new:/bin/sh\n";
  const auto reverted = revert_accounts(present, edit);
  EXPECT_EQ(reverted.passwd, kBase.passwd + "new:x:1001:1001::/home/new:/bin/sh\n");
  EXPECT_EQ(reverted.group, kBase.group);
  EXPECT_EQ(reverted.shadow, kBase.shadow);
}

TEST(Accounts, a_volume_that_calls_a_person_root_gets_no_key_to_the_base_s_root) {
  const auto edit = merge_accounts(kBase, volume("root:x:1000:1000::/home/eve:/bin/sh\n"));
  EXPECT_FALSE(edit.changed());
  EXPECT_THAT(edit.session_users, IsEmpty());
}

TEST(Accounts,
     whom_both_know_with_the_same_uid_keeps_the_base_s_entry_and_may_use_the_volume_s_keys) {
  const auto edit = merge_accounts(kBase, volume("admin:x:1000:1000::/srv/a:/bin/zsh\n"));
  EXPECT_FALSE(edit.changed());
  ASSERT_EQ(edit.session_users.size(), 1u);
  EXPECT_EQ(edit.session_users[0].shell, "/bin/bash");
}

TEST(Accounts, a_volume_cannot_put_its_people_into_groups_that_are_worth_something_on_the_base) {
  const auto edit = merge_accounts(
      kBase, volume("ada:x:2001:2001::/home/ada:/bin/sh\n",
                    "ada:x:2001:\nwarmroot-base:x:3000:ada\ndocker:x:3001:ada\nlab:x:3002:ada\n"));
  EXPECT_THAT(edit.group_added,
              ElementsAre("ada:x:2001:", "lab:x:3002:ada", "warmroot-g3000:x:3000:ada",
                          "warmroot-g3001:x:3001:ada"))
      << "numbers alone, which mean nothing there";
  EXPECT_THAT(edit.notes, ElementsAre(HasSubstr("warmroot-base"), HasSubstr("docker")));
}

TEST(Accounts, an_id_that_is_somebody_else_s_on_the_base_is_not_given_a_second_name) {
  const auto edit =
      merge_accounts(kBase, volume("eve:x:1000:2001::/home/eve:/bin/sh\n", "eve:x:1000:eve\n"));
  EXPECT_FALSE(edit.changed());
  EXPECT_THAT(edit.session_users, IsEmpty());
  EXPECT_THAT(edit.notes, ElementsAre(HasSubstr("uid 1000, which is admin on the base"),
                                      HasSubstr("its gid is admin on the base")));
}

struct Beside {
  const char* why;
  const char* base_passwd;  ///< beside kBase
  const char* base_group;
  const char* user;          ///< of the volume
  const char* volume_group;  ///< beside the user's own
  const char* refused;       ///< in left_out; empty: they get an entry
};
class BesideOnBase : public testing::TestWithParam<Beside> {};

/// ubuntu of an Ubuntu volume was locked out by admin of a Debian base.
TEST_P(BesideOnBase, one_of_the_volume_s_whose_uid_is_taken_gets_in_if_root_there_is_nothing_new) {
  AccountFiles base = kBase;
  base.passwd += GetParam().base_passwd;
  base.group += GetParam().base_group;
  const std::string line = GetParam().user;
  const std::string name = line.substr(0, line.find(':'));
  const auto from = volume(line + "\n", std::string(GetParam().volume_group) + "ubuntu:x:1000:\n",
                           name + ":$6$salt$hash:19500:0:99999:7:::\n");
  const auto edit = merge_accounts(base, from);
  if (*GetParam().refused != '\0') {
    EXPECT_THAT(edit.left_out, ElementsAre(HasSubstr(GetParam().refused))) << GetParam().why;
    EXPECT_THAT(edit.passwd_added, IsEmpty());
    EXPECT_THAT(edit.shadow_added, IsEmpty());
    EXPECT_THAT(edit.session_users, IsEmpty());
    return;
  }
  EXPECT_THAT(edit.left_out, IsEmpty()) << GetParam().why;
  EXPECT_EQ(edit.files.passwd, base.passwd + line + "\n") << "getpwuid finds the base's first";
  EXPECT_THAT(edit.shadow_added, ElementsAre(testing::StartsWith(name + ":!*:")))
      << "a password would let in as the base's user where sessions land on the base";
  EXPECT_THAT(edit.group_added, IsEmpty());
  EXPECT_THAT(edit.notes, testing::Contains(HasSubstr("beside admin of the base")));
  ASSERT_EQ(edit.session_users.size(), 1u);
  EXPECT_EQ(edit.session_users[0].name, name);
  const auto again = merge_accounts(edit.files, from);
  EXPECT_FALSE(again.changed()) << "merged into its own result";
  ASSERT_EQ(again.session_users.size(), 1u);
  EXPECT_EQ(again.session_users[0].home, edit.session_users[0].home);
  const auto reverted = revert_accounts(edit.files, parse_record(record_of(edit)));
  EXPECT_EQ(reverted.passwd, base.passwd);
  EXPECT_EQ(reverted.shadow, base.shadow);
}

INSTANTIATE_TEST_SUITE_P(
    Table, BesideOnBase,
    testing::Values(
        Beside{"in sudo, with a group of their own", "", "sudo:x:27:admin\n",
               "ubuntu:x:1000:1000:Ubuntu:/home/ubuntu:/bin/bash", "sudo:x:27:ubuntu\n", ""},
        Beside{"in wheel, which the base lacks", "", "uucp:x:10:\n",
               "ec2-user:x:1000:1000::/home/ec2-user:/bin/bash", "wheel:x:10:ec2-user\n", ""},
        Beside{"in sudo, users their group", "", "sudo:x:27:\n",
               "geeko:x:1000:100::/home/geeko:/bin/bash", "sudo:x:27:geeko\n", ""},
        Beside{"others are in sudo", "", "", "ubuntu:x:1000:1000::/home/ubuntu:/bin/bash",
               "sudo:x:27:ada\n",
               "ubuntu has uid 1000, which is admin on the base, and is not in the volume's sudo"},
        Beside{"in a group of another name", "", "", "ubuntu:x:1000:1000::/home/ubuntu:/bin/bash",
               "sudoers:x:27:ubuntu\n", "and is not in the volume's sudo or wheel"},
        Beside{"an operator's uid", "", "warmroot-base:x:900:admin\n",
               "ubuntu:x:1000:1000::/home/ubuntu:/bin/bash", "sudo:x:27:ubuntu\n",
               "which is admin on the base, whose sessions land there"},
        Beside{"an operator's uid under a second name", "ops:x:1000:1000::/home/ops:/bin/sh\n",
               "warmroot-base:x:900:ops\n", "ubuntu:x:1000:1000::/home/ubuntu:/bin/bash",
               "sudo:x:27:ubuntu\n", "whose sessions land there"},
        Beside{"an operator's uid by the primary group", "ops:x:1001:1900::/home/ops:/bin/sh\n",
               "warmroot-base:x:1900:\n", "ubuntu:x:1001:1900::/home/ubuntu:/bin/bash",
               "sudo:x:27:ubuntu\n", "whose sessions land there"},
        Beside{"a group of the base's that is root", "", "docker:x:1900:\n",
               "ubuntu:x:1000:1900::/home/ubuntu:/bin/bash", "sudo:x:27:ubuntu\n",
               "gid 1900, which is docker on the base (its socket is root)"},
        Beside{"somebody else's own group", "bob:x:1001:1001::/home/bob:/bin/sh\n", "bob:x:1001:\n",
               "ubuntu:x:1000:1001::/home/ubuntu:/bin/bash", "sudo:x:27:ubuntu\n",
               "gid 1001, which is bob on the base"},
        Beside{"a home that is anybody's", "", "", "ubuntu:x:1000:1000::/tmp:/bin/bash",
               "sudo:x:27:ubuntu\n", "has the home /tmp"},
        Beside{"a name that the base trusts", "", "sudo:x:27:ubuntu\n",
               "ubuntu:x:1000:1000::/home/ubuntu:/bin/bash", "sudo:x:27:ubuntu\n",
               "is in a group of the base that is worth something there"}));

TEST(Accounts, uid_0_and_a_system_account_s_get_no_second_name_whoever_may_be_root) {
  AccountFiles base = kBase;
  base.passwd += "git:x:998:998::/srv/git:/bin/sh\n";
  const auto edit = merge_accounts(base, volume("toor:x:0:0::/root:/bin/sh\n"
                                                "gitea:x:998:998::/srv/gitea:/bin/sh\n",
                                                "sudo:x:27:toor,gitea\n"));
  EXPECT_THAT(edit.passwd_added, IsEmpty());
  EXPECT_THAT(edit.session_users, IsEmpty());
}

/// They were told "Permission denied", and the operator a part of a line in the timeline.
TEST(Accounts, who_is_kept_out_by_somebody_else_s_id_is_named_with_what_would_help) {
  const auto remark = [](const std::string& passwd) {
    return remark_on_left_out(merge_accounts(kBase, volume(passwd)).left_out);
  };
  EXPECT_EQ(remark("ada:x:2001:2001::/home/ada:/bin/sh\nadmin:x:1000:1000::/home/a:/bin/sh\n"), "");
  EXPECT_EQ(
      remark("ubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n"
             "agent:x:1000:1000::/home/agent:/usr/sbin/nologin\n"
             "eve:x:2001:1000::/home/eve:/bin/sh\n"),
      "of the volume's people some cannot log in, because the base's accounts count: ubuntu "
      "has uid 1000, which is admin on the base, and is not in the volume's sudo or wheel, eve "
      "has gid 1000, which is admin on the base (may run everything as root); with "
      "session.entry = \"sshd\" the volume's own do");
  std::string many;
  for (int i = 0; i < 1000; ++i)
    many += "u" + std::to_string(i) + ":x:" + std::to_string(2000 + i) + ":100::/run/" +
            std::string(3000, 'x') + ":/bin/sh\n";
  EXPECT_THAT(remark(many), HasSubstr(", and 997 more; with session.entry"));
  EXPECT_LT(remark(many).size(), 500u) << "which is what a report carries of a remark";
}

/// sudo said that they are not in its file, and nothing said why.
TEST(Accounts, who_is_without_a_group_of_the_volume_s_that_rules_go_by_is_named) {
  AccountFiles base = kBase;
  base.group += "sudo:x:27:admin\nmail:x:44:\nsshd:x:998:\n";
  const auto edit = merge_accounts(
      base, volume("ada:x:2001:2001::/home/ada:/bin/sh\n"
                   "admin:x:1000:1000::/home/admin:/bin/bash\n"
                   "daemon:x:900:900::/:/bin/sh\n",
                   "ada:x:2001:\nsudo:x:27:ada,admin,daemon\nplugdev:x:46:ada\nvideo:x:44:ada\n"
                   "docker:x:998:eve,ada,ada\nlab:x:3000:ada\nkvm:x:3001:admin\n"));
  EXPECT_THAT(edit.without_groups, ElementsAre("ada (sudo, video, docker)"))
      << "who has the number by the base, or by what was added there, has the group";
  EXPECT_EQ(remark_on_groups(edit.without_groups),
            "of the volume's people some are here without groups that they have on it, because "
            "the base's accounts count: ada (sudo, video, docker); with session.entry = \"sshd\" "
            "the volume's own do");
  EXPECT_EQ(remark_on_groups({}), "");
  const std::vector<std::string> many(1000, std::string(200, 'a'));
  EXPECT_LT(remark_on_groups(many).size(), 500u) << "which is what a report carries of a remark";
}

TEST(Accounts, the_number_of_a_privileged_base_group_is_no_primary_group) {
  AccountFiles base = kBase;
  base.group += "warmroot-base:x:1001:\n";
  const auto edit = merge_accounts(base, volume("eve:x:2001:1001::/home/eve:/bin/sh\n"));
  EXPECT_FALSE(edit.changed());
  EXPECT_THAT(edit.notes, ElementsAre(HasSubstr("its sessions land on the base")));
}

TEST(Accounts, a_primary_group_that_is_another_one_on_the_base_is_not_taken_for_it) {
  AccountFiles base = kBase;
  base.group += "lab:x:3000:\nsales:x:3001:\ncrew:x:3002:\nwheels:x:100:\n";
  const auto edit = merge_accounts(base, volume("ada:x:2001:3000::/home/ada:/bin/sh\n"
                                                "bob:x:2002:3001::/home/bob:/bin/sh\n"
                                                "eve:x:2003:3002::/home/eve:/bin/sh\n"
                                                "ida:x:2004:100::/home/ida:/bin/sh\n",
                                                "lab:x:3000:\nstudents:x:3001:\nusers:x:100:\n"));
  EXPECT_THAT(edit.passwd_added, ElementsAre("ada:x:2001:3000::/home/ada:/bin/sh",
                                             "ida:x:2004:100::/home/ida:/bin/sh"));
  EXPECT_THAT(edit.notes,
              ElementsAre("user bob of the volume has gid 3001, which is sales on the base; "
                          "not added",
                          "user eve of the volume has gid 3002, which is crew on the base; "
                          "not added",
                          HasSubstr("group students of the volume not added")));
}

TEST(Accounts, a_name_that_comes_twice_is_imported_once_as_getpwnam_would_find_it) {
  const auto edit = merge_accounts(kBase, volume("ada:x:2001:100::/home/ada:/usr/sbin/nologin\n"
                                                 "ada:x:2002:100::/home/ada:/bin/sh\n"));
  EXPECT_THAT(edit.passwd_added, ElementsAre("ada:x:2001:100::/home/ada:/usr/sbin/nologin"));
}

TEST(Accounts, ten_thousand_people_take_no_time_to_speak_of) {
  AccountFiles many;
  for (int i = 0; i < 20000; ++i) {
    const std::string n = std::to_string(i), id = std::to_string(2000 + i);
    many.passwd += "user" + n + ":x:" + id + ":" + id + "::/home/u" + n + ":/bin/sh\n";
    many.shadow += "user" + n + ":!:19000:0:99999:7:::\n";
  }
  const auto started = std::chrono::steady_clock::now();
  EXPECT_EQ(merge_accounts(kBase, many).passwd_added.size(), 10000u);
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(10));
}

TEST(Accounts, the_record_reverts_what_the_edit_would) {
  const auto edit =
      merge_accounts(kBase, volume("ada:x:2001:2001:Ada L:/home/ada:/bin/sh\n", "ada:x:2001:\n"));
  const auto reverted = revert_accounts(edit.files, parse_record(record_of(edit)));
  EXPECT_EQ(reverted.passwd, kBase.passwd);
  EXPECT_EQ(reverted.group, kBase.group);
  EXPECT_EQ(reverted.shadow, kBase.shadow);
  EXPECT_FALSE(parse_record("x\n\nrubbish\npasswd\n").group_added.size());
}

TEST(Accounts, the_record_takes_back_a_line_of_the_greatest_length_too) {
  const std::string ends = ":/home/ada:/bin/sh", begins = "ada:x:2001:2001:";
  const std::string line = begins + std::string(4096 - begins.size() - ends.size(), 'a') + ends;
  const auto edit = merge_accounts(kBase, volume(line + "\n"));
  ASSERT_EQ(edit.passwd_added.size(), 1u);
  EXPECT_EQ(revert_accounts(edit.files, parse_record(record_of(edit))).passwd, kBase.passwd);
}

/// It was too long for the record, and the base kept the volume's person, with the hash.
TEST(Accounts, the_record_takes_back_a_line_that_became_longer_than_that) {
  const std::string ends = ":/home/ada:", begins = "ada::2001:2001:";
  const std::string line = begins + std::string(4096 - begins.size() - ends.size(), 'a') + ends;
  AccountFiles files = volume(line + "\n");
  const std::string shadow = "ada:", ages = ":1::::::";
  files.shadow = shadow + std::string(4096 - shadow.size() - ages.size(), '$') + ages + "\n";
  const auto edit = merge_accounts(kBase, files);
  ASSERT_EQ(edit.passwd_added.size(), 1u);
  ASSERT_EQ(edit.shadow_added.size(), 1u);
  EXPECT_GT(edit.passwd_added[0].size(), 4096u);
  const auto reverted = revert_accounts(edit.files, parse_record(record_of(edit)));
  EXPECT_EQ(reverted.passwd, kBase.passwd);
  EXPECT_EQ(reverted.shadow, kBase.shadow);
}

TEST(Accounts, a_last_line_without_an_end_is_not_glued_to_the_next) {
  AccountFiles base = kBase;
  base.passwd.pop_back();
  const auto edit = merge_accounts(base, volume("ada:x:2001:2001::/home/ada:/bin/sh\n"));
  EXPECT_EQ(parse_passwd(edit.files.passwd).size(), 3u);
}

TEST(Accounts, people_without_a_login_shell_get_an_entry_but_no_session) {
  const auto edit = merge_accounts(kBase, volume("bot:x:2001:2001::/home/bot:/usr/sbin/nologin\n"));
  EXPECT_EQ(edit.passwd_added.size(), 1u);
  EXPECT_THAT(edit.session_users, IsEmpty());
}

TEST(Accounts, without_a_password_hash_only_keys_let_in) {
  const auto edit = merge_accounts(kBase, volume("ada:x:2001:2001::/home/ada:/bin/sh\n"));
  EXPECT_THAT(edit.shadow_added, ElementsAre(testing::StartsWith("ada:!*:")));
}

TEST(GroupsOfOne, have_one_user_and_no_other_members) {
  const auto users = parse_passwd(
      "ada:x:2001:2001::/home/ada:/bin/sh\nbob:x:2002:2002::/home/bob:/bin/sh\n"
      "cy:x:2003:100::/home/cy:/bin/sh\ndi:x:2004:100::/home/di:/bin/sh\n"
      "ed:x:2005:2005::/home/ed:/bin/sh\n");
  const auto groups = parse_groups("ada:x:2001:\nbob:x:2002:ada\nlab:x:2500:ada\ned:x:2005:ed\n");
  EXPECT_THAT(groups_of_one(users, groups), ElementsAre(2001, 2005));
}

}  // namespace
}  // namespace warmroot::bootstrap
