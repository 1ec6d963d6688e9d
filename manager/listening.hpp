// Where a server of cpp-httplib binds. A template, so that who includes it chooses whether to know
// that library.
#pragma once

#include <sys/socket.h>

#include <memory>
#include <string>

namespace warmroot::manager {

/// A storm: every node of a large pool connects within a second.
inline constexpr int kListenQueue = 4096;

/// Binds an httplib::Server to `host` and `port` (0: any free one) and returns the port, or -1.
/// cpp-httplib's library listens with room for five connections: of fifty made at once most would
/// wait for retransmissions, some beyond their time limit. Its default SO_REUSEPORT would let two
/// programs share one port unnoticed.
template <typename Server>
int bind_and_listen(Server& server, const std::string& host, int port) {
  const auto bound = std::make_shared<int>(-1);
  server.set_socket_options([bound](int socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    *bound = socket;
  });
  if (port == 0)
    port = server.bind_to_any_port(host.c_str());
  else if (!server.bind_to_port(host.c_str(), port))
    port = -1;
  if (port < 0 || ::listen(*bound, kListenQueue) != 0) return -1;
  return port;
}

}  // namespace warmroot::manager
