// What the volume's own sshd is asked and told, and what is made of its answers.
#include "bootstrap/own_sshd_plan.hpp"

#include <gmock/gmock.h>

namespace warmroot::bootstrap {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

TEST(OwnSshd, is_started_on_loopback_whatever_ports_its_configuration_names) {
  EXPECT_EQ(joined(own_sshd_command({4711, false, false, ""})),
            "/usr/sbin/sshd -D -e -p 4711 -o AddressFamily=any -o ListenAddress=127.0.0.1:4711");
  EXPECT_THAT(joined(own_sshd_command({4711, true, false, ""})),
              HasSubstr("-o ListenAddress=127.0.0.1:4711 -o ListenAddress=[::1]:4711"));
}

TEST(OwnSshd, shows_the_node_s_host_keys_where_there_are_some) {
  EXPECT_THAT(joined(own_sshd_question({4711, true, true, ""})),
              HasSubstr("-o HostKey=/run/warmroot/host_keys/ssh_host_ed25519_key -o "
                        "HostKey=/run/warmroot/host_keys/ssh_host_ecdsa_key"));
}

TEST(OwnSshd, takes_the_launch_key_beside_the_keys_that_it_is_configured_to) {
  EXPECT_THAT(own_sshd_options({1, false, false, ".ssh/authorized_keys /etc/keys/%u"}).back(),
              "AuthorizedKeysFile=.ssh/authorized_keys /etc/keys/%u /run/warmroot/launch_keys/%u");
  EXPECT_THAT(own_sshd_options({1, false, false, "none"}).back(),
              "AuthorizedKeysFile=/run/warmroot/launch_keys/%u");
}

TEST(OwnSshd, tells_its_key_files_and_where_it_listens) {
  const OwnSshdFacts facts = parse_own_sshd_facts(
      "Unable to load host key: /run/x\nport 22\nauthorizedkeysfile .ssh/a .ssh/b\n"
      "listenaddress 127.0.0.1:4711\nlistenaddress [::]:2022\n");
  EXPECT_EQ(facts.authorized_keys, ".ssh/a .ssh/b");
  EXPECT_THAT(facts.ports, ElementsAre(4711, 2022));
  EXPECT_EQ(parse_own_sshd_facts("authorizedkeysfile none").authorized_keys, "none");
  EXPECT_EQ(parse_own_sshd_facts("").authorized_keys, "");
}

TEST(OwnSshd, may_listen_anywhere_but_where_the_base_does) {
  EXPECT_TRUE(check_own_sshd_facts({"", {4711, 2022}}, {22, 2222}, true));
  const Ok taken = check_own_sshd_facts({"", {4711, 22}}, {22}, true);
  ASSERT_FALSE(taken);
  EXPECT_THAT(taken.error().message(), HasSubstr("a ListenAddress line with port 22"));
}

TEST(OwnSshd, that_may_not_use_the_node_s_first_key_would_keep_everybody_out) {
  const OwnSshdFacts facts = parse_own_sshd_facts("hostkeyalgorithms rsa-sha2-512,ecdsa-x\n");
  EXPECT_THAT(check_own_sshd_facts(facts, {22}, true).error().message(), HasSubstr("ssh-ed25519"));
  EXPECT_TRUE(check_own_sshd_facts(facts, {22}, false));
  EXPECT_TRUE(check_own_sshd_facts(
      parse_own_sshd_facts("hostkeyalgorithms rsa-sha2-512,ssh-ed25519\n"), {22}, true));
}

/// Each line of the file adds one to those of the command line.
TEST(OwnSshd, that_shows_a_host_key_of_its_image_beside_the_node_s_is_none_for_the_node) {
  const std::string nodes =
      "hostkeyagent none\nhostkey /run/warmroot/host_keys/ssh_host_ed25519_key\n"
      "hostkey /run/warmroot/host_keys/ssh_host_ecdsa_key\n"
      "hostkey /run/warmroot/host_keys/ssh_host_rsa_key\nhostcertificate (null)\n"
      "hostcertificate none\n";
  EXPECT_TRUE(check_own_sshd_facts(parse_own_sshd_facts(nodes), {22}, true));
  const std::pair<const char*, const char*> table[] = {
      {"hostkey /etc/ssh/ssh_host_ed25519_key\n", "HostKey /etc/ssh/ssh_host_ed25519_key\""},
      {"hostkey /run/warmroot/host_keys/../../../etc/ssh/key\n", "HostKey /run/warmroot/host_keys"},
      {"hostcertificate /etc/ssh/cert.pub\n", "HostCertificate /etc/ssh/cert.pub"},
      {"hostkeyagent SSH_AUTH_SOCK\n", "HostKeyAgent SSH_AUTH_SOCK"},
  };
  for (const auto& [line, told] : table) {
    const OwnSshdFacts facts = parse_own_sshd_facts(nodes + line);
    const Ok shown = check_own_sshd_facts(facts, {22}, true);
    ASSERT_FALSE(shown) << line;
    EXPECT_THAT(shown.error().message(), HasSubstr(told));
    EXPECT_TRUE(check_own_sshd_facts(facts, {22}, false)) << "it shows its own then";
  }
}

TEST(OwnSshd, that_can_be_reached_beside_the_base_s_port_is_remarked_on) {
  const std::string ours = "listenaddress 127.0.0.1:4711\nlistenaddress [::1]:4711\n";
  EXPECT_EQ(remark_on_addresses(parse_own_sshd_facts(ours)), "");
  EXPECT_EQ(remark_on_addresses(parse_own_sshd_facts(ours + "listenaddress 127.0.0.2:2022\n")), "");
  EXPECT_THAT(remark_on_addresses(parse_own_sshd_facts(
                  ours + "listenaddress 0.0.0.0:4711\nlistenaddress [::]:4711\n")),
              HasSubstr("can be reached at 0.0.0.0:4711, [::]:4711, too"));
}

TEST(OwnSshd, tells_whether_a_login_can_be_tried_and_by_what_key) {
  const std::string keys = "authorizedkeysfile .ssh/keys /run/warmroot/launch_keys/%u\n";
  struct Case {
    std::string dump;
    const char* key_type;
    const char* why_not;
    bool is_for_all;
  };
  const Case table[] = {
      {keys, "ed25519", "", true},
      {keys + "pubkeyauthentication yes\nauthenticationmethods any\n", "ed25519", "", true},
      {keys + "pubkeyauthentication no\n", "ed25519", "a key does not begin one", true},
      {keys + "authenticationmethods password keyboard-interactive\n", "ed25519",
       "a key does not begin one", true},
      {keys + "authenticationmethods password,publickey\n", "ed25519", "a key does not begin one",
       true},
      {keys + "authenticationmethods publickey,password\n", "ed25519", "", true},
      {keys + "authenticationmethods hostbased publickey\n", "ed25519", "", true},
      {"authorizedkeysfile /etc/ssh/keys/%u\n", "ed25519", "its keys are elsewhere", true},
      {keys + "pubkeyacceptedalgorithms ssh-ed25519-cert-v01@openssh.com,ecdsa-sha2-nistp256\n",
       "ecdsa", "", true},
      {keys + "pubkeyacceptedkeytypes rsa-sha2-512\n", "rsa", "", true},
      {keys + "pubkeyacceptedalgorithms rsa-sha2-512,ssh-ed25519\n", "ed25519", "", true},
      {keys + "pubkeyacceptedalgorithms sk-ssh-ed25519@openssh.com,ssh-rsa\n", "",
       "it takes no plain key", true},
      {keys + "authorizedkeyscommand none\n", "ed25519", "", true},
      {keys + "authorizedkeyscommand /usr/bin/sss_ssh_authorizedkeys\n", "ed25519", "", false},
      {keys + "allowusers ada\nallowusers bob@10.0.0.0/8\n", "ed25519", "", false},
      {keys + "denyusers *@192.0.2.1\n", "ed25519", "", false},
      {keys + "allowusers ada\nx y@z\n", "ed25519", "", true},
  };
  for (const Case& c : table) {
    const TrialFacts facts = parse_trial_facts(c.dump);
    EXPECT_EQ(facts.key_type, c.key_type) << c.dump;
    EXPECT_EQ(facts.why_not, c.why_not) << c.dump;
    EXPECT_EQ(facts.is_for_all, c.is_for_all) << c.dump;
  }
  EXPECT_THAT(joined(trial_question({4711, false, false, ".ssh/a"}, "ada")),
              testing::StartsWith("/usr/sbin/sshd -T -C user=ada,host=localhost,addr=127.0.0.1,"
                                  "laddr=127.0.0.1,lport=4711 -p 4711 -o "));
}

TEST(OwnSshd, is_tried_with_a_key_that_opens_nothing_by_a_client_that_reads_nothing) {
  EXPECT_EQ(trial_key_line("ssh-ed25519 AAAA"), "restrict,command=\"true\" ssh-ed25519 AAAA");
  const std::string command =
      joined(trial_command("/usr/bin/ssh", "/run/key", "/run/log", "-oops", 4711));
  EXPECT_THAT(command,
              testing::StartsWith("/usr/bin/ssh -F none -T -E /run/log -i /run/key -p 4711 -o "));
  EXPECT_THAT(command, testing::EndsWith("-l -oops 127.0.0.1 true"));
}

TEST(OwnSshd, lets_people_in_or_says_why_not) {
  const std::string added = "Warning: Permanently added '[127.0.0.1]:4711' to known hosts.\r\n";
  const std::string taken =
      added + "Authenticated to 127.0.0.1 ([127.0.0.1]:4711) using \"publickey\".\r\n";
  const std::string done =
      "Transferred: sent 2, received 3 bytes, in 0.0 seconds\nBytes per second: sent 4\n";
  struct Case {
    std::optional<int> exit_status;
    std::string said;
    TrialVerdict verdict;
    std::string reason;
  };
  const Case table[] = {
      {0, taken + done, TrialVerdict::in, ""},
      // A ForceCommand that is not there, that says no, that goes on for ever.
      {127, taken + done, TrialVerdict::in, ""},
      {255, taken + done, TrialVerdict::in, ""},
      {std::nullopt, taken, TrialVerdict::in, ""},
      {254, taken + done, TrialVerdict::out, "its PAM, or its /etc/nologin, allows no session"},
      {255, taken + "Connection to 127.0.0.1 closed by remote host.\r\n" + done, TrialVerdict::out,
       "Connection to 127.0.0.1 closed by remote host."},
      {255, added + "ada@127.0.0.1: Permission denied (publickey).\r\n", TrialVerdict::out,
       "ada@127.0.0.1: Permission denied (publickey)."},
      {255, added + "Connection closed by 127.0.0.1 port 4711\r\n", TrialVerdict::out,
       "Connection closed by 127.0.0.1 port 4711"},
      {255,
       "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by "
       "127.0.0.1 port 4711\r\n",
       TrialVerdict::unknown, "Connection closed by 127.0.0.1 port 4711"},
      {255, "Unable to negotiate with 127.0.0.1 port 4711: no matching cipher found.\r\n",
       TrialVerdict::unknown,
       "Unable to negotiate with 127.0.0.1 port 4711: no matching cipher found."},
      {255,
       added + "Authenticated using \"publickey\" with partial success.\r\nada@127.0.0.1: "
               "Permission denied (password).\r\n",
       TrialVerdict::unknown, "more than a key is asked for"},
      {std::nullopt, added, TrialVerdict::unknown, "it took too long"},
      {0, "", TrialVerdict::unknown, ""},
      {255, "Permission denied" + std::string(999, 'x') + "\x1b[2J", TrialVerdict::out,
       "Permission denied" + std::string(183, 'x')},
  };
  for (const Case& c : table) {
    const TrialAnswer answer = judge_trial(c.exit_status, c.said);
    EXPECT_EQ(answer.verdict, c.verdict) << c.said;
    EXPECT_EQ(answer.reason, c.reason);
  }
}

TEST(OwnSshd, gives_the_launch_key_to_people_alone) {
  const auto people = people_of(
      "root:x:0:0::/root:/bin/bash\nada:x:1000:1000::/home/ada:/bin/sh\n"
      "bot:x:1001:1001::/home/bot:/usr/sbin/nologin\nnobody:x:65534:65534::/:/bin/sh\n");
  ASSERT_EQ(people.size(), 1u);
  EXPECT_EQ(people[0].name, "ada");
}

// ---- options of the volume's unit ----

struct OwnUnitCase {
  const char* name;
  std::string command;
  const char* options;        ///< that are honoured
  const char* left_out;       ///< and that are said
  const char* defaults = "";  ///< etc/default/ssh
};

class OwnSshdOptions : public testing::TestWithParam<OwnUnitCase> {};

/// They were not honoured: people met another sshd than on the volume's own machine.
TEST_P(OwnSshdOptions, of_the_volume_s_unit_count_or_are_said) {
  const auto& c = GetParam();
  const UnitOptions found = own_unit_options(c.command, {c.defaults, "OPTIONS=-u0\n"});
  EXPECT_EQ(joined(found.options), c.options);
  EXPECT_EQ(joined(found.left_out), c.left_out);
  EXPECT_EQ(remark_on_options(found).empty(), found.left_out.empty());
}

/// The command line of a unit.
std::string sshd(const std::string& options) {
  return "/usr/sbin/sshd " + options;
}

INSTANTIATE_TEST_SUITE_P(
    Table, OwnSshdOptions,
    testing::Values(
        OwnUnitCase{"stock", kUnitCommand, "-o LogLevel=VERBOSE -u 0", "",
                    "SSHD_OPTS=-oLogLevel=VERBOSE"},
        OwnUnitCase{"debian", sshd("-D $SSHD_OPTS"), "-o MaxStartups=100", "",
                    "# Options\nSSHD_OPTS=\"-o MaxStartups=100 -4 -p 2222\"\n"},
        OwnUnitCase{"red_hat", sshd("-D $OPTIONS $CRYPTO_POLICY"), "-u 0", ""},
        OwnUnitCase{"another_configuration", sshd("-f /etc/ssh/own"), "-f /etc/ssh/own", ""},
        OwnUnitCase{"instance_connect", sshd("-D -o \"AuthorizedKeysCommand /eic %%u %%f\""),
                    "-o AuthorizedKeysCommand /eic %u %f", ""},
        OwnUnitCase{"ports_and_keys",
                    sshd("-o ListenAddress=0.0.0.0 -o \"port 22\" -h /k -o HostKey=/k "
                         "-o HostDSAKey=/k -o LogLevel=INFO"),
                    "-o LogLevel=INFO",
                    "-o ListenAddress=0.0.0.0 -o port 22 -h /k -o HostKey=/k -o HostDSAKey=/k"},
        OwnUnitCase{"another_way_to_run", sshd("-i -d -E /log -f own -q"), "",
                    "-i -d -E /log -f own -q"},
        OwnUnitCase{"a_wrapper", "/bin/sh -c 'exec sshd -D'", "", "/bin/sh -c exec sshd -D"},
        OwnUnitCase{"no_option", sshd("-u0 own"), "", "/usr/sbin/sshd -u0 own"},
        OwnUnitCase{"no_value", sshd("-u0 -o"), "", "/usr/sbin/sshd -u0 -o"},
        OwnUnitCase{"a_quoted_keyword", sshd("-o '\"Port\" 22' -o ' Port 22'"), "",
                    "-o \"Port\" 22 -o  Port 22"},
        OwnUnitCase{"no_plain_word", sshd("-o 'Banner /a\x1b[2J'"), "",
                    "/usr/sbin/sshd -o Banner /a\x1b[2J"},
        OwnUnitCase{"a_variable_in_a_word", sshd("-o Banner=${WHERE}"), "",
                    "/usr/sbin/sshd -o Banner=${WHERE}"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(OwnSshd, is_asked_and_started_with_its_unit_s_options_after_ours) {
  OwnSshdWishes wishes;
  wishes.port = 4022;
  wishes.options = {"-u", "0"};
  for (const auto& words :
       {own_sshd_question(wishes), own_sshd_command(wishes), trial_question(wishes, "ada")})
    EXPECT_THAT(joined(words), testing::EndsWith("-o ListenAddress=127.0.0.1:4022 -u 0"));
}

TEST(OwnSshd, a_remark_on_its_options_is_short_and_has_no_control_bytes) {
  const std::string remark =
      remark_on_options({{}, {std::string(5000, 'x'), std::string("\x1b[2J")}});
  EXPECT_LT(remark.size(), 300u);
  EXPECT_EQ(remark_on_options({{}, {"\x1b[2J"}}).find('\x1b'), std::string::npos);
}

// ---- a second sshd of the base ----

struct Unit {
  const char* name;
  const char* text;
  std::vector<std::string> options;
};

class SshdUnit : public testing::TestWithParam<Unit> {};

TEST_P(SshdUnit, gives_its_sshd_these_options) {
  const auto options = sshd_options_of_unit(
      GetParam().text, {"# Options\nSSHD_OPTS=\"-o LogLevel=VERBOSE\"\n", "OPTIONS=-u0\n"});
  ASSERT_TRUE(options) << options.error().message();
  EXPECT_EQ(*options, GetParam().options);
}

INSTANTIATE_TEST_SUITE_P(
    Table, SshdUnit,
    testing::Values(
        Unit{"none", "", {}},
        Unit{"debian",
             "# /lib/systemd/system/ssh.service\n[Service]\nEnvironmentFile=-/etc/default/ssh\n"
             "ExecStartPre=/usr/sbin/sshd -t\nExecStart=/usr/sbin/sshd -D $SSHD_OPTS\n"
             "ExecReload=/usr/sbin/sshd -t\n",
             {"-o", "LogLevel=VERBOSE"}},
        Unit{"red_hat", "ExecStart=/usr/sbin/sshd -D $OPTIONS $CRYPTO_POLICY", {"-u0"}},
        // Ubuntu's package ec2-instance-connect.
        Unit{"instance_connect",
             "ExecStart=/usr/sbin/sshd -D $SSHD_OPTS\n# drop-in\n[Service]\nExecStart=\n"
             "ExecStart=/usr/sbin/sshd -D -o \"AuthorizedKeysCommand /usr/share/eic %%u %%f\" \\\n"
             "  -o 'AuthorizedKeysCommandUser ec2-instance-connect' ${UNSET}\n",
             {"-o", "AuthorizedKeysCommand /usr/share/eic %u %f", "-o",
              "AuthorizedKeysCommandUser ec2-instance-connect"}},
        Unit{"ports_and_log", "ExecStart=-/usr/sbin/sshd -D -e -p 2222 -4\n", {"-4"}}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(SecondSshd, is_none_where_the_unit_chooses_addresses_or_host_keys) {
  for (const char* option : {"-o ListenAddress=10.0.0.5", "-o \"listenaddress 10.0.0.5\"",
                             "-h /etc/ssh/key", "-o HostKey=/etc/ssh/key"})
    EXPECT_FALSE(sshd_options_of_unit(std::string("ExecStart=/usr/sbin/sshd -D ") + option, {}))
        << option;
}

/// Of a base whose configuration says so, whatever port the command line names.
TEST(SecondSshd, is_none_that_could_take_the_base_s_port_or_be_reached_from_outside) {
  const std::string ours = "listenaddress 127.0.0.1:4022\nlistenaddress [::1]:4022\n";
  EXPECT_TRUE(check_second_sshd_facts(parse_own_sshd_facts(ours), 4022));
  for (const char* address : {"0.0.0.0:22", "[::]:22", "127.0.0.1:22", "0.0.0.0:4022",
                              "10.0.0.5:4022", "127.0.0.1:14022", "127.0.0.1:4022 rdomain blue"}) {
    const Ok alone = check_second_sshd_facts(
        parse_own_sshd_facts(ours + "listenaddress " + address + "\n"), 4022);
    ASSERT_FALSE(alone) << address;
    EXPECT_THAT(alone.error().message(), HasSubstr("would listen at " + std::string(address)));
  }
}

TEST(SecondSshd, is_asked_with_the_options_that_it_would_be_started_with) {
  OwnSshdWishes wishes;
  wishes.port = 4022;
  const auto question = second_sshd_question("/usr/sbin/sshd", wishes, {"-u0"});
  EXPECT_THAT(joined(question), testing::StartsWith("/usr/sbin/sshd -T -C user="));
  EXPECT_THAT(joined(question), testing::EndsWith("-o ListenAddress=127.0.0.1:4022 -u0"));
}

TEST(SecondSshd, leaves_the_first_one_s_process_file_alone_and_is_on_loopback) {
  OwnSshdWishes wishes;
  wishes.port = 4022;
  const auto words = second_sshd_command("/usr/sbin/sshd", wishes, {"-u0"});
  EXPECT_EQ(words.front(), "/usr/sbin/sshd");
  EXPECT_EQ(words.back(), "-u0");
  EXPECT_THAT(
      words, testing::IsSupersetOf({"-D", "PidFile=none", "4022", "ListenAddress=127.0.0.1:4022"}));
}

}  // namespace
}  // namespace warmroot::bootstrap
