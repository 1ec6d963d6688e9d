// `up` as user-data runs it, with a metadata service, Debian's sshd and its client in a network
// namespace of the test's own: run twice, killed behind its steps and run again, and behind an sshd
// that was there first.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <httplib.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <set>
#include <thread>

#include "bootstrap/commands.hpp"
#include "bootstrap/daemon.hpp"
#include "bootstrap/daemon_lock.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/sshd_listeners.hpp"
#include "tests/refuse_call.hpp"
#include "tests/volume_sshd_rig.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr int kImdsPort = 1338;
constexpr uid_t kNobody = 65534;
constexpr char kTicket[] = "/run/ticket.json", kTicketOfManager[] = "/run/ticket-of-manager.json";
constexpr char kReportKey[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
constexpr char kWords[] = "/run/up-words";
constexpr char kSshd[] = "/usr/local/sbin/sshd";

/// What `up` asks of an instance without a launch-time mapping beyond its root; and of a manager
/// that gives a key and has attached the volume.
[[noreturn]] void serve_imds() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  httplib::Server server;
  const std::string key = read_file("/run/keys/launch.pub", 4096).value_or("");
  server.Put("/latest/api/token", [](const httplib::Request&, httplib::Response& reply) {
    reply.set_content("token", "text/plain");
  });
  server.Get(R"(/latest/meta-data/(.*))",
             [key](const httplib::Request& request, httplib::Response& reply) {
               const std::string path = request.matches[1];
               if (path == "instance-id")
                 reply.set_content("i-1", "text/plain");
               else if (path == "placement/availability-zone")
                 reply.set_content("us-east-1a", "text/plain");
               else if (path == "public-keys/0/openssh-key")
                 reply.set_content(key, "text/plain");
               else
                 reply.status = 404;
             });
  server.Post("/v1/hello", [](const httplib::Request&, httplib::Response& reply) {
    reply.set_content(
        std::string(R"({"key":")") + kReportKey + R"(","node":"test-0","volume_id":"vol-0abc"})",
        "application/json");
  });
  server.Post("/v1/report", [](const httplib::Request&, httplib::Response& reply) {
    reply.set_content(R"({"wishes":{"drain":false,"volume_id":"vol-0abc"}})", "application/json");
  });
  server.listen("127.0.0.1", kImdsPort);
  ::_exit(1);
}

class BootUp : public BootWhole {
 protected:
  static void SetUpTestSuite() {
    BootNamespace::SetUpTestSuite();
    if (reason_.empty()) reason_ = enter_network_with_sshd();
    if (!reason_.empty()) return;
    ::setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT",
             ("http://127.0.0.1:" + std::to_string(kImdsPort)).c_str(), 1);
    const auto made = shell(R"(
      ssh-keygen -q -t ed25519 -N '' -C launch -f /run/keys/launch
      ssh-keygen -q -t ed25519 -N '' -C own -f /run/keys/own
      ssh-keygen -q -t ed25519 -N '' -C base -f /etc/ssh/ssh_host_ed25519_key
      echo 'keeper:x:3001:3001::/run/keeper:/bin/sh' >>/etc/passwd
      mkdir -p /run/keeper/.ssh; cp /run/keys/own.pub /run/keeper/.ssh/authorized_keys; chown -R 3001:3001 /run/keeper
      mkdir /etc/pam.d
      for kind in auth account session; do echo $kind required pam_permit.so; done >/etc/pam.d/sshd
      mount -t tmpfs -o mode=755 tmpfs /usr/local/sbin
      mkdir /usr/local/sbin/program; cp $WARMROOT_SSHD /usr/local/sbin/program/sshd
      printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec /usr/local/sbin/program/sshd "$@"\n' $WARMROOT_SSHD_LIBRARIES >/usr/local/sbin/sshd
      chmod 755 /usr/local/sbin/sshd
      printf 'Include /etc/ssh/sshd_config.d/*.conf\nUsePAM yes\n' >/etc/ssh/sshd_config
      echo '{"version":1,"deployment":"d","pool":"test"}' >/run/ticket.json
      echo '{"version":1,"deployment":"d","pool":"test","manager_url":"http://127.0.0.1:1338"}' >/run/ticket-of-manager.json)");
    if (!made) reason_ = made.error().message();
  }

  void SetUp() override {
    BootWhole::SetUp();
    if (!reason_.empty()) return;
    ::unlink("/run/known_hosts");
    imds_ = ::fork();
    if (imds_ == 0) serve_imds();
  }

  void TearDown() override {
    if (reason_.empty()) {
      std::ignore = down();
      end_process(sshd_);
      end_process(imds_);
      EXPECT_TRUE(shell("rm -f /run/warmroot/sshd.conf /etc/ssh/sshd_config.d/*"));
    }
    BootWhole::TearDown();
  }

  void make_disk_with_fstab() {
    make_disk(R"(
      mkdir $t/srv $t.srv; echo kept >$t.srv/file
      echo 'UUID=6a30ab86-fd1c-4b86-a8b0-7a4c6a3a4b90 /srv ext4 defaults 0 2' >$t/etc/fstab
      printf 'start=2048, size=81920, type=linux\nstart=83968, size=40960, type=linux\n' |
        sfdisk --quiet --wipe never --label gpt $image >/dev/null
      mke2fs -q -t ext4 -E root_owner=0:0,offset=1048576 -d $t $image 40M
      mke2fs -q -t ext4 -U 6a30ab86-fd1c-4b86-a8b0-7a4c6a3a4b90 -E root_owner=0:0,offset=42991616 -d $t.srv $image 20M
      rm -r $t.srv)");
    dress_as_disk();
    dress_partitions();
  }

  static void end_process(pid_t& process) {
    if (process == 0) return;
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
    process = 0;
  }

  /// In a process of its own, as user-data's; empty, or what it says is wrong.
  static std::string run_up(const char* ticket = kTicket, long refused_call = -1) {
    ::unlink(kWords);
    const pid_t child = ::fork();
    if (child == 0) {
      if (refused_call >= 0 && !refuse_call(refused_call)) ::_exit(1);
      const Ok done = up(ticket, UpMode::in_unit);
      std::ignore = write_file_atomic(kWords, done ? "" : done.error().message(), 0600);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!WIFEXITED(status)) return "up was ended by signal " + std::to_string(WTERMSIG(status));
    return read_file(kWords, 4096).value_or("up ended without a word");
  }

  static void kill_daemon() {
    ASSERT_TRUE(comes([] { return running_daemon() != 0; }));
    const pid_t daemon = running_daemon();
    ::kill(daemon, SIGKILL);
    while (running_daemon() == daemon) ::poll(nullptr, 0, 1);
  }

  /// Of the daemon, as its log has them: the status file is written less often.
  static std::size_t logged_steps() {
    const std::string log = read_file(kLogFile, kMaxStatus).value_or("");
    std::size_t steps = 0;
    for (std::size_t at = 0; (at = log.find("step name=", at)) != std::string::npos; ++at) ++steps;
    return steps;
  }

  static StatusFields status() {
    return status_fields(read_file(kStatusFile, kMaxStatus).value_or(""));
  }

  /// Whether it came to be within a minute.
  template <typename Condition>
  static bool comes(const Condition& condition) {
    const auto limit = steady_clock::now() + kLimit;
    while (!condition()) {
      if (steady_clock::now() > limit) return false;
      ::poll(nullptr, 0, 1);
    }
    return true;
  }

  static bool comes_ready() {
    return comes([] { return session_wait(status()).there; });
  }

  void start_sshd() {
    sshd_ = ::fork();
    if (sshd_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::execl(kSshd, kSshd, "-D", "-E", "/run/sshd.log", nullptr);
      ::_exit(1);
    }
    EXPECT_TRUE(comes([] { return greeting().starts_with("SSH-2.0"); }));
  }

  /// A person's login: who she is there and where "there" is. The first one remembers the host key.
  static std::string login(const std::string& key = "launch") {
    const auto said = shell("ssh -F none -p 22 -o IdentitiesOnly=yes -i /run/keys/" + key +
                            " -o LogLevel=ERROR -o BatchMode=yes -o "
                            "StrictHostKeyChecking=accept-new "
                            "-o UserKnownHostsFile=/run/known_hosts ada@127.0.0.1 "
                            "'read os </etc/os-release; echo $HOME $os' 2>&1");
    return said ? *said : said.error().message();
  }

  /// Of a person of the base alone, whose sessions land wherever sessions land.
  static std::string base_login(const std::string& command = "echo in") {
    const auto said = shell(
        "ssh -F none -p 22 -o IdentitiesOnly=yes -i /run/keys/own -o LogLevel=ERROR -o "
        "BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "
        "keeper@127.0.0.1 '" +
        command + "' 2>&1");
    return said ? *said : said.error().message();
  }

  /// All that a person could notice.
  std::string state() {
    std::string text = *read_file("/etc/passwd", 1 << 20) + *read_file("/etc/group", 1 << 20) +
                       read_file(std::string(kUserKeysDirectory) + "/ada", 65536).value_or("none") +
                       read_attribute(inside(kVolumeMarker)) + "\n" + shown_host_key() +
                       read_file(kSshdConfig, 65536).value_or("none") +
                       read_file(kSshdDropIn, 65536).value_or("none");
    for (const auto& point : mounts_at(kVolumePoint)) text += point + "\n";
    return text + login();
  }

  pid_t imds_ = 0, sshd_ = 0;
};

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

