// What the volume's own sshd and its PAM would wait for at a login, found before they run.
#include "bootstrap/own_sshd_reads.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/own_sshd_files.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// A root as Debian has it, of empty files but for what includes others.
class OwnSshdReads : public testing::Test {
 protected:
  OwnSshdReads() {
    for (const char* path :
         {"etc/passwd", "etc/group", "etc/environment", "etc/ssh/ssh_host_ed25519_key",
          "etc/ssh/sshd_config.d/9.conf", "etc/security/limits.conf", "etc/pam.d/common-session"})
      put(path, "");
    put("etc/ssh/sshd_config", "Include /etc/ssh/sshd_config.d/*.conf\nUsePAM yes\n");
    put("etc/pam.d/sshd", "# include none\n@include common-auth\nsession required pam_env.so\n");
    put("etc/pam.d/common-auth", "auth [success=1 default=ignore] pam_unix.so nullok\n");
  }

  std::string at(const std::string& path) const { return directory_.path() + "/" + path; }
  void put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(at(path)).parent_path());
    std::ofstream(at(path)) << text;
  }
  void put_pipe(const std::string& path) const {
    std::filesystem::create_directories(std::filesystem::path(at(path)).parent_path());
    std::filesystem::remove(at(path));
    ASSERT_EQ(::mkfifo(at(path).c_str(), 0644), 0) << path;
  }

  /// The sentence; empty where nothing speaks against it. It ends soon, and writes on no terminal.
  std::string said(const std::vector<std::string>& options = {}) const {
    constexpr std::chrono::seconds kSoon{20};  // some milliseconds, on a machine that does nothing
    const auto start = std::chrono::steady_clock::now();
    const auto root = RootDirectory::open(directory_.path());
    if (!root) return root.error().message();
    const Ok checked = check_own_sshd_reads(*root, options);
    EXPECT_LT(std::chrono::steady_clock::now() - start, kSoon);
    if (checked) return {};
    EXPECT_EQ(checked.error().message(), without_controls(checked.error().message()));
    EXPECT_LT(checked.error().message().size(), 400u);
    return checked.error().message();
  }
  static std::string no_file(const std::string& path) {
    return path + " in the volume is no regular file";
  }

  const TemporaryDirectory directory_;
};

TEST_F(OwnSshdReads, a_root_as_it_should_be_and_one_without_any_file_are_fit) {
  EXPECT_EQ(said(), "");
  std::filesystem::remove_all(at("etc"));
  EXPECT_EQ(said(), "");
}

/// A login waited at it, for as long as sshd lets one take.
TEST_F(OwnSshdReads, a_pipe_where_a_login_reads_is_named) {
  for (const char* path : {"etc/passwd",
                           "etc/group",
                           "etc/shadow",
                           "etc/nsswitch.conf",
                           "etc/host.conf",
                           "etc/hosts.allow",
                           "etc/hosts.deny",
                           "etc/nologin",
                           "etc/environment",
                           "etc/default/locale",
                           "etc/login.defs",
                           "etc/localtime",
                           "etc/motd",
                           "etc/pam.conf",
                           "etc/ssh/moduli",
                           "etc/ssh/sshrc",
                           "etc/ssh/sshd_config",
                           "etc/ssh/ssh_host_rsa_key.pub",
                           "etc/ssh/sshd_config.d/8.conf",
                           "etc/security/limits.conf",
                           "etc/security/pam_env.conf",
                           "etc/security/limits.d/9.conf",
                           "etc/pam.d/sshd",
                           "etc/pam.d/other",
                           "etc/pam.d/common-auth",
                           "usr/lib/pam.d/common-auth"}) {
    const std::filesystem::path kept = at(std::string(path) + ".kept");
    const bool was_there = std::filesystem::exists(at(path));
    if (was_there) std::filesystem::rename(at(path), kept);
    put_pipe(path);
    EXPECT_EQ(said(), no_file(std::string("/") + path));
    std::filesystem::remove(at(path));
    if (was_there) std::filesystem::rename(kept, at(path));
    EXPECT_EQ(said(), "") << path;
  }
}

