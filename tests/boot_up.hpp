// `up` as user-data runs it, with a metadata service, Debian's sshd and its client in a network
// namespace of the test's own: the fixture of boot_up_test and of those that take it further.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <httplib.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <tuple>

#include "bootstrap/commands.hpp"
#include "bootstrap/daemon.hpp"
#include "bootstrap/daemon_lock.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/reboot.hpp"
#include "bootstrap/report_sign.hpp"
#include "tests/refuse_call.hpp"
#include "tests/volume_sshd_rig.hpp"

namespace warmroot::bootstrap {

inline constexpr int kImdsPort = 1338;
inline constexpr char kTicket[] = "/run/ticket.json",
                      kTicketOfManager[] = "/run/ticket-of-manager.json";
/// By kTicketOfManager.
inline const KeyOwner kOwner{"i-1", "d", "http://127.0.0.1:1338"};
inline constexpr char kReportKey[] =
    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
inline constexpr char kWords[] = "/run/up-words";
inline constexpr std::size_t kMostAnswer = std::size_t{1} << 30;
inline constexpr char kSshd[] = "/usr/local/sbin/sshd";
/// What the manager was told, a line each: "hello", or of a report its number, "signed" or "forged"
/// by kReportKey, stage and reason.
inline constexpr char kHeard[] = "/run/heard";
/// The list that the manager was told last because somebody had asked for it.
inline constexpr char kHeardAsked[] = "/run/heard-asked";
/// While a test has it there, the manager takes no such list yet.
inline constexpr char kAskedLater[] = "/run/answers/asked-later";
/// What the manager answers to a report, once a test has put it there.
inline constexpr char kReportAnswer[] = "/run/answers/report";
/// While a test has it there, the volume of each report is another instance's by now.
inline constexpr char kReportRefused[] = "/run/answers/refused";
/// While a test has it there, the manager takes its time for each report of a shutdown.
inline constexpr char kReportSlow[] = "/run/answers/slow";
inline constexpr int kSlowMs = 3300;
/// A spot notice, once a test has put it there.
inline constexpr char kNoticeFile[] = "/run/answers/notice";

inline void note_heard(const std::string& line) {
  const UniqueFd file(::open(kHeard, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  std::ignore = write_fully(file.get(), line + "\n", kHeard);
}

inline void note_report(const httplib::Request& request) {
  const std::string number = request.get_header_value("X-Warmroot-Sequence");
  const bool is_signed = request.get_header_value("X-Warmroot-Signature") ==
                         sign_report(*parse_key(kReportKey), std::stoull(number), request.body);
  const auto word = [&](const std::string& key) {
    const std::string before = "\"" + key + "\":\"";
    const std::size_t begin = request.body.find(before) + before.size();
    return request.body.substr(begin, request.body.find('"', begin) - begin);
  };
  note_heard(number + (is_signed ? " signed " : " forged ") + word("stage") + " " + word("reason"));
}

/// What `up` asks of an instance without a launch-time mapping beyond its root; and of a manager
/// that gives a key and has attached the volume.
[[noreturn]] inline void serve_imds() {
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
               else if (path == "spot/instance-action" && ::access(kNoticeFile, F_OK) == 0)
                 reply.set_content(read_file(kNoticeFile, 4096).value_or(""), "application/json");
               else
                 reply.status = 404;
             });
  server.Post("/v1/hello", [](const httplib::Request&, httplib::Response& reply) {
    note_heard("hello");
    reply.set_content(read_file("/run/answers/hello", kMostAnswer)
                          .value_or(std::string(R"({"key":")") + kReportKey +
                                    R"(","node":"test-0","volume_id":"vol-0abc"})"),
                      "application/json");
  });
  server.Post("/v1/report", [](const httplib::Request& request, httplib::Response& reply) {
    note_report(request);
    const bool is_slow = ::access(kReportSlow, F_OK) == 0;
    if (is_slow && request.body.find(R"("reason":"shutdown")") != std::string::npos)
      ::poll(nullptr, 0, kSlowMs);
    if (::access(kReportRefused, F_OK) == 0) reply.status = 410;
    reply.set_content(
        read_file(kReportAnswer, kMostAnswer)
            .value_or(
                R"({"wishes":{"drain":false,"volume_id":"vol-0abc","snapshot_id":"snap-0a1b2c3d"}})"),
        "application/json");
  });
  server.Post("/v1/hot-list", [](const httplib::Request& request, httplib::Response& reply) {
    const bool is_early = ::access(kAskedLater, F_OK) == 0;
    reply.status = !request.has_param("asked") ? 404 : is_early ? 503 : 200;
    if (reply.status == 200) std::ignore = write_file_atomic(kHeardAsked, request.body, 0600);
  });
  // What a test has put there.
  server.Get(R"(/v1/(.*))", [](const httplib::Request& request, httplib::Response& reply) {
    const bool is_of_pool = request.has_param("of");
    const auto answer = read_file(
        "/run/answers/" + request.matches[1].str() + (is_of_pool ? "-of-pool" : ""), kMostAnswer);
    if (answer)
      reply.set_content(*answer, "text/plain");
    else
      reply.status = 404;
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
    // As a machine boots, whatever the test before has left: a daemon that still reports a release,
    // and would go on writing its status, too.
    if (running_daemon() != 0) kill_daemon();
    forget_given_away();
    forget_served();
    std::ignore = shell("find /run/warmroot -type f -delete");
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

  /// With the process that would begin it anew, which is killed first.
  static void kill_daemon() {
    ASSERT_TRUE(comes([] { return running_daemon() != 0; }));
    const pid_t daemon = running_daemon();
    EXPECT_TRUE(end_supervisor());
    ::kill(daemon, SIGKILL);
    while (running_daemon() == daemon) ::poll(nullptr, 0, 1);
  }

  /// As the kernel does for want of memory; returns once another one runs.
  static void kill_daemon_alone() {
    const pid_t daemon = running_daemon();
    ASSERT_NE(daemon, 0);
    ::kill(daemon, SIGKILL);
    ASSERT_TRUE(comes([&] { return running_daemon() != 0 && running_daemon() != daemon; }));
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
  static bool comes_to_preflight() {
    return comes([] {
      const auto log = read_file(kLogFile, kMaxStatus).value_or("");
      return log.find("step name=preflight") != std::string::npos;
    });
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

  /// By the stock client; she says something when she is told to.
  static void come_in() {
    const auto in = shell(
        "rm -f /run/words /run/said; mkfifo /run/words; ssh -F none -i /run/keys/launch -o "
        "LogLevel=ERROR -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null ada@127.0.0.1 "
        "'echo in; read line; echo $line, $HOME' >/run/said 2>&1 <>/run/words & until grep -qx in "
        "/run/said; do sleep 0.01; done");
    ASSERT_TRUE(in) << in.error().message();
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

}  // namespace warmroot::bootstrap
