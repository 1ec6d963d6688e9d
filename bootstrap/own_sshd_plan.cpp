#include "bootstrap/own_sshd_plan.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/base/words.hpp"
#include "bootstrap/host_key_document.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/sshd_config.hpp"

namespace warmroot::bootstrap {
namespace {

/// The values of a keyword in an answer of `sshd -T`, one a line.
std::vector<std::string_view> values_of(std::string_view dump, std::string_view keyword) {
  std::vector<std::string_view> values;
  while (!dump.empty()) {
    const std::string_view line = dump.substr(0, dump.find('\n'));
    if (line.substr(0, keyword.size()) == keyword && line.substr(keyword.size(), 1) == " ")
      values.push_back(line.substr(keyword.size() + 1));
    dump.remove_prefix(std::min(line.size() + 1, dump.size()));
  }
  return values;
}

/// The first of them; empty where there is none.
std::string_view value_of(std::string_view dump, std::string_view keyword) {
  const auto values = values_of(dump, keyword);
  return values.empty() ? std::string_view() : values.front();
}

std::string node_key_file(const char* type) {
  return std::string(kHostKeys) + "/ssh_host_" + type + "_key";
}

std::vector<std::string> other_host_keys(std::string_view dump) {
  std::vector<std::string> others;
  std::vector<std::string> nodes;
  for (const char* type : kHostKeyTypes) nodes.push_back(node_key_file(type));
  for (const std::string_view file : values_of(dump, "hostkey"))
    if (std::find(nodes.begin(), nodes.end(), file) == nodes.end())
      others.push_back(std::string(kHostKeyLine) + without_controls(std::string(file)));
  for (const char* keyword : {"HostCertificate", "HostKeyAgent"})
    for (const std::string_view value : values_of(dump, lower(keyword)))
      // So does OpenSSH 9.2 print a HostCertificate that is none.
      if (value != "none" && value != "(null)")
        others.push_back(std::string(keyword) + " " + without_controls(std::string(value)));
  return others;
}

bool on_loopback(std::string_view address) {
  return address.starts_with("127.") || address.starts_with("[::1]:");
}

/// Whether a key alone, or first, gets anybody in.
bool begins_with_key(std::string_view dump) {
  if (value_of(dump, "pubkeyauthentication") == "no") return false;
  const std::string methods = " " + std::string(value_of(dump, "authenticationmethods"));
  return methods == " " || methods == " any" || methods.find(" publickey") != std::string::npos;
}

/// AllowUsers and DenyUsers, one a line, may say where from.
bool names_addresses(std::string_view dump) {
  for (; !dump.empty(); dump.remove_prefix(std::min(dump.find('\n'), dump.size() - 1) + 1)) {
    const std::string_view line = dump.substr(0, dump.find('\n'));
    if ((line.starts_with("allowusers ") || line.starts_with("denyusers ")) &&
        line.find('@') != line.npos)
      return true;
  }
  return false;
}

/// Among the algorithms that sshd takes; empty for those that no key of ours can have.
std::string login_key_type(std::string_view dump) {
  std::string_view accepted = value_of(dump, "pubkeyacceptedalgorithms");
  // Its name before OpenSSH 8.5.
  if (accepted.empty()) accepted = value_of(dump, "pubkeyacceptedkeytypes");
  const std::string list = "," + std::string(accepted) + ",";
  const auto takes = [&](const char* name) {
    return list.find("," + std::string(name) + ",") != std::string::npos;
  };
  if (accepted.empty() || takes("ssh-ed25519")) return "ed25519";
  if (takes("ecdsa-sha2-nistp256")) return "ecdsa";
  return takes("rsa-sha2-512") || takes("rsa-sha2-256") ? "rsa" : "";
}

/// The last line that says more than how long it took.
std::string last_word(std::string_view said) {
  constexpr std::size_t kMost = 200;
  std::string_view last;
  while (!said.empty()) {
    const std::string_view line = said.substr(0, said.find('\n'));
    said.remove_prefix(std::min(line.size() + 1, said.size()));
    const std::string_view word = line.substr(0, line.find_last_not_of("\r") + 1);
    if (!word.empty() && !word.starts_with("Transferred: ") &&
        !word.starts_with("Bytes per second"))
      last = word;
  }
  return without_controls(std::string(last.substr(0, kMost)));
}

/// The last ExecStart, lines that go on joined.
std::string command_of_unit(std::string_view unit) {
  constexpr std::string_view kKey = "ExecStart=";
  std::string command, line;
  while (!unit.empty()) {
    line += unit.substr(0, unit.find('\n'));
    unit.remove_prefix(std::min(unit.find('\n'), unit.size() - 1) + 1);
    if (line.ends_with('\\')) {
      line.back() = ' ';
      continue;
    }
    if (line.starts_with(kKey)) command = line.substr(kKey.size());
    line.clear();
  }
  return command;
}

/// As systemd splits them: by blanks, quotes hold together, "%%" is "%".
std::vector<std::string> unit_words(const std::string& command) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    const bool blank = c == ' ' || c == '\t';
    if (quote == 0 && blank) {
      in_word = false;
      continue;
    }
    if (!std::exchange(in_word, true)) words.emplace_back();
    if (quote == 0 && (c == '"' || c == '\''))
      quote = c;
    else if (c == quote)
      quote = 0;
    else
      words.back() += c;
    if (c == '%' && i + 1 < command.size() && command[i + 1] == '%') ++i;
  }
  return words;
}

