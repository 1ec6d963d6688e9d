#include "bootstrap/unmount_order.hpp"

#include <gmock/gmock.h>

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/release_plan.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// "/v/dev", with "disk " before it where the volume waits for it, "force " where it may be forced.
std::vector<std::string> order_of(const std::string& mountinfo, std::set<std::string> disk = {}) {
  std::vector<std::string> lines;
  for (const auto& mount : unmount_order(parse_mount_table(mountinfo), "/v", std::move(disk)))
    lines.push_back((mount.of_disk ? "disk " : mount.forcible ? "force " : "") + mount.point);
  return lines;
}

constexpr char kBase[] =
    "21 1 8:1 / / rw - ext4 /dev/root rw\n"
    "22 21 0:22 / /proc rw - proc proc rw\n";
constexpr char kVolume[] =
    "35 21 259:4 / /v rw shared:7 - ext4 /dev/nvme1n1p1 rw\n"
    "36 35 0:22 / /v/proc rw - proc proc rw\n";

TEST(UnmountOrder, the_last_mounted_goes_first_and_nothing_outside_is_touched) {
  EXPECT_THAT(order_of(std::string(kBase) + kVolume + "37 36 0:30 / /v/proc/x rw - tmpfs t rw\n" +
                       "38 21 0:31 / /vault rw - tmpfs t rw\n"),
              ElementsAre("/v/proc/x", "/v/proc", "disk /v"));
  EXPECT_THAT(order_of(kBase), IsEmpty());
}

TEST(UnmountOrder, what_servers_answer_for_goes_before_what_was_mounted_behind_it) {
  for (const char* type : {"nfs", "nfs4", "cifs", "fuse", "fuse.sshfs", "fuseblk", "9p", "ceph"})
    EXPECT_THAT(order_of(std::string(kBase) + kVolume + "37 35 0:44 / /v/mnt\\040x rw - " + type +
                         " s rw\n38 35 0:31 / /v/tmp rw - tmpfs t rw\n"),
                ElementsAre("force /v/mnt x", "/v/tmp", "/v/proc", "disk /v"))
        << type;
}

TEST(UnmountOrder, what_has_no_server_is_not_forced) {
  for (const char* type : {"nfsd", "fusectl", "tmpfs", "ext4", "overlay", ""})
    EXPECT_THAT(
        order_of(std::string(kBase) + kVolume + "37 35 0:44 / /v/mnt rw - " + type + " s rw\n"),
        ElementsAre("/v/mnt", "/v/proc", "disk /v"))
        << type;
}

/// MNT_FORCE is of the file system, not of this one mount of it.
TEST(UnmountOrder, what_the_base_uses_too_is_not_forced) {
  EXPECT_THAT(order_of(std::string(kBase) + "34 21 0:44 / /home rw - nfs4 s:/ rw\n" + kVolume +
                       "37 35 0:44 /ada /v/home/ada rw - nfs4 s:/ada rw\n"),
              ElementsAre("/v/home/ada", "/v/proc", "disk /v"));
  EXPECT_THAT(order_of(std::string(kBase) + kVolume + "37 35 0:44 / /v/a rw - nfs4 s:/ rw\n" +
                       "38 35 0:44 / /v/b rw - nfs4 s:/ rw\n"),
              ElementsAre("force /v/b", "force /v/a", "/v/proc", "disk /v"));
}

TEST(UnmountOrder, the_disk_is_what_was_first_at_the_point_and_its_other_partitions) {
  EXPECT_THAT(
      order_of(std::string(kBase) + kVolume +
                   "37 35 259:5 / /v/boot rw - ext4 /dev/nvme1n1p2 rw\n"
                   "38 35 259:4 /srv /v/mnt rw - ext4 /dev/nvme1n1p1 rw\n"
                   "39 35 259:9 / /v/data rw - xfs /dev/nvme2n1 rw\n"
                   "40 35 0:44 / /v rw - fuse.over s rw\n",
               {"259:5"}),
      ElementsAre("force /v", "/v/data", "disk /v/mnt", "disk /v/boot", "/v/proc", "disk /v"));
}

/// One that hung had all of it.
TEST(UnmountOrder, whichever_of_the_disk_s_hang_the_last_one_has_a_third_of_the_time) {
  for (const auto left :
       {Milliseconds{600}, Milliseconds{3'000}, Milliseconds{15'000}, Milliseconds{30'000}})
    for (const std::size_t file_systems : {1U, 2U, 3U, 20U}) {
      Milliseconds rest = left;
      for (std::size_t hang = 1; hang < file_systems; ++hang)
        rest -= time_for_one(rest, file_systems);
      EXPECT_GE(rest.count(), left.count() / 3) << left.count() << " ms, " << file_systems;
      EXPECT_GT(time_for_one(rest, file_systems).count(), 0);
    }
  EXPECT_EQ(time_for_one(Milliseconds{-1}, 2).count(), 0);
}

TEST(UnmountOrder, one_that_hangs_leaves_the_last_15_s_where_there_is_time_for_more) {
  for (const auto left : {Milliseconds{20'000}, Milliseconds{120'000}}) {
    const Milliseconds all = plan_release(left, {}).unmount;
    EXPECT_GE((all - time_for_one(all, 2)).count(), kKeptForSync.count());
  }
}

}  // namespace
}  // namespace warmroot::bootstrap
