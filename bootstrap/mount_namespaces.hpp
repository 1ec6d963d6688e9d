// Mount namespaces: which there are, what keeps each of them, and work inside one. Called by the
// release, for what other namespaces have of the volume.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/files.hpp"

namespace warmroot::bootstrap {

struct MountNamespace {
  std::string name;     ///< as proc has it: "mnt:[4026532567]"
  std::string kept_by;  ///< "bash (812)", or a descriptor or a mount that keeps it
  UniqueFd file;
};

/// Shows each once, when it is found. Its file may be taken, and is closed else: there may be more
/// namespaces than this process may have files open. The base's, which is this process's own, comes
/// first; then those that processes live in, that are mounted in the base's, and that processes
/// have open. Not all of them once `over` says true.
void each_mount_namespace(const Cancelled& over, const std::function<void(MountNamespace&)>& show);

/// For reading, and only where a mount namespace is there: opening anything else might do
/// something.
UniqueFd open_mount_namespace(const std::string& path);

/// Calls `work`, which keeps nothing of its caller's, on a thread that ends afterwards. That is in
/// the namespace, with the namespace's top as its root and directory; its argument is the /proc
/// that this process has. nullopt: it has not ended in time, and may never.
std::optional<bool> in_mount_namespace(UniqueFd file, std::function<bool(int proc)> work,
                                       std::chrono::steady_clock::time_point until);
/// For such work: the text of the namespace's mountinfo. A process shows of it what is inside its
/// own root alone.
std::string whole_mount_table(int proc);
/// The same from outside; nullopt when it cannot be had in time.
std::optional<std::string> whole_mount_table(UniqueFd file,
                                             std::chrono::steady_clock::time_point until);

/// "major:minor" of what the volume is mounted in; empty where that is not there.
std::string volume_parent_device();

}  // namespace warmroot::bootstrap
