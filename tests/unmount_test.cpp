// Unmounts that hang in the kernel, in a release and by themselves, against the real one.
#include "bootstrap/unmount.hpp"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/base/detached.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/volume_root.hpp"
#include "tests/handover.hpp"
#include "tests/long_mount_table.hpp"
#include "tests/silent_fuse.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

/// A file system that is mounted there and hangs when it is unmounted, until it is let go.
class HangingMount {
 public:
  explicit HangingMount(const std::string& point) {
    const bool mounted = make_directory(point, 0755) && server_.mount_at(point, "fuseblk", disk_);
    server_.begin();
    is_there_ = mounted && server_.has_waiting(0);
  }
  ~HangingMount() {
    let_go();
    EXPECT_TRUE(shell("losetup -d " + disk_));
  }
  bool is_there() const { return is_there_; }
  const std::string& disk() const { return disk_; }
  /// Of unmounts.
  unsigned waiting() const { return server_.waiting(); }
  void let_go() { server_.end(); }

 private:
  /// A file system of type fuseblk has to have one.
  const std::string disk_ = shell("f=$(mktemp); truncate -s 1M $f; losetup -f --show $f; rm $f")
                                .value_or("no loop device");
  SilentFuse server_{SilentFuse::Answers::all_but_the_last};
  bool is_there_ = false;
};

class Unmount : public Handover {
 protected:
  void SetUp() override {
    Handover::SetUp();
    if (!reason_.empty()) return;
    const auto there = shell(
        "for type in fuse fuseblk; do grep -qw $type /proc/filesystems || modprobe fuse; done\n"
        "[ -e /dev/fuse ] || mknod /dev/fuse c 10 229\nexec 3<>/dev/fuse");
    if (there) return;
    if (must_run()) FAIL() << "cannot run: " << there.error().message();
    GTEST_SKIP() << "SKIPPED, not tested: no FUSE here";
  }

  /// In a volume in which somebody has mounted what hangs when it is unmounted, `work` succeeds all
  /// the same.
  static void expect_success_beside_a_hang(const std::function<Ok()>& work) {
    HangingMount hanging(inside("mnt"));
    std::packaged_task<Ok()> task(work);
    auto result = task.get_future();
    run_detached(std::move(task));
    const bool in_time = result.wait_for(std::chrono::seconds(60)) == std::future_status::ready;
    const unsigned waiting = hanging.waiting();
    hanging.let_go();
    const Ok done = result.get();
    EXPECT_TRUE(hanging.is_there());
    EXPECT_TRUE(in_time);
    EXPECT_EQ(waiting, 1u) << "no unmount has hung";
    EXPECT_TRUE(done) << (done ? "" : done.error().message());
  }
};

/// A person in the volume who has mounted it there, and waits for an answer to their first
/// question.
pid_t session_that_asks(SilentFuse& server) {
  const pid_t session = ::fork();
  if (session != 0) return session;
  const bool mounted = ::chroot(kVolumePoint) == 0 && ::chdir("/") == 0 &&
                       (::mkdir("/mnt", 0755) == 0 || errno == EEXIST) && server.mount_at("/mnt");
  if (!mounted) ::_exit(1);
  server.let_go();
  ::_exit(::access("/mnt/file", F_OK) == 0 ? 0 : 2);
}

/// Whoever waited for the server heard no signal, and the volume was busy until the instance was
/// gone.
TEST_F(Unmount, a_fuse_mount_of_somebodys_whose_server_does_not_answer_keeps_no_volume) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with(""));
  SilentFuse server;
  const pid_t session = session_that_asks(server);
  server.begin();
  const bool waits = server.has_waiting(1);
  const Ok released = release(leaving(), assignment_, book_);
  server.end();  // or the session would go on waiting where the release has failed
  end(session);
  EXPECT_TRUE(waits);
  EXPECT_TRUE(released) << (released ? "" : released.error().message());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  const auto sessions = steps_with("end sessions"), unmounts = steps_with("unmount");
  ASSERT_EQ(sessions.size(), 1u);
  EXPECT_THAT(sessions[0].detail, HasSubstr("waits in the kernel"));
  ASSERT_EQ(unmounts.size(), 1u);
  EXPECT_THAT(unmounts[0].detail, HasSubstr("forced: " + inside("mnt") + " (fuse.silent)"));
}

/// It was called on the release's own thread, which waited with it, and nobody was told.
TEST_F(Unmount, an_unmount_of_somebodys_that_hangs_is_told_and_keeps_no_volume) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with(""));
  HangingMount hanging(inside("mnt"));
  const Ok released = release(leaving(), assignment_, book_);
  const unsigned waiting = hanging.waiting();
  hanging.let_go();
  EXPECT_TRUE(hanging.is_there());
  EXPECT_EQ(waiting, 1u) << "no unmount has hung";
  EXPECT_TRUE(released) << (released ? "" : released.error().message());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  const auto unmounts = steps_with("unmount");
  ASSERT_EQ(unmounts.size(), 1u);
  EXPECT_THAT(unmounts[0].detail,
              AllOf(HasSubstr("unmounting " + inside("mnt") + " (fuseblk) hangs"),
                    HasSubstr("holds nothing of the volume")));
}

