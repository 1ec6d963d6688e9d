// A volume dressed as the disk of an instance, for tests of the whole way in and out of the
// bootstrap against the real kernel.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "bootstrap/bring_up.hpp"
#include "bootstrap/documents.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/in_root.hpp"
#include "bootstrap/leftovers.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/release.hpp"
#include "bootstrap/sshd.hpp"
#include "tests/boot_namespace.hpp"

namespace warmroot::bootstrap {

inline constexpr char kStatusOfChild[] = "/run/status-of-child.json";
inline constexpr std::size_t kMaxStatus = 1 << 20;

/// The loop device dressed as /dev/vdz with the serial of a volume, by a /sys/block of our own.
class BootWhole : public BootNamespace {
 protected:
  void dress_as_disk() {
    struct stat node {};
    ASSERT_EQ(::stat(loop_.c_str(), &node), 0);
    const std::string numbers =
        std::to_string(major(node.st_rdev)) + ":" + std::to_string(minor(node.st_rdev));
    ASSERT_TRUE(
        shell("mkdir -p /run/block/vdz/queue; echo 131072 >/run/block/vdz/size; echo vol0abc "
              ">/run/block/vdz/serial; echo " +
              numbers +
              " >/run/block/vdz/dev; "
              "rm -f /dev/vdz; cp -a " +
              loop_ + " /dev/vdz; mount --bind /run/block /sys/block"));
    input_.launch.instance_id = "i-1";
    input_.launch.public_key = "ssh-ed25519 BBBB launch";
    input_.pool = "test";
    input_.confirmed_volume = [] { return std::optional<std::string>(); };
    input_.enter_stage = [this](Stage stage, const std::string&) {
      stages_.emplace_back(to_string(stage));
    };
    ASSERT_TRUE(point_sessions_at("/"));
    passwd_ = *read_file("/etc/passwd", 1 << 20);
  }
  /// The disk's partitions as vdz1, vdz2, ..., known to the kernel and to our /sys/block.
  void dress_partitions() {
    const auto dressed = shell("partx -a " + loop_ + R"(
      for part in /sys/class/block/)" +
                               loop_.substr(loop_.rfind('/') + 1) + R"(p*; do
        number=$(cat $part/partition)
        mkdir -p /run/block/vdz/vdz$number
        cp $part/dev $part/start $part/size $part/partition /run/block/vdz/vdz$number/
        rm -f /dev/vdz$number
        mknod /dev/vdz$number b $(tr : ' ' <$part/dev)
      done)");
    ASSERT_TRUE(dressed) << dressed.error().message();
    partitioned_ = true;
  }
  void TearDown() override {
    if (partitioned_) {
      EXPECT_TRUE(unmount_tree(kVolumePoint));
      EXPECT_TRUE(shell("partx -d " + loop_ + "; rm -rf /run/block/vdz /dev/vdz?*"));
    }
    if (reason_.empty()) {
      // Loop devices outlive the test, and with them a bound that nobody took back.
      if (auto bound = DirtyBound::find("vdz", "ext4")) {
        EXPECT_TRUE(bound->remove());
      }
      ::umount("/sys/block");
    }
    BootNamespace::TearDown();
  }
  std::string session_os() {
    return pretty_name(
        read_file(std::string(kSessionRoot) + "/etc/os-release", 65536).value_or(""));
  }

  /// Runs `work` in a process of its own that kills itself once it has recorded so many steps, each
  /// in its status file by then. False when it ended before.
  static bool killed_after(std::size_t steps, const std::function<void(StatusBook&)>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      StatusBook book(kStatusOfChild);
      std::atomic<std::size_t> recorded = 0;
      book.on_step([&] {
        if (++recorded != steps) return;
        book.write();
        ::raise(SIGKILL);
      });
      work(book);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }

  static std::size_t steps_of_child() {
    return status_fields(read_file(kStatusOfChild, kMaxStatus).value_or("")).steps.size();
  }

  BringUpInput input_;
  Assignment assignment_;
  StatusBook book_{""};
  StopRequest stop_;
  std::vector<std::string> stages_;
  std::string passwd_;
  bool partitioned_ = false;
};

/// What sshd would show, read through the link that its configuration names.
inline std::string shown_host_key(const std::string& type = "ed25519") {
  return read_file(std::string(kHostKeys) + "/ssh_host_" + type + "_key", 65536).value_or("none");
}

/// A release that was asked for by a test and has so much time; nobody is warned below 22 s.
inline ReleaseInput leaving(std::chrono::seconds left = std::chrono::seconds(20)) {
  const std::int64_t deadline_ms = boottime_ms() + std::chrono::milliseconds(left).count();
  return {"test",
          "i-1",
          "operator",
          "a test ends",
          [deadline_ms] { return deadline_ms; },
          [](Milliseconds) { return true; }};
}

}  // namespace warmroot::bootstrap
