// `up` as user-data runs it: killed behind its steps and run again, and behind an sshd that was
// there first; and what its people notice.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>

#include "bootstrap/logins.hpp"
#include "bootstrap/sshd_listeners.hpp"
#include "tests/boot_up.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr char kInTheVolume[] = "/home/ada PRETTY_NAME=\"Test Volume 1\"";

/// It is killed within a millisecond or so of the step, which may be in the next one.
TEST_F(BootUp, killed_behind_any_of_its_steps_and_run_again_ends_as_the_first_would_have) {
  make_disk_with_fstab();
  ASSERT_EQ(run_up(), "");
  start_sshd();
  ASSERT_TRUE(comes_ready()) << status().message;
  const std::string wanted = state();
  EXPECT_THAT(wanted, EndsWith(kInTheVolume));
  EXPECT_THAT(wanted, testing::HasSubstr("/srv\n"));
  const std::size_t all_steps = logged_steps();
  ASSERT_GT(all_steps, 15u);
  ASSERT_TRUE(down());
  std::set<std::size_t> killed_at;
  for (std::size_t steps = 1; steps <= all_steps; ++steps) {
    SCOPED_TRACE("killed when " + std::to_string(steps) + " steps were told");
    ::unlink(kStatusFile);
    ::unlink(kLogFile);
    ASSERT_EQ(run_up(), "");
    ASSERT_TRUE(comes([&] { return logged_steps() >= steps; }));
    ASSERT_NO_FATAL_FAILURE(kill_daemon());
    killed_at.insert(logged_steps());
    EXPECT_EQ(base_login(), "in") << "nobody may run it again for a while";
    ::unlink(kStatusFile);
    ASSERT_EQ(run_up(), "");
    ASSERT_TRUE(comes_ready()) << status().message;
    EXPECT_EQ(state(), wanted);
    ASSERT_TRUE(down());
    // It is told over by the file that is removed next, which one that still ends is known by.
    ASSERT_TRUE(comes([] { return !daemon_runs(); }));
    EXPECT_THAT(mounts_at(kVolumePoint), testing::IsEmpty());
    EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
  }
  EXPECT_GE(killed_at.size(), 4u) << "different moments; twelve and more where nothing else runs";
}

TEST_F(BootUp, who_waits_for_sessions_is_told_when_they_are_there_and_when_nobody_brings_them) {
  const auto waited = [](int seconds) {
    const Ok there = wait_for_sessions(std::chrono::seconds(seconds));
    return there ? "there" : there.error().message();
  };
  EXPECT_EQ(waited(60), "no warmroot-bootstrap is running");
  make_volume();
  ASSERT_EQ(run_up(), "");
  EXPECT_EQ(waited(1), "sessions land on the base after 1 s, until the volume is there");
  std::thread disk([this] {
    ::poll(nullptr, 0, 1000);
    dress_as_disk();
  });
  EXPECT_EQ(waited(60), "there");
  disk.join();
  start_sshd();
  EXPECT_EQ(login(), kInTheVolume);
  EXPECT_TRUE(down());
  ASSERT_TRUE(comes([] { return !daemon_runs(); }));
  EXPECT_EQ(waited(60), "no warmroot-bootstrap is running");
}

TEST_F(BootUp, a_person_of_the_volume_gets_in_by_the_key_that_she_keeps_there) {
  make_volume("cp /run/keys/own.pub $t/home/ada/.ssh/authorized_keys");
  dress_as_disk();
  ASSERT_EQ(run_up(), "");
  start_sshd();
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_EQ(login("own"), kInTheVolume);
  EXPECT_THAT(login("base"), testing::HasSubstr("Permission denied"));
  EXPECT_TRUE(down());
  ::unlink("/run/known_hosts");
  EXPECT_THAT(login("own"), testing::HasSubstr("Permission denied")) << "she is nobody here now";
}

