// How the volume's own sshd is asked what it is configured to, and started, and a second one of the
// base's. Pure; sshd_process does it. Their configuration stays their own: what has to be otherwise
// is said on the command line, which wins over the file (sshd(8)), and nothing is written to /etc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/accounts.hpp"
#include "bootstrap/base/result.hpp"

namespace warmroot::bootstrap {

/// In the volume.
inline constexpr char kOwnSshd[] = "/usr/sbin/sshd";

/// How a line of other_host_keys begins that names a file.
inline constexpr std::string_view kHostKeyLine = "HostKey ";

/// What `sshd -T` of the volume tells.
struct OwnSshdFacts {
  std::string authorized_keys;           ///< AuthorizedKeysFile, as written in a configuration
  std::vector<std::uint16_t> ports;      ///< that it listens on by ListenAddress lines of its own
  bool ed25519 = true;                   ///< among its HostKeyAlgorithms
  std::vector<std::string> addresses{};  ///< "127.0.0.1:4711", with all ports
  /// What it proves itself by that is none of the node's host keys: "HostKey /etc/ssh/key", ...
  /// Without the node's it has others by default.
  std::vector<std::string> other_host_keys{};
};
OwnSshdFacts parse_own_sshd_facts(std::string_view dump);

/// Where it listens, and what it is given beside its configuration.
struct OwnSshdWishes {
  std::uint16_t port = 0;  ///< on loopback alone
  bool v6 = false;         ///< there is a ::1
  bool node_host_keys = false;
  std::string authorized_keys;         ///< of facts; empty: not known yet
  std::vector<std::string> options{};  ///< of own_unit_options
};

/// Options for both asking and starting.
std::vector<std::string> own_sshd_options(const OwnSshdWishes& wishes);
/// Words of the whole command line.
std::vector<std::string> own_sshd_question(const OwnSshdWishes& wishes);
std::vector<std::string> own_sshd_command(const OwnSshdWishes& wishes);
/// Of a second sshd of the base, which says in the base's log what the first one would, and leaves
/// that one's file of its process id alone. `options` are those that the first is started with.
std::vector<std::string> second_sshd_command(const std::string& program,
                                             const OwnSshdWishes& wishes,
                                             const std::vector<std::string>& options);
/// What that one would be configured to, as `sshd -T` tells.
std::vector<std::string> second_sshd_question(const std::string& program,
                                              const OwnSshdWishes& wishes,
                                              const std::vector<std::string>& options);
/// What a unit (`systemctl cat`) gives its sshd beside the configuration, without what is said
/// otherwise here. `environments` are files in which its variables may be set. Source:
/// systemd.service(5), "Command lines". Errors: refused, where it chooses addresses or host keys.
Result<std::vector<std::string>> sshd_options_of_unit(std::string_view unit,
                                                      const std::vector<std::string>& environments);

/// How the units of Debian's and Red Hat's families start it.
inline constexpr char kUnitCommand[] = "/usr/sbin/sshd -D $SSHD_OPTS $OPTIONS";
/// What the volume's unit gives its sshd beside the configuration.
struct UnitOptions {
  std::vector<std::string> options;   ///< that it is to have here, too
  std::vector<std::string> left_out;  ///< that it would have on its own machine alone
};
/// The volume may be hostile: settings (-o), -f, -u and -g count where they are plain words; what
/// chooses ports, addresses or host keys, or is for another way to run it, does not; and nothing
/// does where not all of it is understood. -D, -e, -p, -4 and -6 are ours to say. `environments` as
/// for sshd_options_of_unit.
UnitOptions own_unit_options(const std::string& command,
                             const std::vector<std::string>& environments);
/// For the remarks, one sentence; empty: nothing is left out.
std::string remark_on_options(const UnitOptions& found);

/// Not one that would take a port of the base's away, should the base's sshd begin to listen after
/// it, nor one that could show no host key of the node's: the first is an ed25519 key, and from
/// OpenSSH 9.8 on the others are never read. Nor one that would show others beside them: what an
/// AMI brings along proves to be each of its nodes. Errors: refused, with the remedy.
Ok check_own_sshd_facts(const OwnSshdFacts& facts, const std::vector<std::uint16_t>& base_ports,
                        bool node_host_keys);
/// Where it can be reached but by the base's port, for the remarks; empty: nowhere.
std::string remark_on_addresses(const OwnSshdFacts& facts);
/// Not a second sshd that listens anywhere but at `port` of loopback: it could take the base's port
/// from the first, and nobody would have it once the second has ended. Errors: refused, with the
/// remedy.
Ok check_second_sshd_facts(const OwnSshdFacts& facts, std::uint16_t port);

/// What `sshd -T` says of one person's login from this machine.
struct TrialFacts {
  std::string key_type;    ///< ssh-keygen's name of a type that is accepted
  std::string why_not;     ///< why a login with a key at kLaunchKeys tells nothing; empty: it does
  bool is_for_all = true;  ///< what is refused here is refused to everybody called so, anywhere
};
std::vector<std::string> trial_question(const OwnSshdWishes& wishes, const std::string& user);
TrialFacts parse_trial_facts(std::string_view dump);

/// The key of a trial login: it opens nothing but a session in which `true` is run.
std::string trial_key_line(std::string_view public_key);

/// A client's command line: one session by the private key in file `key`, from this machine, with
/// none of its files and agents; what it says itself goes to file `log`.
std::vector<std::string> trial_command(const std::string& ssh, const std::string& key,
                                       const std::string& log, const std::string& user,
                                       std::uint16_t port);

enum class TrialVerdict { in, out, unknown };
struct TrialAnswer {
  TrialVerdict verdict = TrialVerdict::unknown;
  std::string reason;  ///< of the others, for a sentence
};
/// What a trial login came to. `said` is the client's log, at LogLevel VERBOSE; no status: it did
/// not end in time. out is for what a healthy server does not say to somebody whom it lets in.
/// Source: 254 is sshd's own status where PAM opened no session, or /etc/nologin is there
/// (session.c, do_child).
TrialAnswer judge_trial(std::optional<int> exit_status, std::string_view said);

/// Who gets the key that the instance was launched with, as cloud-init gives it to the system's
/// first user: people who may log in.
std::vector<User> people_of(std::string_view passwd);

}  // namespace warmroot::bootstrap