TEST_F(OwnSshdReads, a_pipe_behind_includes_of_includes_is_named) {
  put("etc/pam.d/common-auth", "auth substack \\\n  /etc/authselect/first\n");
  put("etc/authselect/first", "-auth  INCLUDE\tsecond\n");
  put("usr/lib/pam.d/second", "@include ../third");
  put_pipe("etc/third");
  EXPECT_EQ(said(), no_file("/etc/pam.d/../third"));
  std::filesystem::remove(at("etc/third"));
  put("etc/ssh/sshd_config.d/9.conf", "Match User ada\n  Include more\n");
  put("etc/ssh/more", "Include /usr/*/ssh?/[a-z]*.txt\n");
  put("usr/share/ssh1/no.text", "");
  EXPECT_EQ(said(), "");
  put_pipe("usr/share/ssh1/last.txt");
  EXPECT_EQ(said(), no_file("/usr/share/ssh1/last.txt"));
}

TEST_F(OwnSshdReads, a_pipe_that_an_option_of_its_sshd_names_is_named) {
  put_pipe("etc/other");
  EXPECT_EQ(said({"-f", "/etc/other"}), no_file("/etc/other"));
  EXPECT_EQ(said({"-o", "Banner=/etc/other"}), no_file("/etc/other"));
  put("etc/own", "Include /etc/oth*\n");
  EXPECT_EQ(said(), "");
  EXPECT_EQ(said({"-u", "0", "-f", "/etc/own"}), no_file("/etc/other"));
}

TEST_F(OwnSshdReads, a_link_is_followed_inside_the_volume_and_one_to_nothing_is_nothing) {
  put_pipe("pipe");
  put("file", "");
  const auto led_to = [this](const std::string& target) {
    std::filesystem::remove(at("etc/environment"));
    std::filesystem::create_symlink(target, at("etc/environment"));
    return said();
  };
  EXPECT_EQ(led_to("/pipe"), no_file("/etc/environment"));
  EXPECT_EQ(led_to("../../../../../../pipe"), no_file("/etc/environment"));
  EXPECT_EQ(led_to("/file"), "");
  EXPECT_EQ(led_to(at("pipe")), "") << "the volume has no such directory";
  EXPECT_EQ(led_to("/etc/passwd/none"), "") << "nor is a file one";
  EXPECT_EQ(led_to("environment"), "/etc/environment in the volume cannot be looked at (ELOOP)");
}

TEST_F(OwnSshdReads, a_directory_that_is_included_is_read_by_nobody) {
  std::filesystem::create_directory(at("etc/ssh/sshd_config.d/old.conf"));
  EXPECT_EQ(said(), "");
  std::filesystem::remove_all(at("etc/ssh/sshd_config.d"));
  put_pipe("etc/ssh/sshd_config.d");
  EXPECT_EQ(said(), "") << "sshd looks for names in it";
}

TEST_F(OwnSshdReads, a_name_that_would_write_on_a_terminal_does_not) {
  put_pipe("etc/ssh/sshd_config.d/new\nline\033[2J.conf");
  EXPECT_EQ(said(), no_file("/etc/ssh/sshd_config.d/new line [2J.conf"));
  put("etc/ssh/sshd_config", "Banner \"/etc/\033]0;title\007" + std::string(3000, 'x') + "\"\n");
  EXPECT_THAT(said(), HasSubstr("/etc/ ]0;title xxx"));
}

