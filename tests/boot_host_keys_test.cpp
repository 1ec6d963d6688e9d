// The node's host keys on their way in and out of the bootstrap: made once, kept on the volume,
// shown by sshd, and never anybody else's.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bootstrap/bring_up.hpp"
#include "bootstrap/host_key_document.hpp"
#include "bootstrap/host_keys.hpp"
#include "bootstrap/release.hpp"
#include "tests/boot_whole.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class BootHostKeys : public BootWhole {};

TEST_F(BootHostKeys, a_node_s_host_keys_are_made_once_and_follow_its_volume) {
  make_volume();
  dress_as_disk();
  ASSERT_TRUE(shell("mkdir -p /etc/ssh; echo base >/etc/ssh/ssh_host_ed25519_key"));
  ASSERT_TRUE(show_base_host_keys());
  input_.node_host_keys = true;
  EXPECT_EQ(shown_host_key(), "base\n");
  Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  const std::string first = shown_host_key();
  EXPECT_THAT(first, testing::StartsWith("-----BEGIN OPENSSH PRIVATE KEY-----\n"));
  done = complete_host_keys(kVolumePoint, "vol-0abc", {});
  ASSERT_TRUE(done) << done.error().message();
  const std::string rsa = shown_host_key("rsa");
  EXPECT_THAT(rsa, HasSubstr("PRIVATE KEY"));
  struct stat kept {
  }, shown{};
  ASSERT_EQ(::stat(inside(kVolumeHostKeys).c_str(), &kept), 0);
  EXPECT_EQ(kept.st_mode & 07777, 0600u);
  ASSERT_EQ(::stat(kNodeKeys, &shown), 0);
  EXPECT_EQ(shown.st_mode & 07777, 0700u);

  std::string while_leaving;
  ReleaseInput input = leaving();
  input.stop_own_users = [&](Milliseconds) {
    while_leaving = shown_host_key();
    return true;
  };
  ASSERT_TRUE(release(input, assignment_, book_));
  EXPECT_EQ(while_leaving, first) << "whoever comes during the release met a stranger";
  EXPECT_EQ(shown_host_key(), "base\n");
  EXPECT_THAT(list_directory(kNodeKeys), IsEmpty());

  done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(shown_host_key(), first);
  done = complete_host_keys(kVolumePoint, "vol-0abc", {});
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(shown_host_key(), first);
  EXPECT_EQ(shown_host_key("rsa"), rsa);
  EXPECT_TRUE(undo_bring_up(assignment_));
  EXPECT_EQ(shown_host_key(), "base\n");
}

/// They were written to the base's directory below it.
TEST_F(BootHostKeys, keys_of_a_volume_that_is_unmounted_while_they_are_made_are_kept_nowhere) {
  make_volume();
  dress_as_disk();
  ASSERT_TRUE(show_base_host_keys());
  input_.node_host_keys = true;
  ASSERT_TRUE(bring_up(input_, assignment_, book_, stop_));
  bool unmounted = false;
  const Ok done = complete_host_keys(kVolumePoint, "vol-0abc", [&] {
    unmounted = unmounted || shell("umount -l " + std::string(kVolumePoint));
    return false;
  });
  EXPECT_TRUE(unmounted);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message(), HasSubstr("is not mounted at"));
  EXPECT_THAT(list_directory(kVolumePoint), IsEmpty());
  EXPECT_EQ(shown_host_key("ecdsa") + shown_host_key("rsa"), "nonenone");
  EXPECT_TRUE(undo_bring_up(assignment_));
}

