// A volume that the last lease left clean, and in which the login worked then: sessions are
// switched over before it is tried again. What does not prove that has it tried first, and one that
// fails behind the switch leaves people on the base.
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <tuple>

#include "bootstrap/held_record.hpp"
#include "bootstrap/host_keys.hpp"
#include "tests/boot_proven.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(BootProven, a_volume_that_was_left_clean_is_switched_to_before_its_login_is_tried) {
  make_volume();
  dress_as_disk();
  EXPECT_TRUE(tries_first()) << "its first use";
  for (const char* instance : {"i-1", "i-2", "i-3"}) {
    SCOPED_TRACE(instance);
    input_.launch.instance_id = instance;
    Assignment assignment;
    StatusBook book("");
    std::string at_ready;
    input_.enter_stage = [&](Stage stage, const std::string&) {
      if (stage != Stage::ready) return;
      at_ready = book.snapshot().steps.back().name;
      EXPECT_TRUE(book.snapshot().mounted_to_ready_ms);
      EXPECT_EQ(session_os(), "Test Volume 1");
      EXPECT_EQ(read_attribute(inside(kVolumeMarker)), "open " + std::string(instance));
      EXPECT_EQ(::access(inside(kVolumeProof).c_str(), F_OK), -1) << "it is for one lease";
    };
    const Ok done = bring_up(input_, assignment, book, stop_);
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_EQ(at_ready, "switch sessions");
    EXPECT_EQ(place(book, "probe login"), place(book, "switch sessions") + 1);
    EXPECT_EQ(detail(book, "probe login"), "root");
    EXPECT_LT(place(book, "mark as in use"), place(book, "switch sessions"));
    ASSERT_TRUE(give_back(assignment, book));
  }
}

/// It was mounted still, said to be left clean, and lost its power: the next lease let people in
/// before it had tried.
TEST_F(BootProven, a_volume_that_could_not_be_unmounted_is_not_said_to_be_left_clean) {
  ASSERT_NO_FATAL_FAILURE(make_proven_volume());
  for (const bool is_cut : {true, false}) {
    SCOPED_TRACE(is_cut ? "power is cut" : "it can be unmounted later");
    Assignment assignment;
    StatusBook book("");
    const Ok done = bring_up(input_, assignment, book, stop_);
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_EQ(::access(inside(kVolumeProof).c_str(), F_OK), 0);
    // A file of ours keeps the volume busy: this process is nobody to be killed.
    UniqueFd held(::open(inside("etc/passwd").c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(held);
    EXPECT_FALSE(release(leaving(std::chrono::seconds(0)), assignment, book));
    EXPECT_EQ(detail(book, "mark clean"), "");
    EXPECT_EQ(read_attribute(inside(kVolumeMarker)), "open i-1");
    held.reset();
    if (is_cut) {
      ASSERT_TRUE(undo_bring_up(assignment));
    } else {
      ASSERT_TRUE(give_back(assignment, book));
    }
    EXPECT_EQ(tries_first(), is_cut);
  }
}

TEST_F(BootProven, one_whose_profile_was_broken_since_lands_people_on_the_base_with_the_reason) {
  ASSERT_NO_FATAL_FAILURE(make_proven_volume());
  break_shell("angry");
  pid_t person = 0;
  std::vector<std::string> order;
  input_.enter_stage = [&](Stage stage, const std::string&) {
    if (stage == Stage::ready) person = come_in();
  };
  input_.login_is_late = [&](const std::string&) { order.emplace_back("late"); };
  input_.leads_back = [&] { order.emplace_back(link_text(kSessionRoot)); };
  input_.let_go = [&] { order.emplace_back(link_text(kSessionRoot)); };
  const std::int64_t started = boottime_ms();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  EXPECT_LT(boottime_ms() - started, kWithinBoundMs);
  ASSERT_NE(person, 0) << "else sessions were not switched first";
  const pid_t ended = ::waitpid(person, nullptr, WNOHANG);
  EXPECT_EQ(ended, person) << "whoever came in keeps the volume from being unmounted";
  if (ended == 0) {
    ::kill(person, SIGKILL);
    ::waitpid(person, nullptr, 0);
  }
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message(),
              testing::AllOf(HasSubstr("profile is broken"), testing::Not(HasSubstr("undoing"))));
  EXPECT_THAT(order, testing::ElementsAre(kVolumePoint, "/"))
      << "back before anything is waited for";
  EXPECT_NE(session_os(), "Test Volume 1");
  EXPECT_THAT(read_file(kBannerFile, 65536).value_or(""), HasSubstr("profile is broken"));
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  EXPECT_FALSE(held_record());
  EXPECT_FALSE(book_.snapshot().mounted_to_ready_ms);
  EXPECT_EQ(book_.snapshot().entry, "");

  // As one that fails before the switch: nobody is let in, and no stage tells of it.
  stages_.clear();
  input_.enter_stage = [&](Stage stage, const std::string&) {
    stages_.emplace_back(to_string(stage));
  };
  Assignment assignment;
  StatusBook book("");
  const Ok again = bring_up(input_, assignment, book, stop_);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().message(), done.error().message());
  EXPECT_THAT(stages_, testing::ElementsAre("disk_seen", "checked", "mounted"));
  mend_shell();
  EXPECT_TRUE(tries_first());
  EXPECT_FALSE(tries_first());
}

