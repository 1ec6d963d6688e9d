// The user-data that every instance of a pool receives: a cloud-boothook that fetches, checks and
// starts the bootstrap with its ticket, and the operator's own part after it. Rendered once per
// pool by the daemon and shown by `warmroot user-data`. The script itself is
// templates/user-data.sh, built into the program.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "bootstrap/base/release_wishes.hpp"
#include "bootstrap/base/result.hpp"

namespace warmroot::manager {

/// EC2's limit, before base64.
inline constexpr std::size_t kMaxUserDataBytes = 16384;

/// What the bootstrap is told. Holds no secret: everybody on the instance can read user-data.
struct Ticket {
  std::string deployment;
  std::string pool;
  std::string manager_url;
  std::string session_entry =
      "chroot";  ///< or "sshd", "nspawn": how a session gets into the volume
  std::optional<unsigned>
      write_mib_s{};         ///< what the volume writes; absent: the bootstrap's default
  bool grow = false;         ///< the root's file system is made to fill the volume
  bool host_keys = true;     ///< a node's SSH host keys are kept on its volume
  unsigned rescue_port = 0;  ///< where sessions land on the base; 0: nowhere
  std::optional<unsigned>
      login_wait_s{};  ///< of the base's sshd for the volume; absent: the bootstrap's default
  ReleaseWishes release_wishes{};  ///< told where they differ from the bootstrap's own
  bool warm = true;                ///< read cold blocks ahead of use
  bool record = true;              ///< of what sessions read first, for other volumes
  unsigned max_depth = 0;          ///< of reads in flight; 0: 80
  unsigned max_mib_s = 0;          ///< brought in by warming; 0: whatever the volume gives
};

/// The ticket, version 1, as one line of ASCII JSON.
std::string to_json(const Ticket& ticket);

struct UserDataParts {
  Ticket ticket;
  std::string bootstrap_sha256;  ///< lower-case hex
  std::string operators_part;    ///< text beginning with #! or #cloud-config; may be empty
};

/// The same bytes for the same parts: they are part of a RunInstances request, which a client token
/// repeats. Errors: misconfigured when the result exceeds EC2's limit or the operator's part has no
/// known form.
Result<std::string> render_user_data(const UserDataParts& parts);

/// `text` as one word of a POSIX shell.
std::string shell_quoted(std::string_view text);

}  // namespace warmroot::manager
