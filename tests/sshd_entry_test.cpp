// The entry `sshd` against real programs. What becomes of it when its sshd or the bootstrap dies is
// sshd_entry_killed_test.cpp's.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "bootstrap/host_keys.hpp"
#include "tests/volume_sshd_rig.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::AnyOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

using SshdEntryTest = VolumeSshdTest;

/// Clients that come a hundred a second, read the greeting and go.
class Newcomers {
 public:
  struct Visit {
    steady_clock::time_point begun, ended;
    std::string greeted;
  };

  Newcomers() {
    for (int i = 0; i < kClients; ++i)
      threads_.emplace_back([this](std::stop_token stop) {
        for (auto next = steady_clock::now(); !stop.stop_requested(); next += kEvery) {
          std::this_thread::sleep_until(next);
          Visit visit{steady_clock::now(), {}, greeting()};
          visit.ended = steady_clock::now();
          const std::lock_guard lock(mutex_);
          visits_.push_back(std::move(visit));
        }
      });
  }
  /// Returns once so many more have begun and been greeted.
  void wait_for(std::size_t more) {
    const auto since = steady_clock::now();
    const auto come = [&] {
      const std::lock_guard lock(mutex_);
      return static_cast<std::size_t>(std::count_if(
          visits_.begin(), visits_.end(), [&](const auto& visit) { return visit.begun > since; }));
    };
    while (come() < more && steady_clock::now() < since + kLimit) ::poll(nullptr, 0, 10);
  }
  std::vector<Visit> all() {
    for (auto& thread : threads_) thread.request_stop();
    threads_.clear();
    return visits_;
  }

 private:
  static constexpr int kClients = 4;
  static constexpr milliseconds kEvery{10 * kClients};
  std::mutex mutex_;
  std::vector<Visit> visits_;
  std::vector<std::jthread> threads_;
};

