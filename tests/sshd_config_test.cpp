#include "bootstrap/sshd_config.hpp"

#include <gmock/gmock.h>

#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;
using testing::Not;

BaseSshd keys_in(const std::string& authorized_keys) {
  BaseSshd base;
  base.authorized_keys = authorized_keys;
  return base;
}

TEST(SshdConfig, the_file_in_etc_holds_one_include_of_a_pattern_and_nothing_else) {
  std::string lines;
  const std::string text = sshd_drop_in();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (text[at] != '#') lines += text.substr(at, end - at + 1);
    at = end + 1;
  }
  EXPECT_EQ(lines, "Include /run/warmroot/sshd*.conf\n");
}

TEST(SshdConfig, the_pattern_matches_no_other_file_that_the_bootstrap_writes) {
  // resolv.conf in the same place once made sshd refuse to start.
  for (const std::string path :
       {kStatusFile, kLogFile, kPidFile, kKeyFile, kBannerFile, kResolvConf})
    EXPECT_NE(path.rfind("/run/warmroot/sshd", 0), 0u) << path;
  EXPECT_EQ(std::string(kSshdConfig).rfind("/run/warmroot/sshd", 0), 0u);
}

TEST(SshdConfig, sessions_go_through_the_link_and_never_set_a_subsystem) {
  const std::string text = sshd_config(keys_in(".ssh/authorized_keys"), {});
  EXPECT_THAT(text, HasSubstr("ChrootDirectory /run/warmroot/root\n"));
  EXPECT_THAT(text, HasSubstr("AuthorizedKeysFile .ssh/authorized_keys /run/warmroot/keys/%u\n"));
  EXPECT_THAT(text, Not(HasSubstr("Subsystem")));
}

TEST(SshdConfig, the_base_s_own_place_of_keys_stays_valid) {
  const auto keys_of = [](const std::vector<std::string>& texts) {
    return read_base_sshd(texts).authorized_keys;
  };
  const std::string fallback = ".ssh/authorized_keys .ssh/authorized_keys2";
  EXPECT_EQ(keys_of({}), fallback);
  EXPECT_EQ(keys_of({"#AuthorizedKeysFile /a\nPort 22\n"}), fallback);
  EXPECT_EQ(keys_of({"AuthorizedKeysFile /etc/keys/%u  .ssh/k # ours\r\n",
                     "AuthorizedKeysFile /later\n"}),
            "/etc/keys/%u  .ssh/k");
  EXPECT_EQ(keys_of({"Match User eve\n  AuthorizedKeysFile /eve\n", "\tauthorizedkeysfile=/b\n"}),
            "/b");
  EXPECT_THAT(sshd_config(keys_in("/etc/keys/%u"), {}),
              HasSubstr("AuthorizedKeysFile /etc/keys/%u /run/warmroot/keys/%u\n"));
  EXPECT_THAT(sshd_config(keys_in("none"), {}),
              HasSubstr("AuthorizedKeysFile /run/warmroot/keys/%u\n"));
}

TEST(SshdConfig, the_operator_s_group_comes_last_because_a_match_block_has_no_end) {
  const std::string text = sshd_config(keys_in(".ssh/authorized_keys"), {});
  const std::size_t match = text.find("Match Group warmroot-base\n");
  ASSERT_NE(match, std::string::npos);
  EXPECT_THAT(text.substr(match),
              testing::StartsWith("Match Group warmroot-base\n    ChrootDirectory none\n"));
}

TEST(SshdConfig, a_key_of_the_volume_opens_no_session_on_the_base) {
  const std::string text = sshd_config(keys_in(".ssh/authorized_keys"), {});
  const std::string block = text.substr(text.find("Match Group"));
  EXPECT_THAT(block, HasSubstr("    AuthorizedKeysFile .ssh/authorized_keys\n"));
  EXPECT_THAT(block, Not(HasSubstr(kUserKeysDirectory)));
}

TEST(SshdConfig, host_keys_are_read_below_the_link_only_where_that_is_wished) {
  const std::string text = sshd_config(BaseSshd{}, {true});
  for (const char* type : {"ed25519", "ecdsa", "rsa"})
    EXPECT_THAT(text, HasSubstr("HostKey /run/warmroot/host_keys/ssh_host_" + std::string(type) +
                                "_key\n"));
  EXPECT_LT(text.rfind("HostKey"), text.find("Match ")) << "it means nothing in a Match block";
  EXPECT_THAT(sshd_config(BaseSshd{}, {false}), Not(HasSubstr("HostKey")));
}

