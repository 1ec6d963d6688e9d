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

/// What `sshd -T` tries Match blocks with. Without it it refuses those with LocalPort, and none is
/// to apply: nobody is called so, and the addresses are of documentation (RFC 5737).
inline constexpr char kNobodysConnection[] =
    "user=warmroot-nobody,host=warmroot.invalid,addr=192.0.2.1,laddr=192.0.2.2,lport=1";

/// The one file in /etc. It holds nothing but an Include of a pattern, whose absence sshd does not
/// mind, so that a boot without a bootstrap is a boot without warmroot.
std::string sshd_drop_in();

/// What the base's own files say, outside Match blocks.
struct BaseSshd {
  /// Where the base looks for authorized keys: the first AuthorizedKeysFile; sshd's default where
  /// there is none.
  std::string authorized_keys = ".ssh/authorized_keys .ssh/authorized_keys2";
  /// It chooses host keys, certificates or an agent for them itself.
  bool names_host_keys = false;
  bool names_ports = false;  ///< without, a Port line of ours would take 22 away
};
/// `texts` are sshd's files in their order of reading, without ours.
BaseSshd read_base_sshd(const std::vector<std::string>& texts);

/// When an sshd reads its host keys. Source: from 9.8 on the listening sshd hands the keys that it
/// read at its start to the process of each connection (sshd.c, pack_hostkeys).
enum class HostKeyReads { unknown, each_connection, once };
/// `version` is what `sshd -V` printed; of what is not OpenSSH nothing is known.
HostKeyReads host_key_reads(std::string_view version);

/// Why this sshd cannot show the node's host keys, nor a second one, one sentence; nullopt when one
/// can.
std::optional<std::string> why_no_node_host_keys(HostKeyReads reads, const BaseSshd& base);

/// What the ticket asks of sshd.
struct SshdWishes {
  bool node_host_keys = false;  ///< host keys are read below kHostKeys
  unsigned rescue_port = 0;     ///< a second port, whose sessions land on the base; 0: none
};

/// What the drop-in includes. The base's own keys stay valid.
std::string sshd_config(const BaseSshd& base, const SshdWishes& wishes);

/// Values of `sshd -T`'s answer, which prints one lower-case keyword and its value a line.
struct SshdFacts {
  std::string chroot_directory;
  std::string sftp_server;  ///< empty for none and for internal-sftp
  bool pam = false;
  std::vector<unsigned> ports;  ///< of its listening addresses
  bool everywhere = true;       ///< all of them are wildcards
  bool ed25519 = true;          ///< among its HostKeyAlgorithms
  // Not from the dump:
  bool ran_before = false;      ///< sshd started without our configuration
  bool node_host_keys = false;  ///< HostKey lines lead to kHostKeys
  /// They may be shown, and by a second sshd alone.
  bool needs_second_sshd = false;
  std::string program;
};
SshdFacts parse_sshd_facts(std::string_view dump);

/// The same sentence by what the whole configuration comes to: the node's key that is always there
/// is an ed25519 key, and an sshd that may not use it would have none until the others are made.
std::optional<std::string> why_no_node_host_keys(const SshdFacts& facts);

/// Why `sshd -T` failed, one line of what it printed. Host keys that it misses are not it: in a
/// boothook the base has none yet.
std::string sshd_complaint(std::string_view output);

/// Succeeds when the configuration that sshd will load sends sessions to our root. Errors:
/// misconfigured, one sentence with the remedy.
Ok check_sshd_facts(const SshdFacts& facts);

/// Where a session goes that does not land in the volume.
enum class Elsewhere { base, nowhere };

/// The text that people see before they log in while sessions do not land in the volume.
std::string banner_text(std::string_view pool, std::string_view message,
                        Elsewhere where = Elsewhere::base);

}  // namespace warmroot::bootstrap
