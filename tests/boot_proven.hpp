// A volume that the last lease left clean, and in which the login worked then: the fixtures of
// boot_proven_test, and of what takes it further.
#pragma once

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>

#include "bootstrap/host_key_document.hpp"
#include "bootstrap/login_proof.hpp"
#include "tests/boot_up.hpp"
#include "tests/hostile_kinds.hpp"

namespace warmroot::bootstrap {

/// Where ssh-keygen's calls are written, a line each, once a test listens to them.
inline constexpr char kKeygenCalls[] = "/run/keygen-calls";
/// What a try before the switch has is 90 s.
inline constexpr std::int64_t kWithinBoundMs = 40'000;

class BootProven : public HostileVolume<BootWhole> {
 protected:
  void TearDown() override {
    if (listens_) {
      EXPECT_TRUE(shell("umount /usr/bin/ssh-keygen"));
    }
    HostileVolume<BootWhole>::TearDown();
  }

  /// How far the step is from the first one; that of the last one where it was not taken.
  static std::size_t place(const StatusBook& book, const std::string& step) {
    const auto steps = book.snapshot().steps;
    const auto found = std::find_if(steps.begin(), steps.end(),
                                    [&](const auto& each) { return each.name == step; });
    EXPECT_NE(found, steps.end()) << step;
    return static_cast<std::size_t>(found - steps.begin());
  }

  static std::string detail(const StatusBook& book, const std::string& step) {
    const auto steps = book.snapshot().steps;
    const std::size_t at = place(book, step);
    return at < steps.size() ? steps[at].detail : "";
  }

  Ok give_back(Assignment& assignment, StatusBook& book) const {
    ReleaseInput input = leaving();
    input.instance_id = input_.launch.instance_id;
    return release(input, assignment, book);
  }

  /// A lease that ends clean: whether the login was tried before sessions were switched over.
  bool tries_first() {
    Assignment assignment;
    StatusBook book("");
    StopRequest stop;
    const Ok done = bring_up(input_, assignment, book, stop);
    EXPECT_TRUE(done) << (done ? "" : done.error().message());
    if (!done) return false;
    EXPECT_EQ(session_os(), "Test Volume 1");
    const bool first = place(book, "probe login") < place(book, "switch sessions");
    EXPECT_TRUE(give_back(assignment, book));
    return first;
  }

  /// With a lease behind it that proves its login.
  void make_proven_volume() {
    make_volume();
    dress_as_disk();
    ASSERT_TRUE(tries_first());
  }

  void break_shell(const std::string& with) { change_volume("cp bin/" + with + " bin/bash"); }
  void mend_shell() { change_volume("cp bin/sh bin/bash"); }

  /// ssh-keygen goes on working.
  void listen_to_keygen() {
    const auto done = shell(
        "cp /usr/bin/ssh-keygen /run/keygen\n"
        "printf '#!/bin/sh\\necho \"$*\" >>/run/keygen-calls\\nexec /run/keygen \"$@\"\\n' "
        ">/run/keygen-heard\n"
        "chmod 755 /run/keygen-heard; mount --bind /run/keygen-heard /usr/bin/ssh-keygen");
    ASSERT_TRUE(done) << done.error().message();
    listens_ = true;
  }
  static std::string keygen_calls() { return read_file(kKeygenCalls, 1 << 20).value_or(""); }

  /// The volume's document holds this as its ed25519 key, and the last lease says that it was read.
  void plant_key(const std::string& text, bool as_read) {
    mount_volume();
    ASSERT_TRUE(write_file_atomic(inside(kVolumeHostKeys),
                                  host_key_document({"vol-0abc", {{"ed25519", text}}}), 0600));
    auto proof = parse_proof(read_file(inside(kVolumeProof), 4096).value_or(""));
    ASSERT_TRUE(proof);
    if (as_read) proof->host_key = key_checksum(text);
    ASSERT_TRUE(write_file_atomic(inside(kVolumeProof), proof_document(*proof), 0600));
    ASSERT_TRUE(unmount_tree(kVolumePoint));
  }

  bool listens_ = false;
};

/// In the volume by the session link, for ever.
inline pid_t come_in() {
  int came[2];
  EXPECT_EQ(::pipe(came), 0);
  const pid_t session = ::fork();
  if (session == 0) {
    const bool in = ::chroot(kSessionRoot) == 0 && ::chdir("/") == 0;
    std::ignore = ::write(came[1], in ? "y" : "n", 1);
    while (true) ::pause();
  }
  char byte = 0;
  EXPECT_EQ(::read(came[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  ::close(came[0]);
  ::close(came[1]);
  return session;
}

/// The same by `up`, with Debian's sshd and client.
class BootProvenUp : public BootUp {
 protected:
  /// Until the login was tried; then it is given back clean.
  void serve_once() {
    ASSERT_EQ(run_up(), "");
    if (sshd_ == 0) start_sshd();
    ASSERT_TRUE(comes([] { return ::access(inside(kVolumeProof).c_str(), F_OK) == 0; }));
    ASSERT_TRUE(down());
    ASSERT_TRUE(comes([] { return !daemon_runs(); }));
  }
  void put_shell(const std::string& program) {
    mount_volume();
    ASSERT_TRUE(shell("cp " + inside("bin/" + program) + " " + inside("bin/bash")));
    ASSERT_TRUE(unmount_tree(kVolumePoint));
  }
};

}  // namespace warmroot::bootstrap
