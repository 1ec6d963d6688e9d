#include "bootstrap/sshd_config.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "bootstrap/host_key_document.hpp"
#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {
namespace {

/// Calls `visit` with each keyword in lower case and its value, up to the first Match block of each
/// text, which lasts to its end.
template <typename Visit>
void each_setting(const std::vector<std::string>& texts, Visit visit) {
  for (const auto& text : texts) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      // "Keyword value" and "Keyword=value" are the same to sshd.
      const std::size_t start = line.find_first_not_of(" \t");
      if (start == std::string::npos || line[start] == '#') continue;
      const std::size_t end = line.find_first_of(" \t=", start);
      std::string keyword = line.substr(start, end - start);
      for (char& c : keyword)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
      if (keyword == "match") break;
      if (end == std::string::npos) continue;
      const std::size_t value = line.find_first_not_of(" \t=", end);
      const std::size_t last = line.find_last_not_of(" \t\r", line.find(" #") - 1);
      if (value != std::string::npos && last >= value)
        visit(keyword, line.substr(value, last + 1 - value));
    }
  }
}

constexpr char kOtherKeys[] = "a replacement will show other host keys: ";

/// Whether a list, parted by commas, has this item.
bool lists(std::string_view list, std::string_view item) {
  while (true) {
    const std::size_t end = list.find(',');
    if (list.substr(0, end) == item) return true;
    if (end == std::string_view::npos) return false;
    list.remove_prefix(end + 1);
  }
}

}  // namespace

std::string sshd_drop_in() {
  return "# Written by warmroot-bootstrap. Without a bootstrap in this boot the pattern matches "
         "nothing.\n"
         "Include /run/warmroot/sshd*.conf\n";
}

BaseSshd read_base_sshd(const std::vector<std::string>& texts) {
  BaseSshd base;
  bool has_keys_file = false;
  each_setting(texts, [&](const std::string& keyword, const std::string& value) {
    if (keyword == "authorizedkeysfile" && !std::exchange(has_keys_file, true))
      base.authorized_keys = value;
    if (keyword == "hostkey" || keyword == "hostcertificate" || keyword == "hostkeyagent")
      base.names_host_keys = true;
    if (keyword == "port") base.names_ports = true;
  });
  return base;
}

HostKeyReads host_key_reads(std::string_view version) {
  constexpr std::string_view kName = "OpenSSH_";
  const std::size_t at = version.find(kName);
  int major = 0, minor = 0;
  if (at == std::string_view::npos ||
      std::sscanf(std::string(version.substr(at + kName.size(), 16)).c_str(), "%d.%d", &major,
                  &minor) != 2)
    return HostKeyReads::unknown;
  return major < 9 || (major == 9 && minor < 8) ? HostKeyReads::each_connection
                                                : HostKeyReads::once;
}

std::optional<std::string> why_no_node_host_keys(HostKeyReads reads, const BaseSshd& base) {
  const std::string what = kOtherKeys;
  if (base.names_host_keys) return what + "sshd_config of the base names its own";
  if (reads == HostKeyReads::unknown) return what + "the base's sshd is not OpenSSH";
  return std::nullopt;
}

std::string sshd_config(const BaseSshd& base, const SshdWishes& wishes) {
  std::string text =
      "# Written by warmroot-bootstrap before sshd starts; never changed and never reloaded.\n";
  // A link: to "/" or to the volume.
  text += std::string("ChrootDirectory ") + kSessionRoot + "\n";
  text += "AuthorizedKeysFile ";
  if (base.authorized_keys != "none") text += base.authorized_keys + " ";
  text += std::string(kUserKeysDirectory) + "/%u\n";
  // Below a link, too: to the base's keys or to the node's.
  if (wishes.node_host_keys)
    for (const char* type : kHostKeyTypes)
      text += std::string("HostKey ") + kHostKeys + "/ssh_host_" + type + "_key\n";
  // Read at every connection; absent while all is well.
  text += std::string("Banner ") + kBannerFile + "\n";
  // Fifty people at once are refused by the default 10:30:100.
  text += "MaxStartups 200:30:400\n";
  // The volume's keys open the volume alone.
  const std::string on_base =
      "    ChrootDirectory none\n    AuthorizedKeysFile " + base.authorized_keys + "\n";
  if (wishes.rescue_port != 0) {
    const std::string port = std::to_string(wishes.rescue_port);
    // Ports add up, but for the default.
    text += "Port " + port + "\n" + (base.names_ports ? "" : "Port 22\n");
    // People of the volume have their passwords' hashes on the base, too.
    text += "Match LocalPort " + port + "\n" + on_base +
            "    AuthenticationMethods publickey\n    Banner none\n";
  }
  return text + "Match Group " + kBaseGroup + "\n" + on_base;
}

SshdFacts parse_sshd_facts(std::string_view dump) {
  SshdFacts facts;
  while (!dump.empty()) {
    const std::size_t end = std::min(dump.find('\n'), dump.size());
    const std::string_view line = dump.substr(0, end);
    dump.remove_prefix(std::min(end + 1, dump.size()));
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos) continue;
    const std::string_view keyword = line.substr(0, blank), value = line.substr(blank + 1);
    if (keyword == "chrootdirectory") facts.chroot_directory = value;
    if (keyword == "hostkeyalgorithms") facts.ed25519 = lists(value, "ssh-ed25519");
    if (keyword == "usepam") facts.pam = value == "yes";
    if (keyword == "listenaddress") {
      facts.ports.push_back(static_cast<unsigned>(
          std::atoi(std::string(value.substr(value.rfind(':') + 1)).c_str())));
      const std::string_view address = value.substr(0, value.rfind(':'));
      facts.everywhere = facts.everywhere && (address == "0.0.0.0" || address == "[::]");
    }
    if (keyword == "subsystem" && value.substr(0, 5) == "sftp ") {
      const std::string_view command = value.substr(5, value.find(' ', 5) - 5);
      facts.sftp_server = !command.empty() && command.front() == '/' ? command : std::string_view();
    }
  }
  return facts;
}

std::optional<std::string> why_no_node_host_keys(const SshdFacts& facts) {
  if (facts.ed25519) return std::nullopt;
  return std::string(kOtherKeys) + "HostKeyAlgorithms of the base leave ssh-ed25519 out";
}

std::string sshd_complaint(std::string_view output) {
  while (output.find(" host key") < output.find('\n'))
    output.remove_prefix(std::min(output.find('\n'), output.size() - 1) + 1);
  return std::string(output.substr(0, output.find('\n')));
}

Ok check_sshd_facts(const SshdFacts& facts) {
  if (facts.chroot_directory == kSessionRoot) return {};
  if (facts.chroot_directory.empty() || facts.chroot_directory == "none")
    return fail(
        ErrorKind::misconfigured,
        "sshd ignores /etc/ssh/sshd_config.d; the base needs OpenSSH 8.2 or newer and the line "
        "\"Include /etc/ssh/sshd_config.d/*.conf\" at the top of sshd_config");
  return fail(ErrorKind::misconfigured, "sshd_config of the base sets ChrootDirectory " +
                                            facts.chroot_directory +
                                            " before warmroot can; remove it");
}

std::string banner_text(std::string_view pool, std::string_view message, Elsewhere where) {
  std::string text = "warmroot (pool ";
  text += pool;
  text += where == Elsewhere::base
              ? "): this session lands on the base system, not on the pool's volume.\n"
              : "): new sessions are refused.\n";
  text += message;
  if (!message.empty()) text += '\n';
  return text;
}

}  // namespace warmroot::bootstrap
