// The operator's hooks in a release, against the real kernel: which are run, where, how long, how
// often.
#include <fcntl.h>
#include <poll.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <tuple>

#include "bootstrap/holders.hpp"
#include "bootstrap/hooks.hpp"
#include "bootstrap/volume_root.hpp"
#include "tests/handover.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Hooks = Handover;

TEST_F(Hooks, hooks_run_in_name_order_inside_the_volume_and_what_they_write_is_kept) {
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

TEST_F(Hooks, only_regular_files_that_root_alone_can_change_are_run) {
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

TEST_F(Hooks, what_hooks_are_called_and_say_sends_no_escape_sequence_to_a_terminal) {
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

TEST_F(Hooks, a_hooks_folder_that_is_a_link_or_that_others_can_write_runs_nothing) {
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

TEST_F(Hooks, a_hook_that_fails_or_cannot_start_is_told_and_keeps_nothing) {
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

TEST_F(Hooks, a_hook_that_hangs_is_ended_and_what_hooks_leave_behind_is_killed) {
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

TEST_F(Hooks, a_hook_ends_with_the_bootstrap_that_runs_it) {
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

/// The wait for its end had no limit: no hook behind it was run, and none before it was told of. To
/// its father a process whose end he cannot take, as somebody traces it, is one that waits for a
/// disk.
TEST_F(Hooks, a_supervisor_that_cannot_be_ended_is_given_up_and_reaped_when_it_has_ended) {
  make_volume(std::string(kHooks) + "hook hangs 'echo $PPID >/supervisor; read x </never'");
  mount_volume();
  ASSERT_TRUE(perform_plan());
  ::unlink("/run/traces");
  const auto supervisor = [] { return std::atoi(read_attribute(inside("supervisor")).c_str()); };
  const pid_t tracer = ::fork();
  if (tracer == 0) {
    ::alarm(60);
    while (supervisor() <= 0) ::poll(nullptr, 0, 10);
    const bool traces = ::ptrace(PTRACE_SEIZE, supervisor(), nullptr, nullptr) == 0;
    std::ignore = write_file_atomic("/run/traces", traces ? "yes" : "no", 0600);
    while (true) ::pause();
  }
  std::vector<TimedStep> steps;
  const std::int64_t started = boottime_ms();
  {
    const auto root = RootDirectory::open(kVolumePoint);
    ASSERT_TRUE(root);
    steps = run_hooks(*root, {{"hangs", ""}},
                      {"operator", "p", "i", "v",
                       std::make_shared<const std::atomic<std::int64_t>>(started + 4500)});
  }
  const std::int64_t took = boottime_ms() - started;
  const bool was_traced = read_file("/run/traces", 16).value_or("") == "yes";
  end(tracer);
  if (!was_traced) {
    if (must_run()) FAIL() << "nobody may be traced here";
    GTEST_SKIP() << "nobody may be traced here";
  }
  EXPECT_LT(took, 30'000);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_THAT(steps[0].detail, testing::MatchesRegex("took longer than [23] s and was ended"));
  reap_given_up();
  EXPECT_EQ(::waitpid(supervisor(), nullptr, WNOHANG), -1) << "it stays a zombie";
}

/// Where it says nothing this one has 20 s.
TEST_F(Hooks, hooks_have_as_long_as_the_ticket_says) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with("hook hangs 'read x </never'"));
  ReleaseInput input = leaving(seconds(120));
  input.wishes.hooks = seconds(3);
  const Ok released = release(input, assignment_, book_);
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_THAT(hook_lines(), ElementsAre(testing::MatchesRegex(
                                "hook hangs: failed: took longer than [0-2] s and was ended")));
}

TEST_F(Hooks, an_end_that_comes_nearer_shortens_the_hook_that_runs) {
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

TEST_F(Hooks, a_release_that_is_tried_again_runs_no_hook_again) {
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

TEST_F(Hooks, no_hook_and_no_signal_reaches_the_base_once_somebody_else_unmounted_the_volume) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with("hook works 'echo $0 >>/var/lib/heard'"));
  ASSERT_TRUE(unmount_tree(kVolumePoint));
  ASSERT_TRUE(
      shell("mkdir -p /run/warmroot/private/volume/etc/warmroot/hooks.d\n"
            "cd /run/warmroot/private/volume/etc/warmroot/hooks.d\n"
            "printf '#!/bin/sh\\n: >/run/ran-on-the-base\\n' >bad; chmod 755 bad"));
  const pid_t service = child_that([] {
    return ::open("/run/service.pid", O_CREAT | O_RDWR, 0600) >= 0 && ::chdir(kVolumePoint) == 0;
  });
  const Ok released = release(leaving(), assignment_, book_);
  EXPECT_TRUE(shell("rm -r /run/warmroot/private/volume/etc"));
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

}  // namespace
}  // namespace warmroot::bootstrap