TEST(SshdConfig, the_rescue_port_is_off_unless_asked_for_and_takes_no_port_away) {
  EXPECT_THAT(sshd_config(BaseSshd{}, {}), Not(HasSubstr("Port")));
  EXPECT_THAT(sshd_config(BaseSshd{}, {false, 2222}), HasSubstr("\nPort 2222\nPort 22\nMatch "));
  const BaseSshd own = read_base_sshd({"Port 2022\n"});
  EXPECT_THAT(sshd_config(own, {false, 2222}), HasSubstr("\nPort 2222\nMatch "));
  EXPECT_FALSE(read_base_sshd({"Match LocalPort 1\nPort 2022\n#Port 3\n"}).names_ports);
}

TEST(SshdConfig, on_the_rescue_port_the_base_s_own_keys_open_the_base_and_nothing_else_does) {
  const std::string text = sshd_config(keys_in(".ssh/authorized_keys"), {true, 2222});
  const std::size_t start = text.find("Match LocalPort 2222\n");
  ASSERT_NE(start, std::string::npos);
  const std::size_t next = text.find("Match ", start + 1);
  EXPECT_EQ(text.substr(start, next - start),
            "Match LocalPort 2222\n    ChrootDirectory none\n"
            "    AuthorizedKeysFile .ssh/authorized_keys\n"
            "    AuthenticationMethods publickey\n    Banner none\n");
  EXPECT_EQ(text.find("HostKey"), text.find("HostKey /run")) << text;
  EXPECT_LT(text.rfind("HostKey"), start) << "it means nothing in a Match block";
}

struct Sshd {
  const char* version;
  const char* base_config;
  const char* reason;  ///< empty: it can
};
class NodeHostKeys : public testing::TestWithParam<Sshd> {};

TEST(NodeHostKeys, are_shown_by_a_second_sshd_where_the_first_reads_its_own_once) {
  const std::string each[] = {"OpenSSH_8.4p1 Debian-5", "OpenSSH_9.7p1"};
  for (const auto& version : each)
    EXPECT_EQ(host_key_reads(version), HostKeyReads::each_connection) << version;
  const std::string once[] = {"OpenSSH_9.8p1", "OpenSSH_10.0p2 Debian-7", "OpenSSH_11.1"};
  for (const auto& version : once)
    EXPECT_EQ(host_key_reads(version), HostKeyReads::once) << version;
  EXPECT_EQ(host_key_reads("dropbear"), HostKeyReads::unknown);
}

