#include "bootstrap/sshd_listeners.hpp"

#include <sys/stat.h>

#include <set>
#include <sstream>
#include <string>

#include "bootstrap/files.hpp"
#include "bootstrap/paths.hpp"

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

/// Their numbers.
std::set<std::string> base_sshds() {
  const std::string network = link_text("/proc/self/ns/net");
  std::set<std::string> found;
  for (const auto& process : list_directory("/proc")) {
    if (process.empty() || process.front() < '1' || process.front() > '9') continue;
    const std::string place = "/proc/" + process;
    struct stat owner {};
    if (read_attribute(place + "/comm") == "sshd" && ::stat(place.c_str(), &owner) == 0 &&
        owner.st_uid == 0 && link_text(place + "/ns/net") == network)
      found.insert(process);
  }
  return found;
}

/// Of the base's sshds: "PID socket:[INODE]" of each socket that it listens on, and
/// "PID" alone. A restarted one is another process, a reloaded one has opened its sockets anew.
struct Sshds {
  std::set<std::string> listeners, processes;
};

Sshds running_sshds() {
  const std::set<std::string> listening = listening_sockets();
  Sshds found{{}, base_sshds()};
  for (const auto& process : found.processes) {
    const std::string place = "/proc/" + process;
    for (const auto& descriptor : list_directory(place + "/fd")) {
      const std::string socket = link_text(place + "/fd/" + descriptor);
      if (listening.contains(socket)) found.listeners.insert(process + " " + socket);
    }
  }
  return found;
}

}  // namespace

bool sshd_is_running() {
  return !base_sshds().empty();
}

Result<bool> sshd_is_late() {
  const Sshds now = running_sshds();
  const bool was_written = ::access(kSshdConfig, F_OK) == 0 && ::access(kSshdDropIn, F_OK) == 0;
  if (!was_written) {
    std::string text;
    for (const auto& each : now.listeners.empty() ? now.processes : now.listeners)
      text += each + "\n";
    TRY(write_file_atomic(kLateSshd, text, 0644));
    return !now.processes.empty();
  }
  std::istringstream before(read_file(kLateSshd, kMaxProcNet).value_or(""));
  for (std::string each; std::getline(before, each);)
    if (now.listeners.contains(each) || now.processes.contains(each)) return true;
  return false;
}

}  // namespace warmroot::bootstrap
