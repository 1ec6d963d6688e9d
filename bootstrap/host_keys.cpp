#include "bootstrap/host_keys.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "bootstrap/base/log.hpp"
#include "bootstrap/host_key_document.hpp"
#include "bootstrap/login_proof.hpp"
#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {
namespace {

/// RSA of 3072 bits takes some 0.3 s, in an emulated guest up to a minute.
constexpr std::chrono::milliseconds kKeygenLimit{std::chrono::minutes(2)};
/// Looking at a key takes some 5 ms, in an emulated guest up to seconds.
constexpr std::chrono::milliseconds kCheckLimit{20000};
constexpr std::size_t kMaxDocument = 64 * 1024;
constexpr std::size_t kMaxKeyFile = 16 * 1024;
constexpr char kBaseKeys[] = "/etc/ssh";

std::string key_file(const std::string& type) {
  return std::string(kNodeKeys) + "/ssh_host_" + type + "_key";
}

/// Errors: it is not there, took too long, or was killed, which says nothing about any key.
Result<ProgramResult> run_keygen(std::vector<std::string> arguments,
                                 std::chrono::milliseconds limit, const Cancelled& cancelled) {
  constexpr int kKilled = 128, kFatal = 255;  // its own status for most that goes wrong
  const std::string keygen = first_executable({"/usr/bin/ssh-keygen", "/bin/ssh-keygen"});
  if (keygen.empty()) return fail(ErrorKind::misconfigured, "the base has no ssh-keygen");
  arguments.insert(arguments.begin(), keygen);
  TRY_ASSIGN(auto done, run_program(arguments, limit, cancelled));
  if (done.exit_status > kKilled && done.exit_status < kFatal)
    return fail(ErrorKind::retry_later,
                "ssh-keygen was killed by signal " + std::to_string(done.exit_status - kKilled));
  return done;
}

/// A new key, by the base's own ssh-keygen, made in a root-only directory of /run.
Result<HostKey> make_key(const std::string& type, const Cancelled& cancelled) {
  const std::string file = std::string(kNodeKeys) + "/new";
  const auto remove = [&] {
    ::unlink(file.c_str());
    ::unlink((file + ".pub").c_str());
  };
  remove();  // ssh-keygen asks before it overwrites
  const auto made = run_keygen({"-q", "-t", type, "-N", "", "-C", "warmroot", "-f", file},
                               kKeygenLimit, cancelled);
  auto text = read_file(file, kMaxKeyFile);
  remove();
  if (!made) return fail(made.error());
  if (made->exit_status != 0 || !text)
    return fail(ErrorKind::broken, "ssh-keygen -t " + type + " failed: " + made->output);
  return HostKey{type, std::move(*text)};
}

/// Whether the base can read the key, without a passphrase, as one of its type. sshd, shown none
/// that it can read, lets nobody in. Errors: it could not be tried.
Result<bool> is_readable(const HostKey& key) {
  const std::string file = std::string(kNodeKeys) + "/tried";
  TRY(write_file_atomic(file, key.text, 0600));
  const auto read = run_keygen({"-y", "-P", "", "-f", file}, kCheckLimit, {});
  ::unlink(file.c_str());
  if (!read) return fail(read.error());
  return read->exit_status == 0 && says_type(read->output, key.type);
}

/// Whether what the key signs is taken by who knows its public half: the two need not fit, and then
/// every client ends the connection. Errors: it could not be tried.
Result<bool> is_proven(const HostKey& key, const Cancelled& cancelled) {
  const std::string file = std::string(kNodeKeys) + "/tried";
  TRY(write_file_atomic(file, key.text, 0600));
  // Before 8.3 ssh-keygen signs only beside a file with the public half.
  const std::string public_file = file + ".pub";
  const auto half = run_keygen({"-y", "-P", "", "-f", file}, kCheckLimit, cancelled);
  if (half) TRY(write_file_atomic(public_file, half->output, 0600));
  // What is signed is the empty text of /dev/null.
  const auto made = run_keygen({"-q", "-P", "", "-Y", "sign", "-n", "warmroot", "-f", file},
                               kCheckLimit, cancelled);
  ::unlink(file.c_str());
  ::unlink(public_file.c_str());
  if (!made) return fail(made.error());
  const std::size_t signature = made->output.find("-----BEGIN SSH SIGNATURE-----");
  if (made->exit_status != 0 || signature == std::string::npos) return false;
  const std::string signature_file = std::string(kNodeKeys) + "/signature";
  TRY(write_file_atomic(signature_file, made->output.substr(signature), 0600));
  const auto verdict = run_keygen(
      {"-Y", "check-novalidate", "-n", "warmroot", "-s", signature_file}, kCheckLimit, cancelled);
  ::unlink(signature_file.c_str());
  if (!verdict) return fail(verdict.error());
  return verdict->exit_status == 0 && is_good_signature(verdict->output, key.type);
}

/// The volume's file, where it is known to be this volume's: whoever published the AMI knows keys
/// that came with it.
std::optional<HostKeys> kept_keys(const RootDirectory& volume, const std::string& volume_id) {
  auto keys = parse_host_key_document(volume.read(kVolumeHostKeys, kMaxDocument).value_or(""));
  if (!keys || volume_id.empty() || keys->volume_id != volume_id) return std::nullopt;
  return keys;
}

/// Not on a volume that nobody knows by its id: nobody could tell later whose keys they are.
Ok keep_keys(const RootDirectory& volume, const HostKeys& keys) {
  if (keys.volume_id.empty()) return {};
  TRY(volume.make_directories(kVolumeState, 0755));
  TRY(volume.check_same_mount(kVolumeState));
  return volume.write(kVolumeHostKeys, host_key_document(keys), 0600);
}

/// Errors: gone where `point` shows another file system than `device` by now.
Ok keep_keys_at(const std::string& point, dev_t device, const HostKeys& keys) {
  TRY_ASSIGN(const RootDirectory volume, RootDirectory::open(point));
  struct stat status {};
  if (::fstat(volume.fd(), &status) != 0) return fail_errno(point);
  if (status.st_dev != device)
    return fail(ErrorKind::gone, "the root is not mounted at " + point + " any more");
  return keep_keys(volume, keys);
}

Ok write_key_file(const HostKey& key) {
  return write_file_atomic(key_file(key.type), key.text, 0600);
}

void remove_key_files() {
  for (const auto& name : list_directory(kNodeKeys))
    ::unlink((std::string(kNodeKeys) + "/" + name).c_str());
}

}  // namespace