/// A word, or what the variable that it is stands for: no word where that is nowhere set.
std::vector<std::string> values_of_word(const std::string& word,
                                        const std::vector<std::string>& environments) {
  if (!word.starts_with('$')) return {word};
  std::string name = word.substr(1);
  if (name.starts_with('{') && name.ends_with('}')) name = name.substr(1, name.size() - 2);
  std::string value;
  for (std::string_view text : environments)
    while (!text.empty()) {
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(line.size() + 1, text.size()));
      if (line.starts_with(name + "=")) value = line.substr(name.size() + 1);
    }
  if (value.size() > 1 && (value.front() == '"' || value.front() == '\'') &&
      value.back() == value.front())
    value = value.substr(1, value.size() - 2);
  return unit_words(value);
}

std::vector<std::string> words_of_command(const std::string& command,
                                          const std::vector<std::string>& environments) {
  std::vector<std::string> words;
  for (const auto& word : unit_words(command)) {
    const auto values = values_of_word(word, environments);
    words.insert(words.end(), values.begin(), values.end());
  }
  return words;
}

/// A word of a hostile volume's that means the same to systemd, to sshd and here.
bool is_plain(const std::string& word) {
  constexpr std::size_t kMost = 1024;
  return word.size() <= kMost && std::all_of(word.begin(), word.end(), [](char c) {
           return c >= ' ' && c <= '~' && c != '\\' && c != '$';
         });
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

/// "Keyword=value" or "Keyword value", and nothing of where sshd listens and what it proves itself
/// by.
bool is_free_setting(std::string_view setting) {
  const std::size_t end = setting.find_first_of("= ");
  const std::string keyword = lower(setting.substr(0, end));
  if (end == setting.npos || end == 0 ||
      keyword.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789") != keyword.npos)
    return false;
  constexpr std::string_view kOurs[] = {"port",       "listenaddress",   "addressfamily", "hostkey",
                                        "hostdsakey", "hostcertificate", "hostkeyagent",  "match"};
  return std::find(std::begin(kOurs), std::end(kOurs), keyword) == std::end(kOurs);
}

enum class OptionUse { counts, ours, left_out };

/// Of one that the volume's unit gives its sshd. Source: sshd(8).
OptionUse use_of(char option, const std::string& value) {
  const auto if_so = [](bool so) { return so ? OptionUse::counts : OptionUse::left_out; };
  if (std::string_view("De46p").find(option) != std::string_view::npos) return OptionUse::ours;
  if (option == 'o') return if_so(is_free_setting(value));
  if (option == 'f') return if_so(value.starts_with('/'));
  return if_so((option == 'u' || option == 'g') && is_number(value));
}

}  // namespace

OwnSshdFacts parse_own_sshd_facts(std::string_view dump) {
  OwnSshdFacts facts;
  const SshdFacts listed = parse_sshd_facts(dump);
  facts.ed25519 = listed.ed25519;
  for (const unsigned port : listed.ports) facts.ports.push_back(static_cast<std::uint16_t>(port));
  facts.authorized_keys = value_of(dump, "authorizedkeysfile");
  for (const std::string_view address : values_of(dump, "listenaddress"))
    facts.addresses.push_back(without_controls(std::string(address)));
  facts.other_host_keys = other_host_keys(dump);
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
      words.insert(words.end(), {"-o", "HostKey=" + node_key_file(type)});
  if (!wishes.authorized_keys.empty()) {
    const std::string own = wishes.authorized_keys == "none" ? "" : wishes.authorized_keys + " ";
    words.insert(words.end(), {"-o", "AuthorizedKeysFile=" + own + kLaunchKeys + "/%u"});
  }
  // Last: of each setting sshd takes the first.
  words.insert(words.end(), wishes.options.begin(), wishes.options.end());
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

std::vector<std::string> second_sshd_command(const std::string& program,
                                             const OwnSshdWishes& wishes,
                                             const std::vector<std::string>& options) {
  std::vector<std::string> words{program, "-D", "-o", "PidFile=none"};
  const auto ours = own_sshd_options(wishes);
  words.insert(words.end(), ours.begin(), ours.end());
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

std::vector<std::string> second_sshd_question(const std::string& program,
                                              const OwnSshdWishes& wishes,
                                              const std::vector<std::string>& options) {
  std::vector<std::string> words{program, "-T", "-C", kNobodysConnection};
  const auto ours = own_sshd_options(wishes);
  words.insert(words.end(), ours.begin(), ours.end());
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

Result<std::vector<std::string>> sshd_options_of_unit(
    std::string_view unit, const std::vector<std::string>& environments) {
  const auto words = words_of_command(command_of_unit(unit), environments);
  std::vector<std::string> options;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "-p") ++i;
    if (i >= words.size() || words[i] == "-D" || words[i] == "-e" || words[i - 1] == "-p") continue;
    const std::string keyword = lower(words[i]);
    for (const char* own : {"listenaddress", "hostkey", "hostcertificate"})
      if (words[i - 1] == "-o" && keyword.starts_with(own))
        return fail(ErrorKind::refused, "the base's unit starts sshd with " + words[i]);
    if (words[i] == "-h")
      return fail(ErrorKind::refused, "the base's unit starts sshd with host keys of its own");
    options.push_back(words[i]);
  }
  return options;
}

UnitOptions own_unit_options(const std::string& command,
                             const std::vector<std::string>& environments) {
  constexpr std::size_t kMostWords = 64;
  constexpr std::string_view kWithValue = "CEbcfghkopu";
  const auto words = words_of_command(command, environments);
  // What is not understood as a whole may mean anything.
  const UnitOptions none{{}, words};
  if (words.empty() || words.size() > kMostWords || !words.front().ends_with("/sshd") ||
      !std::all_of(words.begin(), words.end(), is_plain))
    return none;
  UnitOptions found;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.size() < 2 || word.front() != '-') return none;
    const bool with_value = kWithValue.find(word[1]) != kWithValue.npos;
    if (!with_value && word.size() > 2) return none;
    std::vector<std::string> option{word.substr(0, 2)};
    if (with_value && word.size() == 2 && i + 1 == words.size()) return none;
    if (with_value) option.push_back(word.size() > 2 ? word.substr(2) : words[++i]);
    const OptionUse use = use_of(word[1], option.back());
    auto& list = use == OptionUse::counts ? found.options : found.left_out;
    if (use != OptionUse::ours) list.insert(list.end(), option.begin(), option.end());
  }
  return found;
}

