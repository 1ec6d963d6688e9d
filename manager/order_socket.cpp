#include "manager/order_socket.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>

namespace warmroot::manager {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr const char* kName = "socket";
/// A request is an id; more is not for us. It also bounds the depth of its JSON.
constexpr std::size_t kMaxRequest = 256;
/// An answer is an id and a sentence that may name what EC2 said.
constexpr std::size_t kMaxAnswer = 64 * 1'024;
constexpr std::size_t kReadSize = 4'096;
/// How often silent connections are looked for.
constexpr int kSweepMs = 500;
/// A `serve` that does not even read for so long hangs.
constexpr timeval kSendPatience{5, 0};

/// Through the open folder, because sun_path ends at 108 bytes and state folders need not.
sockaddr_un address_in(int folder) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("/proc/self/fd/{}/{}", folder, kName);
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

UniqueFd open_folder(const std::string& folder) {
  return UniqueFd(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

tl::unexpected<Error> no_socket(const std::string& folder, int error_number) {
  const Error error = errno_error(folder + "/" + kName, error_number);
  return fail(ErrorKind::misconfigured,
              fmt::format("cannot listen on the socket {}; name another folder with --state DIR",
                          error.message()));
}

bool is_same_user_or_root(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

/// The first whole line, taken off.
std::optional<std::string> take_line(std::string& text) {
  const auto end = text.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = text.substr(0, end);
  text.erase(0, end + 1);
  return line;
}

std::string line_of(const OrderAnswer& answer) {
  const Json json = {{"order", answer.order}, {"met", answer.met}, {"answer", answer.text}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<OrderAnswer> answer_in(const std::string& line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto order = json.find("order");
  const auto met = json.find("met");
  const auto text = json.find("answer");
  if (order == json.end() || !order->is_number_integer() || met == json.end() ||
      !met->is_boolean() || text == json.end() || !text->is_string())
    return std::nullopt;
  return OrderAnswer{order->get<std::int64_t>(), met->get<bool>(), text->get<std::string>()};
}

}  // namespace

// ---- the listening end ----

struct OrderSocket::Connection {
  UniqueFd fd;
  std::string unread;
  std::string unsent;
  std::set<std::int64_t> awaits;
  Clock::time_point heard = Clock::now();  ///< or spoken to

  /// False: the peer is gone.
  bool flush() {
    while (!unsent.empty()) {
      const ssize_t sent =
          ::send(fd.get(), unsent.data(), unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
      unsent.erase(0, static_cast<std::size_t>(sent));
      heard = Clock::now();
    }
    return true;
  }
};

Result<std::unique_ptr<OrderSocket>> OrderSocket::listen(const std::string& state_folder,
                                                         std::function<void()> wake,
                                                         OrderSocketLimits limits) {
  UniqueFd folder = open_folder(state_folder);
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  UniqueFd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!folder || !listener || !bell) return no_socket(state_folder, errno);
  const sockaddr_un address = address_in(folder.get());
  ::unlinkat(folder.get(), kName, 0);  // of a process that died; ours is the lock
  // Before bind, which gives the file the socket's mode: at no moment may others connect.
  if (::fchmod(listener.get(), 0600) != 0 ||
      ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0)
    return no_socket(state_folder, errno);
  return std::unique_ptr<OrderSocket>(new OrderSocket(std::move(folder), std::move(listener),
                                                      std::move(bell), std::move(wake), limits));
}

OrderSocket::OrderSocket(UniqueFd folder, UniqueFd listener, UniqueFd bell,
                         std::function<void()> wake, OrderSocketLimits limits)
    : folder_(std::move(folder)),
      listener_(std::move(listener)),
      bell_(std::move(bell)),
      wake_(std::move(wake)),
      limits_(limits),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

OrderSocket::~OrderSocket() {
  thread_.request_stop();
  ring();
  thread_.join();
  ::unlinkat(folder_.get(), kName, 0);
}

std::set<std::int64_t> OrderSocket::awaited() {
  const std::lock_guard lock(mutex_);
  std::set<std::int64_t> all;
  for (const auto& [fd, connection] : connections_)
    all.insert(connection->awaits.begin(), connection->awaits.end());
  return all;
}

void OrderSocket::answer(const OrderAnswer& answer) {
  const std::lock_guard lock(mutex_);
  for (const auto& [fd, connection] : connections_) {
    if (connection->awaits.erase(answer.order) == 0) continue;
    connection->unsent += line_of(answer);
    connection->heard = Clock::now();
  }
  ring();
}

void OrderSocket::ring() const {
  const std::uint64_t one = 1;
  std::ignore = ::write(bell_.get(), &one, sizeof one);
}

void OrderSocket::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<pollfd> polled = {{bell_.get(), POLLIN, 0}};
    {
      const std::lock_guard lock(mutex_);
      const bool room = connections_.size() < limits_.connections;
      polled.push_back({room ? listener_.get() : -1, POLLIN, 0});
      for (const auto& [fd, connection] : connections_)
        polled.push_back(
            {fd, static_cast<short>(POLLIN | (connection->unsent.empty() ? 0 : POLLOUT)), 0});
    }
    if (::poll(polled.data(), polled.size(), polled.size() > 2 ? kSweepMs : -1) < 0) continue;
    std::uint64_t rings = 0;
    if (polled[0].revents != 0) std::ignore = ::read(bell_.get(), &rings, sizeof rings);
    bool asked = false;
    bool accepted = true;
    {
      const std::lock_guard lock(mutex_);
      if (polled[1].revents != 0) accepted = accept_one();
      for (std::size_t i = 2; i < polled.size(); ++i)
        if (polled[i].revents != 0) asked |= serve_one(polled[i].fd, polled[i].revents);
      end_silent();
    }
    if (asked) wake_();
    if (!accepted) std::this_thread::sleep_for(Milliseconds(kSweepMs));  // it stays readable
  }
}

/// False: none can be had for now, as when this process has no descriptor left.
bool OrderSocket::accept_one() {
  UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
  if (!is_same_user_or_root(fd.get())) return true;
  auto connection = std::make_unique<Connection>();
  const int number = fd.get();
  connection->fd = std::move(fd);
  connections_.emplace(number, std::move(connection));
  return true;
}

/// True when it asked for something. Ends the connection when it is gone or talks nonsense.
bool OrderSocket::serve_one(int fd, short happened) {
  const auto found = connections_.find(fd);
  if (found == connections_.end()) return false;
  Connection& connection = *found->second;
  std::size_t await_now = 0;
  for (const auto& [other, each] : connections_) await_now += each->awaits.size();
  bool stays = connection.flush();
  const auto heard_before = connection.heard;
  if (stays && (happened & (POLLIN | POLLHUP | POLLERR)) != 0)
    stays = receive(connection, await_now - connection.awaits.size());
  const bool asked = connection.heard != heard_before;
  if (!stays) connections_.erase(found);
  return asked;
}

/// False: nobody is there, or nobody who should be.
bool OrderSocket::receive(Connection& connection, std::size_t others_await) {
  std::array<char, kReadSize> bytes{};
  const ssize_t size = ::recv(connection.fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (size == 0) return false;
  if (size < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  connection.unread.append(bytes.data(), static_cast<std::size_t>(size));
  while (const auto line = take_line(connection.unread)) {
    if (line->size() > kMaxRequest) return false;
    const Json json = Json::parse(*line, nullptr, false);
    if (!json.is_object()) return false;
    if (const auto order = json.find("order"); order != json.end()) {
      if (!order->is_number_integer()) return false;
      if (others_await + connection.awaits.size() >= limits_.awaited) return false;
      connection.awaits.insert(order->get<std::int64_t>());
    }
    connection.heard = Clock::now();
  }
  return connection.unread.size() <= kMaxRequest;
}

void OrderSocket::end_silent() {
  const auto before = Clock::now() - limits_.silence;
  std::erase_if(connections_, [&](const auto& each) {
    const Connection& connection = *each.second;
    const bool waits = !connection.awaits.empty() && connection.unsent.empty();
    return !waits && connection.heard < before;
  });
}

// ---- a command's end ----

Result<OrderConnection> OrderConnection::open(const std::string& state_folder) {
  const UniqueFd folder = open_folder(state_folder);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!folder || !fd) return fail(errno_error(state_folder, errno));
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendPatience, sizeof kSendPatience);
  const sockaddr_un address = address_in(folder.get());
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail(ErrorKind::gone, fmt::format("nobody listens on {}/{}: {}", state_folder, kName,
                                             errno_error("connect", errno).message()));
  return OrderConnection(std::move(fd));
}

Ok OrderConnection::await(const std::vector<std::int64_t>& orders) {
  std::string text = orders.empty() ? "{}\n" : "";
  for (const std::int64_t order : orders) text += fmt::format("{{\"order\": {}}}\n", order);
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t sent =
        ::send(socket_.get(), text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return fail(ErrorKind::gone, "the running manager does not listen any more");
    done += static_cast<std::size_t>(sent);
  }
  return {};
}

Result<std::optional<OrderAnswer>> OrderConnection::next(Milliseconds at_most) {
  const auto until = Clock::now() + at_most;
  while (true) {
    if (const auto line = take_line(unread_)) {
      if (auto answer = answer_in(*line)) return answer;
      return fail(ErrorKind::gone, "the running manager's answer is not understood");
    }
    if (unread_.size() > kMaxAnswer)
      return fail(ErrorKind::gone, "the running manager's answer has no end");
    const auto left = std::chrono::ceil<Milliseconds>(until - Clock::now());
    if (left <= Milliseconds(0)) return std::optional<OrderAnswer>();
    pollfd polled{socket_.get(), POLLIN, 0};
    if (::poll(&polled, 1, static_cast<int>(left.count())) <= 0) continue;
    std::array<char, kReadSize> bytes{};
    const ssize_t size = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return fail(ErrorKind::gone, "the running manager has ended");
    unread_.append(bytes.data(), static_cast<std::size_t>(size));
  }
}

void wake_serve(const std::string& state_folder) {
  if (auto connection = OrderConnection::open(state_folder)) std::ignore = connection->await({});
}

}  // namespace warmroot::manager