Ok show_base_host_keys() {
  TRY(replace_symlink(kBaseKeys, kHostKeys));
  remove_key_files();
  return {};
}

Result<std::string> show_node_host_keys(const RootDirectory& volume, const std::string& volume_id,
                                        const std::string& read_before) {
  TRY(make_directory(kNodeKeys, 0700));
  const std::string first = kHostKeyTypes[0];
  HostKeys keys = kept_keys(volume, volume_id).value_or(HostKeys{volume_id, {}});
  std::string done = "made for this node";
  bool kept = false;
  if (const HostKey* key = keys.find(first); key && key_checksum(key->text) == read_before) {
    kept = true;
    done = "the node's, which ssh-keygen has read in the lease before";
  } else if (key) {
    TRY_ASSIGN(kept, is_readable(*key));
    done = kept ? "the node's, from its volume" : "made anew, sshd could not read the volume's";
  }
  if (!kept) {
    TRY_ASSIGN(HostKey key, make_key(first, {}));
    keys.put(std::move(key));
    TRY(keep_keys(volume, keys));
  }
  TRY(write_key_file(*keys.find(first)));
  TRY(replace_symlink(kNodeKeys, kHostKeys));
  return done;
}

bool node_keys_are_shown() {
  return ::access(key_file(kHostKeyTypes[0]).c_str(), F_OK) == 0;
}

std::string shown_key_checksum() {
  const auto shown = read_file(key_file(kHostKeyTypes[0]), kMaxKeyFile);
  return shown ? key_checksum(*shown) : std::string();
}

Ok complete_host_keys(const std::string& point, const std::string& volume_id,
                      const Cancelled& cancelled) {
  struct stat root {};
  const auto present = [&]() -> Result<HostKeys> {
    TRY_ASSIGN(const RootDirectory volume, RootDirectory::open(point));
    if (::fstat(volume.fd(), &root) != 0) return fail_errno(point);
    auto keys = kept_keys(volume, volume_id);
    if (!keys) return fail(ErrorKind::gone, "the volume has no host keys");
    return std::move(*keys);
  };
  HostKeys keys;
  if (!volume_id.empty()) {
    TRY_ASSIGN(keys, present());
  }
  for (const char* type : kHostKeyTypes) {
    // Made for this lease, shown already and kept nowhere.
    if (volume_id.empty() && type == std::string_view(kHostKeyTypes[0])) continue;
    if (const HostKey* key = keys.find(type)) {
      const auto proven = is_proven(*key, cancelled);
      // Shown already, and perhaps one that every client refuses.
      const bool shown = type == std::string_view(kHostKeyTypes[0]);
      if (!proven && shown && !(cancelled && cancelled())) TRY(show_base_host_keys());
      if (!proven) return fail(proven.error());
      if (*proven) {
        TRY(write_key_file(*key));
        continue;
      }
      log_event(LogLevel::warning, "host key of the volume is of no use", {{"type", type}});
    }
    TRY_ASSIGN(HostKey key, make_key(type, cancelled));
    keys.put(key);
    if (!volume_id.empty()) TRY(keep_keys_at(point, root.st_dev, keys));
    TRY(write_key_file(key));
  }
  return {};
}

}  // namespace warmroot::bootstrap