/// The 90 s before the switch were enough for it and the 10 s that it had behind it then were not:
/// each second lease ended people's sessions and held no volume.
TEST_F(BootProven, a_login_that_has_become_slow_is_tried_first_from_then_on) {
  make_volume(R"(
    cp /bin/sleep $t/bin/sleep
    for file in $(ldd /bin/sleep | grep -o '/[^ )]*'); do mkdir -p $t$(dirname $file); cp -L $file $t$file; done
    printf '#!/bin/sh\n/bin/sleep 3\nexec /bin/sh "$@"\n' >$t/bin/slow
    chmod 755 $t/bin/slow
  )");
  dress_as_disk();
  ASSERT_TRUE(tries_first());
  ASSERT_NO_FATAL_FAILURE(break_shell("slow"));
  EXPECT_FALSE(tries_first()) << "nobody knows yet that it is slow";
  EXPECT_TRUE(tries_first());
  EXPECT_TRUE(tries_first());
  ASSERT_NO_FATAL_FAILURE(mend_shell());
  EXPECT_TRUE(tries_first());
  EXPECT_FALSE(tries_first());
}

/// An undone bring-up would end whoever is in the volume without a word, and leave it unclean.
TEST_F(BootProven, a_stop_behind_the_switch_is_a_release_and_no_failure) {
  ASSERT_NO_FATAL_FAILURE(make_proven_volume());
  break_shell("hang");
  std::jthread notice;
  std::int64_t ready_ms = 0;
  input_.enter_stage = [&](Stage stage, const std::string&) {
    if (stage != Stage::ready) return;
    ready_ms = boottime_ms();
    notice = std::jthread([this] {
      ::poll(nullptr, 0, 500);
      stop_.request({"spot-notice", "EC2 takes this spot instance back"});
    });
  };
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  EXPECT_LT(boottime_ms() - ready_ms, 9000) << "it was waited for";
  ASSERT_TRUE(notice.joinable()) << "else sessions were not switched first";
  notice.join();
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_NE(session_os(), "Test Volume 1") << "new sessions land on the base at once";
  ASSERT_TRUE(give_back(assignment_, book_));
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  input_.enter_stage = [](Stage, const std::string&) {};
  mend_shell();
  EXPECT_TRUE(tries_first()) << "nobody knows whether the login works";
}