TEST_P(NodeHostKeys, are_shown_by_an_openssh_whose_configuration_names_none) {
  const auto why = why_no_node_host_keys(host_key_reads(GetParam().version),
                                         read_base_sshd({GetParam().base_config}));
  if (*GetParam().reason == '\0')
    EXPECT_EQ(why, std::nullopt);
  else
    EXPECT_THAT(why.value_or(""), HasSubstr(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(
    Table, NodeHostKeys,
    testing::Values(
        Sshd{"OpenSSH_9.2, OpenSSL 3.0.22 25 Aug 2026\n", "", ""},
        Sshd{"unknown option -- V\nOpenSSH_8.4p1 Debian-5, OpenSSL 1.1.1w\nusage: sshd ...", "",
             ""},
        Sshd{"OpenSSH_9.7p1", "#HostKey /etc/ssh/ssh_host_rsa_key\nMatch all\nHostKey /x\n", ""},
        Sshd{"OpenSSH_9.8p1", "", ""}, Sshd{"OpenSSH_10.0p2 Debian-7", "", ""},
        Sshd{"OpenSSH_10.0p2", "HostKey /etc/ssh/ssh_host_ed25519_key\n", "names its own"},
        Sshd{"OpenSSH_9.2p1", "HostKey /etc/ssh/ssh_host_ed25519_key\n", "names its own"},
        Sshd{"OpenSSH_9.2p1", "hostcertificate=/etc/ssh/cert.pub\n", "names its own"},
        Sshd{"dropbear", "", "not OpenSSH"}, Sshd{"", "", "not OpenSSH"}));

TEST(NodeHostKeys, are_not_shown_by_an_sshd_that_may_not_use_the_one_that_is_always_there) {
  // No key of an allowed algorithm: sshd ended at every connection, the operator's too.
  const auto why = [](const std::string& algorithms) {
    return why_no_node_host_keys(
               parse_sshd_facts("port 22\nhostkeyalgorithms " + algorithms + "\nusepam no\n"))
        .value_or("");
  };
  EXPECT_EQ(why("ssh-ed25519"), "");
  EXPECT_EQ(why("rsa-sha2-512,ssh-ed25519,rsa-sha2-256"), "");
  EXPECT_THAT(why("rsa-sha2-512,ecdsa-sha2-nistp256"), HasSubstr("leave ssh-ed25519 out"));
  EXPECT_THAT(why("ssh-ed25519-cert-v01@openssh.com,sk-ssh-ed25519@openssh.com"),
              HasSubstr("leave ssh-ed25519 out"));
  EXPECT_EQ(why_no_node_host_keys(parse_sshd_facts("port 22\n")), std::nullopt)
      << "sshd's default has it";
}

TEST(SshdFacts, are_read_from_the_dump) {
  const auto facts = parse_sshd_facts(
      "port 22\nlistenaddress [::]:22\nlistenaddress 0.0.0.0:2222\nusepam yes\nchrootdirectory "
      "/run/warmroot/root\n"
      "subsystem sftp /usr/lib/openssh/sftp-server -f AUTHPRIV\n");
  EXPECT_EQ(facts.chroot_directory, "/run/warmroot/root");
  EXPECT_EQ(facts.sftp_server, "/usr/lib/openssh/sftp-server");
  EXPECT_TRUE(facts.pam);
  EXPECT_THAT(facts.ports, testing::ElementsAre(22u, 2222u));
  EXPECT_TRUE(facts.everywhere);
  EXPECT_FALSE(parse_sshd_facts("listenaddress [::]:22\nlistenaddress 10.0.0.5:22\n").everywhere);
  EXPECT_TRUE(check_sshd_facts(facts));
}

TEST(SshdFacts, the_reason_of_a_refusal_is_not_a_host_key_that_is_made_later) {
  EXPECT_EQ(sshd_complaint("Unable to load host key: /run/warmroot/host_keys/ssh_host_rsa_key\r\n"
                           "Could not load host key: /x\n/etc/ssh/sshd_config line 3: Bad\nmore\n"),
            "/etc/ssh/sshd_config line 3: Bad");
  EXPECT_EQ(sshd_complaint("Unable to load host key: /x\n"), "");
  EXPECT_EQ(sshd_complaint("no line's end"), "no line's end");
  EXPECT_EQ(sshd_complaint("Unable to load host key: /x"), "") << "it never came to an end";
  EXPECT_EQ(sshd_complaint(""), "");
}

TEST(SshdFacts, internal_sftp_needs_no_program) {
  EXPECT_EQ(parse_sshd_facts("subsystem sftp internal-sftp\n").sftp_server, "");
}

TEST(SshdFacts, an_sshd_without_include_is_refused_with_the_remedy) {
  const auto checked = check_sshd_facts(parse_sshd_facts("chrootdirectory none\n"));
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().kind, ErrorKind::misconfigured);
  EXPECT_THAT(checked.error().message(), HasSubstr("OpenSSH 8.2"));
}

TEST(SshdFacts, a_chroot_of_the_base_s_own_is_refused) {
  const auto checked = check_sshd_facts(parse_sshd_facts("chrootdirectory /srv/jail\n"));
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message(), HasSubstr("/srv/jail"));
}

TEST(Banner, says_where_the_session_lands_and_why) {
  EXPECT_EQ(
      banner_text("imagenet", "Why: no disk"),
      "warmroot (pool imagenet): this session lands on the base system, not on the pool's volume.\n"
      "Why: no disk\n");
  EXPECT_EQ(banner_text("imagenet", "EC2 takes it back", Elsewhere::nowhere),
            "warmroot (pool imagenet): new sessions are refused.\nEC2 takes it back\n");
}

}  // namespace
}  // namespace warmroot::bootstrap