TEST_F(SshdEntryTest, the_port_changes_hands_twice_and_no_connection_is_refused_or_misdirected) {
  make_volume_with_sshd();
  Newcomers newcomers;
  newcomers.wait_for(30);
  const auto before = steady_clock::now();
  ASSERT_NO_FATAL_FAILURE(bring_up_by_own_sshd());
  const auto opened = steady_clock::now();
  newcomers.wait_for(60);
  EXPECT_THAT(greeting(AF_INET6), EndsWith(kVolume));
  const auto leaves = steady_clock::now();
  const Ok released = release(leaving(std::chrono::seconds(60)), assignment_, book_);
  const auto left = steady_clock::now();
  ASSERT_TRUE(released) << released.error().message();
  newcomers.wait_for(30);
  EXPECT_THAT(greeting(AF_INET6), EndsWith(kBase));
  std::size_t on_volume = 0;
  for (const auto& visit : newcomers.all()) {
    if (visit.begun > opened && visit.ended < leaves) {
      ++on_volume;
      EXPECT_THAT(visit.greeted, EndsWith(kVolume));
    } else if (visit.ended < before || visit.begun > left) {
      EXPECT_THAT(visit.greeted, EndsWith(kBase));
    } else {
      EXPECT_THAT(visit.greeted, AnyOf(EndsWith(kBase), EndsWith(kVolume)));
    }
  }
  EXPECT_GE(on_volume, 55u);
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

TEST_F(SshdEntryTest, a_person_gets_in_by_the_launch_key_and_the_base_s_accounts_stay) {
  make_volume_with_sshd();
  ASSERT_TRUE(show_base_host_keys());
  input_.node_host_keys = true;
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
  EXPECT_THAT(
      book_.snapshot().steps,
      testing::Contains(testing::Field(&TimedStep::detail, HasSubstr("a login as ada was tried"))));
  EXPECT_EQ(*shell(std::string("cat ") + kLaunchKeys + "/*"), input_.launch.public_key);
  EXPECT_NE(::access(kTrialKey, F_OK), 0);
  // The node's key, and no other, is what the client knows.
  ASSERT_TRUE(shell(std::string("echo \"127.0.0.1 $(ssh-keygen -y -f ") + kNodeKeys +
                    "/ssh_host_ed25519_key)\" >/run/known"));
  const auto said =
      shell(client("read -r os </etc/os-release; echo $os $USER $HOME $SSH_CONNECTION"));
  ASSERT_TRUE(said) << said.error().message();
  EXPECT_THAT(*said, testing::MatchesRegex("PRETTY_NAME=\"Test Volume 1\" ada /home/ada "
                                           "127.0.0.1 [0-9]+ 127.0.0.1 22"));
  EXPECT_FALSE(shell(client("true", "own") + " 2>&1"));
  ASSERT_TRUE(shell("cp /run/keys/own.pub " + inside("home/ada/.ssh/authorized_keys") +
                    " && chown 2001:2001 " + inside("home/ada/.ssh/authorized_keys")));
  EXPECT_EQ(shell(client("id -un 2>/dev/null || echo $USER", "own")).value_or("no"), "ada");

  ASSERT_TRUE(shell(client("echo in; read -r line; echo never") +
                    " >/run/session 2>&1 </dev/zero & until grep -q in /run/session; do :; done"));
  const Ok released = release(leaving(), assignment_, book_);
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_EQ(*shell("grep -c never /run/session || :"), "0") << "the session outlived the release";
  EXPECT_THAT(list_directory(kLaunchKeys), IsEmpty());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

TEST_F(SshdEntryTest, options_that_the_volume_gives_its_sshd_by_defaults_count_or_are_said) {
  make_volume_with_sshd();
  mount_volume();
  ASSERT_TRUE(shell("mkdir -p " + inside("etc/default")));
  ASSERT_TRUE(write_file_atomic(inside("etc/default/ssh"),
                                "SSHD_OPTS=\"-o SetEnv=FROM=defaults -p 2222 -q\"\n", 0644));
  ASSERT_TRUE(unmount_tree(kVolumePoint));
  ASSERT_TRUE(shell("echo \"127.0.0.1 $(cut -d' ' -f1,2 /run/keys/volume.pub)\" >/run/known"));
  ASSERT_NO_FATAL_FAILURE(bring_up_by_own_sshd());
  EXPECT_EQ(shell(client("echo $FROM")).value_or("no"), "defaults");
  EXPECT_THAT(book_.snapshot().remarks,
              testing::Contains(HasSubstr("options that do not count here: -q")));
}

TEST_F(SshdEntryTest, what_differs_is_where_the_volume_s_own_pam_shows_it) {
  make_volume_with_sshd();
  mount_volume();
  ASSERT_TRUE(write_file_atomic(inside("etc/fstab"), "server:/x /x nfs defaults\n", 0644));
  ASSERT_TRUE(unmount_tree(kVolumePoint));
  ASSERT_NO_FATAL_FAILURE(bring_up_by_own_sshd());
  const std::string shown = read_file(inside("run/motd.d/warmroot"), 65536).value_or("");
  EXPECT_THAT(shown, HasSubstr("file systems of the network are not mounted"));
  EXPECT_EQ(shown, read_file(kMessageOfTheDay, 65536).value_or(""));
  // The volume's sshd_config has ListenAddress 0.0.0.0.
  EXPECT_THAT(book_.snapshot().remarks,
              testing::Contains(HasSubstr("the volume's sshd can be reached at 0.0.0.0:")));
}

/// An explicit HostKey line adds to those of the command line.
TEST_F(SshdEntryTest, a_volume_that_names_its_image_s_host_key_lets_people_in_by_chroot) {
  make_volume_with_sshd();
  ASSERT_TRUE(show_base_host_keys());
  input_.node_host_keys = true;
  mount_volume();
  ASSERT_TRUE(
      shell("echo 'HostKey /etc/ssh/ssh_host_ed25519_key' >>" + inside("etc/ssh/sshd_config")));
  ASSERT_TRUE(unmount_tree(kVolumePoint));
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_THAT(book_.snapshot().entry,
              AllOf(testing::StartsWith("chroot: the base's sshd instead of sshd: "),
                    HasSubstr("the line \"HostKey /etc/ssh/ssh_host_ed25519_key\"")));
  EXPECT_THAT(greeting(), EndsWith(kBase));
}

TEST_F(SshdEntryTest, a_reload_of_the_volume_s_sshd_keeps_it_serving) {
  make_volume_with_sshd();
  ASSERT_NO_FATAL_FAILURE(bring_up_by_own_sshd());
  ASSERT_TRUE(shell("sed -i 's/VersionAddendum.*/VersionAddendum reloaded volume/' " +
                    inside("etc/ssh/sshd_config")));
  ASSERT_EQ(::kill(own_sshd(), SIGHUP), 0);
  const auto deadline = steady_clock::now() + kLimit;
  std::string greeted;
  while (!greeted.ends_with(" reloaded volume") && steady_clock::now() < deadline) {
    const Ok works = assignment_.entry->check();
    ASSERT_TRUE(works) << works.error().message();
    greeted = greeting();
    // Who came while it closed its socket may have been in its queue.
    EXPECT_THAT(greeted, AnyOf(EndsWith(kVolume), EndsWith(kBase), HasSubstr("reset")));
  }
  EXPECT_THAT(greeted, EndsWith(" reloaded volume"));
}

TEST_F(SshdEntryTest, whoever_has_connected_is_waited_for_before_a_listener_closes) {
  const auto held = hold_port();
  ASSERT_TRUE(held) << held.error().message();
  std::vector<UniqueFd> listeners;
  listeners.emplace_back(::fcntl(held->v4.get(), F_DUPFD_CLOEXEC, 0));
  ASSERT_EQ(::listen(listeners[0].get(), 8), 0);
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ASSERT_EQ(::getsockname(listeners[0].get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  std::int64_t started = boottime_ms();
  let_handshakes_end(listeners, {held->number}, milliseconds(100));
  EXPECT_GE(boottime_ms() - started, 100) << "nobody has taken the client";
  const UniqueFd taken(::accept4(listeners[0].get(), nullptr, nullptr, SOCK_CLOEXEC));
  started = boottime_ms();
  let_handshakes_end(listeners, {held->number}, kLimit);
  EXPECT_LT(boottime_ms() - started, kLimit.count());
}

TEST_F(SshdEntryTest, where_the_kernel_has_no_steering_sessions_get_in_by_chroot) {
  make_volume_with_sshd();
  const pid_t child = ::fork();
  if (child == 0) {
    sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bpf, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog filter{std::size(code), code};
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    bool good = ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
    StatusBook book(kStatusOfChild);
    good = good && bring_up(input_, assignment_, book, stop_);
    good = good && greeting().ends_with(kBase) && session_os() == "Test Volume 1";
    good = good && undo_bring_up(assignment_);
    book.write();
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(read_file(kStatusOfChild, kMaxStatus).value_or(""),
              HasSubstr("instead of sshd: making a BPF map of sockets: Operation not permitted; "
                        "taking the port over needs BPF sk_lookup"));
}

struct Unfit {
  const char* change;
  const char* back;
  const char* sentence;
};

TEST_F(SshdEntryTest, a_volume_whose_sshd_cannot_serve_lets_people_in_by_chroot_and_says_why) {
  make_volume_with_sshd();
  const char* restore = "cd etc/ssh; mv kept sshd_config";
  const Unfit table[] = {
      {"mv usr/sbin/sshd kept", "mv kept usr/sbin/sshd", "the volume has no /usr/sbin/sshd"},
      {"cd etc/ssh; cp sshd_config kept; echo Rubbish >>sshd_config", restore, "Rubbish"},
      {"cd etc/ssh; cp sshd_config kept; echo 'ListenAddress 0.0.0.0:22' >>sshd_config", restore,
       "a ListenAddress line with port 22"},
      {"mv etc/ssh/ssh_host_ed25519_key kept", "mv kept etc/ssh/ssh_host_ed25519_key",
       "no hostkeys available"},
      {"mv usr/sbin/sshd kept; printf '#!/bin/sh\n[ $1 = -T ] || { echo no start >&2; exit 3; }\n' "
       ">usr/sbin/sshd; chmod 755 usr/sbin/sshd",
       "mv kept usr/sbin/sshd", "the volume's own sshd ended with 3: no start"},
      {"cd etc/ssh; cp sshd_config kept; echo 'AllowUsers grace' >>sshd_config", restore,
       "lets nobody in, tried as ada: ada@127.0.0.1: Permission denied (publickey"},
      // Root gets in, who has no key.
      {"echo closed >etc/nologin", "rm etc/nologin",
       "lets nobody in, tried as ada: its PAM, or its /etc/nologin, allows no session"},
  };
  const std::string go = "cd " + std::string(kVolumePoint) + "; ";
  for (const Unfit& unfit : table) {
    SCOPED_TRACE(unfit.change);
    mount_volume();
    ASSERT_TRUE(shell(go + unfit.change));
    ASSERT_TRUE(unmount_tree(kVolumePoint));
    Assignment assignment;
    const Ok done = bring_up(input_, assignment, book_, stop_);
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_THAT(book_.snapshot().entry,
                AllOf(testing::StartsWith("chroot: the base's sshd instead of sshd: "),
                      HasSubstr(unfit.sentence)));
    EXPECT_EQ(session_os(), "Test Volume 1");
    EXPECT_THAT(greeting(), EndsWith(kBase));
    EXPECT_THAT(list_directory(kLaunchKeys), IsEmpty());
    ASSERT_TRUE(shell(go + unfit.back));
    ASSERT_TRUE(undo_bring_up(assignment));
    EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
  }
}

TEST_F(SshdEntryTest, a_volume_of_which_a_trial_tells_nothing_has_the_port) {
  make_volume_with_sshd();
  const std::pair<const char*, const char*> table[] = {
      {"AuthenticationMethods publickey,password", "not known, ada: more than a key is asked for"},
      {"Match User ada\nAuthorizedKeysFile /etc/elsewhere",
       "not known, ada: its keys are elsewhere"},
      {"AllowUsers ada@192.0.2.0/24",
       "not let in from here: ada (ada@127.0.0.1: Permission denied"},
      {"PerSourceMaxStartups 1\nForceCommand /no/such", "a login as ada was tried"},
      {"ForceCommand echo only", "a login as ada was tried"},
  };
  for (const auto& [lines, detail] : table) {
    SCOPED_TRACE(lines);
    mount_volume();
    ASSERT_TRUE(shell("cd " + inside("etc/ssh") + "; cp sshd_config kept; printf '" + lines +
                      "\n' >>sshd_config"));
    ASSERT_TRUE(unmount_tree(kVolumePoint));
    ASSERT_NO_FATAL_FAILURE(bring_up_by_own_sshd());
    EXPECT_THAT(greeting(), EndsWith(kVolume));
    const auto steps = book_.snapshot().steps;
    const auto last = std::find_if(steps.rbegin(), steps.rend(), [](const TimedStep& step) {
      return step.name == "switch sessions";
    });
    ASSERT_NE(last, steps.rend());
    EXPECT_THAT(last->detail, HasSubstr(detail));
    ASSERT_TRUE(shell("cd " + inside("etc/ssh") + "; mv kept sshd_config"));
    ASSERT_TRUE(undo_bring_up(assignment_));
  }
}

}  // namespace
}  // namespace warmroot::bootstrap