TEST_F(BootProven, what_is_no_proof_of_this_login_has_it_tried_first) {
  struct Change {
    const char* name;
    const char* script;
  };
  ASSERT_NO_FATAL_FAILURE(make_proven_volume());
  EXPECT_FALSE(tries_first()) << "else this test shows nothing";
  for (const Change& change :
       {Change{"not left clean", "echo open i-1 >state"},
        {"left clean by a lease that tried nothing", "echo clean i-2 >state"},
        {"left clean by nobody", "echo 'clean ' >state; sed -i 's/ i-1$/ /' proof"},
        {"no word of how it was left", "rm state"},
        {"another volume's", "sed -i s/vol-0abc/vol-0def/ proof"},
        {"of a volume without an id", "sed -i s/vol-0abc// proof"},
        {"another user's", "sed -i 's/ root 0 / toor 0 /' proof"},
        {"another uid's", "sed -i 's/ root 0 / root 1 /' proof"},
        {"by another shell", "sed -i s,/bin/bash,/bin/sh, proof"},
        {"by another entry", "sed -i 's/login chroot /login sshd /' proof"},
        {"cut", "truncate -s -1 proof"},
        {"added to", "echo >>proof"},
        {"empty", ": >proof"},
        {"away", "rm proof"},
        {"a link to one", "mv proof other; ln -s other proof"},
        {"a pipe", "rm proof; mkfifo -m 600 proof"},
        {"a device", "rm proof; mknod -m 600 proof c 1 5"},
        {"huge", "truncate -s 1G proof"},
        {"written by others", "chmod 620 proof"},
        {"somebody else's", "chown 2001 proof"},
        {"in a directory that others see", "mv proof other; mkdir proof; mv other proof"}}) {
    SCOPED_TRACE(change.name);
    change_volume("cd var/lib/warmroot; " + std::string(change.script));
    EXPECT_TRUE(tries_first());
    // What stands in its place for good, like a directory, keeps the next proof from its place.
    change_volume("cd var/lib/warmroot; [ ! -d proof ] || rm -r proof");
    if (std::string(change.name).find("directory") == std::string::npos) {
      EXPECT_FALSE(tries_first());
    }
  }
}

TEST_F(BootProven, a_copy_of_a_volume_proves_nothing) {
  ASSERT_NO_FATAL_FAILURE(make_proven_volume());
  ASSERT_TRUE(write_in_place("/run/block/vdz/serial", "vol0def\n"));
  EXPECT_TRUE(tries_first());
  EXPECT_FALSE(tries_first());
}

TEST_F(BootProven, another_shell_of_root_s_on_the_base_has_it_tried_first) {
  ASSERT_NO_FATAL_FAILURE(make_proven_volume());
  ASSERT_TRUE(shell("sed -i '/^root:/s,[^:]*$,/bin/sh,' /etc/passwd"));
  EXPECT_TRUE(tries_first());
  EXPECT_FALSE(tries_first());
  ASSERT_TRUE(write_in_place("/etc/passwd", passwd_));
}

TEST_F(BootProven, a_volume_that_keeps_no_proof_is_served_and_has_its_login_tried_first) {
  make_volume("mkdir -p $t/var/lib/warmroot/proof/in-the-way");
  dress_as_disk();
  EXPECT_TRUE(tries_first());
  EXPECT_TRUE(tries_first());
}

TEST_F(BootProven, killed_after_any_step_of_a_switch_that_came_first_the_next_one_serves) {
  ASSERT_NO_FATAL_FAILURE(make_proven_volume());
  std::vector<TimedStep> steps;
  {
    Assignment assignment;
    StatusBook book("");
    ASSERT_TRUE(bring_up(input_, assignment, book, stop_));
    steps = book.snapshot().steps;
    EXPECT_LT(place(book, "switch sessions"), place(book, "probe login"));
    ASSERT_TRUE(give_back(assignment, book));
  }
  ASSERT_GT(steps.size(), 15u);
  for (std::size_t killed = 1; killed <= steps.size(); ++killed) {
    SCOPED_TRACE(steps[killed - 1].name);
    EXPECT_TRUE(killed_after(killed, [&](StatusBook& book) {
      Assignment lost;
      std::ignore = bring_up(input_, lost, book, stop_);
    }));
    EXPECT_EQ(steps_of_child(), killed);
    const Ok login = probe_login(kSessionRoot, ada(), {2001}, milliseconds(20000));
    EXPECT_TRUE(login) << (login ? "" : login.error().message());
    const Ok cleared = clear_leftovers();
    ASSERT_TRUE(cleared) << cleared.error().message();
    ASSERT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
    std::ignore = tries_first();
  }
}