/// sshd reads each of them for each login, and so would the check.
TEST_F(OwnSshdReads, what_is_too_much_for_a_login_is_refused_in_time) {
  put("etc/login.defs", std::string((4 << 20) + 1, '\n'));
  EXPECT_EQ(said(), "/etc/login.defs in the volume is longer than 4 MiB");
  std::filesystem::remove(at("etc/login.defs"));

  put("etc/ssh/sshd_config", "Include sshd_config *\nInclude sshd_config.d/../sshd_config\n");
  EXPECT_EQ(said(), "") << "a file that includes itself is read once, or twice";
  put("etc/ssh/sshd_config", "Include ./sshd_config ././sshd_config\n" + std::string(3 << 20, '#'));
  EXPECT_EQ(said(), "the configuration of the volume's sshd is longer than 8 MiB");

  std::string many = "Include";
  for (int i = 0; i < 2000; ++i) many += " " + std::to_string(i);
  put("etc/ssh/sshd_config", many);
  EXPECT_EQ(said(), "the volume's sshd would read more than 1000 files at a login");
  put("etc/ssh/sshd_config", "Include *" + std::string(2000, '?') + std::string(2000, '*') + "x\n");
  EXPECT_EQ(said(), "");

  for (int i = 0; i < 2001; ++i) put("etc/security/" + std::to_string(i), "");
  EXPECT_EQ(said(), "/etc/security in the volume has too many names");
}

TEST(OwnSshdFiles, lines_of_sshd_config_are_read_as_sshd_does) {
  const auto included = [](const std::string& line) { return files_of_sshd_config(line).included; };
  EXPECT_THAT(included("  include\t/a  b # /c"), ElementsAre("/a", "/etc/ssh/b"));
  EXPECT_THAT(included("Include=/a=b\r"), ElementsAre("/a=b"));
  EXPECT_THAT(included("\"INCLUDE\" = \"/a b\" '/c'"), ElementsAre("/a b", "/c"));
  EXPECT_THAT(included("Include /a\\ b"), ElementsAre("/a\\ b"));
  EXPECT_THAT(included("#Include /a\nIncludes /b\nInclude\nInclude " + std::string(5000, 'a')),
              IsEmpty());
  EXPECT_THAT(included("Port 22\nInclude /a\n\nInclude /b"), ElementsAre("/a", "/b"));
  std::string many = "Include";
  for (int i = 0; i < 5000; ++i) many += " /a";
  EXPECT_THAT(included(many), SizeIs(kMostNamedFiles + 1));
  EXPECT_THAT(files_of_sshd_config("Banner none\nHostKey /a\nHostKey __PROGRAMDATA__/b\n"
                                   "trustedUserCAKeys=/c /d\nForceCommand /e\n")
                  .read,
              ElementsAre("/a", "/c"));
}

TEST(OwnSshdFiles, lines_of_pam_are_read_as_pam_does) {
  EXPECT_THAT(files_of_pam("@include a\n  auth include /b\n"),
              ElementsAre("/etc/pam.d/a", "/usr/lib/pam.d/a", "/b"));
  EXPECT_THAT(files_of_pam("session \\\n substack \\\n /a"), ElementsAre("/a"));
  EXPECT_THAT(files_of_pam("auth required include.so include\n# auth include /a\n@include\n"
                           "auth include\n\\"),
              IsEmpty());
}

TEST(OwnSshdFiles, a_part_of_a_pattern_takes_what_glob_may_and_no_time) {
  for (const char* part : {"*.conf", "5?*", "50-a.con[f]", "50-\\a.conf", "**", "50-a.conf*"})
    EXPECT_TRUE(glob_may_match(part, "50-a.conf")) << part;
  for (const char* part : {"*.con", "?.conf", "51*", "", "6[0]*"})
    EXPECT_FALSE(glob_may_match(part, "50-a.conf")) << part;
  EXPECT_FALSE(glob_may_match("*", ".hidden"));
  EXPECT_TRUE(glob_may_match(".*", ".hidden"));
  EXPECT_TRUE(glob_may_match("*a*ab", "xaaab"));
  std::string slow;
  for (int i = 0; i < 100; ++i) slow += "*a";
  EXPECT_FALSE(glob_may_match(slow + "*b", std::string(255, 'a')));
  EXPECT_TRUE(is_glob("a?") && is_glob("[a") && is_glob("\\a") && !is_glob("a-b.conf"));
}

}  // namespace
}  // namespace warmroot::bootstrap
