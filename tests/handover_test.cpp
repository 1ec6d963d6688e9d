// What a release does for people and programs, against the real kernel.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/fs.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <thread>
#include <tuple>

#include "bootstrap/files.hpp"
#include "bootstrap/holders.hpp"
#include "bootstrap/kernel_users.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/process_stat.hpp"
#include "bootstrap/stop_request.hpp"
#include "bootstrap/volume_root.hpp"
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
  // A program that runs beside this one may get the same loop device as soon as it is free.
  const std::string backing = "losetup -nO BACK-INO,BACK-MAJ:MIN " + loop + " 2>/dev/null";
  const std::string ours = shell(backing).value_or("");
  ASSERT_NE(ours, "");
  const std::string is_ours = "[ \"$(" + backing + ")\" = '" + ours + "' ]";
  const std::shared_ptr<void> detached(nullptr, [&](void*) {
    [[maybe_unused]] const auto done = shell("! " + is_ours + " || losetup -d " + loop);
  });
  const Ok released = release(leaving(), assignment_, book_);
  EXPECT_TRUE(released) << released.error().message();
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  const auto steps = steps_with("unmount");
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_THAT(steps[0].detail, HasSubstr("the kernel used it: " + loop.substr(5) + " over "));
  EXPECT_TRUE(shell("! " + is_ours)) << "and it was left behind";
}

/// A container that binds the base's "/" keeps a private copy, which no unmount of ours reaches.
TEST_F(Handover, a_copy_of_the_mount_in_somebodys_namespace_is_taken_away_and_they_live_on) {
  bring_up_with("");
  const pid_t keeper = child_that([] {
    return ::unshare(CLONE_NEWNS) == 0 &&
           ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  });
  // The same from within a root of its own, under another name.
  const pid_t container = child_that([] {
    return ::unshare(CLONE_NEWNS) == 0 &&
           ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           (::mkdir("/tmp/new root", 0755) == 0 || errno == EEXIST) &&
           ::mount("tmpfs", "/tmp/new root", "tmpfs", 0, nullptr) == 0 &&
           ::mkdir("/tmp/new root/data", 0755) == 0 && ::mkdir("/tmp/new root/old", 0755) == 0 &&
           ::mount(kVolumePoint, "/tmp/new root/data", nullptr, MS_BIND, nullptr) == 0 &&
           ::syscall(SYS_pivot_root, "/tmp/new root", "/tmp/new root/old") == 0 &&
           ::chdir("/") == 0 && ::umount2("/old", MNT_DETACH) == 0;
  });
  const Ok released = release(leaving(), assignment_, book_);
  EXPECT_TRUE(released) << released.error().message();
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  const bool live =
      ::waitpid(keeper, nullptr, WNOHANG) == 0 && ::waitpid(container, nullptr, WNOHANG) == 0;
  end(keeper);
  end(container);
  EXPECT_TRUE(live);
  const auto steps = steps_with("prove the device free");
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_THAT(steps[0].detail,
              AllOf(HasSubstr("a copy of the mount was taken from handover_test"),
                    HasSubstr(std::to_string(keeper)), HasSubstr(std::to_string(container))));
  EXPECT_THAT(mounts_at(kVolumePoint), testing::IsEmpty());
}

