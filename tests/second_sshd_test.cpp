// The entry `chroot` beside an sshd that has read neither our configuration nor the node's host
// keys, as one that was started too early or, from OpenSSH 9.8 on, any: against real programs.
#include "bootstrap/host_keys.hpp"
#include "bootstrap/sshd_config.hpp"
#include "tests/volume_sshd_rig.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

inline constexpr char kSecond[] = " second";

class SecondSshdTest : public VolumeSshdTest {
 protected:
  void make_volume() {
    ASSERT_NO_FATAL_FAILURE(make_volume_with_sshd());
    input_.entry = EntryKind::chroot;
    input_.node_host_keys = true;
    // The base's sshd needs libraries that stand elsewhere.
    const std::string program = "/run/second_sshd";
    ASSERT_TRUE(write_file_atomic(program,
                                  "#!/bin/sh\nexport LD_LIBRARY_PATH=" WARMROOT_SSHD_LIBRARIES
                                  "\nexec " WARMROOT_SSHD " -e \"$@\"\n",
                                  0755));
    input_.second_sshd = {program, {kPort}, true};
    ASSERT_TRUE(make_directory(kUserKeysDirectory, 0755));
    ASSERT_TRUE(write_file_atomic(
        "/etc/ssh/sshd_config",
        "VersionAddendum second\nUsePAM no\n" + sshd_config(BaseSshd{}, SshdWishes{}), 0644));
    ASSERT_TRUE(show_base_host_keys());
  }

  void bring_up_by_second_sshd() {
    ASSERT_NO_FATAL_FAILURE(make_volume());
    const Ok done = bring_up(input_, assignment_, book_, stop_);
    ASSERT_TRUE(done) << done.error().message();
    ASSERT_THAT(book_.snapshot().entry, StartsWith("chroot: a second sshd of the base (process "));
    ASSERT_THAT(greeting(), EndsWith(kSecond));
    EXPECT_FALSE(assignment_.entry->waits_for_base_sshd());
    // Without PAM an account without a password is locked.
    ASSERT_TRUE(shell("sed -i 's/^ada:[^:]*:/ada:*:/' /etc/shadow"));
  }

  static pid_t second_sshd(const Entry& entry) {
    const std::string text = entry.describe();
    return std::stoi(text.substr(text.find("process ") + 8));
  }

  /// Clients know this of the node, and nothing else.
  static void know(const std::string& type) {
    ASSERT_TRUE(shell("echo \"127.0.0.1 $(ssh-keygen -y -f " + std::string(kNodeKeys) +
                      "/ssh_host_" + type + "_key)\" >/run/known"));
  }

  static constexpr char kAsk[] = "read -r os </etc/os-release; echo $os $USER";
  static constexpr char kInVolume[] = "PRETTY_NAME=\"Test Volume 1\" ada\n";
};

