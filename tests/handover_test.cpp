// What a release does for people, programs and the operator's hooks, against the real kernel.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "bootstrap/holders.hpp"
#include "bootstrap/hooks.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/process_stat.hpp"
#include "tests/boot_whole.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// Hooks of the tree: $h is their folder, and `hook NAME WORDS` writes one.
constexpr char kHooks[] = R"(
    h=$t/etc/warmroot/hooks.d; mkdir -p $h; mkdir -p $t/var/lib; mkfifo $t/never
    hook() { printf '#!/bin/sh\n%s\n' "$2" >"$h/$1"; chmod 755 "$h/$1"; }
)";

class Handover : public BootWhole {
 protected:
  /// Mounts a volume with these hooks, as bring_up does.
  void bring_up_with(const std::string& hooks) {
    make_volume(kHooks + hooks);
    dress_as_disk();
    const Ok done = bring_up(input_, assignment_, book_, stop_);
    ASSERT_TRUE(done) << done.error().message();
  }
  std::vector<TimedStep> steps_with(const std::string& prefix) const {
    std::vector<TimedStep> found;
    for (const auto& step : book_.snapshot().steps)
      if (step.name.rfind(prefix, 0) == 0) found.push_back(step);
    return found;
  }
  /// One "name: outcome: detail" a hook.
  std::vector<std::string> hook_lines() const {
    std::vector<std::string> lines;
    for (const auto& step : steps_with("hook"))
      lines.push_back(step.name + ": " + std::string(to_string(step.outcome)) + ": " + step.detail);
    return lines;
  }
  std::string on_volume(const std::string& path) {
    if (mounts_at(kVolumePoint).empty()) mount_volume();
    return read_file(inside(path), 65536).value_or("absent");
  }
};

/// A child that runs `work` and then waits to be killed; ready once this returns.
template <typename Work>
pid_t child_that(Work work) {
  int ready[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    const bool done = work();
    [[maybe_unused]] const auto put = ::write(ready[1], done ? "y" : "n", 1);
    while (true) ::pause();
  }
  ::close(ready[1]);
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  ::close(ready[0]);
  return child;
}

void end(pid_t child) {
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(Handover, hooks_run_in_name_order_inside_the_volume_and_what_they_write_is_kept) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with(R"(
      hook 20-second 'echo "second $(pwd) $HOME $1" >>/var/lib/heard'
      hook 10-first 'read id </var/lib/warmroot/state; echo "first $WARMROOT_REASON $WARMROOT_POOL $WARMROOT_INSTANCE_ID $WARMROOT_VOLUME_ID $id" >>/var/lib/heard; [ "$WARMROOT_DEADLINE_SECONDS" -ge 1 ] && echo enough >>/var/lib/heard'
      hook .hidden 'echo hidden >>/var/lib/heard'; hook 10-first~ 'echo backup >>/var/lib/heard')"));
  const Ok released = release(leaving(seconds(120)), assignment_, book_);
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_THAT(hook_lines(),
              ElementsAre("hook 10-first: ok: ended with 0", "hook 20-second: ok: ended with 0"));
  EXPECT_EQ(on_volume("var/lib/heard"),
            "first operator test i-1 vol-0abc open i-1\nenough\nsecond / /root operator\n");
}

TEST_F(Handover, only_regular_files_that_root_alone_can_change_are_run) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with(R"(
      hook loose 'echo $0 >>/var/lib/heard'; chmod 775 $h/loose
      hook not-roots 'echo $0 >>/var/lib/heard'; chown 2001 $h/not-roots
      hook notes 'echo $0 >>/var/lib/heard'; chmod 644 $h/notes
      ln -s /bin/hang $h/link; ln -s ../../../../../../bin/true $h/out; mkdir $h/folder; mkfifo $h/pipe
      hook 'two words' 'echo $0 >>/var/lib/heard'
      hook works 'echo $0 >>/var/lib/heard')"));
  const Ok released = release(leaving(seconds(120)), assignment_, book_);
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_THAT(
      hook_lines(),
      ElementsAre(
          "hook folder: skipped: it is no regular file",
          "hook link: skipped: it is no regular file",
          "hook loose: skipped: others than root can write it",
          "hook not-roots: skipped: it is not root's", "hook notes: skipped: it is not executable",
          "hook out: skipped: it is no regular file", "hook pipe: skipped: it is no regular file",
          "hook two words: skipped: its name is not made of up to 64 letters, digits, "
          "'-', '_' and '.'",
          "hook works: ok: ended with 0"));
  EXPECT_EQ(on_volume("var/lib/heard"), "/etc/warmroot/hooks.d/works\n");
}

