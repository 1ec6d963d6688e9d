// Text of the sshd configuration that the bootstrap writes, and what it reads back from `sshd -T`.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/base/result.hpp"

namespace warmroot::bootstrap {

/// Members of this base group keep landing on the base: the operator's way in.
inline constexpr char kBaseGroup[] = "warmroot-base";

/// The one file in /etc. It holds nothing but an Include of a pattern, whose absence sshd does not
/// mind, so that a boot without a bootstrap is a boot without warmroot.
std::string sshd_drop_in();

/// Where the base looks for authorized keys: the first AuthorizedKeysFile that is not in a Match
/// block, of sshd's files in their order of reading; sshd's default where there is none.
std::string authorized_keys_of(const std::vector<std::string>& texts);

/// What the drop-in includes. `base_keys` is the base's own AuthorizedKeysFile, which stays valid.
std::string sshd_config(const std::string& base_keys);

/// Values of `sshd -T`'s answer, which prints one lower-case keyword and its value a line.
struct SshdFacts {
  std::string chroot_directory;
  std::string sftp_server;  ///< empty for none and for internal-sftp
  bool pam = false;
  bool ran_before = false;  ///< not from the dump: sshd started without our configuration
};
SshdFacts parse_sshd_facts(std::string_view dump);

/// Succeeds when the configuration that sshd will load sends sessions to our root. Errors:
/// misconfigured, one sentence with the remedy.
Ok check_sshd_facts(const SshdFacts& facts);

/// The text that people see before they log in while sessions land on the base.
std::string banner_text(std::string_view pool, std::string_view message);

}  // namespace warmroot::bootstrap
