// Which numbers of the volume's groups people get in a session whose groups the base's files name.
#include "bootstrap/account_groups.hpp"

#include <gmock/gmock.h>

namespace warmroot::bootstrap {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;

const AccountFiles kSmallBase{
    "root:x:0:0:root:/root:/bin/bash\nadmin:x:1000:1000::/home/admin:/bin/bash\n"
    "mixed:x:1500:1500::/home/mixed:/bin/bash\ngit:x:997:997::/srv/git:/bin/sh\n",
    "root:x:0:\nadmin:x:1000:\n", "root:*:19000:0:99999:7:::\n"};

/// ada and bob are the volume's alone, admin is both's, mixed has another uid on the base.
constexpr char kVolumePeople[] =
    "ada:x:2001:2001::/home/ada:/bin/sh\nbob:x:2002:2002::/home/bob:/bin/sh\n"
    "admin:x:1000:1000::/home/admin:/bin/bash\nmixed:x:2500:2500::/home/mixed:/bin/sh\n"
    "daemon:x:900:900::/:/bin/sh\n";

struct Numbers {
  const char* why;
  const char* base;    ///< groups beside root and admin
  const char* volume;  ///< groups
  std::vector<std::string> added;
};
class GroupNumbers : public testing::TestWithParam<Numbers> {};

/// They were only said to be without docker, video and render.
TEST_P(GroupNumbers, of_the_volume_s_that_mean_nothing_on_the_base_or_devices_alone_are_people_s) {
  AccountFiles base = kSmallBase;
  base.group += GetParam().base;
  const AccountFiles volume{kVolumePeople, GetParam().volume, ""};
  const auto edit = merge_accounts(base, volume);
  EXPECT_THAT(edit.group_added, ElementsAreArray(GetParam().added)) << GetParam().why;
  EXPECT_FALSE(merge_accounts(edit.files, volume).changed()) << "merged into its own result";
  EXPECT_EQ(revert_accounts(edit.files, parse_record(record_of(edit))).group, base.group);
}

INSTANTIATE_TEST_SUITE_P(
    Table, GroupNumbers,
    testing::Values(
        Numbers{"nobody's on the base, for those who have sessions, once",
                "",
                "docker:x:998:ada,eve,ada,daemon,bob\n",
                {"warmroot-g998:x:998:ada,bob"}},
        Numbers{"nobody's on the base, for somebody of both",
                "",
                "docker:x:998:admin\n",
                {"warmroot-g998:x:998:admin"}},
        Numbers{"not for whose uid is another on the base", "", "docker:x:998:mixed,daemon\n", {}},
        Numbers{"another group's on the base", "sshd:x:998:\n", "docker:x:998:ada\n", {}},
        Numbers{"the same group's on the base",
                "sudo:x:27:admin\nshadow:x:42:\ndisk:x:6:\nadm:x:4:\n",
                "sudo:x:27:ada\nshadow:x:42:ada\ndisk:x:6:ada\nadm:x:4:ada\n",
                {}},
        Numbers{"docker's on the base", "docker:x:998:\n", "docker:x:998:ada\n", {}},
        Numbers{"root's", "", "root:x:0:ada\nwheel:x:0:ada\n", {}},
        Numbers{"a base user's, who has no group", "", "docker:x:997:ada\n", {}},
        Numbers{
            "one of a line that is none to us", "domain users:x:998:\n", "docker:x:998:ada\n", {}},
        Numbers{"one that the base writes with a zero", "sshd:x:0998:\n", "docker:x:998:ada\n", {}},
        Numbers{"sudo, whose number the base does not know",
                "wheel:x:10:admin\n",
                "sudo:x:27:ada\n",
                {"warmroot-g27:x:27:ada"}},
        Numbers{"devices with the same number",
                "video:x:44:admin\n",
                "video:x:44:ada,admin\n",
                {"warmroot-g44:x:44:ada"}},
        Numbers{"devices with another number",
                "render:x:105:\n",
                "render:x:106:ada\n",
                {"warmroot-g106:x:106:ada", "warmroot-g105:x:105:ada"}},
        Numbers{"devices with a number that is worth something on the volume",
                "render:x:105:\n",
                "render:x:106:ada\ndocker:x:105:bob\n",
                {"warmroot-g106:x:106:ada"}},
        Numbers{"devices with a number that is first another's on the base",
                "backup:x:105:\nrender:x:105:\n",
                "render:x:105:ada\n",
                {}},
        Numbers{"devices of root's", "kvm:x:0:\n", "kvm:x:0:ada\n", {}},
        Numbers{"a person's number with a name that is worth something",
                "",
                "docker:x:3001:ada\n",
                {"warmroot-g3001:x:3001:ada"}},
        Numbers{"such a one, which is another group's on the base",
                "crew:x:3001:\n",
                "docker:x:3001:ada\n",
                {}},
        Numbers{"such a one, which is another group's on the volume",
                "",
                "docker:x:3001:ada\nlab:x:3001:bob\n",
                {"lab:x:3001:bob"}},
        Numbers{"above people's", "", "docker:x:60000:ada\nnogroup:x:65534:ada\n", {}},
        Numbers{"one number under two names",
                "",
                "docker:x:998:ada\nmoby:x:998:bob\n",
                {"warmroot-g998:x:998:ada"}},
        Numbers{"a name of ours that the volume has taken",
                "",
                "docker:x:998:ada\nwarmroot-g998:x:3000:eve\n",
                {"warmroot-g998:x:3000:eve"}}));

TEST(AccountGroups, who_has_the_number_that_the_devices_have_is_not_said_to_be_without_it) {
  AccountFiles base = kSmallBase;
  base.group += "render:x:105:\nsshd:x:106:\n";
  const auto edit = merge_accounts(base, {kVolumePeople, "render:x:106:ada\n", ""});
  EXPECT_THAT(edit.group_added, ElementsAre("warmroot-g105:x:105:ada"));
  EXPECT_THAT(edit.without_groups, IsEmpty());
  ASSERT_FALSE(edit.session_users.empty());
  EXPECT_THAT(groups_of(edit.session_users[0], edit.files.group), ElementsAre(2001u, 105u));
}

TEST(AccountGroups, a_line_that_would_be_too_long_to_be_read_again_is_not_added) {
  AccountFiles volume;
  std::string members;
  for (int i = 0; i < 240; ++i) {
    const std::string name = "u" + std::to_string(100'000'000'000'000 + i);
    volume.passwd += name + ":x:" + std::to_string(2000 + i) + ":100::/home/u:/bin/sh\n";
    members += (i > 0 ? "," : "") + name;
  }
  volume.group = "a::998:" + members + "\n";
  ASSERT_EQ(parse_groups(volume.group).size(), 1u);
  EXPECT_THAT(merge_accounts(kSmallBase, volume).group_added, IsEmpty());
}

}  // namespace
}  // namespace warmroot::bootstrap