TEST_F(Handover, what_hooks_are_called_and_say_sends_no_escape_sequence_to_a_terminal) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with(R"(
      hook "`printf '1\033[2J'`" 'true'
      hook 2 'printf "\033]0;mine\007 a\177b\302\233c\n"; exit 1')"));
  const Ok released = release(leaving(seconds(120)), assignment_, book_);
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_THAT(hook_lines(),
              ElementsAre("hook 1 [2J: skipped: its name is not made of up to 64 letters, digits, "
                          "'-', '_' and '.'",
                          "hook 2: failed: ended with 1:  ]0;mine  a b c"));
}

TEST_F(Handover, a_hooks_folder_that_is_a_link_or_that_others_can_write_runs_nothing) {
  for (const char* change : {"mv $t/etc/warmroot $t/elsewhere; ln -s /elsewhere $t/etc/warmroot",
                             "chmod 777 $t/etc/warmroot"}) {
    SCOPED_TRACE(change);
    make_volume(std::string(kHooks) + "hook works 'echo $0 >>/var/lib/heard'\n" + change);
    mount_volume();
    auto root = RootDirectory::open(kVolumePoint);
    ASSERT_TRUE(root);
    const auto hooks = find_hooks(*root);
    root = fail(ErrorKind::gone, "let go of");
    ASSERT_FALSE(hooks);
    EXPECT_THAT(hooks.error().message(), HasSubstr("/etc/warmroot in the volume"));
    ASSERT_TRUE(unmount_tree(kVolumePoint));
    ASSERT_TRUE(shell("losetup -d " + loop_ + "; rm " + image_));
    loop_.clear();
    image_.clear();
  }
}

TEST_F(Handover, a_hook_that_fails_or_cannot_start_is_told_and_keeps_nothing) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with(R"(
      hook 1-fails 'echo all is well; echo "cannot save" >&2; exit 3'
      hook 2-dies 'kill -9 $$'
      hook 3-binary ''; printf '\177ELF broken' >$h/3-binary
      hook 4-talks 'i=0; while [ $i -lt 300 ]; do echo "line $i of many"; i=$((i+1)); done')"));
  testing::internal::CaptureStderr();
  const Ok released = release(leaving(seconds(120)), assignment_, book_);
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_THAT(hook_lines(), ElementsAre("hook 1-fails: failed: ended with 3: cannot save",
                                        "hook 2-dies: failed: was killed by signal 9",
                                        "hook 3-binary: failed: ended with 127",
                                        "hook 4-talks: ok: ended with 0"));
  EXPECT_THAT(log, AllOf(HasSubstr("hook name=1-fails says=\"all is well\"\n"),
                         HasSubstr("hook name=4-talks says=\"line 49 of many\"\n"),
                         Not(HasSubstr("line 50 of many\"\n")),
                         HasSubstr("hook output left out name=4-talks lines=250\n")));
}

