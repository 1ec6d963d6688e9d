#include "bootstrap/loopback_port.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <sstream>

#include "bootstrap/base/control_bytes.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::milliseconds;

constexpr int kPauseMs = 10;
/// How late a wish to stop is noticed.
constexpr std::int64_t kLookMs = 100;
constexpr std::size_t kMostGreeting = 255;  ///< RFC 4253, 4.2
constexpr std::size_t kMaxProcNet = 16 * 1024 * 1024;
/// include/net/tcp_states.h; so does /proc/net/tcp write it.
constexpr char kSynReceived[] = "03";

union Address {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

Address loopback(IpFamily family, std::uint16_t port) {
  Address address{};
  if (family == IpFamily::v4) {
    address.v4.sin_family = AF_INET;
    address.v4.sin_port = htons(port);
    address.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else {
    address.v6.sin6_family = AF_INET6;
    address.v6.sin6_port = htons(port);
    address.v6.sin6_addr = in6addr_loopback;
  }
  return address;
}

socklen_t size_of(const Address& address) {
  return address.any.sa_family == AF_INET ? sizeof address.v4 : sizeof address.v6;
}

std::uint16_t port_of(const Address& address) {
  return ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
}

Result<UniqueFd> bound(IpFamily family, std::uint16_t port) {
  const Address address = loopback(family, port);
  UniqueFd fd(::socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      (family == IpFamily::v6 &&
       ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes) != 0) ||
      ::bind(fd.get(), &address.any, size_of(address)) != 0)
    return fail_errno("holding a port of loopback");
  return fd;
}

/// At another address of loopback the port may be anybody's; the volume's sshd_config may add all.
bool is_ours(const Address& address) {
  if (address.any.sa_family == AF_INET)
    return address.v4.sin_addr.s_addr == htonl(INADDR_LOOPBACK) ||
           address.v4.sin_addr.s_addr == htonl(INADDR_ANY);
  return IN6_IS_ADDR_LOOPBACK(&address.v6.sin6_addr) ||
         IN6_IS_ADDR_UNSPECIFIED(&address.v6.sin6_addr);
}

bool listens_at(int fd, IpFamily family, std::uint16_t port) {
  int listens = 0;
  socklen_t size = sizeof listens;
  if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0)
    return false;
  Address address{};
  size = sizeof address;
  return ::getsockname(fd, &address.any, &size) == 0 &&
         address.any.sa_family == (family == IpFamily::v4 ? AF_INET : AF_INET6) &&
         port_of(address) == port && is_ours(address);
}

bool is_socket(const std::string& descriptor) {
  return link_text(descriptor).starts_with("socket:[");
}

/// Connections that the kernel has accepted and the program has not.
unsigned waiting(const UniqueFd& listener) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(listener.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return info.tcpi_unacked;  // of a listening socket: the length of its queue
}

/// Whether a client's handshake at one of the ports has begun and not ended.
bool handshake_at(const std::vector<std::uint16_t>& ports) {
  for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::istringstream lines(read_file(file, kMaxProcNet).value_or(""));
    std::string line, number, local, remote, state;
    while (std::getline(lines, line)) {
      std::istringstream fields(line);
      if (!(fields >> number >> local >> remote >> state) || state != kSynReceived) continue;
      std::uint16_t port = 0;
      const std::size_t at = local.rfind(':') + 1;
      std::from_chars(local.data() + at, local.data() + local.size(), port, 16);
      if (std::find(ports.begin(), ports.end(), port) != ports.end()) return true;
    }
  }
  return false;
}

}  // namespace

Result<HeldPort> hold_port() {
  constexpr int kAttempts = 20;  // the number may be somebody's of the other family
  Error last;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    HeldPort held;
    TRY_ASSIGN(held.v4, bound(IpFamily::v4, 0));
    Address address{};
    socklen_t size = sizeof address;
    if (::getsockname(held.v4.get(), &address.any, &size) != 0) return fail_errno("getsockname");
    held.number = port_of(address);
    auto v6 = bound(IpFamily::v6, held.number);
    if (!v6 && v6.error().code == "EADDRINUSE") {
      last = v6.error();
      continue;
    }
    if (v6) held.v6 = std::move(*v6);
    return held;
  }
  return fail(std::move(last));
}

UniqueFd listener_of(pid_t process, IpFamily family, std::uint16_t port) {
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (!handle) return UniqueFd();
  const std::string descriptors = "/proc/" + std::to_string(process) + "/fd";
  for (const auto& name : list_directory(descriptors)) {
    // Closing a copy of another kind could wait for whoever serves its file system.
    if (!is_socket(descriptors + "/" + name)) continue;
    UniqueFd copy(
        static_cast<int>(::syscall(SYS_pidfd_getfd, handle.get(), std::atoi(name.c_str()), 0)));
    if (copy && listens_at(copy.get(), family, port)) return copy;
  }
  return UniqueFd();
}

Result<std::string> read_greeting(std::uint16_t port, milliseconds limit,
                                  const Cancelled& cancelled) {
  const Address address = loopback(IpFamily::v4, port);
  // Where its queue is full, connect(2) would wait for minutes.
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!client ||
      (::connect(client.get(), &address.any, size_of(address)) != 0 && errno != EINPROGRESS))
    return fail_errno("connecting to sshd on loopback");
  std::string text;
  const std::int64_t deadline = boottime_ms() + limit.count();
  while (text.find('\n') == std::string::npos && text.size() < kMostGreeting) {
    const std::int64_t left = deadline - boottime_ms();
    if (cancelled && cancelled())
      return fail(ErrorKind::retry_later, "asking for a greeting was stopped");
    if (left <= 0)
      return fail(ErrorKind::retry_later,
                  "sshd said nothing for " + std::to_string(limit.count() / 1000) + " s");
    pollfd item{client.get(), POLLIN, 0};
    if (::poll(&item, 1, static_cast<int>(std::min(left, kLookMs))) <= 0) continue;
    std::array<char, 256> buffer;
    const ssize_t got = ::read(client.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EAGAIN) continue;
    if (got <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  text = without_controls(text.substr(0, text.find_first_of("\r\n")));
  if (text.rfind("SSH-", 0) != 0)
    return fail(ErrorKind::refused, "sshd greets nobody: \"" + text + "\"");
  return text;
}

void let_handshakes_end(const std::vector<UniqueFd>& listeners,
                        const std::vector<std::uint16_t>& ports, milliseconds limit) {
  const std::int64_t deadline = boottime_ms() + limit.count();
  const auto quiet = [&] {
    return !handshake_at(ports) && std::all_of(listeners.begin(), listeners.end(),
                                               [](const auto& fd) { return waiting(fd) == 0; });
  };
  while (!quiet() && boottime_ms() < deadline) ::poll(nullptr, 0, kPauseMs);
}

}  // namespace warmroot::bootstrap