TEST_F(Unmount, an_unmount_of_the_disk_that_hangs_is_named_and_waited_for_and_called_once) {
  const std::string point = "/run/point";
  HangingMount hanging(point);
  VolumeUnmount unmounting;
  const auto round = [&](std::int64_t ms) {
    const std::int64_t now = boottime_ms();
    return unmounting.round({point, {}, now, now + ms});
  };
  const Ok first = round(1000);
  const bool under_way = unmounting.is_under_way(), is_empty = mounts_at(point).empty();
  const Ok second = round(1000);
  const unsigned waiting = hanging.waiting();
  hanging.let_go();
  const Ok third = round(30'000);
  EXPECT_TRUE(hanging.is_there());
  EXPECT_TRUE(is_empty) << "it is not the unmount itself that has hung";
  EXPECT_TRUE(under_way);
  for (const Ok& hung : {first, second}) {
    ASSERT_FALSE(hung);
    EXPECT_THAT(hung.error().message(),
                HasSubstr("unmounting /run/point (fuseblk) hangs in the kernel"));
  }
  EXPECT_EQ(waiting, 1u);
  EXPECT_TRUE(third) << third.error().message();
  EXPECT_FALSE(unmounting.is_under_way());
  EXPECT_TRUE(shell("rmdir " + point));
}

/// It had all of the release's time, and the root was not tried.
TEST_F(Unmount, a_partition_of_the_volume_s_whose_unmount_hangs_leaves_time_for_the_root) {
  const std::string point = "/run/point", home = point + "/home";
  ASSERT_TRUE(shell("mkdir -p " + point + "; mount -t tmpfs tmpfs " + point));
  HangingMount hanging(home);
  struct stat node {};
  ASSERT_EQ(::stat(hanging.disk().c_str(), &node), 0);
  VolumeUnmount unmounting;
  const auto round = [&](std::int64_t ms) {
    const std::int64_t now = boottime_ms();
    return unmounting.round({point, {node.st_rdev}, now, now + ms});
  };
  const Ok first = round(4500);
  const bool is_empty = mounts_at(point).empty();
  const unsigned waiting = hanging.waiting();
  hanging.let_go();
  const Ok second = round(30'000);
  EXPECT_TRUE(hanging.is_there());
  EXPECT_EQ(waiting, 1u) << "no unmount has hung";
  EXPECT_TRUE(is_empty) << "the root is still mounted";
  EXPECT_THAT(first ? "" : first.error().message(),
              HasSubstr("unmounting " + home + " (fuseblk) hangs in the kernel"));
  EXPECT_TRUE(second) << (second ? "" : second.error().message());
  EXPECT_TRUE(shell("rmdir " + point));
}

/// A table that is longer than what is read of it was none, and nothing was unmounted.
TEST_F(Unmount, as_many_mounts_as_somebody_likes_keep_no_volume) {
  const std::string point = "/run/point";
  ASSERT_TRUE(shell("mkdir -p " + point + "; mount -t tmpfs tmpfs " + point));
  LongMountTable table(point);
  const bool is_long = !read_file("/proc/self/mountinfo", kMaxMountinfo);
  VolumeUnmount unmounting;
  const Ok done = unmounting.round(round_from_now(point));
  EXPECT_FALSE(table.unmount()) << "they are mounted still";
  EXPECT_TRUE(is_long);
  EXPECT_TRUE(done) << (done ? "" : done.error().message());
  EXPECT_TRUE(shell("rmdir " + point));
}

/// At the point and below: some fifty thousand, by trees that are bound whole.
bool mount_more_than_half_a_second_is_enough_for(const std::string& point) {
  constexpr int kOfTree = 250, kTrees = 200;
  const std::string tree = point + "/tree";
  const auto mounts_new = [](const std::string& place) {
    return (::mkdir(place.c_str(), 0755) == 0 || errno == EEXIST) &&
           ::mount("tmpfs", place.c_str(), "tmpfs", 0, nullptr) == 0;
  };
  bool done = mounts_new(point) && mounts_new(tree);
  for (int i = 0; done && i < kOfTree; ++i) done = mounts_new(tree + "/" + std::to_string(i));
  for (int i = 0; done && i < kTrees; ++i) {
    const std::string copy = point + "/" + std::to_string(i);
    done = ::mkdir(copy.c_str(), 0755) == 0 &&
           ::mount(tree.c_str(), copy.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0;
  }
  return done;
}

/// Nobody looked at the clock between unmounts that succeed, however many there were.
TEST_F(Unmount, very_many_mounts_keep_no_round_beyond_its_end_and_it_says_how_many_are_left) {
  const std::string point = "/run/point";
  const bool are_there = mount_more_than_half_a_second_is_enough_for(point);
  const std::size_t all = mounts_at(point).size();
  VolumeUnmount unmounting;
  const std::int64_t end = boottime_ms();
  const Ok late = unmounting.round({point, {}, end, end});
  const std::size_t left = mounts_at(point).size();
  EXPECT_EQ(::umount2(point.c_str(), MNT_DETACH), 0);
  EXPECT_TRUE(shell("rmdir " + point));
  EXPECT_TRUE(are_there);
  EXPECT_LT(left, all) << "not one was tried";
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::retry_later);
  EXPECT_THAT(late.error().message(), EndsWith("mounts left: " + std::to_string(left)));
}

/// Each took its half second behind the end as well: somebody's hundreds of them kept the release
/// for minutes.
TEST_F(Unmount, behind_the_end_of_a_round_no_second_unmount_that_hangs_is_begun) {
  const std::string point = "/run/point";
  ASSERT_TRUE(shell("mkdir -p " + point + "; mount -t tmpfs tmpfs " + point));
  std::list<HangingMount> hanging;
  bool are_there = true;
  for (const char* name : {"/1", "/2", "/3", "/4"})
    are_there = hanging.emplace_back(point + name).is_there() && are_there;
  VolumeUnmount unmounting;
  const std::int64_t end = boottime_ms();
  const Ok late = unmounting.round({point, {}, end + 60'000, end});
  const std::int64_t took_ms = boottime_ms() - end;
  for (HangingMount& each : hanging) each.let_go();
  const std::int64_t now = boottime_ms();
  const Ok rest = unmounting.round({point, {}, now, now + 30'000});
  EXPECT_TRUE(are_there);
  EXPECT_THAT(late ? "" : late.error().message(), HasSubstr("(fuseblk) hangs in the kernel"));
  EXPECT_LT(took_ms, 1500);
  EXPECT_TRUE(rest) << (rest ? "" : rest.error().message());
  EXPECT_TRUE(shell("rmdir " + point));
}

/// Each of these called it on its own thread, and the daemon waited there for good.
TEST_F(Unmount, an_unmount_that_hangs_does_not_keep_who_undoes_a_bring_up_that_failed) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with(""));
  expect_success_beside_a_hang([this] { return undo_bring_up(assignment_); });
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

TEST_F(Unmount, an_unmount_that_hangs_does_not_keep_who_clears_what_a_killed_one_has_left) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with(""));
  expect_success_beside_a_hang(clear_leftovers);
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  EXPECT_TRUE(assignment_.dirty_bound.remove());
}

TEST_F(Unmount, an_unmount_that_hangs_does_not_keep_who_undoes_a_plan_that_failed) {
  ASSERT_NO_FATAL_FAILURE(make_volume());
  ASSERT_NO_FATAL_FAILURE(mount_volume());
  MountStep broken = plan_mounts({}).back();
  broken.source = "/does/not/exist";
  broken.required = true;
  expect_success_beside_a_hang([&broken]() -> Ok {
    const Ok done = perform_all({broken}, kVolumePoint, [](const MountStep&, const Ok&) {});
    if (done) return fail(ErrorKind::broken, "it has not failed");
    if (done.error().message().find("undoing") != std::string::npos) return done;
    return {};
  });
  EXPECT_THAT(mounts_at(kVolumePoint), ElementsAre(kVolumePoint));
}

/// Whoever waited for it hears no signal, and the volume stayed mounted: EBUSY.
TEST_F(Unmount, a_server_that_does_not_answer_keeps_no_volume_of_a_bring_up_that_failed) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with(""));
  SilentFuse server;
  const pid_t session = session_that_asks(server);
  server.begin();
  const bool waits = server.has_waiting(1);
  const Ok undone = undo_bring_up(assignment_);
  server.end();
  end(session);
  EXPECT_TRUE(waits);
  EXPECT_TRUE(undone) << (undone ? "" : undone.error().message());
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

/// The daemon looks for it every few seconds, and a release before anything else.
TEST_F(Unmount, what_somebody_has_mounted_over_the_volume_is_not_asked_whose_it_is) {
  ASSERT_NO_FATAL_FAILURE(make_volume());
  ASSERT_NO_FATAL_FAILURE(mount_volume());
  const auto before = mounted_root();
  SilentFuse server;
  const bool mounted = server.mount_at(kVolumePoint);
  server.begin();
  const bool begun = mounted && server.has_waiting(0);
  std::packaged_task<std::optional<dev_t>()> task([] { return mounted_root(); });
  auto found = task.get_future();
  run_detached(std::move(task));
  const bool in_time = found.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  server.end();
  EXPECT_TRUE(begun);
  EXPECT_TRUE(in_time);
  ASSERT_TRUE(before);
  EXPECT_NE(found.get(), before);
}

}  // namespace
}  // namespace warmroot::bootstrap
