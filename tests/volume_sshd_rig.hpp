// The base's sshd and a volume's own, both Debian's, in a network namespace of the test's, so that
// port 22 is free and nothing outside is touched.
#pragma once

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <functional>
#include <tuple>

#include "bootstrap/loopback_port.hpp"
#include "tests/boot_whole.hpp"

namespace warmroot::bootstrap {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::EndsWith;

inline constexpr std::uint16_t kPort = 22;
inline constexpr milliseconds kLimit{60000};

/// A connection to the sshd of this network, on which nobody logs in. Errors: connect's.
inline Result<UniqueFd> connect_to_sshd(int family = AF_INET) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(kPort);
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(kPort);
  v6.sin6_addr = in6addr_loopback;
  UniqueFd client(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{kLimit.count() / 1000, 0};
  ::setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const int connected = family == AF_INET
                            ? ::connect(client.get(), reinterpret_cast<sockaddr*>(&v4), sizeof v4)
                            : ::connect(client.get(), reinterpret_cast<sockaddr*>(&v6), sizeof v6);
  if (connected != 0) return fail_errno("connect");
  return client;
}

/// What an sshd says first, which here ends with the name of its side; else what went wrong.
inline std::string greeting(int family = AF_INET) {
  const auto client = connect_to_sshd(family);
  if (!client) return client.error().message();
  std::string text;
  char byte = 0;
  for (ssize_t got; (got = ::read(client->get(), &byte, 1)) != 0 && byte != '\n'; text += byte)
    if (got < 0) return errno_error("read", errno).message();
  return text.substr(0, text.find('\r'));
}

inline constexpr char kBase[] = " base", kVolume[] = " volume";

inline bool loopback_is_up() {
  const UniqueFd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  request.ifr_name[0] = 'l';
  request.ifr_name[1] = 'o';
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  return ::ioctl(any.get(), SIOCSIFFLAGS, &request) == 0;
}

/// A network namespace of the test's, and all there but its keys and configuration that Debian's
/// sshd and its client need. What is missing, or empty.
inline std::string enter_network_with_sshd() {
  if (::access(WARMROOT_SSHD, X_OK) != 0) return "no sshd, run tests/deps.sh";
  ::setenv("WARMROOT_SSHD", WARMROOT_SSHD, 1);
  ::setenv("WARMROOT_SSHD_LIBRARIES", WARMROOT_SSHD_LIBRARIES, 1);
  ::setenv("LD_LIBRARY_PATH", WARMROOT_SSHD_LIBRARIES, 1);
  if (::unshare(CLONE_NEWNET) != 0 || !loopback_is_up()) return "no network namespace";
  const auto made = shell(R"(
    mkdir -p /run/sshd /run/keys /etc/ssh
    echo 'sshd:x:105:65534::/run/sshd:/usr/sbin/nologin' >>/etc/passwd)");
  return made ? "" : made.error().message();
}

/// Debian's sshd, unpacked by tests/deps.sh, into the tree $t with its libraries.
inline constexpr char kWithSshd[] = R"(
    mkdir -p $t/usr/sbin $t/etc/ssh $t/run
    cp $WARMROOT_SSHD $t/usr/sbin/sshd
    for file in $(ldd $t/usr/sbin/sshd | grep -o '/[^ )]*'); do
      [ -e $t$file ] || { mkdir -p $t$(dirname $file); cp -L $file $t$file; }; done
    for file in $WARMROOT_SSHD_LIBRARIES/libwrap.so.0; do cp -L $file $t/usr/lib/; done
    echo 'sshd:x:105:65534::/run/sshd:/usr/sbin/nologin' >>$t/etc/passwd
    printf 'VersionAddendum volume\nUsePAM no\nMaxStartups 1000:30:1000\nPort 22\nListenAddress 0.0.0.0\n' >$t/etc/ssh/sshd_config
    cp /run/keys/volume $t/etc/ssh/ssh_host_ed25519_key; chmod 600 $t/etc/ssh/ssh_host_ed25519_key
    rm $t/home/ada/.ssh/authorized_keys; chown -R 2001:2001 $t/home/ada
)";

