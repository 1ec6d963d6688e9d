// A volume whose files are not what they should be: pipes, devices, directories, links into the
// machine, files of a gibibyte, names that would write on a terminal. Bring-up ends in time, in
// bounded memory, with sessions in the volume or one sentence; the base is as it was afterwards.
#include <cstdio>
#include <cstdlib>

#include "tests/hostile_kinds.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;
using testing::Not;

/// What the bootstrap reads or writes in a volume.
constexpr const char* kPlaces[] = {"etc/passwd",
                                   "etc/group",
                                   "etc/shadow",
                                   "etc/os-release",
                                   "usr/lib/os-release",
                                   "usr/sbin/sshd",
                                   "etc/fstab",
                                   "etc/resolv.conf",
                                   "etc/hostname",
                                   "etc/warmroot/hooks.d",
                                   "home/ada",
                                   "home/ada/.ssh",
                                   "home/ada/.ssh/authorized_keys",
                                   "bin/sh",
                                   "var/lib",
                                   "var/lib/warmroot",
                                   kVolumeMarker,
                                   kVolumeHostKeys,
                                   kVolumeMap,
                                   kVolumeHotList,
                                   "run",
                                   "tmp",
                                   "proc",
                                   "dev"};

class BootHostile : public HostileVolume<BootWhole>,
                    public testing::WithParamInterface<HostileKind> {};

TEST_P(BootHostile, whatever_is_so_bring_up_ends_in_time_and_leaves_the_base_as_it_was) {
  make_volume("mkdir -p $t/etc/warmroot/hooks.d $t/var/lib/warmroot; chmod 755 $t/var/lib");
  dress_as_disk();
  put_canary();
  input_.node_host_keys = true;
  ASSERT_TRUE(comes_up());
  const std::string before_all = outside(), alive = canary();
  for (const char* place : kPlaces) {
    SCOPED_TRACE(place);
    const long before = peak_kib();
    put_in_place(place, GetParam());
    const bool up = comes_up();
    if (std::getenv("WARMROOT_SHOW") != nullptr)
      std::printf("%s at %s: %s\n", GetParam().name, place, up ? "serves" : "refused");
    EXPECT_LT(peak_kib() - before, kMostGrowthKib);
    EXPECT_EQ(canary(), alive);
    put_back(place);
  }
  EXPECT_EQ(outside(), before_all);
  EXPECT_TRUE(comes_up()) << "as it is, it serves";
}

INSTANTIATE_TEST_SUITE_P(Kinds, BootHostile, testing::ValuesIn(kHostileKinds), name_of_kind);

TEST_F(BootHostile, hard_links_of_a_file_of_ours_carry_nothing_into_another_file) {
  make_volume(
      "mkdir -p $t/var/lib/warmroot; for name in state host_keys warm.map hot.list; do\n"
      "ln $t/etc/shadow $t/var/lib/warmroot/$name; done; chmod 600 $t/etc/shadow; "
      "ln -f $t/etc/shadow $t/home/ada/.ssh/authorized_keys");
  dress_as_disk();
  input_.node_host_keys = true;
  ASSERT_TRUE(bring_up(input_, assignment_, book_, stop_));
  EXPECT_EQ(read_attribute(inside(kVolumeMarker)), "open i-1");
  EXPECT_EQ(read_attribute(inside("etc/shadow")), "root:*:19000:0:99999:7:::");
  EXPECT_THAT(read_file(std::string(kUserKeysDirectory) + "/ada", 65536).value_or(""),
              Not(HasSubstr("root:")));
  EXPECT_THAT(shown_host_key(), Not(HasSubstr("root:")));
  ASSERT_TRUE(release(leaving(), assignment_, book_));
  mount_volume();
  EXPECT_EQ(read_attribute(inside("etc/shadow")), "root:*:19000:0:99999:7:::");
  EXPECT_EQ(read_attribute(inside(kVolumeMarker)), "clean i-1");
}

TEST_F(BootHostile, names_that_would_write_on_a_terminal_or_climb_out_reach_nothing) {
  make_volume(R"sh(
      printf 'PRETTY_NAME="Evil \033[2J\007 \r[root@base]# "\n' >$t/etc/os-release
      mkdir -p "$t/home/$(printf 'new\nline')"
      {)sh" + std::string(kHostilePeople) +
              "; } >>$t/etc/passwd");
  dress_as_disk();
  ASSERT_TRUE(bring_up(input_, assignment_, book_, stop_));
  const std::string passwd = *read_file("/etc/passwd", 1 << 20);
  for (const char* name : {"ev\033il", "../../etc", "-oProxy", "\n..:"})
    EXPECT_THAT(passwd, Not(HasSubstr(name)));
  EXPECT_THAT(passwd, Not(HasSubstr("\033")));
  EXPECT_THAT(passwd, HasSubstr("ada:x:2001:2001::/home/ada:/bin/sh\n"));
  EXPECT_EQ(*shell("find /etc/cron.d -name x 2>/dev/null | wc -l"), "0");
  for (const auto& name : list_directory(kUserKeysDirectory))
    EXPECT_EQ(name, without_controls(name));
  const std::string motd = read_file(kMessageOfTheDay, kMaxStatus).value_or("");
  EXPECT_THAT(motd, Not(HasSubstr("\033")));
  EXPECT_THAT(motd, Not(HasSubstr("\r")));
  for (const auto& step : book_.snapshot().steps)
    EXPECT_EQ(step.detail, without_controls(step.detail)) << step.name;
  EXPECT_TRUE(release(leaving(), assignment_, book_));
  EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
}

}  // namespace
}  // namespace warmroot::bootstrap