/// Of all processes', the whole time.
class CommandLines {
 public:
  ~CommandLines() { thread_.request_stop(); }
  bool showed(const std::string& secret) {
    const std::lock_guard lock(mutex_);
    return std::any_of(seen_.begin(), seen_.end(),
                       [&](const auto& line) { return line.find(secret) != std::string::npos; });
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return seen_.size();
  }

 private:
  void look() {
    for (const auto& name : list_directory("/proc")) {
      const auto line = read_file("/proc/" + name + "/cmdline", 1 << 20);
      const std::lock_guard lock(mutex_);
      if (line && !line->empty()) seen_.insert(*line);
    }
  }
  std::mutex mutex_;
  std::set<std::string> seen_;
  std::jthread thread_{[this](const std::stop_token& stop) {
    while (!stop.stop_requested()) look();
  }};
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
  EXPECT_FALSE(lines.showed(kReportKey));
  EXPECT_TRUE(lines.showed("ssh-keygen")) << "of " << lines.count() << " command lines";
}

TEST_F(BootUp, logins_fail_at_no_moment_of_the_way_in_and_out_and_land_where_they_should) {
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
  EXPECT_TRUE(down());
  const auto left = steady_clock::now();
  more(5);
  people.clear();
  const std::string volume = "PRETTY_NAME=\"Test Volume 1\"";
  std::size_t inside = 0;
  for (const auto& login : logins) {
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
  ASSERT_TRUE(shell(
      "mkfifo /run/words; ssh -F none -i /run/keys/launch -o LogLevel=ERROR -o "
      "StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null ada@127.0.0.1 'echo in; read line' "
      ">/run/said 2>&1 <>/run/words & until grep -qx in /run/said; do :; done"));
  std::jthread giver([] { std::ignore = down(); });
  std::string read;
  EXPECT_TRUE(comes([&] { return (read = banner()).find(where) != std::string::npos; }));
  EXPECT_THAT(read, testing::HasSubstr("the operator asked for it"));
  EXPECT_NE(status().stage, "released") << "the person inside is still warned";
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

TEST_F(BootUp, run_twice_is_refused_and_changes_nothing) {
  make_volume();
  dress_as_disk();
  ASSERT_EQ(run_up(), "");
  start_sshd();
  ASSERT_TRUE(comes_ready()) << status().message;
  const std::string wanted = state();
  const pid_t daemon = running_daemon();
  EXPECT_EQ(run_up(), "warmroot-bootstrap runs already as process " + std::to_string(daemon));
  EXPECT_EQ(running_daemon(), daemon);
  EXPECT_EQ(state(), wanted);
  EXPECT_TRUE(down());
}

/// A process that has a lock of this type on the pid file until it is ended. Its wait status says
/// why it could not.
pid_t hold_pid_file(uid_t uid, short type, const char* name) {
  int ready[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    if (name != nullptr) ::prctl(PR_SET_NAME, name);
    if (::setresuid(uid, uid, uid) != 0) ::_exit(1);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int file = ::open(kPidFile, type == F_WRLCK ? O_RDWR | O_CREAT : O_RDONLY, 0644);
    struct flock range {};
    range.l_type = type;
    // A daemon's lock is waited for: whoever does has it as soon as the daemon is killed.
    if (::fcntl(file, F_SETLK, &range) != 0 && type == F_WRLCK) ::_exit(2);
    [[maybe_unused]] const auto put = ::write(ready[1], "y", 1);
    if (type == F_RDLCK && ::fcntl(file, F_SETLKW, &range) != 0) ::_exit(3);
    while (true) ::pause();
  }
  ::close(ready[1]);
  char byte = 0;
  [[maybe_unused]] const auto got = ::read(ready[0], &byte, 1);
  ::close(ready[0]);
  return child;
}

bool still_runs(pid_t child) {
  return ::waitpid(child, nullptr, WNOHANG) == 0;
}

/// After a kill `up` took a person's lock for a daemon's, and `down` sent the person a signal.
TEST_F(BootUp, a_person_who_locks_the_pid_file_is_neither_a_daemon_nor_in_the_way_of_one) {
  make_volume();
  dress_as_disk();
  ASSERT_EQ(run_up(), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  pid_t first = hold_pid_file(kNobody, F_RDLCK, nullptr);
  ASSERT_TRUE(still_runs(first));
  EXPECT_NE(running_daemon(), first);
  ASSERT_NO_FATAL_FAILURE(kill_daemon());
  EXPECT_FALSE(daemon_runs());
  ::unlink(kStatusFile);
  ASSERT_EQ(run_up(), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  pid_t second = hold_pid_file(kNobody, F_RDLCK, nullptr);
  ASSERT_TRUE(still_runs(second));
  EXPECT_EQ(std::to_string(running_daemon()), read_attribute(kPidFile));
  struct stat facts {};
  ASSERT_EQ(::stat(kLockFile, &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u) << "else it could be locked just so";
  EXPECT_TRUE(down());
  EXPECT_TRUE(still_runs(first));
  EXPECT_TRUE(still_runs(second));
  end_process(first);
  end_process(second);
}

TEST_F(BootUp, people_see_that_a_daemon_runs_although_its_lock_is_root_s) {
  make_volume();
  dress_as_disk();
  ASSERT_EQ(run_up(), "");
  ASSERT_TRUE(comes([] { return daemon_runs(); }));
  const pid_t person = ::fork();
  if (person == 0) {
    if (::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(1);
    if (::open(kLockFile, O_RDONLY | O_CLOEXEC) >= 0 || errno != EACCES) ::_exit(2);
    ::_exit(daemon_runs() ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(person, &status, 0), person);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(comes_ready());
  EXPECT_TRUE(down());
}

/// It has locked the pid file alone.
TEST_F(BootUp, a_daemon_of_an_older_program_is_seen_and_nobody_else_in_its_place_is_signalled) {
  ::unlink(kStatusFile);
  pid_t other = hold_pid_file(0, F_WRLCK, "other");
  ASSERT_TRUE(still_runs(other));
  const Ok refused = down();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), testing::HasSubstr("is no bootstrap of root's"));
  EXPECT_TRUE(still_runs(other));
  end_process(other);
  const pid_t older = hold_pid_file(0, F_WRLCK, "warmroot-bootst");
  ASSERT_TRUE(still_runs(older));
  EXPECT_EQ(run_up(), "warmroot-bootstrap runs already as process " + std::to_string(older));
  std::ignore = down();
  int status = 0;
  ASSERT_EQ(::waitpid(older, &status, 0), older);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
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