/// DHCP may tell others while people are in the volume.
TEST_F(BootUp, nameservers_that_the_base_learns_later_are_asked_in_the_volume_too) {
  make_volume();
  dress_as_disk();
  const std::string before = read_file("/etc/resolv.conf", 4096).value_or("");
  ASSERT_EQ(run_up(), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  const auto asked = [] { return read_file(inside("etc/resolv.conf"), 4096).value_or(""); };
  EXPECT_EQ(asked(), before);
  const std::string after = "nameserver 192.0.2.2\n";
  ASSERT_TRUE(write_file_atomic("/etc/resolv.conf", after, 0644));
  EXPECT_TRUE(comes([&] { return asked() == after; }));
  EXPECT_TRUE(write_file_atomic("/etc/resolv.conf", before, 0644));
}

/// Of all processes', the whole time, by a process of its own: `up` forks, and of a process with
/// threads the child may never get a lock that one of them had.
class CommandLines {
 public:
  CommandLines() {
    ::unlink(kFile);
    watcher_ = ::fork();
    if (watcher_ == 0) watch();
  }
  ~CommandLines() { end(); }

  /// Ends the watch; all lines, one behind the other.
  std::string seen() {
    end();
    return read_file(kFile, 1 << 26).value_or("");
  }

 private:
  static constexpr char kFile[] = "/run/command-lines";

  [[noreturn]] static void watch() {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const UniqueFd file(::open(kFile, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    std::set<std::string> known;
    for (;;)
      for (const auto& name : list_directory("/proc")) {
        const auto line = read_file("/proc/" + name + "/cmdline", 1 << 20);
        if (line && !line->empty() && known.insert(*line).second)
          if (!write_fully(file.get(), *line + "\n", kFile)) ::_exit(1);
      }
  }
  void end() {
    if (watcher_ <= 0) return;
    ::kill(watcher_, SIGKILL);
    ::waitpid(watcher_, nullptr, 0);
    watcher_ = 0;
  }

  pid_t watcher_ = 0;
};

TEST_F(BootUp, what_opens_the_node_is_for_root_alone_and_in_no_log_and_no_process_list) {
  make_volume();
  dress_as_disk();
  CommandLines lines;
  ASSERT_EQ(run_up(kTicketOfManager), "");
  start_sshd();
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_EQ(login(), kInTheVolume);
  ASSERT_TRUE(comes([] { return ::access(kKeyFile, F_OK) == 0; }));
  const std::string volume_state = inside(kVolumeState);
  ASSERT_TRUE(
      write_file_atomic("/run/secrets", std::string("PRIVATE KEY\n") + kReportKey + "\n", 0600));
  const auto holds_secrets = [&](const std::string& which) {
    return *shell("find /run/warmroot /var/lib/warmroot " + volume_state + " -xdev -type f " +
                  which + " -exec grep -lFf /run/secrets {} + | sort | tr '\\n' ' '");
  };
  EXPECT_THAT(holds_secrets(""),
              testing::AllOf(testing::HasSubstr(kKeyFile), testing::HasSubstr(kNodeKeys),
                             testing::HasSubstr(volume_state)))
      << "else this finds nothing";
  EXPECT_EQ(holds_secrets("-perm /077"), "");
  for (const char* text : {kLogFile, kStatusFile, kMetricsFile})
    EXPECT_THAT(read_file(text, kMaxStatus).value_or(""),
                testing::AllOf(testing::Not(testing::IsEmpty()),
                               testing::Not(testing::HasSubstr(kReportKey)),
                               testing::Not(testing::HasSubstr("PRIVATE KEY"))))
        << text;
  EXPECT_TRUE(down());
  const std::string seen = lines.seen();
  EXPECT_THAT(seen, testing::Not(testing::HasSubstr(kReportKey)));
  EXPECT_THAT(seen, testing::HasSubstr("ssh-keygen"));
}

TEST_F(BootUp, logins_fail_at_no_moment_but_while_the_volume_is_given_back) {
  struct Login {
    steady_clock::time_point begun, ended;
    std::string system;
  };
  make_volume();
  ASSERT_EQ(run_up(), "");
  start_sshd();
  std::mutex mutex;
  std::vector<Login> logins;
  std::vector<std::jthread> people;
  for (int i = 0; i < 3; ++i)
    people.emplace_back([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        Login login{steady_clock::now(), {}, ""};
        login.system = base_login(
            "while read line; do case $line in PRETTY*) echo $line;; esac; done </etc/os-release");
        login.ended = steady_clock::now();
        const std::lock_guard lock(mutex);
        logins.push_back(std::move(login));
      }
    });
  const auto more = [&](std::size_t count) {
    const auto since = steady_clock::now();
    ASSERT_TRUE(comes([&] {
      const std::lock_guard lock(mutex);
      return static_cast<std::size_t>(
                 std::count_if(logins.begin(), logins.end(),
                               [&](const auto& login) { return login.begun > since; })) >= count;
    }));
  };
  more(5);
  const auto before = steady_clock::now();
  dress_as_disk();
  ASSERT_TRUE(comes_ready()) << status().message;
  const auto opened = steady_clock::now();
  more(10);
  const auto leaves = steady_clock::now();
  std::jthread giver([] { EXPECT_TRUE(down()); });
  EXPECT_TRUE(comes([] { return link_text(kSessionRoot) != kVolumePoint; }));
  const auto closed = steady_clock::now();
  giver.join();
  const auto left = steady_clock::now();
  more(5);
  people.clear();
  const std::string volume = "PRETTY_NAME=\"Test Volume 1\"";
  std::size_t inside = 0;
  for (const auto& login : logins) {
    // The release waits half a second for those that are under way, ends what takes longer, and
    // refuses others.
    const bool took_long = login.ended - login.begun >= milliseconds(500);
    const bool may_fail = login.begun < left && login.ended > (took_long ? leaves : closed);
    if (may_fail && !login.system.starts_with("PRETTY_NAME=")) continue;
    EXPECT_THAT(login.system, testing::StartsWith("PRETTY_NAME="));
    if (login.ended < before || login.begun > left) EXPECT_NE(login.system, volume);
    if (login.begun > opened && login.ended < leaves) EXPECT_EQ(login.system, volume);
    inside += login.system == volume ? 1 : 0;
  }
  EXPECT_GE(inside, 6u);
}

/// Of a container on the base, or of another test on this machine.
TEST_F(BootUp, an_sshd_of_another_network_is_none_of_the_base) {
  start_sshd();
  EXPECT_TRUE(sshd_is_running());
  end_process(sshd_);
  ASSERT_TRUE(comes([] { return !sshd_is_running(); }));
  const pid_t other = ::fork();
  if (other == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::unshare(CLONE_NEWNET) != 0) ::_exit(1);
    ::execl(kSshd, kSshd, "-D", "-E", "/run/other.log", nullptr);
    ::_exit(1);
  }
  ASSERT_TRUE(
      comes([&] { return read_attribute("/proc/" + std::to_string(other) + "/comm") == "sshd"; }));
  EXPECT_FALSE(sshd_is_running());
  pid_t process = other;
  end_process(process);
}

/// The release of one volume ended it, also of a container on the base, or of another test.
TEST_F(BootUp, a_login_that_the_session_link_does_not_lead_is_left_alone) {
  const auto under_way = [] { return let_logins_end(milliseconds(0)); };
  ASSERT_TRUE(shell("mkdir -p /run/warmroot && ln -sfn / " + std::string(kSessionRoot)));
  const auto logs_in = [] {
    auto login = connect_to_sshd();
    char byte = 0;
    return login && ::read(login->get(), &byte, 1) == 1 ? std::move(*login) : UniqueFd();
  };
  pid_t other = ::fork();
  if (other == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::unshare(CLONE_NEWNS) != 0 ||
        !shell("mount --make-rprivate / && mount -t tmpfs none /run/warmroot"))
      ::_exit(1);
    ::execl(kSshd, kSshd, "-D", "-E", "/run/other.log", nullptr);
    ::_exit(1);
  }
  EXPECT_TRUE(comes([] { return greeting().starts_with("SSH-2.0"); }));
  {
    const UniqueFd login = logs_in();
    EXPECT_TRUE(login);
    EXPECT_EQ(under_way(), 0u);
  }
  end_process(other);
  // A network of its own changes nothing of that.
  const UniqueFd network(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(::unshare(CLONE_NEWNET) == 0 && loopback_is_up());
  start_sshd();
  // Who asked whether it is there may still be on its way out.
  EXPECT_TRUE(comes([&] { return under_way() == 0u; }));
  const UniqueFd login = logs_in();
  ASSERT_EQ(::setns(network.get(), CLONE_NEWNET), 0);
  EXPECT_TRUE(login);
  EXPECT_EQ(under_way(), 1u);
}

TEST_F(BootUp, whoever_comes_to_the_base_reads_why) {
  make_volume();
  ASSERT_EQ(run_up(), "");
  start_sshd();
  const auto banner = [] {
    return shell(
               "ssh -F none -i /run/keys/own -o StrictHostKeyChecking=no -o BatchMode=yes -o "
               "UserKnownHostsFile=/dev/null keeper@127.0.0.1 true 2>&1 | tr '\\n' ' '")
        .value_or("no answer");
  };
  const std::string where = "this session lands on the base system, not on the pool's volume. ";
  EXPECT_THAT(banner(), testing::HasSubstr(where + "The volume is not ready yet."));
  dress_as_disk();
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_THAT(banner(), testing::Not(testing::HasSubstr("base system")));
  ASSERT_NO_FATAL_FAILURE(come_in());
  std::jthread giver([] { std::ignore = down(); });
  std::string read;
  EXPECT_TRUE(comes(
      [&] { return (read = banner()).find("new sessions are refused.") != std::string::npos; }));
  EXPECT_THAT(read, testing::HasSubstr("the operator asked for it"));
  EXPECT_NE(status().stage, "released") << "the person inside is still warned";
  giver.join();
  EXPECT_THAT(banner(),
              testing::HasSubstr(where + "The volume was released: the operator asked for it"));
}

/// It ended well, on a disk that goes with the instance.
TEST_F(BootUp, a_copy_to_a_node_that_gives_its_volume_back_fails) {
  make_volume();
  dress_as_disk();
  ASSERT_EQ(run_up(), "");
  start_sshd();
  ASSERT_TRUE(comes_ready()) << status().message;
  ASSERT_NO_FATAL_FAILURE(come_in());
  const auto copy = [] {
    return shell(
               "ssh -F none -i /run/keys/own -o StrictHostKeyChecking=no -o BatchMode=yes -o "
               "UserKnownHostsFile=/dev/null keeper@127.0.0.1 'echo data >/run/keeper/copy' "
               ">/dev/null 2>&1 && echo copied || echo $?")
        .value_or("no answer");
  };
  std::jthread giver([] { std::ignore = down(); });
  EXPECT_TRUE(comes([] {
    return read_file(kBannerFile, 4096).value_or("").find("refused") != std::string::npos;
  }));
  EXPECT_TRUE(comes([] { return link_text(kSessionRoot) == kNowhere; }));
  ::unlink("/run/keeper/copy");
  EXPECT_EQ(copy(), "255") << "ssh's own word for: no connection";
  EXPECT_NE(::access("/run/keeper/copy", F_OK), 0);
  EXPECT_NE(status().stage, "released") << "the person inside is still warned";
  giver.join();
  EXPECT_EQ(copy(), "copied") << "on the base, where somebody may have to look after it";
}

/// Nothing led them back before the next lease.
TEST_F(BootUp, sessions_that_have_left_a_volume_come_back_once_it_is_mended) {
  make_volume();
  dress_as_disk();
  ASSERT_EQ(run_up(), "");
  start_sshd();
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_EQ(login(), kInTheVolume);
  const std::string where = "read os </etc/os-release; echo $os";
  ASSERT_EQ(::chmod(kVolumePoint, 0775), 0);
  ASSERT_TRUE(comes([] { return status().stage == "failed"; }));
  EXPECT_THAT(status().message,
              testing::HasSubstr("sessions left the volume: sshd would refuse every session: " +
                                 std::string(kSessionRoot) + " can be written by others"));
  EXPECT_THAT(base_login(where), testing::Not(testing::HasSubstr("Test Volume 1")));
  EXPECT_EQ(::access(kBannerFile, F_OK), 0);
  ASSERT_EQ(::chmod(kVolumePoint, 0755), 0);
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_EQ(status().message, "");
  EXPECT_NE(::access(kBannerFile, F_OK), 0);
  EXPECT_EQ(base_login(where), "PRETTY_NAME=\"Test Volume 1\"");
  EXPECT_EQ(login(), kInTheVolume) << "her keys count again";
  EXPECT_TRUE(down());
  EXPECT_THAT(mounts_at(kVolumePoint), testing::IsEmpty());
}

TEST_F(BootUp, who_unmounts_the_volume_is_told_so_and_sessions_leave_it) {
  make_volume();
  dress_as_disk();
  ASSERT_EQ(run_up(), "");
  start_sshd();
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_EQ(login(), kInTheVolume);
  // Lazily: it is busy as long as the daemon, which may warm it still, holds its root open.
  ASSERT_TRUE(shell("umount -l " + std::string(kVolumePoint)));
  ASSERT_TRUE(comes([] { return status().stage == "failed"; }));
  EXPECT_EQ(status().message, "sessions left the volume: somebody unmounted the volume");
  EXPECT_THAT(base_login("read os </etc/os-release; echo $os"),
              testing::Not(testing::HasSubstr("Test Volume 1")));
  EXPECT_TRUE(down());
  EXPECT_EQ(shell("find " + std::string(kVolumePoint) + " -mindepth 1").value_or("?"), "");
}

/// Nobody had been let in yet, so that nobody looked for it: the node said `failed`, and held its
/// place for ever.
TEST_F(BootUp, a_disk_that_is_taken_away_before_sessions_are_open_is_given_back) {
  // root's shell waits until it is let go, and fails.
  make_volume(
      "mkfifo $t/gate; rm $t/bin/bash; printf '#!/bin/sh\nread word </gate\nexit 1\n' "
      ">$t/bin/bash; chmod 755 $t/bin/bash");
  dress_as_disk();
  ::unlink(kLogFile);
  ASSERT_EQ(run_up(), "");
  start_sshd();
  ASSERT_TRUE(comes([] { return status().stage == "mounted"; })) << "else the gate is the base's";
  ASSERT_TRUE(shell("exec 3>" + inside("gate") + "; rm -r /run/block/vdz /dev/vdz; echo go >&3"));
  ASSERT_TRUE(comes([] { return !daemon_runs(); })) << status().stage << ": " << status().message;
  EXPECT_EQ(status().stage, "released");
  EXPECT_EQ(status().message, "the volume's disk /dev/vdz is gone");
  const std::string log = read_file(kLogFile, kMaxStatus).value_or("");
  EXPECT_THAT(log, testing::HasSubstr("stage name=released"));
  EXPECT_THAT(log, testing::Not(testing::HasSubstr("stage name=failed")));
  EXPECT_THAT(mounts_at(kVolumePoint), testing::IsEmpty());
  EXPECT_EQ(base_login(), "in");
}

/// Its node held its place for ever.
TEST_F(BootUp, a_disk_that_is_taken_away_from_a_volume_that_could_not_be_brought_up_is_given_back) {
  make_volume("rm $t/bin/bash; printf '#!/bin/sh\nexit 1\n' >$t/bin/bash; chmod 755 $t/bin/bash");
  dress_as_disk();
  ASSERT_EQ(run_up(), "");
  ASSERT_TRUE(comes([] { return status().stage == "failed"; }));
  ASSERT_TRUE(shell("rm -r /run/block/vdz /dev/vdz"));
  ASSERT_TRUE(comes([] { return !daemon_runs(); })) << status().stage << ": " << status().message;
  EXPECT_EQ(status().stage, "released");
  EXPECT_EQ(status().message, "the volume's disk /dev/vdz is gone");
}

/// The manager took it for a clean end, and had it attached without the snapshot before a replay.
TEST_F(BootUp, a_disk_that_is_taken_away_during_a_release_for_another_reason_is_told_as_gone) {
  make_volume();
  dress_as_disk();
  ASSERT_EQ(run_up(), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  ASSERT_TRUE(shell("rm -r /run/block/vdz /dev/vdz"));
  EXPECT_TRUE(down());
  EXPECT_EQ(status().stage, "released");
  EXPECT_EQ(status().message, "the volume's disk /dev/vdz is gone");
}

TEST_F(BootUp, people_land_in_the_volume_although_sshd_was_there_first) {
  make_volume();
  dress_as_disk();
  start_sshd();
  for (const char* round : {"first", "after a kill"}) {
    SCOPED_TRACE(round);
    ASSERT_EQ(run_up(), "");
    ASSERT_TRUE(comes_ready()) << status().message;
    EXPECT_EQ(status().message, "") << read_file(kStatusFile, kMaxStatus).value_or("");
    EXPECT_TRUE(wait_for_sessions(std::chrono::seconds(60)));
    EXPECT_EQ(login(), kInTheVolume);
    EXPECT_EQ(base_login("read os </etc/os-release; echo $os"), "PRETTY_NAME=\"Test Volume 1\"");
    kill_daemon();
    EXPECT_TRUE(comes([] { return login() != kInTheVolume; })) << "the first sshd has the port";
  }
  ASSERT_EQ(run_up(), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_TRUE(down());
  EXPECT_NE(login(), kInTheVolume);
}

/// A second `up` found its own configuration there, and said that sessions land in the volume.
TEST_F(BootUp, an_sshd_that_was_there_first_is_late_for_the_second_up_too_until_it_has_reloaded) {
  make_volume();
  dress_as_disk();
  start_sshd();
  // Where the kernel lets nobody steer: elsewhere a second sshd lets people in.
  ASSERT_EQ(run_up(kTicket, SYS_bpf), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  const auto told_late = [] {
    return read_file(kStatusFile, kMaxStatus).value_or("").find(kLateSentence) != std::string::npos;
  };
  EXPECT_TRUE(told_late());
  EXPECT_FALSE(wait_for_sessions(std::chrono::seconds(60)));
  kill_daemon();
  ASSERT_EQ(run_up(kTicket, SYS_bpf), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_TRUE(told_late());
  ASSERT_EQ(::kill(sshd_, SIGHUP), 0);
  ASSERT_TRUE(comes([] { return !sshd_is_late().value_or(true); }));
  EXPECT_TRUE(wait_for_sessions(std::chrono::seconds(60))) << "it was restarted behind us";
  kill_daemon();
  ASSERT_TRUE(comes([] { return greeting().starts_with("SSH-2.0"); }));
  ASSERT_EQ(run_up(), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_FALSE(told_late());
  EXPECT_EQ(login(), kInTheVolume);
  EXPECT_TRUE(down());
}

}  // namespace
}  // namespace warmroot::bootstrap
