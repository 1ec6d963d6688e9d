// See the header.
#include "tests/sim/server_relay.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "bootstrap/base/unique_fd.hpp"

namespace warmroot::sim {

namespace {

/// How long an answer may take once the guest has ended its side.
constexpr int kLastWait = 10'000;

/// Copies what is there; false at the end of the input or when the output is gone.
bool copy_some(int from, int to) {
  char bytes[65536];
  const ssize_t got = ::read(from, bytes, sizeof bytes);
  if (got < 0 && errno == EINTR) return true;
  if (got <= 0) return false;
  for (ssize_t done = 0; done < got;) {
    const ssize_t put = ::write(to, bytes + done, static_cast<std::size_t>(got - done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    done += put;
  }
  return true;
}

}  // namespace

Ok relay(std::uint16_t port, const std::string& from) {
  std::signal(SIGPIPE, SIG_IGN);
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return fail_errno("relay");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (!from.empty() &&
      (::inet_pton(AF_INET, from.c_str(), &address.sin_addr) != 1 ||
       ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0))
    return fail(ErrorKind::misconfigured, from + " is no address of this machine");
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return fail(ErrorKind::retry_later, "nothing listens on 127.0.0.1:" + std::to_string(port));
  pollfd watched[2] = {{socket.get(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
  for (;;) {
    const int ready = ::poll(watched, 2, watched[1].fd < 0 ? kLastWait : -1);
    if (ready < 0 && errno != EINTR) return fail_errno("relay");
    if (ready == 0) return {};
    if (watched[0].revents != 0 && !copy_some(socket.get(), STDOUT_FILENO)) return {};
    if (watched[1].revents != 0 && !copy_some(STDIN_FILENO, socket.get())) {
      // The guest has sent all it wants, but the answer may still be on its way. The end is not
      // passed on: httplib would take it for a peer that has gone. It closes an idle connection by
      // itself.
      watched[1].fd = -1;
    }
  }
}

}  // namespace warmroot::sim
