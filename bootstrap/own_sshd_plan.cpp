#include "bootstrap/own_sshd_plan.hpp"

#include <algorithm>
#include <cstdlib>

#include "bootstrap/host_key_document.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/sshd_config.hpp"

namespace warmroot::bootstrap {

OwnSshdFacts parse_own_sshd_facts(std::string_view dump) {
  OwnSshdFacts facts;
  const SshdFacts listed = parse_sshd_facts(dump);
  facts.ed25519 = listed.ed25519;
  for (const unsigned port : listed.ports) facts.ports.push_back(static_cast<std::uint16_t>(port));
  constexpr std::string_view kKeyword = "authorizedkeysfile ";
  for (std::size_t at = 0; at < dump.size(); at = std::min(dump.find('\n', at), dump.size()) + 1)
    if (dump.substr(at, kKeyword.size()) == kKeyword)
      facts.authorized_keys =
          dump.substr(at + kKeyword.size(), dump.find('\n', at) - at - kKeyword.size());
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

std::vector<User> people_of(std::string_view passwd) {
  constexpr std::uint32_t kFirst = 1000, kEnd = 60000;
  std::vector<User> people;
  for (User& user : parse_passwd(passwd))
    if (user.uid >= kFirst && user.uid < kEnd && is_login_shell(user.shell))
      people.push_back(std::move(user));
  return people;
}

}  // namespace warmroot::bootstrap
