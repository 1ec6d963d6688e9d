// What one lease of a volume tells the next: that a login worked in it, and quickly, and which host
// key ssh-keygen could read. Where it ended clean, too, trying both again before anybody is let in
// would tell nothing new. Whoever is root in a session can write such a file: it decides when a
// login is tried, never whether. Pure; volume_marks keeps it on the volume.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bootstrap/accounts.hpp"

namespace warmroot::bootstrap {

/// The marker's text: who has the volume, or left it clean.
std::string open_marker(const std::string& instance_id);
std::string clean_marker(const std::string& instance_id);

struct LoginProof {
  /// Of a copy of the volume nothing is proved.
  std::string volume_id;
  std::string instance_id;  ///< whose lease it was
  std::string login;        ///< login_line's of who got in
  std::string host_key;     ///< key_checksum's of the ed25519 key that was read; empty: none was
};

/// The user's login by the entry `chroot`, as far as another one is the same: one line, without its
/// end.
std::string login_line(const User& user);

/// Of a private key's file; tells nothing of the key.
std::string key_checksum(std::string_view key_text);

std::string proof_document(const LoginProof& proof);
/// nullopt for anything that proof_document did not write, whole.
std::optional<LoginProof> parse_proof(std::string_view text);

/// The proof that `text` is, where it counts: of this volume, by the very lease of which the marker
/// says that it ended clean. None counts where the volume has no id.
std::optional<LoginProof> counting_proof(std::string_view text, std::string_view marker,
                                         const std::string& volume_id);

}  // namespace warmroot::bootstrap