TEST_F(BootHostKeys, a_copy_of_a_volume_and_one_whose_keys_are_damaged_get_keys_of_their_own) {
  make_volume();
  dress_as_disk();
  ASSERT_TRUE(show_base_host_keys());
  input_.node_host_keys = true;
  std::string before;
  for (const char* change : {":", "echo vol0def >/run/block/vdz/serial",
                             "echo rubbish >>/run/warmroot/private/volume/$keys"}) {
    SCOPED_TRACE(change);
    if (const std::string script = change; script.find("$keys") == std::string::npos) {
      ASSERT_TRUE(shell(script));
    } else {
      mount_volume();
      ASSERT_TRUE(shell("keys=" + std::string(kVolumeHostKeys) + "; " + script));
      ASSERT_TRUE(unmount_tree(kVolumePoint));
    }
    const Ok done = bring_up(input_, assignment_, book_, stop_);
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_NE(shown_host_key(), before);
    before = shown_host_key();
    ASSERT_TRUE(undo_bring_up(assignment_));
  }
}

/// What a root session could leave behind: a file in order, of these keys.
void keep_on_mounted_volume(HostKeys keys) {
  ASSERT_TRUE(make_directory(inside("var/lib"), 0755));
  ASSERT_TRUE(make_directory(inside(kVolumeState), 0755));
  ASSERT_TRUE(write_file_atomic(inside(kVolumeHostKeys), host_key_document(keys), 0600));
}

/// A key's file by ssh-keygen with these options, changed by the Python statements.
std::string key_made(const std::string& options, const std::string& change = "") {
  const auto made = shell("rm -f /run/made /run/made.pub; ssh-keygen -q -C '' -f /run/made " +
                          options + (change.empty() ? "" : "; python3 -c '" + change + "'"));
  EXPECT_TRUE(made) << made.error().message();
  return read_file("/run/made", 65536).value_or("");
}

/// Another private half beside the same public one: ssh-keygen -y reads it all the same.
constexpr char kMisfit[] = R"(
import base64, textwrap
lines = open("/run/made").read().split("\n")
key = bytearray(base64.b64decode("".join(lines[1:-2])))
half = key[key.index(b"ssh-ed25519") + 15:][:32]
key[key.rindex(half) - 1] ^= 1
body = textwrap.wrap(base64.b64encode(key).decode(), 70)
open("/run/made", "w").write("\n".join([lines[0], *body, *lines[-2:]])))";

std::string public_half_of_shown(const std::string& type) {
  return shell("ssh-keygen -y -P '' -f " + std::string(kHostKeys) + "/ssh_host_" + type + "_key")
      .value_or("unreadable");
}

TEST_F(BootHostKeys, host_keys_that_sshd_could_not_read_lock_nobody_out) {
  make_volume();
  dress_as_disk();
  ASSERT_TRUE(show_base_host_keys());
  input_.node_host_keys = true;
  for (const std::string& text :
       {std::string("garbage\n"), key_made("-t ed25519 -N secret"), key_made("-t ecdsa -N ''")}) {
    SCOPED_TRACE(text);
    mount_volume();
    ASSERT_NO_FATAL_FAILURE(keep_on_mounted_volume({"vol-0abc", {{"ed25519", text}}}));
    ASSERT_TRUE(unmount_tree(kVolumePoint));
    const Ok done = bring_up(input_, assignment_, book_, stop_);
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_THAT(public_half_of_shown("ed25519"), testing::StartsWith("ssh-ed25519 "));
    const auto kept =
        parse_host_key_document(read_file(inside(kVolumeHostKeys), 65536).value_or(""));
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept->find("ed25519")->text, shown_host_key()) << "the next instance shows it, too";
    ASSERT_TRUE(undo_bring_up(assignment_));
  }
}

