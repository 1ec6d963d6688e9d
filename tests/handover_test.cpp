// What a release does for people and programs, against the real kernel.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <thread>

#include "bootstrap/holders.hpp"
#include "bootstrap/kernel_users.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/process_stat.hpp"
#include "tests/handover.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

/// A terminal and a session leader on it, with its root in the volume or on the base.
struct Terminal {
  explicit Terminal(bool in_volume)
      : master(::open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    EXPECT_TRUE(master);
    EXPECT_EQ(::unlockpt(master.get()), 0);
    int number = -1;
    EXPECT_EQ(::ioctl(master.get(), TIOCGPTN, &number), 0);
    name = "/dev/pts/" + std::to_string(number);
    session = child_that([&] {
      master.reset();
      return ::setsid() > 0 && ::open(name.c_str(), O_RDWR) >= 0 &&
             (!in_volume || ::chroot(kVolumePoint) == 0) && ::chdir("/") == 0;
    });
  }
  /// What it shows until `word` came, or for a minute.
  std::string shown(const std::string& word) const {
    std::string text;
    pollfd item{master.get(), POLLIN, 0};
    while (text.find(word) == std::string::npos && ::poll(&item, 1, 60'000) > 0) {
      char buffer[4096];
      const ssize_t got = ::read(master.get(), buffer, sizeof buffer);
      if (got <= 0) break;
      text.append(buffer, static_cast<std::size_t>(got));
    }
    return text;
  }
  UniqueFd master;
  std::string name;
  pid_t session = -1;
};

TEST_F(Handover, a_terminal_that_is_stopped_or_gone_keeps_nobody_waiting) {
  ASSERT_TRUE(shell("mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts /dev/pts"));
  {
    Terminal stopped(false), reads(false), gone(false);
    const UniqueFd its_end(::open(stopped.name.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    ASSERT_EQ(::tcflow(its_end.get(), TCOOFF), 0);
    gone.master.reset();
    const std::vector<Holder> holders{
        {stopped.session, "bash"}, {reads.session, "bash"}, {gone.session, "bash"}, {0, "none"}};
    EXPECT_EQ(warn_terminals(holders, "sessions end now"), 1u);
    EXPECT_THAT(reads.shown("now"), HasSubstr("*** sessions end now"));
    for (const auto& terminal : {&stopped, &reads, &gone}) end(terminal->session);
  }
  EXPECT_TRUE(shell("umount /dev/pts"));
}

/// No process holds it, so that nobody was named either.
TEST_F(Handover, a_loop_device_that_somebody_made_of_a_file_in_it_does_not_keep_the_volume) {
  bring_up_with("");
  const std::string file = inside("disk image");
  const auto made = shell("truncate -s 1M '" + file + "'; losetup -f --show '" + file + "'");
  ASSERT_TRUE(made) << made.error().message();
  const std::string loop = made->substr(0, made->find('\n'));
  const std::shared_ptr<void> detached(nullptr, [&](void*) {
    [[maybe_unused]] const auto done = shell("losetup -d " + loop + " 2>/dev/null; true");
  });
  const Ok released = release(leaving(), assignment_, book_);
  EXPECT_TRUE(released) << released.error().message();
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  const auto steps = steps_with("unmount");
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_THAT(steps[0].detail, HasSubstr("the kernel used it: " + loop.substr(5) + " over "));
  EXPECT_TRUE(shell("! losetup " + loop)) << "and it was left behind";
}

TEST(KernelUsers, are_swap_files_by_the_names_that_the_kernel_writes) {
  EXPECT_THAT(swap_files("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
                         "/dev/zram0 partition\t1024\t0\t100\n"
                         "/run/warmroot/volume/swap\\040file          file\t\t1020\t0\t-2\n"
                         "/swap\\04"),
              testing::ElementsAre("/run/warmroot/volume/swap file"));
  EXPECT_THAT(swap_files(""), testing::IsEmpty());
}

TEST_F(Handover, people_in_the_volume_are_warned_with_the_time_left) {
  ASSERT_TRUE(shell("mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts /dev/pts"));
  ASSERT_NO_FATAL_FAILURE(bring_up_with(""));
  {
    const Terminal inside_volume(true), on_base(false);
    const ReleaseInput input = leaving(seconds(120));
    std::string first;
    std::thread person([&] {
      first = inside_volume.shown(" seconds.");
      end(inside_volume.session);  // has saved and logs out
    });
    const Ok released = release(input, assignment_, book_);
    person.join();
    EXPECT_TRUE(released) << (released ? "" : released.error().message());
    EXPECT_THAT(first,
                testing::ContainsRegex(
                    "a test ends. (Save your work: sessions end in [1-5] s|sessions end now)"));
    pollfd item{on_base.master.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&item, 1, 0), 0) << "somebody on the base was warned";
    end(on_base.session);
  }
  ASSERT_EQ(steps_with("warn sessions").size(), 1u);
  EXPECT_THAT(steps_with("warn sessions")[0].detail, HasSubstr("1 terminals"));
  EXPECT_TRUE(shell("umount /dev/pts"));
}

TEST_F(Handover, an_xfs_that_has_shut_down_is_still_mounted_and_its_sessions_are_ended) {
  if (!shell("command -v mkfs.xfs; grep -qw xfs /proc/filesystems || modprobe xfs")) {
    if (must_run()) FAIL() << "cannot run: no xfs";
    GTEST_SKIP() << "SKIPPED, not tested: no xfs";
  }
  make_volume();
  const auto made = shell("mkdir -p /run/from /run/to; mount -o ro " + loop_ + " /run/from\n" + R"(
      image=$(mktemp /tmp/warmroot-image-XXXXXX); truncate -s 320M $image; mkfs.xfs -q $image
      mount -o loop $image /run/to; cp -a /run/from/. /run/to; umount /run/from /run/to
      echo $image)");
  ASSERT_TRUE(made) << made.error().message();
  ASSERT_TRUE(shell("losetup -d " + loop_ + "; rm " + image_));
  image_ = *made;
  loop_ = shell("losetup -f --show " + image_).value_or("");
  dress_as_disk();
  ASSERT_TRUE(bring_up(input_, assignment_, book_, stop_));
  const pid_t session = child_that([] { return ::chroot(kVolumePoint) == 0 && ::chdir("/") == 0; });
  {
    const UniqueFd root(::open(kVolumePoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    std::uint32_t without_log = 2;
    // XFS_IOC_GOINGDOWN, what xfs does by itself when its log cannot be written.
    ASSERT_EQ(::ioctl(root.get(), _IOR('X', 125, std::uint32_t), &without_log), 0);
  }
  struct stat facts {};
  ASSERT_EQ(::stat(kVolumePoint, &facts), -1);
  const Ok released = release(leaving(), assignment_, book_);
  EXPECT_TRUE(released) << (released ? "" : released.error().message());
  end(session);
  ASSERT_EQ(steps_with("end sessions").size(), 1u);
  EXPECT_THAT(steps_with("end sessions")[0].detail, HasSubstr("handover_test"));
}

TEST_F(Handover, a_process_that_waits_in_the_kernel_is_named_and_the_release_goes_on) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with(""));
  UniqueFd root(::open(kVolumePoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // A frozen file system keeps writers waiting as a disk does that does not answer.
  ASSERT_EQ(::ioctl(root.get(), FIFREEZE, 0), 0);
  const pid_t writer = ::fork();
  if (writer == 0) {
    const int file = ::openat(root.get(), "etc/passwd", O_WRONLY);
    [[maybe_unused]] const auto put = ::write(file, "r", 1);
    ::_exit(0);
  }
  const auto waits = [&] {
    const auto stat =
        parse_process_stat(read_attribute("/proc/" + std::to_string(writer) + "/stat"));
    return stat && stat->state == 'D';
  };
  for (const std::int64_t limit = boottime_ms() + 30'000; !waits() && boottime_ms() < limit;)
    ::poll(nullptr, 0, 10);
  std::atomic<bool> over = false;
  std::thread disk([&] {
    while (!over && steps_with("end sessions").empty())
      std::this_thread::sleep_for(milliseconds(20));
    ::ioctl(root.get(), FITHAW, 0);
    root.reset();
  });
  const Ok released = release(leaving(seconds(16)), assignment_, book_);
  over = true;
  disk.join();
  ::waitpid(writer, nullptr, 0);
  EXPECT_TRUE(released) << (released ? "" : released.error().message());
  ASSERT_EQ(steps_with("end sessions").size(), 1u);
  EXPECT_EQ(steps_with("end sessions")[0].outcome, Outcome::failed);
  EXPECT_THAT(steps_with("end sessions")[0].detail,
              AllOf(HasSubstr("waits in the kernel"), HasSubstr("did not end when killed")));
}

}  // namespace
}  // namespace warmroot::bootstrap