TEST_F(Handover, a_hook_that_hangs_is_ended_and_what_hooks_leave_behind_is_killed) {
  make_volume(std::string(kHooks) + R"(
      cp -L $(command -v setsid) $t/bin/
      hook 1-leaves '(trap "" TERM HUP; setsid sh -c "echo \$\$ >/detached; read x </never" &) ; while [ ! -s /detached ]; do :; done'
      hook 2-hangs 'trap "" TERM; read x </never; read x </never')");
  mount_volume();
  ASSERT_TRUE(perform_plan());
  const auto root = RootDirectory::open(kVolumePoint);
  const auto within = [](milliseconds limit) {
    return HookOrder{
        "operator", "p", "i", "v",
        std::make_shared<const std::atomic<std::int64_t>>(boottime_ms() + limit.count())};
  };
  const auto steps = run_hooks(*root, {{"1-leaves", ""}}, within(seconds(60)));
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].detail, "ended with 0, left 1 behind, killed");
  const auto hung =
      run_hooks(*root, {{"2-hangs", ""}, {"1-leaves", ""}}, within(milliseconds(2400)));
  ASSERT_EQ(hung.size(), 2u);
  EXPECT_EQ(hung[0].outcome, Outcome::failed);
  EXPECT_EQ(hung[0].detail, "took longer than 1 s and was ended");
  EXPECT_EQ(hung[1].outcome, Outcome::skipped);
  EXPECT_EQ(hung[1].detail, "no time is left for it");
  const pid_t detached = std::atoi(read_attribute(inside("detached")).c_str());
  ASSERT_GT(detached, 1);
  EXPECT_EQ(::kill(detached, 0), -1);
  EXPECT_EQ(errno, ESRCH);
  EXPECT_EQ(holders_text(holders_of(*mounted_root())), "");
}

TEST_F(Handover, a_hook_ends_with_the_bootstrap_that_runs_it) {
  make_volume(std::string(kHooks) + "hook hangs 'echo $$ >/hanging; read x </never'");
  mount_volume();
  const pid_t bootstrap = ::fork();
  if (bootstrap == 0) {
    const auto root = RootDirectory::open(kVolumePoint);
    std::ignore = run_hooks(*root, {{"hangs", ""}},
                            {"operator", "p", "i", "v",
                             std::make_shared<std::atomic<std::int64_t>>(boottime_ms() + 600'000)});
    ::_exit(0);
  }
  const auto soon = [](const std::function<bool()>& done) {
    for (const std::int64_t limit = boottime_ms() + 30'000; !done() && boottime_ms() < limit;)
      ::poll(nullptr, 0, 10);
    return done();
  };
  EXPECT_TRUE(soon([] { return !read_attribute(inside("hanging")).empty(); }));
  EXPECT_NE(holders_text(holders_of(*mounted_root())), "");
  end(bootstrap);
  EXPECT_TRUE(soon([] { return holders_of(*mounted_root()).empty(); }));
}

TEST_F(Handover, an_end_that_comes_nearer_shortens_the_hook_that_runs) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with("hook hangs ': >/begun; read x </never'"));
  ReleaseInput input = leaving(seconds(900));
  const std::int64_t far_ms = input.deadline_ms();
  std::atomic<std::int64_t> near_ms = 0;
  // A notice comes as soon as the hook runs; no time of its 15 s is for hooks.
  input.deadline_ms = [&] {
    if (near_ms == 0 && ::access(inside("begun").c_str(), F_OK) == 0)
      near_ms = boottime_ms() + 15'000;
    return near_ms != 0 ? near_ms.load() : far_ms;
  };
  const Ok released = release(input, assignment_, book_);
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_THAT(hook_lines(), ElementsAre(testing::MatchesRegex(
                                "hook hangs: failed: took longer than 1?[0-9] s and was ended")));
}

TEST_F(Handover, a_release_that_is_tried_again_runs_no_hook_again) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with("hook count 'echo ran >>/var/lib/heard'"));
  // A file of ours keeps the volume busy: this process is nobody to be killed.
  UniqueFd held(::open(inside("etc/passwd").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(held);
  ReleaseInput input = leaving(seconds(120));
  const auto first_deadline = input.deadline_ms;
  bool over = false;
  // The time is over when unmounting begins.
  input.deadline_ms = [&] {
    over = over || !steps_with("sync").empty();
    return over ? boottime_ms() - 1 : first_deadline();
  };
  const Ok refused = release(input, assignment_, book_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "EBUSY");
  held.reset();
  const Ok released = release(input, assignment_, book_);
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_EQ(hook_lines().size(), 1u);
  EXPECT_EQ(on_volume("var/lib/heard"), "ran\n");
  ASSERT_TRUE(unmount_tree(kVolumePoint));
  ASSERT_TRUE(bring_up(input_, assignment_, book_, stop_));
  ASSERT_TRUE(release(leaving(seconds(120)), assignment_, book_));
  EXPECT_EQ(on_volume("var/lib/heard"), "ran\nran\n") << "the next mount is another release";
}

TEST_F(Handover, no_hook_and_no_signal_reaches_the_base_once_somebody_else_unmounted_the_volume) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with("hook works 'echo $0 >>/var/lib/heard'"));
  ASSERT_TRUE(unmount_tree(kVolumePoint));
  ASSERT_TRUE(
      shell("mkdir -p /run/warmroot/volume/etc/warmroot/hooks.d\n"
            "cd /run/warmroot/volume/etc/warmroot/hooks.d\n"
            "printf '#!/bin/sh\\n: >/run/ran-on-the-base\\n' >bad; chmod 755 bad"));
  const pid_t service = child_that([] {
    return ::open("/run/service.pid", O_CREAT | O_RDWR, 0600) >= 0 && ::chdir(kVolumePoint) == 0;
  });
  const Ok released = release(leaving(), assignment_, book_);
  EXPECT_TRUE(shell("rm -r /run/warmroot/volume/etc"));
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_EQ(::waitpid(service, nullptr, WNOHANG), 0) << "a process of the base was killed";
  end(service);
  EXPECT_EQ(::access("/run/ran-on-the-base", F_OK), -1);
  EXPECT_THAT(hook_lines(), IsEmpty());
  ASSERT_EQ(steps_with("find the volume").size(), 1u);
  EXPECT_THAT(steps_with("find the volume")[0].detail, HasSubstr("somebody else has unmounted"));
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
}

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
  if (!shell("command -v mkfs.xfs; grep -qw xfs /proc/filesystems"))
    GTEST_SKIP() << "SKIPPED, not tested: no xfs";
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