std::string remark_on_options(const UnitOptions& found) {
  constexpr std::size_t kMost = 200;
  if (found.left_out.empty()) return {};
  return "the volume's unit starts its sshd with options that do not count here: " +
         shortened(without_controls(joined(found.left_out)), kMost);
}

Ok check_own_sshd_facts(const OwnSshdFacts& facts, const std::vector<std::uint16_t>& base_ports,
                        bool node_host_keys) {
  if (node_host_keys && !facts.ed25519)
    return fail(ErrorKind::refused,
                "the node's host key is an ed25519 key, and the volume's HostKeyAlgorithms leave "
                "ssh-ed25519 out; set session.host_keys = false");
  if (node_host_keys && !facts.other_host_keys.empty())
    return fail(ErrorKind::refused,
                "the volume's sshd_config has the line \"" + facts.other_host_keys.front() +
                    "\", by which others of its AMI could pose as the node; remove it, or set "
                    "session.host_keys = false");
  for (const std::uint16_t port : facts.ports)
    if (std::find(base_ports.begin(), base_ports.end(), port) != base_ports.end())
      return fail(ErrorKind::refused,
                  "the volume's sshd_config has a ListenAddress line with port " +
                      std::to_string(port) + ", where the base's sshd listens; leave the port out");
  return {};
}