/// Whoever published the AMI knows them.
TEST_F(BootHostKeys, host_keys_that_came_with_an_ami_are_not_shown) {
  make_volume();
  dress_as_disk();
  ASSERT_TRUE(show_base_host_keys());
  input_.node_host_keys = true;
  const std::string known = key_made("-t ed25519 -N ''");
  mount_volume();
  ASSERT_NO_FATAL_FAILURE(keep_on_mounted_volume({"", {{"ed25519", known}}}));
  ASSERT_TRUE(unmount_tree(kVolumePoint));
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_THAT(public_half_of_shown("ed25519"), testing::StartsWith("ssh-ed25519 "));
  EXPECT_NE(shown_host_key(), known);
  ASSERT_TRUE(undo_bring_up(assignment_));

  // Of a volume that nobody knows by its id none are taken, and none kept for others to take.
  mount_volume();
  ASSERT_NO_FATAL_FAILURE(keep_on_mounted_volume({"", {{"ed25519", known}}}));
  const std::string before = *read_file(inside(kVolumeHostKeys), 65536);
  {
    const auto volume = RootDirectory::open(kVolumePoint);
    ASSERT_TRUE(volume);
    ASSERT_TRUE(show_node_host_keys(*volume, ""));
  }
  EXPECT_THAT(public_half_of_shown("ed25519"), testing::StartsWith("ssh-ed25519 "));
  EXPECT_NE(shown_host_key(), known);
  const std::string first = shown_host_key();
  ASSERT_TRUE(complete_host_keys(kVolumePoint, "", {}));
  EXPECT_THAT(public_half_of_shown("rsa"), testing::StartsWith("ssh-rsa "));
  EXPECT_EQ(shown_host_key(), first);
  EXPECT_EQ(*read_file(inside(kVolumeHostKeys), 65536), before);
  EXPECT_TRUE(show_base_host_keys());
}

TEST_F(BootHostKeys, host_keys_whose_halves_do_not_fit_are_replaced_once_sessions_are_open) {
  make_volume();
  dress_as_disk();
  ASSERT_TRUE(show_base_host_keys());
  input_.node_host_keys = true;
  const std::string misfit = key_made("-t ed25519 -N ''", kMisfit);
  const std::string rsa = key_made("-t rsa -b 2048 -N ''");
  mount_volume();
  ASSERT_NO_FATAL_FAILURE(keep_on_mounted_volume(
      {"vol-0abc", {{"ed25519", misfit}, {"ecdsa", "garbage\n"}, {"rsa", rsa}}}));
  ASSERT_TRUE(unmount_tree(kVolumePoint));
  Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(shown_host_key(), misfit) << "else this test shows nothing: reading it is no proof";
  EXPECT_EQ(shown_host_key("ecdsa"), "none") << "shown before anybody has tried it";
  done = complete_host_keys(kVolumePoint, "vol-0abc", {});
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_NE(shown_host_key(), misfit);
  EXPECT_THAT(public_half_of_shown("ed25519"), testing::StartsWith("ssh-ed25519 "));
  EXPECT_THAT(public_half_of_shown("ecdsa"), testing::StartsWith("ecdsa-sha2-"));
  EXPECT_EQ(shown_host_key("rsa"), rsa) << "a good one stays";
  EXPECT_TRUE(undo_bring_up(assignment_));
}

TEST_F(BootHostKeys, a_volume_that_can_keep_no_host_keys_is_served_with_the_base_s) {
  make_volume("mkdir -p $t/var/lib/warmroot/host_keys/in-the-way");
  dress_as_disk();
  ASSERT_TRUE(shell("mkdir -p /etc/ssh; echo base >/etc/ssh/ssh_host_ed25519_key"));
  ASSERT_TRUE(show_base_host_keys());
  input_.node_host_keys = true;
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(shown_host_key(), "base\n");
  EXPECT_TRUE(undo_bring_up(assignment_));
}

TEST_F(BootHostKeys, a_key_file_that_links_to_somebody_else_s_secret_is_not_published) {
  make_volume("chmod 600 $t/etc/shadow; ln -sf /etc/shadow $t/home/ada/.ssh/authorized_keys");
  dress_as_disk();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(*read_file(std::string(kUserKeysDirectory) + "/ada", 65536),
            "ssh-ed25519 BBBB launch\n");
  EXPECT_TRUE(undo_bring_up(assignment_));
  EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
}

}  // namespace
}  // namespace warmroot::bootstrap