/// proc says nothing of a process whose main has ended by pthread_exit.
TEST_F(Handover, a_program_whose_first_thread_has_ended_is_ended_too) {
  bring_up_with("");
  int ready[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  const pid_t session = ::fork();
  if (session == 0) {
    if (::chdir(kVolumePoint) != 0) ::_exit(1);
    std::thread([end = ready[1]] {
      [[maybe_unused]] const auto put = ::write(end, "y", 1);
      while (true) ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);  // of this thread
  }
  ::close(ready[1]);
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::close(ready[0]);
  const Ok released = release(leaving(), assignment_, book_);
  EXPECT_TRUE(released) << released.error().message();
  int status = 0;
  EXPECT_EQ(::waitpid(session, &status, WNOHANG), session) << "it lives";
  EXPECT_TRUE(WIFSIGNALED(status));
  if (!released) end(session);
}

/// Programs of which each starts the next one and ends, as fast as the kernel lets them, with their
/// root in the volume. Who has them for children, and nothing in the volume, is `keeper`.
struct Chain {
  Chain() {
    void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    links = new (page) std::atomic<int>(0);
    keeper = child_that([this] {
      // Theirs are reaped by nobody else.
      if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || ::signal(SIGCHLD, SIG_IGN) == SIG_ERR)
        return false;
      if (::fork() == 0) run();
      return true;
    });
  }
  ~Chain() {
    links->store(kOver);
    end(keeper);
    ::munmap(links, 4096);
  }
  [[noreturn]] void run() const {
    const std::int64_t end_ms = boottime_ms() + 120'000;
    if (::chroot(kVolumePoint) != 0 || ::chdir("/") != 0) ::_exit(1);
    while (links->fetch_add(1) >= 0 && boottime_ms() < end_ms) {
      if (::fork() != 0) ::_exit(0);
      ::setsid();
    }
    ::_exit(0);
  }
  bool goes_on_within(int limit_ms, int more) const {
    const int before = *links;
    for (const std::int64_t end = boottime_ms() + limit_ms; boottime_ms() < end;) {
      if (*links >= before + more) return true;
      ::poll(nullptr, 0, 10);
    }
    return false;
  }
  static constexpr int kOver = -1'000'000'000;
  std::atomic<int>* links = nullptr;
  pid_t keeper = -1;
};

/// None was there any more when it was its turn to be killed, and the volume stayed busy.
TEST_F(Handover, programs_that_fork_and_end_without_a_pause_do_not_outrun_the_release) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with(""));
  const Chain chain;
  ASSERT_TRUE(chain.goes_on_within(10'000, 20));
  const Ok released = release(leaving(), assignment_, book_);
  EXPECT_TRUE(released) << (released ? "" : released.error().message());
  EXPECT_FALSE(chain.goes_on_within(500, 1));
  EXPECT_EQ(::waitpid(chain.keeper, nullptr, WNOHANG), 0) << "it holds nothing and was ended";
}

bool has(const HolderSearch& search, pid_t pid) {
  return std::any_of(search.found.begin(), search.found.end(),
                     [&](const Holder& holder) { return holder.pid == pid; });
}

/// The search looked at each of a million before it looked at the next process, in no bounded time.
TEST_F(Handover, nobody_hides_behind_a_process_with_very_many_descriptors) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with(""));
  constexpr unsigned kMany = 15'000, kLooks = 12'000;
  const pid_t many = child_that([] {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;  // which not even root may raise in a container
    const int null = ::open("/dev/null", O_RDONLY);
    bool opened = ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
    for (unsigned i = 0; opened && i < kMany; ++i) opened = ::dup(null) >= 0;
    return opened && ::open(inside("etc/os-release").c_str(), O_RDONLY) >= 0;
  });
  const pid_t session = child_that([] { return ::chroot(kVolumePoint) == 0 && ::chdir("/") == 0; });
  const dev_t device = *mounted_root();
  unsigned looks = 0;
  const HolderSearch cut = search_holders(device, [&] { return ++looks > kLooks; });
  EXPECT_TRUE(has(cut, session));
  EXPECT_FALSE(has(cut, many));
  EXPECT_FALSE(cut.complete);
  EXPECT_LT(looks, kLooks + 1000) << "it went on although its time was over";
  const HolderSearch whole = search_holders(device, {});
  EXPECT_TRUE(has(whole, session) && has(whole, many) && whole.complete);
  const HolderSearch none = search_holders(device, [] { return true; });
  EXPECT_TRUE(none.found.empty());
  EXPECT_FALSE(none.none()) << "who was not looked for may be there";
  const Ok released = release(leaving(), assignment_, book_);
  EXPECT_TRUE(released) << (released ? "" : released.error().message());
  end(many);
  end(session);
}

/// Taken away by force, it was never released: the node tried on until its end, with the volume's
/// people and keys on the base.
TEST_F(Handover, a_disk_that_is_gone_is_given_back) {
  bring_up_with("");
  ASSERT_EQ(::unlink("/dev/vdz"), 0);
  const Ok released = release(leaving(), assignment_, book_);
  EXPECT_TRUE(released) << released.error().message();
  ASSERT_EQ(steps_with("prove the device free").size(), 1U);
  EXPECT_EQ(steps_with("prove the device free")[0].detail, "the disk is gone from this machine");
  EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
}

TEST_F(Handover, what_keeps_the_disk_keeps_neither_people_nor_words_on_the_base) {
  bring_up_with("");
  ASSERT_TRUE(shell(std::string("mkdir -p /run/motd.d; echo x >") + kMessageOfTheDay));
  const auto other = shell("f=$(mktemp); truncate -s 1M $f; losetup -f --show $f; rm $f");
  ASSERT_TRUE(other);
  const std::string loop = other->substr(0, other->find('\n'));
  UniqueFd keeper(::open(loop.c_str(), O_RDONLY | O_CLOEXEC | O_EXCL));
  ASSERT_TRUE(keeper);
  assignment_.disk_node = loop;
  EXPECT_FALSE(release(leaving(), assignment_, book_));
  EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
  EXPECT_NE(::access(kMessageOfTheDay, F_OK), 0);
  keeper.reset();
  EXPECT_TRUE(shell("losetup -d " + loop));
}