std::string remark_on_addresses(const OwnSshdFacts& facts) {
  std::string others;
  for (const std::string& address : facts.addresses)
    if (!on_loopback(address)) others += (others.empty() ? "" : ", ") + address;
  if (others.empty()) return {};
  return "by ListenAddress lines of its sshd_config the volume's sshd can be reached at " + others +
         ", too, where the security group lets anybody through";
}

Ok check_second_sshd_facts(const OwnSshdFacts& facts, std::uint16_t port) {
  for (const std::string& address : facts.addresses)
    if (!on_loopback(address) || !address.ends_with(":" + std::to_string(port)))
      return fail(ErrorKind::refused,
                  "the base's sshd_config has ListenAddress lines, by which a second sshd would "
                  "listen at " +
                      address + ", too; remove them");
  return {};
}

std::string trial_key_line(std::string_view public_key) {
  return "restrict,command=\"true\" " + std::string(public_key);
}

std::vector<std::string> trial_question(const OwnSshdWishes& wishes, const std::string& user) {
  std::vector<std::string> words{kOwnSshd, "-T", "-C",
                                 "user=" + user +
                                     ",host=localhost,addr=127.0.0.1,laddr=127.0.0.1,"
                                     "lport=" +
                                     std::to_string(wishes.port)};
  const auto options = own_sshd_options(wishes);
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

TrialFacts parse_trial_facts(std::string_view dump) {
  TrialFacts facts;
  facts.key_type = login_key_type(dump);
  // A Match block's own line comes before the command line's.
  if (value_of(dump, "authorizedkeysfile").find(kLaunchKeys) == std::string_view::npos)
    facts.why_not = "its keys are elsewhere";
  else if (!begins_with_key(dump))
    facts.why_not = "a key does not begin one";
  else if (facts.key_type.empty())
    facts.why_not = "it takes no plain key";
  const std::string_view command = value_of(dump, "authorizedkeyscommand");
  facts.is_for_all = (command.empty() || command == "none") && !names_addresses(dump);
  return facts;
}

std::vector<std::string> trial_command(const std::string& ssh, const std::string& key,
                                       const std::string& log, const std::string& user,
                                       std::uint16_t port) {
  std::vector<std::string> words{ssh, "-F", "none", "-T", "-E",
                                 log, "-i", key,    "-p", std::to_string(port)};
  for (const char* option :
       {"BatchMode=yes", "LogLevel=VERBOSE", "IdentitiesOnly=yes", "IdentityAgent=none",
        "PreferredAuthentications=publickey", "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null", "GlobalKnownHostsFile=/dev/null"})
    words.insert(words.end(), {"-o", option});
  words.insert(words.end(), {"-l", user, "127.0.0.1", "true"});
  return words;
}

TrialAnswer judge_trial(std::optional<int> exit_status, std::string_view said) {
  constexpr int kNoSession = 254, kClientsOwn = 255;
  const auto says = [&](std::string_view words) { return said.find(words) != said.npos; };
  if (says("with partial success")) return {TrialVerdict::unknown, "more than a key is asked for"};
  if (says("Authenticated to ")) {
    if (exit_status == kNoSession)
      return {TrialVerdict::out, "its PAM, or its /etc/nologin, allows no session"};
    const bool broke =
        exit_status == kClientsOwn && (says("closed by remote host") || says("Connection reset"));
    return {broke ? TrialVerdict::out : TrialVerdict::in, broke ? last_word(said) : ""};
  }
  if (!exit_status) return {TrialVerdict::unknown, "it took too long"};
  // PAM's refusal of an account is a closed connection, too; before the keys are exchanged it is
  // a server that has no time.
  const bool refused = says("Permission denied") ||
                       (says("Connection closed by ") && !says("kex_exchange_identification"));
  return {refused ? TrialVerdict::out : TrialVerdict::unknown, last_word(said)};
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
