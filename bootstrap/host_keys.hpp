// SSH host keys that follow the node: made once on the base, kept on the node's volume, and shown
// by the base's sshd while the volume is mounted, so that a replacement raises no alarm.
//
// sshd is never reloaded. Its HostKey lines name files below a link, kHostKeys, which leads to the
// base's own keys in /etc/ssh or to the node's; OpenSSH up to 9.7 starts itself anew for each
// connection and reads them then (sshd_config.hpp knows who does). Source: sshd.c, main(), which a
// re-executed sshd -R goes through as well. A later one is started a second time, beside itself
// (entry.hpp, SecondSshd), and reads them at that.
#pragma once

#include <string>

#include "bootstrap/base/result.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/in_root.hpp"

namespace warmroot::bootstrap {

/// New connections see the base's keys from now on; the node's are taken away from /run. Succeeds
/// where nothing else was ever shown. For before sshd starts, and for after the volume is given
/// back.
Ok show_base_host_keys();

/// New connections see the node's ed25519 key from now on: the volume's, or where it has none of
/// its own (first use, a copy of another volume, a damaged file) or one that the base cannot read,
/// a new one, which the volume keeps. One with the checksum `read_before` (login_proof.hpp's) is
/// not read once more: complete_host_keys finds out if it is of no use. Of a volume without an id
/// (a Xen disk that the manager has not named) none is taken and none kept. Returns what was done,
/// for the timeline. Errors: no ssh-keygen on the base or one that takes too long, the volume
/// cannot be written; then nothing has changed.
Result<std::string> show_node_host_keys(const RootDirectory& volume, const std::string& volume_id,
                                        const std::string& read_before = {});

/// True while show_node_host_keys' are shown.
bool node_keys_are_shown();
/// The checksum of their ed25519 key; empty while none is shown.
std::string shown_key_checksum();

/// What sessions need not wait for: proves each of the volume's keys by a signature, shows those of
/// the other types as well, and makes anew what is missing or of no use (RSA takes seconds), all of
/// which the volume keeps. Opens the volume at `point` for moments only. Errors: as above;
/// retry_later when cancelled; gone when it is not mounted there any more.
Ok complete_host_keys(const std::string& point, const std::string& volume_id,
                      const Cancelled& cancelled);

}  // namespace warmroot::bootstrap