/// One whose login was tried would be served on: it had worked in this very lease.
TEST_F(BootProven, killed_before_the_login_was_tried_a_volume_whose_login_fails_serves_nobody) {
  ASSERT_NO_FATAL_FAILURE(make_proven_volume());
  std::size_t switched = 0;
  {
    Assignment assignment;
    StatusBook book("");
    ASSERT_TRUE(bring_up(input_, assignment, book, stop_));
    switched = place(book, "switch sessions") + 1;
    ASSERT_TRUE(give_back(assignment, book));
  }
  break_shell("angry");
  ASSERT_TRUE(killed_after(switched, [&](StatusBook& book) {
    Assignment lost;
    std::ignore = bring_up(input_, lost, book, stop_);
  }));
  EXPECT_EQ(session_os(), "Test Volume 1");
  auto held = take_leftovers();
  ASSERT_TRUE(held && *held) << "sessions land in it";
  Assignment assignment = taken_over(std::move((*held)->volume), book_);
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Ok refused = resume(input_, assignment, book_, stop_);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message(), HasSubstr("profile is broken"));
    EXPECT_NE(session_os(), "Test Volume 1");
    EXPECT_TRUE(assignment.mounted);
  }
  ASSERT_TRUE(shell("cp " + inside("bin/sh") + " " + inside("bin/bash")));
  Ok done = resume(input_, assignment, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(session_os(), "Test Volume 1");
  // From now on it has been tried.
  ASSERT_TRUE(shell("cp " + inside("bin/angry") + " " + inside("bin/bash")));
  done = resume(input_, assignment, book_, stop_);
  EXPECT_FALSE(done);
  EXPECT_EQ(session_os(), "Test Volume 1");
  EXPECT_TRUE(give_back(assignment, book_));
}

TEST_F(BootProven, a_host_key_that_was_read_in_the_last_lease_is_shown_before_it_is_read_again) {
  make_volume();
  dress_as_disk();
  ASSERT_TRUE(show_base_host_keys());
  ASSERT_NO_FATAL_FAILURE(listen_to_keygen());
  std::string first, calls_at_ready;
  input_.enter_stage = [&](Stage stage, const std::string&) {
    if (stage == Stage::ready) calls_at_ready = keygen_calls();
  };
  for (int lease = 0; lease < 4; ++lease) {
    SCOPED_TRACE(lease);
    // One of them shows the base's keys.
    input_.node_host_keys = lease != 2;
    ::unlink(kKeygenCalls);
    Assignment assignment;
    StatusBook book("");
    const Ok done = bring_up(input_, assignment, book, stop_);
    ASSERT_TRUE(done) << done.error().message();
    if (lease == 0) first = shown_host_key();
    EXPECT_EQ(calls_at_ready.empty(), lease > 0) << calls_at_ready;
    if (lease != 2) {
      EXPECT_THAT(shown_host_key(), testing::StartsWith("-----BEGIN OPENSSH PRIVATE KEY-----\n"));
      EXPECT_EQ(shown_host_key(), first);
      EXPECT_LT(place(book, "host keys"), place(book, "switch sessions"));
      ASSERT_TRUE(complete_host_keys(kVolumePoint, "vol-0abc", {}));
      EXPECT_EQ(shown_host_key(), first);
      EXPECT_THAT(keygen_calls(), HasSubstr("-y -P")) << "it is read behind the switch";
    }
    ASSERT_TRUE(give_back(assignment, book));
  }
}

