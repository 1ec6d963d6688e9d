#include "bootstrap/sshd_listeners.hpp"

#include <unistd.h>

#include <set>
#include <sstream>
#include <string>

#include "bootstrap/files.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/sshd.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kMaxProcNet = 4 * 1024 * 1024;
constexpr char kListening[] = "0A";  // include/net/tcp_states.h, as /proc/net/tcp writes it

/// "socket:[INODE]" of all sockets that listen in this network namespace.
std::set<std::string> listening_sockets() {
  std::set<std::string> sockets;
  for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::istringstream lines(read_file(file, kMaxProcNet).value_or(""));
    std::string line;
    while (std::getline(lines, line)) {
      std::istringstream fields(line);
      std::string number, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
      if (fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >>
              timeout >> inode &&
          state == kListening)
        sockets.insert("socket:[" + inode + "]");
    }
  }
  return sockets;
}

/// "PID socket:[INODE]" of each socket that an sshd listens on. A restarted one is another process,
/// a reloaded one has opened its sockets anew.
std::set<std::string> sshd_listeners() {
  const std::set<std::string> listening = listening_sockets();
  std::set<std::string> listeners;
  for (const auto& process : list_directory("/proc")) {
    if (process.empty() || process.front() < '1' || process.front() > '9') continue;
    const std::string place = "/proc/" + process;
    if (read_attribute(place + "/comm") != "sshd") continue;
    for (const auto& descriptor : list_directory(place + "/fd")) {
      char target[64];
      const ssize_t length =
          ::readlink((place + "/fd/" + descriptor).c_str(), target, sizeof target);
      if (length <= 0) continue;
      const std::string socket(target, static_cast<std::size_t>(length));
      if (listening.contains(socket)) listeners.insert(process + " " + socket);
    }
  }
  return listeners;
}

}  // namespace

Result<bool> sshd_is_late() {
  if (::access(kSshdConfig, F_OK) != 0) {
    const bool late = sshd_is_running();
    std::string text;
    if (late)
      for (const auto& listener : sshd_listeners()) text += listener + "\n";
    TRY(write_file_atomic(kLateSshd, text, 0644));
    return late;
  }
  const std::set<std::string> now = sshd_listeners();
  std::istringstream before(read_file(kLateSshd, kMaxProcNet).value_or(""));
  for (std::string listener; std::getline(before, listener);)
    if (now.contains(listener)) return true;
  return false;
}

}  // namespace warmroot::bootstrap
