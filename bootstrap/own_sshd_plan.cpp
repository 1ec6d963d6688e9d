#include "bootstrap/own_sshd_plan.hpp"

#include <algorithm>
#include <cstdlib>

#include "bootstrap/host_key_document.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/sshd_config.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kMostTrialPeople = 3;

/// The value of a keyword in an answer of `sshd -T`; empty where it is not there.
std::string_view value_of(std::string_view dump, std::string_view keyword) {
  while (!dump.empty()) {
    const std::string_view line = dump.substr(0, dump.find('\n'));
    if (line.substr(0, keyword.size()) == keyword && line.substr(keyword.size(), 1) == " ")
      return line.substr(keyword.size() + 1);
    dump.remove_prefix(std::min(line.size() + 1, dump.size()));
  }
  return {};
}

/// Whether a key alone, or first, gets anybody in.
bool begins_with_key(std::string_view dump) {
  if (value_of(dump, "pubkeyauthentication") == "no") return false;
  const std::string methods = " " + std::string(value_of(dump, "authenticationmethods"));
  return methods == " " || methods == " any" || methods.find(" publickey") != std::string::npos;
}

std::string login_key_type(std::string_view dump) {
  if (!begins_with_key(dump)) return {};
  std::string_view accepted = value_of(dump, "pubkeyacceptedalgorithms");
  // Its name before OpenSSH 8.5.
  if (accepted.empty()) accepted = value_of(dump, "pubkeyacceptedkeytypes");
  const std::string list = "," + std::string(accepted) + ",";
  if (accepted.empty() || list.find(",ssh-ed25519,") != std::string::npos) return "ed25519";
  return list.find(",ecdsa-sha2-nistp256,") != std::string::npos ? "ecdsa" : "rsa";
}

/// The last line that says more than how long it took.
std::string_view last_word(std::string_view output) {
  std::string_view last;
  while (!output.empty()) {
    const std::string_view line = output.substr(0, output.find('\n'));
    output.remove_prefix(std::min(line.size() + 1, output.size()));
    const std::string_view word = line.substr(0, line.find_last_not_of("\r") + 1);
    if (!word.empty() && !word.starts_with("Transferred: ") &&
        !word.starts_with("Bytes per second"))
      last = word;
  }
  return last;
}

}  // namespace

OwnSshdFacts parse_own_sshd_facts(std::string_view dump) {
  OwnSshdFacts facts;
  const SshdFacts listed = parse_sshd_facts(dump);
  facts.ed25519 = listed.ed25519;
  for (const unsigned port : listed.ports) facts.ports.push_back(static_cast<std::uint16_t>(port));
  facts.authorized_keys = value_of(dump, "authorizedkeysfile");
  facts.login_key_type = login_key_type(dump);
  return facts;
}

std::vector<std::string> own_sshd_options(const OwnSshdWishes& wishes) {
  const std::string port = std::to_string(wishes.port);
  // -p: the file's own Port lines would be the base's port, and so would its ListenAddress lines.
  std::vector<std::string> words{
      "-p", port, "-o", "AddressFamily=any", "-o", "ListenAddress=127.0.0.1:" + port};
  if (wishes.v6) words.insert(words.end(), {"-o", "ListenAddress=[::1]:" + port});
  if (wishes.node_host_keys)
    for (const char* type : kHostKeyTypes)
      words.insert(words.end(),
                   {"-o", std::string("HostKey=") + kHostKeys + "/ssh_host_" + type + "_key"});
  if (!wishes.authorized_keys.empty()) {
    const std::string own = wishes.authorized_keys == "none" ? "" : wishes.authorized_keys + " ";
    words.insert(words.end(), {"-o", "AuthorizedKeysFile=" + own + kLaunchKeys + "/%u"});
  }
  return words;
}

std::vector<std::string> own_sshd_question(const OwnSshdWishes& wishes) {
  std::vector<std::string> words{kOwnSshd, "-T", "-C", kNobodysConnection};
  const auto options = own_sshd_options(wishes);
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

std::vector<std::string> own_sshd_command(const OwnSshdWishes& wishes) {
  // In the foreground and with its log on standard error: the volume has no system log.
  std::vector<std::string> words{kOwnSshd, "-D", "-e"};
  const auto options = own_sshd_options(wishes);
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

Ok check_own_sshd_facts(const OwnSshdFacts& facts, const std::vector<std::uint16_t>& base_ports,
                        bool node_host_keys) {
  if (node_host_keys && !facts.ed25519)
    return fail(ErrorKind::refused,
                "the node's host key is an ed25519 key, and the volume's HostKeyAlgorithms leave "
                "ssh-ed25519 out; set session.host_keys = false");
  for (const std::uint16_t port : facts.ports)
    if (std::find(base_ports.begin(), base_ports.end(), port) != base_ports.end())
      return fail(ErrorKind::refused,
                  "the volume's sshd_config has a ListenAddress line with port " +
                      std::to_string(port) + ", where the base's sshd listens; leave the port out");
  return {};
}

std::string trial_key_line(std::string_view public_key) {
  return "restrict,command=\"true\" " + std::string(public_key);
}

std::vector<std::string> trial_users(const std::vector<User>& people) {
  std::vector<std::string> names;
  for (const User& user : people)
    if (names.size() < kMostTrialPeople) names.push_back(user.name);
  names.push_back("root");
  return names;
}

std::vector<std::string> trial_command(const std::string& ssh, const std::string& key,
                                       const std::string& user, std::uint16_t port) {
  std::vector<std::string> words{ssh, "-F", "none", "-T", "-i", key, "-p", std::to_string(port)};
  for (const char* option :
       {"BatchMode=yes", "LogLevel=VERBOSE", "IdentitiesOnly=yes", "IdentityAgent=none",
        "PreferredAuthentications=publickey", "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null", "GlobalKnownHostsFile=/dev/null"})
    words.insert(words.end(), {"-o", option});
  words.insert(words.end(), {"-l", user, "127.0.0.1", "true"});
  return words;
}

TrialAnswer judge_trial(int exit_status, std::string_view output) {
  constexpr int kNoSession = 254, kClientsOwn = 255;
  const auto says = [&](std::string_view words) { return output.find(words) < output.size(); };
  if (says("with partial success")) return {TrialVerdict::more, {}};
  if (exit_status == kNoSession && says("Authenticated to "))
    return {TrialVerdict::out, "its PAM, or its /etc/nologin, allows no session"};
  if (exit_status != kClientsOwn && says("Authenticated to ")) return {TrialVerdict::in, {}};
  return {TrialVerdict::out, std::string(last_word(output))};
}

std::vector<User> people_of(std::string_view passwd) {
  constexpr std::uint32_t kFirst = 1000, kEnd = 60000;
  std::vector<User> people;
  for (User& user : parse_passwd(passwd))
    if (user.uid >= kFirst && user.uid < kEnd && is_login_shell(user.shell))
      people.push_back(std::move(user));
  return people;
}

}  // namespace warmroot::bootstrap