TEST_F(SecondSshdTest, people_land_in_the_volume_and_know_the_node) {
  ASSERT_NO_FATAL_FAILURE(bring_up_by_second_sshd());
  ASSERT_NO_FATAL_FAILURE(know("ed25519"));
  const auto said = shell(client(kAsk));
  ASSERT_TRUE(said) << said.error().message() << read_file(kSecondSshdLog, 65536).value_or("");
  EXPECT_EQ(*said + "\n", kInVolume);

  ASSERT_TRUE(shell(client("echo in; sleep 1; echo out") +
                    " >/run/session 2>&1 </dev/null & until grep -q in /run/session; do :; done"));
  const Ok released = release(leaving(std::chrono::seconds(60)), assignment_, book_);
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_THAT(greeting(), EndsWith(kBase));
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

TEST_F(SecondSshdTest, a_successor_shows_the_keys_that_were_made_since) {
  ASSERT_NO_FATAL_FAILURE(bring_up_by_second_sshd());
  const pid_t first = second_sshd(*assignment_.entry);
  EXPECT_TRUE(assignment_.entry->check());
  EXPECT_EQ(second_sshd(*assignment_.entry), first) << "nothing has changed";
  ASSERT_TRUE(complete_host_keys(kVolumePoint, assignment_.volume_id, {}));
  EXPECT_TRUE(assignment_.entry->check());
  EXPECT_NE(second_sshd(*assignment_.entry), first);
  EXPECT_NE(::kill(first, 0), 0) << "it has ended";
  for (const char* type : {"ed25519", "ecdsa", "rsa"}) {
    ASSERT_NO_FATAL_FAILURE(know(type));
    EXPECT_EQ(shell(client(kAsk)).value_or("") + "\n", kInVolume) << type;
  }
}

TEST_F(SecondSshdTest, the_base_has_the_port_when_it_is_dead_and_a_successor_soon_afterwards) {
  ASSERT_NO_FATAL_FAILURE(bring_up_by_second_sshd());
  const pid_t first = second_sshd(*assignment_.entry);
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  siginfo_t ended{};  // dead, and not yet reaped
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(first), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_THAT(greeting(), EndsWith(kBase));
  EXPECT_TRUE(assignment_.entry->check()) << "people still get in";
  EXPECT_THAT(greeting(), EndsWith(kSecond));
  EXPECT_NE(second_sshd(*assignment_.entry), first);
}

TEST_F(SecondSshdTest, a_successor_has_read_what_was_changed_and_a_broken_change_ends_nobody) {
  ASSERT_NO_FATAL_FAILURE(bring_up_by_second_sshd());
  const pid_t first = second_sshd(*assignment_.entry);
  ASSERT_TRUE(shell("echo 'Nonsense yes' >>/etc/ssh/sshd_config"));
  EXPECT_TRUE(assignment_.entry->check());
  EXPECT_EQ(second_sshd(*assignment_.entry), first);
  EXPECT_THAT(greeting(), EndsWith(kSecond));
  ASSERT_TRUE(
      shell("sed -i 's/^Nonsense.*//; s/^VersionAddendum.*/VersionAddendum third/' "
            "/etc/ssh/sshd_config"));
  EXPECT_TRUE(assignment_.entry->check());
  EXPECT_NE(second_sshd(*assignment_.entry), first);
  EXPECT_THAT(greeting(), EndsWith(" third"));
}

TEST_F(SecondSshdTest, where_it_cannot_be_had_the_base_s_sshd_lets_people_in_and_status_says_why) {
  ASSERT_NO_FATAL_FAILURE(make_volume());
  ASSERT_TRUE(
      write_file_atomic(input_.second_sshd.program, "#!/bin/sh\n[ $1 = -T ] || exit 1\n", 0755));
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_THAT(book_.snapshot().entry,
              StartsWith("chroot: the base's sshd, with its own host keys"));
  EXPECT_THAT(book_.snapshot().entry, HasSubstr("the second sshd of the base ended with 1"));
  EXPECT_TRUE(assignment_.entry->waits_for_base_sshd());
  EXPECT_THAT(greeting(), EndsWith(kBase));
  EXPECT_TRUE(assignment_.entry->check());
}

/// It listened there, too, behind the first one's back: a base's sshd that was restarted had none.
TEST_F(SecondSshdTest, is_not_started_where_it_would_listen_at_the_base_s_port) {
  ASSERT_NO_FATAL_FAILURE(make_volume());
  for (const std::string address : {"0.0.0.0:22", "0.0.0.0"}) {
    SCOPED_TRACE(address);
    const std::string before = read_file("/etc/ssh/sshd_config", 65536).value_or("");
    ASSERT_TRUE(write_file_atomic("/etc/ssh/sshd_config",
                                  "ListenAddress " + address + "\n" + before, 0644));
    Assignment assignment;
    const Ok done = bring_up(input_, assignment, book_, stop_);
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_THAT(book_.snapshot().entry,
                testing::AllOf(StartsWith("chroot: the base's sshd, with its own host keys"),
                               HasSubstr("would listen at 0.0.0.0:")));
    EXPECT_THAT(greeting(), EndsWith(kBase));
    EXPECT_TRUE(undo_bring_up(assignment));
    ASSERT_TRUE(write_file_atomic("/etc/ssh/sshd_config", before, 0644));
  }
}

TEST_F(SecondSshdTest, goes_on_where_sessions_have_left_the_volume_and_come_back) {
  ASSERT_NO_FATAL_FAILURE(bring_up_by_second_sshd());
  const pid_t second = second_sshd(*assignment_.entry);
  ASSERT_EQ(::chmod(kVolumePoint, 0775), 0);
  EXPECT_FALSE(assignment_.entry->check());
  EXPECT_TRUE(assignment_.entry->close());
  EXPECT_NE(session_os(), "Test Volume 1");
  EXPECT_FALSE(assignment_.entry->check()) << "nothing is mended";
  ASSERT_EQ(::chmod(kVolumePoint, 0755), 0);
  EXPECT_TRUE(assignment_.entry->check());
  const auto opened = assignment_.entry->open({input_.launch.public_key, {}});
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_TRUE(assignment_.entry->check());
  EXPECT_EQ(second_sshd(*assignment_.entry), second);
  ASSERT_NO_FATAL_FAILURE(know("ed25519"));
  EXPECT_EQ(shell(client(kAsk)).value_or("") + "\n", kInVolume);
}

TEST_F(SecondSshdTest, a_bootstrap_that_is_killed_leaves_the_base_its_port) {
  ASSERT_NO_FATAL_FAILURE(make_volume());
  EXPECT_TRUE(killed_after(1000, [&](auto& book) {
    Assignment lost;
    std::ignore = bring_up(input_, lost, book, stop_);
    if (lost.entry->waits_for_base_sshd()) ::_exit(1);
    ::raise(SIGKILL);
  }));
  const auto deadline = steady_clock::now() + kLimit;
  while (greeting().find(kBase) == std::string::npos && steady_clock::now() < deadline)
    ::poll(nullptr, 0, 10);
  EXPECT_THAT(greeting(), EndsWith(kBase));
  const Ok cleared = clear_leftovers();
  EXPECT_TRUE(cleared) << cleared.error().message();
}

}  // namespace
}  // namespace warmroot::bootstrap