/// An e2fsck that outlived a bootstrap that was killed kept the device from the next one.
TEST(RunProgram, what_it_runs_ends_with_the_process_that_ran_it) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, 0), 0);
  const pid_t bootstrap = ::fork();
  if (bootstrap == 0) {
    std::ignore = run_program(
        {"/bin/sh", "-c", "echo $$ >/proc/$PPID/fd/" + std::to_string(ends[1]) + "; exec sleep 60"},
        seconds(60));
    ::_exit(0);
  }
  ::close(ends[1]);
  char text[32] = {};
  ASSERT_GT(::read(ends[0], text, sizeof text - 1), 0);
  const pid_t program = std::atoi(text);
  ASSERT_GT(program, 1);
  end(bootstrap);
  bool gone = false;
  for (int i = 0; i < 500 && !gone; ++i) {
    ::poll(nullptr, 0, 10);
    const auto stat =
        parse_process_stat(read_attribute("/proc/" + std::to_string(program) + "/stat"));
    gone = !stat || stat->state == 'Z';
  }
  EXPECT_TRUE(gone) << program;
  ::close(ends[0]);
}

TEST(StopRequest, who_waits_for_the_next_attempt_hears_of_another_reason) {
  StopRequest stop;
  stop.request({"manager-wish", "a wish", 1000});
  const int known = stop.requests();
  std::thread notice([&] {
    std::this_thread::sleep_for(milliseconds(50));
    stop.request({"spot-notice", "a notice", 500});
  });
  const auto began = std::chrono::steady_clock::now();
  stop.wait_for_another(known, seconds(30));
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(20));
  EXPECT_EQ(stop.reason()->word, "manager-wish");
  EXPECT_EQ(stop.reason()->deadline_ms, 500);
  notice.join();
  const int heard = stop.requests();
  stop.request({"manager-wish", "the same again", 2000});
  EXPECT_EQ(stop.requests(), heard) << "the manager says its wish with each answer";
  stop.wait_for_another(stop.requests(), milliseconds(1));
}

TEST(KernelUsers, are_swap_files_by_the_names_that_the_kernel_writes) {
  EXPECT_THAT(swap_files("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
                         "/dev/zram0 partition\t1024\t0\t100\n"
                         "/run/warmroot/private/volume/swap\\040file          file\t\t1020\t0\t-2\n"
                         "/swap\\04"),
              testing::ElementsAre("/run/warmroot/private/volume/swap file"));
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
                    "a test ends. (Save your work: sessions end in [1-5] s|Sessions end now)"));
    pollfd item{on_base.master.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&item, 1, 0), 0) << "somebody on the base was warned";
    end(on_base.session);
  }
  ASSERT_EQ(steps_with("warn sessions").size(), 1u);
  EXPECT_THAT(steps_with("warn sessions")[0].detail, HasSubstr("1 terminals"));
  EXPECT_TRUE(shell("umount /dev/pts"));
}

/// What a person in the volume is shown who logs out after the second warning. `between` comes
/// after the first.
std::vector<std::string> two_warnings(const std::function<Ok()>& give_back,
                                      const std::function<void()>& between) {
  const Terminal terminal(true);
  std::vector<std::string> shown;
  std::thread person([&] {
    shown.push_back(terminal.shown(" seconds."));
    between();
    shown.push_back(terminal.shown(" seconds."));
    end(terminal.session);
  });
  const Ok released = give_back();
  person.join();
  EXPECT_TRUE(released) << (released ? "" : released.error().message());
  return shown;
}

TEST_F(Handover, people_are_reminded_ten_seconds_before_programs_are_told_to_end) {
  ASSERT_TRUE(shell("mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts /dev/pts"));
  ASSERT_NO_FATAL_FAILURE(bring_up_with(""));
  ReleaseInput input = leaving(seconds(120));
  input.wishes.grace = seconds(21);
  EXPECT_THAT(two_warnings([&] { return release(input, assignment_, book_); }, [] {}),
              testing::ElementsAre(testing::ContainsRegex("sessions end in (19|2[01]) seconds"),
                                   testing::ContainsRegex("a test ends. Save your work: sessions "
                                                          "end in ([1-9]|10) seconds")));
  const auto warned = steps_with("warn sessions"), reminded = steps_with("remind sessions");
  ASSERT_EQ(warned.size(), 1u);
  ASSERT_EQ(reminded.size(), 1u);
  EXPECT_GE(reminded[0].start_ms - warned[0].start_ms, 10'000);
  EXPECT_TRUE(shell("umount /dev/pts"));
}

/// They had been told of a minute. The hook is still at work.
TEST_F(Handover, people_hear_of_an_end_that_has_come_nearer) {
  ASSERT_TRUE(shell("mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts /dev/pts"));
  ASSERT_NO_FATAL_FAILURE(bring_up_with("hook hangs 'read x </never'"));
  ReleaseInput input = leaving(seconds(120));
  input.wishes = {seconds(60), seconds(4)};
  std::atomic<std::int64_t> deadline_ms = input.deadline_ms();
  input.deadline_ms = [&] { return deadline_ms.load(); };
  // Of 30 s people have 8.
  EXPECT_THAT(two_warnings([&] { return release(input, assignment_, book_); },
                           [&] { deadline_ms = boottime_ms() + 30'000; }),
              testing::ElementsAre(testing::ContainsRegex("sessions end in (5[89]|60) seconds"),
                                   testing::ContainsRegex("sessions end in [1-8] seconds")));
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
