// Sends SSH sessions into the volume and back without ever reloading sshd: configuration once,
// before sshd starts; a link that is replaced by rename; and a probe login that does what sshd
// does.
#pragma once

#include <chrono>
#include <string>

#include "bootstrap/accounts.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/sshd_config.hpp"

namespace warmroot::bootstrap {

/// Where new sessions land, and which host keys they meet, while the configuration is written.
enum class SessionLinks {
  to_base,
  stay,  ///< they lead into a volume that is taken over
};

/// Writes the configuration and points sessions at the base, unless they stay. Then asks `sshd -T`
/// what it makes of it, with a host key of our own, because in a boothook the host's do not exist
/// yet. On any failure the file in /etc is taken away again, unless sessions stay. A wish that this
/// sshd cannot meet is left out and told in `note`. Errors: misconfigured (no sshd, no Include),
/// broken (sshd rejects the configuration, with its words).
Result<SshdFacts> install_sshd_config(SshdWishes wishes, SessionLinks links, std::string& note);

/// New sessions land in `directory` ("/" for the base) from now on; present ones stay where they
/// are.
Ok point_sessions_at(const std::string& directory);

/// What sshd insists on for every component of ChrootDirectory: a directory of root's that nobody
/// else can write. Errors: refused, naming the component.
Ok check_chroot_path(const std::string& path);

/// Logs `user` in at `root` like sshd: chroot, groups, ids, home, then the login shell with "-lc
/// true". The shell ends with the thread that called. Errors: refused with the step that failed or
/// the shell's words; retry_later when the limit passed or it was cancelled.
Ok probe_login(const std::string& root, const User& user, const std::vector<std::uint32_t>& groups,
               std::chrono::milliseconds limit, const Cancelled& cancelled = {});

/// What the banner says until something else is known.
inline constexpr char kNotReady[] = "The volume is not ready yet.";
/// Shows `message` before every login, or nothing when empty.
Ok set_banner(const std::string& pool, const std::string& message,
              Elsewhere where = Elsewhere::base);

}  // namespace warmroot::bootstrap