TEST_F(BootProven, another_host_key_than_the_one_that_was_read_is_read_before_it_is_shown) {
  make_volume();
  dress_as_disk();
  ASSERT_TRUE(show_base_host_keys());
  input_.node_host_keys = true;
  ASSERT_TRUE(tries_first());
  ASSERT_NO_FATAL_FAILURE(plant_key("garbage\n", false));
  std::string at_ready;
  input_.enter_stage = [&](Stage stage, const std::string&) {
    if (stage == Stage::ready) at_ready = shown_host_key();
  };
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_LT(place(book_, "switch sessions"), place(book_, "probe login"));
  EXPECT_THAT(at_ready, testing::StartsWith("-----BEGIN OPENSSH PRIVATE KEY-----\n"));
  EXPECT_THAT(detail(book_, "host keys"), HasSubstr("made anew"));
  EXPECT_TRUE(give_back(assignment_, book_));
}

/// Whoever is root in a session can write that it was read.
TEST_F(BootProven, a_host_key_that_only_seems_to_have_been_read_is_replaced_behind_the_switch) {
  make_volume();
  dress_as_disk();
  ASSERT_TRUE(show_base_host_keys());
  input_.node_host_keys = true;
  ASSERT_TRUE(tries_first());
  ASSERT_NO_FATAL_FAILURE(plant_key("garbage\n", true));
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(shown_host_key(), "garbage\n") << "else this test shows nothing";
  // As the daemon does it once sessions are open.
  ASSERT_TRUE(complete_host_keys(kVolumePoint, "vol-0abc", {}));
  const std::string made = shown_host_key();
  EXPECT_THAT(made, testing::StartsWith("-----BEGIN OPENSSH PRIVATE KEY-----\n"));
  EXPECT_TRUE(give_back(assignment_, book_));
  Assignment assignment;
  StatusBook book("");
  ASSERT_TRUE(bring_up(input_, assignment, book, stop_));
  EXPECT_EQ(detail(book, "host keys"), "the node's, from its volume") << "nobody had read it yet";
  EXPECT_EQ(shown_host_key(), made);
  EXPECT_TRUE(give_back(assignment, book));
}

TEST_F(BootProvenUp, a_daemon_whose_login_fails_behind_ready_is_failed_and_holds_nothing) {
  make_volume();
  dress_as_disk();
  ASSERT_NO_FATAL_FAILURE(serve_once());
  ASSERT_NO_FATAL_FAILURE(put_shell("angry"));
  ::unlink(kStatusFile);
  ::unlink(kLogFile);
  ASSERT_EQ(run_up(), "");
  ASSERT_TRUE(comes([] { return status().stage == "failed"; }));
  EXPECT_THAT(status().message, HasSubstr("profile is broken"));
  const std::string log = read_file(kLogFile, kMaxStatus).value_or("");
  EXPECT_THAT(log, HasSubstr("stage name=ready")) << "else it was tried first";
  EXPECT_LT(log.find("stage name=ready"), log.find("stage name=failed"));
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
  EXPECT_EQ(base_login("echo $HOME"), "/run/keeper") << "on the base";
  EXPECT_THAT(read_file(kBannerFile, 65536).value_or(""),
              HasSubstr("Why: the probe login of root"));
  ::poll(nullptr, 0, 6000);
  EXPECT_EQ(status().stage, "failed") << "nobody leads sessions any more";
  EXPECT_TRUE(down());
  ASSERT_TRUE(comes([] { return !daemon_runs(); }));
  ASSERT_NO_FATAL_FAILURE(put_shell("sh"));
  ASSERT_NO_FATAL_FAILURE(serve_once());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

}  // namespace
}  // namespace warmroot::bootstrap
