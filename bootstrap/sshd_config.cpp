#include "bootstrap/sshd_config.hpp"

#include <sstream>

#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {

std::string sshd_drop_in() {
  return "# Written by warmroot-bootstrap. Without a bootstrap in this boot the pattern matches "
         "nothing.\n"
         "Include /run/warmroot/sshd*.conf\n";
}

std::string authorized_keys_of(const std::vector<std::string>& texts) {
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
      if (keyword == "match") break;  // to the end of its file
      if (keyword != "authorizedkeysfile" || end == std::string::npos) continue;
      const std::size_t value = line.find_first_not_of(" \t=", end);
      const std::size_t last = line.find_last_not_of(" \t\r", line.find(" #") - 1);
      if (value != std::string::npos && last >= value) return line.substr(value, last + 1 - value);
    }
  }
  return ".ssh/authorized_keys .ssh/authorized_keys2";
}

std::string sshd_config(const std::string& base_keys) {
  std::string text =
      "# Written by warmroot-bootstrap before sshd starts; never changed and never reloaded.\n";
  // A link: to "/" or to the volume.
  text += std::string("ChrootDirectory ") + kSessionRoot + "\n";
  text += "AuthorizedKeysFile ";
  if (base_keys != "none") text += base_keys + " ";
  text += std::string(kUserKeysDirectory) + "/%u\n";
  // Read at every connection; absent while all is well.
  text += std::string("Banner ") + kBannerFile + "\n";
  // Fifty people at once are refused by the default 10:30:100.
  text += "MaxStartups 200:30:400\n";
  text += std::string("Match Group ") + kBaseGroup + "\n    ChrootDirectory none\n";
  return text;
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
    if (keyword == "usepam") facts.pam = value == "yes";
    if (keyword == "subsystem" && value.substr(0, 5) == "sftp ") {
      const std::string_view command = value.substr(5, value.find(' ', 5) - 5);
      facts.sftp_server = !command.empty() && command.front() == '/' ? command : std::string_view();
    }
  }
  return facts;
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

std::string banner_text(std::string_view pool, std::string_view message) {
  std::string text = "warmroot (pool ";
  text += pool;
  text += "): this session lands on the base system, not on the pool's volume.\n";
  text += message;
  if (!message.empty()) text += '\n';
  return text;
}

}  // namespace warmroot::bootstrap