/// The kernel's debugfs at /run/debug, where it lets us.
struct KernelStatistics {
  KernelStatistics() {
    std::ignore = shell("mkdir -p /run/debug; mount -t debugfs debugfs /run/debug");
  }
  ~KernelStatistics() { ::umount("/run/debug"); }
};

/// "BdiWriteback: 12 kB" and "BdiReclaimable: ..." of a backing device's statistics, together.
std::uint64_t dirty_kib(const std::string& stats) {
  std::uint64_t sum = 0;
  for (const std::string key : {"BdiWriteback:", "BdiReclaimable:"})
    if (const std::size_t at = stats.find(key); at != std::string::npos)
      sum += std::strtoull(stats.c_str() + at + key.size(), nullptr, 10);
  return sum;
}

TEST_F(Handover, dirty_memory_of_the_volume_is_bounded_while_it_is_mounted) {
  make_volume();
  dress_as_disk();
  input_.write_mib_s = 4;
  const std::string bdi = "/sys/class/bdi/" + read_attribute("/sys/block/vdz/dev") + "/";
  ASSERT_TRUE(bring_up(input_, assignment_, book_, stop_));
  const std::string words = book_.snapshot().dirty_bound;
  if (::access((bdi + "max_bytes").c_str(), W_OK) == 0) {
    EXPECT_EQ(words, "at most 40 MiB dirty in memory, at 4 MiB/s");
    EXPECT_NEAR(std::atof(read_attribute(bdi + "max_bytes").c_str()), 40.0 * kMiB, 4.0 * kMiB);
    EXPECT_EQ(read_attribute(bdi + "strict_limit"), "1");
  } else {
    EXPECT_THAT(words, testing::AnyOf(HasSubstr("older than 6.2"), HasSubstr("not bounded")));
  }
  const Ok released = release(leaving(), assignment_, book_);
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_EQ(read_attribute(bdi + "max_ratio"), "100");
  EXPECT_NE(read_attribute(bdi + "strict_limit"), "1");
}

