// The ticket: what user-data tells every instance of a pool. JSON, version 1, no secret. Rendered
// by the manager's user_data, parsed here; pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bootstrap/base/release_wishes.hpp"
#include "bootstrap/base/result.hpp"

namespace warmroot::bootstrap {

/// MiB/s that a volume writes where the ticket does not tell: gp3's without extra payment.
inline constexpr unsigned kDefaultWriteMibS = 125;

/// Seconds that the base's sshd waits for the volume at a boot where the ticket does not tell: an
/// attach takes some, and a client tries again for a minute or two.
inline constexpr unsigned kDefaultLoginWaitS = 45;

/// How sessions get into the volume.
enum class EntryKind { chroot, sshd, nspawn };
/// "chroot", "sshd", "nspawn", as tickets have it.
std::string_view to_string(EntryKind entry);
std::optional<EntryKind> entry_kind_from(std::string_view text);

struct Ticket {
  std::string deployment;
  std::string pool;
  std::string
      manager_url;  ///< "http://host:port" without a trailing slash; empty: nobody to report to
  EntryKind entry = EntryKind::chroot;
  bool host_keys = true;     ///< sshd shows the node's host keys, which its volume keeps
  unsigned rescue_port = 0;  ///< where sessions land on the base; 0: nowhere
  unsigned login_wait_s = kDefaultLoginWaitS;  ///< that the base's sshd waits for the volume
  ReleaseWishes release_wishes{};              ///< grace_s and hooks_s
  bool warm_enabled = true;
  bool record = true;  ///< what the first sessions of a lease read
  unsigned write_mib_s = kDefaultWriteMibS;
  bool grow = false;       ///< the root's file system is made to fill the volume
  unsigned max_depth = 0;  ///< most reads in flight while warming; 0 lets the controller decide
  unsigned max_mib_s = 0;  ///< most that warming brings in a second; 0: whatever the volume gives
};

/// Parses a ticket; unknown keys are ignored, so that a newer manager can talk to an older
/// bootstrap. Errors: misconfigured with one sentence that names the key and what it has to be.
Result<Ticket> parse_ticket(std::string_view text);

}  // namespace warmroot::bootstrap