class VolumeSshdTest : public BootWhole {
 protected:
  static void SetUpTestSuite() {
    BootNamespace::SetUpTestSuite();
    if (reason_.empty()) reason_ = enter_network_with_sshd();
    if (!reason_.empty()) return;
    const auto made = shell(R"(
      for name in base volume launch own; do ssh-keygen -q -t ed25519 -N '' -C $name -f /run/keys/$name; done
      printf 'HostKey /run/keys/base\nVersionAddendum base\nUsePAM no\nMaxStartups 1000:30:1000\n' >/run/base_sshd)");
    if (!made) reason_ = made.error().message();
  }

  void SetUp() override {
    BootWhole::SetUp();
    if (!reason_.empty()) return;
    base_sshd_ = ::fork();
    if (base_sshd_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::execl(WARMROOT_SSHD, WARMROOT_SSHD, "-D", "-E", "/run/base_sshd.log", "-f",
              "/run/base_sshd", nullptr);
      ::_exit(1);
    }
    const auto deadline = steady_clock::now() + kLimit;
    while (greeting().find(kBase) == std::string::npos && steady_clock::now() < deadline)
      ::poll(nullptr, 0, 10);
    ASSERT_THAT(greeting(), EndsWith(kBase));
  }

  void TearDown() override {
    if (reason_.empty()) {
      EXPECT_TRUE(undo_bring_up(assignment_));
      ::kill(base_sshd_, SIGKILL);
      ::waitpid(base_sshd_, nullptr, 0);
    }
    BootWhole::TearDown();
  }

  /// A copy of one that is made once, because making it takes half a second.
  void make_volume_with_sshd(const std::string& more = "", const std::string& size = "64M") {
    if (::access(kMade, F_OK) != 0) {
      ASSERT_NO_FATAL_FAILURE(make_volume(kWithSshd + more, false, size));
      ASSERT_TRUE(shell("cp --sparse=always " + image_ + " " + kMade));
    } else {
      image_ = *shell("image=$(mktemp " + images_ + "/warmroot-image-XXXXXX); cp --sparse=always " +
                      kMade + " $image; echo $image");
      loop_ = *shell("losetup -f --show " + image_);
    }
    dress_as_disk();
    input_.entry = EntryKind::sshd;
    input_.base_ports = {kPort};
    input_.launch.public_key = read_attribute("/run/keys/launch.pub");
  }

  void bring_up_by_own_sshd() {
    const Ok done = bring_up(input_, assignment_, book_, stop_);
    ASSERT_TRUE(done) << done.error().message();
    ASSERT_THAT(book_.snapshot().entry, testing::StartsWith("sshd: the volume's own"));
  }

  /// Kills the bootstrap after each of the entry's own steps on the way in, `in` being the steps of
  /// a bring-up; the base has the port then, `clear` has to take back what is left, and the next
  /// bring-up is looked at by `serves`.
  void kill_after_each_step_of_the_entry(const std::vector<TimedStep>& in,
                                         const std::function<Ok()>& clear,
                                         const std::function<void()>& serves) {
    auto step = std::find_if(in.begin(), in.end(),
                             [](const auto& each) { return each.name == "accounts"; });
    ASSERT_GE(in.end() - step, 3);
    for (; step != in.end(); ++step) {
      SCOPED_TRACE(step->name);
      EXPECT_TRUE(killed_after(static_cast<std::size_t>(step - in.begin()) + 1, [&](auto& book) {
        Assignment lost;
        std::ignore = bring_up(input_, lost, book, stop_);
      }));
      EXPECT_THAT(greeting(), EndsWith(kBase));
      const Ok cleared = clear();
      ASSERT_TRUE(cleared) << cleared.error().message();
      Assignment next;
      StatusBook book("");
      const Ok done = bring_up(input_, next, book, stop_);
      ASSERT_TRUE(done) << done.error().message();
      serves();
      ASSERT_TRUE(undo_bring_up(next));
    }
  }

  /// The sshd that listens for the volume.
  pid_t own_sshd() const {
    const std::string text = book_.snapshot().entry;
    return std::stoi(text.substr(text.find("process ") + 8));
  }

  /// The command line of a client of a person whom only the volume knows.
  static std::string client(const std::string& command, const std::string& key = "launch",
                            const std::string& user = "ada") {
    return "ssh -F none -p 22 -i /run/keys/" + key +
           " -o BatchMode=yes -o "
           "UserKnownHostsFile=/run/known "
           "-o StrictHostKeyChecking=yes " +
           user + "@127.0.0.1 '" + command + "'";
  }

  static constexpr char kMade[] = "/run/made.img";  // goes with the namespace
  pid_t base_sshd_ = 0;
};

}  // namespace warmroot::bootstrap