TEST_F(Handover, what_is_dirty_is_written_back_while_people_save) {
  const KernelStatistics kernel;
  // Above the kernel's own limit, and so not set: a bound lets the kernel write back much earlier,
  // how early depends on the machine's free memory.
  input_.write_mib_s = 100'000;
  ASSERT_NO_FATAL_FAILURE(bring_up_with(""));
  const std::string stats = "/run/debug/bdi/" + read_attribute("/sys/block/vdz/dev") + "/stats";
  const bool can_tell = ::access(stats.c_str(), R_OK) == 0;
  const auto dirty = [&] { return dirty_kib(read_file(stats, 65536).value_or("")); };
  const pid_t session = child_that([&] {
    const int file = ::open(inside("large").c_str(), O_CREAT | O_WRONLY, 0600);
    const std::string text(20 << 20, 'w');
    // Until it stays in memory: other programs' writing may make the kernel write back everything.
    const std::int64_t limit = boottime_ms() + 60'000;
    bool written = false;
    do written = ::pwrite(file, text.data(), text.size(), 0) > 0;
    while (written && can_tell && dirty() <= 10 * 1024u && boottime_ms() < limit);
    return written;
  });
  const std::uint64_t before = dirty();
  std::uint64_t left_over = before;
  bool saving = false;
  std::thread person([&] {
    const std::int64_t limit = boottime_ms() + 60'000;
    while ((left_over = dirty()) > 1024 && steps_with("end sessions").empty() &&
           boottime_ms() < limit)
      ::poll(nullptr, 0, 10);
    saving = steps_with("end sessions").empty();
    end(session);
  });
  // People have 5 s; the kernel by itself would begin after 30.
  const Ok released = release(leaving(seconds(45)), assignment_, book_);
  person.join();
  ASSERT_TRUE(released) << released.error().message();
  if (!can_tell) GTEST_SKIP() << "SKIPPED, not tested: no debugfs";
  EXPECT_GT(before, 10 * 1024u);
  EXPECT_LE(left_over, 1024u);
  EXPECT_TRUE(saving) << "sessions had to end before anything was written back";
}

TEST_F(Handover, what_a_session_writes_fast_stays_below_the_bound) {
  make_volume("", false, "256M");
  dress_as_disk();
  input_.write_mib_s = 1;
  const KernelStatistics kernel;
  const std::string device = read_attribute("/sys/block/vdz/dev");
  ASSERT_TRUE(bring_up(input_, assignment_, book_, stop_));
  const std::string stats = "/run/debug/bdi/" + device + "/stats";
  const bool can_tell = ::access(stats.c_str(), R_OK) == 0 &&
                        ::access(("/sys/class/bdi/" + device + "/max_bytes").c_str(), W_OK) == 0;
  const pid_t writer = ::fork();
  if (writer == 0) {
    const int file = ::open(inside("large").c_str(), O_CREAT | O_WRONLY, 0600);
    const std::string block(1 << 20, 'w');
    int written = 0;
    while (written < 150 && ::write(file, block.data(), block.size()) > 0) ++written;
    ::_exit(written == 150 ? 0 : 1);
  }
  std::uint64_t most_kib = 0;
  int status = 0;
  while (::waitpid(writer, &status, WNOHANG) == 0)
    most_kib = std::max(most_kib, dirty_kib(read_file(stats, 65536).value_or("")));
  EXPECT_EQ(status, 0);
  const Ok released = release(leaving(), assignment_, book_);
  ASSERT_TRUE(released) << released.error().message();
  if (!can_tell) GTEST_SKIP() << "SKIPPED, not tested: no debugfs, or a kernel before 6.2";
  EXPECT_GT(most_kib, 0u);
  EXPECT_LT(most_kib, 2 * 10 * 1024u) << "150 MiB were written under a bound of 10";
}

}  // namespace
}  // namespace warmroot::bootstrap
