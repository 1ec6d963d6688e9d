#include "bootstrap/host_keys.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "bootstrap/host_key_document.hpp"
#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {
namespace {

/// RSA of 3072 bits takes some 0.3 s, in an emulated guest up to a minute.
constexpr std::chrono::milliseconds kKeygenLimit{std::chrono::minutes(2)};
constexpr std::size_t kMaxDocument = 64 * 1024;
constexpr std::size_t kMaxKeyFile = 16 * 1024;
constexpr char kBaseKeys[] = "/etc/ssh";

std::string key_file(const std::string& type) {
  return std::string(kNodeKeys) + "/ssh_host_" + type + "_key";
}

/// A new key, by the base's own ssh-keygen, made in a root-only directory of /run.
Result<HostKey> make_key(const std::string& type, const Cancelled& cancelled) {
  const std::string keygen = first_executable({"/usr/bin/ssh-keygen", "/bin/ssh-keygen"});
  if (keygen.empty()) return fail(ErrorKind::misconfigured, "the base has no ssh-keygen");
  const std::string file = std::string(kNodeKeys) + "/new";
  const auto remove = [&] {
    ::unlink(file.c_str());
    ::unlink((file + ".pub").c_str());
  };
  remove();  // ssh-keygen asks before it overwrites
  const auto made = run_program({keygen, "-q", "-t", type, "-N", "", "-C", "warmroot", "-f", file},
                                kKeygenLimit, cancelled);
  auto text = read_file(file, kMaxKeyFile);
  remove();
  if (!made) return fail(made.error());
  if (made->exit_status != 0 || !text)
    return fail(ErrorKind::broken, "ssh-keygen -t " + type + " failed: " + made->output);
  return HostKey{type, std::move(*text)};
}

/// The volume's file, unless it is known to be another volume's.
std::optional<HostKeys> kept_keys(const RootDirectory& volume, const std::string& volume_id) {
  auto keys = parse_host_key_document(volume.read(kVolumeHostKeys, kMaxDocument).value_or(""));
  if (!keys || keys->volume_id.empty() || volume_id.empty() || keys->volume_id == volume_id)
    return keys;
  return std::nullopt;
}

Ok keep_keys(const RootDirectory& volume, const HostKeys& keys) {
  TRY(volume.make_directories(kVolumeState, 0755));
  return volume.write(kVolumeHostKeys, host_key_document(keys), 0600);
}

Ok write_key_files(const HostKeys& keys) {
  for (const HostKey& key : keys.keys) TRY(write_file_atomic(key_file(key.type), key.text, 0600));
  return {};
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

Result<std::string> show_node_host_keys(const RootDirectory& volume, const std::string& volume_id) {
  TRY(make_directory(kNodeKeys, 0700));
  auto keys = kept_keys(volume, volume_id);
  const bool kept = keys.has_value();
  if (!kept) {
    TRY_ASSIGN(HostKey key, make_key(kHostKeyTypes[0], {}));
    keys = HostKeys{volume_id, {std::move(key)}};
    TRY(keep_keys(volume, *keys));
  }
  TRY(write_key_files(*keys));
  TRY(replace_symlink(kNodeKeys, kHostKeys));
  return std::string(kept ? "the node's, from its volume" : "made for this node");
}

Ok complete_host_keys(const std::string& point, const Cancelled& cancelled) {
  const auto present = [&]() -> Result<HostKeys> {
    TRY_ASSIGN(const RootDirectory volume, RootDirectory::open(point));
    auto keys = kept_keys(volume, "");
    if (!keys) return fail(ErrorKind::gone, "the volume has no host keys");
    return std::move(*keys);
  };
  TRY_ASSIGN(HostKeys keys, present());
  for (const char* type : kHostKeyTypes) {
    if (keys.has(type)) continue;
    TRY_ASSIGN(HostKey key, make_key(type, cancelled));
    keys.keys.push_back(std::move(key));
    TRY_ASSIGN(const RootDirectory volume, RootDirectory::open(point));
    TRY(keep_keys(volume, keys));
    TRY(write_key_files(keys));
  }
  return {};
}

}  // namespace warmroot::bootstrap
