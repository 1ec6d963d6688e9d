// The node's SSH host keys as its volume keeps them: one text file, complete or refused. Pure;
// host_keys makes the keys and shows them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace warmroot::bootstrap {

/// The types of sshd's default HostKey lines, as ssh-keygen -t takes them; the first is the one
/// that nearly every client asks for.
inline constexpr const char* kHostKeyTypes[] = {"ed25519", "ecdsa", "rsa"};

struct HostKey {
  std::string type;  ///< one of kHostKeyTypes
  std::string text;  ///< the private key's file, as ssh-keygen writes it without a passphrase
};

struct HostKeys {
  /// Whose they are. A volume made from a snapshot of this one must not show the same keys.
  std::string volume_id;
  std::vector<HostKey> keys;
  bool has(std::string_view type) const { return find(type) != nullptr; }
  const HostKey* find(std::string_view type) const;  ///< nullptr for none
  void put(HostKey key);                             ///< in the place of one of its type
};

/// The file, ending in a checksum.
std::string host_key_document(const HostKeys& keys);

/// Back again; nullopt for anything that host_key_document did not write, whole. The keys may be
/// anything: whoever is root in a session can write such a file.
std::optional<HostKeys> parse_host_key_document(std::string_view text);

/// Whether `ssh-keygen -y` printed a public key of this type.
bool says_type(std::string_view output, std::string_view type);
/// Whether `ssh-keygen -Y check-novalidate -n warmroot` found a signature good and made by a key of
/// this type.
bool is_good_signature(std::string_view output, std::string_view type);

}  // namespace warmroot::bootstrap
